//! One MCP server that is up: what carries the connection (a process group, or HTTP), the rmcp client that
//! talks through it, the calls out at it, which to a child go beside that client.

mod call;
mod late;
mod listing;

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use actbook_engine::policy::Category;
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

use super::NotUp;
use super::ears::{Ears, Reports};
use super::fault::ConnectionFault;
use super::http::{HttpClient, Leaves, NoMessage};
use super::lines::{Introduction, Lines, Speaker};
use super::raw::ListChanges;
use super::signs::Signs;
use crate::tools::Ended;
use crate::tools::classify::{Came, classify, joined};
use crate::tools::process::{self, ChildProcess, Group, Tail};
use crate::tools::secret::Secrets;
pub use call::{KEY_META, TRACE_META, tool_answer};
use late::LateCalls;
use listing::Listed;

/// After its input is closed, a server has this long to leave by itself.
pub const LEAVE_GRACE: Duration = Duration::from_secs(1);
/// Between the end of a server's output and that of the server.
const EXIT_LIMIT: Duration = Duration::from_millis(500);
/// A server that has not answered the handshake by then is spoken of in the log.
const SLOW_START: Duration = Duration::from_secs(5);
/// After a pause or a time-out, a server that does not answer a simple question within this is ended.
const CHECK_LIMIT: Duration = Duration::from_secs(3);
/// The server's concurrency is bounded by its permits; a second bound would make sent calls wait.
const POSTS_MAX: usize = 1 << 16;
/// How often the broken stream of an answer is taken up again, where the server numbers its events.
const RESUMES_MAX: usize = 3;

pub struct Connection {
    carrier: Carrier,
    peer: Peer<RoleClient>,
    introduction: Introduction,
    service: Mutex<Option<RunningService<RoleClient, Ears>>>,
    reports: Reports,
    calls_out: AtomicUsize,
    listed: Mutex<Option<Listed>>,
    changes: ListChanges,
    life: Signs,
    late: LateCalls,
}

/// What the connection lives on.
enum Carrier {
    Child(Child),
    Http(HttpClient),
}

struct Child {
    group: Group,
    last_words: Tail,
    fault: ConnectionFault,
    speaker: Speaker,
}

/// Starts a server and shakes hands, within `limit`.
///
/// A server of the older era may leave at the first word that it does not know; it gets a second
/// start, spoken to in its own manner. So does one that answered that word only after we had given up
/// waiting for it.
pub async fn start(
    name: String,
    mut command: Command,
    secrets: Secrets,
    limit: Duration,
) -> Result<Arc<Connection>, NotUp> {
    let started = match start_as(&name, &mut command, &secrets, limit, both_eras()).await {
        Err(Failed { speak_older: true, .. }) => {
            start_as(&name, &mut command, &secrets, limit, ClientLifecycleMode::Initialize).await
        }
        started => started,
    };
    started.map(Arc::new).map_err(|failed| failed.not_up)
}

/// Shakes hands with a server that somebody else runs, within `limit`.
pub async fn reach(name: String, client: HttpClient, limit: Duration) -> Result<Arc<Connection>, NotUp> {
    let reached = match reach_as(&name, &client, limit, both_eras()).await {
        Err(Failed { speak_older: true, .. }) => {
            reach_as(&name, &client, limit, ClientLifecycleMode::Initialize).await
        }
        reached => reached,
    };
    reached.map(Arc::new).map_err(|failed| failed.not_up)
}

/// A handshake that came to nothing.
struct Failed {
    not_up: NotUp,
    /// It may be one that does not understand the newer era's first word.
    speak_older: bool,
}

async fn start_as(
    name: &str,
    command: &mut Command,
    secrets: &Secrets,
    limit: Duration,
    manner: ClientLifecycleMode,
) -> Result<Connection, Failed> {
    let (group, pipes) = process::start_server(command).map_err(|error| {
        let program = command.as_std().get_program().to_string_lossy();
        let why = format!("the server `{name}` cannot be started: {program}: {error}");
        Failed { not_up: NotUp { category: Category::Unavailable, why }, speak_older: false }
    })?;
    let (last_words, fault) = (Tail::default(), ConnectionFault::new(group.killer()));
    let changes = ListChanges::default();
    let draining = process::drain_stderr(name.to_owned(), pipes.stderr, last_words.clone(), secrets.clone());
    tokio::spawn(group.while_it_lasts(draining));
    let lines = Lines::new(pipes.stdin, pipes.stdout, fault.clone(), changes.clone());
    let speaker = lines.speaker();
    let handshake = client().serve_with_lifecycle(lines, manner);
    let mut late = false;
    let failed = match within(limit, name, handshake).await {
        Some(Ok(service)) => {
            speaker.handshake_done();
            let carrier = Carrier::Child(Child { group, last_words, fault, speaker });
            return Ok(Connection::new(carrier, service, changes).await);
        }
        Some(Err(error)) => {
            late = answered_late(&error);
            handshake_problem(&error)
        }
        None => too_slow(limit, name),
    };
    // With the last of its input closed it may leave by itself.
    drop(speaker);
    let left = exit_of(&group).await;
    let said = match left {
        Some(_) => last_words.whole().await,
        None => last_words.text(),
    };
    // One that was given up has not left by itself, and would not fare better a second time.
    let given_up = fault.reason().map(str::to_owned);
    let speak_older = given_up.is_none() && (late || left.is_some());
    let how = given_up.or(left).unwrap_or(failed);
    let why = joined(format!("the server `{name}` did not come up: it {how}"), &said);
    Err(Failed { not_up: NotUp { category: Category::Unavailable, why }, speak_older })
}

