//! Kafka topics: manual assignment at explicit offsets, one client a reader. Offsets are committed
//! for tools that show lag alone, and never read back.
//!
//! [`KafkaTopics`] has one client for questions, which sees the *high watermark* whatever the
//! isolation level of the readers. Every question ends within its time limit.

mod configs;
mod context;
mod errors;
#[expect(
    unsafe_code,
    reason = "calls of librdkafka that rdkafka lacks; run by tests/asan"
)]
pub(crate) mod ids;
mod lag;
#[expect(
    unsafe_code,
    reason = "librdkafka's queues in batches; run by tests/asan"
)]
mod queue;
mod reader;
mod settings;
#[cfg(test)]
mod tests;

use crate::error::Error;
use crate::topic::{Assignment, OffsetRange, Reader, Start, TopicSettings, Topics, Waker};
use context::Context;
use rdkafka::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::{KafkaError, RDKafkaErrorCode as Code};
use rdkafka::{Offset, TopicPartitionList};
use reader::KafkaReader;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Time limit of a question.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Longest single request, so that a refused login is noticed before the time limit.
const REQUEST: Duration = Duration::from_secs(2);
/// Pause before a question is asked again.
const PAUSE: Duration = Duration::from_millis(100);

/// The client of Kafka topics.
pub struct KafkaTopics {
    reader: ClientConfig,
    asker: BaseConsumer<Context>,
    lag: lag::LagGroup,
    servers: String,
    timeout: Duration,
}

/// How an attempt failed.
enum Failed {
    /// It may work when asked again.
    Again(String),
    /// It will not.
    Ends(Error),
}

impl KafkaTopics {
    /// A client with librdkafka properties as a person writes them, for the job of that name, of
    /// which `readers` readers in this process share the bound on fetched bytes. Connects later.
    ///
    /// # Errors
    /// When a property is unknown, is wrong, or contradicts what the job relies on.
    pub fn open(
        settings: &BTreeMap<String, String>,
        job: &str,
        readers: usize,
    ) -> Result<Self, Error> {
        let reader = settings::reader(settings, job, readers)?;
        let asker = settings::asker(&reader).create_with_context(Context::default());
        Ok(KafkaTopics {
            lag: lag::LagGroup::new(settings::committer(&reader)),
            reader,
            asker: asker.map_err(|error| errors::not_created(&error))?,
            servers: settings::servers(settings)?,
            timeout: TIMEOUT,
        })
    }

    /// Sets the time limit of a question; 10 s unless set.
    #[must_use]
    pub fn with_timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Commits `(topic, partition, next_offset)` to the consumer group of the job's name, for tools
    /// that show lag; the job itself never looks at them. Blocks until the brokers have answered,
    /// about 15 s at most.
    ///
    /// # Errors
    /// When no broker answers, a member of that name has joined the group, or READ on the group is
    /// not granted.
    pub fn commit_for_lag_tools(&self, offsets: &[(String, u32, u64)]) -> Result<(), Error> {
        self.lag.commit(&self.servers, offsets)
    }

    /// Asks until it works, cannot work, or the time is over.
    fn ask<T>(&self, mut attempt: impl FnMut(Duration) -> Result<T, Failed>) -> Result<T, Error> {
        let start = Instant::now();
        loop {
            let left = self.timeout.saturating_sub(start.elapsed());
            let again = match attempt(left.min(REQUEST)) {
                Ok(answer) => {
                    Context::serve(&self.asker);
                    self.asker.context().clear();
                    return Ok(answer);
                }
                Err(Failed::Ends(error)) => return Err(error),
                Err(Failed::Again(text)) => text,
            };
            Context::serve(&self.asker);
            if let Some(reason) = self.asker.context().denied() {
                return Err(errors::denied(&self.servers, &reason));
            }
            if start.elapsed() + PAUSE >= self.timeout {
                let reason = self.asker.context().trouble().unwrap_or(again);
                let waited_ms = start.elapsed().as_millis();
                return Err(errors::unreachable(&self.servers, waited_ms, &reason));
            }
            std::thread::sleep(PAUSE);
        }
    }

    fn count_once(&self, topic: &str, timeout: Duration) -> Result<u32, Failed> {
        let metadata = self.asker.fetch_metadata(Some(topic), timeout);
        let metadata = metadata.map_err(|error| self.failed(topic, &error))?;
        let Some(found) = metadata.topics().iter().find(|found| found.name() == topic) else {
            return Err(Failed::Ends(errors::missing(topic, &self.servers)));
        };
        if let Some(code) = found.error() {
            return Err(self.failed(topic, &KafkaError::MetadataFetch(code.into())));
        }
        match u32::try_from(found.partitions().len()) {
            Ok(count) if count > 0 => Ok(count),
            _ => Err(Failed::Again(format!("topic {topic} has no partition yet"))),
        }
    }

