//! Calls downstream tools and classifies the outcomes. Knows MCP servers, HTTP requests, commands and
//! in-process executors; knows nothing of plans, executions or the journal.
//!
//! ```text
//!   Call ──► Tools::call ──► Mcp | Http | Command | InProcess ──► RawOutcome
//!        ──► classify ──► redact ──► CallOutcome
//! ```

mod asked_input;
mod call;
mod catalog;
mod classify;
mod command;
mod config_secrets;
mod description_diff;
mod environment;
mod executor;
mod hidden_characters;
mod http;
mod limits;
mod mcp;
mod orphan_reaper;
mod process;
mod redaction;
mod restore_files;
mod secret;
mod server_events;
mod toolset;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::path::PathBuf;
use std::pin::pin;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use actbook_engine::policy::{ErrorCategory, RESTORE_TOOL};
use futures_util::future::join_all;

use crate::config::{COMMAND_SERVER, Config, HTTP_SERVER, ToolConfig, UnknownWord, WithheldConfig};
use crate::egress::{self, EgressClient};
pub use crate::egress::{CONNECT_TIMEOUT, DnsLookup};
pub use asked_input::{AskedInput, InputField, ReplyProblem, RequestedInput, UnfitReply};
use call::OnLateRawOutcome;
pub use call::{
    Call, CallContext, CallOutcome, CallProgress, OnAnswer, OnLateOutcome, OnProgress, OnQuestion, Origin,
    Purpose, RelayedRequest, SaveMcpTask, ServerAnswer, ServerOffers, ToolQuestionReply,
};
pub use catalog::{Annotations, CatalogError, ServerTools, ToolInfo};
pub use classify::{OUTPUT_BYTES_MAX, truncate_message, truncate_output};
use classify::{RawOutcome, classify, truncate_outcome};
pub use command::{IDEMPOTENCY_KEY_VARIABLE, OnCommandOutput};
pub use description_diff::summarize_changes;
use executor::Executors;
pub use executor::{Executor, Fault};
pub use hidden_characters::{escape_hidden, escape_hidden_in_json};
pub use limits::CircuitState;
use limits::ServerLimits;
pub use mcp::ServerState;
pub use process::{ProcessIdentity, kill_child_processes};
use secret::UnresolvedReference;
pub use secret::{REDACTED, Secret, Secrets, redact_log_line};
use server_events::ServerEvents;
pub use server_events::{ServerEvent, ServerEventKind};

/// A longer progress message is truncated.
const PROGRESS_MESSAGE_CHARS_MAX: usize = 200;

/// One configured server and the means to call its tools. The HTTP tools of the config form one server, and
/// so do its commands.
enum Downstream {
    Mcp(Box<mcp::DownstreamServer>),
    Http,
    Command,
    InProcess(Box<Executors>),
}

/// Calls and describes the tools of every configured server.
pub struct Tools {
    config: Arc<Config>,
    downstreams: BTreeMap<String, Downstream>,
    /// By server name.
    limits: BTreeMap<String, ServerLimits>,
    secrets: Secrets,
    egress: EgressClient,
    command_output: OnceLock<OnCommandOutput>,
    server_events: ServerEvents,
    /// Where the files of guarded sessions are kept; `None`: nowhere.
    data_folder: Option<PathBuf>,
}

impl fmt::Debug for Tools {
    /// Shows only the names of the servers, and no secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tools").field("servers", &self.server_names()).finish_non_exhaustive()
    }
}

impl Tools {
    /// The tools of a config. Starts no server: each is started on first use.
    pub fn new(config: &Config) -> Self {
        Self::with_environment(config, |name| std::env::var(name).ok())
    }

    /// Like `new`, with values for `${env:NAME}` taken from `environment` instead of this process.
    pub fn with_environment(
        config: &Config,
        environment: impl Fn(&str) -> Option<String> + Send + Sync + 'static,
    ) -> Self {
        Self::with_environment_and_dns(config, environment, egress::system_dns_lookup())
    }

