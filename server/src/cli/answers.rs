//! What people say to an execution, and who goes on from there.

use actbook::error::Error;
use actbook::service::view::StepView;
use actbook::service::{Action, Driver, Facts, Found, Noted, Progress};
use actbook_engine::policy::{Answer, Status};

use super::args::{Decide, Record, Unsettled};
use super::foreground::{self, Eyes, Goal};
use super::session::Session;
use super::signs::short;
use super::{Ended, Exit, brief, detach};

pub async fn pause(session: &Session, id: &str, reason: Option<String>) -> Ended {
    let (found, _) = session.service.pause(&session.caller, id, reason).await?;
    let next = format!("nothing further starts; `actbook resume {}` goes on", short(found.id.as_str()));
    said(session, &found, "paused", next).await
}

pub async fn approve(session: &Session, id: &str, step: Option<String>, reason: Option<String>) -> Ended {
    let told = session.service.approve(&session.caller, id, step, reason).await?;
    answered(session, told, "approved").await
}

pub async fn reject(session: &Session, id: &str, step: Option<String>, reason: Option<String>) -> Ended {
    let whole = step.is_none();
    let told = session.service.reject(&session.caller, id, step, reason).await?;
    if whole && told.1.status == Status::Running && session.service.driver(&told.0).await?.is_none() {
        // A rejected plan is cancelled; nobody else is there to do it.
        return take_up(session, &told.0, false, false, Goal::Cancel).await;
    }
    answered(session, told, "rejected").await
}

/// One answer for one step or several; each is a command of its own, so one that is refused stops no other.
pub async fn decide(session: &Session, asked: Decide) -> Ended {
    let (named, answer) =
        asked.parts().map_err(|why| Error::new("usage", why, "`actbook decide --help` shows how"))?;
    let steps = match asked.all {
        Some(kind) => waiting_steps(session, &asked.execution, kind).await?,
        None => named.to_vec(),
    };
    let steps = match answer {
        // Said of the execution as a whole: once is enough.
        Answer::Compensate | Answer::Abandon => &steps[..1],
        Answer::Retry | Answer::Skip | Answer::Happened | Answer::DidNotHappen => &steps[..],
    };
    let (mut told, mut refused) = (None, Vec::new());
    for step in steps {
        match decide_one(session, &asked, step, answer).await {
            Ok(moved) => {
                if steps.len() > 1 && !session.output.json {
                    session.output.line(format_args!("{step}: {answer}"));
                }
                told = Some(moved);
            }
            Err(error) => refused.push((step, error)),
        }
    }
    match (told, refused.as_slice()) {
        (Some(told), []) => answered(session, told, "decided").await,
        (None, [(_, error)]) => Err(error.clone()),
        (told, _) => {
            for (step, error) in &refused {
                session.output.aside(format_args!("{step} refused: {}", error.message));
                session.output.aside(format_args!("  → {}", error.cure));
            }
            if let Some(told) = told {
                answered(session, told, "decided").await?;
            }
            Ok(Exit::Failed)
        }
    }
}

async fn decide_one(
    session: &Session,
    asked: &Decide,
    step: &str,
    answer: Answer,
) -> Result<(Found, Progress), Error> {
    let (service, caller, id) = (&session.service, &session.caller, asked.execution.as_str());
    let (step, reason, output) = (step.to_owned(), Some(asked.reason.clone()), asked.output.clone());
    match asked.arguments.clone() {
        Some(arguments) => service.retry_with(caller, id, step, answer, reason, arguments).await,
        None => service.decide(caller, id, step, answer, reason, output).await,
    }
}

/// The steps of this kind that wait for an answer; there is at least one.
async fn waiting_steps(session: &Session, id: &str, kind: Unsettled) -> Result<Vec<String>, Error> {
    let view = session.service.view(id).await?;
    let asks = |step: &&StepView| {
        step.status == kind.status() && view.waiting.iter().any(|one| one.step.as_ref() == Some(&step.id))
    };
    let steps: Vec<String> = view.steps.iter().filter(asks).map(|step| step.id.to_string()).collect();
    if steps.is_empty() {
        let message = format!("no step that is {} waits for an answer", kind.status());
        let cure = format!("`actbook show {}` tells what waits", short(view.id.as_str()));
        return Err(Error::new("nothing_waits", message, cure));
    }
    Ok(steps)
}

pub async fn record(session: &Session, asked: Record) -> Ended {
    let Record { execution, step, status, output, reason, .. } = asked;
    let facts = Facts {
        description: asked.description,
        kind: asked.kind,
        entity: asked.entity,
        before_state: asked.before,
        after_state: asked.after,
        confidence: asked.confidence,
        reason,
        ..Facts::default()
    };
    let (execution, step, status) = (Some(execution), Some(step), Some(status));
    let action = Action { execution, step, status, output, facts, take_over: false };
    match session.service.record_action(&session.caller, action).await? {
        Noted::In(found, progress) => answered(session, (found, *progress), "recorded").await,
        Noted::Alone(_) => unreachable!("an execution was named"),
    }
}

