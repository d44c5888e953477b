//! The settings of a topic, by an admin client of its own for each question: it is asked at a start
//! and then rarely.
//!
//! It cannot read them without DESCRIBE_CONFIGS on the topic, and says `None` then.

use super::context::Context;
use super::{KafkaTopics, errors};
use crate::error::Error;
use crate::topic::{TopicSettings, Topics};
use rdkafka::admin::{AdminClient, AdminOptions, ResourceSpecifier};
use rdkafka::error::{KafkaError, RDKafkaErrorCode as Code};
use std::time::Duration;

impl KafkaTopics {
    /// See [`crate::topic::Topics::settings`].
    pub(super) fn describe(&self, topic: &str) -> Result<Option<TopicSettings>, Error> {
        let config = super::settings::asker(&self.reader);
        let admin: AdminClient<Context> = config
            .create_with_context(Context::default())
            .map_err(|error| errors::not_created(&error))?;
        let runtime = tokio::runtime::Builder::new_current_thread().build();
        let runtime =
            runtime.map_err(|error| Error::failed(format!("no runtime could be made: {error}")))?;
        let found = self.ask(
            |timeout| match runtime.block_on(once(&admin, topic, timeout)) {
                Ok(found) => Ok(found),
                Err(error) => match error.rdkafka_error_code() {
                    Some(Code::TopicAuthorizationFailed | Code::ClusterAuthorizationFailed) => {
                        Ok(None)
                    }
                    _ => Err(self.failed(topic, &error)),
                },
            },
        )?;
        if found.is_none() {
            // Or there is no such topic.
            self.partition_count(topic)?;
        }
        Ok(found)
    }
}

/// The settings; `None` when the broker gave none at all. rdkafka passes over the error that it
/// gave instead: a topic that may not be described, or is missing.
async fn once(
    admin: &AdminClient<Context>,
    topic: &str,
    timeout: Duration,
) -> Result<Option<TopicSettings>, KafkaError> {
    let options = AdminOptions::new().request_timeout(Some(timeout));
    let asked = [ResourceSpecifier::Topic(topic)];
    let answers = admin.describe_configs(&asked, &options).await?;
    let none = KafkaError::AdminOp(Code::NoEnt);
    let found = answers.into_iter().next().ok_or(none)?;
    let found = found.map_err(KafkaError::AdminOp)?;
    let pairs = found.entries.iter().filter_map(|entry| {
        let value = entry.value.as_deref()?;
        Some((entry.name.as_str(), value))
    });
    let settings = TopicSettings::from_pairs(pairs);
    Ok((!found.entries.is_empty()).then_some(settings))
}
