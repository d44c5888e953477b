//! What is wrong with connectors, from their configuration and state. Pure.
//!
//! Each rule is a function that pushes findings; a rule that finds nothing wrong says nothing, and
//! a connector without any gets one good line.
//!
//! It cannot see the worker's own settings: a converter that is not set in the connector is the
//! worker's, and is called unknown.

mod both;
mod live;
mod others;
mod pair;
mod snapshot;
mod state;

use super::finding::Finding;
use crate::connector::Connector;
use crate::table::Table;

/// What the rules look at.
#[derive(Clone, Debug)]
pub(super) struct Lint<'a> {
    /// Every connector of the worker.
    pub(super) connectors: &'a [Connector],
    /// Name of the live connector, as configured.
    pub(super) live: Option<&'a str>,
    /// Name of the snapshot connector, as configured.
    pub(super) snapshot: Option<&'a str>,
    /// The tables of the job.
    pub(super) tables: &'a [Table],
    /// `source.notifications`.
    pub(super) notifications: Option<&'a str>,
    /// `source.heartbeat`.
    pub(super) heartbeat: Option<&'a str>,
    /// `decode.signal_table`.
    pub(super) signal_table: Option<&'a str>,
    /// A standby is declared: `source.snapshot_from = "replica"`.
    pub(super) replica: bool,
    /// Columns of type numeric, `table.column`; nothing when the database was not asked.
    pub(super) decimals: Option<&'a [String]>,
    /// Columns that the source computes, `table.column`.
    pub(super) generated: &'a [String],
}

impl<'a> Lint<'a> {
    fn named(&self, name: Option<&str>) -> Option<&'a Connector> {
        let name = name?;
        self.connectors.iter().find(|one| one.name == name)
    }
}

/// All that the rules find.
pub(super) fn lint(given: &Lint<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    let live = given.named(given.live);
    let snapshot = given.named(given.snapshot);
    for (role, name, found) in [
        ("live", given.live, live),
        ("snapshot", given.snapshot, snapshot),
    ] {
        let Some(name) = name else {
            findings.push(not_named(role));
            continue;
        };
        let thing = format!("{role} connector {name}");
        let Some(connector) = found else {
            findings.push(state::missing(role, &thing, given));
            continue;
        };
        let before = findings.len();
        state::state(connector, &thing, &mut findings);
        both::rules(connector, &thing, given, &mut findings);
        match role {
            "live" => live::rules(connector, &thing, given, &mut findings),
            _ => snapshot::rules(connector, &thing, given, &mut findings),
        }
        if findings.len() == before {
            let found = format!("{}, {} task", connector.state, connector.tasks.len());
            findings.push(Finding::ok(thing, found));
        }
    }
    if let (Some(live), Some(snapshot)) = (live, snapshot) {
        pair::rules(live, snapshot, given, &mut findings);
    }
    others::rules(given, &mut findings);
    findings
}

fn not_named(role: &str) -> Finding {
    Finding::warning(
        format!("{role} connector"),
        "not named, so its settings are not looked at",
        &[],
    )
    .expected(format!("its name in source.connect.{role}"))
}

#[cfg(test)]
mod tests;
