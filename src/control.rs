//! The control plane: HTTP beside the job, for persons, probes and Prometheus.
//!
//! ```text
//!  workers ─▶ Panel ─┐
//!  sink ─▶ SinkWatch ├─▶ [Shared] ─ view ─▶ status document ─▶ JSON, metrics, a person's lines
//!  watch (100 ms) ───┘
//! ```
//! It has a thread with a runtime of its own and touches no dataflow: it reads what the job shows,
//! and asks for a stop as a signal would. Process 0 answers for the job; the others send on.
//!
//! Invariants: it holds nobody up and is waited for by nobody; what it answers is never better than
//! what the job shows.
//!
//! It cannot encrypt: on an address that others reach, put a proxy with TLS before it.

mod ask;
mod change;
pub mod dashboard;
mod derive;
pub mod document;
mod explain;
mod human;
mod listen;
mod metrics;
mod pending;
mod promotion;
mod report;
mod requests;
mod router;
#[cfg(test)]
mod testing;
mod token;
mod verbs;
mod verdict;
mod view;

pub use change::{generation, tune};
pub use explain::{Told, ask_explain};
pub use human::text;
pub use listen::{Address, Listen};
pub use verbs::{status, wait_ready};
pub use view::Facts;

use crate::checkpoint::Saved;
use crate::cli::{self, ClusterArgs};
use crate::cluster;
use crate::config::Config;
use crate::config::sections::ControlConfig;
use crate::error::Error;
use crate::generation::Stage;
use crate::job::{Job, Shown, ShownGeneration};
use crate::promote::Criterion;
use crate::signals::Stop;
use crate::sink::queue::SinkWatch;
use document::{Checkpoint, Status};
use pending::Pending;
use report::Tracker;
use router::Access;
use std::collections::VecDeque;
use std::net::TcpListener;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use token::Token;
use tokio::sync::oneshot;

/// How long a client waits for a request to be durable.
const ANSWER_WAIT: Duration = Duration::from_secs(60);
/// Checkpoints that are remembered.
const CHECKPOINTS_MAX: usize = 50;

/// A control plane that serves until it is dropped.
pub struct Control {
    shared: Arc<Shared>,
    server: Option<(oneshot::Sender<()>, JoinHandle<()>)>,
}

/// What requests read.
struct Shared {
    access: Access,
    job: String,
    asked: Stop,
    started_ms: i64,
    live: Mutex<Option<Live>>,
    pending: Pending,
    answer_wait: Duration,
    /// Held while a promotion is under way.
    promoting: tokio::sync::Mutex<()>,
}

/// A job that runs.
struct Live {
    facts: Facts,
    /// Weak: the job ends when its run ends, not when the last request does.
    job: Weak<Job>,
    sink: Option<SinkWatch>,
    timeline: Vec<(Stage, i64)>,
    saved: VecDeque<(Saved, i64)>,
    tracker: Tracker,
}

impl Control {
    /// Serves at `control.listen`, from before the job is claimed. An address that is taken is an
    /// error in process 0 when it was chosen, and a note when it is the default one, as a second
    /// job on a machine would meet it.
    ///
    /// # Errors
    /// Of usage: an address or a token file that is wrong; failed: the address is taken.
    pub fn start(config: &Config, cluster: &ClusterArgs) -> Result<Control, Error> {
        let control = &config.control;
        let listen = Listen::parse(&control.listen)?;
        let token = control
            .token_file
            .as_ref()
            .map(|path| token::read(path))
            .transpose()?;
        let mut shared = Shared {
            access: Access {
                loopback: true,
                token: token.map(|text| Token::new(&text)),
                elsewhere: None,
            },
            job: config.job.job.clone(),
            asked: Stop::new(),
            started_ms: now_ms(),
            live: Mutex::new(None),
            pending: Pending::default(),
            answer_wait: ANSWER_WAIT,
            promoting: tokio::sync::Mutex::new(()),
        };
        let Listen::At(configured) = listen else {
            return Ok(Control {
                shared: Arc::new(shared),
                server: None,
            });
        };
        let own = configured.of_process(cluster.process)?;
        shared.access.loopback = own.is_loopback();
        if cluster.process > 0 {
            let hosts = cluster.hostfile.as_deref().map(cluster::read_hostfile);
            // A hostfile that cannot be read ends the process at the bring-up.
            let hosts = hosts.and_then(Result::ok).unwrap_or_default();
            shared.access.elsewhere = Some(listen::of_process_0(&configured, &hosts));
        }
        let shared = Arc::new(shared);
        let server = match TcpListener::bind((own.host.as_str(), own.port)) {
            Ok(listener) => Some(serve(listener, &shared)?),
            Err(error) => {
                let chosen = control.listen != ControlConfig::default().listen;
                let error = taken(&own, &error);
                if chosen && cluster.process == 0 {
                    return Err(error);
                }
                cli::note(&format!("no control plane: {error}"));
                None
            }
        };
        Ok(Control { shared, server })
    }

    /// The job runs.
    pub fn attach(&self, job: &Arc<Job>, sink: Option<SinkWatch>, facts: Facts) {
        *lock(&self.shared.live) = Some(Live::new(job, sink, facts));
        self.look();
    }

    /// Notes when states were come into and checkpoints made; call it often.
    pub fn look(&self) {
        if let Some(live) = lock(&self.shared.live).as_mut() {
            live.look(now_ms());
        }
    }

    /// Whether somebody asked for a stop.
    pub fn stop_asked(&self) -> bool {
        self.shared.asked.requested()
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        if let Some((stop, thread)) = self.server.take() {
            // The thread may have ended by an error of its own.
            let _ = stop.send(());
            let _ = thread.join();
        }
    }
}

