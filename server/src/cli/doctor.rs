//! `doctor`: checks the database, the journal, the config, the data folder, the servers and the processes,
//! and prints a line for each, with the cure for a problem.

use std::path::Path;
use std::time::Instant;

use crate::config::UnknownWord;
use crate::error::Error;
use crate::tools::ServerState;
use futures_util::future::join_all;
use serde::Serialize;

use super::session::Session;
use super::status_style::{BAD, GOOD, QUIET, STRONG, painted};
use super::{CommandResult, Exit, hook_checks, times};

/// The result of one check.
#[derive(Debug, Serialize)]
struct DoctorCheck {
    /// What was checked, in one word.
    what: &'static str,
    ok: bool,
    says: String,
    /// What to do about a problem, or about what has no effect.
    #[serde(skip_serializing_if = "Option::is_none")]
    cure: Option<String>,
}

impl DoctorCheck {
    fn passed(what: &'static str, says: impl Into<String>) -> Self {
        Self { what, ok: true, says: says.into(), cure: None }
    }

    fn problem(what: &'static str, says: impl Into<String>, cure: impl Into<String>) -> Self {
        Self { what, ok: false, says: says.into(), cure: Some(cure.into()) }
    }
}

/// Runs all checks and prints them; `Exit::Failed` if one found a problem.
pub async fn doctor(session: &Session) -> CommandResult {
    let mut lines = vec![
        check_database(session),
        check_journal_head(session).await?,
        check_config(session),
        check_data_folder(),
    ];
    lines.extend(check_unknown_words(session));
    lines.extend(check_servers(session).await);
    let disabled = session.config.disabled_servers.iter();
    lines.extend(
        disabled.map(|name| DoctorCheck::passed("server", format!("{name} is disabled in the config"))),
    );
    lines.push(check_nodes(session).await?);
    lines.extend(hook_checks::check_hooks().into_iter().map(|found| match found.cure {
        None => DoctorCheck::passed("hooks", found.says),
        Some(cure) => DoctorCheck::problem("hooks", found.says, cure),
    }));
    let all_ok = lines.iter().all(|line| line.ok);
    let output = &session.output;
    if output.json {
        output.document(&lines);
    } else {
        for line in &lines {
            let verdict = if line.ok { painted(GOOD, "ok     ") } else { painted(BAD, "problem") };
            output.line(format_args!(
                "{verdict}  {}  {}",
                painted(STRONG, format_args!("{:8}", line.what)),
                line.says
            ));
            if let Some(cure) = &line.cure {
                output.line(format_args!("         {}", painted(QUIET, format_args!("→ {cure}"))));
            }
        }
    }
    Ok(if all_ok { Exit::Done } else { Exit::Failed })
}

/// Always ok: the session has opened the database, so it is reachable, migrated, and syncs what it
/// acknowledges.
fn check_database(session: &Session) -> DoctorCheck {
    let described = session.service.describe_database();
    let is_postgres = session.database.starts_with("postgres");
    let durable =
        if is_postgres { "fsync and synchronous_commit are on" } else { "write-ahead log, synchronous=FULL" };
    let path = session.database.trim_start_matches("sqlite://").trim_start_matches("sqlite:");
    let size = std::fs::metadata(path).ok().filter(|_| !is_postgres).map(|found| {
        format!(", {} (`actbook backup FILE` copies it while others write)", size_text(found.len()))
    });
    DoctorCheck::passed("database", format!("{described}, {durable}{}", size.unwrap_or_default()))
}

/// A size in bytes, kB or MB.
fn size_text(count: u64) -> String {
    match count {
        0..10_000 => format!("{count} bytes"),
        10_000..10_000_000 => format!("{} kB", count / 1000),
        10_000_000.. => format!("{} MB", count / 1_000_000),
    }
}

/// The journal's head position and the beginning of its hash; the entries are not verified.
async fn check_journal_head(session: &Session) -> Result<DoctorCheck, Error> {
    let (position, hash) = session.service.journal().head().await?;
    Ok(DoctorCheck::passed(
        "journal",
        format!("head at position {position}, {}… (`actbook verify` checks it whole)", &hash[..16]),
    ))
}

fn check_config(session: &Session) -> DoctorCheck {
    let servers = session.service.catalog().server_names().len();
    match &session.config.file {
        Some(file) => DoctorCheck::passed("config", format!("{}, {servers} servers", file.display())),
        None => DoctorCheck::problem(
            "config",
            "none found, so there are no tools",
            "write actbook.yaml here, or give --config",
        ),
    }
}

