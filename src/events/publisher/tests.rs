//! Listeners that fail, that hang, and that are real: a folder, and a webhook.

use super::{Events, Outlet, WHO};
use crate::checkpoint::manifest::GenerationState;
use crate::events::{Event, Place};
use crate::generation::{Reached, Stage};
use crate::job::Panel;
use crate::topic::file::FileTopics;
use crate::topic::{Assignment, Topics};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

const WAIT: Duration = Duration::from_secs(20);

/// A generation that has come into these stages, one a second.
fn generation(number: u32, stages: &[Stage]) -> GenerationState {
    let reached = |(at, stage): (u64, &Stage)| Reached {
        stage: *stage,
        at_ms: 1_000 * at,
        tick_ms: 1_000 * at + u64::from(number),
        evidence: (*stage == Stage::SourceFinished).then(|| "counted".to_owned()),
        not_proven: None,
    };
    GenerationState {
        number,
        id: format!("g{number}"),
        tables: vec![0, 1],
        dropped_tables: vec![1],
        stage: *stages.last().expect("one"),
        reached: (1..).zip(stages).map(reached).collect(),
        ..GenerationState::default()
    }
}

fn names() -> Vec<String> {
    ["public.a", "public.b"].map(str::to_owned).to_vec()
}

/// Asks a test what to answer.
struct Asked(Sender<Event>, Receiver<Result<(), String>>);

impl Outlet for Asked {
    fn give(&mut self, event: &Event) -> Result<(), String> {
        self.0.send(event.clone()).expect("the test listens");
        self.1.recv().unwrap_or_else(|_| Err("gone".to_owned()))
    }
}

struct Listener {
    given: Receiver<Event>,
    answer: Sender<Result<(), String>>,
    panel: Arc<Panel>,
}

impl Listener {
    /// The id of the next event, which is taken or not.
    fn next(&self, taken: bool) -> String {
        let event = self.given.recv_timeout(WAIT).expect("an event");
        let answer = match taken {
            true => Ok(()),
            false => Err("away".to_owned()),
        };
        self.answer.send(answer).expect("it waits");
        event.id
    }
}

fn start(base: (u64, &[GenerationState], u64)) -> (Events, Listener) {
    let ((give, given), (answer, answers)) = (channel(), channel());
    let panel = Arc::new(Panel::default());
    let outlet = Box::new(Asked(give, answers));
    let events = Events::through(outlet, "job", names(), base, Arc::clone(&panel));
    let listener = Listener {
        given,
        answer,
        panel,
    };
    (events.expect("a thread"), listener)
}

