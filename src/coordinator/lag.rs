//! How far behind its end each topic is read, for whoever looks.
//!
//! Invariant: what is not known is absent.

use super::Coordinator;
use crate::gauges::TopicLag;
use crate::status::Counts;
use crate::table::Role;
use std::collections::BTreeMap;

impl Coordinator {
    pub(super) fn lag(&self, counts: &Counts) -> Vec<TopicLag> {
        let Some(highs) = &self.highs else {
            return Vec::new();
        };
        let mut topics: BTreeMap<(Role, &str), BTreeMap<u32, u64>> = BTreeMap::new();
        for ((role, topic, partition), next_offset) in &counts.next_offsets {
            let partitions = topics.entry((*role, topic)).or_default();
            partitions.insert(*partition, *next_offset);
        }
        highs.want(topics.keys().map(|(_, topic)| (*topic).to_owned()));
        let wall_ms = i64::try_from(self.wall.now_ms()).unwrap_or(i64::MAX);
        let lags = topics.into_iter().map(|((role, topic), next)| {
            let records = highs.of(topic).map(|ranges| {
                let of = (0..).zip(&ranges).map(|(partition, range)| {
                    // One that is not read yet has everything before it.
                    let next = next.get(&partition).copied().unwrap_or(range.low);
                    range.high.saturating_sub(next.max(range.low))
                });
                of.sum()
            });
            let latest = counts.live.iter().filter(|((of, _), _)| of == topic);
            let latest = latest.map(|(_, (_, last_ms))| *last_ms).max();
            TopicLag {
                topic: topic.to_owned(),
                role,
                records,
                newest_age_ms: latest
                    .map(|last_ms| u64::try_from(wall_ms.saturating_sub(last_ms)).unwrap_or(0)),
            }
        });
        lags.collect()
    }
}
