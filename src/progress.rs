//! How far a run is, as it runs: a bar and a line on a terminal, a plain line each 5 s elsewhere.
//!
//! Invariant: everything goes to stderr, so that stdout stays free for `--json`; but what a parent
//! process has asked to be told goes to stdout. It only shows what it is handed, at most as often
//! as a person can read.

use crate::summary::grouped;
use indicatif::{HumanBytes, MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde::{Deserialize, Serialize};
use std::io::{IsTerminal, Write};

/// Time between two plain lines.
pub const LINE_EVERY_MS: u64 = 5_000;

/// The counts of this moment, over all workers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Progress {
    /// Mutations emitted.
    pub mutations_emitted: u64,
    /// READs emitted.
    pub reads_emitted: u64,
    /// READs dropped because their key has a marker.
    pub reads_dropped_marker: u64,
    /// READs kept from the target.
    pub reads_quarantined: u64,
    /// Markers held.
    pub markers: u64,
    /// Their bytes.
    pub marker_bytes: u64,
    /// Mutations that wait in their topics, if that is known.
    pub lag_records: Option<u64>,
    /// Snapshot records read.
    pub snapshot_consumed: u64,
    /// Snapshot records there are, as far as is known.
    pub snapshot_total: Option<u64>,
    /// Milliseconds since the start.
    pub elapsed_ms: u64,
}

impl Progress {
    /// The live counters, on one line.
    pub fn counters(&self) -> String {
        let lag = self
            .lag_records
            .map_or(String::new(), |lag| format!("  lag {}", grouped(lag)));
        let quarantined = if self.reads_quarantined == 0 {
            String::new()
        } else {
            format!(", {} quarantined", grouped(self.reads_quarantined))
        };
        format!(
            "mutations {}{lag}  READs {} emitted, {} dropped{quarantined}  markers {} ({})",
            grouped(self.mutations_emitted),
            grouped(self.reads_emitted),
            grouped(self.reads_dropped_marker),
            grouped(self.markers),
            HumanBytes(self.marker_bytes),
        )
    }

    /// The whole of it on one line, for logs.
    pub fn line(&self) -> String {
        let total = self.snapshot_total.map_or("?".to_owned(), grouped);
        format!(
            "{}  snapshot {} of {total}  {}",
            clock(self.elapsed_ms),
            grouped(self.snapshot_consumed),
            self.counters(),
        )
    }
}

/// `hh:mm:ss`.
fn clock(ms: u64) -> String {
    let seconds = ms / 1_000;
    format!(
        "{:02}:{:02}:{:02}",
        seconds / 3_600,
        seconds / 60 % 60,
        seconds % 60
    )
}

/// Shows [`Progress`] until it is dropped or finished.
pub struct Display(Form);

enum Form {
    Bars {
        bars: MultiProgress,
        snapshot: ProgressBar,
        counters: ProgressBar,
    },
    Lines {
        next_ms: u64,
    },
    Told {
        unheard: bool,
    },
    Silent,
}

impl Display {
    /// Bars when stderr is a terminal, else lines.
    pub fn new() -> Self {
        if std::io::stderr().is_terminal() {
            Display::bars()
        } else {
            Display::lines()
        }
    }

    /// Shows nothing.
    pub fn silent() -> Self {
        Display(Form::Silent)
    }

    /// One JSON object a line on stdout, for a process that has started this one.
    pub fn told() -> Self {
        Display(Form::Told { unheard: false })
    }

    /// Whether the process that asked to be told does not listen any more.
    pub fn unheard(&self) -> bool {
        matches!(self.0, Form::Told { unheard: true })
    }

    fn lines() -> Self {
        Display(Form::Lines {
            next_ms: LINE_EVERY_MS,
        })
    }

