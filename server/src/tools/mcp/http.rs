//! MCP's Streamable HTTP on the one egress client: each message is one POST, sent once. It tells a call that
//! did not leave from one that was refused and one that nobody knows about, which rmcp's own client cannot.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use actbook_engine::policy::Category;
use futures_util::stream::BoxStream;
use futures_util::{StreamExt, TryStreamExt};
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Method, Request, Response, StatusCode, Url};
use rmcp::model::{ClientJsonRpcMessage, ClientRequest, ErrorData, GetMeta, RequestId, ServerJsonRpcMessage};
use rmcp::service::{RoleClient, RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use rmcp::transport::streamable_http_client::{
    SseError, StreamableHttpClient, StreamableHttpClientTransport, StreamableHttpError,
    StreamableHttpPostResponse,
};
use serde_json::Value;
use sse_stream::{Sse, SseStream};

use super::answer;
use super::connection::{KEY_META, LEAVE_GRACE, TRACE_META};
use super::raw::{Passed, passed};
use super::requests::reply_to;
use crate::config::Template;
use crate::tools::classify::{Came, classify};
use crate::tools::egress::{self, Egress, Place};
use crate::tools::limits::bytes::{ByteBudget, MESSAGE_BYTES_MAX, UNREAD_REPLIES_BYTES_MAX};
use crate::tools::secret::Secrets;
use crate::tools::{Ended, IDEMPOTENCY_HEADER, TRACE_HEADER, unfilled};

const JSON: &str = "application/json";
const EVENTS: &str = "text/event-stream";
const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
const LAST_EVENT: HeaderName = HeaderName::from_static("last-event-id");

type Posted = Result<StreamableHttpPostResponse, StreamableHttpError<NoMessage>>;
type Events = BoxStream<'static, Result<Sse, SseError>>;

/// Where a server is, with what it takes to be let in; filled in anew for each message.
#[derive(Clone)]
pub struct HttpClient {
    inner: Arc<Reach>,
}

struct Reach {
    egress: Egress,
    url: Template,
    headers: BTreeMap<String, Template>,
    secrets: Secrets,
    session_lost: AtomicBool,
}

/// rmcp's transport, with a bound on how long it may take to leave. It waits for its worker, and the worker may
/// wait for somebody to take a message off it, which nobody does any more: a server that floods us would keep
/// its connection for good. Let go, the worker finds nobody there and ends.
///
/// It also bounds the answers to a server's own requests that the server has not taken: each is a POST that waits.
pub struct Leaves {
    transport: StreamableHttpClientTransport<HttpClient>,
    unread: ByteBudget,
    /// The server lets too many answers wait.
    given_up: bool,
}

/// What an answer to a server's request is counted as: it has a request, and often a connection, of its own.
const REPLY_BYTES: usize = 64 * 1024;

impl Leaves {
    pub fn new(transport: StreamableHttpClientTransport<HttpClient>) -> Self {
        Self { transport, unread: ByteBudget::new(UNREAD_REPLIES_BYTES_MAX), given_up: false }
    }
}

impl Transport<RoleClient> for Leaves {
    type Error = StreamableHttpError<NoMessage>;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        let is_reply = matches!(item, ClientJsonRpcMessage::Response(_) | ClientJsonRpcMessage::Error(_));
        let room = is_reply.then(|| self.unread.reserve_queued(REPLY_BYTES));
        self.given_up |= matches!(room, Some(None));
        let sending = (!self.given_up).then(|| self.transport.send(item));
        async move {
            let sent = match sending {
                Some(sending) => sending.await,
                None => Err(StreamableHttpError::TransportChannelClosed),
            };
            drop(room);
            sent
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        loop {
            if self.given_up {
                tracing::warn!("a server that does not take the answers to its own requests is left");
                return None;
            }
            let heard = self.transport.receive().await?;
            let Some(reply) = reply_to(&heard) else { return Some(heard) };
            tokio::spawn(self.send(reply));
        }
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        tokio::time::timeout(LEAVE_GRACE, self.transport.close()).await.unwrap_or(Ok(()))
    }
}

/// A POST that brought no message back, and what that says of it.
#[derive(Clone, Debug)]
pub struct NoMessage(pub Came);

impl std::fmt::Display for NoMessage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match classify(self.0.clone(), false) {
            Ended::Failed { message, .. } | Ended::Unknown { message, .. } => f.write_str(&message),
            Ended::Succeeded { .. } | Ended::Asks { .. } => f.write_str("it answered"),
        }
    }
}

