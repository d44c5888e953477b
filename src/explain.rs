//! `headwater explain`: what is remembered of a key, and what becomes of a READ of it.
//!
//! ```text
//!  running job:  GET /v1/explain ─▶ [live] ─▶ LookDesk ─▶ the merge that owns the key ─┐
//!  job is down:  newest manifest ─▶ [saved] ─ the runs that hold the fingerprint ──────┤
//!                [search] reads the topics ◀─ [words] ◀─ Explanation ◀─ [facts] (pure) ┘
//! ```
//! Invariant: it changes nothing, and both ways come to their verdict through one pure function,
//! which asks the rule itself.
//!
//! It cannot list the keys that are marked: fingerprints are one way.

pub mod facts;
pub mod key;
pub mod live;
pub mod saved;
pub mod search;
pub mod words;

use crate::cli::{self, ExplainArgs};
use crate::config::Config;
use crate::control::{self, Told};
use crate::error::Error;
use crate::run::{self, settings};
use facts::Explanation;
use search::{Searched, Wanted};
use serde::Serialize;

/// Runs the verb.
///
/// # Errors
/// Of usage: the table or the key is wrong, or another job answers. Failed: nothing is known of the
/// job. Refused: its checkpoint is damaged.
pub fn explain(args: &ExplainArgs) -> Result<(), Error> {
    let loaded = Config::load(&args.origin)?;
    loaded.notices.iter().for_each(|notice| cli::note(notice));
    let config = loaded.config;
    // Before anybody is asked, so that a wrong name is told as such by whoever runs it.
    key::table_number(&config.tables(), &args.table)?;
    let explanation = match control::ask_explain(&config, &args.table, &args.key)? {
        Told::Explained(explanation) => *explanation,
        Told::Away(why) => saved::newest(&config, &args.table, &args.key, &why)?,
    };
    let searched = args
        .search
        .then(|| searched(&config, args, &explanation))
        .transpose()?;
    if args.json {
        let document = Document {
            explanation: &explanation,
            search: searched.as_ref(),
        };
        let text = serde_json::to_string_pretty(&document).expect("plain data");
        return cli::say(&(text + "\n"));
    }
    cli::say(&words::text(&explanation, searched.as_ref()))
}

/// What `--json` prints.
#[derive(Serialize)]
struct Document<'a> {
    #[serde(flatten)]
    explanation: &'a Explanation,
    #[serde(skip_serializing_if = "Option::is_none")]
    search: Option<&'a Searched>,
}

/// Reads the topics of the configuration.
fn searched(
    config: &Config,
    args: &ExplainArgs,
    explanation: &Explanation,
) -> Result<Searched, Error> {
    let tables = config.tables();
    let number = key::table_number(&tables, &args.table)?;
    let decode = settings::decode(config);
    let shape = Some(&explanation.columns);
    let key = key::read(&tables[number], shape, decode.key_framing, &args.key)?;
    let topics = run::topics(config, &tables, 1)?;
    let wanted = Wanted {
        topics: &*topics,
        tables: &tables,
        number,
        canonical: &key.canonical,
        decode,
        around: args.around,
        values: args.values,
    };
    Ok(search::search(&wanted, explanation))
}
