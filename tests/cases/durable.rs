//! What a run of a case goes on from: nothing, or the newest checkpoint of a store in memory, begun
//! exactly as `headwater run` begins ([`begin::lead`]).
//!
//! It cannot take a checkpoint by itself: none is due until one is asked for.

use headwater::begin::{self, Terms};
use headwater::checkpoint::manifest::PartitionState;
use headwater::checkpoint::{self, Checkpoints, Resumed};
use headwater::config::Config;
use headwater::error::{Error, ErrorKind};
use headwater::failure::Failures;
use headwater::job::{Panel, Partitions};
use headwater::key::KeyGate;
use headwater::sink::{Place, ReplaySafety, RowForm, Sink, WriteError, Writer};
use headwater::store::Store;
use headwater::table::Table;
use headwater::topic::memory::MemoryTopics;
use headwater::topic::{Assignment, TopicSettings, Topics};
use serde_json::Value;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

const JOB: &str = "case";
/// Long enough for a busy machine; a second instance looks for a third of it.
const LEASE: Duration = Duration::from_secs(3);

/// Verbs of a case whose job keeps checkpoints.
const DURABLE: [&str; 9] = [
    "target_preloaded",
    "topic_config",
    "checkpoint",
    "stop",
    "start",
    "restart",
    "crash_before_checkpoint",
    "kill_after_offset_commit_before_state_flush",
    "second_instance_joins",
];

/// What a run starts from.
pub(crate) struct Ground {
    pub(crate) partitions: Partitions,
    pub(crate) secret: [u8; 16],
    /// Where logical time goes on.
    pub(crate) from_ms: u64,
    pub(crate) gate: KeyGate,
    pub(crate) resumed: Resumed,
    pub(crate) checkpoints: Option<Checkpoints>,
    pub(crate) panel: Arc<Panel>,
    pub(crate) failures: Arc<Failures>,
    pub(crate) claims: Arc<Claims>,
}

impl Ground {
    /// A job without checkpoints, on topics of so many partitions; the same every time.
    pub(crate) fn bare(tables: &[Table], partitions: [usize; 2]) -> Ground {
        let assigned = |topic: &str, count: usize| {
            let assignment = |partition| Assignment {
                topic: topic.to_owned(),
                partition,
                next_offset: 0,
            };
            (0..).take(count).map(assignment).collect()
        };
        Ground {
            partitions: Partitions {
                mutations: assigned("M", partitions[0]),
                snapshot: assigned("S", partitions[1]),
            },
            secret: [7; 16],
            from_ms: 0,
            gate: KeyGate::new(tables),
            resumed: Resumed::default(),
            checkpoints: None,
            panel: Arc::default(),
            failures: Arc::default(),
            claims: Arc::default(),
        }
    }
}

/// The store of a case.
pub(crate) struct Durable {
    store: Store,
    config: Config,
    /// Whether the target holds rows at the first start.
    preloaded: bool,
}

impl Durable {
    /// Whether a case needs one.
    pub(crate) fn needed(steps: &[Value]) -> bool {
        let verbs = steps.iter().filter_map(|step| step["do"].as_str());
        verbs.into_iter().any(|verb| DURABLE.contains(&verb))
    }

    pub(crate) fn new(tick_ms: u64) -> Durable {
        let mut config = Config::default();
        JOB.clone_into(&mut config.job.job);
        config.limits.tick_ms = tick_ms;
        config.checkpoint.lease = LEASE;
        let store = Store::memory();
        Durable {
            store,
            config,
            preloaded: false,
        }
    }

    /// What a case says of the topics and the target as they are before the job begins.
    pub(crate) fn lay_ground(&mut self, steps: &[Value], topics: &MemoryTopics) {
        for step in steps {
            match step["do"].as_str() {
                Some("target_preloaded") => self.preloaded = true,
                Some("topic_config") => {
                    let members = step.as_object().expect("steps are objects");
                    let text = |value: &Value| match value {
                        Value::String(text) => text.clone(),
                        other => other.to_string(),
                    };
                    let pairs: Vec<(&str, String)> = members
                        .iter()
                        .map(|(name, value)| (name.as_str(), text(value)))
                        .collect();
                    let pairs = pairs.iter().map(|(name, value)| (*name, value.as_str()));
                    let topic = step["topic"].as_str().unwrap_or("M");
                    topics.configure(topic, TopicSettings::from_pairs(pairs));
                }
                _ => {}
            }
        }
    }

