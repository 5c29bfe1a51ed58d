//! The tool catalog: names, schemas and annotations as the servers describe their tools, and the checks of a
//! call against them. A description is kept whole, as it was sent: plans are pinned to its digest, which
//! changes with any of its fields.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use actbook_engine::chain::{Digest, with_sorted_keys};
use actbook_engine::policy::ErrorCategory;
use serde::Serialize;
use serde_json::{Value, json};

use super::Call;
use super::classify::RawOutcome;
use super::hidden_characters::find_hidden_characters;
use crate::config::{CommandTool, HttpTool, JsonTemplate, Schema, WithheldConfig};

/// One server's tools, or why they could not be listed: `tools` is then empty and `error` is set.
#[derive(Clone, Debug, Serialize)]
pub struct ServerTools {
    pub server: String,
    pub tools: Vec<ToolInfo>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// The description of one tool.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, Serialize)]
pub struct ToolInfo {
    /// `server/tool`.
    pub name: String,
    pub title: Option<String>,
    pub description: Option<String>,
    pub input_schema: Value,
    pub output_schema: Option<Value>,
    /// The server's claims about the tool, to be believed only of a trusted server.
    pub annotations: Annotations,
    /// The digest of the whole description as the server sent it.
    pub digest: Digest,
    /// The places of hidden characters in the description.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub hidden: Vec<String>,
    /// The description as it was sent; null for an in-process executor.
    #[serde(skip)]
    pub object: Arc<Value>,
    /// Whether the config asks for a yes before each call; false until the service sets it.
    #[serde(skip)]
    pub needs_approval: bool,
}

/// The server's hints about what a tool does. None: no hint.
#[serde_with::skip_serializing_none]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Annotations {
    pub read_only: Option<bool>,
    pub destructive: Option<bool>,
    pub idempotent: Option<bool>,
    pub open_world: Option<bool>,
}

/// Why a tool could not be described.
#[derive(Clone, Debug, thiserror::Error)]
pub enum CatalogError {
    #[error("`{0}` is not of the form server/tool")]
    BadName(String),
    /// `config`: the file that does not name the server; None: there is no config.
    #[error("there is no server `{server}`{}", not_in_config(.config.as_deref()))]
    UnknownServer { server: String, config: Option<PathBuf> },
    #[error("the server `{server}` is disabled in the config")]
    DisabledServer { server: String },
    /// The config that may name the server has no effect.
    #[error("{0}")]
    Untrusted(WithheldConfig),
    #[error("the server `{server}` has no tool `{tool}`")]
    UnknownTool { server: String, tool: String },
    #[error("{why}")]
    Unreachable { server: String, why: String },
}

/// The end of the message that there is no such server: ` in FILE`, or that no config names a server.
fn not_in_config(config: Option<&Path>) -> String {
    config.map_or(": no config names one".to_owned(), |file| format!(" in {}", file.display()))
}

impl ToolInfo {
    /// Checks arguments against the tool's schema; the error lists what does not fit. An invalid schema
    /// accepts all.
    pub fn check_arguments(&self, arguments: &Value) -> Result<(), String> {
        let schema = Schema::compile(self.input_schema.clone()).ok();
        schema.map_or(Ok(()), |schema| schema.check(arguments))
    }

    /// The description of an MCP tool from the object that the server sent. None: it has no name.
    pub fn from_mcp(server: &str, object: Value) -> Option<Self> {
        let text = |name: &str| object.get(name).and_then(Value::as_str).map(str::to_owned);
        let hint = |name: &str| object.get("annotations")?.get(name)?.as_bool();
        let annotations = Annotations {
            read_only: hint("readOnlyHint"),
            destructive: hint("destructiveHint"),
            idempotent: hint("idempotentHint"),
            open_world: hint("openWorldHint"),
        };
        Some(Self {
            name: format!("{server}/{}", text("name")?),
            title: text("title"),
            description: text("description"),
            input_schema: object.get("inputSchema").cloned().unwrap_or_else(|| json!({ "type": "object" })),
            output_schema: object.get("outputSchema").cloned(),
            annotations,
            digest: canonical_digest(&object),
            hidden: find_hidden_characters(&object),
            object: Arc::new(object),
            needs_approval: false,
        })
    }

    /// Whether the tool can be called only as an MCP task of protocol 2025-11-25, which Actbook does not
    /// support. In newer versions the server decides to create a task.
    pub fn requires_legacy_mcp_task(&self) -> bool {
        self.object.pointer("/execution/taskSupport").and_then(Value::as_str) == Some("required")
    }

    /// The description as MCP clients read it: what an MCP server sent, or one made of the config's.
    pub fn mcp_definition(&self) -> Value {
        if self.object.get("name").is_some_and(Value::is_string) {
            return (*self.object).clone();
        }
        let tool = self.name.split_once('/').map_or(self.name.as_str(), |(_, tool)| tool);
        let mut definition = json!({ "name": tool, "inputSchema": self.input_schema });
        if let Some(description) = &self.description {
            definition["description"] = json!(description);
        }
        definition
    }

    /// The digest that plans are pinned to. None: an in-process executor, which is not pinned.
    pub fn pin(&self) -> Option<Digest> {
        (!self.object.is_null()).then_some(self.digest)
    }

    /// Checks that the call's pin matches this description; an unpinned call passes. Err: not sent. The
    /// arguments are checked elsewhere.
    pub fn check_pin(&self, call: &Call) -> Result<(), RawOutcome> {
        check_pin(call, Some(self))
    }
}

/// The digest of an object with sorted keys: the order in which a server sends them does not matter.
fn canonical_digest(object: &Value) -> Digest {
    Digest::of(with_sorted_keys(object).to_string().as_bytes())
}

