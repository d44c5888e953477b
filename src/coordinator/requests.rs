//! What persons ask of the job: judged, done, remembered, and answered when it is durable.
//!
//! Invariant: an answer is sent only when a manifest is durable that was begun after the request
//! had been done.

use crate::checkpoint::manifest::Done;
use crate::generation::request::{Outcome, Waiting};
use crate::generation::{Answer, Refusal};
use std::sync::mpsc::Sender;

/// Answers that are remembered.
const REMEMBERED_MAX: usize = 200;

/// Those that are done and not durable yet, and those that were answered.
#[derive(Default)]
pub(super) struct Requests {
    done: Vec<Done>,
    /// Done since the last cut, or in one that is not durable: with the manifest they wait for,
    /// once its number is known.
    pending: Vec<(Sender<Outcome>, Answer, Option<u64>)>,
}

impl Requests {
    /// With those that earlier runs have answered.
    pub(super) fn new(done: Vec<Done>) -> Requests {
        Requests {
            done,
            pending: Vec::new(),
        }
    }

    /// What the next manifest says of them.
    pub(super) fn done(&self) -> &[Done] {
        &self.done
    }

    /// Whether a manifest is wanted.
    pub(super) fn wanting(&self) -> bool {
        self.pending.iter().any(|(_, _, number)| number.is_none())
    }

    /// Takes one from the desk; `act` judges it and does it.
    pub(super) fn take(
        &mut self,
        (request, told): Waiting,
        act: impl FnOnce(&crate::generation::Body) -> Result<(String, Option<String>), Refusal>,
    ) {
        // Whoever asked may have gone: what was asked is done all the same.
        if let Some(done) = self.done.iter().find(|done| done.id == request.id) {
            let waits = self.pending.iter().find(|(_, of, _)| *of == done.answer);
            match waits.map(|(_, _, number)| *number) {
                Some(number) => self.pending.push((told, done.answer.clone(), number)),
                None => drop(told.send(Ok(done.answer.clone()))),
            }
            return;
        }
        let (text, generation) = match act(&request.body) {
            Ok(done) => done,
            Err(refusal) => {
                let _ = told.send(Err(refusal));
                return;
            }
        };
        let answer = Answer {
            text,
            generation,
            manifest: 0,
        };
        self.done.push(Done {
            id: request.id,
            answer: answer.clone(),
        });
        let forgotten = self.done.len().saturating_sub(REMEMBERED_MAX);
        self.done.drain(..forgotten);
        self.pending.push((told, answer, None));
    }

    /// Manifest `number` is begun: it has all that were done.
    pub(super) fn cut(&mut self, number: u64) {
        for (_, answer, waits_for) in &mut self.pending {
            if waits_for.is_none() {
                *waits_for = Some(number);
                let mut done = self.done.iter_mut();
                if let Some(done) = done.find(|done| done.answer == *answer) {
                    done.answer.manifest = number;
                }
                answer.manifest = number;
            }
        }
    }

    /// Manifest `number` is durable.
    pub(super) fn durable(&mut self, number: u64) {
        self.pending.retain(|(told, answer, waits_for)| {
            let durable = waits_for.is_some_and(|waits_for| waits_for <= number);
            if durable {
                let _ = told.send(Ok(answer.clone()));
            }
            !durable
        });
    }

    /// The job ends: nothing more becomes durable.
    pub(super) fn end(&mut self) {
        for (told, _, _) in self.pending.drain(..) {
            let _ = told.send(Err(Refusal::Ending));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Requests;
    use crate::generation::{Body, Desk, Refusal, Request};

    fn ask(desk: &Desk, id: &str) -> std::sync::mpsc::Receiver<super::Outcome> {
        desk.ask(Request {
            id: id.to_owned(),
            body: Body::Ttl { ttl_ms: 1 },
        })
    }

    fn done(text: &str) -> Result<(String, Option<String>), Refusal> {
        Ok((text.to_owned(), None))
    }

    #[test]
    fn an_answer_waits_for_a_manifest_that_was_begun_after_it() {
        let (desk, mut requests) = (Desk::default(), Requests::default());
        let first = ask(&desk, "a");
        requests.cut(1);
        for waiting in desk.take() {
            requests.take(waiting, |_| done("one"));
        }
        assert!(requests.wanting());
        requests.durable(1);
        assert!(first.try_recv().is_err(), "manifest 1 does not have it");
        requests.cut(2);
        let again = ask(&desk, "a");
        for waiting in desk.take() {
            requests.take(waiting, |_| panic!("it was done"));
        }
        assert!(!requests.wanting());
        requests.durable(2);
        let answer = first.recv().expect("told").expect("done");
        assert_eq!((answer.text.as_str(), answer.manifest), ("one", 2));
        assert_eq!(again.recv().expect("told"), Ok(answer.clone()));
        let later = ask(&desk, "a");
        for waiting in desk.take() {
            requests.take(waiting, |_| panic!("it was done"));
        }
        assert_eq!(later.recv().expect("told"), Ok(answer));
        assert_eq!(requests.done().len(), 1);
    }

    #[test]
    fn a_refusal_is_told_at_once_and_may_be_asked_again() {
        let (desk, mut requests) = (Desk::default(), Requests::default());
        let refused = ask(&desk, "a");
        for waiting in desk.take() {
            requests.take(waiting, |_| Err(Refusal::Conflict("no".to_owned())));
        }
        assert!(refused.recv().expect("told").is_err());
        assert!(requests.done().is_empty());
        let pending = ask(&desk, "a");
        for waiting in desk.take() {
            requests.take(waiting, |_| done("now"));
        }
        requests.end();
        assert_eq!(pending.recv().expect("told"), Err(Refusal::Ending));
    }
}
