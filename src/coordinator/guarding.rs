//! The retention guard, at work: what it sees, and what becomes of what it says.
//!
//! Invariant: it stops the job only by a clean stop with a last checkpoint, or before a row is
//! lost; it never lets a READ pass.

use super::Coordinator;
use super::one::One;
use crate::error::Error;
use crate::gauges;
use crate::generation::Stage;
use crate::generation::step::progress;
use crate::guard::alarms::{Inputs, Policy, Rebuild, TopicUse, alarms};
use crate::guard::budget::{Budget, rate};
use crate::guard::limit::{self, Growth, Limit, decide, growth_words};
use crate::guard::start::{Asked, PartitionStart, Verdict, earliest_read_ms, judge_start};
use crate::job::{Alarm, ShownGeneration, Wait};
use crate::status::Counts;
use crate::table::Role;
use headwater_operators::control::Command;
use headwater_operators::retention::KeepMarkers;

/// How often starts are judged, in job time.
const EVERY_MS: u64 = 500;

/// What the guard remembers in a run.
#[derive(Default)]
pub(super) struct Guarding {
    pub(super) limit: Limit,
    growth: Growth,
    /// Where mutation partitions were read from, with their first source times.
    pub(super) starts: Vec<PartitionStart>,
    /// What is said while READs wait for the marker limit.
    pub(super) stuck: Option<Wait>,
    /// Starts are judged again at this job time.
    pub(super) next_ms: u64,
    /// How far the start of each generation is proven, by number.
    proofs: Vec<(u32, Verdict)>,
}

impl Guarding {
    pub(super) fn new(starts: Vec<PartitionStart>) -> Guarding {
        Guarding {
            starts,
            ..Guarding::default()
        }
    }
}

impl Coordinator {
    /// Looks, and acts.
    ///
    /// # Errors
    /// When mutations may be missing between a snapshot and the first one that was read.
    pub(super) fn guard(
        &mut self,
        counts: &Counts,
        now_ms: u64,
        commands: &mut Vec<Command>,
    ) -> Result<(), Error> {
        let waits = self.read_control.paused || self.held_for_markers;
        for of in &mut self.generations {
            if matches!(progress(&of.state), Stage::Open | Stage::SourceFinished) {
                of.state.rates.sample(now_ms, of.counts.read, waits);
            }
        }
        self.limit_markers(counts, now_ms, commands);
        self.limit_letters();
        if now_ms < self.guarding.next_ms {
            return Ok(());
        }
        self.guarding.next_ms = now_ms + EVERY_MS;
        for start in &mut self.guarding.starts {
            let place = (start.topic.clone(), start.partition);
            if let Some((first_ms, _)) = counts.live.get(&place) {
                start.mutation(*first_ms);
            }
        }
        self.guarding.proofs = self
            .generations
            .iter()
            .filter(|of| of.state.stage.takes_reads())
            .map(|of| (of.state.number, self.start_of(of)))
            .collect();
        let refused = self
            .guarding
            .proofs
            .iter()
            .find_map(|(number, of)| match of {
                Verdict::Refuse(error) => Some((*number, error.clone())),
                _ => None,
            });
        match refused {
            // What a person has opened beside others must not end them.
            Some((number, error)) if number > 1 => self.give_up(number, &error, now_ms, commands),
            Some((_, error)) => return Err(error),
            None => {}
        }
        Ok(())
    }

    /// A later generation whose start cannot be right.
    fn give_up(&mut self, number: u32, why: &Error, now_ms: u64, commands: &mut Vec<Command>) {
        let at = (now_ms, self.wall.now_ms());
        let why = format!("start position: {}", why.text.replace('\n', " "));
        let mut all = self.generations.iter_mut();
        if let Some(of) = all.find(|of| of.state.number == number) {
            of.reach(Stage::Aborted, at, (Some(&why), None));
            commands.push(Command::Close {
                generation: number,
                aborted: true,
            });
            self.save_wanted = true;
        }
    }

