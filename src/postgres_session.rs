//! Sessions of PostgreSQL that only read: the source for `check`, `init` and evidence, both sides
//! of `verify`.
//!
//! Invariant: a session is read-only from its first statement on.
//!
//! It cannot speak TLS. It blocks its thread: never used by a worker.

use crate::error::Error;
use crate::sink::postgres::{limits, reason, shown};
use std::time::Duration;
use tokio::runtime::{Builder, Runtime};
use tokio_postgres::config::SslMode;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Config, NoTls, Row};

/// Of a connect.
const CONNECT_WAIT: Duration = Duration::from_secs(5);

/// How to connect to `url`, which setting `setting` holds, as `application`.
///
/// # Errors
/// Of usage: not a URL of PostgreSQL, or one that asks for TLS.
pub(crate) fn config(setting: &str, url: &str, application: &str) -> Result<Config, Error> {
    let mut config: Config = url.parse().map_err(|error: tokio_postgres::Error| {
        Error::usage(format!("{setting} cannot be read"))
            .line(format!("found     {}", reason(&error)))
            .line("expected  postgres://user:password@host:port/database")
    })?;
    if config.get_ssl_mode() == SslMode::Require {
        return Err(
            Error::usage(format!("{setting} asks for TLS, which this cannot speak"))
                .line("Use a private network or a local TLS proxy, and leave sslmode out."),
        );
    }
    limits::put(&mut config, url);
    config.connect_timeout(CONNECT_WAIT);
    config.application_name(application);
    Ok(config)
}

/// A runtime for one session.
///
/// # Errors
/// When the system gives none.
pub(crate) fn runtime() -> Result<Runtime, Error> {
    let built = Builder::new_current_thread().enable_all().build();
    built.map_err(|error| Error::failed("no runtime").line(error))
}

/// An open session.
pub(crate) struct Session {
    /// Host, port and database.
    pub(crate) name: String,
    setting: &'static str,
    runtime: Runtime,
    client: Client,
}

impl Session {
    /// Connects to `url`, which setting `setting` holds, and runs `more`: settings of the session.
    ///
    /// # Errors
    /// Of usage: not a URL of PostgreSQL, or one that asks for TLS. Failed: it cannot be reached.
    pub(crate) fn open(
        setting: &'static str,
        url: &str,
        application: &str,
        more: &str,
    ) -> Result<Session, Error> {
        let config = config(setting, url, application)?;
        let runtime = runtime()?;
        let name = shown(&config);
        let opened = runtime.block_on(async {
            let (client, connection) = config.connect(NoTls).await?;
            // Its end shows in the client's next call.
            tokio::spawn(connection);
            let session = format!("SET default_transaction_read_only = on; {more}");
            client.batch_execute(&session).await?;
            Ok(client)
        });
        let client = opened.map_err(|error| failed(setting, &name, &error))?;
        Ok(Session {
            name,
            setting,
            runtime,
            client,
        })
    }

    /// Asks.
    ///
    /// # Errors
    /// Failed: it is away, or refuses.
    pub(crate) fn query(
        &self,
        sql: &str,
        values: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>, Error> {
        let done = self.runtime.block_on(self.client.query(sql, values));
        done.map_err(|error| failed(self.setting, &self.name, &error))
    }
}

fn failed(setting: &str, name: &str, error: &tokio_postgres::Error) -> Error {
    Error::failed(format!("cannot read PostgreSQL at {name}"))
        .line(reason(error))
        .line(format!(
            "Check that it runs, {setting}, and the rights of its user."
        ))
}
