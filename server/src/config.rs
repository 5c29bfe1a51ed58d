//! `actbook.yaml`: which servers and tools there are and how far they are trusted, parsed and checked.
//!
//! The `mcpServers` block has the format of other clients, and unknown keys in it are warned of. Everywhere
//! else an unknown key is refused, with its path and the nearest known name. References to the environment
//! stay references here: only `tools` resolves them, when a call needs them.

mod database;
mod find;
mod guard;
pub mod import;
mod inherit;
mod mcp_servers;
mod program;
mod project;
mod references;
mod secret_name;
mod section;
mod snapshot;
mod template;
mod tool_config;
mod trust;
mod undo_rule;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use actbook_engine::plan::yaml_message;
use serde_json::Value;

pub use database::{DatabaseOptions, DatabaseUsage, without_password};
pub use find::{ConfigLocation, locate_config, nearest_config_folder};
pub use guard::{AskConfig, AskVia, GuardConfig, OfferConfig, PlanUse};
pub use inherit::InheritEnv;
pub use mcp_servers::UnknownWord;
use mcp_servers::{McpServers, read_mcp_servers};
pub use program::resolve_program;
pub use secret_name::is_secret_name;
use section::Section;
pub use snapshot::SnapshotConfig;
pub use template::{ConfigTemplate, JsonTemplate, ReferenceScope, TemplatePart};
pub use tool_config::{RetryConfig, ToolConfig};
pub use trust::{ConfigCandidate, ConfigStatus, TrustStore, WithheldConfig, WithheldReason};
pub use undo_rule::CallTemplate;
use undo_rule::take_call_template;

/// The file names of a config; a new config gets the first.
pub const FILE_NAMES: [&str; 2] = ["actbook.yaml", "actbook.yml"];
/// The server name of the tools under `commands`.
pub const COMMAND_SERVER: &str = "command";
/// The server name of the tools that an agent's client brings itself.
pub const CLIENT_SERVER: &str = "client";
/// The server name of the tools under `http`.
pub const HTTP_SERVER: &str = "http";
const CONFIG_BYTES_MAX: u64 = 4 * 1024 * 1024;

/// A parsed and checked config.
#[derive(Clone, Debug, Default)]
pub struct Config {
    /// The base of relative paths and the working folder of servers.
    pub folder: PathBuf,
    /// The file that the config was read from, if there is one.
    pub file: Option<PathBuf>,
    /// Set if that file has no effect, so that nothing is configured.
    pub withheld: Option<WithheldConfig>,
    pub approvals: Authority,
    /// The project's name; None: the folder is the name.
    pub project: Option<String>,
    /// Who may share notes and templates with all projects.
    pub everywhere: Authority,
    pub mcp_servers: BTreeMap<String, McpServer>,
    /// The names of the MCP servers that the config disables.
    pub disabled_servers: BTreeSet<String>,
    /// Keys under `mcpServers` that neither Actbook nor a known client has: probably misspelt.
    pub unknown_words: Vec<UnknownWord>,
    pub servers: BTreeMap<String, ServerConfig>,
    pub http: BTreeMap<String, HttpTool>,
    pub commands: BTreeMap<String, CommandTool>,
    /// Hosts, or hosts with a port, that calls may reach although they have private addresses.
    pub egress_allow: Vec<String>,
    /// By the name of the rule; the first rule that matches a task counts.
    pub task_plans: BTreeMap<String, TaskPlanRule>,
    /// What holds for the calls of agents that follow no plan; None: nothing is configured.
    pub guard: Option<GuardConfig>,
}

/// A rule: a new task of this type, and with all of these labels, gets this plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskPlanRule {
    pub r#type: Option<String>,
    pub labels: Vec<String>,
    pub source: PlanSource,
    /// Whether an execution of the plan is started at once.
    pub start: bool,
}

/// Where a new task's plan comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PlanSource {
    /// The name or id of a saved plan.
    Plan(String),
    /// The name of a template, built in or saved.
    Template(String),
}

/// Who may answer an approval, or share a note or a template with all projects: only people, or agents too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Authority {
    #[default]
    People,
    Agents,
}

