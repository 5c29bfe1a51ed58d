//! `undo`: takes back what may have run. A session is undone part by part, the newest first; its preview names each call
//! with what becomes of it.

use actbook_engine::policy::ExecutionStatus;
use actbook_engine::refusal::Refusal;

use super::args::UndoArgs;
use super::control::drive_or_hand_over;
use super::foreground::Goal;
use super::output::Output;
use super::session::Session;
use super::status_style::{ATTENTION, BAD, QUIET, STRONG, painted, short_id};
use super::table::truncate;
use super::{CommandResult, Exit, brief};
use crate::error::{CommandLineCode, Error};
use crate::service::{CallUndoView, ExecutionWatcher, StayingEffect, UndoClass, UndoSelection};

/// Paths that one line names.
const PATHS_SHOWN: usize = 6;
const ARGUMENTS_SHOWN: usize = 160;

/// Requests the undo of whatever may have run, and drives or watches it.
pub async fn undo(session: &Session, args: &UndoArgs) -> CommandResult {
    let selection = args.selection();
    let parts = parts_to_undo(session, args, &selection).await?;
    let mut end = Err(Refusal::NothingToUndo { has_ended: false }.into());
    for (index, part) in parts.iter().enumerate() {
        let is_last = index + 1 == parts.len();
        // `--from` names a call of the part that was given; later parts are undone as a whole.
        let of_part = UndoSelection { from: selection.from.clone().filter(|_| is_last), ..selection.clone() };
        match undo_part(session, part, args, &of_part).await {
            Err(Error::Refused(Refusal::NothingToUndo { .. })) if parts.len() > 1 => {}
            Ok(Exit::Done) => end = Ok(Exit::Done),
            other => return other,
        }
    }
    end
}

/// The parts of the session that are undone, newest first: all, or those from the given one on.
async fn parts_to_undo(
    session: &Session,
    args: &UndoArgs,
    selection: &UndoSelection,
) -> Result<Vec<String>, Error> {
    let found = session.service.executions().find(&args.execution).await?;
    let mut parts = session.service.sessions().parts_newest_first(found.id.as_str()).await?;
    if selection.from.is_some()
        && let Some(named) = parts.iter().position(|part| part.as_str() == found.id.as_str())
    {
        parts.truncate(named + 1);
    }
    Ok(parts)
}

async fn undo_part(session: &Session, id: &str, args: &UndoArgs, selection: &UndoSelection) -> CommandResult {
    if !args.here {
        session.service.executions().require_drivable(id).await?;
    }
    let executions = session.service.executions();
    let found = executions.find(id).await?;
    let asked = if *selection == UndoSelection::default() {
        executions.undo(&session.caller, id, args.reason.clone()).await
    } else {
        executions.undo_selected(&session.caller, id, args.reason.clone(), selection).await
    };
    match asked {
        Ok(_) => {}
        Err(Error::Refused(Refusal::AlreadyUndoing)) if found.status != ExecutionStatus::Blocked => {}
        Err(error) => return Err(error),
    }
    drive_or_hand_over(session, &found, args.here, args.detach.detach, Goal::Undo).await
}

/// `undo --dry-run`: prints what an undo would do, in order; an error if that is nothing.
pub async fn preview_undo(session: &Session, args: &UndoArgs) -> CommandResult {
    let selection = args.selection();
    let parts = parts_to_undo(session, args, &selection).await?;
    let mut watching = Vec::new();
    for part in &parts {
        watching.push(session.service.executions().watch(part).await?);
    }
    if watching.last().is_some_and(|part| part.execution().session.is_some()) {
        return preview_session(session, &watching, &selection).await;
    }
    let watching = watching.pop().expect("an execution is its own part");
    if selection != UndoSelection::default() {
        return Err(Refusal::NotASession.into());
    }
    let brief = watching.brief().await?;
    if session.output.json {
        session.output.document(&brief);
        return Ok(Exit::Done);
    }
    if brief.undo.is_empty() {
        return Err(nothing_to_undo(&watching));
    }
    brief::print_undo_calls(&session.output, &brief, usize::MAX);
    for left in &brief.cannot_undo {
        session.output.line(format_args!("  stays: {}: {}", left.step, left.why));
    }
    Ok(Exit::Done)
}

/// Prints what an undo of a session's parts would do with each call, newest first; an error if that is
/// nothing.
async fn preview_session(
    session: &Session,
    parts: &[ExecutionWatcher],
    selection: &UndoSelection,
) -> CommandResult {
    let mut calls = Vec::new();
    for (index, part) in parts.iter().enumerate() {
        let from = selection.from.clone().filter(|_| index + 1 == parts.len());
        let of_part = UndoSelection { from, ..selection.clone() };
        calls.extend(part.session_undo(&of_part).await?.unwrap_or_default());
    }
    if session.output.json {
        session.output.document(&serde_json::json!({ "calls": calls }));
        return Ok(Exit::Done);
    }
    if calls.is_empty() {
        return Err(nothing_to_undo(parts.last().expect("a session has a part")));
    }
    print_session_undo(&session.output, &calls);
    Ok(Exit::Done)
}

fn nothing_to_undo(watching: &ExecutionWatcher) -> Error {
    let cure = format!("`actbook show {}` shows what ran", short_id(watching.execution().id.as_str()));
    Error::command_line(CommandLineCode::NothingToUndo, "nothing that ran is left to undo", cure)
}

/// Prints what an undo would do with each call, newest first.
pub fn print_session_undo(output: &Output, calls: &[CallUndoView]) {
    output.line(format_args!("  {}", painted(QUIET, "undo would, newest call first:")));
    for call in calls {
        let what = match call.class {
            UndoClass::Restored => painted(STRONG, "restore"),
            UndoClass::Compensated => painted(STRONG, "take back"),
            UndoClass::CannotUndo => painted(BAD, "cannot undo"),
        };
        output.line(format_args!("    {} {} {what}{}", call.step, call.tool, call_text(call)));
        for StayingEffect { path, why } in &call.stays {
            let path = path.as_ref().map(|path| format!("{path}: ")).unwrap_or_default();
            output.line(format_args!(
                "       {}",
                painted(ATTENTION, format_args!("{path}{why}: {}", why.text()))
            ));
        }
    }
}

fn call_text(call: &CallUndoView) -> String {
    let mut text = String::new();
    if let Some(tool) = &call.call {
        let arguments = call.arguments.as_ref().map(ToString::to_string).unwrap_or_default();
        text += &format!(" by {tool} {}", truncate(&arguments, ARGUMENTS_SHOWN));
    }
    if !call.restores.is_empty() {
        text += &format!(" {}", paths_text(&call.restores));
    }
    if !call.removes.is_empty() {
        text += &format!("; made by it, goes to the trash folder: {}", paths_text(&call.removes));
    }
    let is_without_files = call.class == UndoClass::Restored && text.is_empty();
    if is_without_files { " (no file changed)".to_owned() } else { text }
}

fn paths_text(paths: &[String]) -> String {
    let shown = paths[..paths.len().min(PATHS_SHOWN)].join(", ");
    let more = paths.len().saturating_sub(PATHS_SHOWN);
    if more > 0 { format!("{shown} and {more} more") } else { shown }
}
