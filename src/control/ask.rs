//! Asks the control plane of a running job: its status document, and changes.
//!
//! Invariant: the token is shown to the address that was configured, and to the one that it names
//! as process 0; never over TLS, of which a job has none.
//!
//! It cannot reach a job through TLS or a proxy: it asks the address of `control.listen` directly.

use super::document::{Status, VERSION};
use super::listen::{Address, Listen};
use super::requests::ID_HEADER;
use super::token;
use crate::config::Config;
use crate::error::{Error, ErrorKind};
use serde_json::Value;
use std::time::Duration;

/// For what only reads.
const ANSWER_WAIT: Duration = Duration::from_secs(5);
/// For what changes: checkpoints, and the hook of a promotion.
const CHANGE_WAIT: Duration = Duration::from_secs(900);
const BYTES_MAX: u64 = 16 << 20;
/// Another process sends on to process 0.
const HOPS_MAX: usize = 2;

/// Whom to ask, and with which token.
pub(super) struct Asker {
    job: String,
    address: Address,
    token: Option<String>,
    agent: ureq::Agent,
}

/// What came back.
pub(super) enum Answer {
    /// Its status.
    Status(Box<Status>),
    /// Nobody answers, in words.
    Away(String),
}

/// An answer as it came.
#[derive(Debug)]
pub(super) enum Reply {
    /// A status code and JSON, or null.
    Came(u16, Value),
    /// Nobody answers, in words.
    Away(String),
}

impl Asker {
    /// For the job of a configuration.
    ///
    /// # Errors
    /// Of usage: no address to ask, or a token file that is wrong.
    pub(super) fn new(config: &Config) -> Result<Asker, Error> {
        let listen = &config.control.listen;
        let nowhere = |why: &str| {
            Err(Error::usage("the running job cannot be asked")
                .line(format!("found     control.listen = \"{listen}\": {why}"))
                .line("expected  the address that `headwater run` says at its start:")
                .line("--set control.listen=HOST:PORT"))
        };
        let address = match Listen::parse(listen)? {
            Listen::Off => return nowhere("it has no control plane"),
            Listen::At(address) if address.port == 0 => return nowhere("a port of its choice"),
            Listen::At(address) => address.asked(),
        };
        let token = config.control.token_file.as_ref();
        let token = token.map(|path| token::read(path)).transpose()?;
        let agent = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .proxy(None)
            .build()
            .new_agent();
        let job = config.job.job.clone();
        Ok(Asker {
            job,
            address,
            token,
            agent,
        })
    }

    /// Asks once for the status.
    ///
    /// # Errors
    /// Of usage: the token is not taken, or another job answers. Failed: what answers is no job.
    pub(super) fn status(&self) -> Result<Answer, Error> {
        match self.get("/v1/status")? {
            Reply::Away(why) => Ok(Answer::Away(why)),
            Reply::Came(code, body) => self.read(code, body),
        }
    }

    /// Reads a path.
    ///
    /// # Errors
    /// When what answers sends on without an end.
    pub(super) fn get(&self, path: &str) -> Result<Reply, Error> {
        self.call("GET", path, None, ANSWER_WAIT)
    }

    /// Asks for a change; `id` lets the same request be asked again.
    ///
    /// # Errors
    /// As [`Asker::get`], and when another job answers at the address.
    pub(super) fn change(&self, path: &str, body: &Value, id: &str) -> Result<Reply, Error> {
        // Nothing is asked of a job that is another one.
        if let Answer::Away(why) = self.status()? {
            return Ok(Reply::Away(why));
        }
        self.call("POST", path, Some((body, id)), CHANGE_WAIT)
    }

    fn call(
        &self,
        method: &str,
        path: &str,
        body: Option<(&Value, &str)>,
        wait: Duration,
    ) -> Result<Reply, Error> {
        let mut url = format!("http://{}{path}", self.address);
        for _ in 0..=HOPS_MAX {
            let response = match self.once(method, &url, body, wait) {
                Ok(response) => response,
                Err(error) => {
                    let at = &self.address;
                    return Ok(Reply::Away(format!("{at} does not answer: {error}")));
                }
            };
            match response {
                Once::Came(code, body) => return Ok(Reply::Came(code, body)),
                Once::SentOn(location) => url = location,
            }
        }
        Err(Error::failed(format!(
            "{} sends on and on; process 0 was not found",
            self.address
        )))
    }

