//! Equal values have equal bytes, others have not.

use super::super::side::{Column, Flavor};
use super::{Form, Raw, form, put, unhex};
use crate::sink::column::Kind;

fn bytes(raw: &Raw<'_>, form: Form) -> Vec<u8> {
    let mut out = Vec::new();
    put(raw, form, &mut out);
    out
}

fn text(text: &str) -> Raw<'_> {
    Raw::Text(text.into())
}

#[test]
fn equal_by_meaning() {
    let deep = "[".repeat(5_000) + &"]".repeat(5_000);
    let same = [
        (Form::Number, text("1.50"), Raw::Real(1.5)),
        (Form::Number, text("100"), Raw::Int(100)),
        (Form::Number, text("1e+20"), text("100000000000000000000")),
        (Form::Number, text("-0.0"), Raw::Int(0)),
        (Form::Number, text("true"), Raw::Int(1)),
        (Form::Number, text("NaN"), text("NaN")),
        (Form::Bool, text("false"), Raw::Int(0)),
        (Form::Padded, text("ab"), text("ab ")),
        (Form::Bytes, text("\\x0102"), Raw::Bytes(vec![1, 2].into())),
        (
            Form::Json,
            text("{\"a\":1, \"b\":[2.0]}"),
            text("{\"b\": [2],\"a\":1}"),
        ),
        (Form::Json, text("\"\\u0061\""), text(" \"a\"")),
        (Form::Json, text(&deep), text(&deep)),
        (Form::Date, text("2026-11-29"), text("2026-11-29")),
        (Form::Time, text("01:02:03.500"), text("01:02:03.5")),
        (
            Form::Timestamp,
            text("2026-11-29 01:02:03.5"),
            text("2026-11-29T01:02:03.500"),
        ),
        (
            Form::Zoned,
            text("2026-11-29 01:02:03+00"),
            text("2026-11-29T03:02:03+02:00"),
        ),
        (Form::Zoned, text("01:02:03+00"), text("01:02:03Z")),
        (Form::Timestamp, text("infinity"), text("infinity")),
        (Form::Text, Raw::Null, Raw::Null),
    ];
    for (form, one, other) in &same {
        assert_eq!(bytes(one, *form), bytes(other, *form), "{one:?} {other:?}");
    }
}

#[test]
fn different_by_meaning() {
    let others = [
        (
            Form::Number,
            text("12345678901234567.1"),
            text("12345678901234567.2"),
        ),
        (Form::Number, text("0"), Raw::Null),
        (Form::Text, text(""), Raw::Null),
        (Form::Text, text("a"), text("a ")),
        (Form::Text, text("1.0"), text("1")),
        (Form::Json, text("{\"a\":1}"), text("{\"a\":\"1\"}")),
        (
            Form::Json,
            text("9007199254740993"),
            text("9007199254740992"),
        ),
        (Form::Json, text("[[],1]"), text("[[1]]")),
        (Form::Json, text("nul"), text("null")),
        (
            Form::Timestamp,
            text("2026-11-29 01:02:03.5"),
            text("2026-11-29 01:02:03.51"),
        ),
        (Form::Date, text("0044-03-15 BC"), text("0044-03-15")),
    ];
    for (form, one, other) in &others {
        assert_ne!(bytes(one, *form), bytes(other, *form), "{one:?} {other:?}");
    }
    // A tuple is a concatenation.
    let pair =
        |a: &str, b: &str| [bytes(&text(a), Form::Text), bytes(&text(b), Form::Text)].concat();
    assert_ne!(pair("ab", "c"), pair("a", "bc"));
    assert_eq!(unhex("\\x0"), None);
    assert_eq!(unhex("\\xzz"), None);
}

#[test]
fn what_cannot_be_compared_has_no_form() {
    let column = |flavor, kind: &Kind, type_name: &str| Column {
        name: "c".to_owned(),
        flavor,
        kind: kind.clone(),
        type_name: type_name.to_owned(),
        order: None,
    };
    let array = Kind::Array(Box::new(Kind::Text));
    let of = |kind: &Kind, name: &str, other: &Kind, other_name: &str| {
        let source = column(Flavor::Postgres, kind, name);
        (
            form(&source, &column(Flavor::Postgres, other, other_name)),
            form(&source, &column(Flavor::Sqlite, other, other_name)),
        )
    };
    assert_eq!(
        of(&array, "text[]", &array, "text[]"),
        (Some(Form::Text), None)
    );
    assert_eq!(
        of(&Kind::Interval, "interval", &Kind::Interval, "interval"),
        (Some(Form::Text), None)
    );
    assert_eq!(
        of(&Kind::Date, "date", &Kind::Number, "INTEGER"),
        (None, None)
    );
    let number = Some(Form::Number);
    assert_eq!(
        of(&Kind::Number, "numeric", &Kind::Text, "TEXT"),
        (number, number)
    );
    assert_eq!(
        of(&Kind::Bool, "boolean", &Kind::Number, "INTEGER"),
        (number, number)
    );
}
