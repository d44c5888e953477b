//! One line of a quarantine file, as `src/sink/quarantine.rs` writes it, and the files in order.
//!
//! Invariant: half a line at the end of a file is passed over, as the sink cuts it off; any other
//! line that cannot be read is an error with its file and number.

use crate::error::Error;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::fs::File;
use std::io::{BufRead, BufReader, ErrorKind};
use std::path::{Path, PathBuf};

/// A quarantined record, without its value.
#[derive(Debug, Deserialize)]
pub(super) struct Line<'a> {
    #[serde(borrow)]
    pub(super) topic: Cow<'a, str>,
    #[serde(borrow)]
    pub(super) table: Cow<'a, str>,
    pub(super) partition: u32,
    pub(super) offset: u64,
    pub(super) generation: u32,
    #[serde(borrow)]
    pub(super) reason: Cow<'a, str>,
    #[serde(borrow)]
    key: Option<&'a RawValue>,
    #[serde(borrow)]
    key_base64: Option<Cow<'a, str>>,
}

impl Line<'_> {
    /// The key as it came.
    pub(super) fn key(&self) -> Vec<u8> {
        let encoded = self.key_base64.as_deref().map(|text| STANDARD.decode(text));
        match (self.key, encoded) {
            (Some(raw), _) => raw.get().as_bytes().to_vec(),
            (None, Some(Ok(bytes))) => bytes,
            _ => Vec::new(),
        }
    }
}

/// The files of a folder, by incarnation and worker; none when there is no folder.
pub(super) fn files(folder: &Path) -> Result<Vec<PathBuf>, Error> {
    let failed = |error: std::io::Error| {
        Error::failed(format!("the folder {} cannot be read", folder.display()))
            .line(format!("found     {error}"))
            .line("It is `quarantine.path` of the configuration.")
    };
    let entries = match std::fs::read_dir(folder) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        other => other.map_err(failed)?,
    };
    let mut found = Vec::new();
    for entry in entries {
        let path = entry.map_err(failed)?.path();
        let name = path
            .file_name()
            .map(|name| name.to_string_lossy().into_owned());
        if let Some(place) = name.as_deref().and_then(place) {
            found.push((place, path));
        }
    }
    found.sort();
    Ok(found.into_iter().map(|(_, path)| path).collect())
}

/// Incarnation and worker of `quarantine.<incarnation>.<worker>.jsonl`.
fn place(name: &str) -> Option<(u32, u32)> {
    let middle = name.strip_prefix("quarantine.")?.strip_suffix(".jsonl")?;
    let (incarnation, worker) = middle.split_once('.')?;
    Some((incarnation.parse().ok()?, worker.parse().ok()?))
}

/// Gives every whole line of a file.
pub(super) fn read(
    path: &Path,
    give: &mut dyn FnMut(Line<'_>, &str) -> Result<(), Error>,
) -> Result<(), Error> {
    let failed = |number: u64, what: String| {
        Error::failed(format!("{} cannot be read", path.display()))
            .line(format!("found     {what}, in line {number}"))
            .line("expected  a line of JSON as the quarantine output writes it")
    };
    let file = File::open(path).map_err(|error| failed(1, error.to_string()))?;
    let mut file = BufReader::with_capacity(1 << 20, file);
    let mut bytes = Vec::new();
    for number in 1.. {
        bytes.clear();
        let read = file.read_until(b'\n', &mut bytes);
        read.map_err(|error| failed(number, error.to_string()))?;
        if bytes.pop() != Some(b'\n') {
            break;
        }
        let text = std::str::from_utf8(&bytes);
        let text = text.map_err(|error| failed(number, error.to_string()))?;
        // Its message would not show values, but its place is enough.
        let line = serde_json::from_str(text)
            .map_err(|error| failed(number, format!("no such JSON (column {})", error.column())))?;
        give(line, text)?;
    }
    Ok(())
}
