//! Whether an incarnation of a job lives: the object `JOB/lease`, renewed while it does.
//!
//! Alive is who renewed within `lease`, by the clock of the newcomer, who watches for so long: the
//! clocks of two machines are never compared. A holder of this machine whose process is gone is
//! dead at once (design.md section 7).
//!
//! **It is not the fence.** Two newcomers may both find the job free, and a paused holder wakes up
//! behind its successor. What keeps them apart is the chain of manifests, each created only if
//! absent, and the incarnation in every sink's transaction. The lease keeps a second instance from
//! starting by mistake, and tells a loser early. Nor does a write of it fail when another write
//! comes between: an old holder that reads, sleeps and writes puts its name over the new one's,
//! until the next beat of the new one.

mod host;

use crate::error::Error;
use crate::store::Store;
use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded};
use serde::{Deserialize, Serialize};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// Beats within one lease: two may fail before anybody thinks the holder dead.
const BEATS: u32 = 3;
/// Looks of a newcomer within one lease.
const LOOKS: u32 = 30;

/// Who holds a job, as the object says it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holder {
    /// The incarnation.
    pub incarnation: u32,
    /// The name of the machine.
    pub host: String,
    /// The machine's boot and namespace of process ids; empty when not known.
    pub boot: String,
    /// The process id.
    pub pid: u32,
    /// When the process was started, clock ticks since the boot.
    pub started: u64,
    /// Greater with every renewal.
    pub beat: u64,
    /// Whether it was given back.
    #[serde(default)]
    pub released: bool,
}

impl Holder {
    /// This process.
    pub fn here(incarnation: u32) -> Holder {
        let pid = std::process::id();
        Holder {
            incarnation,
            host: host::host(),
            boot: host::boot(),
            pid,
            started: host::started(pid).unwrap_or_default(),
            beat: 0,
            released: false,
        }
    }

    fn is_process_of(&self, other: &Holder) -> bool {
        self.incarnation == other.incarnation
            && (&self.boot, &self.host) == (&other.boot, &other.host)
            && (self.pid, self.started) == (other.pid, other.started)
    }

    fn in_words(&self) -> String {
        let Holder {
            incarnation,
            host,
            pid,
            ..
        } = self;
        format!("incarnation {incarnation} on {host}, process {pid}")
    }
}

/// What a newcomer needs of the world.
trait World {
    /// Time that passed since any moment, the same one for all calls.
    fn now(&self) -> Duration;
    fn sleep(&self, time: Duration);
    /// Whether the holder's process is known to be gone.
    fn gone(&self, holder: &Holder) -> bool;
}

struct RealWorld(Instant);

impl World for RealWorld {
    fn now(&self) -> Duration {
        self.0.elapsed()
    }

    fn sleep(&self, time: Duration) {
        thread::sleep(time);
    }

    fn gone(&self, holder: &Holder) -> bool {
        host::gone(holder)
    }
}

/// Returns when no incarnation of `job` lives: at once when there is none, it was given back, or
/// its process on this machine is gone; else after `lease` without a beat. `say` is told once when
/// it has to wait.
///
/// # Errors
/// Refused when one lives, with its incarnation, host and process; failed when the store cannot be
/// asked or the object is not a lease.
pub fn wait_until_free(
    store: &Store,
    job: &str,
    lease: Duration,
    say: &mut dyn FnMut(&str),
) -> Result<(), Error> {
    wait(store, job, lease, &RealWorld(Instant::now()), say)
}

fn wait(
    store: &Store,
    job: &str,
    lease: Duration,
    world: &dyn World,
    say: &mut dyn FnMut(&str),
) -> Result<(), Error> {
    let free = |holder: &Holder| holder.released || world.gone(holder);
    let first = match read(store, job)? {
        None => return Ok(()),
        Some(holder) if free(&holder) => return Ok(()),
        Some(holder) => holder,
    };
    // From after the read: a beat before it must not count.
    let since = world.now();
    say(&format!(
        "{} held job `{job}`; it is watched for {} whether it lives",
        first.in_words(),
        in_seconds(lease)
    ));
    loop {
        // Before the look: this process may stand still between the two.
        let over = world.now() - since >= lease;
        match read(store, job)? {
            None => return Ok(()),
            Some(holder) if free(&holder) => return Ok(()),
            Some(holder) if holder == first && over => return Ok(()),
            Some(holder) if holder == first => world.sleep(lease / LOOKS),
            Some(holder) => return Err(alive(store, job, &holder)),
        }
    }
}

fn alive(store: &Store, job: &str, holder: &Holder) -> Error {
    Error::refused(format!("job `{job}` runs already"))
        .line(format!(
            "found     {}, alive, in {}",
            holder.in_words(),
            store.place()
        ))
        .line("expected  one running instance of a job")
        .line("Stop that process, or let it run. Another job needs another name (`job`).")
}

