//! Topics that several tables share, and rows of tables that are not configured.

use super::{Decoded, Ignored, OtherTables, Rig, envelope, hello, live, table};
use crate::decode::{DecodeError, DecodeSettings};
use crate::table::Role;
use headwater_operators::record::Op;

const KEY: Option<&str> = Some(r#"{"id":1}"#);

fn of(op: &str, table: &str) -> String {
    envelope(op, "\"false\"", table)
}

fn two_tables() -> Rig {
    let tables = [hello(None), table("public.orders", "M", None)];
    Rig::new(&tables, DecodeSettings::default())
}

#[test]
fn the_source_block_chooses() {
    let mut rig = two_tables();
    let one = rig.row(Role::Mutations, KEY, Some(&of("u", "hello")));
    let two = rig.row(Role::Mutations, KEY, Some(&of("u", "orders")));
    assert_eq!((one.table, two.table), (0, 1));
    assert_ne!(one.fingerprint, two.fingerprint);
    let got = rig.decode(Role::Mutations, KEY, Some(&of("u", "other")));
    assert_eq!(got, Ok(Decoded::Ignored(Ignored::OtherTable)));
    let got = rig.decode(Role::Mutations, None, Some(&of("t", "orders")));
    assert_eq!(got, Ok(Decoded::Truncate { table: 1 }));
}

#[test]
fn tables_of_a_database_without_schemas() {
    let mut rig = Rig::new(&[table("demo.hello", "M", None)], DecodeSettings::default());
    let value = live("u").replace("\"schema\":\"public\",", "");
    assert_eq!(rig.row(Role::Mutations, KEY, Some(&value)).op, Op::Upsert);
}

#[test]
fn a_tombstone_belongs_to_the_last_delete_of_its_key() {
    let mut rig = two_tables();
    for (name, index) in [("hello", 0), ("orders", 1), ("hello", 0)] {
        rig.row(Role::Mutations, KEY, Some(&of("d", name)));
        let got = rig.row(Role::Mutations, KEY, None);
        assert_eq!((got.table, got.op), (index, Op::Delete));
    }
    rig.decode(Role::Mutations, KEY, Some(&of("d", "other")))
        .unwrap();
    let got = rig.decode(Role::Mutations, KEY, None);
    assert_eq!(got, Ok(Decoded::Ignored(Ignored::OtherTable)));
}

#[test]
fn a_tombstone_without_its_delete() {
    // By the name of the key's schema.
    let mut rig = two_tables();
    let key = |name: &str| {
        let fields = r#"[{"type":"int32","field":"id"}]"#;
        let schema = format!(r#"{{"type":"struct","fields":{fields},"name":"app.{name}.Key"}}"#);
        format!(r#"{{"schema":{schema},"payload":{{"id":1}}}}"#)
    };
    let got = rig.row(Role::Mutations, Some(&key("public.orders")), None);
    assert_eq!(got.table, 1);
    assert_eq!(
        rig.row(Role::Mutations, Some(&key("public.hello")), None)
            .table,
        0
    );

    // By the columns of the key.
    let mut rig = two_tables();
    rig.row(Role::Mutations, KEY, Some(&of("u", "hello")));
    rig.row(
        Role::Mutations,
        Some(r#"{"order":1}"#),
        Some(&of("u", "orders")),
    );
    assert_eq!(
        rig.row(Role::Mutations, Some(r#"{"order":7}"#), None).table,
        1
    );
    assert_eq!(rig.row(Role::Mutations, Some(r#"{"id":7}"#), None).table, 0);

    // Not at all: its `d` has marked the key, in an earlier life of the process.
    let mut rig = two_tables();
    rig.row(Role::Mutations, KEY, Some(&of("u", "hello")));
    rig.row(Role::Mutations, KEY, Some(&of("u", "orders")));
    let got = rig.decode(Role::Mutations, KEY, None);
    assert_eq!(got, Ok(Decoded::Ignored(Ignored::SharedTombstone)));
}

#[test]
fn flattened_rows_must_say_whose_they_are() {
    let mut rig = two_tables();
    let named = r#"{"id":1,"__schema":"public","__table":"orders"}"#;
    assert_eq!(rig.row(Role::Mutations, KEY, Some(named)).table, 1);
    let named = r#"{"id":1,"__source_table":"hello"}"#;
    assert_eq!(rig.row(Role::Mutations, KEY, Some(named)).table, 0);
    let error = rig.refused(Role::Mutations, KEY, Some(r#"{"id":1}"#));
    assert!(matches!(error, DecodeError::AmbiguousTable { .. }));
    // The only sign of a delete, and nobody's.
    let error = rig.refused(Role::Mutations, KEY, None);
    assert!(matches!(error, DecodeError::AmbiguousTable { .. }));
}

#[test]
fn another_table_on_a_topic_of_one() {
    let mut rig = Rig::hello();
    let error = rig.refused(Role::Mutations, KEY, Some(&of("u", "hello_p1")));
    assert!(error.to_string().contains("`public.hello_p1`"), "{error}");
    let settings = DecodeSettings {
        other_tables: OtherTables::Ignore,
        ..DecodeSettings::default()
    };
    let mut rig = Rig::new(&[hello(None)], settings);
    let got = rig.decode(Role::Mutations, KEY, Some(&of("u", "hello_p1")));
    assert_eq!(got, Ok(Decoded::Ignored(Ignored::OtherTable)));
    let settings = DecodeSettings {
        signal_table: Some("public.sig".into()),
        ..DecodeSettings::default()
    };
    let mut rig = Rig::new(&[hello(None)], settings);
    let got = rig.decode(Role::Mutations, KEY, Some(&of("d", "sig")));
    assert_eq!(got, Ok(Decoded::Ignored(Ignored::Signal)));
}
