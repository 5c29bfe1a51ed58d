//! `actbook trust`: shows what a config would let Actbook do, and takes it as the user's own.

use std::collections::BTreeSet;
use std::path::PathBuf;

use actbook::config::{
    Approvals, Candidate, Config, FILE_NAMES, InheritEnv, Location, McpServer, Sharing, Template, locate,
};
use actbook::error::Error;
use actbook::service::visible;
use serde_json::{Value, json};

use super::args::{Common, Trust};
use super::output::Output;
use super::signs::{STRONG, painted};
use super::{Ended, Exit, config};

pub fn trust(output: &Output, common: &Common, asked: &Trust) -> Ended {
    let file = asked.file.clone().or_else(|| common.config.clone());
    let file = file.map_or_else(found_here, Ok)?;
    let candidate = Candidate::read(&file)?;
    let fresh = !config::store().trusts(&candidate);
    if fresh && asked.yes {
        keep(&candidate)?;
    } else if fresh && !output.can_ask() {
        show(output, &candidate.config);
        let message = format!("{} is not trusted, and there is no terminal to ask at", file.display());
        return Err(Error::new("untrusted_config", message, "read the file, then say `actbook trust --yes`"));
    } else if fresh && !ask(output, &candidate)? {
        let message = format!("{} stays untrusted", file.display());
        return Err(Error::new("untrusted_config", message, "read the file, and say yes if it is yours"));
    }
    if output.json {
        output.document(&json!({ "file": candidate.file(), "digest": candidate.digest, "fresh": fresh }));
        return Ok(Exit::Done);
    }
    let what = if fresh { "trusted" } else { "trusted before, and unchanged" };
    output.line(format_args!("{what}: {}", visible(&file.to_string_lossy())));
    Ok(Exit::Done)
}

/// The config of the working folder.
fn found_here() -> Result<PathBuf, Error> {
    match locate(None)? {
        Location::Named(file) | Location::WorkingFolder(file) => Ok(file),
        Location::User(file) => {
            let message = format!("{} is your own and needs no trust", file.display());
            Err(Error::new("nothing_to_trust", message, "name the file that you mean"))
        }
        Location::Nowhere(folder) => {
            let message = format!("there is no {} in {}", FILE_NAMES.join(" or "), folder.display());
            Err(Error::new("nothing_to_trust", message, "name the file that you mean"))
        }
    }
}

/// Shows the config and asks; trusts it on a yes.
pub fn ask(output: &Output, candidate: &Candidate) -> Result<bool, Error> {
    let file = visible(&candidate.file().to_string_lossy());
    output.aside(format_args!("{} is not trusted as it is. It would have Actbook", painted(STRONG, file)));
    show(output, &candidate.config);
    let failed = |error: std::io::Error| Error::new("io", error.to_string(), "use `actbook trust --yes`");
    let yes = output.confirm("Trust it?").map_err(failed)?;
    if yes {
        keep(candidate)?;
    }
    Ok(yes)
}

fn keep(candidate: &Candidate) -> Result<(), Error> {
    let failed = |error: std::io::Error| {
        let message = format!("what is trusted cannot be kept: {error}");
        Error::new("io", message, "make the data folder writable")
    };
    config::store().trust(candidate).map_err(failed)
}

fn show(output: &Output, config: &Config) {
    let lines = summary(config);
    if lines.is_empty() {
        output.aside("  do nothing: it names no server, command or address");
    }
    for line in lines {
        output.aside(format_args!("  {line}"));
    }
}

/// What the config lets Actbook do, one line each: commands, addresses, variables, approvals.
fn summary(config: &Config) -> Vec<String> {
    let mut lines = Vec::new();
    for (name, server) in &config.mcp_servers {
        lines.push(match server {
            McpServer::Stdio { command, args, inherit_env, cwd, .. } => {
                let argv: Vec<&Template> = [command].into_iter().chain(args).collect();
                format!("start {}: {}{}", quoted(name), started(&argv, cwd.as_ref()), inherited(inherit_env))
            }
            McpServer::Http { url, .. } => format!("connect to {}: {}", quoted(name), quoted(&url.source)),
        });
    }
    for (name, tool) in &config.commands {
        let argv: Vec<&Template> = tool.argv.iter().collect();
        let how = started(&argv, tool.cwd.as_ref());
        lines.push(format!(
            "run {}: {how}{}",
            quoted(&format!("command/{name}")),
            inherited(&tool.inherit_env)
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
    lines.extend(policies(config));
    lines
}

/// What the config allows, beside what it starts.
fn policies(config: &Config) -> Vec<String> {
    let project =
        config.project.iter().map(|name| format!("let its agents act in the project {}", quoted(name)));
    let mut lines: Vec<String> = project.collect();
    if config.approvals == Approvals::Agents {
        lines.push("let agents approve what asks for an approval".to_owned());
    }
    if config.everywhere == Sharing::Agents {
        lines.push("let agents share notes and templates with every project".to_owned());
    }
    for (name, words) in &config.servers {
        if words.trusted {
            lines.push(format!("take what {} says of its tools at its word", quoted(name)));
        }
        let unasked = words.tools.iter().filter(|(_, tool)| tool.approval == Some(false));
        lines.extend(
            unasked.map(|(tool, _)| format!("ask no approval for {}", quoted(&format!("{name}/{tool}")))),
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

fn started(argv: &[&Template], cwd: Option<&Template>) -> String {
    let words: Vec<String> = argv.iter().map(|word| quoted(&word.source)).collect();
    let cwd = cwd.map(|cwd| format!(" in {}", quoted(&cwd.source))).unwrap_or_default();
    format!("{}{cwd}", words.join(" "))
}

fn inherited(inherit: &InheritEnv) -> &'static str {
    match inherit {
        InheritEnv::All => " with your whole environment",
        InheritEnv::Names(_) => "",
    }
}

/// The environment variables whose values the config takes.
fn variables(config: &Config) -> BTreeSet<&str> {
    let referred = config.templates().into_iter().flat_map(Template::variables);
    referred.chain(config.inherited_variables()).collect()
}

/// As JSON quotes it where it is more than a plain word, so that a name cannot pass for a line of ours.
fn quoted(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=@%+,".contains(c);
    if !text.is_empty() && text.chars().all(is_plain) {
        return text.to_owned();
    }
    visible(&Value::from(text).to_string())
}
