//! A mutation topic that grows stops the job.
//!
//! A producer may go on with the old partition count after the growth was noticed, and a key's
//! hash modulo the count moves it between two *old* partitions too, so no gate on our side keeps
//! its mutations in order. Growth is seen at most one interval (and a metadata request) late.

use crate::error::Error;
use crate::topic::Topics;
use crossbeam_channel::{RecvTimeoutError, Sender, bounded};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

/// The error about a topic whose partition count is no longer `known`; `None` when it is.
pub fn growth_error(topic: &str, known: u32, found: u32) -> Option<Error> {
    if found == known {
        return None;
    }
    if found < known {
        let text = format!("mutation topic {topic} has {found} partitions, it had {known}");
        return Some(
            Error::refused(text)
                .line("a topic never shrinks: it was deleted and made anew")
                .line("what to do: start a new job with a new snapshot"),
        );
    }
    Some(
        Error::refused(format!(
            "mutation topic {topic} grew from {known} to {found} partitions"
        ))
        .line("keys move between partitions, so their mutations may come out of order")
        .line("what to do, in this order, when a topic must grow: pause the connector, let the job")
        .line("catch up and stop it, grow the topic, start the job with")
        .line(format!(
            "--accept-partitions {found}, resume the connector. If it has"
        ))
        .line("grown while mutations were written, start a new job with a new snapshot instead."),
    )
}

/// Watches partition counts until dropped.
#[derive(Debug)]
pub struct GrowthWatch {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// Asks every `interval` for the partition counts of `known` (topic to count) on a thread of its
/// own, and calls `grown` once with the error of [`growth_error`] when one differs. A topic that
/// cannot be asked is asked again: its readers say what is wrong with it.
///
/// # Errors
/// When the thread cannot be started.
pub fn watch_growth(
    topics: Arc<dyn Topics>,
    known: BTreeMap<String, u32>,
    interval: Duration,
    grown: impl FnOnce(Error) + Send + 'static,
) -> Result<GrowthWatch, Error> {
    let (stop, stopped) = bounded::<()>(0);
    let watch = move || {
        while stopped.recv_timeout(interval) == Err(RecvTimeoutError::Timeout) {
            for (topic, known) in &known {
                let found = topics.partition_count(topic);
                if let Some(error) = found.ok().and_then(|n| growth_error(topic, *known, n)) {
                    grown(error);
                    return;
                }
            }
        }
    };
    let thread = std::thread::Builder::new()
        .name("topic-growth".into())
        .spawn(watch);
    let thread = thread.map_err(|e| Error::failed(format!("no thread could be started: {e}")))?;
    Ok(GrowthWatch {
        stop: Some(stop),
        thread: Some(thread),
    })
}

impl Drop for GrowthWatch {
    /// Returns at once, also in the middle of a request, which then ends on its own.
    fn drop(&mut self) {
        drop(self.stop.take());
        drop(self.thread.take());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;
    use crate::topic::{Assignment, OffsetRange, Reader, Start, Waker};
    use std::sync::atomic::{AtomicU32, Ordering};

    #[derive(Default)]
    struct Counts(AtomicU32);

    impl Topics for Counts {
        fn ranges(&self, topic: &str) -> Result<Vec<OffsetRange>, Error> {
            Err(Error::failed(topic))
        }
        fn partition_count(&self, topic: &str) -> Result<u32, Error> {
            match self.0.fetch_add(1, Ordering::Relaxed) {
                1 => Err(Error::failed(topic)),
                asked => Ok(4 + asked / 4),
            }
        }
        fn starts(&self, topic: &str, _: Start) -> Result<Vec<u64>, Error> {
            Err(Error::failed(topic))
        }
        fn reader(&self, _: &[Assignment], _: Waker) -> Result<Box<dyn Reader>, Error> {
            Err(Error::failed("none"))
        }
    }

    #[test]
    fn growth_is_told_once_with_what_to_do() {
        let (told, tells) = bounded(1);
        let known = BTreeMap::from([("muts".to_string(), 4)]);
        let grown = move |error| told.send(error).expect("the test waits");
        let topics = Arc::new(Counts::default());
        let watch = watch_growth(topics.clone(), known, Duration::from_millis(1), grown);
        let watch = watch.expect("a thread");
        let error = tells
            .recv_timeout(Duration::from_secs(10))
            .expect("it grew");
        assert_eq!(error.kind, ErrorKind::Refused);
        assert!(error.text.contains("muts grew from 4 to 5"), "{error}");
        assert!(error.text.contains("--accept-partitions 5"), "{error}");
        assert_eq!(
            topics.0.load(Ordering::Relaxed),
            5,
            "an error is asked again"
        );
        drop(watch);
        assert!(
            tells.recv_timeout(Duration::from_secs(10)).is_err(),
            "told once"
        );
    }

    #[test]
    fn a_dropped_watch_ends() {
        let topics: Arc<dyn Topics> = Arc::new(Counts::default());
        let known = BTreeMap::from([("muts".to_string(), 4)]);
        let watch = watch_growth(topics.clone(), known, Duration::from_secs(3600), |_| {});
        drop(watch.expect("a thread"));
        let end = std::time::Instant::now() + Duration::from_secs(10);
        while Arc::strong_count(&topics) > 1 {
            assert!(
                std::time::Instant::now() < end,
                "the thread still has the topics"
            );
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn equal_counts_are_no_error_and_fewer_are() {
        assert_eq!(growth_error("t", 3, 3), None);
        let error = growth_error("t", 3, 2).expect("an error");
        assert!(error.text.contains("had 3"), "{error}");
    }
}
