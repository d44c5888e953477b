//! PostgreSQL as tests use it: SQL through `psql`, load through `pgbench`.
//!
//! Invariant: an SQL error ends the test with the statement and the server's words.
//!
//! It cannot keep a session open: every call is a connection of its own.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};

/// One server on the loopback address, user `postgres`, no password.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Postgres {
    /// Port of the server.
    pub(crate) port: u16,
}

/// What `pgbench` does to `public.hello`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Load {
    /// The first key.
    pub(crate) first: u64,
    /// How many keys there are.
    pub(crate) keys: u64,
    /// SQL of the greeting that an upsert writes.
    pub(crate) greeting: &'static str,
    /// Sessions that write side by side; with one, commits have the order of the statements.
    pub(crate) clients: u32,
    /// Length in seconds.
    pub(crate) seconds: u64,
    /// Transactions per second in all; 0 is as fast as it goes.
    pub(crate) rate_per_second: u64,
    /// Part of the transactions that delete instead of upserting, in percent.
    pub(crate) deletes_percent: u64,
}

impl Load {
    /// Two writers on keys from 1 to `keys`, each write another greeting.
    pub(crate) fn new(keys: u64, seconds: u64, rate_per_second: u64, deletes_percent: u64) -> Self {
        Self {
            first: 1,
            keys,
            greeting: "'hi ' || clock_timestamp()",
            clients: 2,
            seconds,
            rate_per_second,
            deletes_percent,
        }
    }
}

/// A `pgbench` that runs or has ended; killed when dropped.
pub(crate) struct Pgbench {
    child: Child,
    log: PathBuf,
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

    /// Starts `pgbench` on a database; its scripts and log go to `folder`, by names that begin with
    /// `name`.
    pub(crate) fn start_load(
        self,
        database: &str,
        load: Load,
        folder: &Path,
        name: &str,
    ) -> Pgbench {
        let last = load.first + load.keys - 1;
        let write = |kind: &str, body: &str| {
            let path = folder.join(format!("{name}-{kind}.sql"));
            let script = format!("\\set id random({}, {last})\n{body}\n", load.first);
            fs::write(&path, script).expect("the folder can be written");
            path.to_str().expect("the path is UTF-8").to_owned()
        };
        let upsert = write(
            "upsert",
            &format!(
                "insert into public.hello values (:id, {}) \
                 on conflict (id) do update set greeting = excluded.greeting;",
                load.greeting
            ),
        );
        let delete = write("delete", "delete from public.hello where id = :id;");
        let path = folder.join(format!("{name}.log"));
        let log = fs::File::create(&path).expect("the folder can be written");
        let errors = log.try_clone().expect("a file handle can be cloned");
        let mut pgbench = Command::new(program("pgbench"));
        pgbench
            .args(["-n", "-j", "1", "-M", "prepared", "-h", "127.0.0.1"])
            .args(["-c", &load.clients.to_string()])
            .args(["-U", "postgres", "-p", &self.port.to_string()])
            .args(["-T", &load.seconds.to_string()]);
        if load.rate_per_second > 0 {
            pgbench.args(["-R", &load.rate_per_second.to_string()]);
        }
        pgbench.args(["-f", &format!("{upsert}@{}", 100 - load.deletes_percent)]);
        if load.deletes_percent > 0 {
            pgbench.args(["-f", &format!("{delete}@{}", load.deletes_percent)]);
        }
        let child = pgbench
            .arg(database)
            .stdin(Stdio::null())
            .stdout(log)
            .stderr(errors)
            .spawn()
            .expect("pgbench comes with PostgreSQL");
        Pgbench { child, log: path }
    }
}

impl Pgbench {
    /// Its exit status, once it has ended.
    pub(crate) fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().expect("pgbench is our child")
    }

    /// Where it wrote what it did.
    pub(crate) fn log(&self) -> &Path {
        &self.log
    }

    /// Transactions that it processed, after its end; also when its server went away.
    pub(crate) fn transactions(&self) -> u64 {
        let log = fs::read_to_string(&self.log).expect("start_load made it");
        log.lines()
            .find_map(|line| line.strip_prefix("number of transactions actually processed: "))
            .and_then(|count| count.split('/').next()?.trim().parse().ok())
            .unwrap_or_else(|| panic!("pgbench did not finish: {log}"))
    }
}

impl Drop for Pgbench {
    fn drop(&mut self) {
        // Already ended when the test went well.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// PostgreSQL's own programs: Debian's wrappers on the path look for clusters that are not ours.
pub(crate) fn program(name: &str) -> PathBuf {
    Path::new("/usr/lib/postgresql/15/bin").join(name)
}
