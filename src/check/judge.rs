//! From facts to findings. Pure.

use super::columns::{self, Columns};
use super::finding::{Finding, Findings};
use super::sample::Sampled;
use super::target::Target;
use super::times;
use crate::error::Error;
use crate::key::KnownShape;
use crate::summary::grouped;
use crate::table::{Role, Table};
use std::time::Duration;

/// What was found by looking.
#[derive(Clone, Debug)]
pub struct Facts {
    /// The configured tables.
    pub tables: Vec<Table>,
    /// Every topic, mutations first.
    pub sampled: Vec<Sampled>,
    /// The key shapes that topics showed.
    pub shapes: Vec<KnownShape>,
    /// The columns that topics showed.
    pub columns: Columns,
    /// `retention.start_margin`, and what else is read from before a snapshot begins.
    pub margin: Duration,
    /// This machine's clock, ms since 1970.
    pub now_ms: i64,
    /// Whether the configured start is in the logs.
    pub start: Result<(), Error>,
    /// The target.
    pub target: Target,
}

/// What follows from the facts.
pub fn judge(facts: &Facts) -> Findings {
    let mut findings = Vec::new();
    for (index, topic) in facts.sampled.iter().enumerate() {
        let (before, after) = (&facts.sampled[..index], &facts.sampled[index + 1..]);
        if !before.iter().any(|known| same_fault(known, topic)) {
            judge_topic(topic, &mut findings);
            let like = after.iter().filter(|other| same_fault(topic, other));
            if let Some(finding) = findings.last_mut() {
                finding
                    .advice
                    .extend(like.map(|other| format!("the same for {}", thing(other))));
            }
        }
    }
    if let Err(error) = &facts.start {
        findings.push(Finding::error("start", error));
    }
    for (index, table) in facts.tables.iter().enumerate() {
        judge_key(index, table, facts, &mut findings);
    }
    columns::judge(&facts.columns, &facts.tables, &mut findings);
    times::start(&facts.sampled, facts.margin, &mut findings);
    times::topics(&facts.sampled, facts.now_ms, facts.margin, &mut findings);
    judge_target(&facts.target, &mut findings);
    Findings(findings)
}

/// Whether two topics cannot be asked for one reason, which then is not about either: a broker that
/// does not answer is told of once. How long it was waited for differs.
fn same_fault(one: &Sampled, other: &Sampled) -> bool {
    let headline = |topic: &Sampled| {
        let error = topic.ranges.as_ref().err()?;
        error.text.lines().next().map(str::to_owned)
    };
    headline(one).is_some_and(|text| headline(other) == Some(text))
}

fn thing(topic: &Sampled) -> String {
    format!("{} {}", topic.role.word(), topic.topic)
}

fn judge_topic(topic: &Sampled, findings: &mut Vec<Finding>) {
    let thing = thing(topic);
    let ranges = match &topic.ranges {
        Ok(ranges) => ranges,
        Err(error) => return findings.push(Finding::error(thing, error)),
    };
    let held: u64 = ranges.iter().map(|range| range.high - range.low).sum();
    let size = format!(
        "{} partitions, {} offsets, {} records looked at",
        ranges.len(),
        grouped(held),
        grouped(topic.records)
    );
    let before = findings.len();
    for fault in &topic.faults {
        findings.push(of_fault(topic, &thing, fault));
    }
    if let Some(at) = &topic.truncate {
        let error = Error::refused(format!("{at}: TRUNCATE"))
            .line("It has no key, so markers cannot stand for it, and the job would stop at it.")
            .line("Start behind it: source.start_offsets, with an empty target and a snapshot")
            .line("that began after it.");
        findings.push(Finding::error(&thing, &error));
    }
    if topic.slow {
        findings.push(Finding::warning(
            &thing,
            format!("{size}; time ran out before the sample was complete"),
            &["Is the broker slow or far away? Run the check again."],
        ));
    }
    match topic.role {
        Role::Mutations => judge_mutations(topic, &thing, held, findings),
        Role::Snapshot => judge_snapshot(topic, &thing, held, findings),
    }
    if findings.len() == before {
        findings.push(Finding::ok(thing, size));
    }
}

fn of_fault(topic: &Sampled, thing: &str, fault: &super::Fault) -> Finding {
    let mut finding = match fault.set_aside {
        true => Finding::warning(
            thing,
            fault.error.text.lines().next().unwrap_or_default(),
            &["It would go to the dead letters, and nothing is ready before that is accepted."],
        ),
        false => Finding::error(thing, &fault.error),
    };
    if let Some(at) = &fault.at {
        finding.found = format!("{at}: {}", finding.found);
    }
    let others = topic.faults_count - topic.faults.len() as u64;
    if others > 0 {
        let told = format!("{} more records like these", grouped(others));
        finding.advice.push(told);
    }
    finding
}

