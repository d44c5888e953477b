//! Compares one table: ranges by digest, then the rows of ranges that differ, then again the keys
//! that differed, until only stable differences are left.
//!
//! A range is what one page of the source holds. The digest of a row is that of its canonical
//! values, the digest of a range the sum over its rows, so it does not depend on the order of rows.
//!
//! Invariant: every row of both sides is in at least one range, whatever order each database has
//! for keys: the ranges go from below all keys to above all, each from where the last ended. Where
//! the orders differ, ranges overlap and more keys are looked at twice; no difference is lost.
//!
//! It cannot tell from rows whether the target was written by this job.

use super::report::{Found, TableReport};
use super::settle::{Difference, Verdict, Watch};
use super::side::{Key, Pair, Plan, Range, Side};
use super::value::{Raw, put};
use crate::error::Error;
use sha2::{Digest, Sha256};
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// Rows read at once: begun with, at least, and at most.
const ROWS_FIRST: usize = 500;
const ROWS_MIN: usize = 16;
const ROWS_MAX: usize = 5_000;
/// Bytes of a page, about.
const PAGE_BYTES: usize = 4 << 20;
/// Keys that differ and are watched at a time; beyond it reading waits until they are settled.
const WATCHED_MAX: usize = 50_000;
/// Keys read again in one statement.
const AGAIN_MAX: usize = 500;
const PAUSE_MIN: Duration = Duration::from_millis(50);
const PAUSE_MAX: Duration = Duration::from_secs(3);

/// What the person asked for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wanted {
    /// How long a difference must stay.
    pub(super) lag: Duration,
    /// Keys that are told of each kind.
    pub(super) keys_max: usize,
    pub(super) show_values: bool,
}

/// A row without its values.
struct Mark {
    id: Box<[u8]>,
    digest: u128,
    key: Key,
}

/// A page of one side.
struct Page {
    marks: Vec<Mark>,
    sum: u128,
    bytes: usize,
    /// Whether there is nothing behind it in its range.
    last: bool,
}

/// One table on its way.
pub(super) struct Comparison<'s> {
    source: &'s mut dyn Side,
    target: &'s mut dyn Side,
    pair: &'s Pair,
    wanted: Wanted,
    watched: HashMap<Box<[u8]>, (Key, Watch)>,
    report: TableReport,
}

impl<'s> Comparison<'s> {
    pub(super) fn new(
        source: &'s mut dyn Side,
        target: &'s mut dyn Side,
        pair: &'s Pair,
        wanted: Wanted,
        report: TableReport,
    ) -> Self {
        Comparison {
            source,
            target,
            pair,
            wanted,
            watched: HashMap::new(),
            report,
        }
    }

    /// Compares everything.
    pub(super) fn run(mut self) -> Result<TableReport, Error> {
        let (mut after, mut rows_max) = (None, ROWS_FIRST);
        loop {
            let range = Range {
                after: after.as_ref(),
                upto: None,
            };
            let page = page(self.source, &self.pair.source, range, rows_max)?;
            self.report.source_rows += page.marks.len() as u64;
            rows_max = rows_for(&page, rows_max);
            let upto = match page.last {
                true => None,
                false => page.marks.last().map(|mark| mark.key.clone()),
            };
            self.range(&page, after.as_ref(), upto.as_ref(), rows_max)?;
            if self.watched.len() >= WATCHED_MAX {
                self.settle()?;
            }
            match upto {
                Some(key) => after = Some(key),
                None => break,
            }
        }
        self.settle()?;
        Ok(self.report)
    }

    /// Compares the rows of a range, which `page` holds of the source.
    fn range(
        &mut self,
        page: &Page,
        after: Option<&Key>,
        upto: Option<&Key>,
        rows_max: usize,
    ) -> Result<(), Error> {
        let now = Instant::now();
        let mut after = after.cloned();
        let mut open: Option<HashMap<&[u8], &Mark>> = None;
        loop {
            let range = Range {
                after: after.as_ref(),
                upto,
            };
            let rows_max = rows_max.max(page.marks.len() + 1);
            let found = self::page(self.target, &self.pair.target, range, rows_max)?;
            self.report.target_rows += found.marks.len() as u64;
            let same = found.sum == page.sum && found.marks.len() == page.marks.len();
            if open.is_none() && found.last && same {
                return Ok(());
            }
            let open = open.get_or_insert_with(|| {
                self.report.ranges_different += 1;
                page.marks.iter().map(|mark| (&*mark.id, mark)).collect()
            });
            after = found.marks.last().map(|mark| mark.key.clone());
            for mark in found.marks {
                let source = open.remove(&*mark.id).map(|mark| mark.digest);
                if source != Some(mark.digest) {
                    let watch = Watch::new(source, Some(mark.digest), now);
                    self.watched.insert(mark.id, (mark.key, watch));
                }
            }
            if self.watched.len() >= WATCHED_MAX && !found.last {
                self.settle()?;
            }
            if found.last {
                break;
            }
        }
        for (id, mark) in open.unwrap_or_default() {
            let watch = Watch::new(Some(mark.digest), None, now);
            self.watched.insert(id.into(), (mark.key.clone(), watch));
        }
        Ok(())
    }

