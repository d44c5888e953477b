//! The page of the real binary: a small job over `file` topics, from before its first READ to its
//! stop, and after it has come back.

use crate::LIMIT;
use crate::binary::{Bench, HELLO, Record, Running, SQLITE, hello};
use crate::browser::Browser;
use crate::free_hosts;
use crate::outside;
use std::os::unix::fs::PermissionsExt;
use std::time::Instant;

const TOKEN: &str = "a-token-of-more-than-sixteen-bytes";

fn bench() -> Bench {
    let bench = Bench::new();
    bench.hello(2);
    bench.sqlite(HELLO);
    let path = bench.path().join("control.token");
    std::fs::write(&path, TOKEN).expect("written");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).expect("set");
    bench.config(&format!(
        "{SQLITE}\n[checkpoint]\ninterval = \"200ms\"\n[control]\ntoken_file = \"control.token\""
    ));
    bench
}

/// Starts the job and waits until it serves.
fn start(bench: &Bench, name: &str, listen: &str) -> (Running, String) {
    let listen = format!("control.listen={listen}");
    let child = bench.start(name, &["run", "-w", "2", "--set", &listen]);
    let limit = Instant::now() + LIMIT;
    loop {
        let said = child.err();
        if let Some((_, rest)) = said.split_once("control plane at ")
            && let Some((address, _)) = rest.split_once('\n')
        {
            return (child, address.to_owned());
        }
        assert!(Instant::now() < limit, "it does not serve:\n{said}");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}

/// Asks for a clean stop, as the page cannot.
fn stop(child: Running, origin: &str) {
    let request = ureq::post(format!("{origin}/v1/stop"));
    let request = request.config().proxy(None).build();
    let request = request.header("Authorization", format!("Bearer {TOKEN}"));
    request.send_empty().expect("it stops");
    child.end(LIMIT).with(130);
}

#[test]
fn a_job_is_seen_from_its_open_to_its_stop_and_when_it_is_back() {
    let bench = bench();
    let mutations: Vec<Record> = (0..10).map(|id| hello('c', id, "new")).collect();
    bench.append("muts", 0, &mutations);
    let address = free_hosts::free(1).remove(0);
    let (child, origin) = start(&bench, "first", &address);
    let browser = Browser::start();
    browser.open(&origin);
    browser.until_says("#job", "hello");
    browser.until("document.querySelector('[data-generation=g1][data-stage=open]')");
    browser.until_says("#word", "NOT PROMOTABLE");
    browser.until("document.querySelector('[data-mark=nowline]')");
    browser.until("document.querySelector('[data-window=g1]').dataset.risk === 'false'");

    let reads: Vec<Record> = (0..30).map(|id| hello('r', id, "old")).collect();
    bench.append("snap", 0, &reads);
    browser.until_says("#reads .figure", "30 read");
    browser.until_says("[data-kind=emitted]", "20");
    browser.until_says(
        "[data-kind=dropped]",
        "a newer mutation of the key had been read",
    );
    browser.until_says("[data-case=inside]", "10 so far");
    browser.until_says("#markers .figure", "10");
    browser.until_says("#sink-state", "running");

    explained(&browser);
    bench.run(&["end-snapshot"]).with(0);
    browser.until("['ready', 'promotable'].includes(verdict.dataset.word)");
    for stage in [
        "open",
        "source_finished",
        "topic_consumed",
        "caught_up",
        "ready",
    ] {
        browser.until(&format!(
            "document.querySelector('.done[data-stage={stage}]')"
        ));
    }
    browser.until_says("#checkpoints .figure", "number ");
    browser.until("document.querySelectorAll('#checkpoints .column').length > 1");
    assert_eq!(outside::asked(&browser, &origin), [""; 0]);
    assert_eq!(browser.complaints(), [""; 0]);

    stop(child, &origin);
    browser.until_says("#away", "No answer since ");
    browser.until("document.getElementById('main').classList.contains('old')");
    let (child, _) = start(&bench, "second", &address);
    browser.until("document.getElementById('away').hidden");
    browser.until_says("#run", "incarnation 2");
    assert_eq!(outside::asked(&browser, &origin), [""; 0]);
    stop(child, &origin);
}

/// Asks the job of a key with a marker, and of what is no key.
fn explained(browser: &Browser) {
    browser.until("document.getElementById('explain-table').value === 'public.hello'");
    browser.run("document.getElementById('explain-key').focus()");
    browser.keys("{\"id\": 3}\u{e007}");
    browser.until_says(
        "[data-outcome=dropped_marker]",
        "dropped: its key has a marker",
    );
    browser.until_says("#explained", "last mutation");
    browser.run(
        "document.getElementById('explain-key').value = '{\"other\": 3}';
         document.getElementById('explain').requestSubmit()",
    );
    browser.until_says("#explained .error", "expected");
    // The browser tells of an answer that is an error.
    let complaints = browser.complaints();
    let refused = |line: &String| line.contains("400") && line.contains("/v1/explain");
    assert!(complaints.iter().all(refused), "{complaints:#?}");
}

#[test]
fn on_an_open_address_the_page_asks_for_the_token() {
    let bench = bench();
    let (child, told) = start(&bench, "open", "0.0.0.0:0");
    let (_, port) = told.rsplit_once(':').expect("a port");
    let origin = format!("http://127.0.0.1:{port}");
    let browser = Browser::start();
    browser.open(&origin);
    browser.until("!document.getElementById('unlock').hidden");
    assert_eq!(browser.text("#job"), "", "nothing is told before");
    // The field has the focus.
    browser.keys("not the token\u{e007}");
    browser.until_says("#unlock-said", "That is not the token.");
    browser.keys(&format!("{TOKEN}\u{e007}"));
    browser.until_says("#job", "hello");
    browser.until("document.getElementById('unlock').hidden");
    let kept = browser.run(
        "return JSON.stringify([{...localStorage}, {...sessionStorage}, document.cookie,
            location.href, document.getElementById('token').value])",
    );
    let kept = kept.as_str().expect("text");
    assert!(!kept.contains(TOKEN), "{kept}");
    assert_eq!(outside::asked(&browser, &origin), [""; 0]);
    browser.open(&origin);
    browser.until("!document.getElementById('unlock').hidden");
    stop(child, &origin);
}
