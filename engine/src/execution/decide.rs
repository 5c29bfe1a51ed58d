//! Commands become events or refusals. Nothing here starts an attempt: that is `follow`, and only
//! the driver's commands are followed.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::Value;

use super::asks::answers;
use super::command::{Command, Ended, Refusal};
use super::due::{CallId, CallKind};
use super::ending::Ending;
use super::follow::{Missing, Values, undo_calls};
use super::state::{Attempt, Execution, Gate, Phase, ProbeState, Proposal};
use super::{Fresh, question, record};
use crate::chain::Digest;
use crate::event::*;
use crate::id::{Epoch, ExecutionId, SeatId, StepNo};
use crate::plan::Plan;
use crate::policy::{Answer, Category, OnFailure, Outcome, StepStatus};
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
        Command::Undo { reason, approves } => return undo(execution, reason, *approves, values),
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
            return compensate(execution, step, reason, *approves, values);
        }
        Command::Decide { step, answer, reason, output, arguments, .. } => {
            let given = Given { output: output.as_ref(), arguments: arguments.as_ref() };
            return answer_step(execution, step, *answer, reason, given, values);
        }
        Command::Record { step, report, facts } => record::report(execution, step, report, facts),
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

/// Starts the unwinding, or asks for the yes that it needs and the caller cannot give.
fn undo(
    execution: &Execution,
    reason: &Option<String>,
    approves: bool,
    values: &Values,
) -> Result<Vec<Fresh>, No> {
    may_undo(execution).map_err(No::Refused)?;
    if approves {
        let calls = if execution.undo_needs_yes() { undo_calls(execution, values)? } else { Vec::new() };
        let under_approval = |call: &UndoCall| execution.asks_for_yes_to(&call.tool);
        let calls = calls.into_iter().filter(under_approval).collect();
        return Ok(vec![UnwindStarted { reason: reason.clone(), calls }.into()]);
    }
    if !execution.undo_waits_for_yes() {
        return Ok(vec![UnwindStarted { reason: reason.clone(), calls: Vec::new() }.into()]);
    }
    let mut events: Vec<Fresh> = Vec::new();
    if !execution.undo_asked {
        events.push(UndoAsked { reason: reason.clone() }.into());
    }
    // Nothing follows by itself once it has ended, is being stopped or is paused: it is asked at once.
    let at_once = execution.ended.is_some() || execution.stop.is_some() || execution.paused;
    if at_once && !execution.asks_for_undo() {
        events.push(UnwindProposed { calls: undo_calls(execution, values)? }.into());
    }
    Ok(events)
}

fn may_undo(execution: &Execution) -> Result<(), Refusal> {
    if execution.erased {
        let message = "its arguments and outputs were erased by `cleanup`, so nothing can be undone";
        return Err(Refusal::new("erased", message, "undo by hand what `journal` shows"));
    }
    if execution.phase == Phase::Unwind && execution.ended.is_none() {
        return Err(Refusal::new(
            "already_undoing",
            "it is being undone already",
            "`watch` it, or answer what it asks",
        ));
    }
    if !execution.can_undo() {
        let message = "nothing that ran is left to undo";
        let cure = match execution.ended {
            Some(_) => "`show` it: the brief names what cannot be undone",
            None => "`cancel` it to stop it",
        };
        return Err(Refusal::new("nothing_to_undo", message, cure));
    }
    Ok(())
}

impl Execution {
    /// An unwinding that a caller who may not approve asks for waits for somebody who may: its calls are
    /// under approval, the plan proposes before it undoes, or a person has said no before.
    fn undo_waits_for_yes(&self) -> bool {
        let proposes = self.plan.policy.on_failure == OnFailure::Propose;
        proposes || self.holds_for_undo() || self.proposal == Proposal::Rejected || self.undo_needs_yes()
    }
}

/// `compensate` as the answer to one step's failure: the same as `undo`.
fn compensate(
    execution: &Execution,
    step: &str,
    reason: &Option<String>,
    approves: bool,
    values: &Values,
) -> Result<Vec<Fresh>, No> {
    let no = find(execution, step).map_err(No::Refused)?;
    let fitting = answers(execution, no);
    if !fitting.contains(&Answer::Compensate) {
        return Err(No::Refused(does_not_fit(execution, no, Answer::Compensate, &fitting)));
    }
    undo(execution, reason, approves, values)
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

/// What comes with an answer.
#[derive(Clone, Copy)]
struct Given<'a> {
    output: Option<&'a Value>,
    arguments: Option<&'a Value>,
}

fn answer_step(
    execution: &Execution,
    step: &str,
    answer: Answer,
    reason: &Option<String>,
    given: Given<'_>,
    values: &Values,
) -> Result<Vec<Fresh>, No> {
    let no = find(execution, step).map_err(No::Refused)?;
    let fitting = answers(execution, no);
    if !fitting.contains(&answer) {
        return Err(No::Refused(does_not_fit(execution, no, answer, &fitting)));
    }
    if let Some(arguments) = given.arguments {
        corrects(execution, no, answer, given).map_err(No::Refused)?;
        return Ok(answered(execution, no, answer, reason, Payload::Arguments(arguments)));
    }
    let output = match (given.output, answer) {
        (None, _) => return Ok(answered(execution, no, answer, reason, Payload::None)),
        (Some(output), Answer::Skip | Answer::Happened) => output.clone(),
        (Some(output), Answer::Retry) => reply(execution, no, output, values)?,
        (Some(_), Answer::DidNotHappen | Answer::Compensate | Answer::Abandon) => {
            return Err(No::Refused(no_output_with(answer)));
        }
    };
    Ok(answered(execution, no, answer, reason, Payload::Output(&output)))
}

