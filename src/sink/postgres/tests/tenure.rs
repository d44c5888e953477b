//! Runs that take the tables of a real PostgreSQL from each other.

use super::{Database, HELLO, postgres, sink};
use crate::error::ErrorKind;
use crate::generation::Stage;
use crate::sink::settings::SinkSettings;
use crate::sink::testing::{
    applied, claim, claim_at, envelope, fatal, holds_with, note, place, row, table, until,
    until_written,
};
use crate::sink::{Claim, Claimed, Role, Sink, WriteError, Writer};
use std::sync::Arc;
use std::time::Duration;
use tokio_postgres::{Client, NoTls};

/// The fault points that only this target has; each is visited in error and in abort mode.
const POINTS: [&str; 2] = ["postgres.commit.before", "postgres.commit.after"];
const HELLOS: &str = "SELECT * FROM hello ORDER BY id";

impl Database {
    fn hello(&self) -> Arc<dyn Sink> {
        sink(&postgres(&self.url), &[table("public.hello")])
    }

    /// Takes the table for a run.
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
}

/// A session that stays open, as that of a process which was stopped.
struct Session {
    runtime: tokio::runtime::Runtime,
    client: Client,
}

impl Session {
    fn open(database: &Database, name: &str) -> Session {
        let runtime = crate::sink::postgres::runtime().unwrap();
        let url = format!("{}?application_name={name}", database.url);
        let client = runtime.block_on(async {
            let (client, connection) = tokio_postgres::connect(&url, NoTls).await.unwrap();
            tokio::spawn(connection);
            client
        });
        Session { runtime, client }
    }

    fn run(&self, sql: &str) -> Result<(), tokio_postgres::Error> {
        self.runtime.block_on(self.client.batch_execute(sql))
    }
}

/// What a writer has done when it is stopped in its transaction.
fn amid(id: u32) -> String {
    format!(
        "BEGIN; SELECT FROM headwater_target FOR SHARE; INSERT INTO hello VALUES ({id}, 'amid')"
    )
}

