//! The longest calls on the data path of one worker, while checkpoints are uploaded.
//!
//! Invariant: an activation is what the merge does with one batch: mark, export when one is due,
//! look up, merge. It cannot see what the channels and the sink of a job add.

use crate::job::{BATCH, Bench, FUEL, fingerprint};
use crate::time::{Spent, timed};
use crate::{MILLION, Outcome, TICK_MS};
use headwater_operators::marker::MarkerStore;
use rustix::time::ClockId;
use std::path::Path;

/// Marks at full speed with all markers held, a checkpoint each million keys or none.
fn longest_calls(bench: &mut Bench, millions: u64, checkpoints: bool) -> [Spent; 4] {
    let mut longest = [Spent::default(); 4];
    let (mut found, mut parts, mut waiting) = (Vec::new(), Vec::new(), 0);
    for batch in 0..4 * MILLION / BATCH {
        let key =
            |n: u64| fingerprint((batch * BATCH + n).wrapping_mul(7919) % (millions * MILLION));
        let keys: Vec<u128> = (0..BATCH).map(key).collect();
        let take = checkpoints && waiting == 0 && batch % (MILLION / BATCH) == 0;
        let mut spent = [Spent::default(); 4];
        let thread = ClockId::ThreadCPUTime;
        spent[0] = timed(thread, || bench.markers[0].mark(bench.tick, &keys)).1;
        if take {
            (bench.number, waiting) = (bench.number + 1, 1);
            spent[1] = timed(thread, || bench.export(0)).1;
        }
        found.clear();
        spent[2] = timed(thread, || bench.markers[0].latest(&keys, &mut found)).1;
        let work = timed(thread, || bench.markers[0].work(FUEL)).1;
        spent[3] = spent.iter().fold(work, |sum, other| Spent {
            wall: sum.wall + other.wall,
            cpu: sum.cpu + other.cpu,
        });
        for (longest, spent) in longest.iter_mut().zip(spent) {
            longest.longest(spent);
        }
        bench.tick += TICK_MS;
        bench.outbox.drain(&mut parts);
        waiting -= parts.drain(..).count();
    }
    longest
}

/// The pause on the data path: the longest calls of one worker.
pub(crate) fn pause(folder: &Path, millions: u64) -> Outcome<()> {
    let mut bench = Bench::new(folder, 1)?;
    bench.mark(0..millions * MILLION);
    let without = longest_calls(&mut bench, millions, false);
    let with = longest_calls(&mut bench, millions, true);
    println!("longest call in ms (CPU): {millions} M markers on one worker, {BATCH} keys a call");
    let names = ["mark", "export", "lookup", "activation"];
    for ((name, without), with) in names.iter().zip(without).zip(with) {
        println!(
            "  {name:10}  {:.2} ({:.2}) while checkpoints are taken, {:.2} ({:.2}) without",
            with.wall * 1e3,
            with.cpu * 1e3,
            without.wall * 1e3,
            without.cpu * 1e3,
        );
    }
    Ok(())
}