/// The handshake's end; none where it takes longer than `limit`. A slow one is spoken of meanwhile: whoever waits
/// should know for what.
async fn within<T>(limit: Duration, name: &str, handshake: impl Future<Output = T>) -> Option<T> {
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

fn too_slow(limit: Duration, name: &str) -> String {
    format!("did not answer within {limit:?} (`servers.{name}.start_timeout` in the config gives it longer)")
}

fn answered_late(error: &ClientInitializeError) -> bool {
    match error {
        ClientInitializeError::LegacyFallbackFailed { fallback, .. } => answered_late(fallback),
        error => matches!(error, ClientInitializeError::ConflictInitResponseId(..)),
    }
}

async fn reach_as(
    name: &str,
    http: &HttpClient,
    limit: Duration,
    manner: ClientLifecycleMode,
) -> Result<Connection, Failed> {
    // rmcp needs some address to hand around; the client knows the true one, secrets and all.
    let mut config = StreamableHttpClientTransportConfig::with_uri(name)
        .max_concurrent_requests(POSTS_MAX)
        .reinit_on_expired_session(false);
    let mut resumes = FixedInterval::default();
    resumes.max_times = Some(RESUMES_MAX);
    config.retry_config = Arc::new(resumes);
    let transport = Leaves::new(StreamableHttpClientTransport::with_client(http.clone(), config));
    let handshake = client().serve_with_lifecycle(transport, manner);
    let (category, how, speak_older) = match within(limit, name, handshake).await {
        Some(Ok(service)) => {
            let carrier = Carrier::Http(http.clone());
            return Ok(Connection::new(carrier, service, ListChanges::default()).await);
        }
        Some(Err(error)) => unreached(&error),
        None => (Category::Timeout, format!("it {}", too_slow(limit, name)), false),
    };
    let why = format!("the server `{name}` cannot be reached: {how}");
    Err(Failed { not_up: NotUp { category, why }, speak_older })
}

/// What a handshake over HTTP failed of. Whatever answered at all may be of the older era.
fn unreached(error: &ClientInitializeError) -> (Category, String, bool) {
    let posted = match error {
        ClientInitializeError::LegacyFallbackFailed { fallback, .. } => return unreached(fallback),
        ClientInitializeError::TransportError { error, .. } => no_message(error),
        _ => None,
    };
    match posted.map(|NoMessage(came)| classify(came.clone(), false)) {
        Some(Ended::Failed { category, message, sent, .. }) => {
            (category, message, sent && category != Category::Permission)
        }
        Some(Ended::Unknown { category, message, .. }) => (category, message, true),
        Some(Ended::Succeeded { .. } | Ended::Asks { .. }) | None => {
            (Category::Unavailable, format!("it {}", handshake_problem(error)), true)
        }
    }
}

/// Our own word on a POST, where rmcp's error carries one.
fn no_message(error: &DynamicTransportError) -> Option<&NoMessage> {
    match error.error.downcast_ref::<StreamableHttpError<NoMessage>>() {
        Some(StreamableHttpError::Client(no_message)) => Some(no_message),
        Some(_) | None => None,
    }
}

fn client() -> Ears {
    let name = Implementation::new(env!("CARGO_PKG_NAME"), env!("CARGO_PKG_VERSION"));
    let can = ClientCapabilities::builder().enable_tasks().enable_elicitation().build();
    Ears::new(ClientConfig::new(can, name))
}

fn both_eras() -> ClientLifecycleMode {
    ClientLifecycleMode::Auto {
        preferred_versions: vec![ProtocolVersion::V_2026_07_28],
        legacy_version: Some(ProtocolVersion::LATEST_WITH_INITIALIZE),
    }
}

/// Some of rmcp's errors print whole messages; a sentence is enough here.
fn handshake_problem(error: &ClientInitializeError) -> String {
    match error {
        ClientInitializeError::ConnectionClosed(_) => "closed its output".to_owned(),
        ClientInitializeError::ExpectedInitResponse(_) | ClientInitializeError::ExpectedInitResult(_) => {
            "did not answer the handshake as the protocol has it".to_owned()
        }
        ClientInitializeError::LegacyFallbackFailed { fallback, .. } => handshake_problem(fallback),
        other => format!("failed the handshake: {other}"),
    }
}

/// How the group ended, if it did so by itself within a moment.
async fn exit_of(group: &Group) -> Option<String> {
    tokio::time::timeout(EXIT_LIMIT, group.ended()).await.ok().map(process::describe)
}

impl Connection {
    async fn new(carrier: Carrier, service: RunningService<RoleClient, Ears>, changes: ListChanges) -> Self {
        let peer = service.peer().clone();
        let mut no_cache = ClientCacheConfig::default();
        no_cache.enabled = false;
        no_cache.serve_stale_on_error = false;
        peer.set_response_cache_config(no_cache).await;
        let reports = service.service().reports.clone();
        let introduction = introduction(&peer, &service.service().get_info());
        let service = Mutex::new(Some(service));
        let (calls_out, listed) = (AtomicUsize::new(0), Mutex::default());
        let (life, late) = (Signs::new(), LateCalls::default());
        Self { carrier, peer, introduction, service, reports, calls_out, listed, changes, life, late }
    }

    /// The child that serves it, where it is one of ours.
    pub fn process(&self) -> Option<ChildProcess> {
        match &self.carrier {
            Carrier::Child(child) => Some(child.group.process),
            Carrier::Http(_) => None,
        }
    }

    pub fn is_up(&self) -> bool {
        let carried = match &self.carrier {
            Carrier::Child(child) => child.group.is_running() && !child.speaker.calls.are_over(),
            Carrier::Http(client) => !client.session_lost(),
        };
        carried && !self.peer.is_transport_closed() && !self.life.is_unwell()
    }

    pub fn signs(&self) -> &Signs {
        &self.life
    }

    pub fn protocol(&self) -> Option<String> {
        self.peer.peer_info().map(|info| info.protocol_version.to_string())
    }

    /// Whether to ask it first: it let a call wait in vain, or has had nothing to say for a while. A call
    /// that is out is no silence.
    pub fn is_doubtful(&self, check_after: Duration) -> bool {
        self.life.in_doubt() || (self.is_idle() && self.life.silent_for() >= check_after)
    }

    fn is_idle(&self) -> bool {
        self.calls_out.load(Ordering::SeqCst) == 0
    }

    /// Asks a simple question until it is answered; any answer will do, a no included. One that has none is
    /// ended, to be started afresh, once no call is out at it that it may be busy with: until then whoever
    /// asks waits, and nothing more is sent to it.
    pub async fn is_well(&self, check_after: Duration) -> bool {
        let _asking = self.life.asking.lock().await;
        while self.is_up() && self.is_doubtful(check_after) {
            let asked = tokio::time::timeout(CHECK_LIMIT, self.simple_question()).await;
            if let Ok(Ok(()) | Err(ServiceError::McpError(_))) = asked {
                self.life.heard();
            } else if self.is_idle() && self.is_doubtful(check_after) {
                tracing::warn!(process = ?self.process(), "a server that no longer answers is left");
                self.life.give_up();
                if let Carrier::Child(child) = &self.carrier {
                    child.group.end().await;
                }
            }
        }
        self.is_up()
    }

    /// The newer era has no ping.
    async fn simple_question(&self) -> Result<(), ServiceError> {
        if self.peer.peer_info().is_none_or(|info| !info.protocol_version.has_initialize()) {
            return self.peer.list_tools(None).await.map(drop);
        }
        self.peer.send_request(ClientRequest::PingRequest(PingRequest::default())).await.map(drop)
    }

    pub(super) fn peer(&self) -> &Peer<RoleClient> {
        &self.peer
    }

    async fn broken(&self) -> Came {
        let why = self.why_broken().await;
        if let Carrier::Child(child) = &self.carrier {
            child.group.kill();
        }
        Came::Broken { why }
    }

    async fn why_broken(&self) -> String {
        match &self.carrier {
            Carrier::Child(child) => child.why_broken().await,
            Carrier::Http(_) => "the server's answer ended before its result came".to_owned(),
        }
    }

    /// As the protocol has it: close the input, wait, ask, then kill.
    pub async fn close(&self) {
        if let Carrier::Child(child) = &self.carrier {
            child.speaker.calls.end();
        }
        if let Some(mut service) = self.service.lock().await.take()
            && let Err(error) = service.close_with_timeout(LEAVE_GRACE).await
        {
            tracing::debug!(%error, "the client task ended badly");
        }
        if let Carrier::Child(Child { group, .. }) = &self.carrier
            && tokio::time::timeout(LEAVE_GRACE, group.ended()).await.is_err()
        {
            group.end().await;
        }
    }
}

impl Child {
    async fn why_broken(&self) -> String {
        let (how, said) = match exit_of(&self.group).await {
            Some(how) => (format!("the server {how}"), self.last_words.whole().await),
            None => ("the server closed its output".to_owned(), self.last_words.text()),
        };
        joined(self.fault.reason().map_or(how, |reason| format!("the server {reason}")), &said)
    }
}

fn introduction(peer: &Peer<RoleClient>, config: &ClientConfig) -> Introduction {
    let mut said = RequestMetaObject::new();
    if let Some(info) = peer.peer_info()
        && !info.protocol_version.has_initialize()
    {
        said.set_protocol_version(info.protocol_version.clone());
        said.set_client_info(config.client_info.clone());
        said.set_client_capabilities(config.capabilities.clone());
    }
    let written = |said| serde_json::value::to_raw_value(said).expect("JSON can be written");
    said.iter().map(|(name, said)| (name.clone(), written(said))).collect()
}
