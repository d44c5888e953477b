//! Whether a row holds Debezium's *unavailable value*: a column that an UPDATE did not change and
//! that the log does not carry (wire.md W11; Debezium, "Toasted values").
//!
//! It looks for the default placeholder in all its forms anywhere in the row. It cannot tell it
//! from a text that happens to hold the same words, nor see one that was configured otherwise.

use memchr::memmem::Finder;

/// As text, as base64 of it, as an array of its codes, as its name-UUID.
const FORMS: [&str; 4] = [
    "__debezium_unavailable_value",
    "X19kZWJleml1bV91bmF2YWlsYWJsZV92YWx1ZQ==",
    "[95,95,100,101,98,101,122,105,117,109,95,117,110,97,118,97,105,108,97,98,108,101,95,118,97",
    "b68a35a7-17ad-35b3-af2a-ae46edb4545a",
];

/// Finds placeholders.
#[derive(Clone, Debug)]
pub struct Placeholders {
    forms: [Finder<'static>; 4],
}

impl Default for Placeholders {
    fn default() -> Self {
        Placeholders {
            forms: FORMS.map(Finder::new),
        }
    }
}

impl Placeholders {
    /// Whether `value` holds one.
    pub fn are_in(&self, value: &[u8]) -> bool {
        self.forms.iter().any(|form| form.find(value).is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::Placeholders;

    #[test]
    fn every_form_is_found_and_nothing_else() {
        let placeholders = Placeholders::default();
        for found in [
            r#"{"after":{"id":1,"doc":"__debezium_unavailable_value"}}"#,
            r#"{"tags":["__debezium_unavailable_value"]}"#,
            r#"{"bin":"X19kZWJleml1bV91bmF2YWlsYWJsZV92YWx1ZQ=="}"#,
            r#"{"ids":["b68a35a7-17ad-35b3-af2a-ae46edb4545a"]}"#,
        ] {
            assert!(placeholders.are_in(found.as_bytes()), "{found}");
        }
        assert!(!placeholders.are_in(br#"{"after":{"id":1,"doc":"debezium"}}"#));
    }
}