    fn failed(&self, topic: &str, error: &KafkaError) -> Failed {
        match error.rdkafka_error_code() {
            Some(Code::UnknownTopicOrPartition | Code::UnknownTopic) => {
                Failed::Ends(errors::missing(topic, &self.servers))
            }
            Some(Code::TopicAuthorizationFailed | Code::ClusterAuthorizationFailed) => {
                let text = format!("topic {topic} at {}: not allowed", self.servers);
                Failed::Ends(
                    Error::failed(text).line("what to do: grant DESCRIBE and READ on the topic"),
                )
            }
            Some(Code::InvalidTopic) => Failed::Ends(Error::usage(format!(
                "{topic:?} is no name of a Kafka topic"
            ))),
            _ => Failed::Again(error.to_string()),
        }
    }

    /// The offset of each partition for one question: begin, end, or a time in ms; `None` where
    /// no record is that young.
    fn offsets(&self, topic: &str, count: u32, wanted: Offset) -> Result<Vec<Option<u64>>, Error> {
        self.ask(|timeout| {
            let failed = |error: KafkaError| self.failed(topic, &error);
            let mut list = TopicPartitionList::with_capacity(count as usize);
            for partition in 0..count {
                let partition = i32::try_from(partition).expect("a partition of Kafka");
                list.add_partition_offset(topic, partition, wanted)
                    .map_err(failed)?;
            }
            // One request for all partitions of a broker. Beginning and end are times to Kafka.
            let answer = self
                .asker
                .offsets_for_times(list, timeout)
                .map_err(failed)?;
            let mut offsets = vec![None; count as usize];
            for element in answer.elements() {
                element.error().map_err(failed)?;
                let place = usize::try_from(element.partition()).expect("as asked");
                offsets[place] = match element.offset() {
                    Offset::Offset(offset) => u64::try_from(offset).ok(),
                    _ => None,
                };
            }
            Ok(offsets)
        })
    }

    /// As [`KafkaTopics::offsets`] where every partition has an answer.
    fn all_offsets(&self, topic: &str, count: u32, wanted: Offset) -> Result<Vec<u64>, Error> {
        let offsets = self.offsets(topic, count, wanted)?;
        offsets.into_iter().collect::<Option<_>>().ok_or_else(|| {
            Error::failed(format!(
                "topic {topic} at {}: no offset was told",
                self.servers
            ))
        })
    }
}

impl Topics for KafkaTopics {
    fn ranges(&self, topic: &str) -> Result<Vec<OffsetRange>, Error> {
        let count = self.partition_count(topic)?;
        let lows = self.all_offsets(topic, count, Offset::Beginning)?;
        let highs = self.all_offsets(topic, count, Offset::End)?;
        let range = |(low, high)| OffsetRange { low, high };
        Ok(lows.into_iter().zip(highs).map(range).collect())
    }

    fn partition_count(&self, topic: &str) -> Result<u32, Error> {
        self.ask(|timeout| self.count_once(topic, timeout))
    }

    fn starts(&self, topic: &str, start: Start) -> Result<Vec<u64>, Error> {
        let count = self.partition_count(topic)?;
        let time_ms = match start {
            Start::Beginning => return self.all_offsets(topic, count, Offset::Beginning),
            Start::Time(time_ms) => Offset::Offset(time_ms.max(0)),
        };
        // The end first: a record that comes in between is then read and not passed over.
        let highs = self.all_offsets(topic, count, Offset::End)?;
        let found = self.offsets(topic, count, time_ms)?;
        Ok(found
            .into_iter()
            .zip(highs)
            .map(|(found, high)| found.unwrap_or(high))
            .collect())
    }

    fn topic_id(&self, topic: &str) -> Result<Option<String>, Error> {
        self.ask(|timeout| {
            let ids = ids::topic_ids(self.asker.client(), &[topic], timeout);
            let ids =
                ids.map_err(|(code, _)| self.failed(topic, &KafkaError::MetadataFetch(code)))?;
            Ok(ids.into_iter().next().flatten())
        })
    }

    fn settings(&self, topic: &str) -> Result<Option<TopicSettings>, Error> {
        self.describe(topic)
    }

    fn committed(&self, next_offsets: &[Assignment]) -> Option<String> {
        let place =
            |offset: &Assignment| (offset.topic.clone(), offset.partition, offset.next_offset);
        let offsets: Vec<_> = next_offsets.iter().map(place).collect();
        let told = self.commit_for_lag_tools(&offsets);
        told.err().map(|error| error.text)
    }

    fn reader(&self, partitions: &[Assignment], waker: Waker) -> Result<Box<dyn Reader>, Error> {
        Ok(Box::new(KafkaReader::new(
            &self.reader,
            &self.servers,
            partitions,
            waker,
        )?))
    }
}
