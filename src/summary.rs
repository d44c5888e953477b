//! What a run says at its end: a table for a person, one JSON object for a program.
//!
//! Invariant: both come from the same [`Summary`]; names in JSON are fields, with units last.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The counts of a finished run, over all workers of all processes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// How it ended: `ready`, `interrupted`, `unsafe`.
    pub outcome: String,
    /// What showed that the snapshot was over: `operator_said`, `quiet`, ….
    pub evidence: String,
    /// Mutations emitted.
    pub mutations_emitted: u64,
    /// READs emitted.
    pub reads_emitted: u64,
    /// READs dropped, by reason.
    pub reads_dropped: BTreeMap<String, u64>,
    /// READs that may be stale, came late or have a poisoned key: kept from the target.
    pub reads_quarantined: u64,
    /// Mutations that could not be decoded.
    #[serde(default)]
    pub dead_letters: u64,
    /// Records that are no row, by kind.
    pub ignored: BTreeMap<String, u64>,
    /// Markers held at the end.
    pub markers: u64,
    /// Their bytes.
    pub marker_bytes: u64,
    /// Bytes a marker; absent without markers.
    pub bytes_per_marker: Option<f64>,
    /// Workers of all processes.
    pub workers: usize,
    /// Wall-clock seconds.
    pub elapsed_seconds: f64,
    /// Whether the rule was off, so that the target may hold stale rows.
    pub rule_off: bool,
}

impl Summary {
    /// Sets the markers and the bytes of one.
    pub fn set_markers(&mut self, markers: u64, bytes: u64) {
        self.markers = markers;
        self.marker_bytes = bytes;
        self.bytes_per_marker = (markers > 0).then(|| {
            // Exact enough for a ratio; rounded to what a person reads.
            (bytes as f64 / markers as f64 * 100.0).round() / 100.0
        });
    }

    /// One JSON object, on one line.
    pub fn json(&self) -> String {
        serde_json::to_string(self).expect("plain numbers and text")
    }

    /// The lines of a table, with a line break at the end.
    pub fn table(&self) -> String {
        let rate = |count: u64| {
            if self.elapsed_seconds > 0.0 {
                grouped((count as f64 / self.elapsed_seconds) as u64)
            } else {
                "–".to_owned()
            }
        };
        let dropped = self.reads_dropped.values().sum();
        let bytes_per_marker = self
            .bytes_per_marker
            .map_or("–".to_owned(), |b| b.to_string());
        // Without an end nobody can tell a complete snapshot from one that pauses.
        let evidence = match self.evidence.as_str() {
            "none" => "none   (`headwater end-snapshot` ends a complete snapshot)".to_owned(),
            found => found.to_owned(),
        };
        let seconds = format!("{:.1} s on {} workers", self.elapsed_seconds, self.workers);
        let mut rows = vec![
            ("outcome", self.outcome.clone()),
            ("evidence", evidence),
            (
                "mutations emitted",
                format!(
                    "{}   {} a second",
                    grouped(self.mutations_emitted),
                    rate(self.mutations_emitted)
                ),
            ),
            ("READs emitted", grouped(self.reads_emitted)),
            ("READs dropped", counted(dropped, &self.reads_dropped)),
            ("READs quarantined", grouped(self.reads_quarantined)),
            (
                "ignored",
                counted(self.ignored.values().sum(), &self.ignored),
            ),
            (
                "markers",
                format!("{}   {bytes_per_marker} bytes each", grouped(self.markers)),
            ),
            ("elapsed", seconds),
        ];
        if self.dead_letters > 0 {
            rows.push(("dead letters", grouped(self.dead_letters)));
        }
        if self.rule_off {
            rows.push((
                "warning",
                "the rule was off: the target may hold stale rows".to_owned(),
            ));
        }
        rows.iter()
            .map(|(name, value)| format!("{name:<18} {value}\n"))
            .collect()
    }
}

/// A total and its parts.
fn counted(total: u64, parts: &BTreeMap<String, u64>) -> String {
    let parts: Vec<String> = parts
        .iter()
        .map(|(name, count)| format!("{name} {}", grouped(*count)))
        .collect();
    if parts.is_empty() {
        grouped(total)
    } else {
        format!("{}   ({})", grouped(total), parts.join(", "))
    }
}

/// A number with its thousands apart: `1,234,567`.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::{Summary, grouped};

    fn summary() -> Summary {
        let mut summary = Summary {
            outcome: "ready".to_owned(),
            evidence: "quiet".to_owned(),
            mutations_emitted: 1_234_567,
            reads_emitted: 7,
            reads_dropped: [("marker".to_owned(), 3), ("superseded".to_owned(), 1)].into(),
            ignored: [("heartbeat".to_owned(), 2)].into(),
            workers: 2,
            elapsed_seconds: 2.0,
            ..Summary::default()
        };
        summary.set_markers(3, 50);
        summary
    }

    #[test]
    fn json_has_the_promised_names() {
        let json: serde_json::Value = serde_json::from_str(&summary().json()).expect("JSON");
        assert_eq!(json["mutations_emitted"], 1_234_567);
        assert_eq!(json["reads_dropped"]["marker"], 3);
        assert_eq!(json["bytes_per_marker"], 16.67);
        assert_eq!(json["evidence"], "quiet");
        assert_eq!(json["outcome"], "ready");
        assert!(!summary().json().contains('\n'));
        let empty: serde_json::Value =
            serde_json::from_str(&Summary::default().json()).expect("JSON");
        assert!(empty["bytes_per_marker"].is_null());
    }

    #[test]
    fn the_table_has_every_count() {
        let table = summary().table();
        for part in [
            "1,234,567   617,283 a second",
            "4   (marker 3, superseded 1)",
            "3   16.67 bytes each",
            "2   (heartbeat 2)",
            "2.0 s on 2 workers",
        ] {
            assert!(table.contains(part), "{part} in\n{table}");
        }
        assert!(!table.contains("rule was off") && !table.contains("end-snapshot"));
        let endless = Summary {
            evidence: "none".to_owned(),
            ..summary()
        };
        assert!(endless.table().contains("headwater end-snapshot"));
        let sick = Summary {
            rule_off: true,
            ..summary()
        };
        assert!(sick.table().contains("rule was off"));
    }

    #[test]
    fn groups_thousands() {
        for (number, text) in [
            (0, "0"),
            (999, "999"),
            (1_000, "1,000"),
            (12_345_678, "12,345,678"),
        ] {
            assert_eq!(grouped(number), text);
        }
    }
}
