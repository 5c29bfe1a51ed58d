//! Errors over HTTP: problem documents (RFC 9457) for programs, pages for people.

use axum::extract::Request;
use axum::http::{HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use serde::Serialize;

use super::authentication::Audience;
use super::pages;
use super::status::error_status;
use crate::error::Error;
use crate::service::EarlierAnswer;

/// Most bytes of a library's own error text that become the detail of a problem.
const DETAIL_BYTES_MAX: usize = 4_096;
const PROBLEM_JSON: HeaderValue = HeaderValue::from_static("application/problem+json");

/// Why a request was not carried out.
#[derive(Clone, Debug)]
pub struct Problem {
    pub status: StatusCode,
    /// One word, for programs.
    pub code: &'static str,
    /// What is wrong.
    pub detail: String,
    /// What to do instead.
    pub cure: String,
    /// Each fault of the request's body or of its query.
    pub faults: Vec<RequestFault>,
    /// Who answered the question before, if that is the problem.
    pub answer: Option<Box<EarlierAnswer>>,
}

/// One fault of a request.
#[derive(Clone, Debug, Serialize)]
pub struct RequestFault {
    /// A JSON pointer into the body, or the name of a parameter.
    pub pointer: String,
    pub detail: String,
}

/// Marks a response with the status of an error as a finished page, which is sent as it is.
#[derive(Clone, Copy, Debug)]
pub struct RenderedPage;

/// A problem as programs read it.
#[derive(Debug, Serialize)]
struct ProblemDocument<'a> {
    r#type: String,
    title: String,
    status: u16,
    detail: &'a str,
    instance: &'a str,
    code: &'a str,
    cure: &'a str,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    errors: &'a [RequestFault],
    #[serde(skip_serializing_if = "Option::is_none")]
    answer: Option<&'a EarlierAnswer>,
}

impl Problem {
    /// A problem that HTTP alone knows, without faults.
    pub fn new(status: StatusCode, code: &'static str, detail: impl Into<String>, cure: &str) -> Self {
        Self { status, code, detail: detail.into(), cure: cure.to_owned(), faults: Vec::new(), answer: None }
    }

    /// A request that has a bad parameter.
    pub fn bad_parameter(name: &str, detail: impl Into<String>) -> Self {
        let detail = detail.into();
        let faults = vec![RequestFault { pointer: name.to_owned(), detail: detail.clone() }];
        let cure = "correct the parameter, or leave it out";
        Self { faults, ..Self::new(StatusCode::BAD_REQUEST, "bad_parameter", detail, cure) }
    }

    /// A body with a field that is wrong or missing. `pointer`: a JSON pointer, empty for the whole body.
    pub fn bad_field(pointer: &str, detail: impl Into<String>) -> Self {
        let detail = detail.into();
        let faults = vec![RequestFault { pointer: pointer.to_owned(), detail: detail.clone() }];
        let whole = if pointer.is_empty() { detail } else { format!("{pointer}: {detail}") };
        let status = StatusCode::UNPROCESSABLE_ENTITY;
        Self {
            faults,
            ..Self::new(status, "invalid_body", whole, "correct the body; /openapi.json has its schema")
        }
    }

    /// A request without a good credential.
    pub fn unauthorized() -> Self {
        let detail = "this needs a credential: it is missing, unknown, expired or revoked";
        let cure = "programs send `Authorization: Bearer TOKEN` (`actbook token create` makes one); people run \
                    `actbook open`";
        Self::new(StatusCode::UNAUTHORIZED, "unauthorized", detail, cure)
    }

