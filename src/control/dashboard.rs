//! The page at `/`: what the status document tells, for a person with a browser.
//!
//! Its files are part of the binary. They are static, tell nothing of the job and need no token;
//! the page asks `/v1/` for all that it shows, with the token that a person gives it.
//!
//! Invariant: the page asks its own origin only; its policy lets the browser do nothing else.
//!
//! It cannot change anything of the job: it copies commands for a person to give.

use axum::Router;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Uri, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;

/// What a browser may do with the page: load its files, and ask, at its own origin.
pub const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; \
    img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; \
    frame-ancestors 'none'";

/// A file of the page.
#[derive(Clone, Copy, Debug)]
pub struct File {
    /// Where it is served.
    pub path: &'static str,
    /// Its media type.
    pub kind: &'static str,
    /// What is in it.
    pub text: &'static str,
}

const SCRIPT: &str = "text/javascript; charset=utf-8";

macro_rules! file {
    ($path:literal, $kind:expr, $name:literal) => {
        File {
            path: $path,
            kind: $kind,
            text: include_str!(concat!("dashboard/", $name)),
        }
    };
}

/// All files of the page; the first is the page.
pub const FILES: &[File] = &[
    file!("/", "text/html; charset=utf-8", "index.html"),
    file!("/dashboard/page.css", "text/css; charset=utf-8", "page.css"),
    file!("/dashboard/icon.svg", "image/svg+xml", "icon.svg"),
    file!("/dashboard/main.js", SCRIPT, "main.js"),
    file!("/dashboard/dom.js", SCRIPT, "dom.js"),
    file!("/dashboard/words.js", SCRIPT, "words.js"),
    file!("/dashboard/generations.js", SCRIPT, "generations.js"),
    file!("/dashboard/memory.js", SCRIPT, "memory.js"),
    file!("/dashboard/history.js", SCRIPT, "history.js"),
    file!("/dashboard/numbers.js", SCRIPT, "numbers.js"),
    file!("/dashboard/alarms.js", SCRIPT, "alarms.js"),
    file!("/dashboard/explain.js", SCRIPT, "explain.js"),
];

/// The file at a path.
pub fn file(path: &str) -> Option<File> {
    FILES.iter().find(|file| file.path == path).copied()
}

/// The paths of the page.
pub(super) fn routes<S: Clone + Send + Sync + 'static>() -> Router<S> {
    FILES.iter().fold(Router::new(), |router, file| {
        router.route(file.path, get(serve))
    })
}

async fn serve(uri: Uri) -> Response {
    let file = file(uri.path()).expect("only these paths lead here");
    let mut headers = HeaderMap::new();
    for (name, value) in [
        (header::CONTENT_TYPE, file.kind),
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::REFERRER_POLICY, "no-referrer"),
        (
            HeaderName::from_static("cross-origin-resource-policy"),
            "same-origin",
        ),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    (headers, file.text).into_response()
}

#[cfg(test)]
mod tests {
    use super::{FILES, file};

    /// The names of the files that a text refers to.
    fn named(text: &str) -> Vec<&str> {
        let quoted = text.split('"').skip(1).step_by(2);
        let ours = quoted.filter_map(|name| {
            name.strip_prefix("./")
                .or_else(|| name.strip_prefix("/dashboard/"))
        });
        ours.collect()
    }

    #[test]
    fn every_file_that_is_named_is_served_and_the_other_way_round() {
        assert_eq!(
            named("import { a } from \"./a.js\"; \"/dashboard/b\""),
            ["a.js", "b"]
        );
        let mut all: Vec<&str> = FILES.iter().flat_map(|file| named(file.text)).collect();
        for name in &all {
            assert!(file(&format!("/dashboard/{name}")).is_some(), "{name}");
        }
        all.sort_unstable();
        for file in FILES.iter().skip(1) {
            let name = file.path.trim_start_matches("/dashboard/");
            assert!(all.contains(&name), "nothing names {name}");
        }
    }

    #[test]
    fn no_file_names_another_origin() {
        for file in FILES {
            // The name of a namespace is asked for by nobody.
            let text = file.text.replace("http://www.w3.org/", "");
            assert!(!text.contains("://"), "{}", file.path);
            assert!(!text.contains("\"//"), "{}", file.path);
        }
    }
}
