//! A key explained by the running job, by its checkpoint when it is down, and by its records.

use crate::binary::{Bench, JSONL, hello};
use crate::{LIMIT, address, get, status, stop, until};
use serde_json::Value;

/// A configuration that keeps markers so.
fn config(bench: &Bench, retention: &str) {
    crate::config(bench, &format!("{JSONL}\n[retention]\n{retention}"));
}

fn explained(bench: &Bench, listen: &str, key: &str, more: &[&str]) -> Value {
    let asked = ["explain", "public.hello", key, "--json", "--set", listen];
    bench.run(&[&asked, more].concat()).with(0).json()
}

/// What does not depend on who is asked.
fn essence(json: &Value) -> (Value, Value, Value) {
    let of = &json["generations"][0];
    let marked = json["marked"]["job_ms"].clone();
    (
        marked,
        of["outcome"].clone(),
        of["window_from"]["job_ms"].clone(),
    )
}

#[test]
fn a_key_is_explained_alive_and_from_the_checkpoint_with_its_records() {
    let bench = Bench::new();
    bench.hello(2);
    config(&bench, "start_margin = \"0s\"");
    bench.append("muts", 1, &[hello('c', 4, "x"), hello('u', 5, "new")]);
    bench.append("snap", 0, &[hello('r', 6, "other"), hello('r', 5, "old")]);
    let child = bench.start("job", &["run", "-w", "2"]);
    let at = address(&child);
    until(&child, "the records", || {
        let now = status(&at);
        (now["mutations"]["emitted"] == 2 && now["reads"]["read"] == 2).then_some(())
    });
    let listen = format!("control.listen={at}");
    let marked = explained(&bench, &listen, "{\"id\":5}", &["--search"]);
    assert_eq!(marked["source"]["from"], "live", "{marked:#}");
    assert_eq!(
        marked["generations"][0]["outcome"], "dropped_marker",
        "{marked:#}"
    );
    assert!(marked["marked"]["wall_earliest"].is_string(), "{marked:#}");
    let found = |topic: usize| &marked["search"]["topics"][topic]["records"][0];
    assert_eq!(
        (&found(0)["at"], &found(0)["op"]),
        (&"file:muts[1]@1".into(), &"UPDATE".into())
    );
    assert_eq!(found(1)["at"], "file:snap[0]@1");
    assert_eq!(found(1)["source_time"], "1970-01-01T00:00:00.001Z");
    assert_eq!(found(0)["value"], Value::Null);
    let never = explained(&bench, &listen, "7", &[]);
    assert_eq!(never["generations"][0]["outcome"], "emitted", "{never:#}");
    assert_eq!(never["marked"], Value::Null, "{never:#}");

    let raw = get(&at, "/v1/explain?table=public.hello&key=%7B%22id%22%3A5%7D");
    assert_eq!((raw.code, essence(&raw.json())), (200, essence(&marked)));
    wrong_paths(&at);
    wrong(&bench, &listen);
    stop(&at);
    child.end(LIMIT).with(130);
    wrong(&bench, &listen);

    let down = explained(&bench, &listen, "{\"id\":5}", &[]);
    assert_eq!(down["source"]["from"], "checkpoint", "{down:#}");
    assert_eq!(essence(&down), essence(&marked));
    assert_eq!(
        essence(&explained(&bench, &listen, "7", &[])),
        essence(&never)
    );
    let values = ["--search", "--values", "--set", &listen];
    let said = bench.run(&[&["explain", "public.hello", "5"], &values[..]].concat());
    let said = said.with(0).out;
    for part in [
        "key public.hello {\"id\":5}\n  marked at ",
        "a READ of this key is dropped: reason `marker`",
        "as checkpoint ",
        "does not answer",
        "\n  UPDATE   file:muts[1]@1  source time 1970-01-01T00:00:00.001Z, written 2023-",
        "\"greeting\":\"new\"",
        "snapshot file:snap: 1 of this key in 2 records (all of it)",
    ] {
        assert!(said.contains(part), "{part} in\n{said}");
    }
}

/// What is refused, by the job and by its checkpoint alike.
fn wrong(bench: &Bench, listen: &str) {
    for (table, key, parts) in [
        (
            "hello",
            "5",
            &["`hello` is no table", "one of: public.hello"][..],
        ),
        (
            "public.hello",
            "{\"x\":5}",
            &["found     {x}", "expected  {id: number}"],
        ),
        (
            "public.hello",
            "{\"id\":5,\"x\":5}",
            &["{id, x}", "{id: number}"],
        ),
        (
            "public.hello",
            "\"5\"",
            &["column `id`: a number was expected"],
        ),
        (
            "public.hello",
            "five",
            &["that is no key of `public.hello`"],
        ),
    ] {
        let refused = bench.run(&["explain", table, key, "--set", listen]);
        refused.with(2).says(parts);
    }
}

fn wrong_paths(at: &str) {
    for path in [
        "/v1/explain",
        "/v1/explain?table=public.hello",
        "/v1/explain?table=nothing&key=5",
        "/v1/explain?table=public.hello&key=%",
    ] {
        let answer = get(at, path);
        assert_eq!(answer.code, 400, "{path}: {}", answer.body);
        assert!(answer.json()["error"].is_string(), "{path}");
    }
}

#[test]
fn a_marker_that_was_forgotten_makes_a_read_unsafe() {
    let bench = Bench::new();
    bench.hello(1);
    config(
        &bench,
        "keep_markers = \"ttl\"\nttl = \"200ms\"\nstart_margin = \"0s\"",
    );
    bench.append("muts", 0, &[hello('c', 5, "new")]);
    let child = bench.start("job", &["run"]);
    let at = address(&child);
    let listen = format!("control.listen={at}");
    let path = "/v1/explain?table=public.hello&key=5";
    let found = until(&child, "a marker that was forgotten", || {
        let answer = get(&at, path);
        (answer.code == 200 && answer.json()["generations"][0]["at_risk"] == true)
            .then(|| answer.json())
    });
    assert_eq!(
        found["generations"][0]["outcome"], "quarantined",
        "{found:#}"
    );
    let said = bench
        .run(&["explain", "public.hello", "5", "--set", &listen])
        .with(0)
        .out;
    assert!(
        said.contains("may be stale and is quarantined: reason `forgotten`"),
        "{said}"
    );
    assert!(said.contains("no marker, which proves nothing"), "{said}");
    drop(child);
}

#[test]
fn a_job_of_which_nothing_is_known_explains_nothing() {
    let bench = Bench::new();
    bench.hello(1);
    config(&bench, "start_margin = \"0s\"");
    let asked = [
        "explain",
        "public.hello",
        "5",
        "--set",
        "control.listen=off",
    ];
    bench
        .run(&asked)
        .with(1)
        .says(&["nothing is known of job hello", "control.listen"]);
    assert!(!bench.path().join("state").exists(), "asking makes nothing");
}
