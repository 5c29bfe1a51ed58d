//! `context`: writes, reads, searches and deletes notes.

use crate::error::Error;
use crate::service::{NoteFilter, NoteOwner, NoteOwnerRef, NoteSpec, NoteValueView, NoteView};
use serde_json::Value;

use super::args::{ContextSubcommand, NoteOwnerArgs};
use super::session::Session;
use super::status_style::{QUIET, painted};
use super::table::truncate;
use super::{CommandResult, Exit, times};

const SEARCH_LIMIT_DEFAULT: u64 = 20;
const VALUE_SHOWN: usize = 300;

/// Runs `actbook context …`.
pub async fn context(session: &Session, subcommand: ContextSubcommand) -> CommandResult {
    match subcommand {
        ContextSubcommand::Set { key, value, r#type, owner, metadata, expires_in, everywhere } => {
            let (belongs, everywhere) = (owner_filter(owner), everywhere.then_some(true));
            let expires_in_ms = expires_in;
            let given = NoteSpec { key, value, r#type, owner: belongs, metadata, expires_in_ms, everywhere };
            let written = session.service.notes().set(&session.caller, given).await?;
            let text =
                format!("noted {} (value {}, position {})", written.key, written.version, written.position);
            print_result(session, &written, &text)
        }
        ContextSubcommand::Get { key, owner, history } => get(session, key, owner, history).await,
        ContextSubcommand::Search { words, r#type, owner, limit } => {
            search(session, words.join(" "), r#type, owner, limit).await
        }
        ContextSubcommand::Delete { key, owner } => {
            let deleted = session.service.notes().delete(&session.caller, &key, &owner_filter(owner)).await?;
            let text = format!("deleted {key} (position {}); its history stays", deleted.position);
            print_result(session, &deleted, &text)
        }
    }
}

/// The owner flags as the service takes them.
fn owner_filter(owner: NoteOwnerArgs) -> NoteOwnerRef {
    NoteOwnerRef { task: owner.task, plan: owner.plan, execution: owner.execution }
}

/// Prints `text`, or with `--json` the document.
fn print_result(session: &Session, document: &impl serde::Serialize, text: &str) -> CommandResult {
    if session.output.json {
        session.output.document(document);
    } else {
        session.output.line(text);
    }
    Ok(Exit::Done)
}

/// Prints the newest value of a key, or every value it had. Further lines are marked; `--json` is exact.
async fn get(session: &Session, key: String, owner: NoteOwnerArgs, history: bool) -> CommandResult {
    let filter =
        NoteFilter { key: Some(key.clone()), owner: owner_filter(owner), history, ..NoteFilter::default() };
    let Some(note) = session.service.notes().get(&filter).await? else {
        return Err(Error::NoSuchNote { key });
    };
    let output = &session.output;
    if output.json {
        output.document(&note);
        return Ok(Exit::Done);
    }
    match &note.history {
        Some(history) => history.iter().for_each(|value| output.line(history_line(value))),
        None => output.line(note_text(&note.value)),
    }
    Ok(Exit::Done)
}

/// Prints the notes that contain all words, with their source.
async fn search(
    session: &Session,
    words: String,
    r#type: Option<String>,
    owner: NoteOwnerArgs,
    limit: Option<u64>,
) -> CommandResult {
    let search = (!words.trim().is_empty()).then_some(words);
    let filter = NoteFilter { search, r#type, owner: owner_filter(owner), ..NoteFilter::default() };
    let found = session.service.notes().list(&filter, limit.unwrap_or(SEARCH_LIMIT_DEFAULT)).await?;
    let output = &session.output;
    if output.json {
        output.document(&found);
        return Ok(Exit::Done);
    }
    if found.notes.is_empty() {
        output.line("no note matches");
    }
    for note in &found.notes {
        output.line(format_args!("{} ({}) {}", note.key, note.r#type, painted(QUIET, note_source(note))));
        let value = note_text(&note.value);
        let excerpt = note.excerpt.as_deref().filter(|_| value.chars().count() > VALUE_SHOWN);
        output.line(format_args!("  {}", truncate(excerpt.unwrap_or(&value), VALUE_SHOWN)));
    }
    Ok(Exit::Done)
}

/// `position 12, 2030-01-31 12:00:00 by person:ada, task TASK-12`
pub fn note_source(note: &NoteView) -> String {
    let owner = match &note.owner {
        NoteOwner { task: Some(task), .. } => format!(", task {task}"),
        NoteOwner { plan_id: Some(plan), .. } => format!(", plan {plan}"),
        NoteOwner { execution_id: Some(execution), .. } => format!(", execution {execution}"),
        NoteOwner { .. } => String::new(),
    };
    format!("position {}, {} by {}{owner}", note.position, times::local_date_time(&note.at), note.author)
}

/// One line of a note's history: position, time, author, value.
fn history_line(value: &NoteValueView) -> String {
    let text = value.value.as_ref().map_or_else(|| "deleted".to_owned(), note_text);
    let from = format!("{:>6}  {}  {}", value.position, times::local_date_time(&value.at), value.author);
    format!("{}  {}", painted(QUIET, from), truncate(&text, VALUE_SHOWN))
}

/// A string as it is; any other value as JSON.
pub fn note_text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        value => value.to_string(),
    }
}
