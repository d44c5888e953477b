//! One value of a key into its canonical bytes; bytes of two values of a class order as they do.
//!
//! A value is its class code, then
//! * numbers: sign, exponent and decimal digits without zeros at either end, so `1`, `1.00` and the
//!   decimal of unscaled 10 and scale 1 are one; never through a float;
//! * text, uuid, bytes: the bytes, 0x00 as 0x00 0xff, ended by 0x00;
//! * bool: 0 or 1;
//! * times: their nanoseconds (dates: days) as a number.
//!
//! No value's bytes are the start of another's, so a tuple is their concatenation.

use super::Class;
use super::logical::Logical;
use super::time::{self, Instant};
use crate::decode::scan::Scanner;
use crate::decode::text::{quoted, unescape};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use std::io::Write;

const EARLIEST: u8 = 1;
const NEGATIVE: u8 = 2;
const ZERO: u8 = 3;
const POSITIVE: u8 = 4;
const LATEST: u8 = 5;

/// Decimals of more bytes than this are refused: Postgres' numeric has up to 147,455 digits, but no
/// key has, and the conversion to digits is quadratic.
const UNSCALED_BYTES_MAX: usize = 1024;

/// Appends `raw`, a value of type `logical`, to `out`.
///
/// # Errors
/// In words, what the value is not.
pub(crate) fn put(raw: &[u8], logical: Logical, out: &mut Vec<u8>) -> Result<(), &'static str> {
    let class = logical.class().ok_or("an array, map or struct is no key")?;
    out.push(class as u8);
    match logical {
        Logical::Number => put_number(raw, out),
        Logical::Text => put_text(raw, out),
        Logical::Bool => put_bool(raw, out),
        Logical::Bytes => {
            put_bytes(&base64_of(raw)?, out);
            Ok(())
        }
        Logical::Uuid => {
            let folded = string(raw)?.to_ascii_lowercase();
            put_bytes(folded.as_bytes(), out);
            Ok(())
        }
        Logical::Decimal { scale } => put_unscaled(&base64_of(raw)?, scale, out),
        Logical::VariableDecimal => {
            let (unscaled, scale) = variable_decimal(raw)?;
            put_unscaled(&unscaled, scale, out)
        }
        _ => {
            put_instant(instant_of(raw, logical)?, out);
            Ok(())
        }
    }
}

/// The text of a raw string.
pub(crate) fn string(raw: &[u8]) -> Result<std::borrow::Cow<'_, str>, &'static str> {
    let inside = quoted(raw).ok_or("a string was expected")?;
    let inside = std::str::from_utf8(inside).map_err(|_| "text that is not UTF-8")?;
    unescape(inside).ok_or("an escape that is no character")
}

/// The bytes of a raw base64 string.
pub(crate) fn base64_of(raw: &[u8]) -> Result<Vec<u8>, &'static str> {
    STANDARD
        .decode(string(raw)?.as_bytes())
        .map_err(|_| "base64 was expected")
}

/// The instant of a value whose type is a time; dates count days, not nanoseconds.
pub(crate) fn instant_of(raw: &[u8], logical: Logical) -> Result<Instant, &'static str> {
    let text = || string(raw).map_err(|_| "ISO text was expected");
    let bad = "a date or time in ISO form was expected";
    Ok(match logical {
        Logical::Date => Instant::Nanos(i128::from(int(raw)?)),
        Logical::Time(unit) => Instant::Nanos(i128::from(int(raw)?) * unit.nanos()),
        Logical::Timestamp(unit) => time::instant(int(raw)?, unit),
        Logical::IsoDate => Instant::Nanos(i128::from(time::date(&text()?).ok_or(bad)?)),
        Logical::IsoTime | Logical::ZonedTime => Instant::Nanos(time::time(&text()?).ok_or(bad)?),
        Logical::IsoTimestamp | Logical::ZonedTimestamp => time::timestamp(&text()?).ok_or(bad)?,
        _ => return Err("a date or time was expected"),
    })
}

