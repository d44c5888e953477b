//! Keys whose last mutation could not be decoded: set, met by READs, cleared, exported, restored.

use super::{Bench, bench, config, open, record, until_ready};
use crate::control::Command;
use crate::merge::MergeConfig;
use crate::poison::PoisonMark;
use crate::record::{Op, RecordRef};
use crate::retention::KeepMarkers;
use timely::worker::Worker;

impl Bench {
    fn mutated(&mut self, tick: u64, fingerprint: u128, op: Op, value: &'static [u8]) {
        self.mutations.advance_to(tick);
        self.mutations.send(RecordRef {
            value,
            ..record(fingerprint, op)
        });
        self.mutations.flush();
    }

    /// What became of a READ of this key.
    fn read_now(&mut self, worker: &mut Worker, tick: u64, fingerprint: u128) -> Vec<Op> {
        self.read(tick, fingerprint);
        let left = self.left(worker);
        let of = left.iter().filter(|(at, of, op)| {
            let read = matches!(op, Op::Read | Op::ReadPoisoned | Op::Quarantined);
            *at == tick && *of == fingerprint && read
        });
        of.map(|(_, _, op)| *op).collect()
    }
}

#[test]
fn a_poisoned_keys_read_is_quarantined_until_a_whole_row_or_a_delete() {
    timely::execute_directly(|worker| {
        let config = MergeConfig {
            whole_row: |value| value != b"part",
            ..until_ready()
        };
        let mut bench = bench(worker, config);
        bench.command(0, open(0));
        bench.control.advance_to(1_000);
        for key in 1..=5 {
            bench.mutated(20, key, Op::Poisoned, b"?");
        }
        bench.mutated(20, 6, Op::Undecodable, b"?");
        bench.left(worker);
        // Whatever is read, as often as it is: READs change nothing.
        assert_eq!(bench.read_now(worker, 40, 1), [Op::ReadPoisoned]);
        assert_eq!(bench.read_now(worker, 60, 1), [Op::ReadPoisoned]);
        assert_eq!(bench.read_now(worker, 60, 6), [Op::Read]);
        bench.mutated(60, 2, Op::Upsert, b"whole");
        bench.mutated(60, 3, Op::Delete, b"");
        bench.mutated(60, 4, Op::Upsert, b"part");
        bench.mutated(60, 5, Op::ReadInPlace, b"whole");
        bench.left(worker);
        assert_eq!(bench.read_now(worker, 80, 2), []);
        assert_eq!(bench.read_now(worker, 80, 3), []);
        assert_eq!(bench.read_now(worker, 80, 4), [Op::ReadPoisoned]);
        assert_eq!(bench.read_now(worker, 80, 5), [Op::ReadPoisoned]);
        bench.mutated(80, 2, Op::Poisoned, b"?");
        bench.left(worker);
        assert_eq!(bench.read_now(worker, 100, 2), [Op::ReadPoisoned]);
        let counters = bench.counters.borrow();
        assert_eq!(
            (counters.dead_letters, counters.mutations_emitted()),
            (7, 4)
        );
        assert_eq!((counters.reads_poisoned, counters.unsafe_reads()), (5, 0));
        assert_eq!(counters.generations[&1].poisoned, 5);
    });
}

#[test]
fn a_newer_generation_heals_it_and_one_that_may_miss_it_does_not() {
    timely::execute_directly(|worker| {
        let mut bench = bench(worker, until_ready());
        bench.command(0, open(60));
        bench.control.advance_to(1_000);
        bench.mutated(40, 1, Op::Poisoned, b"?");
        bench.mutated(60, 2, Op::Poisoned, b"?");
        bench.left(worker);
        assert_eq!(bench.read_now(worker, 80, 1), [Op::Read]);
        assert_eq!(bench.read_now(worker, 80, 2), [Op::ReadPoisoned]);
    });
}

#[test]
fn a_restored_mark_counts_and_goes_with_its_marker() {
    timely::execute_directly(|worker| {
        let mark = |fingerprint, tick_ms| PoisonMark {
            fingerprint,
            tick_ms,
        };
        let config = MergeConfig {
            poison: vec![mark(1, 40), mark(2, 400), mark(2, 20)],
            ..config(KeepMarkers::Ttl { ttl_ms: 200 })
        };
        let mut bench = bench(worker, config);
        bench.command(0, open(0));
        bench.control.advance_to(200);
        assert_eq!(bench.read_now(worker, 60, 1), [Op::ReadPoisoned]);
        bench.command(220, Command::Checkpoint { number: 1 });
        bench.control.advance_to(300);
        bench.mutations.advance_to(300);
        bench.left(worker);
        assert_eq!(*bench.poisoned.0.borrow(), [mark(2, 400)]);
        assert_eq!(bench.read_now(worker, 240, 2), [Op::ReadPoisoned]);
    });
}
