//! What a target shows: the lines of JSON lines files, the rows of an SQLite table.
//!
//! Invariant: half a line at the end of a file, as a crash leaves it, is no line; anything else
//! that is no line ends the test.

use crate::history::Seen;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// The target's path in a scenario's folder.
pub(crate) const JSONL: &str = "out";
pub(crate) const SQLITE: &str = "item.sqlite";

/// One line: a key, and its row or a delete.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Line {
    pub(crate) key: u32,
    pub(crate) row: Option<Seen>,
}

/// The lines of one worker of one incarnation.
#[derive(Clone, Debug)]
pub(crate) struct Lines {
    pub(crate) incarnation: u64,
    pub(crate) worker: u64,
    pub(crate) lines: Vec<Line>,
}

/// The incarnation and worker of a file of the target, by its name.
fn place(name: &str) -> Option<(u64, u64)> {
    let rest = name.strip_prefix(JSONL)?.strip_prefix('.')?;
    let (incarnation, worker) = rest.strip_suffix(".jsonl")?.split_once('.')?;
    Some((incarnation.parse().ok()?, worker.parse().ok()?))
}

/// The files of the incarnations after `after`, in order of incarnation and worker.
pub(crate) fn jsonl(folder: &Path, after: u64) -> Vec<Lines> {
    let mut all = Vec::new();
    for entry in fs::read_dir(folder).expect("the folder") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().expect("a name").to_string_lossy();
        let Some((incarnation, worker)) = place(&name) else {
            continue;
        };
        if incarnation > after {
            let text = fs::read_to_string(&path).expect("UTF-8");
            all.push(Lines {
                incarnation,
                worker,
                lines: lines(&text),
            });
        }
    }
    all.sort_by_key(|file| (file.incarnation, file.worker));
    all
}

fn lines(text: &str) -> Vec<Line> {
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    whole.lines().map(line).collect()
}

fn line(text: &str) -> Line {
    let json: Value = serde_json::from_str(text).unwrap_or_else(|e| panic!("{e}: {text}"));
    let number = |value: &Value| {
        let number = value.as_u64().and_then(|number| u32::try_from(number).ok());
        number.unwrap_or_else(|| panic!("no number in {text}"))
    };
    let row = &json["row"];
    let row = (!row.is_null()).then(|| {
        assert_eq!(row["id"], json["key"]["id"], "{text}");
        let origin = row["origin"].as_str().expect("an origin").to_owned();
        (number(&row["seq"]), origin)
    });
    Line {
        key: number(&json["key"]["id"]),
        row,
    }
}

/// The rows that an upsert log ends in: the last line of a key in its last incarnation counts.
pub(crate) fn rows_of(files: &[Lines]) -> BTreeMap<u32, Seen> {
    let mut rows = BTreeMap::new();
    for line in files.iter().flat_map(|file| &file.lines) {
        match &line.row {
            Some(row) => rows.insert(line.key, row.clone()),
            None => rows.remove(&line.key),
        };
    }
    rows
}

/// Makes the SQLite target.
pub(crate) fn make_sqlite(folder: &Path) {
    let database = rusqlite::Connection::open(folder.join(SQLITE)).expect("a database");
    let table = "CREATE TABLE item (id INTEGER PRIMARY KEY, seq INTEGER, origin TEXT, text TEXT)";
    database.execute_batch(table).expect("a table");
}

/// Its rows.
pub(crate) fn sqlite(folder: &Path) -> BTreeMap<u32, Seen> {
    let database = rusqlite::Connection::open(folder.join(SQLITE)).expect("a database");
    let wait = std::time::Duration::from_secs(10);
    database.busy_timeout(wait).expect("it can wait");
    let mut query = database
        .prepare("SELECT id, seq, origin FROM item")
        .expect("a table");
    let rows = query.query_map([], |row| Ok((row.get(0)?, (row.get(1)?, row.get(2)?))));
    rows.expect("rows").map(|row| row.expect("a row")).collect()
}

/// Whether somebody is amid a transaction that writes there.
pub(crate) fn is_locked(folder: &Path) -> bool {
    let database = rusqlite::Connection::open(folder.join(SQLITE)).expect("a database");
    database
        .busy_timeout(std::time::Duration::ZERO)
        .expect("it need not wait");
    database.execute_batch("BEGIN IMMEDIATE; ROLLBACK").is_err()
}

#[cfg(test)]
mod tests {
    use super::{Line, line, lines, place};

    #[test]
    fn a_half_line_at_the_end_is_none() {
        let whole = "{\"table\":\"t\",\"key\":{\"id\":1},\"row\":null,\"version\":1}\n";
        assert_eq!(
            lines(&format!("{whole}{{\"ta")),
            [Line { key: 1, row: None }]
        );
        assert_eq!(lines("{\"ta"), []);
        let row = "{\"key\":{\"id\":1},\"row\":{\"id\":1,\"seq\":4,\"origin\":\"read\"}}";
        assert_eq!(line(row).row, Some((4, "read".to_owned())));
    }

    #[test]
    fn files_are_known_by_their_names() {
        assert_eq!(place("out.12.0.jsonl"), Some((12, 0)));
        assert_eq!(place("out.quarantine"), None);
        assert_eq!(place("other.1.2.jsonl"), None);
    }
}
