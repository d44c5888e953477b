//! A job inside a program of your own: the text of a `headwater.toml`, and, in place of what the
//! text names, topics, a sink or a clock that the program hands in.
//!
//! Invariant: as in `headwater run`, everything that can be known to be wrong is refused before
//! anything is read or written, and a run that may have stale rows ends with an error.
//!
//! It cannot: run in several processes (see [`crate::run::run`]), draw progress, or handle signals;
//! [`crate::job::Panel`] shows and stops a job.

use crate::assemble::{GoesOn, How, assemble};
use crate::begin::{self, Terms};
use crate::cli::{ClusterArgs, RunArgs};
use crate::clock::RunningTime;
use crate::config::choices::{CaughtUp, SinkKind};
use crate::config::{Config, Origin};
use crate::error::Error;
use crate::failure::Failures;
use crate::job::{Finish, Job};
use crate::launch;
use crate::outcome::judge;
use crate::run::{self, settings};
use crate::sink::{Sink, settings as sink_settings};
use crate::store::Store;
use crate::summary::Summary;
use crate::topic::Topics;
use headwater_operators::time::Clock;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A job that is not started yet; see the module.
pub struct Embedded {
    text: String,
    topics: Option<Arc<dyn Topics>>,
    sink: Option<Arc<dyn Sink>>,
    clock: Arc<dyn Clock + Send + Sync>,
    workers: usize,
    finish: Finish,
    limit: Option<Duration>,
    keeps: bool,
    rule: bool,
}

impl Embedded {
    /// A job as a `headwater.toml` says it: one worker, ends as `--once` does. The text is read by
    /// [`Embedded::job`].
    pub fn new(text: impl Into<String>) -> Self {
        Embedded {
            text: text.into(),
            topics: None,
            sink: None,
            clock: Arc::new(RunningTime::start()),
            workers: 1,
            finish: Finish::EndRecords,
            limit: None,
            keeps: true,
            rule: true,
        }
    }

    /// Reads these topics; the names in `[[table]]`, and those of notifications and heartbeats in
    /// `[source]`, are then names of theirs.
    #[must_use]
    pub fn topics(mut self, topics: impl Topics + 'static) -> Self {
        self.topics = Some(Arc::new(topics));
        self
    }

    /// Writes to this sink. Of `[sink]` only the batch sizes and `replay_unsafe_because` count
    /// then.
    #[must_use]
    pub fn sink(mut self, sink: impl Sink + 'static) -> Self {
        self.sink = Some(Arc::new(sink));
        self
    }

    /// Takes the time from this clock.
    #[must_use]
    pub fn clock(mut self, clock: Arc<dyn Clock + Send + Sync>) -> Self {
        self.clock = clock;
        self
    }

    /// So many worker threads, at least 1.
    #[must_use]
    pub fn workers(mut self, workers: usize) -> Self {
        self.workers = workers.max(1);
        self
    }

    /// Ends by itself when this says.
    #[must_use]
    pub fn finish(mut self, finish: Finish) -> Self {
        self.finish = finish;
        self
    }

    /// [`Embedded::run`] waits no longer than this for the job to be ready: then it stops it, and
    /// the error says what was waited for. Otherwise it waits for ever.
    #[must_use]
    pub fn wait_at_most(mut self, limit: Duration) -> Self {
        self.limit = Some(limit);
        self
    }

    /// Keeps no checkpoints, for a target that lives no longer than the program. Otherwise they go
    /// to the folder `checkpoint.store`, and a second run goes on from them.
    #[must_use]
    pub fn without_checkpoints(mut self) -> Self {
        self.keeps = false;
        self
    }

    /// Switches the marker rule off: the target will hold stale rows. For showing that.
    #[must_use]
    pub fn without_markers(mut self) -> Self {
        self.rule = false;
        self
    }

