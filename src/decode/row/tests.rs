//! Columns of rows and keys, raw and typed.

use super::{Cell, RowReader, decimal_text};
use crate::decode::Framing;
use std::borrow::Cow;

fn names_and_raw(reader: &mut RowReader, value: &str) -> Vec<(String, String)> {
    let view = reader.row(value.as_bytes()).unwrap();
    let columns = view.columns();
    columns
        .map(|column| (column.name.into_owned(), column.raw.to_owned()))
        .collect()
}

fn pairs(of: &[(&str, &str)]) -> Vec<(String, String)> {
    of.iter()
        .map(|(name, raw)| ((*name).to_owned(), (*raw).to_owned()))
        .collect()
}

#[test]
fn rows_of_both_forms() {
    let mut reader = RowReader::new(Framing::Auto);
    let envelope =
        r#"{"before":null,"after":{"id":1,"a\"b":[1, 2],"c":null},"op":"u","source":{}}"#;
    let want = pairs(&[("id", "1"), ("a\"b", "[1, 2]"), ("c", "null")]);
    assert_eq!(names_and_raw(&mut reader, envelope), want);
    let framed = format!("{{\"schema\":null,\"payload\":{envelope}}}");
    assert_eq!(names_and_raw(&mut reader, &framed), want);
    let flat = r#"{"id":4,"greeting":"r4","__op":"r","__deleted":"false"}"#;
    let want = pairs(&[("id", "4"), ("greeting", "\"r4\"")]);
    assert_eq!(names_and_raw(&mut reader, flat), want);
    let gone = r#"{"before":{"id":1},"after":null,"op":"d","source":{}}"#;
    assert!(reader.row(gone.as_bytes()).is_err());
    assert!(reader.row(b"null").is_err());
    assert!(reader.row(b"{\"a\":1").is_err());
}

#[test]
fn keys_of_all_forms() {
    let mut reader = RowReader::new(Framing::Auto);
    let mut columns = |key: &str, column| -> Vec<(String, String)> {
        let view = reader.key(key.as_bytes(), column).unwrap();
        let columns = view.columns();
        columns
            .map(|column| (column.name.into_owned(), column.raw.to_owned()))
            .collect()
    };
    assert_eq!(columns(r#"{"id":1}"#, None), pairs(&[("id", "1")]));
    assert_eq!(columns(r#"{"id":1}"#, Some("id")), pairs(&[("id", "1")]));
    assert_eq!(columns("\"x\"", Some("id")), pairs(&[("id", "\"x\"")]));
    let framed = r#"{"schema":{"type":"int32"},"payload":7}"#;
    assert_eq!(columns(framed, Some("id")), pairs(&[("id", "7")]));
    assert!(reader.key(b"7", None).is_err());
}

fn schema_of(fields: &str) -> String {
    let after = format!(r#"{{"type":"struct","fields":[{fields}],"field":"after"}}"#);
    let source = r#"{"type":"struct","fields":[],"field":"source"}"#;
    format!(r#"{{"type":"struct","fields":[{after},{source}]}}"#)
}

#[test]
fn typed_by_the_schema() {
    let decimal = concat!(
        r#"{"type":"bytes","name":"org.apache.kafka.connect.data.Decimal","#,
        r#""parameters":{"scale":"2"},"field":"total"}"#
    );
    let wide = concat!(
        r#"{"type":"struct","fields":[],"#,
        r#""name":"io.debezium.data.VariableScaleDecimal","field":"wide"}"#
    );
    let at = r#"{"type":"int64","name":"io.debezium.time.MicroTimestamp","field":"at"}"#;
    let day = r#"{"type":"int32","name":"io.debezium.time.Date","field":"day"}"#;
    let blob = r#"{"type":"bytes","field":"blob"}"#;
    let schema = schema_of(&[decimal, wide, at, day, blob].join(","));
    let after = concat!(
        r#"{"total":"ATo=","wide":{"scale":0,"value":"AKtUqYzrHwrS"},"#,
        r#""at":1767319445678901,"day":20455,"blob":"AAE="}"#
    );
    let value =
        format!(r#"{{"schema":{schema},"payload":{{"op":"u","after":{after},"source":{{}}}}}}"#);
    let mut reader = RowReader::new(Framing::Auto);
    let number = |text: &str| Cell::Number(Cow::Owned(text.to_owned()));
    let text = |text: &str| Cell::Text(Cow::Owned(text.to_owned()));
    // Twice: the second time by the schema remembered.
    for _ in 0..2 {
        let view = reader.row(value.as_bytes()).unwrap();
        let cells: Vec<Cell<'_>> = view
            .columns()
            .map(|column| column.cell().unwrap())
            .collect();
        assert_eq!(
            cells,
            [
                number("3.14"),
                number("12345678901234567890"),
                text("2026-01-02T02:04:05.678901"),
                text("2026-01-02"),
                Cell::Bytes(vec![0, 1]),
            ]
        );
    }
    let bare =
        r#"{"op":"u","after":{"total":"ATo=","n":1.50,"b":true,"x":null,"j":[1]},"source":{}}"#;
    let view = reader.row(bare.as_bytes()).unwrap();
    let cells: Vec<Cell<'_>> = view
        .columns()
        .map(|column| column.cell().unwrap())
        .collect();
    let want = [
        text("ATo="),
        number("1.50"),
        Cell::Bool(true),
        Cell::Null,
        Cell::Json("[1]"),
    ];
    assert_eq!(cells, want);
}

#[test]
fn decimals_keep_their_scale() {
    for (bytes, scale, want) in [
        (&[0x01, 0x3a][..], 2, "3.14"),
        (&[0x01, 0x3a], 0, "314"),
        (&[0x01, 0x3a], 5, "0.00314"),
        (&[0x01, 0x3a], -2, "31400"),
        (&[0xff, 0x06], 2, "-2.50"),
        (&[0], 2, "0.00"),
        (&[0], -2, "0"),
    ] {
        assert_eq!(decimal_text(bytes, scale).unwrap(), want);
    }
    assert!(decimal_text(&[], 0).is_err());
    assert!(decimal_text(&[1], i32::MAX).is_err());
}
