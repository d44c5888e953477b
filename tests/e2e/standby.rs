//! A snapshot from a hot standby that is behind by more, and by less, than the margin.
//!
//! Invariant: some rows change before the job begins to read mutations and after what the standby
//! shows. A job that declares the lag reads from before that, or refuses; one that does not is
//! wrong, which shows that the comparison has eyes.
//!
//! Debezium takes no such snapshot here: the READs are made from the standby's rows, with the
//! standby's clock, as its `initial_only` would write them.

use std::time::{Duration, Instant};

use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use serde_json::json;

use crate::benchmark::{Benchmark, GENERATION, WAIT_MAX};
use crate::postgres::Postgres;
use crate::rebuild::{Rebuild, Snapshot, Told, heartbeat};
use crate::services::wait_until;
use crate::{alone, services};

const ROWS: u64 = 60;
/// Rows that change where the standby is behind.
const BEHIND: u64 = 10;
const DELAY: &str = "20s";
/// The least that a job which declares the lag must read mutations from before the READs.
const MARGIN_DECLARED: Duration = Duration::from_secs(23);
const DECLARED: &str = "snapshot_from = \"replica\"\nreplica_lag_max = \"22s\"\n";
const MARGIN: &str = "[retention]\nstart_margin = \"1s\"\n";

#[test]
fn a_standby_that_is_behind_by_more_than_the_margin_is_declared_or_the_target_is_wrong() {
    let services = services();
    let _alone = alone();
    let benchmark = Benchmark::prepare(services, "replica", ROWS);
    let snapshot = Snapshot::prepare(&benchmark, "snap", 4);
    let standby = Postgres {
        port: benchmark.services.start_standby(DELAY),
    };
    let long_before = (now(&benchmark), Instant::now());
    change(&benchmark, "id > 0", "old");
    wait_until("the standby", WAIT_MAX, || {
        let old = "select count(*) from hello where greeting = 'old'";
        match standby.number(benchmark.name, old) {
            ROWS => Ok(()),
            found => Err(format!("{found} rows")),
        }
    });
    change(&benchmark, &format!("id <= {BEHIND}"), "new");
    let just_before = now(&benchmark);
    let open = |name: &str, start: &str, source: &str| {
        let told = Told {
            source: format!("start = \"{start}\"\n{source}{}", heartbeat(&benchmark)),
            finished: "operator_said",
            caught_up: "seen",
            more: MARGIN,
        };
        Rebuild::open(&snapshot, name, &told)
    };
    let mut declared = open("declared", &long_before.0, DECLARED);
    let mut refused = open("refused", &just_before, DECLARED);
    let mut wrong = open("undeclared", &just_before, "");
    wait_until("the declared margin", WAIT_MAX, || {
        match long_before.1.elapsed() {
            elapsed if elapsed > MARGIN_DECLARED => Ok(()),
            elapsed => Err(format!("{elapsed:?}")),
        }
    });
    let behind = read(&snapshot, standby);
    assert_eq!(behind, BEHIND, "the jobs took longer to open than {DELAY}");
    change(&benchmark, "id > 50", "live");
    benchmark.kafka.end_snapshot(&snapshot.topic(), GENERATION);

    let summary = declared.end(0).json();
    assert_eq!(summary["outcome"], "ready", "{summary:#}");
    let dropped = &summary["reads_dropped"]["marker"];
    assert_eq!(*dropped, ROWS, "every row has changed since: {summary:#}");
    declared.assert_equal();
    refused
        .end(4)
        .says(&["mutations", &snapshot.benchmark.mutations()]);
    let summary = wrong.end(0).json();
    assert_eq!(summary["outcome"], "ready", "{summary:#}");
    let report = wrong.difference();
    assert_eq!(report["differing_rows"], BEHIND, "{report:#}");
}

/// The time of the source.
fn now(benchmark: &Benchmark) -> String {
    benchmark.sql(r#"select to_char(now() at time zone 'utc', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')"#)
}

/// Changes rows, and returns when the changes are in Kafka.
fn change(benchmark: &Benchmark, which: &str, greeting: &str) {
    let before = benchmark.kafka.count(&benchmark.mutations());
    benchmark.sql(&format!(
        "update hello set greeting = '{greeting}' where {which}"
    ));
    let rows = benchmark.number(&format!("select count(*) from hello where {which}"));
    let expected = before + i64::try_from(rows).expect("a count");
    wait_until("the mutations", WAIT_MAX, || {
        let found = benchmark.kafka.count(&benchmark.mutations());
        if found >= expected {
            Ok(())
        } else {
            Err(format!("{found} of {expected}"))
        }
    });
}

/// Writes a READ of each row of the standby; how many of those that changed are behind.
fn read(snapshot: &Snapshot<'_>, standby: Postgres) -> u64 {
    let benchmark = snapshot.benchmark;
    let config = &benchmark.kafka.config;
    let producer: BaseProducer = config.create().expect("the client's settings");
    let topic = snapshot.topic();
    let rows = standby.sql(
        benchmark.name,
        "select id, greeting, (extract(epoch from now()) * 1000)::bigint from hello order by id",
    );
    let mut behind = 0;
    for row in rows.lines() {
        let fields: Vec<&str> = row.split('|').collect();
        let id: u64 = fields[0].parse().expect("a number");
        let ts_ms: i64 = fields[2].parse().expect("a number");
        behind += u64::from(id <= BEHIND && fields[1] == "old");
        let key = json!({ "id": id }).to_string();
        let value = json!({
            "before": null,
            "after": {"id": id, "greeting": fields[1]},
            "source": {
                "version": "3.6.1.Final", "connector": "postgresql", "name": snapshot.name,
                "ts_ms": ts_ms, "snapshot": if id == ROWS { "last" } else { "true" },
                "db": benchmark.name, "schema": "public", "table": "hello", "lsn": 1,
            },
            "op": "r",
            "ts_ms": ts_ms,
        })
        .to_string();
        let record = BaseRecord::to(&topic).key(&key).payload(&value);
        producer.send(record).expect("room for a few records");
    }
    let sent = producer.flush(Duration::from_secs(30));
    sent.expect("the broker takes the records");
    behind
}
