//! Lines as the output writes them, to lists and signals.

use super::index::{Index, Wanted};
use super::{list, signal};
use crate::cli::{SignalArgs, SnapshotType, Via};
use crate::config::Config;
use std::fs;
use std::path::Path;

const CONFIG: &str = r#"
job = "q"
[[table]]
name = "public.hello"
mutations = "app.public.hello"
snapshot = "snap_g1.public.hello"
[[table]]
name = "public.Odd-1"
mutations = "app.odd"
snapshot = "snap_g1.odd"
[decode]
signal_table = "public.debezium_signal"
"#;

fn config() -> Config {
    Config::parse("test", CONFIG, &[]).unwrap().config
}

fn line(table: &str, offset: u64, reason: &str, key: &str) -> String {
    format!(
        "{{\"topic\":\"snap\",\"role\":\"snapshot\",\"table\":\"{table}\",\"partition\":1,\
         \"offset\":{offset},\"generation\":1,\"version\":9,\"reason\":\"{reason}\",{key},\
         \"value\":{{\"after\":{{\"greeting\":\"private\"}}}}}}\n"
    )
}

fn read(folder: &Path, table: Option<&str>, key: Option<&str>) -> (Index, Vec<String>) {
    let wanted = Wanted::new(&config().tables(), table, key).unwrap();
    let mut lines = Vec::new();
    let index = Index::read(folder, &wanted, &mut |line| {
        lines.push(line.to_owned());
        Ok(())
    });
    (index.unwrap(), lines)
}

fn args(via: Via, snapshot: SnapshotType) -> SignalArgs {
    SignalArgs {
        via,
        snapshot,
        signal_table: None,
        topic_prefix: None,
        keys_max: 1_000,
        data_chars_max: None,
    }
}

fn hello(folder: &Path) {
    let one = line("public.hello", 5, "forgotten_markers", "\"key\":{\"id\":5}");
    let framed = "\"key\":{\"schema\":{\"type\":\"struct\",\"fields\":[{\"type\":\"int32\",\
        \"field\":\"id\"}]},\"payload\":{\"id\":5}}";
    let late = line("public.hello", 9, "late", framed);
    let other = line("public.hello", 6, "late", "\"key\":{\"id\":40}");
    fs::write(folder.join("quarantine.1.0.jsonl"), format!("{one}{other}")).unwrap();
    // A later run wrote one of them again, and was killed amid a line.
    fs::write(
        folder.join("quarantine.10.1.jsonl"),
        format!("{one}{late}{}", &one[..40]),
    )
    .unwrap();
    fs::write(folder.join("notes.txt"), "not ours").unwrap();
}

#[test]
fn a_record_counts_once_and_keys_are_found_however_they_are_written() {
    let folder = tempfile::tempdir().unwrap();
    hello(folder.path());
    let (index, lines) = read(folder.path(), None, None);
    assert_eq!(lines.len(), 3);
    assert!(lines[2].contains("\"offset\":9"), "{lines:?}");
    let text = list::table(&index, 1);
    let forgotten = format!(
        "public.hello  forgotten_markers  {:>10}  {:>9}  {:>9}\n",
        "g1", 1, 1
    );
    assert!(text.contains(&forgotten), "{text}");
    assert!(
        text.contains("public.hello {\"id\":40}  snap[1]@6 late\nand 1 more key"),
        "{text}"
    );
    assert!(!text.contains("private"), "{text}");
    let json: serde_json::Value = serde_json::from_str(&list::json(&index, 9)).unwrap();
    assert_eq!(
        (&json["records"], &json["keys"]),
        (&3.into(), &2.into()),
        "{json}"
    );
    assert_eq!(json["first_keys"][1]["key"]["id"], 5, "{json}");
    assert_eq!(json["first_keys"][1]["records"][1]["offset"], 9, "{json}");
    let (_, lines) = read(folder.path(), Some("public.hello"), Some("{ \"id\" : 5 }"));
    assert_eq!(lines.len(), 2);
    let (index, _) = read(folder.path(), Some("public.Odd-1"), None);
    assert_eq!(list::table(&index, 9), "nothing is in quarantine\n");
    assert!(Wanted::new(&config().tables(), Some("x"), None).is_err());
    assert!(Wanted::new(&config().tables(), None, Some("5")).is_err());
    let (_, lines) = read(&folder.path().join("none"), None, None);
    assert!(lines.is_empty());
    let broken = folder.path().join("quarantine.2.0.jsonl");
    fs::write(broken, "{\"topic\":\"private\"\n").unwrap();
    let wanted = Wanted::new(&[], None, None).unwrap();
    let error = Index::read(folder.path(), &wanted, &mut |_| Ok(())).unwrap_err();
    assert!(error.text.contains("quarantine.2.0.jsonl") && error.text.contains("line 1"));
    assert!(!error.text.contains("private"), "{error}");
}