/// How an MCP server is started or reached.
#[derive(Clone, Debug)]
pub enum McpServer {
    Stdio {
        command: ConfigTemplate,
        args: Vec<ConfigTemplate>,
        env: BTreeMap<String, ConfigTemplate>,
        inherit_env: InheritEnv,
        cwd: Option<ConfigTemplate>,
    },
    Http {
        url: ConfigTemplate,
        headers: BTreeMap<String, ConfigTemplate>,
    },
}

/// The operator's settings for a server, apart from how it is reached.
#[derive(Clone, Debug, Default)]
pub struct ServerConfig {
    pub trusted: bool,
    pub concurrency: Option<usize>,
    /// The settings of all tools of the server, where `tools` does not override them.
    pub tool_defaults: ToolConfig,
    pub rate: Option<RateConfig>,
    pub output_bytes_max: Option<usize>,
    pub breaker: BreakerConfig,
    pub restart: RestartConfig,
    /// A server that was silent for this long is pinged before the next call.
    pub check_after: Option<Duration>,
    /// Moved to the server's definition when the config is read.
    pub inherit_env: Option<InheritEnv>,
    /// The time limit of the handshake.
    pub start_timeout: Option<Duration>,
    pub tools: BTreeMap<String, ToolConfig>,
}

/// A rate limit: at most `calls` in any period of length `per`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateConfig {
    pub calls: u32,
    pub per: Duration,
}

/// The circuit breaker of a server that cannot be reached.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BreakerConfig {
    /// Failures in a row after which the breaker opens.
    pub after: Option<u32>,
    /// How long the breaker stays open.
    pub cool_down: Option<Duration>,
}

/// The backoff between restarts of a server that keeps exiting.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RestartConfig {
    pub backoff: Option<Duration>,
    pub max_backoff: Option<Duration>,
}

/// A tool that is one HTTP request.
#[derive(Clone, Debug)]
pub struct HttpTool {
    pub method: String,
    pub url: ConfigTemplate,
    pub headers: BTreeMap<String, ConfigTemplate>,
    pub body: Option<JsonTemplate>,
    pub input_schema: Option<Schema>,
    pub timeout: Option<Duration>,
    pub description: Option<String>,
}

/// A tool that is one command, run as a child process.
#[derive(Clone, Debug)]
pub struct CommandTool {
    pub argv: Vec<ConfigTemplate>,
    pub cwd: Option<ConfigTemplate>,
    pub env: BTreeMap<String, ConfigTemplate>,
    pub inherit_env: InheritEnv,
    pub input_schema: Option<Schema>,
    pub timeout: Option<Duration>,
    pub description: Option<String>,
}

/// A JSON Schema and its compiled validator.
#[derive(Clone, Debug)]
pub struct Schema {
    pub document: Value,
    validator: Arc<jsonschema::Validator>,
}

impl Schema {
    /// Compiles a schema; `Err` says what is wrong with it.
    pub fn compile(document: Value) -> Result<Self, String> {
        let validator = actbook_engine::schema::compile(&document)?;
        Ok(Self { document, validator: Arc::new(validator) })
    }

    /// Validates a value; `Err` is the first violation, with its path.
    pub fn check(&self, value: &Value) -> Result<(), String> {
        self.validator.validate(value).map_err(|error| match error.instance_path().as_str() {
            "" => error.to_string(),
            path => format!("{path}: {error}"),
        })
    }
}

/// Why a config was not found or not accepted.
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

/// A wrong value in the config, and the path of its key.
#[derive(Debug)]
pub(crate) struct ConfigProblem {
    at: String,
    problem: String,
}

impl Config {
    /// Reads a config from a file.
    pub fn load(path: &Path) -> Result<Self, ConfigError> {
        let text = read_config_text(path)?;
        let unreadable = |error| ConfigError::Unreadable { path: path.to_owned(), error };
        let file = std::path::absolute(path).map_err(unreadable)?;
        let folder = file.parent().unwrap_or(Path::new("/")).to_owned();
        let config = Self::parse(&text, &folder).map_err(|error| error.with_file(path))?;
        Ok(Self { file: Some(file), ..config })
    }

    /// Reads a config from text, YAML or JSON. Relative paths start at `folder`.
    pub fn parse(text: &str, folder: &Path) -> Result<Self, ConfigError> {
        Self::from_document(parse_document(text)?, folder)
    }

