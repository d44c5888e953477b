//! A scenario: its folder, its configuration, its history, and the judgement of what came out.
//!
//! Invariant: settings that belong to the job's identity stay; what differs from one incarnation
//! to the next is on the command line.

use crate::auditor::{Auditor, Breach};
use crate::child::{Children, Ended, Start};
use crate::history::{History, MUTATIONS, SNAPSHOT, TABLE};
use crate::manifest::{self, JOB, Offsets, STORE};
use crate::oracle::{Differences, compare};
use crate::outputs;
use std::path::Path;
use std::time::Duration;

/// The kind of target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    Sqlite,
    Jsonl,
}

/// The settings that stay.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) target: Target,
    /// 1: nothing is folded.
    pub(crate) batch_rows_max: u64,
    pub(crate) tick_ms: u64,
    pub(crate) inflight_bytes_max: u64,
    /// More lines of `headwater.toml`, whole sections.
    pub(crate) more: String,
}

impl Settings {
    pub(crate) fn new(target: Target) -> Self {
        Settings {
            target,
            batch_rows_max: 10_000,
            tick_ms: 10,
            inflight_bytes_max: 64 << 20,
            more: String::new(),
        }
    }
}

/// A folder with a job in it.
#[derive(Debug)]
pub(crate) struct Scenario<'a> {
    pub(crate) folder: tempfile::TempDir,
    pub(crate) history: &'a History,
    target: Target,
    pub(crate) auditor: Auditor<'a>,
    /// The last incarnation that was audited.
    audited: u64,
    /// From where the running incarnation started.
    pub(crate) from: Offsets,
    /// The bug that is planted in all incarnations.
    pub(crate) plant: Option<String>,
    runs: u32,
}

impl<'a> Scenario<'a> {
    pub(crate) fn new(history: &'a History, settings: &Settings) -> Self {
        let folder = tempfile::Builder::new().prefix("torture").tempdir();
        let folder = folder.expect("a folder");
        std::fs::write(folder.path().join("headwater.toml"), text(settings)).expect("written");
        if settings.target == Target::Sqlite {
            outputs::make_sqlite(folder.path());
        }
        Scenario {
            folder,
            history,
            target: settings.target,
            auditor: Auditor::new(history, settings.batch_rows_max == 1),
            audited: 0,
            from: Offsets::fresh(history),
            plant: None,
            runs: 0,
        }
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    /// The same in a folder of its own. None of its processes may run.
    pub(crate) fn copy(&self) -> Self {
        let folder = tempfile::Builder::new().prefix("torture").tempdir();
        let folder = folder.expect("a folder");
        copy(self.path(), folder.path());
        Scenario {
            folder,
            history: self.history,
            target: self.target,
            auditor: self.auditor.clone(),
            audited: self.audited,
            from: self.from.clone(),
            plant: self.plant.clone(),
            runs: self.runs,
        }
    }

    /// Starts an incarnation. None may run, so that the newest manifest is the one it starts from.
    ///
    /// # Errors
    /// When the newest manifest is behind one that was there before.
    pub(crate) fn start(&mut self, start: &Start) -> Result<Children, String> {
        let from = manifest::newest(self.path(), self.history);
        if !from.reaches(&self.from) {
            return Err(format!("manifest {from:?} is behind {:?}", self.from));
        }
        self.from = from;
        self.runs += 1;
        Ok(Children::start(
            self.path(),
            &format!("run{}", self.runs),
            start,
        ))
    }

    /// Audits what the incarnation has written that was started last. All its processes have ended.
    pub(crate) fn audit(&mut self) {
        if self.target == Target::Sqlite {
            return;
        }
        let files = outputs::jsonl(self.path(), self.audited);
        if let Some(last) = files.last() {
            self.audited = last.incarnation;
        }
        for files in files.chunk_by(|a, b| a.incarnation == b.incarnation) {
            self.auditor.incarnation(&self.from, files);
        }
    }

    /// Runs an incarnation to its end, and audits it.
    ///
    /// # Errors
    /// When it does not end in time.
    pub(crate) fn run_whole(&mut self, start: &Start) -> Result<Vec<Ended>, String> {
        let mut children = self.start(start)?;
        let ended = children.end(Duration::from_secs(90));
        self.audit();
        ended.ok_or_else(|| format!("it did not end\n{}", children.said()))
    }

    /// Runs `--once` to its good end.
    ///
    /// # Errors
    /// When it does not end in time or not with code 0.
    pub(crate) fn once(&mut self, start: &Start) -> Result<Vec<Ended>, String> {
        let ended = self.run_whole(start)?;
        match ended.iter().find(|ended| ended.code != Some(0)) {
            Some(bad) => Err(format!("--once ended with {}", bad.words())),
            None => Ok(ended),
        }
    }

    /// The target against the truth.
    pub(crate) fn differences(&self) -> Differences {
        let found = match self.target {
            Target::Sqlite => outputs::sqlite(self.path()),
            Target::Jsonl => outputs::rows_of(&outputs::jsonl(self.path(), 0)),
        };
        compare(self.history, &found)
    }

    /// Everything that is wrong at the end, in words; nothing is well.
    pub(crate) fn verdict(&mut self) -> Verdict {
        self.auditor.end();
        Verdict {
            differences: self.differences(),
            breaches: self.auditor.breaches.clone(),
            ..Verdict::default()
        }
    }
}

/// What a scenario has shown.
#[derive(Clone, Debug, Default)]
pub(crate) struct Verdict {
    pub(crate) differences: Differences,
    pub(crate) breaches: Vec<(Breach, String)>,
    /// Rows of the target that a reader saw go back.
    pub(crate) back: Vec<String>,
    /// What kept it from its end.
    pub(crate) trouble: Option<String>,
}

impl Verdict {
    pub(crate) fn trouble(words: String) -> Self {
        Verdict {
            trouble: Some(words),
            ..Verdict::default()
        }
    }

