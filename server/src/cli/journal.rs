//! The journal to read, and to check.

use std::fs::File;
use std::io::BufReader;
use std::path::Path;

use actbook::error::Error;
use actbook::service::view::EntryView;
use actbook::service::{JournalFilter, Verified};
use serde_json::Value;

use super::args::Journal;
use super::output::Output;
use super::session::Session;
use super::signals::TakenOver;
use super::signs::{BAD, GOOD, QUIET, painted, short};
use super::table::cut;
use super::{Ended, Exit, times};

/// Entries read at a time.
const PAGE: u64 = 500;
const VALUE_SHOWN: usize = 80;
const RECORD_SHOWN: usize = 400;
const PAYLOAD_SHOWN: usize = 4_000;

pub async fn journal(session: &Session, asked: Journal) -> Ended {
    let mut filter = filter(&asked);
    if asked.newest || asked.tail.is_some() {
        return newest(session, &asked, filter).await;
    }
    let (_listening, mut bell) = session.service.journal_bell()?;
    let mut left = asked.limit.unwrap_or(u64::MAX);
    loop {
        while left > 0 && !session.output.closed() {
            let page = session.service.journal(&filter, left.min(PAGE)).await?;
            let Some(last) = page.last() else { break };
            filter.after = last.position;
            left -= page.len() as u64;
            page.iter().for_each(|entry| show(&session.output, entry));
        }
        if left == 0 && !session.output.json {
            let more = format_args!("more: the same with --cursor {}", filter.after).to_string();
            session.output.aside(painted(QUIET, more));
        }
        if !asked.follow || left == 0 || session.output.closed() {
            return Ok(Exit::Done);
        }
        let mut signals = TakenOver::take()?;
        tokio::select! {
            changed = bell.changed() => if changed.is_err() { return Ok(Exit::Done) },
            _ = signals.next() => return Ok(Exit::Done),
        }
    }
}

/// Newest first, page by page, back to the beginning or to the limit.
async fn newest(session: &Session, asked: &Journal, mut filter: JournalFilter) -> Ended {
    let mut before = Some(filter.after).filter(|cursor| *cursor > 0);
    filter.after = 0;
    let mut left = asked.tail.or(asked.limit).unwrap_or(u64::MAX);
    while left > 0 && !session.output.closed() {
        let page = session.service.journal_newest(&filter, before, left.min(PAGE)).await?;
        let Some(last) = page.last() else { return Ok(Exit::Done) };
        before = Some(last.position);
        left -= page.len() as u64;
        page.iter().for_each(|entry| show(&session.output, entry));
    }
    if let (Some(before), 0, false) = (before, left, session.output.json) {
        let more = format_args!("more: --newest --cursor {before}").to_string();
        session.output.aside(painted(QUIET, more));
    }
    Ok(Exit::Done)
}

fn filter(asked: &Journal) -> JournalFilter {
    JournalFilter {
        execution: asked.execution.clone(),
        plan: asked.plan.clone(),
        task: asked.task.clone(),
        status: asked.status.map(|status| status.to_string()),
        kind: asked.kind.clone(),
        actor: asked.actor.clone(),
        category: asked.category.map(|category| category.to_string()),
        since: asked.since,
        until: asked.until,
        words: asked.search.iter().flat_map(|words| words.split_whitespace()).map(str::to_owned).collect(),
        after: asked.cursor,
        payloads: asked.verbose,
    }
}

