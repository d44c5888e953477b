//! JSON strings as text: escapes undone, only when there are any.
//!
//! Works on strings that the scanner has passed. A lone surrogate is no text and is refused.

use std::borrow::Cow;

/// The text of a raw string, given without its quotes; `None` when an escape is no character.
pub(crate) fn unescape(raw: &str) -> Option<Cow<'_, str>> {
    let Some(first) = memchr::memchr(b'\\', raw.as_bytes()) else {
        return Some(Cow::Borrowed(raw));
    };
    let mut text = String::with_capacity(raw.len());
    text.push_str(&raw[..first]);
    let mut rest = &raw[first..];
    while let Some(tail) = rest.strip_prefix('\\') {
        let (character, used) = escaped(tail)?;
        text.push(character);
        let tail = &tail[used..];
        let next = memchr::memchr(b'\\', tail.as_bytes()).unwrap_or(tail.len());
        text.push_str(&tail[..next]);
        rest = &tail[next..];
    }
    Some(Cow::Owned(text))
}

/// The character of an escape, given without its backslash, and how many bytes it took.
fn escaped(tail: &str) -> Option<(char, usize)> {
    let character = match tail.as_bytes().first()? {
        b'"' => '"',
        b'\\' => '\\',
        b'/' => '/',
        b'b' => '\u{8}',
        b'f' => '\u{c}',
        b'n' => '\n',
        b'r' => '\r',
        b't' => '\t',
        b'u' => return unicode(tail),
        _ => return None,
    };
    Some((character, 1))
}

fn unicode(tail: &str) -> Option<(char, usize)> {
    let unit = |from: usize| u32::from_str_radix(tail.get(from..from + 4)?, 16).ok();
    let high = unit(1)?;
    if !(0xd800..0xdc00).contains(&high) {
        return Some((char::from_u32(high)?, 5));
    }
    if tail.get(5..7) != Some("\\u") {
        return None;
    }
    let low = unit(7)?.checked_sub(0xdc00).filter(|low| *low < 0x400)?;
    let code = 0x1_0000 + ((high - 0xd800) << 10) + low;
    Some((char::from_u32(code)?, 11))
}

/// The inside of a raw value that is a string, escapes not undone.
pub(crate) fn quoted(raw: &[u8]) -> Option<&[u8]> {
    raw.strip_prefix(b"\"")?.strip_suffix(b"\"")
}

#[cfg(test)]
mod tests {
    use super::unescape;

    #[test]
    fn escapes_are_undone() {
        assert_eq!(unescape("plain é").as_deref(), Some("plain é"));
        let raw = r#"a\"b\\c\/\b\f\n\r\t\u00e9\ud83d\ude00z"#;
        assert_eq!(
            unescape(raw).as_deref(),
            Some("a\"b\\c/\u{8}\u{c}\n\r\té😀z")
        );
        assert_eq!(unescape(r"\ud83d"), None);
        assert_eq!(unescape(r"\ud83d\u0041"), None);
        assert_eq!(unescape(r"\ude00"), None);
        assert_eq!(unescape(r"\u12"), None);
    }
}
