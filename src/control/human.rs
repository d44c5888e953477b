//! The status document as a person reads it: the verdict first, then a line a subject.

use super::document::{
    Checkpoint, Generation, Lag, ReadControl, Retention, Run, Sink, SinkState, Status,
};
use crate::generation::Stage;
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
    lines.extend(of_job(status));
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

/// What is not of one generation.
fn of_job(status: &Status) -> Vec<String> {
    let run = status.run.as_ref();
    let mut lines = Vec::new();
    if let Some(mutations) = &status.mutations {
        lines.push(format!("mutations  {} emitted", grouped(mutations.emitted)));
    }
    lines.extend(status.lag.iter().map(of_lag));
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
    lines.extend(status.retention.as_ref().and_then(of_window));
    lines.extend(status.read_control.as_ref().and_then(of_reads));
    match &status.checkpoint {
        Some(checkpoint) => lines.push(of_checkpoint(checkpoint)),
        None if run.is_some() => lines.push("checkpoint none yet in this run".to_owned()),
        None => {}
    }
    lines.extend(status.sink.as_ref().map(of_sink));
    for alarm in &status.alarms {
        lines.push(format!("ALARM      {}: {}", alarm.text, alarm.remedy));
    }
    for trouble in &status.troubles {
        let what = trouble.what.lines().next().unwrap_or_default();
        lines.push(format!("waiting    {}: {what}", trouble.who));
    }
    for note in &status.not_proven {
        lines.push(format!("not proven {note}"));
    }
    lines
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

/// The stages in order, each with what is known of it, as a person follows them down.
pub(super) fn of_generation(generation: &Generation) -> Vec<String> {
    let opened = generation.opened_at.as_deref();
    let opened = opened.map(|at| format!(" (opened {at})"));
    let head = format!("generation {}{}", generation.id, opened.unwrap_or_default());
    let mut lines = vec![format!("{head:<54} {}", generation.stage.word())];
    if let Some(began) = &generation.began {
        lines.push(stage_line("began", time_of_day(&began.at), &began.known_by));
    }
    for step in &generation.timeline {
        let evidence = step.evidence.clone().unwrap_or_default();
        let open = step
            .not_proven
            .iter()
            .map(|open| format!("not proven: {open}"));
        let about: Vec<String> = std::iter::once(evidence).chain(open).collect();
        let about: Vec<&str> = about.iter().map(String::as_str).collect();
        let about = about.join("; ");
        let about = about.trim_start_matches("; ");
        lines.push(stage_line(step.stage.word(), time_of_day(&step.at), about));
    }
    if let Some(wait) = &generation.waits_for {
        let next = next_stage(generation.stage).map_or("now", Stage::word);
        lines.push(stage_line(next, "waiting", &wait.text));
    }
    let mut how_far = format!(
        "{}/{} snapshot partitions at their end",
        generation.partitions_at_end, generation.partitions
    );
    if generation.targets > 0 {
        how_far += &format!(
            "   {}/{} mutation partitions at their target",
            generation.targets_reached, generation.targets
        );
    }
    let read = grouped(generation.reads.read);
    let of = generation
        .reads_total
        .map(|all| format!(" of {}", grouped(all)));
    how_far += &format!("   {read}{} READs read", of.unwrap_or_default());
    lines.push(format!("  {how_far}"));
    if let Some(promotion) = &generation.promotion {
        let how = match (&promotion.demoted, &promotion.done_at) {
            (Some(demoted), _) => format!("taken back by {}: {}", demoted.by, demoted.reason),
            (None, Some(at)) => format!("done {}", time_of_day(at)),
            (None, None) => "begun; its hook is not known to have ended well".to_owned(),
        };
        let at = time_of_day(&promotion.begun_at);
        lines.push(stage_line(
            "promotion",
            at,
            &format!("by {}, {how}", promotion.by),
        ));
    }
    lines
}

fn stage_line(word: &str, at: &str, about: &str) -> String {
    format!("  {word:<15} {at:<8}  {about}")
        .trim_end()
        .to_owned()
}

/// What comes after a stage that goes on.
fn next_stage(stage: Stage) -> Option<Stage> {
    match stage {
        Stage::Open => Some(Stage::SourceFinished),
        Stage::SourceFinished => Some(Stage::TopicConsumed),
        Stage::TopicConsumed => Some(Stage::CaughtUp),
        Stage::CaughtUp => Some(Stage::Ready),
        Stage::Ready => Some(Stage::Promoted),
        Stage::Promoted | Stage::Unsafe | Stage::Aborted | Stage::Superseded => None,
    }
}

/// What a person has asked of READs, if it is not the rule.
fn of_reads(control: &ReadControl) -> Option<String> {
    let rate = match (control.rate_set, control.per_second_max) {
        (true, Some(rate)) => Some(format!("{} a second at most", grouped(rate))),
        (true, None) => Some("as fast as they come".to_owned()),
        (false, _) => None,
    };
    let parts: Vec<String> = [
        control.paused.then(|| "paused".to_owned()),
        rate,
        control
            .markers_max
            .map(|max| format!("wait at {} markers", grouped(max))),
    ]
    .into_iter()
    .flatten()
    .collect();
    (!parts.is_empty()).then(|| format!("asked      READs: {}", parts.join(", ")))
}

/// The window of the markers, when a generation needs it.
fn of_window(retention: &Retention) -> Option<String> {
    let elapsed = clock(retention.window_seconds?);
    let since = retention.window_started_at.as_deref().map(time_of_day);
    let needed = retention.budget.as_ref();
    let needed = needed.map(|budget| format!(" of about {} needed", clock(budget.needed_seconds)));
    let used = retention.used_ratio;
    let used = used.map(|ratio| format!("   {:.0} % of the window used", ratio * 100.0));
    Some(format!(
        "window     since {}   elapsed {elapsed}{}{}",
        since.unwrap_or("–"),
        needed.unwrap_or_default(),
        used.unwrap_or_default()
    ))
}

fn of_lag(lag: &Lag) -> String {
    let records = lag
        .records
        .map(|count| format!("   {} records", grouped(count)));
    let age = lag.seconds.map(|seconds| format!("   {}", clock(seconds)));
    format!(
        "lag        {} ({}){}{}",
        lag.topic,
        lag.role,
        records.unwrap_or_default(),
        age.unwrap_or_default()
    )
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
    use crate::control::view::{Facts, Seen, running, starting};
    use crate::generation::Stage;
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
        seen.timeline = vec![(Stage::Open, 61_000)];
        let said = text(&running(&facts, &seen, 3_662_000));
        let expected = "\
NOT PROMOTABLE: reading the snapshot, 2 of 4 partitions at end; when the snapshot is complete, \
end it. DO: headwater end-snapshot – It can be left alone.
job hello   incarnation 7   2 processes x 2 workers   up 01:01:01   from checkpoint 41
generation g1 (opened 1970-01-01T00:01:01Z)            open
  open            00:01:01
  source_finished waiting   reading the snapshot, 2 of 4 partitions at end; when the snapshot is \
complete, end it
  2/4 snapshot partitions at their end   10,000 READs read
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
