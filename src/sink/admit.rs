//! What is refused before anything is read: the checks that all targets have in common.
//!
//! It cannot see a row: columns that the target lacks are found when the first one comes.

use super::settings::{SinkSettings, TargetNotEmpty, UniqueConstraints};
use super::target::TargetTable;
use super::{ReplaySafety, Sink};
use crate::error::Error;

/// Checks a target at start: whether rows may be written again, then what it says itself, then, at
/// the first start of a job, whether it is empty. A job that goes on has its own rows there.
///
/// # Errors
/// An unsafe sink without `replay_unsafe_because`, what [`Sink::check`] found, or rows that nobody
/// has accepted.
pub fn admit(
    sink: &dyn Sink,
    replay_unsafe_because: Option<&str>,
    first_start: bool,
    target_not_empty: TargetNotEmpty,
) -> Result<(), Error> {
    if let ReplaySafety::Unsafe(reason) = sink.replay_safety()
        && replay_unsafe_because.is_none_or(|because| because.trim().is_empty())
    {
        return Err(
            Error::refused("the sink does harm when a row is written twice, and rows are")
                .line(format!("it says  {reason}"))
                .line("After a restart or a failure rows are written again.")
                .line("Use a sink that upserts by key, or say why it is safe after all:")
                .line("sink.replay_unsafe_because = \"…\""),
        );
    }
    sink.check()?;
    if first_start
        && target_not_empty == TargetNotEmpty::Refuse
        && let Some(what) = sink.holds_rows()?
    {
        return Err(Error::refused(format!("{what} is not empty"))
            .line("A row in it whose DELETE nobody saw would stay for ever.")
            .line("Empty it, or set sink.target_not_empty = \"accept\"."));
    }
    Ok(())
}

/// What an SQL target must be like.
pub(super) fn sql_table(
    settings: &SinkSettings,
    table: &TargetTable,
    configured_key: Option<&[String]>,
) -> Result<(), Error> {
    let (source, name) = (&table.source, &table.name);
    if table.key.is_empty() {
        return Err(Error::refused(format!(
            "target table {name} (of `{source}`) has no primary key"
        ))
        .line("Rows are upserted and deleted by key.")
        .line(format!("ALTER TABLE {} ADD PRIMARY KEY (…);", table.sql)));
    }
    if let Some(key) = configured_key {
        let names = table.key_names();
        let missing = key.iter().find(|column| !names.contains(&column.as_str()));
        if missing.is_some() || key.len() != names.len() {
            return Err(Error::refused(format!(
                "`key` of `{source}` is not the primary key of target table {name}"
            ))
            .line(format!("configured   {}", key.join(", ")))
            .line(format!("primary key  {}", names.join(", ")))
            .line("Make them the same."));
        }
    }
    if !table.unique.is_empty() && settings.unique_constraints == UniqueConstraints::Refuse {
        return Err(Error::refused(format!(
            "target table {name} (of `{source}`) is unique in more than its key"
        ))
        .line(format!("found  {}", table.unique.join(", ")))
        .line("Rows of different keys come in no common order, so such a constraint can fail")
        .line("for a moment though the source keeps it. Drop it in the target, or set")
        .line("sink.unique_constraints = \"one_connection\" (slower, and it may still fail)."));
    }
    Ok(())
}

/// The first of SQL tables that holds rows.
pub(super) fn sql_rows<'a>(tables: impl IntoIterator<Item = &'a TargetTable>) -> Option<String> {
    let mut tables = tables.into_iter();
    let full = tables.find(|table| !table.is_empty)?;
    Some(format!("target table {} (of `{}`)", full.name, full.source))
}
