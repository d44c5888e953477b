//! Brings the processes together: one loop on one thread decides everything.
//!
//! ```text
//! process p dials every lower one, 0 first (it hands out the incarnation), and accepts higher ones
//! p ──WaitsFor {…}──▶ 0      whenever its set of processes without a connection changes
//! 0 ──Go──▶ everyone         once everybody waits for nobody
//! ```
//! Invariants:
//! 1. Nobody starts before everybody has a connection to everybody, all of one incarnation.
//! 2. Nothing that has not proved the secret changes any state here. Handshakes run on threads of
//!    their own, at most [`PENDING_MAX`], each for at most [`HANDSHAKE_MS_MAX`]; when a new
//!    connection finds no room, the oldest unproved one is closed.
//! 3. A proved peer that does not fit is fatal for everyone, with the reason sent along.
//! 4. A peer that goes away before `Go` may come back as a new process; when process 0 does, its
//!    new incarnation replaces the old one everywhere.
//!
//! Known limits: a flood of more than `PENDING_MAX` connections within one handshake can close an
//! honest one, which dials again; a process that connects after the others gave up is told nothing
//! and waits for its own deadline.

use std::collections::BTreeMap;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use super::error::{ClusterError, Named, printable};
use super::handshake::{self, Asked, Unreached};
use super::judge::{Identity, Judged};
use super::link::{Frame, Link};
use super::notes::Notes;
use super::wire::{Hello, Verdict};

/// Connections that have not proved themselves yet, at most.
const PENDING_MAX: usize = 64;
/// Pause of the loop when nothing happens.
const POLL_MS: u64 = 5;
/// Pause between two attempts to dial the same process.
const REDIAL_MS: u64 = 100;
/// Time between two reports of who is missing.
const REPORT_MS: u64 = 5_000;
/// Longest wait for the others to take the reason why the cluster does not come up.
const FAREWELL_MS_MAX: u64 = 300;
/// Stack of a handshake's thread, bytes.
const STACK_BYTES: usize = 256 * 1024;

/// What the handshakes' threads tell the loop.
enum Event {
    /// An accepted connection has proved itself.
    Asked {
        id: u64,
        address: SocketAddr,
        asked: Box<Asked>,
    },
    /// An accepted connection has not.
    Stranger {
        id: u64,
        address: SocketAddr,
        why: String,
    },
    /// A dialled process has answered and proved itself.
    Answered {
        peer: usize,
        stream: TcpStream,
        hello: Box<Hello>,
    },
    /// A dialled process has not.
    NotReached { peer: usize, why: Unreached },
}

/// The state of one attempt to dial a lower process.
#[derive(Default)]
struct Dial {
    running: bool,
    not_before: Option<Instant>,
    /// What the last attempt came to.
    last: Option<String>,
    /// Why the process there did not take us, when one said so or failed to prove itself. Later
    /// attempts that find nobody do not make it less true, and it has ended for this reason.
    turned_away: Option<String>,
}

impl Dial {
    fn failed(&mut self, why: Unreached) {
        self.running = false;
        match why {
            Unreached::Away(why) => self.last = Some(why),
            Unreached::Proof(why) => {
                self.turned_away = Some(why);
                self.last = None;
            }
        }
    }

    /// It answered as one of us: what was wrong is over.
    fn answered(&mut self, last: Option<&str>) {
        self.turned_away = None;
        self.last = last.map(str::to_owned);
    }

    fn why(&self) -> Option<String> {
        match (&self.turned_away, &self.last) {
            (Some(first), Some(last)) => Some(format!("{first}; now: {last}")),
            (Some(only), None) | (None, Some(only)) => Some(only.clone()),
            (None, None) => None,
        }
    }
}

/// A cluster on its way up, seen from one process.
pub(super) struct Gather<'a> {
    me: Arc<Identity>,
    listener: &'a TcpListener,
    report: &'a mut dyn FnMut(&str),
    started: Instant,
    deadline: Duration,
    reported: Instant,
    incarnation: Option<[u8; 16]>,
    links: Vec<Option<Link>>,
    dials: Vec<Dial>,
    pending: BTreeMap<u64, TcpStream>,
    accepted: u64,
    events: Receiver<Event>,
    sender: Sender<Event>,
    /// What process 0 was last told that we wait for, on the present connection to it.
    told: Option<Vec<u32>>,
    notes: Notes,
}

/// Sockets by process, none at our own index, and the incarnation.
pub(super) type Gathered = (Vec<Option<TcpStream>>, [u8; 16]);