    pub(crate) fn clean(&self) -> bool {
        let none_back = self.back.is_empty() && self.breaches.is_empty();
        self.trouble.is_none() && self.differences.rows() == 0 && none_back
    }

    pub(crate) fn has(&self, kind: Breach) -> bool {
        self.breaches.iter().any(|breach| breach.0 == kind)
    }

    pub(crate) fn words(&self) -> String {
        let breaches: Vec<&str> = self.breaches.iter().map(|breach| &*breach.1).collect();
        let back = &self.back[..self.back.len().min(10)];
        format!(
            "{}\n{}\n{} breaches\n{}\n{} rows went back\n{}",
            self.trouble.as_deref().unwrap_or("it came to its end"),
            self.differences.words(),
            breaches.len(),
            breaches[..breaches.len().min(10)].join("\n"),
            self.back.len(),
            back.join("\n")
        )
    }
}

/// Copies what is in a folder into another one.
fn copy(from: &Path, to: &Path) {
    for entry in std::fs::read_dir(from).expect("a folder") {
        let path = entry.expect("an entry").path();
        let target = to.join(path.file_name().expect("a name"));
        if path.is_dir() {
            std::fs::create_dir(&target).expect("a folder");
            copy(&path, &target);
        } else {
            std::fs::copy(&path, &target).expect("copied");
        }
    }
}

fn text(settings: &Settings) -> String {
    let sink = match settings.target {
        Target::Sqlite => format!("kind = \"sqlite\"\npath = \"{}\"", outputs::SQLITE),
        Target::Jsonl => format!("kind = \"jsonl\"\npath = \"{}\"", outputs::JSONL),
    };
    let (rows, bytes) = (settings.batch_rows_max, settings.inflight_bytes_max);
    format!(
        "job = \"{JOB}\"\n\
         [[table]]\nname = \"{TABLE}\"\nmutations = \"file:{MUTATIONS}\"\n\
         snapshot = \"file:{SNAPSHOT}\"\n\
         [checkpoint]\nstore = \"file:{STORE}\"\n\
         [sink]\n{sink}\nbatch_rows_max = {rows}\n\
         [limits]\ntick_ms = {}\ninflight_bytes_max = \"{bytes}B\"\n\
         reads_inflight_bytes_max = \"{}B\"\n\
         [cluster]\ndeadline = \"10s\"\n\
         {}\n",
        settings.tick_ms,
        (bytes / 2).max(1),
        settings.more
    )
}
