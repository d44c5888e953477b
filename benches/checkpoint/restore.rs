//! Seconds and peak memory of a restore, in a process of its own.
//!
//! Invariant: a sample of all keys has its markers afterwards. It cannot restore on several
//! processes: one has all workers.

use crate::job::fingerprint;
use crate::time::timed;
use crate::{JOB, MILLION, Outcome, TICK_MS, WORKERS, open};
use headwater::checkpoint::{Manifest, load, resume};
use headwater_operators::marker::{MarkerArrangement, MarkerConfig, MarkerStore};
use headwater_operators::route::{range_of, worker_of};
use rustix::time::ClockId;
use sha2::{Digest, Sha256};
use std::fs::{self, File};
use std::io::Read;
use std::path::Path;

const MB: f64 = 1e6;

/// Memory of this process in bytes, from the kernel's table: `VmHWM` is the most there was.
fn memory(member: &str) -> Outcome<u64> {
    let status = fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix(member));
    let kib = line.and_then(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok());
    Ok(kib.ok_or("no such line in /proc/self/status")? * 1024)
}

/// In a process of its own: restores the first checkpoint on so many workers, all of them here.
pub(crate) fn restore(folder: &Path, workers: usize, millions: u64) -> Outcome<()> {
    let store = open(folder)?;
    let manifest = load(&store, JOB, 1)?;
    let stored: u64 = manifest.markers.runs.iter().map(|run| run.bytes).sum();
    let before = memory("VmHWM")?;
    let (restored, spent) = timed(ClockId::ProcessCPUTime, || -> Outcome<_> {
        let resumed = resume(&store, &manifest, &[], 0..workers, workers)?;
        let mut restored = Vec::new();
        for worker in 0..workers {
            let (first, last) = range_of(worker, workers);
            let mut markers = MarkerArrangement::new(MarkerConfig::new(first..=last, TICK_MS));
            for ticks in &resumed.ticks {
                let spans = ticks.spans.iter().copied();
                markers.restore_ticks(ticks.horizon, ticks.forgotten, spans);
            }
            for (_, run) in resumed.take_runs(worker) {
                markers.insert_run(run);
            }
            restored.push(markers);
        }
        Ok(restored)
    });
    let (mut restored, peak) = (restored?, memory("VmHWM")? - before);
    let at_rest: u64 = restored.iter().map(|markers| markers.stats().bytes).sum();
    for key in (0..millions * MILLION).step_by(997).map(fingerprint) {
        let mut found = Vec::new();
        restored[worker_of(key, workers) as usize].latest(&[key], &mut found);
        assert!(matches!(found[..], [Some(_)]), "a marker is lost");
    }
    let (read, plain) = timed(ClockId::ProcessCPUTime, || hash(folder, &manifest));
    read?;
    println!(
        "restore     {WORKERS} -> {workers} workers  {:.3} s ({:.3} s of CPU)  x{:.2} (x{:.2}) of \
         reading and SHA-256 on one thread\n            peak {:.1} MB more, x{:.2} of {:.1} MB \
         at rest, x{:.2} of {:.1} MB stored",
        spent.wall,
        spent.cpu,
        spent.wall / plain.wall,
        spent.cpu / plain.cpu,
        peak as f64 / MB,
        peak as f64 / at_rest as f64,
        at_rest as f64 / MB,
        peak as f64 / stored as f64,
        stored as f64 / MB,
    );
    Ok(())
}

/// Reads the objects of the markers and hashes them.
fn hash(folder: &Path, manifest: &Manifest) -> Outcome<[u8; 32]> {
    let (mut hasher, mut buffer) = (Sha256::new(), vec![0; 1 << 16]);
    for run in &manifest.markers.runs {
        let mut file = File::open(folder.join(&run.file))?;
        loop {
            match file.read(&mut buffer)? {
                0 => break,
                read => hasher.update(&buffer[..read]),
            }
        }
    }
    Ok(hasher.finalize().into())
}
