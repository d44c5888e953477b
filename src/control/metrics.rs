//! `/metrics`: the status document as Prometheus text. Pure.
//!
//! Invariant: names begin with `headwater_` and end with their base unit; labels come from small
//! closed sets. What is not known is absent, not 0.
//!
//! The job's counts are at process 0 alone; another process shows its own target and nothing of
//! the job, so that a sum over processes counts nothing twice.

use super::document::{SinkState, Status, Word};
use crate::config::units::parse_instant;
use crate::generation::Stage;
use prometheus_client::encoding::prometheus_text;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use std::sync::atomic::AtomicU64;

/// The media type of [`text`].
pub(super) const CONTENT_TYPE: &str = prometheus_text::CONTENT_TYPE;

type Label = [(&'static str, String); 1];
type Float = Gauge<f64, AtomicU64>;

/// The metrics of a process; `job` says whether it is the one that counts for the job.
pub(super) fn text(status: &Status, job: bool) -> String {
    let mut out = Out(Registry::with_prefix("headwater"));
    out.gauges(
        "build_info",
        "The program",
        "version",
        [(env!("CARGO_PKG_VERSION"), 1.0)],
    );
    if let Some(run) = &status.run {
        let started = instant_seconds(Some(&run.started_at));
        out.gauge(
            "start_time_seconds",
            "When this run began, since 1970",
            started,
        );
    }
    let troubles = status.troubles.len() as f64;
    out.gauge(
        "troubles",
        "Parts of this process that wait for something",
        Some(troubles),
    );
    sink(&mut out, status);
    if job {
        rows(&mut out, status);
        generations(&mut out, status);
        retention(&mut out, status);
        lag(&mut out, status);
        asked(&mut out, status);
        checkpoints(&mut out, status);
    }
    let mut text = String::new();
    prometheus_text::encode(&mut text, &out.0).expect("a string takes all that is written");
    text
}

fn sink(out: &mut Out, status: &Status) {
    let Some(sink) = &status.sink else { return };
    out.counter(
        "sink_rows_written",
        "Folded rows written by this process",
        sink.rows_written,
    );
    let retrying = f64::from(u8::from(sink.state != SinkState::Running));
    out.gauge(
        "sink_retrying",
        "1 while the target does not take rows",
        Some(retrying),
    );
    out.gauge(
        "sink_attempts_failed",
        "Attempts in a row that failed",
        Some(f64::from(sink.attempts_failed)),
    );
}

fn rows(out: &mut Out, status: &Status) {
    if let Some(mutations) = &status.mutations {
        out.counter("mutations_read", "Mutations read", mutations.read);
        out.counter("mutations_emitted", "Mutations emitted", mutations.emitted);
        let help = "Mutations that could not be decoded, and were not emitted";
        out.counter("dead_letters", help, mutations.dead_letters);
    }
    if let Some(reads) = &status.reads {
        out.counter("reads_read", "READs read", reads.read);
        out.counter("reads_emitted", "READs emitted", reads.emitted);
        out.counters(
            "reads_dropped",
            "READs dropped",
            "reason",
            reads.dropped.iter(),
        );
        let quarantined = reads.quarantined.iter();
        out.counters(
            "reads_quarantined",
            "READs kept from the target",
            "reason",
            quarantined,
        );
        let help = "READs emitted although they may be stale";
        out.counter("reads_emitted_unsafe", help, reads.emitted_unsafe);
    }
    out.counters(
        "records_ignored",
        "Records that are no row",
        "reason",
        status.ignored.iter(),
    );
    if let Some(markers) = &status.markers {
        out.gauge("markers", "Markers held", Some(markers.count as f64));
        let bytes = markers.bytes.map(|bytes| bytes as f64);
        out.gauge("markers_bytes", "Memory of markers", bytes);
    }
    if let Some(sink) = &status.sink {
        let help = "How far what is durable in the target lies behind what was read";
        out.gauge("sink_behind_seconds", help, Some(sink.behind_seconds));
    }
}

fn generations(out: &mut Out, status: &Status) {
    let mut newest = status.generations.iter().rev();
    let live = newest.find(|one| !one.stage.is_over());
    let Some(last) = live.or(status.generations.last()) else {
        return;
    };
    let states = Stage::ALL.map(|state| {
        let is = f64::from(u8::from(state == last.stage));
        (state.word(), is)
    });
    out.gauges(
        "generation_state",
        "1 for the stage of the newest generation that goes on",
        "state",
        states,
    );
    out.gauge(
        "snapshot_partitions",
        "Snapshot partitions",
        Some(last.partitions as f64),
    );
    out.gauge(
        "snapshot_partitions_at_end",
        "Snapshot partitions that were read to their end",
        Some(last.partitions_at_end as f64),
    );
}

/// The window of markers that an open generation needs.
fn retention(out: &mut Out, status: &Status) {
    let Some(retention) = &status.retention else {
        return;
    };
    let help = "Part used of what the window of markers may take";
    out.gauge("retention_used_ratio", help, retention.used_ratio);
    let through = instant_seconds(retention.forgotten_through.as_deref());
    let help = "When the last marker was written that was forgotten, since 1970";
    out.gauge("forgotten_through_seconds", help, through);
    let left = retention.budget.as_ref();
    let left = left.and_then(|budget| budget.left_seconds);
    let help = "Until the last READ of the snapshot, as predicted";
    out.gauge("snapshot_eta_seconds", help, left.or_else(|| eta(status)));
}

/// By the mean rate of this run, where the guard predicts nothing.
fn eta(status: &Status) -> Option<f64> {
    let mut newest = status.generations.iter().rev();
    let one = newest.find(|one| one.stage == Stage::Open)?;
    let left = one.reads_total?.checked_sub(one.reads.read)?;
    let up_seconds = status.run.as_ref()?.up_seconds;
    (one.reads.read > 0).then(|| left as f64 * up_seconds / one.reads.read as f64)
}

/// How far behind both topics are read, apart.
fn lag(out: &mut Out, status: &Status) {
    let records = status.lag.iter();
    let records = records.filter_map(|lag| Some((lag.topic.clone(), lag.records? as f64)));
    out.gauges("lag_records", "Records that are not read", "topic", records);
    let seconds = status.lag.iter();
    let seconds = seconds.filter_map(|lag| Some((lag.topic.clone(), lag.seconds?)));
    let help = "Age of what was read last, 0 when nothing is left to read";
    out.gauges("lag_seconds", help, "topic", seconds);
}

/// What persons have asked, and should look at.
fn asked(out: &mut Out, status: &Status) {
    let Some(control) = &status.read_control else {
        return;
    };
    let is = |flag: bool| Some(f64::from(u8::from(flag)));
    let help = "1 while a person has paused READs";
    out.gauge("reads_paused", help, is(control.paused));
    let promotable = status.verdict.word == Word::Promotable;
    let help = "1 while every criterion of promotion is met";
    out.gauge("promotable", help, is(promotable));
    let alarms = status.alarms.iter().map(|alarm| (alarm.name.clone(), 1.0));
    let help = "1 for each thing that a person should look at";
    out.gauges("alarms", help, "reason", alarms);
}

fn checkpoints(out: &mut Out, status: &Status) {
    let checkpoint = status.checkpoint.as_ref();
    if let Some(run) = &status.run {
        // Without one in this run, its age is that of the run.
        let at = checkpoint.and_then(|checkpoint| checkpoint.at.as_deref());
        let at = instant_seconds(at.or(Some(&run.started_at)));
        let help = "When the last checkpoint became durable, or the run began, since 1970";
        out.gauge("checkpoint_timestamp_seconds", help, at);
        let trouble = f64::from(u8::from(run.lease_trouble.is_some()));
        out.gauge(
            "lease_trouble",
            "1 while the lease cannot be renewed",
            Some(trouble),
        );
    }
    let Some(checkpoint) = checkpoint else { return };
    let number = checkpoint.number as f64;
    out.gauge(
        "checkpoint_number",
        "Number of the last checkpoint",
        Some(number),
    );
    let help = "From the command of the last checkpoint to its manifest";
    out.gauge("checkpoint_duration_seconds", help, checkpoint.seconds);
    let help = "Bytes of all objects of the last checkpoint";
    out.gauge("checkpoint_bytes", help, Some(checkpoint.bytes as f64));
    let new = checkpoint.bytes_new.map(|bytes| bytes as f64);
    let help = "Bytes that the last checkpoint had to write";
    out.gauge("checkpoint_new_bytes", help, new);
}

fn instant_seconds(at: Option<&str>) -> Option<f64> {
    Some(parse_instant(at?)? as f64 / 1_000.0)
}

struct Out(Registry);

impl Out {
    fn gauge(&mut self, name: &str, help: &str, value: Option<f64>) {
        let Some(value) = value else { return };
        let gauge = Float::default();
        gauge.set(value);
        self.0.register(name, help, gauge);
    }

    fn gauges(
        &mut self,
        name: &str,
        help: &str,
        label: &'static str,
        values: impl IntoIterator<Item = (impl Into<String>, f64)>,
    ) {
        let family = Family::<Label, Float>::default();
        for (of, value) in values {
            family.get_or_create_owned(&[(label, of.into())]).set(value);
        }
        self.0.register(name, help, family);
    }

    /// Without the `_total`, which the format adds.
    fn counter(&mut self, name: &str, help: &str, value: u64) {
        let counter = Counter::<u64>::default();
        counter.inc_by(value);
        self.0.register(name, help, counter);
    }

    fn counters<'a>(
        &mut self,
        name: &str,
        help: &str,
        label: &'static str,
        values: impl Iterator<Item = (&'a String, &'a u64)>,
    ) {
        let family = Family::<Label, Counter<u64>>::default();
        for (of, value) in values {
            let counter = family.get_or_create_owned(&[(label, of.clone())]);
            counter.inc_by(*value);
        }
        self.0.register(name, help, family);
    }
}

#[cfg(test)]
mod tests;
