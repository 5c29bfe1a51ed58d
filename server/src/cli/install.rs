//! `actbook install`: adds this binary to an agent client's list of MCP servers, or prints what to add. The
//! rest of the client's file stays as it is.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::error::{CommandLineCode, Error};
use crate::folders::replace_file;
use serde_json::{Map, Value, json};

use super::args::{AgentClient, CommonArgs, InstallArgs};
use super::output::Output;
use super::{CommandResult, Exit, config};

/// The name of the server in the client's list.
pub const NAME: &str = "actbook";
/// What a client that is no command line needs besides: it starts Actbook in a folder of its own.
const CONFIG_HINT: &str =
    "the client starts it in a folder of its own: --with-config actbook.yaml names the servers to offer";

/// The file in which a client keeps its MCP servers, and the key of the list in it.
pub struct ClientConfigFile {
    pub file: PathBuf,
    pub key: &'static str,
    /// Entries must name their transport (VS Code).
    pub needs_type: bool,
}

/// Adds `actbook mcp`, with this command line's config and database, to the client's servers.
pub fn install(output: &Output, common: &CommonArgs, args: &InstallArgs) -> CommandResult {
    let program =
        std::env::current_exe().map_err(|error| install_error(&error, "start actbook by its full path"))?;
    let program = program.to_string_lossy().into_owned();
    let mut arguments = vec!["mcp".to_owned()];
    arguments.extend(args.guard.then(|| "--guard".to_owned()));
    if args.config.is_none() && common.config.is_none() && !args.print {
        config::offer_trust(output)?;
    }
    let config = args.config.as_ref().or(common.config.as_ref());
    if let Some(config) = config {
        if !config.is_file() {
            let message = format!("there is no file {}", config.display());
            return Err(install_error(&message, "name the config that the client's Actbook should use"));
        }
        let config =
            std::path::absolute(config).map_err(|error| install_error(&error, "name another --config"))?;
        arguments.extend(["--config".to_owned(), config.to_string_lossy().into_owned()]);
    }
    if let Some(database) = &common.database {
        arguments.extend(["--database".to_owned(), portable_database(database)?]);
    }
    if common.unsafe_durability {
        arguments.push("--unsafe-durability".to_owned());
    }
    let Some(client_file) = client_config_file(args.client)? else {
        return install_in_claude_code(output, &program, &arguments, args.print);
    };
    let entry = server_entry(&client_file, &program, &arguments);
    if args.print {
        output.document(&json!({ client_file.key: { NAME: entry } }));
    } else {
        write_entry(&client_file, entry.clone())?;
        print_written(output, &client_file, &entry);
    }
    if config.is_none() {
        output.notice(CONFIG_HINT);
    }
    Ok(Exit::Done)
}

pub fn print_written(output: &Output, client_file: &ClientConfigFile, entry: &Value) {
    let file = client_file.file.display();
    if output.json {
        output.document(&json!({ "file": client_file.file, client_file.key: { NAME: entry } }));
    } else {
        output.line(format_args!("{NAME} is in {file}; start the client again"));
    }
}

/// The database address as the client can use it: a file by its full path, since the client starts in another
/// folder. `Err` if the address holds a password, which must not be written to the client's file.
pub fn portable_database(database: &str) -> Result<String, Error> {
    match database.split_once("://") {
        Some((_, rest))
            if rest.split('@').next().is_some_and(|who| rest.contains('@') && who.contains(':')) =>
        {
            let cure = "leave it out here, and give the client ACTBOOK_DATABASE in its environment";
            Err(install_error(&"the database's address holds a password", cure))
        }
        Some(("sqlite", file)) => absolute_path(file),
        Some(_) => Ok(database.to_owned()),
        None => absolute_path(database),
    }
}

fn absolute_path(file: &str) -> Result<String, Error> {
    let file = std::path::absolute(file).map_err(|error| install_error(&error, "name another --database"))?;
    Ok(file.to_string_lossy().into_owned())
}

/// Adds the command that starts Actbook to Claude Code's servers.
fn install_in_claude_code(
    output: &Output,
    program: &str,
    arguments: &[String],
    print: bool,
) -> CommandResult {
    let line = format!("claude mcp add {NAME} -- {program} {}", arguments.join(" "));
    let words = ["mcp", "add", NAME, "--", program].into_iter().chain(arguments.iter().map(String::as_str));
    run_claude_code(output, &words.collect::<Vec<_>>(), &line, print)
}

