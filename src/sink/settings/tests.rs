//! Settings that are read, and settings that are refused.

use super::{SinkKind, SinkSettings, build};
use crate::error::Error;
use crate::sink::testing::table;
use crate::table::Table;
use std::collections::BTreeMap;

fn read(text: &str) -> Result<SinkSettings, toml::de::Error> {
    toml::from_str(text)
}

fn built(text: &str, tables: &[Table]) -> Result<(), Error> {
    build(&read(text).unwrap(), tables, &BTreeMap::new(), 1).map(|_| ())
}

#[test]
fn defaults_are_those_of_the_kind() {
    assert_eq!(
        read("kind = \"null\"").unwrap(),
        SinkSettings::new(SinkKind::Null)
    );
    assert!(
        read("kind = \"null\"\ncolour = 1")
            .unwrap_err()
            .message()
            .contains("colour")
    );
    assert!(
        read("kind = \"mysql\"")
            .unwrap_err()
            .message()
            .contains("postgres")
    );
    assert!(read("kind = \"null\"\non_error = \"skip\"").is_err());
}

#[test]
fn settings_of_another_kind_are_refused() {
    let one = [table("a.b")];
    for (text, part) in [
        ("kind = \"null\"\nurl = \"x\"", "sink.url"),
        (
            "kind = \"jsonl\"\npath = \"x\"\nunknown_columns = \"drop\"",
            "sink.unknown_columns",
        ),
        (
            "kind = \"postgres\"\nurl = \"postgres://h\"\nsetup_sql = \"x\"",
            "sink.setup_sql",
        ),
        (
            "kind = \"sqlite\"\npath = \"x\"\nconnections = 2",
            "sink.connections",
        ),
        ("kind = \"sqlite\"", "needs sink.path"),
        ("kind = \"postgres\"", "needs sink.url"),
        ("kind = \"null\"\nbatch_rows_max = 0", "batch_rows_max"),
        ("kind = \"kafka\"\ntopic = \"t\"", "no broker"),
        (
            "kind = \"sqlite\"\npath = \"x\"\nnames = { \"b\" = \"c\" }",
            "which is no table",
        ),
        (
            "kind = \"postgres\"\nurl = \"postgres://h?sslmode=require\"",
            "TLS",
        ),
    ] {
        let error = built(text, &one).unwrap_err();
        assert!(error.text.contains(part), "{part} is not in {error}");
        assert_eq!(error.kind.exit_code(), 2);
    }
}

#[test]
fn an_url_is_not_shown() {
    let error = built(
        "kind = \"postgres\"\nurl = \"postgres://u:hush@h:port/d\"",
        &[],
    )
    .unwrap_err();
    assert!(!error.text.contains("hush"), "{error}");
}

#[test]
fn targets_of_tables_differ_and_are_not_sources() {
    let two = [table("a.t"), table("b.t")];
    let error = built("kind = \"sqlite\"\npath = \"x\"", &two).unwrap_err();
    assert!(error.text.contains("same target `t`"), "{error}");
    built(
        "kind = \"sqlite\"\npath = \"x\"\nnames = { \"b.t\" = \"u\" }",
        &two,
    )
    .unwrap();
    let broker = BTreeMap::from([("bootstrap.servers".to_owned(), "h:1".to_owned())]);
    let settings = read("kind = \"kafka\"\ntopic = \"app.a.t\"").unwrap();
    let error = build(&settings, &two[..1], &broker, 1).err().unwrap();
    assert!(error.text.contains("is read from"), "{error}");
}
