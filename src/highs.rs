//! How long topics are: asked every other second on a thread, for whoever tells of lag.
//!
//! Invariant: nothing is decided by it; ends and targets are asked anew when they are needed. An
//! answer that is older than some seconds is none.
//!
//! It cannot say how old a record is.

use crate::error::Error;
use crate::topic::{OffsetRange, TopicSettings, Topics};
use crossbeam_channel::{RecvTimeoutError, Sender, bounded};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Settings of topics change seldom.
const SETTINGS_EVERY: Duration = Duration::from_secs(600);
const EVERY: Duration = Duration::from_secs(2);
/// After so long without an answer nothing is known.
const OLD: Duration = Duration::from_secs(15);

/// The offsets that topics hold, by topic, as they were asked last.
#[derive(Debug, Default)]
pub struct Highs {
    wanted: Mutex<BTreeSet<String>>,
    known: Mutex<BTreeMap<String, (Instant, Vec<OffsetRange>)>>,
    settings: Mutex<BTreeMap<String, (Instant, Option<TopicSettings>)>>,
}

impl Highs {
    /// These topics are asked, too.
    pub fn want(&self, topics: impl IntoIterator<Item = String>) {
        let mut wanted = self.wanted.lock().unwrap_or_else(PoisonError::into_inner);
        wanted.extend(topics);
    }

    /// What a topic held some seconds ago, by partition.
    pub fn of(&self, topic: &str) -> Option<Vec<OffsetRange>> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let (at, ranges) = known.get(topic)?;
        (at.elapsed() < OLD).then(|| ranges.clone())
    }

    /// How long a topic keeps records, where that may be known.
    pub fn settings(&self, topic: &str) -> Option<TopicSettings> {
        let known = self.settings.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(topic).and_then(|(_, settings)| *settings)
    }

    /// Whether the settings of a topic were not asked for a while.
    fn forgotten(&self, topic: &str) -> bool {
        let known = self.settings.lock().unwrap_or_else(PoisonError::into_inner);
        known
            .get(topic)
            .is_none_or(|(at, _)| at.elapsed() >= SETTINGS_EVERY)
    }

    fn ask(&self, topics: &dyn Topics) {
        // Nobody waits for the lock while a broker is asked: worker 0 takes it at each step.
        let wanted = self
            .wanted
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        for topic in wanted {
            if self.forgotten(&topic)
                && let Ok(settings) = topics.settings(&topic)
            {
                let mut known = self.settings.lock().unwrap_or_else(PoisonError::into_inner);
                known.insert(topic.clone(), (Instant::now(), settings));
            }
            // Brokers that are away: whoever reads the topic says so.
            if let Ok(ranges) = topics.ranges(&topic) {
                let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
                known.insert(topic, (Instant::now(), ranges));
            }
        }
    }
}

/// Asks until it is dropped.
#[derive(Debug)]
pub struct HighsWatch {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// Begins to ask.
///
/// # Errors
/// When no thread can be had.
pub fn watch(topics: Arc<dyn Topics>, highs: Arc<Highs>) -> Result<HighsWatch, Error> {
    let (stop, stopped) = bounded::<()>(0);
    let ask = move || {
        loop {
            highs.ask(&*topics);
            if stopped.recv_timeout(EVERY) != Err(RecvTimeoutError::Timeout) {
                return;
            }
        }
    };
    let thread = std::thread::Builder::new().name("topic-ends".to_owned());
    let thread = thread
        .spawn(ask)
        .map_err(|error| Error::failed(format!("no thread could be started: {error}")))?;
    Ok(HighsWatch {
        stop: Some(stop),
        thread: Some(thread),
    })
}

impl Drop for HighsWatch {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // It ends by itself when its question is answered.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Highs;
    use crate::error::Error;
    use crate::topic::memory::{MemoryTopics, OwnedRecord};
    use crate::topic::{Assignment, OffsetRange, Reader, Start, TopicSettings, Topics, Waker};

    #[test]
    fn wanted_topics_are_known_and_others_are_not() {
        let topics = MemoryTopics::default();
        topics.create("t", 2);
        topics.append("t", 1, OwnedRecord::new(Some("k"), Some("v")));
        let highs = Highs::default();
        highs.want(["t".to_owned(), "gone".to_owned()]);
        highs.ask(&topics);
        let ranges = highs.of("t").expect("it was asked");
        let highs_of: Vec<u64> = ranges.iter().map(|range| range.high).collect();
        assert_eq!(highs_of, [0, 1]);
        assert_eq!(highs.of("gone"), None);
    }

    /// Looks whether somebody could name topics while it answers.
    struct Slow<'h>(&'h Highs, MemoryTopics);

    impl Topics for Slow<'_> {
        fn ranges(&self, topic: &str) -> Result<Vec<OffsetRange>, Error> {
            assert!(self.0.wanted.try_lock().is_ok(), "worker 0 would wait");
            self.1.ranges(topic)
        }

        fn partition_count(&self, topic: &str) -> Result<u32, Error> {
            self.1.partition_count(topic)
        }

        fn starts(&self, topic: &str, start: Start) -> Result<Vec<u64>, Error> {
            self.1.starts(topic, start)
        }

        fn settings(&self, topic: &str) -> Result<Option<TopicSettings>, Error> {
            assert!(self.0.wanted.try_lock().is_ok(), "worker 0 would wait");
            self.1.settings(topic)
        }

        fn reader(&self, of: &[Assignment], waker: Waker) -> Result<Box<dyn Reader>, Error> {
            self.1.reader(of, waker)
        }
    }

    #[test]
    fn nobody_waits_for_an_answer() {
        let topics = MemoryTopics::default();
        topics.create("t", 1);
        let highs = Highs::default();
        highs.want(["t".to_owned()]);
        highs.ask(&Slow(&highs, topics));
        assert!(highs.of("t").is_some());
    }
}