impl<'a> Gather<'a> {
    pub(super) fn new(
        me: Identity,
        listener: &'a TcpListener,
        deadline: Duration,
        report: &'a mut dyn FnMut(&str),
    ) -> Self {
        let (sender, events) = channel();
        let (n, now) = (me.processes(), Instant::now());
        Self {
            incarnation: (me.process == 0).then_some(me.instance),
            dials: (0..me.process).map(|_| Dial::default()).collect(),
            links: (0..n).map(|_| None).collect(),
            me: Arc::new(me),
            listener,
            report,
            started: now,
            deadline,
            reported: now,
            pending: BTreeMap::new(),
            accepted: 0,
            events,
            sender,
            told: None,
            notes: Notes::default(),
        }
    }

    /// Runs until everyone may start, or nobody can.
    pub(super) fn run(mut self) -> Result<Gathered, ClusterError> {
        let ended = self.gather();
        for stream in std::mem::take(&mut self.pending).into_values() {
            drop(stream.shutdown(Shutdown::Both));
        }
        if let Err(error) = ended {
            self.tell(&error);
            return Err(error);
        }
        let incarnation = self
            .incarnation
            .expect("nobody starts without an incarnation");
        let mut sockets = Vec::with_capacity(self.links.len());
        for link in self.links {
            let stream = link.map(Link::into_stream).transpose();
            let doing = "preparing a socket for the workers";
            sockets.push(stream.map_err(|source| ClusterError::Io { doing, source })?);
        }
        Ok((sockets, incarnation))
    }

    fn gather(&mut self) -> Result<(), ClusterError> {
        loop {
            self.accept();
            self.dial();
            let mut next = self.events.recv_timeout(Duration::from_millis(POLL_MS));
            while let Ok(event) = next {
                self.handle(event)?;
                next = self
                    .events
                    .try_recv()
                    .map_err(|_| RecvTimeoutError::Timeout);
            }
            if self.watch()? {
                return Ok(());
            }
            let (waited, now) = (self.started.elapsed(), Instant::now());
            if waited >= self.deadline {
                return Err(self.too_late(waited));
            }
            if now.duration_since(self.reported) >= Duration::from_millis(REPORT_MS) {
                self.reported = now;
                let line = format!("waiting for {}", self.missing());
                (self.report)(&line);
            }
        }
    }

    /// Takes new connections and gives each a thread for its handshake.
    fn accept(&mut self) {
        for _ in 0..PENDING_MAX {
            // An error is either "none there" or of a connection that is gone already; running out
            // of descriptors ends with the handshakes that hold them.
            let Ok((stream, address)) = self.listener.accept() else {
                return;
            };
            let clone = stream.try_clone();
            let (Ok(clone), Ok(())) = (clone, stream.set_nonblocking(false)) else {
                continue;
            };
            drop(stream.set_nodelay(true));
            if self.pending.len() >= PENDING_MAX
                && let Some((_, oldest)) = self.pending.pop_first()
            {
                drop(oldest.shutdown(Shutdown::Both));
            }
            self.accepted += 1;
            let (id, me, sender) = (self.accepted, Arc::clone(&self.me), self.sender.clone());
            self.pending.insert(id, clone);
            let started = spawn(move || {
                let event = match handshake::receive(stream, &me.secret) {
                    Ok(asked) => Event::Asked {
                        id,
                        address,
                        asked: Box::new(asked),
                    },
                    Err(why) => Event::Stranger { id, address, why },
                };
                // Nobody listens any more once the bring-up has ended.
                drop(sender.send(event));
            });
            if !started {
                self.pending.remove(&id);
            }
        }
    }

    /// Starts an attempt for each lower process that there is no connection to.
    fn dial(&mut self) {
        let now = Instant::now();
        let left = self.deadline.saturating_sub(self.started.elapsed());
        for peer in 0..self.me.process {
            // The others ask for the incarnation, which only process 0 can tell.
            if self.links[peer].is_some() || (peer > 0 && self.incarnation.is_none()) {
                continue;
            }
            let dial = &mut self.dials[peer];
            if dial.running || dial.not_before.is_some_and(|at| now < at) {
                continue;
            }
            dial.not_before = Some(now + Duration::from_millis(REDIAL_MS));
            let hello = self
                .me
                .hello(peer, self.incarnation, Verdict::Asking, String::new());
            let (me, sender) = (Arc::clone(&self.me), self.sender.clone());
            dial.running = spawn(move || {
                let event = match handshake::dial(&me.hosts[peer], &me.secret, &hello, left) {
                    Ok((stream, hello)) => Event::Answered {
                        peer,
                        stream,
                        hello: Box::new(hello),
                    },
                    Err(why) => Event::NotReached { peer, why },
                };
                drop(sender.send(event));
            });
        }
    }

