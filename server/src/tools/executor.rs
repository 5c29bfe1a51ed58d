//! In-process executors: async functions that the embedding program registers for tools of its own. An
//! executor's result is taken as it is; a panic or a timeout is unknown. Knows the call and the settings
//! given at registration, nothing of plans.
#![warn(missing_docs)]

use std::any::Any;
use std::collections::BTreeMap;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use actbook_engine::chain::Digest;
use actbook_engine::policy::ErrorCategory;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use serde_json::{Value, json};

use super::catalog::{Annotations, CatalogError, ToolInfo, check_call_arguments};
use super::classify::{RawOutcome, classify};
use super::limits::ServerLimits;
use super::process::ProcessIdentity;
use super::{Call, CallOutcome, CallProgress, Downstream, Tools, withheld_before_send};
use crate::config::{COMMAND_SERVER, HTTP_SERVER, Schema, ToolConfig};

/// The function of an executor, with the result already a classified outcome.
type ExecutorFn = Arc<dyn Fn(Call) -> BoxFuture<'static, CallOutcome> + Send + Sync>;

/// Methods for executors, to use while they perform the call.
impl Call {
    /// Resolves when the execution is cancelled, else never. The executor may then give up and report the
    /// outcome; it has until the call's timeout.
    pub async fn asked_to_stop(&self) {
        let requested = match self.context.stop_requested.clone() {
            Some(mut stop) => stop.wait_for(|requested| *requested).await.is_ok(),
            None => false,
        };
        if !requested {
            std::future::pending::<()>().await;
        }
    }

    /// Reports progress, in units of the executor's choice. Shown by this process while the call runs.
    pub fn progress(&self, done: f64, total: Option<f64>, message: Option<&str>) {
        if let Some(on_progress) = &self.context.on_progress {
            on_progress(CallProgress { done, total, message: message.map(str::to_owned) });
        }
    }
}

/// Performs the calls of one tool inside this process.
///
/// The function is async and gets the whole [`Call`]. It returns the step's output, or a [`Fault`].
/// A panic inside it is caught and counts as unknown. On the step's timeout its future is dropped, and the
/// outcome is unknown too. Blocking work belongs into `spawn_blocking`.
///
/// By default the tool counts as neither idempotent nor read-only and takes any arguments. The program that
/// registers it can say otherwise, with the same authority as the operator's config.
#[derive(Clone)]
pub struct Executor {
    function: ExecutorFn,
    description: Option<String>,
    input_schema: Option<Value>,
    tool_config: ToolConfig,
}

impl fmt::Debug for Executor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { function: _, description, input_schema, tool_config } = self;
        let mut shown = f.debug_struct("Executor");
        shown
            .field("description", description)
            .field("input_schema", input_schema)
            .field("tool_config", tool_config);
        shown.finish_non_exhaustive()
    }
}

impl Executor {
    /// An executor without description, schema or settings.
    pub fn new<F, A>(act: F) -> Self
    where
        F: Fn(Call) -> A + Send + Sync + 'static,
        A: Future<Output = Result<Value, Fault>> + Send + 'static,
    {
        Self::from_outcome_fn(move |call| {
            let result = act(call);
            let outcome = async {
                match result.await {
                    Ok(output) => CallOutcome::Succeeded { output },
                    Err(fault) => fault.into(),
                }
            };
            outcome.boxed()
        })
    }

    /// Like `new`, from a function that returns the classified outcome itself.
    pub(super) fn from_outcome_fn(
        act: impl Fn(Call) -> BoxFuture<'static, CallOutcome> + Send + Sync + 'static,
    ) -> Self {
        let tool_config = ToolConfig::default();
        Self { function: Arc::new(act), description: None, input_schema: None, tool_config }
    }

    /// Sets the description that people and agents choose the tool by.
    pub fn description(mut self, text: impl Into<String>) -> Self {
        self.description = Some(text.into());
        self
    }

    /// Sets the JSON Schema of the arguments: plans are checked against it when they are saved, and every
    /// call again before the function runs.
    pub fn input_schema(mut self, schema: Value) -> Self {
        self.input_schema = Some(schema);
        self
    }

    /// Declares that two calls with one key have the effect of one: an unknown outcome may be retried by
    /// policy.
    pub fn idempotent(mut self) -> Self {
        self.tool_config.idempotent = Some(true);
        self
    }

