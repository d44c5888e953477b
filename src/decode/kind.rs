//! What a payload means: decided from the role of its topic and the envelope, never the op alone.
//!
//! Pure functions over what one pass found (wire.md W3, W8, W12). Whose row it is and its key are
//! not decided here.

use super::Ignored;
use super::envelope::{Payload, is_last, is_snapshot, millis, signs};
use super::error::DecodeError;
use super::scan::Scanner;
use super::text::quoted;
use crate::table::Role;
use headwater_operators::record::Op;

/// What a record does, not yet to whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A row.
    Row {
        /// What is done to it.
        op: Op,
        /// When a READ was read.
        read_time_ms: u64,
        /// The source's time of it.
        source_ms: i64,
        /// Whether it is a snapshot's last READ.
        last: bool,
    },
    /// TRUNCATE.
    Truncate,
    /// No row.
    Ignored(Ignored),
}

/// A mutation with its source time, as it stands.
fn row(op: Op, source_ms: Option<&[u8]>) -> Kind {
    Kind::Row {
        op,
        read_time_ms: 0,
        source_ms: time(source_ms),
        last: false,
    }
}

/// A time that is kept with a sign, as persons' times are.
fn time(raw: Option<&[u8]>) -> i64 {
    i64::try_from(millis(raw)).unwrap_or(i64::MAX)
}

/// What an envelope of a configured table means. `table` names it in errors.
pub(crate) fn of_envelope(
    payload: &Payload<'_>,
    role: Role,
    table: &str,
) -> Result<Kind, DecodeError> {
    let op = op_letter(payload.op)?;
    let has_row = payload.after.is_some_and(|after| after.starts_with(b"{"));
    if matches!(op, 'c' | 'u' | 'r') && !has_row {
        return Err(DecodeError::NoRow {
            table: table.to_owned(),
            op,
        });
    }
    let snapshot = payload.source.is_some_and(|source| source.is_snapshot());
    let source_ms = payload.source.and_then(|source| source.ts_ms);
    match (role, op) {
        (_, 'm') => Ok(Kind::Ignored(Ignored::Message)),
        (Role::Mutations, 'c' | 'u') => Ok(row(Op::Upsert, source_ms)),
        (Role::Mutations, 'd') => Ok(row(Op::Delete, source_ms)),
        (Role::Mutations, 't') => Ok(Kind::Truncate),
        (Role::Mutations, _) => Ok(row(Op::ReadInPlace, source_ms)),
        (Role::Snapshot, 'r') => Ok(read(payload)),
        (Role::Snapshot, 'c' | 'u') if snapshot => Ok(read(payload)),
        (Role::Snapshot, _) => Err(DecodeError::MisWired {
            table: table.to_owned(),
            op,
        }),
    }
}

/// A READ: the envelope's time is when the row was read, the source's may be the snapshot's start.
fn read(payload: &Payload<'_>) -> Kind {
    let source = payload.source.unwrap_or_default();
    let read_time_ms = match millis(payload.ts_ms) {
        0 => millis(source.ts_ms),
        time_ms => time_ms,
    };
    Kind::Row {
        op: Op::Read,
        read_time_ms,
        source_ms: time(source.ts_ms),
        last: is_last(source.snapshot),
    }
}

/// The letter of an `op`, in lower case as Debezium itself looks it up.
pub(crate) fn op_letter(raw: Option<&[u8]>) -> Result<char, DecodeError> {
    let inside = raw.and_then(quoted).unwrap_or_default();
    match inside {
        [letter] if b"cudrtm".contains(&letter.to_ascii_lowercase()) => {
            Ok(char::from(letter.to_ascii_lowercase()))
        }
        _ => Err(DecodeError::UnknownOp {
            op: String::from_utf8_lossy(inside).chars().take(8).collect(),
        }),
    }
}

