//! The scanner against serde_json: it takes what serde_json takes and refuses the rest.

use super::{Scanner, all_digits, special_bytes};
use proptest::prelude::{ProptestConfig, any, prop, prop_assert_eq, prop_oneof, proptest};
use proptest::strategy::{Just, Strategy};
use serde_json::value::RawValue;

fn takes(text: &[u8]) -> bool {
    let mut scanner = Scanner::new(text);
    scanner.value().is_ok() && scanner.end().is_ok()
}

/// serde_json also looks at what UTF-8 it is and at lone surrogates: not the scanner's business.
fn serde_takes(text: &str) -> bool {
    serde_json::from_str::<&RawValue>(text).is_ok()
}

#[test]
fn good_and_bad_texts() {
    for text in [
        "null",
        " true ",
        "-0.5e+10",
        "\"\"",
        "[]",
        "{}",
        "[1,[2,{\"a\":[]}],\"x\\\"]\"]",
        "{\"a\" : 1 , \"b\":{\"c\":null}}",
        "\"\\u00e9 \\\\ \"",
        "0",
        "123456789012345678901234",
    ] {
        assert!(takes(text.as_bytes()) && serde_takes(text), "{text}");
    }
    for text in [
        "",
        "nul",
        "{\"op\":\"u\",\"after\":{",
        "{\"a\":1",
        "{\"a\":1}}",
        "[1,]",
        "[1 2]",
        "{\"a\"}",
        "{\"a\":}",
        "{a:1}",
        "\"abc",
        "\"a\\\"",
        "\"a\nb\"",
        "01",
        "1.",
        "-",
        "1e",
        ".5",
        "[1}",
        "{]",
        "\"\\x\"",
        "\"\\u12\"",
        "{\"a\":1,}",
        "+1",
        "1 1",
        "\u{1}",
        "tru",
        "[",
        "{",
        "\"\\",
    ] {
        assert!(!takes(text.as_bytes()) && !serde_takes(text), "{text}");
    }
}

#[test]
fn deep_nesting_is_refused_not_overflown() {
    let deep = "[".repeat(1_000_000);
    let mut scanner = Scanner::new(deep.as_bytes());
    assert_eq!(scanner.value().unwrap_err().what, "nested too deep");
    let fits = format!("{}{}", "[".repeat(127), "]".repeat(127));
    assert!(takes(fits.as_bytes()));
}

#[test]
fn word_tricks() {
    for byte in 0..=255_u8 {
        let mut bytes = *b"1234x678";
        bytes[4] = byte;
        let found = special_bytes(u64::from_le_bytes(bytes));
        let special = byte < 0x20 || byte == b'"' || byte == b'\\';
        assert_eq!(found != 0, special, "{byte}");
        if special {
            assert_eq!(found.trailing_zeros() / 8, 4);
        }
        assert_eq!(all_digits(u64::from_le_bytes(bytes)), byte.is_ascii_digit());
    }
}

/// Pieces that JSON is made of, so that random texts are often nearly right.
fn nearly_json() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        Just("{".to_owned()),
        Just("}".to_owned()),
        Just("[".to_owned()),
        Just("]".to_owned()),
        Just(":".to_owned()),
        Just(",".to_owned()),
        Just("\"a\"".to_owned()),
        Just("1".to_owned()),
        Just("-2.5e7".to_owned()),
        Just("null".to_owned()),
        Just("\"k\":".to_owned()),
        Just("\"".to_owned()),
        Just("\\".to_owned()),
        Just(" ".to_owned()),
        Just("0".to_owned()),
        Just("long text of many bytes é".to_owned()),
    ];
    prop::collection::vec(piece, 0..16).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4096))]

    #[test]
    fn agrees_with_serde_json(text in nearly_json()) {
        prop_assert_eq!(takes(text.as_bytes()), serde_takes(&text), "{}", text);
    }

    #[test]
    fn never_panics(text in prop::collection::vec(any::<u8>(), 0..64)) {
        takes(&text);
    }
}