/// A line for each key of the config that has no effect. Not a problem: it may be meant for another client.
fn check_unknown_words(session: &Session) -> impl Iterator<Item = DoctorCheck> {
    session.config.unknown_words.iter().map(|word| DoctorCheck {
        cure: Some(word.cure()),
        ..DoctorCheck::passed("config", format!("`{}` {}", word.path, UnknownWord::MESSAGE))
    })
}

fn check_data_folder() -> DoctorCheck {
    let folder = crate::folders::data_folder();
    let cure = "make it writable, or set XDG_DATA_HOME";
    match try_write(&folder) {
        Ok(()) => DoctorCheck::passed("folder", format!("{} is writable", folder.display())),
        Err(error) => DoctorCheck::problem("folder", format!("{}: {error}", folder.display()), cure),
    }
}

/// Creates the folder if need be, and writes and removes a file in it.
fn try_write(folder: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(folder)?;
    let probe = folder.join(format!(".doctor-{}", std::process::id()));
    std::fs::write(&probe, b"")?;
    std::fs::remove_file(&probe)
}

async fn check_servers(session: &Session) -> Vec<DoctorCheck> {
    let names = session.service.catalog().server_names();
    join_all(names.iter().map(|name| check_server(session, name))).await
}

/// Starts one server and lists its tools; a problem if that fails, or if the config names a tool it does not
/// have.
async fn check_server(session: &Session, name: &str) -> DoctorCheck {
    let started = Instant::now();
    let listed = session.service.catalog().list_server(name).await;
    let took = times::elapsed_text(i64::try_from(started.elapsed().as_millis()).unwrap_or(i64::MAX));
    let misnamed = session.service.catalog().unknown_configured_tools(name).await;
    match listed.error {
        None if let Some((tool, meant)) = misnamed.first() => {
            let cure = meant.as_ref().map_or_else(
                || format!("`actbook tools list {name}` shows what it has"),
                |meant| format!("did you mean `{meant}`?"),
            );
            DoctorCheck::problem(
                "server",
                format!("{name}: the config names a tool `{tool}` that it does not have"),
                cure,
            )
        }
        None => {
            let state = session.service.catalog().server_state(name).map(|state| state_text(&state));
            let state = state.unwrap_or_default();
            DoctorCheck::passed(
                "server",
                format!("{name} answers with {} tools after {took}{state}", listed.tools.len()),
            )
        }
        Some(error) => {
            let unset = session.service.catalog().unset_variables_of_server(name);
            let cure = match unset.first() {
                None => "try its command by hand; correct it in the config".to_owned(),
                Some(first) => {
                    let unset = unset.join(", ");
                    format!(
                        "set {unset} where actbook runs, or give a default in the config: ${{env:{first}:-…}}"
                    )
                }
            };
            DoctorCheck::problem("server", format!("{name}: {error}"), cure)
        }
    }
}

/// ` (up, process 4711, protocol 2025-11-25)`
fn state_text(state: &ServerState) -> String {
    let process = state.process.map(|process| format!(", process {process}"));
    let protocol = state.protocol.as_ref().map(|protocol| format!(", protocol {protocol}"));
    let falls = (state.falls > 0).then(|| format!(", failed {} times in a row", state.falls));
    let rest = [process, protocol, falls].into_iter().flatten().collect::<String>();
    format!(" ({}{rest})", state.state)
}

/// How many processes drive, and whether executions have lost their driver.
async fn check_nodes(session: &Session) -> Result<DoctorCheck, Error> {
    let nodes = session.service.executions().nodes().await?;
    let (alive, dead): (Vec<_>, Vec<_>) = nodes.into_iter().partition(|node| node.alive);
    let names: Vec<String> =
        dead.iter().map(|node| format!("{} on {}", node.driver.process, node.driver.host)).collect();
    let stranded = session.service.executions().list_orphaned().await?;
    let says = format!("{} processes drive", alive.len());
    Ok(match (stranded.as_slice(), names.is_empty()) {
        ([], true) => DoctorCheck::passed("seats", says),
        ([], false) => DoctorCheck::passed(
            "seats",
            format!("{says}; exited without leaving work behind: {}", names.join(", ")),
        ),
        ([first, ..], _) => {
            let cure = format!("`actbook resume {}` continues one", super::status_style::short_id(first));
            DoctorCheck::problem(
                "seats",
                format!("{says}; {} executions have lost their driver", stranded.len()),
                cure,
            )
        }
    })
}