fn in_seconds(time: Duration) -> String {
    format!("{:.0} s", time.as_secs_f64().ceil())
}

/// A held lease; dropped, it is given back.
#[derive(Debug)]
pub struct Lease {
    stop: Option<Sender<()>>,
    ended: Receiver<()>,
    trouble: Arc<Mutex<Option<String>>>,
    patience: Duration,
}

impl Lease {
    /// Why the last renewal did not succeed, if it did not; it is tried again.
    pub fn trouble(&self) -> Option<String> {
        lock(&self.trouble).clone()
    }
}

impl Drop for Lease {
    /// Gives it back, so that the next start need not wait; when the store does not answer for
    /// half a lease, leaves it to run out.
    fn drop(&mut self) {
        drop(self.stop.take());
        // Nothing is ever sent: the thread has ended, or it takes too long.
        let _ = self.ended.recv_timeout(self.patience);
    }
}

/// Writes the lease of `incarnation` and renews it every third of `lease` on a thread of its own,
/// until dropped. A greater incarnation in the object ends it: it is not written over, and
/// `on_lost` is called once with the error. Trouble with the store is no loss: it is tried again,
/// and the chain of manifests knows better.
///
/// # Errors
/// Refused when a greater incarnation holds the job already; failed when the store cannot be used.
pub fn hold(
    store: &Store,
    job: &str,
    incarnation: u32,
    lease: Duration,
    on_lost: impl FnOnce(Error) + Send + 'static,
) -> Result<Lease, Error> {
    let mut heart = Heart {
        store: store.clone(),
        job: job.to_owned(),
        holder: Holder::here(incarnation),
    };
    if let Beat::Lost(error) = heart.beat()? {
        return Err(error);
    }
    let (stop, stopped) = bounded::<()>(0);
    let (end, ended) = bounded::<()>(0);
    let trouble = Arc::new(Mutex::new(None));
    let told = Arc::clone(&trouble);
    let renew = move || {
        let _end = end;
        while stopped.recv_timeout(lease / BEATS) == Err(RecvTimeoutError::Timeout) {
            match heart.beat() {
                Ok(Beat::Kept) => *lock(&told) = None,
                Ok(Beat::Lost(error)) => return on_lost(error),
                Err(error) => *lock(&told) = Some(error.text),
            }
        }
        // One that cannot be given back runs out.
        let _ = heart.release();
    };
    let thread = thread::Builder::new().name("lease".to_owned()).spawn(renew);
    thread.map_err(|error| Error::failed("no thread for the lease").line(error))?;
    Ok(Lease {
        stop: Some(stop),
        ended,
        trouble,
        patience: lease / 2,
    })
}

/// What a renewal found.
#[derive(Debug)]
enum Beat {
    Kept,
    Lost(Error),
}

struct Heart {
    store: Store,
    job: String,
    holder: Holder,
}

impl Heart {
    /// Renews once.
    fn beat(&mut self) -> Result<Beat, Error> {
        if let Some(found) = read(&self.store, &self.job)? {
            if found.incarnation > self.holder.incarnation {
                return Ok(Beat::Lost(self.fenced(&found)));
            }
            // A successor sees a beat by its change, also when an older one wrote in between.
            self.holder.beat = self.holder.beat.max(found.beat);
        }
        self.holder.beat += 1;
        self.write()?;
        Ok(Beat::Kept)
    }

    /// Gives back what is still ours.
    fn release(&mut self) -> Result<(), Error> {
        let found = read(&self.store, &self.job)?;
        if !found.is_some_and(|found| found.is_process_of(&self.holder)) {
            return Ok(());
        }
        self.holder.released = true;
        self.write()
    }

    fn write(&self) -> Result<(), Error> {
        let text = serde_json::to_vec(&self.holder)
            .map_err(|error| Error::failed(format!("the lease cannot be written: {error}")))?;
        self.store.put(&name(&self.job), &text)
    }

    fn fenced(&self, found: &Holder) -> Error {
        let new = found.incarnation;
        Error::refused(format!(
            "fenced: incarnation {new} has taken over job `{}`",
            self.job
        ))
        .line(format!(
            "found     {}, in {}",
            found.in_words(),
            self.store.place()
        ))
        .line(format!(
            "expected  incarnation {}, this process",
            self.holder.incarnation
        ))
        .line("Nothing is to be done: the other one goes on.")
    }
}

fn name(job: &str) -> String {
    format!("{job}/lease")
}

fn read(store: &Store, job: &str) -> Result<Option<Holder>, Error> {
    let Some(bytes) = store.get(&name(job))? else {
        return Ok(None);
    };
    let parsed = serde_json::from_slice(&bytes);
    parsed.map(Some).map_err(|error| {
        Error::failed(format!(
            "{}: object `{}` is not a lease",
            store.place(),
            name(job)
        ))
        .line(format!("found     {} bytes: {error}", bytes.len()))
        .line("Make sure that no instance of the job runs, then remove the object.")
    })
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