    /// Declares that the tool has no effect: there is nothing to undo, and it may be retried by policy.
    pub fn read_only(mut self) -> Self {
        self.tool_config.read_only = Some(true);
        self
    }

    /// Runs the function under the call's timeout; a panic or timeout becomes an unknown outcome.
    async fn run(&self, call: Call) -> CallOutcome {
        let after = call.timeout;
        let mut running = Box::pin(AssertUnwindSafe(async { (self.function)(call).await }).catch_unwind());
        match tokio::time::timeout(after, &mut running).await {
            Ok(Ok(outcome)) => outcome,
            Ok(Err(panic)) => classify(
                RawOutcome::ExecutorPanicked { why: panic_message(panic.as_ref()).to_owned() },
                false,
            ),
            Err(_) => {
                // Values inside the future may panic when they are dropped.
                drop(catch_unwind(AssertUnwindSafe(|| drop(running))));
                classify(RawOutcome::TimedOut { after }, false)
            }
        }
    }
}

impl<F, A> From<F> for Executor
where
    F: Fn(Call) -> A + Send + Sync + 'static,
    A: Future<Output = Result<Value, Fault>> + Send + 'static,
{
    fn from(act: F) -> Self {
        Self::new(act)
    }
}

/// The message of a panic; `without a message` if it is not text.
fn panic_message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("without a message")
}

/// An executor's error: the call failed, or its outcome is unknown.
///
/// Any other error that is passed on with `?` becomes unknown: it may have occurred when half of the work was
/// done. Where it is certain that the effect did not happen, use [`Fault::failed`].
#[derive(Clone, Debug, PartialEq)]
pub struct Fault {
    /// Whether it is certain that the effect did not happen.
    is_certain: bool,
    category: ErrorCategory,
    message: String,
    retry_after: Option<Duration>,
}

impl Fault {
    /// The effect did not happen.
    pub fn failed(category: ErrorCategory, message: impl Into<String>) -> Self {
        Self { is_certain: true, ..Self::unknown(category, message) }
    }

    /// It is unknown whether the effect happened.
    pub fn unknown(category: ErrorCategory, message: impl Into<String>) -> Self {
        Self { is_certain: false, category, message: message.into(), retry_after: None }
    }

    /// Sets the minimum wait before the next attempt.
    pub fn retry_after(self, wait: Duration) -> Self {
        Self { retry_after: Some(wait), ..self }
    }
}

impl From<Fault> for CallOutcome {
    fn from(fault: Fault) -> Self {
        let Fault { is_certain, category, message, retry_after } = fault;
        if is_certain {
            Self::Failed { category, message, sent: true, output: None, retry_after }
        } else {
            Self::Unknown { category, message, retry_after }
        }
    }
}

impl<E: std::error::Error> From<E> for Fault {
    fn from(error: E) -> Self {
        let mut message = error.to_string();
        let mut source = error.source();
        while let Some(deeper) = source {
            message.push_str(&format!(": {deeper}"));
            source = deeper.source();
        }
        Self::unknown(ErrorCategory::Internal, message)
    }
}

/// The in-process executors of one server.
#[derive(Default)]
pub(super) struct Executors {
    named: BTreeMap<String, RegisteredExecutor>,
    /// Performs every tool that is not in `named`.
    fallback: Option<RegisteredExecutor>,
}

/// An executor with its compiled input schema. `None`: it takes any arguments.
struct RegisteredExecutor {
    executor: Executor,
    schema: Option<Schema>,
}

impl Executors {
    /// The executor for `tool`, a name without the server, or the server's fallback. `None`: there is
    /// neither.
    fn find(&self, tool: &str) -> Option<&RegisteredExecutor> {
        self.named.get(tool).or(self.fallback.as_ref())
    }

    /// Whether an executor of this server performs `tool`, a name without the server. Always true if the
    /// server has a fallback executor.
    pub fn can_perform(&self, tool: &str) -> bool {
        self.find(tool).is_some()
    }

    /// The settings given at registration; defaults for an unknown tool. `tool` is a name without the server.
    pub fn tool_config(&self, tool: &str) -> ToolConfig {
        self.find(tool).map(|found| found.executor.tool_config.clone()).unwrap_or_default()
    }

    /// Describes the tools that have an executor of their own, as tools of `server`; those that only the
    /// fallback performs are not known.
    pub fn list_tools(&self, server: &str) -> Vec<ToolInfo> {
        self.named.iter().map(|(tool, found)| found.tool_info(format!("{server}/{tool}"))).collect()
    }

