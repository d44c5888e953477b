//! Generations of a running job: opened, paused, aborted, replaced, restarted, on topics in memory.
//!
//! Invariant: what is asserted was told by a durable manifest, or stands in the target.

mod ends;
mod world;

use crate::world::{LIMIT, Running, WAY, World, record, stages};
use headwater::generation::request::{Body, Request};
use headwater::generation::{Refusal, Stage};
use headwater::topic::memory::OwnedRecord;

#[test]
fn a_restart_takes_no_stage_back() {
    let world = World::new("");
    let first = world.start(2);
    first.until_stage("g1", Stage::Open);
    first.stop();
    world.topics.append("ma", 0, record('u', "a", 0, "newer"));
    world.first_snapshot();
    // Stopped at any moment on its way, on other numbers of workers.
    for workers in [1, 3, 2] {
        let running = world.start(workers);
        running.until("a step", |shown| {
            (shown.generations.first()?.state.reached.len() > 1).then_some(())
        });
        running.stop();
    }
    let running = world.start(2);
    let ready = running.until_stage("g1", Stage::Ready);
    assert_eq!(stages(&ready), WAY, "each stage once");
    let durable = running.until("a checkpoint", |shown| shown.saved.clone());
    running.stop();
    let again = world.start(1);
    let still = again.until_stage("g1", Stage::Ready);
    assert_eq!(still.state.reached, ready.state.reached);
    assert!(durable.number > 0);
    again.stop();
    assert_eq!(world.rows("a")[&0], "newer");
    assert_eq!((world.rows("a").len(), world.rows("b").len()), (6, 6));
}

#[test]
fn two_generations_of_different_tables_go_on_at_once_and_a_newer_one_replaces_an_older() {
    let world = World::new("");
    let running = world.start(2);
    world.first_snapshot();
    running.until_stage("g1", Stage::Ready);
    let answer = world.open(&running, 0, "sa2");
    assert_eq!(answer.generation.as_deref(), Some("g2"));
    assert!(answer.manifest > 0, "it is durable: {answer:?}");
    world.open(&running, 1, "sb2");
    // Unread before its open; decided against markers that came after it.
    world.topics.append("ma", 0, record('u', "a", 1, "live"));
    running.until("the mutation", |shown| {
        (shown.counts.mutations_emitted == 1).then_some(())
    });
    for id in 0..4 {
        world
            .topics
            .append("sa2", 0, record('r', "a", id, "second"));
        world
            .topics
            .append("sb2", 0, record('r', "b", id, "second"));
    }
    world.end("sb2", 1, "g3");
    let third = running.until_stage("g3", Stage::Ready);
    assert_eq!(third.counts.emitted, 4);
    running.until_stage("g2", Stage::Open);
    // A newer one of table a takes over; READs of the older one are dropped from then on.
    world.open(&running, 0, "sa3");
    let over = running.until_stage("g2", Stage::Superseded);
    assert_eq!(
        over.state
            .reached
            .last()
            .and_then(|r| r.evidence.as_deref()),
        Some("g4")
    );
    world
        .topics
        .append("sa2", 0, record('r', "a", 5, "too late"));
    world.topics.append("sa3", 0, record('r', "a", 2, "third"));
    world.end("sa3", 1, "g4");
    running.until_stage("g4", Stage::Ready);
    let second = running.until_stage("g2", Stage::Superseded);
    assert_eq!(second.counts.read, 4, "a superseded topic is read no more");
    running.stop();
    let rows = world.rows("a");
    assert_eq!(rows[&0], "second");
    assert_eq!(rows[&1], "live");
    assert_eq!(rows[&2], "third");
    assert_eq!(rows[&5], "first", "a superseded READ was written");
}

