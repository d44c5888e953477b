//! The rule against a model of PostgreSQL's log, its sender, the driver and Debezium.

use super::{Look, Proving, by_hand, end_of_log};
use std::collections::{BTreeMap, BTreeSet};

fn look(running: &[u32], position: u64, confirmed: u64) -> (BTreeSet<u32>, u64, Option<u64>) {
    (running.iter().copied().collect(), position, Some(confirmed))
}

fn seen(
    proving: &mut Proving,
    (running, position, confirmed): (BTreeSet<u32>, u64, Option<u64>),
) -> Option<u64> {
    proving.look(Look {
        running: &running,
        position,
        confirmed,
    })
}

#[test]
fn a_confirmation_counts_behind_the_end_of_what_ran() {
    let mut proving = Proving::default();
    // 7 and 8 may have begun before it, 9 has not.
    assert_eq!(seen(&mut proving, look(&[], 100, 100)), None);
    assert_eq!(seen(&mut proving, look(&[7, 8], 120, 120)), None);
    assert_eq!(seen(&mut proving, look(&[7, 9], 130, 130)), None);
    assert_eq!(seen(&mut proving, look(&[9], 140, 139)), None);
    assert_eq!(seen(&mut proving, look(&[10], 190, 140)), Some(100));
    // The next one is 190. A wanted one takes its place.
    proving.next(200);
    assert_eq!(seen(&mut proving, look(&[], 210, 205)), Some(100));
    assert_eq!(seen(&mut proving, look(&[], 220, 210)), Some(200));
    let nobody = (BTreeSet::new(), 230, None);
    assert_eq!(seen(&mut proving, nobody), Some(200), "it stays proven");
}

#[test]
fn who_moves_the_slot() {
    for (mode, source, others) in [
        (None, None, false),
        (None, Some("true"), false),
        (None, Some("false"), true),
        (Some("manual"), None, true),
        // The newer setting counts.
        (Some("connector"), Some("false"), false),
        (Some("connector_and_driver"), None, false),
    ] {
        assert_eq!(by_hand(mode, source), others, "{mode:?} {source:?}");
    }
}

#[test]
fn the_header_of_an_empty_page_is_no_record() {
    const MIB_16: u64 = 16 << 20;
    for (insert, end) in [
        (0x30E_9A48, 0x30E_9A48),
        (0x30E_8018, 0x30E_8000),
        (0x30E_8028, 0x30E_8028),
        (0x300_0028, 0x300_0000),
        // A long header cannot be shorter.
        (0x300_0018, 0x300_0018),
    ] {
        assert_eq!(end_of_log(insert, 8192, MIB_16), end, "{insert:x}");
    }
    assert_eq!(end_of_log(0x28, 0, 0), 0x28, "sizes that nobody told");
}

/// A log in which each record takes one place. Sender, driver and Debezium are as in
/// PostgreSQL 15, pgjdbc 42.7.11, Debezium 3.6.1.
#[derive(Default)]
struct Model {
    end: u64,
    ids: u32,
    /// Begun, with the places of their changes.
    running: BTreeMap<u32, Vec<u64>>,
    /// Committed and not sent: place of the commit, places of the changes.
    unsent: Vec<(u64, Vec<u64>)>,
    /// Places of the transaction that is being sent; the last is its commit.
    sending: Vec<u64>,
    /// Where the sender has read to, in a keepalive.
    sent: u64,
    last_message: u64,
    /// Commits that were received and are not in Kafka, in order; and all that are.
    received: Vec<u64>,
    in_kafka: Vec<u64>,
    commits: Vec<u64>,
    explicit: u64,
    flushed: u64,
}

impl Model {
    fn record(&mut self) -> u64 {
        self.end += 1;
        self.end
    }

