//! From the configuration's words to what the parts take. No I/O but following secrets.

use crate::cli::RunArgs;
use crate::config::{Config, choices};
use crate::decode::{DecodeSettings, EmptyValue, Framing, OtherTables};
use crate::error::Error;
use crate::evidence;
use crate::generation::Sources;
use crate::generation::witness::Witness;
use crate::guard::{GuardSettings, margin_ms};
use crate::job::{Finish, Readiness, Settings};
use crate::promote::Terms;
use crate::promote::hook::Hook;
use crate::sink::kafka::LogTopic;
use crate::sink::queue::AsidePlace;
use crate::sink::settings::{
    OnError, SinkKind, SinkSettings, TargetNotEmpty, UniqueConstraints, UnknownColumns,
};
use crate::topic::Topics;
use crate::topic::mixed::{TopicKind, kind};
use headwater_operators::decide::OnForgotten;
use headwater_operators::retention::KeepMarkers;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// In milliseconds.
pub fn ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

fn bytes(size: u64) -> usize {
    usize::try_from(size).unwrap_or(usize::MAX)
}

/// Which markers are kept.
pub fn keep_markers(config: &Config) -> KeepMarkers {
    let retention = &config.retention;
    match retention.keep_markers {
        choices::KeepMarkers::UntilReady => KeepMarkers::UntilReady {
            open_late_max_ms: ms(retention.open_late_max),
        },
        choices::KeepMarkers::Ttl => KeepMarkers::Ttl {
            ttl_ms: ms(retention.ttl),
        },
    }
}

/// What happens to a READ that may be stale.
pub fn on_forgotten(config: &Config) -> OnForgotten {
    match config.retention.on_forgotten {
        choices::OnForgotten::Quarantine => OnForgotten::Quarantine,
        choices::OnForgotten::Fail => OnForgotten::Fail,
        choices::OnForgotten::Emit => OnForgotten::Emit,
    }
}

/// The numbers and policies of a run.
pub fn job(config: &Config, args: &RunArgs) -> Settings {
    let finish = match (args.once, args.assume_finished_after_idle) {
        (false, _) => Finish::Never,
        (true, None) => Finish::EndRecords,
        (true, Some(idle)) => Finish::Idle { idle_ms: ms(idle) },
    };
    Settings {
        tick_ms: config.limits.tick_ms,
        inflight_bytes_max: bytes(config.limits.inflight_bytes_max.0),
        reads_inflight_bytes_max: bytes(config.limits.reads_inflight_bytes_max.0),
        reads_per_second_max: config.limits.reads_per_second_max,
        keep_markers: keep_markers(config),
        start_margin_ms: margin_ms(config),
        guard: GuardSettings::of(config),
        on_forgotten: on_forgotten(config),
        rule: !args.without_markers,
        finish,
        decode: decode(config),
        readiness: readiness(config),
    }
}

/// What readiness stands on. Over `file:` topics alone, and with nothing configured that could tell
/// of the live stream, nothing could ever prove that it has caught up.
pub fn readiness(config: &Config) -> Readiness {
    let (source, promote) = (&config.source, &config.promote);
    let told = source.heartbeat.is_some() || source.connect.is_some() || source.database.is_some();
    let kafka = config
        .tables()
        .iter()
        .any(|table| kind(&table.mutations) == TopicKind::Kafka);
    let caught_up = match told || kafka {
        true => choices::CaughtUp::Seen,
        false => choices::CaughtUp::Unproven,
    };
    Readiness {
        source_finished: promote.source_finished,
        caught_up: promote.caught_up.unwrap_or(caught_up),
        end_settle_ms: ms(source.end_settle),
        live_settle_ms: ms(source.live_settle),
        clock_skew_max_ms: ms(source.clock_skew_max),
    }
}

/// Looks outside for evidence, when there is anything to look for.
///
/// # Errors
/// An address that cannot be asked, a secret that cannot be followed, no thread.
pub fn witness(
    config: &Config,
    topics: &Arc<dyn Topics>,
) -> Result<Option<Arc<dyn Witness>>, Error> {
    let settings = evidence::Settings::of(config)?;
    let collector = evidence::Collector::start(settings, Arc::clone(topics))?;
    Ok(Some(Arc::new(collector)))
}

/// Where evidence of the first generation comes from.
pub fn sources(config: &Config) -> Sources {
    evidence::configured(config)
}

/// What promotion asks for.
pub fn promote(config: &Config) -> Terms {
    let promote = &config.promote;
    Terms {
        source_finished: promote.source_finished,
        caught_up: readiness(config).caught_up,
        live_lag_max_ms: ms(promote.live_lag_max),
        ghosts_possible: config.sink.target_not_empty == choices::TargetNotEmpty::Accept,
    }
}

/// What a promotion runs.
pub fn hook(config: &Config) -> Option<Hook> {
    let argv = config.promote.hook.clone()?;
    let timeout = config.promote.hook_timeout;
    Some(Hook { argv, timeout })
}