#[test]
fn an_aborted_generation_is_read_no_more_and_its_id_is_taken() {
    let world = World::new("");
    let running = world.start(2);
    world.first_snapshot();
    running.until_stage("g1", Stage::Ready);
    world.open(&running, 0, "sa2");
    let abort = || Body::Abort {
        generation: "g2".to_owned(),
        reason: "a wrong topic".to_owned(),
    };
    world.done(&running, abort());
    world
        .topics
        .append("sa2", 0, record('r', "a", 0, "aborted"));
    assert!(matches!(
        world.ask(&running, abort()),
        Err(Refusal::Conflict(_))
    ));
    let unknown = Body::AcceptLag {
        generation: "g9".to_owned(),
    };
    assert!(matches!(
        world.ask(&running, unknown),
        Err(Refusal::Unknown(_))
    ));
    running.stop();
    let again = world.start(3);
    let aborted = again.until_stage("g2", Stage::Aborted);
    let why = aborted
        .state
        .reached
        .last()
        .and_then(|r| r.evidence.clone());
    assert_eq!(why.as_deref(), Some("a wrong topic"));
    assert_eq!(
        world.open(&again, 0, "sa3").generation.as_deref(),
        Some("g3")
    );
    again.stop();
    assert_eq!(world.rows("a")[&0], "first");
}

#[test]
fn reads_are_paused_and_resumed_and_mutations_go_on() {
    let world = World::new("");
    let running = world.start(2);
    let reads = |paused, per_second_max| Body::Reads {
        paused,
        per_second_max,
    };
    world.done(&running, reads(Some(true), None));
    running.stop();
    // The pause is durable.
    let running = world.start(1);
    world.first_snapshot();
    world.topics.append("mb", 0, record('u', "b", 3, "live"));
    running.until("the mutation", |shown| {
        (shown.counts.mutations_emitted == 1).then_some(())
    });
    running.until("some time", |shown| (shown.now_ms > 600).then_some(()));
    let shown = running.job.panel.shown();
    assert_eq!(shown.counts.reads_read, 0, "READs are paused");
    let wait = shown.generations[0].waits.clone().expect("it waits");
    assert_eq!(wait.command.as_deref(), Some("headwater generation resume"));
    world.done(&running, reads(Some(false), Some(Some(1_000))));
    running.until_stage("g1", Stage::Ready);
    running.stop();
    assert_eq!(world.rows("b")[&3], "live");
}

#[test]
fn a_table_is_dropped_so_that_the_others_go_on() {
    let world = World::new("");
    let running = world.start(2);
    world.topics.append("sa", 0, record('r', "a", 0, "first"));
    world.end("sa", 2, "g1");
    running.until("the ends of a", |shown| {
        (shown.generations.first()?.partitions_at_end == (2, 3)).then_some(())
    });
    let drop_table = Body::DropTable {
        generation: "g1".to_owned(),
        table: 1,
    };
    world.done(&running, drop_table);
    let ready = running.until_stage("g1", Stage::Ready);
    assert_eq!(ready.state.dropped_tables, [1]);
    running.stop();
}

#[test]
fn a_late_read_takes_ready_away_before_promotion() {
    let world = World::new("");
    let running = world.start(2);
    world.first_snapshot();
    running.until_stage("g1", Stage::Ready);
    world.topics.append("sb", 0, record('r', "b", 9, "late"));
    let back = running.until_stage("g1", Stage::CaughtUp);
    let wait = back.waits.expect("it is not ready");
    assert!(wait.text.contains("behind the end"), "{wait:?}");
    running.stop();
    let again = world.start(1);
    let still = again.until_stage("g1", Stage::CaughtUp);
    assert_eq!(still.state.late_reads, 1);
    again.stop();
    assert!(!world.rows("b").contains_key(&9), "a late READ was written");
}

#[test]
fn the_ttl_is_set_at_one_tick_and_outlives_a_restart() {
    let world = World::new("[retention]\nkeep_markers = \"ttl\"\nttl = \"1h\"\n");
    let running = world.start(3);
    world.done(&running, Body::Ttl { ttl_ms: 7_200_000 });
    running.stop();
    let again = world.start(1);
    let ttl = again.until("a look", |shown| shown.retention.ttl_ms);
    assert_eq!(ttl, 7_200_000);
    again.stop();
}

