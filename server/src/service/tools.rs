//! The downstream tools as callers see them: listed, described, tried by hand.

use std::sync::Arc;
use std::time::{Duration, Instant};

use actbook_engine::analysis::nearest;
use actbook_engine::policy::{Category, Outcome};
use serde::Serialize;
use serde_json::Value;

use super::Service;
use crate::error::{Error, UNTRUSTED_CONFIG};
use crate::random;
use crate::tools::{Call, CatalogError, Ended, ServerState, ServerTools, ToolInfo};

/// How a call by hand ended. It belongs to no execution, so the journal does not know of it.
#[derive(Clone, Debug, Serialize)]
pub struct ToolCalled {
    pub outcome: Outcome,
    pub took_ms: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub category: Option<Category>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

impl Service {
    /// Every configured server with its tools, or why they could not be had.
    pub async fn list_tools(&self) -> Vec<ServerTools> {
        self.tools.list().await.into_iter().map(|server| self.shown_server(server)).collect()
    }

    /// What the config says of tools that a server does not have, each with the name that may be meant.
    pub async fn words_for_nobody(&self, server: &str) -> Vec<(String, Option<String>)> {
        let spoken_of = self.tools.spoken_of(server);
        if spoken_of.is_empty() {
            return Vec::new();
        }
        let listed = self.tools.list_server(server).await;
        let known = || listed.tools.iter().filter_map(|tool| tool.name.split_once('/')).map(|(_, name)| name);
        let unknown = spoken_of.into_iter().filter(|name| !known().any(|known| known == name));
        let unknown = unknown.filter(|_| listed.error.is_none());
        let meant = |name: &str| nearest(name, known()).map(str::to_owned);
        unknown.map(|name| (name.clone(), meant(&name))).collect()
    }

    pub async fn list_tools_of(&self, server: &str) -> ServerTools {
        self.shown_server(self.tools.list_server(server).await)
    }

    fn shown_server(&self, server: ServerTools) -> ServerTools {
        ServerTools { tools: server.tools.into_iter().map(|info| self.shown(info)).collect(), ..server }
    }

    /// A server may put what it was given into what it says of its tools.
    fn shown(&self, mut info: ToolInfo) -> ToolInfo {
        let texts = [&mut info.title, &mut info.description];
        texts.into_iter().flatten().for_each(|text| self.tools.redact_text(text));
        self.tools.redact(&mut info.input_schema);
        info.output_schema.iter_mut().for_each(|schema| self.tools.redact(schema));
        info.hidden.iter_mut().for_each(|place| self.tools.redact_text(place));
        info
    }

    /// How a server is doing in this process.
    pub fn server_state(&self, name: &str) -> Option<ServerState> {
        self.tools.state(name)
    }

    pub fn server_names(&self) -> Vec<String> {
        self.tools.server_names()
    }

    pub async fn tool(&self, name: &str) -> Result<ToolInfo, Error> {
        match self.tools.describe(name).await {
            Ok(info) => {
                let mut info = self.shown(info);
                self.tools.redact(Arc::make_mut(&mut info.object));
                Ok(info)
            }
            Err(error) => Err(self.no_such_tool(name, &error).await),
        }
    }

    async fn no_such_tool(&self, name: &str, error: &CatalogError) -> Error {
        let cure = self.cure_of(name, error).await;
        Error::new(code_of(error), error.to_string(), cure)
    }

    /// The refusal of whatever needs a server while the config has no effect. None: the config has.
    pub fn untrusted_config(&self) -> Option<Error> {
        self.tools.withheld().map(Error::from)
    }

    pub async fn call_tool(&self, name: &str, arguments: Value, timeout: Duration) -> ToolCalled {
        let key = random::id();
        let (tool, carry) = (name.to_owned(), Default::default());
        let call = Call { tool, arguments, pin: None, key, timeout, carry, origin: None };
        let started = Instant::now();
        let ended = self.tools.call(call, |_| {}, std::future::pending()).await;
        let took_ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
        let (outcome, category, message, output) = match ended {
            Ended::Succeeded { output } => (Outcome::Succeeded, None, None, Some(output)),
            Ended::Failed { category, message, output, .. } => {
                (Outcome::Failed, Some(category), Some(message), output)
            }
            Ended::Unknown { category, message, .. } => {
                (Outcome::Unknown, Some(category), Some(message), None)
            }
            Ended::Asks { question, .. } => {
                let message = question["message"].as_str().map(str::to_owned);
                (Outcome::Failed, Some(Category::Policy), message, Some(question))
            }
        };
        ToolCalled { outcome, took_ms, output, category, message }
    }
}

/// The code under which a tool that cannot be had is refused.
pub(super) fn code_of(error: &CatalogError) -> &'static str {
    match error {
        CatalogError::Untrusted(_) => UNTRUSTED_CONFIG,
        CatalogError::BadName(_)
        | CatalogError::UnknownServer(_)
        | CatalogError::UnknownTool { .. }
        | CatalogError::Unreachable { .. } => "no_such_tool",
    }
}
