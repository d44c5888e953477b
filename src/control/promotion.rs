//! `GET /v1/promotable` and the promotion of a generation: its criteria at this instant, its begin
//! made durable, its hook, its end made durable.
//!
//! Invariant: the hook runs only between the two durable records, while every criterion is met, one
//! promotion at a time. A generation that is promoted answers as before, and runs no hook.
//!
//! It cannot take back what a hook did that failed half-way: it is run again with the same id.

use super::requests::bodies::Refused;
use super::requests::{done, not_done, outcome, random_id, unknown};
use super::router::{json, refused};
use super::{Shared, lock};
use crate::generation::record::Promotion;
use crate::generation::{Answer, Body, Request, Stage};
use crate::job::ShownGeneration;
use crate::promote::hook::{Ended, Told};
use crate::promote::{Criterion, all_met};
use axum::extract::State;
use axum::http::{StatusCode, Uri};
use axum::response::Response;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// A promotion that is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Wish {
    /// The request's own id.
    pub(super) id: String,
    /// The generation.
    pub(super) generation: String,
    /// Who asks.
    pub(super) by: String,
    /// What is accepted.
    pub(super) accepted: Vec<String>,
}

/// What `GET /v1/promotable` answers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Promotable {
    /// As that of the status document.
    pub(super) version: u32,
    /// Whether every criterion is met.
    pub(super) promotable: bool,
    /// The generation; null when there is none.
    pub(super) generation: Option<String>,
    /// Each criterion.
    pub(super) criteria: Vec<Criterion>,
}

/// `GET /v1/promotable?generation=ID`; without one, the newest that is not over.
pub(super) async fn promotable(State(shared): State<Arc<Shared>>, uri: Uri) -> Response {
    let query = uri.query().unwrap_or_default();
    let wanted = query
        .split('&')
        .find_map(|pair| pair.strip_prefix("generation="));
    let generations = shared.shown_generations();
    let found = generations.iter().rev().find(|one| match wanted {
        Some(id) => one.state.id == id,
        None => !one.state.stage.is_over(),
    });
    if let (None, Some(id)) = (found, wanted) {
        return unknown(id);
    }
    let criteria = found
        .map(|one| shared.criteria(one, &[]))
        .unwrap_or_default();
    json(
        StatusCode::OK,
        &Promotable {
            version: super::document::VERSION,
            promotable: found.is_some() && all_met(&criteria),
            generation: found.map(|one| one.state.id.clone()),
            criteria,
        },
    )
}

/// A refusal that says which criteria are not met.
#[derive(Serialize)]
struct Unmet<'a> {
    error: String,
    request_id: &'a str,
    criteria: &'a [Criterion],
}

/// `POST /v1/generations/ID/promote`. It goes on when the client has gone away.
pub(super) async fn promote(shared: Arc<Shared>, wish: Wish) -> Response {
    let task = tokio::spawn(async move { promoted(&shared, &wish).await });
    match task.await {
        Ok(response) => response,
        Err(_) => refused(
            StatusCode::SERVICE_UNAVAILABLE,
            "the process ends; ask again when it runs",
        ),
    }
}

async fn promoted(shared: &Shared, wish: &Wish) -> Response {
    let Ok(_alone) = shared.promoting.try_lock() else {
        let text = "a promotion is under way; ask again when it has ended";
        return refused(StatusCode::CONFLICT, text);
    };
    let Some(generation) = shared.generation(&wish.generation) else {
        return unknown(&wish.generation);
    };
    if let Some(answer) = before(&generation) {
        return done(&wish.id, answer);
    }
    let criteria = shared.criteria(&generation, &wish.accepted);
    if let Some(response) = unmet(wish, &criteria) {
        return response;
    }
    match begun(shared, wish).await {
        Ok(Ok(answer)) => done(&wish.id, answer),
        Ok(Err(criteria)) => unmet(wish, &criteria)
            .unwrap_or_else(|| refused(StatusCode::CONFLICT, "a criterion was not met")),
        Err(refused) => not_done(&wish.id, &refused),
    }
}

/// What is answered for a generation that is promoted.
fn before(generation: &ShownGeneration) -> Option<Answer> {
    let state = &generation.state;
    let promotion = state.promotion.as_ref()?;
    let done = promotion.done_ms.is_some() && promotion.demoted.is_none();
    (done && state.stage == Stage::Promoted).then(|| answer(generation, promotion))
}

