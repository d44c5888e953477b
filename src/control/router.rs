//! Paths and who may ask for them.
//!
//! Invariant: nothing that changes the job is done without the token; on an address that others
//! reach, nothing is told without it but that the process lives (the page at `/` holds nothing
//! itself); on loopback, a name in `Host` that is not loopback is refused, as a page in a browser
//! could have had it resolved to here.

use super::document::{CheckpointList, Doing, Status, VERSION};
use super::listen::{Address, host_of, is_loopback};
use super::token::Token;
use super::{Shared, dashboard, metrics, promotion, report, requests};
use axum::Router;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post, put};
use serde::Serialize;
use std::sync::Arc;

const SCHEMA: &str = include_str!("status.schema.json");

/// Who may ask.
#[derive(Clone, Debug)]
pub(super) struct Access {
    /// Only programs on this machine reach it.
    pub(super) loopback: bool,
    /// What changes need.
    pub(super) token: Option<Token>,
    /// Where process 0 is, or why that is not known; nothing in process 0 itself.
    pub(super) elsewhere: Option<Result<Address, String>>,
}

/// All paths.
pub(super) fn router(shared: Arc<Shared>) -> Router {
    Router::new()
        .route("/livez", get(livez))
        .route("/readyz", get(readyz))
        .route("/metrics", get(metrics_text))
        .route("/v1/status", get(status))
        .route("/v1/status.schema.json", get(schema))
        .route("/v1/checkpoints", get(checkpoints))
        .route("/v1/generations", get(requests::list).post(requests::open))
        .route("/v1/generations/{id}", get(requests::one))
        .route("/v1/generations/{id}/report", get(report::report))
        .route("/v1/generations/{id}/{verb}", post(requests::act))
        .route("/v1/promotable", get(promotion::promotable))
        .route("/v1/reads", post(requests::reads))
        .route("/v1/retention", put(requests::ttl).post(requests::ttl))
        .route("/v1/limits", post(requests::limits))
        .route("/v1/explain", get(super::explain::explain))
        .route("/v1/stop", post(stop))
        .merge(dashboard::routes())
        .fallback(nothing)
        .method_not_allowed_fallback(not_this_way)
        .layer(from_fn_with_state(Arc::clone(&shared), guard))
        .with_state(shared)
}

