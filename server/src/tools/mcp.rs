//! MCP servers, over stdio or HTTP. Each is connected on first use, has one connection, and is connected
//! again on the next use after a loss. Only this module and its submodules may use rmcp.

mod call_response;
mod client_events;
mod connection;
mod fault;
mod health;
mod http;
mod mcp_tasks;
mod pending_calls;
mod raw_tools;
mod restart;
mod server_requests;
mod stdio;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::{Duration, Instant};

use actbook_engine::policy::ErrorCategory;
use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Shared};
use parking_lot::Mutex;
use serde_json::Value;
use tokio::process::Command;
use tokio::task::{AbortHandle, JoinError, JoinHandle};

use super::catalog::{CatalogError, ToolListing};
use super::classify::RawOutcome;
use super::process::ProcessIdentity;
use super::secret::{Secrets, UnresolvedReference};
use super::server_events::ServerEvents;
use super::{
    Call, CircuitState, OnLateRawOutcome, OnProgress, ServerOffers, environment, stopped_before_send,
    withheld_before_send,
};
use crate::config::{ConfigTemplate, InheritEnv, McpServer, ServerConfig};
use crate::egress::EgressClient;
use connection::McpConnection;
use http::McpHttpClient;
use restart::RestartPolicy;
pub use restart::ServerState;

/// A connection attempt that several calls can wait for.
type ConnectFuture = Shared<BoxFuture<'static, Result<Arc<McpConnection>, ConnectError>>>;

/// Why there is no connection; `why` is a sentence that names the server.
#[derive(Clone, Debug)]
pub struct ConnectError {
    pub category: ErrorCategory,
    pub why: String,
}

/// A configured MCP server and its connection.
pub struct DownstreamServer {
    name: String,
    definition: McpServer,
    folder: PathBuf,
    secrets: Secrets,
    egress: EgressClient,
    restart_policy: RestartPolicy,
    events: ServerEvents,
    /// The current connection or connection attempt. It continues when a call stops waiting for it.
    slot: Mutex<Option<McpConnectionSlot>>,
}

/// A connection or connection attempt, with the history that determines the backoff.
struct McpConnectionSlot {
    connect_future: ConnectFuture,
    connect_task: AbortHandle,
    /// When the attempt was or will be started.
    started_at: Instant,
    /// Consecutive failures before this attempt.
    failures: u32,
}

impl Drop for McpConnectionSlot {
    fn drop(&mut self) {
        // Aborting the connect task also kills a server that is still starting.
        self.connect_task.abort();
    }
}

/// A connection that a call can be sent on, and the tools listed on it.
struct ReadyConnection {
    connection: Arc<McpConnection>,
    /// The server's tools, or why they could not be listed.
    listing: Result<Arc<ToolListing>, String>,
}

impl ReadyConnection {
    /// Checks the call's pin and arguments against the listing. Err: not sent. Without a listing an unpinned
    /// call passes: the server itself will check it.
    fn check_call(&self, call: &Call) -> Result<(), RawOutcome> {
        match &self.listing {
            Ok(listing) => listing.check_call(call),
            Err(_) if call.pin.is_none() => Ok(()),
            Err(why) => Err(RawOutcome::NotSent { category: ErrorCategory::Unavailable, why: why.clone() }),
        }
    }
}

impl DownstreamServer {
    /// A server that is not connected yet. `folder`: the config's, in which a child process runs by default.
    pub fn new(
        name: &str,
        definition: &McpServer,
        folder: &Path,
        secrets: &Secrets,
        egress: &EgressClient,
        settings: &ServerConfig,
    ) -> Self {
        Self {
            name: name.to_owned(),
            definition: definition.clone(),
            folder: folder.to_owned(),
            secrets: secrets.clone(),
            egress: egress.clone(),
            restart_policy: RestartPolicy::from_config(settings),
            events: ServerEvents::new(),
            slot: Mutex::default(),
        }
    }

    /// The same server, which passes what it says unasked to these receivers.
    pub fn with_events(self, events: ServerEvents) -> Self {
        Self { events, ..self }
    }