    fn from_document(document: Value, folder: &Path) -> Result<Self, ConfigError> {
        let refused = |ConfigProblem { at, problem }| ConfigError::Refused { path: None, at, problem };
        Ok(Self { folder: folder.to_owned(), ..read_document(document).map_err(refused)? })
    }

    /// What holds for the calls of agents that follow no plan.
    pub fn guard(&self) -> &GuardConfig {
        static DEFAULT: LazyLock<GuardConfig> = LazyLock::new(GuardConfig::default);
        self.guard.as_ref().unwrap_or(&DEFAULT)
    }

    /// The operator's settings for the tool `server/tool`: those of the tool override those of its server.
    pub fn tool_config(&self, server: &str, tool: &str) -> ToolConfig {
        let server_config = self.servers.get(server);
        let specific = server_config.and_then(|config| config.tools.get(tool)).cloned().unwrap_or_default();
        let general = server_config.map_or_else(ToolConfig::default, |config| config.tool_defaults.clone());
        let mut settings = general.overridden_by(specific);
        let timeout_of_definition = match server {
            COMMAND_SERVER => self.commands.get(tool).and_then(|command| command.timeout),
            HTTP_SERVER => self.http.get(tool).and_then(|http| http.timeout),
            _ => None,
        };
        settings.timeout = settings.timeout.or(timeout_of_definition);
        settings
    }
}

impl ConfigError {
    /// The same error with the file's path, unless it has one.
    fn with_file(self, file: &Path) -> Self {
        let path = Some(file.to_owned());
        match self {
            Self::Unreadable { path, error } => Self::Unreadable { path, error },
            Self::Ambiguous { one, other } => Self::Ambiguous { one, other },
            Self::Malformed { error, .. } => Self::Malformed { path, error },
            Self::Refused { at, problem, .. } => Self::Refused { path, at, problem },
        }
    }
}

/// The file's text; `Malformed` if it is too long for a config.
fn read_config_text(path: &Path) -> Result<String, ConfigError> {
    let unreadable = |error| ConfigError::Unreadable { path: path.to_owned(), error };
    let size = std::fs::metadata(path).map_err(unreadable)?.len();
    if size > CONFIG_BYTES_MAX {
        let error = format!("{size} bytes is more than a config may have ({CONFIG_BYTES_MAX})");
        return Err(ConfigError::Malformed { path: Some(path.to_owned()), error });
    }
    std::fs::read_to_string(path).map_err(unreadable)
}

/// Parses JSON or YAML.
fn parse_document(text: &str) -> Result<Value, ConfigError> {
    let malformed = |error: String| ConfigError::Malformed { path: None, error };
    if text.trim_start().starts_with('{') && text.trim_end().ends_with('}') {
        return serde_json::from_str(text).or_else(|_| parse_yaml(text)).map_err(malformed);
    }
    parse_yaml(text).map_err(malformed)
}

/// Parses YAML; `Err` has the line and column.
fn parse_yaml(text: &str) -> Result<Value, String> {
    if text.trim().is_empty() {
        return Ok(Value::Null);
    }
    let options = serde_saphyr::options! { strict_booleans: true };
    serde_saphyr::from_str_with_options(text, options).map_err(|error| {
        let at = error.location().map(|at| format!("line {}, column {}: ", at.line(), at.column()));
        at.unwrap_or_default() + &yaml_message(&error)
    })
}

fn read_document(document: Value) -> Result<Config, ConfigProblem> {
    let mut top = Section::open("", document)?;
    let McpServers { servers: mcp_servers, disabled: disabled_servers, unknown_words } =
        read_mcp_servers(top.section("mcpServers")?)?;
    let mut config = Config {
        approvals: read_authority(&mut top, "approvals")?,
        project: project::read_project(&mut top)?,
        everywhere: read_authority(&mut top, "everywhere")?,
        mcp_servers,
        disabled_servers,
        unknown_words,
        servers: top.section("servers")?.map_entries(read_server)?,
        http: top.section("http")?.map_entries(read_http)?,
        commands: top.section("commands")?.map_entries(read_command)?,
        task_plans: top.section("task_plans")?.map_entries(read_task_plan)?,
        egress_allow: read_egress(top.section("egress")?)?,
        guard: top.optional_section("guard")?.map(guard::read_guard).transpose()?,
        ..Config::default()
    };
    top.finish()?;
    check_server_names(&config)?;
    inherit::move_to_definitions(&mut config)?;
    Ok(config)
}

