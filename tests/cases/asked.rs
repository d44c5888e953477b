//! What a person asks of the job in a case.
//!
//! It knows one request: that the snapshot is complete, up to given ends.

use headwater::generation::request::{Body, Request};
use headwater_operators::control::PartitionTarget;
use serde_json::Value;

/// `{"S": {"0": 2}}` beside the verb: ends by topic and partition.
pub(crate) fn finish(step: &Value) -> Result<Request, String> {
    let topics = step["at"].as_object();
    let topics = topics.ok_or_else(|| format!("no ends: {step}"))?;
    let mut ends = Vec::new();
    for (topic, partitions) in topics {
        for (partition, end) in partitions.as_object().into_iter().flatten() {
            let bad = || format!("no end of {topic}[{partition}]: {end}");
            ends.push(PartitionTarget {
                topic: topic.clone(),
                partition: partition.parse().map_err(|_| bad())?,
                end: end.as_u64().ok_or_else(bad)?,
            });
        }
    }
    Ok(Request {
        id: "finish".to_owned(),
        body: Body::Finish {
            generation: "g1".to_owned(),
            ends,
        },
    })
}
