//! `headwater run`: from the configuration to running workers, and from their end to an exit code.
//!
//! Invariant: everything that can be known to be wrong is refused before anything is read or
//! written.

mod outside;
mod place;
pub mod settings;
mod setup;
mod troubles;

use crate::assemble::{GoesOn, How, assemble};
use crate::begin::Terms;
use crate::cli::{self, ClusterArgs, RunArgs};
use crate::clock::RunningTime;
use crate::cluster;
use crate::config::Config;
use crate::config::choices::TargetNotEmpty;
use crate::config::units::print_duration;
use crate::control::{Control, Facts};
use crate::error::{Error, ErrorKind};
use crate::failure::Failures;
use crate::guard::start::still_there;
use crate::job::{Finish, Job, Partitions, Settings, Shown, ShownGeneration, topic_names};
use crate::launch;
use crate::outcome::judge;
use crate::progress::{Display, Progress};
use crate::signals::Stop;
use crate::sink::queue::{SinkState, SinkWatch};
use crate::sink::settings as sink_settings;
use crate::store::Store;
use crate::summary::Summary;
use crate::table::{Role, Table};
use crate::topic::growth::{GrowthWatch, watch_growth};
use crate::topic::kafka::KafkaTopics;
use crate::topic::mixed::{MixedTopics, TopicKind, kind};
use crate::topic::{Assignment, OffsetRange, Start, Topics};
use headwater_operators::retention::KeepMarkers;
use outside::Outside;
use place::Place;
use setup::Setup;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};
use troubles::Troubles;

/// What is said of a replay that is too large.
const STREAMS: &str = "note: the replay is larger than limits.replay_bytes_max, or came to a halt, \
    so it is written as it comes: readers of the target may see rows go back until the job has \
    caught up";
/// How often partition counts of mutation topics are looked at.
const GROWTH_EVERY: Duration = Duration::from_secs(30);
/// The id of the generation that a first start opens.
pub const FIRST_GENERATION: &str = "g1";

/// Runs the verb.
///
/// # Errors
/// Whatever ends the run badly, with its exit code.
pub fn run(args: &RunArgs) -> Result<(), Error> {
    let loaded = Config::load(&args.origin)?;
    loaded.notices.iter().for_each(|notice| cli::note(notice));
    let config = loaded.config;
    cluster::install_abort_on_panic();
    let stop = Stop::on_signals()?;
    let setup = Setup::watch(&stop)?;
    let control = Control::start(&config, &args.cluster)?;
    let began = Instant::now();
    let tables = config.tables();
    let topics = topics(&config, &tables, args.cluster.workers)?;
    let sink = sink_settings::build(
        &settings::sink(&config)?,
        &tables,
        &config.kafka_properties()?,
        args.cluster.processes,
    )?;
    let store = Store::open(&config.checkpoint.store)?;
    let failures = Arc::new(Failures::default());
    let terms = Terms {
        config: &config,
        tables: &tables,
        topics: &*topics,
        sink: &*sink,
        store: &store,
        workers: args.cluster.workers * args.cluster.processes,
        failures: &failures,
        from_checkpoint: args.from_checkpoint,
        abort_generation: args.abort_generation.as_deref(),
        accept_partitions: args.accept_partitions,
    };
    let outside = Outside::start(args.cluster.process, &config, &topics)?;
    let mut place = Place::find(&terms, &args.cluster)?;
    let from = GoesOn {
        manifest: place.manifest.clone(),
        replay: std::mem::take(&mut place.replay),
        lease: place.lease.take(),
    };
    let workers = args.cluster.workers;
    let how = How {
        first_worker: args.cluster.process * workers,
        workers,
        clock: Arc::new(RunningTime::start()),
        settings: settings::job(&config, args),
        keeps: true,
        sources: settings::sources(&config),
        witness: outside.witness.clone(),
        highs: outside.highs.clone(),
    };
    let assembled = assemble(&terms, &topics, &sink, from, how);
    let (job, sink_watch) = assembled.inspect_err(|_| {
        // Dropping it would wait for peers, who wait for this process.
        std::mem::forget(place.cluster.take());
    })?;
    control.attach(
        &job,
        sink_watch.clone(),
        facts(&config, args, &place, &job.settings),
    );
    let _growth = watch_mutations(&job)?;
    setup.over();
    execute(&job, place, args, (&stop, &control), sink_watch.as_ref())?;
    let stopped = stop.requested() || control.stop_asked();
    finish(&job, args, stopped, began.elapsed())
}

