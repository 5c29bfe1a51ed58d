//! One connection to an MCP server: its endpoint (a child process or an HTTP client), the rmcp client on top
//! of it, and the calls in flight. Calls to a child bypass the rmcp client.

mod call;
mod late;
mod listing;
mod requests;

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use actbook_engine::policy::ErrorCategory;
use rmcp::ClientHandler;
use rmcp::model::{
    ClientCapabilities, ClientConfig, ClientRequest, Implementation, PingRequest, ProtocolVersion,
    RequestMetaObject,
};
use rmcp::service::{
    ClientCacheConfig, ClientInitializeError, ClientLifecycleMode, ClientServiceExt, Peer, RoleClient,
    RunningService, ServiceError,
};
use rmcp::transport::DynamicTransportError;
use rmcp::transport::common::client_side_sse::FixedInterval;
use rmcp::transport::streamable_http_client::{
    StreamableHttpClientTransport, StreamableHttpClientTransportConfig, StreamableHttpError,
};
use tokio::process::Command;
use tokio::sync::Mutex;

use super::ConnectError;
use super::client_events::{ClientEvents, ProgressHandlers, QuestionHandlers};
use super::fault::ConnectionFault;
use super::health::Health;
use super::http::{BoundedHttpTransport, McpHttpClient, PostError};
use super::raw_tools::ListChanges;
use super::server_requests::RequestReplier;
use super::stdio::{CallWriter, ClientMeta, StdioTransport};
use crate::tools::CallOutcome;
use crate::tools::classify::{RawOutcome, classify, with_detail};
use crate::tools::process::{self, ProcessGroup, ProcessIdentity, StderrTail};
use crate::tools::secret::Secrets;
use crate::tools::server_events::ServerEvents;
pub use call::{IDEMPOTENCY_KEY_META, TRACE_META, tool_result};
use late::LateCalls;
use listing::CachedListing;

/// How long a server may take to exit after its input is closed.
pub const EXIT_GRACE: Duration = Duration::from_secs(1);
/// How long a server may take to exit after its output has ended.
const EXIT_TIMEOUT: Duration = Duration::from_millis(500);
/// A handshake that takes longer is logged.
const SLOW_START: Duration = Duration::from_secs(5);
/// A server that does not answer a ping within this is stopped.
const PING_TIMEOUT: Duration = Duration::from_secs(3);
/// Effectively no limit: concurrency is limited by `ServerLimits`, and calls that count as sent must not wait
/// here.
const POSTS_MAX: usize = 1 << 16;
/// How often a broken response stream is resumed, where the server numbers its events.
const STREAM_RESUMES_MAX: usize = 3;

/// A connection to an MCP server on which the handshake is done.
pub struct McpConnection {
    endpoint: ServerEndpoint,
    peer: Peer<RoleClient>,
    /// The client metadata that calls to a child repeat.
    client_meta: ClientMeta,
    /// The running rmcp client. None: closed.
    service: Mutex<Option<RunningService<RoleClient, ClientEvents>>>,
    progress_handlers: ProgressHandlers,
    questions: QuestionHandlers,
    calls_in_flight: AtomicUsize,
    cached_listing: Mutex<Option<CachedListing>>,
    list_changes: ListChanges,
    health: Health,
    late_calls: LateCalls,
}

/// The other end of a connection.
enum ServerEndpoint {
    Child(ChildServer),
    Http(McpHttpClient),
}

/// An MCP server that runs as a child process.
struct ChildServer {
    group: ProcessGroup,
    stderr_tail: StderrTail,
    fault: ConnectionFault,
    call_writer: CallWriter,
}

/// Starts a server and performs the handshake, within `limit` for each start; after a start that took all of it, within
/// `SLOW_START`.
///
/// A server with an older protocol version may exit on the newer handshake's first request; it is started a
/// second time with the older handshake. So is one that answered that request only after rmcp had stopped
/// waiting.
pub async fn start_child(
    name: String,
    mut command: Command,
    secrets: Secrets,
    limit: Duration,
    events: ServerEvents,
) -> Result<Arc<McpConnection>, ConnectError> {
    let context = (&secrets, &events);
    let started = match start_child_with(&name, &mut command, context, limit, auto_lifecycle()).await {
        Err(HandshakeFailure { retry_legacy: Some(limit), .. }) => {
            start_child_with(&name, &mut command, context, limit, ClientLifecycleMode::Initialize).await
        }
        started => started,
    };
    started.map(Arc::new).map_err(|failed| failed.error)
}

