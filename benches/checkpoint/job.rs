//! The markers of a job without its dataflow, and the thread that uploads them.
//!
//! Invariant: marking and merging go as in the merge, so runs are as many and as large as there.
//! It cannot feed real records: keys are numbers, made to fingerprints by a mixer.

use crate::time::{Spent, timed};
use crate::{JOB, Outcome, TICK_MS, open};
use headwater::checkpoint::manifest::Markers;
use headwater::checkpoint::{Outbox, Part, Uploads, start_uploads};
use headwater::job::Panel;
use headwater::store::Store;
use headwater_operators::marker::{MarkerArrangement, MarkerConfig, MarkerStore};
use headwater_operators::merge::Cut;
use headwater_operators::route::{range_of, worker_of};
use rustix::time::ClockId;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Keys of one activation, and its merging, as in the merge.
pub(crate) const BATCH: u64 = 1000;
pub(crate) const FUEL: usize = 1 << 16;

pub(crate) fn fingerprint(n: u64) -> u128 {
    let mix = |mut z: u64| {
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    };
    let n = n.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (u128::from(mix(n)) << 64) | u128::from(mix(!n))
}

/// The markers of all workers of a job, and where their checkpoints go.
pub(crate) struct Bench {
    folder: PathBuf,
    pub(crate) store: Store,
    uploads: Uploads,
    pub(crate) outbox: Outbox,
    pub(crate) markers: Vec<MarkerArrangement>,
    pub(crate) number: u64,
    pub(crate) tick: u64,
}

/// A checkpoint, and what its upload has cost.
pub(crate) struct Taken {
    pub(crate) markers: Markers,
    pub(crate) bytes_new: u64,
    pub(crate) spent: Spent,
}

impl Bench {
    pub(crate) fn new(folder: &Path, workers: usize) -> Outcome<Bench> {
        let store = open(folder)?;
        let panel = Arc::new(Panel::default());
        let uploads = start_uploads(store.clone(), JOB, 1, panel, Arc::default())?;
        let of_worker = |worker| {
            let (first, last) = range_of(worker, workers);
            MarkerArrangement::new(MarkerConfig::new(first..=last, TICK_MS))
        };
        Ok(Bench {
            folder: folder.to_owned(),
            store,
            uploads,
            outbox: Outbox::default(),
            markers: (0..workers).map(of_worker).collect(),
            number: 0,
            tick: TICK_MS,
        })
    }

    /// Marks keys, each on its worker, merging as the merge does.
    pub(crate) fn mark(&mut self, keys: impl Iterator<Item = u64>) {
        let keys: Vec<u64> = keys.collect();
        let workers = self.markers.len();
        let mut own = vec![Vec::new(); workers];
        for keys in keys.chunks(BATCH as usize * workers) {
            for fingerprint in keys.iter().copied().map(fingerprint) {
                own[worker_of(fingerprint, workers) as usize].push(fingerprint);
            }
            for (markers, own) in self.markers.iter_mut().zip(&mut own) {
                markers.mark(self.tick, own);
                markers.work(FUEL);
                own.clear();
            }
            self.tick += TICK_MS;
        }
    }

    /// Hands a worker's markers to the uploading thread.
    pub(crate) fn export(&mut self, worker: usize) {
        let (number, tick) = (self.number, self.tick);
        let export = self.markers[worker].export();
        let cut = Cut { number, tick };
        self.uploads.export(worker, cut, export, &self.outbox);
    }

    /// Takes a checkpoint and waits until all its runs are durable.
    pub(crate) fn checkpoint(&mut self) -> Taken {
        self.number += 1;
        let (parts, spent) = timed(ClockId::ProcessCPUTime, || {
            (0..self.markers.len()).for_each(|worker| self.export(worker));
            let mut parts = Vec::new();
            while parts.len() < self.markers.len() {
                std::thread::sleep(Duration::from_millis(1));
                self.outbox.drain(&mut parts);
            }
            parts
        });
        let mut taken = Taken {
            markers: Markers::default(),
            bytes_new: 0,
            spent,
        };
        for part in parts {
            if let Part::Markers {
                runs,
                ticks,
                bytes_new,
                ..
            } = part
            {
                taken.markers.runs.extend(runs);
                taken.markers.ticks.push(ticks);
                taken.bytes_new += bytes_new;
            }
        }
        taken
    }

    /// Writes so many bytes into the same folder as one plain file, with fsync.
    pub(crate) fn plain_write(&self, bytes: u64) -> Outcome<Spent> {
        let random = |n: u64| fingerprint(n).to_le_bytes();
        let block: Vec<u8> = (0..1 << 16).flat_map(random).collect();
        let path = self.folder.join("plain");
        let (written, spent) = timed(ClockId::ProcessCPUTime, || -> Outcome<()> {
            let mut file = File::create(&path)?;
            let mut left = bytes as usize;
            while left > 0 {
                let part = &block[..left.min(block.len())];
                file.write_all(part)?;
                left -= part.len();
            }
            Ok(file.sync_all()?)
        });
        written?;
        fs::remove_file(&path)?;
        Ok(spent)
    }
}
