//! Commands become events or refusals. Nothing here starts an attempt: that is `follow`, and only
//! the driver's commands are followed.

mod answer;
mod undo;

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::Value;

use super::command::{Command, Ended, Refusal};
use super::due::{CallId, CallKind};
use super::ending::Ending;
use super::follow::{Missing, Values};
use super::state::{Execution, Gate, Phase, ProbeState};
use super::{Fresh, record};
use crate::chain::Digest;
use crate::event::*;
use crate::id::{Epoch, ExecutionId, SeatId, StepNo};
use crate::plan::Plan;
use crate::policy::{Answer, Category, Outcome, StepStatus};
use crate::terms::Terms;

/// Where an execution is started: what its first entry records of the config in effect.
#[derive(Clone, Debug)]
pub struct StartContext {
    pub place: Digest,
    pub project: Option<String>,
    pub agents_may_approve: bool,
}

/// The first entry of an execution; the caller has checked the inputs.
pub fn begin(
    id: ExecutionId,
    plan_ref: PlanRef,
    plan: &Plan,
    inputs: Option<&Value>,
    context: &StartContext,
    terms: &Terms,
    salt: &Arc<[u8]>,
) -> Fresh {
    let payload = inputs.map(bytes);
    let kept =
        payload.as_deref().map(|body| Kept { digest: Digest::salted(salt, body), size: body.len() as u64 });
    let StartContext { place, project, agents_may_approve } = context.clone();
    let started = ExecutionStarted {
        id,
        plan: plan_ref,
        inputs: kept,
        place,
        task: plan.task.clone(),
        terms: terms.clone(),
        project,
        agents_may_approve,
    };
    Fresh { event: started.into(), payload }
}

pub(super) fn bytes(value: &Value) -> Vec<u8> {
    serde_json::to_vec(value).expect("a JSON value always serialises")
}

/// Why a command gives no events: it is refused, or payloads must be loaded first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum No {
    Refused(Refusal),
    Missing(Missing),
}

impl From<Missing> for No {
    fn from(missing: Missing) -> Self {
        Self::Missing(missing)
    }
}

pub fn decide(execution: &Execution, command: &Command, values: &Values) -> Result<Vec<Fresh>, No> {
    let decided = match command {
        Command::Report { call, ended, .. } => Ok(report(execution, *call, ended, values)?),
        Command::Claim { seat, after, unsent } => claim(execution, seat, *after, unsent),
        Command::ClaimAgain { seat, epoch } => claim_again(execution, seat, *epoch),
        Command::Drive { epoch } => drive(execution, *epoch),
        Command::Adopt { place } => adopt(execution, *place),
        Command::MovePin { tool, digest } => move_pin(execution, tool, *digest),
        Command::Pause { reason } => pause(execution, reason),
        Command::Resume => resume(execution),
        Command::Cancel { reason } => cancel(execution, reason),
        Command::Undo { reason, approves } => return undo::undo(execution, reason, *approves, values),
        Command::Approve { step, reason } => approve(execution, step.as_deref(), reason),
        Command::Reject { step, reason } => reject(execution, step.as_deref(), reason),
        Command::Decide {
            step,
            answer: Answer::Compensate,
            reason,
            output: None,
            arguments: None,
            approves,
        } => {
            return undo::compensate(execution, step, reason, *approves, values);
        }
        Command::Decide { step, answer: said, reason, output, arguments, .. } => {
            let given = answer::Given { output: output.as_ref(), arguments: arguments.as_ref() };
            return answer::answer_step(execution, step, *said, reason, given, values);
        }
        Command::Record { step, report, facts, by } => {
            record::report(execution, step, report, facts, by.as_ref())
        }
        Command::Note { step, status, facts } => record::note(execution, step.as_deref(), *status, facts),
        Command::RecordDecision { decision, reason, step, details } => {
            record::decision(execution, decision, reason, step.as_deref(), details)
        }
        Command::RecordCompensation { step, done, facts } => {
            record::compensation(execution, step, *done, facts)
        }
        Command::Accept { call, task } => Ok(accept(execution, *call, task)),
        Command::Erase => erase(execution),
    };
    decided.map_err(No::Refused)
}

