//! Gives a generation up before a run begins: `headwater run --abort-generation ID`.
//!
//! For a snapshot that cannot be read (a damaged READ, a deleted topic): the job would end at each
//! start before anybody could ask it to abort. Pure; the claim of the run makes it durable.
//!
//! Invariant: as with `generation abort`, only READs are left out, never a mutation or a marker.

use super::Manifest;
use super::manifest::GenerationState;
use crate::error::Error;
use crate::generation::{Reached, Stage};
use std::collections::BTreeMap;

/// What a run can do when a snapshot topic keeps it from beginning, or ends it.
pub fn way_out(id: &str) -> String {
    format!(
        "Or give this generation up: `headwater run --abort-generation {id}` goes on without it."
    )
}

/// Takes generation `id` for aborted at `wall_ms`; `false` when it is over already, as with a flag
/// that was left in a unit file. `first` is the id that a first start opens, for
/// `tables`: a job that ended before that was durable has nothing else to give up.
///
/// # Errors
/// Usage, when there is no such generation; those that can be given up are named. Refused, when it
/// is promoted: its target is in use.
pub fn give_up(
    manifest: &mut Manifest,
    id: &str,
    (first, topics): (&str, BTreeMap<u16, String>),
    wall_ms: u64,
) -> Result<bool, Error> {
    if manifest.generations.is_empty() && id == first {
        manifest.generations.push(GenerationState {
            number: 1,
            id: first.to_owned(),
            tables: topics.keys().copied().collect(),
            topics,
            ..GenerationState::default()
        });
    }
    let live = |of: &&GenerationState| !of.stage.is_over();
    let ids: Vec<&str> = manifest
        .generations
        .iter()
        .filter(live)
        .map(|of| of.id.as_str())
        .collect();
    let known = match (manifest.generations.is_empty(), ids.is_empty()) {
        (true, _) => first.to_owned(),
        (false, true) => "none".to_owned(),
        (false, false) => ids.join(", "),
    };
    let tick_ms = manifest.time.now_ms;
    let found = manifest.generations.iter_mut().find(|of| of.id == id);
    match found {
        Some(of) if of.stage.is_over() => Ok(false),
        Some(of) if of.stage == Stage::Promoted => Err(Error::refused(format!(
            "generation {id} is promoted: its target is in use"
        ))
        .line("Start without `--abort-generation`, and take that back first:")
        .line(format!("headwater generation demote {id}"))),
        Some(of) => {
            of.stage = Stage::Aborted;
            of.reached.push(Reached {
                stage: Stage::Aborted,
                at_ms: wall_ms,
                tick_ms,
                evidence: Some("given up at a start (--abort-generation)".to_owned()),
                not_proven: None,
            });
            Ok(true)
        }
        None => Err(Error::usage(format!("generation {id} cannot be given up"))
            .line("found     no such generation")
            .line(format!("expected  one that is not over: {known}"))
            .line("Start without `--abort-generation`.")),
    }
}

#[cfg(test)]
mod tests {
    use super::give_up;
    use crate::checkpoint::manifest::tests::manifest;
    use crate::checkpoint::reopen::read_topics;
    use crate::generation::Stage;
    use crate::table::Table;
    use std::collections::BTreeMap;

    fn first() -> (&'static str, BTreeMap<u16, String>) {
        ("g1", BTreeMap::from([(0, "s".to_owned())]))
    }

    #[test]
    fn one_that_is_not_over_is_aborted_once() {
        for stage in Stage::ALL {
            let mut saved = manifest();
            saved.generations[0].stage = stage;
            let id = saved.generations[0].id.clone();
            let given = give_up(&mut saved, &id, first(), 9);
            if stage == Stage::Promoted {
                let text = given.expect_err("in use").text;
                assert!(text.contains("generation demote"), "{text}");
                continue;
            }
            assert_eq!(given.expect("known"), !stage.is_over(), "{stage:?}");
            if stage.is_over() {
                assert_eq!(saved.generations[0].stage, stage);
                continue;
            }
            let of = &saved.generations[0];
            assert_eq!(of.stage, Stage::Aborted);
            assert_eq!(
                of.reached.last().map(|r| (r.stage, r.at_ms)),
                Some((Stage::Aborted, 9))
            );
        }
    }

    #[test]
    fn the_first_can_be_given_up_before_it_was_durable() {
        let table = Table {
            name: "t".to_owned(),
            mutations: "m".to_owned(),
            snapshot: "s".to_owned(),
            key: None,
        };
        let mut saved = manifest();
        saved.generations.clear();
        assert!(read_topics(&saved, std::slice::from_ref(&table)).contains_key("s"));
        let other = give_up(&mut saved, "g2", first(), 9).expect_err("there is none");
        assert!(other.text.contains("no such generation"), "{other}");
        assert!(saved.generations.is_empty());
        give_up(&mut saved, "g1", first(), 9).expect("it would be opened");
        assert_eq!(saved.generations[0].stage, Stage::Aborted);
        assert!(
            read_topics(&saved, &[table]).is_empty(),
            "nothing of it is read"
        );
    }
}
