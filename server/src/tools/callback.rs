//! Executors inside this process: async functions that the program around this library gives for tools of
//! its own. What one answers is taken at its word; a panic, or no answer in time, is unknown. Knows the call
//! and what its registration says of the tool, nothing of plans.
#![warn(missing_docs)]

use std::any::Any;
use std::collections::BTreeMap;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use actbook_engine::chain::Digest;
use actbook_engine::policy::Category;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use serde_json::{Value, json};

use super::catalog::{Annotations, CatalogError, ToolInfo, admit_arguments};
use super::classify::{Came, classify};
use super::limits::Limits;
use super::process::ChildProcess;
use super::{Call, Ended, Progress, Tools, Upstream, withheld};
use crate::config::{COMMAND_SERVER, HTTP_SERVER, Schema, ToolWords};

type Act = Arc<dyn Fn(Call) -> BoxFuture<'static, Ended> + Send + Sync>;

/// For executors: what a call can be asked while it is performed.
impl Call {
    /// Resolves when the execution was cancelled. The executor may give up then, and says what became of the
    /// call; it has until its timeout.
    pub async fn asked_to_stop(&self) {
        let heard = match self.carry.stop.clone() {
            Some(mut stop) => stop.wait_for(|asked| *asked).await.is_ok(),
            None => false,
        };
        if !heard {
            std::future::pending::<()>().await;
        }
    }

    /// Says how far it has come, in a measure of its own. It is shown while the call lasts, in this process.
    pub fn progress(&self, done: f64, total: Option<f64>, message: Option<&str>) {
        if let Some(tell) = &self.carry.progress {
            tell(Progress { done, total, message: message.map(str::to_owned) });
        }
    }
}

/// Performs the calls of one tool inside this process.
///
/// Its function is async and gets the whole [`Call`]. It answers with the step's output, or with a [`Fault`].
/// A panic inside it is caught and counts as unknown, and so does an answer that does not come within the
/// step's timeout, when its future is dropped. Work that blocks belongs into `spawn_blocking`.
///
/// Nothing is said of the tool by default: what may be sent twice, what has no effect, and which arguments
/// it takes are for whoever registers it to say, and that is taken as the operator's word.
#[derive(Clone)]
pub struct Executor {
    act: Act,
    description: Option<String>,
    input_schema: Option<Value>,
    words: ToolWords,
}

impl fmt::Debug for Executor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { act: _, description, input_schema, words } = self;
        let mut shown = f.debug_struct("Executor");
        shown.field("description", description).field("input_schema", input_schema).field("words", words);
        shown.finish_non_exhaustive()
    }
}

impl Executor {
    /// An executor of which nothing is said yet.
    pub fn new<F, A>(act: F) -> Self
    where
        F: Fn(Call) -> A + Send + Sync + 'static,
        A: Future<Output = Result<Value, Fault>> + Send + 'static,
    {
        Self::ending(move |call| {
            let answer = act(call);
            let ended = async {
                match answer.await {
                    Ok(output) => Ended::Succeeded { output },
                    Err(Fault(ended)) => ended,
                }
            };
            ended.boxed()
        })
    }

    /// The same, from a function that judges its calls in full.
    pub(super) fn ending(act: impl Fn(Call) -> BoxFuture<'static, Ended> + Send + Sync + 'static) -> Self {
        let words = ToolWords::default();
        Self { act: Arc::new(act), description: None, input_schema: None, words }
    }

    /// For people and agents who choose among tools.
    pub fn description(mut self, text: impl Into<String>) -> Self {
        self.description = Some(text.into());
        self
    }

    /// A JSON Schema of the arguments: plans are held against it when they are saved, and every call again
    /// before the function is called.
    pub fn input_schema(mut self, schema: Value) -> Self {
        self.input_schema = Some(schema);
        self
    }

    /// Two calls with one key have the effect of one, so that an unknown outcome may be retried by policy.
    pub fn idempotent(mut self) -> Self {
        self.words.idempotent = Some(true);
        self
    }

    /// It has no effect: there is nothing to undo, and it may be retried by policy.
    pub fn read_only(mut self) -> Self {
        self.words.read_only = Some(true);
        self
    }

