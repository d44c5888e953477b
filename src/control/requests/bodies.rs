//! The JSON bodies of requests, and what they ask for. Pure.
//!
//! Invariant: a member that is not known is an error, as everywhere in the configuration.

use crate::config::units::{parse_duration, parse_instant};
use crate::generation::{Body, Sources};
use crate::table::Table;
use axum::http::StatusCode;
use headwater_operators::control::PartitionTarget;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};
use std::collections::BTreeMap;
use std::time::Duration;

/// Bytes of a request's own id, at most.
const ID_BYTES_MAX: usize = 200;
/// Bytes of the id of a generation, at most: it names things elsewhere.
const GENERATION_BYTES_MAX: usize = 100;

/// A request that is not passed on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::control) struct Refused {
    /// The HTTP status.
    pub(in crate::control) code: StatusCode,
    /// Why, in words.
    pub(in crate::control) text: String,
}

impl Refused {
    pub(in crate::control) fn new(code: StatusCode, text: impl Into<String>) -> Refused {
        let text = text.into();
        Refused { code, text }
    }

    /// The body or the path is wrong.
    pub(in crate::control) fn bad(text: impl Into<String>) -> Refused {
        Refused::new(StatusCode::BAD_REQUEST, text)
    }
}

/// `POST /v1/generations`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::control) struct OpenBody {
    /// The request's own id.
    #[serde(default)]
    pub(in crate::control) request_id: Option<String>,
    /// The id of the generation.
    #[serde(default)]
    pub(in crate::control) id: Option<String>,
    /// The snapshot topic of each of its tables, by the table's name.
    pub(in crate::control) snapshot: BTreeMap<String, String>,
    /// When its snapshot began, RFC 3339.
    #[serde(default)]
    pub(in crate::control) started_at: Option<String>,
    #[serde(default)]
    pub(in crate::control) connector: Option<String>,
    #[serde(default)]
    pub(in crate::control) notifications: Option<String>,
}

impl OpenBody {
    /// When the snapshot began, ms since 1970.
    pub(in crate::control) fn started_at_ms(&self) -> Result<Option<i64>, Refused> {
        let wrong = |text: &String| {
            Refused::bad(format!(
                "`started_at` is no time: found {text:?}, expected RFC 3339 as in \
                 2026-11-29T10:00:03Z"
            ))
        };
        let text = self.started_at.as_ref();
        text.map(|text| parse_instant(text).ok_or_else(|| wrong(text)))
            .transpose()
    }

    pub(in crate::control) fn sources(&self) -> Sources {
        Sources {
            connector: self.connector.clone(),
            notifications: self.notifications.clone(),
        }
    }
}

/// A partition and the end of its snapshot.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
struct End {
    topic: String,
    partition: u32,
    /// One past its last READ.
    end: u64,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Plain {
    #[serde(default, alias = "id")]
    request_id: Option<String>,
    #[serde(default)]
    ends: Vec<End>,
    #[serde(default)]
    reason: Option<String>,
    #[serde(default)]
    table: Option<String>,
    #[serde(default)]
    by: Option<String>,
    #[serde(default)]
    accept_ghosts: bool,
    #[serde(default)]
    accept: Vec<String>,
}

/// Members that a verb takes; any other is refused as if it were not known.
fn members(verb: &str) -> &'static [&'static str] {
    match verb {
        "finish" => &["ends"],
        "abort" => &["reason"],
        "drop-table" => &["table"],
        "promote" => &["by", "accept_ghosts", "accept"],
        "demote" => &["by", "reason"],
        _ => &[],
    }
}

/// What is asked of a generation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::control) enum Verb {
    /// Worker 0 does it alone.
    Plain(Body),
    /// A promotion: by whom, and what is accepted.
    Promote { by: String, accepted: Vec<String> },
}

/// Reads `POST /v1/generations/ID/VERB`: the request's own id, if it has one, and what is asked.
pub(in crate::control) fn verb(
    generation: &str,
    verb: &str,
    bytes: &[u8],
    tables: &[Table],
) -> Result<(Option<String>, Verb), Refused> {
    let raw: serde_json::Map<String, serde_json::Value> = parse(bytes)?;
    let known = members(verb);
    let own = ["request_id", "id"];
    if let Some(strange) = raw
        .keys()
        .find(|name| !known.contains(&name.as_str()) && !own.contains(&name.as_str()))
    {
        return Err(Refused::bad(format!(
            "`{strange}` is no member of {verb}; expected one of {:?} or `request_id`",
            known
        )));
    }
    let body: Plain = parse(bytes)?;
    let generation = generation.to_owned();
    let needed = |member: &Option<String>, name: &str| {
        let text = member.clone().filter(|text| !text.trim().is_empty());
        text.ok_or_else(|| Refused::bad(format!("`{name}` is missing: {verb} needs it")))
    };
    let body_of = match verb {
        "finish" => Body::Finish {
            generation,
            ends: body.ends.iter().map(End::target).collect(),
        },
        "abort" => Body::Abort {
            generation,
            reason: needed(&body.reason, "reason")?,
        },
        "drop-table" => {
            let name = needed(&body.table, "table")?;
            let table = table_number(&name, tables)?;
            Body::DropTable { generation, table }
        }
        "accept-lag" => Body::AcceptLag { generation },
        "accept-dead-letters" => Body::AcceptDeadLetters { generation },
        "demote" => Body::Demote {
            generation,
            by: needed(&body.by, "by")?,
            reason: needed(&body.reason, "reason")?,
        },
        "promote" => {
            let by = needed(&body.by, "by")?;
            let accepted = accepted(&body)?;
            return Ok((body.request_id, Verb::Promote { by, accepted }));
        }
        other => {
            return Err(Refused::new(
                StatusCode::NOT_FOUND,
                format!("a generation has no `{other}`"),
            ));
        }
    };
    Ok((body.request_id, Verb::Plain(body_of)))
}

