//! A sink written outside of the crate, with its public trait alone: a map that keeps the newest
//! version of each row, as search engines with external versions do.

use headwater::error::Error;
use headwater::sink::queue::{QueueOptions, start};
use headwater::sink::replay::Replay;
use headwater::sink::settings::TargetNotEmpty;
use headwater::sink::{
    Applied, Change, Place, ReplaySafety, Row, RowForm, Sink, WriteError, Writer, admit, row,
};
use headwater::table::Table;
use headwater::topic::names::TopicNames;
use headwater_operators::record::{Op, RecordRef, Records};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Greeting and version by key; a deleted row stays, without greeting, as an older version of it
/// may still come.
type Index = Arc<Mutex<HashMap<String, (Option<String>, u64)>>>;

#[derive(Clone, Default)]
struct NewestWins {
    index: Index,
}

impl Sink for NewestWins {
    fn replay_safety(&self) -> ReplaySafety {
        // Writing a version twice changes nothing.
        ReplaySafety::Safe
    }

    fn row_form(&self) -> RowForm {
        RowForm::Whole
    }

    fn shards_a_worker(&self) -> usize {
        2
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
        let mut index = self.index.lock().unwrap_or_else(PoisonError::into_inner);
        for row in rows {
            let greeting = match row.change {
                Change::Delete => None,
                Change::Upsert(value) => {
                    let columns = row::columns(value).expect("the test sends JSON");
                    columns.and_then(|columns| columns.get("greeting").map(str::to_owned))
                }
            };
            let key = String::from_utf8_lossy(row.key).into_owned();
            let newest = index.entry(key).or_default();
            if row.version > newest.1 {
                *newest = (greeting, row.version);
            }
        }
        Ok(())
    }
}

#[test]
fn the_newest_version_wins() {
    let sink = NewestWins::default();
    admit::admit(&sink, None, true, TargetNotEmpty::Refuse).unwrap();
    let tables = [Table {
        name: "public.hello".into(),
        mutations: "app.public.hello".into(),
        snapshot: "snap.public.hello".into(),
        key: None,
    }];
    let dir = tempfile::tempdir().unwrap();
    let options = QueueOptions {
        incarnation: 3,
        first_worker: 0,
        workers: 1,
        batch_rows_max: 2,
        batch_bytes_max: 1 << 20,
        tables: tables.clone().into(),
        names: Arc::new(TopicNames::new(tables.into())),
        quarantine_dir: dir.path().into(),
        quarantine_topic: None,
        dead_letters: None,
        dead_letter: None,
        on_failure: Arc::new(|error| panic!("{error}")),
        replay: Arc::new(Replay::none()),
    };
    let mut queue = start(&sink, &options).unwrap().remove(0);
    let mut records = Records::default();
    let history = [
        (1, Op::Read, "\"r\""),
        (1, Op::Delete, ""),
        (2, Op::Upsert, "\"x\""),
    ];
    let more = [(1, Op::Upsert, "\"again\""), (2, Op::Delete, "")];
    for (offset, (id, op, greeting)) in (0..).zip(history.into_iter().chain(more)) {
        records.push(RecordRef {
            fingerprint: id << 40,
            op,
            table: 0,
            generation: 0,
            partition: 0,
            offset,
            read_time_ms: 0,
            key: format!("{{\"id\":{id}}}").as_bytes(),
            value: format!("{{\"op\":\"c\",\"after\":{{\"greeting\":{greeting}}}}}").as_bytes(),
        });
    }
    let ticket = queue.push(records);
    let start = Instant::now();
    while queue.durable() <= ticket {
        assert!(
            start.elapsed() < Duration::from_secs(30),
            "{:?}",
            queue.state()
        );
        std::thread::sleep(Duration::from_millis(1));
    }
    let index = sink.index.lock().unwrap();
    assert_eq!(index["{\"id\":1}"].0.as_deref(), Some("\"again\""));
    assert_eq!(index["{\"id\":2}"].0, None);
}
