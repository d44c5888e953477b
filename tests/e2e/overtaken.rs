//! COMPLETED that overtakes thousands of READs, on real Debezium: 20,000 rows of 2 kB. With each
//! kind of evidence the job is ready only when it has all of them.
//!
//! Invariant: the snapshot is begun after each job is open, and rows change while it is taken, so
//! that a READ too few or a stale one is a row that differs. That COMPLETED came first is seen in
//! the times at which the broker appended the records. The source is idle behind those changes, and
//! its log is not: nothing but a keepalive that the slot confirms is past the cutoff.
//!
//! `HEADWATER_E2E_TIMES=20` does it so often, each time with new snapshots and jobs.

use std::time::Instant;

use crate::benchmark::{Benchmark, from_env};
use crate::rebuild::{Rebuild, Snapshot, Told, connect, database, heartbeat, notified};
use crate::{alone, services};

const ROWS: u64 = 20_000;
const GREETING: &str = "repeat(md5(id::text), 60)";

#[test]
fn ready_has_all_reads_with_each_kind_of_evidence_although_completed_came_before_them() {
    let services = services();
    let _alone = alone();
    let times = from_env("HEADWATER_E2E_TIMES", 1).max(1);
    let benchmark = Benchmark::prepare_with(services, "overtaken", ROWS, GREETING);
    benchmark.confirm_keepalives();
    benchmark.sql("create table other (id int)");
    let mut overtaken = 0;
    for time in 0..times {
        let begun = Instant::now();
        let after = once(&benchmark, time);
        println!(
            "snapshots {time}: {after:?} READs of {ROWS} came after COMPLETED (4 partitions, 1 \
             partition); {:.1} s",
            begun.elapsed().as_secs_f64()
        );
        overtaken += after.iter().sum::<u64>();
    }
    assert!(
        overtaken > 0,
        "COMPLETED has overtaken no READ: nothing was tested"
    );
}

/// One job for each kind; returns how many READs came after COMPLETED in both snapshots.
fn once(benchmark: &Benchmark, time: u64) -> [u64; 2] {
    let four = Snapshot::prepare(benchmark, &format!("four{time}"), 4);
    let one = Snapshot::prepare(benchmark, &format!("one{time}"), 1);
    let asked = connect(benchmark, Some(&four)) + &notified(&four) + &database(benchmark);
    let open = |snapshot, kind: &str, source: String, caught_up| {
        let told = Told {
            source: source + &heartbeat(benchmark),
            finished: kind,
            caught_up,
            more: "",
        };
        (kind.to_owned(), Rebuild::open(snapshot, kind, &told))
    };
    let mut jobs = [
        open(&one, "ordered", notified(&one), "seen"),
        open(&four, "counted", notified(&four), "seen"),
        open(&four, "quiet", String::new(), "seen"),
        open(&four, "operator_said", String::new(), "seen"),
        open(&four, "connect_offsets", asked, "live_offsets"),
    ];
    four.start();
    one.start();
    four.wait_for_first_read();
    change(benchmark);
    for (kind, job) in &mut jobs {
        // Of the others that read this topic each has its end already.
        if kind == "operator_said" {
            let said = job.headwater(&["end-snapshot"]);
            assert!(said.status.success(), "{said:?}");
        }
        assert_ready(job, kind);
    }
    [four, one].map(|snapshot| {
        let (reads, after) = snapshot.reads();
        assert_eq!(reads, ROWS, "{}", snapshot.name);
        after
    })
}

/// Waits for the end of a job: it has all READs, says what that stands on, and is right.
fn assert_ready(job: &mut Rebuild, kind: &str) {
    let summary = job.end(0).json();
    assert_eq!(summary["outcome"], "ready", "{summary:#}");
    assert_eq!(summary["evidence"], kind, "{summary:#}");
    let emitted = summary["reads_emitted"].as_u64().expect("a count");
    let dropped = summary["reads_dropped"]["marker"].as_u64();
    let dropped = dropped.expect("a count");
    assert_eq!(emitted + dropped, ROWS, "{summary:#}");
    assert!(dropped > 0, "nothing was tested: {summary:#}");
    assert_eq!(summary["reads_quarantined"], 0, "{summary:#}");
    assert_eq!(job.evidence("source_finished"), kind);
    let caught_up = match kind {
        "connect_offsets" => "live_offsets",
        _ => "seen",
    };
    assert_eq!(job.evidence("caught_up"), caught_up, "{kind}");
    job.assert_equal();
}

/// In one transaction: rows change, move, go and come; as many are left. Behind it comes another
/// one, of a table that the live connector does not capture, so that it never confirms its end.
fn change(benchmark: &Benchmark) {
    benchmark.sql(
        "begin;
         update hello set greeting = 'new ' || now() where id % 40 = 0;
         create temporary table gone as select id from hello where id % 133 = 1;
         delete from hello where id in (select id from gone);
         insert into hello select id + 1000000, 'come' from gone;
         update hello set id = id + 3000000 where id % 401 = 3;
         commit;
         insert into other values (1);",
    );
}
