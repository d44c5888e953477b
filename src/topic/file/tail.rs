//! Wakes a reader when one of its files grows.
//!
//! A thread looks at the lengths every [`PERIOD`] (a few `stat` calls: 0.1 % of a core at 8 files)
//! and ends when the [`Tail`] is dropped. It wakes on any change, never for a file that stands
//! still; a reader that has not read to the end needs no waking.

use crate::topic::Waker;
use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Time between two looks.
const PERIOD: Duration = Duration::from_millis(5);

/// Watches files until dropped.
#[derive(Debug)]
pub(super) struct Tail {
    stop: Arc<AtomicBool>,
    insist: Arc<AtomicBool>,
}

impl Tail {
    /// Starts to watch; calls `waker` once at the start.
    pub(super) fn start(files: Vec<File>, waker: Waker) -> std::io::Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let insist = Arc::new(AtomicBool::new(false));
        let (stopped, insisted) = (stop.clone(), insist.clone());
        std::thread::Builder::new()
            .name("topic-tail".into())
            .spawn(move || {
                let mut lens: Option<Vec<u64>> = None;
                while !stopped.load(Ordering::Relaxed) {
                    let now = lengths(&files);
                    if lens.as_ref() != Some(&now) || insisted.load(Ordering::Relaxed) {
                        lens = Some(now);
                        waker();
                    }
                    std::thread::sleep(PERIOD);
                }
            })?;
        Ok(Tail { stop, insist })
    }

    /// Wakes in every period, or no longer.
    pub(super) fn insist(&self, on: bool) {
        self.insist.store(on, Ordering::Relaxed);
    }
}

/// A file that cannot be asked or was removed counts as length 0: the change wakes the reader,
/// which says why.
fn lengths(files: &[File]) -> Vec<u64> {
    let length = |file: &File| {
        let meta = file.metadata().ok().filter(|meta| meta.nlink() > 0);
        meta.map_or(0, |meta| meta.len())
    };
    files.iter().map(length).collect()
}

impl Drop for Tail {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}
