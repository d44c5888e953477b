//! Upserts and deletes in PostgreSQL, over several connections by shard.
//!
//! Invariant: a batch is one transaction, in which the database says that this run may write; a key
//! is always written over the same connection. Values
//! go as text and are cast to the column's own type without its length, so that what does not fit
//! is refused by the insert and not cut by the cast.
//!
//! It cannot speak TLS yet: a URL with `sslmode=require` is refused.

pub(crate) mod catalogue;
mod home;
pub(crate) mod limits;
mod sql;
mod tenure;
mod write;

use super::ledger::{Guard, Held};
use super::settings::{SinkSettings, UniqueConstraints};
use super::target::TargetTable;
use super::{
    Claim, Claimed, GenerationNote, Place, ReplaySafety, Row, RowForm, Sink, WriteError, Writer,
    admit,
};
use crate::error::Error;
use crate::table::Table;
use sha2::{Digest, Sha256};
use std::future::Future;
use std::sync::Arc;
use tokio::runtime::{Builder, Runtime};
use tokio_postgres::config::{Host, SslMode};
use tokio_postgres::{Client, Config, NoTls};

const CONNECTIONS: usize = 2;
/// An application name has 63 bytes; a job in it as many, at most.
const JOB_BYTES_MAX: usize = 32;

/// The target.
pub struct PostgresSink {
    target: Arc<Target>,
}

/// What every writer of the target knows.
struct Target {
    settings: SinkSettings,
    config: Config,
    /// Without the password.
    name: String,
    tables: Vec<Table>,
    held: Held,
}

impl PostgresSink {
    /// The database at `url`.
    ///
    /// # Errors
    /// When the URL cannot be read, or asks for TLS. It is not shown: it may hold a password.
    pub(super) fn new(
        settings: &SinkSettings,
        url: &str,
        tables: &[Table],
    ) -> Result<PostgresSink, Error> {
        let mut config: Config = url.parse().map_err(|error: tokio_postgres::Error| {
            Error::usage("sink.url cannot be read")
                .line(format!("found     {}", reason(&error)))
                .line("expected  postgres://user:password@host:port/database")
        })?;
        if config.get_ssl_mode() == SslMode::Require {
            return Err(
                Error::usage("sink.url asks for TLS, which this sink cannot speak")
                    .line("Use a private network or a local TLS proxy, and leave sslmode out."),
            );
        }
        limits::put(&mut config, url);
        let name = shown(&config);
        Ok(PostgresSink {
            target: Arc::new(Target {
                settings: settings.clone(),
                config,
                name,
                tables: tables.to_vec(),
                held: Held::default(),
            }),
        })
    }
}

/// A job in an application name: itself, or what no other job has.
fn tag(job: &str) -> String {
    let plain = |c: &char| c.is_ascii_alphanumeric() || "-_.".contains(*c);
    if job.len() <= JOB_BYTES_MAX && job.chars().all(|c| plain(&c)) {
        return job.to_owned();
    }
    let start: String = job.chars().filter(plain).take(15).collect();
    let digest = Sha256::digest(job.as_bytes());
    let digest: String = digest.iter().take(8).map(|b| format!("{b:02x}")).collect();
    format!("{start}~{digest}")
}

/// Host, port and database.
pub(crate) fn shown(config: &Config) -> String {
    let hosts = config.get_hosts().iter().map(|host| match host {
        Host::Tcp(host) => host.clone(),
        #[cfg(unix)]
        Host::Unix(path) => path.display().to_string(),
    });
    let hosts: Vec<String> = hosts.collect();
    let ports: Vec<String> = config.get_ports().iter().map(u16::to_string).collect();
    let port = if ports.is_empty() {
        "5432".to_owned()
    } else {
        ports.join(",")
    };
    let database = config
        .get_dbname()
        .or(config.get_user())
        .unwrap_or("postgres");
    format!("{}:{port}/{database}", hosts.join(","))
}

/// The words of an error, with those of its cause; never values of a row.
pub(crate) fn reason(error: &tokio_postgres::Error) -> String {
    if let Some(database) = error.as_db_error() {
        return format!("{} ({})", database.message(), database.code().code());
    }
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        text.push_str(&format!(": {error}"));
        cause = error.source();
    }
    text
}

impl Target {
    /// What the application names of the job's sessions begin with.
    fn session_prefix(&self) -> String {
        format!("headwater/{}/", tag(&self.settings.job))
    }

    /// A connection, driven by whoever runs the runtime. `place` is `INCARNATION/SHARD`, or what
    /// else it is for: a takeover finds the sessions that it must end by their application name, so
    /// a name in the URL does not count.
    async fn connect(&self, place: &str) -> Result<Client, tokio_postgres::Error> {
        let mut config = self.config.clone();
        config.application_name(format!("{}{place}", self.session_prefix()));
        let (client, connection) = config.connect(NoTls).await?;
        // Its end shows in the client's next call.
        tokio::spawn(connection);
        Ok(client)
    }

    fn unreachable(&self, error: &tokio_postgres::Error) -> Error {
        Error::failed(format!("cannot use the PostgreSQL target {}", self.name))
            .line(reason(error))
            .line("Check that it runs, sink.url, and the rights of its user.")
    }

