//! `actbook trust`: shows what a config would let Actbook do, and records that the user trusts it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use actbook_engine::rules::{GuardMode, RuleEffect};

use crate::config::{
    Authority, Config, ConfigCandidate, ConfigLocation, ConfigTemplate, FILE_NAMES, GuardConfig, InheritEnv,
    McpServer, TemplatePart, is_secret_name, locate_config, resolve_program,
};
use crate::error::{CommandLineCode, Error};
use crate::tools::escape_hidden;
use serde_json::{Value, json};

use super::args::{CommonArgs, TrustArgs};
use super::output::Output;
use super::status_style::{STRONG, painted};
use super::{CommandResult, Exit, config};

/// Trusts a config, with `--yes` or after asking; `Err` if the user declines or cannot be asked.
pub fn trust(output: &Output, common: &CommonArgs, args: &TrustArgs) -> CommandResult {
    let file = args.file.clone().or_else(|| common.config.clone());
    let file = file.map_or_else(working_folder_config, Ok)?;
    let candidate = ConfigCandidate::read(&file)?;
    let fresh = !config::trust_store().trusts(&candidate);
    if fresh && args.yes {
        config::print_unknown_words(output, &candidate.config);
        record_trust(&candidate)?;
    } else if fresh && !output.can_ask() {
        print_summary(output, &candidate.config);
        let message = format!("{} is not trusted, and there is no terminal to ask at", file.display());
        return Err(untrusted_error(message, "read the file, then run `actbook trust --yes`"));
    } else if fresh && !ask_to_trust(output, &candidate)? {
        let message = format!("{} stays untrusted", file.display());
        return Err(untrusted_error(message, "read the file, and say yes if it is yours"));
    }
    if output.json {
        output.document(&json!({ "file": candidate.file(), "digest": candidate.digest, "fresh": fresh }));
        return Ok(Exit::Done);
    }
    let what = if fresh { "trusted" } else { "trusted before, and unchanged" };
    output.line(format_args!("{what}: {}", escape_hidden(&file.to_string_lossy())));
    Ok(Exit::Done)
}

/// The config file of the working folder; `Err` if there is none, or the user's own is used, which needs no
/// trust.
fn working_folder_config() -> Result<PathBuf, Error> {
    match locate_config(None)? {
        ConfigLocation::Named(file) | ConfigLocation::WorkingFolder(file) => Ok(file),
        ConfigLocation::User(file) => {
            Err(nothing_to_trust_error(format!("{} is your own and needs no trust", file.display())))
        }
        ConfigLocation::Nowhere(folder) => {
            let names = FILE_NAMES.join(" or ");
            Err(nothing_to_trust_error(format!("there is no {names} in {}", folder.display())))
        }
    }
}

fn untrusted_error(message: String, cure: &str) -> Error {
    Error::command_line(CommandLineCode::UntrustedConfig, message, cure)
}

fn nothing_to_trust_error(message: String) -> Error {
    Error::command_line(CommandLineCode::NothingToTrust, message, "name the file that you mean")
}

/// Shows what the config would do, asks, and records a yes. True: it is trusted now.
pub fn ask_to_trust(output: &Output, candidate: &ConfigCandidate) -> Result<bool, Error> {
    let file = escape_hidden(&candidate.file().to_string_lossy());
    output.notice(format_args!("{} is not trusted as it is. It would have Actbook", painted(STRONG, file)));
    print_summary(output, &candidate.config);
    let failed = |error: std::io::Error| {
        Error::command_line(CommandLineCode::Io, error.to_string(), "use `actbook trust --yes`")
    };
    let yes = output.confirm("Trust it?").map_err(failed)?;
    if yes {
        record_trust(candidate)?;
    }
    Ok(yes)
}

/// Records in the user's trust store that the config is trusted as it was read.
fn record_trust(candidate: &ConfigCandidate) -> Result<(), Error> {
    let failed = |error: std::io::Error| {
        let message = format!("the record of trusted files cannot be saved: {error}");
        Error::command_line(CommandLineCode::Io, message, "make the data folder writable")
    };
    config::trust_store().trust(candidate).map_err(failed)
}

/// Prints what the config lets Actbook do, to stderr.
fn print_summary(output: &Output, config: &Config) {
    let lines = config_summary(config);
    config::print_unknown_words(output, config);
    if lines.is_empty() {
        output.notice("  do nothing: it names no server, command or address");
    }
    for line in lines {
        output.notice(format_args!("  {line}"));
    }
}

/// What the config lets Actbook do, a line each: commands, addresses, environment variables, policies.
fn config_summary(config: &Config) -> Vec<String> {
    let mut lines = Vec::new();
    for (name, server) in &config.mcp_servers {
        match server {
            McpServer::Stdio { command, args, env, inherit_env, cwd } => {
                let argv = [command].into_iter().chain(args).collect();
                let child =
                    ChildSummary { argv, env, inherit_env, cwd: cwd.as_ref(), folder: &config.folder };
                lines.extend(child.lines(&format!("start {}", quoted(name))));
            }
            McpServer::Http { url, .. } => {
                lines.push(format!("connect to {}: {}", quoted(name), quoted(&url.source)));
            }
        }
    }
    for (name, tool) in &config.commands {
        let (argv, env, inherit_env) = (tool.argv.iter().collect(), &tool.env, &tool.inherit_env);
        let child = ChildSummary { argv, env, inherit_env, cwd: tool.cwd.as_ref(), folder: &config.folder };
        lines.extend(child.lines(&format!("run {}", quoted(&format!("command/{name}")))));
    }
    for (name, tool) in &config.http {
        let name = quoted(&format!("http/{name}"));
        lines.push(format!("send {name}: {} {}", tool.method, quoted(&tool.url.source)));
    }
    let variables: Vec<String> = variables(config).into_iter().map(quoted).collect();
    if !variables.is_empty() {
        lines.push(format!("use these environment variables: {}", variables.join(", ")));
    }
    lines.extend(policy_lines(config));
    lines
}

