//! The thread of process 0 that tells events.
//!
//! Invariant: one event at a time, and none before the one ahead of it was taken. Nobody waits for
//! the thread but [`Events::close`], and that not for long.
//!
//! It cannot know whether somebody took an event whose answer was lost: it tells it again.

use super::event::Event;
use super::outlet::{Outlet, outlet};
use super::place::Place;
use super::told::{Step, Told};
use crate::checkpoint::manifest::GenerationState;
use crate::error::Error;
use crate::job::Panel;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Who is in trouble when events are not taken.
const WHO: &str = "whoever takes events of generations";
const FIRST_MS: u64 = 200;
const MAX_MS: u64 = 30_000;

/// Hands what is durable to the thread, and tells what it has told.
pub struct Events {
    shared: Arc<Shared>,
}

impl std::fmt::Debug for Events {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Events")
    }
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// The last durable manifest: its number and its generations.
    number: u64,
    generations: Vec<GenerationState>,
    told: Told,
    /// No pause is made any more.
    closing: bool,
    over: bool,
}

impl State {
    fn next(&self) -> Option<Step> {
        self.told.next(&self.generations)
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait(&self, within: Duration, go_on: impl FnMut(&mut State) -> bool) {
        let waited = self.changed.wait_timeout_while(self.lock(), within, go_on);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }
}

impl Events {
    /// Starts to tell, with what `base` says that was not told before: the manifest by which this
    /// run owns the job, its generations, and how many transitions were told.
    ///
    /// # Errors
    /// When there is no thread to be had.
    pub fn start(
        place: Place,
        job: &str,
        tables: Vec<String>,
        base: (u64, &[GenerationState], u64),
        panel: Arc<Panel>,
    ) -> Result<Events, Error> {
        Events::through(outlet(place), job, tables, base, panel)
    }

    fn through(
        outlet: Box<dyn Outlet>,
        job: &str,
        tables: Vec<String>,
        (number, generations, sent): (u64, &[GenerationState], u64),
        panel: Arc<Panel>,
    ) -> Result<Events, Error> {
        let shared = Arc::new(Shared::default());
        {
            let mut state = shared.lock();
            state.told = Told::first(generations, sent);
            state.number = number;
            state.generations = generations.to_vec();
        }
        let thread = Thread {
            outlet,
            job: job.to_owned(),
            tables,
            panel,
            shared: Arc::clone(&shared),
        };
        std::thread::Builder::new()
            .name("events".to_owned())
            .spawn(move || thread.run())
            .map_err(|error| Error::failed(format!("no thread for events: {error}")))?;
        Ok(Events { shared })
    }

    /// A manifest is durable.
    pub fn durable(&self, number: u64, generations: &[GenerationState]) {
        let mut state = self.shared.lock();
        state.number = number;
        state.generations = generations.to_vec();
        self.shared.changed.notify_all();
    }

    /// How many of the first transitions of a manifest with these generations were told.
    pub fn sent(&self, generations: &[GenerationState]) -> u64 {
        self.shared.lock().told.count(generations)
    }

    /// Waits until all is told, but no longer than `within`, and ends the thread; whether all was.
    /// The next run of the job tells the rest.
    pub fn close(&self, within: Duration) -> bool {
        self.shared.lock().closing = true;
        self.shared.changed.notify_all();
        self.shared.wait(within, |state| state.next().is_some());
        let mut state = self.shared.lock();
        state.over = true;
        self.shared.changed.notify_all();
        state.next().is_none()
    }
}

impl Drop for Events {
    fn drop(&mut self) {
        self.shared.lock().over = true;
        self.shared.changed.notify_all();
    }
}

struct Thread {
    outlet: Box<dyn Outlet>,
    job: String,
    tables: Vec<String>,
    panel: Arc<Panel>,
    shared: Arc<Shared>,
}

impl Thread {
    fn run(mut self) {
        let mut attempts = 0;
        while let Some(event) = self.next() {
            match self.outlet.give(&event) {
                Ok(()) => {
                    attempts = 0;
                    self.panel.trouble(WHO, None);
                    self.shared.lock().told.tell(event.number, event.seq);
                    self.shared.changed.notify_all();
                }
                Err(reason) => {
                    self.panel.trouble(WHO, Some(reason));
                    attempts += 1;
                    self.pause(attempts);
                }
            }
        }
    }

    /// Waits for something to tell; `None` when it is over.
    fn next(&self) -> Option<Event> {
        let idle = |state: &mut State| !state.over && state.next().is_none();
        let waited = self.shared.changed.wait_while(self.shared.lock(), idle);
        let state = waited.unwrap_or_else(PoisonError::into_inner);
        let step = state.next().filter(|_| !state.over)?;
        let manifest = (state.number, &state.generations[..]);
        Some(Event::of(&self.job, &self.tables, manifest, step))
    }

    /// The pause after `attempts` attempts: doubled each time, at most 30 s; the shortest one when
    /// the job ends.
    fn pause(&self, attempts: u32) {
        let doubled = FIRST_MS.saturating_mul(1 << attempts.saturating_sub(1).min(16));
        let pause = Duration::from_millis(doubled.min(MAX_MS));
        self.shared
            .wait(pause, |state| !state.closing && !state.over);
        if self.shared.lock().closing {
            self.shared
                .wait(Duration::from_millis(FIRST_MS), |state| !state.over);
        }
    }
}

#[cfg(test)]
mod tests;