    /// Like `with_environment`, with host names resolved by `lookup` instead of this machine's resolver.
    pub fn with_environment_and_dns(
        config: &Config,
        environment: impl Fn(&str) -> Option<String> + Send + Sync + 'static,
        lookup: DnsLookup,
    ) -> Self {
        let secrets = Secrets::new(environment);
        secrets.learn_config(config);
        let egress = EgressClient::new(lookup, &config.egress_allow);
        let (mut downstreams, server_events) = (BTreeMap::new(), ServerEvents::new());
        for (name, server) in &config.mcp_servers {
            let settings = config.servers.get(name).cloned().unwrap_or_default();
            let server =
                mcp::DownstreamServer::new(name, server, &config.folder, &secrets, &egress, &settings);
            let server = server.with_events(server_events.clone());
            downstreams.insert(name.clone(), Downstream::Mcp(Box::new(server)));
        }
        if !config.commands.is_empty() {
            downstreams.insert(COMMAND_SERVER.to_owned(), Downstream::Command);
        }
        if !config.http.is_empty() {
            downstreams.insert(HTTP_SERVER.to_owned(), Downstream::Http);
        }
        let limits =
            downstreams.keys().map(|name| (name.clone(), ServerLimits::for_server(config, name))).collect();
        let command_output = OnceLock::new();
        let config = Arc::new(config.clone());
        let data_folder = None;
        Self { config, downstreams, limits, secrets, egress, command_output, server_events, data_folder }
    }

    /// Restores files of guarded sessions from what is kept under this folder.
    #[must_use]
    pub fn with_data_folder(self, folder: PathBuf) -> Self {
        Self { data_folder: Some(folder), ..self }
    }

    /// Calls a tool.
    ///
    /// `sending` runs immediately before the first byte may be sent: for an MCP server once it is up, with
    /// its process; for a command right before it is started, and again right after, with its process.
    /// When `stop` resolves, the call is asked to stop; its own timeout still applies.
    pub async fn call(
        &self,
        call: Call,
        sending: impl Fn(Option<ProcessIdentity>) + Send,
        stop: impl Future<Output = ()> + Send,
    ) -> CallOutcome {
        let sending = move |child| {
            sending(child);
            true
        };
        self.call_with_progress(call, sending, Arc::new(|_| {}), stop).await
    }

    /// Like `call`, and passes the tool's progress reports to `progress`. `sending` returns whether the call
    /// may be sent; false: it fails as not sent. When `stop` resolves, a call that is not sent yet fails as not
    /// sent; a call in flight is asked to stop, and its outcome is still awaited, at most until its timeout.
    pub async fn call_with_progress(
        &self,
        call: Call,
        sending: impl Fn(Option<ProcessIdentity>) -> bool + Send,
        progress: OnProgress,
        stop: impl Future<Output = ()> + Send,
    ) -> CallOutcome {
        if call.tool == RESTORE_TOOL {
            let outcome = Box::pin(self.restore_files(call, sending)).await;
            return truncate_outcome(self.secrets.redact_outcome(outcome), OUTPUT_BYTES_MAX);
        }
        if let Some(task) = &call.context.mcp_task {
            return Box::pin(self.follow_mcp_task(&call, task, stop)).await;
        }
        let (downstream, limits, tool) = match self.find_downstream(&call.tool) {
            Ok((Downstream::InProcess(executors), limits, tool)) => {
                if call.context.stop_requested.as_ref().is_some_and(|stop| *stop.borrow()) {
                    return classify(stopped_before_send(), false);
                }
                let (tool, progress) = (tool.to_owned(), Some(self.redacted_progress(progress)));
                let call = Call { context: CallContext { on_progress: progress, ..call.context }, ..call };
                return self.redact_and_truncate(executors.call(&tool, call, sending).await, limits);
            }
            Ok(found) => found,
            Err(why) => {
                return classify(RawOutcome::NotSent { category: ErrorCategory::NotFound, why }, false);
            }
        };
        // Boxed to keep this future small for calls to in-process executors.
        Box::pin(async {
            let mut stop = pin!(stop);
            let permit = tokio::select! {
                biased;
                () = &mut stop => Err(stopped_before_send()),
                permit = limits.acquire(tool) => permit,
            };
            let permit = match permit {
                Ok(permit) => permit,
                Err(raw) => {
                    return self.redact_and_truncate(not_admitted(raw, &limits.circuit_state(tool)), limits);
                }
            };
            let (raw, stopped) = match downstream {
                Downstream::Mcp(server) => {
                    let handlers =
                        (self.redacted_progress(progress), self.late_outcome_handler(&call, limits));
                    server.call(tool, &call, sending, handlers, stop).await
                }
                downstream if let Err(raw) = self.check_pin(downstream, tool, &call) => (raw, false),
                Downstream::Http => self.http_call(tool, limits).call(&call, sending, stop).await,
                Downstream::Command => self.command_call(tool, limits).call(&call, sending, stop).await,
                Downstream::InProcess(_) => unreachable!("answered above"),
            };
            let outcome = classify(raw, stopped);
            permit.record_outcome(&outcome);
            self.redact_and_truncate(outcome, limits)
        })
        .await
    }

