//! How to reach a downstream, and what is to be made of what came back. Knows MCP servers, HTTP requests,
//! commands and in-process executors; knows nothing of plans, executions or the journal.
//!
//! ```text
//!   Call ──► Tools::call ──► Mcp | Http | Command | Callback ──► Came ──► classify ──► redact ──► Ended
//! ```

mod callback;
mod catalog;
mod changes;
mod classify;
mod command;
mod egress;
mod environment;
mod guard;
mod hidden;
mod http;
mod limits;
mod literal;
mod mcp;
mod place;
mod process;
mod redaction;
mod secret;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use actbook_engine::chain::Digest;
use actbook_engine::id::{ExecutionId, StepId};
use actbook_engine::policy::Category;
use futures_util::future::{BoxFuture, join_all};
use serde_json::Value;
use tokio::sync::watch;

use crate::config::{COMMAND_SERVER, Config, HTTP_SERVER, ToolWords, Withheld};
use callback::Executors;
pub use callback::{Executor, Fault};
use catalog::Listing;
pub use catalog::{Annotations, CatalogError, ServerTools, ToolInfo};
pub use changes::changes_of;
pub use classify::OUTPUT_BYTES_MAX;
use classify::{Came, cap, classify};
pub use command::KEY_VARIABLE;
use egress::Egress;
pub use egress::{CONNECT_LIMIT, Lookup};
pub use hidden::visible;
pub use limits::Circuit;
use limits::Limits;
pub use mcp::ServerState;
pub use process::{ChildProcess, kill_child_processes};
use secret::Unresolved;
pub use secret::{REDACTED, Secret, Secrets, redact_log};

/// How much of a word on progress is passed on.
const PROGRESS_WORDS_CHARS: usize = 200;

/// One call to one tool.
#[derive(Clone, Debug)]
pub struct Call {
    /// `server/tool`.
    pub tool: String,
    /// As they were bound and journaled.
    pub arguments: Value,
    /// The definition of the tool that is meant; any, where there is none.
    #[doc(hidden)]
    pub pin: Option<Digest>,
    /// The same for every attempt that must not take effect twice.
    pub key: String,
    /// From sending to the answer. Waiting for a server to start is bounded by the same length of time,
    /// but counted apart: it must not turn a slow start into an unknown outcome.
    pub timeout: Duration,
    #[doc(hidden)]
    pub carry: Carry,
    /// None: a call by hand.
    pub origin: Option<Origin>,
}

/// Which attempt of which execution a call is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// Its public id.
    pub execution: ExecutionId,
    /// As the plan names it.
    pub step: StepId,
    /// What of the step it is for.
    pub purpose: Purpose,
    /// Counted from 1 for each step and purpose.
    pub attempt: u32,
}

/// What a call of a step is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// The step itself.
    Run,
    /// Whether an attempt of unknown outcome took effect.
    Probe,
    /// Taking the step's effect back.
    Undo,
}

/// What a call brings along from before, and who is told of what must outlive this process.
#[derive(Clone, Default)]
pub struct Carry {
    /// The call was made before, and the server goes on with it: it is asked after, not made again.
    pub task: Option<String>,
    pub reply: Option<Reply>,
    /// Keeps the handle of a task, durably, before it is asked after.
    pub keep: Option<Keep>,
    /// Told what an MCP server answers after the call's time was up, while this process and the connection last.
    pub late: Option<OnLate>,
    /// For executors inside this process: whether the call is asked to stop, and whom it tells of its progress.
    pub stop: Option<watch::Receiver<bool>>,
    pub progress: Option<OnProgress>,
}

/// A tool's question as it came, and the answer by the names under which it asked.
#[derive(Clone, Debug)]
pub struct Reply {
    pub question: Value,
    pub answer: Value,
}

/// Takes a call's end that came after its time was up.
pub type OnLate = Arc<dyn Fn(Ended) + Send + Sync>;

/// The same for what the transport saw, before it is judged.
type OnLateCame = Box<dyn FnOnce(Came) + Send>;

pub type Keep = Arc<dyn Fn(String) -> BoxFuture<'static, ()> + Send + Sync>;