    /// The problem that a plain response with an error status stands for.
    fn of_status(status: StatusCode, detail: String) -> Self {
        let (code, cure) = match status {
            StatusCode::NOT_FOUND => ("not_found", "GET /openapi.json lists the paths"),
            StatusCode::METHOD_NOT_ALLOWED => ("method_not_allowed", "the header Allow lists the methods"),
            StatusCode::UNSUPPORTED_MEDIA_TYPE => ("unsupported_media_type", "send application/json"),
            StatusCode::PAYLOAD_TOO_LARGE => ("too_large", "send less at once"),
            StatusCode::SERVICE_UNAVAILABLE => ("busy", "try again"),
            StatusCode::FORBIDDEN => ("forbidden", "call this server by its own name, from its own pages"),
            _ => ("bad_request", "correct the request"),
        };
        let detail =
            if detail.is_empty() { status.canonical_reason().unwrap_or(code).to_owned() } else { detail };
        Self::new(status, code, detail, cure)
    }

    fn document<'a>(&'a self, instance: &'a str) -> ProblemDocument<'a> {
        ProblemDocument {
            r#type: format!("urn:actbook:problem:{}", self.code),
            title: self.title(),
            status: self.status.as_u16(),
            detail: &self.detail,
            instance,
            code: self.code,
            cure: &self.cure,
            errors: &self.faults,
            answer: self.answer.as_deref(),
        }
    }

    /// The code as a phrase: `No such plan`.
    pub fn title(&self) -> String {
        let mut words = self.code.replace('_', " ");
        if let Some(first) = words.get_mut(..1) {
            first.make_ascii_uppercase();
        }
        words
    }
}

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        let status = error_status(&error);
        if status.is_server_error() {
            tracing::warn!("a request failed: {error}");
        }
        let finding_fault = |finding: &actbook_engine::plan::Finding| RequestFault {
            pointer: finding.path.clone(),
            detail: finding.message.clone(),
        };
        let faults = match error.path() {
            Some(path) if error.findings().is_empty() => {
                vec![RequestFault { pointer: path.to_owned(), detail: error.to_string() }]
            }
            Some(_) | None => error.findings().iter().map(finding_fault).collect(),
        };
        Self {
            status,
            code: error.code(),
            detail: error.to_string(),
            cure: error.cures().api,
            faults,
            answer: None,
        }
    }
}

/// The status alone; `render_problems` writes the body, since only it knows who reads it.
impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let mut response = self.status.into_response();
        response.extensions_mut().insert(self);
        response
    }
}

/// Writes the body of every error: a problem document for programs, a page for people. Errors of `/mcp` and of the
/// health routes pass as they are.
pub async fn render_problems(request: Request, next: Next) -> Response {
    let audience = Audience::of(request.uri().path());
    let path = request.uri().path().to_owned();
    let response = next.run(request).await;
    let is_error = response.status().is_client_error() || response.status().is_server_error();
    if !is_error || response.extensions().get::<RenderedPage>().is_some() {
        return response;
    }
    match audience {
        Audience::Mcp => response,
        Audience::Open if response.extensions().get::<Problem>().is_none() => response,
        Audience::Open | Audience::Page => {
            let (problem, response) = take_problem(response).await;
            with_headers_of(response, pages::error_page(&problem))
        }
        Audience::Api => {
            let (problem, response) = take_problem(response).await;
            let mut document = (problem.status, axum::Json(problem.document(&path))).into_response();
            document.headers_mut().insert(header::CONTENT_TYPE, PROBLEM_JSON);
            with_headers_of(response, document)
        }
    }
}

/// The problem that a response carries, or the one that its status and its short text stand for.
async fn take_problem(mut response: Response) -> (Problem, Response) {
    if let Some(problem) = response.extensions_mut().remove::<Problem>() {
        return (problem, response);
    }
    let status = response.status();
    let body = std::mem::take(response.body_mut());
    let text = axum::body::to_bytes(body, DETAIL_BYTES_MAX).await.unwrap_or_default();
    (Problem::of_status(status, String::from_utf8_lossy(&text).trim().to_owned()), response)
}

/// The rendered response with the headers of the original that say more than about its body.
fn with_headers_of(original: Response, mut rendered: Response) -> Response {
    for name in [header::WWW_AUTHENTICATE, header::ALLOW, header::RETRY_AFTER, header::SET_COOKIE] {
        if let Some(value) = original.headers().get(&name) {
            rendered.headers_mut().insert(name, value.clone());
        }
    }
    rendered
}
