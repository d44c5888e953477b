//! Upserts and deletes in PostgreSQL, over several connections by shard.
//!
//! Invariant: a batch is one transaction; a key is always written over the same connection. Values
//! go as text and are cast to the column's own type without its length, so that what does not fit
//! is refused by the insert and not cut by the cast.
//!
//! It cannot speak TLS yet: a URL with `sslmode=require` is refused.

mod catalogue;
mod limits;
mod sql;
mod write;

use super::settings::{SinkSettings, UniqueConstraints};
use super::target::TargetTable;
use super::{Place, ReplaySafety, Row, RowForm, Sink, WriteError, Writer, admit};
use crate::error::Error;
use crate::table::Table;
use std::future::Future;
use std::sync::Arc;
use tokio::runtime::{Builder, Runtime};
use tokio_postgres::config::{Host, SslMode};
use tokio_postgres::{Client, Config, NoTls};

const CONNECTIONS: usize = 2;

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
        if config.get_application_name().is_none() {
            config.application_name("headwater");
        }
        let name = shown(&config);
        Ok(PostgresSink {
            target: Arc::new(Target {
                settings: settings.clone(),
                config,
                name,
                tables: tables.to_vec(),
            }),
        })
    }
}

/// Host, port and database.
fn shown(config: &Config) -> String {
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
fn reason(error: &tokio_postgres::Error) -> String {
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
    /// A connection, driven by whoever runs the runtime.
    async fn connect(&self) -> Result<Client, tokio_postgres::Error> {
        let (client, connection) = self.config.connect(NoTls).await?;
        // Its end shows in the client's next call.
        tokio::spawn(connection);
        Ok(client)
    }

    fn unreachable(&self, error: &tokio_postgres::Error) -> Error {
        Error::failed(format!("cannot use the PostgreSQL target {}", self.name))
            .line(reason(error))
            .line("Check that it runs, sink.url, and the rights of its user.")
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
            .connect()
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
        Ok(())
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
            let mut writer = write::PostgresWriter::new(runtime()?, Arc::clone(&self.target));
            writer.open().map(|()| writer)
        };
        connect().map_err(WriteError::Fatal)?.fit(rows)
    }

    fn writer(&self, _place: Place) -> Result<Box<dyn Writer>, Error> {
        let mut writer = write::PostgresWriter::new(runtime()?, Arc::clone(&self.target));
        writer.open()?;
        Ok(Box::new(writer))
    }
}

#[cfg(test)]
mod server;
#[cfg(test)]
mod tests;
