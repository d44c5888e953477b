//! Runs a job's workers in this process, and watches them from the calling thread.
//!
//! Invariant: when a worker ends with an error the others of the process end too; in a cluster the
//! caller must then end the process, which ends its peers.

use crate::cluster::Cluster;
use crate::error::Error;
use crate::job::Job;
use crate::worker;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;
use timely::WorkerConfig;
use timely::communication::WorkerGuards;
use timely::worker::Worker;

#[cfg(test)]
pub(crate) mod tests;

/// How often `watch` is called.
const WATCH: Duration = Duration::from_millis(100);
/// How long the end of a job waits for events to be taken; the next run tells the rest.
const EVENTS_WAIT: Duration = Duration::from_secs(3);

/// Runs the job on `workers` threads of this process alone.
///
/// # Errors
/// The first thing that went wrong.
pub fn local(job: &Arc<Job>, workers: usize, watch: impl FnMut()) -> Result<(), Error> {
    let (ended, end) = channel();
    let of_worker = Arc::clone(job);
    let guards = timely::execute(timely::Config::process(workers), move |worker| {
        // The receiver may have been told of another worker's end already.
        let _ = ended.send(run(worker, &of_worker));
    });
    let guards = guards.map_err(|error| Error::failed(format!("no workers: {error}")))?;
    wait(workers, &end, watch)?;
    join(guards);
    tell_the_last(job);
    Ok(())
}

/// Runs this process's part of a cluster.
///
/// # Errors
/// The first thing that went wrong in this process; the process must then end.
pub fn cluster(
    job: &Arc<Job>,
    cluster: Cluster,
    workers: usize,
    watch: impl FnMut(),
) -> Result<(), Error> {
    let (ended, end) = channel();
    let of_worker = Arc::clone(job);
    let guards = timely::execute::execute_from(
        cluster.builders,
        cluster.guard,
        WorkerConfig::default(),
        move |worker| {
            let result = worker::run(worker, &of_worker);
            let failed = result.is_err();
            let _ = ended.send(result);
            // A worker that ends closes its connections. The peers would end then, and this
            // process with them as one that lost a peer, before it has told its own error.
            if failed {
                loop {
                    std::thread::park();
                }
            }
        },
    );
    let guards = guards.map_err(|error| Error::failed(format!("no workers: {error}")))?;
    if let Err(error) = wait(workers, &end, watch) {
        // Joining would wait for peers that wait for us.
        std::mem::forget(guards);
        return Err(error);
    }
    join(guards);
    tell_the_last(job);
    Ok(())
}

/// The last checkpoint may have brought events, which whoever takes them is given a while for.
fn tell_the_last(job: &Job) {
    let checkpoints = job.checkpoints.as_ref();
    if let Some(events) = checkpoints.and_then(|checkpoints| checkpoints.events.as_ref()) {
        events.close(EVENTS_WAIT);
    }
}

fn run(worker: &mut Worker, job: &Job) -> Result<(), Error> {
    let result = worker::run(worker, job);
    if let Err(error) = &result {
        // What this worker alone has seen must end the others too: they are waited for.
        job.failures.report(error.clone());
        // Its sources keep their capabilities, so it would never end by itself.
        for dataflow in worker.installed_dataflows() {
            worker.drop_dataflow(dataflow);
        }
    }
    result
}

fn wait(
    workers: usize,
    end: &std::sync::mpsc::Receiver<Result<(), Error>>,
    mut watch: impl FnMut(),
) -> Result<(), Error> {
    let mut running = workers;
    while running > 0 {
        match end.recv_timeout(WATCH) {
            Ok(result) => {
                result?;
                running -= 1;
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => {
                return Err(Error::failed("a worker ended without saying why"));
            }
        }
        watch();
    }
    Ok(())
}

fn join(guards: WorkerGuards<()>) {
    for result in guards.join() {
        if let Err(panic) = result {
            panic!("a worker panicked: {panic}");
        }
    }
}