/// What names the target, without secrets: another one needs another job.
pub fn target_identity(config: &Config) -> BTreeMap<String, String> {
    let sink = &config.sink;
    let mut identity = BTreeMap::new();
    identity.insert(
        "sink.kind".to_owned(),
        format!("{:?}", sink.kind).to_lowercase(),
    );
    if let Some(topic) = &sink.topic {
        identity.insert("sink.topic".to_owned(), topic.clone());
    }
    for (table, name) in &sink.names {
        identity.insert(format!("sink.names.{table}"), name.clone());
    }
    identity
}

/// How records are decoded.
pub fn decode(config: &Config) -> DecodeSettings {
    let framing = |framing| match framing {
        choices::Framing::Auto => Framing::Auto,
        choices::Framing::Bare => Framing::Bare,
    };
    DecodeSettings {
        empty_value: match config.decode.empty_value {
            choices::EmptyValue::Error => EmptyValue::Poison,
            choices::EmptyValue::Tombstone => EmptyValue::Tombstone,
        },
        key_framing: framing(config.decode.key_framing),
        value_framing: framing(config.decode.value_framing),
        pass_unavailable: config.sink.unavailable == choices::Unavailable::Pass,
        signal_table: config.decode.signal_table.clone(),
        other_tables: match config.decode.other_tables {
            choices::OtherTables::Refuse => OtherTables::Refuse,
            choices::OtherTables::Ignore => OtherTables::Ignore,
        },
        dead_letters: config.decode.on_error == choices::OnUndecodable::DeadLetter,
    }
}

/// The topic that has quarantined READs, if it is not files.
///
/// # Errors
/// When its properties are wrong.
pub fn quarantine_topic(config: &Config) -> Result<Option<LogTopic>, Error> {
    let quarantine = &config.quarantine;
    match (quarantine.kind, &quarantine.topic) {
        (choices::SinkKind::Kafka, Some(topic)) => {
            let kafka = config.kafka_properties()?;
            LogTopic::new("quarantine.topic", topic, &kafka).map(Some)
        }
        _ => Ok(None),
    }
}

/// Where mutations go that cannot be decoded; none when they end the job.
///
/// # Errors
/// When the properties of the topic are wrong.
pub fn dead_letters(config: &Config) -> Result<Option<AsidePlace>, Error> {
    let letters = &config.dead_letter;
    if config.decode.on_error == choices::OnUndecodable::Fail {
        return Ok(None);
    }
    let place = match (letters.kind, &letters.topic) {
        (choices::SinkKind::Kafka, Some(topic)) => {
            let kafka = config.kafka_properties()?;
            AsidePlace::Topic(LogTopic::new("dead_letter.topic", topic, &kafka)?)
        }
        _ => AsidePlace::Folder(letters.path.clone().unwrap_or_else(|| {
            Path::new(&format!("{}.dead_letter", config.job.job)).to_path_buf()
        })),
    };
    Ok(Some(place))
}

/// What to do with a target that holds rows at a job's first start.
pub fn target_not_empty(config: &Config) -> TargetNotEmpty {
    match config.sink.target_not_empty {
        choices::TargetNotEmpty::Refuse => TargetNotEmpty::Refuse,
        choices::TargetNotEmpty::Accept => TargetNotEmpty::Accept,
    }
}

/// The target's settings, with secrets followed.
///
/// # Errors
/// When an environment variable or a file that a secret names is missing.
pub fn sink(config: &Config) -> Result<SinkSettings, Error> {
    let sink = &config.sink;
    let mut settings = SinkSettings::new(match sink.kind {
        choices::SinkKind::Sqlite => SinkKind::Sqlite,
        choices::SinkKind::Postgres => SinkKind::Postgres,
        choices::SinkKind::Kafka => SinkKind::Kafka,
        choices::SinkKind::Jsonl => SinkKind::Jsonl,
        choices::SinkKind::Null => SinkKind::Null,
    });
    settings.job = config.job.job.clone();
    let url = sink.url.as_ref().map(|url| url.resolve()).transpose()?;
    settings.url = url.map(|url| url.expose().to_owned());
    settings.path = sink.path.clone();
    settings.topic = sink.topic.clone();
    settings.names = sink.names.clone();
    settings.kafka = sink.kafka.resolve()?;
    settings.transactional = sink.transactional;
    settings.setup_sql = sink.setup_sql.clone();
    settings.batch_rows_max = bytes(sink.batch_rows_max);
    settings.batch_bytes_max = bytes(sink.batch_bytes_max.0);
    settings.connections = sink.connections.map(bytes);
    settings.target_not_empty = target_not_empty(config);
    settings.unknown_columns = match sink.unknown_columns {
        choices::UnknownColumns::Refuse => UnknownColumns::Refuse,
        choices::UnknownColumns::Drop => UnknownColumns::Drop,
    };
    settings.unique_constraints = match sink.unique_constraints {
        choices::UniqueConstraints::Refuse => UniqueConstraints::Refuse,
        choices::UniqueConstraints::OneConnection => UniqueConstraints::OneConnection,
    };
    settings.on_error = OnError::Stop;
    settings.replay_unsafe_because = sink.replay_unsafe_because.clone();
    Ok(settings)
}
