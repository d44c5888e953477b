//! `headwater quarantine`: what stands in the quarantine files, and how it is read again.
//!
//! Invariant: a record that stands in the files twice, as it may after a failure, counts once:
//! topic, partition and offset tell.
//!
//! It cannot know whether a key was healed since: the files only grow. All keys are held in memory,
//! the values are not.

mod index;
mod line;
mod list;
mod literal;
mod signal;

use crate::cli::{self, QuarantineArgs, QuarantineVerb};
use crate::config::Config;
use crate::config::choices::SinkKind;
use crate::error::Error;
use index::{Index, Wanted};

/// Runs the verb.
///
/// # Errors
/// When a file cannot be read; of usage when the configuration or a flag is wrong.
pub fn quarantine(args: &QuarantineArgs) -> Result<(), Error> {
    let loaded = Config::load(&args.origin)?;
    loaded.notices.iter().for_each(|notice| cli::note(notice));
    let config = loaded.config;
    if let (SinkKind::Kafka, Some(topic)) = (config.quarantine.kind, &config.quarantine.topic) {
        return Err(Error::usage("the quarantine of this job is a Kafka topic")
            .line(format!("found     quarantine.topic = \"{topic}\""))
            .line("expected  files: this verb reads them alone. The topic's values are the same")
            .line(format!(
                "lines: kcat -C -e -u -t {topic} > FOLDER/quarantine.0.0.jsonl"
            ))
            .line(
                "Give it a configuration with [quarantine] path = \"FOLDER\" and nothing else.",
            ));
    }
    let folder = config.quarantine.path.clone().unwrap_or_default();
    let wanted = Wanted::new(&config.tables(), args.table.as_deref(), args.key.as_deref())?;
    let export = args.what == QuarantineVerb::Export;
    let index = Index::read(&folder, &wanted, &mut |line| match export {
        true => cli::say(&format!("{line}\n")),
        false => Ok(()),
    })?;
    match &args.what {
        QuarantineVerb::Export => Ok(()),
        QuarantineVerb::List { keys_max, json } => cli::say(&match json {
            true => list::json(&index, *keys_max) + "\n",
            false => list::table(&index, *keys_max),
        }),
        QuarantineVerb::Signal(args) => {
            let signals = signal::signals(&config, &index, args)?;
            signals.notices.iter().for_each(|notice| cli::note(notice));
            signals
                .lines
                .iter()
                .try_for_each(|line| cli::say(&format!("{line}\n")))
        }
    }
}

#[cfg(test)]
mod tests;
