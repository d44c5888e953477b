//! A merge of one or two runs into one, done a few entries at a time.
//!
//! Invariant: the output holds, for every fingerprint of the inputs, its later tick, unless that is
//! at or below the horizon. A merge of one run only leaves forgotten markers out. The inputs stay
//! readable until the merge is done, so for its time both are in memory.

use std::cmp::Ordering;
use std::ops::RangeInclusive;
use std::sync::Arc;

use super::run::{Cursor, Run, RunWriter};
use super::shape::{Shape, common_unit};

struct Input {
    id: u64,
    run: Arc<Run>,
    cursor: Cursor,
    head: Option<(u128, u64)>,
}

impl Input {
    fn new(id: u64, run: Arc<Run>) -> Self {
        let mut cursor = Cursor::new(&run);
        let head = cursor.next(&run);
        Self {
            id,
            run,
            cursor,
            head,
        }
    }

    #[inline]
    fn advance(&mut self) {
        self.head = self.cursor.next(&self.run);
    }
}

/// A merge under way.
pub(crate) struct Merge {
    left: Input,
    right: Option<Input>,
    writer: RunWriter,
    owed: usize,
    done: bool,
}

/// Inputs of a merge that ended, by the id they were given, and what came of them.
pub(crate) struct Merged {
    pub(crate) inputs: Vec<(u64, Arc<Run>)>,
    pub(crate) output: Option<Run>,
}

impl Merge {
    /// Merges `left` with `right`, laid out for `range` and whatever the inputs have outside of it.
    /// At least one entry of the inputs must be later than `horizon`.
    pub(crate) fn new(
        left: (u64, Arc<Run>),
        right: Option<(u64, Arc<Run>)>,
        range: &RangeInclusive<u64>,
        horizon: Option<u64>,
    ) -> Self {
        let (mut first, mut last) = (*range.start(), *range.end());
        let (mut ticks, mut unit, mut len) = ((u64::MAX, 0), 0, 0);
        for (_, run) in [Some(&left), right.as_ref()].into_iter().flatten() {
            (first, last) = (first.min(run.shape.first), last.max(run.shape.last));
            ticks = (ticks.0.min(run.ticks.0), ticks.1.max(run.ticks.1));
            unit = common_unit(unit, run.shape.tick_unit_ms);
            len += run.len;
        }
        if let Some(live) = horizon.and_then(|horizon| horizon.checked_add(1)) {
            // All ticks are multiples of the unit, so the first live one is too.
            let live = live.checked_next_multiple_of(unit).unwrap_or(ticks.0);
            ticks.0 = ticks.0.max(live).min(ticks.1);
        }
        let shape = Shape::fit((first, last), ticks, unit, len);
        let right = right.map(|(id, run)| Input::new(id, run));
        let writer = RunWriter::new(shape, len);
        Self {
            left: Input::new(left.0, left.1),
            right,
            writer,
            owed: len,
            done: false,
        }
    }

    /// Entries of the inputs that are still to be read.
    pub(crate) fn owed(&self) -> usize {
        self.owed
    }

    pub(crate) fn is_done(&self) -> bool {
        self.done
    }

    /// The latest tick of the inputs.
    pub(crate) fn tick_last(&self) -> u64 {
        let right = self.right.as_ref().map_or(0, |input| input.run.ticks.1);
        self.left.run.ticks.1.max(right)
    }

    /// Reads up to `fuel` entries; how many were read. A horizon never goes back.
    pub(crate) fn work(&mut self, fuel: usize, horizon: Option<u64>) -> usize {
        let before = self.owed;
        let enough = before.saturating_sub(fuel);
        while self.owed > enough {
            let right = self.right.as_ref().and_then(|input| input.head);
            let (fingerprint, tick) = match (self.left.head, right) {
                (Some(left), Some(right)) => match left.0.cmp(&right.0) {
                    Ordering::Less => self.take_left(left),
                    Ordering::Greater => self.take_right(right),
                    Ordering::Equal => {
                        self.take_left(left);
                        self.take_right((right.0, right.1.max(left.1)))
                    }
                },
                (Some(left), None) => self.take_left(left),
                (None, Some(right)) => self.take_right(right),
                (None, None) => break,
            };
            if Some(tick) > horizon {
                self.writer.push(fingerprint, tick);
            }
        }
        self.done = self.owed == 0;
        before - self.owed
    }

    #[inline]
    fn take_left(&mut self, marker: (u128, u64)) -> (u128, u64) {
        self.left.advance();
        self.owed -= 1;
        marker
    }

    #[inline]
    fn take_right(&mut self, marker: (u128, u64)) -> (u128, u64) {
        if let Some(right) = &mut self.right {
            right.advance();
            self.owed -= 1;
        }
        marker
    }

    /// Ends a merge that is done.
    pub(crate) fn finish(self) -> Merged {
        debug_assert!(self.done);
        Merged {
            inputs: inputs(self.left, self.right),
            output: self.writer.finish(),
        }
    }

    /// Gives a merge up: its inputs, and the memory of what was written.
    pub(crate) fn cancel(self) -> (Vec<(u64, Arc<Run>)>, Vec<Vec<u8>>) {
        (inputs(self.left, self.right), self.writer.into_chunks())
    }

    pub(crate) fn bytes(&self) -> usize {
        self.writer.bytes()
    }
}

fn inputs(left: Input, right: Option<Input>) -> Vec<(u64, Arc<Run>)> {
    [Some(left), right]
        .into_iter()
        .flatten()
        .map(|input| (input.id, input.run))
        .collect()
}
