//! Blue and green: two jobs on one mutation topic, each with a table of its own, and a view that
//! stands on one of them. Promotions move it while rows change and readers look.
//!
//! Invariant: what the readers saw is judged at the end, over every look of the whole time
//! ([`watch`]): no row was ever missing, and none was older than blue's by more than the lag that
//! promotion allows.
//!
//! It cannot crash a machine: a crash here is `kill -9` of the job and of its hook.

mod job;
mod watch;

use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use serde_json::json;

use crate::benchmark::Benchmark;
use crate::bluegreen::job::{Colour, said};
use crate::bluegreen::watch::{Seen, Watch};
use crate::job::publish;
use crate::postgres::Load;
use crate::rebuild::Snapshot;
use crate::services::wait_until;
use crate::{alone, services};

/// Rows of the source. None is deleted, so each must be found at every look.
const KEYS: u32 = 2_000;
/// `promote.live_lag_max`.
const LAG_MAX: Duration = Duration::from_secs(5);
/// The database of both targets and of the view.
const TARGET: &str = "bluegreen_target";
/// One session: the counters are committed in their order.
const LOAD: Load = Load {
    first: 1,
    keys: KEYS as u64,
    greeting: "nextval('counter')::text",
    clients: 1,
    // Ended by the scenario.
    seconds: 3_600,
    rate_per_second: 300,
    deletes_percent: 0,
};
/// How long the view is watched on a colour before it is moved again.
const WATCHED: Duration = Duration::from_secs(5);
/// How long a target is stuck.
const STUCK: Duration = Duration::from_secs(9);

#[test]
fn a_view_is_moved_under_load_and_never_misses_a_row_or_goes_back_too_far() {
    let services = services();
    let _alone = alone();
    let begun = Instant::now();
    let benchmark = Benchmark::prepare_with(services, "bluegreen", KEYS.into(), "'0'");
    benchmark.sql("create sequence counter");
    create_target(&benchmark);
    let snapshots = ["blue", "green"].map(|name| Snapshot::prepare(&benchmark, name, 4));
    let writers = benchmark.start_load(LOAD, "writers");

    let mut blue = Colour::open(&benchmark, &snapshots[0], "blue");
    snapshots[0].start();
    blue.wait_ready();
    promote_and_lose_the_asker(&blue);

    let watch = Watch::start(&benchmark.postgres.url(TARGET));
    let mut green = Colour::open(&benchmark, &snapshots[1], "green");
    let early = green.generation(&["promote", "g1"]);
    assert_eq!(early.status.code(), Some(4), "{}", said(&early));
    assert!(
        said(&early).contains("not met   ready: found open"),
        "{}",
        said(&early)
    );
    assert!(green.begun().is_empty(), "the hook of a refused promotion");
    snapshots[1].start();
    green.wait_ready();
    promote_and_crash(&mut green);
    let promoted_seconds = begun.elapsed().as_secs_f64();
    thread::sleep(WATCHED);
    roll_back(&blue, &green);
    promote_when_the_target_follows(&benchmark, &green);
    thread::sleep(WATCHED);
    let seen = watch.end();
    let stuck = watch_a_stuck_target(&benchmark);
    drop(writers);
    for colour in [&mut blue, &mut green] {
        colour.assert_equal();
        colour.stop();
    }
    publish(
        "e2e-bluegreen-report.json",
        &json!({
            "seconds": begun.elapsed().as_secs_f64(),
            "seconds_until_green_promoted": promoted_seconds,
            "counter": benchmark.number("select last_value from counter"),
            "looks": seen.json(),
            "looks_at_a_stuck_target": stuck.json(),
        }),
    );
    seen.assert_fresh(LAG_MAX);
    assert!(
        stuck.behind("green") > LAG_MAX,
        "blind readers: {:#}",
        stuck.json()
    );
}

fn create_target(benchmark: &Benchmark) {
    benchmark.sql(&format!("create database {TARGET}"));
    for colour in ["blue", "green"] {
        let table = format!("create table hello_{colour} (id int primary key, greeting text)");
        benchmark.postgres.sql(TARGET, &table);
    }
}

