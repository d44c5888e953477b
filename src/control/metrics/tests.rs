//! Every metric that the alerts and the README name is there, in the form that Prometheus reads.

use super::text;
use crate::checkpoint::Saved;
use crate::control::view::{Facts, Seen, running, starting};
use crate::gauges::TopicLag;
use crate::job::{Alarm, ShownGeneration};
use crate::sink::queue::SinkState;
use crate::table::Role;
use std::collections::BTreeSet;

const ALERTS: &str = include_str!("../alerts.yml");
const GRAFANA: &str = include_str!("../grafana.json");
const README: &str = include_str!("../../../README.md");

/// The metrics of a job of which everything is known.
fn full() -> String {
    let mut seen = Seen::default();
    seen.shown.counts.ignored.insert("tombstone".to_owned(), 3);
    seen.shown.counts.reads_late = 2;
    seen.shown.counts.mutations_emitted = 9;
    seen.shown.saved = Some(Saved::default());
    seen.saved_at_ms = Some(7_000);
    seen.sink = Some((SinkState::Running, 5));
    let mut g1 = ShownGeneration {
        reads_total: Some(30),
        ..ShownGeneration::default()
    };
    g1.counts.read = 10;
    seen.shown.generations.push(g1);
    seen.shown.forgotten_through_ms = Some(0);
    (seen.shown.now_ms, seen.shown.retention.ttl_ms) = (50, Some(200));
    seen.shown.read_control.paused = true;
    let name = "rebuild_takes_long".to_owned();
    seen.shown.alarms.push(Alarm {
        name,
        ..Alarm::default()
    });
    seen.shown.gauges.lag.push(TopicLag {
        topic: "app.public.hello".to_owned(),
        role: Role::Mutations,
        records: Some(18_204),
        newest_age_ms: Some(2_500),
    });
    text(&running(&Facts::default(), &seen, 9_000), true)
}

/// The name of a sample line.
fn name(line: &str) -> &str {
    line.split(['{', ' ']).next().expect("a line has a name")
}

fn names(text: &str) -> BTreeSet<&str> {
    let samples = text.lines().filter(|line| !line.starts_with('#'));
    samples.map(name).collect()
}

/// Every word of a text that looks like a metric.
fn metrics_in(text: &str) -> BTreeSet<&str> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    words
        .filter(|word| word.starts_with("headwater_"))
        .collect()
}

#[test]
fn every_line_is_a_sample_with_help_and_type() {
    let text = full();
    let mut typed = BTreeSet::new();
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').expect("a name and a type");
            assert!(["counter", "gauge"].contains(&kind), "{line}");
            assert_eq!(kind == "counter", name.ends_with("_total"), "{line}");
            typed.insert(name);
        } else if !line.starts_with("# HELP ") {
            let (_, value) = line.rsplit_once(' ').expect("a value");
            value.parse::<f64>().unwrap_or_else(|_| panic!("{line}"));
            assert!(typed.contains(name(line)), "{line} has no type");
            assert!(line.starts_with("headwater_"), "{line}");
        }
    }
    for line in [
        "headwater_mutations_emitted_total 9",
        "headwater_reads_quarantined_total{reason=\"late\"} 2",
        "headwater_records_ignored_total{reason=\"tombstone\"} 3",
        "headwater_generation_state{state=\"open\"} 1.0",
        "headwater_generation_state{state=\"caught_up\"} 0.0",
        "headwater_sink_rows_written_total 5",
        "headwater_checkpoint_timestamp_seconds 7.0",
        "headwater_lag_records{topic=\"app.public.hello\"} 18204.0",
        "headwater_lag_seconds{topic=\"app.public.hello\"} 2.5",
        "headwater_retention_used_ratio 0.25",
        "headwater_snapshot_eta_seconds 18.0",
        "headwater_forgotten_through_seconds 8.95",
        "headwater_reads_paused 1.0",
        "headwater_promotable 0.0",
        "headwater_alarms{reason=\"rebuild_takes_long\"} 1.0",
    ] {
        assert!(text.lines().any(|found| found == line), "{line} in\n{text}");
    }
}

#[test]
fn another_process_shows_its_target_alone() {
    let seen = Seen {
        sink: Some((SinkState::Running, 5)),
        ..Seen::default()
    };
    let text = text(&running(&Facts::default(), &seen, 0), false);
    let names = names(&text);
    assert!(names.contains("headwater_sink_rows_written_total"));
    assert!(
        !names.contains("headwater_mutations_emitted_total"),
        "{text}"
    );
}

#[test]
fn what_is_not_known_is_absent() {
    let text = text(&starting("j", 0), true);
    let expected = BTreeSet::from(["headwater_build_info", "headwater_troubles"]);
    assert_eq!(names(&text), expected);
}

#[test]
fn alerts_name_metrics_that_exist_and_have_a_runbook() {
    let text = full();
    let there = names(&text);
    let mut expressions = 0;
    for line in ALERTS.lines() {
        if let Some(expression) = line.trim().strip_prefix("expr: ") {
            expressions += 1;
            let named = metrics_in(expression);
            assert!(!named.is_empty(), "{line}");
            let lost: Vec<_> = named.difference(&there).collect();
            assert!(lost.is_empty(), "{lost:?} of `{line}` are not there");
        }
    }
    let alerts: Vec<&str> = ALERTS
        .lines()
        .filter_map(|line| line.trim().strip_prefix("- alert: "))
        .collect();
    assert!(alerts.len() >= 8, "{alerts:?}");
    assert_eq!(expressions, alerts.len());
    for alert in alerts {
        let row = format!("| `{alert}` |");
        assert!(README.contains(&row), "the README has no line `{row}`");
    }
}

#[test]
fn the_dashboard_names_metrics_that_exist() {
    let text = full();
    let there = names(&text);
    let dashboard: serde_json::Value = serde_json::from_str(GRAFANA).expect("JSON");
    let panels = dashboard["panels"].as_array().expect("panels");
    let mut ids = BTreeSet::new();
    let mut shown = BTreeSet::new();
    for panel in panels {
        assert!(
            ids.insert(panel["id"].as_u64().expect("a number")),
            "{panel}"
        );
        assert!(
            panel["title"]
                .as_str()
                .is_some_and(|title| !title.is_empty())
        );
        let targets = panel["targets"].as_array().expect("targets");
        assert!(!targets.is_empty(), "{panel}");
        for target in targets {
            let expression = target["expr"].as_str().expect("an expression");
            let named = metrics_in(expression);
            assert!(!named.is_empty(), "{expression}");
            let lost: Vec<_> = named.difference(&there).collect();
            assert!(lost.is_empty(), "{lost:?} of `{expression}` are not there");
            shown.extend(named);
        }
    }
    let hidden: Vec<_> = there.difference(&shown).collect();
    let small = ["headwater_build_info", "headwater_checkpoint_number"];
    let hidden: Vec<_> = hidden
        .into_iter()
        .filter(|name| !small.contains(name))
        .collect();
    assert!(hidden.is_empty(), "{hidden:?} are in no panel");
}

#[test]
fn the_readme_names_metrics_that_exist() {
    let text = full();
    let there = names(&text);
    let tables = [
        "headwater_target",
        "headwater_applied",
        "headwater_checkpoint",
        "headwater_generation",
    ];
    let named = metrics_in(README).into_iter();
    for name in named.filter(|name| !tables.contains(name) && *name != "headwater_mark_TABLE") {
        assert!(there.contains(name), "{name}");
    }
}
