//! Kafka Connect's REST interface: what a connector is set to, how it goes, how far it is.
//!
//! Invariant: no password is shown, neither that of the URL nor one of a connector's configuration.
//! Members that are not known are passed over, so that newer versions can be asked too.
//!
//! It blocks (a few seconds at most, each call) and so is used off the workers only. It cannot
//! speak TLS, and asks the address directly, without a proxy.

use crate::config::secret::{Plain, REDACTED};
use crate::error::Error;
use crate::https;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

const ANSWER_WAIT: Duration = Duration::from_secs(5);
const CONNECT_WAIT: Duration = Duration::from_secs(2);
const BYTES_MAX: u64 = 16 << 20;

/// What the web server of Connect itself says of a path that it does not have.
const NO_PATH: &str = "HTTP 404 Not Found";

/// Whom to ask.
pub struct Connect {
    /// The address without its last slash and without user and password.
    base: String,
    /// The same, for messages.
    shown: String,
    authorization: Option<String>,
    agent: ureq::Agent,
}

/// A connector's configuration. Its `Debug` shows names alone: values may be passwords.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct ConnectorConfig(BTreeMap<String, String>);

/// How a connector goes. `RUNNING` of the connector itself says little: look at its tasks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConnectorStatus {
    /// `RUNNING`, `PAUSED`, `STOPPED`, `FAILED`, `UNASSIGNED`, `RESTARTING`, or one to come.
    pub state: String,
    /// The first line of what went wrong with the connector itself.
    pub trace: Option<String>,
    /// Its tasks, by number.
    pub tasks: Vec<TaskStatus>,
}

/// How a task of a connector goes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TaskStatus {
    /// Its number.
    pub id: u32,
    /// As that of [`ConnectorStatus`].
    pub state: String,
    /// The first line of what went wrong.
    pub trace: Option<String>,
}

/// What a source connector has acknowledged: a source partition and its offset, both as the
/// connector writes them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Offsets(pub Vec<(Value, Value)>);

/// An answer: a body, or that there is no such connector.
enum Answer {
    Body(String),
    NoConnector,
}

impl Connect {
    /// For the address of `source.connect`, `http(s)://user:password@host:8083`.
    ///
    /// # Errors
    /// Of usage, when it is no such address.
    pub fn new(url: &Plain) -> Result<Connect, Error> {
        let wrong = |found: String| {
            Error::usage("`source.connect` has an address that cannot be asked")
                .line(format!("found     {found}"))
                .line("expected  http(s)://host:8083, or http(s)://user:password@host:8083")
        };
        let (scheme, rest) = url.expose().split_once("://").unwrap_or_default();
        if !["http", "https"].contains(&scheme) {
            return Err(wrong(url.to_string()));
        }
        if scheme == "https" && !https::SPOKEN {
            return Err(wrong(url.to_string()).line(https::NOT_SPOKEN));
        }
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let at = rest[..end].rfind('@').or_else(|| rest.rfind('@'));
        let (user, address) = match at {
            Some(at) => (Some(&rest[..at]), &rest[at + 1..]),
            None => (None, rest),
        };
        let address = address.trim_end_matches('/');
        if address.is_empty() || address.contains(['?', '#', ' ']) || address.starts_with('/') {
            return Err(wrong(url.to_string()));
        }
        let agent = https::client()
            .timeout_global(Some(ANSWER_WAIT))
            .timeout_connect(Some(CONNECT_WAIT))
            .build()
            .new_agent();
        Ok(Connect {
            base: format!("{scheme}://{address}"),
            shown: format!("{scheme}://{address}"),
            authorization: user.map(|user| format!("Basic {}", STANDARD.encode(decoded(user)))),
            agent,
        })
    }

    /// The address, for messages.
    pub fn shown(&self) -> &str {
        &self.shown
    }

    /// The names of all connectors.
    ///
    /// # Errors
    /// When it does not answer, or not as Kafka Connect does.
    pub fn connectors(&self) -> Result<Vec<String>, Error> {
        match self.get("/connectors")? {
            Answer::Body(body) => self.read("/connectors", &body),
            Answer::NoConnector => Err(self.strange("/connectors", "HTTP 404")),
        }
    }

    /// What a connector is set to; none when there is no such connector.
    ///
    /// # Errors
    /// As [`Connect::connectors`].
    pub fn config(&self, name: &str) -> Result<Option<ConnectorConfig>, Error> {
        let found: Option<BTreeMap<String, Option<String>>> = self.of(name, "config")?;
        let known = found.map(|found| {
            let set = found.into_iter();
            ConnectorConfig(set.filter_map(|(key, value)| Some((key, value?))).collect())
        });
        Ok(known)
    }