fn int(raw: &[u8]) -> Result<i64, &'static str> {
    let text = std::str::from_utf8(raw).map_err(|_| "an integer was expected")?;
    text.parse().map_err(|_| "an integer was expected")
}

/// The unscaled bytes and scale of `{"scale": n, "value": base64}`, and of nothing else.
pub(crate) fn variable_decimal(raw: &[u8]) -> Result<(Vec<u8>, i32), &'static str> {
    const WRONG: &str = "an object that is no {\"scale\": …, \"value\": …} is no key";
    let mut scanner = Scanner::new(raw);
    let (mut scale, mut value) = (None, None);
    let mut members = scanner.object().map_err(|_| WRONG)?;
    while let Some(name) = scanner.member(&mut members).map_err(|_| WRONG)? {
        let raw = scanner.value().map_err(|_| WRONG)?;
        match name {
            b"scale" => scale = Some(i32::try_from(int(raw)?).map_err(|_| WRONG)?),
            b"value" => value = Some(base64_of(raw)?),
            _ => return Err(WRONG),
        }
    }
    value.zip(scale).ok_or(WRONG)
}

fn put_text(raw: &[u8], out: &mut Vec<u8>) -> Result<(), &'static str> {
    let inside = quoted(raw).ok_or("a string was expected")?;
    // Neither a NUL nor an escape: the bytes as they stand.
    if memchr::memchr2(b'\\', 0, inside).is_none() {
        out.extend_from_slice(inside);
        out.push(0);
    } else {
        put_bytes(string(raw)?.as_bytes(), out);
    }
    Ok(())
}

fn put_bytes(bytes: &[u8], out: &mut Vec<u8>) {
    for &byte in bytes {
        out.push(byte);
        if byte == 0 {
            out.push(0xff);
        }
    }
    out.push(0);
}

fn put_bool(raw: &[u8], out: &mut Vec<u8>) -> Result<(), &'static str> {
    out.push(match raw {
        b"true" => 1,
        b"false" => 0,
        _ => return Err("true or false was expected"),
    });
    Ok(())
}

fn put_instant(instant: Instant, out: &mut Vec<u8>) {
    match instant {
        Instant::Earliest => out.push(EARLIEST),
        Instant::Latest => out.push(LATEST),
        Instant::Nanos(ns) => {
            let mut digits = [0_u8; 40];
            let mut left = &mut digits[..];
            write!(left, "{}", ns.unsigned_abs()).expect("39 digits are the most of a u128");
            let used = 40 - left.len();
            put_digits(ns < 0, &digits[..used], &[], 0, out)
                .expect("an exponent of at most 39 is in range");
        }
    }
}

/// Appends a number in JSON's grammar.
fn put_number(raw: &[u8], out: &mut Vec<u8>) -> Result<(), &'static str> {
    const WRONG: &str = "a number was expected";
    let negative = raw.first() == Some(&b'-');
    let rest = &raw[usize::from(negative)..];
    let whole = digits_of(rest);
    let mut rest = &rest[whole.len()..];
    let mut fraction = &rest[..0];
    if let Some(tail) = rest.strip_prefix(b".") {
        fraction = digits_of(tail);
        rest = &tail[fraction.len()..];
    }
    let mut exponent = 0;
    if let Some(tail) = rest.strip_prefix(b"e").or_else(|| rest.strip_prefix(b"E")) {
        let text = std::str::from_utf8(tail).map_err(|_| WRONG)?;
        exponent = text
            .parse::<i32>()
            .map_err(|_| "the exponent is too large")?;
        rest = &[];
    }
    if whole.is_empty() || !rest.is_empty() {
        return Err(WRONG);
    }
    put_digits(negative, whole, fraction, i64::from(exponent), out)
}

