//! Debezium's notifications: a record's value to an event. Pure.
//!
//! Invariant: what is no notification is `None`, and members that are not known are passed over; a
//! topic may hold READs beside notifications.
//!
//! It cannot read Avro. Source of the shapes: Debezium 3.6.1, `tests/captures`.

use serde_json::Value;

/// A notification of a snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    /// Which kind of snapshot tells it.
    pub kind: SnapshotKind,
    /// What it tells.
    pub event: Event,
    /// When it was sent by the connector's clock, ms since 1970; none when it does not say.
    pub sent_ms: Option<i64>,
    /// Who sends it: the connector's `topic.prefix`.
    pub connector: Option<String>,
}

/// The kind of a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SnapshotKind {
    /// At the connector's start, or a blocking one.
    Initial,
    /// In chunks, beside the stream.
    Incremental,
}

/// What a notification tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The snapshot begins.
    Started,
    /// A table was read. Its last READs may not be in the topic yet.
    TableScanned {
        /// Its name, as Debezium writes it: `schema.table`.
        table: String,
        /// How many rows; none where it does not say (a table that failed).
        rows: Option<u64>,
        /// `SUCCEEDED`, `EMPTY`, or what went wrong.
        status: String,
    },
    /// It goes on.
    InProgress,
    /// The connector has read everything. READs may not be in the topic yet.
    Completed,
    /// There was nothing to do.
    Skipped,
    /// It was ended before its end.
    Aborted,
    /// A signal has paused it.
    Paused,
    /// A signal lets it go on.
    Resumed,
    /// Another type.
    Other(String),
}

impl Event {
    /// The word that Debezium has for it.
    pub fn word(&self) -> &str {
        match self {
            Event::Started => "STARTED",
            Event::TableScanned { .. } => "TABLE_SCAN_COMPLETED",
            Event::InProgress => "IN_PROGRESS",
            Event::Completed => "COMPLETED",
            Event::Skipped => "SKIPPED",
            Event::Aborted => "ABORTED",
            Event::Paused => "PAUSED",
            Event::Resumed => "RESUMED",
            Event::Other(word) => word,
        }
    }
}

/// The payload of a record's JSON: itself, or what stands beside its schema.
pub(super) fn payload(value: &[u8]) -> Option<Value> {
    let mut value: Value = serde_json::from_slice(value).ok()?;
    let object = value.as_object_mut()?;
    let schema = object.get("schema");
    let framed = object.len() == 2
        && object.contains_key("payload")
        && schema.is_some_and(|schema| schema.is_null() || schema.get("type").is_some());
    match framed {
        true => object.remove("payload"),
        false => Some(value),
    }
}

/// The notification that a record's value is, if it is one of a snapshot.
pub fn parse(value: &[u8]) -> Option<Notice> {
    // A READ of some megabytes need not be parsed.
    memchr::memmem::find(value, b"\"aggregate_type\"")?;
    of(&payload(value)?)
}

/// The same of a payload.
pub fn of(payload: &Value) -> Option<Notice> {
    let kind = match payload["aggregate_type"].as_str()? {
        "Initial Snapshot" => SnapshotKind::Initial,
        "Incremental Snapshot" => SnapshotKind::Incremental,
        _ => return None,
    };
    let data = &payload["additional_data"];
    let text = |name: &str| data[name].as_str().map(str::to_owned);
    let event = match payload["type"].as_str()? {
        "STARTED" => Event::Started,
        "TABLE_SCAN_COMPLETED" => match text("scanned_collection") {
            Some(table) => Event::TableScanned {
                table,
                rows: number(&data["total_rows_scanned"]).and_then(|rows| u64::try_from(rows).ok()),
                status: text("status").unwrap_or_else(|| "no status".to_owned()),
            },
            None => Event::Other("TABLE_SCAN_COMPLETED of no table".to_owned()),
        },
        "IN_PROGRESS" => Event::InProgress,
        "COMPLETED" => Event::Completed,
        "SKIPPED" => Event::Skipped,
        "ABORTED" => Event::Aborted,
        "PAUSED" => Event::Paused,
        "RESUMED" => Event::Resumed,
        other => Event::Other(other.chars().take(40).collect()),
    };
    Some(Notice {
        kind,
        event,
        sent_ms: number(&payload["timestamp"]),
        connector: text("connector_name"),
    })
}