/// Who asks is killed while the hook runs: the promotion goes on, and asking again finds it.
fn promote_and_lose_the_asker(colour: &Colour) {
    colour.hold();
    let asking = colour.start_promotion();
    wait_until("the hook", LAG_MAX * 12, || some(colour.begun().len() == 1));
    let (id, done) = colour.promotion();
    assert!(!done, "its hook runs");
    drop(asking);
    let again = colour.generation(&["promote", "g1"]);
    assert_eq!(again.status.code(), Some(4), "{}", said(&again));
    assert!(
        said(&again).contains("a promotion is under way"),
        "{}",
        said(&again)
    );
    colour.release();
    colour.promote();
    assert_eq!(colour.promotion(), (id.clone(), true));
    // And once more, for good measure: it answers the same and runs nothing.
    let first = colour.promote();
    assert!(first.contains(&id), "{first}");
    assert_eq!(colour.promote(), first);
    assert_eq!(
        (colour.begun(), colour.ended()),
        (vec![id.clone()], vec![id])
    );
    assert_eq!(colour.times_promoted(), 1);
}

/// The job and its hook are killed while the hook runs: asking again runs it with the same id.
fn promote_and_crash(colour: &mut Colour) {
    colour.hold();
    // It is refused for as long as its mutations lag.
    let asking = wait_until("a promotion to begin", LAG_MAX * 12, || {
        let mut asking = colour.start_promotion();
        loop {
            if colour.begun().len() == 1 {
                return Ok(asking);
            }
            if asking.child.try_wait().expect("it is our child").is_some() {
                return Err(asking.err());
            }
            thread::sleep(Duration::from_millis(20));
        }
    });
    let (id, done) = colour.promotion();
    assert!(!done, "its hook runs");
    colour.crash();
    drop(asking);
    colour.release();
    colour.start();
    colour.promote();
    assert_eq!(colour.promotion(), (id.clone(), true));
    assert_eq!(
        colour.begun(),
        [id.clone(), id.clone()],
        "twice the same promotion"
    );
    assert_eq!(colour.ended(), [id], "the first was killed");
    assert_eq!(colour.times_promoted(), 1);
}

/// Green is taken back, and blue, which went on all the time, is promoted again.
fn roll_back(blue: &Colour, green: &Colour) {
    blue.demote("green has taken over");
    green.demote("we want blue again");
    let once = green.generation(&["demote", "g1", "--reason", "again"]);
    assert_eq!(once.status.code(), Some(4), "{}", said(&once));
    let (before, _) = blue.promotion();
    blue.promote();
    let (id, done) = blue.promotion();
    assert!(
        done && id != before,
        "a promotion of its own: {id}, {before}"
    );
    assert_eq!(blue.begun(), [before, id]);
    assert_eq!(blue.times_promoted(), 2);
}

/// Green reads all mutations, but its table takes none: the view is not moved to it meanwhile.
fn promote_when_the_target_follows(benchmark: &Benchmark, green: &Colour) {
    let before = green.begun().len();
    let stuck = stick(benchmark);
    thread::sleep(LAG_MAX + Duration::from_secs(1));
    let refused = green.generation(&["promote", "g1"]);
    assert!(!stuck.is_finished(), "it was asked too late");
    assert_eq!(refused.status.code(), Some(4), "{}", said(&refused));
    assert!(
        said(&refused).contains("not met   live_lag"),
        "{}",
        said(&refused)
    );
    stuck.join().expect("the table is free again");
    green.promote();
    assert_eq!(green.begun().len(), before + 1);
}

/// The readers must see that a table has stood still for longer than it may.
fn watch_a_stuck_target(benchmark: &Benchmark) -> Seen {
    let watch = Watch::start(&benchmark.postgres.url(TARGET));
    stick(benchmark).join().expect("the table is free again");
    watch.end()
}

/// Keeps writers, but not readers, from green's table.
fn stick(benchmark: &Benchmark) -> JoinHandle<()> {
    let postgres = benchmark.postgres;
    thread::spawn(move || {
        let seconds = STUCK.as_secs();
        let lock = "lock table hello_green in exclusive mode";
        let statements = format!("begin; {lock}; select pg_sleep({seconds}); commit;");
        postgres.sql(TARGET, &statements);
    })
}

fn some(found: bool) -> Result<(), String> {
    found.then_some(()).ok_or_else(|| "not yet".to_owned())
}
