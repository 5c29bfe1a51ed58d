//! `/questions`: everything that waits for a person.

use actbook_engine::policy::ExecutionStatus;
use axum::Json;
use axum::extract::State;
use axum::routing::get;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::operation::Operation;
use super::page::{Page, page_limit};
use super::params::Params;
use crate::caller::Right;
use crate::service::WaitingQuestion;
use crate::service::view::{ExecutionSummary, PlanRefView, WaitingView};
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
    #[schemars(range(min = 1, max = 500))]
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
    id: String,
    status: ExecutionStatus,
    plan: PlanRefView,
    task: Option<String>,
    started_at: String,
    started_by: Option<String>,
}

async fn list(
    State(state): State<WebState>,
    _signed_in: SignedIn,
    Params(query): Params<QuestionsQuery>,
) -> Result<Json<Page<QuestionItem>>, Problem> {
    let limit = page_limit(query.limit)?;
    let page = state.service.executions().questions(query.cursor.as_deref(), limit).await?;
    Ok(Page::continued(page.items.into_iter().map(question_item).collect(), page.next_cursor))
}

fn question_item(one: WaitingQuestion) -> QuestionItem {
    let ExecutionSummary { id, status, plan, task, started_at, .. } = one.execution;
    let execution = AskingExecution { id, status, plan, task, started_at, started_by: one.started_by };
    QuestionItem { execution, waiting: one.question.waiting, text: one.question.text }
}
