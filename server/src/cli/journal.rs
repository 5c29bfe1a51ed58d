//! `journal` prints entries; `verify` checks the chain, of the database or of an exported file.

use std::fs::File;
use std::io::BufReader;
use std::path::Path;

use crate::error::{CommandLineCode, Error};
use crate::service::view::EntryView;
use crate::service::{JournalFilter, VerifyReport};
use serde_json::Value;

use super::args::JournalArgs;
use super::output::Output;
use super::session::Session;
use super::signals::SignalGuard;
use super::status_style::{BAD, GOOD, QUIET, painted, short_id};
use super::table::truncate;
use super::{CommandResult, Exit, times};

/// Entries read at a time.
const PAGE_ENTRIES: u64 = 500;
const VALUE_SHOWN: usize = 80;
const RECORD_SHOWN: usize = 400;
const PAYLOAD_SHOWN: usize = 4_000;
const NOTHING_FITS: &str = "no entry matches";

/// Prints the entries that fit, oldest first, and with `--follow` those that are appended until Ctrl-C.
pub async fn journal(session: &Session, args: JournalArgs) -> CommandResult {
    let mut filter = journal_filter(&args);
    if args.newest || args.tail.is_some() {
        return print_newest(session, &args, filter).await;
    }
    let (_listening, mut appended) = session.service.journal().subscribe()?;
    let mut left = args.limit.unwrap_or(u64::MAX);
    loop {
        while left > 0 && !session.output.is_closed() {
            let page = session.service.journal().list(&filter, left.min(PAGE_ENTRIES)).await?;
            let Some(last) = page.last() else { break };
            filter.after = last.position;
            left -= page.len() as u64;
            page.iter().for_each(|entry| print_entry(&session.output, entry));
        }
        if filter.after == args.cursor && !args.follow {
            session.output.notice(NOTHING_FITS);
        }
        if left == 0 && !session.output.json {
            let more = format_args!("more: the same with --cursor {}", filter.after).to_string();
            session.output.notice(painted(QUIET, more));
        }
        if !args.follow || left == 0 || session.output.is_closed() {
            return Ok(Exit::Done);
        }
        let mut signals = SignalGuard::register()?;
        tokio::select! {
            changed = appended.changed() => if changed.is_err() { return Ok(Exit::Done) },
            _ = signals.next() => return Ok(Exit::Done),
        }
    }
}

/// Prints entries newest first, page by page, back to the beginning or to the limit.
async fn print_newest(session: &Session, args: &JournalArgs, mut filter: JournalFilter) -> CommandResult {
    let mut before = Some(filter.after).filter(|cursor| *cursor > 0);
    filter.after = 0;
    let mut left = args.tail.or(args.limit).unwrap_or(u64::MAX);
    while left > 0 && !session.output.is_closed() {
        let page = session.service.journal().list_newest(&filter, before, left.min(PAGE_ENTRIES)).await?;
        let Some(last) = page.last() else {
            if before.is_none() {
                session.output.notice(NOTHING_FITS);
            }
            return Ok(Exit::Done);
        };
        before = Some(last.position);
        left -= page.len() as u64;
        page.iter().for_each(|entry| print_entry(&session.output, entry));
    }
    if let (Some(before), 0, false) = (before, left, session.output.json) {
        let more = format_args!("more: --newest --cursor {before}").to_string();
        session.output.notice(painted(QUIET, more));
    }
    Ok(Exit::Done)
}

fn journal_filter(args: &JournalArgs) -> JournalFilter {
    JournalFilter {
        execution: args.execution.clone(),
        plan: args.plan.clone(),
        task: args.task.clone(),
        status: args.status,
        kind: args.kind.clone(),
        actor: args.actor.clone(),
        category: args.category,
        since: args.since,
        until: args.until,
        words: args.search.iter().flat_map(|words| words.split_whitespace()).map(str::to_owned).collect(),
        after: args.cursor,
        payloads: args.verbose,
    }
}

/// Prints one entry: position, time, execution, kind, summary; then its payload and recorded facts, if
/// loaded.
fn print_entry(output: &Output, entry: &EntryView) {
    if output.json {
        output.entry(entry);
        return;
    }
    let execution = entry.execution.as_deref().map_or("-", short_id);
    let kind = entry.kind.split('.').next().unwrap_or(&entry.kind);
    let actor = if entry.actor == "actbook" { String::new() } else { format!(" by {}", entry.actor) };
    output.line(format_args!(
        "{:>6}  {}  {execution:8}  {kind:22}  {}{}",
        entry.position,
        painted(QUIET, times::local_date_time(&entry.at)),
        body_summary(&entry.body),
        painted(QUIET, actor)
    ));
    if let Some(payload) = &entry.payload {
        output.line(format_args!(
            "{:18}{}",
            "",
            painted(QUIET, truncate(&payload.to_string(), PAYLOAD_SHOWN))
        ));
    }
    if let Some(recorded) = &entry.recorded {
        output.line(format_args!(
            "{:18}{}",
            "",
            painted(QUIET, truncate(&fields_text(recorded), RECORD_SHOWN))
        ));
    }
}

/// `name: value, name: value`; a value that is no object as JSON.
fn fields_text(recorded: &Value) -> String {
    let Value::Object(fields) = recorded else { return recorded.to_string() };
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    fields.iter().map(|(name, value)| format!("{name}: {}", text(value))).collect::<Vec<_>>().join(", ")
}

/// One line of the fields of a body for people: the most telling first, without digests and other values that
/// only programs use.
fn body_summary(body: &Value) -> String {
    const FIRST: [&str; 5] = ["step", "name", "answer", "outcome", "status"];
    const HIDDEN: [&str; 11] = [
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
    let listed_or_hidden = |name: &String| FIRST.contains(&name.as_str()) || HIDDEN.contains(&name.as_str());
    let rest = fields.iter().filter(|(name, _)| !listed_or_hidden(name));
    first
        .chain(rest)
        .map(|(name, value)| truncate(&field_text(name, value), VALUE_SHOWN))
        .collect::<Vec<_>>()
        .join(" ")
}

/// One field in words: a text as it is, a true flag by its name, others as `name value`.
fn field_text(name: &str, value: &Value) -> String {
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

/// Verifies the whole journal of the database.
pub async fn verify(session: &Session) -> CommandResult {
    let verified = session.service.journal().verify().await?;
    Ok(print_verified(&session.output, &verified, "the journal"))
}

/// Verifies an exported file, without any database.
pub fn verify_file(output: &Output, file: &Path) -> CommandResult {
    let failed = |error: std::io::Error| {
        let message = format!("{} cannot be read: {error}", file.display());
        Error::command_line(CommandLineCode::Io, message, "give a file that `actbook export` wrote")
    };
    let verified = crate::service::verify_file(BufReader::new(File::open(file).map_err(failed)?))?;
    Ok(print_verified(output, &verified, &file.display().to_string()))
}

/// Prints the result of a verification of `what`; `Exit::Failed` if it found a bad entry.
pub fn print_verified(output: &Output, verified: &VerifyReport, what: &str) -> Exit {
    let exit = if verified.ok { Exit::Done } else { Exit::Failed };
    if output.json {
        output.document(verified);
        return exit;
    }
    match &verified.bad {
        Some(bad) if verified.list_differs => {
            output.line(format_args!("{} {} (position {})", painted(BAD, "✗"), bad.why, bad.position));
        }
        Some(bad) => {
            output.line(format_args!(
                "{} {what} is not valid at position {}: {}",
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
