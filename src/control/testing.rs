//! A control plane over HTTP before a worker 0 that is played: it takes from the desk, and answers.
//!
//! It cannot check what it is asked as worker 0 does: it knows the ids of generations, and the ids
//! of requests.

use super::listen::Listen;
use super::pending::Pending;
use super::router::Access;
use super::token::Token;
use super::view::Facts;
use super::{Live, Shared, serve};
use crate::checkpoint::Saved;
use crate::generation::record::Promotion;
use crate::generation::{Answer, Body, Reached, Refusal, Request, Stage};
use crate::job::{Job, Panel, Shown, ShownGeneration};
use crate::launch::tests::{one_table, settings};
use crate::signals::Stop;
use crate::topic::memory::MemoryTopics;
use serde_json::Value;
use std::collections::{BTreeMap, VecDeque};
use std::net::TcpListener;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::sync::oneshot;

type Server = (oneshot::Sender<()>, JoinHandle<()>);

pub(super) const TOKEN: &str = "0123456789abcdef";

/// See the module.
pub(super) struct Plane {
    pub(super) topics: MemoryTopics,
    pub(super) job: Arc<Job>,
    pub(super) shared: Arc<Shared>,
    pub(super) worker: Arc<Worker>,
    pub(super) address: String,
    server: Option<Server>,
    thread: Option<JoinHandle<()>>,
}

/// Worker 0, played.
#[derive(Default)]
pub(super) struct Worker {
    over: AtomicBool,
    /// While set, nothing becomes durable.
    pub(super) held: AtomicBool,
    /// What it was asked, in order.
    pub(super) asked: Mutex<Vec<Request>>,
}

impl Plane {
    /// With one table, `public.hello`, topics `m` and `s`, and generation g1 ready.
    pub(super) fn new(mut facts: Facts) -> Plane {
        let topics = MemoryTopics::default();
        let job = Arc::new(one_table(&topics, 1, settings()));
        facts.job = "hello".to_owned();
        facts.tables = job.tables.clone();
        let shared = Arc::new(shared(Some(Live::new(&job, None, facts))));
        let (address, server) = served(&shared);
        job.panel.show(ready());
        let worker = Arc::new(Worker::default());
        let thread = {
            let (worker, panel) = (Arc::clone(&worker), Arc::clone(&job.panel));
            std::thread::spawn(move || worker.work(&panel))
        };
        Plane {
            topics,
            job,
            shared,
            worker,
            address,
            server: Some(server),
            thread: Some(thread),
        }
    }

    /// Process 1 of the job: it sends on.
    pub(super) fn another_process(&self) -> (String, Server) {
        let mut other = shared(None);
        let Ok(Listen::At(address)) = Listen::parse(&self.address) else {
            panic!("{} is no address", self.address)
        };
        other.access.elsewhere = Some(Ok(address));
        served(&Arc::new(other))
    }

    /// Asks with the token, and gives the status code and the body.
    pub(super) fn ask(&self, method: &str, path: &str, body: &str, id: &str) -> (u16, Value) {
        let agent = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .proxy(None)
            .timeout_global(Some(Duration::from_secs(30)))
            .build()
            .new_agent();
        let mut request = ureq::http::Request::builder()
            .method(method)
            .uri(format!("http://{}{path}", self.address))
            .header("Authorization", format!("Bearer {TOKEN}"));
        if !id.is_empty() {
            request = request.header(super::requests::ID_HEADER, id);
        }
        let request = request.body(body.to_owned()).expect("a request");
        let mut response = agent.run(request).expect("an answer");
        let text = response.body_mut().read_to_string().expect("text");
        let json = serde_json::from_str(&text).unwrap_or(Value::Null);
        (response.status().as_u16(), json)
    }

    pub(super) fn post(&self, path: &str, body: &str) -> (u16, Value) {
        self.ask("POST", path, body, "")
    }

    pub(super) fn get(&self, path: &str) -> (u16, Value) {
        self.ask("GET", path, "", "")
    }

    /// Changes what worker 0 shows.
    pub(super) fn change(&self, change: impl FnOnce(&mut Shown)) {
        let mut shown = self.job.panel.shown();
        change(&mut shown);
        self.job.panel.show(shown);
    }

    /// The bodies that worker 0 was asked.
    pub(super) fn bodies(&self) -> Vec<Body> {
        let asked = self.worker.asked.lock().expect("not poisoned");
        asked.iter().map(|request| request.body.clone()).collect()
    }
}

fn shared(live: Option<Live>) -> Shared {
    Shared {
        access: Access {
            loopback: true,
            token: Some(Token::new(TOKEN)),
            elsewhere: None,
        },
        job: "hello".to_owned(),
        asked: Stop::new(),
        started_ms: 0,
        live: Mutex::new(live),
        pending: Pending::default(),
        answer_wait: Duration::from_millis(400),
        promoting: tokio::sync::Mutex::new(()),
    }
}

