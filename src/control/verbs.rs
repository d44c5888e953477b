//! `headwater status` and `headwater wait-ready`.
//!
//! They change nothing. A job that does not answer is told from its last checkpoint.

use super::ask::{Answer, Asker};
use super::document::{Status, Word};
use super::{human, now_ms, view};
use crate::checkpoint;
use crate::cli::{self, StatusArgs, WaitReadyArgs};
use crate::config::Config;
use crate::config::units::print_duration;
use crate::error::{Error, ErrorKind};
use crate::generation::Stage;
use crate::store::Store;
use std::time::{Duration, Instant};

/// Between two questions.
const ASK_EVERY: Duration = Duration::from_millis(500);
/// Between two lines of a wait that goes on.
const SAY_EVERY: Duration = Duration::from_secs(30);

/// `headwater status`: asks the running job, or tells what its last checkpoint knows.
///
/// # Errors
/// A wrong configuration, an answer that is none, a store that cannot be read.
pub fn status(args: &StatusArgs) -> Result<(), Error> {
    let config = Config::load(&args.origin)?.config;
    let status = match Asker::new(&config)?.status()? {
        Answer::Status(status) => *status,
        Answer::Away(why) => down(&config, &why)?,
    };
    if args.json {
        let text = serde_json::to_string_pretty(&status).expect("plain data");
        return cli::say(&(text + "\n"));
    }
    cli::say(&human::text(&status))
}

/// What the store knows of a job that does not answer.
fn down(config: &Config, why: &str) -> Result<Status, Error> {
    let store = Store::open(&config.checkpoint.store)?;
    let job = &config.job.job;
    let last = checkpoint::latest(&store, job)?;
    Ok(view::down(
        job,
        &config.tables(),
        why,
        last.as_ref(),
        now_ms(),
    ))
}

/// `headwater wait-ready`: returns when the job has caught up.
///
/// # Errors
/// `NotReady` after the timeout, or at once when READs came behind the end; `Refused` at once when
/// the generation is unsafe.
pub fn wait_ready(args: &WaitReadyArgs) -> Result<(), Error> {
    let config = Config::load(&args.origin)?.config;
    let asker = Asker::new(&config)?;
    let begun = Instant::now();
    let mut told = Told::default();
    loop {
        let line = match asker.status()? {
            Answer::Status(status) => match settled(&status) {
                Some(Ok(())) => return cli::say(&(status.verdict.line() + "\n")),
                Some(Err(error)) => return Err(error),
                None => status.verdict.line(),
            },
            Answer::Away(why) => format!("{}: {why}", Word::Down.shown()),
        };
        let left = args.timeout.saturating_sub(begun.elapsed());
        if left.is_zero() {
            let waited = print_duration(args.timeout);
            return Err(Error::new(
                ErrorKind::NotReady,
                format!("job {} is not ready after {waited}", config.job.job),
            )
            .line(line));
        }
        told.line(&line);
        std::thread::sleep(ASK_EVERY.min(left));
    }
}

/// Whether waiting is over: ready, or why it will never be.
fn settled(status: &Status) -> Option<Result<(), Error>> {
    let verdict = &status.verdict;
    let not = |kind| Some(Err(Error::new(kind, verdict.line())));
    match verdict.word {
        Word::Unsafe => not(ErrorKind::Refused),
        Word::Aborted => not(ErrorKind::Refused),
        Word::Spoiled => not(ErrorKind::NotReady),
        Word::CaughtUp | Word::Ready | Word::Promotable | Word::Promoted => Some(Ok(())),
        // A stop does not take away what was reached.
        Word::Stopping if reached(status) => Some(Ok(())),
        Word::Stopping | Word::Starting | Word::NotReady | Word::Failed | Word::Down => None,
    }
}

fn reached(status: &Status) -> bool {
    let live = status.generations.iter().filter(|one| !one.stage.is_over());
    let least = live.map(|one| one.stage).min();
    least.is_some_and(|stage| (Stage::CaughtUp..=Stage::Promoted).contains(&stage))
}

/// What was said of a wait.
#[derive(Default)]
struct Told {
    last: Option<(String, Instant)>,
}

impl Told {
    /// Says a line when it begins otherwise than the last, and again from time to time.
    fn line(&mut self, line: &str) {
        let head = line.split(':').next().unwrap_or_default();
        let known = self
            .last
            .as_ref()
            .is_some_and(|(last, at)| *last == head && at.elapsed() < SAY_EVERY);
        if !known {
            cli::note(line);
            self.last = Some((head.to_owned(), Instant::now()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::settled;
    use crate::control::document::{Doing, Word};
    use crate::control::view::{Facts, Seen, running, starting};
    use crate::generation::Stage;

    #[test]
    fn only_what_is_reached_or_lost_ends_a_wait() {
        let mut status = starting("j", 0);
        for (word, code) in [
            (Word::Starting, None),
            (Word::NotReady, None),
            (Word::Failed, None),
            (Word::Down, None),
            (Word::Stopping, None),
            (Word::CaughtUp, Some(0)),
            (Word::Ready, Some(0)),
            (Word::Promotable, Some(0)),
            (Word::Promoted, Some(0)),
            (Word::Aborted, Some(4)),
            (Word::Spoiled, Some(3)),
            (Word::Unsafe, Some(4)),
        ] {
            status.verdict.word = word;
            let found =
                settled(&status).map(|end| end.map_or_else(|error| error.kind.exit_code(), |()| 0));
            assert_eq!(found, code, "{word:?}");
        }
    }

    #[test]
    fn a_stop_after_it_was_reached_is_ready() {
        let mut seen = Seen {
            stopping: true,
            ..Seen::default()
        };
        let of = |seen: &Seen| running(&Facts::default(), seen, 0);
        assert!(settled(&of(&seen)).is_none());
        seen.shown.caught_up = true;
        let status = of(&seen);
        assert_eq!(
            (status.stage, status.verdict.word),
            (Doing::Stopping, Word::Stopping)
        );
        assert_eq!(status.generations[0].stage, Stage::CaughtUp);
        assert!(settled(&status).expect("it is over").is_ok());
    }
}
