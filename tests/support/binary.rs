//! The real binary on `file:` topics: a folder, its topics, its configuration, its children.
//!
//! Invariant: a child never outlives its [`Running`], and one that does not end in time fails the
//! test with what it said.
//!
//! It cannot look into the child: it knows the exit code, stdout, stderr and the target.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use headwater::topic::END_HEADER;
use headwater::topic::file::{self, FileTopicWriter, NewRecord};

/// What a child said, and its exit code (none when a signal ended it).
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Ended {
    /// Ends the test when the code is another.
    pub(crate) fn with(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "{}\n{}", self.out, self.err);
        if code != 0 {
            let errors = self.err.lines().filter(|line| line.starts_with("error: "));
            assert_eq!(errors.count(), 1, "one error, not:\n{}", self.err);
        }
        for sign in ["panicked", "PANIC", "RUST_BACKTRACE", "stack backtrace"] {
            assert!(!self.err.contains(sign), "{}", self.err);
        }
        self
    }

    /// All of `parts` are on stderr.
    pub(crate) fn says(self, parts: &[&str]) -> Self {
        for part in parts {
            assert!(self.err.contains(part), "`{part}` is not in\n{}", self.err);
        }
        self
    }

    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {}", self.out))
    }
}

/// A child that runs.
pub(crate) struct Running {
    pub(crate) child: Child,
    logs: [PathBuf; 2],
}

impl Running {
    /// Starts the binary in a folder; its output goes to files beside the topics.
    pub(crate) fn start(folder: &Path, name: &str, arguments: &[&str]) -> Self {
        let logs = ["out", "err"].map(|end| folder.join(format!("{name}.{end}")));
        let log = |path: &PathBuf| File::create(path).expect("the folder can be written");
        let child = Command::new(env!("CARGO_BIN_EXE_headwater"))
            .args(arguments)
            .current_dir(folder)
            .stdin(Stdio::null())
            .stdout(log(&logs[0]))
            .stderr(log(&logs[1]))
            .spawn()
            .expect("cargo built the binary");
        Running { child, logs }
    }

    /// What it has said on stderr so far.
    pub(crate) fn err(&self) -> String {
        fs::read_to_string(&self.logs[1]).expect("its log")
    }