/// Corrected arguments go with an answer that makes another attempt of a call.
fn corrects(execution: &Execution, no: StepNo, answer: Answer, given: Given<'_>) -> Result<(), Refusal> {
    let refused = |message: String, cure: &str| Err(Refusal::new("does_not_fit", message, cure));
    let (id, state) = (&execution.plan.step(no).id, execution.step(no));
    if !matches!(answer, Answer::Retry | Answer::DidNotHappen) {
        let message = format!("arguments do not go with `{answer}`");
        return refused(message, "give them with `retry`");
    }
    if given.output.is_some() {
        let message = "arguments and an output do not go together".to_owned();
        return refused(message, "an output answers what the tool asked; give one of the two");
    }
    if execution.phase == Phase::Unwind {
        let message = format!("step `{id}` is being undone, and its compensation's arguments are the plan's");
        return refused(message, "undo it by hand and answer `happened`, or `skip` it");
    }
    if execution.plan.step(no).tool().is_none() {
        let message = format!("step `{id}` is an action and has no arguments");
        return refused(message, "`retry` it without them, and tell its agent what to do");
    }
    let settles = state.counting().filter(|_| answer == Answer::DidNotHappen);
    let unknown = |(at, one): (usize, &Attempt)| {
        one.counts_as() == Some(Outcome::Unknown) && settles != u32::try_from(at).ok()
    };
    if state.attempts.iter().enumerate().any(unknown) {
        let message =
            format!("nobody knows whether step `{id}` took effect with the arguments that were sent");
        return refused(message, "if it certainly did not, answer `did-not-happen` with these arguments");
    }
    if !given.arguments.is_some_and(Value::is_object) {
        let message = "a call's arguments are a JSON object".to_owned();
        return refused(message, "give all of them, not only those that change");
    }
    Ok(())
}

fn no_output_with(answer: Answer) -> Refusal {
    let message = format!("an output does not go with `{answer}`");
    let cure = "give one with `skip` or `happened`, or with `retry` where the tool asked something";
    Refusal::new("does_not_fit", message, cure)
}

/// An output with `retry` is the reply to what the step's tool asked.
fn reply(execution: &Execution, no: StepNo, output: &Value, values: &Values) -> Result<Value, No> {
    let Some(question) = execution.step(no).question() else {
        return Err(No::Refused(no_output_with(Answer::Retry)));
    };
    let Some(asked) = values.0.get(&question.position) else {
        return Err(No::Missing(Missing(vec![question.position])));
    };
    question::reply(asked, output).map_err(No::Refused)
}

fn answered(
    execution: &Execution,
    no: StepNo,
    answer: Answer,
    reason: &Option<String>,
    with: Payload<'_>,
) -> Vec<Fresh> {
    let mut events = Vec::new();
    let state = execution.step(no);
    if state.compensation_open() && answer != Answer::Abandon {
        // The agent is no longer waited for; the answer stands in for its report.
        events.push(let_go(execution, no).into());
    }
    let (step, reason) = (Some(execution.step_id(no)), reason.clone());
    let keep = |value: &Value| {
        let payload = bytes(value);
        (Some(execution.keep(&payload)), Some(payload))
    };
    let (output, arguments, payload) = match with {
        Payload::None => (None, None, None),
        Payload::Output(output) => {
            let (kept, payload) = keep(output);
            (kept, None, payload)
        }
        Payload::Arguments(arguments) => {
            let (kept, payload) = keep(arguments);
            (None, kept, payload)
        }
    };
    let event = Decided { step, answer, reason, output, arguments };
    events.push(Fresh { event: event.into(), payload });
    events
}

/// The one payload that the entry of an answer owns.
#[derive(Clone, Copy)]
enum Payload<'a> {
    None,
    Output(&'a Value),
    Arguments(&'a Value),
}

/// Of the agent's compensation that nobody waits for any more.
fn let_go(execution: &Execution, step: StepNo) -> Event {
    let no = execution.step(step).compensations.len() as u32 - 1;
    let call = CallId { step, kind: CallKind::Compensation, no };
    Ending::new(Outcome::Unknown, None).of(execution, call)
}

fn does_not_fit(execution: &Execution, no: StepNo, answer: Answer, fitting: &[Answer]) -> Refusal {
    if execution.ended.is_some() || execution.stop.is_some() {
        return not_now(execution, "decide");
    }
    let (id, status) = (&execution.plan.step(no).id, execution.step(no).status());
    let message = format!("`{answer}` does not fit: step `{id}` is {status}");
    let fitting: Vec<&str> = fitting.iter().map(|answer| answer.as_str()).collect();
    let cure = match fitting.is_empty() {
        true => "`show` the execution: it says what waits for an answer".to_owned(),
        false => format!("answers that fit: {}", fitting.join(", ")),
    };
    Refusal::new("does_not_fit", message, cure)
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
