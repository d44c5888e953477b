//! The rule. A READ is emitted only if no newer mutation of that key has been observed and then
//! forgotten; a READ whose key has a marker is dropped.
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
    /// It may be stale: see [`OnForgotten`]. Its generation is unsafe.
    Unsafe(OnForgotten),
}

/// Decides one READ. `marker` is the tick of its key's live marker, `window` that of its generation
/// (`None`: not open), `forgotten_through` the latest tick of any marker that went.
pub fn decide(
    marker: Option<u64>,
    window: Option<Window>,
    forgotten_through: Option<u64>,
    on_forgotten: OnForgotten,
) -> Verdict {
    match (window, marker) {
        (None, _) => Verdict::DropSuperseded,
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
        let rule =
            |marker, window, forgotten| decide(marker, window, forgotten, OnForgotten::Quarantine);
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
}
