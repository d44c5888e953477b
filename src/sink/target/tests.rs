//! Which keys and columns a row may have.

use super::{Binder, Problem, TargetColumn, TargetTable};
use crate::sink::column::Kind;
use crate::sink::settings::UnknownColumns;
use crate::sink::testing::row;

fn binder(key: Option<&[&str]>) -> Binder<String> {
    let column = |name: &str| TargetColumn {
        name: name.into(),
        kind: Kind::Text,
        type_name: "text".into(),
        generated: name == "sum",
    };
    let table = TargetTable {
        source: "public.t".into(),
        name: "t".into(),
        sql: "\"t\"".into(),
        columns: ["v", "b", "a", "sum"].map(column).into(),
        key: vec![2, 1],
        unique: Vec::new(),
        is_empty: true,
    };
    let key = key.map(|key| key.iter().map(|name| (*name).to_owned()).collect());
    Binder::new(table, key, UnknownColumns::Refuse, |raw, _, _| {
        Ok(raw.to_owned())
    })
}

fn outcome(binder: &mut Binder<String>, key: &str, value: &str) -> String {
    match binder.bind(&row(key, value)) {
        Ok(bound) => format!("{:?} {}", bound.shape, bound.values.join(" ")),
        Err(Problem::Row(reason)) => reason,
        Err(Problem::Table(error)) => error.text,
    }
}

#[test]
fn key_columns_come_from_the_key_in_the_order_of_the_primary_key() {
    let mut binder = binder(None);
    let key = r#"{"b":2,"a":1}"#;
    assert_eq!(outcome(&mut binder, key, ""), "None 1 2");
    // Shape 0 is v, b, a; shape 1 lacks v. The generated column is left out.
    assert_eq!(
        outcome(&mut binder, key, r#"{"a":9,"v":3,"sum":3}"#),
        "Some(0) 3 2 1"
    );
    assert_eq!(outcome(&mut binder, key, r#"{"a":1,"b":2}"#), "Some(1) 2 1");
    assert_eq!(outcome(&mut binder, key, r#"{"v":4}"#), "Some(0) 4 2 1");
    assert!(outcome(&mut binder, r#"{"a":1,"b":null}"#, "").contains("key column `b` is null"));
    assert!(outcome(&mut binder, "7", "").contains("key: not a JSON object"));
}

#[test]
fn another_key_than_the_primary_key_is_refused() {
    for key in [
        r#"{"a":1}"#,
        r#"{"a":1,"b":2,"__dbz__physicalTableIdentifier":"t_1"}"#,
    ] {
        let text = outcome(&mut binder(None), key, "");
        assert!(
            text.contains("not the primary key") && text.contains("a, b"),
            "{text}"
        );
    }
    let key = r#"{"a":1,"b":2,"__dbz__physicalTableIdentifier":"t_1"}"#;
    assert_eq!(outcome(&mut binder(Some(&["a", "b"])), key, ""), "None 1 2");
}

#[test]
fn a_bare_key_is_the_configured_column() {
    let mut binder = binder(Some(&["a"]));
    binder.table.key = vec![2];
    assert_eq!(outcome(&mut binder, "7", ""), "None 7");
    let framed = r#"{"schema":{"type":"int32"},"payload":7}"#;
    assert_eq!(outcome(&mut binder, framed, r#"{"v":3}"#), "Some(0) 3 7");
}
