//! `headwater end-snapshot`: ends every partition of the tables' snapshot topics for a generation.
//!
//! Invariant: nothing is written before every partition was asked and, unless `again` was said,
//! found without an end-of-snapshot record, and before every `file` partition is ours to write.
//!
//! It cannot know whether the snapshot is complete: who calls it does. It looks for an earlier
//! record in the last `LOOK_BACK` offsets of a partition only; a second one does no harm, as the
//! first counts.

mod kafka;

use crate::cli::{self, EndSnapshotArgs};
use crate::config::Config;
use crate::error::Error;
use crate::job::topic_names;
use crate::run::topics;
use crate::table::Role;
use crate::topic::file::{FileTopicWriter, NewRecord, PREFIX};
use crate::topic::mixed::{TopicKind, kind};
use crate::topic::{Assignment, END_HEADER, OffsetRange, Topics, Waker};
use crossbeam_channel::bounded;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

/// Offsets of each partition in which an earlier record is looked for.
const LOOK_BACK: u64 = 1_000;
/// How long the last records of a topic may take to come.
const LOOK_MAX: Duration = Duration::from_secs(10);
const POLL_BYTES: usize = 1 << 20;

/// Runs the verb.
///
/// # Errors
/// When a topic cannot be asked or written, and, unless `again` is said, a refusal when a partition
/// has such a record already.
pub fn end_snapshot(args: &EndSnapshotArgs) -> Result<(), Error> {
    let loaded = Config::load(&args.origin)?;
    loaded.notices.iter().for_each(|notice| cli::note(notice));
    let config = loaded.config;
    let tables = config.tables();
    let client = topics(&config, &tables, 1)?;
    let (mut files, mut brokers) = (Vec::new(), Vec::new());
    for topic in topic_names(&tables, Role::Snapshot) {
        let ranges = client.ranges(&topic)?;
        if !args.again
            && let Some(found) = earlier(&*client, &topic, &ranges)?
        {
            return Err(found.refusal(&topic));
        }
        let partitions = 0..u32::try_from(ranges.len()).expect("a partition is a u32");
        match kind(&topic) {
            TopicKind::Kafka => brokers.push((topic, partitions)),
            TopicKind::File => {
                let folder = topic.strip_prefix(PREFIX).unwrap_or(&topic).to_owned();
                let open = |partition| FileTopicWriter::open(Path::new(&folder), partition);
                files.push((topic, partitions.map(open).collect::<Result<Vec<_>, _>>()?));
            }
        }
    }
    if !brokers.is_empty() {
        kafka::write(&config.kafka_properties()?, &brokers, &args.generation)?;
    }
    for (_, writers) in &mut files {
        for writer in writers {
            write(writer, &args.generation)?;
        }
    }
    let ended = brokers.iter().map(|(topic, all)| (topic, all.len()));
    let ended = ended.chain(files.iter().map(|(topic, writers)| (topic, writers.len())));
    for (topic, count) in ended {
        cli::say(&format!(
            "{} ended in all {count} partitions of {topic}\n",
            args.generation
        ))?;
    }
    Ok(())
}

fn write(writer: &mut FileTopicWriter, generation: &str) -> Result<(), Error> {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let now_ms = now.map_or(0, |now| i64::try_from(now.as_millis()).unwrap_or(i64::MAX));
    writer.append(&NewRecord {
        timestamp_ms: now_ms,
        headers: &[(END_HEADER, Some(generation.as_bytes()))],
        ..NewRecord::default()
    })?;
    writer.sync()
}

/// An end-of-snapshot record that was there before.
struct Earlier {
    partition: usize,
    offset: u64,
    generation: String,
}

impl Earlier {
    fn refusal(&self, topic: &str) -> Error {
        let Earlier {
            partition, offset, ..
        } = self;
        Error::refused(format!(
            "{topic}[{partition}] has an end-of-snapshot record"
        ))
        .line(format!("found     {} at offset {offset}", self.generation))
        .line("expected  a snapshot that nobody has ended; nothing was written")
        .line("--again writes to all partitions all the same. It helps when an earlier call")
        .line("was cut off: the first record of a partition counts, READs behind it are late.")
    }
}

/// The first end-of-snapshot record among the last offsets of a topic's partitions.
fn earlier(
    topics: &dyn Topics,
    topic: &str,
    ranges: &[OffsetRange],
) -> Result<Option<Earlier>, Error> {
    let assignments: Vec<Assignment> = (0..)
        .zip(ranges)
        .map(|(partition, range)| Assignment {
            topic: topic.to_owned(),
            partition,
            next_offset: range.low.max(range.high.saturating_sub(LOOK_BACK)),
        })
        .collect();
    let (wake, woken) = bounded(1);
    let waker: Waker = Arc::new(move || {
        // Full: somebody has woken it already.
        let _ = wake.try_send(());
    });
    let mut reader = topics.reader(&assignments, waker)?;
    let (until, mut found) = (Instant::now() + LOOK_MAX, None);
    loop {
        let given = reader.poll(POLL_BYTES, &mut |partition, record| {
            if let Some(id) = record.end_of_snapshot {
                found.get_or_insert_with(|| Earlier {
                    partition,
                    offset: record.offset,
                    generation: String::from_utf8_lossy(id).into_owned(),
                });
            }
            Ok(())
        })?;
        let mut open =
            (0..ranges.len()).filter(|index| reader.next_offset(*index) < ranges[*index].high);
        let Some(behind) = open.next().filter(|_| found.is_none()) else {
            return Ok(found);
        };
        if Instant::now() >= until {
            let text = format!("{topic}[{behind}] does not give its last records");
            let trouble = reader
                .trouble()
                .unwrap_or_else(|| "nothing else".to_owned());
            return Err(Error::failed(text)
                .line(format!("waited {} s, found: {trouble}", LOOK_MAX.as_secs()))
                .line("Does a producer hold a transaction open? End it, then call again."));
        }
        if given == 0 {
            // Woken or not, the loop looks again.
            let _ = woken.recv_timeout(Duration::from_millis(50));
        }
    }
}
