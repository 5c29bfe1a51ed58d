//! Notes: written, read, searched, deleted.

use actbook::error::Error;
use actbook::service::{Belongs, NoteFilter, NoteGiven, NoteView, Owner, ValueView};
use serde_json::Value;

use super::args::{Context as Asked, Of};
use super::session::Session;
use super::signs::{QUIET, painted};
use super::table::cut;
use super::{Ended, Exit, times};

const LIMIT: u64 = 20;
const VALUE_SHOWN: usize = 300;

pub async fn context(session: &Session, asked: Asked) -> Ended {
    match asked {
        Asked::Set { key, value, r#type, of, metadata, expires_in, everywhere } => {
            let (belongs, everywhere) = (belongs(of), everywhere.then_some(true));
            let expires_in_ms = expires_in;
            let given = NoteGiven { key, value, r#type, belongs, metadata, expires_in_ms, everywhere };
            let written = session.service.set_note(&session.caller, given).await?;
            let text =
                format!("noted {} (value {}, position {})", written.key, written.version, written.position);
            told(session, &written, &text)
        }
        Asked::Get { key, of, history } => get(session, key, of, history).await,
        Asked::Search { words, r#type, of, limit } => {
            search(session, words.join(" "), r#type, of, limit).await
        }
        Asked::Delete { key, of } => {
            let deleted = session.service.delete_note(&session.caller, &key, &belongs(of)).await?;
            let text = format!("deleted {key} (position {}); its history stays", deleted.position);
            told(session, &deleted, &text)
        }
    }
}

fn belongs(of: Of) -> Belongs {
    Belongs { task: of.task, plan: of.plan, execution: of.execution }
}

fn told(session: &Session, shown: &impl serde::Serialize, text: &str) -> Ended {
    match session.output.json {
        true => session.output.document(shown),
        false => session.output.line(text),
    }
    Ok(Exit::Done)
}

/// The newest note that bears the key; its text alone, so that scripts can use it.
async fn get(session: &Session, key: String, of: Of, history: bool) -> Ended {
    let filter =
        NoteFilter { key: Some(key.clone()), belongs: belongs(of), history, ..NoteFilter::default() };
    let Some(note) = session.service.note(&filter).await? else {
        let message = format!("there is no note `{key}`");
        return Err(Error::new("no_such_note", message, "`actbook context search WORDS` finds notes"));
    };
    let output = &session.output;
    if output.json {
        output.document(&note);
        return Ok(Exit::Done);
    }
    match &note.history {
        Some(history) => history.iter().for_each(|value| output.line(value_line(value))),
        None => output.text(text(&note.value)),
    }
    Ok(Exit::Done)
}

async fn search(
    session: &Session,
    words: String,
    r#type: Option<String>,
    of: Of,
    limit: Option<u64>,
) -> Ended {
    let search = (!words.trim().is_empty()).then_some(words);
    let filter = NoteFilter { search, r#type, belongs: belongs(of), ..NoteFilter::default() };
    let found = session.service.notes(&filter, limit.unwrap_or(LIMIT)).await?;
    let output = &session.output;
    if output.json {
        output.document(&found);
        return Ok(Exit::Done);
    }
    if found.notes.is_empty() {
        output.line("no note fits");
    }
    for note in &found.notes {
        output.line(format_args!("{} ({}) {}", note.key, note.r#type, painted(QUIET, source(note))));
        let said = note.excerpt.clone().unwrap_or_else(|| text(&note.value));
        output.line(format_args!("  {}", cut(&said, VALUE_SHOWN)));
    }
    Ok(Exit::Done)
}

/// Where it came from.
pub fn source(note: &NoteView) -> String {
    let of = match &note.of {
        Owner { task: Some(task), .. } => format!(", task {task}"),
        Owner { plan_id: Some(plan), .. } => format!(", plan {plan}"),
        Owner { execution_id: Some(execution), .. } => format!(", execution {execution}"),
        Owner { .. } => String::new(),
    };
    format!("position {}, {} by {}{of}", note.position, times::date(&note.at), note.author)
}

fn value_line(value: &ValueView) -> String {
    let said = value.value.as_ref().map_or_else(|| "deleted".to_owned(), text);
    let from = format!("{:>6}  {}  {}", value.position, times::date(&value.at), value.author);
    format!("{}  {}", painted(QUIET, from), cut(&said, VALUE_SHOWN))
}

pub fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        value => value.to_string(),
    }
}