    /// Polls an MCP task that an earlier call created until it ends or the call's timeout passes. No new call
    /// is made: no limit applies, and the call counts as sent.
    async fn follow_mcp_task(
        &self,
        call: &Call,
        task: &str,
        stop: impl Future<Output = ()> + Send,
    ) -> CallOutcome {
        let (raw, stopped, bytes_max) = match self.find_downstream(&call.tool) {
            Ok((Downstream::Mcp(server), limits, _)) => {
                let (raw, stopped) = server.follow_mcp_task(call, task, stop).await;
                (raw, stopped, limits.output_bytes_max)
            }
            Ok(_) | Err(_) => {
                let why = format!("no server here can report on task {task} of `{}`", call.tool);
                (RawOutcome::McpTaskLost { why }, false, OUTPUT_BYTES_MAX)
            }
        };
        truncate_outcome(self.secrets.redact_outcome(classify(raw, stopped)), bytes_max)
    }

    /// Checks a tool of the config against the call's pin, the digest of its description. Ok for any other
    /// tool: that of an MCP server is checked once the server is up, and in-process executors are not pinned.
    /// Err: not sent.
    fn check_pin(&self, downstream: &Downstream, tool: &str, call: &Call) -> Result<(), RawOutcome> {
        match downstream {
            Downstream::Http => catalog::http_tool_info(tool, &self.config.http[tool]).check_pin(call),
            Downstream::Command => {
                catalog::command_tool_info(tool, &self.config.commands[tool]).check_pin(call)
            }
            Downstream::Mcp(_) | Downstream::InProcess(_) => Ok(()),
        }
    }

    /// The means to call an HTTP tool of the config. Panics on a name that `find_downstream` would refuse.
    fn http_call<'a>(&'a self, tool: &str, limits: &'a ServerLimits) -> http::HttpCall<'a> {
        http::HttpCall {
            tool: &self.config.http[tool],
            secrets: &self.secrets,
            egress: &self.egress,
            output_bytes_max: limits.output_bytes_max,
        }
    }

    /// The means to call a command of the config. Panics on a name that `find_downstream` would refuse.
    fn command_call<'a>(&'a self, tool: &str, limits: &'a ServerLimits) -> command::CommandCall<'a> {
        command::CommandCall {
            tool: &self.config.commands[tool],
            on_output: self.command_output.get(),
            folder: &self.config.folder,
            secrets: &self.secrets,
            output_bytes_max: limits.output_bytes_max,
        }
    }

    /// Passes each line that a command writes while it runs to `receiver`. Only the first receiver is kept;
    /// later ones are ignored.
    pub fn pass_on_command_output(&self, receiver: OnCommandOutput) {
        self.command_output.get_or_init(|| receiver);
    }

    /// Redacts the outcome, then truncates it to the server's limit: in the other order, a secret split by
    /// the truncation would not be recognised.
    fn redact_and_truncate(&self, outcome: CallOutcome, limits: &ServerLimits) -> CallOutcome {
        truncate_outcome(self.secrets.redact_outcome(outcome), limits.output_bytes_max)
    }

