//! Markers that expire under a slow snapshot: never a stale row, whatever becomes of the READs.
//!
//! Invariant: rows change after the snapshot has begun, so their READs are stale, and are decided
//! long after their markers have gone.
//!
//! It cannot tell how far the job was when the first marker went: the quarantine does.

use std::collections::BTreeMap;

use rdkafka::message::Message;
use serde_json::Value;

use crate::benchmark::Benchmark;
use crate::rebuild::{Rebuild, Snapshot, Told, heartbeat, notified};
use crate::records;
use crate::{alone, services};

const ROWS: u64 = 900;
/// The READs take 15 s, a ttl 2 s.
const SLOWLY: &str = "[limits]\nreads_per_second_max = 60\n";
const TTL: &str = "[retention]\nkeep_markers = \"ttl\"\nttl = \"2s\"\nstart_margin = \"1s\"\n";
const UNTIL_READY: &str = "[retention]\nkeep_markers = \"until_ready\"\nstart_margin = \"1s\"\n";

#[test]
fn a_forgotten_marker_makes_the_job_unsafe_and_no_row_stale() {
    let services = services();
    let _alone = alone();
    let benchmark = Benchmark::prepare(services, "expiry", ROWS);
    // One partition: its READs are decided in the order of their offsets.
    let snapshot = Snapshot::prepare(&benchmark, "snap", 1);
    let open = |name: &str, retention: &str| {
        let told = Told {
            source: notified(&snapshot) + &heartbeat(&benchmark),
            finished: "counted",
            caught_up: "seen",
            more: &format!("{SLOWLY}{retention}"),
        };
        Rebuild::open(&snapshot, name, &told)
    };
    let mut short = open("ttl", TTL);
    let mut whole = open("until_ready", UNTIL_READY);
    snapshot.start();
    snapshot.wait_for_first_read();
    // Of each ten rows one changes, one goes.
    benchmark.sql(
        "update hello set greeting = 'new' where id % 10 = 0;
         delete from hello where id % 10 = 5;",
    );
    let ended = short.end(4);
    let summary = ended.json();
    assert_eq!(summary["outcome"], "unsafe", "{summary:#}");
    assert_at_risk(&benchmark, &snapshot, &short, &summary);
    let generation = short.generation().expect("its last manifest");
    assert_eq!(generation["stage"], "unsafe", "{generation:#}");

    let summary = whole.end(0).json();
    assert_eq!(summary["outcome"], "ready", "{summary:#}");
    assert_eq!(summary["reads_quarantined"], 0, "{summary:#}");
    whole.assert_equal();
}

/// The target has rows of the source alone; in quarantine is each READ behind the first forgotten
/// marker that no marker has dropped, and no other.
fn assert_at_risk(benchmark: &Benchmark, snapshot: &Snapshot<'_>, job: &Rebuild, summary: &Value) {
    let source: BTreeMap<u64, String> = benchmark
        .sql("select id, greeting from hello")
        .lines()
        .map(|line| line.split_once('|').expect("two columns"))
        .map(|(id, greeting)| (id.parse().expect("a number"), greeting.to_owned()))
        .collect();
    let target = job.rows();
    for (id, greeting) in &target {
        assert_eq!(
            Some(greeting),
            source.get(id),
            "row {id} is stale: {summary:#}"
        );
    }
    let quarantine = quarantine(job);
    for id in source.keys() {
        let found = target.contains_key(id) || quarantine.values().any(|of| of == id);
        assert!(found, "row {id} is neither in the target nor in quarantine");
    }
    let first = *quarantine.keys().next().expect("READs in quarantine");
    let (mut risky, mut dropped) = (0, 0);
    let topic = snapshot.topic();
    records::records(&benchmark.kafka, &topic, |record| {
        let offset = u64::try_from(record.offset()).expect("an offset");
        let key: Value = serde_json::from_slice(record.key().expect("a key")).expect("JSON");
        let id = key["id"].as_u64().expect("a number");
        let changed = id.is_multiple_of(5);
        match quarantine.get(&offset) {
            Some(kept) => assert_eq!(*kept, id),
            None if offset > first => {
                assert!(
                    changed,
                    "the READ of row {id} was decided without its marker"
                );
                dropped += 1;
            }
            None => {}
        }
        risky += u64::from(offset >= first && changed && quarantine.contains_key(&offset));
    });
    assert!(risky > 0, "no stale READ was kept back: nothing was tested");
    let count = |value: &Value| value.as_u64().expect("a count");
    assert_eq!(
        count(&summary["reads_quarantined"]),
        quarantine.len() as u64
    );
    let emitted = count(&summary["reads_emitted"]);
    let by_marker = count(&summary["reads_dropped"]["marker"]);
    let before = emitted + by_marker - dropped;
    assert_eq!(
        before, first,
        "READs before the first one in quarantine: {summary:#}"
    );
    assert_eq!(emitted + by_marker + quarantine.len() as u64, ROWS);
}

/// Offsets and ids.
fn quarantine(job: &Rebuild) -> BTreeMap<u64, u64> {
    let output = job.headwater(&["quarantine", "export"]);
    assert!(output.status.success(), "{output:?}");
    let lines = String::from_utf8(output.stdout).expect("UTF-8");
    let line = |line: &str| {
        let line: Value = serde_json::from_str(line).expect("JSON");
        assert_eq!(line["reason"], "forgotten_markers", "{line}");
        let number = |value: &Value| value.as_u64().expect("a number");
        (number(&line["offset"]), number(&line["key"]["id"]))
    };
    lines.lines().map(line).collect()
}
