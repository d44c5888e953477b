//! Reads Rust source far enough to tell code from comments, strings and tests.
//!
//! Invariant: every blanked text has the length and the line ends of its original, so an offset
//! found in one is an offset in all.
//!
//! It is no parser: macros are seen as they are written, and a lifetime is told from a character
//! literal by looking two characters ahead.

/// One file of the repository.
#[derive(Debug)]
pub(crate) struct File {
    /// Path from the repository's root, with `/`.
    pub(crate) path: String,
    /// The text as it is.
    pub(crate) text: String,
    /// The text with comments and literals blanked (Rust only; else the text).
    pub(crate) code: String,
    /// The code with tests blanked as well; empty for a file that is a test as a whole.
    pub(crate) product: String,
}

impl File {
    /// A file from its path and text.
    pub(crate) fn new(path: &str, text: &str) -> Self {
        let rust = path.ends_with(".rs");
        let code = if rust { blank(text) } else { text.to_owned() };
        let product = if !rust || is_test(path) {
            String::new()
        } else {
            without_tests(&code)
        };
        Self {
            path: path.to_owned(),
            text: text.to_owned(),
            code,
            product,
        }
    }

    /// Whether this is Rust source.
    pub(crate) fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }

    /// One-based line of a byte offset.
    pub(crate) fn line(&self, offset: usize) -> usize {
        self.text[..offset].matches('\n').count() + 1
    }
}

/// Files that hold nothing but tests, benches or examples.
fn is_test(path: &str) -> bool {
    ["tests/", "benches/", "examples/"]
        .iter()
        .any(|folder| path.starts_with(folder) || path.contains(&format!("/{folder}")))
        || path.ends_with("/tests.rs")
}

/// Byte offsets at which `word` stands alone, not inside a longer identifier.
pub(crate) fn words(code: &str, word: &str) -> Vec<usize> {
    let bytes = code.as_bytes();
    let part = |at: usize| bytes.get(at).is_some_and(|&byte| is_identifier(byte));
    code.match_indices(word)
        .map(|(at, _)| at)
        .filter(|&at| (at == 0 || !part(at - 1)) && !part(at + word.len()))
        .collect()
}

/// Whether a byte can stand in an identifier.
pub(crate) fn is_identifier(byte: u8) -> bool {
    byte == b'_' || byte.is_ascii_alphanumeric()
}

/// Offset after the brace that closes the one at `open`, or the end.
pub(crate) fn closing(code: &str, open: usize) -> usize {
    let mut depth = 0_usize;
    for (at, byte) in code.bytes().enumerate().skip(open) {
        match byte {
            b'{' => depth += 1,
            b'}' if depth <= 1 => return at + 1,
            b'}' => depth -= 1,
            _ => {}
        }
    }
    code.len()
}

fn without_tests(code: &str) -> String {
    let mut bytes = code.as_bytes().to_vec();
    for (at, attribute) in code.match_indices("#[cfg(test)]") {
        let rest = &code[at + attribute.len()..];
        let brace = rest.find('{').unwrap_or(rest.len());
        let semicolon = rest.find(';').unwrap_or(rest.len());
        let start = at + attribute.len();
        let end = if semicolon < brace {
            start + semicolon
        } else {
            closing(code, start + brace)
        };
        erase(&mut bytes, at, end);
    }
    String::from_utf8(bytes).expect("only whole runs of bytes were replaced by spaces")
}

/// Source with comments, strings and character literals replaced by spaces.
pub(crate) fn blank(text: &str) -> String {
    let mut bytes = text.as_bytes().to_vec();
    let mut at = 0;
    while at < bytes.len() {
        let rest = &text.as_bytes()[at..];
        let end = at + literal_length(rest, at > 0 && is_identifier(text.as_bytes()[at - 1]));
        if end > at {
            erase(&mut bytes, at, end);
            at = end;
        } else {
            at += 1;
        }
    }
    String::from_utf8(bytes).expect("only whole literals and comments were replaced by spaces")
}

fn erase(bytes: &mut [u8], start: usize, end: usize) {
    for byte in &mut bytes[start..end] {
        if *byte != b'\n' {
            *byte = b' ';
        }
    }
}

/// Length of the comment or literal that `rest` starts with; 0 if it starts with code.
fn literal_length(rest: &[u8], in_identifier: bool) -> usize {
    let until = |needle: &[u8], from: usize| {
        let tail = rest.get(from..).unwrap_or_default();
        let found = tail
            .windows(needle.len())
            .position(|window| window == needle);
        found.map_or(rest.len(), |at| from + at + needle.len())
    };
    match rest {
        [b'/', b'/', ..] => until(b"\n", 2) - usize::from(rest.contains(&b'\n')),
        [b'/', b'*', ..] => block_comment(rest),
        [b'"', ..] => quoted(rest, b'"'),
        [b'\'', b'\\', ..] => quoted(rest, b'\''),
        [b'\'', first, ..] => {
            let width = match first {
                0..=0x7f => 1,
                0x80..=0xdf => 2,
                0xe0..=0xef => 3,
                _ => 4,
            };
            if rest.get(1 + width) == Some(&b'\'') {
                width + 2
            } else {
                0
            }
        }
        [b'r', b'"' | b'#', ..] if !in_identifier => {
            let hashes = rest[1..].iter().take_while(|&&byte| byte == b'#').count();
            if rest.get(1 + hashes) == Some(&b'"') {
                until(
                    &[b"\"".as_slice(), &b"#".repeat(hashes)].concat(),
                    2 + hashes,
                )
            } else {
                0
            }
        }
        [b'b', b'r', b'"' | b'#', ..] if !in_identifier => 1 + literal_length(&rest[1..], false),
        _ => 0,
    }
}

fn block_comment(rest: &[u8]) -> usize {
    let mut depth = 0_usize;
    let mut at = 0;
    while at + 1 < rest.len() {
        match &rest[at..at + 2] {
            b"/*" => depth += 1,
            b"*/" if depth == 1 => return at + 2,
            b"*/" => depth -= 1,
            _ => {
                at += 1;
                continue;
            }
        }
        at += 2;
    }
    rest.len()
}

fn quoted(rest: &[u8], quote: u8) -> usize {
    let mut at = 1;
    while at < rest.len() {
        match rest[at] {
            b'\\' => at += 2,
            byte if byte == quote => return at + 1,
            _ => at += 1,
        }
    }
    rest.len()
}
