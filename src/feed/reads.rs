//! How many READs of which run of the snapshot were read, by table: counted where offsets are, so
//! that what a cut says of both is the same moment.
//!
//! It cannot remember any number of runs: beyond [`RUNS_MAX`] a table's are counted under
//! [`OTHER`].

use crate::generation::ReadsSeen;

/// Runs of one table that are told apart. A connector starts a few times, not hundreds.
const RUNS_MAX: usize = 64;
/// The run of all others.
const OTHER: &str = "other";
/// Bytes of a run's name that are kept.
const NAME_BYTES_MAX: usize = 64;

/// The READs of one generation that one worker has read in this run of the job.
#[derive(Clone, Debug, Default)]
pub(super) struct Reads {
    seen: Vec<ReadsSeen>,
    /// Index of the last one: the next READ is of the same, mostly.
    last: usize,
}

impl Reads {
    /// A READ was read; `time_ms` is when it was read at the source, 0 when that is not known.
    pub(super) fn saw(&mut self, table: u16, run: &[u8], time_ms: i64, last_marker: bool) {
        let same = |seen: &ReadsSeen| seen.table == table && seen.run.as_bytes() == run;
        if !self.seen.get(self.last).is_some_and(same) {
            let text = String::from_utf8_lossy(run);
            let end = text.floor_char_boundary(NAME_BYTES_MAX.min(text.len()));
            self.last = place(&mut self.seen, table, &text[..end]);
        }
        let one = &mut self.seen[self.last];
        one.rows += 1;
        times(one, time_ms, time_ms);
        one.last_marker |= last_marker;
    }

    /// What was counted.
    pub(super) fn seen(&self) -> &[ReadsSeen] {
        &self.seen
    }
}

/// Adds counts of other workers, or of other runs of the job, to `into`.
pub fn add_up(into: &mut Vec<ReadsSeen>, more: &[ReadsSeen]) {
    for one in more {
        let index = place(into, one.table, &one.run);
        let sum = &mut into[index];
        sum.rows += one.rows;
        times(sum, one.first_ms, one.last_ms);
        sum.last_marker |= one.last_marker;
    }
}

/// The index of a table's run; that of the other ones when there are too many.
fn place(seen: &mut Vec<ReadsSeen>, table: u16, run: &str) -> usize {
    let find = |seen: &[ReadsSeen], run: &str| {
        let mut all = seen.iter();
        all.position(|one| one.table == table && one.run == run)
    };
    if let Some(index) = find(seen, run) {
        return index;
    }
    let runs = seen.iter().filter(|one| one.table == table).count();
    let run = if runs < RUNS_MAX { run } else { OTHER };
    find(seen, run).unwrap_or_else(|| {
        seen.push(ReadsSeen {
            table,
            run: run.to_owned(),
            ..ReadsSeen::default()
        });
        seen.len() - 1
    })
}

fn times(seen: &mut ReadsSeen, first_ms: i64, last_ms: i64) {
    if first_ms > 0 && (seen.first_ms == 0 || first_ms < seen.first_ms) {
        seen.first_ms = first_ms;
    }
    seen.last_ms = seen.last_ms.max(last_ms);
}

#[cfg(test)]
mod tests {
    use super::{OTHER, RUNS_MAX, Reads, add_up};

    #[test]
    fn runs_are_told_apart_up_to_a_bound() {
        let mut reads = Reads::default();
        for run in 0..100 {
            reads.saw(0, format!("run {run}").as_bytes(), 0, false);
            reads.saw(0, b"run 0", 7, false);
            reads.saw(1, b"\xff", 1000 + run, run == 50);
        }
        let of = |table, run: &str| {
            let mut all = reads.seen().iter();
            all.find(|one| one.table == table && one.run == run)
                .expect("counted")
        };
        assert_eq!(of(0, "run 0").rows, 101);
        assert_eq!((of(0, "run 0").first_ms, of(0, "run 0").last_ms), (7, 7));
        assert_eq!(of(0, OTHER).rows, 100 - RUNS_MAX as u64);
        let bad = of(1, "\u{fffd}");
        assert_eq!((bad.rows, bad.first_ms, bad.last_ms), (100, 1000, 1099));
        assert!(bad.last_marker && !of(0, OTHER).last_marker);
        assert_eq!(reads.seen().len(), RUNS_MAX + 2);
    }

    #[test]
    fn sums_are_those_of_one_count() {
        let (mut one, mut two, mut all) = (Reads::default(), Reads::default(), Reads::default());
        for run in 0..80 {
            let name = format!("run {}", run % 40);
            let half = if run % 3 == 0 { &mut one } else { &mut two };
            for reads in [half, &mut all] {
                reads.saw(0, name.as_bytes(), run, run == 79);
            }
        }
        let mut sum = Vec::new();
        add_up(&mut sum, two.seen());
        add_up(&mut sum, one.seen());
        let mut expected = all.seen().to_vec();
        for list in [&mut sum, &mut expected] {
            list.sort_by(|a, b| a.run.cmp(&b.run));
        }
        assert_eq!(sum, expected);
    }
}
