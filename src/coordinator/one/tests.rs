//! A snapshot connector that overtakes itself, dies, and begins anew, against a job that restarts:
//! the end is never taken for reached before it is, and what is waited for has a name.
//!
//! The model: each run of the snapshot appends its READs to the partitions in any order, and its
//! notifications to a topic of their own, which nothing orders against them.

use super::{Moment, One, reached};
use crate::checkpoint::manifest::GenerationState;
use crate::config::choices::SourceFinished;
use crate::coordinator::arrivals::Arrivals;
use crate::generation::step::{Next, next, progress};
use crate::generation::witness::Seen;
use crate::generation::{Promotion, ReadsSeen, Scan, Scanned, Sources, Stage};
use crate::job::Readiness;
use crate::table::Table;
use proptest::prelude::{any, prop, proptest};
use std::collections::BTreeMap;

const PARTITIONS: usize = 3;
const ROWS: u64 = 5;

/// What may happen, by number.
#[derive(Clone, Copy, Debug)]
enum Act {
    /// The connector appends a READ to a partition.
    Append(usize),
    /// It tells what it does next: STARTED, the scan, COMPLETED; maybe it is lost.
    Tell { lost: bool },
    /// It dies, and does the whole snapshot again.
    Again,
    /// Headwater reads one record of a partition.
    Read(usize),
    /// A checkpoint becomes durable.
    Save,
    /// The job restarts from the last one.
    Restart,
    /// The last notification is seen once more.
    Repeat,
}

fn act(byte: u8) -> Act {
    let partition = usize::from(byte / 16) % PARTITIONS;
    match byte % 16 {
        0..=4 => Act::Append(partition),
        5 | 6 => Act::Tell { lost: false },
        7 => Act::Tell { lost: byte > 224 },
        8..=11 => Act::Read(partition),
        12 | 13 => Act::Save,
        14 if byte < 128 => Act::Restart,
        14 => Act::Repeat,
        _ => Act::Again,
    }
}

struct World {
    /// The run of each READ, by partition.
    topic: [Vec<u32>; PARTITIONS],
    /// READs that the present run has appended.
    appended: u64,
    run: u32,
    /// How far the present run has told.
    told: usize,
    scan: Scan,
    /// How far Headwater has read.
    next_offset: [usize; PARTITIONS],
    one: One,
    durable: (GenerationState, [usize; PARTITIONS]),
    ends: Option<[usize; PARTITIONS]>,
    tables: Vec<Table>,
    readiness: Readiness,
}

fn one(state: GenerationState) -> One {
    let partitions = (0..).take(PARTITIONS).map(|p: u32| ("snap".to_owned(), p));
    One::new(
        state,
        Arrivals::of(partitions),
        Arrivals::of([("app".to_owned(), 0)]),
    )
}

impl World {
    fn new() -> World {
        let state = GenerationState {
            number: 1,
            id: "g1".to_owned(),
            tables: vec![0],
            topics: [(0, "snap".to_owned())].into(),
            sources: Sources {
                connector: None,
                notifications: Some("told".to_owned()),
            },
            reached: vec![reached(Stage::Open, (0, 0), (None, None))],
            ..GenerationState::default()
        };
        World {
            topic: Default::default(),
            appended: 0,
            run: 1,
            told: 0,
            scan: Scan::default(),
            next_offset: [0; PARTITIONS],
            one: one(state.clone()),
            durable: (state, [0; PARTITIONS]),
            ends: None,
            tables: vec![Table {
                name: "public.hello".to_owned(),
                mutations: "app".to_owned(),
                snapshot: "snap".to_owned(),
                key: None,
            }],
            readiness: Readiness {
                source_finished: SourceFinished::Counted,
                ..Readiness::default()
            },
        }
    }

    fn act(&mut self, act: Act) {
        match act {
            Act::Append(partition) if self.appended < ROWS => {
                self.topic[partition].push(self.run);
                self.appended += 1;
            }
            Act::Tell { lost } if self.told < 3 => {
                self.told += 1;
                if !lost {
                    self.notice(self.told);
                }
            }
            Act::Repeat if self.told > 0 => self.notice(self.told),
            Act::Again if self.run < 4 && self.told < 3 => {
                self.run += 1;
                (self.appended, self.told) = (0, 0);
            }
            Act::Read(partition) if self.next_offset[partition] < self.topic[partition].len() => {
                self.next_offset[partition] += 1;
            }
            Act::Save => self.save(),
            Act::Restart => {
                self.one = one(self.durable.0.clone());
                self.next_offset = self.durable.1;
                // Sources at a frozen end say so again.
                self.ends = self.ends.filter(|_| self.one.frozen);
            }
            _ => {}
        }
        self.step();
    }

    /// As the fold of notifications has it.
    fn notice(&mut self, what: usize) {
        let scan = &mut self.scan;
        let at = Some(i64::from(self.run) * 100 + i64::try_from(what).expect("small"));
        match what {
            // The same STARTED once more.
            1 if scan.started_ms == at => {}
            1 => {
                let starts = scan.starts + 1;
                *scan = Scan {
                    starts,
                    started_ms: at,
                    ..Scan::default()
                };
            }
            2 => {
                let (rows, status) = (ROWS, "SUCCEEDED".to_owned());
                let scanned = Scanned { rows, status };
                scan.scanned.insert("public.hello".to_owned(), scanned);
            }
            _ if scan.starts == 0 => scan.completed_early = true,
            _ => scan.completed_ms = at,
        }
    }