    /// A handler that classifies, redacts and truncates a late answer, and passes it to the call's `on_late`;
    /// without an `on_late` the answer is discarded.
    fn late_outcome_handler(&self, call: &Call, limits: &ServerLimits) -> OnLateRawOutcome {
        let (on_late, secrets, bytes_max) =
            (call.context.on_late.clone(), self.secrets.clone(), limits.output_bytes_max);
        Box::new(move |raw| {
            if let Some(on_late) = on_late {
                on_late(truncate_outcome(secrets.redact_outcome(classify(raw, false)), bytes_max));
            }
        })
    }

    /// Wraps `progress` so that messages are redacted and truncated first.
    fn redacted_progress(&self, progress: OnProgress) -> OnProgress {
        let secrets = self.secrets.clone();
        Arc::new(move |mut report: CallProgress| {
            if let Some(message) = &mut report.message {
                secrets.redact_text(message);
                *message = message.chars().take(PROGRESS_MESSAGE_CHARS_MAX).collect();
            }
            progress(report);
        })
    }

    /// The state of an MCP server in this process. None: there is no such server, or it is not an MCP server.
    pub fn server_state(&self, server: &str) -> Option<ServerState> {
        match self.downstreams.get(server)? {
            Downstream::Mcp(mcp) => Some(mcp.state(self.limits.get(server)?.circuit_state(""))),
            Downstream::Http | Downstream::Command | Downstream::InProcess(_) => None,
        }
    }

    /// Lists every server's tools, connecting where necessary; an unreachable server's entry has its error.
    pub async fn list_servers(&self) -> Vec<ServerTools> {
        let names = self.server_names();
        join_all(names.iter().map(|name| self.list_server(name))).await
    }

    /// Lists one server's tools, connecting if necessary. `error` in the result: the server is unknown or
    /// unreachable.
    pub async fn list_server(&self, name: &str) -> ServerTools {
        let listed = match self.downstreams.get(name) {
            Some(Downstream::Mcp(server)) => {
                let listed = server.tool_listing().await.map_err(|error| error.to_string());
                listed.map(|listing| listing.tools.iter().map(|tool| tool.info.clone()).collect())
            }
            Some(Downstream::Http) => {
                Ok(self.config.http.iter().map(|(name, tool)| catalog::http_tool_info(name, tool)).collect())
            }
            Some(Downstream::Command) => {
                let commands = self.config.commands.iter();
                Ok(commands.map(|(name, tool)| catalog::command_tool_info(name, tool)).collect())
            }
            Some(Downstream::InProcess(executors)) => Ok(executors.list_tools(name)),
            None => Err(self.unavailable_server_error(name).to_string()),
        };
        let server = name.to_owned();
        match listed {
            Ok(tools) => ServerTools { server, tools, error: None },
            Err(mut error) => {
                self.secrets.redact_text(&mut error);
                ServerTools { server, tools: Vec::new(), error: Some(error) }
            }
        }
    }

    /// What the servers say from now on without being asked.
    pub fn subscribe_to_servers(&self) -> tokio::sync::broadcast::Receiver<ServerEvent> {
        self.server_events.subscribe()
    }

    /// Has a server report changes of a resource. `Err`: it cannot be reached, or refuses.
    pub async fn subscribe_to_resource(&self, server: &str, uri: &str) -> Result<(), String> {
        match self.downstreams.get(server) {
            Some(Downstream::Mcp(server)) => server.subscribe(uri).await,
            Some(Downstream::Http | Downstream::Command | Downstream::InProcess(_)) | None => {
                Err("it has no resources".to_owned())
            }
        }
    }

    /// Sets from which level on the servers that are up log; those that are not stay as they are.
    pub async fn set_log_level(&self, level: &serde_json::Value) {
        for downstream in self.downstreams.values() {
            if let Downstream::Mcp(server) = downstream {
                server.set_log_level(level).await;
            }
        }
    }

    /// What a server offers beside tools; nothing if it is no MCP server. `Err`: it cannot be reached, or does not list
    /// it.
    pub async fn server_offers(&self, name: &str) -> Result<ServerOffers, CatalogError> {
        match self.downstreams.get(name) {
            Some(Downstream::Mcp(server)) => server.offers().await,
            Some(Downstream::Http | Downstream::Command | Downstream::InProcess(_)) | None => {
                Ok(ServerOffers::default())
            }
        }
    }

