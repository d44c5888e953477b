//! Runs that take an SQLite file from each other.

use super::{HELLO, Target};
use crate::error::ErrorKind;
use crate::generation::Stage;
use crate::sink::settings::SinkSettings;
use crate::sink::testing::{
    applied, claim, claim_at, envelope, fatal, holds_with, note, place, row, table, until_written,
};
use crate::sink::{Claim, Claimed, Role, Sink, WriteError, Writer};
use rusqlite::Connection;
use std::sync::Arc;
use std::time::Duration;

const HELLOS: &str = "SELECT * FROM hello ORDER BY id";

impl Target {
    fn hello(&self) -> Arc<dyn Sink> {
        self.sink(&[table("public.hello")])
    }

    /// Takes the file for a run.
    fn take(&self, incarnation: u32, checkpoint: u64, identity: &Option<String>) -> Claimed {
        let claim = claim_at(incarnation, checkpoint, identity);
        self.hello().claim(&claim).unwrap()
    }

    /// The words of a claim that is refused.
    fn refusal(&self, incarnation: u32, checkpoint: u64, identity: &Option<String>) -> String {
        let claim = claim_at(incarnation, checkpoint, identity);
        let error = self.hello().claim(&claim).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Refused, "{error}");
        error.text
    }

    fn run(&self, sql: &str) {
        let connection = Connection::open(&self.path).unwrap();
        connection.execute_batch(sql).unwrap();
    }
}

