//! A job from its first READ to its stop, as the control plane and the verbs tell it.

use crate::binary::{Bench, HELLO, JSONL, Record, SQLITE, envelope, hello};
use crate::{LIMIT, address, config, fits, get, status, stop, until};
use serde_json::Value;

/// The arguments of a verb that asks a job.
fn asks<'a>(verb: &[&'a str], listen: &'a str) -> Vec<&'a str> {
    [verb, &["--set", listen]].concat()
}

/// The value of a sample in Prometheus text.
fn sample(text: &str, name: &str) -> Option<f64> {
    let line = text.lines().find(|line| {
        let rest = line.strip_prefix(name);
        rest.is_some_and(|rest| rest.starts_with(' '))
    })?;
    line.rsplit(' ').next()?.parse().ok()
}

#[test]
fn a_job_is_told_from_its_first_read_to_its_stop() {
    let bench = Bench::new();
    bench.hello(2);
    config(&bench, SQLITE);
    bench.sqlite(HELLO);
    let mutations: Vec<Record> = (0..10).map(|id| hello('c', id, "new")).collect();
    bench.append("muts", 0, &mutations);
    let child = bench.start("job", &["run", "-w", "2"]);
    let at = address(&child);
    let listen = format!("control.listen={at}");
    let running = |look: fn(&Value) -> bool| {
        until(&child, "the state", || {
            let now = status(&at);
            look(&now).then_some(now)
        })
    };
    let open = running(|now| now["mutations"]["emitted"] == 10);
    assert_eq!(open["generations"][0]["stage"], "open", "{open:#}");

    let reads: Vec<Record> = (0..30).map(|id| hello('r', id, "old")).collect();
    bench.append("snap", 0, &reads);
    let reading = running(|now| now["reads"]["read"] == 30 && now["reads"]["emitted"] == 20);
    let one = &reading["generations"][0];
    assert_eq!(one["stage"], "open", "{reading:#}");
    assert_eq!(one["reads"]["read"], 30, "{reading:#}");
    assert_eq!(one["topics"]["public.hello"], "file:snap", "{reading:#}");
    assert_eq!(reading["reads"]["dropped"]["marker"], 10, "{reading:#}");
    assert_eq!(reading["markers"]["count"], 10, "{reading:#}");
    assert_eq!(reading["verdict"]["command"], "headwater end-snapshot");
    assert_eq!(reading["run"]["workers"], 2);
    assert_eq!(reading["run"]["incarnation"], 1);
    let said = bench.run(&asks(&["status"], &listen)).with(0).out;
    assert!(
        said.starts_with("NOT PROMOTABLE: reading the snapshot"),
        "{said}"
    );
    assert!(
        said.contains("READs      20 emitted   10 (marker 10) dropped"),
        "{said}"
    );

    let early = bench.run(&asks(&["wait-ready", "--timeout", "1s"], &listen));
    early
        .with(3)
        .says(&["not ready after 1s", "0 of 2 partitions"]);
    bench.run(&["end-snapshot"]).with(0);
    let ready = bench.run(&asks(&["wait-ready", "--timeout", "1m"], &listen));
    let ready = ready.with(0).out;
    assert!(ready.starts_with("READY"), "{ready}");
    after_the_end(&bench, &at, &listen);

    until(&child, "a checkpoint", || {
        let list = get(&at, "/v1/checkpoints").json();
        (list["checkpoints"].as_array()?.len() > 1).then_some(())
    });
    let answer = stop(&at);
    assert_eq!(
        (answer.code, answer.json()["stopping"] == true),
        (202, true)
    );
    child
        .end(LIMIT)
        .with(130)
        .says(&["everything read is written"]);
    assert_eq!(bench.rows().len(), 30);
    down(&bench, &listen);
}

