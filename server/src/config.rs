//! `actbook.yaml`: which servers and tools there are and how far they are trusted, read and checked.
//!
//! The `mcpServers` block is other people's format and read leniently; every word of our own is
//! checked, and an unknown one is refused with its path and the nearest name. References to the
//! environment stay references here: only `tools` resolves them, when a call needs them.

mod comments;
mod find;
pub mod import;
mod inherit;
mod project;
mod references;
mod secret_name;
mod section;
mod template;
mod trust;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use actbook_engine::plan::yaml_message;
use actbook_engine::policy::Category;
use serde_json::Value;

pub use find::{Location, locate};
pub use inherit::InheritEnv;
pub use project::Sharing;
pub use secret_name::is_secret_name;
use section::Section;
pub use template::{Part, Scope, Shape, Template};
pub use trust::{Candidate, Reason, Standing, TrustStore, Withheld};

/// The names of a config; the first is the one that is written where there is none.
pub const FILE_NAMES: [&str; 2] = ["actbook.yaml", "actbook.yml"];
/// Server names that Actbook gives a meaning of its own.
pub const COMMAND_SERVER: &str = "command";
pub const HTTP_SERVER: &str = "http";
const CONFIG_BYTES_MAX: u64 = 4 * 1024 * 1024;

#[derive(Clone, Debug, Default)]
pub struct Config {
    /// Where relative paths start and where servers run.
    pub folder: PathBuf,
    /// The file it was read from, if there is one.
    pub file: Option<PathBuf>,
    /// Set where that file has no effect, and so nothing is configured.
    pub withheld: Option<Withheld>,
    pub approvals: Approvals,
    /// Names the project; none: the folder does.
    pub project: Option<String>,
    pub everywhere: Sharing,
    pub mcp_servers: BTreeMap<String, McpServer>,
    pub servers: BTreeMap<String, ServerWords>,
    pub http: BTreeMap<String, HttpTool>,
    pub commands: BTreeMap<String, CommandTool>,
    /// Hosts, or hosts with a port, that may lie inside the house for whoever is sent there.
    pub egress_allow: Vec<String>,
    /// By the name of the rule; the first that fits counts.
    pub task_plans: BTreeMap<String, TaskPlan>,
}

/// A new task of this type, and with all of these labels, gets this plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskPlan {
    pub r#type: Option<String>,
    pub labels: Vec<String>,
    pub brings: Brings,
    pub start: bool,
}

/// What a new task's plan is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Brings {
    /// The name or id of a saved one.
    Plan(String),
    /// The name of one that was shipped or made.
    Template(String),
}

/// Who may answer an approval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Approvals {
    #[default]
    People,
    Agents,
}

#[derive(Clone, Debug)]
pub enum McpServer {
    Stdio {
        command: Template,
        args: Vec<Template>,
        env: BTreeMap<String, Template>,
        inherit_env: InheritEnv,
        cwd: Option<Template>,
    },
    Http {
        url: Template,
        headers: BTreeMap<String, Template>,
    },
}

/// What the operator says of a server, beside how it is reached.
#[derive(Clone, Debug, Default)]
pub struct ServerWords {
    pub trusted: bool,
    pub concurrency: Option<usize>,
    /// Of all its tools, where nothing else is said of one.
    pub all: ToolWords,
    pub rate: Option<RateWords>,
    pub output_bytes_max: Option<usize>,
    pub breaker: BreakerWords,
    pub restart: RestartWords,
    /// A server that was silent for so long is asked whether it is well before the next call.
    pub check_after: Option<Duration>,
    /// Taken over into the server's definition when the config is read.
    pub inherit_env: Option<InheritEnv>,
    /// A server that does not answer the handshake within this is given up.
    pub start_timeout: Option<Duration>,
    pub tools: BTreeMap<String, ToolWords>,
}

/// So many calls in any stretch of so much time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateWords {
    pub calls: u32,
    pub per: Duration,
}

/// When a server that is out of reach is left alone, and for how long.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BreakerWords {
    pub after: Option<u32>,
    pub cool_down: Option<Duration>,
}