/// Ends the job when a mutation topic grows.
pub(crate) fn watch_mutations(job: &Arc<Job>) -> Result<GrowthWatch, Error> {
    let failures = Arc::clone(&job.failures);
    watch_growth(
        Arc::clone(&job.topics),
        counts(&job.partitions.mutations),
        GROWTH_EVERY,
        move |error| failures.report(error),
    )
}

/// What the control plane tells of this run.
fn facts(config: &Config, args: &RunArgs, place: &Place, settings: &Settings) -> Facts {
    let ClusterArgs {
        workers, processes, ..
    } = args.cluster;
    let mut not_proven = place.beginning.not_proven.clone();
    if config.sink.target_not_empty == TargetNotEmpty::Accept {
        not_proven.push(
            "rows that were in the target before, and whose DELETE nobody saw, may still be \
             there (`target_not_empty = \"accept\"`)"
                .to_owned(),
        );
    }
    Facts {
        job: config.job.job.clone(),
        tables: config.tables(),
        generation: FIRST_GENERATION.to_owned(),
        incarnation: place.manifest.incarnation,
        processes,
        workers: workers * processes,
        restored_from: place.beginning.restored_from,
        not_fenced: place.beginning.not_fenced.clone(),
        not_proven,
        rule_off: !settings.rule,
        keeps: match settings.keep_markers {
            KeepMarkers::UntilReady { .. } => "kept until ready".to_owned(),
            KeepMarkers::Ttl { .. } => {
                format!("kept for {}", print_duration(config.retention.ttl))
            }
        },
        sink_kind: config.sink.kind.word().to_owned(),
        ends_when_idle: matches!(settings.finish, Finish::Idle { .. }),
        rebuild_alarm_after_ms: Some(settings::ms(config.retention.rebuild_alarm_after)),
        promote: settings::promote(config),
        hook: settings::hook(config),
    }
}

/// Runs the workers and shows what they do.
fn execute(
    job: &Arc<Job>,
    place: Place,
    args: &RunArgs,
    (stop, control): (&Stop, &Control),
    sink: Option<&SinkWatch>,
) -> Result<(), Error> {
    let mut display = match (args.cluster.process, args.tell) {
        (0, true) => Display::told(),
        (0, false) => Display::new(),
        _ => Display::silent(),
    };
    let panel = Arc::clone(&job.panel);
    let (mut troubles, mut streams, mut replaying) = (Troubles::default(), false, false);
    let watch = || {
        // Who started this run only to be told of it is gone: nobody would stop it.
        if stop.requested() || control.stop_asked() || display.unheard() {
            panel.stop();
        }
        control.look();
        display.show(&progress(&panel.shown()));
        panel.trouble("the target", sink.and_then(retried));
        let now = panel.shown();
        if replaying && !now.replaying {
            display.say("note: what the target had seen before this run is written again");
        }
        replaying = now.replaying;
        if job.replay.streams() && !std::mem::replace(&mut streams, true) {
            display.say(STREAMS);
        }
        let mut wrong = panel.troubles();
        wrong.extend(now.generations.iter().filter_map(waits));
        for line in troubles.look(Instant::now(), &wrong) {
            display.say(&line);
        }
    };
    let workers = args.cluster.workers;
    let result = match place.cluster {
        Some(cluster) => launch::cluster(job, cluster, workers, watch),
        None => launch::local(job, workers, watch),
    };
    display.finish(&progress(&panel.shown()));
    result
}

