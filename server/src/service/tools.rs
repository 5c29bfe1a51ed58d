//! The downstream tools as callers see them: listed, described, tried by hand.

use std::time::{Duration, Instant};

use actbook_engine::analysis::nearest;
use actbook_engine::policy::{Category, Outcome};
use serde::Serialize;
use serde_json::Value;

use super::Service;
use crate::error::Error;
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
        self.tools.list().await
    }

    pub async fn list_tools_of(&self, server: &str) -> ServerTools {
        self.tools.list_server(server).await
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
            Ok(info) => Ok(info),
            Err(error) => Err(self.no_such_tool(name, &error).await),
        }
    }

    async fn no_such_tool(&self, name: &str, error: &CatalogError) -> Error {
        let cure = match error {
            CatalogError::Unreachable { .. } => "`actbook doctor` looks at every server".to_owned(),
            CatalogError::BadName(_) | CatalogError::UnknownServer(_) | CatalogError::UnknownTool { .. } => {
                let listed = self.tools.list().await;
                let names = listed.iter().flat_map(|server| &server.tools).map(|tool| tool.name.as_str());
                match nearest(name, names) {
                    Some(near) => format!("did you mean `{near}`?"),
                    None => "`actbook tools list` shows what there is".to_owned(),
                }
            }
        };
        Error::new("no_such_tool", error.to_string(), cure)
    }

    pub async fn call_tool(&self, name: &str, arguments: Value, timeout: Duration) -> ToolCalled {
        let key = random::id();
        let call = Call { tool: name.to_owned(), arguments, key, timeout, carry: Default::default() };
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