    fn once(
        &self,
        method: &str,
        url: &str,
        body: Option<(&Value, &str)>,
        wait: Duration,
    ) -> Result<Once, ureq::Error> {
        let mut request = ureq::http::Request::builder().method(method).uri(url);
        if let Some(token) = &self.token {
            request = request.header("Authorization", format!("Bearer {token}"));
        }
        if let Some((_, id)) = body {
            request = request.header(ID_HEADER, id);
        }
        let text = body.map(|(body, _)| body.to_string()).unwrap_or_default();
        let request = request.body(text)?;
        let request = self.agent.configure_request(request);
        let request = request.timeout_global(Some(wait)).build();
        let mut response = self.agent.run(request)?;
        let code = response.status().as_u16();
        let location = response.headers().get("location");
        let location = location.and_then(|to| to.to_str().ok());
        if let (307, Some(to)) = (code, location)
            && to.starts_with("http://")
        {
            return Ok(Once::SentOn(to.to_owned()));
        }
        let text = response.body_mut().with_config().limit(BYTES_MAX);
        let text = text.read_to_string()?;
        let json = serde_json::from_str(&text).unwrap_or(Value::Null);
        Ok(Once::Came(code, json))
    }

    fn read(&self, code: u16, body: Value) -> Result<Answer, Error> {
        let address = &self.address;
        if code == 503 {
            return Ok(Answer::Away(format!("{address}: {}", said(&body))));
        }
        if code != 200 {
            return Err(self.not_done(code, &body));
        }
        let status: Status = serde_json::from_value(body).map_err(|error| {
            Error::failed(format!("{address} is not the control plane of a job"))
                .line(format!("found     {error}"))
                .line(format!("expected  a status document of version {VERSION}"))
                .line("Another program, or another version of this one, listens there.")
        })?;
        if status.job != self.job {
            return Err(Error::usage(format!("{address} is another job"))
                .line(format!("found     {}", status.job))
                .line(format!("expected  {}", self.job))
                .line("Give each job of a machine an address of its own: `control.listen`."));
        }
        Ok(Answer::Status(Box::new(status)))
    }

    /// The error of an answer that is not 200: 409 is refused, what the client did wrong is usage.
    pub(super) fn not_done(&self, code: u16, body: &Value) -> Error {
        let address = &self.address;
        let kind = match code {
            409 => ErrorKind::Refused,
            504 => ErrorKind::NotReady,
            400..=499 => ErrorKind::Usage,
            _ => ErrorKind::Failed,
        };
        let error = match code {
            401 | 403 => Error::new(kind, format!("{address} refuses to answer"))
                .line(format!("found     HTTP {code}: {}", said(body)))
                .line("expected  `control.token_file`, as the job has it"),
            _ => Error::new(kind, said(body)),
        };
        let unmet = body["criteria"].as_array().into_iter().flatten();
        let unmet = unmet.filter(|one| one["met"] == false);
        unmet.fold(error, |error, one| {
            let text = |name: &str| one[name].as_str().unwrap_or_default().to_owned();
            error.line(format!(
                "not met   {}: found {}, required {}; {}",
                text("name"),
                text("actual"),
                text("required"),
                text("remedy")
            ))
        })
    }
}

/// One answer.
enum Once {
    Came(u16, Value),
    SentOn(String),
}

fn said(body: &Value) -> String {
    let said = body["error"].as_str();
    said.unwrap_or("no reason is given").to_owned()
}

#[cfg(test)]
mod tests {
    use super::Asker;
    use crate::config::Config;
    use crate::error::ErrorKind;

    #[test]
    fn what_went_wrong_decides_the_exit_code() {
        let config = Config::parse("test", "", &[]).expect("defaults").config;
        let asker = Asker::new(&config).expect("the default address");
        for (code, kind) in [
            (400, ErrorKind::Usage),
            (401, ErrorKind::Usage),
            (404, ErrorKind::Usage),
            (409, ErrorKind::Refused),
            (502, ErrorKind::Failed),
            (503, ErrorKind::Failed),
            (504, ErrorKind::NotReady),
        ] {
            let body = serde_json::json!({"error": "why", "criteria": [
                {"name": "a", "met": true},
                {"name": "live_lag", "met": false, "actual": "9 s", "required": "5 s"},
            ]});
            let error = asker.not_done(code, &body);
            assert_eq!(error.kind, kind, "{code}");
            assert!(error.text.contains("why"), "{error}");
            assert!(error.text.contains("live_lag: found 9 s"), "{error}");
            assert!(!error.text.contains("not met   a"), "{error}");
        }
    }
}
