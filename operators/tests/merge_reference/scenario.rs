//! A random run: a history, a policy, and a schedule, all from seeds.
//!
//! The contract that the snapshot keeps: it begins when its open has been told to every source
//! (open, then trigger), or as much earlier as `start_margin` and backdating allow; so it includes
//! every mutation that was stamped before the generation's window.

use crate::cluster::{Act, Cluster, Setup};
use crate::history::{History, Row};
use crate::random::Random;
use crate::variants::Planted;
use crate::world::{MERGE, MUTATIONS, READS, Shared, World};
use headwater_operators::control::Command;
use headwater_operators::decide::OnForgotten;
use headwater_operators::merge::MergeConfig;
use headwater_operators::retention::{KeepMarkers, Retention};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// Length of a tick.
pub(crate) const TICK_MS: u64 = 20;

/// What is fixed before a run.
#[derive(Clone)]
pub(crate) struct Plan {
    /// What happened at the source.
    pub(crate) history: Arc<History>,
    /// The dataflow.
    pub(crate) setup: Setup,
    /// The policy.
    pub(crate) keep: KeepMarkers,
    /// See `Retention`.
    pub(crate) start_margin_ms: u64,
    /// How many generations, and by how much each open is backdated.
    pub(crate) backdated_ms: Vec<u64>,
    /// Partitions of a snapshot topic.
    pub(crate) snapshot_partitions: usize,
    /// Whether the mutation topic is read so slowly that READs are ahead of it.
    pub(crate) slow_mutations: bool,
    /// Whether control is late at the mutation sources alone.
    pub(crate) mutations_lag: bool,
    /// Random actions before the rest is played out.
    pub(crate) actions: usize,
}

impl Plan {
    /// A random plan.
    pub(crate) fn random(seed: u64) -> Plan {
        let mut random = Random(seed);
        let history = Arc::new(History::random(&mut random));
        let keep = if random.percent(50) {
            KeepMarkers::Ttl {
                ttl_ms: TICK_MS * random.below(20) as u64,
            }
        } else {
            KeepMarkers::UntilReady {
                open_late_max_ms: TICK_MS * random.below(6) as u64,
            }
        };
        let start_margin_ms = TICK_MS * random.below(4) as u64;
        let backdated_ms = (0..random.between(1, 2))
            .map(|_| {
                if random.percent(70) {
                    0
                } else {
                    TICK_MS * random.below(8) as u64
                }
            })
            .collect();
        let on_forgotten = match random.percent(80) {
            true => OnForgotten::Quarantine,
            false => OnForgotten::Emit,
        };
        let setup = Setup {
            workers: random.between(1, 3),
            serialised: random.percent(40),
            merge: MergeConfig {
                tick_ms: TICK_MS,
                retention: Retention::new(keep, start_margin_ms),
                on_forgotten,
                rule: true,
                poison: Vec::new(),
                whole_row: |_| true,
            },
            memtable_markers_max: random.between(1, 8),
            fuel_max: random.below(20),
            inflight_bytes_max: random.between(100, 20_000),
            planted: Planted::Nothing,
        };
        Plan {
            history,
            setup,
            keep,
            start_margin_ms,
            backdated_ms,
            snapshot_partitions: random.between(1, 3),
            slow_mutations: random.percent(60),
            mutations_lag: random.percent(30),
            actions: random.between(50, 400),
        }
    }
}

/// What a run left.
pub(crate) struct Run {
    /// The world at its end.
    pub(crate) world: World,
    /// Window start of each generation.
    pub(crate) starts_ms: BTreeMap<u32, u64>,
    /// Every command with its tick.
    pub(crate) commands: Vec<(u64, Command)>,
}

/// The worker that reads a partition, and what it has not been given yet.
type Partition = (usize, VecDeque<(usize, Row)>);

struct Driver<'a> {
    plan: &'a Plan,
    random: Random,
    cluster: Cluster,
    shared: Shared,
    now_ms: u64,
    /// Not yet released, by role; each partition has a worker that reads it.
    topics: [Vec<Partition>; 2],
    opening: Option<u32>,
    opened: u32,
    starts_ms: BTreeMap<u32, u64>,
    commands: Vec<(u64, Command)>,
}

