//! Scenarios beside each other, a few at a time.
//!
//! Invariant: every item is worked on once; results come in no order.
//!
//! It cannot go on after a panic: that ends the test.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Scenarios that run beside each other.
const LANES: usize = 2;

/// Works on all items, and returns what came out.
pub(crate) fn in_lanes<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let done = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..LANES {
            scope.spawn(|| {
                while let Some(item) = items.get(next.fetch_add(1, Ordering::SeqCst)) {
                    let result = work(item);
                    done.lock().expect("no panic under this lock").push(result);
                }
            });
        }
    });
    done.into_inner().expect("no panic under this lock")
}