fn drive(execution: &Execution, epoch: Epoch) -> Result<Vec<Fresh>, Refusal> {
    match epoch == execution.epoch {
        true => Ok(Vec::new()),
        false => {
            Err(Refusal::new("not_the_driver", "another process drives this execution", "watch it instead"))
        }
    }
}

pub(super) fn not_now(execution: &Execution, verb: &str) -> Refusal {
    let status = execution.status();
    let cure = match execution.ended {
        Some(_) if execution.can_undo() && !execution.erased => "start a new one, or `undo` this one",
        Some(_) => "start a new one",
        None if execution.phase == Phase::Unwind && !execution.paused => "`pause` it, or answer what it asks",
        None => "`show` it: it says what can be done now",
    };
    Refusal::new("does_not_fit", format!("cannot {verb}: the execution is {status}"), cure)
}

/// What the driver before left open is unknown, but for calls proven unsent.
fn claim(
    execution: &Execution,
    seat: &SeatId,
    after: Epoch,
    unsent: &BTreeSet<CallId>,
) -> Result<Vec<Fresh>, Refusal> {
    if after != execution.epoch || execution.ended.is_some() {
        let message = "another process was faster to take it up";
        return Err(Refusal::new("claimed_by_another", message, "look again who drives"));
    }
    let mut events = vec![driven_by(execution, seat)];
    // What a server goes on with by itself is not lost with the process that had asked for it.
    for call in execution.index.open_tools.iter().filter(|call| execution.task_of(**call).is_none()) {
        events.push(lost(execution, *call, unsent.contains(call)).into());
    }
    Ok(events)
}

/// What it has in flight stays so: nobody else has answered for it. Said twice, it is done once.
fn claim_again(execution: &Execution, seat: &SeatId, epoch: Epoch) -> Result<Vec<Fresh>, Refusal> {
    let done = execution.epoch.0 == epoch.0 + 1 && execution.seat.as_ref() == Some(seat);
    if done || execution.ended.is_some() {
        return Ok(Vec::new());
    }
    drive(execution, epoch)?;
    Ok(vec![driven_by(execution, seat)])
}

fn driven_by(execution: &Execution, seat: &SeatId) -> Fresh {
    DriverChanged { epoch: Epoch(execution.epoch.0 + 1), seat: seat.clone() }.into()
}

/// The handle is kept where the call is still waited for. A probe is asked again instead.
fn accept(execution: &Execution, call: CallId, task: &str) -> Vec<Fresh> {
    let waited_for = execution.index.open_tools.contains(&call) && execution.task_of(call).is_none();
    let (attempt, compensation) = match call.kind {
        CallKind::Run => (Some(call.no + 1), None),
        CallKind::Compensation => (None, Some(call.no + 1)),
        CallKind::Probe => return Vec::new(),
    };
    let (step, task) = (execution.step_id(call.step), task.to_owned());
    let event = TaskAccepted { step, attempt, compensation, task };
    if waited_for { vec![event.into()] } else { Vec::new() }
}

fn lost(execution: &Execution, call: CallId, unsent: bool) -> Event {
    let step = execution.step_id(call.step);
    let outcome = if unsent { Outcome::Failed } else { Outcome::Unknown };
    if call.kind == CallKind::Probe {
        let again = unsent || execution.may_probe_again(call);
        let found = if again { Probed::Lost } else { Probed::Error };
        return ProbeEnded { step, attempt: call.no + 1, found, result: None }.into();
    }
    let ending = Ending::new(outcome, Some(Category::Unavailable));
    Ending { unsent, takeover: true, ..ending }.of(execution, call)
}

/// An ended call as an entry's parts, and what the tool said.
fn told(ended: &Ended) -> (Ending, Vec<u8>) {
    let (ending, said) = match ended {
        Ended::Succeeded { output } => (Ending::new(Outcome::Succeeded, None), output),
        Ended::Failed { category, said, unsent, retry_after_ms } => {
            let failed = Ending::new(Outcome::Failed, Some(*category));
            (Ending { unsent: *unsent, retry_after_ms: *retry_after_ms, ..failed }, said)
        }
        Ended::Unknown { category, said, retry_after_ms } => {
            let unknown = Ending::new(Outcome::Unknown, Some(*category));
            (Ending { retry_after_ms: *retry_after_ms, ..unknown }, said)
        }
        Ended::Asks { question, began } => {
            let outcome = if *began { Outcome::Unknown } else { Outcome::Failed };
            (Ending { asks: true, ..Ending::new(outcome, Some(Category::Policy)) }, question)
        }
    };
    (ending, bytes(said))
}