    /// Has the server report changes of a resource; connects if necessary. `Err`: it cannot be reached, or refuses.
    pub async fn subscribe(&self, uri: &str) -> Result<(), String> {
        let connection = self.live_connection().await.map_err(|error| error.why)?;
        connection.subscribe(uri).await
    }

    /// Sets from which level on the server logs, if it is up; a refusal is ignored.
    pub async fn set_log_level(&self, level: &Value) {
        let connected = self.slot.lock().as_ref().and_then(|slot| slot.connect_future.peek().cloned());
        if let Some(Ok(connection)) = connected {
            connection.set_log_level(level).await;
        }
    }

    /// Connects if necessary, calls a tool (a name without the server), and polls the MCP task if the server
    /// creates one. Also returns whether the call was asked to stop.
    pub async fn call(
        &self,
        tool: &str,
        call: &Call,
        sending: impl Fn(Option<ProcessIdentity>) -> bool + Send,
        (progress, late): (OnProgress, OnLateRawOutcome),
        stop: impl Future<Output = ()> + Send,
    ) -> (RawOutcome, bool) {
        if !matches!(call.arguments, Value::Object(_) | Value::Null) {
            let why = "the arguments of a tool are an object".to_owned();
            return (RawOutcome::NotSent { category: ErrorCategory::InvalidArguments, why }, false);
        }
        let mut stop = pin!(stop);
        let ready = match self.ready_without_waiting() {
            Some(ready) => Ok(ready),
            None => tokio::select! {
                biased;
                () = &mut stop => return (stopped_before_send(), true),
                ready = Box::pin(self.wait_until_ready(call.timeout)) => ready,
            },
        };
        match ready {
            Ok(ready) if let Err(raw) = ready.check_call(call) => (raw, false),
            Ok(ReadyConnection { connection, .. }) if !sending(connection.process()) => {
                (withheld_before_send(), false)
            }
            Ok(ReadyConnection { connection, .. }) => {
                let deadline = Instant::now() + call.timeout;
                let (raw, stopped) = match (&call.context.request, mcp_tasks::replied_task(call)) {
                    (Some(request), _) => connection.relay_request(request, call, stop.as_mut()).await,
                    (None, Some(task)) => (mcp_tasks::send_reply(&connection, task, call).await, false),
                    (None, None) => connection.call(tool, call, (progress, late), stop.as_mut()).await,
                };
                if matches!(raw, RawOutcome::TimedOut { .. }) {
                    // In a separate Tokio task: the call's outcome does not depend on it.
                    let check_after = self.restart_policy.check_after;
                    tokio::spawn(async move { connection.ping(check_after).await });
                }
                let RawOutcome::McpTaskCreated { task, poll } = raw else { return (raw, stopped) };
                self.save_mcp_task(call, &task).await;
                let wait = mcp_tasks::McpTaskWait { deadline, timeout: call.timeout, poll_interval: poll };
                // Boxed because few calls become tasks: it would enlarge the future of every call.
                Box::pin(mcp_tasks::poll_until_ended(self, &task, wait, stop, stopped)).await
            }
            Err(raw) => (raw, false),
        }
    }

    /// Polls an MCP task that an earlier call created, for at most the call's timeout. Also returns whether
    /// the call was asked to stop.
    pub async fn follow_mcp_task(
        &self,
        call: &Call,
        task: &str,
        stop: impl Future<Output = ()> + Send,
    ) -> (RawOutcome, bool) {
        let deadline = Instant::now() + call.timeout;
        let wait = mcp_tasks::McpTaskWait { deadline, timeout: call.timeout, poll_interval: None };
        mcp_tasks::poll_until_ended(self, task, wait, pin!(stop), false).await
    }

    /// Stores a task id durably, unless it is too long or contains a secret: redacted it would be useless.
    async fn save_mcp_task(&self, call: &Call, task: &str) {
        let mut redacted = task.to_owned();
        self.secrets.redact_text(&mut redacted);
        let can_save = redacted == task && task.len() <= mcp_tasks::MCP_TASK_ID_BYTES_MAX;
        if let Some(save) = call.context.save_mcp_task.as_ref().filter(|_| can_save) {
            save(redacted).await;
        }
    }

