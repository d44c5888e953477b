//! The ticks at which markers were written, and the latest of them that was forgotten.
//!
//! Ticks are kept as spans of consecutive ticks, so a busy stream is one span however long it runs.
//! A sparse one makes many; above `spans_max` the narrower half of the gaps is filled in, as if
//! marks had happened in them. That errs to the safe side: `forgotten` may then name a tick up to
//! the horizon at which nothing was marked (a generation is called unsafe that is safe), never an
//! earlier one than the true one.
//!
//! Invariant: spans are ascending, disjoint, above the horizon, with a gap between any two;
//! `forgotten` <= the horizon. Depends on marks and horizons alone, in no way on runs.

use std::collections::VecDeque;

use super::shape::common_unit;

/// The marked ticks above the horizon, and the latest one at or below it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MarkedTicks {
    /// Milliseconds between consecutive ticks.
    unit_ms: u64,
    /// First and last tick of each span.
    spans: VecDeque<(u64, u64)>,
    spans_max: usize,
    horizon: Option<u64>,
    forgotten: Option<u64>,
}

impl MarkedTicks {
    /// No ticks yet. `tick_ms` is the length of a tick; `spans_max` bounds memory, 16 bytes each.
    pub fn new(tick_ms: u64, spans_max: usize) -> Self {
        Self {
            unit_ms: tick_ms.max(1),
            spans: VecDeque::new(),
            spans_max: spans_max.max(2),
            horizon: None,
            forgotten: None,
        }
    }

    /// The latest tick at or below the horizon at which a mark happened.
    pub fn forgotten(&self) -> Option<u64> {
        self.forgotten
    }

    /// Everything at or below it is forgotten; `None` until a horizon was set.
    pub fn horizon(&self) -> Option<u64> {
        self.horizon
    }

    /// First and last tick of each span of marked ticks above the horizon, for a checkpoint.
    pub fn spans(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.spans.iter().copied()
    }

    /// A mark happened at `tick`.
    pub fn mark(&mut self, tick: u64) {
        self.mark_span(tick, tick);
    }

    /// Marks happened at every tick from `first` to `last`, as `spans` of a checkpoint said.
    pub fn mark_span(&mut self, first: u64, last: u64) {
        debug_assert!(first <= last);
        // A tick off the grid makes the grid finer, for ever: spans then say more than they know,
        // which is the safe side.
        self.unit_ms = common_unit(common_unit(self.unit_ms, first), last);
        let Some(horizon) = self.horizon else {
            return self.insert(first, last);
        };
        if first <= horizon {
            self.forgotten = self
                .forgotten
                .max(Some(self.last_through(first, last, horizon)));
        }
        if last > horizon {
            let first = if first > horizon {
                first
            } else {
                self.after(first, horizon)
            };
            self.insert(first, last);
        }
    }

    /// Forgets every tick at or below `horizon`; a lower one than before is ignored.
    pub fn forget_through(&mut self, horizon: u64) {
        if self.horizon >= Some(horizon) {
            return;
        }
        self.horizon = Some(horizon);
        while let Some((first, last)) = self.spans.front().copied() {
            if first > horizon {
                break;
            }
            self.forgotten = self
                .forgotten
                .max(Some(self.last_through(first, last, horizon)));
            let rest = self.after(first, horizon);
            if last > horizon {
                self.spans[0].0 = rest;
                break;
            }
            self.spans.pop_front();
        }
    }

    /// The last tick of a span that is at or below `horizon`, which is not below `first`.
    fn last_through(&self, first: u64, last: u64, horizon: u64) -> u64 {
        if last <= horizon {
            last
        } else {
            horizon - (horizon - first) % self.unit_ms
        }
    }

    /// The first tick of the span of `first` that is above `horizon`.
    fn after(&self, first: u64, horizon: u64) -> u64 {
        (horizon - (horizon - first) % self.unit_ms).saturating_add(self.unit_ms)
    }

    fn insert(&mut self, first: u64, last: u64) {
        if self
            .spans
            .back()
            .is_some_and(|span| span.0 <= first && last <= span.1)
        {
            return;
        }
        // Spans that overlap or touch the new one melt into it.
        let touching = |end: u64, start: u64| end.saturating_add(self.unit_ms) >= start;
        let from = self.spans.partition_point(|span| !touching(span.1, first));
        let to = self.spans.partition_point(|span| touching(last, span.0));
        if from == to {
            self.spans.insert(from, (first, last));
            if self.spans.len() > self.spans_max {
                self.coarsen();
            }
            return;
        }
        let merged = (
            self.spans[from].0.min(first),
            self.spans[to - 1].1.max(last),
        );
        self.spans[from] = merged;
        self.spans.drain(from + 1..to);
    }

    /// Fills the narrower half of the gaps, so the cost is spread over many marks.
    fn coarsen(&mut self) {
        let spans = self.spans.make_contiguous();
        let mut gaps: Vec<u64> = spans.windows(2).map(|pair| pair[1].0 - pair[0].1).collect();
        let middle = gaps.len() / 2;
        let (_, limit, _) = gaps.select_nth_unstable(middle);
        let limit = *limit;
        let mut coarse: VecDeque<(u64, u64)> = VecDeque::with_capacity(self.spans_max + 1);
        for span in self.spans.drain(..) {
            match coarse.back_mut() {
                Some(before) if span.0 - before.1 <= limit => before.1 = span.1,
                _ => coarse.push_back(span),
            }
        }
        self.spans = coarse;
    }

    /// Heap bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.spans.capacity() * size_of::<(u64, u64)>()
    }
}
