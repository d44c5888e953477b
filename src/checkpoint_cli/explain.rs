//! `headwater checkpoint explain`: one manifest in words.
//!
//! Invariant: pure. Everything said follows from the manifest and the configuration; the key of the
//! fingerprints is never said.
//!
//! It asks neither topics nor target, and reads no run: whether a restore would work is for
//! `checkpoint verify` and `headwater run`.

use super::moment::Moment;
use crate::begin;
use crate::checkpoint::manifest::{GenerationState, Manifest};
use crate::config::Config;
use crate::summary::grouped;
use crate::table::Role;
use headwater_operators::retention::Window;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// What is around a manifest.
#[derive(Clone, Copy, Debug)]
pub struct Around<'a> {
    /// Where it is.
    pub place: &'a str,
    /// Bytes of the manifest itself.
    pub bytes: u64,
    /// The newest checkpoint.
    pub newest: u64,
    /// The incarnation that the next run will have.
    pub next_incarnation: u32,
    /// The configuration that a run would have.
    pub config: &'a Config,
}

/// A checkpoint in words.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Explained {
    /// The job.
    pub job: String,
    /// Where.
    pub store: String,
    /// Its number.
    pub number: u64,
    /// Bytes of the manifest.
    pub bytes: u64,
    /// The run that wrote it.
    pub incarnation: u32,
    /// Whether it only says that this incarnation has taken the job over.
    pub start_of_run: bool,
    /// When it was written.
    pub written: Moment,
    /// Everything of before it is in the checkpoint.
    pub cut: Moment,
    /// The tables, by number.
    pub tables: Vec<String>,
    /// Every partition.
    pub partitions: Vec<Partition>,
    /// Topics that have an id.
    pub topic_ids: BTreeMap<String, String>,
    /// Markers, as many times as runs hold them.
    pub markers: u64,
    /// Objects that hold them.
    pub runs: usize,
    /// Bytes of those.
    pub run_bytes: u64,
    /// The latest marker that was forgotten.
    pub forgotten_through: Option<Moment>,
    /// Every generation.
    pub generations: Vec<Generation>,
    /// What the target is known by.
    pub target: Option<String>,
    /// The last checkpoint whose number was left in the target.
    pub target_note: u64,
    /// What the target is, by setting.
    pub sink: BTreeMap<String, String>,
    /// The shapes of keys that were seen.
    pub keys: Vec<Keys>,
    /// What a run would do with it.
    pub restore: Vec<String>,
}

/// One partition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Partition {
    /// What its topic is for.
    pub role: &'static str,
    /// Topic.
    pub topic: String,
    /// Number.
    pub partition: u32,
    /// The first offset that is not in the checkpoint.
    pub next_offset: u64,
    /// The frozen end of a snapshot partition.
    pub end: Option<u64>,
}

/// One generation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Generation {
    /// Its id.
    pub id: String,
    /// Its tables.
    pub tables: Vec<String>,
    /// When its snapshot began.
    pub opened: Moment,
    /// What its end stands on.
    pub evidence: Option<String>,
    /// Whether a marker of its window was forgotten, with the `start_margin` of the configuration.
    pub at_risk: bool,
}

/// Keys of one topic of a table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Keys {
    /// The table.
    pub table: String,
    /// Which of its topics.
    pub role: &'static str,
    /// Columns and classes.
    pub shape: String,
}

