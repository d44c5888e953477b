//! Columns of rows and keys in every framing, and their schemas.

use super::{Columns, Schemas, columns, key};

fn joined(columns: &Columns<'_>) -> String {
    let each = columns
        .iter()
        .map(|(name, value)| format!("{name}={value}"));
    each.collect::<Vec<_>>().join(" ")
}

fn shown(value: &str) -> Option<String> {
    let columns = columns(value.as_bytes()).unwrap()?;
    Some(joined(&columns))
}

#[test]
fn rows_are_found_in_every_framing() {
    let row = Some("id=1 greeting=\"hi\"".to_owned());
    let after = r#"{"id":1,"greeting":"hi"}"#;
    let bare = format!(r#"{{"before":null,"after":{after},"source":{{}},"op":"c"}}"#);
    assert_eq!(shown(&bare), row);
    for framed in [
        format!(r#"{{"schema":null,"payload":{bare}}}"#),
        format!(r#" {{ "payload" : {bare}, "schema":{{"type":"struct"}} }} "#),
        format!(r#"{{"schema":{{"type":"struct"}},"payload": {bare}}}"#),
    ] {
        assert_eq!(shown(&framed), row, "{framed}");
    }
    assert_eq!(
        shown(r#"{"id":1,"greeting":"hi","__deleted":"false","__op":"c"}"#),
        row
    );
    let values = r#"{"op":"u","after":{"a\"b":[1, 2],"c":null, "d" : "é"},"source":{}}"#;
    assert_eq!(shown(values), Some("a\"b=[1, 2] c=null d=\"é\"".into()));
}

#[test]
fn what_holds_no_row_is_told_from_what_is_wrong() {
    for none in [
        r#"{"before":{"id":1},"after":null,"source":{},"op":"d"}"#,
        r#"{"before":{"id":1},"source":{},"op":"d"}"#,
        "null",
        " null ",
        r#"{"schema":null,"payload":null}"#,
    ] {
        assert_eq!(shown(none), None, "{none}");
    }
    // A table with these two columns, and one with columns of an envelope.
    assert_eq!(
        shown(r#"{"schema":1,"payload":2}"#),
        Some("schema=1 payload=2".into())
    );
    assert_eq!(
        shown(r#"{"op":"x","after":"y"}"#),
        Some("op=\"x\" after=\"y\"".into())
    );
    for (bad, what) in [
        (&b"[1]"[..], "object"),
        (b"\xff", "UTF-8"),
        (b"{\"secret\":1", "not JSON"),
        (b"{\"secret\":1}}", "not JSON"),
        (br#"{"schema":null,"payload":{"secret":1}"#, "not JSON"),
        (br#"{"op":"u","source":{},"after":"secret"}"#, "`after`"),
    ] {
        let error = columns(bad).expect_err(what);
        assert!(error.contains(what) && !error.contains("secret"), "{error}");
    }
}

#[test]
fn keys_of_all_forms() {
    let named = ["id".to_owned()];
    let found =
        |text: &str, configured| key(text.as_bytes(), configured).map(|columns| joined(&columns));
    let named = Some(&named[..]);
    let framed = r#"{"schema":{"type":"int32"},"payload":7}"#;
    for (text, configured, want) in [
        (r#"{"id":1}"#, None, "id=1"),
        (r#"{"id":1}"#, named, "id=1"),
        (r#"{"schema":null,"payload":{"id":1}}"#, None, "id=1"),
        ("\"x\"", named, "id=\"x\""),
        (framed, named, "id=7"),
    ] {
        assert_eq!(found(text, configured).as_deref(), Ok(want), "{text}");
    }
    assert_eq!(found("7", None), Err("not a JSON object".into()));
    let two = ["a".to_owned(), "b".to_owned()];
    assert!(found("7", Some(&two)).is_err());
    assert_eq!(found("null", named), Err("the key is null".into()));
    let one = key(framed.as_bytes(), named).unwrap();
    let schema = Schemas::default().of(&one);
    assert_eq!(schema.column("id").unwrap().connect_type, "int32");
}

#[test]
fn schemas_are_those_of_after_and_of_the_key() {
    let framed = r#"{"schema":{"type":"struct","fields":[{"type":"struct","field":"after",
        "fields":[{"type":"int32","field":"d","name":"io.debezium.time.Date"}]}]},
        "payload":{"after":{"d":1},"op":"c"}}"#;
    let mut schemas = Schemas::default();
    // Twice: the second time by the schema remembered.
    for _ in 0..2 {
        let row = columns(framed.as_bytes()).unwrap().unwrap();
        let schema = schemas.of(&row);
        let name = schema.column("d").unwrap().name.as_deref();
        assert_eq!(name, Some("io.debezium.time.Date"));
        assert!(schema.column("e").is_none());
    }
    let framed = r#"{"schema":{"type":"struct","fields":[{"type":"int64","field":"id"}]},
        "payload":{"id":1}}"#;
    let key = key(framed.as_bytes(), None).unwrap();
    assert_eq!(schemas.of(&key).column("id").unwrap().connect_type, "int64");
}