    /// The target tables as they stand in SQL.
    fn sql_names(&self) -> Vec<String> {
        let name = |table| catalogue::sql_name(self.settings.target_name(table));
        self.tables.iter().map(name).collect()
    }

    fn guard(&self, incarnation: u32) -> Guard {
        let (job, tables) = (&self.settings.job, self.tables.len());
        self.held.guard(job, incarnation, self.name.clone(), tables)
    }

    async fn tables(&self, client: &Client) -> Result<Vec<TargetTable>, Error> {
        let mut found = Vec::new();
        for table in &self.tables {
            let name = self.settings.target_name(table);
            let read = catalogue::read(client, &table.name, name).await;
            let read = read.map_err(|error| self.unreachable(&error))?;
            found.push(read.ok_or_else(|| {
                Error::usage(format!("there is no table `{name}` in {}", self.name))
                    .line(format!(
                        "It is the target of `{}`. Make it, or name",
                        table.name
                    ))
                    .line(format!(
                        "another one: sink.names = {{ \"{}\" = \"…\" }}.",
                        table.name
                    ))
            })?);
        }
        Ok(found)
    }

    async fn check(&self) -> Result<(), Error> {
        let client = self
            .connect("check")
            .await
            .map_err(|error| self.unreachable(&error))?;
        for (target, table) in self.tables(&client).await?.iter().zip(&self.tables) {
            admit::sql_table(&self.settings, target, table.key.as_deref())?;
            let missing = catalogue::missing_rights(&client, target).await;
            let missing = missing.map_err(|error| self.unreachable(&error))?;
            if !missing.is_empty() {
                let what = format!("the user of sink.url may not write `{}`", target.name);
                return Err(Error::usage(what)
                    .line(format!("missing  {}", missing.join(", ")))
                    .line(format!(
                        "GRANT {} ON {} TO …;",
                        missing.join(", "),
                        target.sql
                    )));
            }
        }
        let home = home::check(self, &client, &self.sql_names()).await;
        home.map_err(|halt| self.given_up(halt))
    }

    async fn holds_rows(&self) -> Result<Option<String>, Error> {
        let client = self.connect("check").await;
        let client = client.map_err(|error| self.unreachable(&error))?;
        Ok(admit::sql_rows(&self.tables(&client).await?))
    }
}

fn runtime() -> Result<Runtime, Error> {
    let built = Builder::new_current_thread().enable_all().build();
    built.map_err(|error| Error::failed("no runtime for the PostgreSQL sink").line(error))
}

/// Runs a future on a thread that may itself belong to a runtime.
fn run<T>(runtime: &Runtime, future: impl Future<Output = T>) -> T {
    runtime.block_on(future)
}

impl Sink for PostgresSink {
    fn replay_safety(&self) -> ReplaySafety {
        ReplaySafety::Safe
    }

    fn row_form(&self) -> RowForm {
        RowForm::Partial
    }

    fn keeps_progress(&self) -> bool {
        true
    }

    fn one_writer_a_process(&self) -> bool {
        self.target.settings.unique_constraints == UniqueConstraints::OneConnection
    }

    fn shards_a_worker(&self) -> usize {
        self.target.settings.connections.unwrap_or(CONNECTIONS)
    }

    fn check(&self) -> Result<(), Error> {
        run(&runtime()?, self.target.check())
    }

    fn fit(&self, rows: &[Row<'_>]) -> Result<(), WriteError> {
        let connect = || {
            let target = Arc::clone(&self.target);
            let mut writer = write::PostgresWriter::new(runtime()?, target, None);
            writer.open().map(|()| writer)
        };
        connect().map_err(WriteError::Fatal)?.fit(rows)
    }

    fn holds_rows(&self) -> Result<Option<String>, Error> {
        run(&runtime()?, self.target.holds_rows())
    }

    fn claim(&self, claim: &Claim) -> Result<Claimed, Error> {
        let runtime = runtime()?;
        self.target.held.claim(claim.incarnation, |claimant| {
            run(&runtime, tenure::claim(&self.target, claim, claimant))
        })
    }

    fn note_checkpoint(&self, number: u64) -> Result<(), WriteError> {
        let guard = self.target.guard(self.target.held.incarnation()?);
        let runtime = runtime().map_err(WriteError::Fatal)?;
        run(&runtime, tenure::note(&self.target, guard, number))
            .map_err(|halt| self.target.halted(halt))
    }

    fn generations(&self, generations: &[GenerationNote]) -> Result<(), WriteError> {
        let guard = self.target.guard(self.target.held.incarnation()?);
        let runtime = runtime().map_err(WriteError::Fatal)?;
        let told = tenure::generations(&self.target, guard, generations);
        run(&runtime, told).map_err(|halt| self.target.halted(halt))
    }

    fn writer(&self, place: Place) -> Result<Box<dyn Writer>, Error> {
        let target = Arc::clone(&self.target);
        let mut writer = write::PostgresWriter::new(runtime()?, target, Some(place));
        writer.open()?;
        Ok(Box::new(writer))
    }
}

#[cfg(test)]
pub(crate) mod server;
#[cfg(test)]
mod tests;
