//! Rows/s of the Kafka sink's writer in transactions, beside the same without.
//!
//! `cargo bench --profile ci --bench kafka_sink` (without `--bench` a small smoke run). Needs the
//! service scripts (`HEADWATER_SERVICES`, or `tests/services`).
//!
//! Isolated is what a transaction a flush costs: within one run, on one broker, rounds alternate
//! between the two, on a topic of 4 partitions, one writer, rows of a 12-byte key and a 200-byte
//! value. What is printed for each batch size is the median time of a flush and the ratio. A real
//! broker with replicas takes longer for both. Numbers of two runs on a busy machine are not to be
//! compared.

#[path = "../tests/support/broker.rs"]
#[expect(dead_code, reason = "nothing is restarted or deleted here")]
mod broker;

use broker::Broker;
use headwater::sink::settings::{SinkKind, SinkSettings, build};
use headwater::sink::{Change, Origin, Place, Role, Row, Writer};
use headwater::table::Table;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

fn settings(broker: &Broker, transactional: bool) -> SinkSettings {
    let servers = ("bootstrap.servers".to_owned(), broker.servers.clone());
    SinkSettings {
        job: "bench".into(),
        topic: Some("out".into()),
        kafka: BTreeMap::from([servers]),
        transactional,
        ..SinkSettings::new(SinkKind::Kafka)
    }
}

fn writer(broker: &Broker, transactional: bool) -> Box<dyn Writer> {
    let table = Table {
        name: "public.hello".into(),
        mutations: "app".into(),
        snapshot: "snap".into(),
        key: None,
    };
    let settings = settings(broker, transactional);
    let sink = build(&settings, &[table], &BTreeMap::new(), 1).expect("good settings");
    let place = Place {
        incarnation: 1,
        worker: 0,
        shard: 0,
    };
    sink.writer(place).expect("a writer")
}

fn row<'a>(key: &'a str, value: &'a [u8]) -> Row<'a> {
    Row {
        table: 0,
        fingerprint: 0,
        key: key.as_bytes(),
        change: Change::Upsert(value),
        version: 1,
        origin: Origin {
            role: Role::Mutations,
            partition: 0,
            offset: 0,
            generation: 0,
        },
    }
}

fn median(mut of: Vec<Duration>) -> Duration {
    of.sort_unstable();
    of[of.len() / 2]
}

fn main() {
    let full = std::env::args().any(|arg| arg == "--bench");
    let (rounds, flushes) = if full { (7, 20) } else { (1, 3) };
    let broker = Broker::start();
    broker.create("out", 4);
    let keys: Vec<String> = (0..10_000)
        .map(|key| format!("{{\"id\":{key:05}}}"))
        .collect();
    let value = [b'x'; 200];
    for batch in [100, 1_000, 10_000] {
        let rows: Vec<Row<'_>> = keys[..batch].iter().map(|key| row(key, &value)).collect();
        let mut took = [Vec::new(), Vec::new()];
        for _ in 0..rounds {
            for (transactional, took) in [false, true].into_iter().zip(&mut took) {
                let mut writer = writer(&broker, transactional);
                writer.write(&rows, &[]).expect("written");
                for _ in 0..flushes {
                    let start = Instant::now();
                    writer.write(&rows, &[]).expect("written");
                    took.push(start.elapsed());
                }
            }
        }
        let [plain, transactional] = took.map(median);
        println!(
            "batches of {batch:>6}: plain {plain:>9.2?}, transactional {transactional:>9.2?}, \
             {:.2} times as long",
            transactional.as_secs_f64() / plain.as_secs_f64()
        );
    }
}
