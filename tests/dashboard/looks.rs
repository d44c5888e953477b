//! Whether all text can be read, in light and dark, on wide and narrow screens; and whether the
//! keyboard is enough.

use crate::browser::Browser;
use crate::fake::{Fake, ago, checkpoints, generation, reading, step};
use serde_json::{Value, json};

/// Of WCAG 2 (1.4.3) for text of a common size.
const CONTRAST_MIN: f64 = 4.5;

/// The body of a function that lists every text that is shown, with its contrast.
const TEXTS: &str = r#"
const parts = (color) => color.match(/[\d.]+/g).map(Number);
const light = ([r, g, b]) => [r, g, b].map((part) => part / 255)
  .map((part) => (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4))
  .reduce((sum, part, index) => sum + part * [0.2126, 0.7152, 0.0722][index], 0);
const solid = (color) => color.startsWith("rgb") && (parts(color)[3] ?? 1) > 0;
function behind(element) {
  if (element.ownerSVGElement) {
    const box = element.getBoundingClientRect();
    const [x, y] = [box.x + box.width / 2, box.y + box.height / 2];
    const rects = [...element.ownerSVGElement.querySelectorAll("rect")].filter((rect) => {
      const one = rect.getBoundingClientRect();
      const before = rect.compareDocumentPosition(element) & Node.DOCUMENT_POSITION_FOLLOWING;
      return before && solid(getComputedStyle(rect).fill)
        && one.left <= x && x <= one.right && one.top <= y && y <= one.bottom;
    });
    if (rects.length) return parts(getComputedStyle(rects.at(-1)).fill);
  }
  for (let at = element; at; at = at.parentElement) {
    const color = getComputedStyle(at).backgroundColor;
    if (solid(color)) return parts(color);
  }
  return [255, 255, 255];
}
const found = [];
for (const element of document.querySelectorAll("body *")) {
  const own = [...element.childNodes].filter((node) => node.nodeType === Node.TEXT_NODE)
    .map((node) => node.textContent.trim()).join(" ").trim();
  if (!own || !element.checkVisibility() || element.closest(".unseen, option, noscript")) continue;
  const style = getComputedStyle(element);
  const color = parts(element.ownerSVGElement ? style.fill : style.color);
  const [a, b] = [light(color), light(behind(element))];
  const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
  found.push({ text: own.slice(0, 60), contrast: contrast * (color[3] ?? 1) });
}
return found;
"#;

/// A status in which everything that can be shown is.
fn everything() -> Value {
    let mut status = reading();
    let mut old = generation(1);
    old["stage"] = json!("unsafe");
    old["timeline"] = json!([step("open", 90.0, None), step("unsafe", 30.0, Some("why"))]);
    old["began"] = json!({"at": ago(88.0), "known_by": "records"});
    let mut new = generation(2);
    new["stage"] = json!("source_finished");
    new["waits_for"]["command"] = json!("headwater generation accept-lag g2");
    let mut finished = step("source_finished", 2.0, Some("counted"));
    finished["not_proven"] = json!("that no row was scanned twice");
    new["timeline"]
        .as_array_mut()
        .expect("a list")
        .push(finished);
    new["promotion"] = json!({"id": "p1", "by": "ops", "begun_at": ago(1.0), "manifest": 90,
        "accepted": ["ghosts"], "done_at": null, "hook": "swapped", "demoted": null});
    status["generations"] = json!([old, new]);
    status["verdict"] = json!({"word": "unsafe", "text": "READs may be stale", "acts": "person",
        "command": "headwater status", "leave_alone": false});
    status["retention"]["policy"] = json!("ttl");
    status["retention"]["ttl_seconds"] = json!(4000.0);
    status["retention"]["used_ratio"] = json!(0.85);
    status["retention"]["forgotten_through"] = json!(ago(70.0));
    status["reads"]["quarantined"] = json!({"forgotten": 12, "late": 3});
    status["ignored"] = json!({"heartbeat": 4});
    status["read_control"]["paused"] = json!(true);
    status["sink"]["state"] = json!("retrying");
    status["sink"]["reason"] = json!("connection refused");
    status["troubles"] = json!([{"who": "the target", "what": "connection refused"}]);
    let alarm = |critical: bool| {
        let (text, remedy) = ("Something.", "Do this.");
        json!({"name": "a", "text": text, "remedy": remedy, "critical": critical})
    };
    status["alarms"] = json!([alarm(true), alarm(false)]);
    status
}

