//! `actbook trust`: shows what a config would let Actbook do, and records that the user trusts it.

use std::collections::BTreeSet;
use std::path::PathBuf;

use actbook::config::{
    Authority, Config, ConfigCandidate, ConfigLocation, ConfigTemplate, FILE_NAMES, InheritEnv, McpServer,
    locate_config,
};
use actbook::error::Error;
use actbook::service::escape_hidden;
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
        return Err(Error::new("untrusted_config", message, "read the file, then say `actbook trust --yes`"));
    } else if fresh && !ask_to_trust(output, &candidate)? {
        let message = format!("{} stays untrusted", file.display());
        return Err(Error::new("untrusted_config", message, "read the file, and say yes if it is yours"));
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
            let message = format!("{} is your own and needs no trust", file.display());
            Err(Error::new("nothing_to_trust", message, "name the file that you mean"))
        }
        ConfigLocation::Nowhere(folder) => {
            let message = format!("there is no {} in {}", FILE_NAMES.join(" or "), folder.display());
            Err(Error::new("nothing_to_trust", message, "name the file that you mean"))
        }
    }
}

/// Shows what the config would do, asks, and records a yes. True: it is trusted now.
pub fn ask_to_trust(output: &Output, candidate: &ConfigCandidate) -> Result<bool, Error> {
    let file = escape_hidden(&candidate.file().to_string_lossy());
    output.notice(format_args!("{} is not trusted as it is. It would have Actbook", painted(STRONG, file)));
    print_summary(output, &candidate.config);
    let failed = |error: std::io::Error| Error::new("io", error.to_string(), "use `actbook trust --yes`");
    let yes = output.confirm("Trust it?").map_err(failed)?;
    if yes {
        record_trust(candidate)?;
    }
    Ok(yes)
}

/// Records the config as trusted.
fn record_trust(candidate: &ConfigCandidate) -> Result<(), Error> {
    let failed = |error: std::io::Error| {
        let message = format!("what is trusted cannot be kept: {error}");
        Error::new("io", message, "make the data folder writable")
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
        lines.push(match server {
            McpServer::Stdio { command, args, inherit_env, cwd, .. } => {
                let argv: Vec<&ConfigTemplate> = [command].into_iter().chain(args).collect();
                format!(
                    "start {}: {}{}",
                    quoted(name),
                    command_text(&argv, cwd.as_ref()),
                    inherited_text(inherit_env)
                )
            }
            McpServer::Http { url, .. } => format!("connect to {}: {}", quoted(name), quoted(&url.source)),
        });
    }
    for (name, tool) in &config.commands {
        let argv: Vec<&ConfigTemplate> = tool.argv.iter().collect();
        let how = command_text(&argv, tool.cwd.as_ref());
        lines.push(format!(
            "run {}: {how}{}",
            quoted(&format!("command/{name}")),
            inherited_text(&tool.inherit_env)
        ));
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
            lines.push(format!("take what {} says of its tools at its word", quoted(name)));
        }
        let unapproved = settings.tools.iter().filter(|(_, tool)| tool.approval == Some(false));
        lines.extend(
            unapproved.map(|(tool, _)| format!("ask no approval for {}", quoted(&format!("{name}/{tool}")))),
        );
    }
    if !config.egress_allow.is_empty() {
        lines.push(format!("reach hosts inside your network: {}", config.egress_allow.join(", ")));
    }
    let starts = config.task_plans.iter().filter(|(_, rule)| rule.start);
    lines.extend(
        starts.map(|(rule, _)| format!("start a plan for each new task of the rule {}", quoted(rule))),
    );
    lines
}

/// A command line as the config writes it, with its folder.
fn command_text(argv: &[&ConfigTemplate], cwd: Option<&ConfigTemplate>) -> String {
    let arguments: Vec<String> = argv.iter().map(|argument| quoted(&argument.source)).collect();
    let cwd = cwd.map(|cwd| format!(" in {}", quoted(&cwd.source))).unwrap_or_default();
    format!("{}{cwd}", arguments.join(" "))
}

fn inherited_text(inherit: &InheritEnv) -> &'static str {
    match inherit {
        InheritEnv::All => " with your whole environment",
        InheritEnv::Names(_) => "",
    }
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
