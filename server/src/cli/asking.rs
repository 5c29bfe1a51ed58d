//! An approval, put to the person at the terminal: what would happen, then yes, no, or later.

use std::io::{IsTerminal, Stdin};

use actbook::error::Error;
use actbook::service::{PersonQuestion, Watching};
use rustix::termios::{QueueSelector, tcflush};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use super::foreground::{Eyes, Seen};
use super::output::Output;
use super::session::Session;
use super::signs::{ASKS, painted};

const PROMPT: &str = "[y: yes, n: no, Enter: later; a reason may follow]";

/// What came while the question stood.
enum Heard {
    Line(String),
    /// The execution has moved.
    Moved,
    /// A signal, or the end of the input.
    Nothing,
}

/// What the person typed.
#[derive(Debug, PartialEq, Eq)]
enum Reply {
    Yes(Option<String>),
    No(Option<String>),
    Later,
    Unclear,
}

impl Reply {
    /// `y`, `no wrong version`: the answer, then a reason.
    fn read(line: &str) -> Self {
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

/// Puts the first approval that an execution waits for to the person at the terminal. True: it is answered, here or
/// by another process, and the execution can go on. False: nobody can be asked, or would not say.
pub async fn ask_for_approval(session: &Session, id: &str, eyes: &mut Eyes) -> Result<bool, Error> {
    if !is_somebody_there(&session.output) {
        return Ok(false);
    }
    let Some(question) = open_approvals(session, id).await?.into_iter().next() else { return Ok(false) };
    let mut watching = session.service.watch(id).await?;
    session.output.line("");
    session.output.text(&question.text);
    loop {
        let reply = match hear(session, eyes, &mut watching).await? {
            Heard::Line(line) => Reply::read(&line),
            Heard::Moved if still_open(session, id, &question).await? => continue,
            Heard::Moved => {
                session.output.line("the question has been answered elsewhere, or has changed");
                return Ok(true);
            }
            Heard::Nothing => Reply::Later,
        };
        if reply == Reply::Unclear {
            continue;
        }
        return answer(session, id, &question, reply).await;
    }
}

fn is_somebody_there(output: &Output) -> bool {
    output.is_live() && std::io::stdin().is_terminal()
}

async fn open_approvals(session: &Session, id: &str) -> Result<Vec<PersonQuestion>, Error> {
    let (_, mut questions) = session.service.person_questions(id, None).await?;
    questions.retain(|question| question.waiting.kind == "approval");
    Ok(questions)
}

async fn still_open(session: &Session, id: &str, question: &PersonQuestion) -> Result<bool, Error> {
    Ok(open_approvals(session, id).await?.iter().any(|open| open.digest == question.digest))
}

/// The answer is to the question that was shown, and to no other that may have taken its place.
async fn answer(session: &Session, id: &str, question: &PersonQuestion, reply: Reply) -> Result<bool, Error> {
    let (service, caller) = (&session.service, &session.caller);
    let step = question.waiting.step.as_ref().map(ToString::to_string);
    match reply {
        Reply::Later | Reply::Unclear => return Ok(false),
        Reply::Yes(_) | Reply::No(_) if !still_open(session, id, question).await? => {
            session.output.line("the question has changed meanwhile; nothing was decided");
        }
        Reply::Yes(reason) => drop(service.approve(caller, id, step, reason).await?),
        Reply::No(reason) => drop(service.reject(caller, id, step, reason).await?),
    }
    Ok(true)
}

/// Waits for a line, typed after the prompt stood there. While it waits nothing reads the terminal, so no line is
/// kept back for a later question.
async fn hear(session: &Session, eyes: &mut Eyes, watching: &mut Watching) -> Result<Heard, Error> {
    let deaf = |error: std::io::Error| {
        Error::new("io", format!("the terminal cannot be read: {error}"), "try again")
    };
    let stdin = std::io::stdin();
    if let Err(error) = tcflush(&stdin, QueueSelector::IFlush) {
        return Err(deaf(error.into()));
    }
    #[expect(deprecated, reason = "stdin stays open, and what replaces it is unsafe")]
    let terminal = AsyncFd::with_interest(stdin, Interest::READABLE).map_err(deaf)?;
    session.output.prompt(painted(ASKS, PROMPT));
    loop {
        tokio::select! {
            ready = terminal.readable() => {
                ready.map_err(deaf)?.clear_ready();
                return read_line(terminal.get_ref()).map_err(deaf);
            }
            seen = eyes.next(watching) => match seen? {
                Seen::Tick => {}
                Seen::Moved => {
                    session.output.line("");
                    return Ok(Heard::Moved);
                }
                Seen::Signal(_) => {
                    session.output.line("");
                    return Ok(Heard::Nothing);
                }
            },
        }
    }
}

/// A terminal is readable when a whole line has been typed.
fn read_line(terminal: &Stdin) -> std::io::Result<Heard> {
    let mut line = String::new();
    Ok(match terminal.read_line(&mut line)? {
        0 => Heard::Nothing,
        _ => Heard::Line(line),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reply_is_an_answer_and_a_reason() {
        assert_eq!(Reply::read("y\n"), Reply::Yes(None));
        assert_eq!(Reply::read(" Yes read it twice \n"), Reply::Yes(Some("read it twice".to_owned())));
        assert_eq!(Reply::read("n\twrong version"), Reply::No(Some("wrong version".to_owned())));
        assert_eq!((Reply::read("\n"), Reply::read("maybe")), (Reply::Later, Reply::Unclear));
    }
}
