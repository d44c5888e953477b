//! Whether the live connector has passed a generation's cutoff. Pure.
//!
//! Kafka's high watermark says nothing about what the connector has not appended yet: a READ of a
//! newer state would be followed by an older mutation after `ready` (design.md section 9).
//!
//! Invariant: only what was committed or delivered *past* the cutoff counts; positions are compared
//! with positions of the same log, times with source times.

use super::record::Cutoff;
use crate::config::choices::CaughtUp;

/// What is known of the live stream.
#[derive(Clone, Debug, Default)]
pub struct Live {
    /// What it must pass.
    pub cutoff: Cutoff,
    /// The position that the live connector, or its slot, has confirmed.
    pub position: Option<u64>,
    /// Source time of the last offset that it has committed, ms since 1970.
    pub committed_ms: Option<i64>,
    /// Source time of the latest mutation of each partition, ms since 1970.
    pub delivered_ms: Vec<Option<i64>>,
    /// Source time of the latest heartbeat.
    pub heartbeat_ms: Option<i64>,
    /// For how long something past the cutoff has been seen, in job time.
    pub seen_for_ms: u64,
    /// For how long it must have been.
    pub settle_ms: u64,
    /// A person has accepted that nothing proves it.
    pub accepted: bool,
}

impl Live {
    /// Whether anything past the cutoff was seen anywhere.
    pub fn seen(&self) -> bool {
        let times = self.delivered_ms.iter().chain([&self.heartbeat_ms]);
        let mut past = times.flatten().filter(|ms| **ms > self.cutoff.time_ms);
        past.next().is_some() || self.offsets()
    }

    fn offsets(&self) -> bool {
        let by_position = match (self.cutoff.position, self.position) {
            (Some(cutoff), Some(position)) => position >= cutoff,
            _ => false,
        };
        by_position || self.committed_ms.is_some_and(|ms| ms > self.cutoff.time_ms)
    }

    fn delivered(&self) -> bool {
        let past = |ms: &Option<i64>| ms.is_some_and(|ms| ms > self.cutoff.time_ms);
        !self.delivered_ms.is_empty() && self.delivered_ms.iter().all(past)
    }
}

/// What a kind of evidence leaves open.
pub fn not_proven(kind: CaughtUp) -> Option<&'static str> {
    match kind {
        CaughtUp::LiveOffsets | CaughtUp::Delivered => None,
        CaughtUp::Seen => Some(
            "that every mutation before the cutoff is in its topic: a newer record was seen in \
             one place only, and the others were given time to settle",
        ),
        CaughtUp::Unproven => Some(
            "that the live connector has written every mutation that the snapshot has seen: an \
             older one may still come and take a row back until the next one of its key",
        ),
    }
}

/// Whether `found` is at least as strong as `required`. The kinds are declared strongest first.
pub fn at_least(found: CaughtUp, required: CaughtUp) -> bool {
    found as u8 <= required as u8
}

/// The strongest evidence that holds and counts.
pub fn passed(live: &Live, required: CaughtUp) -> Option<CaughtUp> {
    let settled = live.seen_for_ms >= live.settle_ms;
    [
        (CaughtUp::LiveOffsets, live.offsets()),
        (CaughtUp::Delivered, live.delivered()),
        (CaughtUp::Seen, live.seen() && settled),
    ]
    .into_iter()
    .filter(|(kind, holds)| *holds && at_least(*kind, required))
    .map(|(kind, _)| kind)
    .next()
    .or_else(|| (live.accepted || required == CaughtUp::Unproven).then_some(CaughtUp::Unproven))
}

#[cfg(test)]
mod tests {
    use super::{Live, passed};
    use crate::config::choices::CaughtUp::{Delivered, LiveOffsets, Seen, Unproven};
    use crate::generation::Cutoff;

    fn live() -> Live {
        Live {
            cutoff: Cutoff {
                time_ms: 100,
                position: Some(50),
            },
            delivered_ms: vec![Some(99), None],
            settle_ms: 5,
            ..Live::default()
        }
    }

    #[test]
    fn nothing_before_the_cutoff_counts() {
        let mut before = live();
        before.position = Some(49);
        before.committed_ms = Some(100);
        before.heartbeat_ms = Some(100);
        before.seen_for_ms = 10;
        assert_eq!(passed(&before, Seen), None);
        assert_eq!(passed(&before, Unproven), Some(Unproven));
        before.accepted = true;
        assert_eq!(passed(&before, LiveOffsets), Some(Unproven));
    }

    #[test]
    fn the_strongest_is_taken() {
        let mut past = live();
        past.heartbeat_ms = Some(101);
        assert_eq!(passed(&past, Seen), None, "it must settle");
        past.seen_for_ms = 5;
        assert_eq!(passed(&past, Seen), Some(Seen));
        assert_eq!(passed(&past, Delivered), None);
        past.delivered_ms = vec![Some(101), Some(99)];
        assert_eq!(passed(&past, Delivered), None);
        past.delivered_ms = vec![Some(101), Some(102)];
        assert_eq!(passed(&past, Seen), Some(Delivered));
        past.position = Some(50);
        assert_eq!(passed(&past, Seen), Some(LiveOffsets));
        past.position = None;
        past.committed_ms = Some(101);
        assert_eq!(passed(&past, LiveOffsets), Some(LiveOffsets));
    }

    #[test]
    fn a_position_without_a_cutoff_position_is_not_compared() {
        let mut other = live();
        other.cutoff.position = None;
        other.position = Some(u64::MAX);
        assert_eq!(passed(&other, Seen), None);
    }
}
