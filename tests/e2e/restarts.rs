//! The benchmark with everything restarted in the middle: the job killed with -9 at random moments
//! and started on other numbers of workers and processes, the Kafka broker stopped and started
//! again, and the PostgreSQL server of source and sink, under a job that runs.
//!
//! Invariant: as in the benchmark, the sink's rows are those of the source, and READs were both
//! emitted and dropped by markers.
//!
//! It cannot know what a killed job had counted since its last progress line: sums over all starts
//! are "at least".

use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use crate::benchmark::{Benchmark, WAIT_MAX, await_writers, from_env};
use crate::job::{Counts, Difference, Job, Layout, publish};
use crate::postgres::{Load, Pgbench};
use crate::range::{self, Back, Reader, Topic};
use crate::services::wait_until;
use crate::{KEYS, alone, services};

/// Whether a start goes on where the last checkpoint was.
const RESTORES: bool = true;

/// What the job is started on, in turn.
const LAYOUTS: [Layout; 4] = [
    Layout::new(1, 1),
    Layout::new(1, 3),
    Layout::new(1, 2),
    Layout::new(2, 1),
];
/// How long after its last write the range may still be repeated by Debezium, whose position is
/// stored each second.
const RANGE_QUIET_SECONDS: u64 = 2;
/// How long the last start takes for the READs that are left, at most.
const READS_AT_THE_END_SECONDS: u64 = 4;
/// How long a write may take to the sink: behind all that was written while a service was away,
/// on a machine that compiles at the same time.
const FLOW_MAX: Duration = Duration::from_secs(300);
/// How long peers of a killed process have to end by themselves.
const PEERS_MAX: Duration = Duration::from_secs(3);

/// SplitMix64.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % end
    }
}

/// The scenario as far as it has come.
struct Scenario<'a> {
    benchmark: &'a Benchmark,
    job: Job,
    reader: Reader,
    random: Random,
    reads_per_second_max: u64,
    begun: Instant,
    started: Instant,
    layout: Layout,
    kills: u64,
    restarts: u64,
    /// Clusters of which one process was killed, and whether the others ended by themselves.
    peers_ended: Vec<bool>,
    killed: Counts,
    /// What happened when, for the report.
    events: Vec<Value>,
}

impl<'a> Scenario<'a> {
    fn begin(benchmark: &'a Benchmark, mut job: Job, plan: &Plan) -> Self {
        let reader = Reader::start(benchmark.postgres.url(job.name));
        let layout = LAYOUTS[0];
        let reads_per_second_max = plan.reads_per_second_max();
        job.start(layout, reads_per_second_max, &[]);
        reader.seen().starts += 1;
        Self {
            benchmark,
            job,
            reader,
            random: Random(plan.seed),
            reads_per_second_max,
            begun: Instant::now(),
            started: Instant::now(),
            layout,
            kills: 0,
            restarts: 0,
            peers_ended: Vec::new(),
            killed: Counts::default(),
            events: Vec::new(),
        }
    }

    fn event(&mut self, what: &str, more: Value) {
        let at_seconds = rounded(self.begun.elapsed());
        println!("{at_seconds:6.1} s  {what}  {more}");
        self.events
            .push(json!({ "at_seconds": at_seconds, "what": what, "more": more }));
    }

    /// Lets so much time pass, with so many kills at random moments in it.
    fn pass(&mut self, seconds: u64, kills: u64) {
        let begun = Instant::now();
        let mut moments: Vec<u64> = (0..kills)
            .map(|_| self.random.below(seconds * 1_000))
            .collect();
        moments.sort_unstable();
        for moment in moments {
            self.sleep_until(begun + Duration::from_millis(moment));
            self.kill_and_start();
        }
        self.sleep_until(begun + Duration::from_secs(seconds));
    }

    /// Once more, with the snapshot at its end and perhaps not read to it, unless the job was
    /// faster.
    fn kill_at_the_end(&mut self) {
        self.reads_per_second_max = KEYS / READS_AT_THE_END_SECONDS;
        let pause = self.random.below(1_000);
        thread::sleep(Duration::from_millis(pause));
        if self.job.is_running() {
            self.kill_and_start();
        }
    }