    fn start_of(&self, of: &One) -> Verdict {
        let partitions = of.mutations.expected();
        let starts = self.guarding.starts.iter();
        let starts = starts.filter(|at| partitions.contains(&(at.topic.clone(), at.partition)));
        let starts: Vec<PartitionStart> = starts.cloned().collect();
        let began = of.state.began.as_ref().map(|(began_ms, _)| *began_ms);
        let read = earliest_read_ms(&of.state.reads);
        let earliest = [began, read, of.state.scan.first_started_ms];
        let asked = Asked {
            earliest_read_ms: earliest.into_iter().flatten().min(),
            margin_ms: self.settings.start_margin_ms,
            replica_lag_ms: self.settings.guard.replica_lag_ms.unwrap_or(0),
            clock_skew_ms: self.settings.readiness.clock_skew_max_ms,
            connector_seen_ms: of.seen.heartbeat_first_ms,
            finished: progress(&of.state) >= Stage::TopicConsumed,
        };
        judge_start(&starts, &asked)
    }

    /// The marker limit, as a person or the configuration has it.
    fn markers_max(&self) -> u64 {
        let set = self.read_control.markers_max;
        set.unwrap_or(self.settings.guard.markers_max)
    }

    /// A converter that was changed makes a letter of every mutation.
    fn limit_letters(&mut self) {
        let live = self
            .generations
            .iter()
            .filter(|of| !of.state.stage.is_over());
        let lost = live.map(|of| of.lost).max().unwrap_or(0);
        let max = self.settings.guard.dead_letters_max;
        if lost > max && self.stopped_for.is_none() {
            self.stopped_for = Some(format!(
                "too many dead letters: {lost} that nobody has accepted, of at most {max} \
                 (`dead_letter.records_max`); look at them, and mend what writes to the topic"
            ));
        }
    }

    fn limit_markers(&mut self, counts: &Counts, now_ms: u64, commands: &mut Vec<Command>) {
        self.guarding.growth.sample(now_ms, counts.markers);
        let before = self.guarding.limit;
        let limit = decide(before, counts.markers, self.markers_max());
        self.guarding.limit = limit;
        let held = limit >= Limit::Wait;
        let open = self.generations.iter().rev();
        let id = open
            .filter(|of| of.state.stage.takes_reads())
            .map(|of| of.state.id.as_str())
            .next();
        let max = self.markers_max();
        self.guarding.stuck = id
            .filter(|_| held)
            .map(|id| limit::wait(counts.markers, max, &self.guarding.growth, id));
        if held != self.held_for_markers {
            self.held_for_markers = held;
            commands.push(self.read_rate());
        }
        if limit == Limit::StopCleanly && self.stopped_for.is_none() {
            let growth = growth_words(self.guarding.growth.per_hour());
            self.stopped_for = Some(format!(
                "too many markers: {} of at most {} (`limits.markers_max`), {growth}",
                counts.markers,
                self.markers_max()
            ));
        }
    }

    /// What the generation needs, and from what that is reckoned.
    pub(super) fn budget(
        &self,
        of: &ShownGeneration,
        now_ms: u64,
        lag: &[gauges::TopicLag],
    ) -> Budget {
        let read = of.state.reads.iter().map(|seen| seen.rows).sum::<u64>();
        let read = read.max(of.counts.read);
        let left = match of.reads_total {
            Some(total) => Some(total.saturating_sub(read)),
            None => {
                let topics = lag.iter().filter(|lag| {
                    let mut own = of.state.topics.values();
                    own.any(|topic| *topic == lag.topic)
                });
                topics.map(|lag| lag.records).sum()
            }
        };
        let older = self.generations.iter().rev();
        let last = older
            .filter(|other| other.state.number < of.state.number)
            .map(|other| &other.state.rates)
            .next();
        let rate = rate(
            &of.state.rates,
            last,
            self.settings.guard.rows_per_second_min,
        );
        let elapsed_ms = now_ms.saturating_sub(of.state.opened_at_ms);
        Budget::of(elapsed_ms, left, rate, self.settings.start_margin_ms)
    }

    /// The least ttl that is admitted.
    pub(super) fn ttl_ms_min(&self) -> Option<u64> {
        let shown = self.panel.shown();
        let needed = shown.gauges.budget.map(|budget| budget.needed_ms);
        needed.filter(|_| self.settings.guard.require_budget)
    }

