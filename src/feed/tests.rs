//! The feeds of several workers by hand, on topics in memory: generations that come and go, ends,
//! targets, cuts and restarts.

mod bench;
mod restart;

use bench::{Bench, end, open, read, target};
use headwater_operators::control::{Command, PartitionTarget};
use headwater_operators::record::Op;

fn ids(rows: &[bench::Given]) -> Vec<(u32, u16, &str, u64)> {
    let mut ids: Vec<_> = rows
        .iter()
        .map(|row| (row.generation, row.table, row.topic.as_str(), row.offset))
        .collect();
    ids.sort();
    ids
}

#[test]
fn generations_open_while_others_are_read() {
    let mut bench = Bench::new(2, &[("sa", 2), ("sb", 1), ("other", 1)]);
    for (topic, partition, table) in [("sa", 0, "a"), ("sa", 1, "a"), ("sb", 0, "b")] {
        bench.append(topic, partition, read(table, 1, "run", 100));
    }
    bench.append("other", 0, read("b", 2, "run", 100));
    assert!(bench.drain().is_empty(), "nothing is open");
    bench.tell(open(1, &[(0, "sa")], &[("sa", 0, 0), ("sa", 1, 0)]));
    assert_eq!(ids(&bench.drain()), [(1, 0, "sa", 0), (1, 0, "sa", 0)]);
    bench.tell(open(2, &[(1, "sb")], &[("sb", 0, 0)]));
    bench.append("sa", 1, read("a", 3, "run", 100));
    let rows = bench.drain();
    assert_eq!(ids(&rows), [(1, 0, "sa", 1), (2, 1, "sb", 0)]);
    // `other` has no open generation; each of the others is read by one worker.
    assert_eq!(bench.reads_of("other"), None);
    assert_eq!(bench.offsets(), [("sa", 0, 1), ("sa", 1, 2), ("sb", 0, 1)]);
    assert_eq!(bench.counted(1), 3);
    assert_eq!(bench.counted(2), 1);
}

#[test]
fn a_budget_is_shared_by_all_generations() {
    let mut bench = Bench::new(1, &[("sa", 1), ("sb", 1)]);
    for id in 0..100 {
        bench.append("sa", 0, read("a", id, "", 0));
        bench.append("sb", 0, read("b", id, "", 0));
    }
    bench.tell(open(1, &[(0, "sa")], &[("sa", 0, 0)]));
    bench.tell(open(2, &[(1, "sb")], &[("sb", 0, 0)]));
    let (mut seen, one) = ([0, 0], bench.bytes_of_one());
    for _ in 0..20 {
        let rows = bench.poll(0, 4 * one);
        assert!((4..=6).contains(&rows.len()), "{} rows", rows.len());
        for row in rows {
            seen[row.generation as usize - 1] += 1;
        }
    }
    assert!(seen[0] >= 38 && seen[1] >= 38, "{seen:?}");
    // A limit is that of all of them together.
    bench.tell(Command::ReadRate {
        per_second_max: Some(100),
        paused: false,
    });
    bench.poll(1000, 1 << 20);
    let rows = bench.poll(1100, 1 << 20);
    assert_eq!(rows.len(), 10);
    bench.tell(Command::ReadRate {
        per_second_max: None,
        paused: true,
    });
    assert!(bench.drain().is_empty());
}

#[test]
fn a_ready_generation_still_sees_late_reads_and_an_aborted_one_is_left() {
    let mut bench = Bench::new(2, &[("sa", 2), ("sb", 1)]);
    bench.tell(open(1, &[(0, "sa")], &[("sa", 0, 0), ("sa", 1, 0)]));
    bench.tell(open(2, &[(1, "sb")], &[("sb", 0, 0)]));
    bench.append("sa", 0, read("a", 1, "", 0));
    bench.drain();
    bench.tell(Command::Freeze {
        generation: 1,
        ends: vec![target("sa", 0, 1), target("sa", 1, 0)],
    });
    bench.drain();
    assert_eq!(bench.ends(), [end(1, "sa", 0, 1), end(1, "sa", 1, 0)]);
    bench.tell(Command::Close {
        generation: 1,
        aborted: false,
    });
    bench.append("sa", 1, read("a", 2, "", 0));
    // Of another generation, in a topic whose own is over: no error.
    bench.end_of_snapshot("sa", 0, "g9");
    let rows = bench.drain();
    assert_eq!(rows.len(), 1);
    assert_eq!((rows[0].op, rows[0].generation), (Op::Late, 1));
    bench.tell(Command::Close {
        generation: 2,
        aborted: true,
    });
    bench.append("sb", 0, read("b", 1, "", 0));
    assert!(bench.drain().is_empty());
    assert_eq!(bench.offsets(), [("sa", 0, 2), ("sa", 1, 1)]);
    assert!(bench.error().is_none());
    bench.tell(open(3, &[(1, "sb")], &[("sb", 0, 0)]));
    assert_eq!(ids(&bench.drain()), [(3, 1, "sb", 0)]);
    bench.end_of_snapshot("sb", 0, "g2");
    bench.drain();
    let error = bench.error().expect("not its own");
    assert!(error.text.contains("expected  g3"), "{error}");
}

