//! What worker 0 shows of the job.
//!
//! Invariant: what is shown is never better than what the next manifest would say.

use super::guarding::gauge;
use super::{Coordinator, Observed};
use crate::checkpoint::{BadReads, Checkpointer};
use crate::gauges::Gauges;
use crate::generation::Stage;
use crate::generation::step::progress;
use crate::job::{Shown, ShownGeneration};
use crate::status::Counts;
use timely::dataflow::ProbeHandle;

impl Coordinator {
    pub(super) fn show(
        &mut self,
        counts: Counts,
        now_ms: u64,
        durable: &ProbeHandle<u64>,
        observed: &Observed<'_>,
    ) -> Shown {
        let moment = self.moment(&counts, now_ms);
        let generations: Vec<ShownGeneration> = self
            .generations
            .iter()
            .map(|of| {
                let facts = of.facts(
                    &moment,
                    |tick| !observed.read_progress.less_equal(&tick),
                    |tick| !observed.durable.less_equal(&tick),
                );
                of.shown(&moment, facts)
            })
            .collect();
        let of = self.told_of(&generations);
        let progress = of.map_or(Stage::Open, |of| progress(&of.state));
        let before = self
            .generations
            .iter()
            .fold(BadReads::default(), |sum, of| BadReads {
                unsafe_reads: sum.unsafe_reads + of.before.unsafe_reads,
                late_reads: sum.late_reads + of.before.late_reads,
            });
        let lag = self.lag(&counts);
        let alarms = self.alarms(&counts, now_ms, &generations, &lag);
        let on_its_way = of.filter(|of| of.state.stage < Stage::Ready);
        let budget = on_its_way.map(|of| gauge(&self.budget(of, now_ms, &lag)));
        let shown = Shown {
            phase: of.map(phase).unwrap_or_default(),
            snapshot_total: of.and_then(|of| of.reads_total),
            caught_up: progress >= Stage::CaughtUp,
            consumed: progress >= Stage::TopicConsumed,
            snapshot_partitions: of.map(|of| of.partitions_at_end).unwrap_or_default(),
            durable_ms: durable.with_frontier(|f| f.first().copied().unwrap_or(now_ms)),
            now_ms,
            evidence: of.and_then(|of| of.state.evidence.clone()),
            replaying: !self.replaying.0.is_empty(),
            bad_reads_before: before,
            saved: self
                .checkpointer
                .as_ref()
                .and_then(Checkpointer::saved)
                .cloned(),
            generations,
            alarms,
            stopped_for: self.stopped_for.clone(),
            not_proven: self.starts_not_proven(),
            gauges: Gauges {
                wall: self.wall_table(now_ms),
                lag,
                budget,
            },
            read_control: self.read_control.clone(),
            retention: self.retention.clone(),
            forgotten_through_ms: self.forgotten_through,
            counts,
        };
        self.panel.show(shown.clone());
        shown
    }

    /// The generation that the words for the whole job are of: one that cannot be ready by itself
    /// before newer ones.
    fn told_of<'s>(&self, shown: &'s [ShownGeneration]) -> Option<&'s ShownGeneration> {
        let live = |of: &&ShownGeneration| !of.state.stage.is_over();
        let both = self.generations.iter().zip(shown);
        let mut failed = both.filter(|(one, _)| one.failed).map(|(_, shown)| shown);
        failed.find(live).or_else(|| shown.iter().rev().find(live))
    }
}

/// Words for what a generation does.
fn phase(of: &ShownGeneration) -> String {
    match &of.waits {
        Some(wait) => wait.text.clone(),
        None => of.state.stage.word().to_owned(),
    }
}