    fn sleep_until(&mut self, until: Instant) {
        while Instant::now() < until {
            self.job.assert_running();
            let left = until.saturating_duration_since(Instant::now());
            thread::sleep(left.min(Duration::from_millis(50)));
        }
    }

    fn kill_and_start(&mut self) {
        let one = self.layout.processes > 1 && self.random.below(2) == 0;
        let counts = if one {
            let number = self.random.below(self.layout.processes as u64);
            let number = usize::try_from(number).expect("a small number");
            let (counts, alone) = self.job.kill_one(number, PEERS_MAX);
            self.peers_ended.push(alone);
            counts
        } else {
            self.job.kill()
        };
        self.kills += 1;
        self.killed.reads_emitted += counts.reads_emitted;
        self.killed.reads_dropped += counts.reads_dropped;
        self.killed.restored += counts.restored;
        let lived_seconds = rounded(self.started.elapsed());
        let before = self.layout;
        let kills = usize::try_from(self.kills).expect("a small number");
        self.layout = LAYOUTS[kills % LAYOUTS.len()];
        self.reader.seen().starts += 1;
        self.started = Instant::now();
        self.job.start(self.layout, self.reads_per_second_max, &[]);
        let more = json!({
            "one_process_of_it": one,
            "layout": before.text(),
            "lived_seconds": lived_seconds,
            "next_layout": self.layout.text(),
        });
        self.event("kill -9", more);
    }

    /// Writes to the range for a time that ends early enough before what comes next.
    fn write_range(&self, name: &str, seconds: u64, deletes_percent: u64) -> Pgbench {
        let seconds = seconds.saturating_sub(RANGE_QUIET_SECONDS).max(1);
        let load = range::load(seconds, deletes_percent);
        self.benchmark.start_load(load, name)
    }

    /// Restarts a service under the running job, and waits until a write that was made after it
    /// is in the sink.
    fn restart(&mut self, what: &str, restart: impl FnOnce() -> Duration) {
        // A start that is not through yet ends when a service is away, and is not what this tests.
        self.flow(&format!("a write before the restart of {what}"));
        let away_seconds = rounded(restart());
        let back = Instant::now();
        self.flow(&format!("a write after the restart of {what}"));
        let more = json!({
            "layout": self.layout.text(),
            "away_seconds": away_seconds,
            "first_write_in_sink_after_seconds": rounded(back.elapsed()),
        });
        self.restarts += 1;
        self.event(&format!("restart of {what}"), more);
    }

    /// Waits until a write that is made now is in the sink.
    fn flow(&mut self, what: &str) {
        self.job.assert_running();
        let wanted = range::write_one(self.benchmark);
        wait_until(what, FLOW_MAX, || {
            self.job.assert_running();
            let found = self.reader.seen().number;
            if found >= wanted {
                Ok(())
            } else {
                Err(format!("number {found} of {wanted} in the sink"))
            }
        });
    }
}

fn rounded(duration: Duration) -> f64 {
    (duration.as_secs_f64() * 10.0).round() / 10.0
}

/// Seconds of writes, and what comes with them.
struct Plan {
    seed: u64,
    /// Of each third of the writes.
    third_seconds: u64,
    rate_per_second: u64,
    deletes_percent: u64,
    kills: u64,
}

impl Plan {
    fn from_env() -> Self {
        let time = SystemTime::now().duration_since(UNIX_EPOCH);
        let time = time.expect("the clock is past 1970").subsec_nanos();
        let seed = from_env("HEADWATER_E2E_SEED", u64::from(time));
        let seconds = from_env("HEADWATER_E2E_SECONDS", 18).max(15);
        println!("HEADWATER_E2E_SEED={seed}");
        Self {
            seed,
            third_seconds: seconds / 3,
            // In the end about one write a key: restarts make the time longer.
            rate_per_second: from_env("HEADWATER_E2E_RATE", KEYS / seconds / 2),
            deletes_percent: from_env("HEADWATER_E2E_DELETES", 10),
            // One each three seconds of writes.
            kills: from_env("HEADWATER_E2E_KILLS", seconds / 3).div_ceil(3),
        }
    }

