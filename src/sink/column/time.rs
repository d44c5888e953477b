//! Counts since 1970 and since midnight, as ISO text. Years before 1 end in ` BC`, as SQL has it.
//!
//! It cannot know time zones: all of these are without one.

/// What Debezium writes for ±infinity, in microseconds and in 64-bit limits (W14).
const INFINITY_US: i64 = 9_223_372_036_825_200_000;
const MINUS_INFINITY_US: i64 = -9_223_372_036_832_400_000;

/// A day, of days since 1970-01-01.
pub(super) fn date(days: i64) -> String {
    let (day, before) = day(days);
    day + before
}

/// A time of day, of milliseconds.
pub(super) fn of_ms(count: i64) -> String {
    clock(i128::from(count) * 1_000_000)
}

/// A time of day, of microseconds.
pub(super) fn of_us(count: i64) -> String {
    clock(i128::from(count) * 1_000)
}

/// A time of day, of nanoseconds.
pub(super) fn of_ns(count: i64) -> String {
    clock(i128::from(count))
}

/// A timestamp, of milliseconds.
pub(super) fn at_ms(count: i64) -> String {
    infinite(count).unwrap_or_else(|| stamp(i128::from(count) * 1_000_000))
}

/// A timestamp, of microseconds.
pub(super) fn at_us(count: i64) -> String {
    infinite(count).unwrap_or_else(|| stamp(i128::from(count) * 1_000))
}

/// A timestamp, of nanoseconds.
pub(super) fn at_ns(count: i64) -> String {
    infinite(count).unwrap_or_else(|| stamp(i128::from(count)))
}

/// An interval, of microseconds.
pub(super) fn duration(count: i64) -> String {
    format!("{count} microseconds")
}

fn infinite(count: i64) -> Option<String> {
    match count {
        i64::MAX | INFINITY_US => Some("infinity".to_owned()),
        i64::MIN | MINUS_INFINITY_US => Some("-infinity".to_owned()),
        _ => None,
    }
}

const DAY_NS: i128 = 86_400_000_000_000;

fn stamp(ns: i128) -> String {
    let days = i64::try_from(ns.div_euclid(DAY_NS)).expect("64 bits of anything are fewer days");
    let (day, before) = day(days);
    format!("{day} {}{before}", clock(ns.rem_euclid(DAY_NS)))
}

fn clock(ns: i128) -> String {
    let (seconds, fraction) = (ns.div_euclid(1_000_000_000), ns.rem_euclid(1_000_000_000));
    let (hours, minutes) = (seconds / 3600, seconds / 60 % 60);
    let mut text = format!("{hours:02}:{minutes:02}:{:02}", seconds % 60);
    if fraction != 0 {
        text.push_str(format!(".{fraction:09}").trim_end_matches('0'));
    }
    text
}

/// Year, month and day of the Gregorian calendar (Howard Hinnant's `civil_from_days`).
fn day(days: i64) -> (String, &'static str) {
    let shifted = i128::from(days) + 719_468;
    let era = shifted.div_euclid(146_097);
    let of_era = shifted.rem_euclid(146_097);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_index = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month_index + 2) / 5 + 1;
    let month = if month_index < 10 {
        month_index + 3
    } else {
        month_index - 9
    };
    let year = year_of_era + era * 400 + i128::from(month <= 2);
    let (year, before) = if year > 0 {
        (year, "")
    } else {
        (1 - year, " BC")
    };
    (format!("{year:04}-{month:02}-{day:02}"), before)
}
