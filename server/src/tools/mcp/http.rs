//! MCP's Streamable HTTP transport on the egress client: each message is one POST, sent once. Unlike rmcp's
//! own client it distinguishes calls that were not sent, that were refused, and whose outcome is unknown.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use actbook_engine::policy::ErrorCategory;
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

use super::call_response;
use super::connection::{EXIT_GRACE, IDEMPOTENCY_KEY_META, TRACE_META};
use super::raw_tools::{MessageRewrite, rewrite_for_rmcp};
use super::server_requests::RequestReplier;
use crate::config::ConfigTemplate;
use crate::egress::{self, EgressClient, HostPattern};
use crate::tools::classify::{RawOutcome, classify};
use crate::tools::limits::bytes::{ByteBudget, MESSAGE_BYTES_MAX, UNREAD_REPLIES_BYTES_MAX};
use crate::tools::secret::Secrets;
use crate::tools::{CallOutcome, IDEMPOTENCY_HEADER, TRACE_HEADER, template_not_filled};

const JSON_TYPE: &str = "application/json";
const EVENT_STREAM_TYPE: &str = "text/event-stream";
const SESSION_HEADER: HeaderName = HeaderName::from_static("mcp-session-id");
const LAST_EVENT_HEADER: HeaderName = HeaderName::from_static("last-event-id");

/// What rmcp gets for a POST: that it was accepted, a message, a stream of events, or an error.
type PostResult = Result<StreamableHttpPostResponse, StreamableHttpError<PostError>>;
/// The server-sent events of a response.
type EventStream = BoxStream<'static, Result<Sse, SseError>>;

/// The HTTP client of one MCP server. Its templates are filled in anew for each message. Clones share the
/// session state.
#[derive(Clone)]
pub struct McpHttpClient {
    inner: Arc<HttpTarget>,
}

/// URL, headers and session state of one server.
struct HttpTarget {
    egress: EgressClient,
    url: ConfigTemplate,
    headers: BTreeMap<String, ConfigTemplate>,
    secrets: Secrets,
    session_lost: AtomicBool,
}

/// rmcp's HTTP transport with a time limit on closing. rmcp waits for its worker to end, and the worker may
/// wait for its queue to be read, which no longer happens: a server that sends without pause would keep its
/// connection forever. After the limit the transport is dropped, and the worker ends because its channel is
/// closed.
///
/// It also limits the replies to a server's own requests that the server has not accepted: each is a pending
/// POST.
pub struct BoundedHttpTransport {
    transport: StreamableHttpClientTransport<McpHttpClient>,
    unread_replies: ByteBudget,
    /// The server left too many replies pending.
    aborted: bool,
    replier: RequestReplier,
}

/// The assumed memory of one pending reply: it has a request, and often a connection, of its own.
const REPLY_BYTES: usize = 64 * 1024;

impl BoundedHttpTransport {
    /// A transport to a server, whose requests `replier` answers.
    pub fn new(replier: RequestReplier, transport: StreamableHttpClientTransport<McpHttpClient>) -> Self {
        let unread_replies = ByteBudget::new(UNREAD_REPLIES_BYTES_MAX);
        Self { transport, unread_replies, aborted: false, replier }
    }
}

impl Transport<RoleClient> for BoundedHttpTransport {
    type Error = StreamableHttpError<PostError>;

