//! What agents put on record: how their steps and compensations go, what else they did, what was
//! decided and why. A report moves its step; everything else is kept, and only `stop` and `continue` act.

use serde_json::{Value, json};

use super::Fresh;
use super::claim::{self, CLAIM_MS, Reporter, Standing};
use super::command::{Ended, FACTS_BYTES_MAX, Facts, Refusal, Report};
use super::decide::{bytes, call_report, cancel, find, not_now, resume};
use super::due::{CallId, CallKind};
use super::state::{Execution, Phase};
use super::unwind::effect_remains;
use crate::event::*;
use crate::id::StepNo;
use crate::policy::{End, Outcome};
use crate::spelling::nearest;

/// A decision and its reason are part of the entry itself, so they are kept short.
const WORDS_BYTES_MAX: usize = 8 * 1024;
/// Decisions that act.
const STOP: &str = "stop";
const CONTINUE: &str = "continue";

/// How an agent's step or compensation goes; what else is told of it comes first, in one append.
pub(super) fn report(
    execution: &Execution,
    step: &str,
    report: &Report,
    facts: &Facts,
    by: Option<&Reporter>,
) -> Result<Vec<Fresh>, Refusal> {
    let no = find(execution, step)?;
    match by.map(|by| claim::standing(execution, no, by)).transpose()? {
        None | Some(Standing::Counts) => {}
        Some(Standing::Evidence) => {
            let facts = claim::evidence(report, facts);
            return Ok(vec![action(execution, Some(no), Some(report.word()), &facts)?]);
        }
    }
    let mut events = reported(execution, no, report, by)?;
    if !facts.is_empty() {
        events.insert(0, action(execution, Some(no), Some(report.word()), facts)?);
    }
    Ok(events)
}

/// An act that moves nothing.
pub(super) fn note(
    execution: &Execution,
    step: Option<&str>,
    status: Option<Reported>,
    facts: &Facts,
) -> Result<Vec<Fresh>, Refusal> {
    let no = step.map(|step| find(execution, step)).transpose()?;
    Ok(vec![action(execution, no, status, facts)?])
}

fn action(
    execution: &Execution,
    no: Option<StepNo>,
    status: Option<Reported>,
    facts: &Facts,
) -> Result<Fresh, Refusal> {
    not_erased(execution)?;
    let payload = facts.written()?;
    let step = no.map(|no| execution.step_id(no));
    let event = ActionRecorded { step, status, facts: execution.keep(&payload), project: None };
    Ok(Fresh { event: event.into(), payload: Some(payload) })
}

/// The salt is gone with the payloads, so nothing further can be kept beside an entry.
fn not_erased(execution: &Execution) -> Result<(), Refusal> {
    match execution.erased {
        false => Ok(()),
        true => Err(Refusal::new(
            "erased",
            "`cleanup` has erased this execution, and nothing is kept of it any more",
            "record it without an execution",
        )),
    }
}

pub(super) fn decision(
    execution: &Execution,
    decision: &str,
    reason: &Option<String>,
    step: Option<&str>,
    details: &Option<Value>,
) -> Result<Vec<Fresh>, Refusal> {
    let no = step.map(|step| find(execution, step)).transpose()?;
    short_enough(decision)?;
    short_enough(reason.as_deref().unwrap_or_default())?;
    let payload = details.as_ref().map(bytes);
    if payload.is_some() {
        not_erased(execution)?;
    }
    if payload.as_ref().is_some_and(|payload| payload.len() > FACTS_BYTES_MAX) {
        return Err(too_large("the details", FACTS_BYTES_MAX));
    }
    let follows = match acting_word(decision)? {
        Some(STOP) => cancel(execution, reason)?,
        Some(_) if execution.paused => resume(execution)?,
        Some(_) if execution.ended.is_some() => return Err(not_now(execution, CONTINUE)),
        Some(_) | None => Vec::new(),
    };
    let event = DecisionRecorded {
        step: no.map(|no| execution.step_id(no)),
        decision: decision.to_owned(),
        reason: reason.clone(),
        details: payload.as_deref().map(|body| execution.keep(body)),
    };
    let mut events = vec![Fresh { event: event.into(), payload }];
    events.extend(follows);
    Ok(events)
}

