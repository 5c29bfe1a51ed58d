//! `/journal`: its entries, its head and its verification.

use actbook_engine::policy::{ErrorCategory, ExecutionStatus};
use axum::Json;
use axum::extract::Path;
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::{get, post};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::change::{Change, NoFields, changed};
use super::operation::Operation;
use super::page::{ListName, Page, page_limit};
use super::params::{self, Params};
use crate::error::Error;
use crate::service::JournalFilter;
use crate::service::view::EntryView;
use crate::web::{Problem, SignedIn, WebState};

pub fn operations() -> Vec<Operation> {
    vec![
        Operation::new("GET", "/journal", "list_entries", get(list))
            .summary("The journal's entries, oldest first, or with `newest` newest first")
            .query::<EntriesQuery>()
            .gives("EntryPage"),
        Operation::new("GET", "/journal/head", "get_journal_head", get(head))
            .summary("Position and hash of the last entry")
            .gives("JournalHead"),
        Operation::new("POST", "/journal:verify", "verify_journal", post(verify))
            .summary("Verify the whole chain and every payload")
            .body::<NoFields>(json!({}))
            .gives("VerifyReport"),
        Operation::new("GET", "/executions/{id}/journal", "list_execution_entries", get(list_of_execution))
            .summary("The entries of one execution")
            .query::<EntriesQuery>()
            .gives("EntryPage"),
    ]
}

/// The query of `GET /journal`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct EntriesQuery {
    execution: Option<String>,
    /// A plan's id or name
    plan: Option<String>,
    task: Option<String>,
    /// Entries of executions that have this status now
    #[schemars(extend("enum" = params::choices(ExecutionStatus::ALL, ExecutionStatus::as_str)))]
    status: Option<String>,
    /// Such as attempt_ended, or its beginning
    kind: Option<String>,
    /// As in agent:claude
    actor: Option<String>,
    #[schemars(extend("enum" = params::choices(ErrorCategory::ALL, ErrorCategory::as_str)))]
    category: Option<String>,
    /// RFC 3339, a date, or an age such as 2h
    #[schemars(extend("anyOf" = params::time_forms()))]
    since: Option<String>,
    #[schemars(extend("anyOf" = params::time_forms()))]
    until: Option<String>,
    /// Words that must all occur
    search: Option<String>,
    /// Newest first
    #[serde(default)]
    newest: bool,
    /// 1 to 500; 50 unless given
    #[schemars(range(min = 1, max = 500))]
    limit: Option<u64>,
    cursor: Option<String>,
}

async fn list(
    state: WebState,
    _signed_in: SignedIn,
    Params(query): Params<EntriesQuery>,
) -> Result<Json<Page<EntryView>>, Problem> {
    list_entries(&state, query).await
}

async fn list_of_execution(
    state: WebState,
    _signed_in: SignedIn,
    Path(id): Path<String>,
    Params(query): Params<EntriesQuery>,
) -> Result<Json<Page<EntryView>>, Problem> {
    let id = state.service.executions().find(&id).await?.id;
    list_entries(&state, EntriesQuery { execution: Some(id.to_string()), ..query }).await
}

async fn list_entries(state: &WebState, query: EntriesQuery) -> Result<Json<Page<EntryView>>, Problem> {
    let limit = page_limit(query.limit)?;
    let name = ListName::new("journal", &EntriesQuery { limit: None, cursor: None, ..query.clone() });
    let position = name.position(query.cursor.as_deref())?;
    let filter = JournalFilter {
        execution: query.execution,
        plan: query.plan,
        task: query.task,
        status: params::word(Error::NoSuchStatus, query.status)?,
        kind: query.kind,
        actor: query.actor,
        category: params::word(Error::NoSuchCategory, query.category)?,
        since: params::time("since", query.since)?,
        until: params::time("until", query.until)?,
        words: params::words(query.search),
        after: position.filter(|_| !query.newest).unwrap_or(0),
        payloads: false,
    };
    let journal = state.service.journal();
    let entries = if query.newest {
        journal.list_newest(&filter, position, limit + 1).await?
    } else {
        journal.list(&filter, limit + 1).await?
    };
    Ok(Page::cut(entries, limit, &name, |entry| entry.position))
}

async fn head(state: WebState, _signed_in: SignedIn) -> Result<Json<Value>, Problem> {
    let (position, hash) = state.service.journal().head().await?;
    Ok(Json(json!({ "position": position, "hash": hash })))
}

async fn verify(state: WebState, Change { caller, .. }: Change<NoFields>) -> Result<Response, Problem> {
    Ok(changed(&caller, StatusCode::OK, &state.service.journal().verify().await?))
}