/// A server's tools as listed at one time, in the server's order.
#[derive(Debug)]
pub struct ToolListing {
    pub tools: Vec<Arc<ListedTool>>,
    by_name: HashMap<String, usize>,
}

/// A tool and its schema, which is compiled on the first call; None inside: the schema is invalid.
#[derive(Debug)]
pub struct ListedTool {
    pub info: ToolInfo,
    schema: OnceLock<Option<Schema>>,
}

impl ToolListing {
    /// Indexes the tools by name. Tools that have not changed since the `previous` listing keep their
    /// compiled schema.
    pub fn new(tools: Vec<ToolInfo>, previous: Option<&Self>) -> Self {
        let reuse = |info: ToolInfo| match previous.and_then(|previous| previous.find(&info.name)) {
            Some(known) if known.info.digest == info.digest => known.clone(),
            Some(_) | None => Arc::new(ListedTool { info, schema: OnceLock::new() }),
        };
        let tools: Vec<Arc<ListedTool>> = tools.into_iter().map(reuse).collect();
        let mut by_name = HashMap::new();
        for (index, tool) in tools.iter().enumerate() {
            // Of two tools with one name the first is called, so the second must not replace it.
            by_name.entry(tool.info.name.clone()).or_insert(index);
        }
        Self { tools, by_name }
    }

    /// Finds a tool by `server/tool`. None: the server did not list it.
    pub fn find(&self, name: &str) -> Option<&Arc<ListedTool>> {
        self.by_name.get(name).map(|index| &self.tools[*index])
    }

    /// Checks the call's pin and arguments; the error means: not sent. A tool that is not listed passes if
    /// unpinned.
    pub fn check_call(&self, call: &Call) -> Result<(), RawOutcome> {
        let found = self.find(&call.tool);
        check_pin(call, found.map(|found| &found.info))?;
        if call.context.on_answer.is_some() {
            // The server's own answer is relayed, also to arguments that do not fit.
            return Ok(());
        }
        let compile = |found: &Arc<ListedTool>| Schema::compile(found.info.input_schema.clone()).ok();
        match found.and_then(|found| found.schema.get_or_init(|| compile(found)).as_ref()) {
            Some(schema) => check_call_arguments(call, schema),
            None => Ok(()),
        }
    }
}

/// Checks that the tool exists and has the digest that the call is pinned to; an unpinned call passes, even
/// if `found` is None (the server does not list the tool). Err: not sent.
fn check_pin(call: &Call, found: Option<&ToolInfo>) -> Result<(), RawOutcome> {
    let refused = |category, why| Err(RawOutcome::NotSent { category, why });
    match (call.pin, found) {
        (None, _) => Ok(()),
        (Some(pin), Some(found)) if found.pin() == Some(pin) => Ok(()),
        (Some(_), Some(_)) => {
            refused(ErrorCategory::Policy, format!("`{}` has changed since the plan was saved", call.tool))
        }
        (Some(_), None) => {
            refused(ErrorCategory::NotFound, format!("`{}` is no longer among its server's tools", call.tool))
        }
    }
}

/// Checks the call's arguments against a schema; null counts as an empty object. Err: not sent.
pub fn check_call_arguments(call: &Call, schema: &Schema) -> Result<(), RawOutcome> {
    let empty = json!({});
    let arguments = if call.arguments.is_null() { &empty } else { &call.arguments };
    schema
        .check(arguments)
        .map_err(|why| RawOutcome::NotSent { category: ErrorCategory::InvalidArguments, why })
}

/// The description of a command tool, made from its config. `name` is without the prefix `command/`.
pub fn command_tool_info(name: &str, tool: &CommandTool) -> ToolInfo {
    let argv: Vec<&str> = tool.argv.iter().map(|part| part.source.as_str()).collect();
    let input_schema = schema_or_any_object(tool.input_schema.as_ref());
    let mut object = json!({
        "argv": argv,
        "cwd": tool.cwd.as_ref().map(|cwd| &cwd.source),
        "env": tool.env.keys().collect::<Vec<_>>(),
        "input_schema": input_schema,
    });
    if let Some(inherited) = tool.inherit_env.source() {
        object["inherit_env"] = inherited;
    }
    // The command line is left out of the description: agents read it, and must not see what it may contain.
    let description = tool.description.clone().unwrap_or_else(|| "A command of the config.".to_owned());
    config_tool_info(format!("command/{name}"), description, input_schema, object)
}

/// The description of an HTTP tool, made from its config. `name` is without the prefix `http/`.
pub fn http_tool_info(name: &str, tool: &HttpTool) -> ToolInfo {
    let input_schema = schema_or_any_object(tool.input_schema.as_ref());
    let object = json!({
        "method": tool.method,
        "url": tool.url.source,
        "headers": tool.headers.keys().collect::<Vec<_>>(),
        "body": tool.body.as_ref().map(JsonTemplate::source),
        "input_schema": input_schema,
    });
    let default = || format!("A {} request of the config.", tool.method);
    let description = tool.description.clone().unwrap_or_else(default);
    config_tool_info(format!("http/{name}"), description, input_schema, object)
}

/// The description of a tool of the config, named `server/tool`; `object` is what plans are pinned to.
fn config_tool_info(name: String, description: String, input_schema: Value, object: Value) -> ToolInfo {
    ToolInfo {
        name,
        title: None,
        description: Some(description),
        input_schema,
        output_schema: None,
        annotations: Annotations::default(),
        digest: canonical_digest(&object),
        hidden: find_hidden_characters(&object),
        object: Arc::new(object),
        needs_approval: false,
    }
}

/// The schema's document, or one that accepts any object.
fn schema_or_any_object(schema: Option<&Schema>) -> Value {
    schema.map_or_else(|| json!({ "type": "object" }), |schema| schema.document.clone())
}
