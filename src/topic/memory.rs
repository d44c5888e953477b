//! Topics in memory, for tests and examples that show a schedule step by step.
//!
//! A partition is a log of offsets, of which some hold a record and others nothing (control
//! records, aborted or compacted ones), so that what Kafka does can be played. Records behind an
//! open transaction are in the log but not deliverable, as `read_committed` has it.

use super::{
    Assignment, OffsetRange, RawRecord, Reader, Start, Take, TopicSettings, Topics, Waker,
};
use crate::error::Error;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A record that owns its bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OwnedRecord {
    /// ms since 1970; 0 when it has none.
    pub timestamp_ms: i64,
    /// Null or bytes.
    pub key: Option<Vec<u8>>,
    /// Null or bytes.
    pub value: Option<Vec<u8>>,
    /// The generation whose snapshot ends here.
    pub end_of_snapshot: Option<Vec<u8>>,
    /// The run of the snapshot that it is of.
    pub run_id: Option<Vec<u8>>,
}

impl OwnedRecord {
    /// A record with a key and a value, both as text; `None` is null.
    pub fn new(key: Option<&str>, value: Option<&str>) -> Self {
        OwnedRecord {
            key: key.map(|text| text.as_bytes().to_vec()),
            value: value.map(|text| text.as_bytes().to_vec()),
            ..OwnedRecord::default()
        }
    }

    /// The end-of-snapshot record of a generation.
    pub fn end_of_snapshot(generation: &str) -> Self {
        OwnedRecord {
            end_of_snapshot: Some(generation.as_bytes().to_vec()),
            ..OwnedRecord::default()
        }
    }
}

#[derive(Clone, Debug, Default)]
struct Log {
    low: u64,
    high: u64,
    /// Offsets from here on are not deliverable yet.
    stable: Option<u64>,
    records: BTreeMap<u64, OwnedRecord>,
}

impl Log {
    fn deliverable_end(&self) -> u64 {
        self.stable.unwrap_or(self.high).min(self.high)
    }
}

#[derive(Default)]
struct State {
    topics: BTreeMap<String, Vec<Log>>,
    settings: BTreeMap<String, TopicSettings>,
    wakers: Vec<Waker>,
    /// How far the readers are, by topic and partition.
    read: BTreeMap<(String, u32), u64>,
    /// How far they were when they came for more: what was given before, they have dealt with.
    dealt_with: BTreeMap<(String, u32), u64>,
}

impl State {
    fn all_at_end(&self, next_offsets: &BTreeMap<(String, u32), u64>) -> bool {
        self.topics.iter().all(|(topic, logs)| {
            logs.iter().zip(0..).all(|(log, partition)| {
                let next = next_offsets.get(&(topic.clone(), partition)).copied();
                next.is_some_and(|next| next >= log.deliverable_end())
            })
        })
    }
}

/// A handle on topics in memory; clones share them.
#[derive(Clone, Default)]
pub struct MemoryTopics {
    state: Arc<Mutex<State>>,
}

impl MemoryTopics {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes a topic, or gives it more partitions.
    pub fn create(&self, topic: &str, partitions: usize) {
        let mut state = self.lock();
        let logs = state.topics.entry(topic.to_owned()).or_default();
        if logs.len() < partitions {
            logs.resize_with(partitions, Log::default);
        }
    }

    /// Gives a topic settings. They are told and nothing else: nothing is deleted by itself.
    pub fn configure(&self, topic: &str, settings: TopicSettings) {
        self.lock().settings.insert(topic.to_owned(), settings);
    }

    /// Appends a record and gives its offset.
    pub fn append(&self, topic: &str, partition: usize, record: OwnedRecord) -> u64 {
        self.change(topic, partition, |log| {
            let offset = log.high;
            log.records.insert(offset, record);
            log.high += 1;
            offset
        })
    }

    /// Puts a record at an offset that the log holds already, and that no reader has passed: one
    /// that was on its way (see [`MemoryTopics::hold`]).
    pub fn put(&self, topic: &str, partition: usize, offset: u64, record: OwnedRecord) {
        self.change(topic, partition, |log| {
            log.records.insert(offset, record);
            log.high = log.high.max(offset + 1);
        });
    }

    /// Offsets from this one on are in the log and not deliverable, until held otherwise.
    pub fn hold(&self, topic: &str, partition: usize, from: Option<u64>) {
        self.change(topic, partition, |log| log.stable = from);
    }