/// The policies of the config that widen what agents may do, a line each.
fn policy_lines(config: &Config) -> Vec<String> {
    let project =
        config.project.iter().map(|name| format!("let its agents act in the project {}", quoted(name)));
    let mut lines: Vec<String> = project.collect();
    if config.approvals == Authority::Agents {
        lines.push("let agents approve what asks for an approval".to_owned());
    }
    if config.everywhere == Authority::Agents {
        lines.push("let agents share notes and templates with every project".to_owned());
    }
    for (name, settings) in &config.servers {
        if settings.trusted {
            lines.push(format!("trust what {} declares about its tools", quoted(name)));
        }
        let unapproved = settings.tools.iter().filter(|(_, tool)| tool.approval == Some(false));
        lines.extend(
            unapproved.map(|(tool, _)| format!("ask no approval for {}", quoted(&format!("{name}/{tool}")))),
        );
    }
    if !config.egress_allow.is_empty() {
        lines.push(format!("reach hosts inside your network: {}", config.egress_allow.join(", ")));
    }
    lines.extend(config.guard.iter().map(guard_line));
    let starts = config.task_plans.iter().filter(|(_, rule)| rule.start);
    lines.extend(
        starts.map(|(rule, _)| format!("start a plan for each new task of the rule {}", quoted(rule))),
    );
    lines
}

/// What the config says of the calls that guarded agents make.
fn guard_line(guard: &GuardConfig) -> String {
    let rules: Vec<String> = guard
        .rules
        .iter()
        .map(|rule| format!("{} ({})", quoted(&rule.name), rule.then.as_str()))
        .chain((guard.unknown == RuleEffect::Allow).then(|| "unknown tools (allow)".to_owned()))
        .collect();
    let rules = if rules.is_empty() { "no rules".to_owned() } else { rules.join(", ") };
    match guard.mode {
        GuardMode::Enforce => format!("judge the calls of guarded agents by {rules}"),
        GuardMode::Observe => {
            format!("let the calls of guarded agents pass, and note what {rules} would refuse")
        }
    }
}

/// A child process that the config would have Actbook start.
struct ChildSummary<'a> {
    argv: Vec<&'a ConfigTemplate>,
    env: &'a BTreeMap<String, ConfigTemplate>,
    inherit_env: &'a InheritEnv,
    cwd: Option<&'a ConfigTemplate>,
    /// The config's folder.
    folder: &'a Path,
}

impl ChildSummary<'_> {
    /// The command line as the config writes it, the program that it starts today, and a line for each
    /// variable that the config sets: `PATH`, `LD_PRELOAD` or `NODE_OPTIONS` decide which code runs.
    fn lines(&self, what: &str) -> Vec<String> {
        let arguments: Vec<String> = self.argv.iter().map(|argument| quoted(&argument.source)).collect();
        let cwd = self.cwd.map(|cwd| format!(" in {}", quoted(&cwd.source))).unwrap_or_default();
        let inherited = match self.inherit_env {
            InheritEnv::All => " with your whole environment",
            InheritEnv::Names(_) => "",
        };
        let mut lines = vec![format!("{what}: {}{cwd}{inherited}", arguments.join(" "))];
        lines.extend(self.argv.first().map(|program| self.program_line(program)));
        let variables = self.env.iter();
        lines.extend(variables.map(|(name, value)| format!("  with {}", variable_text(name, value))));
        lines
    }

    fn program_line(&self, program: &ConfigTemplate) -> String {
        match resolve_program(program, self.env, self.cwd, self.folder) {
            Some(path) => format!("  the program is {}", quoted(&path.to_string_lossy())),
            None => "  the program cannot be found now".to_owned(),
        }
    }
}

/// `NAME=value` as the config writes it; a secret that is written literally is left out.
fn variable_text(name: &str, value: &ConfigTemplate) -> String {
    let is_reference = |part: &TemplatePart| matches!(part, TemplatePart::Environment { default: None, .. });
    if is_secret_name(name) && !value.parts.iter().all(is_reference) {
        return format!("{}=[redacted]", quoted(name));
    }
    format!("{}={}", quoted(name), quoted(&value.source))
}

/// The environment variables whose values the config uses or passes on.
fn variables(config: &Config) -> BTreeSet<&str> {
    let referred = config.templates().into_iter().flat_map(ConfigTemplate::variables);
    referred.chain(config.inherited_variables()).collect()
}

/// The text, quoted as JSON unless it is a plain word, so that a name from the config cannot pass for
/// Actbook's text.
fn quoted(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=@%+,".contains(c);
    if !text.is_empty() && text.chars().all(is_plain) {
        return text.to_owned();
    }
    escape_hidden(&Value::from(text).to_string())
}