#[test]
fn the_same_request_twice_is_done_once() {
    let world = World::new("");
    let running = world.start(2);
    let request = || Request {
        id: "once".to_owned(),
        body: Body::Reads {
            paused: Some(true),
            per_second_max: None,
        },
    };
    let ask = |running: &Running| {
        let outcome = running.job.panel.desk.ask(request());
        outcome.recv_timeout(LIMIT).expect("an answer")
    };
    let first = ask(&running).expect("done");
    assert_eq!(ask(&running), Ok(first.clone()));
    running.stop();
    let again = world.start(2);
    assert_eq!(ask(&again), Ok(first), "after a restart");
    again.stop();
}

#[test]
fn what_a_person_asked_of_reads_ends_when_the_configuration_says_something_else() {
    let mut world = World::new("");
    let running = world.start(2);
    running.until_stage("g1", Stage::Open);
    world.done(
        &running,
        Body::Reads {
            paused: None,
            per_second_max: Some(Some(50)),
        },
    );
    world.done(&running, Body::MarkersMax { markers_max: 7000 });
    running.stop();
    let kept = world.start(2);
    let control = kept.until_open();
    assert_eq!(control, (Some(Some(50)), Some(7000)));
    let no_limit = Body::Reads {
        paused: None,
        per_second_max: Some(None),
    };
    world.done(&kept, no_limit);
    kept.stop();
    let kept = world.start(1);
    assert_eq!(kept.until_open(), (Some(None), Some(7000)));
    kept.stop();
    world.more = "[limits]\nreads_per_second_max = 5000\n";
    let changed = world.start(2);
    assert_eq!(changed.until_open(), (None, Some(7000)));
    changed.stop();
}

/// A dead letter keeps a generation from ready, or takes it back, until a person accepts it, over
/// restarts on any number of workers.
#[test]
fn a_dead_letter_waits_for_a_person() {
    let world = World::new("[decode]\non_error = \"dead_letter\"\n");
    let running = world.start(2);
    let bad = |id: u64| OwnedRecord::new(Some(&format!("{{\"id\":{id}}}")), Some("{"));
    world.topics.append("ma", 0, bad(0));
    world.topics.append("ma", 0, bad(2));
    world.topics.append("ma", 0, record('u', "a", 2, "mended"));
    world.first_snapshot();
    let waits = |running: &Running, letters| {
        running.until("a person is waited for", |shown| {
            let of = shown.generations.first()?;
            let command = of.waits.as_ref()?.command.clone()?;
            let asked = command == "headwater generation accept-dead-letters g1";
            let there = of.state.stage == Stage::CaughtUp && of.dead_letters == letters;
            (asked && there).then(|| shown.dead_letters())
        })
    };
    assert_eq!(waits(&running, 2), 2);
    running.stop();
    assert_eq!(world.rows("a").get(&0), None, "its READ is no truth");
    assert_eq!(world.rows("a")[&2], "mended");
    let running = world.start(3);
    assert_eq!(waits(&running, 2), 2);
    let accept = || Body::AcceptDeadLetters {
        generation: "g1".to_owned(),
    };
    let answer = world.done(&running, accept());
    assert_eq!(answer.text, "the loss of 2 mutations is accepted");
    running.until_stage("g1", Stage::Ready);
    // One more, of the other table.
    world.topics.append("mb", 0, bad(1));
    assert_eq!(waits(&running, 1), 1);
    running.stop();
    let running = world.start(1);
    assert_eq!(waits(&running, 1), 1);
    world.done(&running, accept());
    let ready = running.until_stage("g1", Stage::Ready);
    let accepted = ready.state.dead_letters_accepted.iter();
    assert_eq!(accepted.map(|of| of.letters).sum::<u64>(), 3);
    // What it stands on is what it stood on before it was taken back: promotion asks for that.
    let mut reached = ready.state.reached.iter().rev();
    let back = reached
        .find(|of| of.stage == Stage::CaughtUp)
        .expect("it was");
    assert_eq!(back.evidence.as_deref(), Some("unproven"));
    let left = back.not_proven.as_deref().expect("it was taken back");
    assert!(
        left.starts_with("taken back from ready: dead letters; "),
        "{left}"
    );
    assert_eq!(
        world.done(&running, accept()).text,
        "there is no dead letter to accept"
    );
    running.stop();
    let running = world.start(2);
    running.until_stage("g1", Stage::Ready);
    running.stop();
}