/// Performs the handshake with a server over HTTP, within `limit` for each attempt; a second attempt uses the
/// older handshake, if the server may understand only that.
pub async fn connect_http(
    name: String,
    client: McpHttpClient,
    limit: Duration,
    events: ServerEvents,
) -> Result<Arc<McpConnection>, ConnectError> {
    let reached = match connect_http_with(&name, &client, limit, &events, auto_lifecycle()).await {
        Err(HandshakeFailure { retry_legacy: Some(limit), .. }) => {
            connect_http_with(&name, &client, limit, &events, ClientLifecycleMode::Initialize).await
        }
        reached => reached,
    };
    reached.map(Arc::new).map_err(|failed| failed.error)
}

/// A failed start or handshake.
struct HandshakeFailure {
    error: ConnectError,
    /// How long a second attempt with the older handshake may take. `None`: the server does not need it.
    retry_legacy: Option<Duration>,
}

/// Starts a server and performs the handshake in the given lifecycle mode.
async fn start_child_with(
    name: &str,
    command: &mut Command,
    (secrets, events): (&Secrets, &ServerEvents),
    limit: Duration,
    lifecycle: ClientLifecycleMode,
) -> Result<McpConnection, HandshakeFailure> {
    let (group, pipes) = process::spawn_server(command).map_err(|error| {
        let program = command.as_std().get_program().to_string_lossy();
        let why = format!("the server `{name}` cannot be started: {program}: {error}");
        HandshakeFailure {
            error: ConnectError { category: ErrorCategory::Unavailable, why },
            retry_legacy: None,
        }
    })?;
    let (stderr_tail, fault) = (StderrTail::default(), ConnectionFault::new(group.killer()));
    let changes = ListChanges::default();
    let draining = process::drain_stderr(name.to_owned(), pipes.stderr, stderr_tail.clone(), secrets.clone());
    tokio::spawn(group.run_until_exit(draining));
    let questions = QuestionHandlers::default();
    let replier = RequestReplier::new(name, questions.clone());
    let transport = StdioTransport::new(replier, (pipes.stdin, pipes.stdout), fault.clone(), changes.clone());
    let call_writer = transport.call_writer();
    let handshake = client_handler(name, events, questions).serve_with_lifecycle(transport, lifecycle);
    let (mut late, mut timed_out) = (false, false);
    let failed = match await_handshake(limit, name, handshake).await {
        Some(Ok(service)) => {
            call_writer.mark_handshake_done();
            let child = ChildServer { group, stderr_tail, fault, call_writer };
            return Ok(McpConnection::new(ServerEndpoint::Child(child), service, changes).await);
        }
        Some(Err(error)) => {
            late = is_late_response(&error);
            handshake_error_text(&error)
        }
        None => {
            timed_out = true;
            handshake_timeout_text(limit, name)
        }
    };
    // This closes the last handle of its input, so the server may exit by itself.
    drop(call_writer);
    let exited = exit_text(&group).await;
    let stderr = match exited {
        Some(_) => stderr_tail.wait_for_text().await,
        None => stderr_tail.text(),
    };
    // An aborted server has not exited by itself and would be aborted again.
    let aborted = fault.reason().map(str::to_owned);
    // A server that answered nothing for so long hardly answers the older handshake: its second chance is short.
    let again = if timed_out { SLOW_START.min(limit) } else { limit };
    let retry_legacy = (aborted.is_none() && (late || exited.is_some())).then_some(again);
    let how = aborted.or(exited).unwrap_or(failed);
    let why = with_detail(format!("the server `{name}` did not start: it {how}"), &stderr);
    Err(HandshakeFailure { error: ConnectError { category: ErrorCategory::Unavailable, why }, retry_legacy })
}