    /// The names, without the server, of a server's tools that have settings in the config; empty for an
    /// unknown server.
    pub fn configured_tools(&self, server: &str) -> Vec<String> {
        self.config.servers.get(server).map(|found| found.tools.keys().cloned().collect()).unwrap_or_default()
    }

    /// The description of a tool, written `server/tool`; connects to its server if necessary.
    pub async fn describe(&self, name: &str) -> Result<ToolInfo, CatalogError> {
        let (server, tool) = name.split_once('/').ok_or_else(|| CatalogError::BadName(name.to_owned()))?;
        let unknown = || CatalogError::UnknownTool { server: server.to_owned(), tool: tool.to_owned() };
        match self.downstreams.get(server) {
            Some(Downstream::Mcp(mcp)) => {
                let listing = mcp.tool_listing().await?;
                listing.find(name).map(|found| found.info.clone()).ok_or_else(unknown)
            }
            Some(Downstream::Http) => {
                let http = self.config.http.get(tool).ok_or_else(unknown)?;
                Ok(catalog::http_tool_info(tool, http))
            }
            Some(Downstream::Command) => {
                let command = self.config.commands.get(tool).ok_or_else(unknown)?;
                Ok(catalog::command_tool_info(tool, command))
            }
            Some(Downstream::InProcess(executors)) => executors.describe(server, tool),
            None => Err(self.unavailable_server_error(server)),
        }
    }

    /// Describes many tools, written `server/tool`, servers in parallel; an unreachable server is contacted
    /// only once. The result has an entry for each name.
    pub async fn describe_all(
        &self,
        names: &BTreeSet<String>,
    ) -> BTreeMap<String, Result<ToolInfo, CatalogError>> {
        let mut by_server = BTreeMap::<&str, Vec<&String>>::new();
        for name in names {
            by_server.entry(name.split('/').next().unwrap_or(name)).or_default().push(name);
        }
        let described = by_server.into_values().map(|names| self.describe_in_turn(names));
        join_all(described).await.into_iter().flatten().collect()
    }

    /// Describes tools of one server, one after another; repeats the first unreachable error for the rest.
    async fn describe_in_turn(&self, names: Vec<&String>) -> Vec<(String, Result<ToolInfo, CatalogError>)> {
        let mut described = Vec::with_capacity(names.len());
        let mut unreachable: Option<CatalogError> = None;
        for name in names {
            let info = match &unreachable {
                Some(error) => Err(error.clone()),
                None => self.describe(name).await,
            };
            if let Err(error @ CatalogError::Unreachable { .. }) = &info {
                unreachable = Some(error.clone());
            }
            described.push((name.clone(), info));
        }
        described
    }

    /// The keys of the config that Actbook does not know and that therefore have no effect.
    pub fn unknown_config_words(&self) -> &[UnknownWord] {
        &self.config.unknown_words
    }

    /// Whether the config, or an in-process executor, gives a server of this name.
    pub fn has_server(&self, server: &str) -> bool {
        self.downstreams.contains_key(server)
    }

    /// The names of all servers, sorted; `http` and `command` stand for the HTTP tools and the commands of
    /// the config.
    pub fn server_names(&self) -> Vec<String> {
        self.downstreams.keys().cloned().collect()
    }

    /// Whether the config trusts the server's tool annotations; false for a server without settings.
    pub fn trusts_hints_of(&self, server: &str) -> bool {
        self.config.servers.get(server).is_some_and(|server| server.trusted)
    }

    /// The operator's settings for a tool, written `server/tool`; they override those of an executor's
    /// registration. Defaults where there are none.
    pub fn tool_config(&self, tool: &str) -> ToolConfig {
        let (server, tool) = tool.split_once('/').unwrap_or((tool, ""));
        let configured = self.config.tool_config(server, tool);
        match self.downstreams.get(server) {
            Some(Downstream::InProcess(executors)) => executors.tool_config(tool).overridden_by(configured),
            Some(Downstream::Mcp(_) | Downstream::Http | Downstream::Command) | None => configured,
        }
    }

