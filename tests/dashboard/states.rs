//! States that a real job is slow to come into, from a server that answers them.

use crate::browser::Browser;
use crate::fake::{Fake, ago, checkpoints, generation, reading, step};
use crate::outside;
use headwater::control::document::Word;
use serde_json::{Value, json};

fn open(fake: &Fake) -> Browser {
    let browser = Browser::start();
    browser.open(&fake.origin());
    browser.until_says("#job", "hello");
    browser
}

#[test]
fn every_stage_and_every_verdict_is_shown() {
    let fake = Fake::start(reading());
    let browser = open(&fake);
    browser.until_says("[data-generation=g1] .waits", "1 of 4 partitions at end");
    browser.until("document.querySelector('.now[data-stage=source_finished][aria-current=step]')");
    fake.set(|status| {
        let one = &mut status["generations"][0];
        one["stage"] = json!("source_finished");
        let mut found = step("source_finished", 2.0, Some("counted"));
        found["not_proven"] = json!("that no row was scanned twice");
        one["timeline"].as_array_mut().expect("a list").push(found);
        one["waits_for"]["command"] = json!("headwater generation accept-lag g1");
        status["verdict"]["command"] = json!("headwater generation accept-lag g1");
    });
    let finished = "[data-stage=source_finished].done";
    browser.until_says(finished, "as many READs came as Debezium says");
    browser.until_says(finished, "Not proven: that no row was scanned twice");
    browser.until_says("#command code", "headwater generation accept-lag g1");
    fake.set(|status| {
        let one = &mut status["generations"][0];
        one["stage"] = json!("ready");
        one["waits_for"] = Value::Null;
        for stage in ["topic_consumed", "caught_up", "ready"] {
            let list = one["timeline"].as_array_mut().expect("a list");
            list.push(step(stage, 1.0, None));
        }
    });
    browser.until("document.querySelectorAll('[data-generation=g1] .done').length === 5");
    for word in [
        Word::Starting,
        Word::NotReady,
        Word::CaughtUp,
        Word::Ready,
        Word::Promotable,
        Word::Promoted,
        Word::Spoiled,
        Word::Unsafe,
        Word::Aborted,
        Word::Stopping,
        Word::Failed,
        Word::Down,
    ] {
        fake.set(|status| status["verdict"]["word"] = json!(word));
        let shown = json!(word.shown());
        browser.until(&format!(
            "document.getElementById('word').innerText === {shown}"
        ));
        browser.until(&format!(
            "document.getElementById('announce').textContent.startsWith({shown} + '.')"
        ));
    }
    assert_eq!(browser.complaints(), [""; 0]);
}