/// How far apart the starts of a server that keeps falling are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RestartWords {
    pub backoff: Option<Duration>,
    pub max_backoff: Option<Duration>,
}

/// What the operator says of one tool. Absent means: nothing said.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ToolWords {
    pub timeout: Option<Duration>,
    pub idempotent: Option<bool>,
    pub read_only: Option<bool>,
    pub approval: Option<bool>,
    pub retry: Option<RetryWords>,
}

impl ToolWords {
    /// What is said in general, under what is said in particular.
    pub(crate) fn under(self, own: Self) -> Self {
        Self {
            timeout: own.timeout.or(self.timeout),
            idempotent: own.idempotent.or(self.idempotent),
            read_only: own.read_only.or(self.read_only),
            approval: own.approval.or(self.approval),
            retry: own.retry.or(self.retry),
        }
    }
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct RetryWords {
    pub max_attempts: Option<u32>,
    pub backoff: Option<Duration>,
    pub factor: Option<f64>,
    pub max_backoff: Option<Duration>,
    pub on: Option<BTreeSet<Category>>,
}

#[derive(Clone, Debug)]
pub struct HttpTool {
    pub method: String,
    pub url: Template,
    pub headers: BTreeMap<String, Template>,
    pub body: Option<Shape>,
    pub input_schema: Option<Schema>,
    pub timeout: Option<Duration>,
    pub description: Option<String>,
}

#[derive(Clone, Debug)]
pub struct CommandTool {
    pub argv: Vec<Template>,
    pub cwd: Option<Template>,
    pub env: BTreeMap<String, Template>,
    pub inherit_env: InheritEnv,
    pub input_schema: Option<Schema>,
    pub timeout: Option<Duration>,
    pub description: Option<String>,
}

/// A JSON Schema that compiled.
#[derive(Clone, Debug)]
pub struct Schema {
    pub document: Value,
    validator: Arc<jsonschema::Validator>,
}

impl Schema {
    pub fn compile(document: Value) -> Result<Self, String> {
        let validator = actbook_engine::schema::compile(&document)?;
        Ok(Self { document, validator: Arc::new(validator) })
    }

    /// The first thing that does not fit, with its path.
    pub fn check(&self, value: &Value) -> Result<(), String> {
        self.validator.validate(value).map_err(|error| match error.instance_path().as_str() {
            "" => error.to_string(),
            path => format!("{path}: {error}"),
        })
    }
}

#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    #[error("there are two configs, {} and {}", .one.display(), .other.display())]
    Ambiguous { one: PathBuf, other: PathBuf },
    #[error("cannot read {path}: {error}")]
    Unreadable { path: PathBuf, error: std::io::Error },
    #[error("{}{error}", .path.as_ref().map(|path| format!("{}: ", path.display())).unwrap_or_default())]
    Malformed { path: Option<PathBuf>, error: String },
    #[error("{}`{at}`: {problem}", .path.as_ref().map(|path| format!("{}: ", path.display())).unwrap_or_default())]
    Refused { path: Option<PathBuf>, at: String, problem: String },
}

/// A word of ours that is wrong, and where it stands.
#[derive(Debug)]
pub(crate) struct Problem {
    at: String,
    problem: String,
}

impl Config {
    /// Reads the config in a file.
    pub fn load(path: &Path) -> Result<Self, ConfigError> {
        let text = read_text(path)?;
        let unreadable = |error| ConfigError::Unreadable { path: path.to_owned(), error };
        let file = std::path::absolute(path).map_err(unreadable)?;
        let folder = file.parent().unwrap_or(Path::new("/")).to_owned();
        let config = Self::parse(&text, &folder).map_err(|error| error.in_file(path))?;
        Ok(Self { file: Some(file), ..config })
    }

    /// Reads a config from text, YAML or JSON. Relative paths start at `folder`.
    pub fn parse(text: &str, folder: &Path) -> Result<Self, ConfigError> {
        Self::of_document(document(text)?, folder)
    }