    /// Closes the connections to all MCP servers and stops the process groups of those that run as child
    /// processes.
    pub async fn shutdown(&self) {
        let servers = self.downstreams.values().filter_map(|downstream| match downstream {
            Downstream::Mcp(server) => Some(server.shutdown()),
            Downstream::Http | Downstream::Command | Downstream::InProcess(_) => None,
        });
        join_all(servers).await;
    }

    /// Finds the server, its limits and the tool's name for `server/tool`; the error is a sentence for users.
    fn find_downstream<'a, 'n>(
        &'a self,
        name: &'n str,
    ) -> Result<(&'a Downstream, &'a ServerLimits, &'n str), String> {
        let Some((server, tool)) = name.split_once('/') else {
            return Err(CatalogError::BadName(name.to_owned()).to_string());
        };
        let downstream =
            self.downstreams.get(server).ok_or_else(|| self.unavailable_server_error(server).to_string())?;
        match downstream {
            Downstream::Command if !self.config.commands.contains_key(tool) => {
                Err(format!("there is no command `{tool}` in the config"))
            }
            Downstream::Http if !self.config.http.contains_key(tool) => {
                Err(format!("there is no HTTP tool `{tool}` in the config"))
            }
            Downstream::Mcp(_) | Downstream::Http | Downstream::Command | Downstream::InProcess(_) => {
                Ok((downstream, &self.limits[server], tool))
            }
        }
    }

    /// The error for a server that cannot be called: the config that may name it is untrusted, the server is
    /// disabled, or the config does not name it.
    fn unavailable_server_error(&self, server: &str) -> CatalogError {
        if let Some(withheld) = &self.config.withheld {
            return CatalogError::Untrusted(withheld.without_content());
        }
        let server = server.to_owned();
        if self.config.disabled_servers.contains(&server) {
            return CatalogError::DisabledServer { server };
        }
        CatalogError::UnknownServer { server, config: self.config.file.clone() }
    }

    /// The config that was found but is not in effect, with the reason. None: the config is in effect.
    pub fn withheld_config(&self) -> Option<&WithheldConfig> {
        self.config.withheld.as_ref()
    }
}

/// Headers of every call over HTTP.
const IDEMPOTENCY_HEADER: &str = "idempotency-key";
const TRACE_HEADER: &str = "traceparent";

/// A new W3C trace context for one call: unique, but not unpredictable, so the random hasher keys suffice.
fn new_traceparent() -> String {
    let number = || RandomState::new().build_hasher().finish();
    format!("00-{:016x}{:016x}-{:016x}-01", number(), number(), number())
}

/// The outcome of a call whose template could not be filled in: nothing was sent.
fn template_not_filled(unresolved: &UnresolvedReference) -> RawOutcome {
    let category = match unresolved {
        UnresolvedReference::MissingArgument(_) => ErrorCategory::InvalidArguments,
        UnresolvedReference::UnsetVariable(_) | UnresolvedReference::UnknownReference(_) => {
            ErrorCategory::Unavailable
        }
    };
    RawOutcome::NotSent { category, why: unresolved.to_string() }
}

/// Classifies a call that was not admitted; while the circuit is open, `retry_after` is its remaining time.
fn not_admitted(raw: RawOutcome, circuit: &CircuitState) -> CallOutcome {
    match (classify(raw, false), circuit) {
        (CallOutcome::Failed { category, message, sent, output, .. }, CircuitState::Open { for_ms }) => {
            let retry_after = Some(Duration::from_millis(*for_ms));
            CallOutcome::Failed { category, message, sent, output, retry_after }
        }
        (outcome, _) => outcome,
    }
}

/// The outcome of a call that was asked to stop while it waited for a permit or for its server.
fn stopped_before_send() -> RawOutcome {
    RawOutcome::NotSent {
        category: ErrorCategory::Policy,
        why: "asked to stop before it was sent".to_owned(),
    }
}

/// The outcome of a call that the `sending` callback refused.
fn withheld_before_send() -> RawOutcome {
    RawOutcome::NotSent {
        category: ErrorCategory::Internal,
        why: "it was withheld before it was sent".to_owned(),
    }
}
