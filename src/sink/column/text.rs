//! Text out of JSON, and array literals into it.
//!
//! It cannot read half a surrogate pair; that is an error.

use super::Cell;
use std::borrow::Cow;

/// The text of a raw JSON string; of anything else, as it stands.
pub(super) fn unquoted(raw: &str) -> Result<Cow<'_, str>, String> {
    let inside = raw.strip_prefix('"').and_then(|raw| raw.strip_suffix('"'));
    match inside {
        None => Ok(Cow::Borrowed(raw)),
        Some(inside) if !inside.contains('\\') => Ok(Cow::Borrowed(inside)),
        Some(_) => {
            let text = serde_json::from_str::<String>(raw);
            text.map(Cow::Owned)
                .map_err(|_| "text with a broken escape".to_owned())
        }
    }
}

/// A PostgreSQL array literal: every element quoted, NULL bare.
pub fn array_literal(cells: &[Cell<'_>]) -> String {
    let element = |cell: &Cell<'_>| match cell {
        Cell::Null => "NULL".to_owned(),
        Cell::Array(cells) => array_literal(cells),
        Cell::Bool(value) => value.to_string(),
        Cell::Bytes(bytes) => format!("\"\\{}\"", hex(bytes)),
        Cell::Text(text) | Cell::Number(text) => {
            let quoted = text.replace('\\', "\\\\").replace('"', "\\\"");
            format!("\"{quoted}\"")
        }
    };
    let elements: Vec<String> = cells.iter().map(element).collect();
    format!("{{{}}}", elements.join(","))
}

/// `\x` and hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut text = String::with_capacity(2 + 2 * bytes.len());
    text.push_str("\\x");
    for byte in bytes {
        text.push(char::from(DIGITS[usize::from(byte >> 4)]));
        text.push(char::from(DIGITS[usize::from(byte & 15)]));
    }
    text
}
