//! A merge of one or two runs into one, done a few entries at a time.
//!
//! Invariant: the output holds, for every fingerprint of the inputs, its later tick, unless that is
//! at or below the horizon. A merge of one run only leaves forgotten markers out. The inputs stay
//! readable until the merge is done, so for its time both are in memory.

use std::ops::RangeInclusive;
use std::sync::Arc;

use super::run::{Cursor, Run, RunWriter};
use super::shape::{Shape, common_unit};

/// A run and the id that its holder knows it by.
pub(crate) type Numbered = (u64, Arc<Run>);

/// Entries that are decoded, merged and encoded at a time.
const BLOCK: usize = 256;

struct Input {
    id: u64,
    run: Arc<Run>,
    cursor: Cursor,
    /// Decoded entries; those from `next` on are still to be merged.
    block: Vec<(u128, u64)>,
    next: usize,
    /// Entries that are still to be merged, decoded or not.
    left: usize,
}

impl Input {
    fn new((id, run): Numbered) -> Self {
        let (cursor, left) = (Cursor::new(&run), run.len);
        Self {
            id,
            run,
            cursor,
            block: Vec::new(),
            next: 0,
            left,
        }
    }

    /// The decoded entries that are still to be merged; not empty unless there are none left.
    fn head(&mut self) -> &[(u128, u64)] {
        if self.next == self.block.len() && self.left > 0 {
            self.block.resize(BLOCK, (0, 0));
            let read = self.cursor.read(&self.run, &mut self.block);
            self.block.truncate(read);
            self.next = 0;
        }
        &self.block[self.next..]
    }

    fn advance(&mut self, count: usize) {
        self.next += count;
        self.left -= count;
    }
}

/// A merge under way.
pub(crate) struct Merge {
    left: Input,
    right: Option<Input>,
    writer: RunWriter,
    merged: Vec<(u128, u64)>,
}

/// Inputs of a merge that ended, by the id they were given, and what came of them.
pub(crate) struct Merged {
    pub(crate) inputs: Vec<Numbered>,
    pub(crate) output: Option<Run>,
}

impl Merge {
    /// Merges `left` with `right`, laid out for `range` and whatever the inputs have outside of it.
    /// At least one entry of the inputs must be later than `horizon`.
    pub(crate) fn new(
        left: Numbered,
        right: Option<Numbered>,
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
        let writer = RunWriter::new(shape, len);
        let merged = vec![(0, 0); BLOCK];
        Self {
            left: Input::new(left),
            right: right.map(Input::new),
            writer,
            merged,
        }
    }

    /// Entries of the inputs that are still to be read.
    pub(crate) fn owed(&self) -> usize {
        self.left.left + self.right.as_ref().map_or(0, |input| input.left)
    }

    pub(crate) fn is_done(&self) -> bool {
        self.owed() == 0
    }

    /// The latest tick of the inputs.
    pub(crate) fn tick_last(&self) -> u64 {
        let right = self.right.as_ref().map_or(0, |input| input.run.ticks.1);
        self.left.run.ticks.1.max(right)
    }

    /// Reads up to `fuel` entries, or one more; how many were read. A horizon never goes back.
    pub(crate) fn work(&mut self, fuel: usize, horizon: Option<u64>) -> usize {
        let before = self.owed();
        let mut read = 0;
        while read < fuel && read < before {
            // Every output reads at least one entry, so this many outputs are within the fuel.
            let out = &mut self.merged[..BLOCK.min(fuel - read)];
            let left = self.left.head();
            let right = self.right.as_mut().map_or(&[][..], Input::head);
            let step = match (left.is_empty(), right.is_empty()) {
                (false, false) => merge(left, right, out, horizon),
                (false, true) => copy(left, out, horizon),
                _ => copy(right, out, horizon).swap(),
            };
            for (fingerprint, tick) in &self.merged[..step.written] {
                self.writer.push(*fingerprint, *tick);
            }
            self.left.advance(step.left);
            if let Some(right) = &mut self.right {
                right.advance(step.right);
            }
            read += step.left + step.right;
        }
        read
    }

    /// Ends a merge that is done.
    pub(crate) fn finish(self) -> Merged {
        debug_assert!(self.is_done());
        Merged {
            inputs: inputs(self.left, self.right),
            output: self.writer.finish(),
        }
    }

    /// Gives a merge up: its inputs, and the memory of what was written.
    pub(crate) fn cancel(self) -> (Vec<Numbered>, Vec<Vec<u8>>) {
        (inputs(self.left, self.right), self.writer.into_chunks())
    }

    pub(crate) fn bytes(&self) -> usize {
        self.writer.bytes()
    }
}

fn inputs(left: Input, right: Option<Input>) -> Vec<Numbered> {
    [Some(left), right]
        .into_iter()
        .flatten()
        .map(|input| (input.id, input.run))
        .collect()
}

/// What a step read from each side, and how many entries it wrote.
struct Step {
    left: usize,
    right: usize,
    written: usize,
}

impl Step {
    fn swap(self) -> Self {
        Self {
            left: self.right,
            right: self.left,
            ..self
        }
    }
}

/// Merges entries until a side or `out` runs out. Which side comes next is as good as random, so
/// the loop computes both answers and branches on neither.
fn merge(
    left: &[(u128, u64)],
    right: &[(u128, u64)],
    out: &mut [(u128, u64)],
    horizon: Option<u64>,
) -> Step {
    let mut step = Step {
        left: 0,
        right: 0,
        written: 0,
    };
    // Counts what was read once, so that the fuel holds even if nothing is written.
    for _ in 0..out.len() {
        let (Some(a), Some(b)) = (left.get(step.left), right.get(step.right)) else {
            break;
        };
        let (from_a, from_b) = (a.0 <= b.0, b.0 <= a.0);
        let fingerprint = if from_a { a.0 } else { b.0 };
        let tick = (if from_a { a.1 } else { 0 }).max(if from_b { b.1 } else { 0 });
        out[step.written] = (fingerprint, tick);
        step.written += usize::from(Some(tick) > horizon);
        step.left += usize::from(from_a);
        step.right += usize::from(from_b);
    }
    step
}

/// Copies entries of one side, called left, until it or `out` runs out.
fn copy(left: &[(u128, u64)], out: &mut [(u128, u64)], horizon: Option<u64>) -> Step {
    let mut written = 0;
    let count = left.len().min(out.len());
    for entry in &left[..count] {
        out[written] = *entry;
        written += usize::from(Some(entry.1) > horizon);
    }
    Step {
        left: count,
        right: 0,
        written,
    }
}
