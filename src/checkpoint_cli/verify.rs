//! `headwater checkpoint verify`: reads everything that a restore would read, and compares it with
//! what the manifest says.
//!
//! Invariant: when nothing is found damaged, every object is there whole, every sum is right, every
//! part of a run holds as many markers as it is said to, and no marker is later than the
//! checkpoint.
//!
//! It cannot tell an older, intact object from the right one, and it asks neither the topics nor
//! the target: `headwater run` does, and may refuse for their sake.

use super::columns::columns;
use crate::checkpoint::manifest::RunRef;
use crate::checkpoint::{Manifest, name};
use crate::error::Error;
use crate::store::Store;
use crate::summary::grouped;
use headwater_operators::fingerprint::FINGERPRINT_ID;
use headwater_operators::marker::Run;
use serde::Serialize;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

/// Damaged objects that an error names.
const NAMED_MAX: usize = 10;

/// What was found of one checkpoint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Verified {
    /// The job.
    pub job: String,
    /// Where.
    pub store: String,
    /// The checkpoint.
    pub number: u64,
    /// The manifest, then the runs.
    pub objects: Vec<Object>,
    /// Markers in all parts of all runs.
    pub markers: u64,
    /// Keys that have one: of several markers of a key the latest counts.
    pub keys: u64,
    /// Bytes of all objects.
    pub bytes: u64,
    /// Everything that is wrong; nothing when the checkpoint is whole.
    pub damage: Vec<Damage>,
}

/// One object that was read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Object {
    /// Its name.
    pub name: String,
    /// Its size; none when it is not there.
    pub bytes: Option<u64>,
    /// Markers in the parts that count; none of a manifest.
    pub markers: Option<u64>,
    /// Parts that count: a run that was dealt to several workers at a restore has several.
    pub parts: usize,
}

/// Something that is wrong.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Damage {
    /// With which object.
    pub object: String,
    /// What it is.
    pub found: String,
    /// What it should be.
    pub expected: String,
}

impl Damage {
    fn new(object: &str, found: impl Into<String>, expected: impl Into<String>) -> Damage {
        Damage {
            object: object.to_owned(),
            found: found.into(),
            expected: expected.into(),
        }
    }
}

/// Reads checkpoint `number`; `None` when it is not there, or was deleted while it was read.
///
/// # Errors
/// When the store cannot be asked. What is damaged is no error here.
pub fn verify(store: &Store, job: &str, number: u64) -> Result<Option<Verified>, Error> {
    let object = name(job, number);
    let Some(bytes) = store.get(&object)? else {
        return Ok(None);
    };
    let size = bytes.len() as u64;
    let mut verified = Verified {
        job: job.to_owned(),
        store: store.place().to_owned(),
        number,
        objects: vec![Object {
            name: object.clone(),
            bytes: Some(size),
            markers: None,
            parts: 0,
        }],
        markers: 0,
        keys: 0,
        bytes: size,
        damage: Vec::new(),
    };
    match Manifest::decode(&bytes) {
        Err(error) => {
            let expected = "a manifest, as it was written";
            let damage = Damage::new(&object, error.to_string(), expected);
            verified.damage.push(damage);
        }
        Ok(manifest) => {
            verified.damage = contradictions(&manifest, job, number);
            verified.runs(store, &manifest)?;
        }
    }
    // Manifests are deleted before their runs: a run that is missing may have gone with its own.
    if !verified.damage.is_empty() && store.size(&object)?.is_none() {
        return Ok(None);
    }
    Ok(Some(verified))
}

