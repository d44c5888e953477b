//! Cases whose rule is not built yet. This list may only shrink.

/// Why a case is not run yet.
pub(crate) fn reason(id: &str) -> Option<&'static str> {
    PENDING
        .iter()
        .find(|(pending, _)| *pending == id)
        .map(|(_, reason)| *reason)
}

const GENERATIONS: &str = "needs notifications, evidence and readiness";
const MASKS: &str = "needs column-level markers";

const PENDING: &[(&str, &str)] = &[
    ("B08", "worker 0 does not judge the start yet"),
    ("B28", MASKS),
    ("B29", MASKS),
    ("B32", GENERATIONS),
    ("B35", GENERATIONS),
    ("B37", GENERATIONS),
    (
        "B52",
        "needs notifications; its restart is a test of `main.rs`",
    ),
];