    /// Sends a message. Err, and the connection ends, if too many replies to the server's requests are
    /// unread.
    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        let is_reply = matches!(item, ClientJsonRpcMessage::Response(_) | ClientJsonRpcMessage::Error(_));
        let room = is_reply.then(|| self.unread_replies.reserve_queued(REPLY_BYTES));
        self.aborted |= matches!(room, Some(None));
        let sending = (!self.aborted).then(|| self.transport.send(item));
        async move {
            let result = match sending {
                Some(sending) => sending.await,
                None => Err(StreamableHttpError::TransportChannelClosed),
            };
            drop(room);
            result
        }
    }

    /// The next message that is not a request of the server; requests are replied to here. None: the
    /// connection has ended.
    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        loop {
            if self.aborted {
                tracing::warn!(
                    "closing the connection to a server that does not accept replies to its requests"
                );
                return None;
            }
            let message = self.transport.receive().await?;
            let Some(reply) = self.replier.reply_to(&message) else { return Some(message) };
            tokio::spawn(self.send(reply));
        }
    }

    /// Closes the connection within `EXIT_GRACE`; takes it for closed after that.
    async fn close(&mut self) -> Result<(), Self::Error> {
        tokio::time::timeout(EXIT_GRACE, self.transport.close()).await.unwrap_or(Ok(()))
    }
}

/// The raw outcome of a POST that returned no JSON-RPC message.
#[derive(Clone, Debug)]
pub struct PostError(pub RawOutcome);

impl std::fmt::Display for PostError {
    /// The message that a call with this outcome would have.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match classify(self.0.clone(), false) {
            CallOutcome::Failed { message, .. } | CallOutcome::Unknown { message, .. } => {
                f.write_str(&message)
            }
            CallOutcome::Succeeded { .. } | CallOutcome::InputRequired { .. } => f.write_str("it answered"),
        }
    }
}

impl std::error::Error for PostError {}

/// Wraps a raw outcome as rmcp's error.
fn post_failed<T>(raw: RawOutcome) -> Result<T, StreamableHttpError<PostError>> {
    Err(StreamableHttpError::Client(PostError(raw)))
}

/// rmcp's error for a response that is not valid.
fn invalid_response<T>(why: impl Into<String>) -> Result<T, StreamableHttpError<PostError>> {
    post_failed(RawOutcome::InvalidResponse { why: why.into() })
}

impl McpHttpClient {
    /// A client for the configured URL and headers, without a session.
    pub fn new(
        egress: &EgressClient,
        url: &ConfigTemplate,
        headers: &BTreeMap<String, ConfigTemplate>,
        secrets: &Secrets,
    ) -> Self {
        let (egress, url, headers, secrets) = (egress.clone(), url.clone(), headers.clone(), secrets.clone());
        let session_lost = AtomicBool::new(false);
        Self { inner: Arc::new(HttpTarget { egress, url, headers, secrets, session_lost }) }
    }

    /// Whether the server has answered that it does not know the session; then the next use connects anew.
    pub fn session_lost(&self) -> bool {
        self.inner.session_lost.load(Ordering::SeqCst)
    }

    /// Sends one request with the configured headers and `added`, once and without following redirects. Ok
    /// also for a response with an error status.
    async fn send(
        &self,
        method: Method,
        added: HeaderMap,
        body: Option<Vec<u8>>,
    ) -> Result<Response, RawOutcome> {
        let mut request = self.inner.build_request(method)?;
        request.headers_mut().extend(added);
        *request.body_mut() = body.map(Into::into);
        let configured_host = HostPattern::from_url(request.url());
        Ok(self.inner.egress.send(request, configured_host.as_ref()).await?)
    }
}

impl HttpTarget {
    /// A request with the configured URL and headers filled in. Err: a reference cannot be resolved, or the
    /// result is invalid; not sent.
    fn build_request(&self, method: Method) -> Result<Request, RawOutcome> {
        let fill = |template: &ConfigTemplate| {
            self.secrets.resolve(template, &Value::Null).map_err(|problem| template_not_filled(&problem))
        };
        let invalid = |why: String| RawOutcome::NotSent { category: ErrorCategory::InvalidArguments, why };
        let url = Url::parse(fill(&self.url)?.expose());
        let url = url.map_err(|error| invalid(format!("its `url` is not a URL: {error}")))?;
        let mut request = Request::new(method, url);
        for (name, value) in &self.headers {
            let value = HeaderValue::from_bytes(fill(value)?.expose().as_bytes());
            let mut value = value
                .map_err(|_| invalid(format!("the header `{name}` has a value that headers cannot have")))?;
            let name: HeaderName =
                name.parse().map_err(|_| invalid(format!("`{name}` is not the name of a header")))?;
            value.set_sensitive(true);
            request.headers_mut().insert(name, value);
        }
        Ok(request)
    }
}