impl Explained {
    /// A manifest in words.
    pub fn of(manifest: &Manifest, around: &Around<'_>) -> Explained {
        let runs = manifest.markers.runs.iter().filter(|run| run.markers > 0);
        let objects: BTreeSet<(&str, u64)> =
            runs.clone().map(|run| (&*run.file, run.bytes)).collect();
        let moment = |job_ms| Moment::of(job_ms, &manifest.time);
        let sink = manifest.identity.iter();
        let sink = sink.filter(|(name, _)| name.starts_with("sink."));
        let mut explained = Explained {
            job: manifest.job.clone(),
            store: around.place.to_owned(),
            number: manifest.number,
            bytes: around.bytes,
            incarnation: manifest.incarnation,
            start_of_run: manifest.starts_a_run(),
            written: moment(manifest.time.now_ms),
            cut: moment(manifest.time.cut_ms),
            tables: tables(manifest),
            partitions: manifest.offsets.iter().map(Partition::of).collect(),
            topic_ids: manifest.topic_ids.clone(),
            markers: runs.map(|run| run.markers).sum(),
            runs: objects.len(),
            run_bytes: objects.iter().map(|(_, bytes)| bytes).sum(),
            forgotten_through: manifest.forgotten_through().map(moment),
            generations: Vec::new(),
            target: manifest.target.clone(),
            target_note: manifest.target_note,
            sink: sink.map(|(k, v)| (k.clone(), v.clone())).collect(),
            keys: Vec::new(),
            restore: Vec::new(),
        };
        let table = |number: usize| table_name(&explained.tables, number);
        let shapes = manifest.shapes.iter();
        let keys = shapes.map(|known| Keys {
            table: table(known.table),
            role: known.role.word(),
            shape: known.shape.to_string(),
        });
        let keys = keys.collect();
        let generations = manifest.generations.iter().map(|generation| Generation {
            id: generation.id.clone(),
            tables: generation
                .tables
                .iter()
                .map(|number| table(usize::from(*number)))
                .collect(),
            opened: moment(generation.opened_at_ms),
            evidence: generation.evidence.clone(),
            at_risk: window(generation, around.config).at_risk(manifest.forgotten_through()),
        });
        explained.generations = generations.collect();
        explained.keys = keys;
        explained.restore = explained.restore(manifest, around);
        explained
    }

    /// What a run would do.
    fn restore(&self, manifest: &Manifest, around: &Around<'_>) -> Vec<String> {
        let Around {
            newest,
            next_incarnation,
            config,
            ..
        } = around;
        let mut lines = Vec::new();
        lines.push(match self.number == *newest {
            true => {
                format!("`headwater run` goes on from here, as incarnation {next_incarnation}.")
            }
            false => format!(
                "`headwater run` goes on from checkpoint {newest}, which is newer; with \
                 `--from-checkpoint {}` it goes back to this one, as incarnation \
                 {next_incarnation}.",
                self.number
            ),
        });
        lines.push(
            "Each partition is read on from its next_offset, on any number of workers; what was \
             read before is read again from there, and its rows are written again."
                .to_owned(),
        );
        lines.push(format!(
            "Job time goes on at {} ms: the time in between ages no marker.",
            manifest.time.now_ms
        ));
        for generation in self.generations.iter().filter(|g| g.at_risk) {
            lines.push(format!(
                "A marker of {} was forgotten: its READs without a marker are refused as \
                 `retention.on_forgotten` says, and it does not end ready.",
                generation.id
            ));
        }
        lines.push(
            match begin::same_identity(manifest, config, &config.tables()) {
                Ok(()) => "The configuration fits.".to_owned(),
                Err(error) => format!("It is refused: {error}"),
            },
        );
        lines.push(
            "It is also refused when a run is missing or damaged (`headwater checkpoint verify`), \
             when a topic does not hold these offsets any more, or when the target is another one \
             or an older copy."
                .to_owned(),
        );
        lines
    }

    /// One JSON object, on one line.
    pub fn json(&self) -> String {
        serde_json::to_string(self).expect("plain numbers and text")
    }