    /// A manifest: READs are counted where offsets are.
    fn save(&mut self) {
        let mut runs: BTreeMap<u32, u64> = BTreeMap::new();
        for (topic, next) in self.topic.iter().zip(self.next_offset) {
            for run in &topic[..next] {
                *runs.entry(*run).or_default() += 1;
            }
        }
        let seen = runs.into_iter().map(|(run, rows)| ReadsSeen {
            run: format!("{:04}", 9 - run),
            rows,
            last_ms: i64::from(run) * 100,
            ..ReadsSeen::default()
        });
        self.one.state.reads = seen.collect();
        self.durable = (self.one.state.clone(), self.next_offset);
    }

    fn step(&mut self) {
        let moment = Moment {
            tables: &self.tables,
            readiness: &self.readiness,
            now_ms: 0,
            wall_ms: 0,
            behind: false,
            rule_off: false,
            paused: false,
            stuck: None,
            idle_ms: None,
        };
        self.one.seen = Seen {
            scan: Some(self.scan.clone()),
            ..Seen::default()
        };
        self.one.look(&moment);
        if let Some(ends) = self.ends {
            for (partition, end) in (0..).zip(ends) {
                if self.next_offset[partition as usize] >= end {
                    let topic = "snap".to_owned();
                    self.one.snapshot.reached(topic, partition, 1);
                }
            }
        }
        let facts = self.one.facts(&moment, |_| true, |_| true);
        let state = &self.one.state;
        match next(state.stage, progress(state), &facts) {
            Next::Freeze(SourceFinished::Counted) => {
                let rows =
                    |run| self.topic.iter().flatten().filter(|of| **of == run).count() as u64;
                let whole = (1..=self.run).any(|run| rows(run) == ROWS);
                assert!(whole, "no run is there as a whole: {:?}", self.topic);
                self.ends = Some([0, 1, 2].map(|partition| self.topic[partition].len()));
                self.one.frozen = true;
                self.one
                    .reach(Stage::SourceFinished, (0, 0), (Some("counted"), None));
            }
            Next::Consume => {
                let read: usize = self.next_offset.iter().sum();
                let ends: usize = self.ends.expect("they are frozen").iter().sum();
                assert!(read >= ends, "{read} of {ends}");
                self.one.reach(Stage::TopicConsumed, (0, 0), (None, None));
            }
            Next::Nothing | Next::TakeCutoff => {}
            other => panic!("{other:?}"),
        }
        let shown = self.one.shown(&moment, facts);
        let wait = shown.waits.expect("it is not ready");
        assert!(wait.text.len() > 20, "{wait:?}");
    }
}

proptest! {
    #[test]
    fn no_order_ends_a_snapshot_too_early(
        bytes in prop::collection::vec(any::<u8>(), 0..400),
    ) {
        let mut world = World::new();
        bytes.iter().for_each(|byte| world.act(act(*byte)));
    }

    /// When everything has come and was read, the snapshot is consumed, whatever came before.
    #[test]
    fn nothing_hangs_when_the_last_run_was_whole(
        bytes in prop::collection::vec(any::<u8>(), 0..200),
    ) {
        let mut world = World::new();
        bytes.iter().for_each(|byte| world.act(act(*byte)));
        if world.ends.is_none() {
            // The connector does it once more, and nothing is lost.
            world.run += 1;
            (world.appended, world.told) = (0, 0);
            for partition in [0, 1, 2, 0, 1] {
                world.act(Act::Append(partition));
            }
            (0..3).for_each(|_| world.act(Act::Tell { lost: false }));
        }
        for _ in 0..2 {
            for partition in 0..PARTITIONS {
                (0..200).for_each(|_| world.act(Act::Read(partition)));
            }
            world.act(Act::Save);
        }
        proptest::prop_assert_eq!(progress(&world.one.state), Stage::TopicConsumed);
    }
}

/// A letter came while the hook of its promotion ran: when it is ready again, its target is in use.
#[test]
fn what_was_taken_back_while_its_hook_ran_ends_promoted() {
    let promotion = |demoted: bool| Promotion {
        done_ms: Some(7),
        by: "me".to_owned(),
        demoted: demoted.then(|| (8, "me".to_owned(), "slow".to_owned())),
        ..Promotion::default()
    };
    for (promotion, stage) in [
        (None, Stage::Ready),
        (Some(Promotion::default()), Stage::Ready),
        (Some(promotion(true)), Stage::Ready),
        (Some(promotion(false)), Stage::Promoted),
    ] {
        let passed = reached(Stage::CaughtUp, (3, 3), (Some("seen"), Some("all of it")));
        let mut of = one(GenerationState {
            stage: Stage::Ready,
            passed: Some(passed),
            promotion: promotion.clone(),
            ..GenerationState::default()
        });
        of.take_back((5, 5));
        let back = of.state.reached.last().expect("it was taken back");
        assert_eq!(
            (back.stage, back.evidence.as_deref()),
            (Stage::CaughtUp, Some("seen"))
        );
        assert!(
            back.not_proven
                .as_deref()
                .is_some_and(|left| left.ends_with("; all of it"))
        );
        of.ready(9, (6, 6));
        assert_eq!(of.state.stage, stage, "{promotion:?}");
    }
}