fn write(writer: &mut dyn Writer, id: u32, greeting: &str) -> Result<u32, WriteError> {
    let key = format!(r#"{{"id":{id}}}"#);
    let value = envelope(&format!(r#"{{"id":{id},"greeting":"{greeting}"}}"#));
    let applied = [applied(Role::Mutations, 0, u64::from(id))];
    until_written(writer, &[row(&key, &value)], &applied)
}

#[test]
fn a_second_run_ends_the_writer_of_the_first() {
    let database = Database::new("second_run");
    database.sql(HELLO);
    let first = database.hello();
    claim(first.as_ref(), 1);
    let mut old = first.writer(place(1, 0)).unwrap();
    write(old.as_mut(), 1, "first").unwrap();
    // Not yet used when it is ended.
    let mut idle = first.writer(place(1, 1)).unwrap();
    let second = database.hello();
    claim(second.as_ref(), 2);
    // The first try finds its session ended.
    let text = fatal(write(old.as_mut(), 2, "stale").map(|_| ()));
    assert!(text.contains("fenced: incarnation 2"), "{text}");
    let text = fatal(write(idle.as_mut(), 3, "stale").map(|_| ()));
    assert!(text.contains("fenced: incarnation 2"), "{text}");
    // Made after the takeover.
    let mut late = first.writer(place(1, 2)).unwrap();
    assert!(fatal(write(late.as_mut(), 4, "stale").map(|_| ())).contains("fenced"));
    assert_eq!(database.sql(HELLOS), ["1|first"]);
    assert!(fatal(first.note_checkpoint(1)).contains("fenced: incarnation 2"));
    let mut new = second.writer(place(2, 0)).unwrap();
    write(new.as_mut(), 1, "second").unwrap();
    assert!(fatal(write(old.as_mut(), 1, "stale").map(|_| ())).contains("fenced"));
    assert_eq!(database.sql(HELLOS), ["1|second"]);
}

#[test]
fn a_sink_that_is_not_fenced_is_seen() {
    let test = "sink::postgres::tests::tenure::a_second_run_ends_the_writer_of_the_first";
    let port = ("HEADWATER_TEST_POSTGRES_PORT", "25433");
    assert!(!holds_with(test, &[("HEADWATER_PLANT", "unfenced"), port]));
    assert!(holds_with(test, &[("HEADWATER_PLANT", "another"), port]));
}

#[test]
fn a_session_stopped_amid_its_transaction_is_ended() {
    let database = Database::new("stopped");
    database.sql(HELLO);
    database.take(1, 0, &None);
    let old = Session::open(&database, "headwater/headwater/1/0");
    old.run(&amid(1)).unwrap();
    let claimed = database.take(2, 0, &None);
    assert_eq!(claimed.fence, crate::sink::Fence::Fenced);
    old.run("COMMIT").unwrap_err();
    assert_eq!(database.sql(HELLOS), [""; 0]);
    // Those of the run itself and of newer ones stay.
    let own = Session::open(&database, "headwater/headwater/3/0");
    database.take(3, 0, &None);
    own.run("SELECT 1").unwrap();
    assert!(database.refusal(2, 0, &None).contains("newer run"));
    own.run("SELECT 1").unwrap();
}

#[test]
fn a_session_that_cannot_be_ended_is_waited_for() {
    let database = Database::new("waited");
    database.sql(HELLO);
    database.take(1, 0, &None);
    let old = Session::open(&database, "somebody");
    old.run(&amid(1)).unwrap();
    std::thread::scope(|scope| {
        let claiming = scope.spawn(|| database.take(2, 0, &None));
        std::thread::sleep(Duration::from_millis(1500));
        assert!(!claiming.is_finished());
        old.run("COMMIT").unwrap();
        claiming.join().unwrap();
    });
    assert_eq!(database.sql(HELLOS), ["1|amid"]);
}

#[test]
fn a_writer_that_comes_amid_a_claim_finds_the_newer_run() {
    let database = Database::new("amid_claim");
    database.sql(HELLO);
    let first = database.hello();
    claim(first.as_ref(), 1);
    let mut old = first.writer(place(1, 0)).unwrap();
    let claiming = Session::open(&database, "claim");
    let bump = "BEGIN; UPDATE headwater_target SET incarnation = 2";
    claiming.run(bump).unwrap();
    std::thread::scope(|scope| {
        let writing = scope.spawn(move || write(old.as_mut(), 1, "stale").map(|_| ()));
        let waits = "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock'
                        AND application_name = 'headwater/headwater/1/0'";
        until("the writer waits", || !database.sql(waits).is_empty());
        claiming.run("COMMIT").unwrap();
        let text = fatal(writing.join().unwrap());
        assert!(text.contains("fenced: incarnation 2"), "{text}");
    });
    assert_eq!(database.sql(HELLOS), [""; 0]);
}

#[test]
fn a_writer_waits_for_its_claim() {
    let database = Database::new("early");
    database.sql(HELLO);
    let mut early = database.hello().writer(place(2, 0)).unwrap();
    let value = envelope(r#"{"id":1,"greeting":"a"}"#);
    let rows = [row(r#"{"id":1}"#, &value)];
    for older in [None, Some(1)] {
        if let Some(incarnation) = older {
            database.take(incarnation, 0, &None);
        }
        let wait = early.write(&rows, &[]);
        assert!(matches!(wait, Err(WriteError::Retry(_))), "{wait:?}");
    }
    assert_eq!(database.sql("SELECT count(*) FROM hello"), ["0"]);
    database.take(2, 0, &None);
    early.write(&rows, &[]).unwrap();
    // Made anew while it writes.
    database.sql(&format!("DROP TABLE hello; {HELLO}"));
    assert!(fatal(early.write(&rows, &[])).contains("is gone"));
}

#[test]
fn a_target_made_anew_is_refused() {
    let database = Database::new("anew");
    database.sql(HELLO);
    let made = database.take(1, 0, &None).identity;
    assert_eq!(database.take(2, 0, &made).identity, made);
    database.sql(&format!("DROP TABLE hello; {HELLO}"));
    let text = database.refusal(9, 0, &made);
    assert!(text.contains("made anew"), "{text}");
    let fresh = database.take(9, 0, &None);
    assert_ne!(fresh.identity, made);
    let text = database.refusal(10, 0, &made);
    let ids = [made.unwrap(), fresh.identity.unwrap()];
    assert!(ids.iter().all(|id| text.contains(id)), "{text}");
    // The row of the dropped table went with it.
    let rows = "SELECT relation, incarnation FROM headwater_target";
    assert_eq!(database.sql(rows), ["hello|9"]);
}

#[test]
fn an_older_copy_is_refused() {
    let database = Database::new("copied");
    database.sql(HELLO);
    let sink = database.hello();
    let made = sink.claim(&claim_at(1, 0, &None)).unwrap().identity;
    sink.note_checkpoint(1).unwrap();
    let older = Database::new("older_copy");
    // On a connection to neither of the two.
    let admin = Database::new("copies");
    admin.sql("DROP DATABASE older_copy WITH (FORCE)");
    admin.sql("CREATE DATABASE older_copy TEMPLATE copied");
    sink.note_checkpoint(3).unwrap();
    // A number that comes late lowers nothing.
    sink.note_checkpoint(2).unwrap();
    database.take(2, 3, &made);
    assert!(database.refusal(3, 4, &made).contains("older copy"));
    let text = older.refusal(3, 3, &made);
    for part in [
        "older copy",
        "this start  checkpoint 3",
        "the target  checkpoint 1",
    ] {
        assert!(text.contains(part), "{part} is not in {text}");
    }
    older.take(3, 1, &made);
}

#[test]
fn one_target_has_one_job_and_jobs_of_one_name_do_not_mix() {
    let database = Database::new("one_job");
    database.sql(&format!(
        "{HELLO}; CREATE SCHEMA s; CREATE TABLE s.bye (id int PRIMARY KEY)"
    ));
    let identity = database.take(3, 0, &None).identity;
    let mut writer = database.hello().writer(place(3, 0)).unwrap();
    write(writer.as_mut(), 5, "a").unwrap();
    assert!(database.refusal(3, 0, &None).contains("checkpoint.store"));
    let other = || {
        let settings = SinkSettings {
            job: "it's".into(),
            ..postgres(&database.url)
        };
        let tables = [table("s.bye"), table("public.hello")];
        sink(&settings, &tables).claim(&Claim::fresh("it's", 1))
    };
    let text = other().unwrap_err().text;
    let release = "DELETE FROM \"public\".headwater_target WHERE job = 'headwater';";
    for part in [
        "another job",
        "its job   headwater",
        "this job  it's",
        release,
    ] {
        assert!(text.contains(part), "{part} is not in {text}");
    }
    // A job of the same name with a store and a table of its own.
    let twin = sink(&postgres(&database.url), &[table("s.bye")]);
    assert_eq!(twin.claim(&claim_at(1, 0, &None)).unwrap().applied, []);
    let farthest = [applied(Role::Mutations, 0, 5)];
    assert_eq!(database.take(4, 0, &identity).applied, farthest);
    database.sql(release);
    other().unwrap();
    let rows = "SELECT relation, job FROM headwater_target ORDER BY relation::text";
    assert_eq!(database.sql(rows), ["hello|it's", "s.bye|it's"]);
}

#[test]
fn progress_is_the_farthest_of_all_shards_and_runs() {
    use Role::{Mutations, Snapshot};
    let database = Database::new("progress");
    database.sql(HELLO);
    let identity = database.take(1, 0, &None).identity;
    let put = |incarnation, shard, progress: &[(Role, u32, u64)]| {
        let mut writer = database.hello().writer(place(incarnation, shard)).unwrap();
        let applied: Vec<_> = progress
            .iter()
            .map(|at| applied(at.0, at.1, at.2))
            .collect();
        writer.write(&[row(r#"{"id":1}"#, "")], &applied).unwrap();
    };
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
    assert_eq!(database.take(2, 0, &identity).applied, expected);
    // Other shards, some of which do not come again.
    put(2, 7, &[(Mutations, 0, 8), (Mutations, 1, 5)]);
    let expected = [
        applied(Mutations, 0, 10),
        applied(Mutations, 1, 5),
        applied(Snapshot, 0, 9),
    ];
    assert_eq!(database.take(3, 0, &identity).applied, expected);
    // A job that starts over before its first checkpoint: readers have seen those rows.
    let fresh = database.take(4, 0, &None);
    assert_ne!(fresh.identity, identity);
    assert_eq!(fresh.applied, expected);
    let shards = "SELECT count(DISTINCT identity), count(*) FROM headwater_applied";
    assert_eq!(database.sql(shards), ["1|7"]);
}

#[test]
fn rights_that_are_missing_are_said_with_the_sql_that_gives_them() {
    let database = Database::new("rights");
    database.sql(&format!(
        "{HELLO}; DROP ROLE IF EXISTS \"mere writer\"; CREATE ROLE \"mere writer\" LOGIN;
         GRANT SELECT, INSERT, UPDATE, DELETE ON hello TO \"mere writer\""
    ));
    let settings = postgres(&database.url.replace("postgres@", "mere%20writer@"));
    let sink = || sink(&settings, &[table("public.hello")]);
    let cure = |text: &str| {
        let lines = text.lines().map(str::trim);
        let sql: Vec<&str> = lines
            .filter(|line| line.starts_with("CREATE TABLE") || line.starts_with("GRANT"))
            .collect();
        database.sql(&sql.concat());
        sql.len()
    };
    let error = sink().check().unwrap_err();
    assert_eq!(cure(&error.text), 5, "{error}");
    sink().check().unwrap();
    database.sql("REVOKE UPDATE ON headwater_applied FROM \"mere writer\"");
    let error = sink().check().unwrap_err();
    assert!(error.text.contains("missing  UPDATE"), "{error}");
    assert_eq!(cure(&error.text), 1, "{error}");
    // The ledger of an older version, which lacks a table.
    database.sql("DROP TABLE headwater_generation");
    let error = sink().check().unwrap_err();
    assert!(error.text.contains("older version"), "{error}");
    assert_eq!(cure(&error.text), 2, "{error}");
    let sink = sink();
    sink.check().unwrap();
    claim(sink.as_ref(), 1);
    let mut writer = sink.writer(place(1, 0)).unwrap();
    write(writer.as_mut(), 1, "a").unwrap();
    sink.note_checkpoint(1).unwrap();
    assert_eq!(database.sql(HELLOS), ["1|a"]);
}

#[test]
fn readers_see_which_generation_rows_come_from() {
    let database = Database::new("generations");
    database.sql(HELLO);
    let first = database.hello();
    claim(first.as_ref(), 1);
    database.sql("DROP TABLE headwater_generation");
    // A ledger of an older version; the next claim brings the table.
    let sink = database.hello();
    sink.check().unwrap();
    claim(sink.as_ref(), 2);
    let open = [note(1, Stage::Open, Some(5))];
    assert!(fatal(first.generations(&open)).contains("fenced: incarnation 2"));
    sink.generations(&open).unwrap();
    let now = "SELECT g.number, g.id, g.stage, g.since_ms FROM headwater_target t
                 JOIN headwater_generation g ON g.identity = t.identity ORDER BY g.number";
    assert_eq!(database.sql(now), ["1|g1|open|5"]);
    let both = [
        note(1, Stage::Superseded, Some(9)),
        note(2, Stage::TopicConsumed, None),
    ];
    sink.generations(&both).unwrap();
    sink.generations(&both).unwrap();
    let expected = ["1|g1|superseded|9", "2|g2|topic_consumed|NULL"];
    assert_eq!(database.sql(now), expected);
    // An older checkpoint does not know of the second one.
    sink.generations(&both[..1]).unwrap();
    assert_eq!(database.sql(now), expected[..1]);
    // A fresh job has another identity: nothing of the old one is left.
    claim(database.hello().as_ref(), 3);
    assert!(
        database
            .sql("SELECT number FROM headwater_generation")
            .is_empty()
    );
}

#[test]
fn a_commit_is_made_again_until_it_is_answered() {
    let ordered = std::env::var("HEADWATER_FAULT").is_ok();
    let database = Database::new("answered");
    database.sql(HELLO);
    let sink = database.hello();
    claim(sink.as_ref(), 1);
    let mut writer = sink.writer(place(1, 0)).unwrap();
    let retries = write(writer.as_mut(), 5, "a").unwrap();
    assert_eq!(retries, u32::from(ordered));
    assert_eq!(database.sql(HELLOS), ["5|a"]);
    let progress = "SELECT next_offset FROM headwater_applied";
    assert_eq!(database.sql(progress), ["5"]);
}

#[test]
fn a_fault_at_a_commit_does_no_harm() {
    let test = "sink::postgres::tests::tenure::a_commit_is_made_again_until_it_is_answered";
    for point in POINTS {
        let order = format!("{point}=error");
        let port = ("HEADWATER_TEST_POSTGRES_PORT", "25434");
        let variables = [("HEADWATER_FAULT", order.as_str()), port];
        assert!(holds_with(test, &variables), "{point}");
    }
}

/// What tells this binary to be a run; its value is the database's URL.
const CHILD: &str = "HEADWATER_TEST_POSTGRES_RUN";

/// Not a test: a run that dies of its first commit.
#[test]
fn a_run_of_its_own() {
    let Ok(url) = std::env::var(CHILD) else {
        return;
    };
    let sink = sink(&postgres(&url), &[table("public.hello")]);
    claim(sink.as_ref(), 1);
    let mut writer = sink.writer(place(1, 0)).unwrap();
    write(writer.as_mut(), 1, "a").unwrap();
}

#[test]
fn a_death_at_a_commit_does_no_harm() {
    let test = "sink::postgres::tests::tenure::a_run_of_its_own";
    let left: [&[&str]; 2] = [&[], &["1|a"]];
    for (point, left) in POINTS.into_iter().zip(left) {
        let database = Database::new(&point.replace('.', "_"));
        database.sql(HELLO);
        let order = format!("{point}=abort");
        let variables = [("HEADWATER_FAULT", &*order), (CHILD, &*database.url)];
        assert!(!holds_with(test, &variables), "{point}: it lives");
        database.take(2, 0, &None);
        assert_eq!(database.sql(HELLOS), left, "{point}");
        let mut writer = database.hello().writer(place(2, 0)).unwrap();
        write(writer.as_mut(), 1, "a").unwrap();
        assert_eq!(database.sql(HELLOS), ["1|a"], "{point}");
    }
}
