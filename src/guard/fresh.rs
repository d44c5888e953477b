//! What is looked at when a job starts for the first time: settings of its topics, and where its
//! mutations are read from. The only part of the guard that asks anyone.
//!
//! Invariant: what is found wrong is refused before the job is claimed.

use super::budget::{Budget, Rates, TtlVerdict, check_ttl, rate};
use super::start::{PartitionStart, compaction, short_retention};
use super::{GuardSettings, margin_ms, ms};
use crate::config::Config;
use crate::config::choices::KeepMarkers;
use crate::config::units::print_instant;
use crate::error::Error;
use crate::job::{Partitions, topic_names};
use crate::table::{Role, Table};
use crate::topic::mixed::{TopicKind, kind};
use crate::topic::{OffsetRange, Start, Topics};

/// What was found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fresh {
    /// Where mutations are read from, for the manifest.
    pub starts: Vec<PartitionStart>,
    /// What a person should know.
    pub notes: Vec<String>,
}

/// Looks at the topics of a job that is to read `partitions`, at `now_ms` since 1970, which must
/// not be before the starts of these partitions were looked up.
///
/// # Errors
/// Refused when a mutation topic does not keep what a rebuild needs, or the ttl is below the budget
/// and `retention.require_budget` is set; a usage error for a start in the future.
pub fn look(
    topics: &dyn Topics,
    tables: &[Table],
    config: &Config,
    partitions: &Partitions,
    now_ms: i64,
) -> Result<Fresh, Error> {
    if let Start::Time(at_ms) = config.source.start
        && at_ms > now_ms
    {
        return Err(Error::usage("`source.start` lies in the future")
            .line(format!("found     {}", print_instant(at_ms)))
            .line(format!("expected  {} or earlier", print_instant(now_ms)))
            .line("Mutations are read from before the snapshot's start."));
    }
    let needed_ms = ms(config.retention.rebuild_alarm_after);
    let mut fresh = Fresh::default();
    for role in [Role::Mutations, Role::Snapshot] {
        for topic in topic_names(tables, role) {
            let settings = topics.settings(&topic)?;
            if let Some(settings) = &settings {
                if role == Role::Mutations {
                    compaction(&topic, settings, needed_ms)?;
                }
                let short = short_retention(&topic, role, settings, needed_ms);
                fresh.notes.extend(short);
            } else if kind(&topic) == TopicKind::Kafka {
                fresh.notes.push(format!(
                    "the settings of topic {topic} may not be read (DESCRIBE_CONFIGS is not \
                     granted), so nobody looks whether it keeps records long enough"
                ));
            }
            if role == Role::Mutations {
                let ranges = topics.ranges(&topic)?;
                let found = starts(&topic, config, partitions, &ranges, now_ms);
                fresh.starts.extend(found);
            }
        }
    }
    fresh.notes.extend(ttl(topics, tables, config)?);
    Ok(fresh)
}

/// Where the partitions of one mutation topic are read from.
fn starts(
    topic: &str,
    config: &Config,
    partitions: &Partitions,
    ranges: &[OffsetRange],
    now_ms: i64,
) -> Vec<PartitionStart> {
    let by_offset = config.source.start_offsets.contains_key(topic);
    let asked_ms = match config.source.start {
        Start::Time(at_ms) if !by_offset => Some(at_ms),
        Start::Time(_) | Start::Beginning => None,
    };
    let own = partitions
        .mutations
        .iter()
        .filter(|from| from.topic == topic);
    own.map(|from| PartitionStart {
        topic: topic.to_owned(),
        partition: from.partition,
        next_offset: from.next_offset,
        low: ranges
            .get(from.partition as usize)
            .map_or(0, |range| range.low),
        read_since_ms: now_ms,
        asked_ms,
        first_ms: None,
    })
    .collect()
}