fn served(shared: &Arc<Shared>) -> (String, Server) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("bound").to_string();
    (address, serve(listener, shared).expect("it serves"))
}

impl Drop for Plane {
    fn drop(&mut self) {
        self.worker.over.store(true, Ordering::SeqCst);
        if let Some((stop, thread)) = self.server.take() {
            let _ = stop.send(());
            let _ = thread.join();
        }
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// A job whose g1 may be promoted.
fn ready() -> Shown {
    let mut g1 = ShownGeneration::default();
    g1.state.id = "g1".to_owned();
    g1.state.number = 1;
    g1.state.tables = vec![0];
    g1.state.stage = Stage::Ready;
    for (stage, evidence) in [
        (Stage::Open, None),
        (Stage::SourceFinished, Some("counted")),
        (Stage::CaughtUp, Some("seen")),
    ] {
        g1.state.reached.push(Reached {
            stage,
            evidence: evidence.map(str::to_owned),
            ..Reached::default()
        });
    }
    let mut shown = Shown {
        saved: Some(Saved::default()),
        generations: vec![g1],
        ..Shown::default()
    };
    shown.gauges.lag.push(crate::gauges::TopicLag {
        topic: "m".to_owned(),
        role: crate::table::Role::Mutations,
        records: Some(0),
        newest_age_ms: None,
    });
    shown
}

impl Worker {
    fn work(&self, panel: &Panel) {
        let mut answered: BTreeMap<String, Answer> = BTreeMap::new();
        let mut waiting = VecDeque::new();
        while !self.over.load(Ordering::SeqCst) {
            waiting.extend(panel.desk.take());
            if self.held.load(Ordering::SeqCst) {
                std::thread::sleep(Duration::from_millis(1));
                continue;
            }
            while let Some((request, told)) = waiting.pop_front() {
                let outcome = match answered.get(&request.id) {
                    Some(answer) => Ok(answer.clone()),
                    None => self.done(panel, &request),
                };
                if let Ok(answer) = &outcome {
                    answered.insert(request.id.clone(), answer.clone());
                }
                let _ = told.send(outcome);
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn done(&self, panel: &Panel, request: &Request) -> Result<Answer, Refusal> {
        let mut asked = self.asked.lock().expect("not poisoned");
        asked.push(request.clone());
        let mut shown = panel.shown();
        let (id, text) = act(&request.body, &mut shown)?;
        panel.show(shown);
        Ok(Answer {
            text,
            generation: id,
            manifest: asked.len() as u64,
        })
    }
}

fn of<'s>(shown: &'s mut Shown, id: &String) -> Result<&'s mut ShownGeneration, Refusal> {
    let mut found = shown.generations.iter_mut();
    let found = found.find(|one| one.state.id == *id);
    found.ok_or_else(|| Refusal::Unknown(format!("no generation {id}")))
}

fn act(body: &Body, shown: &mut Shown) -> Result<(Option<String>, String), Refusal> {
    let number = shown.generations.len();
    let id = match body {
        Body::Open(open) => {
            let mut one = ShownGeneration::default();
            let id = open.generation.clone();
            one.state.id = id.unwrap_or_else(|| format!("g{}", number + 1));
            one.state.topics = open.topics.clone();
            one.state.tables = open.topics.keys().copied().collect();
            let id = one.state.id.clone();
            shown.generations.push(one);
            Some(id)
        }
        Body::Abort { generation, .. } => {
            of(shown, generation)?.state.stage = Stage::Aborted;
            Some(generation.clone())
        }
        Body::PromoteBegin { generation, by, .. } => {
            let state = &mut of(shown, generation)?.state;
            let again = state.promotion.take().filter(|last| last.done_ms.is_none());
            state.promotion = again.or_else(|| {
                let (id, by) = (format!("p-{generation}"), by.clone());
                Some(Promotion {
                    id,
                    by,
                    ..Promotion::default()
                })
            });
            Some(generation.clone())
        }
        Body::PromoteEnd {
            generation,
            done,
            hook,
        } => {
            let state = &mut of(shown, generation)?.state;
            let promotion = state.promotion.as_mut().expect("it was begun");
            promotion.hook = Some(hook.clone());
            promotion.done_ms = done.then_some(5);
            if *done {
                state.stage = Stage::Promoted;
            }
            Some(generation.clone())
        }
        Body::Finish { generation, .. }
        | Body::DropTable { generation, .. }
        | Body::AcceptLag { generation }
        | Body::AcceptDeadLetters { generation }
        | Body::Demote { generation, .. } => {
            of(shown, generation)?;
            Some(generation.clone())
        }
        Body::Reads { .. } | Body::Ttl { .. } | Body::MarkersMax { .. } => None,
    };
    Ok((id, "done".to_owned()))
}
