//! What generations do next, done: commands, questions, and new stages.
//!
//! Invariant: a stage is come into in the order of its commands: ends are frozen by the command
//! that is sent at that very step.

use super::one::{Moment, One, reached};
use super::questions::Question;
use super::{Coordinator, Observed};
use crate::checkpoint::manifest::GenerationState;
use crate::dead_letter;
use crate::error::Error;
use crate::generation::finished;
use crate::generation::live;
use crate::generation::step::{Next, next, progress};
use crate::generation::{Cutoff, Stage};
use crate::job::Finish;
use crate::status::Counts;
use crate::table::Role;
use headwater_operators::control::{Command, PartitionTarget};

/// Ends that a person gave and that are not there yet are asked for again after so much job time.
const ASK_AGAIN_MS: u64 = 1_000;

impl Coordinator {
    /// What is the same for all generations now.
    pub(super) fn moment(&self, counts: &Counts, now_ms: u64) -> Moment<'_> {
        Moment {
            tables: &self.tables,
            readiness: &self.settings.readiness,
            now_ms,
            wall_ms: self.wall.now_ms(),
            // Nothing is known before all workers have reported.
            behind: counts.behind || !self.all_reported,
            rule_off: !self.settings.rule,
            paused: self.read_control.paused || self.held_for_markers,
            stuck: self.guarding.stuck.as_ref(),
            idle_ms: match self.settings.finish {
                Finish::Idle { idle_ms } => Some(idle_ms),
                Finish::Never | Finish::EndRecords => None,
            },
        }
    }

    /// Takes in what was counted and what is seen outside.
    pub(super) fn look(&mut self, counts: &Counts, now_ms: u64) {
        self.forgotten_through = counts.forgotten_through_ms.max(self.forgotten_through);
        let mut generations = std::mem::take(&mut self.generations);
        let moment = self.moment(counts, now_ms);
        let mut letters = self.dead_letters_before.clone();
        dead_letter::add_up(&mut letters, &counts.dead_letters);
        for of in &mut generations {
            of.lost = dead_letter::unaccepted(&letters, &of.state);
            if let Some(counted) = counts.generations.get(&of.state.number) {
                of.counts = counted.clone();
            }
            let partitions = of.mutations.expected().iter();
            let latest = partitions.map(|at| counts.live.get(at).map(|(_, last_ms)| *last_ms));
            of.delivered_ms = latest.collect();
            self.watch(of);
            if let Some(witness) = &self.witness
                && of.watched_since.is_some()
            {
                of.seen = witness.seen(&of.state.id);
            }
            of.look(&moment);
        }
        self.dead_letters = letters;
        self.generations = generations;
    }

    /// Moves every generation on.
    pub(super) fn stages(
        &mut self,
        (tick, now_ms): (u64, u64),
        counts: &Counts,
        observed: &Observed<'_>,
        commands: &mut Vec<Command>,
    ) -> Result<(), Error> {
        for (question, ends) in self.questions.answers()? {
            self.answered(&question, ends, tick, commands);
        }
        for index in 0..self.generations.len() {
            // More than one may be passed at a step.
            for _ in 0..Stage::ALL.len() {
                let moment = self.moment(counts, now_ms);
                let of = &self.generations[index];
                let facts = of.facts(
                    &moment,
                    |tick| !observed.read_progress.less_equal(&tick),
                    |tick| !observed.durable.less_equal(&tick),
                );
                let what = next(of.state.stage, progress(&of.state), &facts);
                let at = (tick, moment.wall_ms);
                if !self.act_on(index, what, at, commands) {
                    break;
                }
            }
        }
        Ok(())
    }

    /// Does it; whether the generation has come into another stage.
    fn act_on(
        &mut self,
        index: usize,
        what: Next,
        at: (u64, u64),
        commands: &mut Vec<Command>,
    ) -> bool {
        let moment_ms = at.0;
        let of = &mut self.generations[index];
        // Evidence that was there when the ends were asked for must be there when they are known.
        of.finished = None;
        match what {
            Next::Nothing => return false,
            Next::Spoil => {
                let whys = ["rule_off", "forgotten_markers"];
                let why = whys[usize::from(self.settings.rule)];
                of.reach(Stage::Unsafe, at, (Some(why), None));
            }
            Next::Freeze(kind) => {
                // The list of partitions is read again, whatever was said of their ends.
                of.finished = Some(kind);
                if moment_ms >= of.ask_after_ms {
                    self.ask(index, Role::Snapshot);
                }
                return false;
            }
            Next::Consume => of.reach(Stage::TopicConsumed, at, (None, None)),
            Next::TakeCutoff => {
                self.cutoff(index, at.1);
                return false;
            }
            Next::SampleTargets(_) if self.questions.asked(of.state.number, Role::Mutations) => {
                return false;
            }
            Next::SampleTargets(kind) => {
                let why = (Some(kind.word()), live::not_proven(kind));
                of.state.passed = Some(reached(Stage::CaughtUp, at, why));
                self.ask(index, Role::Mutations);
                return false;
            }
            Next::CatchUp => {
                let passed = of.state.passed.clone().unwrap_or_default();
                let why = (passed.evidence.as_deref(), passed.not_proven.as_deref());
                of.reach(Stage::CaughtUp, at, why);
            }
            Next::Save => {
                self.save_wanted = true;
                return false;
            }
            Next::Ready(number) => {
                of.ready(number, at);
                commands.push(Command::Close {
                    generation: of.state.number,
                    aborted: false,
                });
                self.save_wanted = true;
            }
            Next::TakeBack => {
                of.take_back(at);
            }
        }
        true
    }

    /// The ends of a snapshot, or the targets of mutations, are known.
    fn answered(
        &mut self,
        question: &Question,
        ends: Vec<PartitionTarget>,
        tick: u64,
        commands: &mut Vec<Command>,
    ) {
        let at = (tick, self.wall.now_ms());
        let mut generations = self.generations.iter();
        let found = generations.position(|of| of.state.number == question.generation);
        // It may have been aborted meanwhile.
        let Some(index) = found.filter(|at| !self.generations[*at].state.stage.is_over()) else {
            return;
        };
        match question.role {
            Role::Snapshot => self.ends_known(index, ends, at, commands),
            Role::Mutations => {
                let state = &mut self.generations[index].state;
                state.targets.clone_from(&ends);
                commands.push(Command::Target {
                    generation: state.number,
                    targets: ends,
                });
            }
        }
    }

    /// The high watermarks of a snapshot are known: they are its ends, or those that a person gave,
    /// once they are there.
    fn ends_known(
        &mut self,
        index: usize,
        highs: Vec<PartitionTarget>,
        at: (u64, u64),
        commands: &mut Vec<Command>,
    ) {
        let of = &mut self.generations[index];
        let Some(kind) = of.finished else {
            // What it stood on is gone: READs have come.
            return;
        };
        let said = of.state.said.as_ref().map(|said| said.ends.clone());
        let ends = said.filter(|ends| !ends.is_empty());
        let ends = ends.unwrap_or_else(|| highs.clone());
        let there = highs.iter().all(|high| {
            let same =
                |end: &&PartitionTarget| end.topic == high.topic && end.partition == high.partition;
            ends.iter()
                .find(same)
                .is_some_and(|end| end.end <= high.end)
        });
        of.ends_beyond = !there;
        if !there {
            of.ask_after_ms = at.0.saturating_add(ASK_AGAIN_MS);
            return;
        }
        of.state.evidence = Some(kind.word().to_owned());
        self.freeze(index, ends, at, commands);
    }

    fn freeze(
        &mut self,
        index: usize,
        ends: Vec<PartitionTarget>,
        at: (u64, u64),
        commands: &mut Vec<Command>,
    ) {
        let of = &mut self.generations[index];
        of.frozen = true;
        commands.push(Command::Freeze {
            generation: of.state.number,
            ends,
        });
        let word = of.state.evidence.clone();
        let not_proven = word.as_deref().and_then(not_proven_of);
        of.reach(Stage::SourceFinished, at, (word.as_deref(), not_proven));
        self.cutoff(index, at.1);
    }

    fn ask(&mut self, index: usize, role: Role) {
        let of = &self.generations[index];
        let arrivals = match role {
            Role::Snapshot => &of.snapshot,
            Role::Mutations => &of.mutations,
        };
        self.questions.ask(Question {
            generation: of.state.number,
            role,
            topics: One::partitions(arrivals),
        });
    }

    /// What the live connector must pass: the source's position, where it can be asked.
    fn cutoff(&mut self, index: usize, wall_ms: u64) {
        let skew_ms = self.settings.readiness.clock_skew_max_ms;
        let of = &mut self.generations[index];
        if of.state.live_cutoff.is_some() {
            return;
        }
        match &self.witness {
            Some(_) if of.cutoff_wanted => {}
            Some(witness) => {
                of.cutoff_wanted = true;
                witness.want_cutoff(&of.state.id);
            }
            None => {
                let time_ms = wall_ms.saturating_add(skew_ms);
                of.state.live_cutoff = Some(Cutoff {
                    time_ms: i64::try_from(time_ms).unwrap_or(i64::MAX),
                    position: None,
                });
            }
        }
    }
}

/// What the evidence of this word leaves open.
fn not_proven_of(word: &str) -> Option<&'static str> {
    use crate::config::choices::SourceFinished as Kind;
    let kinds = [
        Kind::ConnectOffsets,
        Kind::Ordered,
        Kind::Counted,
        Kind::OperatorSaid,
        Kind::Quiet,
    ];
    let kind = kinds.into_iter().find(|kind| kind.word() == word)?;
    finished::not_proven(kind)
}

/// What is kept of every generation at a cut.
pub(super) fn states(generations: &[One]) -> Vec<GenerationState> {
    generations.iter().map(|of| of.state.clone()).collect()
}
