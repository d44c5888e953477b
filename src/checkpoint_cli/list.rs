//! `headwater checkpoint ls`: which checkpoints are there, and what each costs.
//!
//! Invariant: every manifest of the job is in the list, a damaged one with what is wrong.
//!
//! It reads manifests, and of runs only whether they are there and how long they are;
//! `checkpoint verify` reads those.

use super::columns::columns;
use super::moment::{Moment, clock};
use crate::checkpoint::{Manifest, name, numbers};
use crate::error::Error;
use crate::store::Store;
use crate::summary::grouped;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// The checkpoints of a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Listing {
    /// The job.
    pub job: String,
    /// Where they are.
    pub store: String,
    /// By number.
    pub checkpoints: Vec<Listed>,
    /// Runs that no manifest in the list names: of a checkpoint that is being made, or was cut off.
    pub unnamed_runs: usize,
    /// Bytes of those.
    pub unnamed_bytes: u64,
}

/// One of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Listed {
    /// Its number.
    pub number: u64,
    /// The object of its manifest.
    pub object: String,
    /// What is wrong with the manifest; there is no more of it then.
    pub damage: Option<String>,
    /// What it holds.
    pub held: Option<Held>,
}

/// What a manifest says it holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Held {
    /// The run of the job that wrote it.
    pub incarnation: u32,
    /// Whether it only says that this incarnation has taken the job over, with the state of the
    /// checkpoint that it went on from.
    pub start_of_run: bool,
    /// When it was written; of a start of a run, what it went on from.
    pub written: Moment,
    /// Markers, as many times as runs hold them.
    pub markers: u64,
    /// Objects with markers.
    pub runs: usize,
    /// Bytes of those and of the manifest.
    pub bytes: u64,
    /// Runs that are not there, or of another length.
    pub runs_damaged: Vec<String>,
}

/// Looks into the store.
///
/// # Errors
/// When it cannot be asked.
pub fn list(store: &Store, job: &str) -> Result<Listing, Error> {
    let mut read = Vec::new();
    for number in numbers(store, job)? {
        // One that is not there any more was deleted after a newer one came.
        if let Some(bytes) = store.get(&name(job, number))? {
            let size = bytes.len() as u64;
            let manifest = Manifest::decode(&bytes).map_err(|error| error.to_string());
            read.push((number, size, manifest));
        }
    }
    // After the manifests: runs go after their manifest has gone.
    let runs = store.list(&format!("{job}/runs/"))?;
    let runs: BTreeMap<String, u64> = runs.into_iter().map(|run| (run.name, run.bytes)).collect();
    Ok(listing(job, store.place(), &read, &runs))
}

/// The list of what was read: number, bytes and manifest of each, and the lengths of all runs.
pub fn listing(
    job: &str,
    place: &str,
    read: &[(u64, u64, Result<Manifest, String>)],
    runs: &BTreeMap<String, u64>,
) -> Listing {
    let mut named = BTreeSet::new();
    let mut checkpoints = Vec::new();
    for (number, size, manifest) in read {
        if let Ok(manifest) = manifest {
            named.extend(manifest.markers.runs.iter().map(|run| &run.file));
        }
        checkpoints.push(Listed {
            number: *number,
            object: name(job, *number),
            damage: manifest.as_ref().err().cloned(),
            held: manifest.as_ref().ok().map(|m| Held::of(m, *size, runs)),
        });
    }
    let unnamed = runs.iter().filter(|(name, _)| !named.contains(name));
    let unnamed: Vec<u64> = unnamed.map(|(_, bytes)| *bytes).collect();
    Listing {
        job: job.to_owned(),
        store: place.to_owned(),
        checkpoints,
        unnamed_runs: unnamed.len(),
        unnamed_bytes: unnamed.iter().sum(),
    }
}

impl Held {
    fn of(manifest: &Manifest, size: u64, there: &BTreeMap<String, u64>) -> Held {
        let runs = manifest.markers.runs.iter().filter(|run| run.markers > 0);
        let objects: BTreeMap<&String, u64> =
            runs.clone().map(|run| (&run.file, run.bytes)).collect();
        let damaged = objects
            .iter()
            .filter(|(name, bytes)| there.get(**name) != Some(bytes));
        Held {
            incarnation: manifest.incarnation,
            start_of_run: manifest.starts_a_run(),
            written: Moment::of(manifest.time.now_ms, &manifest.time),
            markers: runs.map(|run| run.markers).sum(),
            runs: objects.len(),
            bytes: size + objects.values().sum::<u64>(),
            runs_damaged: damaged.map(|(name, _)| (*name).clone()).collect(),
        }
    }