/// A call's end. The first one counts; what comes later is kept as evidence; a third changes nothing.
fn report(
    execution: &Execution,
    call: CallId,
    ended: &Ended,
    values: &Values,
) -> Result<Vec<Fresh>, Missing> {
    if call.kind == CallKind::Probe {
        return probe_report(execution, call, ended, values);
    }
    Ok(call_report(execution, call, ended))
}

pub(super) fn call_report(execution: &Execution, call: CallId, ended: &Ended) -> Vec<Fresh> {
    let (ending, payload) = told(ended);
    let (step, state) = (execution.step_id(call.step), execution.step(call.step));
    // What was erased stays erased: the entry alone is evidence enough.
    let result = (!execution.erased).then(|| execution.keep(&payload));
    let payload = result.is_some().then_some(payload);
    let Ending { outcome, category, .. } = ending;
    let definite = outcome != Outcome::Unknown;
    let ended = || Ending { result, ..ending }.of(execution, call);
    let event: Option<Event> = match call.kind {
        CallKind::Run | CallKind::Probe => state.attempts.get(call.no as usize).and_then(|attempt| {
            let news = definite && attempt.late.is_none() && attempt.outcome != Some(outcome);
            match attempt.open() {
                true => Some(ended()),
                false => {
                    news.then(|| LateAnswer { step, attempt: call.no + 1, outcome, category, result }.into())
                }
            }
        }),
        CallKind::Compensation => state.compensations.get(call.no as usize).and_then(|one| {
            let news = definite && one.late.is_none() && one.outcome != Some(outcome);
            match one.outcome.is_none() {
                true => Some(ended()),
                false => {
                    news.then(|| LateCompensation { step, compensation: call.no + 1, outcome, result }.into())
                }
            }
        }),
    };
    event.map(|event| Fresh { event, payload }).into_iter().collect()
}

/// The probe's tool answered; whether the effect stands is what the plan's `happened` says of it.
fn probe_report(
    execution: &Execution,
    call: CallId,
    ended: &Ended,
    values: &Values,
) -> Result<Vec<Fresh>, Missing> {
    let attempt = execution.step(call.step).attempts.get(call.no as usize);
    if !attempt.is_some_and(|attempt| matches!(attempt.probe, ProbeState::Open { .. })) {
        return Ok(Vec::new());
    }
    let found = super::follow::probe_found(execution, call, ended, values)?;
    let (_, payload) = told(ended);
    let result = Some(execution.keep(&payload));
    let event = ProbeEnded { step: execution.step_id(call.step), attempt: call.no + 1, found, result };
    Ok(vec![Fresh { event: event.into(), payload: Some(payload) }])
}

fn adopt(execution: &Execution, place: Digest) -> Result<Vec<Fresh>, Refusal> {
    if execution.place == place {
        return Ok(Vec::new());
    }
    Ok(vec![PlaceAdopted { place }.into()])
}

/// Only where there is a pin: a tool that was never pinned has none to move.
fn move_pin(execution: &Execution, tool: &str, digest: Digest) -> Result<Vec<Fresh>, Refusal> {
    let pin = execution.terms.get(tool).and_then(|terms| terms.pin);
    match pin.is_some_and(|pin| pin != digest) && execution.ended.is_none() {
        true => Ok(vec![PinMoved { tool: tool.to_owned(), digest }.into()]),
        false => Ok(Vec::new()),
    }
}

fn pause(execution: &Execution, reason: &Option<String>) -> Result<Vec<Fresh>, Refusal> {
    if execution.ended.is_some() || execution.paused {
        return Err(not_now(execution, "pause"));
    }
    Ok(vec![Paused { reason: reason.clone() }.into()])
}

pub(super) fn resume(execution: &Execution) -> Result<Vec<Fresh>, Refusal> {
    match execution.paused && execution.ended.is_none() {
        true => Ok(vec![Resumed {}.into()]),
        false => Err(not_now(execution, "resume")),
    }
}