/// Compares the ttl with what the READs that are there already will need.
fn ttl(topics: &dyn Topics, tables: &[Table], config: &Config) -> Result<Option<String>, Error> {
    if config.retention.keep_markers != KeepMarkers::Ttl {
        return Ok(None);
    }
    let mut rows: u64 = 0;
    for topic in topic_names(tables, Role::Snapshot) {
        for range in topics.ranges(&topic)? {
            rows = rows.saturating_add(range.high.saturating_sub(range.low));
        }
    }
    let guard = GuardSettings::of(config);
    let rate = rate(&Rates::default(), None, guard.rows_per_second_min);
    // None yet: the snapshot may be about to begin.
    let rows_left = (rows > 0).then_some(rows);
    let budget = Budget::of(0, rows_left, rate, margin_ms(config));
    match check_ttl(ms(config.retention.ttl), &budget, guard.require_budget) {
        TtlVerdict::Fits | TtlVerdict::Unknown => Ok(None),
        TtlVerdict::Short(text) => Ok(Some(text)),
        TtlVerdict::Refuse(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::{Fresh, look};
    use crate::config::Config;
    use crate::config::choices::KeepMarkers;
    use crate::error::{Error, ErrorKind};
    use crate::run::partitions;
    use crate::table::Table;
    use crate::topic::memory::{MemoryTopics, OwnedRecord};
    use crate::topic::{Start, TopicSettings};
    use std::time::Duration;

    const NOW: i64 = 1_000_000;

    /// Topics `m`, which begins at offset 2, and `s`, of which one row is a READ to come.
    fn topics() -> MemoryTopics {
        let topics = MemoryTopics::default();
        for (topic, count) in [("m", 5), ("s", 3)] {
            for index in 0..count {
                let timestamp_ms = 1000 * index;
                topics.append(
                    topic,
                    0,
                    OwnedRecord {
                        timestamp_ms,
                        ..OwnedRecord::new(Some("{}"), None)
                    },
                );
            }
        }
        topics.trim_to("m", 0, 2);
        topics.configure("m", TopicSettings::default());
        topics.configure("s", TopicSettings::default());
        topics
    }

    fn fresh(topics: &MemoryTopics, config: &Config) -> Result<Fresh, Error> {
        let tables = [Table {
            name: "public.t".to_owned(),
            mutations: "m".to_owned(),
            snapshot: "s".to_owned(),
            key: None,
        }];
        let partitions = partitions(topics, &tables, config)?;
        look(topics, &tables, config, &partitions, NOW)
    }

    #[test]
    fn where_it_starts_is_kept() {
        let mut config = Config::default();
        let start = &fresh(&topics(), &config).expect("fine").starts[0];
        assert_eq!((start.next_offset, start.low, start.asked_ms), (2, 2, None));
        assert_eq!(start.read_since_ms, NOW);
        config.source.start = Start::Time(3000);
        let start = &fresh(&topics(), &config).expect("offset 2 is older").starts[0];
        assert_eq!((start.next_offset, start.asked_ms), (3, Some(3000)));
        config.source.start_offsets.insert("m".to_owned(), vec![4]);
        let start = &fresh(&topics(), &config).expect("held").starts[0];
        assert_eq!((start.next_offset, start.asked_ms), (4, None));
        config.source.start_offsets.clear();
        config.source.start = Start::Time(2000);
        let error = fresh(&topics(), &config).expect_err("the topic no longer proves it");
        assert_eq!(error.kind, ErrorKind::Refused);
        config.source.start = Start::Time(NOW + 1);
        let error = fresh(&topics(), &config).expect_err("in the future");
        assert_eq!(error.kind, ErrorKind::Usage);
    }

    #[test]
    fn settings_of_topics_are_looked_at() {
        let (topics, mut config) = (topics(), Config::default());
        let compacted = TopicSettings {
            compacted: true,
            deleted: true,
            retention_ms: Some(3_600_000),
            retention_bytes: None,
            delete_retention_ms: Some(86_400_000),
        };
        topics.configure("s", compacted);
        let notes = fresh(&topics, &config)
            .expect("a snapshot topic has no DELETEs")
            .notes;
        assert_eq!(notes.len(), 1, "{notes:?}");
        topics.configure("m", compacted);
        let error = fresh(&topics, &config).expect_err("24 h are less than 3 d");
        assert!(error.text.contains("delete.retention.ms"), "{error}");
        config.retention.rebuild_alarm_after = Duration::from_secs(3600);
        assert_eq!(fresh(&topics, &config).expect("enough").notes.len(), 0);
    }

    #[test]
    fn a_ttl_below_the_budget_warns_or_is_refused() {
        let (topics, mut config) = (topics(), Config::default());
        config.retention.keep_markers = KeepMarkers::Ttl;
        config.retention.rows_per_second_min = 1;
        config.retention.start_margin = Duration::from_secs(10);
        config.retention.ttl = Duration::from_secs(14);
        let notes = fresh(&topics, &config).expect("a warning").notes;
        assert!(notes[0].contains("ttl of 14s"), "{notes:?}");
        config.retention.require_budget = true;
        let error = fresh(&topics, &config).expect_err("required");
        assert_eq!(error.kind, ErrorKind::Refused);
        config.retention.ttl = Duration::from_millis(14_500);
        assert_eq!(
            fresh(&topics, &config)
                .expect("3 s x 1.5 + 10 s")
                .notes
                .len(),
            0
        );
    }
}