async fn guard(State(shared): State<Arc<Shared>>, request: Request, next: Next) -> Response {
    let access = &shared.access;
    let (method, uri) = (request.method(), request.uri());
    let answer = refusal(access, method, uri, request.headers());
    let mut response = match answer.or_else(|| elsewhere(access, uri)) {
        Some(answer) => answer,
        None => next.run(request).await,
    };
    let headers = response.headers_mut();
    for (name, value) in [
        (header::CACHE_CONTROL, "no-store"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    response
}

/// Why a request is not served, if it is not.
fn refusal(access: &Access, method: &Method, uri: &Uri, headers: &HeaderMap) -> Option<Response> {
    if access.loopback && !host_is_loopback(uri, headers) {
        return Some(refused(
            StatusCode::FORBIDDEN,
            "the Host of the request is not this machine; ask 127.0.0.1 or localhost",
        ));
    }
    let changes = !matches!(*method, Method::GET | Method::HEAD);
    let probe = matches!(uri.path(), "/livez" | "/readyz");
    // A browser cannot send the token for a page; the page asks for it, and tells nothing before.
    let page = dashboard::file(uri.path()).is_some();
    if !changes && (access.loopback || probe || page) {
        return None;
    }
    let Some(token) = &access.token else {
        return Some(refused(
            StatusCode::FORBIDDEN,
            "changes need a token, and `control.token_file` is not set",
        ));
    };
    let given = headers.get(header::AUTHORIZATION);
    if token.authorizes(given.and_then(|value| value.to_str().ok())) {
        return None;
    }
    let text = "the token of `control.token_file` is needed: Authorization: Bearer TOKEN";
    let mut response = refused(StatusCode::UNAUTHORIZED, text);
    let scheme = HeaderValue::from_static("Bearer");
    response
        .headers_mut()
        .insert(header::WWW_AUTHENTICATE, scheme);
    Some(response)
}

fn host_is_loopback(uri: &Uri, headers: &HeaderMap) -> bool {
    let mut hosts = headers.get_all(header::HOST).iter();
    let (host, more) = (hosts.next(), hosts.next());
    let loopback = |text: &str| is_loopback(host_of(text));
    let named = host.and_then(|host| host.to_str().ok());
    more.is_none()
        && named.is_some_and(loopback)
        && uri.authority().is_none_or(|a| loopback(a.as_str()))
}

/// What another process than 0 answers for the job.
fn elsewhere(access: &Access, uri: &Uri) -> Option<Response> {
    if uri.path() != "/" && !uri.path().starts_with("/v1/") {
        return None;
    }
    match access.elsewhere.as_ref()? {
        Ok(address) => {
            let path = uri.path_and_query().map_or("/", |path| path.as_str());
            let location = HeaderValue::from_str(&format!("http://{address}{path}")).ok()?;
            let moved = StatusCode::TEMPORARY_REDIRECT;
            Some((moved, [(header::LOCATION, location)]).into_response())
        }
        Err(why) => Some(refused(
            StatusCode::SERVICE_UNAVAILABLE,
            &format!("process 0 answers for the job, and its address is not known: {why}"),
        )),
    }
}

async fn livez() -> &'static str {
    "ok\n"
}

/// The process serves, whatever its peers do.
async fn readyz(State(shared): State<Arc<Shared>>) -> Response {
    match shared.status().stage {
        Doing::Failed => refused(StatusCode::SERVICE_UNAVAILABLE, "the process ends"),
        _ => "ok\n".into_response(),
    }
}

async fn status(State(shared): State<Arc<Shared>>) -> Response {
    json(StatusCode::OK, &shared.status())
}

async fn schema() -> Response {
    (json_type(), SCHEMA).into_response()
}

async fn checkpoints(State(shared): State<Arc<Shared>>) -> Response {
    let list = CheckpointList {
        version: VERSION,
        checkpoints: shared.checkpoints(),
    };
    json(StatusCode::OK, &list)
}

async fn metrics_text(State(shared): State<Arc<Shared>>) -> Response {
    let status: Status = shared.status();
    let text = metrics::text(&status, shared.access.elsewhere.is_none());
    let kind = HeaderValue::from_static(metrics::CONTENT_TYPE);
    ([(header::CONTENT_TYPE, kind)], text).into_response()
}

#[derive(Serialize)]
struct Stopping {
    stopping: bool,
}

async fn stop(State(shared): State<Arc<Shared>>) -> Response {
    match shared.stop() {
        true => json(StatusCode::ACCEPTED, &Stopping { stopping: true }),
        false => refused(
            StatusCode::SERVICE_UNAVAILABLE,
            "the job is starting and has read nothing; a signal ends it at once",
        ),
    }
}

async fn nothing(uri: Uri) -> Response {
    let text = format!("there is nothing at {}", uri.path());
    refused(StatusCode::NOT_FOUND, &text)
}

async fn not_this_way(method: Method, uri: Uri) -> Response {
    let text = format!("{} does not take {method}", uri.path());
    refused(StatusCode::METHOD_NOT_ALLOWED, &text)
}

#[derive(Serialize)]
struct Refused<'a> {
    error: &'a str,
}

fn json_type() -> [(HeaderName, HeaderValue); 1] {
    let kind = HeaderValue::from_static("application/json");
    [(header::CONTENT_TYPE, kind)]
}

pub(super) fn refused(code: StatusCode, error: &str) -> Response {
    json(code, &Refused { error })
}

pub(super) fn json(code: StatusCode, body: &impl Serialize) -> Response {
    let mut text = serde_json::to_vec_pretty(body).expect("plain data");
    text.push(b'\n');
    (code, json_type(), text).into_response()
}

#[cfg(test)]
mod tests;