    fn of_document(document: Value, folder: &Path) -> Result<Self, ConfigError> {
        let refused = |Problem { at, problem }| ConfigError::Refused { path: None, at, problem };
        Ok(Self { folder: folder.to_owned(), ..read_document(document).map_err(refused)? })
    }

    /// What the operator said of a tool, written `server/tool`.
    pub fn tool_words(&self, server: &str, tool: &str) -> ToolWords {
        let server_words = self.servers.get(server);
        let said = server_words.and_then(|words| words.tools.get(tool)).cloned().unwrap_or_default();
        let mut words = server_words.map_or_else(ToolWords::default, |words| words.all.clone()).under(said);
        let own = match server {
            COMMAND_SERVER => self.commands.get(tool).and_then(|command| command.timeout),
            HTTP_SERVER => self.http.get(tool).and_then(|http| http.timeout),
            _ => None,
        };
        words.timeout = words.timeout.or(own);
        words
    }
}

impl ConfigError {
    fn in_file(self, file: &Path) -> Self {
        let path = Some(file.to_owned());
        match self {
            Self::Unreadable { path, error } => Self::Unreadable { path, error },
            Self::Ambiguous { one, other } => Self::Ambiguous { one, other },
            Self::Malformed { error, .. } => Self::Malformed { path, error },
            Self::Refused { at, problem, .. } => Self::Refused { path, at, problem },
        }
    }
}

/// The file's text, unless it is too long to be a config.
fn read_text(path: &Path) -> Result<String, ConfigError> {
    let unreadable = |error| ConfigError::Unreadable { path: path.to_owned(), error };
    let size = std::fs::metadata(path).map_err(unreadable)?.len();
    if size > CONFIG_BYTES_MAX {
        let error = format!("{size} bytes is more than a config may have ({CONFIG_BYTES_MAX})");
        return Err(ConfigError::Malformed { path: Some(path.to_owned()), error });
    }
    std::fs::read_to_string(path).map_err(unreadable)
}

fn document(text: &str) -> Result<Value, ConfigError> {
    let malformed = |error: String| ConfigError::Malformed { path: None, error };
    if text.trim_start().starts_with('{') && text.trim_end().ends_with('}') {
        return serde_json::from_str(text).or_else(|_| yaml(text)).map_err(malformed);
    }
    yaml(text).map_err(malformed)
}

fn yaml(text: &str) -> Result<Value, String> {
    if text.trim().is_empty() {
        return Ok(Value::Null);
    }
    let options = serde_saphyr::options! { strict_booleans: true };
    serde_saphyr::from_str_with_options(text, options).map_err(|error| {
        let at = error.location().map(|at| format!("line {}, column {}: ", at.line(), at.column()));
        at.unwrap_or_default() + &yaml_message(&error)
    })
}

fn read_document(document: Value) -> Result<Config, Problem> {
    let mut top = Section::open("", document)?;
    let mut config = Config {
        approvals: read_approvals(&mut top)?,
        project: project::read_project(&mut top)?,
        everywhere: project::read_sharing(&mut top)?,
        mcp_servers: read_mcp_servers(top.section("mcpServers")?)?,
        servers: top.section("servers")?.map_entries(read_server_words)?,
        http: top.section("http")?.map_entries(read_http)?,
        commands: top.section("commands")?.map_entries(read_command)?,
        task_plans: top.section("task_plans")?.map_entries(read_task_plan)?,
        egress_allow: read_egress(top.section("egress")?)?,
        ..Config::default()
    };
    top.finish()?;
    check_server_names(&config)?;
    inherit::settle(&mut config)?;
    Ok(config)
}

fn read_approvals(top: &mut Section) -> Result<Approvals, Problem> {
    match top.text("approvals")?.as_deref() {
        None | Some("people") => Ok(Approvals::People),
        Some("agents") => Ok(Approvals::Agents),
        Some(other) => Err(top.wrong("approvals", format!("`{other}` is none of people, agents"))),
    }
}

