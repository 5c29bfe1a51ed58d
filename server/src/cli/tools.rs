//! The downstream tools: listed, shown, called by hand, accepted.

use std::time::Duration;

use actbook::error::Error;
use actbook::service::{Seen, ServerTools, ToolInfo, ToolStanding, ToolsSeen, visible};
use actbook_engine::plan::duration_text;
use actbook_engine::policy::Outcome;
use serde_json::{Value, json};

use super::args::Tools;
use super::output::Output;
use super::session::Session;
use super::signs::{BAD, QUIET, STRONG, painted};
use super::table::{Table, cell, coloured, cut};
use super::{Ended, Exit, times};

pub async fn tools(session: &Session, asked: Tools) -> Ended {
    match asked {
        Tools::List { server } => list(session, server.as_deref()).await,
        Tools::Show { tool } => show(session, &tool).await,
        Tools::Call { tool, arguments, timeout } => call(session, &tool, arguments, timeout).await,
        Tools::Accept { tool, reason } => accept(session, &tool, reason).await,
        Tools::Import { .. } => unreachable!("an import needs no database"),
    }
}

async fn list(session: &Session, only: Option<&str>) -> Ended {
    let names = session.service.server_names();
    if let Some(only) = only.filter(|only| !names.iter().any(|name| name == only)) {
        let cure = format!("there are: {}", names.join(", "));
        return Err(Error::new("no_such_server", format!("there is no server `{only}`"), cure));
    }
    let mut servers = session.service.list_tools().await;
    servers.retain(|server| only.is_none_or(|only| server.server == only));
    let output = &session.output;
    let seen = session.service.tools_seen(None).await?;
    let reachable = servers.iter().all(|server| server.error.is_none());
    if output.json {
        output.document(&servers.iter().map(|server| with_figures(server, &seen)).collect::<Vec<_>>());
    } else if servers.is_empty() {
        output.line("no servers are configured; name them under mcpServers in actbook.yaml");
    } else {
        for server in &servers {
            let error = server.error.as_ref().map(|error| painted(BAD, format_args!("  {error}")));
            let in_all = seen.servers.get(&server.server).map(|seen| format!("  {}", figures(seen)));
            output.line(format_args!(
                "{}{}{}",
                painted(STRONG, &server.server),
                painted(QUIET, in_all.unwrap_or_default()),
                error.unwrap_or_default()
            ));
            let mut table = Table::new(2, &[]);
            for tool in &server.tools {
                let hints = hints(&tool.annotations.read_only, &tool.annotations.idempotent);
                let described = cut(&visible(tool.description.as_deref().unwrap_or_default()), 90);
                let described = if tool.hidden.is_empty() {
                    described
                } else {
                    format!("{} {described}", painted(BAD, "hidden text!"))
                };
                let figures = seen.tools.get(&tool.name).map(figures).unwrap_or_default();
                table.row(vec![
                    cell(&tool.name),
                    coloured(QUIET, hints),
                    coloured(QUIET, figures),
                    cell(described),
                ]);
            }
            table.print(output);
        }
    }
    Ok(if reachable { Exit::Done } else { Exit::Failed })
}

/// The server with what was seen of it and of each of its tools.
fn with_figures(server: &ServerTools, seen: &ToolsSeen) -> Value {
    let mut shown = json!(server);
    shown["seen"] = json!(seen.servers.get(&server.server));
    for (tool, listed) in shown["tools"].as_array_mut().into_iter().flatten().zip(&server.tools) {
        tool["seen"] = json!(seen.tools.get(&listed.name));
    }
    shown
}

/// `412 calls, 98 % ok, p50 12 ms, p95 40 ms`
fn figures(seen: &Seen) -> String {
    let percent = (seen.succeeded * 100).checked_div(seen.calls).unwrap_or(0);
    let calls = if seen.calls == 1 { "1 call".to_owned() } else { format!("{} calls", seen.calls) };
    let times = [("p50", seen.p50_ms), ("p95", seen.p95_ms), ("p99", seen.p99_ms)];
    let times = times.into_iter().filter_map(|(name, ms)| Some(format!(", {name} {}", times::took(ms?))));
    format!("{calls}, {percent} % ok{}", times.collect::<String>())
}

/// What the server claims.
fn hints(read_only: &Option<bool>, idempotent: &Option<bool>) -> &'static str {
    match (read_only, idempotent) {
        (Some(true), _) => "read-only",
        (_, Some(true)) => "idempotent",
        (_, _) => "",
    }
}

#[derive(serde::Serialize)]
struct Shown<'a> {
    #[serde(flatten)]
    tool: &'a ToolInfo,
    #[serde(flatten)]
    standing: &'a ToolStanding,
    seen: Option<&'a Seen>,
}

