//! `hook`: answers one event of an agent's client. Whatever goes wrong, a call that is about to begin is denied.

use std::io::Read;
use std::path::PathBuf;
use std::time::Duration;

use super::args::{CommonArgs, HookArgs};
use super::config::{self, ConfigNeed};
use super::output::Output;
use super::session::Session;
use super::{CommandResult, Exit};
use crate::config::{DatabaseUsage, nearest_config_folder};
use crate::error::{CommandLineCode, Error};
use crate::guard::{Guard, HookAnswer, HookClient, HookEvent, answer_hook};

/// The variable in which Claude Code gives a hook the folder of its project.
const PROJECT_VARIABLE: &str = "CLAUDE_PROJECT_DIR";

/// Time that is left before the client's limit when an answer is given up: after it, clients make the call.
const ANSWER_MARGIN: Duration = Duration::from_secs(1);

/// Longest event, in bytes: a client sends whole files, before and after an edit.
const EVENT_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// Reads the event, answers it, and turns every failure into a denial in the client's own form.
pub async fn hook(output: &Output, common: &CommonArgs, args: &HookArgs) -> CommandResult {
    let client = args.client;
    let limit = args.limit.map_or(client.default_limit(), Duration::from_millis);
    let event = match read_event().and_then(|text| parse_event(client, &text)) {
        Ok(event) => event,
        Err(error) => return Ok(block(output, client, &error)),
    };
    let blocks = event.blocks_on_failure();
    let (common, output_of_task, event_of_task) = (common.clone(), output.clone(), event.clone());
    let task =
        tokio::spawn(async move { answer(&output_of_task, &common, client, &event_of_task, limit).await });
    let answered = match tokio::time::timeout(limit.saturating_sub(ANSWER_MARGIN), task).await {
        Ok(ended) => ended.unwrap_or_else(|panic| Err(Error::Bug(panic.to_string()))),
        Err(_) => Err(timed_out(limit)),
    };
    match answered {
        Ok(answer) => {
            if let Some(document) = answer.document(client, &event) {
                output.raw(format!("{document}\n").as_bytes());
            }
            Ok(Exit::Done)
        }
        Err(error) if blocks => Ok(block(output, client, &error)),
        Err(error) => Err(error),
    }
}

/// Opens the database and lets the guard answer. Nothing is closed: only the end of a session writes the database's log
/// back.
async fn answer(
    output: &Output,
    common: &CommonArgs,
    client: HookClient,
    event: &HookEvent,
    limit: Duration,
) -> Result<HookAnswer, Error> {
    if common.config.is_none() {
        enter_guarded_folder(event);
    }
    let config = config::load_config(ConfigNeed::Trusted, common, output)?;
    if let Some(withheld) = &config.withheld {
        return Err(withheld.into());
    }
    let session = Session::open_for(common, config, output.clone(), DatabaseUsage::Hook).await?;
    let guard = Guard { service: &session.service, config: &session.config };
    let answer = answer_hook(&guard, client, event, limit).await?;
    if event.ends_session() {
        session.service.close().await;
    }
    Ok(answer)
}

/// Goes to the folder whose config guards the session: that of the project, as the client names it, or where it names
/// none the agent's; in either case the nearest one from there upwards that has a config. An agent leaves no guard behind
/// by changing its folder, and the user's own config is one too.
fn enter_guarded_folder(event: &HookEvent) {
    let named = std::env::var_os(PROJECT_VARIABLE).map(PathBuf::from).filter(|folder| folder.is_absolute());
    let project = named.or_else(|| event.project.as_deref().map(PathBuf::from));
    let is_project = project.is_some();
    let Some(folder) = project.or_else(|| event.folder.as_deref().map(PathBuf::from)) else { return };
    // A project that is gone has the config above it. An agent's folder that is gone has none: the call is then judged
    // where the client started the hook.
    let existing = || folder.ancestors().find(|folder| folder.is_dir() || !is_project);
    if let Some(folder) = nearest_config_folder(&folder).or_else(existing) {
        drop(std::env::set_current_dir(folder));
    }
}

/// The error of a call about which there is no answer shortly before the client's limit.
fn timed_out(limit: Duration) -> Error {
    let message = format!("no answer within the client's limit of {} s", limit.as_secs());
    Error::command_line(CommandLineCode::Io, message, "`actbook doctor` says whether the database answers")
}

fn read_event() -> Result<String, Error> {
    let unreadable = |why: String| {
        let message = format!("the event cannot be read: {why}");
        Error::command_line(CommandLineCode::Io, message, "send it on stdin")
    };
    let mut bytes = Vec::new();
    let read = std::io::stdin().lock().take(EVENT_BYTES_MAX + 1).read_to_end(&mut bytes);
    if read.map_err(|error| unreadable(error.to_string()))? as u64 > EVENT_BYTES_MAX {
        let message = format!("the event is larger than {} MiB", EVENT_BYTES_MAX / (1024 * 1024));
        return Err(Error::command_line(CommandLineCode::BadInput, message, "make the call in parts"));
    }
    String::from_utf8(bytes).map_err(|error| unreadable(error.to_string()))
}

fn parse_event(client: HookClient, text: &str) -> Result<HookEvent, Error> {
    let wrong = |why: String| {
        let cure = "`actbook help guard` says which clients are understood";
        Error::command_line(CommandLineCode::BadInput, why, cure)
    };
    HookEvent::parse(client, text).map_err(wrong)
}

/// Denies the call: the clients block on exit code 2 with a text on stderr; Cursor reads a document.
fn block(output: &Output, client: HookClient, error: &Error) -> Exit {
    let reason = format!("denies this call: {error}\n  → {}", error.cure());
    if let Some(document) = HookAnswer::failure_document(client, &reason) {
        output.raw(format!("{document}\n").as_bytes());
        return Exit::Done;
    }
    output.notice(format_args!("Actbook denies this call: {error}"));
    output.notice(format_args!("  → {}", error.cure()));
    Exit::Blocks
}
