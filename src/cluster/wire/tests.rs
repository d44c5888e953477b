//! Round trips, hostile bytes, and tags that bind everything they should.

use super::{Hello, OPENING_BYTES, Opening, TEXT_BYTES_MAX, Transcript, VERSION, Verdict};
use proptest::prelude::{ProptestConfig, any, prop_assert_eq, proptest};

fn hello() -> Hello {
    Hello {
        processes: 3,
        threads: 2,
        from: 2,
        to: 0,
        config_hash: [7; 32],
        instance: [9; 16],
        incarnation: Some([4; 16]),
        verdict: Verdict::Accepted,
        job: "hello".to_owned(),
        build: "0.1.0".to_owned(),
        text: "é".to_owned(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 512,
        failure_persistence: None,
        ..Default::default()
    })]

    /// Whatever decodes encodes to the same bytes: one form for one hello, and no panic on any.
    #[test]
    fn decoding_is_the_inverse_of_encoding(
        noise in any::<Vec<u8>>(),
        at in any::<usize>(),
        flip in any::<u8>(),
        cut in any::<usize>(),
    ) {
        let mut bytes = hello().encode();
        let (at, cut) = (at % bytes.len(), cut % (bytes.len() + 1));
        bytes[at] ^= flip;
        for candidate in [&noise[..], &bytes[..], &bytes[..cut]] {
            if let Some(decoded) = Hello::decode(candidate) {
                prop_assert_eq!(decoded.encode(), candidate.to_vec());
            }
        }
    }
}

#[test]
fn hellos_and_openings_survive_the_wire() {
    assert_eq!(Hello::decode(&hello().encode()), Some(hello()));
    let unknown = Hello {
        incarnation: None,
        ..hello()
    };
    assert_eq!(Hello::decode(&unknown.encode()), Some(unknown));
    let opening = Opening {
        version: VERSION,
        nonce: [3; 32],
    };
    assert_eq!(Opening::decode(&opening.encode()), Some(opening));
    let mut stranger = [0; OPENING_BYTES];
    stranger[..16].copy_from_slice(b"GET / HTTP/1.1\r\n");
    assert_eq!(Opening::decode(&stranger), None);
}

#[test]
fn a_long_refusal_is_cut_at_a_character() {
    let long = Hello {
        text: "é".repeat(TEXT_BYTES_MAX),
        ..hello()
    };
    let decoded = Hello::decode(&long.encode()).unwrap();
    assert_eq!(decoded.text.len(), TEXT_BYTES_MAX);
    let odd = Hello {
        text: format!("x{}", "é".repeat(TEXT_BYTES_MAX)),
        ..hello()
    };
    assert_eq!(
        Hello::decode(&odd.encode()).unwrap().text.len(),
        TEXT_BYTES_MAX - 1
    );
}

#[test]
fn a_tag_binds_secret_role_openings_and_hellos() {
    let (a, b) = (
        Opening {
            version: VERSION,
            nonce: [1; 32],
        },
        Opening {
            version: VERSION,
            nonce: [2; 32],
        },
    );
    let ours = Transcript::new(b"secret", &a, &b);
    let (asked, answer) = (
        hello().encode(),
        Hello {
            from: 0,
            to: 2,
            ..hello()
        }
        .encode(),
    );
    let tag = ours.dialler_tag(&asked);
    assert!(ours.dialler_proves(&asked, &tag));
    assert!(!ours.dialler_proves(&answer, &tag), "another hello");
    assert!(!ours.dialler_proves(&asked, &tag[..31]), "a shorter tag");
    assert!(
        !Transcript::new(b"Secret", &a, &b).dialler_proves(&asked, &tag),
        "another secret"
    );
    let replayed = Transcript::new(
        b"secret",
        &a,
        &Opening {
            version: VERSION,
            nonce: [3; 32],
        },
    );
    assert!(
        !replayed.dialler_proves(&asked, &tag),
        "a replay against a fresh nonce"
    );
    assert!(
        !ours.listener_proves(&asked, &asked, &tag),
        "reflected into the other role"
    );
    let tag = ours.listener_tag(&asked, &answer);
    assert!(ours.listener_proves(&asked, &answer, &tag));
    assert!(
        !ours.listener_proves(&answer, &answer, &tag),
        "an answer to another hello"
    );
}
