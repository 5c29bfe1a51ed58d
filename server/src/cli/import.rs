//! `tools import`: copies the MCP servers of the user's other clients into Actbook's config.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::config::import::{
    ImportOutcome, ImportedServer, add_servers, import_server as import_entry, servers_in, servers_yaml,
};
use crate::config::{Config, ConfigLocation, ConfigStatus, FILE_NAMES, locate_config};
use crate::error::{CommandLineCode, Error};
use crate::folders::replace_file;
use serde::Serialize;

use super::args::CommonArgs;
use super::output::Output;
use super::status_style::{ATTENTION, GOOD, QUIET, painted};
use super::{CommandResult, Exit};

const FILE_BYTES_MAX: u64 = 16 * 1024 * 1024;
const CLIENTS: [&str; 4] = ["claude-code", "claude-desktop", "cursor", "vscode"];

/// What `tools import` copied from other clients' configs, or with `--dry-run` would copy.
#[derive(Debug, Default, Serialize)]
struct ImportReport {
    config: PathBuf,
    read: Vec<PathBuf>,
    added: Vec<String>,
    /// Servers that the config already had; they are not changed.
    kept: Vec<String>,
    left_out: Vec<String>,
    notes: Vec<String>,
    written: bool,
    /// The config has no effect until it is trusted.
    needs_trust: bool,
}

/// Adds the servers of a client's config or of a file. Nothing is written if one of them is invalid.
pub fn import(output: &Output, common: &CommonArgs, from: &str, dry_run: bool) -> CommandResult {
    let here = std::env::current_dir()
        .map_err(|error| Error::command_line(CommandLineCode::Io, error.to_string(), "go to a folder"))?;
    let files = source_files(from, &here)?;
    let (path, text) = read_own_config(common)?;
    let known = Config::parse(&text, Path::new("/"))?.mcp_servers;
    let mut report = ImportReport { config: path.clone(), ..ImportReport::default() };
    let mut known: BTreeSet<String> = known.into_keys().collect();
    let mut imported = Vec::new();
    let mut problems = Vec::new();
    for file in files {
        let servers = servers_in(&read_file(&file)?, &here).map_err(|why| unreadable_error(&file, &why))?;
        let environment = |name: &str| std::env::var(name).ok();
        for (name, entry) in &servers {
            match import_entry(name, entry, &here, &environment) {
                ImportOutcome::Imported(server) if known.contains(&server.name) => {
                    report.kept.push(server.name)
                }
                ImportOutcome::Imported(server) => {
                    known.insert(server.name.clone());
                    report.added.push(server.name.clone());
                    report.notes.extend(server.notes.iter().map(|note| format!("{}: {note}", server.name)));
                    imported.push(server);
                }
                ImportOutcome::Skipped(why) => report.left_out.push(format!("{name}: {why}")),
                ImportOutcome::Invalid(found) => problems.extend(found),
            }
        }
        report.read.push(file);
    }
    if !problems.is_empty() {
        let cure = "set what is missing, or correct the file; nothing was written";
        return Err(Error::command_line(CommandLineCode::CannotImport, problems.join("; "), cure));
    }
    if !imported.is_empty() {
        let by_hand = || format!("add these by hand:\nmcpServers:\n{}", servers_yaml(&imported, "  "));
        let text = add_servers(&text, &imported).map_err(|why| {
            let message = format!("{}: {why}", path.display());
            Error::command_line(CommandLineCode::CannotImport, message, by_hand())
        })?;
        if !dry_run {
            replace_file(&path, &text).map_err(|error| {
                let message = format!("{} cannot be written: {error}", path.display());
                Error::command_line(CommandLineCode::Io, message, "name another with --config")
            })?;
            report.written = true;
            let standing = ConfigStatus::determine(common.config.as_deref(), &super::config::trust_store());
            report.needs_trust = matches!(standing, Ok(ConfigStatus::Withheld { .. }));
        }
    }
    print_report(output, &report, &imported);
    Ok(Exit::Done)
}

/// Prints the report; without writing also the config text to paste.
fn print_report(output: &Output, report: &ImportReport, imported: &[ImportedServer]) {
    if output.json {
        return output.document(report);
    }
    for file in &report.read {
        output.line(painted(QUIET, format_args!("read {}", file.display())));
    }
    let word = if report.written { "added" } else { "would be added" };
    for name in &report.added {
        output.line(format_args!("{} {word}: {name}", painted(GOOD, "+")));
    }
    for name in &report.kept {
        output.line(format_args!("  kept as it is: {name}"));
    }
    for why in &report.left_out {
        output.line(format_args!("  left out: {why}"));
    }
    for note in &report.notes {
        output.line(format_args!("{} {note}", painted(ATTENTION, "!")));
    }
    match (report.written, imported.is_empty()) {
        (true, _) => {
            let next = if report.needs_trust { "`actbook trust` trusts it, then " } else { "" };
            let file = report.config.display();
            output.line(format_args!("written to {file}; {next}`actbook doctor` tries them"))
        }
        (false, true) => output.line("there is nothing to add"),
        (false, false) => output.text(format!("mcpServers:\n{}", servers_yaml(imported, "  ")).trim_end()),
    }
}

