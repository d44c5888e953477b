//! Headless Chromium, driven through ChromeDriver: a client of as much of the WebDriver protocol as
//! these tests need (W3C WebDriver; `goog/cdp` and `se/log` are ChromeDriver's own).
//!
//! Invariant: the browser sends what is not for loopback to a proxy of the test, which lets nothing
//! out; it ends with its [`Browser`].

use crate::LIMIT;
use crate::server::Proxy;
use base64::Engine;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Each keeps the browser from asking anybody by itself, or lets it run without a screen as root.
const FLAGS: &[&str] = &[
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-extensions",
    "--disable-default-apps",
    "--hide-scrollbars",
    "--force-device-scale-factor=1",
    "--window-size=1200,1000",
];

/// See the module.
pub(crate) struct Browser {
    driver: Child,
    agent: ureq::Agent,
    session: String,
    pub(crate) proxy: Proxy,
    /// Its profile: new, and gone with it.
    _profile: TempDir,
}

impl Browser {
    pub(crate) fn start() -> Browser {
        let mut driver = Command::new("chromedriver")
            .args(["--port=0"])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("chromedriver is installed: tests/prepare does it");
        let port = port(&mut driver);
        let proxy = Proxy::start();
        let profile = tempfile::tempdir().expect("a folder");
        let agent = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .proxy(None)
            .timeout_global(Some(LIMIT))
            .build()
            .new_agent();
        let mut browser = Browser {
            driver,
            agent,
            session: format!("http://127.0.0.1:{port}/session"),
            proxy,
            _profile: profile,
        };
        let mut flags: Vec<String> = FLAGS.iter().map(|flag| (*flag).to_owned()).collect();
        let folder = browser._profile.path().display();
        flags.push(format!("--user-data-dir={folder}"));
        flags.push(format!("--proxy-server={}", browser.proxy.server.address()));
        let begun = browser.post(
            "",
            &json!({"capabilities": {"alwaysMatch": {
                "browserName": "chrome",
                "goog:loggingPrefs": {"browser": "ALL", "performance": "ALL"},
                "goog:chromeOptions": {"args": flags},
            }}}),
        );
        let id = begun["sessionId"].as_str().expect("a session");
        browser.session = format!("{}/{id}", browser.session);
        let focus = json!({"enabled": true});
        browser.devtools("Emulation.setFocusEmulationEnabled", &focus);
        browser
    }

    fn post(&self, path: &str, body: &Value) -> Value {
        let request = self.agent.post(format!("{}{path}", self.session));
        let request = request.header("content-type", "application/json");
        let answer = request
            .send(body.to_string())
            .expect("chromedriver answers");
        value(answer, path)
    }

    /// Opens an address and waits until it is loaded.
    pub(crate) fn open(&self, url: &str) {
        self.post("/url", &json!({"url": url}));
    }

    /// Runs the body of a function in the page.
    pub(crate) fn run(&self, script: &str) -> Value {
        self.post("/execute/sync", &json!({"script": script, "args": []}))
    }

    /// Gives a command of the DevTools protocol.
    pub(crate) fn devtools(&self, command: &str, parameters: &Value) -> Value {
        let body = json!({"cmd": command, "params": parameters});
        self.post("/goog/cdp/execute", &body)
    }

    /// Whether the page is to be dark.
    pub(crate) fn dark(&self, dark: bool) {
        let value = if dark { "dark" } else { "light" };
        let feature = json!({"name": "prefers-color-scheme", "value": value});
        self.devtools(
            "Emulation.setEmulatedMedia",
            &json!({"features": [feature]}),
        );
    }

    /// Sets how wide and high the page is, CSS pixels.
    pub(crate) fn size(&self, width: u32, height: u32) {
        let size = json!({
            "width": width, "height": height, "deviceScaleFactor": 1, "mobile": false
        });
        self.devtools("Emulation.setDeviceMetricsOverride", &size);
    }

    /// Presses keys, one after the other.
    pub(crate) fn keys(&self, text: &str) {
        let press = |key: char| {
            let key = key.to_string();
            [
                json!({"type": "keyDown", "value": key}),
                json!({"type": "keyUp", "value": key}),
            ]
        };
        let presses: Vec<Value> = text.chars().flat_map(press).collect();
        let keyboard = json!({"type": "key", "id": "keyboard", "actions": presses});
        self.post("/actions", &json!({"actions": [keyboard]}));
    }

    /// The visible text of the first element that fits, or nothing.
    pub(crate) fn text(&self, selector: &str) -> String {
        let script = format!(
            "return document.querySelector({})?.innerText ?? ''",
            json!(selector)
        );
        self.run(&script).as_str().unwrap_or_default().to_owned()
    }

    /// Waits until an expression of the page is true; fails with what the page shows.
    pub(crate) fn until(&self, expression: &str) {
        let limit = Instant::now() + LIMIT;
        while self.run(&format!("return Boolean({expression})")) != true {
            assert!(
                Instant::now() < limit,
                "`{expression}` did not come:\n{}\n{:#?}",
                self.text("body"),
                self.log("browser")
            );
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Waits until an element has a text in it.
    pub(crate) fn until_says(&self, selector: &str, text: &str) {
        self.until(&format!(
            "document.querySelector({})?.innerText?.includes({})",
            json!(selector),
            json!(text)
        ));
    }

    /// What came into a log since it was read last.
    pub(crate) fn log(&self, kind: &str) -> Vec<Value> {
        let entries = self.post("/se/log", &json!({"type": kind}));
        entries.as_array().expect("a list").clone()
    }

    /// What the browser has complained of since this was asked last.
    pub(crate) fn complaints(&self) -> Vec<String> {
        let entries = self.log("browser").into_iter();
        entries.map(|entry| entry.to_string()).collect()
    }

    /// A picture of what is seen, as PNG.
    pub(crate) fn picture(&self) -> Vec<u8> {
        let asked = self.agent.get(format!("{}/screenshot", self.session));
        let text = value(asked.call().expect("chromedriver answers"), "/screenshot");
        let text = text.as_str().expect("base64");
        let engine = base64::engine::general_purpose::STANDARD;
        engine.decode(text).expect("base64")
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // Ends the browser; the driver alone would leave it.
        let _ = self.agent.delete(&self.session).call();
        let _ = self.driver.kill();
        let _ = self.driver.wait();
    }
}

/// The port that it says it has; what it says after is read and left.
fn port(driver: &mut Child) -> u16 {
    let stdout = driver.stdout.take().expect("piped");
    let mut lines = BufReader::new(stdout).lines().map_while(Result::ok);
    let port = lines.find_map(|line| {
        let (_, port) = line.split_once("started successfully on port ")?;
        port.trim_end_matches('.').parse().ok()
    });
    std::thread::spawn(move || lines.for_each(drop));
    port.expect("chromedriver says its port")
}

fn value(mut answer: ureq::http::Response<ureq::Body>, path: &str) -> Value {
    let body = answer
        .body_mut()
        .with_config()
        .limit(50 << 20)
        .read_to_string();
    let body = body.expect("text");
    let mut json: Value = serde_json::from_str(&body).expect("JSON");
    assert!(answer.status().is_success(), "{path}: {json:#}");
    json["value"].take()
}
