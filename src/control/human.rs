//! The status document as a person reads it: the verdict first, then a line a subject.

use super::document::{Checkpoint, Generation, Run, Sink, SinkState, Status};
use crate::summary::grouped;
use indicatif::HumanBytes;
use std::collections::BTreeMap;

/// The lines, with a line break at the end.
pub fn text(status: &Status) -> String {
    let mut lines = vec![status.verdict.line()];
    let run = status.run.as_ref();
    lines.push(format!(
        "job {}{}",
        status.job,
        run.map(about).unwrap_or_default()
    ));
    for generation in &status.generations {
        lines.extend(of_generation(generation));
    }
    if let Some(reads) = &status.reads {
        let (dropped, quarantined) = (&reads.dropped, &reads.quarantined);
        let emitted = grouped(reads.emitted);
        let dropped = counted(dropped);
        let quarantined = counted(quarantined);
        let sick = match reads.emitted_unsafe {
            0 => String::new(),
            count => format!("   {} emitted that may be stale", grouped(count)),
        };
        lines.push(format!(
            "READs      {emitted} emitted   {dropped} dropped   {quarantined} quarantined{sick}"
        ));
    }
    if let Some(mutations) = &status.mutations {
        lines.push(format!("mutations  {} emitted", grouped(mutations.emitted)));
    }
    if !status.ignored.is_empty() {
        lines.push(format!("ignored    {}", counted(&status.ignored)));
    }
    if let Some(markers) = &status.markers {
        let bytes = markers
            .bytes
            .map(|bytes| format!("   {}", HumanBytes(bytes)));
        let keeps = run.map(|run| format!("   {}", run.keeps));
        lines.push(format!(
            "markers    {}{}{}",
            grouped(markers.count),
            bytes.unwrap_or_default(),
            keeps.unwrap_or_default()
        ));
    }
    match &status.checkpoint {
        Some(checkpoint) => lines.push(of_checkpoint(checkpoint)),
        None if run.is_some() => lines.push("checkpoint none yet in this run".to_owned()),
        None => {}
    }
    lines.extend(status.sink.as_ref().map(of_sink));
    for trouble in &status.troubles {
        let what = trouble.what.lines().next().unwrap_or_default();
        lines.push(format!("waiting    {}: {what}", trouble.who));
    }
    for note in &status.not_proven {
        lines.push(format!("not proven {note}"));
    }
    if let Some(run) = run {
        lines.extend(run.not_fenced.iter().map(|why| format!("not fenced {why}")));
        lines.extend(
            run.lease_trouble
                .iter()
                .map(|what| format!("lease      {what}")),
        );
    }
    lines.iter().map(|line| line.clone() + "\n").collect()
}

fn about(run: &Run) -> String {
    let plural = |count: usize, word: &str| match count {
        1 => format!("1 {word}"),
        _ => format!("{count} {word}s"),
    };
    let processes = match (run.processes, word_of_process(run.processes)) {
        (1, _) => plural(run.workers, "worker"),
        (processes, word) => {
            let each = run.workers / processes.max(1);
            format!("{processes} {word} x {}", plural(each, "worker"))
        }
    };
    let from = run
        .restored_from
        .map(|number| format!("   from checkpoint {number}"));
    format!(
        "   incarnation {}   {processes}   up {}{}",
        run.incarnation,
        clock(run.up_seconds),
        from.unwrap_or_default()
    )
}

fn word_of_process(count: usize) -> &'static str {
    if count == 1 { "process" } else { "processes" }
}

fn of_generation(generation: &Generation) -> Vec<String> {
    let head = format!("generation {}", generation.id);
    let mut lines = vec![format!("{head:<54} {}", generation.state.word())];
    for step in &generation.timeline {
        lines.push(format!(
            "  {:<15} {}",
            step.state.word(),
            time_of_day(&step.at)
        ));
    }
    let evidence = match &generation.source_finished {
        Some(evidence) => format!("   snapshot ended: {evidence}"),
        None => String::new(),
    };
    lines.push(format!(
        "  {:<15} {}   {}/{} snapshot partitions at their end{evidence}",
        "now", generation.phase, generation.partitions_at_end, generation.partitions
    ));
    lines
}

fn of_checkpoint(checkpoint: &Checkpoint) -> String {
    let at = checkpoint.at.as_deref().map(time_of_day);
    let new = checkpoint
        .bytes_new
        .map(|new| format!("{} new of ", HumanBytes(new)));
    let seconds = checkpoint
        .seconds
        .map(|seconds| format!("   {seconds:.2} s"));
    format!(
        "checkpoint {}   {}   {}{}{}",
        checkpoint.number,
        at.unwrap_or("–"),
        new.unwrap_or_default(),
        HumanBytes(checkpoint.bytes),
        seconds.unwrap_or_default()
    )
}