impl fmt::Debug for Carry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Carry").field("task", &self.task).field("reply", &self.reply).finish_non_exhaustive()
    }
}

/// How a call ended.
#[derive(Clone, Debug, PartialEq)]
pub enum Ended {
    /// `structuredContent`, or `{"text": …}` where there is none.
    Succeeded { output: Value },
    /// The tool said no; or, where `sent` is false, it certainly did not leave the house.
    Failed {
        category: Category,
        message: String,
        sent: bool,
        output: Option<Value>,
        retry_after: Option<Duration>,
    },
    /// Nobody can tell.
    Unknown { category: Category, message: String, retry_after: Option<Duration> },
    /// The tool wants to know something first. `began`: it may have done something already.
    Asks { question: Value, began: bool },
}

/// How far a call has come, in its tool's own measure.
#[derive(Clone, Debug, PartialEq)]
pub struct Progress {
    pub done: f64,
    pub total: Option<f64>,
    pub message: Option<String>,
}

/// Hears of progress, from whichever task happens to read it.
pub type OnProgress = Arc<dyn Fn(Progress) + Send + Sync>;

/// The ways to a downstream.
enum Upstream {
    Mcp(Box<mcp::Server>),
    Http,
    Command,
    Callback(Box<Executors>),
}

pub struct Tools {
    config: Arc<Config>,
    upstreams: BTreeMap<String, Upstream>,
    /// Of every server outside this process.
    limits: BTreeMap<String, Limits>,
    secrets: Secrets,
    egress: Egress,
}

impl fmt::Debug for Tools {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tools").field("servers", &self.server_names()).finish_non_exhaustive()
    }
}

impl Tools {
    /// Starts nothing: a server is started when it is first needed.
    pub fn new(config: &Config) -> Self {
        Self::with_environment(config, |name| std::env::var(name).ok())
    }

    /// The same, with `${env:NAME}` taken from somewhere else than this process.
    pub fn with_environment(
        config: &Config,
        environment: impl Fn(&str) -> Option<String> + Send + Sync + 'static,
    ) -> Self {
        Self::with(config, environment, egress::system_lookup())
    }

    /// The same, with the addresses of names taken from somewhere else than this machine, too.
    pub fn with(
        config: &Config,
        environment: impl Fn(&str) -> Option<String> + Send + Sync + 'static,
        lookup: Lookup,
    ) -> Self {
        let secrets = Secrets::new(environment);
        secrets.learn(config);
        let egress = Egress::new(lookup, &config.egress_allow);
        let mut upstreams = BTreeMap::new();
        for (name, server) in &config.mcp_servers {
            let words = config.servers.get(name).cloned().unwrap_or_default();
            let server = mcp::Server::new(name, server, &config.folder, &secrets, &egress, &words);
            upstreams.insert(name.clone(), Upstream::Mcp(Box::new(server)));
        }
        if !config.commands.is_empty() {
            upstreams.insert(COMMAND_SERVER.to_owned(), Upstream::Command);
        }
        if !config.http.is_empty() {
            upstreams.insert(HTTP_SERVER.to_owned(), Upstream::Http);
        }
        let limits = upstreams.keys().map(|name| (name.clone(), Limits::of(config, name))).collect();
        Self { config: Arc::new(config.clone()), upstreams, limits, secrets, egress }
    }

    /// Calls a tool.
    ///
    /// `sending` runs immediately before the first byte may leave: for an MCP server once it is up,
    /// with its process; for a command right before it is started and again right after, with it.
    /// When `stop` resolves, the call is asked to stop and still ends under its own timeout.
    pub async fn call(
        &self,
        call: Call,
        sending: impl Fn(Option<ChildProcess>) + Send,
        stop: impl Future<Output = ()> + Send,
    ) -> Ended {
        let sending = move |child| {
            sending(child);
            true
        };
        self.call_reporting(call, sending, Arc::new(|_| {}), stop).await
    }