#[test]
fn a_window_that_was_overtaken_alarms_and_says_so() {
    let fake = Fake::start(reading());
    let browser = open(&fake);
    browser.until_says("#alarm-list", "None.");
    browser.until_says("#memory-said", "No marker was forgotten.");
    browser.until("document.querySelector('[data-mark=limit]').textContent.includes('alarm')");
    fake.set(|status| {
        status["retention"]["policy"] = json!("ttl");
        status["retention"]["ttl_seconds"] = json!(3600.0);
        status["retention"]["used_ratio"] = json!(0.88);
        status["retention"]["forgotten_through"] = json!(ago(60.0));
        let remedy = "headwater ttl 3h, or slow the mutations down";
        status["alarms"] = json!([{"name": "retention_used", "critical": false, "remedy": remedy,
            "text": "88 % of the retained window is used"}]);
        status["troubles"] = json!([{"who": "the target", "what": "database is locked"}]);
    });
    browser.until_says("[data-alarm=retention_used]", "88 % of the retained window");
    browser.until_says(
        "[data-alarm=retention_used]",
        "What to do: headwater ttl 3h",
    );
    browser.until_says("[data-trouble='the target']", "database is locked");
    browser.until_says("#alarm-link", "2 alarms");
    browser.until_says(
        "#memory-said",
        "are left until markers of the window are forgotten",
    );
    browser.until_says("#memory-said", "That is more than markers are kept.");
    browser.until_says("[data-used='88 %']", "88 %");
    browser.until("document.querySelector('[data-mark=limit]').textContent.includes('forgetting')");
    browser.until("document.querySelector('[data-window=g1]').dataset.risk === 'false'");
    fake.set(|status| {
        let text = "1,204 READs may be stale; do not use the target. Take a new snapshot";
        status["verdict"] = json!({"word": "unsafe", "text": text, "acts": "person",
            "command": "headwater quarantine signal", "leave_alone": false});
        status["retention"]["forgotten_through"] = json!(ago(30.0));
        status["retention"]["used_ratio"] = json!(1.02);
        status["retention"]["window_seconds"] = json!(3672.0);
        status["reads"]["quarantined"] = json!({"forgotten": 1204});
        let one = &mut status["generations"][0];
        one["stage"] = json!("unsafe");
        one["unsafe_reads"] = json!(1204);
        one["waits_for"] = Value::Null;
        one["timeline"]
            .as_array_mut()
            .expect("a list")
            .push(step("unsafe", 1.0, None));
        status["alarms"][0]["critical"] = json!(true);
    });
    browser.until_says("#word", "UNSAFE");
    browser.until_says("#acts", "A person must act. Do not leave it alone.");
    browser.until("document.querySelector('[data-window=g1]').dataset.risk === 'true'");
    browser.until("document.querySelector('[data-band=forgotten]')");
    browser.until_says("[data-case=behind]", "1,204 so far");
    browser.until_says("[data-generation=g1] .ended", "unsafe");
    browser.until_says(".alarm.critical", "Act now");
    browser.until_says("#memory-said", "The window is used up by");
    browser.until_says("[data-kind=quarantined]", "it may be stale");
    assert_eq!(browser.complaints(), [""; 0]);
}

#[test]
fn two_generations_each_have_a_window() {
    let fake = Fake::start(reading());
    fake.plan().checkpoints = checkpoints(12);
    let browser = open(&fake);
    browser.until("document.querySelectorAll('#checkpoints svg').length === 2");
    browser.until("document.querySelectorAll('#lag-mutations polyline').length === 1");
    browser.until_says("#lag-snapshot .figure", "22 min");
    fake.set(|status| {
        let mut old = generation(1);
        old["stage"] = json!("superseded");
        old["waits_for"] = Value::Null;
        let list = old["timeline"].as_array_mut().expect("a list");
        list.push(step("superseded", 20.0, None));
        let mut new = generation(2);
        new["opened_at"] = json!(ago(20.0));
        new["began"] = json!({"at": ago(19.0), "known_by": "records"});
        new["timeline"] = json!([step("open", 20.0, None)]);
        status["generations"] = json!([old, new]);
        status["read_control"]["paused"] = json!(true);
        status["lag"] = json!([]);
        status["sink"]["state"] = json!("retrying");
        status["sink"]["attempts_failed"] = json!(3);
        status["sink"]["reason"] = json!("connection refused");
    });
    browser.until("document.querySelectorAll('[data-window]').length === 2");
    browser.until_says("[data-generation=g1] .ended", "superseded");
    browser.until("document.querySelector('[data-generation]').dataset.generation === 'g2'");
    browser.until_says("#paused", "READs are paused");
    browser.until_says("#lag-mutations", "not measured");
    browser.until_says("#sink", "connection refused");
    browser.until_says("#sink-state", "retrying, 3 attempts failed");
    // What is text in the status is text on the page.
    fake.set(|status| status["not_proven"] = json!(["<img src=x onerror=alert(1)>"]));
    browser.until_says("#not-proven", "<img src=x onerror=alert(1)>");
    for member in [
        "run",
        "mutations",
        "reads",
        "markers",
        "checkpoint",
        "sink",
        "read_control",
        "retention",
    ] {
        fake.set(|status| status[member] = Value::Null);
    }
    fake.set(|status| status["generations"] = json!([]));
    browser.until_says("#readiness", "No generation is known.");
    browser.until_says("#memory", "Not known.");
    browser.until_says("#checkpoints", "None in this run yet.");
    assert_eq!(browser.complaints(), [""; 0]);
}

