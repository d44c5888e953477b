//! A record that cannot be decoded, on its way through the dataflow: the raw value, with what the
//! container has no column for.
//!
//! ```text
//! flags (1) | length of the reason (4, little endian) | reason | value
//! ```
//! Invariant: what comes out is what was put in. The reason holds no value of a row.
//!
//! It is not the form of the output: that has the same members as a line of JSON.

const KEY: u8 = 1;
const VALUE: u8 = 2;
const TABLE: u8 = 4;

/// See the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Letter<'a> {
    /// Why it cannot be decoded.
    pub reason: &'a str,
    /// Whether it has a key; else the key is null.
    pub has_key: bool,
    /// Whether its table is known.
    pub has_table: bool,
    /// The value as it came, which may be null.
    pub value: Option<&'a [u8]>,
}

impl<'a> Letter<'a> {
    /// As the value of a container's record.
    pub fn encode(&self) -> Vec<u8> {
        let flag = |set: bool, flag: u8| if set { flag } else { 0 };
        let value = self.value.unwrap_or_default();
        let length = u32::try_from(self.reason.len()).unwrap_or(u32::MAX);
        let mut bytes = vec![
            flag(self.has_key, KEY)
                | flag(self.value.is_some(), VALUE)
                | flag(self.has_table, TABLE),
        ];
        bytes.extend(length.to_le_bytes());
        bytes.extend_from_slice(self.reason.as_bytes());
        bytes.extend_from_slice(value);
        bytes
    }

    /// From that; none when it is none.
    pub fn decode(bytes: &'a [u8]) -> Option<Letter<'a>> {
        let (flags, rest) = bytes.split_first()?;
        let (length, rest) = rest.split_first_chunk::<4>()?;
        let length = usize::try_from(u32::from_le_bytes(*length)).ok()?;
        let (reason, value) = rest.split_at_checked(length)?;
        Some(Letter {
            reason: std::str::from_utf8(reason).ok()?,
            has_key: flags & KEY != 0,
            has_table: flags & TABLE != 0,
            value: (flags & VALUE != 0).then_some(value),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::Letter;

    #[test]
    fn a_letter_comes_out_as_it_was_put_in() {
        for reason in ["", "the value is not JSON"] {
            for (has_key, has_table) in [(false, false), (false, true), (true, false), (true, true)]
            {
                for value in [None, Some(&b""[..]), Some(b"{\xff")] {
                    let letter = Letter {
                        reason,
                        has_key,
                        has_table,
                        value,
                    };
                    let bytes = letter.encode();
                    assert_eq!(Letter::decode(&bytes), Some(letter));
                }
            }
        }
        for bytes in [&b""[..], b"\x07", b"\x07\x05\0\0\0abc"] {
            assert_eq!(Letter::decode(bytes), None);
        }
    }
}