    fn load(&self, seconds: u64) -> Load {
        Load::new(KEYS, seconds, self.rate_per_second, self.deletes_percent)
    }

    /// Of every start but the last, so that each has READs left, however long restarts take.
    fn reads_per_second_max(&self) -> u64 {
        let seconds = self.third_seconds * 3;
        match self.kills {
            0 => KEYS / seconds,
            _ => KEYS / seconds / 4,
        }
    }

    /// What the job's configuration says beside its topics and its sink.
    fn config(&self) -> String {
        let mut config = String::new();
        if !RESTORES {
            // Then each start reads everything again, into a target that holds rows.
            config += "target_not_empty = \"accept\"\n";
        }
        config + "\n[checkpoint]\nstore = \"file:state\"\ninterval = \"1s\"\n"
    }
}

#[test]
fn kills_and_restarts_of_everything_leave_no_row_different() {
    let services = services();
    let _alone = alone();
    let plan = Plan::from_env();
    let benchmark = Benchmark::prepare(services, "restarts", KEYS);
    range::prepare(&benchmark);
    let job = Job::create(&benchmark, "restarts_sink", &plan.config());
    let begun = Instant::now();
    let mut scenario = Scenario::begin(&benchmark, job, &plan);
    let writers = write_through_restarts(&mut scenario, &plan);
    let transactions = writers.iter().map(Pgbench::transactions).sum();
    let written = benchmark.settle(begun, transactions, &mut || scenario.job.assert_running());
    if plan.kills > 0 {
        scenario.kill_at_the_end();
    }
    let summary = scenario.job.summary(Duration::from_secs(120));
    scenario.event("end", json!({ "layout": scenario.layout.text() }));
    let outcome = Outcome::of(&scenario, &summary);
    publish(
        "e2e-restarts-report.json",
        &json!({
            "seed": plan.seed,
            "source": {
                "keys": KEYS,
                "write_seconds": plan.third_seconds * 3,
                "write_rate_per_second": plan.rate_per_second,
                "deletes_percent": plan.deletes_percent,
                "transactions": written.transactions,
                "mutation_records": written.mutation_records,
                "reads": written.reads,
                "snapshot_records": written.snapshot_records,
                "source_rows": benchmark.number("select count(*) from public.hello"),
            },
            "reads_per_second_max": plan.reads_per_second_max(),
            "events": scenario.events,
            "last_start": summary,
            "outcome": outcome.json(),
        }),
    );
    outcome.judge(&plan);
}

/// Three thirds of writes with kills in each, and a service restarted between two; the writers,
/// all ended.
fn write_through_restarts(scenario: &mut Scenario<'_>, plan: &Plan) -> Vec<Pgbench> {
    let benchmark = scenario.benchmark;
    let third = plan.third_seconds;
    let lost = Duration::from_secs(third) + 2 * WAIT_MAX;
    let mut writers = vec![benchmark.start_load(plan.load(20 * third + 300), "writers-1")];
    thread::sleep(Duration::from_secs(third) / 4);
    benchmark.start_snapshot();
    // Its first READ shows that it has its view of the table, which the range is not in.
    wait_until("the first READ", WAIT_MAX, || {
        scenario.job.assert_running();
        match benchmark.kafka.count(&benchmark.snapshot()) {
            0 => Err("none".to_owned()),
            _ => Ok(()),
        }
    });
    writers.push(scenario.write_range("range-1", third, plan.deletes_percent));
    scenario.pass(third, plan.kills);
    benchmark.wait_for_reads(&mut || scenario.job.assert_running());
    scenario.restart("Kafka", || benchmark.services.restart_kafka());
    writers.push(scenario.write_range("range-2", third, plan.deletes_percent));
    scenario.pass(third, plan.kills);
    scenario.restart("PostgreSQL", || benchmark.services.restart_postgres());
    let cut = wait_until("the writers to lose their server", lost, || {
        writers[0].ended().ok_or("still writing".to_owned())
    });
    assert!(!cut.success(), "the writers did not notice the restart");
    let load = plan.load(third);
    writers.push(benchmark.start_load(load, "writers-2"));
    writers.push(scenario.write_range("range-3", third, plan.deletes_percent));
    scenario.pass(third, plan.kills);
    for writers in &mut writers[1..] {
        await_writers(writers, load, &mut || scenario.job.assert_running());
    }
    writers
}

