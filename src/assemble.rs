//! From what a run goes on from to a job that can be started: queues, markers, checkpoints.
//!
//! Invariant: made after the claim; nothing is read or written here but marker runs and the opening
//! of the target's writers.
//!
//! It cannot choose what the run goes on from; [`crate::begin`] has.

use crate::begin::{self, Terms};
use crate::checkpoint::{self, Checkpoints, Manifest};
use crate::clock::{Continued, WallClock};
use crate::config::Config;
use crate::error::Error;
use crate::events::{Events, Place};
use crate::generation::Sources;
use crate::generation::witness::Witness;
use crate::highs::Highs;
use crate::job::{Job, MakeOutlet, Panel, Settings};
use crate::key::KeyGate;
use crate::lease::Lease;
use crate::run::{self, FIRST_GENERATION};
use crate::sink::queue::{self, QueueOptions, SinkQueue, SinkWatch};
use crate::sink::replay::Replay;
use crate::sink::{Applied, Sink};
use crate::topic::Topics;
use crate::topic::names::TopicNames;
use headwater_operators::record::Records;
use headwater_operators::retention::KeepMarkers;
use headwater_operators::sink::Outlet;
use headwater_operators::time::Clock;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// What the run goes on from.
pub struct GoesOn {
    /// The claim.
    pub manifest: Manifest,
    /// How far the target is beyond it.
    pub replay: Vec<Applied>,
    /// Shows others that this run lives; only process 0 has it.
    pub lease: Option<Lease>,
}

/// How this process runs it.
pub struct How {
    /// Its first worker, counted over all processes.
    pub first_worker: usize,
    /// Its workers.
    pub workers: usize,
    /// The time of this run, from 0.
    pub clock: Arc<dyn Clock + Send + Sync>,
    /// Numbers and policies.
    pub settings: Settings,
    /// Whether checkpoints are taken.
    pub keeps: bool,
    /// Where evidence of the first generation comes from.
    pub sources: Sources,
    /// What is seen outside, at process 0.
    pub witness: Option<Arc<dyn Witness>>,
    /// How long topics are, at process 0.
    pub highs: Option<Arc<Highs>>,
}

/// Makes the job, and what watches its target.
///
/// # Errors
/// When a marker run is missing or damaged, or the target cannot be opened.
pub fn assemble(
    terms: &Terms<'_>,
    topics: &Arc<dyn Topics>,
    sink: &Arc<dyn Sink>,
    from: GoesOn,
    how: How,
) -> Result<(Arc<Job>, Option<SinkWatch>), Error> {
    let GoesOn {
        manifest,
        replay: applied,
        lease,
    } = from;
    let processes = terms.workers / how.workers;
    let replay = Arc::new(Replay::new(
        sink.keeps_progress() && !applied.is_empty(),
        usize::try_from(terms.config.limits.replay_bytes_max.0).unwrap_or(usize::MAX),
        processes,
    ));
    let names = Arc::new(TopicNames::new(terms.tables.into()));
    let held = (&replay, &names);
    let queues = queues(terms, sink, manifest.incarnation, &how, held)?;
    begin::still_owned(terms.store, &manifest)?;
    let sink_watch = queues.first().map(SinkQueue::watch);
    let workers = how.first_worker..how.first_worker + how.workers;
    let mut resumed =
        checkpoint::resume(terms.store, &manifest, terms.tables, workers, terms.workers)?;
    resumed.replay = applied;
    let panel = Arc::new(Panel::default());
    let checkpoints = match how.keeps {
        true => Some(checkpoints(terms, sink, &manifest, lease, &panel)?),
        false => None,
    };
    let generation_names = sink.names().unwrap_or_default();
    generation_names.restore(&manifest.generations);
    let gate = KeyGate::new(terms.tables);
    gate.restore(&manifest.shapes);
    let job = Job {
        gate: Arc::new(gate),
        tables: terms.tables.to_vec(),
        partitions: begin::partitions(&manifest),
        generation_id: FIRST_GENERATION.to_owned(),
        generation_names,
        topics: Arc::clone(topics),
        names,
        outlet: outlets(queues, how.first_worker),
        clock: Arc::new(Continued {
            from_ms: manifest.time.now_ms,
            clock: how.clock,
        }),
        settings: kept(how.settings, &manifest),
        first_worker: how.first_worker,
        secret: manifest.secret().map_err(|error| {
            Error::refused(format!("checkpoint {} cannot be used", manifest.number)).line(error)
        })?,
        failures: Arc::clone(terms.failures),
        panel,
        resumed,
        replay,
        checkpoints,
        wall: Arc::new(WallClock),
        sources: how.sources,
        witness: how.witness,
        highs: how.highs,
    };
    Ok((Arc::new(job), sink_watch))
}

