//! Questions to topics that may block: each on a thread of its own, picked up at a later step.
//!
//! Invariant: one question a generation and role at a time; brokers that are away are asked again.

use crate::error::{Error, ErrorKind};
use crate::job::Panel;
use crate::table::Role;
use crate::topic::Topics;
use crate::topic::growth::growth_error;
use headwater_operators::control::PartitionTarget;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};

/// Who is in trouble when a topic cannot be asked for its ends.
const ASKED: &str = "the question for the ends of topics";

/// What is asked: the ends of these topics, of which so many partitions are read.
#[derive(Clone, Debug)]
pub(super) struct Question {
    /// The generation that it is for.
    pub(super) generation: u32,
    /// What the topics are for.
    pub(super) role: Role,
    /// Partitions of each topic that are read.
    pub(super) topics: BTreeMap<String, u32>,
}

type Answer = Result<Vec<PartitionTarget>, Error>;

/// Those that are open.
pub(super) struct Questions {
    topics: Arc<dyn Topics>,
    panel: Arc<Panel>,
    open: Vec<(Question, Receiver<Answer>)>,
}

impl Questions {
    pub(super) fn new(topics: Arc<dyn Topics>, panel: Arc<Panel>) -> Questions {
        Questions {
            topics,
            panel,
            open: Vec::new(),
        }
    }

    /// Whether one is open.
    pub(super) fn asked(&self, generation: u32, role: Role) -> bool {
        let mut open = self.open.iter();
        open.any(|(question, _)| (question.generation, question.role) == (generation, role))
    }

    /// Asks, unless it is asked already.
    pub(super) fn ask(&mut self, question: Question) {
        if self.asked(question.generation, question.role) {
            return;
        }
        let asked = question.clone();
        let (answer, waiting) = channel();
        let topics = Arc::clone(&self.topics);
        std::thread::spawn(move || {
            // Nobody waits for the answer when the job has ended meanwhile.
            let _ = answer.send(ends(&*topics, &asked));
        });
        self.open.push((question, waiting));
    }

    /// What was answered.
    ///
    /// # Errors
    /// When a topic has partitions that nobody reads, or has shrunk.
    pub(super) fn answers(&mut self) -> Result<Vec<(Question, Vec<PartitionTarget>)>, Error> {
        let (mut answered, mut again) = (Vec::new(), Vec::new());
        let mut failed = Ok(());
        self.open.retain(|(question, waiting)| {
            let Ok(answer) = waiting.try_recv() else {
                return true;
            };
            match answer {
                Ok(ends) => answered.push((question.clone(), ends)),
                // Brokers that are away may come back.
                Err(error) if error.kind == ErrorKind::Failed => {
                    self.panel.trouble(ASKED, Some(error.text));
                    again.push(question.clone());
                }
                Err(error) => failed = Err(error),
            }
            false
        });
        failed?;
        if !answered.is_empty() {
            self.panel.trouble(ASKED, None);
        }
        for question in again {
            self.ask(question);
        }
        Ok(answered)
    }
}

/// The high watermarks of all partitions of these topics.
fn ends(topics: &dyn Topics, question: &Question) -> Answer {
    let mut targets = Vec::new();
    for (name, known) in &question.topics {
        let ranges = topics.ranges(name)?;
        let found = u32::try_from(ranges.len()).unwrap_or(u32::MAX);
        let refused = match question.role {
            Role::Mutations => growth_error(name, *known, found),
            Role::Snapshot => (*known != found).then(|| unread(name, *known, found)),
        };
        if let Some(error) = refused {
            return Err(error);
        }
        targets.extend((0..).zip(ranges).map(|(partition, range)| PartitionTarget {
            topic: name.clone(),
            partition,
            end: range.high,
        }));
    }
    Ok(targets)
}

fn unread(name: &str, known: u32, found: u32) -> Error {
    Error::refused(format!(
        "snapshot topic {name} has partitions that were not read"
    ))
    .line(format!("found     {found} partitions"))
    .line(format!("expected  {known}, as when reading began"))
    .line("READs in the others are missing in the target. Start the job again; it reads all.")
}