/// The headers of a message: those that rmcp adds, session and content type, and for a call its key and trace
/// context.
fn build_headers(
    session: Option<&str>,
    added: HashMap<HeaderName, HeaderValue>,
    body: Option<&ClientJsonRpcMessage>,
) -> HeaderMap {
    let mut headers: HeaderMap = added.into_iter().collect();
    headers.insert(ACCEPT, HeaderValue::from_static("application/json, text/event-stream"));
    if let Some(Ok(session)) = session.map(HeaderValue::from_str) {
        headers.insert(SESSION_HEADER, session);
    }
    if let Some(message) = body {
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(JSON_TYPE));
        for (name, key) in [(IDEMPOTENCY_HEADER, IDEMPOTENCY_KEY_META), (TRACE_HEADER, TRACE_META)] {
            let value = call_meta_value(message, key).and_then(|value| HeaderValue::from_str(&value).ok());
            value.and_then(|value| headers.insert(name, value));
        }
    }
    headers
}

/// A value in the `_meta` of a tool call. None: absent, or the message is not a call.
fn call_meta_value(message: &ClientJsonRpcMessage, key: &str) -> Option<String> {
    let ClientJsonRpcMessage::Request(request) = message else { return None };
    let is_call = matches!(request.request, ClientRequest::CallToolRequest(_));
    let meta = is_call.then(|| request.request.get_meta())?;
    meta.get(key)?.as_str().map(str::to_owned)
}

impl StreamableHttpClient for McpHttpClient {
    type Error = PostError;

    /// POSTs a message and reads the answer to a request. A 404 in a session means that the session is lost.
    async fn post_message(
        &self,
        _uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session_id: Option<Arc<str>>,
        _auth_header: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
    ) -> PostResult {
        let body = serde_json::to_vec(&message)?;
        let headers = build_headers(session_id.as_deref(), custom_headers, Some(&message));
        let response = match self.send(Method::POST, headers, Some(body)).await {
            Ok(response) => response,
            Err(raw) => return post_failed(raw),
        };
        if response.status() == StatusCode::NOT_FOUND && session_id.is_some() {
            self.inner.session_lost.store(true, Ordering::SeqCst);
            return post_failed(RawOutcome::SessionLost);
        }
        match (response.status().is_success(), sent_request(&message)) {
            (true, Some(request)) => read_answer(response, &request).await,
            (true, None) => Ok(StreamableHttpPostResponse::Accepted),
            (false, request) => read_failure(response, request).await,
        }
    }

