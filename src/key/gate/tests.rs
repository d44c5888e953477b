//! The gate passes equal shapes only, and says what to do about others.

use super::super::{Class, KeyShape};
use super::KeyGate;
use crate::table::{Role, Table};

fn shape(columns: &[(&str, Class)]) -> KeyShape {
    let columns = columns
        .iter()
        .map(|(name, class)| ((*name).to_owned(), *class));
    KeyShape::new(columns.collect())
}

fn gate(key: Option<&[&str]>) -> KeyGate {
    KeyGate::new(&[Table {
        name: "public.hello".into(),
        mutations: "app.public.hello".into(),
        snapshot: "snap_g1.public.hello".into(),
        key: key.map(|columns| columns.iter().map(|column| (*column).to_owned()).collect()),
    }])
}

#[test]
fn equal_shapes_pass_in_any_order() {
    let gate = gate(None);
    let one = shape(&[("id", Class::Number), ("region", Class::Text)]);
    let two = shape(&[("region", Class::Text), ("id", Class::Number)]);
    assert_eq!(one, two);
    gate.observe(0, Role::Mutations, &one).unwrap();
    gate.observe(0, Role::Snapshot, &two).unwrap();
    gate.observe(0, Role::Snapshot, &two).unwrap();
    assert_eq!(gate.shapes().len(), 2);
}

#[test]
fn another_column_is_refused_with_the_cure() {
    let gate = gate(None);
    let id = shape(&[("id", Class::Number)]);
    let routed = shape(&[
        ("id", Class::Number),
        ("__dbz__physicalTableIdentifier", Class::Text),
    ]);
    gate.observe(0, Role::Mutations, &id).unwrap();
    let mismatch = gate.observe(0, Role::Snapshot, &routed).unwrap_err();
    assert_eq!(
        mismatch.to_string(),
        "the key of `public.hello` differs between its two topics\n  \
         mutations  app.public.hello      {id: number}\n  \
         snapshot   snap_g1.public.hello  {__dbz__physicalTableIdentifier: text, id: number}\n  \
         Markers could never match READs, so every stale row would pass.\n  \
         Set `key = [\"id\"]` for this table, or `key.enforce.uniqueness=false` in the connector's \
         router."
    );
    // Refused is not remembered.
    assert_eq!(gate.shapes().len(), 1);
    gate.observe(0, Role::Snapshot, &id).unwrap();
}

#[test]
fn another_class_and_a_change_are_refused() {
    let gate = gate(Some(&["id"]));
    gate.observe(0, Role::Snapshot, &shape(&[("id", Class::Text)]))
        .unwrap();
    let text = gate
        .observe(0, Role::Mutations, &shape(&[("id", Class::Number)]))
        .unwrap_err()
        .to_string();
    assert!(
        text.contains("Column `id` is text on one side and number on the other."),
        "{text}"
    );
    let text = gate
        .observe(0, Role::Snapshot, &shape(&[("id", Class::Uuid)]))
        .unwrap_err()
        .to_string();
    assert!(
        text.contains("has changed within its snapshot topic"),
        "{text}"
    );
    assert!(text.contains("schemas.enable"), "{text}");
}
