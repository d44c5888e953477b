//! The demo's two jobs: the same topics, a SQLite sink each, with and without the rule.
//!
//! The healthy one is a `headwater.toml` that `headwater run` reads in a process of its own; the
//! sick one runs in this process and keeps no checkpoints.

use crate::cli::DemoArgs;
use crate::embed::Embedded;
use crate::error::Error;
use crate::job::Job;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// The name of the healthy job.
pub(super) const HEALTHY: &str = "hello";
/// The configuration of the healthy job, in the demo's folder.
pub(super) const CONFIG: &str = "headwater.toml";
/// The folder of its checkpoints.
pub(super) const STORE: &str = "state";
const TARGET: &str =
    "CREATE TABLE IF NOT EXISTS hello (id INTEGER PRIMARY KEY, greeting TEXT NOT NULL)";
/// Below it a demo of a few seconds would do nothing but checkpoints.
const INTERVAL_MIN: Duration = Duration::from_millis(500);

/// Time between two checkpoints: some before the job is killed, some after.
pub(super) fn interval(args: &DemoArgs) -> Duration {
    (Duration::from_secs(args.seconds) / 10).max(INTERVAL_MIN)
}

/// Writes the configuration of the healthy job, as a person would who works in the demo's folder.
pub(super) fn write_healthy(folder: &Path, args: &DemoArgs) -> Result<(), Error> {
    let text = text(HEALTHY, "", "sink", &interval(args));
    let path = folder.join(CONFIG);
    std::fs::write(&path, text).map_err(|error| {
        Error::failed(format!("{} cannot be written", path.display()))
            .line(format!("found     {error}"))
    })
}

/// The job without the rule, into `sick.db`.
pub(super) fn sick(folder: &Path, args: &DemoArgs) -> Result<Arc<Job>, Error> {
    let place = format!("{}/", folder.display());
    Embedded::new(text("sick", &place, "sick", &interval(args)))
        .without_checkpoints()
        .without_markers()
        .job()
}

/// A configuration; `place` is what goes before names of files.
fn text(job: &str, place: &str, name: &str, interval: &Duration) -> String {
    // Text in JSON's quotes is text in TOML's.
    let quoted = |text: String| serde_json::Value::from(text).to_string();
    format!(
        "job = {job}\n\
         \n\
         [[table]]\n\
         name      = \"main.hello\"\n\
         mutations = {mutations}\n\
         snapshot  = {snapshot}\n\
         \n\
         [sink]\n\
         kind      = \"sqlite\"\n\
         path      = {path}\n\
         setup_sql = {setup}\n\
         \n\
         [quarantine]\n\
         path = {quarantine}\n\
         \n\
         [checkpoint]\n\
         store    = {store}\n\
         interval = \"{interval}ms\"\n",
        job = quoted(job.to_owned()),
        mutations = quoted(format!("file:{place}{}", super::topics::MUTATIONS)),
        snapshot = quoted(format!("file:{place}{}", super::topics::SNAPSHOT)),
        path = quoted(format!("{place}{name}.db")),
        setup = quoted(TARGET.to_owned()),
        quarantine = quoted(format!("{place}{name}.quarantine")),
        store = quoted(format!("file:{place}{STORE}")),
        interval = interval.as_millis(),
    )
}
