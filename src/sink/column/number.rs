//! Numbers as the wire holds them: unscaled big-endian decimals, little-endian bits, counts.
//!
//! It cannot round: digits come out as they went in.

/// A whole number.
pub(super) fn integer(raw: &str) -> Result<i64, String> {
    let raw = raw.trim_matches('"');
    raw.parse()
        .map_err(|_| "not a whole number of 64 bits".to_owned())
}

/// Unscaled two's complement, big-endian, as decimal digits.
pub(super) fn decimal(unscaled: &[u8], scale: i32) -> Result<String, String> {
    let Some(first) = unscaled.first() else {
        return Err("a decimal of zero bytes".to_owned());
    };
    let negative = first & 0x80 != 0;
    let mut rest: Vec<u8> = unscaled.to_vec();
    if negative {
        let mut carry = true;
        for byte in rest.iter_mut().rev() {
            (*byte, carry) = (!*byte).overflowing_add(u8::from(carry));
        }
    }
    let mut digits = Vec::new();
    while rest.iter().any(|byte| *byte != 0) {
        let mut remainder = 0_u16;
        for byte in &mut rest {
            let value = remainder << 8 | u16::from(*byte);
            *byte = u8::try_from(value / 10).expect("the remainder is below 10");
            remainder = value % 10;
        }
        digits.push(b'0' + u8::try_from(remainder).expect("below 10"));
    }
    Ok(placed(digits, negative, scale))
}

/// Puts the sign and the point to digits, the last of which comes first.
fn placed(mut digits: Vec<u8>, negative: bool, scale: i32) -> String {
    let places = usize::try_from(scale.max(0)).expect("not negative");
    while digits.len() <= places {
        digits.push(b'0');
    }
    let mut text = String::new();
    if negative {
        text.push('-');
    }
    for (index, digit) in digits.iter().enumerate().rev() {
        text.push(char::from(*digit));
        if index == places && places > 0 {
            text.push('.');
        }
    }
    let zeros = usize::try_from(scale.min(0).unsigned_abs()).expect("32 bits");
    if digits.iter().any(|digit| *digit != b'0') {
        text.extend(std::iter::repeat_n('0', zeros));
    }
    text
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