    /// How a connector goes; none when there is no such connector, or it was made just now.
    ///
    /// # Errors
    /// As [`Connect::connectors`].
    pub fn status(&self, name: &str) -> Result<Option<ConnectorStatus>, Error> {
        let found: Option<RawStatus> = self.of(name, "status")?;
        Ok(found.map(RawStatus::plain))
    }

    /// How far a connector is; none when there is no such connector. Needs Kafka Connect 3.5.
    ///
    /// # Errors
    /// As [`Connect::connectors`].
    pub fn offsets(&self, name: &str) -> Result<Option<Offsets>, Error> {
        let found: Option<RawOffsets> = self.of(name, "offsets")?;
        Ok(found.map(RawOffsets::plain))
    }

    /// Asks a connector to pause. It has paused when its tasks say so.
    ///
    /// # Errors
    /// As [`Connect::connectors`], and when there is no such connector.
    pub fn pause(&self, name: &str) -> Result<(), Error> {
        self.put(name, "pause")
    }

    /// Asks a connector to go on.
    ///
    /// # Errors
    /// As [`Connect::pause`].
    pub fn resume(&self, name: &str) -> Result<(), Error> {
        self.put(name, "resume")
    }

    fn of<T: DeserializeOwned>(&self, name: &str, what: &str) -> Result<Option<T>, Error> {
        let path = format!("/connectors/{}/{what}", encoded(name));
        match self.get(&path)? {
            Answer::Body(body) => Ok(Some(self.read(&path, &body)?)),
            Answer::NoConnector => Ok(None),
        }
    }

    fn put(&self, name: &str, verb: &str) -> Result<(), Error> {
        let path = format!("/connectors/{}/{verb}", encoded(name));
        let request = self.agent.put(format!("{}{path}", self.base));
        match self.answer(&path, self.with_user(request).send_empty())? {
            Answer::Body(_) => Ok(()),
            Answer::NoConnector => Err(Error::failed(format!(
                "Kafka Connect at {} has no connector `{name}`",
                self.shown
            ))),
        }
    }

    fn get(&self, path: &str) -> Result<Answer, Error> {
        let request = self.agent.get(format!("{}{path}", self.base));
        self.answer(path, self.with_user(request).call())
    }

    fn with_user<B>(&self, request: ureq::RequestBuilder<B>) -> ureq::RequestBuilder<B> {
        let request = request.header("Accept", "application/json");
        match &self.authorization {
            Some(user) => request.header("Authorization", user),
            None => request,
        }
    }

    fn answer(
        &self,
        path: &str,
        answered: Result<ureq::http::Response<ureq::Body>, ureq::Error>,
    ) -> Result<Answer, Error> {
        let away = |error: ureq::Error| {
            Error::failed(format!("Kafka Connect at {} does not answer", self.shown))
                .line(error)
                .line("Check that it runs, and `source.connect`.")
        };
        let mut response = answered.map_err(away)?;
        let code = response.status().as_u16();
        let body = response.body_mut().with_config().limit(BYTES_MAX);
        let body = body.read_to_string().map_err(away)?;
        if (200..300).contains(&code) {
            return Ok(Answer::Body(body));
        }
        let said: Value = serde_json::from_str(&body).unwrap_or_default();
        let message = said["message"].as_str().map(first_line);
        match (code, message) {
            (404, Some(message)) if message != NO_PATH => Ok(Answer::NoConnector),
            (404, _) if path.ends_with("/offsets") => {
                Err(self.strange(path, "HTTP 404; offsets are told from Kafka Connect 3.5 on"))
            }
            (401 | 403, _) => Err(Error::failed(format!(
                "Kafka Connect at {} refuses to answer",
                self.shown
            ))
            .line(format!("found     HTTP {code}"))
            .line("Put the user and password into `source.connect`: http://user:password@host.")),
            (_, message) => {
                let message = message.unwrap_or_else(|| "no reason is given".to_owned());
                Err(self.strange(path, &format!("HTTP {code}: {message}")))
            }
        }
    }

    fn read<T: DeserializeOwned>(&self, path: &str, body: &str) -> Result<T, Error> {
        // The position alone: the text at hand may be a password.
        serde_json::from_str(body).map_err(|error| {
            let (line, column) = (error.line(), error.column());
            self.strange(path, &format!("JSON of another kind, at {line}:{column}"))
        })
    }

