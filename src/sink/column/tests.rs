//! Every form of wire.md W14, with and without its schema.

use super::super::row::Field;
use super::{Cell, Kind, array_literal, cell};

fn field(connect_type: &str, name: &str, parameter: Option<(&str, &str)>) -> Field {
    Field {
        connect_type: connect_type.into(),
        name: (!name.is_empty()).then(|| name.into()),
        parameters: parameter
            .map(|(name, value)| (name.into(), value.into()))
            .into_iter()
            .collect(),
        ..Field::default()
    }
}

fn text(raw: &str, kind: &Kind, schema: Option<&Field>) -> String {
    match cell(raw, kind, schema).unwrap() {
        Cell::Null => "NULL".into(),
        Cell::Text(text) | Cell::Number(text) => text.into_owned(),
        Cell::Bool(value) => value.to_string(),
        Cell::Bytes(bytes) => format!("{bytes:?}"),
        Cell::Array(cells) => array_literal(&cells),
    }
}

#[test]
fn decimals() {
    let vectors = [
        ("ATo=", "2", "3.14"),
        ("AIA=", "2", "1.28"),
        ("fw==", "2", "1.27"),
        ("/wY=", "2", "-2.50"),
        ("B8s=", "2", "19.95"),
        ("AKtUqYzrHwrS", "0", "12345678901234567890"),
        ("D3J5", "0", "1012345"),
        ("AA==", "2", "0.00"),
        ("BA==", "-2", "400"),
        ("AA==", "-2", "0"),
        ("/w==", "3", "-0.001"),
    ];
    for (raw, scale, expected) in vectors {
        let schema = field(
            "bytes",
            "org.apache.kafka.connect.data.Decimal",
            Some(("scale", scale)),
        );
        let raw = format!("\"{raw}\"");
        assert_eq!(text(&raw, &Kind::Number, Some(&schema)), expected);
    }
    let schema = field(
        "bytes",
        "org.apache.kafka.connect.data.Decimal",
        Some(("scale", "2")),
    );
    assert!(cell("\"\"", &Kind::Number, Some(&schema)).is_err());
    let vast = r#"{"scale":2147483647,"value":"AQ=="}"#;
    assert!(cell(vast, &Kind::Number, None).is_err());
    assert_eq!(
        text(r#"{"scale":2,"value":"ATo="}"#, &Kind::Number, None),
        "3.14"
    );
    assert_eq!(
        text("12345678901234567890.1", &Kind::Number, None),
        "12345678901234567890.1"
    );
    assert_eq!(text("\"3.14\"", &Kind::Number, None), "3.14");
}

#[test]
fn times_by_the_schema() {
    let vectors = [
        ("Date", "0", "1970-01-01"),
        ("Date", "-719163", "0001-12-31 BC"),
        ("Date", "19782", "2024-02-29"),
        ("Time", "3723004", "01:02:03.004"),
        ("MicroTime", "86400000000", "24:00:00"),
        ("NanoTime", "1", "00:00:00.000000001"),
        ("Timestamp", "1700000000123", "2023-11-14 22:13:20.123"),
        ("MicroTimestamp", "-1", "1969-12-31 23:59:59.999999"),
        ("MicroTimestamp", "9223372036825200000", "infinity"),
        (
            "NanoTimestamp",
            "1700000000123456789",
            "2023-11-14 22:13:20.123456789",
        ),
        ("MicroDuration", "5", "5 microseconds"),
    ];
    for (name, raw, expected) in vectors {
        let schema = field("int64", &format!("io.debezium.time.{name}"), None);
        // The schema wins over what the target's type would say.
        let kind = Kind::Timestamp { millis: false };
        assert_eq!(text(raw, &kind, Some(&schema)), expected, "{name}");
        assert_eq!(text(raw, &Kind::Number, Some(&schema)), raw, "{name}");
    }
}

#[test]
fn times_by_the_target() {
    let at = "2023-11-14 22:13:20.123";
    assert_eq!(
        text("1700000000123", &Kind::Timestamp { millis: true }, None),
        at
    );
    assert_eq!(
        text("1700000000123000", &Kind::Timestamp { millis: false }, None),
        at
    );
    assert_eq!(text("19782", &Kind::Date, None), "2024-02-29");
    assert_eq!(
        text("\"2024-02-29T01:02:03Z\"", &Kind::Zoned, None),
        "2024-02-29T01:02:03Z"
    );
    assert!(
        cell("1700000000123", &Kind::Zoned, None)
            .unwrap_err()
            .contains("Zoned")
    );
}

#[test]
fn the_rest() {
    assert_eq!(text("null", &Kind::Number, None), "NULL");
    assert_eq!(text("\"a\\n\\u00e9\"", &Kind::Text, None), "a\né");
    assert_eq!(text("\"AQI=\"", &Kind::Bytes, None), "[1, 2]");
    assert_eq!(text("\"{\\\"a\\\":1}\"", &Kind::Json, None), "{\"a\":1}");
    assert_eq!(text("{\"a\":1}", &Kind::Json, None), "{\"a\":1}");
    assert_eq!(text("1", &Kind::Bool, None), "true");
    let bits = field("bytes", "io.debezium.data.Bits", Some(("length", "10")));
    assert_eq!(text("\"AQI=\"", &Kind::Bits, Some(&bits)), "1000000001");
    let array = Kind::Array(Box::new(Kind::Text));
    let raw = r#"["a,b","q\"\\","",null]"#;
    assert_eq!(text(raw, &array, None), r#"{"a,b","q\"\\","",NULL}"#);
    for (raw, kind) in [
        ("{}", Kind::Text),
        ("[1]", Kind::Number),
        ("1", Kind::Bytes),
    ] {
        assert!(cell(raw, &kind, None).is_err(), "{raw} {kind:?}");
    }
    let secret = cell("\"not base64, secret\"", &Kind::Bytes, None).unwrap_err();
    assert!(!secret.contains("secret"));
}