    /// Makes the log hold at least the offsets below `high`, without records where there are none.
    pub fn extend_to(&self, topic: &str, partition: usize, high: u64) {
        self.change(topic, partition, |log| log.high = log.high.max(high));
    }

    /// Makes `low` the first offset of the log.
    pub fn trim_to(&self, topic: &str, partition: usize, low: u64) {
        self.change(topic, partition, |log| {
            log.low = low;
            log.high = log.high.max(low);
            log.records.retain(|offset, _| *offset >= low);
        });
    }

    /// Makes the log end at `high` at most: a topic that was cut, or made anew.
    pub fn cut_to(&self, topic: &str, partition: usize, high: u64) {
        self.change(topic, partition, |log| {
            log.high = log.high.min(high);
            log.low = log.low.min(log.high);
            log.records.retain(|offset, _| *offset < high);
        });
    }

    /// Forgets the readers there were: their job has ended.
    pub fn readers_gone(&self) {
        let mut state = self.lock();
        state.read.clear();
        state.dealt_with.clear();
        state.wakers.clear();
    }

    /// Opens a transaction at the present end (`true`), or ends it (`false`).
    pub fn transaction(&self, topic: &str, partition: usize, open: bool) {
        self.change(topic, partition, |log| {
            log.stable = open.then_some(log.high)
        });
    }

    /// Whether everything deliverable was given to readers, and everyone assigned has read once.
    pub fn drained(&self) -> bool {
        let state = self.lock();
        state.all_at_end(&state.read)
    }

    /// The same, and everyone has come for more since: what was given is dealt with.
    pub fn dealt_with(&self) -> bool {
        let state = self.lock();
        state.all_at_end(&state.dealt_with)
    }

    fn change<R>(&self, topic: &str, partition: usize, change: impl FnOnce(&mut Log) -> R) -> R {
        self.create(topic, partition + 1);
        let mut state = self.lock();
        let log = state
            .topics
            .get_mut(topic)
            .and_then(|logs| logs.get_mut(partition))
            .expect("the partition was made above");
        let result = change(log);
        let wakers = state.wakers.clone();
        drop(state);
        wakers.iter().for_each(|wake| wake());
        result
    }
}

impl Topics for MemoryTopics {
    fn ranges(&self, topic: &str) -> Result<Vec<OffsetRange>, Error> {
        let state = self.lock();
        let logs = state
            .topics
            .get(topic)
            .ok_or_else(|| Error::failed(format!("the topic `{topic}` does not exist")))?;
        Ok(logs
            .iter()
            .map(|log| OffsetRange {
                low: log.low,
                high: log.high,
            })
            .collect())
    }

    fn partition_count(&self, topic: &str) -> Result<u32, Error> {
        Ok(u32::try_from(self.ranges(topic)?.len()).unwrap_or(u32::MAX))
    }

    fn starts(&self, topic: &str, start: Start) -> Result<Vec<u64>, Error> {
        let ranges = self.ranges(topic)?;
        let state = self.lock();
        let logs = &state.topics[topic];
        Ok(logs
            .iter()
            .zip(ranges)
            .map(|(log, range)| match start {
                Start::Beginning => range.low,
                Start::Time(ms) => log
                    .records
                    .iter()
                    .find(|(_, record)| record.timestamp_ms >= ms)
                    .map_or(range.high, |(offset, _)| *offset),
            })
            .collect())
    }

    fn settings(&self, topic: &str) -> Result<Option<TopicSettings>, Error> {
        Ok(self.lock().settings.get(topic).copied())
    }

    fn reader(&self, partitions: &[Assignment], waker: Waker) -> Result<Box<dyn Reader>, Error> {
        let mut state = self.lock();
        state.wakers.push(waker);
        for of in partitions {
            let at = (of.topic.clone(), of.partition);
            state.dealt_with.remove(&at);
        }
        drop(state);
        let next = partitions.iter().map(|p| p.next_offset).collect();
        let assigned = partitions.to_vec();
        Ok(Box::new(MemoryReader {
            topics: self.clone(),
            assigned,
            next,
        }))
    }
}

struct MemoryReader {
    topics: MemoryTopics,
    assigned: Vec<Assignment>,
    next: Vec<u64>,
}

