//! `tools`: lists, shows, calls and accepts the tools of the configured servers.

use std::time::Duration;

use crate::error::{CommandLineCode, Error};
use crate::service::{ToolCallStats, ToolCallStatsByName, ToolPolicyView};
use crate::tools::{ServerTools, ToolInfo, escape_hidden, escape_hidden_in_json};
use actbook_engine::plan::duration_text;
use actbook_engine::policy::Outcome;
use serde_json::{Value, json};

use super::args::{CallToolArgs, ToolsSubcommand};
use super::output::Output;
use super::session::Session;
use super::status_style::{BAD, QUIET, STRONG, painted};
use super::table::{Table, cell, styled_cell, truncate};
use super::{CommandResult, Exit, times};

/// Runs `actbook tools …`.
pub async fn tools(session: &Session, subcommand: ToolsSubcommand) -> CommandResult {
    match subcommand {
        ToolsSubcommand::List { server } => list(session, server.as_deref()).await,
        ToolsSubcommand::Show { tool } => show(session, &tool).await,
        ToolsSubcommand::Call(args) => call(session, args).await,
        ToolsSubcommand::Accept { tool, reason } => accept(session, &tool, reason).await,
        ToolsSubcommand::Import { .. } => unreachable!("an import needs no database"),
    }
}

/// Prints the tools of all servers, or of one; `Exit::Failed` if a server cannot be reached.
async fn list(session: &Session, only: Option<&str>) -> CommandResult {
    let names = session.service.catalog().server_names();
    let is_known = |only: &&str| {
        session.config.disabled_servers.contains(*only) || names.iter().any(|name| name == only)
    };
    if let Some(only) = only.filter(|only| !is_known(only)) {
        let cure = format!("there are: {}", names.join(", "));
        let message = format!("there is no server `{only}`");
        return Err(Error::command_line(CommandLineCode::NoSuchServer, message, cure));
    }
    let mut servers = session.service.catalog().list().await;
    servers.retain(|server| only.is_none_or(|only| server.server == only));
    let output = &session.output;
    let stats = session.service.journal().tool_call_stats(None).await?;
    let disabled = session.config.disabled_servers.iter();
    let disabled: Vec<&String> = disabled.filter(|name| only.is_none_or(|only| only == *name)).collect();
    let reachable = servers.iter().all(|server| server.error.is_none());
    if output.json {
        let documents = servers.iter().map(|server| with_call_stats(session, server, &stats));
        output.document(&documents.collect::<Vec<_>>());
    } else if servers.is_empty() && disabled.is_empty() {
        output.line("no servers are configured; name them under mcpServers in actbook.yaml");
    } else {
        for name in disabled {
            output.line(format_args!(
                "{}{}",
                painted(STRONG, name),
                painted(QUIET, "  disabled in the config")
            ));
        }
        for server in &servers {
            let error = server.error.as_ref().map(|error| painted(BAD, format_args!("  {error}")));
            let total =
                stats.servers.get(&server.server).map(|stats| format!("  {}", call_stats_text(stats)));
            output.line(format_args!(
                "{}{}{}",
                painted(STRONG, &server.server),
                painted(QUIET, total.unwrap_or_default()),
                error.unwrap_or_default()
            ));
            let mut table = Table::new(2, &[]);
            for tool in &server.tools {
                let hints = hint_text(&tool.annotations.read_only, &tool.annotations.idempotent);
                let described = truncate(&escape_hidden(tool.description.as_deref().unwrap_or_default()), 90);
                let described = if tool.hidden.is_empty() {
                    described
                } else {
                    format!("{} {described}", painted(BAD, "hidden text!"))
                };
                let calls = stats.tools.get(&tool.name).map(call_stats_text).unwrap_or_default();
                let offered = offered_name(session, &tool.name).unwrap_or_default();
                table.push_row(vec![
                    cell(&tool.name),
                    styled_cell(QUIET, offered),
                    styled_cell(QUIET, hints),
                    styled_cell(QUIET, calls),
                    cell(described),
                ]);
            }
            table.print(output);
        }
    }
    Ok(if reachable { Exit::Done } else { Exit::Failed })
}

/// The name under which guarded agents are offered the tool. `None`: they are not.
fn offered_name(session: &Session, tool: &str) -> Option<String> {
    let offer = session.config.guard.as_ref().map(|guard| guard.offer.clone()).unwrap_or_default();
    offer.exposes(tool).then(|| offer.offered_name(tool))
}

