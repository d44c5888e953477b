//! When checkpoints are made, and what becomes of one that is durable.
//!
//! Invariant: a manifest has everything that was decided before its cut; `ready` is read off it
//! only when it is durable.

use super::stages::states;
use super::{Coordinator, Ending, Observed};
use crate::checkpoint::{Checkpointer, CutState};
use crate::error::Error;
use crate::generation::ready;
use crate::status::Counts;
use headwater_operators::control::Command;

impl Coordinator {
    /// Begins a checkpoint when one is due or wanted, and moves the one under way on.
    pub(super) fn checkpoint(
        &mut self,
        (tick, now_ms): (u64, u64),
        counts: &Counts,
        observed: &mut Observed<'_>,
        commands: &mut Vec<Command>,
    ) -> Result<(), Error> {
        let all = observed.reports.borrow().len() == self.workers;
        let counted_at = if all { counts.at_ms } else { 0 };
        let Some(checkpointer) = &mut self.checkpointer else {
            return Ok(());
        };
        checkpointer.take(std::mem::take(&mut observed.parts));
        let durable = |tick| !observed.durable.less_than(&tick);
        let written =
            checkpointer.step((tick, now_ms), durable, (counted_at, &counts.generations))?;
        let (busy, due) = (checkpointer.busy(), checkpointer.due(now_ms));
        if written {
            self.written();
        }
        let asked = !busy && self.panel.take_save();
        let wanted = !busy && (self.save_wanted || self.requests.wanting());
        if self.ending == Ending::No && (asked || wanted || due) {
            self.save((tick, now_ms), commands);
        }
        Ok(())
    }

    /// Begins one. Not while one is under way.
    pub(super) fn save(&mut self, (tick, now_ms): (u64, u64), commands: &mut Vec<Command>) {
        let mut state = CutState {
            generations: states(&self.generations),
            requests: Vec::new(),
            read_control: self.read_control.clone(),
            retention: self.retention.clone(),
            topic_ids: self.topic_ids.clone(),
            starts: self.guarding.starts.clone(),
        };
        self.save_wanted = false;
        let Some(checkpointer) = &mut self.checkpointer else {
            return;
        };
        self.requests.cut(checkpointer.next_number());
        state.requests = self.requests.done().to_vec();
        commands.push(checkpointer.begin(tick, now_ms, state));
    }

    /// One is durable.
    fn written(&mut self) {
        let Some(durable) = self.checkpointer.as_ref().map(Checkpointer::durable) else {
            return;
        };
        self.requests.durable(durable.number);
        // It may tell of the first READs, and be the one that a generation is ready by: the start
        // is judged before that is said.
        self.guarding.next_ms = 0;
        self.wall_known.clone_from(&durable.time.wall);
        for of in &mut self.generations {
            let mut states = durable.generations.iter();
            let Some(state) = states.find(|state| state.number == of.state.number) else {
                continue;
            };
            of.state.reads.clone_from(&state.reads);
            let is_ready = ready::ready(durable, of.state.number).is_ok();
            of.ready_manifest = is_ready.then_some(durable.number);
        }
    }
}
