//! A live connector that is paused while the snapshot is taken: the job has all READs, and is not
//! caught up before the connector goes on.
//!
//! Invariant: what changed while it was paused is in no topic when the READs are, so a job that
//! called itself ready would see rows go back.

use std::time::Instant;

use crate::benchmark::{Benchmark, WAIT_MAX};
use crate::rebuild::{Rebuild, Snapshot, Told, WATCHED, connect, database, heartbeat, notified};
use crate::services::wait_until;
use crate::{alone, services};

#[test]
fn a_paused_live_connector_keeps_the_job_from_caught_up() {
    let services = services();
    let _alone = alone();
    let benchmark = Benchmark::prepare(services, "paused", 200);
    let snapshot = Snapshot::prepare(&benchmark, "snap", 4);
    let open = |name: &str, source: String, caught_up| {
        let told = Told {
            source: source + &notified(&snapshot) + &heartbeat(&benchmark),
            finished: "counted",
            caught_up,
            more: "",
        };
        Rebuild::open(&snapshot, name, &told)
    };
    let asked = connect(&benchmark, None) + &database(&benchmark);
    let mut jobs = [
        (
            "live_offsets",
            "PAUSED",
            open("offsets", asked, "live_offsets"),
        ),
        (
            "seen",
            "no record past the cutoff",
            open("seen", String::new(), "seen"),
        ),
    ];
    let live = benchmark.live();
    benchmark.connect.tell(&live, "pause");
    wait_until("the live connector to pause", WAIT_MAX, || {
        benchmark.connect.paused(&live)
    });
    benchmark.sql("update hello set greeting = 'before' where id <= 50");
    let mutations = benchmark.kafka.count(&benchmark.mutations());
    snapshot.start();
    snapshot.wait_for_first_read();
    benchmark.sql(
        "update hello set greeting = 'after' where id between 40 and 90;
         delete from hello where id > 180;",
    );
    for (_, _, job) in &mut jobs {
        job.wait_for("topic_consumed");
    }
    // Past the cutoff, with what clocks may differ by and what is waited behind the first sign.
    let begun = Instant::now();
    while begun.elapsed() < WATCHED {
        for (_, why, job) in &jobs {
            let generation = job.generation().expect("it runs");
            assert_eq!(generation["stage"], "topic_consumed", "{generation:#}");
            let text = generation["waits_for"]["text"].as_str().expect("a text");
            assert!(text.contains(why), "{text}");
        }
    }
    let now = benchmark.kafka.count(&benchmark.mutations());
    assert_eq!(now, mutations, "the connector is not paused");
    benchmark.connect.tell(&live, "resume");
    for (evidence, _, job) in &mut jobs {
        if *evidence == "live_offsets" {
            // Debezium confirms the ends of transactions of its tables alone, and the log is behind
            // the last of them by now: the snapshot tidies up pages, the server writes down what
            // runs, every 15 s. So nothing is past the cutoff before the next change.
            job.wait_for("topic_consumed");
            benchmark.sql("update hello set greeting = 'past the cutoff' where id = 7");
        }
        let summary = job.end(0).json();
        assert_eq!(summary["evidence"], "counted", "{summary:#}");
        assert_eq!(job.evidence("caught_up"), *evidence);
        job.assert_equal();
    }
}