/// The server as JSON, with the call statistics of it and of each of its tools as `seen`.
fn with_call_stats(session: &Session, server: &ServerTools, stats: &ToolCallStatsByName) -> Value {
    let mut document = json!(server);
    document["seen"] = json!(stats.servers.get(&server.server));
    for (tool, listed) in document["tools"].as_array_mut().into_iter().flatten().zip(&server.tools) {
        tool["seen"] = json!(stats.tools.get(&listed.name));
        tool["offered_as"] = json!(offered_name(session, &listed.name));
    }
    document
}

/// `412 calls, 98 % ok, p50 12 ms, p95 40 ms`
fn call_stats_text(stats: &ToolCallStats) -> String {
    let percent = (stats.succeeded * 100).checked_div(stats.calls).unwrap_or(0);
    let calls = if stats.calls == 1 { "1 call".to_owned() } else { format!("{} calls", stats.calls) };
    let took = &stats.took;
    let times = [("p50", took.p50_ms), ("p95", took.p95_ms), ("p99", took.p99_ms)];
    let times =
        times.into_iter().filter_map(|(name, ms)| Some(format!(", {name} {}", times::elapsed_text(ms?))));
    format!("{calls}, {percent} % ok{}", times.collect::<String>())
}

/// The strongest hint that the server gives about a tool; empty without one.
fn hint_text(read_only: &Option<bool>, idempotent: &Option<bool>) -> &'static str {
    match (read_only, idempotent) {
        (Some(true), _) => "read-only",
        (_, Some(true)) => "idempotent",
        (_, _) => "",
    }
}

/// The JSON document of `tools show`.
#[derive(serde::Serialize)]
struct ToolDocument<'a> {
    #[serde(flatten)]
    tool: &'a ToolInfo,
    #[serde(flatten)]
    standing: &'a ToolPolicyView,
    seen: Option<&'a ToolCallStats>,
}

/// Prints one tool: description, hints, the operator's settings, call statistics, schemas.
async fn show(session: &Session, name: &str) -> CommandResult {
    let tool = session.service.catalog().get(name).await?;
    let standing = session.service.catalog().policy_view(name, &tool)?;
    let seen = session.service.journal().tool_call_stats(None).await?.tools.remove(&tool.name);
    let output = &session.output;
    if output.json {
        output.document(&ToolDocument { tool: &tool, standing: &standing, seen: seen.as_ref() });
        return Ok(Exit::Done);
    }
    output.line(painted(STRONG, &tool.name));
    output.line(format_args!(
        "  {}",
        escape_hidden(tool.description.as_deref().unwrap_or("without a description"))
    ));
    print_definition(output, &tool);
    for location in &tool.hidden {
        output.line(format_args!("  {}", painted(BAD, format_args!("hidden characters in {location}"))));
    }
    let hints = &tool.annotations;
    let claimed = [
        ("read-only", hints.read_only),
        ("destructive", hints.destructive),
        ("idempotent", hints.idempotent),
    ];
    for (hint, value) in claimed {
        if let Some(value) = value {
            let value = if value { "yes" } else { "no" };
            output.line(format_args!("  {hint}: {value} (according to its server)"));
        }
    }
    print_operator_settings(output, &standing);
    output.line(painted(QUIET, format_args!("  digest {}", tool.digest)));
    seen.iter().for_each(|seen| print_call_stats(output, seen));
    print_schema(output, "arguments", &tool.input_schema);
    if let Some(schema_) = &tool.output_schema {
        print_schema(output, "output", schema_);
    }
    Ok(Exit::Done)
}

/// Prints how the config defines a command or a request. People may see it; agents are not shown it.
fn print_definition(output: &Output, tool: &ToolInfo) {
    let Some(("command" | "http", _)) = tool.name.split_once('/') else { return };
    for field in ["argv", "cwd", "method", "url", "inherit_env"] {
        if let Some(value) = tool.object.get(field).filter(|value| !value.is_null()) {
            output.line(painted(QUIET, format_args!("  {field}: {value}")));
        }
    }
}

/// Prints what the operator has set for the tool in the config, and the digest that was last accepted.
fn print_operator_settings(output: &Output, standing: &ToolPolicyView) {
    let ToolPolicyView { trusted, terms, accepted } = standing;
    let flag = |name: &str, value: Option<bool>| value.map(|value| format!("{name}: {value}"));
    let settings = [
        trusted.then(|| "its server is trusted".to_owned()),
        flag("read_only", terms.read_only),
        flag("idempotent", terms.idempotent),
        terms.approval.then(|| "approval: required".to_owned()),
        terms.timeout_ms.map(|ms| format!("timeout at most {}", duration_text(ms))),
        terms
            .retry
            .as_ref()
            .and_then(|retry| retry.max_attempts)
            .map(|most| format!("at most {most} attempts")),
    ];
    let settings: Vec<String> = settings.into_iter().flatten().collect();
    if !settings.is_empty() {
        output.line(format_args!("  the config says: {}", settings.join(", ")));
    }
    if let Some(accepted) = accepted {
        output.line(painted(QUIET, format_args!("  last accepted {accepted}")));
    }
}