impl std::error::Error for NoMessage {}

fn no_message<T>(came: Came) -> Result<T, StreamableHttpError<NoMessage>> {
    Err(StreamableHttpError::Client(NoMessage(came)))
}

fn unintelligible<T>(why: impl Into<String>) -> Result<T, StreamableHttpError<NoMessage>> {
    no_message(Came::Unintelligible { why: why.into() })
}

impl HttpClient {
    pub fn new(
        egress: &Egress,
        url: &Template,
        headers: &BTreeMap<String, Template>,
        secrets: &Secrets,
    ) -> Self {
        let (egress, url, headers, secrets) = (egress.clone(), url.clone(), headers.clone(), secrets.clone());
        let session_lost = AtomicBool::new(false);
        Self { inner: Arc::new(Reach { egress, url, headers, secrets, session_lost }) }
    }

    /// The server has forgotten the session: the next use begins a fresh one.
    pub fn session_lost(&self) -> bool {
        self.inner.session_lost.load(Ordering::SeqCst)
    }

    async fn send(&self, method: Method, added: HeaderMap, body: Option<Vec<u8>>) -> Result<Response, Came> {
        let mut request = self.inner.request(method)?;
        request.headers_mut().extend(added);
        *request.body_mut() = body.map(Into::into);
        let own = Place::of(request.url());
        self.inner.egress.send(request, own.as_ref()).await
    }
}

impl Reach {
    fn request(&self, method: Method) -> Result<Request, Came> {
        let fill = |template: &Template| {
            self.secrets.resolve(template, &Value::Null).map_err(|problem| unfilled(&problem))
        };
        let wrong = |why: String| Came::NotSent { category: Category::InvalidArguments, why };
        let url = Url::parse(fill(&self.url)?.expose());
        let url = url.map_err(|error| wrong(format!("its `url` is no address: {error}")))?;
        let mut request = Request::new(method, url);
        for (name, value) in &self.headers {
            let value = HeaderValue::from_bytes(fill(value)?.expose().as_bytes());
            let mut value =
                value.map_err(|_| wrong(format!("the header `{name}` holds what none may hold")))?;
            let name: HeaderName =
                name.parse().map_err(|_| wrong(format!("`{name}` is no header's name")))?;
            value.set_sensitive(true);
            request.headers_mut().insert(name, value);
        }
        Ok(request)
    }
}

/// What rmcp adds to every message, and what a call carries.
fn headers(
    session: Option<&str>,
    added: HashMap<HeaderName, HeaderValue>,
    call: Option<&ClientJsonRpcMessage>,
) -> HeaderMap {
    let mut headers: HeaderMap = added.into_iter().collect();
    headers.insert(ACCEPT, HeaderValue::from_static("application/json, text/event-stream"));
    if let Some(Ok(session)) = session.map(HeaderValue::from_str) {
        headers.insert(SESSION, session);
    }
    if let Some(message) = call {
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(JSON));
        for (name, key) in [(IDEMPOTENCY_HEADER, KEY_META), (TRACE_HEADER, TRACE_META)] {
            let value = call_meta(message, key).and_then(|value| HeaderValue::from_str(&value).ok());
            value.and_then(|value| headers.insert(name, value));
        }
    }
    headers
}

fn call_meta(message: &ClientJsonRpcMessage, key: &str) -> Option<String> {
    let ClientJsonRpcMessage::Request(request) = message else { return None };
    let is_call = matches!(request.request, ClientRequest::CallToolRequest(_));
    let meta = is_call.then(|| request.request.get_meta())?;
    meta.get(key)?.as_str().map(str::to_owned)
}