fn until(what: &str, mut done: impl FnMut() -> bool) {
    let until = Instant::now() + WAIT;
    while !done() {
        assert!(Instant::now() < until, "waited in vain: {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn what_a_manifest_says_is_told_in_order_and_again_until_it_is_taken() {
    let (events, listener) = start((1, &[], 0));
    let first = [generation(1, &[Stage::Open])];
    assert_eq!(events.sent(&first), 0);
    events.durable(2, &first);
    let now = [
        generation(1, &[Stage::Open, Stage::SourceFinished]),
        generation(2, &[Stage::Open]),
    ];
    for _ in 0..2 {
        assert_eq!(listener.next(false), "job/g1/1@1000");
    }
    until("trouble", || {
        listener.panel.troubles().get(WHO).map(String::as_str) == Some("away")
    });
    assert_eq!(events.sent(&now), 0);
    events.durable(3, &now);
    assert_eq!(listener.next(true), "job/g1/1@1000");
    assert_eq!(listener.next(true), "job/g2/1@1000");
    let last = listener.given.recv_timeout(WAIT).expect("an event");
    assert_eq!(events.sent(&now), 2);
    assert!(listener.panel.troubles().is_empty());
    let expected = Event {
        id: "job/g1/2@2000".to_owned(),
        job: "job".to_owned(),
        generation: "g1".to_owned(),
        number: 1,
        seq: 2,
        stage: Stage::SourceFinished,
        at_ms: 2_000,
        evidence: Some("counted".to_owned()),
        not_proven: None,
        tables: vec!["public.a".to_owned()],
        manifest: 3,
    };
    assert_eq!(last, expected);
    listener.answer.send(Ok(())).expect("it waits");
    assert!(events.close(WAIT));
    assert_eq!(events.sent(&now), 3);
    assert!(listener.given.recv().is_err(), "the thread has ended");
}

#[test]
fn a_run_goes_on_where_its_manifest_says() {
    let base = [generation(1, &[Stage::Open, Stage::SourceFinished])];
    for (sent, expected) in [(0, "job/g1/1@1000"), (1, "job/g1/2@2000")] {
        let (events, listener) = start((7, &base, sent));
        assert_eq!(events.sent(&base), sent);
        assert_eq!(listener.next(true), expected);
        drop(listener);
        events.close(Duration::ZERO);
    }
    let (events, listener) = start((7, &base, 2));
    assert!(events.close(Duration::ZERO));
    assert!(listener.given.recv().is_err(), "nothing was to be told");
}

#[test]
fn a_listener_that_hangs_does_not_hold_the_end_up() {
    let base = [generation(1, &[Stage::Open])];
    let (events, listener) = start((1, &base, 0));
    listener.given.recv_timeout(WAIT).expect("an event");
    let began = Instant::now();
    assert!(!events.close(Duration::from_millis(50)));
    assert!(began.elapsed() < WAIT / 2);
    assert_eq!(events.sent(&base), 0);
}

#[test]
fn an_end_cuts_a_long_pause_short() {
    let base = [generation(1, &[Stage::Open])];
    let (events, listener) = start((1, &base, 0));
    // The next pause would be one of 3.2 s.
    for _ in 0..4 {
        listener.next(false);
    }
    std::thread::scope(|scope| {
        let closed = scope.spawn(|| events.close(WAIT));
        let began = Instant::now();
        listener.next(false);
        assert!(
            began.elapsed() < Duration::from_secs(3),
            "{:?}",
            began.elapsed()
        );
        listener.next(true);
        assert!(closed.join().expect("it ends"));
    });
}

#[test]
fn a_folder_is_a_topic_that_goes_on() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("events");
    let all = [generation(1, &[Stage::Open, Stage::Aborted])];
    for (number, sent) in [(1, 0), (2, 1)] {
        let place = Place::Folder(path.clone());
        let base = (number, &all[..], sent);
        let panel = Arc::new(Panel::default());
        let events = Events::start(place, "job", names(), base, Arc::clone(&panel));
        let events = events.expect("a thread");
        assert!(events.close(WAIT), "{:?}", panel.troubles());
    }
    let name = format!("file:{}", path.display());
    let topics = FileTopics::default();
    assert_eq!(topics.ranges(&name).expect("a topic")[0].high, 3);
    let assignment = Assignment {
        topic: name,
        partition: 0,
        next_offset: 0,
    };
    let mut reader = topics
        .reader(&[assignment], Arc::new(|| ()))
        .expect("a reader");
    let mut ids = Vec::new();
    until("three events", || {
        reader
            .poll(usize::MAX, &mut |_, record| {
                let event: Event =
                    serde_json::from_slice(record.value.expect("a value")).expect("JSON");
                assert_eq!(record.key, Some(&b"job"[..]));
                ids.push((event.id, event.manifest));
                Ok(())
            })
            .expect("readable");
        ids.len() == 3
    });
    let open = ("job/g1/1@1000".to_owned(), 1);
    let aborted = |manifest| ("job/g1/2@2000".to_owned(), manifest);
    assert_eq!(ids, [open, aborted(1), aborted(2)]);
}

/// Reads one request; its head and its body.
fn request(stream: &TcpStream) -> (String, String) {
    let mut reader = BufReader::new(stream);
    let (mut head, mut length) = (String::new(), 0);
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).expect("a line");
        let lower = line.to_ascii_lowercase();
        if let Some(value) = lower.strip_prefix("content-length:") {
            length = value.trim().parse().expect("a number");
        }
        if line.trim().is_empty() {
            break;
        }
        head.push_str(&line);
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).expect("a body");
    (head, String::from_utf8(body).expect("text"))
}

#[test]
fn a_webhook_that_fails_twice_gets_every_event_in_order() {
    let server = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = server.local_addr().expect("bound");
    let all = [generation(1, &[Stage::Open, Stage::SourceFinished])];
    let place = Place::Webhook {
        url: format!("http://{address}/hook?token=secret"),
        shown: format!("http://{address}"),
    };
    let panel = Arc::new(Panel::default());
    let events = Events::start(place, "job", names(), (5, &all, 0), Arc::clone(&panel));
    let events = events.expect("a thread");
    let mut ids = Vec::new();
    // Unavailable, then no answer at all, then good.
    let answers = ["503 Service Unavailable", "", "204 No Content", "200 OK"];
    for answer in answers {
        let (mut stream, _) = server.accept().expect("it asks");
        let (head, body) = request(&stream);
        assert!(head.starts_with("POST /hook?token=secret "), "{head}");
        let event: Event = serde_json::from_str(&body).expect("JSON");
        ids.push(event.seq);
        if !answer.is_empty() {
            let text =
                format!("HTTP/1.1 {answer}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
            stream.write_all(text.as_bytes()).expect("answered");
        }
        if ids.len() == 2 {
            let trouble = panel.troubles().remove(WHO).expect("trouble");
            assert!(trouble.contains("HTTP 503"), "{trouble}");
            assert!(!trouble.contains("secret"), "{trouble}");
        }
    }
    assert_eq!(ids, [1, 1, 1, 2]);
    assert!(events.close(WAIT));
    assert_eq!(events.sent(&all), 2);
}
