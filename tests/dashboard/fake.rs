//! A server that serves the page as the control plane does, and beside it the answers that a test
//! wants.
//!
//! Invariant: a status that does not fit the schema is not answered.

use crate::schema;
use crate::server::{Answer, Asked, Server, anywhere};
use headwater::config::units::print_instant;
use headwater::control::dashboard;
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{SystemTime, UNIX_EPOCH};

/// What is answered.
#[derive(Default)]
pub(crate) struct Plan {
    /// Of `/v1/status`; `at` is set when it is answered.
    pub(crate) status: Value,
    /// Of `/v1/checkpoints`.
    pub(crate) checkpoints: Value,
    /// Of `/v1/explain`, with its code.
    pub(crate) explained: (u16, Value),
    /// Without it, nothing is answered under `/v1/`.
    pub(crate) token: Option<String>,
    /// A file of the page with a part of it replaced.
    pub(crate) planted: Option<(&'static str, &'static str, String)>,
    /// The page comes without its policy.
    pub(crate) without_policy: bool,
    /// How far `at` goes with each answer, ms; it is the clock's when 0.
    pub(crate) step_ms: i64,
    /// What was asked under `/v1/`.
    pub(crate) asked: Vec<String>,
}

/// See the module.
pub(crate) struct Fake {
    server: Option<Server>,
    address: SocketAddr,
    plan: Arc<Mutex<Plan>>,
}

impl Fake {
    pub(crate) fn start(status: Value) -> Fake {
        let plan = Plan {
            status,
            checkpoints: json!({"version": 1, "checkpoints": []}),
            explained: (404, json!({"error": "nothing is planned"})),
            ..Plan::default()
        };
        let mut fake = Fake {
            server: None,
            address: anywhere(),
            plan: Arc::new(Mutex::new(plan)),
        };
        fake.come();
        fake
    }

    /// Nobody listens any more.
    pub(crate) fn go(&mut self) {
        self.server = None;
    }

    /// Listens, again at the same address.
    pub(crate) fn come(&mut self) {
        let plan = Arc::clone(&self.plan);
        let server = Server::start(self.address, move |asked| {
            answer(&mut plan.lock().expect("nobody panics"), asked)
        });
        self.address = server.address();
        self.server = Some(server);
    }

    pub(crate) fn origin(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(crate) fn plan(&self) -> MutexGuard<'_, Plan> {
        self.plan.lock().expect("nobody panics")
    }

    /// Answers another status from now on.
    pub(crate) fn set(&self, change: impl FnOnce(&mut Value)) {
        change(&mut self.plan().status);
    }
}

fn answer(plan: &mut Plan, asked: &Asked) -> Answer {
    let path = asked.target.split('?').next().expect("it begins with it");
    if let Some(file) = dashboard::file(path) {
        let mut text = file.text.to_owned();
        if let Some((_, from, to)) = plan.planted.as_ref().filter(|of| of.0 == path) {
            assert!(text.contains(from), "{path} has no {from}");
            text = text.replacen(from, to, 1);
        }
        let policy = ("content-security-policy", dashboard::POLICY.to_owned());
        return Answer {
            code: 200,
            kind: file.kind,
            headers: (!plan.without_policy)
                .then_some(policy)
                .into_iter()
                .collect(),
            body: text,
        };
    }
    plan.asked.push(asked.target.clone());
    if let Some(token) = &plan.token {
        let shown = format!("authorization: bearer {token}");
        if !asked
            .headers
            .iter()
            .any(|line| line.to_lowercase() == shown)
        {
            return Answer::json(401, &json!({"error": "the token is needed"}));
        }
    }
    match path {
        "/v1/status" => {
            plan.status["at"] = match (plan.step_ms, plan.status["at"].as_str()) {
                (0, _) | (_, None) => json!(print_instant(now_ms())),
                (step, Some(last)) => {
                    let last = headwater::config::units::parse_instant(last).expect("a time");
                    json!(print_instant(last + step))
                }
            };
            fits(&plan.status);
            Answer::json(200, &plan.status)
        }
        "/v1/checkpoints" => Answer::json(200, &plan.checkpoints),
        "/v1/explain" => Answer::json(plan.explained.0, &plan.explained.1),
        _ => Answer::json(404, &json!({"error": "nothing"})),
    }
}

fn fits(status: &Value) {
    let schema = include_str!("../../src/control/status.schema.json");
    let misfits = schema::misfits(&serde_json::from_str(schema).expect("JSON"), status);
    assert!(misfits.is_empty(), "{misfits:#?}");
}

pub(crate) fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    i64::try_from(since.expect("after 1970").as_millis()).expect("before year 292 million")
}

