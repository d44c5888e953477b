//! The auditor: reads every line of JSON lines files in order and finds a READ that was emitted
//! where the rule forbids it, even if later lines hide it.
//!
//! # The rule it holds
//!
//! It judges each incarnation by what that incarnation *knows*, and no more:
//!
//! * **Before its first line** it knows every mutation below the next_offset of its partition in
//!   the manifest that it started from: the markers at export cover all of them (design section 8).
//!   From nothing, it knows nothing.
//! * **At a line** of a worker's file it knows besides what that file showed above: the change of
//!   each mutation line and every earlier one of its partition that belongs to this worker. A
//!   partition is read by one worker, a channel keeps order, and a worker's file is in merge order.
//!
//! A READ line of a key with a known mutation breaks the rule: [`Breach::Stale`] when a known one
//! is newer than the row of the READ (the invariant), [`Breach::Marked`] when none is newer, yet
//! there is a marker (the READ was to be dropped).
//!
//! **Replay is no breach.** An incarnation that died may have emitted m5 behind the manifest. Its
//! successor has not read m5 when it starts: m5 will be read again. If a READ that shows m4 comes
//! first, it is emitted, and m5 comes again behind it. That is a READ ahead of the stream
//! (corollary 4); what the dead one knew counts only as far as the manifest says. So lines of other
//! incarnations are never looked at. The other way round nothing is forgiven: a READ that was
//! emitted where the manifest already covers m5 is a breach, although m5 may be in the target from
//! an earlier incarnation or from a marker that is refreshed a moment later.
//!
//! Folding shows less, never more: of a batch only the last record of a key is a line. A READ line
//! was then the key's last record in its batch, and a mutation known by the partition's order lies
//! in that batch or before it, hence before the READ. A delete line carries no index; it counts as
//! the first delete at or after what is known of its key, which is the least it can be.
//!
//! It also finds: mutations of a key out of order, records read again that lie below the manifest's
//! offsets, a READ emitted twice, a key on two workers of an incarnation, and, where nothing is
//! folded, mutations that were left out.
//!
//! It cannot judge a target that keeps no history (SQLite), nor READs that were dropped for no
//! reason: that is the oracle's "lost".

use crate::history::{History, Key};
use crate::manifest::Offsets;
use crate::outputs::Lines;
use std::collections::{BTreeMap, BTreeSet};

/// What is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Breach {
    /// A READ behind a newer mutation.
    Stale,
    /// A READ of a key with a marker, which is not newer.
    Marked,
    /// A mutation behind a later one of its key.
    Order,
    /// A record below the offset it was to be read from.
    ReadAgain,
    /// A READ twice in one incarnation.
    Twice,
    /// A key in the files of two workers.
    TwoWorkers,
    /// A line that no record of the history gives.
    Unknown,
    /// A mutation that is in no line, though nothing is folded.
    LostOutput,
}

/// Reads incarnation after incarnation.
#[derive(Clone, Debug)]
pub(crate) struct Auditor<'a> {
    history: &'a History,
    /// Whether each batch was one record, so that nothing is folded.
    unfolded: bool,
    /// Each breach in words, with its kind.
    pub(crate) breaches: Vec<(Breach, String)>,
    /// Distinct READs emitted.
    pub(crate) reads: BTreeSet<u32>,
    pub(crate) lines: u64,
    written: BTreeSet<(u32, u32)>,
}

/// What one file has shown.
struct Shown<'a> {
    start: &'a Offsets,
    /// One more than the greatest offset shown, by mutation partition.
    passed: Vec<u64>,
    /// The last change shown, by key.
    changes: BTreeMap<u32, u32>,
    reads: BTreeSet<u32>,
}

impl Shown<'_> {
    /// The last change of a key that this worker has emitted or started with.
    fn own(&self, id: u32, key: &Key) -> u32 {
        let start = key.changes_below(self.start.mutations[key.partition as usize]);
        self.changes.get(&id).copied().unwrap_or(0).max(start)
    }

    /// The last change of a key that this worker knows of.
    fn known(&self, id: u32, key: &Key) -> u32 {
        let passed = key.changes_below(self.passed[key.partition as usize]);
        self.own(id, key).max(passed)
    }

    fn show(&mut self, id: u32, key: &Key, index: u32) {
        self.changes.insert(id, index);
        if index > 0 {
            let passed = &mut self.passed[key.partition as usize];
            *passed = (*passed).max(key.offsets[index as usize - 1] + 1);
        }
    }
}

impl<'a> Auditor<'a> {
    pub(crate) fn new(history: &'a History, unfolded: bool) -> Self {
        Auditor {
            history,
            unfolded,
            breaches: Vec::new(),
            reads: BTreeSet::new(),
            lines: 0,
            written: BTreeSet::new(),
        }
    }

    /// Audits the files of one incarnation, which started from `start`.
    pub(crate) fn incarnation(&mut self, start: &Offsets, files: &[Lines]) {
        let mut owners: BTreeMap<u32, u64> = BTreeMap::new();
        for file in files {
            self.lines += file.lines.len() as u64;
            for line in &file.lines {
                let owner = *owners.entry(line.key).or_insert(file.worker);
                if owner != file.worker {
                    let words = format!("workers {owner} and {}", file.worker);
                    self.breach(Breach::TwoWorkers, file, line.key, &words);
                    owners.insert(line.key, file.worker);
                }
            }
            self.file(start, file);
        }
    }