/// The existing files that a client keeps its servers in, the project's before the user's; or `from` itself
/// if it is a file. `Err` if there is none.
fn source_files(from: &str, here: &Path) -> Result<Vec<PathBuf>, Error> {
    let candidates = match from {
        "claude-code" => claude_code_files(here),
        "claude-desktop" => {
            vec![settings_folder().map(|folder| folder.join("Claude").join("claude_desktop_config.json"))]
        }
        "cursor" => {
            let file = |folder: PathBuf| folder.join(".cursor").join("mcp.json");
            vec![Some(file(here.to_owned())), home_folder().map(file)]
        }
        "vscode" => vscode_files(here),
        file => {
            let path = PathBuf::from(file);
            return if path.is_file() {
                Ok(vec![path])
            } else {
                let message = format!("there is no file {file}, and no client of that name");
                let cure = format!("give a file, or one of {}", CLIENTS.join(", "));
                Err(Error::command_line(CommandLineCode::NoSuchFile, message, cure))
            };
        }
    };
    let mut candidates: Vec<PathBuf> = candidates.into_iter().flatten().collect();
    // In the home folder the project's file and the user's may be the same.
    candidates.dedup();
    let found: Vec<PathBuf> = candidates.iter().filter(|file| file.is_file()).cloned().collect();
    if found.is_empty() {
        let searched: Vec<String> = candidates.iter().map(|file| file.display().to_string()).collect();
        let message = format!("{from} has no config here; looked at {}", searched.join(", "));
        let cure = "give the file with --from FILE";
        return Err(Error::command_line(CommandLineCode::NoSuchFile, message, cure));
    }
    Ok(found)
}

fn claude_code_files(here: &Path) -> Vec<Option<PathBuf>> {
    let folder = std::env::var_os("CLAUDE_CONFIG_DIR").map(PathBuf::from).or_else(home_folder);
    vec![Some(here.join(".mcp.json")), folder.map(|folder| folder.join(".claude.json"))]
}

fn vscode_files(here: &Path) -> Vec<Option<PathBuf>> {
    let user = settings_folder().map(|folder| folder.join("Code").join("User"));
    vec![
        Some(here.join(".vscode").join("mcp.json")),
        user.as_ref().map(|folder| folder.join("mcp.json")),
        // Older versions kept servers in the general settings; skip the file if it names none.
        user.map(|folder| folder.join("settings.json")).filter(|file| names_servers(file)),
    ]
}

/// Whether the file can be read and has a list of MCP servers, even an empty one.
fn names_servers(file: &Path) -> bool {
    std::fs::read_to_string(file).is_ok_and(|text| servers_in(&text, Path::new("/")).is_ok())
}

fn home_folder() -> Option<PathBuf> {
    let name = if cfg!(windows) { "USERPROFILE" } else { "HOME" };
    std::env::var_os(name).map(PathBuf::from)
}

/// The folder where desktop programs keep their settings on this system; `None` if the environment does not
/// tell.
fn settings_folder() -> Option<PathBuf> {
    if cfg!(windows) {
        return std::env::var_os("APPDATA").map(PathBuf::from);
    }
    if cfg!(target_os = "macos") {
        return home_folder().map(|home| home.join("Library").join("Application Support"));
    }
    let named = std::env::var_os("XDG_CONFIG_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    named.or_else(|| home_folder().map(|home| home.join(".config")))
}

/// The path and text of the config that commands here read. If there is none, a file in the working folder,
/// with empty text.
fn read_own_config(common: &CommonArgs) -> Result<(PathBuf, String), Error> {
    let path = match locate_config(common.config.as_deref())? {
        ConfigLocation::Named(path) | ConfigLocation::WorkingFolder(path) | ConfigLocation::User(path) => {
            path
        }
        ConfigLocation::Nowhere(_) => PathBuf::from(FILE_NAMES[0]),
    };
    let text = if path.exists() { read_file(&path)? } else { String::new() };
    Ok((path, text))
}

/// Reads a text file of at most `FILE_BYTES_MAX`.
fn read_file(path: &Path) -> Result<String, Error> {
    let size = std::fs::metadata(path).map_err(|error| unreadable_error(path, &error.to_string()))?.len();
    if size > FILE_BYTES_MAX {
        return Err(unreadable_error(path, &format!("{size} bytes is more than a config may have")));
    }
    std::fs::read_to_string(path).map_err(|error| unreadable_error(path, &error.to_string()))
}

fn unreadable_error(path: &Path, why: &str) -> Error {
    let message = format!("{} {why}", path.display());
    Error::command_line(CommandLineCode::CannotImport, message, "give another file with --from FILE")
}