/// So many minutes before now.
pub(crate) fn ago(minutes: f64) -> String {
    print_instant(now_ms() - (minutes * 60_000.0) as i64)
}

/// A stage that was come into.
pub(crate) fn step(stage: &str, minutes_ago: f64, evidence: Option<&str>) -> Value {
    json!({"stage": stage, "at": ago(minutes_ago), "evidence": evidence, "not_proven": null})
}

/// A generation that reads: opened 40 minutes ago, its snapshot began 38 minutes ago.
pub(crate) fn generation(number: u32) -> Value {
    json!({
        "id": format!("g{number}"), "number": number, "tables": ["public.hello"],
        "dropped_tables": [], "topics": {"public.hello": format!("snap_g{number}.public.hello")},
        "stage": "open", "opened_at": ago(40.0),
        "began": {"at": ago(38.0), "known_by": "notification"},
        "timeline": [step("open", 40.0, None)],
        "waits_for": {"text": "reading the snapshot, 1 of 4 partitions at end", "acts": "job",
            "command": null, "leave_alone": true},
        "partitions_at_end": 1, "partitions": 4, "targets_reached": 0, "targets": 0,
        "reads": {"read": 6_204_118, "emitted": 6_179_903,
            "dropped": {"marker": 24_215, "superseded": 0},
            "kept_back": {"poisoned": 0, "unsafe": 0, "late": 0}},
        "reads_total": 9_400_000, "unsafe_reads": 0, "late_reads": 0,
        "dead_letters": 0, "dead_letters_accepted": 0, "live_cutoff": null,
        "connector": "snap_g1", "notifications": "snap_g1.notifications", "accepted": [],
        "promotion": null
    })
}

/// The status of a job amid a rebuild.
pub(crate) fn reading() -> Value {
    json!({
        "version": 1, "job": "hello", "stage": "running", "at": null,
        "verdict": {"word": "not_ready", "text": "reading the snapshot, 1 of 4 partitions at end",
            "acts": "job", "command": null, "leave_alone": true},
        "run": {"incarnation": 3, "processes": 2, "workers": 4, "started_at": ago(95.0),
            "up_seconds": 5700.0, "restored_from": 41, "rule_off": false,
            "keeps": "kept until ready", "not_fenced": null, "lease_trouble": null},
        "not_proven": ["m[0] is read from offset 0: nothing shows that the live connector existed \
            before the open"],
        "generations": [generation(1)],
        "mutations": {"read": 812_400, "emitted": 812_400, "dead_letters": 0},
        "reads": {"read": 6_204_118, "emitted": 6_179_903,
            "dropped": {"marker": 24_215, "superseded": 0}, "quarantined": {},
            "emitted_unsafe": 0},
        "ignored": {}, "markers": {"count": 402_117, "bytes": 9_437_184},
        "checkpoint": {"number": 97, "at": ago(0.2), "seconds": 0.21, "bytes_new": 188_416,
            "bytes": 9_961_472},
        "sink": {"kind": "postgres", "rows_written": 6_951_204, "state": "running",
            "reason": null, "attempts_failed": 0, "behind_seconds": 0.4},
        "troubles": [], "alarms": [],
        "read_control": {"paused": false, "rate_set": false, "per_second_max": null,
            "markers_max": null},
        "retention": {"policy": "until_ready", "keeps": "kept until ready",
            "ttl_seconds": null, "start_margin_seconds": 900.0, "open_late_max_seconds": 3600.0,
            "forgotten_through": null, "window_started_at": ago(53.0), "window_seconds": 3180.0,
            "used_ratio": 0.4, "budget": {"needed_seconds": 6120.0, "elapsed_seconds": 3180.0,
                "left_seconds": 1320.0, "rows_left": 3_195_882, "rows_per_second": 2420,
                "rate_from": "the 10th percentile of this generation"}},
        "lag": [{"topic": "app.public.hello", "role": "mutations", "records": 120, "seconds": 0.4},
            {"topic": "snap_g1.public.hello", "role": "snapshot", "records": 3_195_882,
                "seconds": 1320.0}]
    })
}

/// So many checkpoints, newest first.
pub(crate) fn checkpoints(count: u64) -> Value {
    let one = |index: u64| {
        json!({"number": 98 - index, "at": ago(0.2 + index as f64), "bytes": 9_961_472,
            "seconds": 0.12 + 0.03 * (index % 4) as f64,
            "bytes_new": 120_000 + 23_000 * (index * 7 % 11)})
    };
    let list: Vec<Value> = (1..=count).map(one).collect();
    json!({"version": 1, "checkpoints": list})
}
