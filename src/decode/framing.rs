//! Unwraps `{"schema": …, "payload": …}`, found per record and for key and value apart.
//!
//! An object is framed only when it has exactly these two members and `schema` is null or an object
//! with a member `type` (wire.md W1): else it is a row whose table has such columns. A schema that
//! was seen before is recognised by its bytes and not walked again.

use super::scan::{Broken, Scanner};

/// How keys or values are framed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Framing {
    /// Found out for each record.
    #[default]
    Auto,
    /// Never framed: for a table that has exactly the columns `schema` and `payload`.
    Bare,
}

const OPEN: &[u8] = b"{\"schema\":";
const THEN: &[u8] = b",\"payload\":";

/// A text, unwrapped as far as its payload, which the scanner stands before.
#[derive(Clone, Debug)]
pub(crate) struct Opened<'a> {
    /// The schema as it stands, `null` too; none when it is not framed.
    pub(crate) raw_schema: Option<&'a [u8]>,
    /// Before the payload.
    pub(crate) scanner: Scanner<'a>,
    closing: bool,
}

impl<'a> Opened<'a> {
    fn bare(text: &'a [u8]) -> Self {
        Opened {
            raw_schema: None,
            scanner: Scanner::new(text),
            closing: false,
        }
    }

    fn framed(schema: &'a [u8], text: &'a [u8], payload_at: usize, closing: bool) -> Self {
        Opened {
            raw_schema: Some(schema),
            scanner: Scanner::starting_at(text, payload_at),
            closing,
        }
    }

    /// The schema, if there is one that is not null.
    pub(crate) fn schema(&self) -> Option<&'a [u8]> {
        self.raw_schema.filter(|schema| *schema != b"null")
    }

    /// After the payload was taken: checks that nothing follows it.
    pub(crate) fn finish(&mut self) -> Result<(), Broken> {
        if self.closing {
            self.scanner
                .expect(b'}', "`}` was expected after the payload")?;
        }
        self.scanner.end()
    }
}

/// Unwraps `text`; `known` is the raw schema that the last one had.
pub(crate) fn open<'a>(
    text: &'a [u8],
    framing: Framing,
    known: Option<&[u8]>,
) -> Result<Opened<'a>, Broken> {
    if framing == Framing::Bare {
        return Ok(Opened::bare(text));
    }
    if let (Some(rest), Some(known)) = (text.strip_prefix(OPEN), known)
        && let Some(rest) = rest.strip_prefix(known)
        && let Some(payload) = rest.strip_prefix(THEN)
    {
        let schema = &text[OPEN.len()..OPEN.len() + known.len()];
        return Ok(Opened::framed(
            schema,
            text,
            text.len() - payload.len(),
            true,
        ));
    }
    open_slowly(text)
}

fn open_slowly(text: &[u8]) -> Result<Opened<'_>, Broken> {
    let mut scanner = Scanner::new(text);
    if scanner.peek() != b'{' {
        return Ok(Opened::bare(text));
    }
    let mut members = scanner.object()?;
    let (mut schema, mut payload) = (None, None);
    while let Some(name) = scanner.member(&mut members)? {
        match name {
            b"schema" if schema.is_none() => schema = Some(scanner.value()?),
            b"payload" if payload.is_none() => {
                scanner.peek();
                payload = Some(scanner.at());
                scanner.value()?;
            }
            // Anything else beside them: a row or an envelope, which is checked when it is read.
            _ => return Ok(Opened::bare(text)),
        }
    }
    scanner.end()?;
    match (schema, payload) {
        (Some(schema), Some(at)) if is_schema(schema)? => {
            // When the schema stands last, the payload's own end is not the text's.
            let last = schema.as_ptr() < text[at..].as_ptr();
            if last {
                return Ok(Opened::framed(schema, text, at, true));
            }
            let end = {
                let mut inner = Scanner::starting_at(text, at);
                inner.value()?;
                inner.at()
            };
            Ok(Opened::framed(schema, &text[..end], at, false))
        }
        _ => Ok(Opened::bare(text)),
    }
}

fn is_schema(schema: &[u8]) -> Result<bool, Broken> {
    if schema == b"null" {
        return Ok(true);
    }
    let mut scanner = Scanner::new(schema);
    if scanner.peek() != b'{' {
        return Ok(false);
    }
    let mut members = scanner.object()?;
    while let Some(name) = scanner.member(&mut members)? {
        if name == b"type" {
            return Ok(true);
        }
        scanner.value()?;
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::{Framing, Opened, open};

    fn payload(text: &str, framing: Framing, known: Option<&str>) -> (Option<String>, String) {
        let mut opened: Opened<'_> =
            open(text.as_bytes(), framing, known.map(str::as_bytes)).unwrap();
        let payload = opened.scanner.value().unwrap();
        opened.finish().unwrap();
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        (opened.schema().map(text), text(payload))
    }

    #[test]
    fn the_two_member_rule() {
        let schema = r#"{"type":"struct"}"#;
        for (text, want_schema, want) in [
            (r#"{"id":1}"#, None, r#"{"id":1}"#),
            (r#"{"schema":null,"payload":{"id":1}}"#, None, r#"{"id":1}"#),
            (r#"{"schema":null,"payload":null}"#, None, "null"),
            (
                r#"{"schema":{"type":"struct"},"payload":{"id":1}}"#,
                Some(schema),
                r#"{"id":1}"#,
            ),
            (
                r#"{ "payload" : {"id":1}, "schema":{"type":"struct"}}"#,
                Some(schema),
                r#"{"id":1}"#,
            ),
            ("7", None, "7"),
        ] {
            let found = payload(text, Framing::Auto, None);
            assert_eq!(found, (want_schema.map(str::to_owned), want.to_owned()));
            let again = payload(text, Framing::Auto, want_schema.or(Some("null")));
            assert_eq!(again, found);
        }
        // Rows of tables with such columns.
        for text in [
            r#"{"schema":"public","payload":"x"}"#,
            r#"{"schema":{"kind":"struct"},"payload":1}"#,
            r#"{"schema":null,"payload":1,"id":2}"#,
            r#"{"schema":null}"#,
        ] {
            assert_eq!(payload(text, Framing::Auto, None), (None, text.to_owned()));
        }
        let text = r#"{"schema":null,"payload":"x"}"#;
        assert_eq!(payload(text, Framing::Bare, None), (None, text.to_owned()));
    }

    #[test]
    fn what_follows_the_payload_is_looked_at() {
        for text in [
            r#"{"schema":{"type":"struct"},"payload":{"id":1}"#,
            r#"{"schema":{"type":"struct"},"payload":{"id":1}}}"#,
            r#"{"schema":{"type":"struct"},"payload":{"id":1},"x":1}"#,
        ] {
            let known = Some(&br#"{"type":"struct"}"#[..]);
            let mut opened = open(text.as_bytes(), Framing::Auto, known).unwrap();
            opened.scanner.value().unwrap();
            assert!(opened.finish().is_err(), "{text}");
        }
    }
}