/// Waits for the handshake and logs a warning when it is slow. None: it took longer than `limit`. `name`: the
/// server's.
async fn await_handshake<T>(limit: Duration, name: &str, handshake: impl Future<Output = T>) -> Option<T> {
    let mut handshake = pin!(handshake);
    if let Ok(done) = tokio::time::timeout(SLOW_START.min(limit), &mut handshake).await {
        return Some(done);
    }
    let left = limit.saturating_sub(SLOW_START);
    if !left.is_zero() {
        tracing::warn!(
            "the server `{name}` has not answered for {SLOW_START:?}; it is given up after {limit:?}"
        );
    }
    tokio::time::timeout(left, handshake).await.ok()
}

/// The message of a handshake timeout, as the rest of a sentence.
fn handshake_timeout_text(limit: Duration, name: &str) -> String {
    format!("did not answer within {limit:?} (`servers.{name}.start_timeout` in the config gives it longer)")
}

/// Whether the server answered the newer handshake only after rmcp had fallen back to the older one.
fn is_late_response(error: &ClientInitializeError) -> bool {
    match error {
        ClientInitializeError::LegacyFallbackFailed { fallback, .. } => is_late_response(fallback),
        error => matches!(error, ClientInitializeError::ConflictInitResponseId(..)),
    }
}

/// Performs the HTTP handshake in the given lifecycle mode.
async fn connect_http_with(
    name: &str,
    http: &McpHttpClient,
    limit: Duration,
    events: &ServerEvents,
    lifecycle: ClientLifecycleMode,
) -> Result<McpConnection, HandshakeFailure> {
    // rmcp requires a URI but passes it to our client only, which knows the real URL with its secrets.
    let mut config = StreamableHttpClientTransportConfig::with_uri(name)
        .max_concurrent_requests(POSTS_MAX)
        .reinit_on_expired_session(false);
    let mut resumes = FixedInterval::default();
    resumes.max_times = Some(STREAM_RESUMES_MAX);
    config.retry_config = Arc::new(resumes);
    let questions = QuestionHandlers::default();
    let transport = BoundedHttpTransport::new(
        RequestReplier::new(name, questions.clone()),
        StreamableHttpClientTransport::with_client(http.clone(), config),
    );
    let handshake = client_handler(name, events, questions).serve_with_lifecycle(transport, lifecycle);
    let (category, how, retry_legacy) = match await_handshake(limit, name, handshake).await {
        Some(Ok(service)) => {
            let endpoint = ServerEndpoint::Http(http.clone());
            return Ok(McpConnection::new(endpoint, service, ListChanges::default()).await);
        }
        Some(Err(error)) => classify_http_handshake_error(&error),
        None => (ErrorCategory::Timeout, format!("it {}", handshake_timeout_text(limit, name)), false),
    };
    let why = format!("the server `{name}` cannot be reached: {how}");
    let retry_legacy = retry_legacy.then_some(limit);
    Err(HandshakeFailure { error: ConnectError { category, why }, retry_legacy })
}

/// The category and message of a failed HTTP handshake, and whether to retry with the older handshake: any
/// server that answered at all, except with a permission error, may need it.
fn classify_http_handshake_error(error: &ClientInitializeError) -> (ErrorCategory, String, bool) {
    let post_error = match error {
        ClientInitializeError::LegacyFallbackFailed { fallback, .. } => {
            return classify_http_handshake_error(fallback);
        }
        ClientInitializeError::TransportError { error, .. } => find_post_error(error),
        _ => None,
    };
    match post_error.map(|PostError(raw)| classify(raw.clone(), false)) {
        Some(CallOutcome::Failed { category, message, sent, .. }) => {
            (category, message, sent && category != ErrorCategory::Permission)
        }
        Some(CallOutcome::Unknown { category, message, .. }) => (category, message, true),
        Some(CallOutcome::Succeeded { .. } | CallOutcome::InputRequired { .. }) | None => {
            (ErrorCategory::Unavailable, format!("it {}", handshake_error_text(error)), true)
        }
    }
}

/// The `PostError` inside rmcp's transport error. None: the error has another cause.
fn find_post_error(error: &DynamicTransportError) -> Option<&PostError> {
    match error.error.downcast_ref::<StreamableHttpError<PostError>>() {
        Some(StreamableHttpError::Client(post_error)) => Some(post_error),
        Some(_) | None => None,
    }
}