    /// Reads the watched keys again until each is settled.
    fn settle(&mut self) -> Result<(), Error> {
        let pause = (self.wanted.lag / 10).clamp(PAUSE_MIN, PAUSE_MAX);
        while !self.watched.is_empty() {
            let keys: Vec<Key> = self.watched.values().map(|(key, _)| key.clone()).collect();
            let mut stable = Vec::new();
            for keys in keys.chunks(AGAIN_MAX) {
                self.again(keys, &mut stable)?;
            }
            // In key order as far as bytes go, so that the same is told each time.
            stable.sort_by(|(a, _, _), (b, _, _)| a.cmp(b));
            for (_, key, difference) in stable {
                self.tell(&key, difference)?;
            }
            if !self.watched.is_empty() {
                std::thread::sleep(pause);
            }
        }
        Ok(())
    }

    /// Looks at some keys again, on both sides; what is settled is watched no more.
    fn again(
        &mut self,
        keys: &[Key],
        stable: &mut Vec<(Box<[u8]>, Key, Difference)>,
    ) -> Result<(), Error> {
        let source = look(self.source, &self.pair.source, keys)?;
        let target = look(self.target, &self.pair.target, keys)?;
        self.report.rows_read_again += (source.len() + target.len()) as u64;
        let now = Instant::now();
        for key in keys {
            let id = identity(&self.pair.source, key);
            let Some((_, watch)) = self.watched.get_mut(&id) else {
                continue;
            };
            let seen = |rows: &HashMap<Box<[u8]>, u128>| rows.get(&id).copied();
            match watch.look(seen(&source), seen(&target), now, self.wanted.lag) {
                Verdict::Wait => continue,
                Verdict::Equal => {}
                Verdict::Moving => self.report.moving += 1,
                Verdict::Stable(difference) => stable.push((id.clone(), key.clone(), difference)),
            }
            self.watched.remove(&id);
        }
        Ok(())
    }

    /// Counts a stable difference, and shows its key if it is among the first.
    fn tell(&mut self, key: &Key, difference: Difference) -> Result<(), Error> {
        let kind = match difference {
            Difference::Missing => &mut self.report.missing,
            Difference::Extra => &mut self.report.extra,
            Difference::Different => &mut self.report.different,
        };
        kind.count += 1;
        if kind.keys.len() >= self.wanted.keys_max {
            return Ok(());
        }
        let source = values(self.source, &self.pair.source, key)?;
        let target = values(self.target, &self.pair.target, key)?;
        let found = Found::new(self.pair, key, source, target, self.wanted.show_values);
        let kind = match difference {
            Difference::Missing => &mut self.report.missing,
            Difference::Extra => &mut self.report.extra,
            Difference::Different => &mut self.report.different,
        };
        kind.keys.push(found);
        Ok(())
    }
}

/// How many rows of this size make a page.
fn rows_for(page: &Page, rows_max: usize) -> usize {
    match page.bytes.checked_div(page.marks.len()) {
        Some(bytes) => (PAGE_BYTES / bytes.max(1))
            .clamp(ROWS_MIN, ROWS_MAX)
            .min(2 * rows_max),
        None => rows_max,
    }
}

fn page(
    side: &mut dyn Side,
    plan: &Plan,
    range: Range<'_>,
    rows_max: usize,
) -> Result<Page, Error> {
    let mut page = Page {
        marks: Vec::new(),
        sum: 0,
        bytes: 0,
        last: false,
    };
    side.page(plan, range, rows_max, &mut |row| {
        let digest = digest(plan, row);
        page.sum = page.sum.wrapping_add(digest);
        page.bytes += row.iter().map(Raw::size).sum::<usize>();
        page.marks.push(Mark {
            id: identity(plan, &row[..plan.keys]),
            digest,
            key: row[..plan.keys].iter().map(Raw::owned).collect(),
        });
    })?;
    page.last = page.marks.len() < rows_max;
    Ok(page)
}

fn look(side: &mut dyn Side, plan: &Plan, keys: &[Key]) -> Result<HashMap<Box<[u8]>, u128>, Error> {
    let mut rows = HashMap::new();
    side.lookup(plan, keys, &mut |row| {
        rows.insert(identity(plan, &row[..plan.keys]), digest(plan, row));
    })?;
    Ok(rows)
}

/// The values of one row.
fn values(side: &mut dyn Side, plan: &Plan, key: &Key) -> Result<Option<Vec<Raw<'static>>>, Error> {
    let mut found = None;
    side.lookup(plan, std::slice::from_ref(key), &mut |row| {
        found = Some(row.iter().map(Raw::owned).collect());
    })?;
    Ok(found)
}

/// The canonical bytes of a key.
fn identity(plan: &Plan, key: &[Raw<'_>]) -> Box<[u8]> {
    let mut bytes = Vec::new();
    for (raw, form) in key.iter().zip(&plan.forms) {
        put(raw, *form, &mut bytes);
    }
    bytes.into()
}

fn digest(plan: &Plan, row: &[Raw<'_>]) -> u128 {
    let hash = Sha256::digest(identity(plan, row));
    let first: [u8; 16] = hash[..16].try_into().expect("SHA-256 has 32 bytes");
    u128::from_be_bytes(first)
}