/// Prints the statistics of a tool's calls: counts, times, errors by category, the last error.
fn print_call_stats(output: &Output, stats: &ToolCallStats) {
    output.line(format_args!("  seen: {}", call_stats_text(stats)));
    for (outcome, by_category) in [("failed", &stats.failed), ("unknown", &stats.unknown)] {
        for (category, count) in by_category {
            output.line(format_args!("  {outcome}: {count} × {category}"));
        }
    }
    if let Some(error) = &stats.last_error {
        let message = error.message.as_deref().unwrap_or("its text is erased");
        let line = format!("  last error, {}: {message}", times::local_date_time(&error.at));
        output.line(painted(BAD, truncate(&line, 400)));
    }
}

/// Prints the properties of a schema with their types; `--json` has the whole schema.
fn print_schema(output: &Output, title: &str, schema: &Value) {
    output.line(painted(STRONG, title));
    let required: Vec<&str> = schema
        .get("required")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    let properties = schema.get("properties").and_then(Value::as_object);
    let mut table = Table::new(2, &[]);
    for (name, property) in properties.into_iter().flatten() {
        let kind =
            property.get("type").map(|kind| kind.as_str().map_or_else(|| kind.to_string(), str::to_owned));
        let need = if required.contains(&name.as_str()) { "required" } else { "" };
        let about = escape_hidden(property.get("description").and_then(Value::as_str).unwrap_or_default());
        table.push_row(vec![
            cell(name),
            cell(kind.unwrap_or_default()),
            styled_cell(QUIET, need),
            cell(truncate(&about, 90)),
        ]);
    }
    table.print(output);
}

/// Accepts the tool's current definition for every plan.
async fn accept(session: &Session, name: &str, reason: Option<String>) -> CommandResult {
    let accepted = session.service.catalog().accept(&session.caller, name, reason).await?;
    let output = &session.output;
    if output.json {
        output.document(&accepted);
        return Ok(Exit::Done);
    }
    let what = if accepted.fresh { "accepted" } else { "accepted before" };
    output.line(format_args!("{what}: {} {}", accepted.tool, painted(QUIET, accepted.digest)));
    output.line("  every plan may call it as it is now; `actbook decide EXECUTION STEP retry` goes on where one was refused");
    Ok(Exit::Done)
}

/// Calls a tool outside any plan and journal; `Exit::Failed` unless it succeeded.
async fn call(session: &Session, args: CallToolArgs) -> CommandResult {
    let CallToolArgs { tool, arguments, named_arguments, timeout, yes } = args;
    let arguments = arguments.or(named_arguments).unwrap_or_else(|| json!({}));
    let info = session.service.catalog().get(&tool).await?;
    if info.needs_approval && !yes {
        require_yes(&session.output, &tool, &arguments)?;
    }
    let called = session.service.catalog().call(&tool, arguments, Duration::from_millis(timeout)).await;
    let output = &session.output;
    let exit = if called.outcome == Outcome::Succeeded { Exit::Done } else { Exit::Failed };
    if output.json {
        output.document(&called);
        return Ok(exit);
    }
    let took = times::elapsed_text(i64::try_from(called.took_ms).unwrap_or(i64::MAX));
    match (&called.message, called.category) {
        (Some(message), Some(category)) => {
            output
                .line(format_args!("{} after {took}: {message} ({category})", painted(BAD, called.outcome)));
        }
        (_, _) => output.notice(painted(QUIET, format_args!("{} after {took}", called.outcome))),
    }
    if let Some(shown) = &called.output {
        output.text(format_args!("{shown:#}"));
    }
    Ok(exit)
}

/// Shows the call of a tool under `approval: required` and asks for a yes; `Err`: there was none, or nobody could be asked.
fn require_yes(output: &Output, tool: &str, arguments: &Value) -> Result<(), Error> {
    let refused = |message: String| {
        let cure = "read the arguments, and say yes, or add --yes";
        Error::command_line(CommandLineCode::NotApproved, message, cure)
    };
    let asks = format!("the config demands an approval of each call of `{tool}`");
    if !output.can_ask() {
        return Err(refused(format!("{asks}, and there is no terminal to ask at")));
    }
    output.notice(format_args!("{asks}. The arguments of this one:"));
    escape_hidden_in_json(&format!("{arguments:#}"))
        .lines()
        .for_each(|line| output.notice(format_args!("  {line}")));
    let failed = |error: std::io::Error| refused(error.to_string());
    if output.confirm("Make this call?").map_err(failed)? {
        return Ok(());
    }
    Err(refused(format!("`{tool}` was not called")))
}