    /// The connection and its listing, if both are available without waiting.
    fn ready_without_waiting(&self) -> Option<ReadyConnection> {
        let slot = self.slot.lock();
        let connection = slot.as_ref()?.connect_future.peek()?.as_ref().ok()?;
        if !connection.is_up() || connection.needs_ping(self.restart_policy.check_after) {
            return None;
        }
        Some(ReadyConnection {
            connection: connection.clone(),
            listing: Ok(connection.listing_without_waiting()?),
        })
    }

    /// Waits until the server is connected and its tools are listed. The time spent in restart backoff counts
    /// too. Err, not sent: it cannot be connected, or not within `timeout`.
    async fn wait_until_ready(&self, timeout: Duration) -> Result<ReadyConnection, RawOutcome> {
        match tokio::time::timeout(timeout, self.connect_and_list()).await {
            Ok(Ok((connection, listing))) => Ok(ReadyConnection { connection, listing }),
            Ok(Err(ConnectError { category, why })) => Err(RawOutcome::NotSent { category, why }),
            Err(_) => {
                let falls = match self.state(CircuitState::Closed).falls {
                    0 => String::new(),
                    falls => format!(" (it has failed {falls} times in a row)"),
                };
                let why = format!(
                    "the server `{}` was not up within {timeout:?}{falls}; nothing was sent",
                    self.name
                );
                Err(RawOutcome::NotSent { category: ErrorCategory::Timeout, why })
            }
        }
    }

    /// The server's state, as shown to users; `circuit` becomes a part of it as it is.
    pub fn state(&self, circuit: CircuitState) -> ServerState {
        let slot = self.slot.lock();
        let connection = slot.as_ref().map(|slot| slot.connect_future.peek().cloned());
        let falls = slot.as_ref().map_or(0, |slot| slot.failures);
        match connection {
            None => ServerState::new("not started", None, falls, circuit),
            Some(None) => ServerState::new("coming up", None, falls, circuit),
            Some(Some(Ok(up))) if up.is_up() => ServerState::new("up", Some(&up), falls, circuit),
            Some(Some(_)) => ServerState::new("down", None, falls, circuit),
        }
    }

    /// The server's tools, in its own order; connects if necessary.
    pub async fn tool_listing(&self) -> Result<Arc<ToolListing>, CatalogError> {
        let unreachable = |why| CatalogError::Unreachable { server: self.name.clone(), why };
        let (_, listing) = self.connect_and_list().await.map_err(|error| unreachable(error.why))?;
        listing.map_err(unreachable)
    }

    /// What the server offers beside tools; connects if necessary.
    pub async fn offers(&self) -> Result<ServerOffers, CatalogError> {
        let unreachable = |why| CatalogError::Unreachable { server: self.name.clone(), why };
        let connection = self.live_connection().await.map_err(|error| unreachable(error.why))?;
        connection
            .offers()
            .await
            .map_err(|why| unreachable(format!("`{}` does not list what it offers: {why}", self.name)))
    }

    /// A connection and the listing made on that same connection: a restarted server may offer other tools.
    /// The inner error says why the tools could not be listed; the connection may still carry calls.
    async fn connect_and_list(
        &self,
    ) -> Result<(Arc<McpConnection>, Result<Arc<ToolListing>, String>), ConnectError> {
        let connection = self.live_connection().await?;
        let listing = connection.tool_listing(&self.name).await;
        Ok((connection, listing))
    }

    /// Closes the connection and stops the server's process.
    pub async fn shutdown(&self) {
        let current = self.slot.lock().take();
        if let Some(Ok(connection)) = current.as_ref().and_then(|slot| slot.connect_future.peek()) {
            connection.close().await;
        }
    }

    /// The current connection, or a new one after the backoff. A connection that was silent for long is
    /// pinged first, and replaced if the server does not answer.
    async fn live_connection(&self) -> Result<Arc<McpConnection>, ConnectError> {
        let connection = self.current_or_new_connection()?.await?;
        let check_after = self.restart_policy.check_after;
        if !connection.needs_ping(check_after) || connection.ping(check_after).await {
            return Ok(connection);
        }
        self.current_or_new_connection()?.await
    }

