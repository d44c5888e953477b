//! Verbs against a control plane that is played, and without one.

use super::{encoded, generation, one, tune};
use crate::cli::{Command, parse};
use crate::control::document::Generation;
use crate::control::testing::{Plane, TOKEN};
use crate::control::view::Facts;
use crate::error::ErrorKind;
use crate::generation::{Body, Stage};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

fn all(stages: &[(&str, Stage)]) -> Vec<Generation> {
    let of = |(id, stage): &(&str, Stage)| Generation {
        id: (*id).to_owned(),
        stage: *stage,
        ..Generation::default()
    };
    stages.iter().map(of).collect()
}

#[test]
fn without_an_id_the_only_one_that_goes_on_is_meant() {
    let two = [("g1", Stage::Superseded), ("g2", Stage::Open)];
    assert_eq!(one(all(&two), None).expect("one goes on").id, "g2");
    let g1 = "g1".to_owned();
    assert_eq!(one(all(&two), Some(&g1)).expect("it is there").id, "g1");
    for (stages, part) in [
        (
            &[("g1", Stage::Promoted), ("g2", Stage::Open)][..],
            "several",
        ),
        (&[("g1", Stage::Aborted)], "none"),
        (&[], "none"),
    ] {
        let error = one(all(stages), None).expect_err(part);
        assert_eq!(error.kind, ErrorKind::Usage);
        assert!(error.text.contains(part), "{error}");
    }
    let lost = "g9".to_owned();
    let error = one(all(&two), Some(&lost)).expect_err("none");
    assert!(error.text.contains("g1, g2"), "{error}");
}

#[test]
fn odd_ids_are_encoded() {
    assert_eq!(encoded("g-1_a.b"), "g-1_a.b");
    assert_eq!(encoded("a/b é"), "a%2Fb%20%C3%A9");
}

/// A configuration of the job, without an address.
fn configured(folder: &Path) -> String {
    let token = folder.join("token");
    std::fs::write(&token, TOKEN).expect("written");
    let mode = std::fs::Permissions::from_mode(0o600);
    std::fs::set_permissions(&token, mode).expect("set");
    let (store, token) = (folder.join("state"), token.display());
    let text = format!(
        "job = \"hello\"\n[[table]]\nname = \"public.hello\"\nmutations = \"file:m\"\n\
         snapshot = \"file:s\"\n[sink]\nkind = \"null\"\n\
         [checkpoint]\nstore = \"file:{}\"\n[control]\ntoken_file = \"{token}\"\n",
        store.display()
    );
    let path = folder.join("headwater.toml");
    std::fs::write(&path, text).expect("written");
    path.display().to_string()
}

/// The exit code of a verb.
fn code(config: &str, at: &str, verb: &str) -> i32 {
    let line = format!("headwater {verb} -c {config} --control http://{at}");
    let done = match parse(line.split(' ')) {
        Ok(Command::Generation(args)) => generation(&args),
        Ok(Command::Tune(args)) => tune(&args),
        other => panic!("{line}: {other:?}"),
    };
    done.map_or_else(|error| error.kind.exit_code(), |()| 0)
}

#[test]
fn verbs_change_a_running_job_from_any_process_of_it() {
    let dir = tempfile::tempdir().expect("a folder");
    let config = configured(dir.path());
    let plane = Plane::new(Facts::default());
    plane.topics.create("s2", 1);
    let (second, server) = plane.another_process();
    for at in [plane.address.as_str(), second.as_str()] {
        assert_eq!(code(&config, at, "generation ls"), 0);
        assert_eq!(code(&config, at, "generation show g1 --json"), 0);
        assert_eq!(code(&config, at, "generation report"), 0);
        assert_eq!(code(&config, at, "generation rate 500"), 0);
        assert_eq!(code(&config, at, "generation rate off"), 0);
        assert_eq!(code(&config, at, "ttl 5d"), 0);
        assert_eq!(code(&config, at, "markers-max 9"), 0);
        assert_eq!(code(&config, at, "generation finish --end s[0]=3"), 0);
        assert_eq!(code(&config, at, "generation finish g9"), 2);
        assert_eq!(code(&config, at, "generation drop-table --table x"), 2);
    }
    let limits: Vec<Body> = plane.bodies();
    assert!(limits.contains(&Body::MarkersMax { markers_max: 9 }));
    assert!(limits.contains(&Body::Reads {
        paused: None,
        per_second_max: Some(None),
    }));
    let open = |topic: &str| format!("generation open --snapshot public.hello={topic} --id g2");
    assert_eq!(code(&config, &second, &open("m")), 4);
    assert_eq!(code(&config, &second, &open("s2")), 0);
    // Two go on now.
    assert_eq!(code(&config, &second, "generation abort --reason r"), 2);
    assert_eq!(code(&config, &second, "generation abort g2 --reason r"), 0);
    plane.change(|shown| shown.saved = None);
    assert_eq!(code(&config, &second, "generation promote g1 --by me"), 4);
    let _ = server.0.send(());
}

#[test]
fn a_job_that_is_down_is_told_from_its_store_and_cannot_be_changed() {
    let dir = tempfile::tempdir().expect("a folder");
    let config = configured(dir.path());
    let nowhere = "127.0.0.1:9";
    assert_eq!(code(&config, nowhere, "generation ls"), 0);
    assert_eq!(code(&config, nowhere, "generation show"), 2);
    assert_eq!(code(&config, nowhere, "generation pause"), 1);
    assert_eq!(code(&config, nowhere, "ttl 5d"), 1);
}
