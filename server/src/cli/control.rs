//! Commands that change a running execution: pause, resume, cancel, undo, approve, reject, decide, record.
//! Each records the command, then tells which process continues the execution, or continues it here.

use crate::error::{CommandLineCode, Error};
use crate::service::view::StepView;
use crate::service::{ActionFacts, ActionRecord, DriveState, Driver, FoundExecution};
use actbook_engine::policy::{ExecutionStatus, StepAnswer};

use super::args::{DecideArgs, RecordArgs, UnsettledKind};
use super::foreground::{self, Events, Goal};
use super::session::Session;
use super::status_style::short_id;
use super::{CommandResult, Exit, detach};

/// Pauses the execution and prints how to resume it.
pub async fn pause(session: &Session, id: &str, reason: Option<String>) -> CommandResult {
    let (found, _) = session.service.executions().pause(&session.caller, id, reason).await?;
    let next =
        format!("nothing further starts; `actbook resume {}` continues it", short_id(found.id.as_str()));
    print_result(session, &found, "paused", next).await
}

/// Approves `step`, or without one the plan or a proposed undo.
pub async fn approve(
    session: &Session,
    id: &str,
    step: Option<String>,
    for_session: bool,
    reason: Option<String>,
) -> CommandResult {
    let executions = session.service.executions();
    let updated = if for_session {
        executions.approve_for_session(&session.caller, id, step, reason).await?
    } else {
        executions.approve(&session.caller, id, step, reason).await?
    };
    print_next_driver(session, updated, "approved").await
}

/// Takes a label off a session.
pub async fn clear_label(
    session: &Session,
    id: &str,
    label: String,
    reason: Option<String>,
) -> CommandResult {
    let executions = session.service.executions();
    let updated = executions.clear_label(&session.caller, id, label, reason).await?;
    print_next_driver(session, updated, "cleared").await
}

/// Rejects `step`, or without one the plan or a proposed undo.
pub async fn reject(
    session: &Session,
    id: &str,
    step: Option<String>,
    reason: Option<String>,
) -> CommandResult {
    let rejects_plan = step.is_none();
    let updated = session.service.executions().reject(&session.caller, id, step, reason).await?;
    let (found, progress) = &updated;
    if rejects_plan
        && progress.status == ExecutionStatus::Running
        && session.service.executions().driver(found).await?.is_none()
    {
        // A rejected plan is cancelled; no other process drives the execution, so this one does it.
        return drive_or_hand_over(session, found, false, false, Goal::Cancel).await;
    }
    print_next_driver(session, updated, "rejected").await
}

/// Gives one answer to one or several steps. Each is a command of its own, so a refused one does not stop the
/// rest.
pub async fn decide(session: &Session, args: DecideArgs) -> CommandResult {
    let (named, answer) = args.steps_and_answer().map_err(|why| {
        Error::command_line(CommandLineCode::Usage, why, "`actbook decide --help` shows how")
    })?;
    let steps = match args.all {
        Some(kind) => waiting_steps(session, &args.execution, kind).await?,
        None => named.to_vec(),
    };
    let steps = match answer {
        // These answers apply to the execution as a whole: send them once.
        StepAnswer::Compensate | StepAnswer::Abandon => &steps[..1],
        StepAnswer::Retry | StepAnswer::Skip | StepAnswer::Happened | StepAnswer::DidNotHappen => &steps[..],
    };
    let (mut last_updated, mut refused) = (None, Vec::new());
    for step in steps {
        match decide_one(session, &args, step, answer).await {
            Ok(updated) => {
                if steps.len() > 1 && !session.output.json {
                    session.output.line(format_args!("{step}: {answer}"));
                }
                last_updated = Some(updated);
            }
            Err(error) => refused.push((step, error)),
        }
    }
    if let (None, [_]) = (&last_updated, refused.as_slice()) {
        return Err(refused.remove(0).1);
    }
    match (last_updated, refused.as_slice()) {
        (Some(updated), []) => print_next_driver(session, updated, "decided").await,
        (last_updated, _) => {
            for (step, error) in &refused {
                session.output.notice(format_args!("{step} refused: {error}"));
                session.output.notice(format_args!("  → {}", error.cure()));
            }
            if let Some(updated) = last_updated {
                print_next_driver(session, updated, "decided").await?;
            }
            Ok(Exit::Failed)
        }
    }
}

/// Sends the answer for one step; `--arguments` makes it a retry with corrected arguments.
async fn decide_one(
    session: &Session,
    args: &DecideArgs,
    step: &str,
    answer: StepAnswer,
) -> Result<(FoundExecution, DriveState), Error> {
    let (service, caller, id) = (&session.service, &session.caller, args.execution.as_str());
    let (step, reason, output) = (step.to_owned(), Some(args.reason.clone()), args.output.clone());
    match args.arguments.clone() {
        Some(arguments) => service.executions().retry_with(caller, id, step, answer, reason, arguments).await,
        None => service.executions().decide(caller, id, step, answer, reason, output).await,
    }
}

/// The ids of the steps of this kind that wait for an answer, at least one; an error if there is none.
async fn waiting_steps(session: &Session, id: &str, kind: UnsettledKind) -> Result<Vec<String>, Error> {
    let view = session.service.executions().view(id).await?;
    let waits = |step: &&StepView| {
        step.status == kind.status()
            && view.waiting.iter().any(|waiting| waiting.step.as_ref() == Some(&step.id))
    };
    let steps: Vec<String> = view.steps.iter().filter(waits).map(|step| step.id.to_string()).collect();
    if steps.is_empty() {
        let message = format!("no step that is {} waits for an answer", kind.status());
        let cure = format!("`actbook show {}` shows what waits", short_id(view.id.as_str()));
        return Err(Error::command_line(CommandLineCode::NothingWaits, message, cure));
    }
    Ok(steps)
}

