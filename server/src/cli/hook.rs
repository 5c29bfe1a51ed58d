//! `hook`: answers one event of an agent's client. Whatever goes wrong, a call that is about to begin is denied.

use std::io::Read;
use std::time::Duration;

use super::args::{CommonArgs, HookArgs};
use super::config::{self, ConfigNeed};
use super::output::Output;
use super::session::Session;
use super::{CommandResult, Exit};
use crate::error::{CommandLineCode, Error};
use crate::guard::{Guard, HookAnswer, HookClient, HookEvent, answer_hook};

/// Longest event, in bytes: a client sends whole files.
const EVENT_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// Reads the event, answers it, and turns every failure into a denial in the client's own form.
pub async fn hook(output: &Output, common: &CommonArgs, args: &HookArgs) -> CommandResult {
    let client = args.client;
    let limit = args.limit.map_or(client.default_limit(), Duration::from_millis);
    let event = match read_event().and_then(|text| parse_event(client, &text)) {
        Ok(event) => event,
        Err(error) => return Ok(block(output, &error)),
    };
    let blocks = event.blocks_on_failure();
    let (common, output_of_task, event_of_task) = (common.clone(), output.clone(), event.clone());
    let task =
        tokio::spawn(async move { answer(&output_of_task, &common, client, &event_of_task, limit).await });
    let answered = task.await.unwrap_or_else(|panic| Err(Error::Bug(panic.to_string())));
    match answered {
        Ok(answer) => {
            if let Some(document) = answer.document(client, &event) {
                output.raw(format!("{document}\n").as_bytes());
            }
            Ok(Exit::Done)
        }
        Err(error) if blocks => Ok(block(output, &error)),
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
    let config = config::load_config(ConfigNeed::Trusted, common, output)?;
    if let Some(withheld) = &config.withheld {
        return Err(withheld.into());
    }
    let session = Session::open(common, config, output.clone()).await?;
    let guard = Guard { service: &session.service, config: &session.config };
    let answer = answer_hook(&guard, client, event, limit).await?;
    if event.ends_session() {
        session.service.close().await;
    }
    Ok(answer)
}

fn read_event() -> Result<String, Error> {
    let mut text = String::new();
    let read = std::io::stdin().lock().take(EVENT_BYTES_MAX).read_to_string(&mut text);
    let failed = |error: std::io::Error| {
        Error::command_line(
            CommandLineCode::Io,
            format!("the event cannot be read: {error}"),
            "send it on stdin",
        )
    };
    read.map(|_| text).map_err(failed)
}

fn parse_event(client: HookClient, text: &str) -> Result<HookEvent, Error> {
    let wrong = |why: String| {
        let cure = "`actbook help guard` says which clients are understood";
        Error::command_line(CommandLineCode::BadInput, why, cure)
    };
    HookEvent::parse(client, text).map_err(wrong)
}

/// Denies the call: the clients block on exit code 2 with a text on stderr.
fn block(output: &Output, error: &Error) -> Exit {
    output.notice(format_args!("Actbook denies this call: {error}"));
    output.notice(format_args!("  → {}", error.cure()));
    Exit::Blocks
}
