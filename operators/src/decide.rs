//! The rule. A READ is emitted only if no newer mutation of that key has been observed and then
//! forgotten; a READ whose key has a marker is dropped. The READ of a key whose last mutation could
//! not be decoded is neither: it is quarantined, as nothing in the target stands for that mutation.
//!
//! It compares no positions and no clocks: precedence is the presence of a marker.

use crate::retention::Window;

/// What to do with a READ whose marker, if there was one, may have been forgotten.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnForgotten {
    /// To the quarantine output, with its reason.
    Quarantine,
    /// End the job.
    Fail,
    /// Emit it; the generation is unsafe all the same.
    Emit,
}

/// What becomes of a READ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It leaves for the sink.
    Emit,
    /// A newer mutation of its key was seen: stale.
    DropMarked,
    /// It belongs to no open generation.
    DropSuperseded,
    /// The last mutation of its key could not be decoded: to the quarantine output.
    Poisoned,
    /// It may be stale: see [`OnForgotten`]. Its generation is unsafe.
    Unsafe(OnForgotten),
}

/// Decides one READ. `marker` is the tick of its key's live marker, `poison` that of its last
/// mutation if it could not be decoded, `window` that of its generation (`None`: not open),
/// `forgotten_through` the latest tick of any marker that went.
pub fn decide(
    marker: Option<u64>,
    poison: Option<u64>,
    window: Option<Window>,
    forgotten_through: Option<u64>,
    on_forgotten: OnForgotten,
) -> Verdict {
    match (window, marker) {
        (None, _) => Verdict::DropSuperseded,
        // One from before the window is not newer than the READ: this one heals the key.
        (Some(window), _) if poison.is_some_and(|tick| window.holds(tick)) => Verdict::Poisoned,
        (Some(window), Some(tick)) if window.holds(tick) => Verdict::DropMarked,
        (Some(window), _) if window.at_risk(forgotten_through) => Verdict::Unsafe(on_forgotten),
        (Some(_), _) => Verdict::Emit,
    }
}

#[cfg(test)]
mod tests {
    use super::{OnForgotten, Verdict, decide};
    use crate::retention::Window;

    #[test]
    fn the_whole_table() {
        let window = Some(Window { start_ms: 100 });
        let rule = |marker, window, forgotten| {
            decide(marker, None, window, forgotten, OnForgotten::Quarantine)
        };
        let at_risk = Verdict::Unsafe(OnForgotten::Quarantine);
        for (marker, window, forgotten, verdict) in [
            (None, None, None, Verdict::DropSuperseded),
            (Some(500), None, Some(500), Verdict::DropSuperseded),
            (Some(100), window, None, Verdict::DropMarked),
            (Some(100), window, Some(100), Verdict::DropMarked),
            (Some(99), window, None, Verdict::Emit),
            (Some(99), window, Some(99), Verdict::Emit),
            (Some(99), window, Some(100), at_risk),
            (None, window, Some(100), at_risk),
            (None, window, Some(99), Verdict::Emit),
            (None, window, None, Verdict::Emit),
        ] {
            assert_eq!(
                rule(marker, window, forgotten),
                verdict,
                "{marker:?} {forgotten:?}"
            );
        }
    }

    #[test]
    fn a_poisoned_key_is_quarantined_whatever_its_marker() {
        let window = Some(Window { start_ms: 100 });
        for on_forgotten in [
            OnForgotten::Quarantine,
            OnForgotten::Fail,
            OnForgotten::Emit,
        ] {
            let rule =
                |marker, poison, window, gone| decide(marker, poison, window, gone, on_forgotten);
            for marker in [None, Some(99), Some(100), Some(500)] {
                for gone in [None, Some(99), Some(100)] {
                    let poisoned = rule(marker, Some(100), window, gone);
                    assert_eq!(poisoned, Verdict::Poisoned, "{marker:?} {gone:?}");
                    assert_eq!(rule(marker, Some(500), None, gone), Verdict::DropSuperseded);
                    // Of before the window: as if it were not there.
                    let older = rule(marker, Some(99), window, gone);
                    assert_eq!(older, rule(marker, None, window, gone));
                }
            }
        }
    }
}
