//! How long markers are kept, and which of them a generation may use. Pure state, moved by
//! commands and by the tick that control has passed.
//!
//! Invariant: while a generation is open under `until_ready`, no marker of its window is forgotten;
//! under `ttl` one may be, and then [`Window::at_risk`] says so for the READs that needed it.
//!
//! It cannot forget anything itself: it says through which tick a store may.

use crate::control::Command;
use serde::{Deserialize, Serialize};

/// Which markers are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeepMarkers {
    /// All that an open generation may need; with none open, the last `start_margin` and
    /// `open_late_max_ms`.
    UntilReady {
        /// How late a generation may be opened after its snapshot began.
        open_late_max_ms: u64,
    },
    /// Each for so long after its key's last mutation.
    Ttl {
        /// Milliseconds of logical time.
        ttl_ms: u64,
    },
}

/// Retention as configured and as commands have changed it.
#[derive(Clone, Debug)]
pub struct Retention {
    keep: KeepMarkers,
    start_margin_ms: u64,
    open: Vec<Generation>,
}

#[derive(Clone, Debug)]
struct Generation {
    number: u32,
    tables: Vec<u16>,
    opened_at_ms: u64,
}

/// The ticks of the markers that a generation may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Window {
    /// The first of them: `opened_at - start_margin`.
    pub start_ms: u64,
}

impl Window {
    /// Whether a marker of `tick` counts for this generation. An older one that is still there
    /// counts as absent, so that the result does not depend on when runs are merged.
    pub fn holds(self, tick: u64) -> bool {
        tick >= self.start_ms
    }

    /// Whether a marker of this window was forgotten, so that a missing marker proves nothing.
    pub fn at_risk(self, forgotten_through: Option<u64>) -> bool {
        // `None` (nothing was ever forgotten) is below every tick.
        forgotten_through.is_some_and(|tick| tick >= self.start_ms)
    }
}

impl Retention {
    /// A policy with no generation open.
    pub fn new(keep: KeepMarkers, start_margin_ms: u64) -> Self {
        Retention {
            keep,
            start_margin_ms,
            open: Vec::new(),
        }
    }

    /// Applies a command whose tick has passed.
    pub fn apply(&mut self, command: &Command) {
        match command {
            Command::Open {
                generation,
                tables,
                opened_at_ms,
                ..
            } => {
                // A newer generation of a table replaces the older one for that table.
                for older in &mut self.open {
                    older.tables.retain(|table| !tables.contains(table));
                }
                self.open
                    .retain(|older| !older.tables.is_empty() && older.number != *generation);
                self.open.push(Generation {
                    number: *generation,
                    tables: tables.clone(),
                    opened_at_ms: *opened_at_ms,
                });
            }
            Command::Close { generation, .. } => {
                self.open.retain(|open| open.number != *generation);
            }
            Command::SetTtl { ttl_ms } => {
                if let KeepMarkers::Ttl { ttl_ms: current } = &mut self.keep {
                    *current = *ttl_ms;
                }
            }
            Command::DropTable { generation, table } => {
                for open in &mut self.open {
                    if open.number == *generation {
                        open.tables.retain(|of| of != table);
                    }
                }
                self.open.retain(|open| !open.tables.is_empty());
            }
            Command::Freeze { .. }
            | Command::Target { .. }
            | Command::Checkpoint { .. }
            | Command::ReadRate { .. }
            | Command::Look { .. }
            | Command::Replayed { .. }
            | Command::Stop
            | Command::Shutdown
            | Command::Verdict { .. } => {}
        }
    }

    /// The window of a READ's generation for its table; `None` when that generation is not open for
    /// it (superseded, aborted, ready).
    pub fn window(&self, generation: u32, table: u16) -> Option<Window> {
        let open = self.open.iter().find(|open| open.number == generation)?;
        open.tables.contains(&table).then(|| self.window_of(open))
    }

    /// The generations that are open for a table, by number, with their windows; oldest first.
    pub fn windows(&self, table: u16) -> Vec<(u32, Window)> {
        let open = self.open.iter().filter(|open| open.tables.contains(&table));
        let mut windows: Vec<_> = open
            .map(|open| (open.number, self.window_of(open)))
            .collect();
        windows.sort_unstable_by_key(|(number, _)| *number);
        windows
    }

