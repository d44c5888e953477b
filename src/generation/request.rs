//! What a person asks of a running job, and the desk where requests wait for worker 0.
//!
//! Invariant: a request is answered only when the manifest that contains it is durable; one with an
//! id that was answered before gets the same answer and does nothing.
//!
//! It cannot look anything up: whoever asks has resolved topics and times before.

use crate::topic::Assignment;
use headwater_operators::control::PartitionTarget;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Mutex, PoisonError};

/// One request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// Chosen by whoever asks, so that it may ask again after a lost answer.
    pub id: String,
    /// What is asked.
    pub body: Body,
}

/// What is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    /// Open a generation.
    Open(Open),
    /// The snapshot of a generation is complete (`operator_said`).
    Finish {
        /// Its id.
        generation: String,
        /// The ends; none: the high watermarks of now.
        ends: Vec<PartitionTarget>,
    },
    /// Give a generation up.
    Abort {
        /// Its id.
        generation: String,
        /// Why.
        reason: String,
    },
    /// A generation goes on without one of its tables.
    DropTable {
        /// Its id.
        generation: String,
        /// The table's number.
        table: u16,
    },
    /// Nothing proves that the live connector has passed the cutoff; a person accepts that.
    AcceptLag {
        /// The generation's id.
        generation: String,
    },
    /// Mutations that could not be decoded are lost to a generation; a person accepts that of those
    /// that were counted so far.
    AcceptDeadLetters {
        /// The generation's id.
        generation: String,
    },
    /// READs are read at this rate, or not at all.
    Reads {
        /// Whether none are read; none: as it is.
        paused: Option<bool>,
        /// READs a second of the whole job; none: as it is; `Some(None)`: as fast as they come.
        per_second_max: Option<Option<u64>>,
    },
    /// The ttl of the `ttl` policy.
    Ttl {
        /// Job time.
        ttl_ms: u64,
    },
    /// The marker limit.
    MarkersMax {
        /// Markers of the whole job.
        markers_max: u64,
    },
    /// A promotion is about to run its hook.
    PromoteBegin {
        /// The generation's id.
        generation: String,
        /// Who asks.
        by: String,
        /// What was accepted.
        accepted: Vec<String>,
    },
    /// The hook of a promotion has ended.
    PromoteEnd {
        /// The generation's id.
        generation: String,
        /// Whether it went well.
        done: bool,
        /// What the hook said.
        hook: String,
    },
    /// A promotion is taken back.
    Demote {
        /// The generation's id.
        generation: String,
        /// Who asks.
        by: String,
        /// Why.
        reason: String,
    },
}

/// A generation to be opened, with everything looked up.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Open {
    /// Its id; none: `g` and its number.
    pub generation: Option<String>,
    /// The snapshot topic of each of its tables, by the table's number.
    pub topics: BTreeMap<u16, String>,
    /// Every partition of these topics, from its first offset.
    pub partitions: Vec<Assignment>,
    /// What tells the topics from others of their name.
    pub topic_ids: BTreeMap<String, String>,
    /// When its snapshot began, ms since 1970, if it has begun: what a person said.
    pub started_at_ms: Option<i64>,
    /// Where its evidence comes from.
    pub sources: super::Sources,
}

/// What was done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    /// In words.
    pub text: String,
    /// The id of the generation that it was about, if it was about one.
    #[serde(default)]
    pub generation: Option<String>,
    /// The manifest that contains it.
    pub manifest: u64,
}

/// Why a request is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// It names something that is not there.
    Unknown(String),
    /// It does not fit the state of the job.
    Conflict(String),
    /// The job ends.
    Ending,
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Refusal::Unknown(text) | Refusal::Conflict(text) => f.write_str(text),
            Refusal::Ending => f.write_str("the job ends; ask again when it runs"),
        }
    }
}

/// How a request ends.
pub type Outcome = Result<Answer, Refusal>;

/// A request on the desk, and where its outcome is sent.
pub type Waiting = (Request, Sender<Outcome>);

/// Where requests wait.
#[derive(Debug, Default)]
pub struct Desk {
    waiting: Mutex<Vec<Waiting>>,
}

impl Desk {
    /// Puts a request on the desk. The outcome comes when it is durable; the receiver is
    /// disconnected when the job ended before.
    pub fn ask(&self, request: Request) -> Receiver<Outcome> {
        let (told, outcome) = channel();
        self.lock().push((request, told));
        outcome
    }

    /// Takes what waits, oldest first.
    pub fn take(&self) -> Vec<Waiting> {
        std::mem::take(&mut *self.lock())
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Waiting>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