    /// One thing a line, with a line break at the end.
    pub fn text(&self) -> String {
        let mut lines = Lines(String::new());
        let Explained { number, job, .. } = self;
        let incarnation = self.incarnation;
        lines.add(
            "checkpoint",
            &match self.start_of_run {
                false => format!("{number} of job {job}, made by incarnation {incarnation}"),
                true => format!(
                    "{number} of job {job}: incarnation {incarnation} has begun, with the state \
                     of the checkpoint that it went on from"
                ),
            },
        );
        let (store, bytes) = (&self.store, grouped(self.bytes));
        let object = crate::checkpoint::name(job, *number);
        lines.add("object", &format!("{object} in {store}, {bytes} bytes"));
        lines.add("written", &self.written.words());
        lines.add("cut", &format!("before {}", self.cut.words()));
        let partitions = self.partitions.iter().map(Partition::words);
        lines.all("offsets", partitions);
        let ids = self.topic_ids.iter();
        lines.all("topic ids", ids.map(|(topic, id)| format!("{topic}: {id}")));
        lines.add(
            "markers",
            &format!(
                "{} in {} runs, {} bytes",
                grouped(self.markers),
                self.runs,
                grouped(self.run_bytes)
            ),
        );
        let forgotten = self.forgotten_through.as_ref();
        let forgotten = forgotten.map(|moment| format!("markers through {}", moment.words()));
        lines.add("forgotten", forgotten.as_deref().unwrap_or("no marker"));
        let generations = self.generations.iter().map(Generation::words);
        lines.all("generation", generations);
        lines.all("keys", self.keys.iter().map(Keys::words));
        lines.add("target", &self.target_words());
        lines.all("restore", self.restore.iter().cloned());
        lines.0
    }

    fn target_words(&self) -> String {
        let of = |name: &str| self.sink.get(name).map_or("", String::as_str);
        let rest = self.sink.iter().filter(|(name, _)| *name != "sink.kind");
        let rest: Vec<String> = rest
            .map(|(name, value)| format!(" {name}={value}"))
            .collect();
        let target = match &self.target {
            Some(target) => format!(", identity {target}"),
            None => String::new(),
        };
        let note = match self.target_note {
            0 => ", no checkpoint is noted in it".to_owned(),
            note => format!(", checkpoint {note} is noted in it"),
        };
        format!("{}{}{target}{note}", of("sink.kind"), rest.concat())
    }
}

/// The names of the tables, by number.
fn tables(manifest: &Manifest) -> Vec<String> {
    let name = |index| manifest.identity.get(&format!("table[{index}].name"));
    (0..).map_while(name).cloned().collect()
}

fn table_name(tables: &[String], number: usize) -> String {
    let name = tables.get(number).cloned();
    name.unwrap_or_else(|| format!("table {number}"))
}

fn window(generation: &GenerationState, config: &Config) -> Window {
    let margin_ms = crate::guard::margin_ms(config);
    Window {
        start_ms: generation.opened_at_ms.saturating_sub(margin_ms),
    }
}

impl Partition {
    fn of(state: &crate::checkpoint::manifest::PartitionState) -> Partition {
        Partition {
            role: state.role.word(),
            topic: state.topic.clone(),
            partition: state.partition,
            next_offset: state.next_offset,
            end: state.end,
        }
    }

    fn words(&self) -> String {
        let Partition {
            role,
            topic,
            partition,
            next_offset,
            end,
        } = self;
        let end = match end {
            Some(end) if next_offset >= end => format!(", read to its frozen end {end}"),
            Some(end) => format!(", {} before its frozen end {end}", end - next_offset),
            None if *role == Role::Snapshot.word() => ", its end is not frozen yet".to_owned(),
            None => String::new(),
        };
        format!("{role} {topic}[{partition}]: next_offset {next_offset}{end}")
    }
}

impl Generation {
    fn words(&self) -> String {
        let evidence = match &self.evidence {
            Some(evidence) => format!("its end stands on {evidence}"),
            None => "its end is not known yet".to_owned(),
        };
        let risk = match self.at_risk {
            true => "; unsafe: a marker of its window was forgotten",
            false => "",
        };
        format!(
            "{} of {}, opened at {}; {evidence}{risk}",
            self.id,
            self.tables.join(", "),
            self.opened.words()
        )
    }
}

impl Keys {
    fn words(&self) -> String {
        format!("{} {} {}", self.table, self.role, self.shape)
    }
}

/// Names and what belongs to them.
struct Lines(String);

impl Lines {
    fn add(&mut self, name: &str, text: &str) {
        self.0.push_str(&format!("{name:<11} {text}\n"));
    }

    /// The name once, beside the first.
    fn all(&mut self, name: &str, texts: impl Iterator<Item = String>) {
        for (index, text) in texts.enumerate() {
            let name = if index == 0 { name } else { "" };
            self.add(name, &text.replace('\n', "\n            "));
        }
    }
}

#[cfg(test)]
mod tests;
