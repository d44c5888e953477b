//! The settings of a run: those that a case goes without saying, and what its `config` names.
//!
//! It knows few names; one that it does not know fails the case.

use crate::case::{Case, Run};
use headwater::config::choices::{CaughtUp, SourceFinished};
use headwater::config::units::parse_duration;
use headwater::decode::{DecodeSettings, EmptyValue};
use headwater::guard::GuardSettings;
use headwater::job::{Finish, Readiness, Settings};
use headwater_operators::decide::OnForgotten;
use headwater_operators::retention::KeepMarkers;
use serde_json::Value;

const DAY_MS: u64 = 86_400_000;

/// The settings, and the key of every table where the case gives one.
pub(crate) fn settings(
    case: &Case,
    run: &Run,
    tick_ms: u64,
) -> Result<(Settings, Option<Vec<String>>), String> {
    let mut settings = Settings {
        tick_ms,
        inflight_bytes_max: 64 << 20,
        reads_inflight_bytes_max: 16 << 20,
        reads_per_second_max: None,
        keep_markers: KeepMarkers::UntilReady {
            open_late_max_ms: 3_600_000,
        },
        start_margin_ms: 900_000,
        guard: GuardSettings::default(),
        on_forgotten: OnForgotten::Quarantine,
        rule: case.rule,
        // Where notifications tell the end, the job goes on until the case is over.
        finish: match case.notified() {
            true => Finish::Never,
            false => Finish::EndRecords,
        },
        decode: DecodeSettings::default(),
        readiness: Readiness::default(),
    };
    if case.notified() {
        settings.readiness.source_finished = SourceFinished::OperatorSaid;
    }
    let mut key = None;
    for (name, value) in &run.config {
        match (name.as_str(), value.as_str()) {
            ("retention.keep_markers", Some("until_ready")) => {}
            ("retention.keep_markers", Some("ttl")) => {
                if let KeepMarkers::UntilReady { .. } = settings.keep_markers {
                    settings.keep_markers = KeepMarkers::Ttl { ttl_ms: 3 * DAY_MS };
                }
            }
            ("retention.ttl", Some(_)) => {
                let ttl_ms = ms(value)?;
                settings.keep_markers = KeepMarkers::Ttl { ttl_ms };
            }
            ("empty_value", Some("tombstone")) => {
                settings.decode.empty_value = EmptyValue::Tombstone;
            }
            ("on_error", Some("dead_letter")) => settings.decode.dead_letters = true,
            ("source_finished_requires" | "promote.source_finished", Some(word)) => {
                let kind = SourceFinished::from_word(word).ok_or_else(|| unknown(name, value))?;
                settings.readiness.source_finished = kind;
            }
            ("caught_up_requires" | "promote.caught_up", Some(word)) => {
                let kind = CaughtUp::from_word(word).ok_or_else(|| unknown(name, value))?;
                settings.readiness.caught_up = kind;
            }
            ("end_settle" | "source.end_settle", Some(_)) => {
                settings.readiness.end_settle_ms = ms(value)?;
            }
            ("table.key", None) => {
                let columns = serde_json::from_value(value.clone());
                key = Some(columns.map_err(|error| format!("{value}: {error}"))?);
            }
            _ => return Err(unknown(name, value)),
        }
    }
    Ok((settings, key))
}

fn unknown(name: &str, value: &Value) -> String {
    format!("the runner does not know the setting {name} = {value}")
}

fn ms(value: &Value) -> Result<u64, String> {
    let duration = value.as_str().and_then(parse_duration);
    let ms = duration.and_then(|duration| u64::try_from(duration.as_millis()).ok());
    ms.ok_or_else(|| format!("{value} is no duration"))
}
