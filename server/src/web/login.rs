//! Signing in: a one-time code in a URL becomes a session cookie.

use axum::Router;
use axum::extract::{Query, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::{get, post};
use serde::Deserialize;

use super::authentication::SignedIn;
use super::problem::Problem;
use super::{AccessConfig, RouterState, WebState, pages};
use crate::caller::CredentialKind;

/// The URL that signs a person in once.
pub fn login_url(base_url: &str, code: &str) -> String {
    format!("{base_url}/login?code={code}")
}

pub fn router() -> Router<RouterState> {
    Router::new().route("/login", get(login)).route("/logout", post(logout))
}

/// The query of `/login`.
#[derive(Debug, Deserialize)]
struct LoginQuery {
    code: Option<String>,
}

/// `GET /login?code=…`: redeems the code, sets the cookie and leads to the first page, so that the code is not left
/// in the address bar. A prefetch redeems nothing: the person has not asked for the page yet.
async fn login(
    State(state): State<RouterState>,
    method: Method,
    headers: HeaderMap,
    Query(query): Query<LoginQuery>,
) -> Result<Response, Problem> {
    let Some(code) = query.code else { return Ok(pages::login_page()) };
    if method != Method::GET || is_prefetch(&headers) {
        return Ok(StatusCode::NO_CONTENT.into_response());
    }
    let opened = state.credentials().redeem_login_code(&code).await?;
    let session = opened.ok_or_else(used_code)?;
    let mut response = Redirect::to("/").into_response();
    response.headers_mut().insert(header::SET_COOKIE, session_cookie(state.access(), &session.secret)?);
    Ok(response)
}

/// `POST /logout`: ends the session and removes its cookie.
async fn logout(state: WebState, signed_in: SignedIn) -> Result<Response, Problem> {
    if signed_in.credential.kind == CredentialKind::Session {
        state.service.access().end_session(&signed_in.caller, &signed_in.credential.id).await?;
    }
    let mut response = Redirect::to("/login").into_response();
    response.headers_mut().insert(header::SET_COOKIE, session_cookie(&state.access, "")?);
    Ok(response)
}

/// Whether a browser loads the page before the person asks for it.
fn is_prefetch(headers: &HeaderMap) -> bool {
    let purposes = ["sec-purpose", "purpose", "x-moz"].iter().filter_map(|name| headers.get(*name));
    purposes.into_iter().any(|value| value.to_str().is_ok_and(|value| value.contains("prefetch")))
}

fn used_code() -> Problem {
    let detail = "this link was used already, or is older than ten minutes";
    Problem::new(StatusCode::FORBIDDEN, "login_code_used", detail, "run `actbook open` for a new one")
}

/// The cookie of a session; an empty secret removes it.
fn session_cookie(access: &AccessConfig, secret: &str) -> Result<HeaderValue, Problem> {
    let secure = if access.is_https { "; Secure" } else { "" };
    let removed = if secret.is_empty() { "; Max-Age=0" } else { "" };
    let name = &access.cookie_name;
    let cookie = format!("{name}={secret}; Path=/; HttpOnly; SameSite=Lax{secure}{removed}");
    HeaderValue::try_from(cookie)
        .map_err(|error| Problem::from(crate::error::Error::Bug(format!("the cookie is no header: {error}"))))
}
