//! The picture of the page in the repository, which the README shows: made by this test with
//! `HEADWATER_WRITE_SCREENSHOT` set, from data of an example.

use crate::browser::Browser;
use crate::fake::{Fake, ago, checkpoints, now_ms, reading, step};
use headwater::config::units::print_instant;
use serde_json::json;
use std::time::Duration;

const PATH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src/control/dashboard.png");
const BYTES_MAX: usize = 150_000;
/// Ten minutes, an answer every four seconds.
const ANSWERS: usize = 150;
const STEP_MS: i64 = 4_000;

fn draw() -> Vec<u8> {
    let mut status = reading();
    let back = STEP_MS * ANSWERS as i64;
    status["at"] = json!(print_instant(now_ms() - back));
    let text = "61 % of the window that `rebuild_alarm_after` allows is used";
    status["retention"]["used_ratio"] = json!(0.61);
    status["retention"]["forgotten_through"] = json!(ago(81.0));
    status["alarms"] = json!([{"name": "retention_used", "critical": false, "text": text,
        "remedy": "raise the rate of the snapshot, or wait: it is predicted to end in time"}]);
    status["generations"][0]["timeline"] = json!([step("open", 40.0, None)]);
    let fake = Fake::start(status);
    fake.plan().step_ms = STEP_MS;
    fake.plan().checkpoints = checkpoints(40);
    let browser = Browser::start();
    browser.dark(false);
    browser.size(1180, 1120);
    // Time passes faster.
    let source =
        "const later = setTimeout; window.setTimeout = (what, ms) => later(what, ms / 100)";
    let source = json!({"source": source});
    browser.devtools("Page.addScriptToEvaluateOnNewDocument", &source);
    browser.open(&fake.origin());
    for answer in 0..ANSWERS {
        let wave = (answer as f64 / 9.0).sin() + 0.5 * (answer as f64 / 2.3).sin();
        fake.set(|status| {
            status["lag"][0]["seconds"] = json!(0.5 + 0.2 * wave);
            status["lag"][0]["records"] = json!(140 + (60.0 * wave) as i64);
            let left = 1320.0 + (ANSWERS - answer) as f64 * 4.4;
            status["lag"][1]["seconds"] = json!(left);
        });
        let asked = || {
            fake.plan()
                .asked
                .iter()
                .filter(|path| *path == "/v1/status")
                .count()
        };
        let limit = std::time::Instant::now() + crate::LIMIT;
        while asked() <= answer {
            assert!(std::time::Instant::now() < limit, "it asks no more");
            std::thread::sleep(Duration::from_millis(2));
        }
    }
    browser.until("document.querySelector('#checkpoints .column')");
    browser.picture()
}

#[test]
fn the_picture_in_the_repository_is_small() {
    if std::env::var_os("HEADWATER_WRITE_SCREENSHOT").is_some() {
        std::fs::write(PATH, draw()).expect("written");
    }
    let bytes = std::fs::read(PATH).expect("it is in the repository");
    assert!(bytes.starts_with(b"\x89PNG\r\n\x1a\n"));
    // The header's width and height, big-endian (PNG, 11.2.2).
    let number = |at: usize| u32::from_be_bytes(bytes[at..at + 4].try_into().expect("four"));
    assert_eq!((number(16), number(20)), (1180, 1120));
    let size = bytes.len();
    assert!(
        size <= BYTES_MAX,
        "{size} bytes: give it fewer colours (pngquant)"
    );
    let readme = include_str!("../../README.md");
    assert!(readme.contains("(src/control/dashboard.png)"));
}
