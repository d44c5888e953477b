//! How a run that ended by itself ended, in words and as an exit code. Pure.
//!
//! It never calls a run good that emitted, or may have lost, a row it cannot vouch for.

use crate::error::{Error, ErrorKind};
use crate::job::{Settings, Shown};
use headwater_operators::retention::KeepMarkers;

/// The good end of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CaughtUp;

/// Judges a run from what it showed last.
///
/// # Errors
/// `Refused` when the generation is unsafe, `NotReady` when the snapshot was not read to its end,
/// READs came late, or the job was stopped before it had caught up.
pub fn judge(shown: &Shown, settings: &Settings) -> Result<CaughtUp, Error> {
    if let Some(why) = &shown.stopped_for {
        return Err(Error::refused(format!("the job has stopped: {why}"))
            .line(
                "Everything read is written, and a checkpoint was made. Raise the limit, or run on",
            )
            .line("more memory, and start it again; or abort the generation."));
    }
    let bad = shown.bad_reads();
    if bad.unsafe_reads > 0 {
        return Err(unsafe_generation(bad.unsafe_reads, settings));
    }
    if bad.late_reads > 0 {
        return Err(Error::new(
            ErrorKind::NotReady,
            format!(
                "{} READs lie behind the frozen end of their partition",
                bad.late_reads
            ),
        )
        .line("They were quarantined: the snapshot was declared finished too early.")
        .line("Find out who still wrote to the snapshot topic, and start a new snapshot."));
    }
    if !shown.caught_up {
        let error = Error::new(ErrorKind::NotReady, "the job ended before it had caught up")
            .line(format!("it was {}", shown.phase));
        let (at_end, of) = shown.snapshot_partitions;
        return Err(match at_end < of {
            true => error.line("`headwater end-snapshot` ends a snapshot that is complete."),
            false => error,
        });
    }
    match shown.dead_letters() {
        0 => Ok(CaughtUp),
        letters => Err(lost(letters, shown.counts.reads_poisoned)),
    }
}

/// All is done, and a person has not accepted what is lost.
fn lost(letters: u64, reads_poisoned: u64) -> Error {
    let text = format!("{letters} mutations could not be decoded and are in the dead letters");
    Error::new(ErrorKind::NotReady, text)
        .line(format!(
            "{reads_poisoned} READs of their keys were quarantined in this run (`poisoned`): the \
             target lacks these rows."
        ))
        .line("Look at the dead letters; have the rows written once more at the source. To accept")
        .line("the loss, run the job without --once, and")
        .line("`headwater generation accept-dead-letters`.")
}

/// What every process of the job ends with. A person's stop before the job had caught up counts as
/// such in all of them, whichever process got the signal.
pub fn exit_code(shown: &Shown, settings: &Settings) -> u8 {
    let code = match judge(shown, settings) {
        _ if shown.interrupted() => ErrorKind::Interrupted.exit_code(),
        Ok(CaughtUp) => 0,
        Err(error) => error.kind.exit_code(),
    };
    u8::try_from(code).expect("exit codes are below 256")
}

/// Why a generation can never be ready.
pub fn unsafe_generation(reads: u64, settings: &Settings) -> Error {
    let policy = match settings.keep_markers {
        KeepMarkers::Ttl { ttl_ms } => {
            format!(
                "markers live for a ttl of {} s (`keep_markers = \"ttl\"`)",
                ttl_ms / 1000
            )
        }
        KeepMarkers::UntilReady { .. } => "`keep_markers = \"until_ready\"`".to_owned(),
    };
    Error::refused(format!(
        "the generation is unsafe: {reads} READs may be stale"
    ))
    .line("found     no marker for their keys, after markers of the snapshot's window were")
    .line(format!("          forgotten; {policy}"))
    .line("expected  every marker since the snapshot began")
    .line("Do not promote the target. Start a new snapshot with a longer `retention.ttl`, or")
    .line("with `retention.keep_markers = \"until_ready\"`, into an empty target.")
}