    fn breach(&mut self, breach: Breach, file: &Lines, key: u32, words: &str) {
        let words = format!(
            "{breach:?}: key {key}, incarnation {} worker {}: {words}",
            file.incarnation, file.worker
        );
        self.breaches.push((breach, words));
    }

    fn file(&mut self, start: &Offsets, file: &Lines) {
        let mut shown = Shown {
            start,
            passed: vec![0; start.mutations.len()],
            changes: BTreeMap::new(),
            reads: BTreeSet::new(),
        };
        for line in &file.lines {
            let history = self.history;
            let Some(key) = history.keys.get(line.key as usize) else {
                self.breach(Breach::Unknown, file, line.key, "no such key");
                continue;
            };
            match &line.row {
                None => self.delete(file, line.key, key, &mut shown),
                Some((index, origin)) if origin == "read" => {
                    self.read(file, line.key, *index, key, &mut shown);
                }
                Some((index, _)) => self.write(file, line.key, *index, key, &mut shown),
            }
        }
    }

    fn delete(&mut self, file: &Lines, id: u32, key: &Key, shown: &mut Shown<'_>) {
        match key.delete_from(shown.own(id, key)) {
            Some(index) => shown.show(id, key, index),
            None => self.breach(Breach::Unknown, file, id, "a delete that was never written"),
        }
    }

    fn write(&mut self, file: &Lines, id: u32, index: u32, key: &Key, shown: &mut Shown<'_>) {
        if index == 0 || index > key.last() || !key.exists[index as usize] {
            return self.breach(Breach::Unknown, file, id, &format!("no change {index}"));
        }
        let base = key.changes_below(shown.start.mutations[key.partition as usize]);
        let own = shown.own(id, key);
        let words = format!("change {index} behind change {own}");
        if index <= base {
            self.breach(
                Breach::ReadAgain,
                file,
                id,
                &format!("{words} of the manifest"),
            );
        } else if index <= own {
            self.breach(Breach::Order, file, id, &words);
        }
        let left_out = (own + 1..index).find(|left| key.exists[*left as usize]);
        if let Some(left) = left_out.filter(|_| self.unfolded) {
            self.breach(
                Breach::LostOutput,
                file,
                id,
                &format!("{words}, without {left}"),
            );
        }
        self.written.insert((id, index));
        shown.show(id, key, index.max(own));
    }

    fn read(&mut self, file: &Lines, id: u32, index: u32, key: &Key, shown: &mut Shown<'_>) {
        let Some((_, partition, offset)) = key.read.filter(|read| read.0 == index) else {
            return self.breach(Breach::Unknown, file, id, &format!("no READ of {index}"));
        };
        let known = shown.known(id, key);
        let words = format!("a READ of change {index} behind change {known}");
        if known > index {
            self.breach(Breach::Stale, file, id, &words);
        } else if known > 0 {
            self.breach(Breach::Marked, file, id, &words);
        }
        if offset < shown.start.snapshot[partition as usize] {
            self.breach(
                Breach::ReadAgain,
                file,
                id,
                "a READ below the manifest's offset",
            );
        }
        if !shown.reads.insert(id) {
            self.breach(Breach::Twice, file, id, "a READ twice");
        }
        self.reads.insert(id);
    }

    /// At the end of the job, where nothing is folded: a mutation whose row is in no line of any
    /// incarnation was lost to who reads the output as a stream.
    pub(crate) fn end(&mut self) {
        if !self.unfolded {
            return;
        }
        for (id, key) in (0..).zip(&self.history.keys) {
            let left = (1..=key.last())
                .find(|index| key.exists[*index as usize] && !self.written.contains(&(id, *index)));
            if let Some(index) = left {
                let words = format!("LostOutput: key {id}: change {index} is in no line");
                self.breaches.push((Breach::LostOutput, words));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Auditor, Breach};
    use crate::history::{Builder, History};
    use crate::manifest::Offsets;
    use crate::outputs::{Line, Lines};

    /// Key 0: written (1), deleted (2), written (3). Key 1: written (1). Key 2: nothing. READs of
    /// all as of the beginning; all mutations in one partition.
    fn history() -> History {
        let mut builder = Builder::new(5, &[true, true, true], 1, 1);
        (0..3).for_each(|key| builder.read(key, 0));
        for (key, delete) in [(0, false), (0, true), (1, false), (0, false)] {
            builder.change(key, delete);
        }
        builder.build()
    }

    const fn line(key: u32, row: Option<(u32, &str)>) -> (u32, Option<(u32, &str)>) {
        (key, row)
    }

    type Given<'a> = (u32, Option<(u32, &'a str)>);

    fn file(worker: u64, lines: &[Given<'_>]) -> Lines {
        let line = |(key, row): &Given<'_>| Line {
            key: *key,
            row: row.map(|(seq, origin)| (seq, origin.to_owned())),
        };
        Lines {
            incarnation: 1,
            worker,
            lines: lines.iter().map(line).collect(),
        }
    }

