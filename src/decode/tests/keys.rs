//! Keys: one fingerprint for a row however its key is written, and the refusals.

use super::{KEY, Rig, envelope, hello, live};
use crate::decode::{DecodeError, DecodeSettings};
use crate::table::Role;
use headwater_operators::record::Op;

fn schema_key(name: &str, fields: &str, payload: &str) -> String {
    let last = format!(r#""optional":false,"name":"{name}.Key""#);
    let schema = format!(r#"{{"type":"struct","fields":[{fields}],{last}}}"#);
    format!(r#"{{"schema":{schema},"payload":{payload}}}"#)
}

fn field(kind: &str, name: &str) -> String {
    format!(r#"{{"type":"{kind}","optional":false,"field":"{name}"}}"#)
}

fn read_value() -> String {
    envelope("r", "\"true\"", "hello")
}

#[test]
fn framing_width_and_prefix_do_not_matter() {
    let mut rig = Rig::hello();
    let want = rig.mutation(KEY, &live("u")).fingerprint;
    let app = schema_key("app.public.hello", &field("int32", "id"), KEY);
    let snap = schema_key("snap.public.hello", &field("int64", "id"), KEY);
    // Mixed within one topic, again and again: each layout keeps its plan.
    for _ in 0..3 {
        for key in [
            app.as_str(),
            &snap,
            KEY,
            " { \"id\" : 1 } ",
            r#"{"schema":null,"payload":{"id":1}}"#,
        ] {
            assert_eq!(rig.mutation(key, &live("u")).fingerprint, want, "{key}");
            assert_eq!(rig.read(key, &read_value()).fingerprint, want, "{key}");
            assert_eq!(rig.row(Role::Mutations, Some(key), None).fingerprint, want);
        }
    }
    assert_ne!(rig.mutation(r#"{"id":2}"#, &live("u")).fingerprint, want);
}

#[test]
fn column_order_does_not_matter() {
    let mut rig = Rig::hello();
    let one = rig
        .mutation(r#"{"region":"eu","id":1}"#, &live("u"))
        .fingerprint;
    for _ in 0..2 {
        assert_eq!(
            rig.mutation(r#"{"id":1,"region":"eu"}"#, &live("u"))
                .fingerprint,
            one
        );
        assert_eq!(
            rig.read(r#"{"id":1,"region":"eu"}"#, &read_value())
                .fingerprint,
            one
        );
        assert_eq!(
            rig.mutation(r#"{"region":"eu","id":1}"#, &live("u"))
                .fingerprint,
            one
        );
    }
}

#[test]
fn a_text_key_against_a_number_is_refused() {
    let mut rig = Rig::hello();
    rig.mutation(KEY, &live("u"));
    let error = rig.refused(Role::Snapshot, Some(r#"{"id":"1"}"#), Some(&read_value()));
    assert!(error.to_string().contains("`id`"), "{error}");
    // And within one topic.
    let error = rig.refused(Role::Mutations, Some(r#"{"id":"1"}"#), Some(&live("u")));
    assert!(error.to_string().contains("has changed"), "{error}");
    let error = rig.refused(Role::Mutations, Some(r#"{"id":1,"x":2}"#), Some(&live("u")));
    assert!(error.to_string().contains("has changed"), "{error}");
    // The decoder goes on as if it had not been.
    rig.mutation(KEY, &live("u"));
}

#[test]
fn router_fields_are_refused_or_left_out() {
    let app = r#"{"id":1,"__dbz__physicalTableIdentifier":"app.public.hello"}"#;
    let snap = r#"{"id":1,"__dbz__physicalTableIdentifier":"snap.public.hello"}"#;
    let mut rig = Rig::hello();
    rig.mutation(app, &live("u"));
    let error = rig.refused(Role::Snapshot, Some(KEY), Some(&read_value()));
    assert!(
        error.to_string().contains("__dbz__physicalTableIdentifier"),
        "{error}"
    );

    let mut rig = Rig::new(&[hello(Some(&["id"]))], DecodeSettings::default());
    let want = rig.mutation(app, &live("u"));
    assert_eq!(want.key, app);
    assert_eq!(rig.read(snap, &read_value()).fingerprint, want.fingerprint);
    assert_eq!(rig.read(KEY, &read_value()).fingerprint, want.fingerprint);
}

#[test]
fn keys_from_the_row() {
    let mut rig = Rig::hello();
    for key in [
        None,
        Some("null"),
        Some(r#"{"schema":null,"payload":null}"#),
    ] {
        let error = rig.refused(Role::Mutations, key, Some(&live("u")));
        assert!(matches!(error, DecodeError::NoKey { .. }));
        assert!(error.to_string().contains("key = [..]"));
        rig.refused(Role::Mutations, key, None);
    }

    let mut rig = Rig::new(&[hello(Some(&["id"]))], DecodeSettings::default());
    let want = rig.mutation(KEY, &live("u")).fingerprint;
    let got = rig.row(Role::Mutations, None, Some(&live("u")));
    assert_eq!((got.fingerprint, got.key.as_str()), (want, KEY));
    let got = rig.row(Role::Snapshot, None, Some(&read_value()));
    assert_eq!((got.fingerprint, got.key.as_str()), (want, KEY));
    let got = rig.row(Role::Mutations, None, Some(&live("d")));
    assert_eq!(
        (got.fingerprint, got.key.as_str(), got.op),
        (want, KEY, Op::Delete)
    );
    // Flattened, deleted by its helper member.
    let got = rig.row(
        Role::Mutations,
        None,
        Some(r#"{"id":1,"__deleted":"true"}"#),
    );
    assert_eq!((got.fingerprint, got.op), (want, Op::Delete));

    let row = r#"{"id":1,"greeting":null}"#;
    for before in ["null", "{}", r#"{"id":null}"#] {
        let value = live("d").replace(row, before);
        rig.refused(Role::Mutations, None, Some(&value));
    }
    let error = rig.refused(Role::Mutations, None, None);
    assert!(matches!(error, DecodeError::NoKey { .. }));
}

#[test]
fn a_key_from_the_row_must_not_move() {
    let mut rig = Rig::new(&[hello(Some(&["id"]))], DecodeSettings::default());
    let with = |before: &str| live("u").replace("\"before\":null", &format!("\"before\":{before}"));
    rig.row(
        Role::Mutations,
        None,
        Some(&with(r#"{"id":1,"greeting":"y"}"#)),
    );
    rig.row(
        Role::Mutations,
        None,
        Some(&with(r#"{"id":null,"greeting":null}"#)),
    );
    let error = rig.refused(
        Role::Mutations,
        None,
        Some(&with(r#"{"id":2,"greeting":"y"}"#)),
    );
    assert!(matches!(error, DecodeError::KeyChange { .. }));
    // With a key of its own Debezium sends a delete of the old one.
    rig.mutation(KEY, &with(r#"{"id":2,"greeting":"y"}"#));
}

#[test]
fn configured_columns_must_be_there() {
    let mut rig = Rig::new(&[hello(Some(&["id", "region"]))], DecodeSettings::default());
    let error = rig.refused(Role::Mutations, Some(KEY), Some(&live("u")));
    assert!(
        error
            .to_string()
            .contains("`region` of `public.hello` is not in the record's key")
    );
    let error = rig.refused(
        Role::Mutations,
        Some(r#"{"id":1,"region":null}"#),
        Some(&live("u")),
    );
    assert!(matches!(error, DecodeError::NullKeyColumn { .. }));
    let two = rig
        .mutation(r#"{"region":"eu","x":1,"id":1}"#, &live("u"))
        .fingerprint;
    assert_eq!(
        rig.mutation(r#"{"id":1,"region":"eu"}"#, &live("u"))
            .fingerprint,
        two
    );
}

#[test]
fn scalar_keys_need_a_name() {
    let mut rig = Rig::hello();
    let error = rig.refused(Role::Mutations, Some("1"), Some(&live("u")));
    assert!(matches!(error, DecodeError::ScalarKey { .. }));
    let mut rig = Rig::new(&[hello(Some(&["id"]))], DecodeSettings::default());
    let want = rig.mutation(KEY, &live("u")).fingerprint;
    for key in ["1", r#"{"schema":{"type":"int32"},"payload":1}"#, "1.0"] {
        assert_eq!(rig.mutation(key, &live("u")).fingerprint, want, "{key}");
    }
    rig.refused(Role::Mutations, Some("\"1\""), Some(&live("u")));
}

#[test]
fn keys_that_cannot_be_read() {
    for key in [
        "Struct{id=1}",
        "",
        "{",
        r#"{"id":1"#,
        r#"{"id":1}x"#,
        r#"{"id":[1]}"#,
        r#"{"id":{"a":1}}"#,
        r#"{"id":1,"id":1}"#,
        "\u{0}\u{0}\u{0}\u{0}\u{1}\u{2}",
        r#"{"id":"\ud800"}"#,
        r#"{"schema":{"type":"struct","fields":[]},"payload":{"id":1}}"#,
        concat!(
            r#"{"schema":{"type":"struct","fields":[{"type":"string","field":"id"}]},"#,
            r#""payload":{"id":1}}"#
        ),
    ] {
        let mut rig = Rig::hello();
        for _ in 0..2 {
            assert!(
                rig.decode(Role::Mutations, Some(key), Some(&live("u")))
                    .is_err(),
                "{key}"
            );
        }
    }
    let mut rig = Rig::hello();
    let error = rig.refused(Role::Mutations, Some(r#"{"id":null}"#), Some(&live("u")));
    assert!(matches!(error, DecodeError::NullKeyColumn { .. }));
}

#[test]
fn big_integers_are_exact() {
    let mut rig = Rig::hello();
    let one = rig
        .mutation(r#"{"id":9007199254740993}"#, &live("u"))
        .fingerprint;
    let two = rig
        .read(r#"{"id":9007199254740992}"#, &read_value())
        .fingerprint;
    assert_ne!(one, two);
}
