//! Times of ISO texts and of Debezium's counts, as nanoseconds, and back to ISO text for SQL.
//!
//! The calendar is the proleptic Gregorian one; years have any number of digits and a sign. A text
//! that is no time gives `None`, never a guess.

use super::logical::Unit;
use std::fmt::Write;

const DAY_NS: i128 = 86_400_000_000_000;
const SECOND_NS: i128 = 1_000_000_000;

/// A point in time, or one of Postgres' two infinities.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Instant {
    /// `-infinity`.
    Earliest,
    /// Nanoseconds since 1970, or since midnight.
    Nanos(i128),
    /// `infinity`.
    Latest,
}

/// The instant of a count, with the sentinels of wire.md W14.
pub(crate) fn instant(count: i64, unit: Unit) -> Instant {
    let (latest, earliest) = match unit {
        Unit::Micro => (9_223_372_036_825_200_000, -9_223_372_036_832_400_000),
        Unit::Milli | Unit::Nano => (i64::MAX, i64::MIN),
    };
    match count {
        i64::MAX => Instant::Latest,
        i64::MIN => Instant::Earliest,
        count if count == latest => Instant::Latest,
        count if count == earliest => Instant::Earliest,
        count => Instant::Nanos(i128::from(count) * unit.nanos()),
    }
}

/// Days since 1970 of `2026-01-02` (`+` or `-` before the year; a `Z` may follow).
pub(crate) fn date(text: &str) -> Option<i64> {
    let text = text.strip_suffix('Z').unwrap_or(text);
    let negative = text.starts_with('-');
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    let mut parts = digits.split('-');
    let (year, month, day) = (parts.next()?, parts.next()?, parts.next()?);
    if parts.next().is_some() || year.len() < 4 {
        return None;
    }
    let year: i64 = number(year)?;
    let (month, day): (i64, i64) = (number(month)?, number(day)?);
    if !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    Some(days(if negative { -year } else { year }, month, day))
}

/// Nanoseconds since midnight of `02:04:05.678901`, with an offset if it has one taken off.
pub(crate) fn time(text: &str) -> Option<i128> {
    let (clock, offset_s) = split_offset(text)?;
    Some(clock_ns(clock)? - i128::from(offset_s) * SECOND_NS)
}

/// The instant of `2026-01-02T02:04:05.678901Z` or `infinity`.
pub(crate) fn timestamp(text: &str) -> Option<Instant> {
    match text {
        "infinity" => return Some(Instant::Latest),
        "-infinity" => return Some(Instant::Earliest),
        _ => {}
    }
    let (day, clock) = text.split_once(['T', ' '])?;
    let ns = i128::from(date(day)?) * DAY_NS + time(clock)?;
    Some(Instant::Nanos(ns))
}

fn number(text: &str) -> Option<i64> {
    let digits = (1..=9).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
    digits.then(|| text.parse().ok()).flatten()
}

fn split_offset(text: &str) -> Option<(&str, i64)> {
    if let Some(clock) = text.strip_suffix('Z') {
        return Some((clock, 0));
    }
    let Some(at) = text.rfind(['+', '-']) else {
        return Some((text, 0));
    };
    let (clock, offset) = text.split_at(at);
    let mut parts = offset[1..].split(':');
    let hours = number(parts.next()?)?;
    let minutes = parts.next().map_or(Some(0), number)?;
    let seconds = parts.next().map_or(Some(0), number)?;
    if parts.next().is_some() || hours > 18 || minutes > 59 || seconds > 59 {
        return None;
    }
    let all = hours * 3600 + minutes * 60 + seconds;
    Some((clock, if offset.starts_with('-') { -all } else { all }))
}

fn clock_ns(text: &str) -> Option<i128> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let mut parts = whole.split(':');
    let (hours, minutes) = (number(parts.next()?)?, number(parts.next()?)?);
    // ISO text of Java leaves out seconds that are zero.
    let seconds = parts.next().map_or(Some(0), number)?;
    if parts.next().is_some() || hours > 24 || minutes > 59 || seconds > 60 {
        return None;
    }
    let width = u32::try_from(fraction.len()).ok().filter(|n| *n <= 9)?;
    let fraction_ns = number(fraction)? * 10_i64.pow(9 - width);
    let seconds = hours * 3600 + minutes * 60 + seconds;
    Some(i128::from(seconds) * SECOND_NS + i128::from(fraction_ns))
}