    fn kinds(history: &History, start: &Offsets, files: &[Lines]) -> Vec<Breach> {
        let mut auditor = Auditor::new(history, true);
        auditor.incarnation(start, files);
        auditor.breaches.iter().map(|breach| breach.0).collect()
    }

    const READ0: Given<'_> = line(0, Some((0, "read")));
    const READ1: Given<'_> = line(1, Some((0, "read")));
    const READ2: Given<'_> = line(2, Some((0, "read")));
    const LIVE01: Given<'_> = line(0, Some((1, "live")));
    const LIVE03: Given<'_> = line(0, Some((3, "live")));
    const LIVE11: Given<'_> = line(1, Some((1, "live")));
    const GONE0: Given<'_> = line(0, None);

    #[test]
    fn what_the_rule_allows_passes() {
        let history = history();
        let fresh = Offsets::fresh(&history);
        let ahead = [READ2, READ0, READ1, LIVE01, GONE0, GONE0, LIVE11, LIVE03];
        assert_eq!(kinds(&history, &fresh, &[file(0, &ahead)]), []);
        // m1 of key 0 is in the manifest; its delete and the rest are read again.
        let mut start = fresh;
        start.mutations[0] = history.keys[0].offsets[0] + 1;
        assert_eq!(
            kinds(
                &history,
                &start,
                &[file(0, &[READ1, GONE0, LIVE11, LIVE03])]
            ),
            []
        );
    }

    #[test]
    fn a_read_behind_a_newer_mutation_is_stale_even_if_hidden_later() {
        let history = history();
        let fresh = Offsets::fresh(&history);
        let lines = [LIVE01, READ0, GONE0, LIVE11, LIVE03];
        assert_eq!(kinds(&history, &fresh, &[file(0, &lines)]), [Breach::Stale]);
        // Behind a delete; and known only from the order of the partition.
        let lines = [LIVE01, GONE0, READ0, LIVE11, LIVE03];
        assert_eq!(kinds(&history, &fresh, &[file(0, &lines)]), [Breach::Stale]);
        let mut auditor = Auditor::new(&history, false);
        auditor.incarnation(&fresh, &[file(0, &[LIVE11, READ0, LIVE03])]);
        assert_eq!(auditor.breaches[0].0, Breach::Stale);
    }

    #[test]
    fn what_the_manifest_covers_is_known() {
        let history = history();
        let mut start = Offsets::fresh(&history);
        start.mutations[0] = history.keys[0].offsets[0] + 1;
        let lines = [READ0, GONE0, LIVE11, LIVE03];
        assert_eq!(kinds(&history, &start, &[file(0, &lines)]), [Breach::Stale]);
        // Emitted by a dead incarnation behind its manifest: not known.
        let fresh = Offsets::fresh(&history);
        assert_eq!(kinds(&history, &fresh, &[file(0, &[READ0])]), []);
    }

    #[test]
    fn the_rest_is_found_too() {
        let history = history();
        let fresh = Offsets::fresh(&history);
        let found = |lines: &[Given<'_>]| kinds(&history, &fresh, &[file(0, lines)]);
        assert_eq!(found(&[READ2, READ2]), [Breach::Twice]);
        assert_eq!(found(&[LIVE01, GONE0, LIVE03, LIVE01]), [Breach::Order]);
        assert_eq!(found(&[LIVE03]), [Breach::LostOutput]);
        assert_eq!(found(&[line(1, None)]), [Breach::Unknown]);
        assert_eq!(found(&[line(9, None)]), [Breach::Unknown]);
        assert_eq!(found(&[line(2, Some((7, "read")))]), [Breach::Unknown]);
        let two = [file(0, &[READ2]), file(1, &[line(2, Some((0, "read")))])];
        assert!(kinds(&history, &fresh, &two).contains(&Breach::TwoWorkers));
        let mut start = fresh.clone();
        start.mutations[0] = history.keys[0].offsets[0] + 1;
        start.snapshot[0] = 3;
        let lines = [LIVE01, READ2];
        assert_eq!(
            kinds(&history, &start, &[file(0, &lines)]),
            [Breach::ReadAgain, Breach::ReadAgain]
        );
        let mut auditor = Auditor::new(&history, true);
        auditor.incarnation(&fresh, &[file(0, &[LIVE01, LIVE11, GONE0])]);
        auditor.end();
        assert_eq!(auditor.breaches.len(), 1, "change 3 of key 0");
    }

    #[test]
    fn a_read_that_is_not_older_than_the_marker_was_to_be_dropped() {
        let mut builder = Builder::new(5, &[true], 1, 1);
        builder.change(0, false);
        builder.read(0, 0);
        let history = builder.build();
        let lines = [line(0, Some((1, "live"))), line(0, Some((1, "read")))];
        let fresh = Offsets::fresh(&history);
        assert_eq!(
            kinds(&history, &fresh, &[file(0, &lines)]),
            [Breach::Marked]
        );
    }
}
