//! `doctor`: one line for each thing that must be in order, with the cure where it is not.

use std::path::Path;
use std::time::Instant;

use actbook::error::Error;
use actbook::service::ServerState;
use futures_util::future::join_all;
use serde::Serialize;

use super::session::Session;
use super::signs::{BAD, GOOD, QUIET, STRONG, painted};
use super::{Ended, Exit, times};

#[derive(Debug, Serialize)]
struct Line {
    what: &'static str,
    ok: bool,
    says: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    cure: Option<String>,
}

impl Line {
    fn ok(what: &'static str, says: impl Into<String>) -> Self {
        Self { what, ok: true, says: says.into(), cure: None }
    }

    fn problem(what: &'static str, says: impl Into<String>, cure: impl Into<String>) -> Self {
        Self { what, ok: false, says: says.into(), cure: Some(cure.into()) }
    }
}

pub async fn doctor(session: &Session) -> Ended {
    let mut lines = vec![database(session), head(session).await?, config(session), data_folder()];
    lines.extend(servers(session).await);
    lines.push(seats(session).await?);
    let well = lines.iter().all(|line| line.ok);
    let output = &session.output;
    if output.json {
        output.document(&lines);
    } else {
        for line in &lines {
            let sign = if line.ok { painted(GOOD, "ok     ") } else { painted(BAD, "problem") };
            output.line(format_args!(
                "{sign}  {}  {}",
                painted(STRONG, format_args!("{:8}", line.what)),
                line.says
            ));
            if let Some(cure) = &line.cure {
                output.line(format_args!("         {}", painted(QUIET, format_args!("→ {cure}"))));
            }
        }
    }
    Ok(if well { Exit::Done } else { Exit::Failed })
}

/// It is open, so it is reachable, migrated, and was found to sync what it acknowledges.
fn database(session: &Session) -> Line {
    let described = session.service.describe_database();
    let is_postgres = session.database.starts_with("postgres");
    let durable =
        if is_postgres { "fsync and synchronous_commit are on" } else { "write-ahead log, synchronous=FULL" };
    let path = session.database.trim_start_matches("sqlite://").trim_start_matches("sqlite:");
    let size = std::fs::metadata(path).ok().filter(|_| !is_postgres).map(|found| {
        format!(", {} (`actbook backup FILE` copies it while others write)", bytes(found.len()))
    });
    Line::ok("database", format!("{described}, {durable}{}", size.unwrap_or_default()))
}

fn bytes(count: u64) -> String {
    match count {
        0..10_000 => format!("{count} bytes"),
        10_000..10_000_000 => format!("{} kB", count / 1000),
        10_000_000.. => format!("{} MB", count / 1_000_000),
    }
}

async fn head(session: &Session) -> Result<Line, Error> {
    let (position, hash) = session.service.head().await?;
    Ok(Line::ok(
        "journal",
        format!("head at position {position}, {}… (`actbook verify` checks it whole)", &hash[..16]),
    ))
}

fn config(session: &Session) -> Line {
    let servers = session.service.server_names().len();
    match &session.config.file {
        Some(file) => Line::ok("config", format!("{}, {servers} servers", file.display())),
        None => Line::problem(
            "config",
            "none found, so there are no tools",
            "write actbook.yaml here, or give --config",
        ),
    }
}

fn data_folder() -> Line {
    let folder = actbook::folders::data();
    let cure = "make it writable, or set XDG_DATA_HOME";
    match try_writing(&folder) {
        Ok(()) => Line::ok("folder", format!("{} is writable", folder.display())),
        Err(error) => Line::problem("folder", format!("{}: {error}", folder.display()), cure),
    }
}

fn try_writing(folder: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(folder)?;
    let probe = folder.join(format!(".doctor-{}", std::process::id()));
    std::fs::write(&probe, b"")?;
    std::fs::remove_file(&probe)
}

async fn servers(session: &Session) -> Vec<Line> {
    let names = session.service.server_names();
    join_all(names.iter().map(|name| server(session, name))).await
}

/// Started and asked for its tools.
async fn server(session: &Session, name: &str) -> Line {
    let started = Instant::now();
    let listed = session.service.list_tools_of(name).await;
    let took = times::took(i64::try_from(started.elapsed().as_millis()).unwrap_or(i64::MAX));
    let misnamed = session.service.words_for_nobody(name).await;
    match listed.error {
        None if let Some((tool, meant)) = misnamed.first() => {
            let cure = meant.as_ref().map_or_else(
                || format!("`actbook tools list {name}` shows what it has"),
                |meant| format!("did you mean `{meant}`?"),
            );
            Line::problem(
                "server",
                format!("{name}: the config speaks of a tool `{tool}` that it does not have"),
                cure,
            )
        }
        None => {
            let state = session.service.server_state(name).map(|state| state_words(&state));
            let state = state.unwrap_or_default();
            Line::ok(
                "server",
                format!("{name} answers with {} tools after {took}{state}", listed.tools.len()),
            )
        }
        Some(error) => {
            let cure = "try its command by hand; correct it in the config";
            Line::problem("server", format!("{name}: {error}"), cure)
        }
    }
}

/// ` (up, process 4711, protocol 2025-11-25)`
fn state_words(state: &ServerState) -> String {
    let process = state.process.map(|process| format!(", process {process}"));
    let protocol = state.protocol.as_ref().map(|protocol| format!(", protocol {protocol}"));
    let falls = (state.falls > 0).then(|| format!(", fell {} times in a row", state.falls));
    let rest = [process, protocol, falls].into_iter().flatten().collect::<String>();
    format!(" ({}{rest})", state.state)
}

async fn seats(session: &Session) -> Result<Line, Error> {
    let seats = session.service.seats().await?;
    let (alive, dead): (Vec<_>, Vec<_>) = seats.into_iter().partition(|seat| seat.alive);
    let names: Vec<String> =
        dead.iter().map(|seat| format!("{} on {}", seat.driver.process, seat.driver.host)).collect();
    let stranded = session.service.stranded().await?;
    let says = format!("{} processes drive", alive.len());
    Ok(match (stranded.as_slice(), names.is_empty()) {
        ([], true) => Line::ok("seats", says),
        ([], false) => {
            Line::ok("seats", format!("{says}; gone without a word, leaving nothing: {}", names.join(", ")))
        }
        ([first, ..], _) => {
            let cure = format!("`actbook resume {}` takes one up", super::signs::short(first));
            Line::problem(
                "seats",
                format!("{says}; {} executions have lost their driver", stranded.len()),
                cure,
            )
        }
    })
}
