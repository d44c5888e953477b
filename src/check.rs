//! `headwater check`: says what would go wrong, and changes nothing at the source.
//!
//! Sampling (`sample`) and judging (`judge`) are apart: what was found is plain facts, and the
//! findings follow from them without I/O.
//!
//! Invariant: it ends with 0 only when nothing it looked at would stop the job at its start.
//!
//! It cannot promise that the job will run: it reads the first records of each partition, and a bad
//! one may stand behind them. `sink.setup_sql` is tried on a database in memory when the file is
//! not there yet, and not run at all when it is.

mod finding;
mod judge;
mod sample;
mod target;

pub use finding::{Finding, Findings, Level};
pub use judge::{Facts, judge};
pub use sample::{Fault, Sampled};
pub use target::Target;

use crate::cli::{self, CheckArgs};
use crate::config::Config;
use crate::error::Error;
use crate::run::{partitions, settings, topics};

/// Runs the verb.
///
/// # Errors
/// When a finding is an error: its kind is that of the worst one.
pub fn check(args: &CheckArgs) -> Result<(), Error> {
    let loaded = Config::load(&args.origin)?;
    loaded.notices.iter().for_each(|notice| cli::note(notice));
    let findings = judge(&look(&loaded.config)?);
    cli::say(&if args.json {
        findings.json() + "\n"
    } else {
        findings.table()
    })?;
    findings.verdict()
}

/// Everything that can be asked.
fn look(config: &Config) -> Result<Facts, Error> {
    let tables = config.tables();
    let topics = topics(config, &tables, 1)?;
    let decode = settings::decode(config);
    let mut sampler = sample::Sampler::new(&*topics, &tables, decode);
    let sampled = sampler.all();
    let readable = sampled.iter().all(|topic| topic.ranges.is_ok());
    // A topic that cannot be asked has been told of already.
    let start = match readable {
        true => partitions(&*topics, &tables, config).map(|_| ()),
        false => Ok(()),
    };
    let (rows, shapes) = sampler.into_rows();
    let target = target::look(config, &tables, &rows);
    Ok(Facts {
        tables,
        sampled,
        shapes,
        start,
        target,
    })
}
