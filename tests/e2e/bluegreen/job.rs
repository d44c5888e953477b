//! A job that goes on, with a table of its own, and a hook that moves the view to it.
//!
//! Invariant: the hook does the same thing each time, and writes down the id it was given when it
//! begins and when it ends.
//!
//! It cannot end a hook by itself when the test panics: a hook that is held goes on when the
//! folder of the services is gone, fails, and ends.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

use super::{LAG_MAX, TARGET};
use crate::benchmark::{Benchmark, WAIT_MAX};
use crate::binary::Running;
use crate::postgres::program;
use crate::rebuild::{Snapshot, heartbeat, notified};
use crate::services::{free_port, wait_until};

/// See the module.
pub(crate) struct Colour {
    name: &'static str,
    folder: PathBuf,
    running: Option<Running>,
    starts: usize,
}

impl Colour {
    /// Starts it, and returns when its generation is open.
    pub(crate) fn open(benchmark: &Benchmark, snapshot: &Snapshot<'_>, name: &'static str) -> Self {
        let folder = benchmark.folder().join(name);
        fs::create_dir(&folder).expect("the folder of the services can be written");
        let write = |file: &str, text: &str| {
            fs::write(folder.join(file), text).expect("the folder can be written");
        };
        write("headwater.toml", &config(benchmark, snapshot, name));
        write("hook.sh", &hook(benchmark, name));
        write("control.token", "0123456789abcdef0123456789abcdef");
        let mode = fs::Permissions::from_mode(0o600);
        fs::set_permissions(folder.join("control.token"), mode).expect("it is ours");
        let mut colour = Self {
            name,
            folder,
            running: None,
            starts: 0,
        };
        colour.start();
        wait_until(&format!("job `{name}` to open"), WAIT_MAX, || {
            match colour.status()["generations"].get(0) {
                Some(one) if one["stage"] == "open" => Ok(()),
                other => Err(format!("{other:?}")),
            }
        });
        colour
    }

    /// Starts it, again after a crash.
    pub(crate) fn start(&mut self) {
        self.starts += 1;
        let log = format!("run-{}", self.starts);
        self.running = Some(Running::start(&self.folder, &log, &["run", "-w", "1"]));
    }

    /// Kills it and its hook, as a crash of the machine does.
    pub(crate) fn crash(&mut self) {
        let mut running = self.running.take().expect("it runs");
        running.child.kill().expect("it is our child");
        running.child.wait().expect("it is our child");
        let hook = fs::read_to_string(self.folder.join("pid")).expect("the hook runs");
        signal("KILL", hook.trim());
    }

    /// Ends it.
    pub(crate) fn stop(&mut self) {
        let running = self.running.take().expect("it runs");
        signal("TERM", &running.child.id().to_string());
        let ended = running.end(WAIT_MAX);
        assert_eq!(ended.code, Some(130), "{}", ended.err);
    }

    /// Runs another verb beside it.
    fn headwater(&self, arguments: &[&str]) -> Output {
        Command::new(env!("CARGO_BIN_EXE_headwater"))
            .args(arguments)
            .current_dir(&self.folder)
            .stdin(Stdio::null())
            .output()
            .expect("cargo built the binary")
    }

    /// Runs `headwater generation`.
    pub(crate) fn generation(&self, arguments: &[&str]) -> Output {
        self.headwater(&[&["generation"], arguments].concat())
    }

    /// Waits by `headwater wait-ready`.
    pub(crate) fn wait_ready(&self) {
        let output = self.headwater(&["wait-ready", "--timeout", "120s"]);
        assert!(
            output.status.success(),
            "`{}`: {}",
            self.name,
            said(&output)
        );
    }

    /// Starts asking for its promotion.
    pub(crate) fn start_promotion(&self) -> Running {
        let arguments = ["generation", "promote", "g1", "--by", "test"];
        Running::start(&self.folder, "promote", &arguments)
    }

    /// Promotes it; asks again while it is refused, as its mutations lag. What was answered.
    pub(crate) fn promote(&self) -> String {
        wait_until(&format!("`{}` to be promoted", self.name), WAIT_MAX, || {
            let output = self.generation(&["promote", "g1", "--by", "test"]);
            match output.status.code() {
                Some(0) => Ok(String::from_utf8(output.stdout).expect("UTF-8")),
                _ => Err(said(&output)),
            }
        })
    }

