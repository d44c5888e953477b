//! `headwater check`: says what would go wrong, and changes nothing at the source.
//!
//! Looking (`sample`, `target`, `around`) and judging are apart: what was found is plain facts, and
//! the findings follow from them without I/O.
//!
//! Invariant: it ends with 0 only when nothing it looked at would stop the job at its start.
//!
//! It cannot promise that the job will run: it reads the first and the last records of each
//! partition, and a bad one may stand between them. `sink.setup_sql` is tried on a database in
//! memory when the file is not there yet, and not run at all when it is.

mod around;
mod columns;
mod database;
mod finding;
mod judge;
mod kept;
mod lint;
mod sample;
mod target;
mod times;

pub use around::Around;
pub use columns::{Columns, Form, Seen};
pub use database::Database;
pub use finding::{Finding, Findings, Level};
pub use judge::{Facts, judge};
pub use kept::Need;
pub use sample::{Fault, First, Sampled};
pub use target::Target;
pub use times::Times;

use crate::cli::{self, CheckArgs};
use crate::config::Config;
use crate::decode::DecodeSettings;
use crate::error::Error;
use crate::guard::margin_ms;
use crate::run::{partitions, settings, topics};
use crate::source_database::wall_ms;
use crate::table::Table;
use crate::topic::Topics;
use std::time::Duration;

/// Runs the verb.
///
/// # Errors
/// When a finding is an error: its kind is that of the worst one.
pub fn check(args: &CheckArgs) -> Result<(), Error> {
    let loaded = Config::load(&args.origin)?;
    loaded.notices.iter().for_each(|notice| cli::note(notice));
    let (facts, around) = look(&loaded.config)?;
    let mut findings = judge(&facts);
    around::judge(&around, &mut findings.0);
    cli::say(&if args.json {
        findings.json() + "\n"
    } else {
        findings.table()
    })?;
    findings.verdict()
}

/// Compares the columns that both topics of each table show, by the records in them now: what
/// `check` says about columns, for a job whose topics are at hand.
pub fn columns_of(topics: &dyn Topics, tables: &[Table], decode: DecodeSettings) -> Findings {
    let mut sampler = sample::Sampler::new(topics, tables, decode);
    drop(sampler.all());
    let (_, _, columns) = sampler.into_rows();
    let mut findings = Vec::new();
    columns::judge(&columns, tables, &mut findings);
    Findings(findings)
}

/// Everything that can be asked.
fn look(config: &Config) -> Result<(Facts, Around), Error> {
    let tables = config.tables();
    let topics = topics(config, &tables, 1)?;
    let decode = settings::decode(config);
    let mut sampler = sample::Sampler::new(&*topics, &tables, decode);
    let ranges = sampler.ranges();
    // A topic that cannot be asked is told of by its sample.
    let known = ranges.values().all(Result::is_ok);
    let start = match known {
        true => partitions(&*topics, &tables, config),
        false => Ok(crate::job::Partitions::default()),
    };
    if let Ok(start) = &start {
        sampler.start_at(&start.mutations);
    }
    let sampled = sampler.all();
    let (rows, shapes, columns) = sampler.into_rows();
    let target = target::look(config, &tables, &rows);
    let readable = |topic: &str| {
        let mut of = sampled.iter().filter(|one| one.topic == topic);
        of.all(|one| one.ranges.is_ok())
    };
    let asked = start.as_ref().ok().filter(|_| known);
    let around = around::look(config, &tables, &*topics, asked, &readable);
    let facts = Facts {
        shapes,
        columns,
        margin: Duration::from_millis(margin_ms(config)),
        now_ms: wall_ms(),
        start: start.map(drop),
        target,
        tables,
        sampled,
    };
    Ok((facts, around))
}

/// What is found in connectors that run, by a configuration.
#[cfg(test)]
pub(crate) fn connectors(
    connectors: &[crate::connector::Connector],
    config: &str,
    generated: &[String],
) -> Findings {
    let config = Config::parse("test", config, &[]).expect("it loads").config;
    let connect = config.source.connect.clone().unwrap_or_default();
    Findings(lint::lint(&lint::Lint {
        connectors,
        live: connect.live.as_deref(),
        snapshot: connect.snapshot.as_deref(),
        tables: &config.tables(),
        notifications: config.source.notifications.as_deref(),
        heartbeat: config.source.heartbeat.as_deref(),
        signal_table: config.decode.signal_table.as_deref(),
        replica: config.source.snapshot_from == crate::config::choices::SnapshotFrom::Replica,
        decimals: None,
        generated,
    }))
}