fn answer(generation: &ShownGeneration, promotion: &Promotion) -> Answer {
    let id = &generation.state.id;
    Answer {
        text: format!("{id} is promoted, by {}, as {}", promotion.by, promotion.id),
        generation: Some(id.clone()),
        manifest: promotion.manifest,
    }
}

fn unmet(wish: &Wish, criteria: &[Criterion]) -> Option<Response> {
    let first = criteria.iter().find(|criterion| !criterion.met)?;
    let remedy = first.remedy.as_deref().unwrap_or_default();
    let error = format!(
        "{} cannot be promoted now: `{}` is not met: found {}, required {}: {remedy}",
        wish.generation, first.name, first.actual, first.required
    );
    let request_id = &wish.id;
    Some(json(
        StatusCode::CONFLICT,
        &Unmet {
            error,
            request_id,
            criteria,
        },
    ))
}

/// From the durable begin to the durable end; the criteria if they are no longer met in between.
async fn begun(shared: &Shared, wish: &Wish) -> Result<Result<Answer, Vec<Criterion>>, Refused> {
    let begin = Request {
        id: format!("{}/begin", wish.id),
        body: Body::PromoteBegin {
            generation: wish.generation.clone(),
            by: wish.by.clone(),
            accepted: wish.accepted.clone(),
        },
    };
    let begun = outcome(shared, begin).await?;
    let lost = || {
        let text = "the promotion is not in what the job shows; ask again";
        Refused::new(StatusCode::SERVICE_UNAVAILABLE, text)
    };
    let generation = shared.generation(&wish.generation).ok_or_else(lost)?;
    let promotion = generation.state.promotion.clone().ok_or_else(lost)?;
    if promotion.done_ms.is_some() || promotion.demoted.is_some() {
        // The begin was answered from memory: its promotion has ended since.
        let text = format!(
            "this request was done before, as promotion {}, which has ended since; to promote \
             again, ask with another request id",
            promotion.id
        );
        return Err(Refused::new(StatusCode::CONFLICT, text));
    }
    // The begin took a checkpoint's time.
    let criteria = shared.criteria(&generation, &wish.accepted);
    let ended = match all_met(&criteria) {
        true => hook(shared, wish, &promotion, begun.manifest).await,
        false => Ended {
            good: false,
            said: "not run: a criterion was no longer met".to_owned(),
        },
    };
    let end = Request {
        id: format!("{}/end/{}", promotion.id, random_id()?),
        body: Body::PromoteEnd {
            generation: wish.generation.clone(),
            done: ended.good,
            hook: ended.said.clone(),
        },
    };
    let answer = outcome(shared, end).await?;
    match (all_met(&criteria), ended.good) {
        (false, _) => Ok(Err(criteria)),
        (true, true) => Ok(Ok(answer)),
        (true, false) => Err(Refused::new(
            StatusCode::BAD_GATEWAY,
            format!(
                "the hook of promotion {} failed, and {} is not promoted: {}",
                promotion.id, wish.generation, ended.said
            ),
        )),
    }
}

async fn hook(shared: &Shared, wish: &Wish, promotion: &Promotion, manifest: u64) -> Ended {
    let Some(hook) = shared.hook() else {
        return Ended {
            good: true,
            said: "no hook is configured (promote.hook)".to_owned(),
        };
    };
    let told = Told {
        id: promotion.id.clone(),
        generation: wish.generation.clone(),
        job: shared.job.clone(),
        manifest,
        by: wish.by.clone(),
    };
    let run = tokio::task::spawn_blocking(move || hook.run(&told));
    run.await.unwrap_or_else(|_| Ended {
        good: false,
        said: "the hook could not be run".to_owned(),
    })
}

impl Shared {
    fn generation(&self, id: &str) -> Option<ShownGeneration> {
        let mut all = self.shown_generations().into_iter();
        all.find(|generation| generation.state.id == id)
    }

    fn criteria(&self, generation: &ShownGeneration, accepted: &[String]) -> Vec<Criterion> {
        let live = lock(&self.live);
        let live = live.as_ref();
        let judged = live.map(|live| live.criteria(generation, accepted));
        judged.unwrap_or_default()
    }

    fn hook(&self) -> Option<crate::promote::hook::Hook> {
        lock(&self.live).as_ref()?.facts.hook.clone()
    }
}

#[cfg(test)]
mod tests;