#[test]
fn a_job_that_goes_away_and_comes_back_is_told() {
    let mut fake = Fake::start(reading());
    let browser = open(&fake);
    fake.go();
    browser.until_says("#away", "No answer since ");
    browser.until_says("#away", "is of that time");
    browser.until("document.getElementById('announce').textContent.startsWith('No answer')");
    browser.until_says("#markers .figure", "402,117");
    fake.set(|status| status["markers"]["count"] = json!(7));
    fake.come();
    browser.until("document.getElementById('away').hidden");
    browser.until("document.querySelector('#markers .figure').innerText === '7'");
    browser.until("!document.getElementById('main').classList.contains('old')");
    // An answer that is none is told, too.
    fake.plan().token = Some("x".to_owned());
    browser.until("!document.getElementById('unlock').hidden");
    fake.plan().token = None;
    browser.until("document.getElementById('unlock').hidden");
    assert_eq!(outside::asked(&browser, &fake.origin()), [""; 0]);
}

/// What `GET /v1/explain` answers of a key with a marker.
fn explained() -> Value {
    let moment = |at: &str| json!({"job_ms": 12_000, "wall_earliest": at, "wall_latest": at});
    json!({
        "version": 1, "job": "hello", "source": {"from": "live"},
        "as_of": moment("2026-11-29T10:20:00Z"), "table": "public.hello", "key": "{\"id\":5}",
        "columns": {"id": "integer"}, "marked": moment("2026-11-29T10:12:44Z"),
        "kept": {"until_ready": ["g1"]}, "forgotten_through": null,
        "generations": [{"id": "g1", "number": 1, "stage": "open", "open": true,
            "window_from": moment("2026-11-29T09:40:00Z"), "marker_in_window": true,
            "at_risk": false, "outcome": "dropped_marker"}],
        "notes": ["a note"]
    })
}

#[test]
fn a_key_is_explained() {
    let fake = Fake::start(reading());
    fake.plan().explained = (200, explained());
    let browser = open(&fake);
    // The only table is there already; the key and Enter are enough.
    browser.until("document.getElementById('explain-table').value === 'public.hello'");
    browser.run("document.getElementById('explain-key').focus()");
    browser.keys("{\"id\": 5}\u{e007}");
    browser.until_says(
        "[data-outcome=dropped_marker]",
        "dropped: its key has a marker",
    );
    browser.until_says("#explained", "10:12:44");
    browser.until_says("#explained", "until g1 is ready");
    browser.until_says("#explained", "a note");
    let asked = "/v1/explain?table=public.hello&key=%7B%22id%22%3A%205%7D";
    let found = fake.plan().asked.contains(&asked.to_owned());
    assert!(found, "{:?}", fake.plan().asked);
    // All of it can be seen, by keyboard.
    browser.run("document.querySelector('#explained summary').focus()");
    browser.keys(" ");
    browser.until_says("#explained details", "marker in window");
    assert_eq!(browser.complaints(), [""; 0]);

    // An answer of another form is shown as it is; an error, with its text.
    fake.plan().explained = (200, json!({"some_member": [1, {"other": null}]}));
    let button = "document.querySelector('#explain button').click()";
    browser.run(button);
    browser.until_says("#explained", "some member");
    let error = "the key does not fit\nfound     {\"x\":5}\nexpected  {\"id\":…}";
    fake.plan().explained = (400, json!({"error": error}));
    browser.run(button);
    browser.until_says("#explained .error", "expected  {\"id\":…}");
}