fn digits_of(text: &[u8]) -> &[u8] {
    let end = text.iter().position(|byte| !byte.is_ascii_digit());
    &text[..end.unwrap_or(text.len())]
}

/// Appends `whole.fraction * 10^exponent`: 0.DIGITS * 10^e with no zero at either end of DIGITS.
fn put_digits(
    negative: bool,
    whole: &[u8],
    fraction: &[u8],
    exponent: i64,
    out: &mut Vec<u8>,
) -> Result<(), &'static str> {
    let significant = |digits: &[u8]| digits.iter().any(|digit| *digit != b'0');
    let fraction = if significant(fraction) { fraction } else { &[] };
    let whole_start = whole.iter().position(|digit| *digit != b'0');
    let (first, second, lead) = match whole_start {
        Some(start) => (&whole[start..], fraction, start),
        None => match fraction.iter().position(|digit| *digit != b'0') {
            Some(start) => (&fraction[start..], &[][..], whole.len() + start),
            None => {
                out.push(ZERO);
                return Ok(());
            }
        },
    };
    let exponent = exponent + whole.len() as i64 - lead as i64;
    let exponent = i32::try_from(exponent).map_err(|_| "the exponent is too large")?;
    out.push(if negative { NEGATIVE } else { POSITIVE });
    let start = out.len();
    // Flipped top bit: negative exponents order below positive ones.
    out.extend_from_slice(&((exponent as u32) ^ 0x8000_0000).to_be_bytes());
    out.extend_from_slice(first);
    out.extend_from_slice(second);
    while out.last() == Some(&b'0') {
        out.pop();
    }
    out.push(0);
    if negative {
        for byte in &mut out[start..] {
            *byte = !*byte;
        }
    }
    Ok(())
}

/// Appends a decimal given as big-endian two's complement.
fn put_unscaled(unscaled: &[u8], scale: i32, out: &mut Vec<u8>) -> Result<(), &'static str> {
    let (negative, digits) = decimal_digits(unscaled)?;
    put_digits(negative, &digits, &[], -i64::from(scale), out)
}

/// Sign and decimal digits of big-endian two's complement bytes.
pub(crate) fn decimal_digits(unscaled: &[u8]) -> Result<(bool, Vec<u8>), &'static str> {
    let first = *unscaled
        .first()
        .ok_or("a decimal of no bytes is no number")?;
    if unscaled.len() > UNSCALED_BYTES_MAX {
        return Err("a decimal of more than 1024 bytes");
    }
    let negative = first & 0x80 != 0;
    if unscaled.len() <= 16 {
        let mut wide = [if negative { 0xff } else { 0 }; 16];
        wide[16 - unscaled.len()..].copy_from_slice(unscaled);
        let value = i128::from_be_bytes(wide);
        return Ok((negative, value.unsigned_abs().to_string().into_bytes()));
    }
    let mut magnitude = unscaled.to_vec();
    if negative {
        let mut carry = true;
        for byte in magnitude.iter_mut().rev() {
            let (sum, over) = (!*byte).overflowing_add(u8::from(carry));
            (*byte, carry) = (sum, over);
        }
    }
    // Long division by ten, a byte at a time; the digits come out last first.
    let mut digits = Vec::new();
    let mut start = 0;
    while start < magnitude.len() {
        let mut rest = 0_u16;
        for byte in &mut magnitude[start..] {
            let value = (rest << 8) | u16::from(*byte);
            *byte = (value / 10) as u8;
            rest = value % 10;
        }
        digits.push(b'0' + rest as u8);
        start += magnitude[start..]
            .iter()
            .take_while(|byte| **byte == 0)
            .count();
    }
    digits.reverse();
    Ok((negative, digits))
}

/// Whether a class needs a schema to be told from a plain JSON value.
pub(crate) fn needs_schema(class: Class) -> bool {
    !matches!(class, Class::Number | Class::Text | Class::Bool)
}

#[cfg(test)]
mod tests;
