//! Asks a running job for its status document.
//!
//! It cannot reach a job through TLS or a proxy: it asks the address of `control.listen` directly.

use super::document::{Status, VERSION};
use super::listen::{Address, Listen};
use super::token;
use crate::config::Config;
use crate::error::Error;
use std::time::Duration;

const ANSWER_WAIT: Duration = Duration::from_secs(5);
const BYTES_MAX: u64 = 16 << 20;

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
            .timeout_global(Some(ANSWER_WAIT))
            .http_status_as_error(false)
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

    /// Asks once.
    ///
    /// # Errors
    /// Of usage: the token is not taken, or another job answers. Failed: what answers is no job.
    pub(super) fn status(&self) -> Result<Answer, Error> {
        match self.get("/v1/status") {
            Ok((code, body)) => self.read(code, &body),
            Err(why) => Ok(Answer::Away(why)),
        }
    }

    /// Asks for a path: the code and the text, or in words why nobody answers.
    pub(super) fn get(&self, path: &str) -> Result<(u16, String), String> {
        let address = &self.address;
        let mut request = self.agent.get(format!("http://{address}{path}"));
        if let Some(token) = &self.token {
            request = request.header("Authorization", format!("Bearer {token}"));
        }
        let mut response = match request.call() {
            Ok(response) => response,
            Err(error) => return Err(format!("{address} does not answer: {error}")),
        };
        let code = response.status().as_u16();
        let body = response.body_mut().with_config().limit(BYTES_MAX);
        match body.read_to_string() {
            Ok(body) => Ok((code, body)),
            Err(error) => Err(format!("{address} broke off: {error}")),
        }
    }

    fn read(&self, code: u16, body: &str) -> Result<Answer, Error> {
        let address = &self.address;
        if code != 200 {
            let said: serde_json::Value = serde_json::from_str(body).unwrap_or_default();
            let said = said["error"].as_str().unwrap_or("no reason is given");
            if code == 503 {
                return Ok(Answer::Away(format!("{address}: {said}")));
            }
            return Err(Error::usage(format!("{address} refuses to answer"))
                .line(format!("found     HTTP {code}: {said}")));
        }
        let status: Status = serde_json::from_str(body).map_err(|error| {
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
}
