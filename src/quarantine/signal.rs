//! `headwater quarantine signal`: Debezium's ad hoc snapshot of just the keys that are in
//! quarantine (Debezium's manual, "Sending signals": `execute-snapshot` with
//! `additional-conditions`).
//!
//! A filter of an incremental snapshot is a condition, that of a blocking one a whole SELECT.
//! Names of data collections are regular expressions, so what means something in one is escaped; a
//! dot is not, as a name has dots nowhere else.
//!
//! Invariant: every key is in exactly one signal, and no signal is longer than what was asked for,
//! unless one key alone is. The id of a signal is a digest of its data: the same signal sent twice
//! meets the primary key of the signalling table.
//!
//! It cannot send anything, and writes SQL as PostgreSQL reads it.

use super::index::Index;
use super::literal::{Literals, quoted as text_literal};
use crate::cli::{SignalArgs, SnapshotType, Via};
use crate::config::Config;
use crate::error::Error;
use crate::sink::postgres::catalogue::sql_name;
use crate::sink::target::quoted;
use serde_json::json;
use serde_json::value::RawValue;
use sha2::{Digest, Sha256};

const SQL_CHARS_MAX: usize = 2_048;
const KAFKA_CHARS_MAX: usize = 262_144;

/// What is printed.
#[derive(Debug, Default)]
pub(super) struct Signals {
    pub(super) lines: Vec<String>,
    pub(super) notices: Vec<String>,
}

/// The signals for everything in the index.
pub(super) fn signals(config: &Config, index: &Index, args: &SignalArgs) -> Result<Signals, Error> {
    let mut signals = Signals::default();
    let chars_max = args.data_chars_max.unwrap_or(match args.via {
        Via::Sql => SQL_CHARS_MAX,
        Via::Kafka => KAFKA_CHARS_MAX,
    });
    for (table, entries) in &index.tables {
        let to = Receiver::of(config, table, args)?;
        let (mut keys, mut unread) = (Vec::new(), Vec::new());
        for (key, entry) in entries {
            match &entry.literals {
                Ok(literals) => keys.push(literals),
                Err(reason) => unread.push(format!("{key}: {reason}")),
            }
        }
        if let Some(first) = unread.first() {
            let count = unread.len();
            let notice = format!("{table}: {count} keys are left out, the first is {first}");
            signals.notices.push(notice);
        }
        let chunks = chunks(table, &keys, args, chars_max);
        let many = chunks.len();
        for (place, chunk) in chunks.iter().enumerate() {
            let data = data(table, chunk, args.snapshot);
            if data.len() > chars_max {
                let notice = format!(
                    "{table}: a signal of one key has {} characters, more than {chars_max}",
                    data.len()
                );
                signals.notices.push(notice);
            }
            if args.via == Via::Sql {
                let (place, count) = (place + 1, chunk.len());
                let about = format!("-- {table}: signal {place} of {many}, {count} keys");
                signals.lines.push(about.replace('\n', " "));
            }
            signals.lines.push(to.line(&data));
        }
    }
    Ok(signals)
}

/// Who gets the signals of a table.
enum Receiver {
    /// The signalling table, as it stands in SQL.
    Table(String),
    /// The key of the records.
    Prefix(String),
}

impl Receiver {
    fn of(config: &Config, table: &str, args: &SignalArgs) -> Result<Receiver, Error> {
        if args.via == Via::Sql {
            let named = args
                .signal_table
                .as_ref()
                .or(config.decode.signal_table.as_ref());
            let named = named.ok_or_else(|| {
                Error::usage("the signalling table is not known")
                    .line(
                        "expected  --signal-table SCHEMA.TABLE, or decode.signal_table, as in the",
                    )
                    .line("          connector's `signal.data.collection`")
            })?;
            return Ok(Receiver::Table(sql_name(named)));
        }
        if let Some(prefix) = &args.topic_prefix {
            return Ok(Receiver::Prefix(prefix.clone()));
        }
        let topics = config.tables.iter().filter(|known| known.name == table);
        let mut prefixes =
            topics.filter_map(|known| known.snapshot.strip_suffix(&format!(".{table}")));
        match prefixes
            .next()
            .filter(|prefix| !prefix.starts_with("file:"))
        {
            Some(prefix) => Ok(Receiver::Prefix(prefix.to_owned())),
            None => Err(Error::usage("the connector's `topic.prefix` is not known")
                .line(format!(
                    "found     a snapshot topic not named PREFIX.{table}"
                ))
                .line("expected  --topic-prefix PREFIX of the connector that shall read the keys")),
        }
    }

