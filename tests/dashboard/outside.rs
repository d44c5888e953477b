//! Whether the page asks anybody but its own origin.
//!
//! Three witnesses: the requests that the browser tells of, the complaints about the page's policy,
//! and a proxy that gets whatever is not for loopback.

use crate::browser::Browser;
use crate::fake::{Fake, reading};
use crate::server::{Answer, Server, anywhere};
use serde_json::{Value, json};

/// What was asked of others since this was asked last, and what was asked of the proxy ever.
pub(crate) fn asked(browser: &Browser, origin: &str) -> Vec<String> {
    let own = |url: &str| {
        let rest = url.strip_prefix(origin);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    let mut found = Vec::new();
    for entry in browser.log("performance") {
        let text = entry["message"].as_str().expect("text");
        let message: Value = serde_json::from_str(text).expect("JSON");
        if message["message"]["method"] == "Network.requestWillBeSent" {
            let request = &message["message"]["params"]["request"];
            let url = request["url"].as_str().expect("an address");
            // The browser's own first page, which leaves the machine for nothing.
            let inner = url.starts_with("chrome:") || url.starts_with("data:");
            if !own(url) && !inner {
                found.push(format!("requested: {url}"));
            }
        }
    }
    let names = "return performance.getEntriesByType('resource').map((one) => one.name)";
    for name in browser.run(names).as_array().expect("a list") {
        let name = name.as_str().expect("text");
        if !own(name) {
            found.push(format!("resource: {name}"));
        }
    }
    let proxied = browser.proxy.asked().into_iter();
    found.extend(proxied.map(|line| format!("proxy: {line}")));
    found
}

/// What [`asked`] and the browser's complaints say of a page with something planted in it.
fn with(fake: &Fake) -> (Browser, Vec<String>) {
    let browser = Browser::start();
    browser.open(&fake.origin());
    browser.until_says("#job", "hello");
    let mut found = asked(&browser, &fake.origin());
    found.extend(browser.complaints());
    (browser, found)
}

#[test]
fn the_page_asks_its_own_origin_only() {
    let fake = Fake::start(reading());
    let (browser, found) = with(&fake);
    assert_eq!(found, [""; 0]);
    // Some more answers.
    browser.until("document.querySelector('#lag-mutations polyline')");
    let before = fake.plan().asked.len();
    browser.run(
        "document.getElementById('explain-key').value = '5';
         document.getElementById('explain').requestSubmit()",
    );
    browser.until_says("#explained .error", "nothing is planned");
    assert!(fake.plan().asked.len() > before);
    assert_eq!(asked(&browser, &fake.origin()), [""; 0]);
}

#[test]
fn an_outside_request_is_found_where_it_is_planted() {
    let image = "<img src=\"http://outside.example/a.png\" alt=\"\"><header>".to_owned();
    let planted = ("/", "<header>", image);
    // The policy keeps the browser from it, and it says so.
    let fake = Fake::start(reading());
    fake.plan().planted = Some(planted.clone());
    let (_browser, found) = with(&fake);
    let policy = |line: &String| line.contains("Content Security Policy");
    assert!(found.iter().any(policy), "{found:#?}");
    assert!(
        !found.iter().any(|line| line.starts_with("proxy")),
        "{found:#?}"
    );
    // Without the policy it is seen by itself, and by the proxy.
    fake.plan().without_policy = true;
    let (browser, mut found) = with(&fake);
    let line = "proxy: GET http://outside.example/a.png".to_owned();
    browser.until("performance.getEntriesByType('resource').length > 0");
    let limit = std::time::Instant::now() + crate::LIMIT;
    while !found.contains(&line) {
        assert!(std::time::Instant::now() < limit, "{found:#?}");
        found.extend(asked(&browser, &fake.origin()));
    }
    let line = "requested: http://outside.example/a.png".to_owned();
    assert!(found.contains(&line), "{found:#?}");

    // Another port of this machine is outside, too, and no proxy sees it.
    let other = Server::start(anywhere(), |_| Answer::json(200, &json!({})));
    let fetch = format!("fetch(\"{}/x\").catch(() => 0);\npoll();\n", other.origin());
    fake.plan().planted = Some(("/dashboard/main.js", "\npoll();\n", format!("\n{fetch}")));
    let (_browser, found) = with(&fake);
    let line = format!("requested: {}/x", other.origin());
    assert!(found.contains(&line), "{found:#?}");
}