fn accepted(body: &Plain) -> Result<Vec<String>, Refused> {
    use crate::promote::{GHOSTS, LIVE_LAG};
    let mut all = body.accept.clone();
    if body.accept_ghosts {
        all.push(GHOSTS.to_owned());
    }
    all.sort();
    all.dedup();
    match all
        .iter()
        .find(|word| ![GHOSTS, LIVE_LAG].contains(&word.as_str()))
    {
        None => Ok(all),
        Some(strange) => Err(Refused::bad(format!(
            "{strange:?} cannot be accepted; expected {GHOSTS:?} or {LIVE_LAG:?}"
        ))),
    }
}

impl End {
    fn target(&self) -> PartitionTarget {
        PartitionTarget {
            topic: self.topic.clone(),
            partition: self.partition,
            end: self.end,
        }
    }
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct ReadsBody {
    #[serde(default, alias = "id")]
    request_id: Option<String>,
    #[serde(default)]
    paused: Option<bool>,
    /// Null is not the same as nothing.
    #[serde(default, deserialize_with = "given")]
    per_second_max: Option<Option<u64>>,
}

fn given<'d, D: Deserializer<'d>>(member: D) -> Result<Option<Option<u64>>, D::Error> {
    Option::deserialize(member).map(Some)
}

/// Reads `POST /v1/reads`.
pub(in crate::control) fn reads(bytes: &[u8]) -> Result<(Option<String>, Body), Refused> {
    let body: ReadsBody = parse(bytes)?;
    if body.per_second_max == Some(Some(0)) {
        return Err(Refused::bad("`per_second_max` is 0; `paused` stops READs"));
    }
    if body.paused.is_none() && body.per_second_max.is_none() {
        return Err(Refused::bad(
            "nothing is asked: `paused` or `per_second_max`",
        ));
    }
    let (paused, per_second_max) = (body.paused, body.per_second_max);
    Ok((
        body.request_id,
        Body::Reads {
            paused,
            per_second_max,
        },
    ))
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct TtlBody {
    #[serde(default, alias = "id")]
    request_id: Option<String>,
    ttl: String,
}

/// Reads `PUT /v1/retention`.
pub(in crate::control) fn ttl(bytes: &[u8]) -> Result<(Option<String>, Body), Refused> {
    let body: TtlBody = parse(bytes)?;
    let ttl = parse_duration(&body.ttl).filter(|ttl| *ttl > Duration::ZERO);
    let ttl = ttl.ok_or_else(|| {
        Refused::bad(format!(
            "`ttl` is no duration: found {:?}, expected 90s, 15m, 3d",
            body.ttl
        ))
    })?;
    let ttl_ms = u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX);
    Ok((body.request_id, Body::Ttl { ttl_ms }))
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct LimitsBody {
    #[serde(default, alias = "id")]
    request_id: Option<String>,
    markers_max: u64,
}

/// Reads `POST /v1/limits`.
pub(in crate::control) fn limits(bytes: &[u8]) -> Result<(Option<String>, Body), Refused> {
    let body: LimitsBody = parse(bytes)?;
    match body.markers_max {
        0 => Err(Refused::bad("`markers_max` is 0; expected 1 or more")),
        markers_max => Ok((body.request_id, Body::MarkersMax { markers_max })),
    }
}

/// Reads JSON; nothing at all is an object without members.
pub(in crate::control) fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Refused> {
    let bytes = match bytes.trim_ascii() {
        [] => b"{}",
        bytes => bytes,
    };
    serde_json::from_slice(bytes)
        .map_err(|error| Refused::bad(format!("the body is not what is expected: {error}")))
}

/// The number of a table.
pub(in crate::control) fn table_number(name: &str, tables: &[Table]) -> Result<u16, Refused> {
    let index = tables.iter().position(|table| table.name == name);
    let number = index.and_then(|index| u16::try_from(index).ok());
    number.ok_or_else(|| {
        let known: Vec<&str> = tables.iter().map(|table| table.name.as_str()).collect();
        let text = format!("the job has no table {name:?}; it has {}", known.join(", "));
        Refused::new(StatusCode::NOT_FOUND, text)
    })
}

/// Refuses the id of a request that cannot be kept.
pub(in crate::control) fn request_id(id: &str) -> Result<(), Refused> {
    let graphic = id.bytes().all(|byte| byte.is_ascii_graphic());
    match graphic && (1..=ID_BYTES_MAX).contains(&id.len()) {
        true => Ok(()),
        false => Err(Refused::bad(format!(
            "the id of a request is 1 to {ID_BYTES_MAX} printable ASCII characters"
        ))),
    }
}

/// Refuses the id of a generation that cannot be written everywhere.
pub(in crate::control) fn generation_id(id: &str) -> Result<(), Refused> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let good = (1..=GENERATION_BYTES_MAX).contains(&id.len()) && id.chars().all(plain);
    match good && !id.starts_with('.') {
        true => Ok(()),
        false => Err(Refused::bad(format!(
            "{id:?} cannot be the id of a generation: expected 1 to {GENERATION_BYTES_MAX} \
             letters, digits, `-`, `_`, or `.` but not as the first"
        ))),
    }
}

#[cfg(test)]
mod tests;