    /// A signal as it is sent.
    fn line(&self, data: &str) -> String {
        let hash = Sha256::digest(data.as_bytes());
        // 42 characters are what the manual's signalling table has for it.
        let hash: String = hash
            .iter()
            .take(12)
            .map(|byte| format!("{byte:02x}"))
            .collect();
        let id = format!("headwater-{hash}");
        match self {
            Receiver::Table(table) => {
                let data = text_literal(data).expect("JSON has no NUL");
                format!(
                    "INSERT INTO {table} (id, type, data) VALUES ('{id}', 'execute-snapshot', \
                     {data});"
                )
            }
            Receiver::Prefix(prefix) => {
                let data = RawValue::from_string(data.to_owned()).expect("it was made as JSON");
                let value = json!({ "id": id, "type": "execute-snapshot" }).to_string();
                let value = value.trim_end_matches('}');
                format!("{prefix}\t{value},\"data\":{data}}}")
            }
        }
    }
}

/// Cuts keys into signals of bounded size.
fn chunks<'k>(
    table: &str,
    keys: &[&'k Literals],
    args: &SignalArgs,
    chars_max: usize,
) -> Vec<Vec<&'k Literals>> {
    let mut chunks: Vec<Vec<&Literals>> = Vec::new();
    let mut chars = 0;
    for key in keys {
        // As JSON and, in the worst case, with every quote doubled in SQL.
        let size: usize = key
            .iter()
            .map(|(_, value)| json!(value).to_string().len() + 2)
            .sum();
        let fits = chunks.last().is_some_and(|chunk| {
            let same = chunk[0]
                .iter()
                .map(|(name, _)| name)
                .eq(key.iter().map(|(name, _)| name));
            same && chunk.len() < args.keys_max && chars + size <= chars_max
        });
        match chunks.last_mut() {
            Some(chunk) if fits => chunk.push(key),
            _ => {
                chars = data(table, &[], args.snapshot).len();
                chars += key
                    .iter()
                    .map(|(name, _)| json!(name).to_string().len() + 4)
                    .sum::<usize>();
                chunks.push(vec![key]);
            }
        }
        chars += size + 4;
    }
    chunks
}

/// The `data` of a signal that reads these keys, which have the same columns.
fn data(table: &str, keys: &[&Literals], snapshot: SnapshotType) -> String {
    let names: Vec<String> = keys
        .first()
        .map(|key| key.iter().map(|(name, _)| quoted(name)).collect())
        .unwrap_or_default();
    let several = names.len() > 1;
    let tuple = |values: Vec<&str>| match several {
        true => format!("({})", values.join(", ")),
        false => values.join(", "),
    };
    let values: Vec<String> = keys
        .iter()
        .map(|key| tuple(key.iter().map(|(_, value)| value.as_str()).collect()))
        .collect();
    let names = tuple(names.iter().map(String::as_str).collect());
    let condition = format!("{names} IN ({})", values.join(", "));
    let filter = match snapshot {
        SnapshotType::Incremental => condition,
        SnapshotType::Blocking => format!("SELECT * FROM {} WHERE {condition}", sql_name(table)),
    };
    let pattern = pattern(table);
    json!({
        "type": snapshot.word(),
        "data-collections": [pattern],
        "additional-conditions": [{ "data-collection": pattern, "filter": filter }],
    })
    .to_string()
}

/// A name as a regular expression of Java that matches it alone.
fn pattern(name: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || c == '_' || c == '.';
    let mut pattern = String::new();
    for c in name.chars() {
        if !plain(c) {
            pattern.push('\\');
        }
        pattern.push(c);
    }
    pattern
}