/// A number, or the text of one.
pub(super) fn number(value: &Value) -> Option<i64> {
    match value {
        Value::String(text) => text.parse().ok(),
        other => other.as_i64(),
    }
}

#[cfg(test)]
mod tests {
    use super::{Event, SnapshotKind, parse};
    use crate::evidence::tests::captured;

    fn scanned(table: &str, rows: u64) -> Event {
        Event::TableScanned {
            table: table.to_owned(),
            rows: Some(rows),
            status: "SUCCEEDED".to_owned(),
        }
    }

    #[test]
    fn captures_in_both_framings() {
        let notices = captured("snap_g1.notifications");
        let events: Vec<Event> = (notices.iter())
            .map(|value| parse(value).expect("a notification").event)
            .collect();
        let tables = [scanned("public.hello", 5), scanned("public.wide", 6)];
        let [hello, wide] = tables.clone();
        let (begins, goes_on) = (Event::Started, Event::InProgress);
        let ends = Event::Completed;
        assert_eq!(
            events,
            [begins, goes_on.clone(), hello, goes_on, wide, ends]
        );
        let framed = captured("snap_g1_schema.notifications");
        let framed: Vec<_> = framed.iter().filter_map(|value| parse(value)).collect();
        assert_eq!(framed[0].event, Event::Started);
        assert_eq!(framed[0].sent_ms, Some(1_795_967_577_219));
        assert_eq!(framed[0].connector.as_deref(), Some("snap_g1_schema"));
        let first = parse(&captured("inc_ro.notifications")[0]).expect("one");
        assert_eq!(
            (first.kind, first.event),
            (SnapshotKind::Initial, Event::Skipped)
        );
        let started = parse(&captured("inc_ro.notifications")[1]).expect("one");
        let expected = (SnapshotKind::Incremental, Event::Started);
        assert_eq!((started.kind, started.event), expected);
    }

    #[test]
    fn one_topic_of_reads_and_notifications() {
        let values = captured("snap_one");
        let found: Vec<_> = values.iter().filter_map(|value| parse(value)).collect();
        assert!(found.len() < values.len(), "READs are none");
        assert_eq!(found.first().map(|n| &n.event), Some(&Event::Started));
        assert_eq!(found.last().map(|n| &n.event), Some(&Event::Completed));
    }

    #[test]
    fn other_forms() {
        let event =
            |text: &str| parse(text.as_bytes()).map(|notice| (notice.event, notice.sent_ms));
        let with = |kind: &str, rest: &str| {
            event(&format!(
                r#"{{"type":"{kind}","aggregate_type":"Incremental Snapshot"{rest}}}"#
            ))
        };
        let stamp = r#","timestamp":"12""#;
        assert_eq!(with("ABORTED", stamp), Some((Event::Aborted, Some(12))));
        assert_eq!(
            with("NEWER", ""),
            Some((Event::Other("NEWER".to_owned()), None))
        );
        let failed = r#","additional_data":{"scanned_collection":"t","status":"SQL_EXCEPTION"}"#;
        let table = Event::TableScanned {
            table: "t".to_owned(),
            rows: None,
            status: "SQL_EXCEPTION".to_owned(),
        };
        assert_eq!(with("TABLE_SCAN_COMPLETED", failed), Some((table, None)));
        let other = r#"{"type":"COMPLETED","aggregate_type":"Capture Instance"}"#;
        for none in [
            other,
            "null",
            "",
            "[1]",
            r#"{"aggregate_type":7}"#,
            "{\"aggregate_type\"",
        ] {
            assert_eq!(event(none), None, "{none}");
        }
        let framed = r#"{"schema":null,"payload":{"type":"COMPLETED","aggregate_type":
            "Initial Snapshot"}}"#;
        assert_eq!(event(framed), Some((Event::Completed, None)));
    }
}
