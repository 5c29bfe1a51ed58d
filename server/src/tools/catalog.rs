//! What tools there are: their names, schemas and hints, as the servers describe themselves.

use actbook_engine::chain::Digest;
use serde::Serialize;
use serde_json::{Value, json};

use crate::config::{CommandTool, HttpTool, Schema, Shape};

/// One server's tools, or why they could not be had.
#[derive(Clone, Debug, Serialize)]
pub struct ServerTools {
    pub server: String,
    pub tools: Vec<ToolInfo>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

#[derive(Clone, Debug, Serialize)]
pub struct ToolInfo {
    /// `server/tool`.
    pub name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    pub input_schema: Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<Value>,
    pub annotations: Annotations,
    /// Of the whole description as the server gave it: a change of any word changes it.
    pub digest: Digest,
}

/// The server's own word on what a tool does; a hint, and only as good as the server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Annotations {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_only: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub destructive: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idempotent: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub open_world: Option<bool>,
}

#[derive(Debug, thiserror::Error)]
pub enum CatalogError {
    #[error("`{0}` is not of the form server/tool")]
    BadName(String),
    #[error("{0}")]
    UnknownServer(String),
    #[error("the server `{server}` has no tool `{tool}`")]
    UnknownTool { server: String, tool: String },
    #[error("{why}")]
    Unreachable { server: String, why: String },
}

pub fn command_info(name: &str, tool: &CommandTool) -> ToolInfo {
    let argv: Vec<&str> = tool.argv.iter().map(|part| part.source.as_str()).collect();
    let input_schema = schema_or_any(tool.input_schema.as_ref());
    let whole = json!({
        "argv": argv,
        "cwd": tool.cwd.as_ref().map(|cwd| &cwd.source),
        "env": tool.env.keys().collect::<Vec<_>>(),
        "input_schema": input_schema,
    });
    ToolInfo {
        name: format!("command/{name}"),
        description: Some(tool.description.clone().unwrap_or_else(|| argv.join(" "))),
        input_schema,
        output_schema: None,
        annotations: Annotations::default(),
        digest: Digest::of(whole.to_string().as_bytes()),
    }
}

pub fn http_info(name: &str, tool: &HttpTool) -> ToolInfo {
    let input_schema = schema_or_any(tool.input_schema.as_ref());
    let asks = format!("{} {}", tool.method, tool.url.source);
    let whole = json!({
        "method": tool.method,
        "url": tool.url.source,
        "headers": tool.headers.keys().collect::<Vec<_>>(),
        "body": tool.body.as_ref().map(Shape::source),
        "input_schema": input_schema,
    });
    ToolInfo {
        name: format!("http/{name}"),
        description: Some(tool.description.clone().unwrap_or(asks)),
        input_schema,
        output_schema: None,
        annotations: Annotations::default(),
        digest: Digest::of(whole.to_string().as_bytes()),
    }
}

fn schema_or_any(schema: Option<&Schema>) -> Value {
    schema.map_or_else(|| json!({ "type": "object" }), |schema| schema.document.clone())
}

/// An executor inside this process describes nothing: any object will do.
pub fn callback_info(name: &str) -> ToolInfo {
    ToolInfo {
        name: name.to_owned(),
        description: None,
        input_schema: json!({ "type": "object" }),
        output_schema: None,
        annotations: Annotations::default(),
        digest: Digest::of(name.as_bytes()),
    }
}
