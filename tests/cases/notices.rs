//! Notifications of a case: a topic of their own, read by the job's real collector of evidence.
//!
//! Invariant: the runner goes on only when the collector has dealt with everything that is there,
//! and kills a run only together with the collector's threads: no step depends on how fast they
//! are.

use crate::case::Case;
use headwater::config::Config;
use headwater::evidence::{Collector, Settings};
use headwater::generation::witness::{Remembered, Seen, Witness};
use headwater::generation::{Scan, Scanned, Sources};
use headwater::topic::Topics;
use headwater::topic::memory::MemoryTopics;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The name that a case has for it.
pub(crate) const TOPIC: &str = "N";
/// How long the collector's threads are waited for.
const WAIT_MAX: Duration = Duration::from_secs(60);

/// The topic, and who reads it in this run.
pub(crate) struct Notices {
    pub(crate) topics: MemoryTopics,
    config: Config,
    live: Option<Live>,
    /// Takes a COMPLETED for the end: for showing that this is seen.
    credulous: bool,
}

struct Live {
    collector: Arc<Collector>,
    /// Held by the collector's threads as long as they live.
    held: Arc<dyn Topics>,
}

impl Notices {
    /// For a case that has notifications.
    pub(crate) fn of(case: &Case, partitions: usize) -> Option<Notices> {
        let topics = MemoryTopics::default();
        topics.create(TOPIC, partitions);
        let mut config = Config::default();
        config.source.notifications = Some(TOPIC.to_owned());
        case.notified().then_some(Notices {
            topics,
            config,
            live: None,
            credulous: !case.evidence,
        })
    }

    /// Where the generation's evidence comes from.
    pub(crate) fn sources(&self) -> Sources {
        headwater::evidence::configured(&self.config)
    }

    /// Begins to look, for a run.
    pub(crate) fn start(&mut self) -> Arc<dyn Witness> {
        let held: Arc<dyn Topics> = Arc::new(self.topics.clone());
        let settings = Settings::of(&self.config).expect("nothing to ask");
        let collector = Collector::start(settings, Arc::clone(&held)).expect("threads");
        let collector = Arc::new(collector);
        self.live = Some(Live {
            collector: Arc::clone(&collector),
            held,
        });
        match self.credulous {
            true => Arc::new(Credulous(collector)),
            false => collector,
        }
    }

    /// Waits until everything that is there was dealt with; nothing while nobody is to look.
    pub(crate) fn settle(&self) -> Result<(), String> {
        let Some(live) = &self.live else {
            return Ok(());
        };
        wait("the notifications to be read", || {
            let seen = live.collector.seen();
            let mut notices = seen
                .generations
                .values()
                .filter_map(|of| of.notices.as_ref());
            let begun = notices.all(|notices| notices.read_ms > 0);
            seen.generations.is_empty() || (begun && self.topics.dealt_with())
        })
    }

    /// After the workers have ended.
    pub(crate) fn kill(&mut self) {
        let Some(Live { collector, held }) = self.live.take() else {
            return;
        };
        drop(collector);
        let ended = wait("the end of the collector", || Arc::strong_count(&held) == 1);
        ended.expect("nothing holds it up");
        self.topics.readers_gone();
    }
}

fn wait(what: &str, done: impl Fn() -> bool) -> Result<(), String> {
    let until = Instant::now() + WAIT_MAX;
    while !done() {
        if Instant::now() > until {
            return Err(format!("waited for {what} in vain"));
        }
        std::thread::sleep(Duration::from_micros(200));
    }
    Ok(())
}

/// A planted fault: a COMPLETED is taken for a snapshot whose tables are empty, or for as many rows
/// as were told.
struct Credulous(Arc<Collector>);

impl Witness for Credulous {
    fn watch(
        &self,
        generation: &str,
        sources: &Sources,
        since_ms: Option<i64>,
        remembered: Remembered<'_>,
    ) {
        Witness::watch(&*self.0, generation, sources, since_ms, remembered);
    }

    fn unwatch(&self, generation: &str) {
        Witness::unwatch(&*self.0, generation);
    }

    fn seen(&self, generation: &str) -> Seen {
        let mut seen = Witness::seen(&*self.0, generation);
        let completed = |scan: &&mut Scan| scan.completed_early || scan.completed_ms.is_some();
        if let Some(scan) = seen.scan.as_mut().filter(completed) {
            let empty = Scanned {
                rows: 0,
                status: "EMPTY".to_owned(),
            };
            scan.scanned.insert("public.hello".to_owned(), empty);
            (scan.starts, scan.completed_ms) = (1, Some(1));
        }
        seen
    }

    fn want_cutoff(&self, generation: &str) {
        Witness::want_cutoff(&*self.0, generation);
    }
}
