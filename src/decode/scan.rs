//! Walks JSON text without building anything: members by name, values skipped whole.
//!
//! Invariant: whatever was skipped was checked in full for structure (brackets, commas, colons,
//! strings closed, literals and numbers of the grammar), so text that is cut or mixed up never
//! passes. It cannot tell a member that comes twice; who asks for members decides about that.
//! UTF-8 is the caller's to check, once for the whole text.

/// Nesting beyond this is refused; Debezium's own envelopes nest 6 deep.
const DEPTH_MAX: u32 = 127;

const ONES: u64 = 0x0101_0101_0101_0101;
const HIGHS: u64 = 0x8080_8080_8080_8080;

/// What is wrong with a text, and at which byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Broken {
    /// Offset in the text.
    pub(crate) at: usize,
    /// In words.
    pub(crate) what: &'static str,
}

/// A place in a JSON text.
#[derive(Clone, Debug)]
pub(crate) struct Scanner<'a> {
    text: &'a [u8],
    at: usize,
}

impl<'a> Scanner<'a> {
    /// At the start of `text`.
    pub(crate) fn new(text: &'a [u8]) -> Self {
        Scanner { text, at: 0 }
    }

    /// At byte `at` of `text`.
    pub(crate) fn starting_at(text: &'a [u8], at: usize) -> Self {
        Scanner { text, at }
    }

