//! `/tokens` and `/sessions`: the credentials of callers, for admins.

use std::time::Duration;

use axum::Json;
use axum::extract::Path;
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::{delete, get, post};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use super::change::{Change, NoFields, changed};
use super::operation::Operation;
use super::page::{ListName, Page, PageParams};
use super::params::{self, Params};
use crate::caller::{Right, Role};
use crate::service::{LoginSessionView, TOKEN_LIFETIME, TokenSpec, TokenView};
use crate::web::{Problem, SignedIn, WebState};

pub fn operations() -> Vec<Operation> {
    vec![
        Operation::new("GET", "/tokens", "list_tokens", get(list_tokens))
            .summary("List the tokens, oldest first, without their secrets")
            .query::<PageParams>()
            .right(Right::Admin)
            .gives("TokenPage"),
        Operation::new("POST", "/tokens", "create_token", post(create_token))
            .summary("Create a token; its secret is shown this once")
            .right(Right::Admin)
            .body::<CreateTokenBody>(json!({ "name": "ci", "role": "viewer", "expires_in_s": 2_592_000 }))
            .creates("NewToken"),
        Operation::new("POST", "/tokens/{id}/rotate", "rotate_token", post(rotate_token))
            .summary("Replace a token by a new one of the same name and role; the old one is good for 24 hours more")
            .right(Right::Admin)
            .body::<NoFields>(json!({}))
            .creates("NewToken"),
        Operation::new("DELETE", "/tokens/{id}", "revoke_token", delete(revoke_token))
            .summary("Revoke a token at once, by id or name")
            .right(Right::Admin)
            .gives("Token"),
        Operation::new("GET", "/sessions", "list_sessions", get(list_sessions))
            .summary("List the open sessions of browsers, oldest first")
            .query::<PageParams>()
            .right(Right::Admin)
            .gives("SessionPage"),
        Operation::new("DELETE", "/sessions/{id}", "end_session", delete(end_session))
            .summary("End a session: one's own, or any as an admin")
            .right(Right::Read)
            .gives_nothing(),
    ]
}

/// The body of `POST /tokens`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct CreateTokenBody {
    #[schemars(length(min = 1, max = 60))]
    name: String,
    /// viewer, agent, operator, approver or admin.
    #[schemars(extend("enum" = Role::ALL))]
    role: String,
    /// For a person instead of an agent or a program.
    #[serde(default)]
    person: bool,
    /// Seconds until it expires; 90 days unless given.
    #[serde(default, deserialize_with = "params::integer")]
    expires_in_s: Option<u64>,
}

async fn list_tokens(
    state: WebState,
    signed_in: SignedIn,
    Params(query): Params<PageParams>,
) -> Result<Json<Page<TokenView>>, Problem> {
    let tokens = state.service.access().list_tokens(&signed_in.caller).await?;
    let key = |one: &TokenView| format!("{}\n{}", one.created_at, one.id);
    Page::of_all(tokens, &query, &ListName::new("tokens", &()), key)
}

async fn create_token(
    state: WebState,
    Change { caller, body, .. }: Change<CreateTokenBody>,
) -> Result<Response, Problem> {
    let role: Role = body.role.parse().map_err(|why| Problem::bad_field("/role", why))?;
    let lifetime = body.expires_in_s.map_or(TOKEN_LIFETIME, Duration::from_secs);
    let spec = TokenSpec { name: body.name, role, is_person: body.person, lifetime };
    let created = state.service.access().create_token(&caller, spec).await?;
    Ok(changed(&caller, StatusCode::CREATED, &created))
}

async fn rotate_token(
    state: WebState,
    Path(id): Path<String>,
    Change { caller, .. }: Change<NoFields>,
) -> Result<Response, Problem> {
    let created = state.service.access().rotate_token(&caller, &id).await?;
    Ok(changed(&caller, StatusCode::CREATED, &created))
}

async fn revoke_token(
    state: WebState,
    Path(id): Path<String>,
    Change { caller, .. }: Change<NoFields>,
) -> Result<Json<TokenView>, Problem> {
    Ok(Json(state.service.access().revoke_token(&caller, &id).await?))
}

async fn list_sessions(
    state: WebState,
    signed_in: SignedIn,
    Params(query): Params<PageParams>,
) -> Result<Json<Page<LoginSessionView>>, Problem> {
    let sessions = state.service.access().list_sessions(&signed_in.caller).await?;
    let key = |one: &LoginSessionView| format!("{}\n{}", one.created_at, one.id);
    Page::of_all(sessions, &query, &ListName::new("sessions", &()), key)
}

async fn end_session(
    state: WebState,
    Path(id): Path<String>,
    Change { caller, .. }: Change<NoFields>,
) -> Result<StatusCode, Problem> {
    state.service.access().end_session(&caller, &id).await?;
    Ok(StatusCode::NO_CONTENT)
}
