//! What a snapshot's end stands on, over restarts and without anybody who looks.

use crate::world::{World, now_ms, record};
use headwater::embed::Embedded;
use headwater::generation::Stage;
use headwater::topic::memory::{MemoryTopics, OwnedRecord};
use std::time::Duration;

#[test]
fn a_partition_that_came_before_the_freeze_is_read_although_another_had_its_end() {
    let world = World::new("");
    let running = world.start(2);
    running.until_stage("g1", Stage::Open);
    world.topics.append("sa", 0, record('r', "a", 0, "first"));
    world
        .topics
        .append("sa", 0, OwnedRecord::end_of_snapshot("g1"));
    world
        .topics
        .append("sa", 1, OwnedRecord::end_of_snapshot("g1"));
    running.until("the ends", |shown| {
        (shown.generations.first()?.partitions_at_end.0 == 2).then_some(())
    });
    running.stop();
    world.topics.create("sa", 3);
    world.topics.append("sa", 2, record('r', "a", 8, "grown"));
    world
        .topics
        .append("sa", 2, OwnedRecord::end_of_snapshot("g1"));
    world.end("sb", 1, "g1");
    let again = world.start(2);
    let ready = again.until_stage("g1", Stage::Ready);
    assert_eq!(ready.state.late_reads, 0);
    again.stop();
    assert_eq!(world.rows("a")[&8], "grown");
}

#[test]
fn quiet_is_quiet_after_a_restart_too() {
    let world =
        World::new("[source]\nend_settle = \"2s\"\n[promote]\nsource_finished = \"quiet\"\n");
    let running = world.start(2);
    world.topics.append("sa", 1, record('r', "a", 0, "first"));
    running.until("the READ", |shown| {
        (shown.generations.first()?.counts.read == 1).then_some(())
    });
    running.until_stage("g1", Stage::Open);
    running.stop();
    let again = world.start(1);
    let ready = again.until_stage("g1", Stage::Ready);
    assert_eq!(ready.state.reached[1].evidence.as_deref(), Some("quiet"));
    again.stop();
}

#[test]
fn a_wait_that_has_a_limit_ends_and_says_what_for() {
    let folder = tempfile::tempdir().expect("a folder");
    let topics = MemoryTopics::default();
    topics.create("m", 1);
    topics.create("s", 1);
    let text = format!(
        "job = \"hello\"\n[[table]]\nname = \"public.a\"\nmutations = \"m\"\nsnapshot = \"s\"\n\
         [sink]\nkind = \"null\"\n[quarantine]\npath = \"{}\"\n",
        folder.path().display()
    );
    let ended = Embedded::new(text)
        .topics(topics)
        .without_checkpoints()
        .wait_at_most(Duration::from_millis(300))
        .run();
    let error = ended.expect_err("nothing tells the end").text;
    assert!(error.contains("no READ has come"), "{error}");
}

/// One-shot: nobody is there to drop the table (B35).
#[test]
fn a_run_that_ends_by_itself_does_not_wait_for_a_table_whose_scan_has_failed() {
    let world = World::new("");
    world.topics.create("told", 1);
    let told = [
        ("STARTED", ""),
        ("TABLE_SCAN_COMPLETED", "SQL_EXCEPTION"),
        ("COMPLETED", ""),
    ];
    for (event, status) in told {
        let text = format!(
            "{{\"type\":\"{event}\",\"aggregate_type\":\"Initial Snapshot\",\"timestamp\":{},\
             \"additional_data\":{{\"scanned_collection\":\"public.a\",\
             \"status\":\"{status}\"}}}}",
            now_ms()
        );
        let record = OwnedRecord::new(None, Some(&text));
        world.topics.append("told", 0, record);
    }
    world.topics.append("sa", 0, record('r', "a", 1, "first"));
    let at = |name: &str| world.folder.path().join(name).display().to_string();
    let text = format!(
        "job = \"hello\"\n[source]\nnotifications = \"told\"\nend_settle = \"1s\"\n[[table]]\n\
         name = \"public.a\"\nmutations = \"ma\"\nsnapshot = \"sa\"\n[sink]\nkind = \"null\"\n\
         [checkpoint]\nstore = \"file:{}\"\n[quarantine]\npath = \"{}\"\n",
        at("once"),
        at("quarantine")
    );
    let job = Embedded::new(text).topics(world.topics.clone());
    let error = job.run().expect_err("a table is missing");
    assert_eq!(error.kind.exit_code(), 3, "{error}");
    assert!(error.text.contains("public.a"), "{error}");
    assert!(error.text.contains("SQL_EXCEPTION"), "{error}");
}

/// Notifications on a topic that was handed in are evidence like those of a broker.
#[test]
fn notifications_on_topics_that_were_handed_in_tell_the_end() {
    let world = World::new("[source]\nnotifications = \"told\"\n");
    world.topics.create("told", 1);
    let running = world.start(2);
    let tell = |event: &str, more: &str| {
        let text = format!(
            "{{\"type\":\"{event}\",\"aggregate_type\":\"Initial Snapshot\",\"timestamp\":{},\
             \"additional_data\":{{{more}}}}}",
            now_ms()
        );
        let record = OwnedRecord::new(None, Some(&text));
        world.topics.append("told", 0, record);
    };
    let scanned = |table: &str, rows: u64| {
        let more = format!(
            "\"scanned_collection\":\"public.{table}\",\"total_rows_scanned\":\"{rows}\",\
             \"status\":\"SUCCEEDED\""
        );
        tell("TABLE_SCAN_COMPLETED", &more);
    };
    tell("STARTED", "");
    scanned("a", 2);
    scanned("b", 1);
    // It overtakes its READs.
    tell("COMPLETED", "");
    let waits = running.until("the count", |shown| {
        let wait = shown.generations.first()?.waits.clone()?;
        wait.text.contains("has scanned 3 rows").then_some(wait)
    });
    assert!(!waits.person, "{waits:?}");
    world.topics.append("sa", 0, record('r', "a", 1, "first"));
    world.topics.append("sa", 1, record('r', "a", 2, "first"));
    world.topics.append("sb", 0, record('r', "b", 1, "first"));
    let ready = running.until_stage("g1", Stage::Ready);
    assert_eq!(ready.state.evidence.as_deref(), Some("counted"));
    running.stop();
    assert_eq!((world.rows("a").len(), world.rows("b").len()), (2, 1));
}