impl Reader for MemoryReader {
    fn poll(&mut self, budget_bytes: usize, take: &mut Take<'_>) -> Result<usize, Error> {
        let mut state = self.topics.lock();
        let state = &mut *state;
        let mut given_bytes = 0;
        for (index, assignment) in self.assigned.iter().enumerate() {
            let Some(log) = state
                .topics
                .get(&assignment.topic)
                .and_then(|logs| logs.get(assignment.partition as usize))
            else {
                continue;
            };
            let end = log.deliverable_end();
            let at = (assignment.topic.clone(), assignment.partition);
            state.dealt_with.insert(at, self.next[index]);
            while self.next[index] < end && given_bytes < budget_bytes {
                let Some((offset, record)) = log.records.range(self.next[index]..end).next() else {
                    self.next[index] = end;
                    break;
                };
                let raw = RawRecord {
                    offset: *offset,
                    timestamp_ms: record.timestamp_ms,
                    key: record.key.as_deref(),
                    value: record.value.as_deref(),
                    end_of_snapshot: record.end_of_snapshot.as_deref(),
                    run_id: record.run_id.as_deref(),
                };
                take(index, raw)?;
                self.next[index] = offset + 1;
                let bytes = [raw.key, raw.value]
                    .iter()
                    .flatten()
                    .map(|b| b.len())
                    .sum::<usize>();
                given_bytes += bytes.max(1);
            }
            let at = (assignment.topic.clone(), assignment.partition);
            state.read.insert(at, self.next[index]);
        }
        Ok(given_bytes)
    }

    fn next_offset(&self, index: usize) -> u64 {
        self.next[index]
    }
}

#[cfg(test)]
mod tests {
    use super::{MemoryTopics, OwnedRecord};
    use crate::topic::{Assignment, Topics};
    use std::sync::Arc;

    fn drain(topics: &MemoryTopics, from: u64) -> (Vec<u64>, u64) {
        let assigned = Assignment {
            topic: "t".to_owned(),
            partition: 0,
            next_offset: from,
        };
        let mut reader = topics
            .reader(&[assigned], Arc::new(|| {}))
            .expect("in memory");
        let mut offsets = Vec::new();
        let mut take = |_: usize, raw: crate::topic::RawRecord<'_>| {
            offsets.push(raw.offset);
            Ok(())
        };
        while reader.poll(10, &mut take).expect("in memory") > 0 {}
        (offsets, reader.next_offset(0))
    }

    #[test]
    fn what_was_given_is_dealt_with_when_more_is_asked_for() {
        let topics = MemoryTopics::default();
        topics.append("t", 0, OwnedRecord::new(Some("k"), None));
        let assigned = Assignment {
            topic: "t".to_owned(),
            partition: 0,
            next_offset: 0,
        };
        let reader = topics.reader(std::slice::from_ref(&assigned), Arc::new(|| {}));
        let mut reader = reader.expect("in memory");
        for (drained, dealt_with) in [(false, false), (true, false), (true, true)] {
            assert_eq!(
                (topics.drained(), topics.dealt_with()),
                (drained, dealt_with)
            );
            reader.poll(10, &mut |_, _| Ok(())).expect("in memory");
        }
        // Another reader has dealt with nothing yet.
        let _another = topics.reader(&[assigned], Arc::new(|| {}));
        assert!(!topics.dealt_with());
    }

    #[test]
    fn offsets_without_records_are_passed_and_open_transactions_are_not() {
        let topics = MemoryTopics::default();
        topics.append("t", 0, OwnedRecord::new(Some("k"), None));
        topics.extend_to("t", 0, 3);
        assert_eq!(drain(&topics, 0), (vec![0], 3));
        topics.transaction("t", 0, true);
        topics.append("t", 0, OwnedRecord::new(Some("k"), None));
        assert_eq!(drain(&topics, 0), (vec![0], 3));
        assert_eq!(topics.ranges("t").expect("there")[0].high, 4);
        topics.transaction("t", 0, false);
        assert_eq!(drain(&topics, 0), (vec![0, 3], 4));
        topics.extend_to("t", 0, 6);
        topics.hold("t", 0, Some(4));
        assert_eq!(drain(&topics, 4), (vec![], 4));
        topics.put("t", 0, 4, OwnedRecord::new(Some("k"), None));
        topics.hold("t", 0, Some(5));
        assert_eq!(drain(&topics, 4), (vec![4], 5));
        topics.hold("t", 0, None);
        assert_eq!(drain(&topics, 4), (vec![4], 6));
        topics.trim_to("t", 0, 500);
        assert_eq!(drain(&topics, 500), (vec![], 500));
        topics.append("t", 0, OwnedRecord::new(Some("k"), None));
        topics.cut_to("t", 0, 500);
        assert_eq!(topics.ranges("t").expect("there")[0].high, 500);
        assert_eq!(drain(&topics, 500), (vec![], 500));
    }
}
