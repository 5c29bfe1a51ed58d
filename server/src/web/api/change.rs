//! A request that changes something: its caller, its idempotency key and its JSON body.

use std::time::Duration;

use axum::Json;
use axum::body::Bytes;
use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::params;
use crate::caller::{Caller, IdempotencyKey, KEY_BYTES_MAX};
use crate::mcp::http::BODY_BYTES_MAX;
use crate::web::json::parse_json;
use crate::web::{Problem, SignedIn};

const KEY_HEADER: HeaderName = HeaderName::from_static("idempotency-key");
/// Says that the request was made before under its key, so that nothing was done this time.
const REPEATED_HEADER: HeaderName = HeaderName::from_static("idempotency-replayed");

/// A request that changes something.
#[derive(Debug)]
pub struct Change<T> {
    /// With the request's idempotency key, if it has one.
    pub caller: Caller,
    pub body: T,
    /// How long to wait for the result; not part of what the key stands for.
    pub wait: Duration,
}

/// The body of a request that needs none: empty, or an object without fields.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NoFields {}

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for Change<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Self, Problem> {
        let (mut parts, body) = request.into_parts();
        let signed_in = SignedIn::from_request_parts(&mut parts, state).await?;
        // `guard_request` has read the body already.
        let bytes = axum::body::to_bytes(body, BODY_BYTES_MAX).await.unwrap_or_default();
        let mut document = parse_document(&parts.headers, &bytes)?;
        let wait = take_wait(&mut document)?;
        let target = parts.uri.path_and_query().map_or_else(|| parts.uri.path(), |target| target.as_str());
        let name = format!("{} {target}", parts.method);
        let key = idempotency_key(&parts.headers, &json!({ "request": name, "body": document }))?;
        let body = parse_body(document)?;
        Ok(Self { caller: signed_in.caller.with_key(key), body, wait })
    }
}

/// The body as JSON; an empty one is an object without fields.
fn parse_document(headers: &HeaderMap, bytes: &Bytes) -> Result<Value, Problem> {
    if bytes.is_empty() {
        return Ok(json!({}));
    }
    let content_type = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let media = content_type.and_then(|text| text.split(';').next()).map(str::trim);
    if !media.is_some_and(|media| media.eq_ignore_ascii_case("application/json")) {
        let detail = "the body must be application/json";
        let status = StatusCode::UNSUPPORTED_MEDIA_TYPE;
        return Err(Problem::new(status, "unsupported_media_type", detail, "send application/json"));
    }
    parse_json(bytes, "")
}

/// Takes `wait_s` out of a body.
fn take_wait(document: &mut Value) -> Result<Duration, Problem> {
    let wait = document.as_object_mut().and_then(|fields| fields.remove("wait_s"));
    match wait {
        None | Some(Value::Null) => Ok(Duration::ZERO),
        Some(given) => match given.as_f64() {
            Some(seconds) => params::wait(Some(seconds)),
            None => Err(Problem::bad_field("/wait_s", "it is a number of seconds")),
        },
    }
}

/// The request's key, quoted or bare; None: it has none. Err: it is empty, too long or no text, or there are several.
fn idempotency_key(headers: &HeaderMap, request: &Value) -> Result<Option<IdempotencyKey>, Problem> {
    let mut given = headers.get_all(KEY_HEADER).iter();
    let (first, second) = (given.next(), given.next());
    let Some(first) = first else { return Ok(None) };
    match first.to_str() {
        Ok(text) if second.is_none() && (1..=KEY_BYTES_MAX).contains(&unquoted(text).len()) => {
            Ok(Some(IdempotencyKey::new(unquoted(text), request)))
        }
        Ok(_) | Err(_) => {
            let detail = format!("give one key of 1 to {KEY_BYTES_MAX} plain characters");
            Err(Problem::bad_parameter("Idempotency-Key", detail))
        }
    }
}

/// The text without the quotes of a structured header.
fn unquoted(text: &str) -> &str {
    text.strip_prefix('"').and_then(|text| text.strip_suffix('"')).unwrap_or(text)
}

/// The body as its type; the problem names the place of the fault.
fn parse_body<T: DeserializeOwned>(document: Value) -> Result<T, Problem> {
    serde_path_to_error::deserialize(document).map_err(|error| {
        let path = error.path().to_string();
        let pointer = if path == "." { String::new() } else { format!("/{}", path.replace('.', "/")) };
        Problem::bad_field(&pointer, error.inner().to_string())
    })
}

/// The view of what was created, and where it can be read again: a path below `/api/v1`.
pub fn created(caller: &Caller, location: &str, view: &impl Serialize) -> Response {
    let mut response = changed(caller, StatusCode::CREATED, view);
    if let Ok(location) = HeaderValue::try_from(format!("/api/v1{location}")) {
        response.headers_mut().insert(header::LOCATION, location);
    }
    response
}

/// The view of what was changed, and whether that was a repetition.
pub fn changed(caller: &Caller, status: StatusCode, view: &impl Serialize) -> Response {
    let mut response = (status, Json(view)).into_response();
    if caller.key.as_ref().is_some_and(IdempotencyKey::was_repeated) {
        response.headers_mut().insert(REPEATED_HEADER, HeaderValue::from_static("true"));
    }
    response
}
