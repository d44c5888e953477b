//! Asks a Connect worker for its connectors, in one request.
//!
//! It cannot speak TLS: reach Connect on a private network or through a local proxy.

use super::{Connector, parse};
use crate::error::Error;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use std::time::Duration;

const ANSWER_WAIT: Duration = Duration::from_secs(10);
const BYTES_MAX: u64 = 16 << 20;

/// All connectors of the worker at `url` (`http://[user:password@]host:port`), which setting
/// `setting` holds.
///
/// # Errors
/// Of usage: a URL that is none or that needs TLS, a login that is refused. Failed: nobody answers
/// in 10 s, or something that is not Connect does.
pub fn connectors(setting: &str, url: &str) -> Result<Vec<Connector>, Error> {
    let (address, login) = split(setting, url)?;
    let agent = ureq::Agent::config_builder()
        .timeout_global(Some(ANSWER_WAIT))
        .http_status_as_error(false)
        .proxy(None)
        .build()
        .new_agent();
    let mut request = agent.get(format!(
        "http://{address}/connectors?expand=info&expand=status"
    ));
    if let Some(login) = login {
        let login = BASE64_STANDARD.encode(login);
        request = request.header("Authorization", format!("Basic {login}"));
    }
    let away = |reason: &dyn std::fmt::Display| {
        Error::failed(format!("Kafka Connect at {address} does not answer"))
            .line(format!("found     {reason}"))
            .line(format!("expected  its REST interface at `{setting}`"))
    };
    let mut response = request.call().map_err(|error| away(&error))?;
    let code = response.status().as_u16();
    let body = response.body_mut().with_config().limit(BYTES_MAX);
    let body = body.read_to_string().map_err(|error| away(&error))?;
    match code {
        200 => parse(&body).map_err(|found| {
            Error::failed(format!("what answers at {address} is not Kafka Connect"))
                .line(format!("found     {found}"))
                .line("expected  the answer to GET /connectors?expand=info&expand=status")
        }),
        401 | 403 => Err(Error::usage(format!("Kafka Connect at {address} refuses the login"))
            .line(format!("found     HTTP status {code}"))
            .line(format!("expected  http://user:${{PASSWORD}}@host:port in `{setting}`"))),
        _ => Err(away(&format!("HTTP status {code}"))),
    }
}

/// Host and path without a last slash, and the login.
fn split<'u>(setting: &str, url: &'u str) -> Result<(&'u str, Option<&'u str>), Error> {
    let wrong = |found: &str| {
        Error::usage(format!("`{setting}` is no address of Kafka Connect"))
            .line(format!("found     {found}"))
            .line("expected  http://host:8083")
    };
    let rest = match url.split_once("://") {
        Some(("http", rest)) => rest,
        Some(("https", _)) => {
            return Err(wrong("https, and this client has no TLS")
                .line("Use a private network or a local TLS proxy."));
        }
        _ => return Err(wrong("text that does not begin with http://")),
    };
    let rest = rest.trim_end_matches('/');
    let (login, address) = match rest.rsplit_once('@') {
        Some((login, address)) => (Some(login), address),
        None => (None, rest),
    };
    match address.is_empty() || address.contains(char::is_whitespace) {
        true => Err(wrong("no host")),
        false => Ok((address, login)),
    }
}