    fn note(&self) -> String {
        let mut notes = Vec::new();
        if self.start_of_run {
            notes.push("start of a run".to_owned());
        }
        if !self.runs_damaged.is_empty() {
            notes.push(format!(
                "missing or of another length: {}",
                self.runs_damaged.join(", ")
            ));
        }
        notes.join("; ")
    }
}

impl Listing {
    /// One JSON object, on one line.
    pub fn json(&self) -> String {
        serde_json::to_string(self).expect("plain numbers and text")
    }

    /// A line for each, with a line break at the end.
    pub fn table(&self) -> String {
        let Listing { job, store, .. } = self;
        if self.checkpoints.is_empty() {
            return format!("job {job} has no checkpoint in {store}\n");
        }
        let rows: Vec<[String; 8]> = self.checkpoints.iter().map(Listed::row).collect();
        let heading = [
            "number",
            "incarnation",
            "written",
            "job time",
            "markers",
            "runs",
            "bytes",
            "",
        ];
        let right = [true, true, false, true, true, true, true, false];
        let mut out = format!("job {job} in {store}\n{}", columns(heading, &rows, right));
        if self.unnamed_runs > 0 {
            out.push_str(&format!(
                "{} runs ({} bytes) are named by none of these: a live run is making a checkpoint, \
                 or one was cut off; the next one removes them\n",
                self.unnamed_runs,
                grouped(self.unnamed_bytes)
            ));
        }
        out
    }
}

impl Listed {
    fn row(&self) -> [String; 8] {
        let number = self.number.to_string();
        let Some(held) = &self.held else {
            let damage = self.damage.as_deref().unwrap_or("unreadable");
            let note = format!("{}: {damage}", self.object);
            let dash = || "–".to_owned();
            return [number, dash(), dash(), dash(), dash(), dash(), dash(), note];
        };
        [
            number,
            held.incarnation.to_string(),
            held.written.wall_earliest.clone().unwrap_or("–".to_owned()),
            clock(held.written.job_ms),
            grouped(held.markers),
            held.runs.to_string(),
            grouped(held.bytes),
            held.note(),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::listing;
    use crate::checkpoint::manifest::tests::manifest;
    use std::collections::BTreeMap;

    #[test]
    fn every_manifest_is_listed_and_a_damaged_one_says_why() {
        let mut start = manifest();
        (start.number, start.incarnation) = (8, 4);
        let mut seventh = manifest();
        seventh.target_note = 7;
        let cut_off = Err("its checksum is wrong: it was cut off or changed".to_owned());
        let read = [
            (6, 100, cut_off),
            (7, 300, Ok(seventh)),
            (8, 300, Ok(start)),
        ];
        let run = "hello/runs/0000000003.0.1";
        let there: BTreeMap<String, u64> =
            [(run.to_owned(), 200), ("hello/runs/x".to_owned(), 9)].into();
        let found = listing("hello", "file:./state", &read, &there);
        let table = found.table();
        let lines: Vec<Vec<&str>> = table
            .lines()
            .map(|line| line.split_whitespace().collect())
            .collect();
        assert_eq!(lines[0].join(" "), "job hello in file:./state");
        assert_eq!(lines[1][..2], ["number", "incarnation"]);
        assert_eq!(lines[2][0], "6");
        assert!(table.contains("hello/manifest/0000000006: its checksum is wrong"));
        let written = "2023-11-14T22:13:21.040Z";
        assert_eq!(
            lines[3],
            ["7", "3", written, "00:00:01.040", "10", "1", "500"]
        );
        assert!(lines[4].ends_with(&["start", "of", "a", "run"]), "{table}");
        assert!(lines[5].starts_with(&["1", "runs", "(9", "bytes)"]));
        let json: serde_json::Value = serde_json::from_str(&found.json()).expect("JSON");
        assert_eq!(json["checkpoints"][1]["held"]["markers"], 10);
        assert_eq!(json["checkpoints"][0]["held"], serde_json::Value::Null);
        assert_eq!(json["unnamed_runs"], 1);
        // A run that is shorter than the manifest says, and none at all.
        for there in [[(run.to_owned(), 199)].into(), BTreeMap::new()] {
            let found = listing("hello", "m", &read, &there);
            let held = found.checkpoints[1].held.as_ref().expect("readable");
            assert_eq!(held.runs_damaged, [run]);
            assert!(found.table().contains(&format!("length: {run}")));
        }
        let none = listing("hello", "m", &[], &BTreeMap::new());
        assert_eq!(none.table(), "job hello has no checkpoint in m\n");
    }
}
