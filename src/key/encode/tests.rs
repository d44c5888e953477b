//! Canonical values: equal by value, ordered as the values are, never one the start of another.

use super::super::logical::Unit;
use super::{Logical, put};
use proptest::prelude::{ProptestConfig, any, prop_assert_eq, proptest};

fn bytes(raw: &str, logical: Logical) -> Vec<u8> {
    let mut out = Vec::new();
    put(raw.as_bytes(), logical, &mut out).unwrap_or_else(|what| panic!("{raw}: {what}"));
    out
}

fn number(raw: &str) -> Vec<u8> {
    bytes(raw, Logical::Number)
}

fn fails(raw: &str, logical: Logical) -> bool {
    put(raw.as_bytes(), logical, &mut Vec::new()).is_err()
}

#[test]
fn numbers_are_equal_by_value() {
    for same in [
        &["1", "1.0", "1.00", "1e0", "0.1e1", "10E-1", "100e-2"][..],
        &["0", "-0", "0.0", "-0.000", "0e99"],
        &["-2.50", "-2.5", "-25e-1"],
        &["12345678901234567890", "1234567890123456789e1"],
    ] {
        for raw in same {
            assert_eq!(number(raw), number(same[0]), "{raw}");
        }
    }
    assert_ne!(number("9007199254740993"), number("9007199254740992"));
    assert_ne!(number("1"), number("10"));
    let decimal = |raw: &str, scale| bytes(&format!("\"{raw}\""), Logical::Decimal { scale });
    assert_eq!(decimal("ATo=", 2), number("3.14"));
    assert_eq!(decimal("fw==", 2), number("1.27"));
    assert_eq!(decimal("/wY=", 2), number("-2.50"));
    assert_eq!(decimal("AKtUqYzrHwrS", 0), number("12345678901234567890"));
    assert_eq!(decimal("AcnDgA==", 0), number("30000000"));
    assert_eq!(decimal("BAg=", -3), number("1032000"));
    let variable = |raw: &str| bytes(raw, Logical::VariableDecimal);
    assert_eq!(variable(r#"{"scale":2,"value":"ATo="}"#), number("3.14"));
    assert_eq!(variable(r#"{"value":"ATo=","scale":2}"#), number("3.14"));
}

#[test]
fn big_decimals_go_the_long_way() {
    use base64::Engine;
    let encode = |bytes: &[u8]| {
        let text = base64::engine::general_purpose::STANDARD.encode(bytes);
        bytes_of(&format!("\"{text}\""))
    };
    // 2^128 and its negative.
    let mut wide = vec![1_u8];
    wide.extend([0; 16]);
    assert_eq!(
        encode(&wide),
        number("340282366920938463463374607431768211456")
    );
    let mut negative = vec![0xff_u8];
    negative.extend([0; 16]);
    assert_eq!(
        encode(&negative),
        number("-340282366920938463463374607431768211456")
    );
    assert_eq!(encode(&[0; 20]), number("0"));
}

fn bytes_of(raw: &str) -> Vec<u8> {
    bytes(raw, Logical::Decimal { scale: 0 })
}

#[test]
fn what_is_no_value_of_its_type_fails() {
    assert!(fails("\"\"", Logical::Decimal { scale: 2 }));
    assert!(fails("\"x!\"", Logical::Decimal { scale: 2 }));
    assert!(fails("1", Logical::Text));
    assert!(fails("\"1\"", Logical::Number));
    assert!(fails("1e99999999999", Logical::Number));
    assert!(fails("null", Logical::Bool));
    assert!(fails("\"\\ud800\"", Logical::Text));
    assert!(fails("1.5", Logical::Date));
    assert!(fails("\"yesterday\"", Logical::ZonedTimestamp));
    assert!(fails("{\"x\":1}", Logical::VariableDecimal));
    assert!(fails("{}", Logical::Other));
}

#[test]
fn times_are_equal_by_instant() {
    let of = |raw: &str, logical| bytes(raw, logical);
    assert_eq!(
        of("1767319445678", Logical::Timestamp(Unit::Milli)),
        of("1767319445678000", Logical::Timestamp(Unit::Micro))
    );
    assert_eq!(
        of("1767319445678", Logical::Timestamp(Unit::Milli)),
        of("\"2026-01-02T02:04:05.678Z\"", Logical::IsoTimestamp)
    );
    assert_eq!(
        of("\"2026-01-02T02:04:05.67Z\"", Logical::ZonedTimestamp),
        of(
            "\"2026-01-02T03:04:05.670000+01:00\"",
            Logical::ZonedTimestamp
        )
    );
    assert_eq!(
        of("9223372036825200000", Logical::Timestamp(Unit::Micro)),
        of("\"infinity\"", Logical::IsoTimestamp)
    );
    assert_eq!(
        of("20455", Logical::Date),
        of("\"2026-01-02\"", Logical::IsoDate)
    );
    assert_eq!(
        of("3600000", Logical::Time(Unit::Milli)),
        of("3600000000000", Logical::Time(Unit::Nano))
    );
}

#[test]
fn text_and_uuid() {
    let text = |raw: &str| bytes(raw, Logical::Text);
    assert_eq!(text("\"日本\""), text("\"\\u65e5\\u672c\""));
    assert_eq!(text("\"a/b\""), text("\"a\\/b\""));
    assert_ne!(text("\"A\""), text("\"a\""));
    // A NUL inside does not end it: ("a", "b") and ("a\0b",) stay apart.
    let joined = [text("\"a\""), text("\"b\"")].concat();
    assert!(!joined.starts_with(&text("\"a\\u0000b\"")));
    let uuid = |raw: &str| bytes(raw, Logical::Uuid);
    assert_eq!(uuid("\"B68A35A7-17AD\""), uuid("\"b68a35a7-17ad\""));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2048))]

    #[test]
    fn integers_order_as_their_bytes(a in any::<i64>(), b in any::<i64>(), shift in 0..64_u32) {
        let (a, b) = (a >> shift, b >> shift);
        prop_assert_eq!(number(&a.to_string()).cmp(&number(&b.to_string())), a.cmp(&b));
    }

    #[test]
    fn fractions_order_as_their_bytes(a in any::<i32>(), b in any::<i32>(), places in 0..12_u32) {
        let of = |value: i32| {
            let text = format!("{:013}", i64::from(value).abs());
            let at = text.len() - places as usize;
            let dot = if places == 0 { "" } else { "." };
            let whole = text[..at].trim_start_matches('0');
            let whole = if whole.is_empty() { "0" } else { whole };
            let sign = if value < 0 { "-" } else { "" };
            number(&format!("{sign}{whole}{dot}{}", &text[at..]))
        };
        prop_assert_eq!(of(a).cmp(&of(b)), a.cmp(&b));
    }

    #[test]
    fn texts_order_as_their_bytes(a in "\\PC{0,6}", b in "\\PC{0,6}") {
        let of = |text: &str| bytes(&serde_json::to_string(text).unwrap(), Logical::Text);
        prop_assert_eq!(of(&a).cmp(&of(&b)), a.as_bytes().cmp(b.as_bytes()));
    }

    #[test]
    fn decimals_are_their_digits(value in any::<i128>(), scale in 0..30_i32) {
        use base64::Engine;
        let text = base64::engine::general_purpose::STANDARD.encode(value.to_be_bytes());
        let decimal = bytes(&format!("\"{text}\""), Logical::Decimal { scale });
        prop_assert_eq!(decimal, number(&format!("{value}e-{scale}")));
    }
}