/// The decision that acts, in any case and with a full stop or not; `None`: free text. A single word that is
/// nearly one of the two is refused: recorded as free text it would silently not act.
fn acting_word(decision: &str) -> Result<Option<&'static str>, Refusal> {
    let word = decision.trim().trim_end_matches(['.', '!']);
    let acts = [STOP, CONTINUE].into_iter().find(|one| one.eq_ignore_ascii_case(word));
    if acts.is_some() || word.contains(char::is_whitespace) {
        return Ok(acts);
    }
    match nearest(word, [STOP, CONTINUE]) {
        Some(near) => {
            let message = format!("`{decision}` would only be kept, and nothing would follow from it");
            let cure = format!("did you mean `{near}`? To keep a remark, say it in more than one word");
            Err(Refusal::new("unclear_decision", message, cure))
        }
        None => Ok(None),
    }
}

fn short_enough(words: &str) -> Result<(), Refusal> {
    match words.len() <= WORDS_BYTES_MAX {
        true => Ok(()),
        false => Err(too_large("a decision and its reason", WORDS_BYTES_MAX)),
    }
}

fn too_large(what: &str, limit: usize) -> Refusal {
    let cure = "say it in short, and name a file for the rest";
    Refusal::new("too_large", format!("{what} may have {limit} bytes at most"), cure)
}

/// The agent undid a step itself. Where the plan's own compensation waits for it, this is its report;
/// else the step's effect is gone by the agent's word, once nothing goes forward any more.
pub(super) fn compensation(
    execution: &Execution,
    step: &str,
    done: bool,
    facts: &Facts,
) -> Result<Vec<Fresh>, Refusal> {
    let no = find(execution, step)?;
    let awaited = execution.open_agent(no).is_some_and(|call| call.kind == CallKind::Compensation);
    if awaited || lost_undo(execution, no) {
        let mut facts = facts.clone();
        let told = match done {
            true => Report::Compensated { output: facts.output.take() },
            false => failure(&facts),
        };
        return report(execution, step, &told, &facts, None);
    }
    may_undo_by_hand(execution, no)?;
    let status = if done { Reported::Compensated } else { Reported::Failed };
    let mut events = vec![action(execution, Some(no), Some(status), facts)?];
    if done {
        let spec = execution.plan.step(no);
        let attempts =
            execution.step(no).to_undo(execution.rules(no)).into_iter().map(|attempt| attempt + 1).collect();
        events.push(CompensationRecorded { step: spec.id.clone(), attempts }.into());
        events.extend(end_after_undo(execution, no).map(|status| ExecutionEnded { status }.into()));
    }
    Ok(events)
}

/// How an ended execution ends anew once `undone` is undone by hand: as an unwinding would end it. `None`
/// before the first end, while another step that has a way back still stands, and where the end stays: what
/// failed or was cancelled becomes `compensated` or stays as it is.
fn end_after_undo(execution: &Execution, undone: StepNo) -> Option<End> {
    let ended = execution.ended?;
    let others = || execution.numbers().filter(|no| *no != undone);
    if others().any(|no| has_way_back(execution, no)) {
        return None;
    }
    let leaves_behind = execution.rules(undone).leaves_behind();
    let remains = leaves_behind || others().any(|no| effect_remains(execution, no));
    match (remains, ended) {
        (false, End::Succeeded | End::Failed | End::Cancelled) => Some(End::Compensated),
        (true, End::Succeeded | End::Compensated) => Some(End::Failed),
        (true, End::Failed | End::Cancelled) | (false, End::Compensated) => None,
    }
}