/// `position time execution kind summary`
fn show(output: &Output, entry: &EntryView) {
    if output.json {
        output.entry(entry);
        return;
    }
    let execution = entry.execution.as_deref().map_or("-", short);
    let kind = entry.kind.split('.').next().unwrap_or(&entry.kind);
    let actor = if entry.actor == "actbook" { String::new() } else { format!(" by {}", entry.actor) };
    output.line(format_args!(
        "{:>6}  {}  {execution:8}  {kind:22}  {}{}",
        entry.position,
        painted(QUIET, times::date(&entry.at)),
        summary(&entry.body),
        painted(QUIET, actor)
    ));
    if let Some(payload) = &entry.payload {
        output.line(format_args!("{:18}{}", "", painted(QUIET, cut(&payload.to_string(), PAYLOAD_SHOWN))));
    }
    if let Some(recorded) = &entry.recorded {
        output.line(format_args!("{:18}{}", "", painted(QUIET, cut(&told_of(recorded), RECORD_SHOWN))));
    }
}

/// `name: value, name: value`
fn told_of(recorded: &Value) -> String {
    let Value::Object(fields) = recorded else { return recorded.to_string() };
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    fields.iter().map(|(name, value)| format!("{name}: {}", text(value))).collect::<Vec<_>>().join(", ")
}

/// The words of a body, the step first. Digests prove things to programs and say nothing to people.
fn summary(body: &Value) -> String {
    const FIRST: [&str; 5] = ["step", "name", "answer", "outcome", "status"];
    const PROOFS: [&str; 11] = [
        "arguments",
        "result",
        "inputs",
        "digest",
        "place",
        "size",
        "seat",
        "id",
        "facts",
        "details",
        "output",
    ];
    let Value::Object(fields) = body else { return body.to_string() };
    let first = FIRST.iter().filter_map(|name| fields.get_key_value(*name));
    let told = |name: &String| FIRST.contains(&name.as_str()) || PROOFS.contains(&name.as_str());
    let rest = fields.iter().filter(|(name, _)| !told(name));
    first.chain(rest).map(|(name, value)| cut(&word(name, value), VALUE_SHOWN)).collect::<Vec<_>>().join(" ")
}

fn word(name: &str, value: &Value) -> String {
    match value {
        Value::String(text) if name == "reason" => format!("“{text}”"),
        Value::String(text) => text.clone(),
        Value::Bool(true) => name.to_owned(),
        Value::Object(inner) => inner.get("name").and_then(Value::as_str).unwrap_or_default().to_owned(),
        Value::Array(names) => {
            let names: Vec<&str> = names.iter().filter_map(Value::as_str).collect();
            format!("{name} {}", names.join(", "))
        }
        Value::Null | Value::Bool(false) | Value::Number(_) => format!("{name} {value}"),
    }
}

pub async fn verify(session: &Session) -> Ended {
    let verified = session.service.verify().await?;
    Ok(told(&session.output, &verified, "the journal"))
}

/// An export, without any database.
pub fn verify_file(output: &Output, file: &Path) -> Ended {
    let failed = |error: std::io::Error| {
        let message = format!("{} cannot be read: {error}", file.display());
        Error::new("io", message, "give a file that `actbook export` wrote")
    };
    let verified = actbook::service::verify_file(BufReader::new(File::open(file).map_err(failed)?))?;
    Ok(told(output, &verified, &file.display().to_string()))
}

pub fn told(output: &Output, verified: &Verified, what: &str) -> Exit {
    let exit = if verified.ok { Exit::Done } else { Exit::Failed };
    if output.json {
        output.document(verified);
        return exit;
    }
    match &verified.bad {
        Some(bad) => {
            output.line(format_args!(
                "{} {what} does not hold at position {}: {}",
                painted(BAD, "✗"),
                bad.position,
                bad.why
            ));
        }
        None => {
            let erased = match verified.erased {
                0 => String::new(),
                count => format!(", {count} executions erased by `cleanup`"),
            };
            let (entries, payloads) = (verified.entries, verified.payloads);
            let sign = painted(GOOD, "✓");
            output
                .line(format_args!("{sign} {what} is whole: {entries} entries, {payloads} payloads{erased}"));
            output.line(format_args!("  head {} {}", verified.position, verified.hash));
            verified.notes.iter().for_each(|note| output.line(format_args!("  note: {note}")));
        }
    }
    exit
}
