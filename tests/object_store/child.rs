//! A process of its own that works on a store: with another environment, or one that is killed.
//!
//! It is this test binary again, told by variables to run one test, [`in_a_child`], which does
//! nothing in the ordinary run.

use headwater::store::{Put, Store};
use std::path::Path;
use std::process::{Command, Output};

const WORK: &str = "HEADWATER_TEST_WORK";
const URL: &str = "HEADWATER_TEST_URL";

/// The URL of a local folder.
pub(crate) fn url(folder: &Path) -> String {
    format!("file:{}", folder.display())
}

/// Runs `work` on the store at `url` in another process, under `environment`.
pub(crate) fn run(url: &str, work: &str, environment: &[(&str, &str)]) -> Output {
    let program = std::env::current_exe().expect("this program");
    Command::new(program)
        .args([
            "--exact",
            "child::in_a_child",
            "--nocapture",
            "--test-threads=1",
        ])
        .env(URL, url)
        .env(WORK, work)
        .envs(environment.iter().copied())
        .output()
        .expect("it runs")
}

/// As [`run`], for work that must go well.
pub(crate) fn run_well(url: &str, work: &str, environment: &[(&str, &str)]) {
    let output = run(url, work, environment);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{work}: {}\n{said}", output.status);
}

/// What [`run`] said on its way.
pub(crate) fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn in_a_child() {
    let (Ok(work), Ok(url)) = (std::env::var(WORK), std::env::var(URL)) else {
        return;
    };
    let store = Store::open(&url).unwrap_or_else(|error| panic!("{error}"));
    let done = match work.as_str() {
        "contract" => {
            super::contract::check(&store, 1100);
            Ok(())
        }
        "lost_answer" => {
            let put = store.put_new("lost/a", b"mine").expect("asked");
            assert_eq!(put, Put::Written);
            Ok(())
        }
        "put_new" => store.put_new("job/a", b"new").map(drop),
        "put" => store.put("job/a", b"new"),
        "delete" => store.delete("job/a"),
        "get" => store.get("job/a").map(drop),
        _ => panic!("no such work: {work}"),
    };
    done.unwrap_or_else(|error| panic!("{error}"));
}