    /// Asks the server to end the session; any response counts as success.
    async fn delete_session(
        &self,
        _uri: Arc<str>,
        session_id: Arc<str>,
        _auth_header: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<(), StreamableHttpError<PostError>> {
        let headers = build_headers(Some(&session_id), custom_headers, None);
        match self.send(Method::DELETE, headers, None).await {
            Ok(_) => Ok(()),
            Err(raw) => post_failed(raw),
        }
    }

    /// Only resumes the response stream of a call after it broke. The stream of server-initiated messages is
    /// not requested: they are not used, and it would hold a connection open for each server.
    async fn get_stream(
        &self,
        _uri: Arc<str>,
        session_id: Option<Arc<str>>,
        last_event_id: Option<String>,
        _auth_header: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<EventStream, StreamableHttpError<PostError>> {
        let Some(Ok(last)) = last_event_id.map(|id| HeaderValue::from_str(&id)) else {
            return Err(StreamableHttpError::ServerDoesNotSupportSse);
        };
        let mut headers = build_headers(session_id.as_deref(), custom_headers, None);
        headers.insert(LAST_EVENT_HEADER, last);
        match self.send(Method::GET, headers, None).await {
            Ok(response)
                if response.status().is_success() && has_content_type(&response, EVENT_STREAM_TYPE) =>
            {
                Ok(event_stream(response, None))
            }
            Ok(_) => Err(StreamableHttpError::ServerDoesNotSupportSse),
            Err(raw) => post_failed(raw),
        }
    }
}

/// A request that was sent and expects an answer. `is_call`: a tool call; `is_discover`: the first request of
/// the newer handshake.
struct SentRequest {
    id: RequestId,
    is_call: bool,
    is_discover: bool,
}

impl SentRequest {
    /// The id of a tool call. None: the request is something else.
    fn call_id(&self) -> Option<&RequestId> {
        self.is_call.then_some(&self.id)
    }
}

/// The request in a message. None: the message expects no answer.
fn sent_request(message: &ClientJsonRpcMessage) -> Option<SentRequest> {
    let ClientJsonRpcMessage::Request(request) = message else { return None };
    let discovers = matches!(request.request, ClientRequest::DiscoverRequest(_));
    let calls = matches!(request.request, ClientRequest::CallToolRequest(_));
    Some(SentRequest { id: request.id.clone(), is_call: calls, is_discover: discovers })
}

/// Whether the response's content type begins with `media_type`, ignoring case.
fn has_content_type(response: &Response, media_type: &str) -> bool {
    let value = response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    value.is_some_and(|value| value.trim_start().to_ascii_lowercase().starts_with(media_type))
}

/// Reads the answer to a request from a 2xx response: a stream of events, or one JSON message within
/// `MESSAGE_BYTES_MAX`.
async fn read_answer(mut response: Response, request: &SentRequest) -> PostResult {
    let session = response.headers().get(SESSION_HEADER).and_then(|id| id.to_str().ok()).map(str::to_owned);
    if matches!(response.status(), StatusCode::ACCEPTED | StatusCode::NO_CONTENT) {
        return invalid_response("the server accepted the request and gave no answer to it");
    }
    if has_content_type(&response, EVENT_STREAM_TYPE) {
        return Ok(StreamableHttpPostResponse::Sse(
            event_stream(response, request.call_id().cloned()),
            session,
        ));
    }
    if !has_content_type(&response, JSON_TYPE) {
        return invalid_response("the server's answer is neither JSON nor a stream of events");
    }
    let body = match egress::read_body(&mut response, MESSAGE_BYTES_MAX).await {
        Ok((body, false)) => body,
        Ok((_, true)) => {
            let why = format!("the server's answer has more than {MESSAGE_BYTES_MAX} bytes");
            return post_failed(RawOutcome::ConnectionLost { why });
        }
        Err(why) => return post_failed(RawOutcome::ConnectionLost { why }),
    };
    if let Some(answer) = call_response::parse(&body, |id| Some(id) == request.call_id()) {
        return Ok(StreamableHttpPostResponse::Json(answer, session));
    }
    let body = match rewrite_for_rmcp(&body) {
        MessageRewrite::Unchanged => body,
        MessageRewrite::Replaced(other) => other,
        MessageRewrite::Dropped => {
            return invalid_response("the server's answer is too large for what was asked");
        }
    };
    match serde_json::from_slice::<ServerJsonRpcMessage>(&body) {
        // An error without an id refers to the one request that was sent.
        Ok(ServerJsonRpcMessage::Error(error)) if error.id.is_none() => {
            error_answer(error.error, request.id.clone())
        }
        Ok(message) if is_answer_to(&message, &request.id) => {
            Ok(StreamableHttpPostResponse::Json(message, session))
        }
        Ok(_) => invalid_response("the server answered under another id"),
        Err(error) => invalid_response(format!("the server's answer is not JSON-RPC: {error}")),
    }
}

/// Whether a message answers the request; ids are compared as text, since some servers change their type.
fn is_answer_to(message: &ServerJsonRpcMessage, id: &RequestId) -> bool {
    call_response::answered_id(message).is_some_and(|answered| answered.to_string() == id.to_string())
}

/// Reads a non-2xx response. A JSON-RPC error in a 4xx, except 401, 403, 408 and 429, is the server's own
/// answer and is believed; after a 5xx it is unknown how far the request came.
async fn read_failure(response: Response, request: Option<SentRequest>) -> PostResult {
    let status = response.status();
    let failure = egress::read_failure(response).await;
    let error = match serde_json::from_slice(&failure.body) {
        Ok(ServerJsonRpcMessage::Error(error)) => Some(error.error),
        Ok(_) | Err(_) => None,
    };
    let raw = RawOutcome::from(failure);
    let is_believed = status.is_client_error() && !matches!(status.as_u16(), 401 | 403 | 408 | 429);
    match (request.filter(|_| is_believed), error) {
        (Some(SentRequest { id, .. }), Some(error)) => error_answer(error, id),
        // An older server's response to the first request of the newer handshake.
        (Some(SentRequest { id, is_discover: true, .. }), None) => {
            error_answer(ErrorData::invalid_request(PostError(raw).to_string(), None), id)
        }
        (Some(SentRequest { is_discover: false, .. }) | None, Some(_) | None) => post_failed(raw),
    }
}

/// A JSON-RPC error as the answer to request `id`.
fn error_answer(error: ErrorData, id: RequestId) -> PostResult {
    Ok(StreamableHttpPostResponse::Json(ServerJsonRpcMessage::error(error, Some(id)), None))
}

/// The events of a response, each limited to `MESSAGE_BYTES_MAX`. `call`: the id of the call that the
/// response answers, if it is one.
fn event_stream(response: Response, call: Option<RequestId>) -> EventStream {
    let mut event_bytes = 0;
    let mut last = 0;
    let limited = response.bytes_stream().map_err(io::Error::other).and_then(move |chunk| {
        for byte in &chunk {
            // An event ends with an empty line.
            event_bytes = if *byte == b'\n' && last == b'\n' { 0 } else { event_bytes + 1 };
            last = if *byte == b'\r' { last } else { *byte };
        }
        let fits = event_bytes <= MESSAGE_BYTES_MAX;
        std::future::ready(if fits { Ok(chunk) } else { Err(io::Error::other("an event that does not end")) })
    });
    SseStream::from_bytes_stream(limited).map_ok(move |event| rewrite_event(event, call.as_ref())).boxed()
}

/// Rewrites an event so that rmcp parses it as what it is; see `call_response` and `raw_tools`.
fn rewrite_event(mut event: Sse, call: Option<&RequestId>) -> Sse {
    let Some(data) = event.data.take() else { return event };
    let answer = call_response::parse(data.as_bytes(), |id| Some(id) == call);
    let answer = answer.or_else(|| unreadable_answer(data.as_bytes(), call?));
    let rewrite = match answer.and_then(|answer| serde_json::to_vec(&answer).ok()) {
        Some(normalized) => MessageRewrite::Replaced(normalized),
        None => rewrite_for_rmcp(data.as_bytes()),
    };
    event.data = match rewrite {
        MessageRewrite::Unchanged => Some(data),
        MessageRewrite::Replaced(other) => String::from_utf8(other).ok(),
        MessageRewrite::Dropped => None,
    };
    event
}

/// Stands for an answer to the call that rmcp cannot parse and would ignore. None: it can be parsed, or it is
/// not the call's answer.
fn unreadable_answer(message: &[u8], call: &RequestId) -> Option<ServerJsonRpcMessage> {
    let id = call_response::scan_answered_id(message).filter(|id| id == call)?;
    let is_readable = serde_json::from_slice::<ServerJsonRpcMessage>(message).is_ok();
    (!is_readable).then(|| call_response::invalid_answer(id))
}