    /// Describes `tool`, a name without the server. With a fallback executor any name is described.
    pub fn describe(&self, server: &str, tool: &str) -> Result<ToolInfo, CatalogError> {
        let unknown = || CatalogError::UnknownTool { server: server.to_owned(), tool: tool.to_owned() };
        self.find(tool).map(|found| found.tool_info(format!("{server}/{tool}"))).ok_or_else(unknown)
    }

    /// Checks the arguments, runs `sending` and performs the call; see [`Tools::call`]. Without an executor,
    /// with arguments that do not fit, or if `sending` refuses, the outcome is a failure that was not sent.
    pub async fn call(
        &self,
        tool: &str,
        call: Call,
        sending: impl Fn(Option<ProcessIdentity>) -> bool,
    ) -> CallOutcome {
        let Some(found) = self.find(tool) else {
            let why = format!("no executor of this process performs `{}`", call.tool);
            return classify(RawOutcome::NotSent { category: ErrorCategory::NotFound, why }, false);
        };
        if let Some(schema) = &found.schema
            && let Err(raw) = check_call_arguments(&call, schema)
        {
            return classify(raw, false);
        }
        if !sending(None) {
            return classify(withheld_before_send(), false);
        }
        found.executor.run(call).await
    }
}

impl RegisteredExecutor {
    /// The description of the tool, named `server/tool`. The program and its plans change together, so there
    /// is no description object and nothing to pin.
    fn tool_info(&self, name: String) -> ToolInfo {
        let Executor { description, input_schema, tool_config, .. } = &self.executor;
        ToolInfo {
            title: None,
            description: description.clone(),
            input_schema: input_schema.clone().unwrap_or_else(|| json!({ "type": "object" })),
            output_schema: None,
            annotations: Annotations {
                read_only: tool_config.read_only,
                idempotent: tool_config.idempotent,
                ..Annotations::default()
            },
            digest: Digest::of(name.as_bytes()),
            hidden: Vec::new(),
            object: Arc::new(Value::Null),
            needs_approval: false,
            name,
        }
    }
}

impl Tools {
    /// Registers one in-process executor for every tool of `server`, in place of what `server` was before.
    pub fn with_server_executor(
        mut self,
        server: &str,
        callback: impl Fn(Call) -> BoxFuture<'static, CallOutcome> + Send + Sync + 'static,
    ) -> Self {
        let fallback =
            Some(RegisteredExecutor { executor: Executor::from_outcome_fn(callback), schema: None });
        let executors = Executors { fallback, named: BTreeMap::new() };
        self.downstreams.insert(server.to_owned(), Downstream::InProcess(Box::new(executors)));
        self.limits.insert(server.to_owned(), ServerLimits::for_server(&self.config, server));
        self
    }

    /// Registers an in-process executor for one tool, written `server/tool`. Err, as a sentence for users:
    /// the name is malformed or taken, or the schema is invalid.
    pub fn with_executor(mut self, name: &str, executor: Executor) -> Result<Self, String> {
        let (server, tool) = match name.split_once('/') {
            Some((COMMAND_SERVER | HTTP_SERVER, _)) => {
                return Err(format!("`{name}`: tools of `command` and `http` come from the config"));
            }
            Some((server, tool)) if !server.is_empty() && !tool.is_empty() => (server, tool),
            Some(_) | None => return Err(CatalogError::BadName(name.to_owned()).to_string()),
        };
        let schema = executor.input_schema.clone().map(Schema::compile).transpose();
        let schema = schema.map_err(|why| format!("the input schema of `{name}` is not a schema: {why}"))?;
        let empty = || Downstream::InProcess(Box::default());
        let taken = match self.downstreams.entry(server.to_owned()).or_insert_with(empty) {
            Downstream::InProcess(executors) => {
                executors.named.insert(tool.to_owned(), RegisteredExecutor { executor, schema }).is_some()
            }
            Downstream::Mcp(_) | Downstream::Http | Downstream::Command => {
                return Err(format!("`{name}`: the config names a server `{server}` already"));
            }
        };
        self.limits
            .entry(server.to_owned())
            .or_insert_with(|| ServerLimits::for_server(&self.config, server));
        if taken { Err(format!("`{name}` was given twice")) } else { Ok(self) }
    }
}
