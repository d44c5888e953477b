//! Durations (`90s 15m 3d 500ms`), sizes (`512MiB`) and instants (RFC 3339) as they are written.
//!
//! Invariant: what is printed reads back as the same value. Nothing is guessed: a number without
//! its unit, or an instant without its offset from UTC, is refused.

use std::time::Duration;

/// A size in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ByteSize(pub u64);

const DURATIONS: [(&str, u64); 6] = [
    ("ms", 1),
    ("s", 1_000),
    ("m", 60_000),
    ("h", 3_600_000),
    ("d", 86_400_000),
    ("w", 604_800_000),
];

const SIZES: [(&str, u64); 9] = [
    ("B", 1),
    ("kB", 1_000),
    ("KiB", 1 << 10),
    ("MB", 1_000_000),
    ("MiB", 1 << 20),
    ("GB", 1_000_000_000),
    ("GiB", 1 << 30),
    ("TB", 1_000_000_000_000),
    ("TiB", 1 << 40),
];

/// Reads a duration in whole milliseconds; parts may follow each other: `1h30m`.
pub fn parse_duration(text: &str) -> Option<Duration> {
    sum_of_parts(text, &DURATIONS).map(Duration::from_millis)
}

/// Prints a duration, rounded down to milliseconds, in the largest unit that loses nothing.
pub fn print_duration(duration: Duration) -> String {
    let ms = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    // Weeks are read but not written: `21d` is what a person says.
    largest_unit(ms, &DURATIONS[..5], "s")
}

/// Reads a size.
pub fn parse_size(text: &str) -> Option<ByteSize> {
    sum_of_parts(text, &SIZES).map(ByteSize)
}

/// Prints a size in the largest binary unit that loses nothing.
pub fn print_size(size: ByteSize) -> String {
    let binary = [SIZES[0], SIZES[2], SIZES[4], SIZES[6], SIZES[8]];
    largest_unit(size.0, &binary, "B")
}

fn sum_of_parts(text: &str, units: &[(&str, u64)]) -> Option<u64> {
    let mut rest = text.trim();
    if rest.is_empty() {
        return None;
    }
    let mut sum: u64 = 0;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit())?;
        let number: u64 = rest[..digits].parse().ok()?;
        rest = rest[digits..].trim_start();
        let end = rest
            .find(|c: char| !c.is_ascii_alphabetic())
            .unwrap_or(rest.len());
        let (_, factor) = units.iter().find(|(name, _)| *name == &rest[..end])?;
        sum = sum.checked_add(number.checked_mul(*factor)?)?;
        rest = rest[end..].trim_start();
    }
    Some(sum)
}

fn largest_unit(value: u64, units: &[(&str, u64)], zero: &str) -> String {
    if value == 0 {
        return format!("0{zero}");
    }
    let (name, factor) = units
        .iter()
        .rev()
        .find(|(_, factor)| value.is_multiple_of(*factor))
        .expect("the smallest unit is 1");
    format!("{}{name}", value / factor)
}

/// Reads an RFC 3339 instant with its offset, as ms since 1970.
pub fn parse_instant(text: &str) -> Option<i64> {
    let parsed: toml::value::Datetime = text.trim().parse().ok()?;
    let (date, time) = (parsed.date?, parsed.time?);
    let offset_minutes = match parsed.offset? {
        toml::value::Offset::Z => 0,
        toml::value::Offset::Custom { minutes } => i64::from(minutes),
    };
    let days = days_from_civil(date.year.into(), date.month.into(), date.day.into());
    let minutes = (days * 24 + i64::from(time.hour)) * 60 + i64::from(time.minute);
    let seconds = (minutes - offset_minutes) * 60 + i64::from(time.second);
    Some(seconds * 1_000 + i64::from(time.nanosecond / 1_000_000))
}

/// Prints ms since 1970 as RFC 3339 in UTC.
pub fn print_instant(ms: i64) -> String {
    let (days, ms_of_day) = (ms.div_euclid(86_400_000), ms.rem_euclid(86_400_000));
    let (year, month, day) = civil_from_days(days);
    let (seconds, ms_of_second) = (ms_of_day / 1_000, ms_of_day % 1_000);
    let (hour, minute, second) = (seconds / 3_600, seconds / 60 % 60, seconds % 60);
    let fraction = if ms_of_second == 0 {
        String::new()
    } else {
        format!(".{ms_of_second:03}")
    };
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}{fraction}Z")
}

/// Days since 1970-01-01 in the proleptic Gregorian calendar (years from March, eras of 400).
fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

fn civil_from_days(days: i64) -> (i64, i64, i64) {
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let month = if shifted_month < 10 {
        shifted_month + 3
    } else {
        shifted_month - 9
    };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (year, month, day_of_year - (153 * shifted_month + 2) / 5 + 1)
}

#[cfg(test)]
mod tests {
    use super::{
        ByteSize, parse_duration, parse_instant, parse_size, print_duration, print_instant,
        print_size,
    };
    use proptest::prelude::{any, prop_assert_eq, proptest};
    use std::time::Duration;

    #[test]
    fn reads_durations() {
        for (text, ms) in [
            ("90s", 90_000),
            ("15m", 900_000),
            ("3d", 259_200_000),
            ("500ms", 500),
            ("1h30m", 5_400_000),
            ("0s", 0),
        ] {
            assert_eq!(
                parse_duration(text),
                Some(Duration::from_millis(ms)),
                "{text}"
            );
        }
        for bad in [
            "",
            "30",
            "s",
            "-3s",
            "3 parsecs",
            "1.5h",
            "3d4",
            "99999999999999999d",
            "3S",
        ] {
            assert_eq!(parse_duration(bad), None, "{bad}");
        }
    }

    #[test]
    fn reads_sizes_and_instants() {
        assert_eq!(parse_size("512MiB"), Some(ByteSize(512 << 20)));
        assert_eq!(parse_size("1 kB"), Some(ByteSize(1_000)));
        assert_eq!(parse_size("512"), None);
        assert_eq!(parse_size("512mib"), None);
        assert_eq!(parse_instant("1970-01-01T00:00:00Z"), Some(0));
        assert_eq!(
            parse_instant("2026-11-29T10:00:03+01:00"),
            Some(1_795_942_803_000)
        );
        assert_eq!(parse_instant("2026-11-29T10:00:03"), None, "no offset");
        assert_eq!(parse_instant("2026-11-29"), None);
        assert_eq!(print_instant(1_795_942_803_000), "2026-11-29T09:00:03Z");
    }

    proptest! {
        #[test]
        fn what_is_printed_reads_back(value in any::<u64>(), small in 0..5_000_000_u64) {
            for value in [value, small] {
                let duration = Duration::from_millis(value);
                prop_assert_eq!(parse_duration(&print_duration(duration)), Some(duration));
                let size = ByteSize(value);
                prop_assert_eq!(parse_size(&print_size(size)), Some(size));
            }
            // 1970 to 9999.
            let ms = i64::try_from(value % 253_402_300_800_000).expect("in range");
            prop_assert_eq!(parse_instant(&print_instant(ms)), Some(ms));
        }
    }
}
