//! How far a generation is.
//!
//! Invariant: the first six are in order; a generation goes forward through them, one at a time, or
//! into one of the last three.

use serde::{Deserialize, Serialize};

/// See design.md section 9.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// Its READs are read as they come.
    #[default]
    Open,
    /// The snapshot has delivered all its READs; the ends of its topics are frozen.
    SourceFinished,
    /// All READs up to the frozen ends have left the merge.
    TopicConsumed,
    /// They, and all mutations up to the targets, are in the target.
    CaughtUp,
    /// A durable manifest says so, and nothing keeps it from being promoted.
    Ready,
    /// Its target is the one that is used.
    Promoted,
    /// A READ met a forgotten marker, or the rule is off: it can never be ready.
    Unsafe,
    /// A person gave it up; its READs are dropped.
    Aborted,
    /// Newer generations have taken over all its tables; its READs are dropped.
    Superseded,
}

impl Stage {
    /// All of them, in order.
    pub const ALL: [Stage; 9] = [
        Stage::Open,
        Stage::SourceFinished,
        Stage::TopicConsumed,
        Stage::CaughtUp,
        Stage::Ready,
        Stage::Promoted,
        Stage::Unsafe,
        Stage::Aborted,
        Stage::Superseded,
    ];

    /// The word of documents and metrics.
    pub fn word(self) -> &'static str {
        match self {
            Stage::Open => "open",
            Stage::SourceFinished => "source_finished",
            Stage::TopicConsumed => "topic_consumed",
            Stage::CaughtUp => "caught_up",
            Stage::Ready => "ready",
            Stage::Promoted => "promoted",
            Stage::Unsafe => "unsafe",
            Stage::Aborted => "aborted",
            Stage::Superseded => "superseded",
        }
    }

    /// Whether its READs are decided, and markers of its window kept.
    pub fn takes_reads(self) -> bool {
        matches!(
            self,
            Stage::Open
                | Stage::SourceFinished
                | Stage::TopicConsumed
                | Stage::CaughtUp
                | Stage::Unsafe
        )
    }

    /// Whether nothing more will come of it.
    pub fn is_over(self) -> bool {
        matches!(self, Stage::Aborted | Stage::Superseded)
    }
}

#[cfg(test)]
mod tests {
    use super::Stage;

    #[test]
    fn words_are_those_of_documents() {
        for stage in Stage::ALL {
            let json = serde_json::to_value(stage).expect("plain data");
            assert_eq!(json, stage.word());
        }
    }
}
