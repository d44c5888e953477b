//! Questions about keys, from whoever asks to the worker that owns the key and back.
//!
//! ```text
//!  asker ─▶ [LookDesk] ─▶ [Looks] (worker 0) ─ Command::Look ─▶ merges
//!  asker ◀──────────────  [Looks] ◀─ Part::Looked ◀─ outbox ─── the one that owns it
//! ```
//! Invariant: nobody waits inside: an asker that has gone, or a job that ends, only drops the other
//! side, and so many questions wait at most.
//!
//! It cannot answer what a job that ends was asked last: the asker has a time limit of its own.

use crate::checkpoint::Part;
use headwater_operators::control::Command;
use headwater_operators::merge::Looked;
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use tokio::sync::oneshot::{Receiver, Sender, channel};

/// Questions that wait on the desk, or for their answer, at most.
const WAITING_MAX: usize = 64;

/// What is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Look {
    /// Of the key.
    pub fingerprint: u128,
    /// The number of its table.
    pub table: u16,
}

/// Where questions wait for worker 0.
#[derive(Debug, Default)]
pub struct LookDesk {
    waiting: Mutex<Vec<(Look, Sender<Looked>)>>,
}

impl LookDesk {
    /// Puts a question on the desk; nothing when too many wait. The answer comes some ticks later;
    /// give up after a while, as a job that ends answers nothing.
    pub fn ask(&self, look: Look) -> Option<Receiver<Looked>> {
        let mut waiting = self.lock();
        waiting.retain(|(_, asker)| !asker.is_closed());
        if waiting.len() >= WAITING_MAX {
            return None;
        }
        let (asker, answer) = channel();
        waiting.push((look, asker));
        Some(answer)
    }

    fn take(&self, count_max: usize) -> Vec<(Look, Sender<Looked>)> {
        let mut waiting = self.lock();
        let count = waiting.len().min(count_max);
        waiting.drain(..count).collect()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<(Look, Sender<Looked>)>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Worker 0's side: questions that are under way.
#[derive(Debug, Default)]
pub struct Looks {
    next: u64,
    asked: BTreeMap<u64, Sender<Looked>>,
}

impl Looks {
    /// What to send for the questions that have come.
    pub fn commands(&mut self, desk: &LookDesk) -> Vec<Command> {
        self.asked.retain(|_, asker| !asker.is_closed());
        let taken = desk.take(WAITING_MAX.saturating_sub(self.asked.len()));
        let command = |(look, asker): (Look, Sender<Looked>)| {
            self.next += 1;
            self.asked.insert(self.next, asker);
            Command::Look {
                id: self.next,
                fingerprint: look.fingerprint,
                table: look.table,
            }
        };
        taken.into_iter().map(command).collect()
    }

    /// Takes the answers out of what has come to worker 0, and gives them to who has asked.
    pub fn answered(&mut self, parts: &mut Vec<Part>) {
        parts.retain_mut(|part| {
            let Part::Looked(looked) = part else {
                return true;
            };
            if let Some(asker) = self.asked.remove(&looked.id) {
                // Gone meanwhile: nobody wants to know any more.
                let _ = asker.send(std::mem::take(looked));
            }
            false
        });
    }
}

#[cfg(test)]
mod tests {
    use super::{Look, LookDesk, Looks, WAITING_MAX};
    use crate::checkpoint::Part;
    use headwater_operators::control::Command;
    use headwater_operators::merge::Looked;

    const LOOK: Look = Look {
        fingerprint: 7,
        table: 1,
    };

    #[test]
    fn an_answer_comes_to_who_has_asked() {
        let (desk, mut looks) = (LookDesk::default(), Looks::default());
        assert_eq!(looks.commands(&desk), []);
        let mut answers = [0, 1].map(|_| desk.ask(LOOK).expect("room"));
        let commands = looks.commands(&desk);
        let ids: Vec<u64> = commands
            .iter()
            .map(|command| match command {
                Command::Look {
                    id,
                    fingerprint: 7,
                    table: 1,
                } => *id,
                other => panic!("{other:?}"),
            })
            .collect();
        let looked = |id| Looked {
            id,
            marker: Some(id),
            poison: None,
            ..Looked::default()
        };
        // Of the second, of nobody, and something else.
        let other = Part::Markers {
            number: 1,
            worker: 0,
            runs: Vec::new(),
            ticks: Default::default(),
            bytes_new: 0,
        };
        let mut parts = vec![
            Part::Looked(looked(ids[1])),
            Part::Looked(looked(99)),
            other.clone(),
        ];
        looks.answered(&mut parts);
        assert_eq!(parts, [other]);
        assert_eq!(answers[1].try_recv(), Ok(looked(ids[1])));
        assert!(answers[0].try_recv().is_err());
    }

    #[test]
    fn who_has_gone_makes_room() {
        let (desk, mut looks) = (LookDesk::default(), Looks::default());
        let answers: Vec<_> = (0..WAITING_MAX).map_while(|_| desk.ask(LOOK)).collect();
        assert_eq!(answers.len(), WAITING_MAX);
        assert!(desk.ask(LOOK).is_none());
        assert_eq!(looks.commands(&desk).len(), WAITING_MAX);
        let waits = desk.ask(LOOK).expect("the desk is empty");
        assert_eq!(looks.commands(&desk), []);
        drop(answers);
        assert_eq!(looks.commands(&desk).len(), 1);
        drop(waits);
    }
}