/// Entries come from clients of all sorts: what we do not know in them is none of our business.
fn read_mcp_servers(section: Section) -> Result<BTreeMap<String, McpServer>, Problem> {
    let read = section.map_entries(|mut entry| {
        if entry.flag("disabled")? == Some(true) {
            entry.ignore_rest();
            return Ok(None);
        }
        let url = match entry.template("url", Scope::Client)? {
            Some(url) => Some(url),
            None => entry.template("serverUrl", Scope::Client)?,
        };
        let server = match (entry.template("command", Scope::Client)?, url) {
            (Some(command), None) => McpServer::Stdio {
                command,
                args: entry.templates("args", Scope::Client)?,
                env: entry.template_map("env", Scope::Client)?,
                inherit_env: entry.inherit_env()?.unwrap_or_default(),
                cwd: entry.template("cwd", Scope::Client)?,
            },
            (None, Some(url)) => {
                McpServer::Http { url, headers: entry.template_map("headers", Scope::Client)? }
            }
            (None, None) => return Err(entry.wrong("", "needs a `command` or a `url`".into())),
            (Some(_), Some(_)) => return Err(entry.wrong("", "has both `command` and `url`".into())),
        };
        entry.ignore_rest();
        Ok(Some(server))
    })?;
    Ok(read.into_iter().filter_map(|(name, server)| Some((name, server?))).collect())
}

fn read_server_words(mut entry: Section) -> Result<ServerWords, Problem> {
    let words = ServerWords {
        trusted: entry.flag("trusted")?.unwrap_or(false),
        concurrency: entry.count("concurrency")?.map(|count| count as usize),
        all: read_words(&mut entry)?,
        rate: entry.rate("rate")?,
        output_bytes_max: entry.count("output_bytes_max")?.map(|count| count as usize),
        breaker: read_breaker(entry.section("breaker")?)?,
        restart: read_restart(entry.section("restart")?)?,
        check_after: entry.duration("check_after")?,
        inherit_env: entry.inherit_env()?,
        start_timeout: entry.duration("start_timeout")?,
        tools: entry.section("tools")?.map_entries(read_tool_words)?,
    };
    entry.finish()?;
    Ok(words)
}

fn read_breaker(mut entry: Section) -> Result<BreakerWords, Problem> {
    let words = BreakerWords { after: entry.count("after")?, cool_down: entry.duration("cool_down")? };
    entry.finish()?;
    Ok(words)
}

fn read_restart(mut entry: Section) -> Result<RestartWords, Problem> {
    let words =
        RestartWords { backoff: entry.duration("backoff")?, max_backoff: entry.duration("max_backoff")? };
    entry.finish()?;
    Ok(words)
}

fn read_tool_words(mut entry: Section) -> Result<ToolWords, Problem> {
    let words = read_words(&mut entry)?;
    entry.finish()?;
    Ok(words)
}

/// Said of one tool, or of all tools of a server.
fn read_words(entry: &mut Section) -> Result<ToolWords, Problem> {
    let approval = match entry.text("approval")?.as_deref() {
        None => None,
        Some("required") => Some(true),
        Some("none") => Some(false),
        Some(other) => {
            return Err(entry.wrong("approval", format!("`{other}` is none of required, none")));
        }
    };
    Ok(ToolWords {
        timeout: entry.duration("timeout")?,
        idempotent: entry.flag("idempotent")?,
        read_only: entry.flag("read_only")?,
        approval,
        retry: entry.optional_section("retry")?.map(read_retry).transpose()?,
    })
}

fn read_retry(mut entry: Section) -> Result<RetryWords, Problem> {
    let words = RetryWords {
        max_attempts: entry.count("max_attempts")?,
        backoff: entry.duration("backoff")?,
        factor: entry.factor("factor")?,
        max_backoff: entry.duration("max_backoff")?,
        on: entry.categories("on")?,
    };
    entry.finish()?;
    Ok(words)
}

