//! The demo's topics: `file` topics with Debezium's envelopes, partitioned by key.

use super::PARTITIONS;
use crate::error::Error;
use crate::topic::END_HEADER;
use crate::topic::file::{FileTopicWriter, NewRecord, create as create_topic};
use crate::topic::partitioner::partition_of;
use serde_json::json;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// The mutation topic, in the demo's folder.
pub(super) const MUTATIONS: &str = "app.main.hello";
/// The snapshot topic.
pub(super) const SNAPSHOT: &str = "snap_g1.main.hello";

/// The folder of the mutation topic.
pub(super) fn mutations(folder: &Path) -> PathBuf {
    folder.join(MUTATIONS)
}

/// The folder of the snapshot topic.
pub(super) fn snapshot(folder: &Path) -> PathBuf {
    folder.join(SNAPSHOT)
}

/// Makes both topics.
pub(super) fn create(folder: &Path) -> Result<(), Error> {
    create_topic(&mutations(folder), PARTITIONS)?;
    create_topic(&snapshot(folder), PARTITIONS)
}

/// One change or row.
pub(super) struct Envelope<'a> {
    /// `c`, `u`, `d` or `r`.
    pub(super) op: &'a str,
    /// The key.
    pub(super) id: u64,
    /// The row's only other column; none for a delete.
    pub(super) greeting: Option<&'a str>,
}

/// Writers of all partitions of one topic.
pub(super) struct PartitionWriters {
    partitions: Vec<FileTopicWriter>,
}

fn now_ms() -> i64 {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

impl PartitionWriters {
    pub(super) fn open(topic: &Path) -> Result<PartitionWriters, Error> {
        let open = |partition| FileTopicWriter::open(topic, partition);
        Ok(PartitionWriters {
            partitions: (0..PARTITIONS).map(open).collect::<Result<_, _>>()?,
        })
    }

    /// Appends a mutation; a delete is followed by its tombstone, as Debezium does it.
    pub(super) fn mutation(&mut self, row: &Envelope<'_>, position: i64) -> Result<(), Error> {
        self.envelope(row, "false", position)?;
        if row.op == "d" {
            self.append(row.id, None)?;
        }
        Ok(())
    }

    /// Appends a READ.
    pub(super) fn read(&mut self, row: &Envelope<'_>) -> Result<(), Error> {
        self.envelope(row, "true", 0)
    }

    fn envelope(&mut self, row: &Envelope<'_>, snapshot: &str, lsn: i64) -> Result<(), Error> {
        let image = |greeting: Option<&str>| json!({"id": row.id, "greeting": greeting});
        let (before, after) = match row.greeting {
            Some(greeting) => (None, Some(image(Some(greeting)))),
            None => (Some(image(None)), None),
        };
        let name = if snapshot == "true" { "snap_g1" } else { "app" };
        let value = json!({
            "before": before,
            "after": after,
            "source": {
                "connector": "demo", "name": name, "ts_ms": now_ms(), "snapshot": snapshot,
                "schema": "main", "table": "hello", "lsn": lsn,
            },
            "op": row.op,
            "ts_ms": now_ms(),
        });
        self.append(row.id, Some(value.to_string().as_bytes()))
    }

    fn append(&mut self, id: u64, value: Option<&[u8]>) -> Result<(), Error> {
        let key = json!({ "id": id }).to_string();
        let partition = partition_of(key.as_bytes(), PARTITIONS) as usize;
        self.partitions[partition].append(&NewRecord {
            timestamp_ms: now_ms(),
            key: Some(key.as_bytes()),
            value,
            headers: &[],
        })?;
        Ok(())
    }

    /// Ends every partition for a generation.
    pub(super) fn end_of_snapshot(&mut self, generation: &str) -> Result<(), Error> {
        for partition in &mut self.partitions {
            partition.append(&NewRecord {
                timestamp_ms: now_ms(),
                headers: &[(END_HEADER, Some(generation.as_bytes()))],
                ..NewRecord::default()
            })?;
        }
        self.flush()
    }

    /// Shows what was appended to readers.
    pub(super) fn flush(&mut self) -> Result<(), Error> {
        self.partitions
            .iter_mut()
            .try_for_each(FileTopicWriter::flush)
    }
}
