//! Nanoseconds a record for decoding: `cargo bench --profile ci --bench decode`.
//!
//! Compares, within one run, the decoder (whole structure and UTF-8 checked, key canonical,
//! fingerprinted) with its scan alone and with serde_json, which reads the same few members as raw
//! values. Numbers of two runs on a busy machine are not to be compared; ratios of one run are.

use headwater::decode::{DecodeSettings, Decoder};
use headwater::key::KeyGate;
use headwater::table::{Role, Table};
use headwater::topic::RawRecord;
use headwater_operators::fingerprint::Fingerprinter;
use serde::Deserialize;
use serde_json::value::RawValue;
use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

#[derive(Deserialize)]
struct Source<'a> {
    #[serde(borrow)]
    schema: Option<&'a str>,
    table: Option<&'a str>,
    snapshot: Option<&'a str>,
}

#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(borrow)]
    before: Option<&'a RawValue>,
    after: Option<&'a RawValue>,
    source: Source<'a>,
    op: &'a str,
    ts_ms: Option<u64>,
}

const RECORDS: usize = 200_000;
const ROUNDS: usize = 7;

/// The best of some rounds, in nanoseconds a record.
fn best(mut round: impl FnMut()) -> f64 {
    let mut best = f64::MAX;
    for _ in 0..ROUNDS {
        let start = Instant::now();
        round();
        best = best.min(start.elapsed().as_nanos() as f64 / RECORDS as f64);
    }
    best
}

/// The source block of a record of Debezium 3.6.
const SOURCE: &str = concat!(
    r#"{"version":"3.6.1.Final","connector":"postgresql","name":"app","#,
    r#""ts_ms":1795967579304,"snapshot":"false","db":"postgres","#,
    r#""sequence":"[\"31683632\",\"31683632\"]","ts_us":1795967579304223,"#,
    r#""ts_ns":1795967579304223000,"schema":"public","table":"hello","txId":21859,"#,
    r#""lsn":31683632,"xmin":null,"origin":null,"origin_lsn":null}"#
);

/// What follows the source block in its envelope.
const LAST_MEMBERS: &str = concat!(
    r#""transaction":null,"op":"u","ts_ms":1795967579510,"ts_us":1795967579510659,"#,
    r#""ts_ns":1795967579510659590"#
);

fn values(framed: bool, greeting: usize) -> Vec<(String, String)> {
    let schema = concat!(
        r#"{"type":"struct","fields":[{"type":"struct","fields":["#,
        r#"{"type":"int32","optional":false,"field":"id"},"#,
        r#"{"type":"string","optional":true,"field":"greeting"}],"optional":true,"#,
        r#""name":"app.public.hello.Value","field":"after"}],"name":"app.public.hello.Envelope"}"#
    );
    let key_schema = concat!(
        r#"{"type":"struct","fields":[{"type":"int32","optional":false,"field":"id"}],"#,
        r#""optional":false,"name":"app.public.hello.Key"}"#
    );
    let frame = |schema: &str, payload: String| match framed {
        true => format!(r#"{{"schema":{schema},"payload":{payload}}}"#),
        false => payload,
    };
    (0..1000)
        .map(|id| {
            let greeting = "g".repeat(greeting);
            let after = format!(r#"{{"id":{id},"greeting":"{greeting}"}}"#);
            let value =
                format!(r#"{{"before":null,"after":{after},"source":{SOURCE},{LAST_MEMBERS}}}"#);
            (
                frame(key_schema, format!(r#"{{"id":{id}}}"#)),
                frame(schema, value),
            )
        })
        .collect()
}

fn decode(records: &[(String, String)]) -> f64 {
    let tables = [Table {
        name: "public.hello".into(),
        mutations: "M".into(),
        snapshot: "S".into(),
        key: None,
    }];
    let gate = Arc::new(KeyGate::new(&tables));
    let settings = DecodeSettings::default();
    let mut decoder = Decoder::new(&tables, &Fingerprinter::new([7; 16]), settings, gate);
    let topic = decoder.topic(Role::Mutations, "M").expect("it is a topic");
    best(|| {
        for (key, value) in records.iter().cycle().take(RECORDS) {
            let raw = RawRecord {
                key: Some(key.as_bytes()),
                value: Some(value.as_bytes()),
                ..RawRecord::default()
            };
            black_box(decoder.decode(topic, &raw)).expect("a good record");
        }
    })
}

fn serde(records: &[(String, String)]) -> f64 {
    best(|| {
        for (_, value) in records.iter().cycle().take(RECORDS) {
            let envelope: Envelope<'_> = serde_json::from_str(value).expect("a good record");
            black_box((envelope.before, envelope.after, envelope.op, envelope.ts_ms));
            let source = envelope.source;
            black_box((source.schema, source.table, source.snapshot));
        }
    })
}

fn utf8(records: &[(String, String)]) -> f64 {
    best(|| {
        for (_, value) in records.iter().cycle().take(RECORDS) {
            black_box(std::str::from_utf8(black_box(value.as_bytes()))).expect("text");
        }
    })
}

fn main() {
    for (name, framed, greeting) in [
        ("bare, 550 bytes", false, 8),
        ("bare, 1500 bytes", false, 1000),
        ("with schema", true, 8),
    ] {
        let records = values(framed, greeting);
        let bytes = records
            .iter()
            .map(|(k, v)| k.len() + v.len())
            .sum::<usize>()
            / records.len();
        let decoder = decode(&records);
        let utf8 = utf8(&records);
        let mut line = format!("{name:18} {bytes:5} bytes  decoder {decoder:6.1} ns");
        line.push_str(&format!("  (UTF-8 check alone {utf8:5.1} ns)"));
        if !framed {
            let serde = serde(&records);
            line.push_str(&format!(
                "  serde_json {serde:6.1} ns, x{:.2}",
                serde / decoder
            ));
        }
        eprintln!("{line}");
    }
}
