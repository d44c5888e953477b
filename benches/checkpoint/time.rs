//! Wall time and CPU time of calls: neighbours on the machine count in the first alone.
//!
//! It cannot tell CPU time from time that a neighbour's use of the caches has cost.

use rustix::time::{ClockId, clock_gettime};
use std::time::Instant;

/// Seconds of one thing.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Spent {
    pub(crate) wall: f64,
    pub(crate) cpu: f64,
}

impl Spent {
    pub(crate) fn longest(&mut self, other: Spent) {
        self.wall = self.wall.max(other.wall);
        self.cpu = self.cpu.max(other.cpu);
    }

    pub(crate) fn add(&mut self, other: Spent) {
        self.wall += other.wall;
        self.cpu += other.cpu;
    }
}

fn cpu_seconds(clock: ClockId) -> f64 {
    let time = clock_gettime(clock);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// Runs a call; its result, and what it took on this thread or in the whole process.
pub(crate) fn timed<R>(clock: ClockId, call: impl FnOnce() -> R) -> (R, Spent) {
    let (start, before) = (Instant::now(), cpu_seconds(clock));
    let result = call();
    let cpu = cpu_seconds(clock) - before;
    let wall = start.elapsed().as_secs_f64();
    (result, Spent { wall, cpu })
}
