//! The published benchmark on real Postgres, Debezium and Kafka: after writes, deletes and a
//! private snapshot under load, the sink holds exactly the rows of the source. And once more with
//! everything killed or restarted in the middle ([`restarts`]).
//!
//! Invariant: the comparison proves its own eyes. The same run with the marker rule off must
//! differ, and READs must have been dropped by markers, or nothing was tested.
//!
//! It cannot run without the services: nothing here is skipped when they are missing. All
//! scenarios share one set of them, one after the other.
//!
//! `HEADWATER_E2E_SECONDS=100` gives the published length, `HEADWATER_E2E_RATE=0` writers without
//! a limit, `HEADWATER_E2E_DELETES=0` upserts alone; `HEADWATER_E2E_KILLS` is the number of kills,
//! `HEADWATER_E2E_SEED` their moments.

mod benchmark;
mod expiry;
mod job;
mod overtaken;
mod paused;
mod preflight;
mod range;
mod rebuild;
mod records;
mod restarts;
mod signal;

#[path = "../support/binary.rs"]
#[expect(dead_code, reason = "topics in folders are for other tests")]
mod binary;
#[path = "../support/connect.rs"]
mod connect;
#[path = "../support/kafka.rs"]
mod kafka;
#[path = "../support/postgres.rs"]
mod postgres;
#[path = "../support/services.rs"]
mod services;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use serde_json::{Value, json};

use crate::benchmark::{Benchmark, Written, from_env};
use crate::job::{Job, Layout, publish};
use crate::postgres::Load;
use crate::services::Services;

const KEYS: u64 = 10_000;
/// How long READs go on after the last write, at least: else a later write hides a stale row.
const READS_AFTER_WRITES_SECONDS: u64 = 4;
/// Of the published benchmark.
const LAYOUT: Layout = Layout::new(1, 2);

/// The services, started by the first scenario and stopped when the last one lets go of them.
/// Scenarios that wait hold them, too.
fn services() -> Arc<Services> {
    static SHARED: Mutex<Weak<Services>> = Mutex::new(Weak::new());
    let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(services) = shared.upgrade() {
        return services;
    }
    let services = Arc::new(Services::start());
    *shared = Arc::downgrade(&services);
    services
}

/// One scenario at a time: two would slow each other down on two cores.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

#[test]
fn the_services_deliver_every_mutation_and_every_read() {
    let services = services();
    let _alone = alone();
    let load = Load::new(1_000, 3, 500, 0);
    let benchmark = Benchmark::prepare(services, "delivery", load.keys);
    let written = benchmark.write(load, || ());
    assert_eq!(written.reads, 1_000, "one READ for each key: {written:?}");
    assert_eq!(
        written.snapshot_records, 1_004,
        "and an end in each partition: {written:?}"
    );
    assert!(written.transactions > 50, "{written:?}");
    let transactions = i64::try_from(written.transactions).expect("a count");
    assert_eq!(
        written.mutation_records,
        transactions + 1,
        "one record for each upsert, and one for the cutoff row: {written:?}"
    );
}

#[test]
fn the_sink_equals_the_source_and_without_markers_it_does_not() {
    let services = services();
    let _alone = alone();
    let seconds = from_env("HEADWATER_E2E_SECONDS", 20).max(10);
    // About 1.5 writes a key: something to emit, something to drop, something to get wrong.
    let rate_per_second = from_env("HEADWATER_E2E_RATE", KEYS * 3 / 2 / seconds);
    let deletes_percent = from_env("HEADWATER_E2E_DELETES", 10);
    let load = Load::new(KEYS, seconds, rate_per_second, deletes_percent);
    let reads_seconds = seconds * 9 / 10 + READS_AFTER_WRITES_SECONDS;
    let reads_per_second_max = KEYS / reads_seconds;
    let benchmark = Benchmark::prepare(services, "benchmark", KEYS);
    let mut healthy = Job::create(&benchmark, "healthy", "");
    healthy.start(LAYOUT, reads_per_second_max, &[]);
    let written = benchmark.write(load, || healthy.assert_running());
    // On the same topics, once they are whole: its READs come after the mutations, also where a
    // busy machine brings mutations late, which would hide every stale row.
    let mut sick = Job::create(&benchmark, "sick", "");
    let rate = KEYS / READS_AFTER_WRITES_SECONDS;
    sick.start(LAYOUT, rate, &["--without-markers"]);
    let limit = Duration::from_secs(2 * seconds + 60);
    let summary = healthy.summary(limit);
    let sick_summary = sick.summary(limit);
    let difference = healthy.difference();
    let sick_difference = sick.difference();
    publish(
        "e2e-report.json",
        &json!({
            "source": source_report(&benchmark, &load, &written),
            "reads_per_second_max": reads_per_second_max,
            "with_markers": { "summary": summary, "difference": difference.json() },
            "without_markers": { "summary": sick_summary, "difference": sick_difference.json() },
        }),
    );
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
        "source_rows": benchmark.number("select count(*) from public.hello"),
    })
}