fn taken(address: &Address, error: &std::io::Error) -> Error {
    Error::failed(format!(
        "the control plane cannot listen on {address} (`control.listen`)"
    ))
    .line(format!(
        "found     {error}; perhaps this job, or another, runs there"
    ))
    .line("Choose another with --set control.listen=127.0.0.1:7071, a free one with port 0,")
    .line("or none with --set control.listen=off.")
}

/// Serves on a thread.
fn serve(
    listener: TcpListener,
    shared: &Arc<Shared>,
) -> Result<(oneshot::Sender<()>, JoinHandle<()>), Error> {
    let failed = |error: std::io::Error| {
        Error::failed("the control plane cannot be started").line(format!("found     {error}"))
    };
    listener.set_nonblocking(true).map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .enable_time()
        .build()
        .map_err(failed)?;
    let listener = {
        let _inside = runtime.enter();
        tokio::net::TcpListener::from_std(listener).map_err(failed)?
    };
    let (stop, stopped) = oneshot::channel();
    let router = router::router(Arc::clone(shared));
    let served = async move {
        // Dropped with the runtime, as soon as the stop comes: nobody is waited for.
        let _serving = tokio::spawn(async move { axum::serve(listener, router).await });
        let _ = stopped.await;
    };
    let thread = std::thread::Builder::new().name("control".to_owned());
    let thread = thread
        .spawn(move || {
            runtime.block_on(served);
            // Nor is a topic that is asked, or a hook that runs.
            runtime.shutdown_background();
        })
        .map_err(failed)?;
    cli::note(&format!("control plane at http://{address}"));
    Ok((stop, thread))
}

impl Shared {
    /// The document of this moment.
    fn status(&self) -> Status {
        let now_ms = now_ms();
        let mut live = lock(&self.live);
        match live.as_mut() {
            None => view::starting(&self.job, now_ms),
            Some(live) => {
                live.look(now_ms);
                let mut seen = live.seen(self.asked.requested());
                seen.started_ms = self.started_ms;
                view::running(&live.facts, &seen, now_ms)
            }
        }
    }

    /// The last checkpoints of this run, newest first.
    fn checkpoints(&self) -> Vec<Checkpoint> {
        let mut live = lock(&self.live);
        let Some(live) = live.as_mut() else {
            return Vec::new();
        };
        live.look(now_ms());
        let saved = live.saved.iter().rev();
        saved
            .map(|(saved, at_ms)| view::checkpoint(saved, Some(*at_ms)))
            .collect()
    }

    /// The job, while it runs. Not to be held across a wait.
    fn running(&self) -> Option<Arc<Job>> {
        lock(&self.live).as_ref()?.job.upgrade()
    }

    /// Asks for a clean stop; false when there is nothing to stop yet.
    fn stop(&self) -> bool {
        let live = lock(&self.live).is_some();
        if live {
            self.asked.request();
        }
        live
    }
}

impl Live {
    fn new(job: &Arc<Job>, sink: Option<SinkWatch>, facts: Facts) -> Live {
        Live {
            facts,
            job: Arc::downgrade(job),
            sink,
            timeline: Vec::new(),
            saved: VecDeque::new(),
            tracker: Tracker::default(),
        }
    }

    fn look(&mut self, now_ms: i64) {
        let Some(job) = self.job.upgrade() else {
            return;
        };
        let shown = job.panel.shown();
        let state = derive::stage(&shown, self.facts.rule_off);
        if self.timeline.last().is_none_or(|(last, _)| *last != state) {
            self.timeline.push((state, now_ms));
        }
        let last = self.saved.back().map(|(last, _)| last);
        let new = shown.saved.as_ref().filter(|saved| last != Some(*saved));
        let generations = derive::generations(&shown, &self.facts, &self.timeline);
        self.tracker.look(&generations, &shown.counts, new);
        if let Some(saved) = new {
            self.saved.push_back((saved.clone(), now_ms));
            if self.saved.len() > CHECKPOINTS_MAX {
                self.saved.pop_front();
            }
        }
    }

    /// What is shown of the generations.
    fn generations(&self) -> Vec<ShownGeneration> {
        let shown = self.shown();
        derive::generations(&shown, &self.facts, &self.timeline)
    }

    /// What promotion asks for, of one of them.
    fn criteria(&self, generation: &ShownGeneration, accepted: &[String]) -> Vec<Criterion> {
        let terms = &self.facts.promote;
        terms.criteria(generation, &self.shown(), accepted)
    }

    fn shown(&self) -> Shown {
        let job = self.job.upgrade();
        job.map(|job| job.panel.shown()).unwrap_or_default()
    }

    fn seen(&self, stopping: bool) -> view::Seen {
        let mut seen = view::Seen {
            stopping,
            sink: self
                .sink
                .as_ref()
                .map(|sink| (sink.state(), sink.rows_written())),
            timeline: self.timeline.clone(),
            saved_at_ms: self.saved.back().map(|(_, at_ms)| *at_ms),
            ..view::Seen::default()
        };
        let Some(job) = self.job.upgrade() else {
            // Between the end of the run and that of the process.
            seen.stopping = true;
            return seen;
        };
        seen.shown = job.panel.shown();
        seen.stopping |= job.panel.stopping();
        seen.troubles = job.panel.troubles();
        seen.failure = job.failures.first().map(|error| headline(&error.text));
        let lease = job.checkpoints.as_ref().and_then(|to| to.lease.as_ref());
        let trouble = lease.and_then(crate::lease::Lease::trouble);
        seen.lease_trouble = trouble.map(|text| headline(&text));
        seen
    }
}

fn headline(text: &str) -> String {
    text.lines().next().unwrap_or_default().to_owned()
}

fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| {
        i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
    })
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