    /// What a person should look at.
    pub(super) fn alarms(
        &self,
        counts: &Counts,
        now_ms: u64,
        shown: &[ShownGeneration],
        lag: &[gauges::TopicLag],
    ) -> Vec<Alarm> {
        let rebuilds = shown.iter().filter(|of| !of.state.stage.is_over());
        let rebuilds = rebuilds.map(|of| {
            let proofs = self.guarding.proofs.iter();
            let mut proof = proofs.filter(|(number, _)| *number == of.state.number);
            let window_start = of
                .state
                .opened_at_ms
                .saturating_sub(self.settings.start_margin_ms);
            Rebuild {
                budget: Some(self.budget(of, now_ms, lag)),
                dead_letters: of.dead_letters,
                unsafe_from_start: self
                    .forgotten_through
                    .is_some_and(|tick| tick >= window_start && of.counts.unsafe_reads == 0)
                    && of.state.stage == Stage::Open,
                start: proof
                    .next()
                    .map_or(Verdict::Proven, |(_, verdict)| verdict.clone()),
                ..Rebuild::of(&of.state, now_ms, self.settings.start_margin_ms)
            }
        });
        let checkpoint = self.checkpointer.as_ref().map(|of| {
            let last_ms = of.saved().map_or(0, |saved| saved.at_ms);
            (
                now_ms.saturating_sub(last_ms.max(self.began_ms)),
                of.interval_ms(),
            )
        });
        let guard = &self.settings.guard;
        alarms(&Inputs {
            policy: match self.keep_markers() {
                KeepMarkers::Ttl { ttl_ms } => Policy::Ttl { ttl_ms },
                KeepMarkers::UntilReady { .. } => Policy::UntilReady {
                    rebuild_alarm_after_ms: guard.rebuild_alarm_after_ms,
                },
            },
            markers: counts.markers,
            markers_max: self.markers_max(),
            limit: self.guarding.limit,
            markers_per_hour: self.guarding.growth.per_hour(),
            rebuilds: rebuilds.collect(),
            topics: self.topics_in_use(counts, lag),
            wall_ms: i64::try_from(self.wall.now_ms()).unwrap_or(i64::MAX),
            reads_decided: counts.reads_emitted + counts.reads_dropped_marker,
            reads_matched: counts.reads_dropped_marker,
            checkpoint,
            replica_lag_ms: guard.replica_lag_ms,
            reads_paused: self.read_control.paused,
            rule_off: !self.settings.rule,
        })
    }

    fn topics_in_use(&self, counts: &Counts, lag: &[gauges::TopicLag]) -> Vec<TopicUse> {
        let Some(highs) = &self.highs else {
            return Vec::new();
        };
        let topics = lag.iter().map(|lag| {
            let behind = lag.records.is_some_and(|records| records > 0);
            let next_record_ms = match lag.role {
                Role::Mutations => {
                    // One that is idle and read to its end has nothing that could be deleted.
                    let unread = |partition: &u32| {
                        let place = (lag.role, lag.topic.clone(), *partition);
                        let next = counts.next_offsets.get(&place).copied().unwrap_or(0);
                        let ranges = highs.of(&lag.topic).unwrap_or_default();
                        let range = ranges.get(*partition as usize);
                        range.is_some_and(|range| range.high > next)
                    };
                    let of = counts
                        .live
                        .iter()
                        .filter(|((topic, partition), _)| *topic == lag.topic && unread(partition));
                    of.map(|(_, (_, last_ms))| *last_ms).min()
                }
                Role::Snapshot => {
                    let of = self.generations.iter().filter(|of| {
                        let mut topics = of.state.topics.values();
                        topics.any(|topic| *topic == lag.topic)
                    });
                    let last = of.flat_map(|of| of.state.reads.iter().map(|seen| seen.last_ms));
                    last.max()
                }
            };
            TopicUse {
                topic: lag.topic.clone(),
                role: lag.role,
                settings: highs.settings(&lag.topic),
                next_record_ms: next_record_ms.filter(|ms| behind && *ms > 0),
            }
        });
        topics.collect()
    }

    /// What the starts leave open, a sentence each.
    pub(super) fn starts_not_proven(&self) -> Vec<String> {
        let proofs = self.guarding.proofs.iter();
        let texts = proofs.filter_map(|(_, verdict)| match verdict {
            Verdict::NotProven(text) => Some(text.clone()),
            _ => None,
        });
        texts.collect()
    }
}

/// For whoever looks at a job.
pub(super) fn gauge(budget: &Budget) -> gauges::Budget {
    gauges::Budget {
        needed_ms: budget.budget_ms.unwrap_or(0),
        elapsed_ms: budget.elapsed_ms,
        left_ms: budget.left_ms(),
        rows_left: budget.rows_left,
        rows_per_second: Some(budget.rate.rows_per_hour / 3600),
        rate_from: budget.rate.from.words(),
    }
}
