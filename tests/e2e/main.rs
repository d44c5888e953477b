//! The published benchmark on real Postgres, Debezium and Kafka: after writes, deletes and a
//! private snapshot under load, the sink holds exactly the rows of the source.
//!
//! Invariant: the comparison proves its own eyes. The same run with the marker rule off must
//! differ, and READs must have been dropped by markers, or nothing was tested.
//!
//! It cannot run without the services: nothing here is skipped when they are missing.
//!
//! `HEADWATER_E2E_SECONDS=100` gives the published length, `HEADWATER_E2E_RATE=0` writers without
//! a limit, `HEADWATER_E2E_DELETES=0` upserts alone.

mod benchmark;
mod job;

#[path = "../support/connect.rs"]
mod connect;
#[path = "../support/kafka.rs"]
mod kafka;
#[path = "../support/postgres.rs"]
mod postgres;
#[path = "../support/services.rs"]
mod services;

use std::sync::Mutex;
use std::time::Duration;

use serde_json::{Value, json};

use crate::benchmark::{Benchmark, Written, from_env};
use crate::job::{Job, publish};
use crate::postgres::Load;

const KEYS: u64 = 10_000;
/// How long READs go on after the last write, at least: else a later write hides a stale row.
const READS_AFTER_WRITES_SECONDS: u64 = 4;
/// One set of services at a time: two would slow each other down on two cores.
static SERVICES: Mutex<()> = Mutex::new(());

#[test]
fn the_services_deliver_every_mutation_and_every_read() {
    let _alone = SERVICES.lock();
    let load = Load {
        keys: 1_000,
        seconds: 3,
        rate_per_second: 500,
        deletes_percent: 0,
    };
    let benchmark = Benchmark::prepare(load);
    let written = benchmark.write(|| ());
    assert_eq!(written.reads, 1_000, "one READ for each key: {written:?}");
    assert_eq!(
        written.snapshot_records, 1_004,
        "and an end in each partition: {written:?}"
    );
    assert!(written.transactions > 500, "{written:?}");
    let transactions = i64::try_from(written.transactions).expect("a count");
    assert_eq!(
        written.mutation_records,
        transactions + 1,
        "one record for each upsert, and one for the cutoff row: {written:?}"
    );
}

#[test]
fn the_sink_equals_the_source_and_without_markers_it_does_not() {
    let _alone = SERVICES.lock();
    let seconds = from_env("HEADWATER_E2E_SECONDS", 20).max(10);
    let load = Load {
        keys: KEYS,
        seconds,
        // About 1.5 writes a key: something to emit, something to drop, something to get wrong.
        rate_per_second: from_env("HEADWATER_E2E_RATE", KEYS * 3 / 2 / seconds),
        deletes_percent: from_env("HEADWATER_E2E_DELETES", 10),
    };
    let reads_seconds = seconds * 9 / 10 + READS_AFTER_WRITES_SECONDS;
    let reads_per_second_max = KEYS / reads_seconds;
    let benchmark = Benchmark::prepare(load);
    let mut healthy = Job::start(&benchmark, "healthy", reads_per_second_max, &[]);
    let mut sick = Job::start(
        &benchmark,
        "sick",
        reads_per_second_max,
        &["--without-markers"],
    );
    let written = benchmark.write(|| {
        healthy.assert_running();
        sick.assert_running();
    });
    let limit = Duration::from_secs(2 * seconds + 60);
    let summary = healthy.summary(limit);
    let sick_summary = sick.summary(limit);
    let difference = healthy.difference(&benchmark);
    let sick_difference = sick.difference(&benchmark);
    publish(&json!({
        "source": source_report(&benchmark, &load, &written),
        "reads_per_second_max": reads_per_second_max,
        "with_markers": { "summary": summary, "difference": difference.json() },
        "without_markers": { "summary": sick_summary, "difference": sick_difference.json() },
    }));
    let count = |key: &str| {
        summary[key]
            .as_u64()
            .unwrap_or_else(|| panic!("no `{key}`"))
    };
    let dropped = summary["reads_dropped"]["marker"]
        .as_u64()
        .expect("a count for each reason");
    assert!(
        dropped > 0,
        "no READ met a marker: the snapshot did not overlap with the writes"
    );
    assert!(count("mutations_emitted") > 0);
    let read_topic = u64::try_from(written.reads).expect("a count");
    assert_eq!(
        count("reads_emitted") + dropped,
        read_topic,
        "each READ is decided once"
    );
    assert_eq!(
        difference.rows, 0,
        "the sink differs from the source: {difference:?}"
    );
    assert!(
        sick_difference.rows > 0,
        "the rule left out made no difference: a blind comparison"
    );
}

fn source_report(benchmark: &Benchmark, load: &Load, written: &Written) -> Value {
    json!({
        "keys": load.keys,
        "write_seconds": load.seconds,
        "write_rate_per_second": load.rate_per_second,
        "deletes_percent": load.deletes_percent,
        "transactions": written.transactions,
        "mutation_records": written.mutation_records,
        "reads": written.reads,
        "snapshot_records": written.snapshot_records,
        "seconds_until_topics_final": written.seconds,
        "source_rows": benchmark.postgres.number("postgres", "select count(*) from public.hello"),
    })
}