    /// The same, passing on what the tool says of its progress. Here `sending` also says whether the call may leave.
    pub async fn call_reporting(
        &self,
        call: Call,
        sending: impl Fn(Option<ChildProcess>) -> bool + Send,
        progress: OnProgress,
        stop: impl Future<Output = ()> + Send,
    ) -> Ended {
        if let Some(task) = &call.carry.task {
            return Box::pin(self.follow(&call, task, stop)).await;
        }
        let (upstream, limits, tool) = match self.reach(&call.tool) {
            Ok((Upstream::Callback(executors), limits, tool)) => {
                if call.carry.stop.as_ref().is_some_and(|stop| *stop.borrow()) {
                    return classify(stopped_unsent(), false);
                }
                let (tool, progress) = (tool.to_owned(), Some(self.discreet(progress)));
                let call = Call { carry: Carry { progress, ..call.carry }, ..call };
                return self.fit_to_keep(executors.call(&tool, call, sending).await, limits);
            }
            Ok(reached) => reached,
            Err(why) => return classify(Came::NotSent { category: Category::NotFound, why }, false),
        };
        // Boxed, so that a call to an executor in the process does not carry their size about.
        Box::pin(async {
            let mut stop = pin!(stop);
            let turn = tokio::select! {
                biased;
                () = &mut stop => Err(stopped_unsent()),
                turn = limits.enter(tool) => turn,
            };
            let turn = match turn {
                Ok(turn) => turn,
                Err(came) => return self.fit_to_keep(left_alone(came, &limits.circuit(tool)), limits),
            };
            let (came, stopped) = match upstream {
                Upstream::Mcp(server) => {
                    let told = (self.discreet(progress), self.late_answer(&call, limits));
                    server.call(tool, &call, sending, told, stop).await
                }
                upstream if let Err(came) = self.admit_pin(upstream, tool, &call) => (came, false),
                Upstream::Http => self.exchange(tool, limits).call(&call, sending, stop).await,
                Upstream::Command => self.run(tool, limits).call(&call, sending, stop).await,
                Upstream::Callback(_) => unreachable!("answered above"),
            };
            let ended = classify(came, stopped);
            turn.over(&ended);
            self.fit_to_keep(ended, limits)
        })
        .await
    }

    /// Asking after a task makes no new call: no limit holds it up, and whatever comes, it was sent.
    async fn follow(&self, call: &Call, task: &str, stop: impl Future<Output = ()> + Send) -> Ended {
        let (came, stopped) = match self.reach(&call.tool) {
            Ok((Upstream::Mcp(server), _, _)) => server.follow(call, task, stop).await,
            Ok(_) | Err(_) => {
                let why = format!("nothing here knows task {task} of `{}`", call.tool);
                (Came::TaskLost { why }, false)
            }
        };
        cap(self.secrets.redacted(classify(came, stopped)), OUTPUT_BYTES_MAX)
    }

    /// A tool of the config must be what it was; an MCP server is looked at once it is up.
    fn admit_pin(&self, upstream: &Upstream, tool: &str, call: &Call) -> Result<(), Came> {
        match upstream {
            Upstream::Http => catalog::http_info(tool, &self.config.http[tool]).admit_pin(call),
            Upstream::Command => catalog::command_info(tool, &self.config.commands[tool]).admit_pin(call),
            Upstream::Mcp(_) | Upstream::Callback(_) => Ok(()),
        }
    }

    fn exchange<'a>(&'a self, tool: &str, limits: &'a Limits) -> http::Exchange<'a> {
        http::Exchange {
            tool: &self.config.http[tool],
            secrets: &self.secrets,
            egress: &self.egress,
            output_bytes_max: limits.output_bytes_max,
        }
    }

    fn run<'a>(&'a self, tool: &str, limits: &'a Limits) -> command::Run<'a> {
        command::Run {
            tool: &self.config.commands[tool],
            folder: &self.config.folder,
            secrets: &self.secrets,
            output_bytes_max: limits.output_bytes_max,
        }
    }

    /// Struck out before it is cut, lest half of a secret remain at the cut.
    fn fit_to_keep(&self, ended: Ended, limits: &Limits) -> Ended {
        cap(self.secrets.redacted(ended), limits.output_bytes_max)
    }

    /// Hands a late answer on as an answer in time would be: judged, without secrets, and cut.
    fn late_answer(&self, call: &Call, limits: &Limits) -> OnLateCame {
        let (late, secrets, most) = (call.carry.late.clone(), self.secrets.clone(), limits.output_bytes_max);
        Box::new(move |came| {
            if let Some(late) = late {
                late(cap(secrets.redacted(classify(came, false)), most));
            }
        })
    }

