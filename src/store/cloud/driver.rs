//! The one thread on which requests to the cloud are driven.
//!
//! Invariant: a caller waits on a channel and never inside a runtime, so that any thread may call,
//! one that belongs to another runtime too. The thread ends after its driver was dropped and the
//! last request is through.

use crate::error::Error;
use std::pin::Pin;
use std::sync::mpsc::sync_channel;
use std::thread;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

type Job = Pin<Box<dyn Future<Output = ()> + Send>>;

pub(super) struct Driver {
    jobs: UnboundedSender<Job>,
}

impl Driver {
    pub(super) fn start() -> Result<Driver, Error> {
        let failed = |error| Error::failed("no thread for the store").line(error);
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        let runtime = runtime.map_err(failed)?;
        let (jobs, mut coming) = unbounded_channel::<Job>();
        let drive = move || {
            runtime.block_on(async move {
                while let Some(job) = coming.recv().await {
                    tokio::spawn(job);
                }
            });
            // What still runs is nobody's; a name being looked up must not be waited for.
            runtime.shutdown_background();
        };
        let thread = thread::Builder::new().name("store".to_owned()).spawn(drive);
        thread.map_err(failed)?;
        Ok(Driver { jobs })
    }

    /// Waits for what `future` gives.
    pub(super) fn run<T: Send + 'static>(
        &self,
        future: impl Future<Output = T> + Send + 'static,
    ) -> Result<T, Error> {
        let (tell, told) = sync_channel(1);
        let job = Box::pin(async move {
            // The caller is waiting, or its thread is gone.
            let _ = tell.send(future.await);
        });
        let ended = || Error::failed("the thread of the store has ended: see the panic above");
        self.jobs.send(job).map_err(|_| ended())?;
        told.recv().map_err(|_| ended())
    }
}