/// Claude Code has a command that adds a server: runs it, or prints it. `line`: the command as a shell reads it.
pub fn run_claude_code(output: &Output, words: &[&str], line: &str, print: bool) -> CommandResult {
    let document = json!({ "command": "claude", "args": words });
    if print {
        if output.json {
            output.document(&document)
        } else {
            output.line(line)
        }
        return Ok(Exit::Done);
    }
    let cure = format!("is Claude Code installed? By hand: {line}");
    let mut command = Command::new("claude");
    command.args(words);
    if output.json {
        // Stdout is for one document.
        command.stdout(std::process::Stdio::null());
    }
    match command.status() {
        Ok(status) if status.success() => {
            if output.json {
                output.document(&document);
            }
            Ok(Exit::Done)
        }
        Ok(status) => Err(install_error(&format_args!("claude mcp add: {status}"), &cure)),
        Err(error) => Err(install_error(&format_args!("claude cannot be started: {error}"), &cure)),
    }
}

/// The client's file on this system; `None` for Claude Code, whose own command adds servers. `Err` if HOME is
/// not set.
pub fn client_config_file(client: AgentClient) -> Result<Option<ClientConfigFile>, Error> {
    let home = || {
        let home = std::env::var_os("HOME").map(PathBuf::from);
        home.ok_or_else(|| install_error(&"HOME is not set", "use --print, and paste it"))
    };
    let config = |home: PathBuf| match std::env::consts::OS {
        "macos" => home.join("Library/Application Support"),
        _ => std::env::var_os("XDG_CONFIG_HOME").map_or_else(|| home.join(".config"), PathBuf::from),
    };
    let (file, key, needs_type) = match client {
        AgentClient::ClaudeCode => return Ok(None),
        AgentClient::ClaudeDesktop => {
            (config(home()?).join("Claude/claude_desktop_config.json"), "mcpServers", false)
        }
        AgentClient::Cursor => (home()?.join(".cursor/mcp.json"), "mcpServers", false),
        AgentClient::Vscode => (config(home()?).join("Code/User/mcp.json"), "servers", true),
        AgentClient::Codex | AgentClient::Gemini | AgentClient::Copilot => {
            let cure = "add --hooks; as a server, name `actbook mcp` to the client's own command (`actbook help clients`)";
            return Err(install_error(&"only the hooks of this client are installed", cure));
        }
    };
    Ok(Some(ClientConfigFile { file, key, needs_type }))
}

/// The client's entry that starts `program` with `arguments`.
fn server_entry(client_file: &ClientConfigFile, program: &str, arguments: &[String]) -> Value {
    let mut entry = json!({ "command": program, "args": arguments });
    if client_file.needs_type {
        entry["type"] = json!("stdio");
    }
    entry
}

/// Inserts or replaces the entry in the client's file.
pub fn write_entry(client_file: &ClientConfigFile, entry: Value) -> Result<(), Error> {
    let mut document = read_document(&client_file.file)?;
    let servers = document.entry(client_file.key).or_insert_with(|| json!({}));
    let Value::Object(servers) = servers else {
        let message = format!("`{}` in {} is not a map", client_file.key, client_file.file.display());
        return Err(install_error(&message, "use --print, and paste it where it belongs"));
    };
    servers.insert(NAME.to_owned(), entry);
    let text =
        serde_json::to_string_pretty(&document).map_err(|error| install_error(&error, "use --print"))?;
    let replace = |file: &Path| {
        file.parent().map_or(Ok(()), std::fs::create_dir_all)?;
        replace_file(file, &format!("{text}\n"))
    };
    replace(&client_file.file).map_err(|error| install_error(&error, "use --print, and paste it"))
}

/// Reads the client's file; empty if there is none. `Err` if it is not plain JSON: comments, which some
/// clients allow, would be lost by rewriting it.
fn read_document(file: &Path) -> Result<Map<String, Value>, Error> {
    let text = match std::fs::read_to_string(file) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Map::new()),
        Err(error) => return Err(install_error(&error, "use --print, and paste it")),
    };
    if text.trim().is_empty() {
        return Ok(Map::new());
    }
    let parsed = serde_json::from_str(&text);
    parsed.map_err(|error| {
        let message = format!("{} is not a plain JSON object: {error}", file.display());
        install_error(&message, "use --print, and paste it where it belongs")
    })
}

pub fn install_error(message: &dyn std::fmt::Display, cure: &str) -> Error {
    Error::command_line(CommandLineCode::Install, message.to_string(), cure)
}
