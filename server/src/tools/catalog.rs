//! What tools there are: their names, schemas and hints, as the servers describe themselves, and whether
//! a call may leave for one of them. A description is kept whole, as it was sent: its digest is what
//! plans are pinned to, and a change of any field of it changes that.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use actbook_engine::chain::{Digest, in_order};
use actbook_engine::policy::Category;
use serde::Serialize;
use serde_json::{Value, json};

use super::Call;
use super::classify::Came;
use super::hidden::hidden_in;
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
    pub title: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    pub input_schema: Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<Value>,
    /// Claims: as good as the server that makes them.
    pub annotations: Annotations,
    /// Of the whole description as the server gave it: a change of any word changes it.
    pub digest: Digest,
    /// Where it holds characters that nobody sees.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub hidden: Vec<String>,
    /// As it was sent; null for an executor inside this process, which describes nothing.
    #[serde(skip)]
    pub object: Arc<Value>,
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

#[derive(Clone, Debug, thiserror::Error)]
pub enum CatalogError {
    #[error("`{0}` is not of the form server/tool")]
    BadName(String),
    #[error("{0}")]
    UnknownServer(String),
    /// The config that may name the server has no effect.
    #[error("{0}")]
    Untrusted(String),
    #[error("the server `{server}` has no tool `{tool}`")]
    UnknownTool { server: String, tool: String },
    #[error("{why}")]
    Unreachable { server: String, why: String },
}

impl ToolInfo {
    /// What of these arguments the tool's own schema does not take. A schema that cannot be used refuses nothing.
    pub fn check_arguments(&self, arguments: &Value) -> Result<(), String> {
        let schema = Schema::compile(self.input_schema.clone()).ok();
        schema.map_or(Ok(()), |schema| schema.check(arguments))
    }

    /// An MCP tool from its object as the server sent it. None: it has no name to call it by.
    pub fn of_mcp(server: &str, object: Value) -> Option<Self> {
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
            digest: digest_of(&object),
            hidden: hidden_in(&object),
            object: Arc::new(object),
        })
    }

    /// Whether it can be called only as a task in the manner of protocol 2025-11-25. Actbook follows tasks of the
    /// newer protocol, which a server begins of its own accord.
    pub fn needs_task_request(&self) -> bool {
        self.object.pointer("/execution/taskSupport").and_then(Value::as_str) == Some("required")
    }

    /// What a plan is pinned to; an executor inside this process has nothing to pin.
    pub fn pin(&self) -> Option<Digest> {
        (!self.object.is_null()).then_some(self.digest)
    }

    /// Whether the call is meant for the tool as it is described here. Tools from the config check their
    /// arguments themselves.
    pub fn admit_pin(&self, call: &Call) -> Result<(), Came> {
        admit_pin(call, Some(self))
    }
}

/// Keys in order, so that a server may send them in any.
fn digest_of(object: &Value) -> Digest {
    Digest::of(in_order(object).to_string().as_bytes())
}

/// A server's tools as they were listed at one moment, in its own order.
#[derive(Debug)]
pub struct Listing {
    pub tools: Vec<Arc<Listed>>,
    by_name: HashMap<String, usize>,
}

/// A tool with its schema compiled when it is first called; none where it cannot be.
#[derive(Debug)]
pub struct Listed {
    pub info: ToolInfo,
    schema: OnceLock<Option<Schema>>,
}

impl Listing {
    /// What has not changed since the listing before keeps its compiled schema.
    pub fn new(tools: Vec<ToolInfo>, before: Option<&Self>) -> Self {
        let known = |info: ToolInfo| match before.and_then(|before| before.find(&info.name)) {
            Some(same) if same.info.digest == info.digest => same.clone(),
            Some(_) | None => Arc::new(Listed { info, schema: OnceLock::new() }),
        };
        let tools: Vec<Arc<Listed>> = tools.into_iter().map(known).collect();
        let mut by_name = HashMap::new();
        for (index, tool) in tools.iter().enumerate() {
            // Where two bear one name, the first is called: the second must not pass for it.
            by_name.entry(tool.info.name.clone()).or_insert(index);
        }
        Self { tools, by_name }
    }

    pub fn find(&self, name: &str) -> Option<&Arc<Listed>> {
        self.by_name.get(name).map(|index| &self.tools[*index])
    }

    /// Whether a call may leave: the tool is what the plan is pinned to, and its schema takes the arguments.
    pub fn admit(&self, call: &Call) -> Result<(), Came> {
        let found = self.find(&call.tool);
        admit_pin(call, found.map(|found| &found.info))?;
        let compile = |found: &Arc<Listed>| Schema::compile(found.info.input_schema.clone()).ok();
        match found.and_then(|found| found.schema.get_or_init(|| compile(found)).as_ref()) {
            Some(schema) => admit_arguments(call, schema),
            None => Ok(()),
        }
    }
}

fn admit_pin(call: &Call, found: Option<&ToolInfo>) -> Result<(), Came> {
    let refused = |category, why| Err(Came::NotSent { category, why });
    match (call.pin, found) {
        (None, _) => Ok(()),
        (Some(pin), Some(found)) if found.pin() == Some(pin) => Ok(()),
        (Some(_), Some(_)) => {
            refused(Category::Policy, format!("`{}` is not what it was when the plan was saved", call.tool))
        }
        (Some(_), None) => {
            refused(Category::NotFound, format!("`{}` is no longer among its server's tools", call.tool))
        }
    }
}

pub fn admit_arguments(call: &Call, schema: &Schema) -> Result<(), Came> {
    let none = json!({});
    let arguments = if call.arguments.is_null() { &none } else { &call.arguments };
    schema.check(arguments).map_err(|why| Came::NotSent { category: Category::InvalidArguments, why })
}

pub fn command_info(name: &str, tool: &CommandTool) -> ToolInfo {
    let argv: Vec<&str> = tool.argv.iter().map(|part| part.source.as_str()).collect();
    let input_schema = schema_or_any(tool.input_schema.as_ref());
    let mut object = json!({
        "argv": argv,
        "cwd": tool.cwd.as_ref().map(|cwd| &cwd.source),
        "env": tool.env.keys().collect::<Vec<_>>(),
        "input_schema": input_schema,
    });
    if let Some(inherited) = tool.inherit_env.source() {
        object["inherit_env"] = inherited;
    }
    // Agents read it: the command line is the operator's business, and may hold what agents must not see.
    let description = tool.description.clone().unwrap_or_else(|| "A command of the config.".to_owned());
    from_config(format!("command/{name}"), description, input_schema, object)
}

pub fn http_info(name: &str, tool: &HttpTool) -> ToolInfo {
    let input_schema = schema_or_any(tool.input_schema.as_ref());
    let object = json!({
        "method": tool.method,
        "url": tool.url.source,
        "headers": tool.headers.keys().collect::<Vec<_>>(),
        "body": tool.body.as_ref().map(Shape::source),
        "input_schema": input_schema,
    });
    let asks = format!("A {} request of the config.", tool.method);
    from_config(format!("http/{name}"), tool.description.clone().unwrap_or(asks), input_schema, object)
}

fn from_config(name: String, description: String, input_schema: Value, object: Value) -> ToolInfo {
    ToolInfo {
        name,
        title: None,
        description: Some(description),
        input_schema,
        output_schema: None,
        annotations: Annotations::default(),
        digest: digest_of(&object),
        hidden: hidden_in(&object),
        object: Arc::new(object),
    }
}

fn schema_or_any(schema: Option<&Schema>) -> Value {
    schema.map_or_else(|| json!({ "type": "object" }), |schema| schema.document.clone())
}
