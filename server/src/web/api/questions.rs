//! `/questions`: everything that waits for a person.

use actbook_engine::id::ExecutionId;
use actbook_engine::policy::ExecutionStatus;
use axum::Json;
use axum::extract::State;
use axum::routing::get;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::operation::Operation;
use super::page::{ListName, Page, page_limit};
use super::params::Params;
use crate::caller::Right;
use crate::service::OpenQuestion;
use crate::service::view::{ExecutionView, PlanRefView, WaitingView};
use crate::web::{Problem, SignedIn, WebState};

pub fn operations() -> Vec<Operation> {
    vec![
        Operation::new("GET", "/questions", "list_questions", get(list))
            .summary("Everything that waits for a person, oldest first")
            .right(Right::Payloads)
            .query::<QuestionsQuery>()
            .gives("QuestionPage"),
    ]
}

/// The query of `GET /questions`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct QuestionsQuery {
    /// 1 to 500; 50 unless given
    limit: Option<u64>,
    cursor: Option<String>,
}

/// A question that waits for a person.
#[derive(Debug, Serialize)]
struct QuestionItem {
    execution: AskingExecution,
    #[serde(flatten)]
    waiting: WaitingView,
    /// All that a person needs to answer it, in several lines: what would be called, with which arguments, why, what
    /// was done so far, and who asks.
    text: String,
}

/// The execution that asks.
#[serde_with::skip_serializing_none]
#[derive(Debug, Serialize)]
struct AskingExecution {
    id: ExecutionId,
    status: ExecutionStatus,
    plan: PlanRefView,
    task: Option<String>,
    started_at: String,
    started_by: Option<String>,
}

async fn list(
    State(state): State<WebState>,
    signed_in: SignedIn,
    Params(query): Params<QuestionsQuery>,
) -> Result<Json<Page<QuestionItem>>, Problem> {
    signed_in.require(Right::Payloads)?;
    let (limit, name) = (page_limit(query.limit)?, ListName::new("questions", &()));
    let after = name.position(query.cursor.as_deref())?.unwrap_or(0);
    let asked_at = |one: &OpenQuestion| one.question.waiting.asked_at.map_or(0, |position| position.0);
    let mut found = state.service.executions().open_questions().await?;
    found.retain(|one| asked_at(one) > after);
    let has_more = found.len() as u64 > limit;
    found.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
    let next = found.last().filter(|_| has_more).map(asked_at);
    Ok(Page::before(found.into_iter().map(question_item).collect(), next, &name))
}

fn question_item(one: OpenQuestion) -> QuestionItem {
    let ExecutionView { id, status, plan, task, started_at, .. } = one.execution.view.clone();
    let started_by = one.execution.started_by.clone();
    let execution = AskingExecution { id, status, plan, task, started_at, started_by };
    QuestionItem { execution, waiting: one.question.waiting, text: one.question.text }
}
