//! COMPLETED that overtakes thousands of READs, on real Debezium: 20,000 rows of 2 kB. With each
//! kind of evidence the job is ready only when it has all of them.
//!
//! Invariant: the snapshot is begun after each job is open, and rows change while it is taken, so
//! that a READ too few or a stale one is a row that differs. That COMPLETED came first is seen in
//! the times at which the broker appended the records.
//!
//! `HEADWATER_E2E_TIMES=20` does it so often, each time with new snapshots and jobs.

use std::time::Instant;

use crate::benchmark::{Benchmark, from_env};
use crate::rebuild::{Rebuild, Snapshot, Told, connect, heartbeat, notified};
use crate::{alone, services};

const ROWS: u64 = 20_000;
const GREETING: &str = "repeat(md5(id::text), 60)";

#[test]
fn ready_has_all_reads_with_each_kind_of_evidence_although_completed_came_before_them() {
    let services = services();
    let _alone = alone();
    let times = from_env("HEADWATER_E2E_TIMES", 1).max(1);
    let benchmark = Benchmark::prepare_with(services, "overtaken", ROWS, GREETING);
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
    let asked = connect(benchmark, Some(&four)) + &notified(&four);
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
    jobs[4].1.wait_for("topic_consumed");
    for (kind, job) in &mut jobs {
        let (snapshot, caught_up) = match kind.as_str() {
            "ordered" => (&one, "seen"),
            "connect_offsets" => (&four, "live_offsets"),
            _ => (&four, "seen"),
        };
        match kind.as_str() {
            // Of the others that read this topic each has its end already.
            "operator_said" => {
                let said = job.headwater(&["end-snapshot"]);
                assert!(said.status.success(), "{said:?}");
            }
            // The source is idle: nothing else is past the cutoff in its log.
            "connect_offsets" => {
                benchmark.sql("update hello set greeting = 'past ' || now() where id = 2");
            }
            _ => {}
        }
        let summary = job.end(0).json();
        assert_eq!(summary["outcome"], "ready", "{summary:#}");
        assert_eq!(summary["evidence"], kind.as_str(), "{summary:#}");
        let emitted = summary["reads_emitted"].as_u64().expect("a count");
        let dropped = summary["reads_dropped"]["marker"].as_u64();
        let dropped = dropped.expect("a count");
        let (reads, _) = snapshot.reads();
        assert_eq!((emitted + dropped, reads), (ROWS, ROWS), "{summary:#}");
        assert_eq!(summary["reads_quarantined"], 0, "{summary:#}");
        assert_eq!(job.evidence("source_finished"), *kind);
        assert_eq!(job.evidence("caught_up"), caught_up, "{kind}");
        job.assert_equal();
    }
    [four.reads().1, one.reads().1]
}

/// In one transaction: rows change, move, go and come; as many are left.
fn change(benchmark: &Benchmark) {
    benchmark.sql(
        "begin;
         update hello set greeting = 'new ' || now() where id % 40 = 0;
         create temporary table gone as select id from hello where id % 133 = 1;
         delete from hello where id in (select id from gone);
         insert into hello select id + 1000000, 'come' from gone;
         update hello set id = id + 3000000 where id % 401 = 3;
         commit;",
    );
}