    fn bars() -> Self {
        let bars = MultiProgress::with_draw_target(ProgressDrawTarget::stderr_with_hz(10));
        let snapshot = bars.add(ProgressBar::no_length());
        let style = ProgressStyle::with_template("snapshot {wide_bar} {percent:>3} % {msg}")
            .expect("a good template");
        snapshot.set_style(style);
        let counters = bars.add(ProgressBar::no_length());
        counters.set_style(ProgressStyle::with_template("{msg}").expect("a good template"));
        Display(Form::Bars {
            bars,
            snapshot,
            counters,
        })
    }

    /// Shows the counts of this moment; call it as often as they are known. Gives the line that
    /// was printed, if one was.
    pub fn show(&mut self, progress: &Progress) -> Option<String> {
        match &mut self.0 {
            Form::Silent => None,
            Form::Told { unheard } => {
                let line = serde_json::to_string(progress).expect("plain numbers");
                *unheard |= writeln!(std::io::stdout(), "{line}").is_err();
                Some(line)
            }
            Form::Bars {
                snapshot, counters, ..
            } => {
                if let Some(total) = progress.snapshot_total {
                    snapshot.set_length(total);
                }
                snapshot.set_position(progress.snapshot_consumed);
                snapshot.set_message(grouped(progress.snapshot_consumed));
                counters.set_message(format!(
                    "{}  {}",
                    clock(progress.elapsed_ms),
                    progress.counters()
                ));
                None
            }
            Form::Lines { next_ms } => {
                if progress.elapsed_ms < *next_ms {
                    return None;
                }
                *next_ms = progress.elapsed_ms + LINE_EVERY_MS;
                let line = progress.line();
                eprintln!("{line}");
                Some(line)
            }
        }
    }

    /// Says a sentence among the counts, without tearing the bars.
    pub fn say(&self, text: &str) {
        match &self.0 {
            Form::Bars { bars, .. } => bars.suspend(|| eprintln!("{text}")),
            Form::Lines { .. } | Form::Told { .. } | Form::Silent => eprintln!("{text}"),
        }
    }

    /// Leaves the last state on the screen and ends.
    pub fn finish(self, last: &Progress) {
        let mut display = self;
        if let Form::Lines { next_ms } = &mut display.0 {
            *next_ms = 0;
        }
        display.show(last);
        if let Form::Bars {
            snapshot, counters, ..
        } = &display.0
        {
            snapshot.abandon();
            counters.abandon();
        }
    }
}

impl Default for Display {
    fn default() -> Self {
        Display::new()
    }
}

#[cfg(test)]
mod tests {
    use super::{Display, Progress};

    fn progress(elapsed_ms: u64) -> Progress {
        Progress {
            mutations_emitted: 12_345,
            reads_emitted: 1_000,
            reads_dropped_marker: 20,
            markers: 9,
            marker_bytes: 144,
            lag_records: Some(7),
            snapshot_consumed: 1_020,
            snapshot_total: Some(10_000),
            elapsed_ms,
            ..Progress::default()
        }
    }

    #[test]
    fn a_line_says_it_all() {
        assert_eq!(
            progress(3_723_004).line(),
            "01:02:03  snapshot 1,020 of 10,000  mutations 12,345  lag 7  \
             READs 1,000 emitted, 20 dropped  markers 9 (144 B)"
        );
        let unsafe_one = Progress {
            reads_quarantined: 3,
            ..Progress::default()
        };
        assert!(unsafe_one.line().contains("snapshot 0 of ?"));
        assert!(unsafe_one.line().contains("3 quarantined"));
    }

    #[test]
    fn lines_come_each_five_seconds() {
        let mut display = Display::lines();
        let printed: Vec<u64> = (0..=12_000)
            .step_by(100)
            .filter(|ms| display.show(&progress(*ms)).is_some())
            .collect();
        assert_eq!(printed, [5_000, 10_000]);
        display.finish(&progress(12_100));
    }

    #[test]
    fn silence_is_silent() {
        assert_eq!(Display::silent().show(&progress(9_000)), None);
    }
}
