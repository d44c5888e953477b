//! What librdkafka's errors mean for the job, and their words.

use super::queue::Event;
use crate::error::Error;
use crate::topic::Assignment;
use rdkafka::error::{KafkaError, RDKafkaErrorCode as Code};

/// An error that came in the place of a record.
#[derive(Clone, Debug)]
pub(super) struct Problem {
    pub(super) code: Code,
    /// Empty when it is about no topic.
    pub(super) topic: String,
    pub(super) partition: i32,
    /// Negative when it is about no offset.
    pub(super) offset: i64,
    pub(super) text: String,
}

/// What an error means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Severity {
    /// librdkafka goes on trying; the person should see it.
    Passes,
    /// The assigned offset is not in the log.
    OffsetGone,
    /// Reading cannot go on.
    Ends,
}

impl Problem {
    /// What an event says that is no record.
    pub(super) fn of(event: &Event<'_>) -> Self {
        let record = "a record of a partition that was not asked for";
        Problem {
            code: event.error().unwrap_or(Code::Fail),
            topic: event.topic().to_string(),
            partition: event.partition(),
            offset: event.offset(),
            text: event.error().map_or(record.into(), |_| event.error_text()),
        }
    }

    /// A partition that the metadata does not have; `code` is what it says of the topic.
    pub(super) fn missing(topic: String, partition: i32, code: Option<Code>, count: usize) -> Self {
        let text = match code {
            Some(code) => code.to_string(),
            None => format!("the topic has {count} partitions"),
        };
        Problem {
            code: code.unwrap_or(Code::UnknownPartition),
            topic,
            partition,
            offset: -1,
            text,
        }
    }

    /// What it means. Errors that are not known here end the job: what passes is listed.
    pub(super) fn severity(&self) -> Severity {
        match self.code {
            Code::AutoOffsetReset | Code::OffsetOutOfRange | Code::LogTruncation => {
                Severity::OffsetGone
            }
            Code::AllBrokersDown
            | Code::BrokerTransportFailure
            | Code::BrokerDestroy
            | Code::Resolve
            | Code::OperationTimedOut
            | Code::MessageTimedOut
            | Code::RequestTimedOut
            | Code::TimedOutQueue
            | Code::WaitCache
            | Code::WaitingForCoordinator
            | Code::Retry
            | Code::LeaderNotAvailable
            | Code::NotLeaderForPartition
            | Code::ReplicaNotAvailable
            | Code::BrokerNotAvailable
            | Code::NetworkException
            | Code::NotEnoughReplicas
            | Code::CoordinatorLoadInProgress
            | Code::CoordinatorNotAvailable
            | Code::NotCoordinator
            | Code::KafkaStorageError
            | Code::FencedLeaderEpoch
            | Code::UnknownLeaderEpoch
            | Code::OffsetNotAvailable
            | Code::FetchSessionIdNotFound
            | Code::InvalidFetchSessionEpoch
            | Code::PreferredLeaderNotAvailable
            | Code::ThrottlingQuotaExceeded => Severity::Passes,
            _ => Severity::Ends,
        }
    }

    fn place(&self) -> String {
        let Problem {
            topic, partition, ..
        } = self;
        match (topic.is_empty(), self.offset < 0) {
            (true, _) => "Kafka".into(),
            (false, true) => format!("topic {topic} partition {partition}"),
            (false, false) => {
                format!("topic {topic} partition {partition} offset {}", self.offset)
            }
        }
    }

    /// The error that ends the reader.
    pub(super) fn error(&self) -> Error {
        let error = |what: &str| {
            Error::failed(format!("{}: {what}", self.place()))
                .line(format!("found: {} ({:?})", self.text, self.code))
        };
        match self.code {
            Code::UnknownTopicOrPartition | Code::UnknownTopic | Code::UnknownPartition => {
                error("the topic or partition does not exist, or no longer")
                    .line("what to do: a topic that was deleted and made anew needs a new job")
            }
            Code::TopicAuthorizationFailed | Code::ClusterAuthorizationFailed => {
                error("reading is not allowed").line("what to do: grant READ on the topic")
            }
            Code::NotImplemented | Code::BadCompression => {
                error("the batch cannot be decompressed")
                    .line("what to do: see that this build has the codec of the topic")
            }
            _ => error("the log cannot be read on"),
        }
    }

    /// The error about an offset that the log does not hold; `range` if it could be asked.
    pub(super) fn offset_gone(&self, range: Option<(i64, i64)>) -> Error {
        let found = match range {
            Some((low, high)) => format!("the log holds offsets {low} to {high} (the end)"),
            None => "what the log holds could not be asked".to_string(),
        };
        Error::refused(format!("{} is not in the log", self.place()))
            .line(found)
            .line("records between were deleted by retention, or the topic was made anew")
            .line("a job that goes on would miss mutations, so that stale rows could stay")
            .line("what to do: start a new job with a new snapshot; raise the topic's retention")
    }
}

/// An offset that was given before.
pub(super) fn went_back(topic: &str, partition: i32, next_offset: u64, found: u64) -> Error {
    Error::refused(format!(
        "topic {topic} partition {partition} went back to offset {found}"
    ))
    .line(format!("offset {next_offset} or a later one was expected"))
    .line("the log was cut and written anew (an unclean leader election, a restored broker)")
    .line("what to do: start a new job with a new snapshot")
}

/// A client that librdkafka does not make. Values of settings are not repeated: they may be
/// secrets.
pub(super) fn not_created(error: &KafkaError) -> Error {
    match error {
        KafkaError::ClientConfig(_, found, name, value) => {
            let error = Error::usage(format!("[kafka] \"{name}\" is not accepted by librdkafka"));
            let tells_value = !value.is_empty() && found.contains(value.as_str());
            let found = if tells_value {
                "its value is not possible"
            } else {
                found
            };
            error
                .line(format!("found: {found}"))
                .line("expected: a name and value of librdkafka's CONFIGURATION.md")
                .line("what to do: correct the line")
        }
        other => Error::usage(format!("no Kafka client could be made: {other}"))
            .line("what to do: correct the settings in [kafka]"),
    }
}

/// An assignment that librdkafka does not take.
pub(super) fn not_assigned(assignment: &Assignment, error: &KafkaError) -> Error {
    let Assignment {
        topic,
        partition,
        next_offset,
    } = assignment;
    Error::failed(format!(
        "topic {topic} partition {partition} cannot be read from offset {next_offset}: {error}"
    ))
}

/// Brokers that do not let us in.
pub(super) fn denied(servers: &str, reason: &str) -> Error {
    Error::failed(format!(
        "the brokers at {servers} do not let this client in"
    ))
    .line(format!("found: {reason}"))
    .line("what to do: correct security.protocol, sasl.* and ssl.* in [kafka]")
}

/// Brokers that do not answer.
pub(super) fn unreachable(servers: &str, waited_ms: u128, reason: &str) -> Error {
    Error::failed(format!(
        "no Kafka broker answers at bootstrap.servers = {servers:?}"
    ))
    .line(format!("found: {reason}"))
    .line(format!("waited: {waited_ms} ms"))
    .line("what to do: correct bootstrap.servers in [kafka], or start the brokers")
}

/// A topic that is not there.
pub(super) fn missing(topic: &str, servers: &str) -> Error {
    Error::usage(format!("topic {topic} does not exist at {servers}"))
        .line("what to do: correct its name, or make it (Debezium makes a topic with its first")
        .line("record), with as many partitions as it is to have")
}
