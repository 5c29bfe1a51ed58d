//! Asks the person at the terminal for an approval: shows what would happen, then reads yes, no, or later.

use std::io::{IsTerminal, Stdin};

use crate::error::{CommandLineCode, Error};
use crate::service::view::{AnswerOption, QuestionKind};
use crate::service::{ExecutionWatcher, PersonQuestion, QuestionMedium};
use actbook_engine::refusal::Refusal;
use rustix::termios::{QueueSelector, tcflush};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use super::foreground::{Events, WatchEvent};
use super::output::Output;
use super::session::Session;
use super::status_style::{ATTENTION, painted};

const PROMPT: &str = "[y: yes, n: no, Enter: later; a reason may follow]";

/// What happened while the prompt waited for a line.
enum PromptEvent {
    Line(String),
    /// The execution has new journal entries, so the question may be obsolete.
    Changed,
    /// A signal arrived, or stdin ended.
    Interrupted,
}

/// The person's typed line, parsed. `Yes` and `No` carry the reason, if one was typed.
#[derive(Debug, PartialEq, Eq)]
enum ApprovalReply {
    Yes(Option<String>),
    No(Option<String>),
    Later,
    Unclear,
}

impl ApprovalReply {
    /// Parses `y` or `no wrong version`: an answer, then an optional reason. An empty line is `Later`.
    fn parse(line: &str) -> Self {
        let (word, reason) = line.trim().split_once(char::is_whitespace).unwrap_or((line.trim(), ""));
        let reason = Some(reason.trim().to_owned()).filter(|reason| !reason.is_empty());
        match word.to_lowercase().as_str() {
            "y" | "yes" => Self::Yes(reason),
            "n" | "no" => Self::No(reason),
            "" => Self::Later,
            _ => Self::Unclear,
        }
    }
}

/// Asks the person at the terminal for the first approval that the execution waits for. True: the question was
/// answered, here or by another process, or has changed: the caller drives on. False: there is no terminal, no
/// open approval, or the person postponed the answer.
pub async fn ask_for_approval(session: &Session, id: &str, events: &mut Events) -> Result<bool, Error> {
    if !is_interactive(&session.output) {
        return Ok(false);
    }
    let Some(question) = open_approvals(session, id).await?.into_iter().next() else { return Ok(false) };
    let mut watching = session.service.executions().watch(id).await?;
    session.output.line("");
    session.output.wrapped_text(&question.text);
    loop {
        let reply = match wait_for_reply(session, events, &mut watching).await? {
            PromptEvent::Line(line) => ApprovalReply::parse(&line),
            PromptEvent::Changed if is_still_open(session, id, &question).await? => continue,
            PromptEvent::Changed => {
                session.output.line("the question has been answered elsewhere, or has changed");
                return Ok(true);
            }
            PromptEvent::Interrupted => ApprovalReply::Later,
        };
        if reply == ApprovalReply::Unclear {
            continue;
        }
        return submit_reply(session, id, &question, reply).await;
    }
}

/// Whether a question can be shown and a line read.
fn is_interactive(output: &Output) -> bool {
    output.is_live() && std::io::stdin().is_terminal()
}

/// The approvals that the execution waits for now.
async fn open_approvals(session: &Session, id: &str) -> Result<Vec<PersonQuestion>, Error> {
    let (_, mut questions) =
        session.service.executions().person_questions(id, None, QuestionMedium::Terminal).await?;
    questions.retain(|question| question.waiting.kind == QuestionKind::Approval);
    Ok(questions)
}

/// Whether the same question, by its digest, is still open.
async fn is_still_open(session: &Session, id: &str, question: &PersonQuestion) -> Result<bool, Error> {
    Ok(open_approvals(session, id).await?.iter().any(|open| open.digest == question.digest))
}

/// Sends a yes or no to the service, unless the question has changed since it was shown. False: nothing was
/// decided because the reply is `Later`.
async fn submit_reply(
    session: &Session,
    id: &str,
    question: &PersonQuestion,
    reply: ApprovalReply,
) -> Result<bool, Error> {
    let (option, reason) = match reply {
        ApprovalReply::Later | ApprovalReply::Unclear => return Ok(false),
        ApprovalReply::Yes(reason) => (AnswerOption::Approve, reason),
        ApprovalReply::No(reason) => (AnswerOption::Reject, reason),
    };
    let is_answered = is_still_open(session, id, question).await? && {
        let executions = session.service.executions();
        match executions.answer_question(&session.caller, question, option, reason).await {
            Ok(_) => true,
            Err(error) if matches!(error.refusal(), Some(Refusal::StaleQuestion)) => false,
            Err(error) => return Err(error),
        }
    };
    if !is_answered {
        session.output.line("the question has changed meanwhile; nothing was decided");
    }
    Ok(true)
}

/// Prints the prompt and waits for a line typed after it. Input typed earlier is discarded; and the terminal
/// is read only when a line is ready, so that no buffered line can answer a later question.
async fn wait_for_reply(
    session: &Session,
    events: &mut Events,
    watching: &mut ExecutionWatcher,
) -> Result<PromptEvent, Error> {
    let read_error = |error: std::io::Error| {
        let message = format!("the terminal cannot be read: {error}");
        Error::command_line(CommandLineCode::Io, message, "try again")
    };
    let stdin = std::io::stdin();
    if let Err(error) = tcflush(&stdin, QueueSelector::IFlush) {
        return Err(read_error(error.into()));
    }
    #[expect(deprecated, reason = "stdin stays open, and what replaces it is unsafe")]
    let terminal = AsyncFd::with_interest(stdin, Interest::READABLE).map_err(read_error)?;
    session.output.prompt(painted(ATTENTION, PROMPT));
    loop {
        tokio::select! {
            ready = terminal.readable() => {
                ready.map_err(read_error)?.clear_ready();
                return read_line(terminal.get_ref()).map_err(read_error);
            }
            event = events.next(watching) => match event? {
                WatchEvent::Tick => {}
                WatchEvent::Changed => {
                    session.output.line("");
                    return Ok(PromptEvent::Changed);
                }
                WatchEvent::Signal(_) => {
                    session.output.line("");
                    return Ok(PromptEvent::Interrupted);
                }
            },
        }
    }
}

/// Reads one line without blocking: a terminal is readable only when a whole line has been typed.
fn read_line(terminal: &Stdin) -> std::io::Result<PromptEvent> {
    let mut line = String::new();
    Ok(match terminal.read_line(&mut line)? {
        0 => PromptEvent::Interrupted,
        _ => PromptEvent::Line(line),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reply_parses_into_answer_and_reason() {
        assert_eq!(ApprovalReply::parse("y\n"), ApprovalReply::Yes(None));
        assert_eq!(
            ApprovalReply::parse(" Yes read it twice \n"),
            ApprovalReply::Yes(Some("read it twice".to_owned()))
        );
        assert_eq!(
            ApprovalReply::parse("n\twrong version"),
            ApprovalReply::No(Some("wrong version".to_owned()))
        );
        assert_eq!(
            (ApprovalReply::parse("\n"), ApprovalReply::parse("maybe")),
            (ApprovalReply::Later, ApprovalReply::Unclear)
        );
    }
}