/// Reports the outcome of an agent's step by hand.
pub async fn record(session: &Session, args: RecordArgs) -> CommandResult {
    let RecordArgs { execution, step, status, output, reason, .. } = args;
    let facts = ActionFacts {
        description: args.description,
        kind: args.kind,
        entity: args.entity,
        before_state: args.before,
        after_state: args.after,
        confidence: args.confidence,
        reason,
        ..ActionFacts::default()
    };
    let (step, status) = (Some(step), Some(status));
    let action = ActionRecord { step, status, output, facts, ..ActionRecord::default() };
    let executions = session.service.executions();
    let recorded = executions.record_in_execution(&session.caller, &execution, action).await?;
    let (found, progress) = &recorded;
    if progress.status == ExecutionStatus::Running
        && !progress.is_open_session
        && executions.driver(found).await?.is_none()
        && executions.view(found.id.as_str()).await?.progress.is_complete()
        && executions.require_drivable(found.id.as_str()).await.is_ok()
    {
        // No call is left to make: this process appends the end.
        return drive_or_hand_over(session, found, false, false, Goal::Run).await;
    }
    print_next_driver(session, recorded, "recorded").await
}

/// Prints what was done and who continues: the driving process, or the command that resumes the execution.
async fn print_next_driver(
    session: &Session,
    (found, progress): (FoundExecution, DriveState),
    what: &str,
) -> CommandResult {
    let id = short_id(found.id.as_str());
    let driver = session.service.executions().driver(&found).await?;
    let next = match (driver, progress.status) {
        _ if progress.is_open_session => "the session is open".to_owned(),
        (Some(driver), _) => format!("{} continues it", process_label(&driver)),
        (
            None,
            ExecutionStatus::Succeeded
            | ExecutionStatus::Failed
            | ExecutionStatus::Cancelled
            | ExecutionStatus::Compensated,
        ) => {
            format!("the execution has ended: {}", progress.status)
        }
        (None, ExecutionStatus::Blocked) => format!("it still waits for an answer: `actbook show {id}`"),
        (None, ExecutionStatus::Running | ExecutionStatus::Paused | ExecutionStatus::Compensating) => {
            format!("no process drives it: `actbook resume {id}` continues it")
        }
    };
    print_result(session, &found, what, next).await
}

/// Prints `what; next`, or with `--json` the execution's view.
async fn print_result(session: &Session, found: &FoundExecution, what: &str, next: String) -> CommandResult {
    let output = &session.output;
    if output.json {
        output.document(&session.service.executions().view(found.id.as_str()).await?);
    } else {
        output.line(format_args!("{what}; {next}"));
    }
    Ok(Exit::Done)
}

/// `process 4711 on HOST`
pub fn process_label(driver: &Driver) -> String {
    format!("process {} on {}", driver.process, driver.host)
}

/// Lifts a pause, or drives an execution that no process drives. `here` adopts this config's server
/// definitions.
pub async fn resume(session: &Session, id: &str, here: bool, detach: bool) -> CommandResult {
    let found = session.service.executions().resume_if_paused(&session.caller, id).await?;
    drive_or_hand_over(session, &found, here, detach, Goal::Run).await
}

/// Requests the cancellation; if no process drives the execution, carries it out here.
pub async fn cancel(session: &Session, id: &str, reason: Option<String>) -> CommandResult {
    let found = session.service.executions().find(id).await?;
    if let Err(refused) = session.service.executions().cancel(&session.caller, id, reason).await {
        // An earlier `cancel` recorded the request, and its process ended before it was carried out.
        let stranded = found.status == ExecutionStatus::Running
            && session.service.executions().driver(&found).await?.is_none();
        if !stranded {
            return Err(refused);
        }
    }
    match session.service.executions().driver(&found).await? {
        Some(driver) => {
            let next = format!(
                "{} stops it: `actbook watch {}`",
                process_label(&driver),
                short_id(found.id.as_str())
            );
            print_result(session, &found, "cancelling", next).await
        }
        None => drive_or_hand_over(session, &found, false, false, Goal::Cancel).await,
    }
}

/// Drives the execution here, or watches the process that drives it. With `detach`, leaves it to that process
/// or to a new background process.
pub async fn drive_or_hand_over(
    session: &Session,
    found: &FoundExecution,
    here: bool,
    detach: bool,
    goal: Goal,
) -> CommandResult {
    let id = found.id.as_str();
    if detach {
        return match session.service.executions().driver(found).await? {
            Some(driver) => {
                print_result(session, found, "recorded", format!("{} drives it", process_label(&driver)))
                    .await
            }
            None => {
                if here {
                    session.service.executions().adopt(&session.caller, id).await?;
                }
                detach::hand_over_and_report(session, id).await
            }
        };
    }
    let events = Events::open()?;
    let claimed = session.service.executions().claim(&session.caller, id, here).await?;
    if claimed.is_none()
        && let Some(driver) =
            session.service.executions().driver(&session.service.executions().find(id).await?).await?
    {
        session.output.notice(format_args!("{} drives it; watching", process_label(&driver)));
    }
    foreground::follow(session, id, events, claimed, goal).await
}
