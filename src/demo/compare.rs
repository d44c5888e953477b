//! Sink against source, row by row, in SQL.

use crate::error::Error;
use rusqlite::Connection;
use serde::Serialize;
use std::path::Path;

/// How a sink differs from the source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct Differences {
    /// `sink EXCEPT source UNION ALL source EXCEPT sink`.
    pub(super) differing_rows: u64,
    /// Keys of both whose rows differ.
    pub(super) stale_rows: u64,
    /// Keys that the source has no more.
    pub(super) resurrected_rows: u64,
    /// Keys that the sink lacks.
    pub(super) missing_rows: u64,
}

impl Differences {
    pub(super) fn rows(&self) -> u64 {
        self.differing_rows
    }
}

/// Compares `<name>.db` with the source.
pub(super) fn compare(folder: &Path, name: &str) -> Result<Differences, Error> {
    let failed = |error: rusqlite::Error| {
        Error::failed(format!("the demo's comparison of {name}")).line(format!("found     {error}"))
    };
    let db = Connection::open(folder.join("source.db")).map_err(failed)?;
    let sink = folder.join(format!("{name}.db"));
    db.execute("ATTACH ?1 AS target", [sink.display().to_string()])
        .map_err(failed)?;
    let count = |sql: &str| {
        db.query_row(sql, [], |row| row.get::<_, u64>(0))
            .map_err(failed)
    };
    Ok(Differences {
        differing_rows: count(
            "SELECT count(*) FROM (
                 SELECT * FROM (SELECT id, greeting FROM target.hello
                                EXCEPT SELECT id, greeting FROM main.hello)
                 UNION ALL
                 SELECT * FROM (SELECT id, greeting FROM main.hello
                                EXCEPT SELECT id, greeting FROM target.hello))",
        )?,
        stale_rows: count(
            "SELECT count(*) FROM main.hello s JOIN target.hello t USING (id)
             WHERE s.greeting IS NOT t.greeting",
        )?,
        resurrected_rows: count(
            "SELECT count(*) FROM target.hello WHERE id NOT IN (SELECT id FROM main.hello)",
        )?,
        missing_rows: count(
            "SELECT count(*) FROM main.hello WHERE id NOT IN (SELECT id FROM target.hello)",
        )?,
    })
}