    /// Mutations are read from the present end of their topic, behind at least one record.
    pub(crate) fn start_at_the_end(&mut self, topics: &MemoryTopics) {
        let ranges = topics.ranges("M").expect("in memory");
        let ends: Vec<u64> = ranges.iter().map(|range| range.high.max(1)).collect();
        for (partition, end) in ends.iter().enumerate() {
            topics.extend_to("M", partition, *end);
        }
        let starts = &mut self.config.source.start_offsets;
        starts.insert("M".to_owned(), ends);
    }

    /// Begins a run on what is there.
    pub(crate) fn begin(
        &self,
        tables: &[Table],
        topics: &MemoryTopics,
        workers: usize,
    ) -> Result<Ground, Error> {
        let (failures, panel) = (Arc::<Failures>::default(), Arc::<Panel>::default());
        let claims = Arc::new(Claims {
            preloaded: self.preloaded,
            ..Claims::default()
        });
        let begun = begin::lead(&Terms {
            config: &self.config,
            tables,
            topics,
            sink: &*claims,
            store: &self.store,
            workers,
            failures: &failures,
            from_checkpoint: None,
            abort_generation: None,
            accept_partitions: None,
        })?;
        let manifest = begun.manifest;
        let gate = KeyGate::new(tables);
        gate.restore(&manifest.shapes);
        let uploads = checkpoint::start_uploads(
            self.store.clone(),
            JOB,
            manifest.incarnation,
            Arc::clone(&panel),
            Arc::clone(&failures),
        )?;
        Ok(Ground {
            partitions: begin::partitions(&manifest),
            secret: manifest.secret().expect("16 bytes"),
            from_ms: manifest.time.now_ms,
            gate,
            resumed: checkpoint::resume(&self.store, &manifest, tables, 0..workers, workers)?,
            checkpoints: Some(Checkpoints {
                store: self.store.clone(),
                base: manifest,
                interval_ms: u64::MAX,
                kept: 3,
                lease: Some(begun.lease),
                events: None,
                sink: claims.clone(),
                uploads,
            }),
            panel,
            failures,
            claims,
        })
    }

    /// Another process of the job, while one lives: must be refused, and says so.
    pub(crate) fn second_instance(
        &self,
        tables: &[Table],
        topics: &MemoryTopics,
    ) -> Result<(), String> {
        match self.begin(tables, topics, 1) {
            Ok(_) => Err("a second instance of the job was let in".to_owned()),
            Err(error)
                if error.kind == ErrorKind::Refused && error.text.contains("runs already") =>
            {
                Ok(())
            }
            Err(error) => Err(format!("a second instance ended otherwise: {error}")),
        }
    }

    /// Where the newest checkpoint goes on.
    pub(crate) fn offsets(&self) -> Vec<PartitionState> {
        let newest = checkpoint::latest(&self.store, JOB).expect("in memory");
        newest.map(|newest| newest.offsets).unwrap_or_default()
    }
}

/// The target as far as checkpoints go: told of each before its manifest is made, that is between
/// its two durable steps, and there it can be held.
#[derive(Default)]
pub(crate) struct Claims {
    hold: Mutex<Hold>,
    changed: Condvar,
    preloaded: bool,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Hold {
    #[default]
    No,
    /// The next checkpoint waits.
    Next,
    Waiting,
    /// The run is dead.
    Dead,
}

impl Claims {
    pub(crate) fn hold_next(&self) {
        *self.hold.lock().expect("not poisoned") = Hold::Next;
    }

    pub(crate) fn waiting(&self) -> bool {
        *self.hold.lock().expect("not poisoned") == Hold::Waiting
    }

    /// The run that has it is dead: what waited never goes on.
    pub(crate) fn kill(&self) {
        *self.hold.lock().expect("not poisoned") = Hold::Dead;
        self.changed.notify_all();
    }
}

impl Sink for Claims {
    fn replay_safety(&self) -> ReplaySafety {
        ReplaySafety::Safe
    }

    fn row_form(&self) -> RowForm {
        RowForm::Whole
    }

    fn check(&self) -> Result<(), Error> {
        Ok(())
    }

    fn holds_rows(&self) -> Result<Option<String>, Error> {
        Ok(self.preloaded.then(|| "the target".to_owned()))
    }

    fn note_checkpoint(&self, _number: u64) -> Result<(), WriteError> {
        let mut hold = self.hold.lock().expect("not poisoned");
        if *hold == Hold::Next {
            *hold = Hold::Waiting;
        }
        while *hold == Hold::Waiting {
            hold = self.changed.wait(hold).expect("not poisoned");
        }
        match *hold {
            Hold::Dead => Err(WriteError::Fatal(Error::failed("the run is dead"))),
            _ => Ok(()),
        }
    }

    fn writer(&self, _place: Place) -> Result<Box<dyn Writer>, Error> {
        Err(Error::failed("rows go to the target in memory"))
    }
}
