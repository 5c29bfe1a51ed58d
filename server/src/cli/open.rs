//! `open`: signs a person in to the dashboard of a running `serve`, by a one-time URL.

use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::json;

use super::session::Session;
use super::{CommandResult, Exit};
use crate::error::{CommandLineCode, Error};
use crate::web;

/// The page that leads the browser to the one-time URL. A command line would show the code to every process of the
/// machine; this file is the account's own.
const REDIRECT_FILE: &str = "open.html";

/// Prints a one-time URL of the running server and opens it in the browser, if there is one at this terminal.
pub async fn open(session: &Session) -> CommandResult {
    let urls = session.service.executions().served_urls().await?;
    let Some(base_url) = urls.first() else {
        let cure = "start it: `actbook serve`, with the same --database";
        return Err(Error::command_line(CommandLineCode::NobodyServes, "no `serve` is running", cure));
    };
    let code = session.service.access().create_login_code(&session.caller).await?;
    let url = web::login_url(base_url, &code);
    if session.output.json {
        session.output.document(&json!({ "url": url }));
        return Ok(Exit::Done);
    }
    session.output.line(&url);
    session.output.notice("good once, within ten minutes");
    if session.output.is_live()
        && !is_over_ssh()
        && let Err(error) = open_in_browser(&url)
    {
        session.output.notice(format_args!("the browser was not opened: {error}"));
    }
    Ok(Exit::Done)
}

/// Whether the terminal is at the end of an ssh connection, so that a browser started here would not be seen.
fn is_over_ssh() -> bool {
    std::env::var_os("SSH_CONNECTION").is_some()
}

fn open_in_browser(url: &str) -> std::io::Result<()> {
    let file = write_redirect(&crate::folders::data_folder(), url)?;
    let program = if std::env::consts::OS == "macos" { "open" } else { "xdg-open" };
    let mut command = Command::new(program);
    command.arg(file).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().map(drop)
}

/// Writes the page that leads to `url`, readable by this account alone; replaces the last one.
fn write_redirect(folder: &Path, url: &str) -> std::io::Result<PathBuf> {
    std::fs::create_dir_all(folder)?;
    let file = folder.join(REDIRECT_FILE);
    match std::fs::remove_file(&file) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
        Ok(()) | Err(_) => {}
    }
    let mut options = std::fs::OpenOptions::new();
    let mut page = options.write(true).create_new(true).mode(0o600).open(&file)?;
    page.write_all(format!("<!doctype html><meta http-equiv=refresh content=\"0;url={url}\">\n").as_bytes())?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn redirect_file_is_readable_by_its_account_alone() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join(REDIRECT_FILE), "old, and readable by all").unwrap();
        let file = write_redirect(folder.path(), "http://127.0.0.1:1/login?code=abs_x").unwrap();
        assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        assert!(std::fs::read_to_string(&file).unwrap().contains("url=http://127.0.0.1:1/login?code=abs_x"));
    }
}