async fn show(session: &Session, name: &str) -> Ended {
    let tool = session.service.tool(name).await?;
    let standing = session.service.standing(&tool)?;
    let seen = session.service.tools_seen(None).await?.tools.remove(&tool.name);
    let output = &session.output;
    if output.json {
        output.document(&Shown { tool: &tool, standing: &standing, seen: seen.as_ref() });
        return Ok(Exit::Done);
    }
    output.line(painted(STRONG, &tool.name));
    output
        .line(format_args!("  {}", visible(tool.description.as_deref().unwrap_or("without a description"))));
    defined(output, &tool);
    for place in &tool.hidden {
        output.line(format_args!("  {}", painted(BAD, format_args!("hidden characters in {place}"))));
    }
    let hints = &tool.annotations;
    let claimed = [
        ("read-only", hints.read_only),
        ("destructive", hints.destructive),
        ("idempotent", hints.idempotent),
    ];
    for (word, said) in claimed {
        if let Some(said) = said {
            let said = if said { "yes" } else { "no" };
            output.line(format_args!("  {word}: {said} (says its server)"));
        }
    }
    operator(output, &standing);
    output.line(painted(QUIET, format_args!("  digest {}", tool.digest)));
    seen.iter().for_each(|seen| was_seen(output, seen));
    schema(output, "arguments", &tool.input_schema);
    if let Some(schema_) = &tool.output_schema {
        schema(output, "output", schema_);
    }
    Ok(Exit::Done)
}

/// How the config defines a command or a request: a person may see what agents are not shown.
fn defined(output: &Output, tool: &ToolInfo) {
    let Some(("command" | "http", _)) = tool.name.split_once('/') else { return };
    for field in ["argv", "cwd", "method", "url", "inherit_env"] {
        if let Some(value) = tool.object.get(field).filter(|value| !value.is_null()) {
            output.line(painted(QUIET, format_args!("  {field}: {value}")));
        }
    }
}

/// What the operator has said of it.
fn operator(output: &Output, standing: &ToolStanding) {
    let ToolStanding { trusted, terms, accepted } = standing;
    let flag = |word: &str, said: Option<bool>| said.map(|said| format!("{word}: {said}"));
    let words = [
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
    let words: Vec<String> = words.into_iter().flatten().collect();
    if !words.is_empty() {
        output.line(format_args!("  the config says: {}", words.join(", ")));
    }
    if let Some(accepted) = accepted {
        output.line(painted(QUIET, format_args!("  last accepted {accepted}")));
    }
}

fn was_seen(output: &Output, seen: &Seen) {
    output.line(format_args!("  seen: {}", figures(seen)));
    for (outcome, by_category) in [("failed", &seen.failed), ("unknown", &seen.unknown)] {
        for (category, count) in by_category {
            output.line(format_args!("  {outcome}: {count} × {category}"));
        }
    }
    if let Some(error) = &seen.last_error {
        let said = error.message.as_deref().unwrap_or("its words are erased");
        let said = format!("  last error, {}: {said}", times::date(&error.at));
        output.line(painted(BAD, cut(&said, 400)));
    }
}

/// The properties with their types; `--json` has the whole schema.
fn schema(output: &Output, title: &str, schema: &Value) {
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
        let about = visible(property.get("description").and_then(Value::as_str).unwrap_or_default());
        table.row(vec![
            cell(name),
            cell(kind.unwrap_or_default()),
            coloured(QUIET, need),
            cell(cut(&about, 90)),
        ]);
    }
    table.print(output);
}

async fn accept(session: &Session, name: &str, reason: Option<String>) -> Ended {
    let taken = session.service.accept_tool(&session.caller, name, reason).await?;
    let output = &session.output;
    if output.json {
        output.document(&taken);
        return Ok(Exit::Done);
    }
    let what = if taken.fresh { "accepted" } else { "accepted before" };
    output.line(format_args!("{what}: {} {}", taken.tool, painted(QUIET, taken.digest)));
    output.line("  every plan may call it as it is now; `actbook decide EXECUTION STEP retry` goes on where one was refused");
    Ok(Exit::Done)
}

async fn call(session: &Session, name: &str, arguments: Value, timeout_ms: u64) -> Ended {
    session.service.tool(name).await?;
    let called = session.service.call_tool(name, arguments, Duration::from_millis(timeout_ms)).await;
    let output = &session.output;
    let exit = if called.outcome == Outcome::Succeeded { Exit::Done } else { Exit::Failed };
    if output.json {
        output.document(&called);
        return Ok(exit);
    }
    let took = times::took(i64::try_from(called.took_ms).unwrap_or(i64::MAX));
    match (&called.message, called.category) {
        (Some(message), Some(category)) => {
            output
                .line(format_args!("{} after {took}: {message} ({category})", painted(BAD, called.outcome)));
        }
        (_, _) => output.aside(painted(QUIET, format_args!("{} after {took}", called.outcome))),
    }
    if let Some(shown) = &called.output {
        output.text(format_args!("{shown:#}"));
    }
    Ok(exit)
}
