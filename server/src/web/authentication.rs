//! Who calls: checks the bearer token or the session cookie of every request that is not open to all, on loopback
//! too, since any page that the user visits can reach 127.0.0.1.

use axum::extract::{FromRequestParts, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use serde_json::json;

use super::event_stream::end_with_credential;
use super::problem::Problem;
use super::{RouterState, health};
use crate::caller::{Caller, Credential, Right};
use crate::error::Error;

/// Where programs read metrics.
pub const METRICS_PATH: &str = "/metrics";
/// JSON-RPC's code for an error of the server's own kind.
const JSONRPC_UNAUTHORIZED: i64 = -32_001;

/// For whom a path is: decides what it needs and how it words an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Audience {
    /// Anybody.
    Open,
    /// Agents: a token, errors as JSON-RPC.
    Mcp,
    /// Programs: a token or a session, errors as problem documents.
    Api,
    /// People: a session or a token, errors as pages.
    Page,
}

impl Audience {
    /// The audience of a path. What is not known to be open needs a credential.
    pub fn of(path: &str) -> Self {
        let is_under = |prefix: &str| path.strip_prefix(prefix).is_some_and(|rest| rest.starts_with('/'));
        if health::PATHS.contains(&path)
            || path == "/login"
            || is_under("/assets")
            || is_under("/.well-known")
        {
            Self::Open
        } else if path == "/mcp" {
            Self::Mcp
        } else if is_under("/api") || ["/openapi.json", METRICS_PATH].contains(&path) {
            Self::Api
        } else {
            Self::Page
        }
    }
}

/// The caller of a request that passed `authenticate`, with the rights of its credential.
#[derive(Clone, Debug)]
pub struct SignedIn {
    pub caller: Caller,
    pub credential: Credential,
}

impl SignedIn {
    /// Refuses a caller without a right, where the service does not check it because nothing is changed.
    pub fn require(&self, right: Right) -> Result<(), Problem> {
        if self.may(right) { Ok(()) } else { Err(Error::Forbidden { needed: right }.into()) }
    }

    /// Whether the caller has a right, for pages that show a button only to those who may press it.
    pub fn may(&self, right: Right) -> bool {
        self.caller.rights.has(right)
    }
}

impl<S: Sync> FromRequestParts<S> for SignedIn {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Problem> {
        let credential = parts.extensions.get::<Credential>().cloned().ok_or_else(Problem::unauthorized)?;
        Ok(Self { caller: Caller::of_credential(&credential), credential })
    }
}

/// Lets a request pass if its path is open or its credential is good; the credential is put into its extensions.
pub async fn authenticate(State(state): State<RouterState>, mut request: Request, next: Next) -> Response {
    let audience = Audience::of(request.uri().path());
    if audience == Audience::Open {
        return next.run(request).await;
    }
    match find_credential(&state, request.headers(), audience).await {
        Ok(Some(credential)) if audience == Audience::Mcp && !may_use_mcp(&credential) => mcp_error(
            StatusCode::FORBIDDEN,
            "this token's role may not see arguments and outputs, which MCP's answers hold",
        ),
        Ok(Some(credential)) => {
            request.extensions_mut().insert(credential.clone());
            let response = next.run(request).await;
            // The streams of the API and of pages look at their credential themselves.
            if audience == Audience::Mcp {
                end_with_credential(state.watch(credential), response)
            } else {
                response
            }
        }
        Ok(None) if audience == Audience::Mcp && is_open_mcp(&state, request.headers()) => {
            next.run(request).await
        }
        Ok(None) => refuse(&state, audience),
        Err(error) => Problem::from(error).into_response(),
    }
}

/// Whether a credential's role fits MCP, whose answers hold arguments and outputs.
fn may_use_mcp(credential: &Credential) -> bool {
    credential.role.rights().has(Right::Payloads)
}

/// Whether `/mcp` answers a request without a token. One that sends a bad token is refused nevertheless.
fn is_open_mcp(state: &RouterState, headers: &HeaderMap) -> bool {
    state.access().mcp_is_open && !headers.contains_key(header::AUTHORIZATION)
}

/// The credential of a request. None: it has none that is good. A request with an Authorization header is judged by
/// that alone; cookies are not for `/mcp`.
async fn find_credential(
    state: &RouterState,
    headers: &HeaderMap,
    audience: Audience,
) -> Result<Option<Credential>, Error> {
    let access = state.credentials();
    if let Some(given) = headers.get(header::AUTHORIZATION) {
        return match bearer_token(given) {
            Some(token) => access.check_token(token).await,
            None => Ok(None),
        };
    }
    match cookie(headers, &state.access().cookie_name).filter(|_| audience != Audience::Mcp) {
        Some(secret) => access.check_session(secret).await,
        None => Ok(None),
    }
}

/// The token of an Authorization header. None: it has another scheme.
fn bearer_token(given: &HeaderValue) -> Option<&str> {
    let (scheme, token) = given.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

/// The value of a cookie. None: the request has no cookie of this name.
pub fn cookie<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let lines = headers.get_all(header::COOKIE).iter().filter_map(|line| line.to_str().ok());
    let mut pairs = lines.flat_map(|line| line.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs.find(|(given, _)| *given == name).map(|(_, value)| value)
}

/// The 401 of a path without a good credential.
fn refuse(state: &RouterState, audience: Audience) -> Response {
    let mut response = match audience {
        Audience::Mcp => mcp_refusal(&state.access().base_url),
        Audience::Open | Audience::Api | Audience::Page => Problem::unauthorized().into_response(),
    };
    response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    response
}

/// The JSON-RPC error that tells an agent's user how to give the client a token.
fn mcp_refusal(base_url: &str) -> Response {
    let message = format!(
        "a token is needed: `actbook token create --role operator --name NAME` makes one, and `actbook install \
         --client CLIENT --url {base_url}/mcp` writes it into the client's settings"
    );
    mcp_error(StatusCode::UNAUTHORIZED, &message)
}

/// A JSON-RPC error to no request in particular.
fn mcp_error(status: StatusCode, message: &str) -> Response {
    let error = json!({ "code": JSONRPC_UNAUTHORIZED, "message": message });
    let body = json!({ "jsonrpc": "2.0", "id": null, "error": error });
    (status, axum::Json(body)).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_listed_paths_are_open() {
        for open in ["/healthz", "/readyz", "/login", "/assets/a.css", "/.well-known/x"] {
            assert_eq!(Audience::of(open), Audience::Open, "{open}");
        }
        for closed in ["/", "/assets", "/login/", "/assetsx/a", "/healthz/", "/executions/x"] {
            assert_eq!(Audience::of(closed), Audience::Page, "{closed}");
        }
        for api in ["/api/v1/x", "/openapi.json", "/metrics"] {
            assert_eq!(Audience::of(api), Audience::Api, "{api}");
        }
        assert_eq!(Audience::of("/mcp"), Audience::Mcp);
    }
}