    fn strange(&self, path: &str, found: &str) -> Error {
        let who = format!("Kafka Connect at {} gives no answer to {path}", self.shown);
        Error::failed(who)
            .line(format!("found     {found}"))
            .line("expected  the answer of Kafka Connect's REST interface")
    }
}

impl fmt::Debug for Connect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Connect({})", self.shown)
    }
}

impl ConnectorConfig {
    /// From names and values, as a connector's JSON has them.
    pub fn new(set: impl IntoIterator<Item = (String, String)>) -> Self {
        ConnectorConfig(set.into_iter().collect())
    }

    /// The value of a setting.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// All settings, by name. Values may be passwords.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        let set = self.0.iter();
        set.map(|(name, value)| (name.as_str(), value.as_str()))
    }
}

impl fmt::Debug for ConnectorConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.0.keys().map(|name| (name, REDACTED));
        f.debug_map().entries(names).finish()
    }
}

impl ConnectorStatus {
    /// Whether the connector and at least one task run, and no task does anything else.
    pub fn runs(&self) -> bool {
        self.state == "RUNNING"
            && !self.tasks.is_empty()
            && self.tasks.iter().all(|task| task.state == "RUNNING")
    }

    /// What is not as it should be, in words; none when it runs.
    pub fn trouble(&self) -> Option<String> {
        if self.runs() {
            return None;
        }
        let with = |state: &str, trace: &Option<String>| match trace {
            Some(trace) => format!("{state}: {trace}"),
            None => state.to_owned(),
        };
        let failed = self.tasks.iter().find(|task| task.state == "FAILED");
        let other = self.tasks.iter().find(|task| task.state != "RUNNING");
        Some(match failed.or(other) {
            Some(task) if failed.is_some() || self.state == "RUNNING" => {
                format!("task {} is {}", task.id, with(&task.state, &task.trace))
            }
            None if self.state == "RUNNING" => "the connector has no task yet".to_owned(),
            _ => format!("the connector is {}", with(&self.state, &self.trace)),
        })
    }
}

#[derive(Deserialize)]
struct RawStatus {
    connector: RawState,
    #[serde(default)]
    tasks: Vec<RawState>,
}

#[derive(Deserialize)]
struct RawState {
    #[serde(default)]
    id: u32,
    state: String,
    #[serde(default)]
    trace: Option<String>,
}

impl RawStatus {
    fn plain(self) -> ConnectorStatus {
        let trace = |raw: &RawState| {
            let trace = raw.trace.as_deref().filter(|trace| !trace.is_empty());
            trace.map(first_line)
        };
        let mut tasks: Vec<TaskStatus> = (self.tasks.iter())
            .map(|raw| TaskStatus {
                id: raw.id,
                state: raw.state.clone(),
                trace: trace(raw),
            })
            .collect();
        tasks.sort_by_key(|task| task.id);
        ConnectorStatus {
            trace: trace(&self.connector),
            state: self.connector.state,
            tasks,
        }
    }
}

#[derive(Deserialize)]
struct RawOffsets {
    #[serde(default)]
    offsets: Vec<RawOffset>,
}

#[derive(Deserialize)]
struct RawOffset {
    #[serde(default)]
    partition: Value,
    #[serde(default)]
    offset: Value,
}

impl RawOffsets {
    fn plain(self) -> Offsets {
        let pairs = self.offsets.into_iter();
        Offsets(pairs.map(|raw| (raw.partition, raw.offset)).collect())
    }
}

/// The first line of a text, without what would overflow a status.
fn first_line(text: &str) -> String {
    let line = text.trim_start().lines().next().unwrap_or_default();
    line.trim_end().chars().take(300).collect()
}

/// A name as one segment of a path.
fn encoded(name: &str) -> String {
    let mut out = String::new();
    for byte in name.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                out.push(char::from(byte));
            }
            _ => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

/// A user and password with `%41` put back; what is no such thing stays.
fn decoded(text: &str) -> Vec<u8> {
    let mut out = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let digit = |at: usize| {
            after
                .get(at)
                .and_then(|byte| char::from(*byte).to_digit(16))
        };
        let byte = match (first, digit(0), digit(1)) {
            (b'%', Some(high), Some(low)) => u8::try_from(high * 16 + low).ok(),
            _ => None,
        };
        out.push(byte.unwrap_or(*first));
        rest = if byte.is_some() { &after[2..] } else { after };
    }
    out
}

#[cfg(test)]
mod tests;
