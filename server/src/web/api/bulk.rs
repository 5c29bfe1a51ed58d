//! `/executions:bulk`: one command to all executions that match a filter.

use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::post;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use super::change::{Change, changed};
use super::filter::FilterParams;
use super::operation::Operation;
use super::params;
use crate::caller::Right;
use crate::service::{BULK_EXECUTIONS_MAX, BulkAction, BulkCommand};
use crate::web::{Problem, WebState};

pub fn operations() -> Vec<Operation> {
    vec![
        Operation::new("POST", "/executions:bulk", "command_executions", post(command))
            .summary("Pause, resume, cancel or retry the executions that match a filter, at most 500 a call")
            .right(Right::Operate)
            .body::<BulkBody>(
                json!({ "action": "pause", "filter": { "plan": "publish-notes" }, "dry_run": true }),
            )
            .gives("BulkResult"),
    ]
}

/// The body of `POST /executions:bulk`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct BulkBody {
    /// pause, resume, cancel or retry (the steps that failed and wait for an answer)
    #[schemars(extend("enum" = BulkAction::ALL.map(BulkAction::as_str)))]
    action: String,
    filter: FilterParams,
    /// Why; it is journaled with each command
    reason: Option<String>,
    /// Only count; its `next_cursor` begins the command with exactly those that were counted
    #[serde(default)]
    dry_run: bool,
    /// `next_cursor` of the call before
    cursor: Option<String>,
    /// 1 to 500, which it is unless given
    #[schemars(range(min = 1, max = 500))]
    #[serde(default, deserialize_with = "params::integer")]
    limit: Option<u64>,
}

async fn command(
    state: WebState,
    Change { caller, body, .. }: Change<BulkBody>,
) -> Result<Response, Problem> {
    let action: BulkAction = body.action.parse().map_err(|why: String| Problem::bad_field("/action", why))?;
    let limit = body.limit.unwrap_or(BULK_EXECUTIONS_MAX);
    if !(1..=BULK_EXECUTIONS_MAX).contains(&limit) {
        return Err(Problem::bad_field("/limit", format!("it is 1 to {BULK_EXECUTIONS_MAX}")));
    }
    let command = BulkCommand { action, filter: body.filter.parse()?, reason: body.reason };
    let (executions, cursor) = (state.service.executions(), body.cursor.as_deref());
    let result = if body.dry_run {
        executions.count_bulk(&caller, &command, cursor).await?
    } else {
        executions.command_bulk(&caller, &command, cursor, limit).await?
    };
    Ok(changed(&caller, StatusCode::OK, &result))
}