fn read_authority(top: &mut Section, key: &'static str) -> Result<Authority, ConfigProblem> {
    match top.text(key)?.as_deref() {
        None | Some("people") => Ok(Authority::People),
        Some("agents") => Ok(Authority::Agents),
        Some(other) => Err(top.problem_at(key, format!("`{other}` is not one of people, agents"))),
    }
}

fn read_server(mut entry: Section) -> Result<ServerConfig, ConfigProblem> {
    let config = ServerConfig {
        trusted: entry.flag("trusted")?.unwrap_or(false),
        concurrency: entry.count("concurrency")?.map(|count| count as usize),
        tool_defaults: take_tool_settings(&mut entry)?,
        rate: entry.rate("rate")?,
        output_bytes_max: entry.count("output_bytes_max")?.map(|count| count as usize),
        breaker: read_breaker(entry.section("breaker")?)?,
        restart: read_restart(entry.section("restart")?)?,
        check_after: entry.duration("check_after")?,
        inherit_env: entry.inherit_env()?,
        start_timeout: entry.duration("start_timeout")?,
        tools: entry.section("tools")?.map_entries(read_tool)?,
    };
    entry.finish()?;
    Ok(config)
}

fn read_breaker(mut entry: Section) -> Result<BreakerConfig, ConfigProblem> {
    let config = BreakerConfig { after: entry.count("after")?, cool_down: entry.duration("cool_down")? };
    entry.finish()?;
    Ok(config)
}

fn read_restart(mut entry: Section) -> Result<RestartConfig, ConfigProblem> {
    let config =
        RestartConfig { backoff: entry.duration("backoff")?, max_backoff: entry.duration("max_backoff")? };
    entry.finish()?;
    Ok(config)
}

fn read_tool(mut entry: Section) -> Result<ToolConfig, ConfigProblem> {
    let config = take_tool_settings(&mut entry)?;
    entry.finish()?;
    Ok(config)
}

/// Takes the settings of one tool, or of all tools of a server, out of a section.
fn take_tool_settings(entry: &mut Section) -> Result<ToolConfig, ConfigProblem> {
    let approval = match entry.text("approval")?.as_deref() {
        None => None,
        Some("required") => Some(true),
        Some("none") => Some(false),
        Some(other) => {
            return Err(entry.problem_at("approval", format!("`{other}` is not one of required, none")));
        }
    };
    Ok(ToolConfig {
        timeout: entry.duration("timeout")?,
        idempotent: entry.flag("idempotent")?,
        read_only: entry.flag("read_only")?,
        approval,
        retry: entry.optional_section("retry")?.map(read_retry).transpose()?,
        labels: entry.texts("labels")?.into_iter().collect(),
        adds: entry.texts("adds")?.into_iter().collect(),
        before: take_call_template(entry, "before")?,
        undo: take_call_template(entry, "undo")?,
    })
}

fn read_retry(mut entry: Section) -> Result<RetryConfig, ConfigProblem> {
    let config = RetryConfig {
        max_attempts: entry.count("max_attempts")?,
        backoff: entry.duration("backoff")?,
        factor: entry.factor("factor")?,
        max_backoff: entry.duration("max_backoff")?,
        on: entry.categories("on")?,
    };
    entry.finish()?;
    Ok(config)
}

/// Takes single hosts only: a pattern could open private addresses by mistake.
fn read_egress(mut entry: Section) -> Result<Vec<String>, ConfigProblem> {
    let allow = entry.texts("allow")?;
    let is_host = |text: &String| {
        !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || "-._:[]".contains(c))
    };
    if let Some(wrong) = allow.iter().find(|text| !is_host(text)) {
        return Err(entry.problem_at("allow", format!("`{wrong}` is neither a host nor host:port")));
    }
    entry.finish()?;
    Ok(allow)
}

const METHODS: [&str; 6] = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"];

