//! The decoder on what Debezium really wrote (tests/captures/README.md): every JSON file gives the
//! operations of the statements that made it, a row has one fingerprint in every framing, and no
//! damaged record panics or passes as a row with another key.

use headwater::decode::row::{self, Schemas};
use headwater::decode::{DecodeError, DecodeSettings, Decoded, Decoder, Ignored};
use headwater::key::KeyGate;
use headwater::sink::column::{Cell, Kind, cell};
use headwater::table::{Role, Table};
use headwater::topic::RawRecord;
use headwater_operators::fingerprint::Fingerprinter;
use headwater_operators::record::Op;
use proptest::prelude::{ProptestConfig, any, prop, proptest};
use serde_json::value::RawValue;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

struct Record {
    partition: u64,
    offset: u64,
    key: Option<String>,
    value: Option<String>,
}

fn capture(name: &str) -> Vec<Record> {
    let path = Path::new("tests/captures").join(format!("{name}.jsonl"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{path:?}: {e}"));
    let mut records: Vec<Record> = text
        .lines()
        .map(|line| {
            let line: serde_json::Value =
                serde_json::from_str(line).expect("a capture is JSON lines");
            let text = |name: &str| line[name].as_str().map(str::to_owned);
            Record {
                partition: line["partition"]
                    .as_u64()
                    .expect("a capture names the partition"),
                offset: line["offset"].as_u64().expect("a capture names the offset"),
                key: text("key"),
                value: text("value"),
            }
        })
        .collect();
    records.sort_by_key(|record| (record.partition, record.offset));
    records
}

fn decoder(table: &str) -> Decoder {
    let tables = [Table {
        name: format!("public.{table}"),
        mutations: "M".into(),
        snapshot: "S".into(),
        key: None,
    }];
    let gate = Arc::new(KeyGate::new(&tables));
    Decoder::new(
        &tables,
        &Fingerprinter::new([7; 16]),
        DecodeSettings::default(),
        gate,
    )
}

/// A letter for each record, in the order of partition and offset.
fn letter(decoded: &Result<Decoded<'_>, DecodeError>) -> char {
    match decoded {
        Ok(Decoded::Row { op, .. }) => match op {
            Op::Upsert => 'u',
            Op::Delete => 'd',
            Op::ReadInPlace => 'i',
            Op::Read => 'R',
            _ => 'q',
        },
        Ok(Decoded::Truncate { .. }) => 't',
        Ok(Decoded::Ignored(Ignored::Notification)) => 'n',
        Ok(Decoded::Ignored(Ignored::Transaction)) => 'x',
        Ok(Decoded::Ignored(Ignored::Signal)) => 's',
        Ok(Decoded::Ignored(other)) => panic!("{other:?}"),
        Err(DecodeError::MisWired { .. }) => 'W',
        Err(error) => panic!("{error}"),
    }
}

fn ops(file: &str, table: &str, role: Role) -> String {
    let mut decoder = decoder(table);
    let name = if role == Role::Mutations { "M" } else { "S" };
    let topic = decoder.topic(role, name).expect("the topic is configured");
    let records = capture(file);
    records
        .iter()
        .map(|record| letter(&decoder.decode(topic, &raw(record))))
        .collect()
}

fn raw(record: &Record) -> RawRecord<'_> {
    RawRecord {
        offset: record.offset,
        key: record.key.as_deref().map(str::as_bytes),
        value: record.value.as_deref().map(str::as_bytes),
        ..RawRecord::default()
    }
}

#[test]
fn every_live_file_has_its_operations() {
    for (file, table, want) in [
        ("app.public.hello", "hello", "uudduuuudduuuddut"),
        ("app.public.wide", "wide", "udddduuuuu"),
        (
            "app_flat_delete_to_tombstone.public.hello",
            "hello",
            "uuududuuuuduu",
        ),
        ("app_flat_drop.public.hello", "hello", "uuuuuuuuuu"),
        ("app_flat_rewrite.public.hello", "hello", "uuududuuuuduu"),
        (
            "app_flat_rewrite_tombstone.public.hello",
            "hello",
            "uuuddudduuuudduu",
        ),
        ("app_flat_tombstone.public.hello", "hello", "uuududuuuuduu"),
        ("app_flat_tombstone.public.wide", "wide", "uududuuu"),
        ("app_flat_rewrite.public.wide", "wide", "uududuuu"),
        ("app_gap.public.hello", "hello", "uuuu"),
        ("app_nohdr.public.hello", "hello", "uuududuuuudutu"),
        ("app_nohdr.public.wide", "wide", "uududuuu"),
        ("app_schema.public.hello", "hello", "uuddudtu"),
        ("app_schema.public.wide", "wide", "uduu"),
        ("app_txmeta.public.hello", "hello", "uuudduuuddu"),
        ("app_txmeta.transaction", "hello", "xxxxxxxxxx"),
        ("inc_sig.public.hello", "hello", "uiiiiiiu"),
        ("inc_sig.public.dbz_signal", "hello", "ssss"),
        ("inc_sig.notifications", "hello", "nnnnnn"),
        ("inc_ro.public.hello", "hello", "iiiiii"),
    ] {
        assert_eq!(ops(file, table, Role::Mutations), want, "{file}");
    }
}

#[test]
fn every_private_file_is_reads() {
    for (file, table, want) in [
        ("snap_g1.public.hello", "hello", "RRRRR"),
        ("snap_g1.public.wide", "wide", "RRRRRR"),
        ("snap_g1_schema.public.hello", "hello", "RRR"),
        ("snap_g1_schema.public.wide", "wide", "RR"),
        ("snap_g1_flat.public.hello", "hello", "RRRRR"),
        ("snap_g1_flat.public.wide", "wide", "RR"),
        ("snap_gap.public.hello", "hello", "RR"),
        ("snap_g1.notifications", "hello", "nnnnnn"),
        ("snap_g1_schema.notifications", "hello", "nnn"),
        // READs and notifications in one topic.
        ("snap_one", "hello", "nnRRRRRnRn"),
        ("inc_ro.public.hello", "hello", "RRRRRR"),
        ("inc_ro.notifications", "hello", "nnnnnnnnnnn"),
        // A connector that goes on streaming: an INSERT before, an UPDATE after its READs.
        ("inc_sig.public.hello", "hello", "WRRRRRRW"),
    ] {
        assert_eq!(ops(file, table, Role::Snapshot), want, "{file}");
    }
}

/// Fingerprints of all rows of files, by key columns; a key with two fingerprints fails.
fn fingerprints(table: &str, files: &[(&str, Role)]) -> BTreeMap<Vec<(String, String)>, u128> {
    let mut decoder = decoder(table);
    let mut found = BTreeMap::new();
    for (file, role) in files {
        let name = if *role == Role::Mutations { "M" } else { "S" };
        let topic = decoder.topic(*role, name).expect("the topic is configured");
        for record in capture(file) {
            let decoded = decoder.decode(topic, &raw(&record));
            let Ok(Decoded::Row {
                fingerprint, key, ..
            }) = decoded
            else {
                continue;
            };
            let read = row::key(key, None).expect("a captured key is read");
            let mut columns: Vec<(String, String)> = read
                .iter()
                .map(|(name, raw)| (name.to_owned(), raw.to_owned()))
                .collect();
            columns.sort();
            let first = *found.entry(columns).or_insert(fingerprint);
            assert_eq!(first, fingerprint, "{file} {:?}", record.key);
        }
    }
    found
}

#[test]
fn a_row_has_one_fingerprint_in_all_framings_of_both_connectors() {
    for (table, rows) in [("hello", 9), ("wide", 9)] {
        let names = [
            "app.public.",
            "app_schema.public.",
            "app_nohdr.public.",
            "app_flat_rewrite.public.",
        ];
        let private = [
            "snap_g1.public.",
            "snap_g1_schema.public.",
            "snap_g1_flat.public.",
        ];
        let live = names
            .iter()
            .map(|name| (format!("{name}{table}"), Role::Mutations));
        let reads = private
            .iter()
            .map(|name| (format!("{name}{table}"), Role::Snapshot));
        let files: Vec<(String, Role)> = live.chain(reads).collect();
        let files: Vec<(&str, Role)> = files.iter().map(|(f, role)| (f.as_str(), *role)).collect();
        let found = fingerprints(table, &files);
        let mut distinct: Vec<u128> = found.values().copied().collect();
        distinct.sort_unstable();
        distinct.dedup();
        assert_eq!(
            (found.len(), distinct.len()),
            (rows, rows),
            "{:?}",
            found.keys()
        );
    }
}

#[test]
fn rows_are_typed_where_a_schema_came_along() {
    let records = capture("snap_g1_schema.public.wide");
    let value = records[0].value.as_ref().unwrap();
    let columns = row::columns(value.as_bytes()).unwrap().unwrap();
    let schema = Schemas::default().of(&columns);
    let of = |name: &str, kind| {
        let raw = columns.get(name).expect("the column came");
        cell(raw, &kind, schema.column(name)).unwrap()
    };
    assert_eq!(of("id", Kind::Number), Cell::Number("1".into()));
    assert_eq!(of("amount", Kind::Number), Cell::Number("1.25".into()));
    assert_eq!(
        of("at", Kind::Zoned),
        Cell::Text("2026-01-02T02:04:05.678901Z".into())
    );
    assert!(matches!(of("flags", Kind::Json), Cell::Text(_)));
    assert!(matches!(of("body", Kind::Text), Cell::Text(body) if body.len() == 8400));
}

/// All captured halves, as bytes.
fn corpus() -> Vec<(Vec<u8>, Vec<u8>)> {
    let files = [
        "app.public.hello",
        "app_schema.public.hello",
        "app_flat_rewrite.public.wide",
        "app.public.wide",
        "inc_sig.public.dbz_signal",
        "app_txmeta.transaction",
    ];
    let half = |text: Option<String>| text.unwrap_or_default().into_bytes();
    let records = files.iter().flat_map(|file| capture(file));
    records
        .map(|record| (half(record.key), half(record.value)))
        .collect()
}

/// Any answer will do, but no panic; what passes as a row can be read as one.
fn decode_anyhow(key: Option<&[u8]>, value: Option<&[u8]>) {
    let mut decoder = decoder("hello");
    for (role, name) in [(Role::Mutations, "M"), (Role::Snapshot, "S")] {
        let topic = decoder.topic(role, name).expect("the topic is configured");
        let raw = RawRecord {
            key,
            value,
            ..RawRecord::default()
        };
        for _ in 0..2 {
            let _ = decoder.decode_key(topic, &raw);
            match decoder.decode(topic, &raw) {
                Ok(Decoded::Row { op, key, value, .. }) => {
                    let columns = row::key(key, None).expect("a decoded key");
                    assert!(columns.names().count() > 0);
                    if matches!(op, Op::Upsert | Op::Read | Op::ReadInPlace) {
                        serde_json::from_slice::<&RawValue>(value).expect("what passes is JSON");
                        let columns = row::columns(value).expect("a decoded row");
                        let columns = columns.expect("an upsert has a row");
                        let schema = Schemas::default().of(&columns);
                        for (name, raw) in columns.iter() {
                            let _ = cell(raw, &Kind::Text, schema.column(name));
                        }
                    }
                }
                Ok(_) => {}
                Err(error) => drop(error.at("t", 0, 0)),
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]

    #[test]
    fn arbitrary_bytes_never_panic(
        key in prop::option::of(prop::collection::vec(any::<u8>(), 0..40)),
        value in prop::option::of(prop::collection::vec(any::<u8>(), 0..80)),
    ) {
        decode_anyhow(key.as_deref(), value.as_deref());
    }

    #[test]
    fn mutated_captures_never_panic(
        pick in any::<prop::sample::Index>(),
        edits in prop::collection::vec((any::<prop::sample::Index>(), 0..4_u8, any::<u8>()), 1..6),
        in_key in any::<bool>(),
    ) {
        thread_local!(static CORPUS: Vec<(Vec<u8>, Vec<u8>)> = corpus());
        let (mut key, mut value) = CORPUS.with(|corpus| corpus[pick.index(corpus.len())].clone());
        let text = if in_key { &mut key } else { &mut value };
        for (at, edit, byte) in edits {
            if text.is_empty() {
                break;
            }
            let at = at.index(text.len());
            match edit {
                0 => text[at] = byte,
                1 => text[at] = b"{}[]:,\"0n\\"[usize::from(byte) % 10],
                2 => text.truncate(at),
                _ => drop(text.remove(at)),
            }
        }
        decode_anyhow(Some(&key), Some(&value));
    }
}