fn after_the_end(bench: &Bench, at: &str, listen: &str) {
    let now = status(at);
    let generation = &now["generations"][0];
    assert_eq!(generation["stage"], "ready", "{now:#}");
    assert_eq!(generation["partitions_at_end"], 2, "{now:#}");
    let timeline = generation["timeline"].as_array().expect("a list");
    let states: Vec<&str> = timeline
        .iter()
        .filter_map(|step| step["stage"].as_str())
        .collect();
    assert_eq!(states.first(), Some(&"open"), "{states:?}");
    assert_eq!(states.last(), Some(&"ready"), "{states:?}");
    let notes = now["not_proven"].to_string();
    assert!(
        notes.contains("g1 caught_up: that the live connector"),
        "{notes}"
    );
    let metrics = get(at, "/metrics");
    let kind = metrics.headers.get("content-type").expect("a type");
    assert!(
        kind.to_str()
            .expect("text")
            .starts_with("text/plain; version=0.0.4")
    );
    for (name, value) in [
        ("headwater_reads_emitted_total", 20.0),
        ("headwater_reads_dropped_total{reason=\"marker\"}", 10.0),
        ("headwater_mutations_emitted_total", 10.0),
        ("headwater_markers", 10.0),
        ("headwater_generation_state{state=\"ready\"}", 1.0),
        ("headwater_generation_state{state=\"unsafe\"}", 0.0),
        ("headwater_sink_retrying", 0.0),
        ("headwater_snapshot_partitions_at_end", 2.0),
    ] {
        assert_eq!(
            sample(&metrics.body, name),
            Some(value),
            "{name}\n{}",
            metrics.body
        );
    }
    let rows = sample(&metrics.body, "headwater_sink_rows_written_total").expect("rows");
    assert!(rows >= 30.0, "{rows}");
    let schema = get(at, "/v1/status.schema.json");
    let kept = include_str!("../../src/control/status.schema.json");
    assert_eq!(schema.body, kept);
    let printed = bench
        .run(&asks(&["status", "--json"], listen))
        .with(0)
        .json();
    fits(&printed);
    assert_eq!(printed["verdict"]["word"], "ready", "{printed:#}");
}

/// A job that is down is told from its last checkpoint.
fn down(bench: &Bench, listen: &str) {
    let said = bench.run(&asks(&["status"], listen)).with(0).out;
    assert!(said.starts_with("DOWN: 127.0.0.1:"), "{said}");
    assert!(said.contains("what checkpoint "), "{said}");
    let json = bench
        .run(&asks(&["status", "--json"], listen))
        .with(0)
        .json();
    fits(&json);
    assert_eq!(json["stage"], "down", "{json:#}");
    let ends = &json["generations"][0]["partitions_at_end"];
    assert_eq!(ends, 2, "{json:#}");
    assert_eq!(json["markers"]["count"], 10, "{json:#}");
    let wait = bench.run(&asks(&["wait-ready", "--timeout", "1s"], listen));
    wait.with(3).says(&["DOWN", "does not answer"]);
}

#[test]
fn a_job_that_never_ran_is_down() {
    let bench = Bench::new();
    config(&bench, JSONL);
    let listen = "control.listen=127.0.0.1:9";
    let said = bench.run(&asks(&["status"], listen)).with(0).out;
    assert!(said.contains("has no checkpoint of it"), "{said}");
    for nowhere in ["control.listen=off", "control.listen=127.0.0.1:0"] {
        let refused = bench.run(&asks(&["status"], nowhere)).with(2);
        refused.says(&["the running job cannot be asked", "--set control.listen"]);
    }
    assert!(!bench.path().join("state").exists(), "asking makes nothing");
}

#[test]
fn what_can_never_be_ready_ends_a_wait_at_once() {
    for (flags, reads, code, word) in [
        (&["--without-markers"][..], &[][..], 4, "UNSAFE"),
        (
            &[],
            &[Record::end(), hello('r', 2, "late")],
            3,
            "NEVER PROMOTABLE",
        ),
    ] {
        let bench = Bench::new();
        bench.hello(1);
        config(&bench, JSONL);
        bench.append("snap", 0, &[envelope("hello", 'r', 1, "one")]);
        bench.append("snap", 0, reads);
        let child = bench.start("job", &[&["run"], flags].concat());
        let listen = format!("control.listen={}", address(&child));
        let wait = bench.run(&asks(&["wait-ready", "--timeout", "5m"], &listen));
        wait.with(code).says(&[word]);
        until(&child, "the row", || bench.jsonl().get(&row(1)).map(drop));
        assert!(!bench.jsonl().contains_key(&row(2)));
    }
}

fn row(id: u64) -> (String, String) {
    ("public.hello".to_owned(), format!("{{\"id\":{id}}}"))
}

#[test]
fn another_job_at_the_address_is_not_taken_for_this_one() {
    let bench = Bench::new();
    bench.hello(1);
    config(&bench, JSONL);
    let child = bench.start("job", &["run"]);
    let listen = format!("control.listen={}", address(&child));
    let refused = bench.run(&asks(&["status", "--set", "job=other"], &listen));
    refused.with(2).says(&["is another job", "found     hello"]);
}