fn judge_mutations(topic: &Sampled, thing: &str, held: u64, findings: &mut Vec<Finding>) {
    let Ok(ranges) = &topic.ranges else { return };
    if held == 0 {
        findings.push(Finding::warning(
            thing,
            "holds no record",
            &[
                "Every change since before the snapshot began must be in it. Is the live",
                "connector running, and is this its topic?",
            ],
        ));
    } else if let Some(partition) = ranges.iter().position(|range| range.low > 0) {
        let low = ranges[partition].low;
        findings.push(Finding::warning(
            thing,
            format!("partition {partition} begins at offset {low}: older records were deleted"),
            &[
                "Every mutation since the snapshot began, less retention.start_margin, must",
                "still be there. This is not proven.",
            ],
        ));
    }
    if topic.records > 0 && topic.reads_in_place == topic.records {
        findings.push(Finding::warning(
            thing,
            "every record looked at is a READ",
            &[
                "A live connector's own snapshot is good here, a snapshot connector's topic is",
                "not: are the two topics of the table the wrong way round?",
            ],
        ));
    }
}

fn judge_snapshot(topic: &Sampled, thing: &str, held: u64, findings: &mut Vec<Finding>) {
    let Ok(ranges) = &topic.ranges else { return };
    if held == 0 {
        findings.push(Finding::warning(
            thing,
            "holds no READ yet",
            &[
                "Trigger the snapshot when the job runs: it waits for READs. When the snapshot is",
                "complete, `headwater end-snapshot` says so to the job.",
            ],
        ));
    } else if let Some(partition) = ranges.iter().position(|range| range.low > 0) {
        let error = Error::refused(format!(
            "partition {partition} begins at offset {}: READs were deleted",
            ranges[partition].low
        ))
        .line("Rows that never change would be missing. Start a new snapshot, on a topic with")
        .line("retention.ms=-1 and retention.bytes=-1.");
        findings.push(Finding::error(thing, &error));
    }
}

fn judge_key(index: usize, table: &Table, facts: &Facts, findings: &mut Vec<Finding>) {
    let thing = format!("key of {}", table.name);
    let of = |role| {
        let mut shapes = facts.shapes.iter();
        shapes.find(|known| known.table == index && known.role == role)
    };
    match (of(Role::Mutations), of(Role::Snapshot)) {
        // Two shapes that differ do not pass the gate: the fault of the topic has told of them.
        (Some(mutations), Some(_)) => {
            let found = format!("{} in both topics", mutations.shape);
            findings.push(Finding::ok(thing, found));
        }
        (None, None) => findings.push(Finding::warning(
            thing,
            "no row of either topic was seen",
            &["The job compares both sides when the first rows come, and stops if they differ."],
        )),
        (one, other) => {
            let Some(seen) = one.or(other) else { return };
            let role = seen.role.word();
            findings.push(Finding::warning(
                thing,
                format!(
                    "{} in the {role} topic; no good row of the other",
                    seen.shape
                ),
                &["The job compares both sides when rows come, and stops if they differ."],
            ));
        }
    }
}

fn judge_target(target: &Target, findings: &mut Vec<Finding>) {
    let thing = &target.name;
    match (&target.admitted, &target.fits) {
        (Err(error), _) | (Ok(()), Err(error)) => {
            let mut finding = Finding::error(thing, error);
            if target.setup_skipped {
                let told = "sink.setup_sql was not run by the check; `run` runs it first.";
                finding.advice.push(told.to_owned());
            }
            findings.push(finding);
        }
        (Ok(()), Ok(rows)) => findings.push(Finding::ok(
            thing,
            format!("fit; {} sampled rows laid over it", grouped(*rows as u64)),
        )),
    }
}

/// What nobody can see in topics; said when the live connector is not asked.
pub(super) fn truncate_hint() -> Finding {
    Finding::ok("TRUNCATE", "cannot be seen unless the connector sends it")
        .to_do("Debezium leaves TRUNCATE out unless skipped.operations=none in the live connector;")
        .to_do("with it the job stops at one, without it rows that were truncated would stay.")
        .to_do("With `connect` in [source] the check asks for it.")
}

#[cfg(test)]
mod tests;
