//! A reader of the SQLite target that polls while the job is killed and restarted, and counts rows
//! that go back: an older change of a key after a newer one.
//!
//! It looks only at keys that the snapshot does not contain: a READ ahead of the stream may go back
//! without any crash (design corollary 4). A row that is gone counts as the first delete at or
//! after what was seen.
//!
//! It cannot see what is there for less than one poll.

use crate::history::{History, Key, Seen};
use crate::outputs;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::thread::JoinHandle;
use std::time::Duration;

/// A running reader.
#[derive(Debug)]
pub(crate) struct Watcher {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Vec<String>>>,
}

impl Watcher {
    /// Starts one, which has looked once when this returns.
    pub(crate) fn start(folder: &Path, history: &Arc<History>) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let (stopped, folder) = (Arc::clone(&stop), folder.to_path_buf());
        let history = Arc::clone(history);
        let (looked, has_looked) = channel();
        let watch = move || {
            let (mut seen, mut back) = (BTreeMap::new(), Vec::new());
            back.extend(look(&history, &outputs::sqlite(&folder), &mut seen));
            let _ = looked.send(());
            while !stopped.load(Ordering::SeqCst) {
                back.extend(look(&history, &outputs::sqlite(&folder), &mut seen));
                std::thread::sleep(Duration::from_millis(5));
            }
            back
        };
        let thread = Some(std::thread::spawn(watch));
        has_looked.recv().expect("it looks first");
        Watcher { stop, thread }
    }

    /// What went back, in words.
    pub(crate) fn end(mut self) -> Vec<String> {
        self.stop.store(true, Ordering::SeqCst);
        let thread = self.thread.take().expect("it ends once");
        thread.join().expect("the reader reads")
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
    }
}

/// Compares rows with those seen before, which it takes in.
fn look(
    history: &History,
    rows: &BTreeMap<u32, Seen>,
    seen: &mut BTreeMap<u32, u32>,
) -> Vec<String> {
    let mut back = Vec::new();
    let keys = (0..).zip(&history.keys);
    for (id, key) in keys.filter(|(_, key)| key.read.is_none()) {
        let before = seen.get(&id).copied();
        match now(key, rows.get(&id), before) {
            Ok(Some(index)) => {
                seen.insert(id, index);
            }
            Ok(None) => (),
            Err(words) => back.push(format!("key {id}: {words}")),
        }
    }
    back
}

/// The change that a row, or its absence, shows.
fn now(key: &Key, row: Option<&Seen>, before: Option<u32>) -> Result<Option<u32>, String> {
    match (row, before) {
        (None, None) => Ok(None),
        (None, Some(before)) => match key.delete_from(before) {
            Some(index) => Ok(Some(index)),
            None => Err(format!("change {before}, then no row")),
        },
        (Some((index, _)), Some(before)) if *index < before => {
            Err(format!("change {before}, then change {index}"))
        }
        (Some((index, _)), _) => Ok(Some(*index)),
    }
}

#[cfg(test)]
mod tests {
    use super::now;
    use crate::history::Builder;

    #[test]
    fn older_rows_and_lost_rows_are_seen() {
        let mut builder = Builder::new(1, &[true], 1, 1);
        for delete in [false, true, false] {
            builder.change(0, delete);
        }
        let history = builder.build();
        let key = &history.keys[0];
        let row = |index: u32| (index, "live".to_owned());
        assert_eq!(now(key, None, None), Ok(None));
        assert_eq!(now(key, Some(&row(1)), None), Ok(Some(1)));
        assert_eq!(now(key, None, Some(1)), Ok(Some(2)));
        assert_eq!(now(key, Some(&row(3)), Some(2)), Ok(Some(3)));
        now(key, Some(&row(1)), Some(2)).expect_err("an older row");
        now(key, None, Some(3)).expect_err("no delete is left");
    }
}