/// What in a manifest contradicts itself or its place.
fn contradictions(manifest: &Manifest, job: &str, number: u64) -> Vec<Damage> {
    let object = name(job, number);
    let mut damage = Vec::new();
    let mut hold = |found: String, expected: String| {
        if found != expected {
            damage.push(Damage::new(&object, found, expected));
        }
    };
    let place = |job: &str, number: u64| format!("checkpoint {number} of job {job}");
    hold(place(&manifest.job, manifest.number), place(job, number));
    hold(
        format!("fingerprint function {}", manifest.fingerprint.id),
        format!("fingerprint function {FINGERPRINT_ID}"),
    );
    if let Err(error) = manifest.secret() {
        hold(
            error.to_string(),
            "a fingerprint key of 16 bytes".to_owned(),
        );
    }
    let time = &manifest.time;
    if time.cut_ms > time.now_ms {
        hold(
            format!("the cut at {} ms", time.cut_ms),
            format!("{} ms, when it was written, or before", time.now_ms),
        );
    }
    let mut seen = BTreeMap::new();
    for state in &manifest.offsets {
        let place = (state.role, &state.topic, state.partition);
        *seen.entry(place).or_insert(0) += 1;
    }
    for ((role, topic, partition), count) in seen {
        let of = format!("of {} {topic}[{partition}]", role.word());
        hold(format!("{count} offsets {of}"), format!("1 offsets {of}"));
    }
    damage
}

impl Verified {
    /// Reads all runs that the manifest names, and counts their markers.
    fn runs(&mut self, store: &Store, manifest: &Manifest) -> Result<(), Error> {
        let mut parts: BTreeMap<&str, Vec<&RunRef>> = BTreeMap::new();
        for run_ref in manifest.markers.runs.iter().filter(|run| run.markers > 0) {
            parts.entry(&run_ref.file).or_default().push(run_ref);
        }
        let mut runs = Vec::new();
        for (file, parts) in &parts {
            let (bytes, run) = self.read(store, file, parts[0].bytes)?;
            self.bytes += bytes.unwrap_or(0);
            self.objects.push(Object {
                name: (*file).to_owned(),
                bytes,
                markers: Some(0),
                parts: parts.len(),
            });
            if let Some(run) = run {
                self.range(file, &run, parts, manifest.time.now_ms);
                runs.push((self.objects.len() - 1, run, parts));
            }
        }
        let mut readers = Vec::new();
        for (object, run, parts) in &runs {
            for part in parts.iter().copied() {
                let within = move |(fingerprint, _): &(u128, u64)| {
                    (part.first..=part.last).contains(&((fingerprint >> 64) as u64))
                };
                readers.push((*object, part, run.entries().filter(within)));
            }
        }
        let (counts, keys) = count(readers.iter_mut().map(|reader| &mut reader.2));
        self.keys = keys;
        for ((object, part, _), count) in readers.iter().zip(counts) {
            self.markers += count;
            let markers = self.objects[*object].markers.get_or_insert(0);
            *markers += count;
            if count != part.markers {
                let of = format!("from {:016x} to {:016x}", part.first, part.last);
                self.damage.push(Damage::new(
                    &part.file,
                    format!("{count} markers {of}"),
                    format!("{} markers", part.markers),
                ));
            }
        }
        Ok(())
    }

    /// Size and contents of one run, as far as they are there.
    fn read(
        &mut self,
        store: &Store,
        file: &str,
        expected: u64,
    ) -> Result<(Option<u64>, Option<Run>), Error> {
        let wanted = format!("a run of {expected} bytes, as it was written");
        let Some(bytes) = store.get(file)? else {
            self.damage.push(Damage::new(file, "nothing", wanted));
            return Ok((None, None));
        };
        let size = bytes.len() as u64;
        if size != expected {
            let found = format!("{size} bytes");
            self.damage.push(Damage::new(file, found, wanted));
            return Ok((Some(size), None));
        }
        let run = Run::decode(&bytes).inspect_err(|error| {
            self.damage
                .push(Damage::new(file, error.to_string(), wanted))
        });
        Ok((Some(size), run.ok()))
    }