impl StreamableHttpClient for HttpClient {
    type Error = NoMessage;

    async fn post_message(
        &self,
        _uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session_id: Option<Arc<str>>,
        _auth_header: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
    ) -> Posted {
        let body = serde_json::to_vec(&message)?;
        let headers = headers(session_id.as_deref(), custom_headers, Some(&message));
        let response = match self.send(Method::POST, headers, Some(body)).await {
            Ok(response) => response,
            Err(came) => return no_message(came),
        };
        if response.status() == StatusCode::NOT_FOUND && session_id.is_some() {
            self.inner.session_lost.store(true, Ordering::SeqCst);
            return no_message(Came::SessionLost);
        }
        match (response.status().is_success(), asked(&message)) {
            (true, Some(asked)) => answered(response, &asked).await,
            (true, None) => Ok(StreamableHttpPostResponse::Accepted),
            (false, asked) => refusal(response, asked).await,
        }
    }

    async fn delete_session(
        &self,
        _uri: Arc<str>,
        session_id: Arc<str>,
        _auth_header: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<(), StreamableHttpError<NoMessage>> {
        let headers = headers(Some(&session_id), custom_headers, None);
        match self.send(Method::DELETE, headers, None).await {
            Ok(_) => Ok(()),
            Err(came) => no_message(came),
        }
    }

    /// Only to take up the answer of a call whose stream broke. The stream of a server's own words is not
    /// asked for: nobody here listens to them, and it would hold a connection open for each server.
    async fn get_stream(
        &self,
        _uri: Arc<str>,
        session_id: Option<Arc<str>>,
        last_event_id: Option<String>,
        _auth_header: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<Events, StreamableHttpError<NoMessage>> {
        let Some(Ok(last)) = last_event_id.map(|id| HeaderValue::from_str(&id)) else {
            return Err(StreamableHttpError::ServerDoesNotSupportSse);
        };
        let mut headers = headers(session_id.as_deref(), custom_headers, None);
        headers.insert(LAST_EVENT, last);
        match self.send(Method::GET, headers, None).await {
            Ok(response) if response.status().is_success() && is(&response, EVENTS) => {
                Ok(events(response, None))
            }
            Ok(_) => Err(StreamableHttpError::ServerDoesNotSupportSse),
            Err(came) => no_message(came),
        }
    }
}

/// The request within a message, if it is one: everything else wants no answer.
struct Asked {
    id: RequestId,
    calls: bool,
    discovers: bool,
}

impl Asked {
    /// Its id, where it is a call.
    fn call(&self) -> Option<&RequestId> {
        self.calls.then_some(&self.id)
    }
}

fn asked(message: &ClientJsonRpcMessage) -> Option<Asked> {
    let ClientJsonRpcMessage::Request(request) = message else { return None };
    let discovers = matches!(request.request, ClientRequest::DiscoverRequest(_));
    let calls = matches!(request.request, ClientRequest::CallToolRequest(_));
    Some(Asked { id: request.id.clone(), calls, discovers })
}

fn is(response: &Response, kind: &str) -> bool {
    let said = response.headers().get(CONTENT_TYPE).and_then(|said| said.to_str().ok());
    said.is_some_and(|said| said.trim_start().to_ascii_lowercase().starts_with(kind))
}

async fn answered(mut response: Response, asked: &Asked) -> Posted {
    let session = response.headers().get(SESSION).and_then(|id| id.to_str().ok()).map(str::to_owned);
    if matches!(response.status(), StatusCode::ACCEPTED | StatusCode::NO_CONTENT) {
        return unintelligible("the server accepted the request and gave no answer to it");
    }
    if is(&response, EVENTS) {
        return Ok(StreamableHttpPostResponse::Sse(events(response, asked.call().cloned()), session));
    }
    if !is(&response, JSON) {
        return unintelligible("the server's answer is neither JSON nor a stream of events");
    }
    let body = match egress::read(&mut response, MESSAGE_BYTES_MAX).await {
        Ok((body, false)) => body,
        Ok((_, true)) => {
            let why = format!("the server's answer has more than {MESSAGE_BYTES_MAX} bytes");
            return no_message(Came::Broken { why });
        }
        Err(why) => return no_message(Came::Broken { why }),
    };
    if let Some(answer) = answer::of_call(&body, |id| Some(id) == asked.call()) {
        return Ok(StreamableHttpPostResponse::Json(answer, session));
    }
    let body = match passed(&body) {
        Passed::AsIs => body,
        Passed::Instead(other) => other,
        Passed::Nothing => return unintelligible("the server's answer is too large for what was asked"),
    };
    match serde_json::from_slice::<ServerJsonRpcMessage>(&body) {
        // An error without an id is about the one request that was sent.
        Ok(ServerJsonRpcMessage::Error(error)) if error.id.is_none() => {
            refused(error.error, asked.id.clone())
        }
        Ok(message) if answers(&message, &asked.id) => Ok(StreamableHttpPostResponse::Json(message, session)),
        Ok(_) => unintelligible("the server answered under another id"),
        Err(error) => unintelligible(format!("the server's answer is no JSON-RPC: {error}")),
    }
}

fn answers(message: &ServerJsonRpcMessage, id: &RequestId) -> bool {
    answer::id_of_request(message).is_some_and(|given| given.to_string() == id.to_string())
}

/// A status other than success. A JSON-RPC error in a 4xx is the server's own word on the request, and is
/// believed; whatever comes with a 5xx, nobody can tell how far it got.
async fn refusal(response: Response, asked: Option<Asked>) -> Posted {
    let status = response.status();
    let (came, body) = egress::refusal(response).await;
    let error = match serde_json::from_slice(&body) {
        Ok(ServerJsonRpcMessage::Error(error)) => Some(error.error),
        Ok(_) | Err(_) => None,
    };
    let said_no = status.is_client_error() && !matches!(status.as_u16(), 401 | 403 | 408 | 429);
    match (asked.filter(|_| said_no), error) {
        (Some(Asked { id, .. }), Some(error)) => refused(error, id),
        // What an older server makes of the newer handshake's first word.
        (Some(Asked { id, discovers: true, .. }), None) => {
            refused(ErrorData::invalid_request(NoMessage(came).to_string(), None), id)
        }
        (Some(Asked { discovers: false, .. }) | None, Some(_) | None) => no_message(came),
    }
}

fn refused(error: ErrorData, id: RequestId) -> Posted {
    Ok(StreamableHttpPostResponse::Json(ServerJsonRpcMessage::error(error, Some(id)), None))
}

/// The events of an answer, none of them larger than a message may be.
fn events(response: Response, call: Option<RequestId>) -> Events {
    let mut event_bytes = 0;
    let mut last = 0;
    let limited = response.bytes_stream().map_err(io::Error::other).and_then(move |chunk| {
        for byte in &chunk {
            // An event ends with an empty line.
            event_bytes = if *byte == b'\n' && last == b'\n' { 0 } else { event_bytes + 1 };
            last = if *byte == b'\r' { last } else { *byte };
        }
        let fits = event_bytes <= MESSAGE_BYTES_MAX;
        std::future::ready(if fits { Ok(chunk) } else { Err(io::Error::other("an event without end")) })
    });
    SseStream::from_bytes_stream(limited).map_ok(move |event| for_rmcp(event, call.as_ref())).boxed()
}

/// In a form that rmcp, which reads it next, does not mistake.
fn for_rmcp(mut event: Sse, call: Option<&RequestId>) -> Sse {
    let Some(data) = event.data.take() else { return event };
    let answer = answer::of_call(data.as_bytes(), |id| Some(id) == call);
    let other = match answer.and_then(|answer| serde_json::to_vec(&answer).ok()) {
        Some(plain) => Passed::Instead(plain),
        None => passed(data.as_bytes()),
    };
    event.data = match other {
        Passed::AsIs => Some(data),
        Passed::Instead(other) => String::from_utf8(other).ok(),
        Passed::Nothing => None,
    };
    event
}