    /// Records that its promotion was taken back.
    pub(crate) fn demote(&self, reason: &str) {
        let output = self.generation(&["demote", "g1", "--by", "test", "--reason", reason]);
        assert!(output.status.success(), "{}", said(&output));
        let one = &self.status()["generations"][0];
        assert_eq!(one["stage"], "ready", "{one:#}");
        assert_eq!(one["promotion"]["demoted"]["reason"], reason, "{one:#}");
    }

    /// The hook waits from now on.
    pub(crate) fn hold(&self) {
        fs::write(self.folder.join("hold"), "").expect("the folder can be written");
    }

    /// The hook goes on.
    pub(crate) fn release(&self) {
        fs::remove_file(self.folder.join("hold")).expect("it was held");
    }

    /// The ids that its hook was run with.
    pub(crate) fn begun(&self) -> Vec<String> {
        self.lines("begun")
    }

    /// The ids with which its hook came to its end.
    pub(crate) fn ended(&self) -> Vec<String> {
        self.lines("ended")
    }

    fn lines(&self, file: &str) -> Vec<String> {
        let text = fs::read_to_string(self.folder.join(file)).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    /// The id of its promotion in the record, and whether it is done.
    pub(crate) fn promotion(&self) -> (String, bool) {
        let promotion = &self.status()["generations"][0]["promotion"];
        let id = promotion["id"].as_str();
        let id = id.unwrap_or_else(|| panic!("no promotion of `{}`", self.name));
        (id.to_owned(), !promotion["done_at"].is_null())
    }

    /// How often the record says that it became promoted.
    pub(crate) fn times_promoted(&self) -> usize {
        let status = self.status();
        let timeline = status["generations"][0]["timeline"].as_array();
        let steps = timeline.expect("a list").iter();
        steps.filter(|step| step["stage"] == "promoted").count()
    }

    fn status(&self) -> Value {
        let output = self.headwater(&["status", "--json"]);
        serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|error| panic!("`{}`: {error}: {}", self.name, said(&output)))
    }

    /// Compares its table with the source; rows may be on their way.
    pub(crate) fn assert_equal(&self) {
        let output = self.headwater(&["verify", "--json", "--lag", "30s"]);
        let report: Value = serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|error| panic!("`{}`: {error}: {}", self.name, said(&output)));
        assert_eq!(report["differing_rows"], 0, "`{}`: {report:#}", self.name);
        assert_eq!(report["tables"][0]["target_rows"], super::KEYS, "{report}");
    }
}

impl Drop for Colour {
    fn drop(&mut self) {
        if let (true, Some(running)) = (std::thread::panicking(), &self.running) {
            eprintln!("---- job `{}`\n{}", self.name, running.err());
        }
    }
}

/// What a verb said.
pub(crate) fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn signal(name: &str, pid: &str) {
    let sent = Command::new("kill")
        .arg(format!("-{name}"))
        .arg(pid)
        .status();
    assert!(sent.expect("kill is there").success(), "{name} to {pid}");
}

fn hook(benchmark: &Benchmark, name: &str) -> String {
    let psql = program("psql").display().to_string();
    let url = benchmark.postgres.url(TARGET);
    format!(
        r#"set -eu
echo $$ > pid
echo "$HEADWATER_PROMOTION_ID" >> begun
while [ -e hold ]; do sleep 0.05; done
{psql} -X -q -v ON_ERROR_STOP=1 -d {url} -c "CREATE OR REPLACE VIEW hello_view AS
    SELECT id, greeting, '{name}'::text AS colour FROM hello_{name}"
echo "$HEADWATER_PROMOTION_ID" >> ended
"#
    )
}

fn config(benchmark: &Benchmark, snapshot: &Snapshot<'_>, name: &str) -> String {
    format!(
        r#"job = "{name}"
[[table]]
name      = "public.hello"
mutations = "{}"
snapshot  = "{}"
[kafka]
"bootstrap.servers" = "{}"
[source]
database       = "{}"
clock_skew_max = "500ms"
live_settle    = "1s"
{}{}
[promote]
hook         = ["sh", "hook.sh"]
live_lag_max = "{}s"
[checkpoint]
interval = "1s"
lease    = "3s"
[control]
listen     = "127.0.0.1:{}"
token_file = "control.token"
[sink]
kind  = "postgres"
url   = "{}"
names = {{ "public.hello" = "public.hello_{name}" }}
"#,
        benchmark.mutations(),
        snapshot.topic(),
        benchmark.services.bootstrap_servers(),
        benchmark.source_url(),
        notified(snapshot),
        heartbeat(benchmark),
        LAG_MAX.as_secs(),
        free_port(),
        benchmark.postgres.url(TARGET),
    )
}
