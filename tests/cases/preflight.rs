//! What `headwater check` says about a case's topics, for cases that end well with a warning.

use headwater::check::{self, Level};
use headwater::job::Settings;
use headwater::table::Table;
use headwater::topic::memory::MemoryTopics;

/// The warnings about columns, one a line.
pub(crate) fn columns(topics: &MemoryTopics, tables: &[Table], settings: &Settings) -> String {
    let findings = check::columns_of(topics, tables, settings.decode.clone());
    let warned = findings.0.iter().filter(|one| one.level == Level::Warning);
    let lines: Vec<&str> = warned.map(|one| one.found.as_str()).collect();
    lines.join("\n")
}
