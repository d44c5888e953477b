//! Cuts at any moment, restarts on any number of workers: READs and source times are counted as if
//! there had been one run.

use super::bench::{Bench, broken, mutation, open, read, tables};
use crate::checkpoint::manifest::tests::manifest;
use crate::checkpoint::manifest::{GenerationState, Manifest};
use crate::checkpoint::resume;
use crate::feed::add_up;
use crate::generation::{ReadsSeen, Stage};
use crate::store::Store;
use headwater_operators::control::Command;
use headwater_operators::record::Op;
use proptest::prelude::{any, prop, proptest};

/// Generation 1 of table a on `sa`, generation 2 of table b on `sb`.
fn generations() -> Vec<GenerationState> {
    let generation = |number: u32, table: u16, topic: &str| GenerationState {
        number,
        id: format!("g{number}"),
        tables: vec![table],
        topics: [(table, topic.to_owned())].into(),
        stage: Stage::Open,
        ..GenerationState::default()
    };
    vec![generation(1, 0, "sa"), generation(2, 1, "sb")]
}

/// What READs were appended, by generation, as one count would have them.
fn appended(of: &Bench, rows: usize) -> [Vec<ReadsSeen>; 2] {
    let mut seen = [Vec::new(), Vec::new()];
    for row in 0..rows {
        let (topic, name, table) = [("sa", "a", 0), ("sb", "b", 1)][row % 2];
        let (run, time_ms) = (format!("run {}", row % 5), 1000 + row as i64);
        of.append(topic, row % 3, read(name, row as i64, &run, time_ms));
        of.append("m", row % 2, mutation(row as i64, time_ms));
        let one = ReadsSeen {
            table,
            run,
            rows: 1,
            first_ms: time_ms,
            last_ms: time_ms,
            last_marker: false,
        };
        add_up(&mut seen[row % 2], &[one]);
    }
    seen
}

/// The next manifest, as a checkpoint at this moment would make it.
fn checkpoint(bench: &mut Bench, before: &Manifest) -> Manifest {
    let mut next = before.clone();
    let cut = bench.cut();
    next.offsets = cut.partitions;
    next.offsets.extend(bench.mutation_cut());
    next.offsets
        .sort_by_key(|state| (state.topic.clone(), state.partition));
    for generation in &mut next.generations {
        if let Some(seen) = cut.reads.get(&generation.number) {
            add_up(&mut generation.reads, seen);
        }
        generation.reads.sort_by_key(|one| one.run.clone());
    }
    next
}

/// A bench that goes on from a manifest.
fn restart(bench: Bench, from: &Manifest, workers: usize) -> Bench {
    let resumed = resume(&Store::memory(), from, &tables(), 0..workers, workers);
    let resumed = resumed.expect("restored");
    let mut bench = Bench::on(bench.topics, workers, &resumed.source_times);
    for command in resumed.commands {
        bench.tell(command);
    }
    bench
}

proptest! {
    #[test]
    fn reads_are_counted_once(
        steps in prop::collection::vec((1..5_usize, 0..6_usize, any::<bool>()), 1..12),
    ) {
        let mut bench = Bench::new(1, &[("sa", 3), ("sb", 3), ("m", 2)]);
        let expected = appended(&bench, 60);
        let mut saved = manifest();
        saved.markers.runs.clear();
        saved.generations = generations();
        saved.offsets = ["sa", "sb"].into_iter().flat_map(|topic| {
            (0..3).map(move |partition| crate::checkpoint::manifest::PartitionState {
                role: crate::table::Role::Snapshot,
                topic: topic.to_owned(),
                partition,
                next_offset: 0,
                end: None,
                first_source_ms: None,
                last_source_ms: None,
            })
        }).collect();
        for (workers, polls, save) in steps {
            bench = restart(bench, &saved, workers);
            // A few READs at a time; what is read behind the last cut is read again.
            for _ in 0..polls {
                bench.poll(0, 300);
            }
            if save {
                saved = checkpoint(&mut bench, &saved);
                bench.poll(0, 300);
            }
        }
        bench = restart(bench, &saved, 2);
        let rows = bench.drain();
        assert!(rows.iter().all(|row| row.op == Op::Read));
        let last = checkpoint(&mut bench, &saved);
        for (generation, mut expected) in last.generations.into_iter().zip(expected) {
            expected.sort_by_key(|one| one.run.clone());
            assert_eq!(generation.reads, expected);
        }
    }
}

#[test]
fn source_times_outlive_a_restart() {
    let mut bench = Bench::new(2, &[("m", 2)]);
    let mut saved = manifest();
    saved.markers.runs.clear();
    bench.append("m", 0, mutation(1, 500));
    bench.append("m", 1, mutation(1, 900));
    bench.drain();
    saved = checkpoint(&mut bench, &saved);
    // Behind the cut: not in it.
    bench.append("m", 1, mutation(1, 950));
    let times = |of: &Manifest| -> Vec<_> {
        let states = of.offsets.iter().filter(|state| state.topic == "m");
        states
            .map(|s| (s.first_source_ms, s.last_source_ms))
            .collect()
    };
    let both = [(Some(500), Some(500)), (Some(900), Some(900))];
    assert_eq!(times(&saved), both);
    let mut bench = restart(bench, &saved, 1);
    assert_eq!(times(&checkpoint(&mut bench, &saved)), both);
    bench.append("m", 0, mutation(1, 400));
    bench.drain();
    let after = checkpoint(&mut bench, &saved);
    assert_eq!(
        times(&after),
        [(Some(500), Some(500)), (Some(900), Some(950))]
    );
}

/// Who waits for a replay would wait for ever for a partition that nobody reads any more.
#[test]
fn what_is_left_is_not_waited_for() {
    for what in ["abort", "drop", "fail"] {
        let mut bench = Bench::new(1, &[("sa", 1), ("sb", 1)]);
        bench.append("sa", 0, read("a", 1, "", 0));
        bench.replay("sb", 2);
        bench.tell(open(1, &[(1, "sb")], &[("sb", 0, 0)]));
        bench.tell(open(2, &[(0, "sa")], &[("sa", 0, 0)]));
        bench.drain();
        assert!(bench.replayed().is_empty());
        match what {
            "abort" => bench.tell(Command::Close {
                generation: 1,
                aborted: true,
            }),
            "drop" => bench.tell(Command::DropTable {
                generation: 1,
                table: 1,
            }),
            _ => {
                bench.tell(Command::Close {
                    generation: 1,
                    aborted: false,
                });
                bench.append("sb", 0, broken());
                bench.drain();
            }
        }
        bench.drain();
        assert_eq!(bench.replayed(), [("sb".to_owned(), 2)], "{what}");
        assert!(bench.error().is_none(), "{what}");
    }
}