    /// Compares ranges and ticks of an intact run with what the manifest says of it.
    fn range(&mut self, file: &str, run: &Run, parts: &[&RunRef], now_ms: u64) {
        let whole = run.range();
        for part in parts {
            if !whole.contains(&part.first) || !whole.contains(&part.last) {
                self.damage.push(Damage::new(
                    file,
                    format!("keys from {:016x} to {:016x}", whole.start(), whole.end()),
                    format!("keys from {:016x} to {:016x}", part.first, part.last),
                ));
            }
            if part.bytes != parts[0].bytes {
                self.damage.push(Damage::new(
                    file,
                    format!("a part of a run of {} bytes", part.bytes),
                    format!("{} bytes, as its other part", parts[0].bytes),
                ));
            }
        }
        if run.tick_last() > now_ms {
            self.damage.push(Damage::new(
                file,
                format!("a marker of tick {} ms", run.tick_last()),
                format!("{now_ms} ms, when the checkpoint was written, or before"),
            ));
        }
    }

    /// The objects, then the totals, with a line break at the end.
    pub fn table(&self) -> String {
        let dash = || "–".to_owned();
        let rows: Vec<[String; 4]> = self
            .objects
            .iter()
            .map(|object| {
                let wrong = self.damage.iter().any(|d| d.object == object.name);
                [
                    object.name.clone(),
                    object.bytes.map_or_else(dash, grouped),
                    object.markers.map_or_else(dash, grouped),
                    if wrong { "damaged" } else { "ok" }.to_owned(),
                ]
            })
            .collect();
        let heading = ["object", "bytes", "markers", ""];
        let Verified {
            number, job, store, ..
        } = self;
        let mut out = format!("checkpoint {number} of job {job} in {store}\n");
        out.push_str(&columns(heading, &rows, [false, true, true, false]));
        out.push_str(&format!(
            "{} bytes; {} markers of {} keys, of several of a key the latest counts\n",
            grouped(self.bytes),
            grouped(self.markers),
            grouped(self.keys)
        ));
        for damage in &self.damage {
            out.push_str(&format!(
                "damaged: {}\n  found     {}\n  expected  {}\n",
                damage.object, damage.found, damage.expected
            ));
        }
        if self.damage.is_empty() {
            out.push_str("whole: everything was read, every sum is right\n");
        }
        out
    }

    /// Good when nothing is damaged.
    ///
    /// # Errors
    /// Refused, as a run would be, with the names of the damaged objects.
    pub fn verdict(&self) -> Result<(), Error> {
        let Some(first) = self.damage.first() else {
            return Ok(());
        };
        let Verified { number, job, .. } = self;
        let mut error = Error::refused(format!("checkpoint {number} of job {job} is damaged"));
        for damage in self.damage.iter().take(NAMED_MAX) {
            error = error.line(format!("object    {} in {}", damage.object, self.store));
        }
        let more = self.damage.len().saturating_sub(NAMED_MAX);
        if more > 0 {
            error = error.line(format!("and       {more} more"));
        }
        Err(error
            .line(format!("found     {}", first.found))
            .line(format!("expected  {}", first.expected))
            .line("Restore the object from a copy, or go back to an older checkpoint that is whole")
            .line("with `headwater run --from-checkpoint N`."))
    }
}

/// How many markers each reader gives, all ascending, and of how many keys they are together.
fn count<I: Iterator<Item = (u128, u64)>>(readers: impl Iterator<Item = I>) -> (Vec<u64>, u64) {
    let mut readers: Vec<I> = readers.collect();
    let mut counts = vec![0; readers.len()];
    let mut next: BinaryHeap<Reverse<(u128, usize)>> = BinaryHeap::new();
    let first = readers.iter_mut().enumerate();
    next.extend(first.filter_map(|(at, reader)| Some(Reverse((reader.next()?.0, at)))));
    let (mut keys, mut last) = (0, None);
    while let Some(Reverse((fingerprint, at))) = next.pop() {
        counts[at] += 1;
        if last.replace(fingerprint) != Some(fingerprint) {
            keys += 1;
        }
        next.extend(readers[at].next().map(|entry| Reverse((entry.0, at))));
    }
    (counts, keys)
}

#[cfg(test)]
mod tests;
