//! Offsets committed to the job's consumer group, so that tools that show lag have something to
//! show.
//!
//! Invariant: nothing here reads an offset, and no reader starts from one; a group that somebody
//! has reset changes nothing. It never joins the group, so it cannot commit while another program
//! is a member of it.

use super::context::Context;
use super::errors;
use crate::error::Error;
use rdkafka::ClientConfig;
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer};
use rdkafka::error::KafkaError;
use rdkafka::{Offset, TopicPartitionList};
use std::sync::{Mutex, PoisonError};

/// The group, through a client that is made for the first commit.
pub(super) struct LagGroup {
    config: ClientConfig,
    client: Mutex<Option<BaseConsumer<Context>>>,
}

impl LagGroup {
    /// The group that `config` names; connects later.
    pub(super) fn new(config: ClientConfig) -> LagGroup {
        LagGroup {
            config,
            client: Mutex::new(None),
        }
    }

    /// See [`super::KafkaTopics::commit_for_lag_tools`].
    pub(super) fn commit(
        &self,
        servers: &str,
        offsets: &[(String, u32, u64)],
    ) -> Result<(), Error> {
        if offsets.is_empty() {
            return Ok(());
        }
        let group = self.config.get("group.id").unwrap_or_default();
        let failed = |error: &KafkaError| {
            Error::failed(format!(
                "offsets were not committed to group {group} at {servers}"
            ))
            .line(format!("found: {error}"))
            .line("they are for tools that show lag; the job does not need them")
        };
        let mut list = TopicPartitionList::with_capacity(offsets.len());
        for (topic, partition, next_offset) in offsets {
            // What Kafka cannot have, it refuses.
            let partition = i32::try_from(*partition).unwrap_or(i32::MAX);
            let next_offset = i64::try_from(*next_offset).unwrap_or(i64::MAX);
            list.add_partition_offset(topic, partition, Offset::Offset(next_offset))
                .map_err(|error| failed(&error))?;
        }
        let mut kept = self.client.lock().unwrap_or_else(PoisonError::into_inner);
        let client = match kept.take() {
            Some(client) => client,
            None => {
                let made = self.config.create_with_context(Context::default());
                made.map_err(|error| errors::not_created(&error))?
            }
        };
        let committed = client.commit(&list, CommitMode::Sync);
        Context::serve(&client);
        *kept = Some(client);
        committed.map_err(|error| failed(&error))
    }
}
