//! How long topics keep what the job needs, against how long a rebuild may take. Pure.
//!
//! Invariant: what would lose mutations or READs before they are read is never called good.
//!
//! It cannot know how long the rebuild takes: it takes what the configuration allows for it.

use super::finding::Finding;
use crate::config::units::print_duration;
use crate::error::ErrorKind::Refused;
use crate::table::Role;
use crate::topic::TopicSettings;
use std::time::Duration;

/// How long things must be kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Need {
    /// `retention.start_margin`: what is read from before a snapshot begins.
    pub margin: Duration,
    /// How long a rebuild may be open: `retention.rebuild_alarm_after`, or the ttl.
    pub rebuild: Duration,
    /// The setting that `rebuild` is.
    pub rebuild_key: &'static str,
}

/// Judges the settings of a topic.
pub(super) fn judge(
    role: Role,
    topic: &str,
    settings: &TopicSettings,
    need: Need,
    findings: &mut Vec<Finding>,
) {
    let thing = format!("{} {topic}", role.word());
    let before = findings.len();
    if settings.deleted {
        deleting(role, &thing, settings, need, findings);
    }
    if settings.compacted {
        compacting(role, &thing, settings, need, findings);
    }
    if findings.len() == before {
        let kept = match settings.retention_ms {
            Some(ms) if settings.deleted => print_duration(Duration::from_millis(ms)),
            _ => "for ever".to_owned(),
        };
        findings.push(Finding::ok(thing, format!("keeps its records {kept}")));
    }
}

fn deleting(
    role: Role,
    thing: &str,
    settings: &TopicSettings,
    need: Need,
    findings: &mut Vec<Finding>,
) {
    let Need {
        margin,
        rebuild,
        rebuild_key,
    } = need;
    if let Some(ms) = settings.retention_ms {
        let kept = Duration::from_millis(ms);
        let found = format!("retention.ms={ms} ({})", print_duration(kept));
        if role == Role::Mutations && kept <= margin {
            findings.push(
                Finding::bad(Refused, thing, found)
                    .expected(format!(
                        "more than retention.start_margin ({})",
                        print_duration(margin)
                    ))
                    .to_do("Mutations since before the snapshot's start would be deleted unread."),
            );
        } else if kept < rebuild + margin {
            let what = match role {
                Role::Mutations => "A job that is down or behind for longer loses mutations.",
                Role::Snapshot => "READs that are deleted before they are read are rows that miss.",
            };
            let better = match role {
                Role::Mutations => "retention.ms of",
                Role::Snapshot => "retention.ms=-1, or",
            };
            let least = print_duration(rebuild + margin);
            findings.push(Finding::warning(thing, found, &[what]).expected(format!(
                "{better} {least} or more ({rebuild_key} + start_margin)"
            )));
        }
    }
    if let Some(bytes) = settings.retention_bytes {
        findings.push(
            Finding::warning(
                thing,
                format!("retention.bytes={bytes}"),
                &["A burst of writes can push out records that were not read yet."],
            )
            .expected("retention.bytes=-1"),
        );
    }
}

fn compacting(
    role: Role,
    thing: &str,
    settings: &TopicSettings,
    need: Need,
    findings: &mut Vec<Finding>,
) {
    if role == Role::Snapshot {
        findings.push(
            Finding::warning(
                thing,
                "cleanup.policy has `compact`",
                &[
                    "An end-of-snapshot record has no key, so such a topic does not take it; and",
                    "two runs of the snapshot melt into one.",
                ],
            )
            .expected("cleanup.policy=delete, retention.ms=-1"),
        );
        return;
    }
    let ms = settings.delete_retention_ms.unwrap_or(0);
    let kept = Duration::from_millis(ms);
    // The same rule as at the start of a job.
    if kept < need.rebuild {
        let found = format!(
            "compacted, delete.retention.ms={ms} ({})",
            print_duration(kept)
        );
        findings.push(
            Finding::bad(Refused, thing, found)
                .expected(format!(
                    "{} or more ({})",
                    print_duration(need.rebuild),
                    need.rebuild_key
                ))
                .to_do("Deletes are compacted away before they are read, and a READ of such a row")
                .to_do("brings it back. Raise it, or lower the setting if rebuilds take less."),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::{Need, judge};
    use crate::check::{Finding, Level};
    use crate::table::Role;
    use crate::topic::TopicSettings;
    use std::time::Duration;

    const HOUR: u64 = 3_600_000;

    fn found(role: Role, policy: &str, retention: Option<u64>, deletes: u64) -> Vec<Finding> {
        let settings = TopicSettings {
            compacted: policy.contains("compact"),
            deleted: policy.contains("delete"),
            retention_ms: retention,
            retention_bytes: None,
            delete_retention_ms: Some(deletes),
        };
        let need = Need {
            margin: Duration::from_millis(HOUR),
            rebuild: Duration::from_millis(72 * HOUR),
            rebuild_key: "retention.rebuild_alarm_after",
        };
        let mut findings = Vec::new();
        judge(role, "t", &settings, need, &mut findings);
        findings
    }

    #[test]
    fn every_policy_is_judged_by_what_it_loses() {
        use Level::{Error, Ok, Warning};
        use Role::{Mutations, Snapshot};
        for (role, policy, retention, deletes, level, part) in [
            (Mutations, "delete", None, 0, Ok, "for ever"),
            (Mutations, "delete", Some(73 * HOUR), 0, Ok, "73h"),
            (
                Mutations,
                "delete",
                Some(72 * HOUR),
                0,
                Warning,
                "retention.ms",
            ),
            (Mutations, "delete", Some(HOUR), 0, Error, "retention.ms"),
            (Mutations, "compact", Some(HOUR), 73 * HOUR, Ok, "for ever"),
            (
                Mutations,
                "compact",
                None,
                71 * HOUR,
                Error,
                "delete.retention.ms",
            ),
            (
                Mutations,
                "compact,delete",
                Some(HOUR),
                73 * HOUR,
                Error,
                "retention.ms",
            ),
            (Snapshot, "delete", None, 0, Ok, "for ever"),
            (Snapshot, "delete", Some(HOUR), 0, Warning, "retention.ms"),
            (Snapshot, "compact", None, 73 * HOUR, Warning, "compact"),
        ] {
            let found = found(role, policy, retention, deletes);
            assert_eq!(found.len(), 1, "{found:#?}");
            assert_eq!(found[0].level, level, "{found:#?}");
            assert!(found[0].found.contains(part), "{found:#?}");
        }
    }
}
