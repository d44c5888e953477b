//! Requests that change the job: from a path and a body to what worker 0 is asked, and from its
//! outcome to an answer.
//!
//! Invariant: an answer of 200 means that a durable manifest contains what was asked. A request
//! with the id of one that was answered gets the same answer and does nothing.
//!
//! It cannot make worker 0 faster than its checkpoints: after a minute the answer is 504, the
//! request still waits, and who asks again with its id waits on.

pub(super) mod bodies;
mod resolve;

use super::document::{GenerationList, VERSION};
use super::pending::Asked;
use super::promotion;
use super::router::{json, refused};
use super::{Shared, lock};
use crate::generation::{Answer, Body, Refusal, Request};
use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use bodies::{OpenBody, Refused, Verb};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// The header that carries a request's own id; the member `request_id` does too.
pub(super) const ID_HEADER: &str = "idempotency-key";

/// What was done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Done {
    /// The request's own id.
    pub(super) request_id: String,
    /// In words.
    pub(super) text: String,
    /// The generation that it was about, if it was about one.
    pub(super) generation: Option<String>,
    /// The checkpoint that contains it.
    pub(super) manifest: u64,
}

/// Why nothing was done, or is not known to be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct NotDone<'a> {
    error: &'a str,
    request_id: &'a str,
}

/// `GET /v1/generations`.
pub(super) async fn list(State(shared): State<Arc<Shared>>) -> Response {
    let generations = shared.status().generations;
    let version = VERSION;
    json(
        StatusCode::OK,
        &GenerationList {
            version,
            generations,
        },
    )
}

/// `GET /v1/generations/ID`.
pub(super) async fn one(State(shared): State<Arc<Shared>>, Path(id): Path<String>) -> Response {
    let mut all = shared.status().generations.into_iter();
    match all.find(|generation| generation.id == id) {
        Some(generation) => json(StatusCode::OK, &generation),
        None => unknown(&id),
    }
}

/// There is no such generation.
pub(super) fn unknown(id: &str) -> Response {
    let text = format!("the job has no generation {id:?}");
    refused(StatusCode::NOT_FOUND, &text)
}

/// `POST /v1/generations`.
pub(super) async fn open(
    State(shared): State<Arc<Shared>>,
    headers: HeaderMap,
    bytes: Bytes,
) -> Response {
    let asked = async {
        let body: OpenBody = bodies::parse(&bytes)?;
        let (id, chosen) = id_of(&headers, body.request_id.clone())?;
        let known = resolve::Known {
            tables: shared.tables()?,
            generations: shared.shown_generations(),
            maybe_again: chosen,
        };
        let topics = shared.topics()?;
        let looked_up = tokio::task::spawn_blocking(move || resolve::open(&body, &known, &*topics));
        let open = looked_up.await.map_err(|_| {
            let text = "the topics could not be asked";
            Refused::new(StatusCode::SERVICE_UNAVAILABLE, text)
        })??;
        let body = Body::Open(open);
        Ok(Request { id, body })
    };
    match asked.await {
        Ok(request) => ask(&shared, request).await,
        Err(Refused { code, text }) => refused(code, &text),
    }
}

/// `POST /v1/generations/ID/VERB`.
pub(super) async fn act(
    State(shared): State<Arc<Shared>>,
    Path((generation, verb)): Path<(String, String)>,
    headers: HeaderMap,
    bytes: Bytes,
) -> Response {
    let asked = || {
        let tables = shared.tables()?;
        let (member, asked) = bodies::verb(&generation, &verb, &bytes, &tables)?;
        let (id, _) = id_of(&headers, member)?;
        Ok((id, asked))
    };
    match asked() {
        Ok((id, Verb::Plain(body))) => ask(&shared, Request { id, body }).await,
        Ok((id, Verb::Promote { by, accepted })) => {
            let wish = promotion::Wish {
                id,
                generation,
                by,
                accepted,
            };
            promotion::promote(shared, wish).await
        }
        Err(Refused { code, text }) => refused(code, &text),
    }
}

/// `POST /v1/reads`.
pub(super) async fn reads(
    State(shared): State<Arc<Shared>>,
    headers: HeaderMap,
    bytes: Bytes,
) -> Response {
    plain(&shared, &headers, bodies::reads(&bytes)).await
}

/// `PUT` or `POST /v1/retention`.
pub(super) async fn ttl(
    State(shared): State<Arc<Shared>>,
    headers: HeaderMap,
    bytes: Bytes,
) -> Response {
    plain(&shared, &headers, bodies::ttl(&bytes)).await
}

/// `POST /v1/limits`.
pub(super) async fn limits(
    State(shared): State<Arc<Shared>>,
    headers: HeaderMap,
    bytes: Bytes,
) -> Response {
    plain(&shared, &headers, bodies::limits(&bytes)).await
}