    /// Waits for its end, not longer than `limit`.
    pub(crate) fn end(mut self, limit: Duration) -> Ended {
        let until = Instant::now() + limit;
        let status = loop {
            if let Some(status) = self.child.try_wait().expect("it is our child") {
                break status;
            }
            let said = self.err();
            assert!(
                Instant::now() < until,
                "it did not end in {limit:?}:\n{said}"
            );
            std::thread::sleep(Duration::from_millis(10));
        };
        let read = |path: &PathBuf| fs::read_to_string(path).expect("its log");
        Ended {
            code: status.code(),
            out: read(&self.logs[0]),
            err: read(&self.logs[1]),
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Already ended when the test went well.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A folder with topics and a configuration.
pub(crate) struct Bench {
    pub(crate) folder: tempfile::TempDir,
}

impl Bench {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        Bench { folder }
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Makes a topic.
    pub(crate) fn topic(&self, name: &str, partitions: u32) {
        file::create(&self.path().join(name), partitions).expect("a topic");
    }

    /// Appends records to a partition.
    pub(crate) fn append(&self, topic: &str, partition: u32, records: &[Record]) {
        let path = self.path().join(topic);
        let mut writer = FileTopicWriter::open(&path, partition).expect("a partition");
        for record in records {
            let headers = record
                .end
                .as_deref()
                .map(|id| (END_HEADER, Some(id.as_bytes())));
            let new = NewRecord {
                timestamp_ms: 1_700_000_000_000,
                key: record.key.as_deref().map(str::as_bytes),
                value: record.value.as_deref(),
                headers: headers.as_slice(),
            };
            writer.append(&new).expect("appended");
        }
        writer.flush().expect("written");
    }

    /// One table `public.hello` with topics `muts` and `snap` of so many partitions.
    pub(crate) fn hello(&self, partitions: u32) {
        self.topic("muts", partitions);
        self.topic("snap", partitions);
    }

    /// Writes the configuration: the table `public.hello`, and what is given.
    pub(crate) fn config(&self, more: &str) {
        let text = format!(
            "job = \"hello\"\n\
             [[table]]\nname = \"public.hello\"\nmutations = \"file:muts\"\n\
             snapshot = \"file:snap\"\n{more}\n"
        );
        fs::write(self.path().join("headwater.toml"), text).expect("written");
    }

    /// Runs the binary to its end.
    pub(crate) fn run(&self, arguments: &[&str]) -> Ended {
        self.start("run", arguments).end(Duration::from_secs(60))
    }

    /// Starts the binary.
    pub(crate) fn start(&self, name: &str, arguments: &[&str]) -> Running {
        Running::start(self.path(), name, arguments)
    }

    /// Makes an SQLite target with a table.
    pub(crate) fn sqlite(&self, sql: &str) {
        let path = self.path().join("hello.sqlite");
        let database = rusqlite::Connection::open(path).expect("a database");
        database.execute_batch(sql).expect("a good statement");
    }

    /// The rows of `hello` in the SQLite target.
    pub(crate) fn rows(&self) -> BTreeMap<i64, String> {
        let path = self.path().join("hello.sqlite");
        let database = rusqlite::Connection::open(path).expect("a database");
        let mut query = database
            .prepare("SELECT id, greeting FROM hello")
            .expect("a table");
        let rows = query.query_map([], |row| Ok((row.get(0)?, row.get(1)?)));
        rows.expect("rows").map(|row| row.expect("a row")).collect()
    }

    /// The last row of each key in the JSON lines files of `out`, by table and key; deletes are
    /// left out.
    pub(crate) fn jsonl(&self) -> BTreeMap<(String, String), serde_json::Value> {
        let mut last: BTreeMap<_, (u64, serde_json::Value)> = BTreeMap::new();
        for entry in fs::read_dir(self.path()).expect("the folder") {
            let path = entry.expect("an entry").path();
            let name = path
                .file_name()
                .expect("a name")
                .to_string_lossy()
                .into_owned();
            if !(name.starts_with("out.") && name.ends_with(".jsonl")) {
                continue;
            }
            for line in fs::read_to_string(&path).expect("text").lines() {
                let line: serde_json::Value = serde_json::from_str(line).expect("a whole line");
                let table = line["table"].as_str().expect("a table").to_owned();
                let version = line["version"].as_u64().expect("a version");
                let at = last.entry((table, line["key"].to_string()));
                let kept = at.or_insert((0, serde_json::Value::Null));
                if version > kept.0 {
                    *kept = (version, line["row"].clone());
                }
            }
        }
        last.retain(|_, (_, row)| !row.is_null());
        last.into_iter().map(|(at, (_, row))| (at, row)).collect()
    }
}

/// The table of an SQLite target.
pub(crate) const HELLO: &str = "CREATE TABLE hello (id INTEGER PRIMARY KEY, greeting TEXT)";
/// An SQLite sink.
pub(crate) const SQLITE: &str = "[sink]\nkind = \"sqlite\"\npath = \"hello.sqlite\"";
/// A JSON lines sink.
pub(crate) const JSONL: &str = "[sink]\nkind = \"jsonl\"\npath = \"out\"";

/// A record to append.
#[derive(Clone, Debug)]
pub(crate) struct Record {
    pub(crate) key: Option<String>,
    pub(crate) value: Option<Vec<u8>>,
    pub(crate) end: Option<String>,
}

impl Record {
    pub(crate) fn raw(key: Option<&str>, value: &[u8]) -> Self {
        Record {
            key: key.map(str::to_owned),
            value: Some(value.to_vec()),
            end: None,
        }
    }

    /// The end-of-snapshot record of the first generation.
    pub(crate) fn end() -> Self {
        Record {
            key: None,
            value: None,
            end: Some("g1".to_owned()),
        }
    }
}

/// A row of `public.TABLE` as Debezium writes it.
pub(crate) fn envelope(table: &str, op: char, id: u64, greeting: &str) -> Record {
    let row = format!("{{\"id\":{id},\"greeting\":\"{greeting}\"}}");
    let (before, after) = if op == 'd' {
        (row.as_str(), "null")
    } else {
        ("null", row.as_str())
    };
    let snapshot = op == 'r';
    let value = format!(
        "{{\"before\":{before},\"after\":{after},\"source\":{{\"snapshot\":\"{snapshot}\",\
         \"schema\":\"public\",\"table\":\"{table}\",\"ts_ms\":1}},\"op\":\"{op}\",\"ts_ms\":2}}"
    );
    Record::raw(Some(&format!("{{\"id\":{id}}}")), value.as_bytes())
}

/// [`envelope`] of `public.hello`.
pub(crate) fn hello(op: char, id: u64, greeting: &str) -> Record {
    envelope("hello", op, id, greeting)
}