/// A new handler that introduces this client and receives notifications.
fn client_handler(server: &str, events: &ServerEvents, questions: QuestionHandlers) -> ClientEvents {
    let name = Implementation::new(env!("CARGO_PKG_NAME"), env!("CARGO_PKG_VERSION"));
    let capabilities = ClientCapabilities::builder().enable_tasks().enable_elicitation().build();
    ClientEvents::new(ClientConfig::new(capabilities, name), server, events.clone(), questions)
}

/// The lifecycle mode that tries the newer handshake and falls back to the older one.
fn auto_lifecycle() -> ClientLifecycleMode {
    ClientLifecycleMode::Auto {
        preferred_versions: vec![ProtocolVersion::V_2026_07_28],
        legacy_version: Some(ProtocolVersion::LATEST_WITH_INITIALIZE),
    }
}

/// A handshake error as the rest of a sentence; some of rmcp's errors would print whole messages.
fn handshake_error_text(error: &ClientInitializeError) -> String {
    match error {
        ClientInitializeError::ConnectionClosed(_) => "closed its output".to_owned(),
        ClientInitializeError::ExpectedInitResponse(_) | ClientInitializeError::ExpectedInitResult(_) => {
            "did not answer the handshake as the protocol requires".to_owned()
        }
        ClientInitializeError::LegacyFallbackFailed { fallback, .. } => handshake_error_text(fallback),
        other => format!("failed the handshake: {other}"),
    }
}

/// How the group exited, as the rest of a sentence. None: it did not exit within `EXIT_TIMEOUT`.
async fn exit_text(group: &ProcessGroup) -> Option<String> {
    tokio::time::timeout(EXIT_TIMEOUT, group.wait_for_exit()).await.ok().map(process::describe_exit)
}

impl McpConnection {
    /// Wraps a service whose handshake is done, and turns off rmcp's response cache.
    async fn new(
        endpoint: ServerEndpoint,
        service: RunningService<RoleClient, ClientEvents>,
        changes: ListChanges,
    ) -> Self {
        let peer = service.peer().clone();
        let mut no_cache = ClientCacheConfig::default();
        no_cache.enabled = false;
        no_cache.serve_stale_on_error = false;
        peer.set_response_cache_config(no_cache).await;
        Self {
            endpoint,
            client_meta: build_client_meta(&peer, &service.service().get_info()),
            progress_handlers: service.service().progress_handlers.clone(),
            questions: service.service().questions.clone(),
            peer,
            service: Mutex::new(Some(service)),
            calls_in_flight: AtomicUsize::new(0),
            cached_listing: Mutex::default(),
            list_changes: changes,
            health: Health::new(),
            late_calls: LateCalls::default(),
        }
    }

    /// The server's process. None: an HTTP server.
    pub fn process(&self) -> Option<ProcessIdentity> {
        match &self.endpoint {
            ServerEndpoint::Child(child) => Some(child.group.process),
            ServerEndpoint::Http(_) => None,
        }
    }

    /// Whether the connection can carry another call: not closed, the child runs or the HTTP session is
    /// known, and pings are answered.
    pub fn is_up(&self) -> bool {
        let endpoint_up = match &self.endpoint {
            ServerEndpoint::Child(child) => child.group.is_running() && !child.call_writer.calls.is_closed(),
            ServerEndpoint::Http(client) => !client.session_lost(),
        };
        endpoint_up && !self.peer.is_transport_closed() && !self.health.is_unresponsive()
    }

    /// When the server last answered, and whether calls or pings went unanswered since.
    pub fn health(&self) -> &Health {
        &self.health
    }

    /// The negotiated protocol version. None: the handshake named none.
    pub fn protocol_version(&self) -> Option<String> {
        self.peer.peer_info().map(|info| info.protocol_version.to_string())
    }

    /// Whether to ping before the next call: a call has timed out, or the server was silent for `check_after`
    /// with no call in flight.
    pub fn needs_ping(&self, check_after: Duration) -> bool {
        self.health.is_suspect() || (self.is_idle() && self.health.silent_for() >= check_after)
    }

    /// Whether no call is in flight.
    fn is_idle(&self) -> bool {
        self.calls_in_flight.load(Ordering::SeqCst) == 0
    }