/// Names only: a host that stands for many would open the house by mistake.
fn read_egress(mut entry: Section) -> Result<Vec<String>, Problem> {
    let allow = entry.texts("allow")?;
    let is_host = |text: &String| {
        !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || "-._:[]".contains(c))
    };
    if let Some(wrong) = allow.iter().find(|text| !is_host(text)) {
        return Err(entry.wrong("allow", format!("`{wrong}` is neither a host nor host:port")));
    }
    entry.finish()?;
    Ok(allow)
}

const METHODS: [&str; 6] = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"];

fn read_method(entry: &mut Section) -> Result<String, Problem> {
    let method = entry.text("method")?.map_or_else(|| "POST".into(), |method| method.to_ascii_uppercase());
    match METHODS.contains(&method.as_str()) {
        true => Ok(method),
        false => Err(entry.wrong("method", format!("`{method}` is none of {}", METHODS.join(", ")))),
    }
}

fn read_http(mut entry: Section) -> Result<HttpTool, Problem> {
    let tool = HttpTool {
        method: read_method(&mut entry)?,
        url: entry.template("url", Scope::Call)?.ok_or_else(|| entry.wrong("url", "is missing".into()))?,
        headers: entry.template_map("headers", Scope::Call)?,
        body: entry.shape("body", Scope::Call)?,
        input_schema: entry.schema("input_schema")?,
        timeout: entry.duration("timeout")?,
        description: entry.text("description")?,
    };
    entry.finish()?;
    Ok(tool)
}

fn read_command(mut entry: Section) -> Result<CommandTool, Problem> {
    let argv = entry.templates("argv", Scope::Call)?;
    let Some(program) = argv.first() else {
        return Err(entry.wrong("argv", "needs at least the program".into()));
    };
    if program.reads_arguments() {
        // Otherwise a plan could run any program on the machine.
        return Err(entry.wrong("argv[0]", "the program may not come from the arguments".into()));
    }
    let tool = CommandTool {
        argv,
        cwd: entry.template("cwd", Scope::Environment)?,
        env: entry.template_map("env", Scope::Call)?,
        inherit_env: entry.inherit_env()?.unwrap_or_default(),
        input_schema: entry.schema("input_schema")?,
        timeout: entry.duration("timeout")?,
        description: entry.text("description")?,
    };
    entry.finish()?;
    Ok(tool)
}

fn read_task_plan(mut entry: Section) -> Result<TaskPlan, Problem> {
    let rule = TaskPlan {
        r#type: entry.text("type")?,
        labels: entry.texts("labels")?,
        brings: match (entry.text("plan")?, entry.text("template")?) {
            (Some(plan), None) => Brings::Plan(plan),
            (None, Some(template)) => Brings::Template(template),
            (None, None) => return Err(entry.wrong("", "needs a `plan` or a `template`".into())),
            (Some(_), Some(_)) => return Err(entry.wrong("template", "comes instead of `plan`".into())),
        },
        start: entry.flag("start")?.unwrap_or(false),
    };
    if rule.r#type.is_none() && rule.labels.is_empty() {
        return Err(entry.wrong("", "needs a `type` or `labels`, or it would fit every task".into()));
    }
    entry.finish()?;
    Ok(rule)
}

fn check_server_names(config: &Config) -> Result<(), Problem> {
    for name in config.mcp_servers.keys() {
        let at = format!("mcpServers.{name}");
        if name == COMMAND_SERVER || name == HTTP_SERVER {
            return Err(Problem {
                at,
                problem: format!("`{name}` is the name of Actbook's own {name} tools"),
            });
        }
        if name.is_empty() || name.contains('/') {
            return Err(Problem { at, problem: "a server's name is not empty and has no `/`".into() });
        }
    }
    let known = || config.mcp_servers.keys().map(String::as_str).chain([COMMAND_SERVER, HTTP_SERVER]);
    for name in config.servers.keys() {
        if !known().any(|server| server == name) {
            let hint = section::did_you_mean(name, known());
            return Err(Problem {
                at: format!("servers.{name}"),
                problem: format!("there is no such server in `mcpServers`{hint}"),
            });
        }
    }
    Ok(())
}