fn of_sink(sink: &Sink) -> String {
    let rows = grouped(sink.rows_written);
    let how = match (sink.state, &sink.reason) {
        (SinkState::Running, _) => format!("{:.2} s behind", sink.behind_seconds),
        (_, reason) => {
            let reason = reason.as_deref().unwrap_or_default();
            format!("{} attempts failed: {reason}", sink.attempts_failed)
        }
    };
    format!("sink       {}   {rows} rows written   {how}", sink.kind)
}

/// A total, and its parts that are not 0.
fn counted(parts: &BTreeMap<String, u64>) -> String {
    let total = grouped(parts.values().sum());
    let parts = parts.iter().filter(|(_, count)| **count > 0);
    let parts: Vec<String> = parts
        .map(|(name, count)| format!("{name} {}", grouped(*count)))
        .collect();
    match parts.is_empty() {
        true => total,
        false => format!("{total} ({})", parts.join(", ")),
    }
}

/// `HH:MM:SS` of RFC 3339; all of it when it is something else.
fn time_of_day(at: &str) -> &str {
    at.get(11..19).unwrap_or(at)
}

fn clock(up_seconds: f64) -> String {
    let seconds = up_seconds.max(0.0) as u64;
    let (hours, minutes) = (seconds / 3_600, seconds / 60 % 60);
    format!("{hours:02}:{minutes:02}:{:02}", seconds % 60)
}

#[cfg(test)]
mod tests {
    use super::text;
    use crate::checkpoint::Saved;
    use crate::control::document::State;
    use crate::control::view::{Facts, Seen, running, starting};
    use crate::sink::queue::SinkState;

    #[test]
    fn a_person_reads_the_verdict_first_and_all_that_is_known() {
        let facts = Facts {
            job: "hello".to_owned(),
            generation: "g1".to_owned(),
            incarnation: 7,
            processes: 2,
            workers: 4,
            restored_from: Some(41),
            keeps: "kept until ready".to_owned(),
            sink_kind: "postgres".to_owned(),
            not_proven: vec!["m[0] is read from offset 7".to_owned()],
            ..Facts::default()
        };
        let mut seen = Seen {
            started_ms: 1_000,
            ..Seen::default()
        };
        let shown = &mut seen.shown;
        shown.snapshot_partitions = (2, 4);
        shown.phase = "reading the snapshot, 2 of 4 partitions at end".to_owned();
        shown.counts.reads_read = 10_000;
        shown.counts.reads_emitted = 9_000;
        shown.counts.reads_dropped_marker = 1_000;
        shown.counts.mutations_emitted = 2_310;
        shown.counts.markers = 402_117;
        shown.counts.marker_bytes = 9 << 20;
        shown.saved = Some(Saved {
            number: 42,
            bytes_new: 1 << 20,
            bytes: 9 << 20,
            took_ms: 40,
            at_ms: 0,
        });
        seen.saved_at_ms = Some(3_600_000);
        seen.sink = Some((SinkState::Running, 12_104));
        seen.timeline = vec![(State::Open, 0), (State::Reading, 61_000)];
        let said = text(&running(&facts, &seen, 3_662_000));
        let expected = "\
NOT READY: reading the snapshot, 2 of 4 partitions at end; when the snapshot is complete, end it. \
DO: headwater end-snapshot – It can be left alone.
job hello   incarnation 7   2 processes x 2 workers   up 01:01:01   from checkpoint 41
generation g1                                          reading
  open            00:00:00
  reading         00:01:01
  now             reading the snapshot, 2 of 4 partitions at end   2/4 snapshot partitions at \
their end
READs      9,000 emitted   1,000 (marker 1,000) dropped   0 quarantined
mutations  2,310 emitted
markers    402,117   9.00 MiB   kept until ready
checkpoint 42   01:00:00   1.00 MiB new of 9.00 MiB   0.04 s
sink       postgres   12,104 rows written   0.00 s behind
not proven m[0] is read from offset 7
";
        assert_eq!(said, expected);
    }

    #[test]
    fn what_is_not_known_is_left_out() {
        let said = text(&starting("hello", 0));
        assert!(said.starts_with("STARTING: "), "{said}");
        assert_eq!(said.lines().count(), 2, "{said}");
    }
}