fn failure(facts: &Facts) -> Report {
    let reason = facts.reason.clone().or_else(|| facts.error.clone());
    Report::Failed { reason, category: crate::policy::Category::ToolError }
}

fn may_undo_by_hand(execution: &Execution, no: StepNo) -> Result<(), Refusal> {
    let (spec, state) = (execution.plan.step(no), execution.step(no));
    let unwinding = execution.phase == Phase::Unwind && execution.stop.is_none();
    let refused = |message: String, cure: String| Err(Refusal::new("out_of_order", message, cure));
    if state.to_undo(execution.rules(no)).is_empty() {
        let message = format!("nothing of step `{}` stands: it is {}", spec.id, state.status());
        return refused(message, what_stands(execution));
    }
    if execution.ended.is_none() && !unwinding {
        let message = format!("the execution is {}, and goes forward", execution.status());
        return refused(message, "stop it first, or `undo` it, and then compensate".to_owned());
    }
    if state.compensation_open() {
        let message = format!("actbook itself is undoing step `{}`", spec.id);
        return refused(message, "wait for its end".to_owned());
    }
    if at_work(execution, no) {
        let message = format!("step `{}` has not come to rest", spec.id);
        return refused(message, "wait for its end, or report it".to_owned());
    }
    let first = standing_dependants(execution, no);
    if !first.is_empty() {
        let message = format!("step `{}` is undone after what depends on it", spec.id);
        return refused(message, format!("first compensate {}", first.join(", ")));
    }
    Ok(())
}

fn at_work(execution: &Execution, no: StepNo) -> bool {
    let index = &execution.index;
    let out = index.open_tools.iter().chain(&index.open_agents).any(|call| call.step == no);
    out || index.settling.contains(&no) || index.probes_due.contains(&no)
}

fn stands(execution: &Execution, no: StepNo) -> bool {
    !execution.step(no).to_undo(execution.rules(no)).is_empty()
}

/// The step stands and can be undone. What was left on purpose, or is irreversible without a compensation,
/// holds nothing up, as in an unwinding.
fn has_way_back(execution: &Execution, no: StepNo) -> bool {
    let irreversible = execution.rules(no).irreversible() && execution.plan.step(no).compensation.is_none();
    stands(execution, no) && !irreversible && !execution.step(no).left
}

fn what_stands(execution: &Execution) -> String {
    let standing: Vec<String> = named(execution, execution.numbers().filter(|no| stands(execution, *no)));
    match standing.is_empty() {
        true => "nothing that ran is left to compensate".to_owned(),
        false => format!("what may have run: {}", standing.join(", ")),
    }
}

fn standing_dependants(execution: &Execution, no: StepNo) -> Vec<String> {
    let mut found = std::collections::BTreeSet::new();
    let mut open = vec![no];
    while let Some(step) = open.pop() {
        for &other in &execution.plan.step(step).needed_by {
            if found.insert(other) {
                open.push(other);
            }
        }
    }
    named(execution, found.into_iter().filter(|other| has_way_back(execution, *other)))
}

fn named(execution: &Execution, steps: impl Iterator<Item = StepNo>) -> Vec<String> {
    steps.take(NAMED_MAX).map(|no| format!("`{}`", execution.plan.step(no).id)).collect()
}

/// Names in a refusal; more help nobody.
const NAMED_MAX: usize = 20;