/// Runs `plan` under the schedule of `seed`.
pub(crate) fn run(plan: &Plan, seed: u64) -> Run {
    let mut random = Random(seed);
    let shared = Shared::new(plan.setup.workers, Arc::clone(&plan.history));
    let mutations = (0..plan.history.partitions)
        .map(|partition| {
            let worker = random.below(plan.setup.workers);
            (worker, plan.history.mutations(partition).into())
        })
        .collect();
    let mut driver = Driver {
        plan,
        cluster: Cluster::start(&plan.setup, &shared),
        random,
        shared: shared.clone(),
        now_ms: 0,
        topics: [mutations, Vec::new()],
        opening: None,
        opened: 0,
        starts_ms: BTreeMap::new(),
        commands: Vec::new(),
    };
    if driver.random.percent(60) {
        driver.open();
    }
    for _ in 0..plan.actions {
        driver.act();
    }
    driver.play_out();
    driver.shut_down();
    let Driver {
        cluster,
        starts_ms,
        commands,
        ..
    } = driver;
    cluster.end();
    let world = std::mem::take(&mut *shared.get());
    Run {
        world,
        starts_ms,
        commands,
    }
}

impl Driver<'_> {
    fn act(&mut self) {
        let workers = self.plan.setup.workers;
        match self.random.below(100) {
            0..27 => {
                let worker = self.random.below(workers);
                self.step(worker);
            }
            27..41 => {
                let worker = self.random.below(workers);
                let (port, lags) = match self.plan.mutations_lag {
                    true => (MUTATIONS, self.random.percent(80)),
                    false => (self.random.below(3), self.random.percent(30)),
                };
                self.shared.get().sides[worker].lags[port] = lags;
            }
            41..52 => {
                let ticks = self.random.between(1, 3) as u64;
                self.tick(ticks);
            }
            52..72 if self.plan.slow_mutations && self.random.percent(85) => {}
            52..72 => self.release(MUTATIONS, 6),
            72..86 => self.release(READS, 4),
            86..95 => {
                let worker = self.random.below(workers);
                let side = &mut self.shared.get().sides[worker];
                let more = (side.pushed - side.durable) as usize;
                side.durable += self.random.between(more / 2, more) as u64;
                if let Some(waker) = side.wakers.get(2) {
                    waker.activate().expect("the worker is up");
                }
            }
            95..98 => {
                let ttl_ms = TICK_MS * self.random.below(30) as u64;
                self.send(Command::SetTtl { ttl_ms });
            }
            _ => self.open(),
        }
        self.begin_snapshot();
    }

    fn step(&mut self, worker: usize) -> bool {
        self.cluster.act(worker, Act::Step)
    }

    fn tick(&mut self, ticks: u64) {
        self.now_ms += ticks * TICK_MS;
        self.shared.get().now_ms = self.now_ms;
        self.cluster.act(0, Act::Tick(self.now_ms));
    }

    fn send(&mut self, command: Command) {
        self.commands.push((self.now_ms, command.clone()));
        self.cluster.act(0, Act::Send(command));
    }

    /// Opens the next generation, now and then after closing the one before.
    fn open(&mut self) {
        if self.opening.is_some() || self.opened as usize == self.plan.backdated_ms.len() {
            return;
        }
        if self.opened > 0 && self.random.percent(50) {
            self.send(Command::Close {
                generation: self.opened,
                aborted: self.opened.is_multiple_of(2),
            });
            if self.random.percent(50) {
                let ticks = self.random.between(1, 4) as u64;
                self.tick(ticks);
            }
        }
        let backdated_ms = self.plan.backdated_ms[self.opened as usize];
        self.opened += 1;
        let opened_at_ms = self.now_ms.saturating_sub(backdated_ms);
        self.starts_ms.insert(
            self.opened,
            opened_at_ms.saturating_sub(self.plan.start_margin_ms),
        );
        self.opening = Some(self.opened);
        self.send(Command::Open {
            generation: self.opened,
            tables: vec![0],
            opened_at_ms,
            id: String::new(),
            topics: Vec::new(),
            partitions: Vec::new(),
            not_before_ms: 0,
        });
    }

    /// Triggers the snapshot once every source has been told.
    fn begin_snapshot(&mut self) {
        let Some(generation) = self.opening else {
            return;
        };
        let world = self.shared.get();
        let told = |opens: &std::collections::BTreeSet<u32>| opens.contains(&generation);
        if !world.sides.iter().all(|side| side.opens.iter().all(told)) {
            return;
        }
        let start_ms = self.starts_ms[&generation];
        let before = world.stamped.iter().filter(|(tick, _)| *tick < start_ms);
        let begin = before.map(|(_, index)| index + 1).max().unwrap_or(0);
        drop(world);
        self.opening = None;
        let history = &self.plan.history;
        let topic = history.snapshot(
            &mut self.random,
            generation,
            begin.max(history.unseen),
            self.plan.snapshot_partitions,
        );
        for partition in topic {
            let worker = self.random.below(self.plan.setup.workers);
            let rows = partition.into_iter().map(|row| (0, row)).collect();
            self.topics[READS].push((worker, rows));
        }
    }

    fn release(&mut self, role: usize, rows_max: usize) {
        if self.topics[role].is_empty() {
            return;
        }
        let topic = self.random.below(self.topics[role].len());
        let rows = self.random.between(1, rows_max);
        let wake = self.random.percent(80);
        let (worker, waiting) = &mut self.topics[role][topic];
        let side = &mut self.shared.get().sides[*worker];
        for row in waiting.drain(..rows.min(waiting.len())) {
            side.released[role].push_back(row);
        }
        if wake {
            side.wakers[role].activate().expect("the worker is up");
        }
    }

    /// Opens, releases and delivers all that is left, in random order.
    fn play_out(&mut self) {
        for round in 0.. {
            assert!(round < 2000, "the run does not come to its end");
            self.open();
            self.begin_snapshot();
            if round < 30 {
                (0..6).for_each(|_| self.act());
                continue;
            }
            for role in [MUTATIONS, READS] {
                self.release(role, 3);
            }
            self.tick(1);
            for worker in 0..self.plan.setup.workers {
                let side = &mut self.shared.get().sides[worker];
                side.durable = side.pushed;
                // The merge may be late to the end: READs then wait there while the job stops.
                side.lags = [false, false, self.random.percent(40)];
            }
            for _ in 0..self.plan.setup.workers {
                let worker = self.random.below(self.plan.setup.workers);
                self.step(worker);
            }
            let all_open = self.opened as usize == self.plan.backdated_ms.len();
            let none_waits = self
                .topics
                .iter()
                .flatten()
                .all(|(_, rows)| rows.is_empty());
            let world = self.shared.get();
            let mut released = world.sides.iter().flat_map(|side| &side.released);
            let delivered = released.all(VecDeque::is_empty);
            if all_open && self.opening.is_none() && none_waits && delivered {
                return;
            }
        }
    }

    /// Ends the control stream, sometimes while records are still on their way.
    fn shut_down(&mut self) {
        for side in &mut self.shared.get().sides {
            side.durable = u64::MAX;
        }
        if self.random.percent(50) {
            for side in &mut self.shared.get().sides {
                side.lags[MERGE] = false;
            }
            for _ in 0..20 {
                self.tick(1);
                (0..self.plan.setup.workers).for_each(|worker| {
                    self.step(worker);
                });
            }
        }
        self.send(Command::Shutdown);
        if self.random.percent(50) {
            self.tick(1);
        }
        self.cluster.act(0, Act::Close);
        for round in 0..1000 {
            for side in &mut self.shared.get().sides {
                side.lags[MERGE] &= round < 3;
            }
            let alive = (0..self.plan.setup.workers).map(|worker| self.step(worker));
            if alive.filter(|alive| *alive).count() == 0 {
                return;
            }
            for side in &self.shared.get().sides {
                for waker in &side.wakers {
                    // A sink may be gone already.
                    let _ = waker.activate();
                }
            }
        }
        panic!("the dataflow does not end: somebody keeps a capability");
    }
}
