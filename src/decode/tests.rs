//! Decoding by hand-made records: roles, record kinds, tombstones, keys, shared topics.

use super::{DecodeError, DecodeSettings, Decoded, Decoder, EmptyValue, Ignored, OtherTables};
use crate::error::ErrorKind;
use crate::key::KeyGate;
use crate::table::{Role, Table};
use crate::topic::RawRecord;
use headwater_operators::fingerprint::Fingerprinter;
use headwater_operators::record::Op;
use std::sync::Arc;

mod keys;
mod shared;

const KEY: &str = r#"{"id":1}"#;

fn hello(key: Option<&[&str]>) -> Table {
    table("public.hello", "M", key)
}

fn table(name: &str, mutations: &str, key: Option<&[&str]>) -> Table {
    Table {
        name: name.into(),
        mutations: mutations.into(),
        snapshot: format!("S.{name}"),
        key: key.map(|columns| columns.iter().map(|column| (*column).to_owned()).collect()),
    }
}

struct Rig {
    decoder: Decoder,
    tables: Vec<Table>,
    gate: Arc<KeyGate>,
}

/// What a row came to, owned.
#[derive(Debug, PartialEq, Eq)]
struct Got {
    table: usize,
    op: Op,
    fingerprint: u128,
    key: String,
    read_time_ms: u64,
}

impl Rig {
    fn new(tables: &[Table], settings: DecodeSettings) -> Self {
        let gate = Arc::new(KeyGate::new(tables));
        Rig {
            decoder: Decoder::new(tables, &Fingerprinter::new([7; 16]), settings, gate.clone()),
            gate,
            tables: tables.to_vec(),
        }
    }

    fn hello() -> Self {
        Rig::new(&[hello(None)], DecodeSettings::default())
    }

    fn decode(
        &mut self,
        role: Role,
        key: Option<&str>,
        value: Option<&str>,
    ) -> Result<Decoded<'_>, DecodeError> {
        let name = match role {
            Role::Mutations => &self.tables[0].mutations,
            Role::Snapshot => &self.tables[0].snapshot,
        };
        let topic = self.decoder.topic(role, name).unwrap();
        // Leaked, so that the answer borrows the decoder alone.
        let leak = |text: &str| -> &'static [u8] { Box::leak(Box::from(text.as_bytes())) };
        self.decoder.decode(
            topic,
            &RawRecord {
                key: key.map(leak),
                value: value.map(leak),
                ..RawRecord::default()
            },
        )
    }

    fn row(&mut self, role: Role, key: Option<&str>, value: Option<&str>) -> Got {
        match self.decode(role, key, value) {
            Ok(Decoded::Row {
                table,
                op,
                fingerprint,
                key,
                read_time_ms,
                ..
            }) => Got {
                table,
                op,
                fingerprint,
                key: String::from_utf8(key.to_vec()).unwrap(),
                read_time_ms,
            },
            other => panic!("{key:?} {value:?}: {other:?}"),
        }
    }

    fn mutation(&mut self, key: &str, value: &str) -> Got {
        self.row(Role::Mutations, Some(key), Some(value))
    }

    fn read(&mut self, key: &str, value: &str) -> Got {
        self.row(Role::Snapshot, Some(key), Some(value))
    }

    fn refused(&mut self, role: Role, key: Option<&str>, value: Option<&str>) -> DecodeError {
        let error = self.decode(role, key, value).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Refused, "{error}");
        error
    }
}

