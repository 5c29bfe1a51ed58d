//! `/context`: notes that outlive a conversation.

use axum::Json;
use axum::extract::Path;
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::{delete, get, put};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::change::{Change, NoFields, changed};
use super::operation::Operation;
use super::page::{ListName, Page, page_limit};
use super::params::{self, Params};
use crate::caller::Right;
use crate::error::Error;
use crate::service::{NoteFilter, NoteOwnerRef, NoteSpec, NoteView};
use crate::web::{Problem, SignedIn, WebState};

pub fn operations() -> Vec<Operation> {
    vec![
        Operation::new("GET", "/context", "search_notes", get(list))
            .summary("Find notes: the best matches of a search first, else the newest")
            .query::<NotesQuery>()
            .gives("NotePage"),
        Operation::new("GET", "/context/{key}", "get_note", get(show))
            .summary("The note with this key, with every earlier value if asked for")
            .query::<NoteQuery>()
            .gives("Note"),
        Operation::new("PUT", "/context/{key}", "set_note", put(set))
            .summary("Write a note; a note with that key and owner gets a new value")
            .right(Right::Run)
            .body::<NoteBody>(json!({ "value": "port 4700", "type": "fact" }))
            .gives("NoteReceipt"),
        Operation::new("DELETE", "/context/{key}", "delete_note", delete(remove))
            .summary("Delete a note; its history stays in the journal")
            .right(Right::Run)
            .query::<OwnerQuery>()
            .gives("NoteReceipt"),
    ]
}

/// The query of `GET /context`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct NotesQuery {
    /// Words, beginnings (`begin*`) and "quoted phrases" that must all occur
    search: Option<String>,
    key: Option<String>,
    r#type: Option<String>,
    task: Option<String>,
    plan: Option<String>,
    execution: Option<String>,
    /// 1 to 500; 50 unless given
    #[schemars(range(min = 1, max = 500))]
    limit: Option<u64>,
    cursor: Option<String>,
}

/// The query of `GET /context/{key}`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct NoteQuery {
    task: Option<String>,
    plan: Option<String>,
    execution: Option<String>,
    /// Include every earlier value
    #[serde(default)]
    history: bool,
}

/// The query of `DELETE /context/{key}`: the note's owner.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct OwnerQuery {
    task: Option<String>,
    plan: Option<String>,
    execution: Option<String>,
}

/// The body of `PUT /context/{key}`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct NoteBody {
    value: Value,
    r#type: Option<String>,
    task: Option<String>,
    plan: Option<String>,
    execution: Option<String>,
    metadata: Option<Value>,
    /// Seconds after which searches no longer find it
    #[serde(default, deserialize_with = "params::integer")]
    expires_in_s: Option<u32>,
    /// Every project sees it
    everywhere: Option<bool>,
}

async fn list(
    state: WebState,
    _signed_in: SignedIn,
    Params(query): Params<NotesQuery>,
) -> Result<Json<Page<NoteView>>, Problem> {
    let limit = page_limit(query.limit)?;
    let name = ListName::new("context", &NotesQuery { limit: None, cursor: None, ..query.clone() });
    let filter = NoteFilter {
        search: query.search,
        key: query.key,
        r#type: query.r#type,
        owner: NoteOwnerRef { task: query.task, plan: query.plan, execution: query.execution },
        cursor: name.position(query.cursor.as_deref())?,
        history: false,
    };
    let page = state.service.notes().list(&filter, limit).await?;
    Ok(Page::before(page.notes, page.cursor, &name))
}

async fn show(
    state: WebState,
    _signed_in: SignedIn,
    Path(key): Path<String>,
    Params(query): Params<NoteQuery>,
) -> Result<Json<NoteView>, Problem> {
    let owner = NoteOwnerRef { task: query.task, plan: query.plan, execution: query.execution };
    let filter =
        NoteFilter { key: Some(key.clone()), owner, history: query.history, ..NoteFilter::default() };
    let note = state.service.notes().get(&filter).await?;
    Ok(Json(note.ok_or(Error::NoSuchNote { key })?))
}

async fn set(
    state: WebState,
    Path(key): Path<String>,
    Change { caller, body, .. }: Change<NoteBody>,
) -> Result<Response, Problem> {
    let NoteBody { value, r#type, task, plan, execution, metadata, expires_in_s, everywhere } = body;
    let owner = NoteOwnerRef { task, plan, execution };
    let expires_in_ms = expires_in_s.map(|seconds| i64::from(seconds) * 1_000);
    let note = NoteSpec { key, value, r#type, owner, metadata, expires_in_ms, everywhere };
    let receipt = state.service.notes().set(&caller, note).await?;
    Ok(changed(&caller, StatusCode::OK, &receipt))
}

async fn remove(
    state: WebState,
    Path(key): Path<String>,
    Params(query): Params<OwnerQuery>,
    Change { caller, .. }: Change<NoFields>,
) -> Result<Response, Problem> {
    let owner = NoteOwnerRef { task: query.task, plan: query.plan, execution: query.execution };
    let receipt = state.service.notes().delete(&caller, &key, &owner).await?;
    Ok(changed(&caller, StatusCode::OK, &receipt))
}