fn write(writer: &mut dyn Writer, id: u32, greeting: &str) -> Result<u32, WriteError> {
    let key = format!(r#"{{"id":{id}}}"#);
    let value = envelope(&format!(r#"{{"id":{id},"greeting":"{greeting}"}}"#));
    let applied = [applied(Role::Mutations, 0, u64::from(id))];
    until_written(writer, &[row(&key, &value)], &applied)
}

#[test]
fn a_second_run_ends_the_writer_of_the_first() {
    let target = Target::new(HELLO);
    let first = target.hello();
    claim(first.as_ref(), 1);
    let mut old = first.writer(place(1, 0)).unwrap();
    write(old.as_mut(), 1, "first").unwrap();
    let second = target.hello();
    claim(second.as_ref(), 2);
    let text = fatal(write(old.as_mut(), 2, "stale").map(|_| ()));
    assert!(text.contains("fenced: incarnation 2"), "{text}");
    assert_eq!(target.rows(HELLOS), ["1|first"]);
    let text = fatal(first.note_checkpoint(1));
    assert!(text.contains("fenced: incarnation 2"), "{text}");
    let mut new = second.writer(place(2, 0)).unwrap();
    write(new.as_mut(), 1, "second").unwrap();
    assert!(fatal(write(old.as_mut(), 1, "stale").map(|_| ())).contains("fenced"));
    assert_eq!(target.rows(HELLOS), ["1|second"]);
}

#[test]
fn a_sink_that_is_not_fenced_is_seen() {
    let test = "sink::sqlite::tests::tenure::a_second_run_ends_the_writer_of_the_first";
    assert!(!holds_with(test, &[("HEADWATER_PLANT", "unfenced")]));
    assert!(holds_with(test, &[("HEADWATER_PLANT", "another")]));
}

#[test]
fn a_claim_waits_for_a_transaction_under_way() {
    let target = Target::new(HELLO);
    target.take(1, 0, &None);
    let old = Connection::open(&target.path).unwrap();
    let stopped = "BEGIN IMMEDIATE; INSERT INTO hello VALUES (1, 'under way')";
    old.execute_batch(stopped).unwrap();
    std::thread::scope(|scope| {
        let claiming = scope.spawn(|| target.take(2, 0, &None));
        std::thread::sleep(Duration::from_millis(1500));
        assert!(!claiming.is_finished());
        old.execute_batch("COMMIT").unwrap();
        claiming.join().unwrap();
    });
    assert_eq!(
        target.rows("SELECT incarnation FROM headwater_target"),
        ["2"]
    );
}

#[test]
fn a_writer_waits_for_its_claim() {
    let target = Target::new(HELLO);
    let mut early = target.hello().writer(place(2, 0)).unwrap();
    let value = envelope(r#"{"id":1,"greeting":"a"}"#);
    let rows = [row(r#"{"id":1}"#, &value)];
    for older in [None, Some(1)] {
        if let Some(incarnation) = older {
            target.take(incarnation, 0, &None);
        }
        let wait = early.write(&rows, &[]);
        assert!(matches!(wait, Err(WriteError::Retry(_))), "{wait:?}");
    }
    assert_eq!(target.rows("SELECT count(*) FROM hello"), ["0"]);
    target.take(2, 0, &None);
    early.write(&rows, &[]).unwrap();
    target.run("DELETE FROM headwater_target");
    assert!(fatal(early.write(&rows, &[])).contains("is gone"));
}

#[test]
fn a_target_made_anew_is_refused() {
    let target = Target::new(HELLO);
    let made = target.take(1, 0, &None).identity;
    target.hello().note_checkpoint(1).unwrap_err();
    let known = || target.take(2, 0, &made);
    assert_eq!(known().identity, made);
    let anew = format!("DROP TABLE hello; {HELLO}");
    let renamed = format!("ALTER TABLE hello RENAME TO bye; {HELLO}");
    for sql in [renamed, anew] {
        target.run(&sql);
        let text = target.refusal(9, 0, &made);
        assert!(text.contains("made anew"), "{text}");
    }
    let fresh = target.take(9, 0, &None);
    assert_ne!(fresh.identity, made);
    assert_eq!(fresh.applied, []);
    // A store of the older life is refused as well.
    let text = target.refusal(10, 0, &made);
    let ids = [made.unwrap(), fresh.identity.unwrap()];
    assert!(ids.iter().all(|id| text.contains(id)), "{text}");
    let mut writer = target.hello().writer(place(9, 0)).unwrap();
    write(writer.as_mut(), 1, "a").unwrap();
    assert_eq!(target.rows(HELLOS), ["1|a"]);
}

#[test]
fn an_older_copy_is_refused() {
    let target = Target::new(HELLO);
    let sink = target.hello();
    let made = sink.claim(&claim_at(1, 0, &None)).unwrap().identity;
    sink.note_checkpoint(1).unwrap();
    let copy = target.path.with_extension("copy");
    target.run(&format!("VACUUM INTO '{}'", copy.display()));
    sink.note_checkpoint(3).unwrap();
    // A number that comes late lowers nothing.
    sink.note_checkpoint(2).unwrap();
    target.take(2, 3, &made);
    assert!(target.refusal(3, 4, &made).contains("older copy"));
    for suffix in ["", "-wal", "-shm"] {
        let mut file = target.path.clone().into_os_string();
        file.push(suffix);
        let _ = std::fs::remove_file(file);
    }
    std::fs::rename(copy, &target.path).unwrap();
    let text = target.refusal(3, 3, &made);
    for part in [
        "older copy",
        "this start  checkpoint 3",
        "the target  checkpoint 1",
    ] {
        assert!(text.contains(part), "{part} is not in {text}");
    }
    target.take(3, 1, &made);
}

#[test]
fn one_target_has_one_job() {
    let mut target = Target::new(HELLO);
    target.take(3, 0, &None);
    assert!(target.refusal(2, 0, &None).contains("newer run"));
    assert!(target.refusal(3, 0, &None).contains("checkpoint.store"));
    target.settings = SinkSettings {
        job: "it's".into(),
        ..target.settings
    };
    let other = || target.hello().claim(&Claim::fresh("it's", 1));
    let text = other().unwrap_err().text;
    let release = "DELETE FROM headwater_target WHERE job = 'headwater';";
    for part in [
        "another job",
        "its job   headwater",
        "this job  it's",
        release,
    ] {
        assert!(text.contains(part), "{part} is not in {text}");
    }
    target.run(release);
    other().unwrap();
}

#[test]
fn progress_is_the_farthest_of_all_shards_and_runs() {
    let target = Target::new(HELLO);
    let identity = target.take(1, 0, &None).identity;
    let put = |incarnation, shard, progress: &[(Role, u32, u64)]| {
        let mut writer = target.hello().writer(place(incarnation, shard)).unwrap();
        let applied: Vec<_> = progress
            .iter()
            .map(|at| applied(at.0, at.1, at.2))
            .collect();
        writer.write(&[row(r#"{"id":1}"#, "")], &applied).unwrap();
    };
    use Role::{Mutations, Snapshot};
    put(
        1,
        0,
        &[(Mutations, 0, 10), (Mutations, 1, 4), (Snapshot, 0, 2)],
    );
    put(1, 1, &[(Mutations, 0, 7), (Snapshot, 0, 9)]);
    put(1, 0, &[(Mutations, 0, 3)]);
    let expected = [
        applied(Mutations, 0, 10),
        applied(Mutations, 1, 4),
        applied(Snapshot, 0, 9),
    ];
    assert_eq!(target.take(2, 0, &identity).applied, expected);
    // Other shards, some of which do not come again.
    put(2, 7, &[(Mutations, 0, 8), (Mutations, 1, 5)]);
    let expected = [
        applied(Mutations, 0, 10),
        applied(Mutations, 1, 5),
        applied(Snapshot, 0, 9),
    ];
    assert_eq!(target.take(3, 0, &identity).applied, expected);
    // A job that starts over before its first checkpoint: readers have seen those rows.
    let fresh = target.take(4, 0, &None);
    assert_ne!(fresh.identity, identity);
    assert_eq!(fresh.applied, expected);
    let shards = "SELECT count(DISTINCT identity), count(*) FROM headwater_applied";
    assert_eq!(target.rows(shards), ["1|7"]);
}

#[test]
fn readers_see_which_generation_rows_come_from() {
    let target = Target::new(HELLO);
    let first = target.hello();
    claim(first.as_ref(), 1);
    target.run("DROP TABLE headwater_generation");
    // A ledger of an older version; the next claim brings the table.
    let sink = target.hello();
    sink.check().unwrap();
    claim(sink.as_ref(), 2);
    let open = [note(1, Stage::Open, Some(5))];
    assert!(fatal(first.generations(&open)).contains("fenced: incarnation 2"));
    sink.generations(&open).unwrap();
    let now = "SELECT g.number, g.id, g.stage, g.since_ms FROM headwater_target t
                 JOIN headwater_generation g ON g.identity = t.identity ORDER BY g.number";
    assert_eq!(target.rows(now), ["1|g1|open|5"]);
    let both = [
        note(1, Stage::Superseded, Some(9)),
        note(2, Stage::TopicConsumed, None),
    ];
    sink.generations(&both).unwrap();
    sink.generations(&both).unwrap();
    let expected = ["1|g1|superseded|9", "2|g2|topic_consumed|NULL"];
    assert_eq!(target.rows(now), expected);
    // An older checkpoint does not know of the second one.
    sink.generations(&both[..1]).unwrap();
    assert_eq!(target.rows(now), expected[..1]);
    // A fresh job has another identity: nothing of the old one is left.
    claim(target.hello().as_ref(), 3);
    assert!(
        target
            .rows("SELECT number FROM headwater_generation")
            .is_empty()
    );
}

#[test]
fn a_commit_is_made_again_until_it_is_answered() {
    let ordered = std::env::var("HEADWATER_FAULT").is_ok();
    let target = Target::new(HELLO);
    let sink = target.hello();
    claim(sink.as_ref(), 1);
    let mut writer = sink.writer(place(1, 0)).unwrap();
    let retries = write(writer.as_mut(), 5, "a").unwrap();
    assert_eq!(retries, u32::from(ordered));
    assert_eq!(target.rows(HELLOS), ["5|a"]);
    let progress = "SELECT next_offset FROM headwater_applied";
    assert_eq!(target.rows(progress), ["5"]);
}

#[test]
fn a_fault_at_a_commit_does_no_harm() {
    let test = "sink::sqlite::tests::tenure::a_commit_is_made_again_until_it_is_answered";
    for point in ["sqlite.commit.before", "sqlite.commit.after"] {
        let order = format!("{point}=error");
        assert!(holds_with(test, &[("HEADWATER_FAULT", &order)]), "{point}");
    }
}
