//! Heartbeats of the live connector. Pure.
//!
//! Invariant: what is no heartbeat is `None`.
//!
//! It cannot say how far the stream is: a heartbeat has the time at which the connector sent it, by
//! the connector's clock. One that reads a backlog sends them with the time of now among old
//! changes, so that they show a connector that lives and not one that has caught up.

use super::notice::{number, payload};

/// When the heartbeat in a record's value was sent, ms since 1970.
pub fn parse(value: &[u8]) -> Option<i64> {
    let payload = payload(value)?;
    let is_change = payload.get("op").is_some() || payload.get("aggregate_type").is_some();
    match is_change {
        true => None,
        false => number(payload.get("ts_ms")?).filter(|sent_ms| *sent_ms > 0),
    }
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn both_framings() {
        for (value, sent_ms) in [
            (r#"{"ts_ms":1795967577510}"#, Some(1_795_967_577_510)),
            (
                r#"{"schema":{"type":"struct","fields":[]},"payload":{"ts_ms":12}}"#,
                Some(12),
            ),
            (r#"{"schema":null,"payload":{"ts_ms":12}}"#, Some(12)),
            (r#"{"op":"c","ts_ms":12}"#, None),
            (r#"{"ts_ms":null}"#, None),
            ("null", None),
            ("", None),
            ("7", None),
        ] {
            assert_eq!(parse(value.as_bytes()), sent_ms, "{value}");
        }
    }
}
