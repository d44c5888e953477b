//! Bytes and seconds of the first checkpoint and of further ones.
//!
//! It cannot take the checkpoint of a whole job: the rest of a manifest is a few kilobytes.

use crate::job::Bench;
use crate::time::Spent;
use crate::{JOB, MILLION, Outcome, WORKERS};
use headwater::checkpoint::manifest::Markers;
use headwater::checkpoint::{Manifest, name};
use std::path::Path;

/// Further checkpoints, each after a million keys more.
const FURTHER: u64 = 10;
const MB: f64 = 1e6;

/// A manifest of these markers; text, so that members which are not of interest may come and go.
fn manifest(markers: Markers) -> Outcome<Manifest> {
    let text = r#"{"number":1,"job":"bench","incarnation":1,"identity":{},"target":null,
        "target_note":0,"fingerprint":{"id":1,"secret":"00000000000000000000000000000000"},
        "time":{"tick_ms":20,"cut_ms":0,"now_ms":0,"wall":[]},"topic_ids":{},"offsets":[],
        "markers":{"runs":[],"ticks":[]},"generations":[],"shapes":[],"shards_max":0}"#;
    let mut manifest: Manifest = serde_json::from_str(text)?;
    manifest.markers = markers;
    Ok(manifest)
}

/// The first checkpoint and further ones; leaves a manifest of the first for restores.
pub(crate) fn write(folder: &Path, millions: u64) -> Outcome<()> {
    let mut bench = Bench::new(folder, WORKERS)?;
    bench.mark(0..millions * MILLION);
    let first = bench.checkpoint();
    let plain = bench.plain_write(first.bytes_new)?;
    println!(
        "first       {millions} M keys, {} runs: a million {:.2} MB, {:.3} s ({:.3} s of CPU); {}",
        first.markers.runs.len(),
        first.bytes_new as f64 / MB / millions as f64,
        first.spent.wall / millions as f64,
        first.spent.cpu / millions as f64,
        beside(first.spent, plain),
    );
    let checkpoint = manifest(first.markers)?.encode();
    bench.store.put(&name(JOB, 1), &checkpoint)?;
    let (mut all, mut most, mut plain) = (Spent::default(), Spent::default(), Spent::default());
    let (mut bytes, mut bytes_max) = (0, 0);
    for further in 0..FURTHER {
        let start = (millions + further) * MILLION;
        bench.mark(start..start + MILLION);
        let taken = bench.checkpoint();
        plain.add(bench.plain_write(taken.bytes_new)?);
        bytes += taken.bytes_new;
        bytes_max = bytes_max.max(taken.bytes_new);
        all.add(taken.spent);
        most.longest(taken.spent);
    }
    println!(
        "further     {FURTHER} times 1 M keys: mean {:.2} MB, {:.3} s ({:.3} s of CPU), most \
         {:.1} MB, {:.3} s; {}",
        bytes as f64 / MB / FURTHER as f64,
        all.wall / FURTHER as f64,
        all.cpu / FURTHER as f64,
        bytes_max as f64 / MB,
        most.wall,
        beside(all, plain),
    );
    Ok(())
}

fn beside(spent: Spent, plain: Spent) -> String {
    let (wall, cpu) = (spent.wall / plain.wall, spent.cpu / plain.cpu);
    format!("x{wall:.2} (CPU x{cpu:.2}) of a plain write with fsync")
}
