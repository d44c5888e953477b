//! `headwater status` and `headwater wait-ready`.
//!
//! They change nothing. A job that does not answer is told from its last checkpoint.

use super::ask::{Answer, Asker};
use super::document::{Doing, Status, Word};
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
pub(super) fn down(config: &Config, why: &str) -> Result<Status, Error> {
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

/// `headwater wait-ready`: returns when a generation is ready or promoted; without an id, when all
/// that go on are.
///
/// # Errors
/// `NotReady` after the timeout, or at once when READs came behind the end; `Refused` at once when
/// the generation is unsafe or was given up; of usage when there is none of the id.
pub fn wait_ready(args: &WaitReadyArgs) -> Result<(), Error> {
    let config = Config::load(&args.origin)?.config;
    let asker = Asker::new(&config)?;
    let begun = Instant::now();
    let mut told = Told::default();
    loop {
        let line = match asker.status()? {
            Answer::Status(status) => match settled(&status, args.generation.as_deref()) {
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
fn settled(status: &Status, id: Option<&str>) -> Option<Result<(), Error>> {
    let verdict = &status.verdict;
    if let (Some(id), Doing::Running | Doing::Stopping) = (id, status.stage) {
        return one_settled(status, id);
    }
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

/// As [`settled`], for one generation, whatever becomes of the others.
fn one_settled(status: &Status, id: &str) -> Option<Result<(), Error>> {
    let one = status.generations.iter().find(|one| one.id == id);
    let Some(one) = one else {
        let error = Error::usage(format!("the job has no generation {id}"));
        return Some(Err(error));
    };
    let never = |kind, why: String| Some(Err(Error::new(kind, why)));
    if one.stage == Stage::Unsafe || one.unsafe_reads > 0 {
        let text = format!("{id} is unsafe: {} READs may be stale", one.unsafe_reads);
        return never(ErrorKind::Refused, text);
    }
    if one.late_reads > 0 && one.stage <= Stage::Ready {
        let text = format!("{id} has {} READs behind its end", one.late_reads);
        return never(ErrorKind::NotReady, text);
    }
    match one.stage {
        Stage::Ready | Stage::Promoted => Some(Ok(())),
        Stage::CaughtUp if one.waits_for.is_none() => Some(Ok(())),
        Stage::Aborted | Stage::Superseded => {
            let text = format!("{id} is {} and will never be ready", one.stage.word());
            never(ErrorKind::Refused, text)
        }
        _ => None,
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
            let found = settled(&status, None)
                .map(|end| end.map_or_else(|error| error.kind.exit_code(), |()| 0));
            assert_eq!(found, code, "{word:?}");
        }
    }

    #[test]
    fn one_generation_is_waited_for_whatever_the_others_do() {
        let mut seen = Seen::default();
        for (id, stage) in [
            ("open", Stage::Open),
            ("ready", Stage::Ready),
            ("promoted", Stage::Promoted),
            ("unsafe", Stage::Unsafe),
            ("aborted", Stage::Aborted),
            ("superseded", Stage::Superseded),
        ] {
            let mut one = crate::job::ShownGeneration::default();
            (one.state.id, one.state.stage) = (id.to_owned(), stage);
            seen.shown.generations.push(one);
        }
        let status = running(&Facts::default(), &seen, 0);
        for (id, code) in [
            ("open", None),
            ("ready", Some(0)),
            ("promoted", Some(0)),
            ("unsafe", Some(4)),
            ("aborted", Some(4)),
            ("superseded", Some(4)),
            ("none", Some(2)),
        ] {
            let found = settled(&status, Some(id));
            let found = found.map(|end| end.map_or_else(|e| e.kind.exit_code(), |()| 0));
            assert_eq!(found, code, "{id}");
        }
        let early = starting("j", 0);
        assert!(settled(&early, Some("ready")).is_none());
    }

    #[test]
    fn a_stop_after_it_was_reached_is_ready() {
        let mut seen = Seen {
            stopping: true,
            ..Seen::default()
        };
        let of = |seen: &Seen| running(&Facts::default(), seen, 0);
        assert!(settled(&of(&seen), None).is_none());
        seen.shown.caught_up = true;
        let status = of(&seen);
        assert_eq!(
            (status.stage, status.verdict.word),
            (Doing::Stopping, Word::Stopping)
        );
        assert_eq!(status.generations[0].stage, Stage::CaughtUp);
        assert!(settled(&status, None).expect("it is over").is_ok());
    }
}