fn dim(browser: &Browser) -> Vec<String> {
    let texts = browser.run(TEXTS);
    let texts = texts.as_array().expect("a list");
    assert!(texts.len() > 80, "too few texts: {texts:#?}");
    let dim = texts.iter().filter(|one| {
        let contrast = one["contrast"].as_f64().expect("a number");
        contrast < CONTRAST_MIN
    });
    dim.map(Value::to_string).collect()
}

fn whole(fake: &Fake) -> Browser {
    fake.plan().checkpoints = checkpoints(8);
    let browser = Browser::start();
    browser.open(&fake.origin());
    browser.until("document.querySelector('#checkpoints .column')");
    browser.run("document.querySelectorAll('details').forEach((one) => { one.open = true; })");
    browser
}

#[test]
fn all_text_can_be_read_in_light_and_dark_wide_and_narrow() {
    let fake = Fake::start(everything());
    let browser = whole(&fake);
    let mut backs = Vec::new();
    for dark in [false, true] {
        browser.dark(dark);
        for word in ["unsafe", "promotable", "not_ready"] {
            fake.set(|status| status["verdict"]["word"] = json!(word));
            browser.until(&format!(
                "document.getElementById('verdict').dataset.word === '{word}'"
            ));
            assert_eq!(dim(&browser), [""; 0], "dark {dark}, {word}");
        }
        backs.push(browser.run("return getComputedStyle(document.body).backgroundColor"));
        for width in [360, 800, 1200] {
            browser.size(width, 900);
            browser.until("document.documentElement.scrollWidth <= innerWidth");
            assert_eq!(dim(&browser), [""; 0], "dark {dark}, {width}");
        }
    }
    assert_ne!(backs[0], backs[1], "dark is another look");
    // The same look finds what cannot be read.
    browser.run(
        "document.getElementById('text').style.color = getComputedStyle(
        document.getElementById('verdict')).backgroundColor",
    );
    let found = dim(&browser);
    assert!(
        found.len() == 1 && found[0].contains("READs may be stale"),
        "{found:?}"
    );
}

#[test]
fn the_keyboard_is_enough() {
    let fake = Fake::start(everything());
    let browser = whole(&fake);
    // Everything that can be acted upon is come to, in the order of the page, and shows it.
    let focused = "const at = document.activeElement; const style = getComputedStyle(at);
        return [at.id || at.dataset.focus || at.textContent.trim(), style.outlineStyle !== 'none'
            && parseFloat(style.outlineWidth) >= 2]";
    let mut visited = Vec::new();
    for _ in 0..11 {
        browser.keys("\u{e004}");
        let now = browser.run(focused);
        assert_eq!(now[1], true, "no outline: {now}");
        visited.push(now[0].as_str().expect("text").to_owned());
    }
    // A trouble counts as an alarm.
    let expected = [
        "Copy",
        "3 alarms",
        "copy-g2",
        "more-of-g2",
        "more-of-g1",
        "explain-table",
        "explain-key",
        "Explain",
        "status",
        "its schema",
        "metrics",
    ];
    assert_eq!(visited, expected);
    // An answer that changes a part of the page does not take the focus away.
    browser.run("document.querySelector('[data-focus=copy-g2]').focus()");
    fake.set(|status| status["generations"][1]["reads"]["read"] = json!(6_300_000));
    browser.until_says("[data-generation=g2]", "6,300,000 READs read");
    let focus = browser.run("return document.activeElement.dataset.focus");
    assert_eq!(focus, "copy-g2");
    browser.keys(" ");
    browser.until(
        "['Copied', 'Selected'].includes(
        document.querySelector('[data-focus=copy-g2]').innerText)",
    );
    // Each field and each picture has a name; there is one main part and one first heading.
    let unnamed = browser.run(
        "return [...document.querySelectorAll('input, svg, section, [role=progressbar]')]
            .filter((one) => !(one.labels?.length || one.ariaLabel
                || document.getElementById(one.getAttribute('aria-labelledby'))))
            .map((one) => one.outerHTML.slice(0, 200))",
    );
    assert_eq!(unnamed, json!([]));
    let counts = browser.run(
        "return ['main', 'h1', 'header', 'footer'].map((name) =>
            document.querySelectorAll(name).length)",
    );
    assert_eq!(counts, json!([1, 1, 1, 1]));
    let doubled = browser.run(
        "const ids = [...document.querySelectorAll('[id]')].map((one) => one.id);
         return ids.filter((id, index) => ids.indexOf(id) !== index)",
    );
    assert_eq!(doubled, json!([]));
}