pub(super) fn cancel(execution: &Execution, reason: &Option<String>) -> Result<Vec<Fresh>, Refusal> {
    if execution.ended.is_some() || execution.stopping() {
        return Err(not_now(execution, "cancel"));
    }
    Ok(vec![CancelAsked { reason: reason.clone() }.into()])
}

fn approve(
    execution: &Execution,
    step: Option<&str>,
    reason: &Option<String>,
) -> Result<Vec<Fresh>, Refusal> {
    let reason = reason.clone();
    Ok(match asked(execution, step)? {
        Asked::Plan => vec![PlanApproved { reason }.into()],
        Asked::Undo => vec![UnwindStarted { reason, calls: Vec::new() }.into()],
        Asked::MoreUndo => vec![UnwindApproved { reason }.into()],
        Asked::Step(no) => vec![StepApproved { step: execution.step_id(no), reason }.into()],
    })
}

fn reject(execution: &Execution, step: Option<&str>, reason: &Option<String>) -> Result<Vec<Fresh>, Refusal> {
    let reason = reason.clone();
    Ok(match asked(execution, step)? {
        Asked::Plan => vec![PlanRejected { reason }.into()],
        Asked::Undo | Asked::MoreUndo => vec![UnwindRejected { reason }.into()],
        Asked::Step(no) => vec![StepRejected { step: execution.step_id(no), reason }.into()],
    })
}

/// What an approval or a rejection answers.
enum Asked {
    Plan,
    Undo,
    /// Calls of an unwinding under way.
    MoreUndo,
    Step(StepNo),
}

fn asked(execution: &Execution, step: Option<&str>) -> Result<Asked, Refusal> {
    if step.is_none() && execution.asks_for_undo() {
        let under_way = execution.phase == Phase::Unwind && execution.ended.is_none();
        return Ok(if under_way { Asked::MoreUndo } else { Asked::Undo });
    }
    if execution.ended.is_some() || execution.stopping() {
        return Err(not_now(execution, "approve or reject"));
    }
    if let Some(step) = step {
        let no = find(execution, step)?;
        return match execution.step(no).status() == StepStatus::AwaitingApproval {
            true => Ok(Asked::Step(no)),
            false => Err(nothing_asked(execution)),
        };
    }
    if execution.gate == Gate::Asked {
        return Ok(Asked::Plan);
    }
    // A yes to a step names it, so that nobody approves the one that happens to wait by now.
    Err(nothing_asked(execution))
}

fn nothing_asked(execution: &Execution) -> Refusal {
    let waiting =
        execution.numbers().filter(|no| execution.step(*no).status() == StepStatus::AwaitingApproval);
    let names: Vec<String> = waiting.map(|no| format!("`{}`", execution.plan.step(no).id)).collect();
    let cure = match names.is_empty() {
        true => "`show` it: it says what waits".to_owned(),
        false => format!("name the step: {}", names.join(", ")),
    };
    Refusal::new("nothing_to_approve", "that does not wait for an approval", cure)
}

pub(super) fn find(execution: &Execution, step: &str) -> Result<StepNo, Refusal> {
    execution.plan.find(step).ok_or_else(|| {
        let ids: Vec<&str> = execution.plan.steps.iter().map(|step| step.id.as_str()).collect();
        let cure = match crate::analysis::nearest(step, ids.iter().copied()) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("its steps: {}", ids.iter().take(20).copied().collect::<Vec<_>>().join(", ")),
        };
        Refusal::new("no_such_step", format!("the plan has no step `{step}`"), cure)
    })
}

fn erase(execution: &Execution) -> Result<Vec<Fresh>, Refusal> {
    if execution.ended.is_none() {
        return Err(Refusal::new(
            "not_ended",
            "only ended executions can be erased",
            "wait for its end, or cancel it",
        ));
    }
    if execution.asks_for_undo() {
        let message = "its undo waits for a yes, and needs what would be erased";
        return Err(Refusal::new("awaits_approval", message, "`approve` or `reject` it first"));
    }
    if execution.erased {
        return Ok(Vec::new());
    }
    Ok(vec![PayloadsErased {}.into()])
}
