//! An upsert log as files of JSON lines: `PATH.<incarnation>.<worker>.jsonl`, to be read in order
//! of incarnation (as numbers); the last line of a key counts, or the one with the greatest
//! version. A line is
//!
//! ```json
//! {"table":"public.hello","key":{"id":1},"row":{"id":1},"version":12,"generation":"g1"}
//! ```
//! with `"row":null` for a delete. `generation` is the id of the one that a READ belongs to, or
//! that is open or ready for the table of a mutation; it is left out where there is none. Key and
//! row are without their framing; values are as they came.
//!
//! Invariant: a batch is in the file as whole lines, and durable, or not at all. A file belongs to
//! one incarnation and is never written by another.
//!
//! It cannot compact. After a crash the last line of a file may be half; readers ignore it.

use super::line::{LineFile, put_json, put_text};
use super::row::{self, Columns};
use super::{
    Applied, Change, Claim, Claimed, Fence, GenerationNames, Place, Rejected, ReplaySafety, Row,
    RowForm, Sink, WriteError, Writer,
};
use crate::error::Error;
use crate::table::Table;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The target.
#[derive(Clone, Debug)]
pub struct JsonLines {
    path: PathBuf,
    tables: Vec<Table>,
    names: Arc<GenerationNames>,
}

impl JsonLines {
    /// Files whose names begin with `path`.
    pub(super) fn new(path: PathBuf, tables: &[Table]) -> JsonLines {
        JsonLines {
            path,
            tables: tables.to_vec(),
            names: Arc::default(),
        }
    }

    fn failed(&self, error: &std::io::Error) -> Error {
        Error::failed(format!("cannot use {} for JSON lines", self.path.display())).line(error)
    }

    /// Whether a file with rows is there.
    fn has_rows(&self) -> Result<bool, Error> {
        let (folder, prefix) = match (self.path.parent(), self.path.file_name()) {
            (Some(folder), Some(name)) => (folder, format!("{}.", name.to_string_lossy())),
            _ => {
                return Err(Error::usage(format!(
                    "sink.path = \"{}\" names no file",
                    self.path.display()
                ))
                .line("It is a folder and the first part of file names, such as out/rows."));
            }
        };
        let folder = match folder.as_os_str().is_empty() {
            true => Path::new("."),
            false => folder,
        };
        std::fs::create_dir_all(folder).map_err(|error| self.failed(&error))?;
        for entry in std::fs::read_dir(folder).map_err(|error| self.failed(&error))? {
            let entry = entry.map_err(|error| self.failed(&error))?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let length = entry.metadata().map_err(|error| self.failed(&error))?.len();
            if name.starts_with(&prefix) && name.ends_with(".jsonl") && length > 0 {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

impl Sink for JsonLines {
    fn replay_safety(&self) -> ReplaySafety {
        ReplaySafety::Safe
    }

    fn row_form(&self) -> RowForm {
        RowForm::Whole
    }

    fn check(&self) -> Result<(), Error> {
        self.has_rows().map(|_| ())
    }

    fn holds_rows(&self) -> Result<Option<String>, Error> {
        let what = || format!("target {}.*.jsonl", self.path.display());
        Ok(self.has_rows()?.then(what))
    }

    /// Another run writes other files, and readers take those of the newest run last.
    fn claim(&self, _claim: &Claim) -> Result<Claimed, Error> {
        Ok(Claimed {
            fence: Fence::Fenced,
            ..Claimed::default()
        })
    }

    fn names(&self) -> Option<Arc<GenerationNames>> {
        Some(Arc::clone(&self.names))
    }

    fn writer(&self, place: Place) -> Result<Box<dyn Writer>, Error> {
        let mut path = self.path.clone().into_os_string();
        path.push(format!(".{}.{}.jsonl", place.incarnation, place.worker));
        let path = PathBuf::from(path);
        if std::fs::metadata(&path).is_ok_and(|found| found.len() > 0) {
            return Err(Error::refused(format!(
                "{} holds rows of this incarnation already",
                path.display()
            ))
            .line("Versions of its rows would repeat. Remove it or take another sink.path."));
        }
        let file = LineFile::open(path).map_err(|error| self.failed(&error))?;
        Ok(Box::new(JsonLinesWriter {
            file,
            tables: self.tables.clone(),
            names: Arc::clone(&self.names),
        }))
    }
}

struct JsonLinesWriter {
    file: LineFile,
    tables: Vec<Table>,
    names: Arc<GenerationNames>,
}

impl JsonLinesWriter {
    fn put(&self, out: &mut Vec<u8>, row: &Row<'_>, id: Option<&str>) -> Result<(), String> {
        let table = self.tables.get(row.table);
        let configured = table.and_then(|table| table.key.as_deref());
        let key = row::key(row.key, configured).map_err(|reason| format!("key: {reason}"))?;
        let columns = match row.change {
            Change::Delete => None,
            Change::Upsert(value) => {
                let columns = row::columns(value)?;
                Some(columns.ok_or("an upsert that holds no row")?)
            }
        };
        out.extend_from_slice(b"{\"table\":");
        put_text(out, table.map_or("?", |table| table.name.as_str()));
        out.extend_from_slice(b",\"key\":");
        put_columns(out, &key);
        out.extend_from_slice(b",\"row\":");
        match columns {
            Some(columns) => put_columns(out, &columns),
            None => out.extend_from_slice(b"null"),
        }
        out.extend_from_slice(format!(",\"version\":{}", row.version).as_bytes());
        if let Some(id) = id {
            out.extend_from_slice(b",\"generation\":");
            put_text(out, id);
        }
        out.extend_from_slice(b"}\n");
        Ok(())
    }
}

fn put_columns(out: &mut Vec<u8>, columns: &Columns<'_>) {
    out.push(b'{');
    for (index, (name, value)) in columns.iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        put_text(out, name);
        out.push(b':');
        put_json(out, value.as_bytes());
    }
    out.push(b'}');
}

impl Writer for JsonLinesWriter {
    fn write(&mut self, rows: &[Row<'_>], _applied: &[Applied]) -> Result<(), WriteError> {
        let mut lines = Vec::new();
        let mut rejected = Vec::new();
        let ids = self.names.of_rows(rows);
        for (index, (row, id)) in rows.iter().zip(&ids).enumerate() {
            if let Err(reason) = self.put(&mut lines, row, id.as_deref()) {
                rejected.push(Rejected { index, reason });
            }
        }
        self.file.append(&lines).map_err(|error| {
            WriteError::Retry(format!("{}: {error}", self.file.path().display()))
        })?;
        match rejected.is_empty() {
            true => Ok(()),
            false => Err(WriteError::Rejected(rejected)),
        }
    }
}

#[cfg(test)]
mod tests;