    async fn answer(&self, call: Call) -> Ended {
        let after = call.timeout;
        let mut act = Box::pin(AssertUnwindSafe(async { (self.act)(call).await }).catch_unwind());
        match tokio::time::timeout(after, &mut act).await {
            Ok(Ok(ended)) => ended,
            Ok(Err(panic)) => classify(Came::Panicked { why: words_of(panic.as_ref()).to_owned() }, false),
            Err(_) => {
                // What the future holds may panic when it is dropped.
                drop(catch_unwind(AssertUnwindSafe(|| drop(act))));
                classify(Came::TimedOut { after }, false)
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

fn words_of(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("without a word")
}

/// Why an executor has no output to give: the tool said no, or nobody can tell what became of the call.
///
/// Any error that is passed on with `?` is unknown: it may have come when half of the work was done. Where
/// it is certain that nothing happened, say so with [`Fault::failed`].
#[derive(Clone, Debug, PartialEq)]
pub struct Fault(Ended);

impl Fault {
    /// The effect did not happen.
    pub fn failed(category: Category, message: impl Into<String>) -> Self {
        let message = message.into();
        Self(Ended::Failed { category, message, sent: true, output: None, retry_after: None })
    }

    /// Nobody can tell whether the effect happened.
    pub fn unknown(category: Category, message: impl Into<String>) -> Self {
        Self(Ended::Unknown { category, message: message.into(), retry_after: None })
    }

    /// The least that is to be waited before the next attempt.
    pub fn retry_after(mut self, wait: Duration) -> Self {
        match &mut self.0 {
            Ended::Failed { retry_after, .. } | Ended::Unknown { retry_after, .. } => {
                *retry_after = Some(wait);
            }
            Ended::Succeeded { .. } | Ended::Asks { .. } => unreachable!("neither is a fault"),
        }
        self
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
        Self::unknown(Category::Internal, message)
    }
}

/// The executors of one server.
#[derive(Default)]
pub(super) struct Executors {
    named: BTreeMap<String, Registered>,
    /// Answers for every other tool.
    any: Option<Registered>,
}

struct Registered {
    executor: Executor,
    schema: Option<Schema>,
}

impl Executors {
    fn find(&self, tool: &str) -> Option<&Registered> {
        self.named.get(tool).or(self.any.as_ref())
    }

    pub fn knows(&self, tool: &str) -> bool {
        self.find(tool).is_some()
    }

    pub fn words(&self, tool: &str) -> ToolWords {
        self.find(tool).map(|found| found.executor.words.clone()).unwrap_or_default()
    }

    pub fn list(&self, server: &str) -> Vec<ToolInfo> {
        self.named.iter().map(|(tool, found)| found.info(format!("{server}/{tool}"))).collect()
    }

    pub fn describe(&self, server: &str, tool: &str) -> Result<ToolInfo, CatalogError> {
        let unknown = || CatalogError::UnknownTool { server: server.to_owned(), tool: tool.to_owned() };
        self.find(tool).map(|found| found.info(format!("{server}/{tool}"))).ok_or_else(unknown)
    }

    pub async fn call(
        &self,
        tool: &str,
        call: Call,
        sending: impl Fn(Option<ChildProcess>) -> bool,
    ) -> Ended {
        let Some(found) = self.find(tool) else {
            let why = format!("nothing in this process performs `{}`", call.tool);
            return classify(Came::NotSent { category: Category::NotFound, why }, false);
        };
        if let Some(schema) = &found.schema
            && let Err(came) = admit_arguments(&call, schema)
        {
            return classify(came, false);
        }
        if !sending(None) {
            return classify(withheld(), false);
        }
        found.executor.answer(call).await
    }
}

impl Registered {
    /// The program and its plans change together, so there is no object and nothing to be pinned to.
    fn info(&self, name: String) -> ToolInfo {
        let Executor { description, input_schema, words, .. } = &self.executor;
        ToolInfo {
            title: None,
            description: description.clone(),
            input_schema: input_schema.clone().unwrap_or_else(|| json!({ "type": "object" })),
            output_schema: None,
            annotations: Annotations {
                read_only: words.read_only,
                idempotent: words.idempotent,
                ..Annotations::default()
            },
            digest: Digest::of(name.as_bytes()),
            hidden: Vec::new(),
            object: Arc::new(Value::Null),
            name,
        }
    }
}

impl Tools {
    /// Registers an executor inside this process for every tool of `server`.
    pub fn with_callback(
        mut self,
        server: &str,
        callback: impl Fn(Call) -> BoxFuture<'static, Ended> + Send + Sync + 'static,
    ) -> Self {
        let any = Some(Registered { executor: Executor::ending(callback), schema: None });
        let executors = Executors { any, named: BTreeMap::new() };
        self.upstreams.insert(server.to_owned(), Upstream::Callback(Box::new(executors)));
        self.limits.insert(server.to_owned(), Limits::of(&self.config, server));
        self
    }

    /// Registers an executor inside this process for one tool, written `server/tool`. Refused where the name
    /// is no such name or is taken, and where the schema is none.
    pub fn with_executor(mut self, name: &str, executor: Executor) -> Result<Self, String> {
        let (server, tool) = match name.split_once('/') {
            Some((COMMAND_SERVER | HTTP_SERVER, _)) => {
                return Err(format!("`{name}`: tools of `command` and `http` come from the config"));
            }
            Some((server, tool)) if !server.is_empty() && !tool.is_empty() => (server, tool),
            Some(_) | None => return Err(CatalogError::BadName(name.to_owned()).to_string()),
        };
        let schema = executor.input_schema.clone().map(Schema::compile).transpose();
        let schema = schema.map_err(|why| format!("the input schema of `{name}` is none: {why}"))?;
        let fresh = || Upstream::Callback(Box::default());
        let taken = match self.upstreams.entry(server.to_owned()).or_insert_with(fresh) {
            Upstream::Callback(executors) => {
                executors.named.insert(tool.to_owned(), Registered { executor, schema }).is_some()
            }
            Upstream::Mcp(_) | Upstream::Http | Upstream::Command => {
                return Err(format!("`{name}`: the config names a server `{server}` already"));
            }
        };
        self.limits.entry(server.to_owned()).or_insert_with(|| Limits::of(&self.config, server));
        if taken { Err(format!("`{name}` was given twice")) } else { Ok(self) }
    }
}
