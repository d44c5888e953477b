//! Each refusal of a claim and of a write, without a database.

use super::{Case, Found, Guard, Held, Holder, Taking};
use crate::error::{Error, ErrorKind};
use crate::sink::WriteError;
use crate::sink::claim::{Claim, Claimed};

fn holder(job: &str, incarnation: u32, claimant: &str) -> Holder {
    Holder {
        job: job.into(),
        identity: format!("id-of-{claimant}"),
        incarnation,
        claimant: claimant.into(),
    }
}

fn found(table: &str, holder: Option<Holder>) -> Found {
    Found {
        table: table.into(),
        holder,
    }
}

fn claim(incarnation: u32, checkpoint: u64, identity: Option<&str>) -> Claim {
    Claim {
        job: "j".into(),
        incarnation,
        checkpoint,
        identity: identity.map(str::to_owned),
        shards_before: 0,
    }
}

fn judge(claim: &Claim, found: &[Found], noted: u64) -> Result<Taking, Error> {
    let case = Case {
        claim,
        claimant: "me",
        found,
        noted,
        ledger: "s.headwater_target",
    };
    case.judge("fresh")
}

fn taking(identity: &str, carried: &[&str]) -> Taking {
    Taking {
        identity: identity.into(),
        carried: carried.iter().map(|one| (*one).to_owned()).collect(),
    }
}

fn refused(result: Result<Taking, Error>, parts: &[&str]) {
    let error = result.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Refused, "{error}");
    for part in parts {
        assert!(error.text.contains(part), "`{part}` is not in {error}");
    }
}

#[test]
fn a_fresh_job_takes_what_is_nobodys_and_what_its_own_runs_left() {
    let fresh = claim(3, 0, None);
    let nobodys = [found("t", None), found("u", None)];
    assert_eq!(judge(&fresh, &nobodys, 0).unwrap(), taking("fresh", &[]));
    let left = [found("t", Some(holder("j", 2, "a"))), found("u", None)];
    let carried = taking("fresh", &["id-of-a"]);
    assert_eq!(judge(&fresh, &left, 9).unwrap(), carried);
    // Made again after an answer that was lost.
    let mine = [found("t", Some(holder("j", 3, "me")))];
    let again = judge(&fresh, &mine, 0).unwrap();
    assert_eq!(again, taking("id-of-me", &[]));
}

#[test]
fn a_checkpoint_takes_the_target_that_it_knows() {
    let target = [found("t", Some(holder("j", 2, "a")))];
    let known = judge(&claim(3, 5, Some("id-of-a")), &target, 5).unwrap();
    assert_eq!(known, taking("id-of-a", &[]));
    // The target was told of a checkpoint that was then not made.
    judge(&claim(3, 5, Some("id-of-a")), &target, 6).unwrap();
    let older = judge(&claim(3, 5, Some("id-of-a")), &target, 4);
    refused(older, &["older copy", "checkpoint 5", "checkpoint 4"]);
}

#[test]
fn a_target_made_anew_is_refused() {
    let known = claim(3, 5, Some("id-of-a"));
    let other = [found("t", Some(holder("j", 2, "b")))];
    refused(
        judge(&known, &other, 0),
        &["table t", "checkpoint 5 knows it by  id-of-a", "id-of-b"],
    );
    let one = [found("t", Some(holder("j", 2, "a"))), found("u", None)];
    refused(judge(&known, &one, 5), &["table u", "made anew"]);
    // A checkpoint that knows of no target cannot tell it from another one.
    refused(
        judge(&claim(3, 5, None), &other, 5),
        &["knows it by  nothing"],
    );
}

#[test]
fn other_jobs_and_newer_runs_are_refused() {
    let other = [found("t", Some(holder("it's", 1, "a")))];
    let release = "DELETE FROM s.headwater_target WHERE job = 'it''s';";
    refused(
        judge(&claim(3, 0, None), &other, 0),
        &["another job", "its job   it's", "this job  j", release],
    );
    let newer = [found("t", Some(holder("j", 4, "a")))];
    let sides = ["newer run", "the target  incarnation 4", "incarnation 3"];
    refused(judge(&claim(3, 0, None), &newer, 0), &sides);
    // Two stores give the same number.
    let twin = [found("t", Some(holder("j", 3, "a")))];
    refused(judge(&claim(3, 0, None), &twin, 0), &["checkpoint.store"]);
}

fn guard() -> Guard {
    Held::default().guard("j", 3, "file".into(), 2)
}

fn fatal(result: Result<&str, WriteError>) -> String {
    match result {
        Err(WriteError::Fatal(error)) if error.kind == ErrorKind::Refused => error.text,
        other => panic!("not fatal: {other:?}"),
    }
}

#[test]
fn a_writer_waits_for_its_claim_and_ends_after_another() {
    let mut guard = guard();
    let older = [holder("j", 2, "a"), holder("j", 2, "a")];
    let mine = [holder("j", 3, "a"), holder("j", 3, "a")];
    let newer = [holder("j", 4, "a"), holder("j", 3, "a")];
    for early in [&older[..], &[], &mine[..1]] {
        assert!(matches!(guard.check(early), Err(WriteError::Retry(_))));
    }
    assert_eq!(guard.check(&mine), Ok("id-of-a"));
    assert!(fatal(guard.check(&newer)).contains("incarnation 4 has taken over"));
    // Once it had the target, whatever else it finds is the end.
    assert!(fatal(guard.check(&older)).contains("incarnation 2 has taken over"));
    assert!(fatal(guard.check(&mine[..1])).contains("is gone"));
    let anew = [holder("j", 3, "b"), holder("j", 3, "b")];
    assert!(fatal(guard.check(&anew)).contains("is gone"));
}

#[test]
fn a_writer_of_the_claiming_process_waits_for_nothing() {
    let held = Held::default();
    held.incarnation().unwrap_err();
    let claimed = |_: &str| {
        Ok(Claimed {
            identity: Some("id-of-a".into()),
            ..Claimed::default()
        })
    };
    held.claim(3, claimed).unwrap();
    assert_eq!(held.incarnation(), Ok(3));
    let of = |incarnation| held.guard("j", incarnation, "file".into(), 1);
    assert!(fatal(of(3).check(&[])).contains("is gone"));
    assert!(matches!(of(4).check(&[]), Err(WriteError::Retry(_))));
}

#[test]
fn a_writer_that_never_had_the_target_ends_when_another_has_it() {
    assert!(fatal(guard().check(&[holder("j", 4, "a")])).contains("incarnation 4"));
    assert!(fatal(guard().check(&[holder("k", 1, "a")])).contains("job `k`"));
}
