//! `/v1/explain`, and asking it.
//!
//! Invariant: a question never holds the job or the runtime: it waits for the worker's answer, not
//! in a thread, and not for ever.

use super::ask::{Asker, Reply};
use super::listen::Listen;
use super::router::{json, refused};
use super::{Shared, now_ms};
use crate::config::Config;
use crate::error::{Error, ErrorKind};
use crate::explain::facts::{Explanation, VERSION};
use crate::explain::live;
use axum::extract::State;
use axum::http::{StatusCode, Uri};
use axum::response::Response;
use std::sync::Arc;
use std::time::Duration;

/// How long worker 0 and the owner of the key may take: some ticks, unless a process hangs.
const LOOK_WAIT: Duration = Duration::from_secs(3);

/// `GET /v1/explain?table=&key=`.
pub(super) async fn explain(State(shared): State<Arc<Shared>>, uri: Uri) -> Response {
    let query = uri.query().unwrap_or_default();
    let (Some(table), Some(key)) = (parameter(query, "table"), parameter(query, "key")) else {
        let text = "expected /v1/explain?table=NAME&key=JSON, percent-encoded";
        return refused(StatusCode::BAD_REQUEST, text);
    };
    let away = |text| refused(StatusCode::SERVICE_UNAVAILABLE, text);
    let asked = match shared.running() {
        None => return away("the job does not run yet, or any more"),
        Some(job) => live::ask(&job, &table, &key),
    };
    let (asked, answer) = match asked {
        Ok((asked, Some(answer))) => (asked, answer),
        Ok((_, None)) => return away("too many questions wait; ask again"),
        Err(error) => return refused(StatusCode::BAD_REQUEST, &error.text),
    };
    let Ok(Ok(looked)) = tokio::time::timeout(LOOK_WAIT, answer).await else {
        return away("the job did not answer in time; it may be ending");
    };
    let Some(job) = shared.running() else {
        return away("the job has ended meanwhile");
    };
    let wall_ms = u64::try_from(now_ms()).unwrap_or_default();
    let explained = live::explain(&job, &shared.job, &asked, &looked, wall_ms);
    json(StatusCode::OK, &explained)
}

/// A parameter of a query, percent-decoded; none too when that is no text.
fn parameter(query: &str, name: &str) -> Option<String> {
    let mut pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    let (_, value) = pairs.find(|(found, _)| *found == name)?;
    let mut bytes = Vec::with_capacity(value.len());
    let mut rest = value.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'+' => b' ',
            b'%' => {
                let mut digit = || char::from(rest.next()?).to_digit(16);
                // Two digits of 4 bits each.
                (digit()? << 4 | digit()?) as u8
            }
            other => other,
        });
    }
    String::from_utf8(bytes).ok()
}

/// A value of a query, or a part of a path.
pub(super) fn encoded(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => {
                out.push(char::from(byte));
            }
            other => out.push_str(&format!("%{other:02X}")),
        }
    }
    out
}

/// Who was told of a key.
pub enum Told {
    /// The job has explained it.
    Explained(Box<Explanation>),
    /// Nobody answers, in words.
    Away(String),
}

/// Asks the running job of a configuration.
///
/// # Errors
/// Of usage: the job refuses table, key or token, or another job answers. Failed: what answers is
/// no job.
pub fn ask_explain(config: &Config, table: &str, key: &str) -> Result<Told, Error> {
    let listen = &config.control.listen;
    let asked = match Listen::parse(listen)? {
        Listen::At(address) => address.port != 0,
        Listen::Off => false,
    };
    if !asked {
        let why = format!("control.listen = \"{listen}\" gives no address to ask");
        return Ok(Told::Away(why));
    }
    let asker = Asker::new(config)?;
    let path = format!("/v1/explain?table={}&key={}", encoded(table), encoded(key));
    match asker.get(&path)? {
        Reply::Came(code, body) => told(&config.job.job, code, &body.to_string()),
        Reply::Away(why) => Ok(Told::Away(why)),
    }
}

fn told(job: &str, code: u16, body: &str) -> Result<Told, Error> {
    let said: serde_json::Value = serde_json::from_str(body).unwrap_or_default();
    let reason = said["error"].as_str().unwrap_or("no reason is given");
    match code {
        200 => {}
        503 => return Ok(Told::Away(format!("the job does not answer: {reason}"))),
        400 => return Err(Error::new(ErrorKind::Usage, reason)),
        _ => {
            return Err(Error::usage("the job refuses to explain a key")
                .line(format!("found     HTTP {code}: {reason}")));
        }
    }
    let explained: Explanation = serde_json::from_str(body).map_err(|error| {
        Error::failed("what answers at `control.listen` explains no key")
            .line(format!("found     {error}"))
            .line(format!("expected  an explanation of version {VERSION}"))
            .line("Another program, or another version of this one, listens there.")
    })?;
    if explained.job != job {
        return Err(Error::usage("another job listens at `control.listen`")
            .line(format!("found     {}", explained.job))
            .line(format!("expected  {job}")));
    }
    Ok(Told::Explained(Box::new(explained)))
}

#[cfg(test)]
mod tests {
    use super::{Told, encoded, parameter, told};
    use crate::error::ErrorKind;

    #[test]
    fn what_is_encoded_is_read_back() {
        for text in ["{\"id\":5}", "a b+c&d=e%", "ü\u{1f600}", ""] {
            let query = format!("table=t&key={}", encoded(text));
            assert_eq!(parameter(&query, "key").as_deref(), Some(text), "{query}");
        }
        assert_eq!(parameter("key=a+b", "key").as_deref(), Some("a b"));
        for bad in ["", "key", "key=%", "key=%zz", "key=%ff", "KEY=a"] {
            assert_eq!(parameter(bad, "key"), None, "{bad}");
        }
    }

    #[test]
    fn only_a_job_that_is_away_is_told_by_its_checkpoint() {
        let told = |code, body| told("hello", code, body);
        let Ok(Told::Away(why)) = told(503, "{\"error\":\"too many\"}") else {
            panic!("away");
        };
        assert!(why.contains("too many"), "{why}");
        for (code, body, kind) in [
            (400, "{\"error\":\"no key\"}", ErrorKind::Usage),
            (401, "", ErrorKind::Usage),
            (200, "{}", ErrorKind::Failed),
        ] {
            let error = told(code, body).err().expect("an error");
            assert_eq!(error.kind, kind, "{code} {body}");
        }
    }
}
