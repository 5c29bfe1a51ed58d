//! `tools import`: the servers that the user's other clients have already, put into our config.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use actbook::config::import::{Imported, Outcome, added, block, import as import_entry, servers_in};
use actbook::config::{Config, FILE_NAMES, Location, Standing, locate};
use actbook::error::Error;
use serde::Serialize;

use super::args::Common;
use super::output::Output;
use super::signs::{ASKS, GOOD, QUIET, painted};
use super::{Ended, Exit};

const FILE_BYTES_MAX: u64 = 16 * 1024 * 1024;
const CLIENTS: [&str; 4] = ["claude-code", "claude-desktop", "cursor", "vscode"];

/// What was done, or would be.
#[derive(Debug, Default, Serialize)]
struct Report {
    config: PathBuf,
    read: Vec<PathBuf>,
    added: Vec<String>,
    /// Names that the config had already.
    kept: Vec<String>,
    left_out: Vec<String>,
    notes: Vec<String>,
    written: bool,
    /// What was written has no effect until it is trusted.
    needs_trust: bool,
}

pub fn import(output: &Output, common: &Common, from: &str, dry_run: bool) -> Ended {
    let here =
        std::env::current_dir().map_err(|error| Error::new("io", error.to_string(), "go to a folder"))?;
    let files = sources(from, &here)?;
    let (path, text) = our_config(common)?;
    let known = Config::parse(&text, Path::new("/"))?.mcp_servers;
    let mut report = Report { config: path.clone(), ..Report::default() };
    let mut known: BTreeSet<String> = known.into_keys().collect();
    let mut taken = Vec::new();
    let mut wrong = Vec::new();
    for file in files {
        let servers = servers_in(&read(&file)?, &here).map_err(|why| unreadable(&file, &why))?;
        let environment = |name: &str| std::env::var(name).ok();
        for (name, entry) in &servers {
            match import_entry(name, entry, &here, &environment) {
                Outcome::Taken(server) if known.contains(&server.name) => report.kept.push(server.name),
                Outcome::Taken(server) => {
                    known.insert(server.name.clone());
                    report.added.push(server.name.clone());
                    report.notes.extend(server.notes.iter().map(|note| format!("{}: {note}", server.name)));
                    taken.push(server);
                }
                Outcome::LeftOut(why) => report.left_out.push(format!("{name}: {why}")),
                Outcome::Wrong(problems) => wrong.extend(problems),
            }
        }
        report.read.push(file);
    }
    if !wrong.is_empty() {
        let cure = "set what is missing, or correct the file; nothing was written";
        return Err(Error::new("cannot_import", wrong.join("; "), cure));
    }
    if !taken.is_empty() {
        let pasted = || format!("add these by hand:\nmcpServers:\n{}", block(&taken, "  "));
        let text = added(&text, &taken)
            .map_err(|why| Error::new("cannot_import", format!("{}: {why}", path.display()), pasted()))?;
        if !dry_run {
            write(&path, &text)?;
            report.written = true;
            let standing = Standing::of(common.config.as_deref(), &super::config::store());
            report.needs_trust = matches!(standing, Ok(Standing::Withheld { .. }));
        }
    }
    show(output, &report, &taken);
    Ok(Exit::Done)
}

fn show(output: &Output, report: &Report, taken: &[Imported]) {
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
        output.line(format_args!("{} {note}", painted(ASKS, "!")));
    }
    match (report.written, taken.is_empty()) {
        (true, _) => {
            let next = if report.needs_trust { "`actbook trust` takes it as yours, then " } else { "" };
            let file = report.config.display();
            output.line(format_args!("written to {file}; {next}`actbook doctor` tries them"))
        }
        (false, true) => output.line("there is nothing to add"),
        (false, false) => output.text(format!("mcpServers:\n{}", block(taken, "  ")).trim_end()),
    }
}