    fn window_of(&self, open: &Generation) -> Window {
        Window {
            start_ms: open.opened_at_ms.saturating_sub(self.start_margin_ms),
        }
    }

    /// Through which tick markers may be forgotten when control has passed `passed`; `None`: none.
    pub fn forget_through(&self, passed: u64) -> Option<u64> {
        match self.keep {
            KeepMarkers::Ttl { ttl_ms } => passed.checked_sub(ttl_ms),
            KeepMarkers::UntilReady { open_late_max_ms } => {
                // Another table's generation may be opened late while one is open.
                let late = self.start_margin_ms.saturating_add(open_late_max_ms);
                let windows = self.open.iter().map(|g| self.window_of(g).start_ms);
                let first_needed = windows.fold(passed.saturating_sub(late), u64::min);
                first_needed.checked_sub(1)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{KeepMarkers, Retention, Window};
    use crate::control::Command;

    fn open(generation: u32, tables: &[u16], opened_at_ms: u64) -> Command {
        Command::Open {
            generation,
            tables: tables.to_vec(),
            opened_at_ms,
            id: format!("g{generation}"),
            topics: Vec::new(),
            partitions: Vec::new(),
            not_before_ms: 0,
        }
    }

    #[test]
    fn until_ready_keeps_the_window_of_every_open_generation() {
        let mut retention = Retention::new(
            KeepMarkers::UntilReady {
                open_late_max_ms: 1000,
            },
            100,
        );
        assert_eq!(retention.forget_through(5000), Some(3899));
        retention.apply(&open(1, &[0], 3000));
        retention.apply(&open(2, &[1], 4000));
        assert_eq!(retention.forget_through(900_000), Some(2899));
        assert_eq!(retention.window(1, 0), Some(Window { start_ms: 2900 }));
        assert_eq!(retention.window(1, 1), None);
        retention.apply(&Command::Close {
            generation: 1,
            aborted: false,
        });
        assert_eq!(retention.forget_through(900_000), Some(3899));
        assert_eq!(retention.window(1, 0), None);
    }

    #[test]
    fn a_fresh_job_forgets_nothing() {
        let mut retention = Retention::new(
            KeepMarkers::UntilReady {
                open_late_max_ms: 0,
            },
            0,
        );
        retention.apply(&open(1, &[0], 0));
        assert_eq!(retention.forget_through(u64::MAX), None);
    }

    #[test]
    fn settings_without_bound_keep_everything() {
        let keep = KeepMarkers::UntilReady {
            open_late_max_ms: u64::MAX,
        };
        assert_eq!(
            Retention::new(keep, u64::MAX).forget_through(u64::MAX - 1),
            None
        );
    }

    #[test]
    fn a_newer_generation_supersedes_table_by_table() {
        let mut retention = Retention::new(
            KeepMarkers::UntilReady {
                open_late_max_ms: 0,
            },
            0,
        );
        retention.apply(&open(1, &[0, 1], 10));
        retention.apply(&open(2, &[1], 20));
        assert_eq!(retention.window(1, 0), Some(Window { start_ms: 10 }));
        assert_eq!(retention.window(1, 1), None);
        assert_eq!(retention.window(2, 1), Some(Window { start_ms: 20 }));
        assert_eq!(retention.windows(0), [(1, Window { start_ms: 10 })]);
        assert_eq!(retention.windows(1), [(2, Window { start_ms: 20 })]);
        assert_eq!(retention.windows(2), []);
    }

    #[test]
    fn ttl_moves_with_its_command() {
        let mut retention = Retention::new(KeepMarkers::Ttl { ttl_ms: 100 }, 0);
        assert_eq!(retention.forget_through(99), None);
        assert_eq!(retention.forget_through(100), Some(0));
        retention.apply(&Command::SetTtl { ttl_ms: 500 });
        assert_eq!(retention.forget_through(499), None);
    }

    #[test]
    fn nothing_forgotten_is_below_every_tick() {
        assert!(!Window { start_ms: 0 }.at_risk(None));
        assert!(Window { start_ms: 0 }.at_risk(Some(0)));
        assert!(!Window { start_ms: 1 }.at_risk(Some(0)));
    }
}