    fn handle(&mut self, event: Event) -> Result<(), ClusterError> {
        match event {
            Event::Asked { id, address, asked } => {
                self.pending.remove(&id);
                self.answer(address, *asked)
            }
            Event::Stranger { id, address, why } => {
                self.pending.remove(&id);
                if self.notes.add(address.ip(), &why) {
                    (self.report)(&format!("ignoring a connection: {address} {why}"));
                }
                Ok(())
            }
            Event::NotReached { peer, why } => {
                self.dials[peer].failed(why);
                Ok(())
            }
            Event::Answered {
                peer,
                stream,
                hello,
            } => {
                self.dials[peer].running = false;
                self.answered(peer, stream, &hello)
            }
        }
    }

    /// Decides about a proved dialler, tells it, and keeps the connection if it fits.
    fn answer(&mut self, address: SocketAddr, asked: Asked) -> Result<(), ClusterError> {
        let hello = asked.hello.clone();
        let from = hello.from as usize;
        let known = self
            .links
            .get(from)
            .and_then(Option::as_ref)
            .filter(|link| link.is_alive());
        let known = known.map(|link| (link.instance, link.address));
        let judged = self.me.judge(&hello, address, self.incarnation, known);
        let (verdict, text) = match &judged {
            Judged::Fits => (Verdict::Accepted, String::new()),
            Judged::Later => (Verdict::Retry, String::new()),
            Judged::Never(error) => (Verdict::Refused, error.to_string()),
        };
        let answer = self.me.hello(from, self.incarnation, verdict, text);
        let sent = asked.answer(&answer);
        match (judged, sent) {
            (Judged::Never(error), _) => Err(error),
            (Judged::Fits, Ok(stream)) => {
                self.lose(from, "a new connection replaces it");
                self.links[from] = Link::new(stream, hello.instance).ok();
                Ok(())
            }
            // The dialler is gone or told to come again; either way it dials anew.
            (Judged::Fits | Judged::Later, _) => Ok(()),
        }
    }

    /// Takes the answer of a process that we dialled.
    fn answered(
        &mut self,
        peer: usize,
        stream: TcpStream,
        hello: &Hello,
    ) -> Result<(), ClusterError> {
        let address = &self.me.hosts[peer];
        self.me.fits(hello, peer, address)?;
        if hello.verdict == Verdict::Refused {
            let reason = printable(&hello.text, 1024);
            return Err(ClusterError::Ended {
                process: peer,
                reason,
                code: 2,
            });
        }
        let same = hello.incarnation.is_some() && hello.incarnation == self.incarnation;
        if hello.verdict != Verdict::Accepted || (peer > 0 && !same) {
            self.dials[peer].answered(Some("it is there, but not of this start yet"));
            return Ok(());
        }
        if peer == 0 {
            self.incarnation = hello.incarnation;
            self.told = None;
        }
        self.dials[peer].answered(None);
        self.links[peer] = Link::new(stream, hello.instance).ok();
        Ok(())
    }

    /// Looks at every connection; true when all may start.
    fn watch(&mut self) -> Result<bool, ClusterError> {
        let center = self.me.process == 0;
        for peer in 0..self.links.len() {
            while let Some(link) = self.links[peer].as_mut() {
                // Only the connections of process 0 carry frames: see link.rs.
                if !center && peer > 0 {
                    if !link.is_alive() {
                        self.lose(peer, "it went away");
                    }
                    break;
                }
                match link.read() {
                    Ok(None) => break,
                    Ok(Some(Frame::WaitsFor(processes))) => link.waits_for = Some(processes),
                    Ok(Some(Frame::Abort {
                        process,
                        code,
                        reason,
                    })) => {
                        let (process, code) = (process as usize, i32::from(code.max(1)));
                        let reason = printable(&reason, 1024);
                        return Err(ClusterError::Ended {
                            process,
                            reason,
                            code,
                        });
                    }
                    Ok(Some(Frame::Go)) if center => self.lose(peer, "it said what only we may"),
                    Ok(Some(Frame::Go)) => return self.complete_or_lost(),
                    Err(_) => self.lose(peer, "it went away"),
                }
            }
        }
        if center {
            self.go()
        } else {
            self.tell_what_we_wait_for()
        }
    }

    /// Process 0: lets everyone start if everyone can.
    fn go(&mut self) -> Result<bool, ClusterError> {
        let ready = |link: &Link| link.waits_for.as_ref().is_some_and(Vec::is_empty);
        let complete = |link: &Option<Link>| link.as_ref().is_some_and(ready);
        if !self.links.iter().skip(1).all(complete) {
            return Ok(false);
        }
        for peer in 1..self.links.len() {
            if let Some(link) = &mut self.links[peer]
                && link.write(&Frame::Go).is_err()
            {
                return Err(self.lost_at_start(peer));
            }
        }
        Ok(true)
    }