async fn plain(
    shared: &Shared,
    headers: &HeaderMap,
    read: Result<(Option<String>, Body), Refused>,
) -> Response {
    let asked = read.and_then(|(member, body)| Ok((id_of(headers, member)?.0, body)));
    match asked {
        Ok((id, body)) => ask(shared, Request { id, body }).await,
        Err(Refused { code, text }) => refused(code, &text),
    }
}

/// The request's own id, and whether the client chose it.
fn id_of(headers: &HeaderMap, member: Option<String>) -> Result<(String, bool), Refused> {
    let header = headers.get(ID_HEADER).map(|value| value.to_str());
    let header = header
        .transpose()
        .map_err(|_| Refused::bad(format!("the header {ID_HEADER} is no text")))?;
    let given = match (header, member) {
        (Some(header), Some(member)) if header != member => {
            return Err(Refused::bad(format!(
                "the request has two ids: {header:?} in the header, {member:?} in the body"
            )));
        }
        (Some(header), _) => Some(header.to_owned()),
        (None, member) => member,
    };
    match given {
        Some(id) => bodies::request_id(&id).map(|()| (id, true)),
        None => Ok((random_id()?, false)),
    }
}

/// An id that nobody has chosen before.
pub(super) fn random_id() -> Result<String, Refused> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(|error| {
        let text = format!("no random id can be made: {error}");
        Refused::new(StatusCode::SERVICE_UNAVAILABLE, text)
    })?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Asks worker 0, and answers as it did.
pub(super) async fn ask(shared: &Shared, request: Request) -> Response {
    let id = request.id.clone();
    match outcome(shared, request).await {
        Ok(answer) => done(&id, answer),
        Err(refused) => not_done(&id, &refused),
    }
}

pub(super) fn done(id: &str, answer: Answer) -> Response {
    json(
        StatusCode::OK,
        &Done {
            request_id: id.to_owned(),
            text: answer.text,
            generation: answer.generation,
            manifest: answer.manifest,
        },
    )
}

pub(super) fn not_done(id: &str, Refused { code, text }: &Refused) -> Response {
    let (error, request_id) = (text.as_str(), id);
    json(*code, &NotDone { error, request_id })
}

/// Asks worker 0.
pub(super) async fn outcome(shared: &Shared, request: Request) -> Result<Answer, Refused> {
    let panel = shared.panel()?;
    let (id, limit) = (request.id.clone(), shared.answer_wait);
    match shared.pending.ask(&panel.desk, request, limit).await {
        Asked::Told(Ok(answer)) => Ok(answer),
        Asked::Told(Err(refusal)) => {
            let code = match &refusal {
                Refusal::Unknown(_) => StatusCode::NOT_FOUND,
                Refusal::Conflict(_) => StatusCode::CONFLICT,
                Refusal::Ending => StatusCode::SERVICE_UNAVAILABLE,
            };
            Err(Refused::new(code, refusal.to_string()))
        }
        Asked::Waits => Err(Refused::new(
            StatusCode::GATEWAY_TIMEOUT,
            format!("it is not durable yet and still waits; ask again with {ID_HEADER}: {id}"),
        )),
        Asked::OtherBody => Err(Refused::new(
            StatusCode::CONFLICT,
            format!("the id {id} is that of another request"),
        )),
    }
}

/// What requests need of a job that runs.
impl Shared {
    pub(super) fn panel(&self) -> Result<Arc<crate::job::Panel>, Refused> {
        self.of_job(|job| Arc::clone(&job.panel))
    }

    fn topics(&self) -> Result<Arc<dyn crate::topic::Topics>, Refused> {
        self.of_job(|job| Arc::clone(&job.topics))
    }

    fn tables(&self) -> Result<Vec<crate::table::Table>, Refused> {
        self.of_job(|job| job.tables.clone())
    }

    /// The job itself is not held: it ends when its run does.
    fn of_job<T>(&self, part: impl FnOnce(&crate::job::Job) -> T) -> Result<T, Refused> {
        let away = |text: &str| Refused::new(StatusCode::SERVICE_UNAVAILABLE, text);
        let live = lock(&self.live);
        let live = live
            .as_ref()
            .ok_or_else(|| away("the job is starting; ask again when it runs"))?;
        let job = live.job.upgrade();
        let job = job.ok_or_else(|| away("the job ends; ask again when it runs"))?;
        Ok(part(&job))
    }

    pub(super) fn shown_generations(&self) -> Vec<crate::job::ShownGeneration> {
        let live = lock(&self.live);
        live.as_ref()
            .map(|live| live.generations())
            .unwrap_or_default()
    }
}

#[cfg(test)]
mod tests;