/// Days since 1970 (Hinnant, "chrono-compatible low-level date algorithms").
fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

/// `2026-01-02` of days since 1970; years before 1 as Postgres writes them, with ` BC`.
pub(crate) fn date_text(days: i64) -> String {
    // Wide, as any count can stand in a record.
    let days = i128::from(days) + 719_468;
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = year_of_era + era * 400 + i128::from(month <= 2);
    if year < 1 {
        return format!("{:04}-{month:02}-{day:02} BC", 1 - year);
    }
    format!("{year:04}-{month:02}-{day:02}")
}

/// `02:04:05.678901` of nanoseconds since midnight; the fraction only as long as it must be.
pub(crate) fn time_text(ns: i128) -> String {
    let (seconds, fraction) = (ns.div_euclid(SECOND_NS), ns.rem_euclid(SECOND_NS));
    let (hours, minutes) = (seconds / 3600, seconds / 60 % 60);
    let mut text = format!("{hours:02}:{minutes:02}:{:02}", seconds % 60);
    if fraction != 0 {
        write!(text, ".{fraction:09}").expect("a String takes all text");
        text.truncate(text.trim_end_matches('0').len());
    }
    text
}

/// `2026-01-02 02:04:05.678901`, or Postgres' infinities.
pub(crate) fn timestamp_text(instant: Instant) -> String {
    let ns = match instant {
        Instant::Earliest => return "-infinity".to_owned(),
        Instant::Latest => return "infinity".to_owned(),
        Instant::Nanos(ns) => ns,
    };
    // i64 days: the counts are i64 of at least nanoseconds.
    let days = i64::try_from(ns.div_euclid(DAY_NS)).unwrap_or(i64::MAX / 2);
    let date = date_text(days);
    let clock = time_text(ns.rem_euclid(DAY_NS));
    match date.strip_suffix(" BC") {
        Some(date) => format!("{date} {clock} BC"),
        None => format!("{date} {clock}"),
    }
}

#[cfg(test)]
mod tests {
    use super::{
        Instant, Unit, date, date_text, instant, time, time_text, timestamp, timestamp_text,
    };

    #[test]
    fn dates_go_both_ways() {
        assert_eq!(date("1970-01-01"), Some(0));
        assert_eq!(date("2026-11-29"), Some(20_786));
        assert_eq!(date("2000-02-29"), Some(11_016));
        assert_eq!(date("0000-03-01"), Some(-719_468));
        for day in (-800_000..3_000_000).step_by(97) {
            let text = date_text(day);
            if !text.ends_with("BC") {
                assert_eq!(date(&text), Some(day), "{text}");
            }
        }
        assert_eq!(date_text(-719_468 - 60), "0001-01-01 BC");
        assert!(date_text(i64::MAX).starts_with("25252734927768524-"));
        assert!(date_text(i64::MIN).ends_with(" BC"));
        for bad in [
            "",
            "2026",
            "2026-13-01",
            "26-01-01",
            "2026-01-32",
            "2026-01-01-01",
            "x-1-1",
        ] {
            assert_eq!(date(bad), None, "{bad}");
        }
    }

    #[test]
    fn instants_are_compared_in_any_form() {
        let micros = instant(1_767_319_445_678_901, Unit::Micro);
        for text in [
            "2026-01-02T02:04:05.678901Z",
            "2026-01-02T02:04:05.678901000Z",
            "2026-01-02T03:34:05.678901+01:30",
            "2026-01-02 02:04:05.678901",
        ] {
            assert_eq!(timestamp(text), Some(micros), "{text}");
        }
        assert_eq!(timestamp_text(micros), "2026-01-02 02:04:05.678901");
        assert_eq!(timestamp("infinity"), Some(Instant::Latest));
        assert_eq!(
            instant(9_223_372_036_825_200_000, Unit::Micro),
            Instant::Latest
        );
        assert_eq!(instant(i64::MIN, Unit::Nano), Instant::Earliest);
        assert_eq!(time("10:20Z"), Some(37_200_000_000_000));
        assert_eq!(time_text(37_200_500_000_000), "10:20:00.5");
        for bad in [
            "",
            "2026-01-02",
            "2026-01-02T",
            "2026-01-02T25:00:00Z",
            "é-1-1T1:1",
        ] {
            assert_eq!(timestamp(bad), None, "{bad}");
        }
    }
}