/// What a generation waits for, when a person must act.
fn waits(of: &ShownGeneration) -> Option<(String, String)> {
    let wait = of.waits.as_ref().filter(|wait| wait.person)?;
    let what = match &wait.command {
        Some(command) => format!("{}. DO: {command}", wait.text),
        None => wait.text.clone(),
    };
    Some((format!("generation {}", of.state.id), what))
}

/// Why the target is tried again just now, if it is.
fn retried(sink: &SinkWatch) -> Option<String> {
    match sink.state() {
        SinkState::Retrying { reason, .. } => Some(reason),
        SinkState::Running | SinkState::Failed(_) => None,
    }
}

/// The summary, and what the run is worth.
fn finish(job: &Job, args: &RunArgs, stopped: bool, elapsed: Duration) -> Result<(), Error> {
    let shown = job.panel.shown();
    let first = args.cluster.process == 0;
    let told = i32::from(job.panel.verdict());
    let interrupted = stopped || told == ErrorKind::Interrupted.exit_code();
    let judged = judge(&shown, &job.settings);
    if first {
        let outcome = match &judged {
            _ if interrupted && !shown.caught_up => "interrupted",
            Ok(_) => "ready",
            Err(error) if error.kind == ErrorKind::Refused => "unsafe",
            Err(_) => "not_ready",
        };
        let workers = args.cluster.workers * args.cluster.processes;
        let mut summary = summary(&shown, outcome, workers, elapsed);
        summary.rule_off = args.without_markers;
        let text = if args.json {
            summary.json() + "\n"
        } else {
            summary.table()
        };
        cli::say(&text)?;
    }
    if interrupted {
        return Err(Error::new(
            ErrorKind::Interrupted,
            "interrupted; everything read is written",
        ));
    }
    if first {
        judged.map(|_| ())
    } else {
        elsewhere(told)
    }
}

/// What another process than 0 ends with: only process 0 has seen why.
fn elsewhere(exit_code: i32) -> Result<(), Error> {
    let kind = match exit_code {
        0 => return Ok(()),
        3 => ErrorKind::NotReady,
        4 => ErrorKind::Refused,
        _ => ErrorKind::Failed,
    };
    Err(Error::new(kind, "the run did not end well").line("process 0 has said why"))
}

/// The summary of what a job showed last.
pub fn summary(shown: &Shown, outcome: &str, workers: usize, elapsed: Duration) -> Summary {
    let counts = &shown.counts;
    let reasons = [
        ("marker", counts.reads_dropped_marker),
        ("superseded", counts.reads_dropped_superseded),
    ];
    let mut summary = Summary {
        outcome: outcome.to_owned(),
        evidence: shown.evidence.clone().unwrap_or_else(|| "none".to_owned()),
        mutations_emitted: counts.mutations_emitted,
        reads_emitted: counts.reads_emitted,
        reads_dropped: reasons
            .map(|(reason, count)| (reason.to_owned(), count))
            .into(),
        reads_quarantined: counts.kept_back(),
        dead_letters: counts.dead_letters(),
        ignored: counts.ignored.clone(),
        workers,
        elapsed_seconds: elapsed.as_millis() as f64 / 1000.0,
        ..Summary::default()
    };
    summary.set_markers(counts.markers, counts.marker_bytes);
    summary
}

/// What the display shows of a job.
pub fn progress(shown: &Shown) -> Progress {
    let counts = &shown.counts;
    Progress {
        mutations_emitted: counts.mutations_emitted,
        reads_emitted: counts.reads_emitted,
        reads_dropped_marker: counts.reads_dropped_marker,
        reads_quarantined: counts.kept_back(),
        markers: counts.markers,
        marker_bytes: counts.marker_bytes,
        lag_records: None,
        snapshot_consumed: counts.reads_read,
        snapshot_total: shown.snapshot_total,
        elapsed_ms: shown.now_ms,
    }
}

fn of_cluster(error: &cluster::ClusterError) -> Error {
    let kind = if error.exit_code() == 2 {
        ErrorKind::Usage
    } else {
        ErrorKind::Failed
    };
    Error::new(kind, error.to_string())
}