    /// The whole text.
    pub(crate) fn text(&self) -> &'a [u8] {
        self.text
    }

    /// How far it is.
    pub(crate) fn at(&self) -> usize {
        self.at
    }

    /// A fault at the place where it is.
    #[cold]
    pub(crate) fn broken(&self, what: &'static str) -> Broken {
        Broken { at: self.at, what }
    }

    /// The next byte that is not white space; 0 at the end.
    #[inline]
    pub(crate) fn peek(&mut self) -> u8 {
        loop {
            match self.text.get(self.at) {
                Some(&byte) if byte > b' ' => return byte,
                Some(b' ' | b'\n' | b'\r' | b'\t') => self.at += 1,
                // Other control bytes are no white space; 1 is never the start of anything.
                Some(_) => return 1,
                None => return 0,
            }
        }
    }

    /// Steps over `byte` or fails with `what`.
    #[inline]
    pub(crate) fn expect(&mut self, byte: u8, what: &'static str) -> Result<(), Broken> {
        if self.peek() != byte {
            return Err(self.broken(what));
        }
        self.at += 1;
        Ok(())
    }

    /// Fails unless only white space is left.
    pub(crate) fn end(&mut self) -> Result<(), Broken> {
        match self.peek() {
            0 if self.at == self.text.len() => Ok(()),
            _ => Err(self.broken("text after the end of the value")),
        }
    }

    /// Starts an object. Follow with [`Scanner::member`] until it gives `None`.
    #[inline]
    pub(crate) fn object(&mut self) -> Result<Members, Broken> {
        self.expect(b'{', "an object was expected")?;
        Ok(Members { first: true })
    }

    /// The raw name of the next member, between its quotes; the scanner is then at its value,
    /// which must be taken or skipped before the next call. `None` when the object has ended.
    #[inline]
    pub(crate) fn member(&mut self, members: &mut Members) -> Result<Option<&'a [u8]>, Broken> {
        let byte = self.peek();
        if byte == b'}' {
            self.at += 1;
            return Ok(None);
        }
        if members.first {
            members.first = false;
        } else {
            if byte != b',' {
                return Err(self.broken("`,` or `}` was expected"));
            }
            self.at += 1;
        }
        self.name().map(Some)
    }

    #[inline]
    fn name(&mut self) -> Result<&'a [u8], Broken> {
        if self.peek() != b'"' {
            return Err(self.broken("a member name was expected"));
        }
        let start = self.at + 1;
        self.string()?;
        let name = &self.text[start..self.at - 1];
        if self.text.get(self.at) == Some(&b':') {
            self.at += 1;
        } else {
            self.expect(b':', "`:` was expected")?;
        }
        Ok(name)
    }

    /// Steps over one value and gives its text.
    #[inline]
    pub(crate) fn value(&mut self) -> Result<&'a [u8], Broken> {
        let first = self.peek();
        let start = self.at;
        match first {
            b'"' => self.string()?,
            b'{' | b'[' => self.nested()?,
            _ => self.scalar(first)?,
        }
        Ok(&self.text[start..self.at])
    }

    #[inline]
    fn scalar(&mut self, first: u8) -> Result<(), Broken> {
        match first {
            b'-' | b'0'..=b'9' => self.number(),
            b'n' => self.literal(b"null"),
            b't' => self.literal(b"true"),
            b'f' => self.literal(b"false"),
            0 => Err(self.broken("the text ends where a value was expected")),
            _ => Err(self.broken("a value was expected")),
        }
    }

    fn literal(&mut self, word: &'static [u8]) -> Result<(), Broken> {
        if !self.text[self.at..].starts_with(word) {
            return Err(self.broken("a value was expected"));
        }
        self.at += word.len();
        Ok(())
    }

    /// Steps over an object or array, its brackets on a stack of bits.
    fn nested(&mut self) -> Result<(), Broken> {
        let mut depth: u32 = 0;
        let mut objects: u128 = 0;
        loop {
            let first = self.peek();
            match first {
                b'"' => self.string()?,
                b'{' | b'[' => {
                    let object = first == b'{';
                    self.at += 1;
                    if self.peek() == if object { b'}' } else { b']' } {
                        self.at += 1;
                    } else {
                        if depth == DEPTH_MAX {
                            return Err(self.broken("nested too deep"));
                        }
                        depth += 1;
                        objects = (objects << 1) | u128::from(object);
                        if object {
                            self.name()?;
                        }
                        continue;
                    }
                }
                _ => self.scalar(first)?,
            }
            // A value has ended: on to the next one, or out of what it ends.
            loop {
                if depth == 0 {
                    return Ok(());
                }
                let object = objects & 1 == 1;
                match self.peek() {
                    b',' => {
                        self.at += 1;
                        if object {
                            self.name()?;
                        }
                        break;
                    }
                    b'}' if object => {}
                    b']' if !object => {}
                    0 => return Err(self.broken("the text ends inside an object or array")),
                    _ => return Err(self.broken("`,` or a closing bracket was expected")),
                }
                self.at += 1;
                depth -= 1;
                objects >>= 1;
            }
        }
    }

    /// Steps over a string, from its opening quote to past its closing one.
    #[inline]
    fn string(&mut self) -> Result<(), Broken> {
        let mut at = self.at + 1;
        loop {
            // Eight bytes at once until one of them is a quote, a backslash or a control byte.
            while let Some(word) = word_at(self.text, at) {
                let special = special_bytes(word);
                if special != 0 {
                    at += (special.trailing_zeros() / 8) as usize;
                    break;
                }
                at += 8;
            }
            match self.text.get(at) {
                Some(b'"') => {
                    self.at = at + 1;
                    return Ok(());
                }
                Some(b'\\') => at = self.escape(at)?,
                Some(0..=0x1f) => {
                    self.at = at;
                    return Err(self.broken("a control character inside a string"));
                }
                Some(_) => at += 1,
                None => {
                    self.at = self.text.len();
                    return Err(self.broken("the text ends inside a string"));
                }
            }
        }
    }

    /// The place after the escape that begins at `at`.
    fn escape(&mut self, at: usize) -> Result<usize, Broken> {
        self.at = at;
        match self.text.get(at + 1) {
            Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => Ok(at + 2),
            Some(b'u') => match self.text.get(at + 2..at + 6) {
                Some(hex) if hex.iter().all(u8::is_ascii_hexdigit) => Ok(at + 6),
                _ => Err(self.broken("a bad \\u escape in a string")),
            },
            Some(_) => Err(self.broken("a bad escape in a string")),
            None => Err(self.broken("the text ends inside a string")),
        }
    }

    fn number(&mut self) -> Result<(), Broken> {
        if self.text.get(self.at) == Some(&b'-') {
            self.at += 1;
        }
        if self.text.get(self.at) == Some(&b'0') {
            self.at += 1;
        } else {
            self.digits()?;
        }
        if self.text.get(self.at) == Some(&b'.') {
            self.at += 1;
            self.digits()?;
        }
        if let Some(b'e' | b'E') = self.text.get(self.at) {
            self.at += 1;
            if let Some(b'+' | b'-') = self.text.get(self.at) {
                self.at += 1;
            }
            self.digits()?;
        }
        Ok(())
    }

    #[inline]
    fn digits(&mut self) -> Result<(), Broken> {
        let start = self.at;
        while let Some(word) = word_at(self.text, self.at) {
            if !all_digits(word) {
                break;
            }
            self.at += 8;
        }
        while let Some(b'0'..=b'9') = self.text.get(self.at) {
            self.at += 1;
        }
        if self.at == start {
            return Err(self.broken("a digit was expected"));
        }
        Ok(())
    }
}

/// Where [`Scanner::member`] is in an object.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Members {
    first: bool,
}

#[inline]
fn word_at(text: &[u8], at: usize) -> Option<u64> {
    let bytes = text.get(at..)?.first_chunk::<8>()?;
    Some(u64::from_le_bytes(*bytes))
}

/// The high bit of each byte that is a quote, a backslash or below 0x20. Bits above the lowest one
/// set may be wrong (a borrow runs upwards), the lowest is exact.
#[inline]
fn special_bytes(word: u64) -> u64 {
    let quote = word ^ (ONES * u64::from(b'"'));
    let backslash = word ^ (ONES * u64::from(b'\\'));
    let found = (quote.wrapping_sub(ONES) & !quote)
        | (backslash.wrapping_sub(ONES) & !backslash)
        | (word.wrapping_sub(ONES * 0x20) & !word);
    found & HIGHS
}

/// Whether all eight bytes are decimal digits.
#[inline]
fn all_digits(word: u64) -> bool {
    let low_too_big = word.wrapping_add(ONES * 6);
    (word | low_too_big) & (ONES * 0xf0) == ONES * 0x30 && word & (ONES * 0xf0) == ONES * 0x30
}

#[cfg(test)]
mod tests;