fn read_method(entry: &mut Section) -> Result<String, ConfigProblem> {
    let method = entry.text("method")?.map_or_else(|| "POST".into(), |method| method.to_ascii_uppercase());
    if !METHODS.contains(&method.as_str()) {
        return Err(entry.problem_at("method", format!("`{method}` is not one of {}", METHODS.join(", "))));
    }
    Ok(method)
}

fn read_http(mut entry: Section) -> Result<HttpTool, ConfigProblem> {
    let tool = HttpTool {
        method: read_method(&mut entry)?,
        url: entry
            .template("url", ReferenceScope::Call)?
            .ok_or_else(|| entry.problem_at("url", "is missing".into()))?,
        headers: entry.template_map("headers", ReferenceScope::Call)?,
        body: entry.json_template("body", ReferenceScope::Call)?,
        input_schema: entry.schema("input_schema")?,
        timeout: entry.duration("timeout")?,
        description: entry.text("description")?,
    };
    entry.finish()?;
    Ok(tool)
}

fn read_command(mut entry: Section) -> Result<CommandTool, ConfigProblem> {
    let argv = entry.templates("argv", ReferenceScope::Call)?;
    let Some(program) = argv.first() else {
        return Err(entry.problem_at("argv", "needs at least the program".into()));
    };
    if program.reads_arguments() {
        // Otherwise a plan could run any program on the machine.
        return Err(entry.problem_at("argv[0]", "the program may not come from the arguments".into()));
    }
    let tool = CommandTool {
        argv,
        cwd: entry.template("cwd", ReferenceScope::Environment)?,
        env: entry.template_map("env", ReferenceScope::Call)?,
        inherit_env: entry.inherit_env()?.unwrap_or_default(),
        input_schema: entry.schema("input_schema")?,
        timeout: entry.duration("timeout")?,
        description: entry.text("description")?,
    };
    entry.finish()?;
    Ok(tool)
}

fn read_task_plan(mut entry: Section) -> Result<TaskPlanRule, ConfigProblem> {
    let rule = TaskPlanRule {
        r#type: entry.text("type")?,
        labels: entry.texts("labels")?,
        source: match (entry.text("plan")?, entry.text("template")?) {
            (Some(plan), None) => PlanSource::Plan(plan),
            (None, Some(template)) => PlanSource::Template(template),
            (None, None) => return Err(entry.problem_at("", "needs a `plan` or a `template`".into())),
            (Some(_), Some(_)) => {
                return Err(entry.problem_at("template", "is used instead of `plan`".into()));
            }
        },
        start: entry.flag("start")?.unwrap_or(false),
    };
    if rule.r#type.is_none() && rule.labels.is_empty() {
        return Err(entry.problem_at("", "needs a `type` or `labels`, or it would match every task".into()));
    }
    entry.finish()?;
    Ok(rule)
}

/// Refuses reserved and malformed names under `mcpServers`, and names under `servers` without a definition.
fn check_server_names(config: &Config) -> Result<(), ConfigProblem> {
    for name in config.mcp_servers.keys() {
        let at = format!("mcpServers.{name}");
        let owner = match name.as_str() {
            COMMAND_SERVER | HTTP_SERVER => Some("Actbook's own"),
            CLIENT_SERVER => Some("an agent's"),
            _ => None,
        };
        if let Some(owner) = owner {
            let problem = format!("`{name}` is the name of {owner} {name} tools");
            return Err(ConfigProblem { at, problem });
        }
        if name.is_empty() || name.contains('/') {
            return Err(ConfigProblem { at, problem: "a server's name is not empty and has no `/`".into() });
        }
    }
    let named = || config.mcp_servers.keys().chain(&config.disabled_servers).map(String::as_str);
    let known = || named().chain([COMMAND_SERVER, HTTP_SERVER, CLIENT_SERVER]);
    for name in config.servers.keys() {
        let hint = section::did_you_mean(name, known());
        // A guard also sees calls of servers that only the agent's client knows.
        let may_be_foreign = config.guard.is_some() && hint.is_empty();
        if !known().any(|server| server == name) && !may_be_foreign {
            return Err(ConfigProblem {
                at: format!("servers.{name}"),
                problem: format!("there is no such server in `mcpServers`{hint}"),
            });
        }
    }
    Ok(())
}