    /// The others: keeps process 0 informed.
    fn tell_what_we_wait_for(&mut self) -> Result<bool, ClusterError> {
        let waits: Vec<u32> = self.absent().map(index).collect();
        if self.told.as_ref() != Some(&waits)
            && let Some(link) = &mut self.links[0]
        {
            match link.write(&Frame::WaitsFor(waits.clone())) {
                Ok(()) => self.told = Some(waits),
                Err(_) => self.lose(0, "it went away"),
            }
        }
        Ok(false)
    }

    fn complete_or_lost(&self) -> Result<bool, ClusterError> {
        match self.absent().next() {
            None => Ok(true),
            Some(peer) => Err(self.lost_at_start(peer)),
        }
    }

    fn lost_at_start(&self, peer: usize) -> ClusterError {
        ClusterError::LostAtStart {
            peer,
            address: self.me.hosts[peer].clone(),
        }
    }

    /// Forgets a connection; without process 0 there is no incarnation, so all of them.
    fn lose(&mut self, peer: usize, why: &str) {
        if self.links[peer].take().is_some() {
            (self.report)(&format!(
                "lost process {}: {why}",
                Named(peer, &self.me.hosts)
            ));
        }
        if peer == 0 {
            self.incarnation = None;
            self.told = None;
            self.links.iter_mut().for_each(|link| *link = None);
        }
    }

    fn absent(&self) -> impl Iterator<Item = usize> + '_ {
        let me = self.me.process;
        (0..self.links.len()).filter(move |&peer| peer != me && self.links[peer].is_none())
    }

    /// Who is missing, and what is known about each.
    fn missing(&self) -> String {
        let mut out: Vec<String> = Vec::new();
        for (peer, link) in self.links.iter().enumerate() {
            let name = Named(peer, &self.me.hosts);
            match link {
                _ if peer == self.me.process => {}
                None => match self.dials.get(peer).map(Dial::why) {
                    Some(Some(why)) => out.push(format!("{name} ({why})")),
                    Some(None) if peer > 0 => out.push(format!("{name} (waiting for process 0)")),
                    Some(None) => out.push(name.to_string()),
                    None => out.push(format!("{name} (has not connected)")),
                },
                Some(link) => match &link.waits_for {
                    Some(waits) if !waits.is_empty() => {
                        out.push(format!("{name} (is here, but waits for {waits:?})"));
                    }
                    _ => {}
                },
            }
        }
        if out.is_empty() {
            "only the word of process 0 to start".to_owned()
        } else {
            out.join(", ")
        }
    }

    fn too_late(&self, waited: Duration) -> ClusterError {
        ClusterError::Deadline {
            process: self.me.process,
            waited_ms: waited.as_millis(),
            missing: self.missing(),
            notes: self.notes.to_string(),
        }
    }

    /// Tells the others why this cannot work, so that they need not wait for their deadlines.
    fn tell(&mut self, error: &ClusterError) {
        let center = self.me.process == 0;
        let (process, reason) = match error {
            ClusterError::Ended {
                process, reason, ..
            } if center => (*process, reason.clone()),
            // Told by process 0, who tells everyone; or only our own patience is at its end.
            ClusterError::Ended { .. } | ClusterError::Deadline { .. } if !center => return,
            error => (self.me.process, error.to_string()),
        };
        let code = u8::try_from(error.exit_code()).unwrap_or(1);
        let frame = Frame::Abort {
            process: index(process),
            code,
            reason,
        };
        let last = if center { self.links.len() } else { 1 };
        let until = Instant::now() + Duration::from_millis(FAREWELL_MS_MAX);
        let mut open: Vec<&mut Link> = self.links[..last].iter_mut().flatten().collect();
        for link in &mut open {
            drop(link.write(&frame));
            link.finish_writing();
        }
        while !open.is_empty() && Instant::now() < until {
            thread::sleep(Duration::from_millis(POLL_MS));
            open.retain_mut(|link| link.read().is_ok());
        }
    }
}

fn index(process: usize) -> u32 {
    u32::try_from(process).expect("checked against u32 when the settings were")
}

/// Whether the thread could be started; if not, the loop tries again later.
fn spawn(work: impl FnOnce() + Send + 'static) -> bool {
    let builder = thread::Builder::new().name("cluster:handshake".to_owned());
    builder.stack_size(STACK_BYTES).spawn(work).is_ok()
}
