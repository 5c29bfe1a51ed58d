//! `actbook install`: writes this binary into an agent client's list of MCP servers, or prints what to
//! write there. What else is in the client's file stays as it is.

use std::path::{Path, PathBuf};
use std::process::Command;

use actbook::error::Error;
use serde_json::{Map, Value, json};

use super::args::{AgentClient, Common, Install};
use super::output::Output;
use super::{Ended, Exit, config};

const NAME: &str = "actbook";

/// Where a client keeps its servers, and under which word.
struct Place {
    file: PathBuf,
    key: &'static str,
    /// VS Code wants the kind of transport named.
    typed: bool,
}

pub fn install(output: &Output, common: &Common, asked: &Install) -> Ended {
    let program =
        std::env::current_exe().map_err(|error| failed(&error, "start actbook by its full path"))?;
    let program = program.to_string_lossy().into_owned();
    let mut words = vec!["mcp".to_owned()];
    if asked.config.is_none() && common.config.is_none() && !asked.print {
        config::offer_trust(output)?;
    }
    if let Some(config) = asked.config.as_ref().or(common.config.as_ref()) {
        let config = std::path::absolute(config).map_err(|error| failed(&error, "name another --config"))?;
        words.extend(["--config".to_owned(), config.to_string_lossy().into_owned()]);
    }
    if let Some(database) = &common.database {
        words.extend(["--database".to_owned(), reachable(database)?]);
    }
    if common.unsafe_durability {
        words.push("--unsafe-durability".to_owned());
    }
    match (asked.client, asked.print) {
        (AgentClient::ClaudeCode, print) => claude_code(output, &program, &words, print),
        (AgentClient::ClaudeDesktop | AgentClient::Cursor | AgentClient::Vscode, print) => {
            let place = place(asked.client)?;
            let entry = entry(&place, &program, &words);
            match print {
                true => output.document(&json!({ place.key: { NAME: entry } })),
                false => {
                    write(&place, entry)?;
                    output
                        .line(format_args!("{NAME} is in {}; start the client again", place.file.display()));
                }
            }
            Ok(Exit::Done)
        }
    }
}

/// The client starts elsewhere, so a file is named by its full path. A password is not written down.
fn reachable(database: &str) -> Result<String, Error> {
    match database.split_once("://") {
        Some((_, rest))
            if rest.split('@').next().is_some_and(|who| rest.contains('@') && who.contains(':')) =>
        {
            let cure = "leave it out here, and give the client ACTBOOK_DATABASE in its environment";
            Err(Error::new("install", "the database's address holds a password", cure))
        }
        Some(("sqlite", file)) => absolute(file),
        Some(_) => Ok(database.to_owned()),
        None => absolute(database),
    }
}

fn absolute(file: &str) -> Result<String, Error> {
    let file = std::path::absolute(file).map_err(|error| failed(&error, "name another --database"))?;
    Ok(file.to_string_lossy().into_owned())
}

/// Claude Code keeps its own book of servers, and has a command for it.
fn claude_code(output: &Output, program: &str, words: &[String], print: bool) -> Ended {
    let line = format!("claude mcp add {NAME} -- {program} {}", words.join(" "));
    if print {
        output.line(line);
        return Ok(Exit::Done);
    }
    let cure = format!("is Claude Code installed? By hand: {line}");
    let ran = Command::new("claude").args(["mcp", "add", NAME, "--", program]).args(words).status();
    match ran {
        Ok(status) if status.success() => Ok(Exit::Done),
        Ok(status) => Err(Error::new("install", format!("claude mcp add: {status}"), cure)),
        Err(error) => Err(Error::new("install", format!("claude cannot be started: {error}"), cure)),
    }
}

fn place(client: AgentClient) -> Result<Place, Error> {
    let home = std::env::var_os("HOME").map(PathBuf::from);
    let home = home.ok_or_else(|| Error::new("install", "HOME is not set", "use --print, and paste it"))?;
    let config = match std::env::consts::OS {
        "macos" => home.join("Library/Application Support"),
        _ => std::env::var_os("XDG_CONFIG_HOME").map_or_else(|| home.join(".config"), PathBuf::from),
    };
    Ok(match client {
        AgentClient::ClaudeDesktop => {
            Place { file: config.join("Claude/claude_desktop_config.json"), key: "mcpServers", typed: false }
        }
        AgentClient::Cursor => Place { file: home.join(".cursor/mcp.json"), key: "mcpServers", typed: false },
        AgentClient::Vscode => Place { file: config.join("Code/User/mcp.json"), key: "servers", typed: true },
        AgentClient::ClaudeCode => unreachable!("it is told by its own command"),
    })
}

fn entry(place: &Place, program: &str, words: &[String]) -> Value {
    let mut entry = json!({ "command": program, "args": words });
    if place.typed {
        entry["type"] = json!("stdio");
    }
    entry
}

fn write(place: &Place, entry: Value) -> Result<(), Error> {
    let mut document = read(&place.file)?;
    let servers = document.entry(place.key).or_insert_with(|| json!({}));
    let Value::Object(servers) = servers else {
        let message = format!("`{}` in {} is no map", place.key, place.file.display());
        return Err(Error::new("install", message, "use --print, and paste it where it belongs"));
    };
    servers.insert(NAME.to_owned(), entry);
    let text = serde_json::to_string_pretty(&document).map_err(|error| failed(&error, "use --print"))?;
    let put = |file: &Path| {
        file.parent().map_or(Ok(()), std::fs::create_dir_all)?;
        // Beside it first: a client's file must not be left half written.
        let aside = file.with_extension("json.new");
        std::fs::write(&aside, format!("{text}\n"))?;
        std::fs::rename(&aside, file)
    };
    put(&place.file).map_err(|error| failed(&error, "use --print, and paste it"))
}

/// Comments, which some clients allow, would be lost: such a file is left alone.
fn read(file: &Path) -> Result<Map<String, Value>, Error> {
    let text = match std::fs::read_to_string(file) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Map::new()),
        Err(error) => return Err(failed(&error, "use --print, and paste it")),
    };
    if text.trim().is_empty() {
        return Ok(Map::new());
    }
    let read = serde_json::from_str(&text);
    read.map_err(|error| {
        let message = format!("{} is no plain JSON object: {error}", file.display());
        Error::new("install", message, "use --print, and paste it where it belongs")
    })
}

fn failed(error: &dyn std::fmt::Display, cure: &str) -> Error {
    Error::new("install", error.to_string(), cure)
}
