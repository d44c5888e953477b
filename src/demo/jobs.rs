//! The demo's two jobs: the same topics, a SQLite sink each, with and without the rule.

use super::topics;
use crate::assemble::outlets;
use crate::checkpoint::Resumed;
use crate::cli::DemoArgs;
use crate::clock::RunningTime;
use crate::config::Config;
use crate::decode::DecodeSettings;
use crate::error::Error;
use crate::failure::Failures;
use crate::job::{Finish, Job, Panel, Settings};
use crate::key::KeyGate;
use crate::run::{FIRST_GENERATION, partitions};
use crate::sink::Claim;
use crate::sink::admit::admit;
use crate::sink::queue::{self, QueueOptions};
use crate::sink::replay::Replay;
use crate::sink::settings::{SinkKind, SinkSettings, build};
use crate::table::Table;
use crate::topic::mixed::MixedTopics;
use headwater_operators::decide::OnForgotten;
use headwater_operators::retention::KeepMarkers;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

const TARGET: &str =
    "CREATE TABLE IF NOT EXISTS hello (id INTEGER PRIMARY KEY, greeting TEXT NOT NULL)";

/// A job into `<name>.db`.
pub(super) fn job(
    folder: &Path,
    name: &str,
    args: &DemoArgs,
    rule: bool,
) -> Result<Arc<Job>, Error> {
    let topic = |path: &Path| format!("file:{}", path.display());
    let tables = vec![Table {
        name: "main.hello".to_owned(),
        mutations: topic(&topics::mutations(folder)),
        snapshot: topic(&topics::snapshot(folder)),
        key: None,
    }];
    let defaults = Config::default();
    let client = Arc::new(MixedTopics::new(None));
    let mut settings = SinkSettings::new(SinkKind::Sqlite);
    settings.job = name.to_owned();
    settings.path = Some(folder.join(format!("{name}.db")));
    settings.setup_sql = Some(TARGET.to_owned());
    let sink = build(&settings, &tables, &BTreeMap::new(), 1)?;
    admit(&*sink, None, true, settings.target_not_empty)?;
    sink.claim(&Claim::fresh(&settings.job, 1))?;
    let workers = if name == "sick" { 1 } else { args.workers };
    let failures = Arc::new(Failures::default());
    let failed = Arc::clone(&failures);
    let queues = queue::start(
        &*sink,
        &QueueOptions {
            incarnation: 1,
            first_worker: 0,
            workers,
            batch_rows_max: settings.batch_rows_max,
            batch_bytes_max: settings.batch_bytes_max,
            tables: tables.clone().into(),
            quarantine_dir: folder.join(format!("{name}.quarantine")),
            dead_letter: None,
            on_failure: Arc::new(move |error| failed.report(error)),
            replay: Arc::new(Replay::none()),
        },
    )?;
    Ok(Arc::new(Job {
        partitions: partitions(&*client, &tables, &defaults)?,
        gate: Arc::new(KeyGate::new(&tables)),
        tables,
        generation_id: FIRST_GENERATION.to_owned(),
        topics: client,
        outlet: outlets(queues, 0),
        clock: Arc::new(RunningTime::start()),
        settings: Settings {
            tick_ms: defaults.limits.tick_ms,
            inflight_bytes_max: 64 << 20,
            reads_inflight_bytes_max: 16 << 20,
            reads_per_second_max: None,
            keep_markers: KeepMarkers::UntilReady {
                open_late_max_ms: 3_600_000,
            },
            start_margin_ms: 900_000,
            on_forgotten: OnForgotten::Quarantine,
            rule,
            finish: Finish::EndRecords,
            decode: DecodeSettings::default(),
        },
        secret: *b"headwater's demo",
        failures,
        panel: Arc::new(Panel::default()),
        resumed: Resumed::default(),
        replay: Arc::new(Replay::none()),
        checkpoints: None,
        first_worker: 0,
    }))
}
