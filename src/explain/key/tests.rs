//! Keys that persons write against keys that topics hold.

use super::{Key, read, table_number};
use crate::decode::Framing;
use crate::error::ErrorKind;
use crate::key::encode::put;
use crate::key::logical::Unit;
use crate::key::{Class, KeyShape, Logical};
use crate::table::Table;

fn table(key: Option<&[&str]>) -> Table {
    Table {
        name: "public.hello".to_owned(),
        mutations: "m".to_owned(),
        snapshot: "s".to_owned(),
        key: key.map(|names| names.iter().map(|name| (*name).to_owned()).collect()),
    }
}

fn shape(columns: &[(&str, Class)]) -> KeyShape {
    let columns = columns
        .iter()
        .map(|(name, class)| ((*name).to_owned(), *class));
    KeyShape::new(columns.collect())
}

fn key(shape: &KeyShape, text: &str) -> Key {
    read(&table(None), Some(shape), Framing::Auto, text)
        .unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// What a topic that holds `raw` of type `logical` makes of it.
fn canonical(raw: &str, logical: Logical) -> Vec<u8> {
    let mut out = Vec::new();
    put(raw.as_bytes(), logical, &mut out).expect("a good value");
    out
}

#[test]
fn a_value_is_the_same_key_however_the_topic_writes_it() {
    let zoned = Logical::ZonedTimestamp;
    for (class, written, raw, logical) in [
        (Class::Number, "5", "5", Logical::Number),
        (
            Class::Number,
            "3.14",
            "\"ATo=\"",
            Logical::Decimal { scale: 2 },
        ),
        (Class::Text, "\"a\\u0062\"", "\"ab\"", Logical::Text),
        (Class::Bool, "true", "true", Logical::Bool),
        (Class::Bytes, "\"AQI=\"", "\"AQI=\"", Logical::Bytes),
        (Class::Uuid, "\"AB\"", "\"ab\"", Logical::Uuid),
        (Class::Date, "\"2026-11-29\"", "20786", Logical::Date),
        (Class::Date, "20786", "20786", Logical::Date),
        (
            Class::Time,
            "\"00:00:01\"",
            "1000000",
            Logical::Time(Unit::Micro),
        ),
        (
            Class::Timestamp,
            "\"1970-01-01T00:00:01.5\"",
            "1500",
            Logical::Timestamp(Unit::Milli),
        ),
        (
            Class::TimestampTz,
            "\"1970-01-01T02:00:00+02:00\"",
            "\"1970-01-01T00:00:00Z\"",
            zoned,
        ),
    ] {
        let shape = shape(&[("k", class)]);
        let found = key(&shape, &format!("{{\"k\":{written}}}"));
        assert_eq!(
            found.canonical,
            canonical(raw, logical),
            "{class:?} {written}"
        );
        assert_eq!(key(&shape, written), found, "bare {written}");
        assert_eq!(found.json, format!("{{\"k\":{written}}}"));
    }
}

#[test]
fn columns_go_in_name_order_and_a_schema_is_read_as_in_a_record() {
    let shape = shape(&[("id", Class::Number), ("region", Class::Text)]);
    let one = key(&shape, " { \"region\" : \"eu\", \"id\": 7 } ");
    assert_eq!(one.json, "{\"id\":7,\"region\":\"eu\"}");
    let framed = "{\"schema\":{\"type\":\"struct\",\"fields\":[\
                  {\"type\":\"string\",\"field\":\"region\"},{\"type\":\"int64\",\"field\":\"id\"}\
                  ]},\"payload\":{\"region\":\"eu\",\"id\":7}}";
    assert_eq!(key(&shape, framed), one);
    assert_ne!(one.fingerprint([7; 16], "a"), one.fingerprint([8; 16], "a"));
    let other = framed
        .replace("int64", "string")
        .replace(":7}}", ":\"7\"}}");
    let error = read(&table(None), Some(&shape), Framing::Auto, &other).expect_err("text");
    let (found, expected) = ("{id: text, region: text}", "{id: number, region: text}");
    assert!(
        error.text.contains(found) && error.text.contains(expected),
        "{error}"
    );
}

#[test]
fn other_columns_and_values_are_refused_with_both_sides() {
    let known = shape(&[("id", Class::Number), ("region", Class::Text)]);
    let at = shape(&[("at", Class::Timestamp)]);
    for (shape, text, parts) in [
        (
            &known,
            "{\"id\":7}",
            &["found     {id}", "expected  {id: number, region: text}"][..],
        ),
        (
            &known,
            "{\"id\":7,\"region\":\"a\",\"x\":1}",
            &["{id, region, x}"],
        ),
        (
            &known,
            "7",
            &["a bare value, but the key has the columns {id, region}"],
        ),
        (
            &known,
            "{\"id\":\"secret\",\"region\":\"a\"}",
            &["column `id`: a number", "5 or 1.50"],
        ),
        (
            &known,
            "{\"id\":null,\"region\":\"a\"}",
            &["column `id`: a number"],
        ),
        (
            &known,
            "{\"id\":1,\"id\":1,\"region\":\"a\"}",
            &["`id` stands there twice"],
        ),
        (
            &known,
            "{\"id\":7",
            &["at byte", "a JSON object of {id: number, region: text}"],
        ),
        (&known, "{\"id\":7,\"region\":\"a\"} x", &["at byte"]),
        (&known, "", &["at byte"]),
        (
            &at,
            "1500",
            &[
                "a count, whose unit is not known",
                "\"2026-11-29T10:00:03\"",
            ],
        ),
        (&at, "abc", &["text in \"quotes\""]),
    ] {
        let error = read(&table(None), Some(shape), Framing::Auto, text).expect_err(text);
        assert_eq!(error.kind, ErrorKind::Usage, "{text}");
        for part in parts {
            assert!(error.text.contains(part), "{part} in {error}");
        }
        assert!(!error.text.contains("secret"), "{error}");
    }
}

#[test]
fn a_key_that_nobody_has_seen_is_read_by_what_it_looks_like() {
    let unseen = |key, text: &str| read(&table(key), None, Framing::Auto, text);
    let found = unseen(None, "{\"id\":7,\"region\":\"eu\"}").expect("an object");
    assert!(!found.seen);
    let known = shape(&[("id", Class::Number), ("region", Class::Text)]);
    assert_eq!(
        found.canonical,
        key(&known, "{\"id\":7,\"region\":\"eu\"}").canonical
    );
    assert_eq!(
        unseen(Some(&["id"]), "7").expect("one column").json,
        "{\"id\":7}"
    );
    for (key, text, part) in [
        (None, "7", "no key of the table was seen yet"),
        (None, "{}", "without columns"),
        (None, "{\"id\":[1]}", "`id` is no key"),
        (Some(&["id"][..]), "{\"x\":7}", "expected  {id}"),
    ] {
        let error = unseen(key, text).expect_err(text);
        assert!(error.text.contains(part), "{part} in {error}");
    }
}

#[test]
fn an_unknown_table_is_told_which_there_are() {
    assert_eq!(table_number(&[table(None)], "public.hello"), Ok(0));
    let error = table_number(&[table(None)], "hello").expect_err("no such table");
    assert!(
        error.text.contains("expected  one of: public.hello"),
        "{error}"
    );
}