/// Says who goes on: the driver, or which command takes it up.
async fn answered(session: &Session, (found, progress): (Found, Progress), what: &str) -> Ended {
    let id = short(found.id.as_str());
    let driver = session.service.driver(&found).await?;
    let next = match (driver, progress.status) {
        (Some(driver), _) => format!("{} goes on", process(&driver)),
        (None, Status::Succeeded | Status::Failed | Status::Cancelled | Status::Compensated) => {
            format!("the execution has ended: {}", progress.status)
        }
        (None, Status::Blocked) => format!("it still waits for an answer: `actbook show {id}`"),
        (None, Status::Running | Status::Paused | Status::Compensating) => {
            format!("nobody drives it: `actbook resume {id}` takes it up")
        }
    };
    said(session, &found, what, next).await
}

async fn said(session: &Session, found: &Found, what: &str, next: String) -> Ended {
    let output = &session.output;
    match output.json {
        true => output.document(&session.service.view(found.id.as_str()).await?),
        false => output.line(format_args!("{what}; {next}")),
    }
    Ok(Exit::Done)
}

pub fn process(driver: &Driver) -> String {
    format!("process {} on {}", driver.process, driver.host)
}

/// Lifts a pause, or takes up what nobody drives.
pub async fn resume(session: &Session, id: &str, here: bool, detach: bool) -> Ended {
    let found = session.service.find(id).await?;
    match found.status {
        Status::Running | Status::Blocked | Status::Compensating => {}
        // Refused with the reason where it has ended.
        Status::Paused | Status::Succeeded | Status::Failed | Status::Cancelled | Status::Compensated => {
            session.service.resume(&session.caller, id).await?;
        }
    }
    let unwinding = session.service.watch(id).await?.unwinding();
    let goal = if unwinding { Goal::Undo } else { Goal::Run };
    take_up(session, &found, here, detach, goal).await
}

/// Records the wish; where nobody drives, sees it through.
pub async fn cancel(session: &Session, id: &str, reason: Option<String>) -> Ended {
    let found = session.service.find(id).await?;
    if let Err(refused) = session.service.cancel(&session.caller, id, reason).await {
        // It was asked for before, by somebody who could not see it through.
        let stranded = found.status == Status::Running && session.service.driver(&found).await?.is_none();
        if !stranded {
            return Err(refused);
        }
    }
    match session.service.driver(&found).await? {
        Some(driver) => {
            let next = format!("{} stops it: `actbook watch {}`", process(&driver), short(found.id.as_str()));
            said(session, &found, "cancelling", next).await
        }
        None => take_up(session, &found, false, false, Goal::Cancel).await,
    }
}

pub async fn undo(session: &Session, id: &str, reason: Option<String>, here: bool, detach: bool) -> Ended {
    if !here {
        session.service.at_home(id).await?;
    }
    let found = session.service.find(id).await?;
    match session.service.undo(&session.caller, id, reason).await {
        Ok(_) => {}
        Err(refused) if refused.code == "already_undoing" && found.status != Status::Blocked => {}
        Err(refused) => return Err(refused),
    }
    take_up(session, &found, here, detach, Goal::Undo).await
}

async fn take_up(session: &Session, found: &Found, here: bool, detach: bool, goal: Goal) -> Ended {
    let id = found.id.as_str();
    if detach {
        return match session.service.driver(found).await? {
            Some(driver) => said(session, found, "recorded", format!("{} drives it", process(&driver))).await,
            None => {
                if here {
                    session.service.adopt(&session.caller, id).await?;
                }
                detach::hand_over(session, id).await
            }
        };
    }
    let eyes = Eyes::open()?;
    let claimed = session.service.claim(&session.caller, id, here).await?;
    if claimed.is_none()
        && let Some(driver) = session.service.driver(&session.service.find(id).await?).await?
    {
        session.output.aside(format_args!("{} drives it; watching", process(&driver)));
    }
    foreground::follow(session, id, eyes, claimed, goal).await
}

/// `undo --dry-run`: the calls it would make, in order.
pub async fn would_undo(session: &Session, id: &str) -> Ended {
    let watching = session.service.watch(id).await?;
    let would = watching.brief().await?;
    if session.output.json {
        session.output.document(&would);
        return Ok(Exit::Done);
    }
    if would.undo.is_empty() {
        let cure = format!("`actbook show {}` tells what ran", short(watching.execution().id.as_str()));
        return Err(Error::new("nothing_to_undo", "nothing that ran is left to undo", cure));
    }
    brief::undo(&session.output, &would);
    for left in &would.cannot_undo {
        session.output.line(format_args!("  stays: {}: {}", left.step, left.why));
    }
    Ok(Exit::Done)
}