fn reported(
    execution: &Execution,
    no: StepNo,
    report: &Report,
    by: Option<&Reporter>,
) -> Result<Vec<Fresh>, Refusal> {
    let open = execution.open_agent(no);
    let kind = open.map(|call| call.kind);
    match (report, kind) {
        (Report::Started, Some(CallKind::Run)) if may_begin(execution, no, by) => {
            let (step, attempt) = (execution.step_id(no), execution.step(no).attempts.len() as u32);
            let holder = by.map(|by| by.holder.clone());
            let until_ms = by.map(|by| by.at_ms.saturating_add(CLAIM_MS));
            Ok(vec![AgentStarted { step, attempt, holder, until_ms }.into()])
        }
        (Report::Succeeded { .. } | Report::Failed { .. }, Some(CallKind::Run))
        | (Report::Compensated { .. } | Report::Failed { .. }, Some(CallKind::Compensation)) => {
            let call = open.expect("the kind is that of an open call");
            Ok(call_report(execution, call, &ended(report)))
        }
        (Report::Succeeded { .. } | Report::Failed { .. } | Report::Compensated { .. }, None) => {
            late_record(execution, no, report)
        }
        (Report::Started, _)
        | (Report::Failed { .. }, Some(CallKind::Probe))
        | (Report::Compensated { .. }, Some(CallKind::Run | CallKind::Probe))
        | (Report::Succeeded { .. }, Some(CallKind::Compensation | CallKind::Probe)) => {
            Err(nothing_to_record(execution, no))
        }
    }
}

/// The first start, or another one that renews the claim or takes it over.
fn may_begin(execution: &Execution, no: StepNo, by: Option<&Reporter>) -> bool {
    let step = execution.step(no);
    let renews = by.is_some() && step.claim.is_some();
    (step.agent_began_ms.is_none() || renews) && !execution.paused
}

fn ended(report: &Report) -> Ended {
    match report {
        Report::Started => unreachable!("a start is no end"),
        Report::Succeeded { output } | Report::Compensated { output } => {
            Ended::Succeeded { output: output.clone().unwrap_or(Value::Null) }
        }
        Report::Failed { reason, category } => {
            let said = json!({ "message": reason });
            Ended::Failed { category: *category, said, unsent: false, retry_after_ms: None }
        }
    }
}

/// An agent's report after its work was given up settles it.
fn late_record(execution: &Execution, no: StepNo, report: &Report) -> Result<Vec<Fresh>, Refusal> {
    let state = execution.step(no);
    let run = state.last().is_some_and(|last| lost(last.by_agent, last.outcome, last.late));
    let undo = lost_undo(execution, no);
    let (kind, count) = match report {
        Report::Compensated { .. } | Report::Failed { .. } if undo => {
            (CallKind::Compensation, state.compensations.len())
        }
        Report::Succeeded { .. } | Report::Failed { .. } if run => (CallKind::Run, state.attempts.len()),
        Report::Started | Report::Succeeded { .. } | Report::Failed { .. } | Report::Compensated { .. } => {
            return Err(nothing_to_record(execution, no));
        }
    };
    let call = CallId { step: no, kind, no: count as u32 - 1 };
    Ok(call_report(execution, call, &ended(report)))
}

fn nothing_to_record(execution: &Execution, no: StepNo) -> Refusal {
    let (spec, state) = (execution.plan.step(no), execution.step(no));
    let message = format!("nothing to record for step `{}`: it is {}", spec.id, state.status());
    let waiting: Vec<String> = execution
        .index
        .open_agents
        .iter()
        .map(|call| format!("`{}`", execution.plan.step(call.step).id))
        .collect();
    let cure = match (execution.open_agent(no).map(|call| call.kind), waiting.is_empty()) {
        (Some(CallKind::Compensation), _) => "say `compensated` or `failed`".to_owned(),
        (Some(_), _) => "say `succeeded` or `failed`".to_owned(),
        (None, true) => "no step waits for its agent; `show` the execution".to_owned(),
        (None, false) => format!("steps that wait for their agent: {}", waiting.join(", ")),
    };
    Refusal::new("not_awaited", message, cure)
}

fn lost(by_agent: bool, outcome: Option<Outcome>, late: Option<Outcome>) -> bool {
    by_agent && outcome == Some(Outcome::Unknown) && late.is_none()
}

fn lost_undo(execution: &Execution, no: StepNo) -> bool {
    let last = execution.step(no).last_compensation();
    last.is_some_and(|last| lost(last.by_agent, last.outcome, last.late))
}