    /// The job, with everything checked and nothing read, to be run by [`launch::local`] and judged
    /// by [`judge`]; [`Embedded::run`] does both.
    ///
    /// # Errors
    /// A wrong configuration, a topic that is not there, a target that is refused.
    pub fn job(&self) -> Result<Arc<Job>, Error> {
        let config = self.config()?;
        let tables = config.tables();
        let topics = match &self.topics {
            Some(topics) => Arc::clone(topics),
            None => run::topics(&config, &tables, self.workers)?,
        };
        let sink = match &self.sink {
            Some(sink) => Arc::clone(sink),
            None => {
                let settings = settings::sink(&config)?;
                sink_settings::build(&settings, &tables, &config.kafka_properties()?, 1)?
            }
        };
        let store = match self.keeps {
            true => Store::open(&config.checkpoint.store)?,
            false => Store::memory(),
        };
        let failures = Arc::new(Failures::default());
        let terms = Terms {
            config: &config,
            tables: &tables,
            topics: &*topics,
            sink: &*sink,
            store: &store,
            workers: self.workers,
            failures: &failures,
            from_checkpoint: None,
            abort_generation: None,
            accept_partitions: None,
        };
        let begun = begin::lead(&terms)?;
        let mut settings = settings::job(&config, &self.args());
        settings.finish = self.finish;
        let source = &config.source;
        let told = source.connect.is_some() || source.heartbeat.is_some();
        let told = told || source.database.is_some();
        if self.topics.is_some() && config.promote.caught_up.is_none() && !told {
            // Nothing is known of what writes to topics that were handed in.
            settings.readiness.caught_up = CaughtUp::Unproven;
        }
        let how = How {
            first_worker: 0,
            workers: self.workers,
            clock: Arc::clone(&self.clock),
            settings,
            keeps: self.keeps,
            sources: settings::sources(&config),
            witness: settings::witness(&config, &topics)?,
            highs: None,
        };
        let from = GoesOn {
            manifest: begun.manifest,
            replay: begun.replay,
            lease: Some(begun.lease),
        };
        assemble(&terms, &topics, &sink, from, how).map(|(job, _)| job)
    }

    /// Makes the job and runs it to its end.
    ///
    /// # Errors
    /// As [`Embedded::job`], whatever stops the job, and an end that is not good: unsafe, or not
    /// ready (see [`judge`]).
    pub fn run(&self) -> Result<Summary, Error> {
        let job = self.job()?;
        let _growth = run::watch_mutations(&job)?;
        let begun = Instant::now();
        let watch = || {
            if self.limit.is_some_and(|limit| begun.elapsed() >= limit) {
                job.panel.stop();
            }
        };
        launch::local(&job, self.workers, watch)?;
        let shown = job.panel.shown();
        judge(&shown, &job.settings)?;
        Ok(run::summary(&shown, "ready", self.workers, begun.elapsed()))
    }

    /// The configuration, checked. No broker is needed for topics that were handed in.
    fn config(&self) -> Result<Config, Error> {
        const NAME: &str = "the embedded configuration";
        let mut config = Config::parse(NAME, &self.text, &[])?.config;
        let handed_in = self.topics.is_some() && config.sink.kind != SinkKind::Kafka;
        if handed_in && config.kafka.0.is_empty() {
            let broker = "kafka.\"bootstrap.servers\"=none".to_owned();
            config = Config::parse(NAME, &self.text, &[broker])?.config;
        }
        config.check()?;
        Ok(config)
    }

    /// What `headwater run` would be called with.
    fn args(&self) -> RunArgs {
        RunArgs {
            origin: Origin::default(),
            once: true,
            assume_finished_after_idle: None,
            without_markers: !self.rule,
            json: false,
            tell: false,
            cluster: ClusterArgs {
                workers: self.workers,
                processes: 1,
                process: 0,
                hostfile: None,
            },
            accept_partitions: None,
            from_checkpoint: None,
            abort_generation: None,
        }
    }
}
