//! `actbook install --url`: connects a client to a running `serve`, with a token of its own.

use std::fs::{OpenOptions, Permissions};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;

use serde_json::{Value, json};

use super::args::{AgentClient, InstallArgs};
use super::install::{
    ClientConfigFile, NAME, client_config_file, install_error, print_written, run_claude_code, write_entry,
};
use super::session::Session;
use super::{CommandResult, Exit};
use crate::error::Error;
use crate::service::{TOKEN_LIFETIME, TokenSpec};

/// The environment variable that holds a token.
const TOKEN_VARIABLE: &str = "ACTBOOK_TOKEN";

/// Adds the server at `--url` to the client's servers. The user's own file gets the token; what is printed, and
/// Claude Code's command, name the variable that holds it.
pub async fn install(session: &Session, args: &InstallArgs) -> CommandResult {
    let url = args.url.as_deref().unwrap_or_default();
    let Some(client_file) = client_config_file(args.client)? else {
        return install_in_claude_code(session, args, url).await;
    };
    if args.client == AgentClient::ClaudeDesktop {
        let cure = "leave --url out: the client starts Actbook itself";
        return Err(install_error(&"Claude Desktop's file names commands, no addresses", cure));
    }
    if args.print {
        let entry = server_entry(&client_file, url, &format!("${{env:{TOKEN_VARIABLE}}}"));
        session.output.document(&json!({ client_file.key: { NAME: entry } }));
        return Ok(Exit::Done);
    }
    let token = token_for_client(session, args).await?;
    make_private(&client_file.file).map_err(|error| install_error(&error, "use --print, and paste it"))?;
    write_entry(&client_file, server_entry(&client_file, url, &token))?;
    print_written(&session.output, &client_file, &server_entry(&client_file, url, "…"));
    Ok(Exit::Done)
}

/// Claude Code puts the variable's value in when it connects, so its file and its command line hold no token.
async fn install_in_claude_code(session: &Session, args: &InstallArgs, url: &str) -> CommandResult {
    let header = format!("Authorization: Bearer ${{{TOKEN_VARIABLE}}}");
    let line = format!("claude mcp add --transport http {NAME} {url} --header '{header}'");
    let words = ["mcp", "add", "--transport", "http", NAME, url, "--header", &header];
    let exit = run_claude_code(&session.output, &words, &line, args.print)?;
    if !args.print && std::env::var_os(TOKEN_VARIABLE).is_none() {
        let token = token_for_client(session, args).await?;
        session.output.notice("Claude Code needs the token in its environment; this line is shown once:");
        session.output.notice(format_args!("  export {TOKEN_VARIABLE}={token}"));
    }
    Ok(exit)
}

/// The token in the environment, or a new one under the client's name.
async fn token_for_client(session: &Session, args: &InstallArgs) -> Result<String, Error> {
    if let Ok(token) = std::env::var(TOKEN_VARIABLE) {
        return Ok(token);
    }
    let name = match args.client {
        AgentClient::ClaudeCode => "claude-code",
        AgentClient::ClaudeDesktop => "claude-desktop",
        AgentClient::Cursor => "cursor",
        AgentClient::Vscode => "vscode",
        AgentClient::Codex => "codex",
        AgentClient::Gemini => "gemini",
        AgentClient::Copilot => "copilot",
    };
    let (name, role) = (name.to_owned(), args.role);
    let spec = TokenSpec { name, role, is_person: true, lifetime: TOKEN_LIFETIME };
    let created = session.service.access().create_token(&session.caller, spec).await?;
    created.token.ok_or_else(|| Error::Bug("a new token has no secret".to_owned()))
}

/// The client's entry that connects to `url` with `token`.
fn server_entry(client_file: &ClientConfigFile, url: &str, token: &str) -> Value {
    let mut entry = json!({ "url": url, "headers": { "Authorization": format!("Bearer {token}") } });
    if client_file.needs_type {
        entry["type"] = json!("http");
    }
    entry
}

/// Makes the file readable by this account alone, before a token is written into it; creates a missing one.
fn make_private(file: &Path) -> std::io::Result<()> {
    file.parent().map_or(Ok(()), std::fs::create_dir_all)?;
    OpenOptions::new().create(true).append(true).mode(0o600).open(file)?;
    std::fs::set_permissions(file, Permissions::from_mode(0o600))
}
