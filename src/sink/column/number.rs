//! Numbers as the wire holds them: unscaled big-endian decimals, little-endian bits, counts.
//!
//! It cannot round: digits come out as they went in.

use crate::key::encode::decimal_digits;

/// Zeros that a decimal's scale may add; Postgres' numeric has at most 16,383 after the point.
const SCALE_MAX: usize = 20_000;

/// A whole number.
pub(super) fn integer(raw: &str) -> Result<i64, String> {
    let raw = raw.trim_matches('"');
    raw.parse()
        .map_err(|_| "not a whole number of 64 bits".to_owned())
}

/// Unscaled two's complement, big-endian, as text with exactly `scale` digits after the point.
pub(super) fn decimal(unscaled: &[u8], scale: i32) -> Result<String, String> {
    let (negative, digits) = decimal_digits(unscaled)?;
    let mut digits = String::from_utf8(digits).map_err(|_| "digits were expected")?;
    let places = scale.unsigned_abs() as usize;
    if places > SCALE_MAX {
        return Err("a decimal whose scale is beyond 20,000".to_owned());
    }
    if scale < 0 {
        if digits != "0" {
            digits.extend(std::iter::repeat_n('0', places));
        }
    } else if places > 0 {
        if digits.len() <= places {
            digits.insert_str(0, &"0".repeat(places + 1 - digits.len()));
        }
        digits.insert(digits.len() - places, '.');
    }
    Ok(if negative {
        format!("-{digits}")
    } else {
        digits
    })
}

/// Bits, least significant byte first, as `0` and `1`, the most significant first.
pub(super) fn bits(bytes: &[u8], length: Option<usize>) -> String {
    let length = length.unwrap_or(bytes.len() * 8);
    let bit = |index: usize| match bytes.get(index / 8) {
        Some(byte) if byte >> (index % 8) & 1 == 1 => '1',
        _ => '0',
    };
    (0..length).rev().map(bit).collect()
}