/// The files that a client may keep its servers in, the project's before the user's; or the file itself.
fn sources(from: &str, here: &Path) -> Result<Vec<PathBuf>, Error> {
    let places = match from {
        "claude-code" => claude_code(here),
        "claude-desktop" => {
            vec![settings().map(|folder| folder.join("Claude").join("claude_desktop_config.json"))]
        }
        "cursor" => {
            let file = |folder: PathBuf| folder.join(".cursor").join("mcp.json");
            vec![Some(file(here.to_owned())), home().map(file)]
        }
        "vscode" => vscode(here),
        file => {
            let path = PathBuf::from(file);
            return match path.is_file() {
                true => Ok(vec![path]),
                false => {
                    let message = format!("there is no file {file}, and no client of that name");
                    let cure = format!("give a file, or one of {}", CLIENTS.join(", "));
                    Err(Error::new("no_such_file", message, cure))
                }
            };
        }
    };
    let mut places: Vec<PathBuf> = places.into_iter().flatten().collect();
    // In the home folder the project's file and the user's may be one.
    places.dedup();
    let found: Vec<PathBuf> = places.iter().filter(|place| place.is_file()).cloned().collect();
    if found.is_empty() {
        let looked: Vec<String> = places.iter().map(|place| place.display().to_string()).collect();
        let message = format!("{from} has no config here; looked at {}", looked.join(", "));
        return Err(Error::new("no_such_file", message, "give the file with --from FILE"));
    }
    Ok(found)
}

fn claude_code(here: &Path) -> Vec<Option<PathBuf>> {
    let folder = std::env::var_os("CLAUDE_CONFIG_DIR").map(PathBuf::from).or_else(home);
    vec![Some(here.join(".mcp.json")), folder.map(|folder| folder.join(".claude.json"))]
}

fn vscode(here: &Path) -> Vec<Option<PathBuf>> {
    let user = settings().map(|folder| folder.join("Code").join("User"));
    vec![
        Some(here.join(".vscode").join("mcp.json")),
        user.as_ref().map(|folder| folder.join("mcp.json")),
        // Older versions kept them among the other settings; there, most files name none.
        user.map(|folder| folder.join("settings.json")).filter(|file| names_servers(file)),
    ]
}

fn names_servers(file: &Path) -> bool {
    std::fs::read_to_string(file).is_ok_and(|text| servers_in(&text, Path::new("/")).is_ok())
}

fn home() -> Option<PathBuf> {
    let name = if cfg!(windows) { "USERPROFILE" } else { "HOME" };
    std::env::var_os(name).map(PathBuf::from)
}

/// Where desktop programs keep their settings on this system.
fn settings() -> Option<PathBuf> {
    if cfg!(windows) {
        return std::env::var_os("APPDATA").map(PathBuf::from);
    }
    if cfg!(target_os = "macos") {
        return home().map(|home| home.join("Library").join("Application Support"));
    }
    let named = std::env::var_os("XDG_CONFIG_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    named.or_else(|| home().map(|home| home.join(".config")))
}

/// The config that commands here would read, or the one that they would if it were there.
fn our_config(common: &Common) -> Result<(PathBuf, String), Error> {
    let path = match locate(common.config.as_deref())? {
        Location::Named(path) | Location::WorkingFolder(path) | Location::User(path) => path,
        Location::Nowhere(_) => PathBuf::from(FILE_NAMES[0]),
    };
    let text = if path.exists() { read(&path)? } else { String::new() };
    Ok((path, text))
}

fn read(path: &Path) -> Result<String, Error> {
    let size = std::fs::metadata(path).map_err(|error| unreadable(path, &error.to_string()))?.len();
    match size > FILE_BYTES_MAX {
        true => Err(unreadable(path, &format!("{size} bytes is more than a config may have"))),
        false => std::fs::read_to_string(path).map_err(|error| unreadable(path, &error.to_string())),
    }
}

fn unreadable(path: &Path, why: &str) -> Error {
    Error::new("cannot_import", format!("{} {why}", path.display()), "give another file with --from FILE")
}

/// Beside it first, so that a full disk does not cost the config that was there.
fn write(path: &Path, text: &str) -> Result<(), Error> {
    let failed = |error: std::io::Error| {
        Error::new(
            "io",
            format!("{} cannot be written: {error}", path.display()),
            "name another with --config",
        )
    };
    let beside = path.with_extension("yaml.new");
    std::fs::write(&beside, text).map_err(failed)?;
    std::fs::rename(&beside, path).map_err(failed)
}