/// What a record without an envelope is, when it is no flattened row.
pub(crate) fn of_bare_record(
    payload: &Payload<'_>,
    key: Option<&[u8]>,
) -> Result<Option<Ignored>, DecodeError> {
    let key_has = |name: &[u8]| key.is_some_and(|key| memchr::memmem::find(key, name).is_some());
    let only_time = payload.members == 1 && payload.ts_ms.is_some();
    if only_time && (key.is_none() || key_has(b"\"serverName\"")) {
        return Ok(Some(Ignored::Heartbeat));
    }
    if payload.has(signs::TRANSACTION) && payload.members <= 5 {
        return Ok(Some(Ignored::Transaction));
    }
    if payload.has(signs::AGGREGATE_TYPE | signs::TYPE) && payload.members <= 5 {
        return Ok(Some(Ignored::Notification));
    }
    if payload.source.is_some() {
        if payload.has(signs::DDL) || payload.has(signs::TABLE_CHANGES) {
            return Ok(Some(Ignored::SchemaChange));
        }
        return Err(DecodeError::NotARow {
            found: "an object with `source` but no `op`",
            cure: "Look at the transforms of the connector: one of them takes `op` away.",
        });
    }
    let foreign = if payload.has(signs::SPECVERSION | signs::DATA) {
        Some("a CloudEvent")
    } else if payload.has(signs::MAXWELL) && key_has(b"\"pk.") {
        Some("a Maxwell record")
    } else if payload.has(signs::IS_DDL | signs::DATA) {
        Some("a Canal record")
    } else if payload.members == 0 {
        Some("an empty object")
    } else {
        None
    };
    match foreign {
        Some(found) => Err(DecodeError::NotARow {
            found,
            cure: "Let the connector write Debezium's own JSON to this topic.",
        }),
        None => Ok(None),
    }
}

/// What a flattened row means. Without helper members the topic's role says all (wire.md W12).
pub(crate) fn of_flattened(
    payload: &Payload<'_>,
    role: Role,
    table: &str,
) -> Result<Kind, DecodeError> {
    let flat = &payload.flat;
    let op = match flat.op.filter(|raw| *raw != b"null") {
        Some(raw) => Some(op_letter(Some(raw))?),
        None => None,
    };
    let deleted = flat.deleted.is_some_and(|raw| {
        raw == b"true" || quoted(raw).is_some_and(|text| text.eq_ignore_ascii_case(b"true"))
    });
    let delete = deleted || op == Some('d');
    match role {
        Role::Mutations => Ok(match op {
            _ if delete => row(Op::Delete, flat.ts_ms),
            Some('r') => row(Op::ReadInPlace, flat.ts_ms),
            Some('m') => Kind::Ignored(Ignored::Message),
            Some('t') => Kind::Truncate,
            _ => row(Op::Upsert, flat.ts_ms),
        }),
        Role::Snapshot => {
            let live = match op {
                None | Some('r') => false,
                Some('c') => flat.snapshot.is_some() && !is_snapshot(flat.snapshot),
                Some(_) => !is_snapshot(flat.snapshot),
            };
            if delete || live {
                return Err(DecodeError::MisWired {
                    table: table.to_owned(),
                    op: if delete { 'd' } else { op.unwrap_or('c') },
                });
            }
            Ok(Kind::Row {
                op: Op::Read,
                read_time_ms: millis(flat.ts_ms),
                source_ms: time(flat.ts_ms),
                last: is_last(flat.snapshot),
            })
        }
    }
}

/// Whether a row has exactly the columns of a signalling table (wire.md W9).
pub(crate) fn looks_like_signal(payload: &Payload<'_>) -> bool {
    let row = [payload.after, payload.before]
        .into_iter()
        .flatten()
        .find(|raw| raw.starts_with(b"{"));
    let Some(row) = row else {
        return false;
    };
    let mut scanner = Scanner::new(row);
    let Ok(mut members) = scanner.object() else {
        return false;
    };
    let (mut found, mut count) = (0_u8, 0);
    while let Ok(Some(name)) = scanner.member(&mut members) {
        found |= match name {
            b"id" => 1,
            b"type" => 2,
            b"data" => 4,
            _ => return false,
        };
        count += 1;
        if scanner.value().is_err() {
            return false;
        }
    }
    found == 7 && count == 3
}