    /// Pings until the server answers, with an error or not, and returns whether the connection is up. A
    /// server that does not answer is stopped once no call is in flight that it may be busy with; until then
    /// this waits, and no new call is sent.
    pub async fn ping(&self, check_after: Duration) -> bool {
        let _ping_lock = self.health.ping_lock.lock().await;
        while self.is_up() && self.needs_ping(check_after) {
            let answer = tokio::time::timeout(PING_TIMEOUT, self.send_ping()).await;
            if let Ok(Ok(()) | Err(ServiceError::McpError(_))) = answer {
                self.health.record_answer();
            } else if self.is_idle() && self.needs_ping(check_after) {
                tracing::warn!(process = ?self.process(), "stopping a server that no longer answers");
                self.health.mark_unresponsive();
                if let ServerEndpoint::Child(child) = &self.endpoint {
                    child.group.terminate_then_kill().await;
                }
            }
        }
        self.is_up()
    }

    /// Sends a ping, or `tools/list` where the protocol version has no ping.
    async fn send_ping(&self) -> Result<(), ServiceError> {
        if self.peer.peer_info().is_none_or(|info| !info.protocol_version.has_initialize()) {
            return self.peer.list_tools(None).await.map(drop);
        }
        self.peer.send_request(ClientRequest::PingRequest(PingRequest::default())).await.map(drop)
    }

    /// rmcp's client side of the connection, for requests other than tool calls.
    pub(super) fn peer(&self) -> &Peer<RoleClient> {
        &self.peer
    }

    /// The outcome of a call whose connection was lost, with the reason; kills the child.
    async fn connection_lost(&self) -> RawOutcome {
        let why = self.loss_reason().await;
        if let ServerEndpoint::Child(child) = &self.endpoint {
            child.group.kill();
        }
        RawOutcome::ConnectionLost { why }
    }

    /// Why the connection was lost, as a sentence.
    async fn loss_reason(&self) -> String {
        match &self.endpoint {
            ServerEndpoint::Child(child) => child.loss_reason().await,
            ServerEndpoint::Http(_) => "the server's answer ended before its result came".to_owned(),
        }
    }

    /// Closes the connection as the MCP specification says: close the input, wait, SIGTERM, SIGKILL.
    pub async fn close(&self) {
        if let ServerEndpoint::Child(child) = &self.endpoint {
            child.call_writer.calls.close();
        }
        let mut closing = pin!(self.close_service());
        let closed = tokio::time::timeout(EXIT_GRACE, &mut closing).await;
        if let ServerEndpoint::Child(ChildServer { group, .. }) = &self.endpoint
            && tokio::time::timeout(EXIT_GRACE, group.wait_for_exit()).await.is_err()
        {
            group.terminate_then_kill().await;
        }
        // A server that does not read keeps its input open until it is stopped.
        if closed.is_err() && tokio::time::timeout(EXIT_GRACE, closing).await.is_err() {
            tracing::debug!("the rmcp client task has not ended");
        }
    }

    /// Ends the rmcp client, and with it the transport.
    async fn close_service(&self) {
        if let Some(mut service) = self.service.lock().await.take()
            && let Err(error) = service.close().await
        {
            tracing::debug!(%error, "the rmcp client task failed");
        }
    }
}

impl ChildServer {
    /// Why the connection was lost, as a sentence: the reason of an abort, or how the child exited, with the
    /// end of its stderr.
    async fn loss_reason(&self) -> String {
        let (how, stderr) = match exit_text(&self.group).await {
            Some(how) => (format!("the server {how}"), self.stderr_tail.wait_for_text().await),
            None => ("the server closed its output".to_owned(), self.stderr_tail.text()),
        };
        with_detail(self.fault.reason().map_or(how, |reason| format!("the server {reason}")), &stderr)
    }
}

/// The client metadata that newer protocol versions require in each request; empty for older ones.
fn build_client_meta(peer: &Peer<RoleClient>, config: &ClientConfig) -> ClientMeta {
    let mut meta = RequestMetaObject::new();
    if let Some(info) = peer.peer_info()
        && !info.protocol_version.has_initialize()
    {
        meta.set_protocol_version(info.protocol_version.clone());
        meta.set_client_info(config.client_info.clone());
        meta.set_client_capabilities(config.capabilities.clone());
    }
    let to_json = |value| serde_json::value::to_raw_value(value).expect("JSON can be written");
    meta.iter().map(|(name, value)| (name.clone(), to_json(value))).collect()
}