#[test]
fn a_topic_is_read_for_the_newest_generation_alone() {
    let mut bench = Bench::new(2, &[("sa", 2), ("sb", 1)]);
    let both = [("sa", 0, 0), ("sb", 0, 0), ("sa", 1, 0)];
    bench.tell(open(1, &[(0, "sa"), (1, "sb")], &both));
    for partition in 0..2 {
        bench.append("sa", partition, read("a", 1, "old", 100));
    }
    bench.drain();
    bench.tell(open(2, &[(0, "sa")], &[("sa", 0, 1), ("sa", 1, 1)]));
    bench.append("sa", 0, read("a", 1, "new", 200));
    bench.append("sa", 1, read("a", 2, "new", 200));
    bench.append("sb", 0, read("b", 1, "old", 100));
    let rows = bench.drain();
    assert_eq!(
        ids(&rows),
        [(1, 1, "sb", 0), (2, 0, "sa", 1), (2, 0, "sa", 1)]
    );
    assert_eq!(bench.offsets(), [("sa", 0, 2), ("sa", 1, 2), ("sb", 0, 1)]);
    // The old one has no end in them any more.
    let freeze = |generation, ends: &[PartitionTarget]| Command::Freeze {
        generation,
        ends: ends.to_vec(),
    };
    bench.tell(freeze(1, &[target("sa", 0, 1), target("sb", 0, 1)]));
    bench.drain();
    assert_eq!(bench.ends(), [end(1, "sb", 0, 1)]);
}

#[test]
fn a_table_that_is_dropped_takes_its_topic_along() {
    let mut bench = Bench::new(1, &[("sa", 1), ("sb", 1)]);
    let both = [("sa", 0, 0), ("sb", 0, 0)];
    bench.tell(open(1, &[(0, "sa"), (1, "sb")], &both));
    bench.drain();
    bench.tell(Command::DropTable {
        generation: 1,
        table: 1,
    });
    bench.append("sb", 0, bench::broken());
    bench.append("sa", 0, read("a", 1, "", 0));
    assert_eq!(ids(&bench.drain()), [(1, 0, "sa", 0)]);
    assert_eq!(bench.offsets(), [("sa", 0, 1)]);
    assert!(bench.error().is_none());
}

#[test]
fn a_read_of_an_older_run_is_not_of_the_generation() {
    let mut bench = Bench::new(1, &[("sa", 1)]);
    let mut command = open(1, &[(0, "sa")], &[("sa", 0, 0)]);
    if let Command::Open { not_before_ms, .. } = &mut command {
        *not_before_ms = 1000;
    }
    bench.tell(command);
    // The last one does not say when it was read.
    for time_ms in [999, 1000, 0] {
        bench.append("sa", 0, read("a", time_ms, "run", time_ms));
    }
    let ops: Vec<Op> = bench.drain().iter().map(|row| row.op).collect();
    assert_eq!(ops, [Op::TooOld, Op::Read, Op::Read]);
    let seen = bench.cut().reads.remove(&1).expect("counted");
    assert_eq!((seen[0].rows, seen[0].first_ms), (2, 1000));
}

#[test]
fn a_mutation_partition_has_targets_of_two_generations() {
    let mut bench = Bench::new(2, &[("m", 2)]);
    bench.append("m", 0, bench::mutation(1, 500));
    bench.append("m", 0, bench::mutation(2, 700));
    bench.append("m", 0, bench::mutation(2, 600));
    bench.append("m", 1, bench::mutation(3, 0));
    bench.drain();
    let targets = |generation, ends: [u64; 2]| Command::Target {
        generation,
        targets: vec![target("m", 0, ends[0]), target("m", 1, ends[1])],
    };
    bench.tell(targets(1, [2, 1]));
    bench.tell(targets(2, [4, 1]));
    bench.drain();
    let first = [end(1, "m", 0, 2), end(1, "m", 1, 1), end(2, "m", 1, 1)];
    assert_eq!(bench.mutation_ends(), first);
    bench.append("m", 0, bench::mutation(4, 800));
    bench.drain();
    assert_eq!(bench.mutation_ends(), [end(2, "m", 0, 4)]);
    let cut = bench.mutation_cut();
    let times = cut.iter().map(|s| (s.first_source_ms, s.last_source_ms));
    assert_eq!(
        times.collect::<Vec<_>>(),
        [(Some(500), Some(800)), (None, None)]
    );
}
