//! The downstream tools for callers: listing and describing them, and calling one by hand.

use std::sync::Arc;
use std::time::{Duration, Instant};

use actbook_engine::analysis::nearest;
use actbook_engine::policy::{ErrorCategory, Outcome};
use serde::Serialize;
use serde_json::Value;

use super::Service;
use crate::error::Error;
use crate::random;
use crate::tools::{Call, CallOutcome, CatalogError, OnCommandOutput, ServerState, ServerTools, ToolInfo};

/// The result of a call by hand. The call belongs to no execution and is not journaled. A question of the
/// tool counts as a failure of category `policy`, with the question as `output`.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, Serialize)]
pub struct ToolCallResult {
    pub outcome: Outcome,
    pub took_ms: u64,
    pub output: Option<Value>,
    pub category: Option<ErrorCategory>,
    pub message: Option<String>,
}

/// The tools that plans can call: their descriptions, accepted definitions and direct calls.
#[derive(Clone, Copy, Debug)]
pub struct ToolCatalog<'a>(pub(super) &'a Service);

impl ToolCatalog<'_> {
    /// Every configured server with its tools, redacted, or the error why they could not be listed.
    pub async fn list(self) -> Vec<ServerTools> {
        self.0.tools.list_servers().await.into_iter().map(|server| self.redact_server(server)).collect()
    }

    /// Tools that the config names and the server does not have, each with the nearest name that it has;
    /// names are without the server. Empty if the server cannot be listed.
    pub async fn unknown_configured_tools(self, server: &str) -> Vec<(String, Option<String>)> {
        let configured = self.0.tools.configured_tools(server);
        if configured.is_empty() {
            return Vec::new();
        }
        let listed = self.0.tools.list_server(server).await;
        let known = || listed.tools.iter().filter_map(|tool| tool.name.split_once('/')).map(|(_, name)| name);
        let unknown = configured.into_iter().filter(|name| !known().any(|known| known == name));
        let unknown = unknown.filter(|_| listed.error.is_none());
        let nearest_name =
            |name: &str| nearest(name, known()).map(|name| self.0.redact_name(name.to_owned()));
        unknown.map(|name| (name.clone(), nearest_name(&name))).collect()
    }

    /// One server with its tools, redacted, or the error why they could not be listed.
    pub async fn list_server(self, server: &str) -> ServerTools {
        self.redact_server(self.0.tools.list_server(server).await)
    }

    fn redact_server(self, server: ServerTools) -> ServerTools {
        ServerTools {
            tools: server.tools.into_iter().map(|info| self.redact_tool_info(info)).collect(),
            ..server
        }
    }

    /// Redacts a tool's name and description: a server may repeat secrets there that it was given. The
    /// server's part of the name is the config's and stays. Sets `needs_approval` first: the config knows the
    /// tool by the name that is redacted here.
    fn redact_tool_info(self, mut info: ToolInfo) -> ToolInfo {
        info.needs_approval = self.0.tools.tool_config(&info.name).approval == Some(true);
        info.name = match info.name.split_once('/') {
            Some((server, tool)) => format!("{server}/{}", self.0.redact_name(tool.to_owned())),
            None => self.0.redact_name(info.name),
        };
        let texts = [&mut info.title, &mut info.description];
        texts.into_iter().flatten().for_each(|text| self.0.tools.redact_text(text));
        self.0.tools.redact(&mut info.input_schema);
        info.output_schema.iter_mut().for_each(|schema| self.0.tools.redact(schema));
        info.hidden.iter_mut().for_each(|place| self.0.tools.redact_text(place));
        info
    }

    /// The state of an MCP server in this process. `None`: there is no MCP server of that name.
    pub fn server_state(self, name: &str) -> Option<ServerState> {
        self.0.tools.server_state(name)
    }

    /// Passes what commands of the config write while they run in this process to `receiver`; only the first
    /// receiver is kept.
    pub fn pass_on_command_output(self, receiver: OnCommandOutput) {
        self.0.tools.pass_on_command_output(receiver);
    }

    /// The environment variables that an MCP server needs and that are not set.
    pub fn unset_variables_of_server(self, server: &str) -> Vec<String> {
        self.0.tools.unset_variables_of_server(server)
    }

    pub fn server_names(self) -> Vec<String> {
        self.0.tools.server_names()
    }

    /// The description of a tool, by `server/tool`, redacted. Err `ToolUnavailable`: it cannot be described.
    pub async fn get(self, name: &str) -> Result<ToolInfo, Error> {
        match self.0.tools.describe(name).await {
            Ok(info) => {
                let mut info = self.redact_tool_info(info);
                self.0.tools.redact(Arc::make_mut(&mut info.object));
                Ok(info)
            }
            Err(error) => Err(self.unavailable_error(name, error).await),
        }
    }

    /// The refusal of a tool that cannot be described for this reason, with the nearest name, redacted.
    pub(super) async fn unavailable_error(self, name: &str, error: CatalogError) -> Error {
        let mut nearest = self.nearest_tool(name, &error).await;
        nearest.iter_mut().for_each(|nearest| self.0.tools.redact_text(nearest));
        Error::ToolUnavailable { error, nearest }
    }

    /// The nearest name to that of a tool that cannot be described: of its own server if that is known, else
    /// of any. `None`: no name is near, or the name is not the problem.
    async fn nearest_tool(self, name: &str, error: &CatalogError) -> Option<String> {
        let listed = match error {
            CatalogError::UnknownTool { server, .. } => vec![self.0.tools.list_server(server).await],
            CatalogError::BadName(_) | CatalogError::UnknownServer { .. } => {
                self.0.tools.list_servers().await
            }
            CatalogError::Unreachable { .. }
            | CatalogError::DisabledServer { .. }
            | CatalogError::Untrusted(_) => return None,
        };
        let names = listed.iter().flat_map(|server| &server.tools).map(|tool| tool.name.as_str());
        nearest(name, names).map(str::to_owned)
    }

    /// The error with which everything that needs a server is refused while the config is not trusted.
    /// `None`: the config is trusted.
    pub fn untrusted_config(self) -> Option<Error> {
        self.0.tools.withheld_config().map(Error::from)
    }

    /// Calls a tool by hand, outside of any execution, without a pin. `timeout`: for the answer.
    pub async fn call(self, name: &str, arguments: Value, timeout: Duration) -> ToolCallResult {
        let key = random::id();
        let (tool, carry) = (name.to_owned(), Default::default());
        let call = Call { tool, arguments, pin: None, key, timeout, context: carry, origin: None };
        let started = Instant::now();
        let ended = self.0.tools.call(call, |_| {}, std::future::pending()).await;
        let took_ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
        let (outcome, category, message, output) = match ended {
            CallOutcome::Succeeded { output } => (Outcome::Succeeded, None, None, Some(output)),
            CallOutcome::Failed { category, message, output, .. } => {
                (Outcome::Failed, Some(category), Some(message), output)
            }
            CallOutcome::Unknown { category, message, .. } => {
                (Outcome::Unknown, Some(category), Some(message), None)
            }
            CallOutcome::InputRequired { question, .. } => {
                let message = question["message"].as_str().map(str::to_owned);
                (Outcome::Failed, Some(ErrorCategory::Policy), message, Some(question))
            }
        };
        ToolCallResult { outcome, took_ms, output, category, message }
    }
}
