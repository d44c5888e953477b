//! The workers of a run, in lock step: threads that take a step only when they are given a turn.
//!
//! It cannot be ended by a worker: one that has failed goes on answering.

use headwater::clock::ManualClock;
use headwater::job::Job;
use headwater::worker::WorkerRun;
use headwater_operators::time::Clock;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};

/// Time since the run began.
pub(crate) struct Since {
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) from_ms: u64,
}

impl Clock for Since {
    fn now_ms(&self) -> u64 {
        self.clock.now_ms() - self.from_ms
    }
}

/// The two ends of one worker's turns.
struct Turns {
    give: Sender<bool>,
    taken: Receiver<bool>,
}

/// The workers of a run.
pub(crate) struct Live {
    turns: Vec<Turns>,
    guards: timely::communication::WorkerGuards<()>,
}

impl Live {
    /// Starts the workers; each takes a step when it is given a turn, and ends when given `false`.
    pub(crate) fn spawn(job: Arc<Job>, workers: usize) -> Live {
        let mut turns = Vec::new();
        let mut ends = Vec::new();
        for _ in 0..workers {
            let (give, given) = channel::<bool>();
            let (take, taken) = channel::<bool>();
            turns.push(Turns { give, taken });
            ends.push(Some((given, take)));
        }
        let ends = Mutex::new(ends);
        let guards = timely::execute(timely::Config::process(workers), move |worker| {
            let (given, take) = ends.lock().expect("not poisoned")[worker.index()]
                .take()
                .expect("one worker an end");
            let mut run = WorkerRun::new(worker, &job);
            while given.recv().expect("the runner is there") {
                // A failure is kept in the job; the worker goes on answering until it is ended.
                if run.step(&job).is_ok() {
                    worker.step();
                }
                take.send(run.over()).expect("the runner is there");
            }
            // The other workers may be gone: nothing more is stepped.
            let dataflows: Vec<usize> = worker.installed_dataflows();
            dataflows
                .into_iter()
                .for_each(|dataflow| worker.drop_dataflow(dataflow));
        })
        .expect("threads can be started");
        Live { turns, guards }
    }

    /// Every worker is stepped a few times. `true` when all are over.
    pub(crate) fn turn(&self) -> bool {
        let mut over = true;
        for _ in 0..3 {
            over = true;
            for turns in &self.turns {
                turns.give.send(true).expect("the worker is there");
                over &= turns.taken.recv().expect("the worker answers");
            }
        }
        over
    }

    /// Ends the workers as they stand; `also` is what must be done while they end.
    pub(crate) fn end(self, also: impl FnOnce()) {
        for turns in &self.turns {
            turns.give.send(false).expect("the worker is there");
        }
        also();
        drop(self.guards);
    }
}