/// What the scenario came to.
struct Outcome {
    kills: u64,
    peers_ended: Vec<bool>,
    restarts: u64,
    /// Over all starts, at least.
    counts: Counts,
    difference: Difference,
    topic: Topic,
    /// Of the reader of the range.
    polls: u64,
    reconnects: u64,
    changes: u64,
    keys: usize,
    backs: Vec<Back>,
    /// Those of `backs` that are the sink's: their keys did not go back in the topic.
    backs_of_sink: u64,
}

impl Outcome {
    fn of(scenario: &Scenario<'_>, summary: &Value) -> Self {
        let count = |value: &Value| value.as_u64().expect("a count");
        let topic = Topic::read(scenario.benchmark);
        let seen = scenario.reader.seen();
        let of_sink = |back: &&Back| !topic.went_back.contains(&back.id);
        Self {
            kills: scenario.kills,
            peers_ended: scenario.peers_ended.clone(),
            restarts: scenario.restarts,
            counts: Counts {
                reads_emitted: scenario.killed.reads_emitted + count(&summary["reads_emitted"]),
                reads_dropped: scenario.killed.reads_dropped
                    + count(&summary["reads_dropped"]["marker"]),
                restored: scenario.killed.restored + scenario.job.counts().restored,
            },
            difference: scenario.job.difference(),
            polls: seen.polls,
            reconnects: seen.reconnects,
            changes: seen.changes,
            keys: seen.keys(),
            backs_of_sink: seen.backs.iter().filter(of_sink).count() as u64,
            backs: seen.backs.clone(),
            topic,
        }
    }

    fn json(&self) -> Value {
        let first: Vec<Value> = self.backs.iter().take(8).map(Back::json).collect();
        let alone = self.peers_ended.iter().filter(|&&alone| alone).count();
        json!({
            "kills": self.kills,
            "starts_from_a_checkpoint": self.counts.restored,
            "kills_of_one_process_of_two": self.peers_ended.len(),
            "and_the_other_ended_by_itself_soon": alone,
            "service_restarts": self.restarts,
            "reads_emitted_at_least": self.counts.reads_emitted,
            "reads_dropped_by_marker_at_least": self.counts.reads_dropped,
            "difference": self.difference.json(),
            "range": {
                "upserts": self.topic.upserts,
                "deletes": self.topic.deletes,
                "keys_that_went_back_in_the_topic": self.topic.went_back.len(),
                "polls": self.polls,
                "reconnects": self.reconnects,
                "changes_seen": self.changes,
                "keys_seen": self.keys,
                "rows_that_went_back": self.backs.len(),
                "of_which_by_the_sink": self.backs_of_sink,
                "the_first_of_them": first,
            },
        })
    }

    fn judge(&self, plan: &Plan) {
        let found = self.json();
        assert!(self.kills >= plan.kills * 3, "{found}");
        assert_eq!(self.restarts, 2, "{found}");
        if RESTORES && self.kills > 0 {
            assert!(self.counts.restored > 0, "every start began anew: {found}");
        }
        assert!(
            self.counts.reads_emitted > 0,
            "no READ was emitted: {found}"
        );
        assert!(
            self.counts.reads_dropped > 0,
            "no READ met a marker: the snapshot did not overlap with the writes: {found}"
        );
        assert_eq!(
            self.difference.rows, 0,
            "the sink differs from the source: {found}"
        );
        assert!(
            self.polls > 500 && self.keys > 20 && self.changes > 200,
            "the reader of the range saw too little: {found}"
        );
        assert_eq!(self.backs_of_sink, 0, "rows went back in the sink: {found}");
    }
}