#[test]
fn a_signal_reads_just_the_keys() {
    let folder = tempfile::tempdir().unwrap();
    hello(folder.path());
    let (index, _) = read(folder.path(), None, None);
    let config = config();
    let sql = signal::signals(&config, &index, &args(Via::Sql, SnapshotType::Incremental)).unwrap();
    assert!(sql.notices.is_empty());
    let [about, insert] = &sql.lines[..] else {
        panic!("{:?}", sql.lines)
    };
    assert_eq!(about, "-- public.hello: signal 1 of 1, 2 keys");
    let (head, data) = insert.split_once("', 'execute-snapshot', ").unwrap();
    let id =
        head.strip_prefix("INSERT INTO \"public\".\"debezium_signal\" (id, type, data) VALUES ('");
    assert!(id.unwrap().len() <= 42, "{head}");
    // The quotes of the JSON's identifiers are escaped by a backslash.
    let data = data
        .strip_prefix("E'")
        .and_then(|data| data.strip_suffix("');"))
        .unwrap();
    let data: serde_json::Value = serde_json::from_str(&data.replace("\\\\", "\\")).unwrap();
    assert_eq!(
        data,
        serde_json::json!({
            "type": "incremental",
            "data-collections": ["public.hello"],
            "additional-conditions":
                [{"data-collection": "public.hello", "filter": "\"id\" IN (40, 5)"}],
        })
    );
    let blocking = args(Via::Kafka, SnapshotType::Blocking);
    let kafka = signal::signals(&config, &index, &blocking).unwrap().lines;
    let (prefix, value) = kafka[0].split_once('\t').unwrap();
    assert_eq!(prefix, "snap_g1");
    let value: serde_json::Value = serde_json::from_str(value).unwrap();
    assert_eq!(value["type"], "execute-snapshot");
    assert_eq!(
        value["data"]["additional-conditions"][0]["filter"],
        "SELECT * FROM \"public\".\"hello\" WHERE \"id\" IN (40, 5)"
    );
    let (index, _) = read(folder.path(), None, None);
    let cut = SignalArgs {
        keys_max: 1,
        ..args(Via::Sql, SnapshotType::Incremental)
    };
    assert_eq!(
        signal::signals(&config, &index, &cut).unwrap().lines.len(),
        4
    );
}

#[test]
fn names_and_values_are_quoted_and_signals_are_bounded() {
    let folder = tempfile::tempdir().unwrap();
    let mut lines = String::new();
    for n in 0..500 {
        let key = format!("\"key\":{{\"b\\\"c\":\"it's {n} \\\\ \\\"x\",\"a\":{n}}}");
        lines += &line("public.Odd-1", n, "late", &key);
    }
    lines += &line("public.Odd-1", 900, "late", "\"key_base64\":\"/w==\"");
    lines += &line(
        "public.Odd-1",
        901,
        "late",
        "\"key\":{\"a\":null,\"b\\\"c\":\"x\"}",
    );
    fs::write(folder.path().join("quarantine.1.0.jsonl"), lines).unwrap();
    let (index, _) = read(folder.path(), None, None);
    let config = config();
    let kafka = args(Via::Kafka, SnapshotType::Incremental);
    let error = signal::signals(&config, &index, &kafka).unwrap_err();
    assert!(error.text.contains("--topic-prefix"), "{error}");
    let sql = args(Via::Sql, SnapshotType::Incremental);
    let signals = signal::signals(&config, &index, &sql).unwrap();
    assert_eq!(signals.notices.len(), 1, "{:?}", signals.notices);
    assert!(
        signals.notices[0].contains("2 keys are left out"),
        "{:?}",
        signals.notices
    );
    let mut keys = 0;
    for line in signals
        .lines
        .iter()
        .filter(|line| line.starts_with("INSERT"))
    {
        let (_, data) = line.split_once("'execute-snapshot', E'").unwrap();
        let data = data
            .strip_suffix("');")
            .unwrap()
            .replace("''", "'")
            .replace("\\\\", "\\");
        assert!(data.len() <= 2_048, "{}", data.len());
        let data: serde_json::Value = serde_json::from_str(&data).unwrap();
        assert_eq!(data["data-collections"][0], "public.Odd\\-1");
        let filter = data["additional-conditions"][0]["filter"].as_str().unwrap();
        assert!(filter.starts_with("(\"a\", \"b\"\"c\") IN (("), "{filter}");
        let text = filter.matches("E'it''s ").count();
        assert_eq!(text, filter.matches(" \\\\ \"x')").count(), "{filter}");
        keys += text;
    }
    assert_eq!(keys, 500);
    // The same again, so that the primary key of the signalling table tells.
    let again = signal::signals(&config, &index, &sql).unwrap();
    assert_eq!(again.lines, signals.lines);
}