fn envelope(op: &str, snapshot: &str, table: &str) -> String {
    let (before, after) = match op {
        "d" => (r#"{"id":1,"greeting":null}"#, "null"),
        "t" => ("null", "null"),
        _ => ("null", r#"{"id":1,"greeting":"x"}"#),
    };
    let time = r#""name":"app","ts_ms":2000"#;
    let place = format!(r#""db":"demo","schema":"public","table":"{table}","lsn":1"#);
    let source = format!(r#"{{{time},"snapshot":{snapshot},{place}}}"#);
    let rows = format!(r#""before":{before},"after":{after}"#);
    format!(r#"{{{rows},"source":{source},"op":"{op}","ts_ms":2005}}"#)
}

fn live(op: &str) -> String {
    envelope(op, "\"false\"", "hello")
}

#[test]
fn the_role_decides_what_an_op_is() {
    let mut rig = Rig::hello();
    for (op, want) in [
        ("c", Op::Upsert),
        ("u", Op::Upsert),
        ("U", Op::Upsert),
        ("d", Op::Delete),
        ("r", Op::ReadInPlace),
    ] {
        let got = rig.mutation(KEY, &live(op));
        assert_eq!((got.op, got.read_time_ms, got.key.as_str()), (want, 0, KEY));
    }
    for (op, snapshot) in [
        ("r", "\"true\""),
        ("r", "\"false\""),
        ("c", "\"true\""),
        ("c", "\"last\""),
        ("u", "true"),
        ("c", "{\"string\":\"last\"}"),
    ] {
        let got = rig.read(KEY, &envelope(op, snapshot, "hello"));
        assert_eq!(
            (got.op, got.read_time_ms),
            (Op::Read, 2005),
            "{op} {snapshot}"
        );
    }
    for (op, snapshot) in [
        ("u", "\"false\""),
        ("c", "false"),
        ("c", "null"),
        ("d", "\"\""),
        ("t", "null"),
    ] {
        let value = envelope(op, snapshot, "hello");
        let error = rig.refused(Role::Snapshot, Some(KEY), Some(&value));
        assert!(matches!(error, DecodeError::MisWired { .. }));
        assert!(error.to_string().contains("snapshot.mode=initial_only"));
    }
}

#[test]
fn a_read_without_envelope_time_has_the_sources() {
    let mut rig = Rig::hello();
    let value = envelope("r", "\"true\"", "hello").replace(",\"ts_ms\":2005", "");
    assert_eq!(rig.read(KEY, &value).read_time_ms, 2000);
}

#[test]
fn truncate_needs_no_key() {
    let mut rig = Rig::hello();
    let got = rig.decode(Role::Mutations, None, Some(&live("t")));
    assert_eq!(got, Ok(Decoded::Truncate { table: 0 }));
    let short = r#"{"op":"t","source":{"schema":"public","table":"hello"},"ts_ms":2005}"#;
    let got = rig.decode(Role::Mutations, None, Some(short));
    assert_eq!(got, Ok(Decoded::Truncate { table: 0 }));
}

#[test]
fn all_forms_of_a_tombstone() {
    let schema = r#"{"schema":{"type":"struct","fields":[],"optional":true},"payload":null}"#;
    for value in [
        None,
        Some("null"),
        Some(" null "),
        Some(r#"{"schema":null,"payload":null}"#),
        Some(schema),
    ] {
        let mut rig = Rig::hello();
        for _ in 0..2 {
            let got = rig.row(Role::Mutations, Some(KEY), value);
            assert_eq!(got.op, Op::Delete);
            match rig.decode(Role::Mutations, Some(KEY), value) {
                Ok(Decoded::Row { value, .. }) => assert!(value.is_empty()),
                other => panic!("{other:?}"),
            }
        }
        let got = rig.decode(Role::Snapshot, Some(KEY), value);
        assert_eq!(got, Ok(Decoded::Ignored(Ignored::SnapshotTombstone)));
    }
    let mut rig = Rig::hello();
    assert_eq!(
        rig.decode(Role::Mutations, Some(KEY), Some("")),
        Err(DecodeError::EmptyValue)
    );
    let settings = DecodeSettings {
        empty_value: EmptyValue::Tombstone,
        ..DecodeSettings::default()
    };
    let mut rig = Rig::new(&[hello(None)], settings);
    assert_eq!(rig.row(Role::Mutations, Some(KEY), Some("")).op, Op::Delete);
}

#[test]
fn records_that_are_no_rows_are_ignored_by_kind() {
    let signal = envelope("c", "\"false\"", "debezium_signal").replace(
        r#"{"id":1,"greeting":"x"}"#,
        r#"{"id":"s1","type":"log","data":"{}"}"#,
    );
    for (key, value, want) in [
        (
            Some(r#"{"serverName":"app"}"#),
            r#"{"ts_ms":1}"#,
            Ignored::Heartbeat,
        ),
        (
            Some(r#"{"prefix":"hb"}"#),
            r#"{"op":"m","ts_ms":2,"source":{"schema":"","table":""},"message":{"prefix":"hb"}}"#,
            Ignored::Message,
        ),
        (
            Some(r#"{"id":"19:190"}"#),
            concat!(
                r#"{"status":"BEGIN","id":"19:190","event_count":null,"#,
                r#""data_collections":null,"ts_ms":2}"#
            ),
            Ignored::Transaction,
        ),
        (
            Some(r#"{"databaseName":"demo"}"#),
            concat!(
                r#"{"source":{"schema":"public","table":"hello"},"databaseName":"demo","#,
                r#""ddl":"x","tableChanges":[]}"#
            ),
            Ignored::SchemaChange,
        ),
        (Some(r#"{"id":"s1"}"#), signal.as_str(), Ignored::Signal),
        (
            Some(r#"{"id":"a"}"#),
            concat!(
                r#"{"id":"a","type":"STARTED","aggregate_type":"Initial Snapshot","#,
                r#""additional_data":{},"timestamp":1}"#
            ),
            Ignored::Notification,
        ),
    ] {
        let mut rig = Rig::hello();
        for role in [Role::Mutations, Role::Snapshot] {
            for framed in [false, true] {
                let framed_value = format!(r#"{{"schema":{{"type":"struct"}},"payload":{value}}}"#);
                let value = if framed { &framed_value } else { value };
                let got = rig.decode(role, key, Some(value));
                assert_eq!(got, Ok(Decoded::Ignored(want)), "{value}");
            }
        }
        assert_eq!(rig.decoder_shapes(), 0);
    }
}

impl Rig {
    fn decoder_shapes(&self) -> usize {
        self.gate.shapes().len()
    }
}

#[test]
fn an_ignored_delete_takes_its_tombstone_along() {
    let mut rig = Rig::hello();
    let signal = envelope("d", "\"false\"", "debezium_signal").replace(
        r#"{"id":1,"greeting":null}"#,
        r#"{"id":"s1","type":"log","data":"{}"}"#,
    );
    let key = Some(r#"{"id":"s1"}"#);
    for value in [Some(signal.as_str()), None] {
        let got = rig.decode(Role::Mutations, key, value);
        assert_eq!(got, Ok(Decoded::Ignored(Ignored::Signal)));
    }
}

#[test]
fn damage_never_passes() {
    let mut rig = Rig::hello();
    let good = live("u");
    for cut in 0..good.len() {
        let got = rig.decode(Role::Mutations, Some(KEY), Some(&good[..cut]));
        assert!(got.is_err(), "{}", &good[..cut]);
    }
    for value in [
        &format!("{good}}}"),
        &format!("{good}{good}"),
        "7",
        "\"x\"",
        "[]",
        "{}",
    ] {
        let error = rig
            .decode(Role::Mutations, Some(KEY), Some(value))
            .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Failed, "{value}");
    }
    for (value, want) in [
        (live("x"), "operation `x`"),
        (live("u").replace(r#""op":"u","#, ""), "no `op`"),
        (
            live("u").replace(r#"{"id":1,"greeting":"x"}"#, "null"),
            "no row in `after`",
        ),
        ("\u{0}\u{0}\u{0}\u{1}".to_owned(), "byte 0x00"),
    ] {
        let error = rig
            .decode(Role::Mutations, Some(KEY), Some(&value))
            .unwrap_err();
        assert!(error.to_string().contains(want), "{error}");
    }
    let error = rig.decode(Role::Mutations, Some(KEY), Some(r#"{"op":"u","after":{"#));
    let error = error.unwrap_err().at("app.public.hello", 0, 7);
    assert!(
        error.text.contains("app.public.hello[0] offset 7"),
        "{error}"
    );
    assert_eq!(rig.mutation(KEY, &good).op, Op::Upsert);
}

#[test]
fn a_value_that_is_not_utf_8_is_refused() {
    let mut rig = Rig::hello();
    let topic = rig.decoder.topic(Role::Mutations, "M").unwrap();
    let value = [
        b"{\"op\":\"u\",\"after\":{\"id\":1,\"g\":\"".as_slice(),
        &[0xff],
        b"\"}}",
    ]
    .concat();
    let raw = RawRecord {
        key: Some(KEY.as_bytes()),
        value: Some(&value),
        ..RawRecord::default()
    };
    assert!(matches!(
        rig.decoder.decode(topic, &raw),
        Err(DecodeError::BadJson { at: 31, .. })
    ));
    // Its key still is one, so that it can be marked as poisoned.
    let (table, fingerprint) = rig.decoder.decode_key(topic, &raw).unwrap();
    assert_eq!(
        (table, fingerprint),
        (0, rig.mutation(KEY, &live("u")).fingerprint)
    );
    // A JSON null is none; that of the record before must not be taken for it.
    let null = RawRecord {
        key: Some(b"null"),
        ..raw
    };
    assert!(matches!(
        rig.decoder.decode_key(topic, &null),
        Err(DecodeError::NoKey { .. })
    ));
}

#[test]
fn the_key_of_a_record_that_is_set_aside_teaches_nothing() {
    let mut rig = Rig::hello();
    let topic = rig.decoder.topic(Role::Mutations, "M").unwrap();
    let junk = RawRecord {
        key: Some(b"{\"foo\":1}"),
        value: Some(b"{"),
        ..RawRecord::default()
    };
    // Nothing is known of the keys yet.
    assert!(rig.decoder.decode_key(topic, &junk).is_ok());
    assert_eq!(rig.mutation(KEY, &live("u")).op, Op::Upsert);
    // Now it is: this one is of no row of the table.
    assert!(matches!(
        rig.decoder.decode_key(topic, &junk),
        Err(DecodeError::KeyGate(_))
    ));
    assert_eq!(rig.mutation(KEY, &live("u")).op, Op::Upsert);
}

#[test]
fn flattened_rows() {
    let mut rig = Rig::hello();
    for (value, want) in [
        (
            r#"{"id":1,"greeting":"new","__deleted":"false","__op":"u"}"#,
            Op::Upsert,
        ),
        (
            r#"{"id":1,"greeting":null,"__deleted":"true","__op":"d"}"#,
            Op::Delete,
        ),
        (r#"{"id":1,"greeting":null,"__deleted":true}"#, Op::Delete),
        (r#"{"id":1,"greeting":null,"__op":"d"}"#, Op::Delete),
        (r#"{"id":1,"greeting":"x","__op":"r"}"#, Op::ReadInPlace),
        (r#"{"id":1,"greeting":"x"}"#, Op::Upsert),
        // Columns with the names of the envelope.
        (r#"{"id":1,"op":"c","source":"x","after":"y"}"#, Op::Upsert),
    ] {
        assert_eq!(rig.mutation(KEY, value).op, want, "{value}");
    }
    for (value, time_ms) in [
        (
            r#"{"id":1,"greeting":"old","__op":"r","__source_ts_ms":12}"#,
            12,
        ),
        (r#"{"id":1,"greeting":"old"}"#, 0),
        (r#"{"id":1,"__op":"c"}"#, 0),
        (r#"{"id":1,"__op":"c","__source_snapshot":"last"}"#, 0),
    ] {
        let got = rig.read(KEY, value);
        assert_eq!((got.op, got.read_time_ms), (Op::Read, time_ms), "{value}");
    }
    for value in [
        r#"{"id":1,"__deleted":"true"}"#,
        r#"{"id":1,"__op":"u"}"#,
        r#"{"id":1,"__op":"c","__source_snapshot":null}"#,
    ] {
        rig.refused(Role::Snapshot, Some(KEY), Some(value));
    }
}

#[test]
fn foreign_formats_are_named() {
    let mut rig = Rig::hello();
    for (key, value, want) in [
        (
            r#"{"database":"d","table":"t","pk.id":1}"#,
            r#"{"database":"d","table":"t","type":"insert","data":{"id":1}}"#,
            "Maxwell",
        ),
        (KEY, r#"{"id":1,"isDdl":false,"data":[]}"#, "Canal"),
        (
            KEY,
            r#"{"id":"x","specversion":"1.0","data":{}}"#,
            "CloudEvent",
        ),
    ] {
        let error = rig
            .decode(Role::Mutations, Some(key), Some(value))
            .unwrap_err();
        assert!(error.to_string().contains(want), "{error}");
    }
}