/// The client of all topics that the tables name.
///
/// # Errors
/// When Kafka properties are wrong.
pub fn topics(config: &Config, tables: &[Table], workers: usize) -> Result<Arc<dyn Topics>, Error> {
    let names = [Role::Mutations, Role::Snapshot]
        .map(|role| topic_names(tables, role))
        .concat();
    let any_kafka = names.iter().any(|name| kind(name) == TopicKind::Kafka);
    // One reader for each worker and role.
    let open = || KafkaTopics::open(&config.kafka_properties()?, &config.job.job, 2 * workers);
    let kafka = any_kafka.then(open).transpose()?;
    Ok(Arc::new(MixedTopics::new(kafka)))
}

/// Every partition of both roles and where its reading starts.
///
/// # Errors
/// When a topic does not exist or cannot be asked, or a configured start is not in its log.
pub fn partitions(
    topics: &dyn Topics,
    tables: &[Table],
    config: &Config,
) -> Result<Partitions, Error> {
    let of = |role, start| -> Result<Vec<Assignment>, Error> {
        let mut all = Vec::new();
        for topic in topic_names(tables, role) {
            let starts = match config.source.start_offsets.get(&topic) {
                Some(offsets) if role == Role::Mutations => start_offsets(topics, &topic, offsets)?,
                _ => {
                    let starts = topics.starts(&topic, start)?;
                    if matches!(start, Start::Time(_)) {
                        still_there(&topic, &starts, &topics.ranges(&topic)?)?;
                    }
                    if role == Role::Snapshot {
                        whole(&topic, &topics.ranges(&topic)?)?;
                    }
                    starts
                }
            };
            for (partition, next_offset) in (0..).zip(starts) {
                all.push(Assignment {
                    topic: topic.clone(),
                    partition,
                    next_offset,
                });
            }
        }
        Ok(all)
    };
    Ok(Partitions {
        mutations: of(Role::Mutations, config.source.start)?,
        snapshot: of(Role::Snapshot, Start::Beginning)?,
    })
}

/// Refuses a snapshot topic whose first READs are gone: their rows would be missing in silence. A
/// partition that holds nothing at all is no sign of that (B32).
pub(crate) fn whole(topic: &str, ranges: &[OffsetRange]) -> Result<(), Error> {
    for (partition, range) in ranges.iter().enumerate() {
        if range.low > 0 && range.low < range.high {
            return Err(
                Error::refused(format!("{topic}[{partition}] has lost its first READs"))
                    .line(format!("found     offsets {} to {}", range.low, range.high))
                    .line("expected  a snapshot topic that holds every READ from offset 0")
                    .line("Give the topic a longer retention, and start a new snapshot."),
            );
        }
    }
    Ok(())
}

fn start_offsets(topics: &dyn Topics, topic: &str, offsets: &[u64]) -> Result<Vec<u64>, Error> {
    let ranges = topics.ranges(topic)?;
    if ranges.len() != offsets.len() {
        return Err(Error::usage(format!("`source.start_offsets` of {topic}"))
            .line(format!("found     {} offsets", offsets.len()))
            .line(format!(
                "expected  {}, one for each partition",
                ranges.len()
            )));
    }
    for (partition, (offset, range)) in offsets.iter().zip(&ranges).enumerate() {
        if !(range.low..=range.high).contains(offset) {
            return Err(
                Error::refused(format!("{topic}[{partition}] cannot start at {offset}"))
                    .line(format!(
                        "found     offsets {} to {} in the log",
                        range.low, range.high
                    ))
                    .line(
                        "Start where the log still holds every mutation since the snapshot began.",
                    ),
            );
        }
    }
    Ok(offsets.to_vec())
}

pub(crate) fn counts(partitions: &[Assignment]) -> BTreeMap<String, u32> {
    let mut counts = BTreeMap::new();
    for assignment in partitions {
        *counts.entry(assignment.topic.clone()).or_default() += 1;
    }
    counts
}
