//! Who is let in, by address, method, path, `Host` and token.

use super::{Access, elsewhere, refusal};
use crate::control::listen::Address;
use crate::control::token::Token;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, Uri, header};

const TOKEN: &str = "0123456789abcdef";

fn access(loopback: bool, token: bool) -> Access {
    Access {
        loopback,
        token: token.then(|| Token::new(TOKEN)),
        elsewhere: None,
    }
}

fn code(access: &Access, method: Method, path: &str, host: &str, token: &str) -> u16 {
    let mut headers = HeaderMap::new();
    if !host.is_empty() {
        headers.insert(header::HOST, HeaderValue::from_str(host).expect("a host"));
    }
    if !token.is_empty() {
        let value = format!("Bearer {token}");
        let value = HeaderValue::from_str(&value).expect("a token");
        headers.insert(header::AUTHORIZATION, value);
    }
    let uri: Uri = path.parse().expect("a path");
    let refused = refusal(access, &method, &uri, &headers);
    refused.map_or(200, |response| response.status().as_u16())
}

#[test]
fn on_loopback_everybody_reads_and_the_token_changes() {
    let ours = access(true, true);
    let here = "127.0.0.1:7070";
    for path in ["/livez", "/v1/status", "/metrics", "/"] {
        assert_eq!(code(&ours, Method::GET, path, here, ""), 200, "{path}");
    }
    assert_eq!(code(&ours, Method::POST, "/v1/stop", here, ""), 401);
    assert_eq!(code(&ours, Method::POST, "/v1/stop", here, "wrong"), 401);
    assert_eq!(code(&ours, Method::POST, "/v1/stop", here, TOKEN), 200);
    assert_eq!(code(&ours, Method::OPTIONS, "/v1/stop", here, ""), 401);
    let without = access(true, false);
    assert_eq!(code(&without, Method::POST, "/v1/stop", here, TOKEN), 403);
    assert_eq!(code(&without, Method::GET, "/v1/status", here, ""), 200);
}

#[test]
fn on_loopback_a_strange_host_is_refused() {
    let ours = access(true, true);
    for (host, expected) in [
        ("localhost:7070", 200),
        ("LOCALHOST", 200),
        ("[::1]:7070", 200),
        ("127.3.2.1:7070", 200),
        ("evil.example:7070", 403),
        ("127.0.0.1.evil.example", 403),
        ("localhost.evil.example:7070", 403),
        ("10.0.0.1:7070", 403),
        ("", 403),
    ] {
        let found = code(&ours, Method::GET, "/v1/status", host, "");
        assert_eq!(found, expected, "{host}");
        let found = code(&ours, Method::POST, "/v1/stop", host, TOKEN);
        assert_eq!(found, expected, "{host}");
    }
    let absolute = "http://evil.example/v1/status";
    assert_eq!(code(&ours, Method::GET, absolute, "localhost", ""), 403);
}

#[test]
fn elsewhere_nothing_is_told_without_the_token() {
    let open = access(false, true);
    let host = "db.internal:7070";
    for path in [
        "/v1/status",
        "/metrics",
        "/v1/checkpoints",
        "/livez/x",
        "/dashboard/x",
    ] {
        assert_eq!(code(&open, Method::GET, path, host, ""), 401, "{path}");
        assert_eq!(code(&open, Method::GET, path, host, TOKEN), 200, "{path}");
    }
    // The page tells nothing; it asks for the token itself.
    for open_to_all in ["/livez", "/readyz", "/", "/dashboard/main.js"] {
        assert_eq!(
            code(&open, Method::GET, open_to_all, host, ""),
            200,
            "{open_to_all}"
        );
        assert_eq!(
            code(&open, Method::POST, open_to_all, host, ""),
            401,
            "{open_to_all}"
        );
    }
}

#[test]
fn another_process_sends_on_what_it_cannot_know() {
    let mut access = access(true, false);
    let uri = |path: &str| path.parse::<Uri>().expect("a path");
    assert!(elsewhere(&access, &uri("/v1/status")).is_none());
    access.elsewhere = Some(Ok(Address {
        host: "::1".to_owned(),
        port: 7070,
    }));
    let sent = elsewhere(&access, &uri("/v1/status?a=b")).expect("sent on");
    assert_eq!(sent.status(), StatusCode::TEMPORARY_REDIRECT);
    let location = sent.headers().get(header::LOCATION).expect("a place");
    assert_eq!(location, "http://[::1]:7070/v1/status?a=b");
    let page = elsewhere(&access, &uri("/")).expect("sent on");
    let location = page.headers().get(header::LOCATION).expect("a place");
    assert_eq!(location, "http://[::1]:7070/");
    for own in ["/livez", "/readyz", "/metrics", "/dashboard/main.js"] {
        assert!(elsewhere(&access, &uri(own)).is_none(), "{own}");
    }
    access.elsewhere = Some(Err("no hostfile".to_owned()));
    let unknown = elsewhere(&access, &uri("/v1/stop")).expect("refused");
    assert_eq!(unknown.status(), StatusCode::SERVICE_UNAVAILABLE);
}