    fn act(&mut self, dice: &mut impl FnMut(u64) -> u64) {
        let one = |model: &Model, dice: &mut dyn FnMut(u64) -> u64| {
            let count = model.running.len() as u64;
            let at = (count > 0).then(|| dice(count) as usize)?;
            model.running.keys().nth(at).copied()
        };
        match dice(9) {
            0 if self.running.len() < 3 => {
                self.ids += 1;
                self.running.insert(self.ids, Vec::new());
            }
            1 => {
                if let Some(id) = one(self, dice) {
                    let place = self.record();
                    self.running.entry(id).or_default().push(place);
                }
            }
            2 => {
                if let Some(id) = one(self, dice) {
                    let changes = self.running.remove(&id).unwrap_or_default();
                    let place = self.record();
                    // Of no table that is captured, when it has no change.
                    if !changes.is_empty() {
                        self.commits.push(place);
                        self.unsent.push((place, changes));
                    }
                }
            }
            3 => {
                self.record();
            }
            4 | 5 => self.send(),
            6 => self.keepalive(),
            7 if !self.received.is_empty() => {
                let commit = self.received.remove(0);
                self.in_kafka.push(commit);
                if dice(2) == 0 {
                    self.explicit = commit;
                    self.flushed = self.flushed.max(commit);
                }
            }
            _ => {}
        }
    }

    /// One message, or reads on.
    fn send(&mut self) {
        if self.sending.is_empty() {
            let Some((commit, changes)) = (!self.unsent.is_empty()).then(|| self.unsent.remove(0))
            else {
                self.sent = self.end;
                return;
            };
            self.sent = commit - 1;
            self.sending = changes;
            self.sending.push(commit);
        }
        self.last_message = self.sending.remove(0);
        if self.sending.is_empty() {
            self.received.push(self.last_message);
            self.sent = self.last_message;
        }
    }

    fn keepalive(&mut self) {
        let is_later = self.sent > self.explicit && self.sent > self.flushed;
        if self.explicit >= self.last_message && is_later {
            self.flushed = self.sent;
        }
    }

    /// Whether all that was committed at or before a position is in Kafka.
    fn holds(&self, position: u64) -> bool {
        let mut before = self.commits.iter().filter(|commit| **commit <= position);
        before.all(|commit| self.in_kafka.contains(commit))
    }
}

/// Runs of the model; returns how often something was proven, how often wrongly, and how often the
/// slot alone was wrong. With `waits` off the rule is not told what runs.
fn play(runs: u64, waits: bool) -> (u64, u64, u64) {
    let (mut proven, mut wrong, mut naive) = (0, 0, 0);
    for run in 0..runs {
        let mut state = run * 2 + 1;
        let mut dice = move |sides: u64| {
            // splitmix64
            state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
            let mut mixed = state;
            mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
            mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
            (mixed ^ (mixed >> 31)) % sides
        };
        let (mut model, mut proving) = (Model::default(), Proving::default());
        for _ in 0..40 {
            for _ in 0..dice(12) {
                model.act(&mut dice);
            }
            // The three questions of a look are asked one after the other.
            let running = model.running.keys().copied().filter(|_| waits);
            let running: BTreeSet<u32> = running.collect();
            model.act(&mut dice);
            let position = model.end;
            model.act(&mut dice);
            let found = proving.look(Look {
                running: &running,
                position,
                confirmed: Some(model.flushed),
            });
            if let Some(found) = found {
                proven += u64::from(found > 0);
                wrong += u64::from(!model.holds(found));
            }
            naive += u64::from(!model.holds(model.flushed));
        }
    }
    (proven, wrong, naive)
}

#[test]
fn what_is_proven_is_in_kafka_whoever_confirms() {
    let (proven, wrong, naive) = play(10_000, true);
    assert_eq!(wrong, 0, "of {proven}");
    assert!(proven > 10_000, "{proven}: nothing was tested");
    assert!(naive > 0, "the model has no trap");
    let (_, wrong, _) = play(10_000, false);
    assert!(wrong > 0, "it need not wait for what runs");
}