/// With the ttl that a person has set while an earlier run went on.
fn kept(mut settings: Settings, manifest: &Manifest) -> Settings {
    if let (KeepMarkers::Ttl { ttl_ms }, Some(set)) =
        (&mut settings.keep_markers, manifest.retention.ttl_ms)
    {
        *ttl_ms = set;
    }
    settings
}

/// Where this run's checkpoints go.
fn checkpoints(
    terms: &Terms<'_>,
    sink: &Arc<dyn Sink>,
    manifest: &Manifest,
    lease: Option<Lease>,
    panel: &Arc<Panel>,
) -> Result<Checkpoints, Error> {
    let config = &terms.config.checkpoint;
    Ok(Checkpoints {
        store: terms.store.clone(),
        base: manifest.clone(),
        interval_ms: u64::try_from(config.interval.as_millis()).unwrap_or(u64::MAX),
        kept: usize::try_from(config.kept).unwrap_or(usize::MAX),
        sink: Arc::clone(sink),
        events: events(terms, manifest, lease.is_some(), panel)?,
        uploads: checkpoint::start_uploads(
            terms.store.clone(),
            &manifest.job,
            manifest.incarnation,
            Arc::clone(panel),
            Arc::clone(terms.failures),
        )?,
        lease,
    })
}

/// Tells of generations; process 0, which has the lease, does.
fn events(
    terms: &Terms<'_>,
    manifest: &Manifest,
    first: bool,
    panel: &Arc<Panel>,
) -> Result<Option<Arc<Events>>, Error> {
    // The others need not even be able to follow its secrets.
    let place = if first {
        Place::of(terms.config)?
    } else {
        None
    };
    let Some(place) = place else {
        return Ok(None);
    };
    let tables = terms.tables.iter().map(|table| table.name.clone());
    let base = (
        manifest.number,
        &manifest.generations[..],
        manifest.events_sent,
    );
    let events = Events::start(
        place,
        &manifest.job,
        tables.collect(),
        base,
        Arc::clone(panel),
    )?;
    Ok(Some(Arc::new(events)))
}

fn queues(
    terms: &Terms<'_>,
    sink: &Arc<dyn Sink>,
    incarnation: u32,
    how: &How,
    (replay, names): (&Arc<Replay>, &Arc<TopicNames>),
) -> Result<Vec<SinkQueue>, Error> {
    let (config, tables) = (terms.config, terms.tables);
    let failed = Arc::clone(terms.failures);
    queue::start(
        &**sink,
        &QueueOptions {
            incarnation,
            first_worker: how.first_worker,
            workers: how.workers,
            batch_rows_max: usize::try_from(config.sink.batch_rows_max).unwrap_or(usize::MAX),
            batch_bytes_max: usize::try_from(config.sink.batch_bytes_max.0).unwrap_or(usize::MAX),
            tables: tables.into(),
            names: Arc::clone(names),
            quarantine_dir: quarantine_dir(config),
            quarantine_topic: run::settings::quarantine_topic(config)?,
            dead_letters: run::settings::dead_letters(config)?,
            dead_letter: None,
            on_failure: Arc::new(move |error| failed.report(error)),
            replay: Arc::clone(replay),
        },
    )
}

fn quarantine_dir(config: &Config) -> PathBuf {
    config
        .quarantine
        .path
        .clone()
        .unwrap_or_else(|| Path::new(&format!("{}.quarantine", config.job.job)).to_path_buf())
}

/// Hands each worker its queue, once.
pub fn outlets(queues: Vec<SinkQueue>, first_worker: usize) -> Box<MakeOutlet> {
    let queues: Vec<Option<SinkQueue>> = queues.into_iter().map(Some).collect();
    let queues = Mutex::new(queues);
    Box::new(move |worker, waker| {
        let mut queues = queues.lock().unwrap_or_else(PoisonError::into_inner);
        let queue = queues[worker - first_worker]
            .take()
            .expect("a worker builds one dataflow");
        queue.set_waker(waker);
        Box::new(QueueOutlet(queue))
    })
}

struct QueueOutlet(SinkQueue);

impl Outlet for QueueOutlet {
    fn push(&mut self, records: Records) -> u64 {
        self.0.push(records)
    }

    fn durable(&mut self) -> u64 {
        self.0.durable()
    }

    fn passed(&mut self, tick: Option<u64>) {
        self.0.passed(tick);
    }
}