    /// The current attempt, or the connection if it is up, else a new attempt after the backoff. Err: the
    /// command of a stdio server cannot be filled in.
    fn current_or_new_connection(&self) -> Result<ConnectFuture, ConnectError> {
        let mut slot = self.slot.lock();
        let (mut failures, mut since) = (0, Duration::MAX);
        if let Some(current) = slot.as_ref() {
            failures = match current.connect_future.peek() {
                None => return Ok(current.connect_future.clone()),
                Some(Ok(connection)) if connection.is_up() => return Ok(current.connect_future.clone()),
                Some(Ok(connection)) if self.restart_policy.was_healthy(connection) => 1,
                Some(Ok(_) | Err(_)) => current.failures + 1,
            };
            since = current.started_at.elapsed();
        }
        let wait = self.restart_policy.backoff_after(failures).saturating_sub(since);
        let name = self.name.clone();
        let task = self.spawn_connect(wait)?;
        let connect_task = task.abort_handle();
        let joined = move |result: Result<_, JoinError>| {
            result.unwrap_or_else(|error| {
                Err(unavailable(format!("starting the server `{name}` was given up: {error}")))
            })
        };
        let connect_future: ConnectFuture = task.map(joined).boxed().shared();
        let started_at = Instant::now() + wait;
        *slot = Some(McpConnectionSlot {
            connect_future: connect_future.clone(),
            connect_task,
            started_at,
            failures,
        });
        Ok(connect_future)
    }

    /// Spawns a task that starts or reaches the server after `wait`. Err: the command cannot be filled in.
    fn spawn_connect(
        &self,
        wait: Duration,
    ) -> Result<JoinHandle<Result<Arc<McpConnection>, ConnectError>>, ConnectError> {
        let name = self.name.clone();
        match &self.definition {
            McpServer::Stdio { command, args, env, inherit_env, cwd } => {
                let command = self.build_command(command, args, env, inherit_env, cwd.as_ref());
                let command = command.map_err(|problem| {
                    unavailable(format!("the server `{name}` cannot be started: {problem}"))
                })?;
                let limit = self.restart_policy.start_timeout;
                let events = self.events.clone();
                let starting = connection::start_child(name, command, self.secrets.clone(), limit, events);
                Ok(tokio::spawn(restart::run_after(wait, starting)))
            }
            McpServer::Http { url, headers } => {
                let client = McpHttpClient::new(&self.egress, url, headers, &self.secrets);
                let events = self.events.clone();
                let reaching =
                    connection::connect_http(name, client, self.restart_policy.start_timeout, events);
                Ok(tokio::spawn(restart::run_after(wait, reaching)))
            }
        }
    }

    /// The command of a stdio server with its variables filled in. Err: a reference cannot be resolved.
    fn build_command(
        &self,
        command: &ConfigTemplate,
        args: &[ConfigTemplate],
        env: &BTreeMap<String, ConfigTemplate>,
        inherit_env: &InheritEnv,
        cwd: Option<&ConfigTemplate>,
    ) -> Result<Command, UnresolvedReference> {
        let fill = |template: &ConfigTemplate| self.secrets.resolve(template, &Value::Null);
        let mut filled = Command::new(fill(command)?.expose());
        environment::restrict(&mut filled, inherit_env);
        for argument in args {
            filled.arg(fill(argument)?.expose());
        }
        for (name, value) in env {
            filled.env(name, fill(value)?.expose());
        }
        let cwd = cwd.map(fill).transpose()?;
        filled.current_dir(cwd.map_or_else(|| self.folder.clone(), |cwd| self.folder.join(cwd.expose())));
        Ok(filled)
    }
}

/// The error of category `unavailable` with this reason.
fn unavailable(why: String) -> ConnectError {
    ConnectError { category: ErrorCategory::Unavailable, why }
}

/// A future that resolves when the call is asked to stop.
type StopFuture<'a, F> = Pin<&'a mut F>;
