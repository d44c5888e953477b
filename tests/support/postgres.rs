//! PostgreSQL as tests use it: SQL through `psql`, load through `pgbench`.
//!
//! Invariant: an SQL error ends the test with the statement and the server's words.
//!
//! It cannot keep a session open: every call is a connection of its own.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// One server on the loopback address, user `postgres`, no password.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Postgres {
    /// Port of the server.
    pub(crate) port: u16,
}

/// What `pgbench` does to `public.hello`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Load {
    /// Keys run from 1 to this.
    pub(crate) keys: u64,
    /// Length in seconds.
    pub(crate) seconds: u64,
    /// Transactions per second in all; 0 is as fast as it goes.
    pub(crate) rate_per_second: u64,
    /// Part of the transactions that delete instead of upserting, in percent.
    pub(crate) deletes_percent: u64,
}

impl Postgres {
    /// Connection string of a database.
    pub(crate) fn url(self, database: &str) -> String {
        format!("postgres://postgres@127.0.0.1:{}/{database}", self.port)
    }

    /// Runs statements (one call, not one transaction); returns the rows without header, fields
    /// separated by `|`.
    pub(crate) fn sql(self, database: &str, statements: &str) -> String {
        let mut psql = Command::new(program("psql"))
            .args([
                "-X",
                "-q",
                "-A",
                "-t",
                "-v",
                "ON_ERROR_STOP=1",
                "-d",
                &self.url(database),
            ])
            .args(["-f", "-"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("psql comes with PostgreSQL");
        let mut stdin = psql.stdin.take().expect("stdin is piped");
        stdin
            .write_all(statements.as_bytes())
            .expect("psql reads its input");
        drop(stdin);
        let output = psql
            .wait_with_output()
            .expect("psql ends at the end of its input");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(
            output.status.success(),
            "SQL failed in `{database}`: {said}\n{statements}"
        );
        String::from_utf8(output.stdout)
            .expect("psql prints UTF-8")
            .trim()
            .to_owned()
    }

    /// A query with one number as its answer.
    pub(crate) fn number(self, database: &str, query: &str) -> u64 {
        let answer = self.sql(database, query);
        answer
            .parse()
            .unwrap_or_else(|_| panic!("not a number: `{answer}`, from: {query}"))
    }

    /// Starts `pgbench` on database `postgres`; its scripts and log go to `folder`.
    pub(crate) fn start_load(self, load: Load, folder: &Path) -> Child {
        let write = |name: &str, body: &str| {
            let path = folder.join(name);
            let script = format!("\\set id random(1, {})\n{body}\n", load.keys);
            fs::write(&path, script).expect("the folder can be written");
            path.to_str().expect("the path is UTF-8").to_owned()
        };
        let upsert = write(
            "upsert.sql",
            "insert into public.hello values (:id, 'hi ' || clock_timestamp()) \
             on conflict (id) do update set greeting = excluded.greeting;",
        );
        let delete = write("delete.sql", "delete from public.hello where id = :id;");
        let log = fs::File::create(folder.join("pgbench.log")).expect("the folder can be written");
        let errors = log.try_clone().expect("a file handle can be cloned");
        let mut pgbench = Command::new(program("pgbench"));
        pgbench
            .args([
                "-n",
                "-c",
                "2",
                "-j",
                "1",
                "-M",
                "prepared",
                "-h",
                "127.0.0.1",
            ])
            .args(["-U", "postgres", "-p", &self.port.to_string()])
            .args(["-T", &load.seconds.to_string()]);
        if load.rate_per_second > 0 {
            pgbench.args(["-R", &load.rate_per_second.to_string()]);
        }
        pgbench.args(["-f", &format!("{upsert}@{}", 100 - load.deletes_percent)]);
        if load.deletes_percent > 0 {
            pgbench.args(["-f", &format!("{delete}@{}", load.deletes_percent)]);
        }
        pgbench
            .arg("postgres")
            .stdin(Stdio::null())
            .stdout(log)
            .stderr(errors)
            .spawn()
            .expect("pgbench comes with PostgreSQL")
    }
}

/// PostgreSQL's own programs: Debian's wrappers on the path look for clusters that are not ours.
fn program(name: &str) -> PathBuf {
    Path::new("/usr/lib/postgresql/15/bin").join(name)
}

/// Transactions that a finished `pgbench` run processed, from its log in `folder`.
pub(crate) fn transactions(folder: &Path) -> u64 {
    let log = fs::read_to_string(folder.join("pgbench.log")).expect("start_load made it");
    log.lines()
        .find_map(|line| line.strip_prefix("number of transactions actually processed: "))
        .and_then(|count| count.split('/').next()?.trim().parse().ok())
        .unwrap_or_else(|| panic!("pgbench did not finish: {log}"))
}
