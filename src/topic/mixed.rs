//! Topics of both kinds behind one client: a name `file:PATH` is a folder, any other is Kafka's.

#[cfg(test)]
mod tests;

use crate::error::Error;
use crate::topic::file::{FileTopics, PREFIX};
use crate::topic::kafka::KafkaTopics;
use crate::topic::{Assignment, OffsetRange, Reader, Start, Take, TopicSettings, Topics, Waker};

/// Which kind of topic a name means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TopicKind {
    /// A folder.
    File,
    /// A topic of the brokers.
    Kafka,
}

/// The kind that `topic` means; a Kafka name never has a colon.
pub fn kind(topic: &str) -> TopicKind {
    if topic.starts_with(PREFIX) {
        TopicKind::File
    } else {
        TopicKind::Kafka
    }
}

/// The client of all topics of a job.
#[derive(Default)]
pub struct MixedTopics {
    file: FileTopics,
    kafka: Option<KafkaTopics>,
}

impl MixedTopics {
    /// A client; without `kafka` only `file:` topics can be asked for.
    pub fn new(kafka: Option<KafkaTopics>) -> Self {
        let file = FileTopics::new();
        MixedTopics { file, kafka }
    }

    fn of(&self, topic: &str) -> Result<&dyn Topics, Error> {
        match (kind(topic), &self.kafka) {
            (TopicKind::File, _) => Ok(&self.file),
            (TopicKind::Kafka, Some(kafka)) => Ok(kafka),
            (TopicKind::Kafka, None) => Err(Error::usage(format!(
                "topic {topic} is a Kafka topic, but no broker is known"
            ))
            .line("what to do: set \"bootstrap.servers\" in [kafka],")
            .line(format!("or write {PREFIX}PATH for a folder"))),
        }
    }
}

impl Topics for MixedTopics {
    fn ranges(&self, topic: &str) -> Result<Vec<OffsetRange>, Error> {
        self.of(topic)?.ranges(topic)
    }

    fn partition_count(&self, topic: &str) -> Result<u32, Error> {
        self.of(topic)?.partition_count(topic)
    }

    fn starts(&self, topic: &str, start: Start) -> Result<Vec<u64>, Error> {
        self.of(topic)?.starts(topic, start)
    }

    fn topic_id(&self, topic: &str) -> Result<Option<String>, Error> {
        self.of(topic)?.topic_id(topic)
    }

    fn settings(&self, topic: &str) -> Result<Option<TopicSettings>, Error> {
        self.of(topic)?.settings(topic)
    }

    fn committed(&self, next_offsets: &[Assignment]) -> Option<String> {
        let of_kafka = |offset: &&Assignment| kind(&offset.topic) == TopicKind::Kafka;
        let own: Vec<Assignment> = next_offsets.iter().filter(of_kafka).cloned().collect();
        self.kafka.as_ref()?.committed(&own)
    }

    fn reader(&self, partitions: &[Assignment], waker: Waker) -> Result<Box<dyn Reader>, Error> {
        let mut parts = Vec::new();
        for wanted in [TopicKind::File, TopicKind::Kafka] {
            let is_wanted = |index: &usize| kind(&partitions[*index].topic) == wanted;
            let indices: Vec<usize> = (0..partitions.len()).filter(is_wanted).collect();
            let Some(first) = indices.first() else {
                continue;
            };
            let own: Vec<_> = indices
                .iter()
                .map(|index| partitions[*index].clone())
                .collect();
            let reader = self
                .of(&partitions[*first].topic)?
                .reader(&own, waker.clone())?;
            parts.push((indices, reader));
        }
        if parts.len() == 1 {
            return Ok(parts.pop().expect("one").1);
        }
        Ok(Box::new(MixedReader { parts }))
    }
}

/// A reader of assignments of both kinds: one of each, in turn.
struct MixedReader {
    /// The assignments of each reader by their number outside.
    parts: Vec<(Vec<usize>, Box<dyn Reader>)>,
}

impl MixedReader {
    fn find(&self, index: usize) -> (usize, usize) {
        let found = self
            .parts
            .iter()
            .enumerate()
            .find_map(|(part, (indices, _))| {
                indices
                    .iter()
                    .position(|outer| *outer == index)
                    .map(|inner| (part, inner))
            });
        found.expect("an index of the assignments")
    }
}

impl Reader for MixedReader {
    fn poll(&mut self, budget_bytes: usize, take: &mut Take<'_>) -> Result<usize, Error> {
        let (count, mut given) = (self.parts.len(), 0);
        for (turn, (indices, reader)) in self.parts.iter_mut().enumerate() {
            let share = (budget_bytes - budget_bytes.min(given))
                .div_ceil(count - turn)
                .max(1);
            given += reader.poll(share, &mut |inner, record| take(indices[inner], record))?;
        }
        Ok(given)
    }

    fn next_offset(&self, index: usize) -> u64 {
        let (part, inner) = self.find(index);
        self.parts[part].1.next_offset(inner)
    }

    fn freeze(&mut self, index: usize, end: u64) {
        let (part, inner) = self.find(index);
        self.parts[part].1.freeze(inner, end);
    }

    fn want_runs(&mut self) {
        for (_, reader) in &mut self.parts {
            reader.want_runs();
        }
    }

    fn trouble(&self) -> Option<String> {
        let troubles: Vec<_> = self
            .parts
            .iter()
            .filter_map(|part| part.1.trouble())
            .collect();
        (!troubles.is_empty()).then(|| troubles.join("; "))
    }
}
