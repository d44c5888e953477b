//! Secrets never show, and references are followed.

use super::{REDACTED, Secret, redact_url};
use crate::error::ErrorKind;

fn env(name: &str) -> Option<String> {
    match name {
        "PW" => Some("hunter2".to_owned()),
        "USER_NAME" => Some("app".to_owned()),
        _ => None,
    }
}

#[test]
fn passwords_in_urls_never_show() {
    for (written, shown) in [
        (
            "postgres://app:hunter2@db:5432/x",
            "postgres://app:<redacted>@db:5432/x",
        ),
        (
            "postgres://app:hun@ter2@db/x",
            "postgres://app:<redacted>@db/x",
        ),
        (
            "postgres://app:hun/hunter2@db/x",
            "postgres://app:<redacted>@db/x",
        ),
        ("postgres://app:@db/x", "postgres://app:<redacted>@db/x"),
        ("postgres://app@db/x", "postgres://app@db/x"),
        ("postgres://db/x", "postgres://db/x"),
        (
            "postgres://db/x?user=a&password=hunter2&b=c",
            "postgres://db/x?user=a&password=<redacted>&b=c",
        ),
        (
            "host=db PASSWORD=hunter2 user=a",
            "host=db PASSWORD=<redacted> user=a",
        ),
        (
            "host=db password='hunter2 hunter2' user=a",
            "host=db password=<redacted> user=a",
        ),
        ("postgres://app:${PW}@db/x", "postgres://app:${PW}@db/x"),
        ("http://connect:8083", "http://connect:8083"),
    ] {
        assert_eq!(redact_url(written), shown);
        let secret = Secret::url("sink.url", written);
        let plain = secret.resolve_in(&env).expect("resolves");
        for text in [
            secret.to_string(),
            format!("{secret:?}"),
            plain.to_string(),
            format!("{plain:#?}"),
        ] {
            assert!(!text.contains("hunter2"), "{text}");
        }
    }
}

#[test]
fn a_whole_secret_shows_its_reference_alone() {
    assert_eq!(
        Secret::whole("cluster.secret", "hunter2").to_string(),
        REDACTED
    );
    assert_eq!(
        Secret::whole("cluster.secret", "${PW}").to_string(),
        "${PW}"
    );
    assert_eq!(
        Secret::whole("cluster.secret", "hunter2${PW}").to_string(),
        REDACTED
    );
    assert_eq!(
        Secret::whole("cluster.secret", "@/run/secret").to_string(),
        "@/run/secret"
    );
}

#[test]
fn references_are_followed() {
    let url = Secret::url("sink.url", "postgres://${USER_NAME}:${PW}@db/x");
    let plain = url.resolve_in(&env).expect("resolves");
    assert_eq!(plain.expose(), "postgres://app:hunter2@db/x");
    assert!(!format!("{plain} {plain:?}").contains("hunter2"));

    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("secret");
    std::fs::write(&path, "hunter2\n").expect("written");
    let file = Secret::whole("cluster.secret", format!("@{}", path.display()));
    assert_eq!(file.resolve().expect("resolves").expose(), "hunter2");
}

#[test]
fn what_is_missing_is_named() {
    let error = Secret::url("sink.url", "postgres://a:${NOPE}@b/")
        .resolve_in(&env)
        .expect_err("refused");
    assert_eq!(error.kind, ErrorKind::Usage);
    assert!(error.text.contains("`NOPE` is not set"), "{error}");
    assert!(error.text.contains("`sink.url`"), "{error}");

    let error = Secret::whole("cluster.secret", "@/no/such/file")
        .resolve()
        .expect_err("refused");
    assert!(error.text.contains("/no/such/file"), "{error}");
    assert!(error.text.contains("`cluster.secret`"), "{error}");

    let error = Secret::whole("cluster.secret", REDACTED)
        .resolve()
        .expect_err("refused");
    assert!(error.text.contains("headwater config"), "{error}");
}
