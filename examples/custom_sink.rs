//! Shows a sink of your own: a map in memory that keeps the newest version of each row, as search
//! engines with external versions do. It is written with the public traits alone.
//!
//! `cargo run --release --example custom_sink`

use headwater::embed::Embedded;
use headwater::error::Error;
use headwater::sink::{
    Applied, Change, Place, ReplaySafety, Row, RowForm, Sink, WriteError, Writer, row,
};
use headwater::topic::memory::{MemoryTopics, OwnedRecord};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Version and greeting by key. A deleted row stays without a greeting, as an older version of it
/// may still come.
type Index = BTreeMap<String, (u64, Option<String>)>;

#[derive(Clone, Default)]
struct NewestWins(Arc<Mutex<Index>>);

impl Sink for NewestWins {
    fn replay_safety(&self) -> ReplaySafety {
        // Writing a version twice changes nothing.
        ReplaySafety::Safe
    }

    fn row_form(&self) -> RowForm {
        RowForm::Whole
    }

    fn check(&self) -> Result<(), Error> {
        Ok(())
    }

    fn writer(&self, _place: Place) -> Result<Box<dyn Writer>, Error> {
        Ok(Box::new(self.clone()))
    }
}

impl Writer for NewestWins {
    fn write(&mut self, rows: &[Row<'_>], _applied: &[Applied]) -> Result<(), WriteError> {
        let mut index = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for row in rows {
            let found = match row.change {
                Change::Delete => None,
                Change::Upsert(value) => row::columns(value)
                    .map_err(|error| WriteError::Fatal(Error::failed(error)))?
                    .and_then(|columns| columns.get("greeting").map(str::to_owned)),
            };
            let key = String::from_utf8_lossy(row.key).into_owned();
            let newest = index.entry(key).or_default();
            if row.version > newest.0 {
                *newest = (row.version, found);
            }
        }
        Ok(())
    }
}

/// A record as Debezium writes it, without a schema.
fn record(op: &str, id: u32, greeting: &str) -> OwnedRecord {
    let row = format!(r#"{{"id":{id},"greeting":"{greeting}"}}"#);
    let (before, after) = match op {
        "d" => (row, "null".to_owned()),
        _ => ("null".to_owned(), row),
    };
    let source = r#"{"schema":"public","table":"hello"}"#;
    let value = format!(r#"{{"op":"{op}","before":{before},"after":{after},"source":{source}}}"#);
    OwnedRecord::new(Some(&format!(r#"{{"id":{id}}}"#)), Some(&value))
}

const CONFIG: &str = r#"
job = "custom_sink"
[[table]]
name      = "public.hello"
mutations = "app.public.hello"
snapshot  = "snap.public.hello"
"#;

fn main() -> Result<(), Error> {
    let topics = MemoryTopics::default();
    for id in 1..=4 {
        let greeting = format!("hello {id}");
        topics.append("snap.public.hello", 0, record("r", id, &greeting));
    }
    topics.append("snap.public.hello", 0, OwnedRecord::end_of_snapshot("g1"));
    topics.append("app.public.hello", 0, record("u", 1, "changed"));
    topics.append("app.public.hello", 0, record("d", 2, "deleted"));

    let sink = NewestWins::default();
    let job = Embedded::new(CONFIG).topics(topics).sink(sink.clone());
    let summary = job.workers(2).without_checkpoints().run()?;

    println!("{}", summary.table());
    let index = sink.0.lock().unwrap_or_else(PoisonError::into_inner);
    for (key, (version, greeting)) in index.iter() {
        let greeting = greeting.as_deref().unwrap_or("deleted");
        println!("{key} {greeting} (version {version})");
    }
    Ok(())
}
