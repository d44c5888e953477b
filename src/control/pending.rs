//! Requests that wait for worker 0, by their ids.
//!
//! Invariant: a request is put on the desk once, however often a client that lost the answer asks
//! again with its id; a refusal is not kept, so that asking again asks anew.
//!
//! It cannot remember over a restart: the manifest does, and worker 0 answers from there.

use crate::generation::request::Outcome;
use crate::generation::{Body, Desk, Refusal, Request};
use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, TryRecvError};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How long an answer is kept for a client that asks again.
const KEPT: Duration = Duration::from_secs(300);
/// Between two looks.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// See the module.
#[derive(Default)]
pub(super) struct Pending {
    waiting: Mutex<BTreeMap<String, Slot>>,
}

struct Slot {
    body: Body,
    told: Receiver<Outcome>,
    outcome: Option<Outcome>,
    since: Instant,
}

/// What became of a request.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Asked {
    /// It was answered, or refused.
    Told(Outcome),
    /// It is not durable yet, and still waits.
    Waits,
    /// Another request has its id.
    OtherBody,
}

impl Pending {
    /// Puts a request on the desk, if it is not there, and waits for its outcome.
    pub(super) async fn ask(&self, desk: &Desk, request: Request, limit: Duration) -> Asked {
        let id = request.id.clone();
        if !self.put(desk, request) {
            return Asked::OtherBody;
        }
        let until = Instant::now() + limit;
        loop {
            if let Some(outcome) = self.look(&id) {
                return Asked::Told(outcome);
            }
            if Instant::now() >= until {
                return Asked::Waits;
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    /// Whether the request, and not another with its id, is on the desk or answered.
    fn put(&self, desk: &Desk, request: Request) -> bool {
        let mut waiting = self.lock();
        waiting.values_mut().for_each(Slot::look);
        waiting.retain(|_, slot| match &slot.outcome {
            None => true,
            Some(Ok(_)) => slot.since.elapsed() < KEPT,
            Some(Err(_)) => false,
        });
        if let Some(slot) = waiting.get(&request.id) {
            return slot.body == request.body;
        }
        let (id, body) = (request.id.clone(), request.body.clone());
        let told = desk.ask(request);
        let slot = Slot {
            body,
            told,
            outcome: None,
            since: Instant::now(),
        };
        waiting.insert(id, slot);
        true
    }

    fn look(&self, id: &str) -> Option<Outcome> {
        let mut waiting = self.lock();
        let Some(slot) = waiting.get_mut(id) else {
            // A refusal that another call for the same request has swept away.
            return Some(Err(Refusal::Conflict("ask again".to_owned())));
        };
        slot.look();
        slot.outcome.clone()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Slot>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Slot {
    fn look(&mut self) {
        if self.outcome.is_some() {
            return;
        }
        self.outcome = match self.told.try_recv() {
            Ok(outcome) => Some(outcome),
            Err(TryRecvError::Disconnected) => Some(Err(Refusal::Ending)),
            Err(TryRecvError::Empty) => None,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::{Asked, Pending};
    use crate::generation::{Answer, Body, Desk, Refusal, Request};
    use std::time::Duration;

    fn ttl(id: &str, ttl_ms: u64) -> Request {
        Request {
            id: id.to_owned(),
            body: Body::Ttl { ttl_ms },
        }
    }

    /// Asks without waiting.
    fn ask(pending: &Pending, desk: &Desk, request: Request) -> Asked {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()
            .expect("a runtime");
        runtime.block_on(pending.ask(desk, request, Duration::ZERO))
    }

    #[test]
    fn a_request_is_on_the_desk_once_and_its_answer_is_kept() {
        let (pending, desk) = (Pending::default(), Desk::default());
        assert_eq!(ask(&pending, &desk, ttl("a", 1)), Asked::Waits);
        assert_eq!(ask(&pending, &desk, ttl("a", 1)), Asked::Waits);
        assert_eq!(ask(&pending, &desk, ttl("a", 2)), Asked::OtherBody);
        let mut taken = desk.take();
        assert_eq!(taken.len(), 1);
        let answer = Answer {
            text: "done".to_owned(),
            generation: None,
            manifest: 7,
        };
        let (_, told) = taken.remove(0);
        told.send(Ok(answer.clone())).expect("it is waited for");
        for _ in 0..2 {
            let again = ask(&pending, &desk, ttl("a", 1));
            assert_eq!(again, Asked::Told(Ok(answer.clone())));
        }
        assert!(desk.take().is_empty());
    }

    #[test]
    fn a_refusal_is_told_and_asking_again_asks_anew() {
        let (pending, desk) = (Pending::default(), Desk::default());
        assert_eq!(ask(&pending, &desk, ttl("a", 1)), Asked::Waits);
        drop(desk.take());
        assert_eq!(pending.look("a"), Some(Err(Refusal::Ending)));
        assert_eq!(ask(&pending, &desk, ttl("a", 1)), Asked::Waits);
        assert_eq!(desk.take().len(), 1);
    }
}
