//! Counts since 1970 and since midnight, as ISO text. Years before 1 end in ` BC`, as SQL has it.
//!
//! It cannot know time zones: all of these are without one.

use crate::key::logical::Unit;
use crate::key::time::{date_text, instant, time_text, timestamp_text};

/// A day, of days since 1970-01-01.
pub(super) fn date(days: i64) -> String {
    date_text(days)
}

/// A time of day, of milliseconds.
pub(super) fn of_ms(count: i64) -> String {
    of(count, Unit::Milli)
}

/// A time of day, of microseconds.
pub(super) fn of_us(count: i64) -> String {
    of(count, Unit::Micro)
}

/// A time of day, of nanoseconds.
pub(super) fn of_ns(count: i64) -> String {
    of(count, Unit::Nano)
}

/// A timestamp, of milliseconds.
pub(super) fn at_ms(count: i64) -> String {
    timestamp_text(instant(count, Unit::Milli))
}

/// A timestamp, of microseconds.
pub(super) fn at_us(count: i64) -> String {
    timestamp_text(instant(count, Unit::Micro))
}

/// A timestamp, of nanoseconds.
pub(super) fn at_ns(count: i64) -> String {
    timestamp_text(instant(count, Unit::Nano))
}

/// An interval, of microseconds.
pub(super) fn duration(count: i64) -> String {
    format!("{count} microseconds")
}

fn of(count: i64, unit: Unit) -> String {
    time_text(i128::from(count) * unit.nanos())
}
