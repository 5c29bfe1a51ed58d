//! `/questions`: everything that waits for a person.

use actbook_engine::policy::ExecutionStatus;
use axum::Json;
use axum::routing::get;
use serde::Serialize;

use super::operation::Operation;
use super::page::{Page, PageParams, page_limit};
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
            .query::<PageParams>()
            .gives("QuestionPage"),
    ]
}

/// A page of questions whose texts are longer together has fewer of them.
const TEXT_BYTES_MAX: usize = 4 * 1024 * 1024;

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
    state: WebState,
    _signed_in: SignedIn,
    Params(query): Params<PageParams>,
) -> Result<Json<Page<QuestionItem>>, Problem> {
    let limit = page_limit(query.limit)?;
    read_page(&state, query.cursor.as_deref(), limit).await
}

/// A page of questions: at most `limit`, and fewer if their texts are long.
async fn read_page(
    state: &WebState,
    cursor: Option<&str>,
    limit: u64,
) -> Result<Json<Page<QuestionItem>>, Problem> {
    let mut limit = limit;
    loop {
        let page = state.service.executions().questions(cursor, limit).await?;
        let bytes: usize = page.items.iter().map(|one| one.question.text.len()).sum();
        if bytes <= TEXT_BYTES_MAX || limit <= 1 {
            let items = page.items.into_iter().map(question_item).collect();
            return Ok(Page::continued(items, page.next_cursor, page.behind));
        }
        limit = (limit / 2).min(page.items.len() as u64 / 2).max(1);
    }
}

fn question_item(one: WaitingQuestion) -> QuestionItem {
    let ExecutionSummary { id, status, plan, task, started_at, .. } = one.execution;
    let execution = AskingExecution { id, status, plan, task, started_at, started_by: one.started_by };
    QuestionItem { execution, waiting: one.question.waiting, text: one.question.text }
}