    fn discreet(&self, progress: OnProgress) -> OnProgress {
        let secrets = self.secrets.clone();
        Arc::new(move |mut said: Progress| {
            if let Some(message) = &mut said.message {
                secrets.redact_text(message);
                *message = message.chars().take(PROGRESS_WORDS_CHARS).collect();
            }
            progress(said);
        })
    }

    /// How a server is doing in this process; none where there is no such server, or nothing to tell.
    pub fn state(&self, server: &str) -> Option<ServerState> {
        match self.upstreams.get(server)? {
            Upstream::Mcp(reached) => Some(reached.state(self.limits.get(server)?.circuit(""))),
            Upstream::Http | Upstream::Command | Upstream::Callback(_) => None,
        }
    }

    /// Connects to each configured server; one that cannot be reached carries its error.
    pub async fn list(&self) -> Vec<ServerTools> {
        let names = self.server_names();
        join_all(names.iter().map(|name| self.list_server(name))).await
    }

    /// The same for one of them.
    pub async fn list_server(&self, name: &str) -> ServerTools {
        let listed = match self.upstreams.get(name) {
            Some(Upstream::Mcp(server)) => {
                let listed = server.listing().await;
                let infos =
                    |listing: Arc<Listing>| listing.tools.iter().map(|tool| tool.info.clone()).collect();
                listed.map(infos).map_err(|error| error.to_string())
            }
            Some(Upstream::Http) => {
                Ok(self.config.http.iter().map(|(name, tool)| catalog::http_info(name, tool)).collect())
            }
            Some(Upstream::Command) => Ok(self
                .config
                .commands
                .iter()
                .map(|(name, tool)| catalog::command_info(name, tool))
                .collect()),
            Some(Upstream::Callback(executors)) => Ok(executors.list(name)),
            None => Err(self.no_such_server(name).to_string()),
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

    /// The tools of a server of which the config speaks.
    pub fn spoken_of(&self, server: &str) -> Vec<String> {
        self.config.servers.get(server).map(|words| words.tools.keys().cloned().collect()).unwrap_or_default()
    }

    /// What a tool, written `server/tool`, says of itself.
    pub async fn describe(&self, name: &str) -> Result<ToolInfo, CatalogError> {
        let (server, tool) = name.split_once('/').ok_or_else(|| CatalogError::BadName(name.to_owned()))?;
        let unknown = || CatalogError::UnknownTool { server: server.to_owned(), tool: tool.to_owned() };
        match self.upstreams.get(server) {
            Some(Upstream::Mcp(reached)) => {
                let listing = reached.listing().await?;
                listing.find(name).map(|found| found.info.clone()).ok_or_else(unknown)
            }
            Some(Upstream::Http) => {
                let http = self.config.http.get(tool).ok_or_else(unknown)?;
                Ok(catalog::http_info(tool, http))
            }
            Some(Upstream::Command) => {
                let command = self.config.commands.get(tool).ok_or_else(unknown)?;
                Ok(catalog::command_info(tool, command))
            }
            Some(Upstream::Callback(executors)) => executors.describe(server, tool),
            None => Err(self.no_such_server(server)),
        }
    }

    /// The same for many at once. A server that cannot be reached is asked once, not for each of its tools.
    pub async fn describe_each(
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

    async fn describe_in_turn(&self, names: Vec<&String>) -> Vec<(String, Result<ToolInfo, CatalogError>)> {
        let mut described = Vec::with_capacity(names.len());
        let mut lost: Option<CatalogError> = None;
        for name in names {
            let one = match &lost {
                Some(lost) => Err(lost.clone()),
                None => self.describe(name).await,
            };
            if let Err(error @ CatalogError::Unreachable { .. }) = &one {
                lost = Some(error.clone());
            }
            described.push((name.clone(), one));
        }
        described
    }

    pub fn knows(&self, server: &str) -> bool {
        self.upstreams.contains_key(server)
    }

    pub fn server_names(&self) -> Vec<String> {
        self.upstreams.keys().cloned().collect()
    }

    /// Whether the operator takes a server's hints at their word.
    pub fn trusts(&self, server: &str) -> bool {
        self.config.servers.get(server).is_some_and(|words| words.trusted)
    }

    /// What the operator said of a tool, written `server/tool`.
    pub fn words(&self, tool: &str) -> ToolWords {
        let (server, tool) = tool.split_once('/').unwrap_or((tool, ""));
        let said = self.config.tool_words(server, tool);
        match self.upstreams.get(server) {
            Some(Upstream::Callback(executors)) => executors.words(tool).under(said),
            Some(Upstream::Mcp(_) | Upstream::Http | Upstream::Command) | None => said,
        }
    }

    /// Stops every child process group, politely first.
    pub async fn shutdown(&self) {
        let servers = self.upstreams.values().filter_map(|upstream| match upstream {
            Upstream::Mcp(server) => Some(server.shutdown()),
            Upstream::Http | Upstream::Command | Upstream::Callback(_) => None,
        });
        join_all(servers).await;
    }

    fn reach<'a, 'n>(&'a self, name: &'n str) -> Result<(&'a Upstream, &'a Limits, &'n str), String> {
        let Some((server, tool)) = name.split_once('/') else {
            return Err(CatalogError::BadName(name.to_owned()).to_string());
        };
        let upstream = self.upstreams.get(server).ok_or_else(|| self.no_such_server(server).to_string())?;
        match upstream {
            Upstream::Command if !self.config.commands.contains_key(tool) => {
                Err(format!("there is no command `{tool}` in the config"))
            }
            Upstream::Http if !self.config.http.contains_key(tool) => {
                Err(format!("there is no HTTP tool `{tool}` in the config"))
            }
            Upstream::Mcp(_) | Upstream::Http | Upstream::Command | Upstream::Callback(_) => {
                Ok((upstream, &self.limits[server], tool))
            }
        }
    }

    fn no_such_server(&self, server: &str) -> CatalogError {
        if let Some(withheld) = &self.config.withheld {
            return CatalogError::Untrusted(withheld.to_string());
        }
        CatalogError::UnknownServer(match self.config.file.as_deref() {
            Some(file) => format!("there is no server `{server}` in {}", file.display()),
            None => format!("there is no server `{server}`: no config names one"),
        })
    }

    /// Why the config has no effect. None: it has.
    pub fn withheld(&self) -> Option<&Withheld> {
        self.config.withheld.as_ref()
    }
}

/// What a call over HTTP carries, whatever kind of tool it is for.
const IDEMPOTENCY_HEADER: &str = "idempotency-key";
const TRACE_HEADER: &str = "traceparent";

/// The W3C's trace context for one call, begun here. It tells calls apart and keeps no secret: what the hasher's
/// keys, drawn at random once, make of a count will do.
fn traceparent() -> String {
    let drawn = || RandomState::new().build_hasher().finish();
    format!("00-{:016x}{:016x}-{:016x}-01", drawn(), drawn(), drawn())
}

/// A missing argument is the plan's fault, a missing variable the machine's.
fn unfilled(unresolved: &Unresolved) -> Came {
    let category = match unresolved {
        Unresolved::NoArgument(_) => Category::InvalidArguments,
        Unresolved::Unset(_) | Unresolved::Foreign(_) => Category::Unavailable,
    };
    Came::NotSent { category, why: unresolved.to_string() }
}

/// What did not leave because its server is left alone is worth another try when that is over.
fn left_alone(came: Came, circuit: &Circuit) -> Ended {
    match (classify(came, false), circuit) {
        (Ended::Failed { category, message, sent, output, .. }, Circuit::Open { for_ms }) => {
            let retry_after = Some(Duration::from_millis(*for_ms));
            Ended::Failed { category, message, sent, output, retry_after }
        }
        (ended, _) => ended,
    }
}

/// Stopped while it waited for its turn or its server.
fn stopped_unsent() -> Came {
    Came::NotSent { category: Category::Policy, why: "asked to stop before it was sent".to_owned() }
}

/// Whoever asked for it would not have it sent any more.
fn withheld() -> Came {
    Came::NotSent { category: Category::Internal, why: "it was withheld before it was sent".to_owned() }
}
