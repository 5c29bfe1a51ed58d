//! Answers of a person or an agent about a failed or unknown step, or about its compensation.

use serde_json::Value;

use super::super::NewEvent;
use super::super::attempt::Attempt;
use super::super::call_ending::CallEnding;
use super::super::due::{CallId, CallKind};
use super::super::evolve::Execution;
use super::super::questions::allowed_answers;
use super::super::state::Phase;
use super::{find_step, to_json_bytes, wrong_status_refusal};
use crate::bind::ValueTemplate;
use crate::event::{Decided, Event};
use crate::id::StepNo;
use crate::policy::{Outcome, StepAnswer};
use crate::refusal::{AllowedAnswers, ArgumentsProblem, Refusal, StatusAction};

/// What a caller may pass along with an answer.
#[derive(Clone, Copy)]
pub(super) struct AnswerInput<'a> {
    /// The step's output, or, with `retry`, the reply to the tool's question in the form that the tool expects.
    pub output: Option<&'a Value>,
    /// Corrected arguments for the next attempt.
    pub arguments: Option<&'a Value>,
    /// The caller named the open question. A reply must: it was written for that question's format.
    pub names_question: bool,
    /// The caller may approve.
    pub approves: bool,
}

/// The events of an answer (retry, skip, …) about a step; refused where its state forbids it.
pub(super) fn answer_step(
    execution: &Execution,
    step: &str,
    answer: StepAnswer,
    reason: &Option<String>,
    input: AnswerInput<'_>,
) -> Result<Vec<NewEvent>, Refusal> {
    let no = find_step(execution, step)?;
    let allowed = allowed_answers(execution, no);
    if !allowed.contains(&answer) {
        return Err(answer_not_allowed(execution, no, answer, &allowed));
    }
    if let Some(arguments) = input.arguments {
        check_corrected_arguments(execution, no, answer, input)?;
        let arguments = literal_arguments(arguments)?;
        return Ok(decided_events(execution, no, answer, reason, DecisionPayload::Arguments(&arguments)));
    }
    let takes_output = match answer {
        StepAnswer::Skip | StepAnswer::Happened => true,
        StepAnswer::Retry => execution.step(no).open_question().is_some() && input.names_question,
        StepAnswer::DidNotHappen | StepAnswer::Compensate | StepAnswer::Abandon => false,
    };
    let payload = match input.output {
        None => DecisionPayload::None,
        Some(_) if takes_output && reply_needs_approval(execution, no, answer, input) => {
            return Err(Refusal::ReplyNeedsApproval { step: execution.step_id(no) });
        }
        Some(output) if takes_output => DecisionPayload::Output(output),
        Some(_) => return Err(Refusal::OutputNotAllowed { answer }),
    };
    Ok(decided_events(execution, no, answer, reason, payload))
}

/// Whether this reply to a tool's question must come from one who may approve: it goes into a call for which the config
/// demands an approval, which was given before the reply was written.
fn reply_needs_approval(
    execution: &Execution,
    no: StepNo,
    answer: StepAnswer,
    input: AnswerInput<'_>,
) -> bool {
    let tool = execution.plan.step(no).tool();
    answer == StepAnswer::Retry
        && !input.approves
        && tool.is_some_and(|tool| execution.tool_needs_approval(tool))
}

/// Checks an answer with corrected arguments against the step's state, and returns the arguments as they
/// would be sent. Journals nothing.
pub fn check_corrected_answer(
    execution: &Execution,
    step: &str,
    answer: StepAnswer,
    arguments: &Value,
) -> Result<Value, Refusal> {
    let no = find_step(execution, step)?;
    let allowed = allowed_answers(execution, no);
    if !allowed.contains(&answer) {
        return Err(answer_not_allowed(execution, no, answer, &allowed));
    }
    let input =
        AnswerInput { output: None, arguments: Some(arguments), names_question: false, approves: false };
    check_corrected_arguments(execution, no, answer, input)?;
    literal_arguments(arguments)
}

/// The arguments as they are sent: `$${` stands for `${`, as in a plan. Refused where they hold an expression,
/// because an answer is not bound.
fn literal_arguments(arguments: &Value) -> Result<Value, Refusal> {
    let parsed = ValueTemplate::parse(arguments).ok();
    if let Some(literal) = parsed.as_ref().and_then(ValueTemplate::as_literal) {
        return Ok(literal.clone());
    }
    let path = expression_path(arguments).unwrap_or_default();
    Err(Refusal::ArgumentsNotAllowed(ArgumentsProblem::HoldExpression { path }))
}

/// The path of the first text with an unescaped `${`, such as `.to[0]`; `None` where there is none.
fn expression_path(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => text.replace("$${", "").contains("${").then(String::new),
        Value::Array(items) => items
            .iter()
            .enumerate()
            .find_map(|(index, item)| expression_path(item).map(|rest| format!("[{index}]{rest}"))),
        Value::Object(fields) => {
            fields.iter().find_map(|(name, field)| Some(format!(".{name}{}", expression_path(field)?)))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => None,
    }
}

/// Refuses corrected arguments for an answer other than `retry` and `did_not_happen`, for a step without a
/// tool, while the execution is undone, beside an output, if they are no object, or while an attempt of the
/// step stays unknown: another call could repeat its effect.
fn check_corrected_arguments(
    execution: &Execution,
    no: StepNo,
    answer: StepAnswer,
    input: AnswerInput<'_>,
) -> Result<(), Refusal> {
    let refused = |problem: ArgumentsProblem| Err(Refusal::ArgumentsNotAllowed(problem));
    let (step, state) = (execution.step_id(no), execution.step(no));
    if !matches!(answer, StepAnswer::Retry | StepAnswer::DidNotHappen) {
        return refused(ArgumentsProblem::AnswerTakesNone { answer });
    }
    if input.output.is_some() {
        return refused(ArgumentsProblem::GivenWithOutput);
    }
    if execution.phase == Phase::Unwind {
        return refused(ArgumentsProblem::StepIsUndone { step });
    }
    if execution.plan.step(no).tool().is_none() {
        return refused(ArgumentsProblem::StepHasNone { step });
    }
    let settled_now = state.last_counted_index().filter(|_| answer == StepAnswer::DidNotHappen);
    let stays_unknown = |(index, attempt): (usize, &Attempt)| {
        attempt.is_unknown() && settled_now != u32::try_from(index).ok()
    };
    if state.attempts.iter().enumerate().any(stays_unknown) {
        return refused(ArgumentsProblem::EffectUnknown { step });
    }
    if !input.arguments.is_some_and(Value::is_object) {
        return refused(ArgumentsProblem::NotAnObject);
    }
    Ok(())
}

/// The events of an accepted answer.
fn decided_events(
    execution: &Execution,
    no: StepNo,
    answer: StepAnswer,
    reason: &Option<String>,
    payload: DecisionPayload<'_>,
) -> Vec<NewEvent> {
    let mut events = Vec::new();
    let state = execution.step(no);
    if state.is_compensation_open() && answer != StepAnswer::Abandon {
        // The answer replaces the report of the agent that was to undo the step.
        events.push(give_up_compensation(execution, no).into());
    }
    let (step, reason) = (Some(execution.step_id(no)), reason.clone());
    let digested = |value: &Value| {
        let payload = to_json_bytes(value);
        (Some(execution.digest_payload(&payload)), Some(payload))
    };
    let (output, arguments, payload) = match payload {
        DecisionPayload::None => (None, None, None),
        DecisionPayload::Output(output) => {
            let (digest, payload) = digested(output);
            (digest, None, payload)
        }
        DecisionPayload::Arguments(arguments) => {
            let (digest, payload) = digested(arguments);
            (None, digest, payload)
        }
    };
    let event = Decided { step, answer, reason, output, arguments };
    events.push(NewEvent { event: event.into(), payload });
    events
}

/// The payload of a `Decided` entry, which holds at most one.
#[derive(Clone, Copy)]
enum DecisionPayload<'a> {
    None,
    Output(&'a Value),
    Arguments(&'a Value),
}

/// Ends an agent's open compensation as unknown, because an answer replaces its report.
fn give_up_compensation(execution: &Execution, step: StepNo) -> Event {
    let index = execution.step(step).compensations.len() as u32 - 1;
    let call = CallId { step, kind: CallKind::Compensation, index };
    CallEnding::new(Outcome::Unknown, None).into_event(execution, call)
}

/// The refusal of an answer that the step's state does not allow, with those that it does.
pub(super) fn answer_not_allowed(
    execution: &Execution,
    no: StepNo,
    answer: StepAnswer,
    allowed: &[StepAnswer],
) -> Refusal {
    if execution.ended.is_some() || execution.stop.is_some() {
        return wrong_status_refusal(execution, StatusAction::Decide);
    }
    let allowed = if !allowed.is_empty() {
        AllowedAnswers::Listed(allowed.to_vec())
    } else if execution.open_agent_call(no).is_some() {
        AllowedAnswers::AfterReport
    } else {
        AllowedAnswers::None
    };
    let (step, status) = (execution.step_id(no), execution.step(no).status());
    Refusal::AnswerNotAllowed { answer, step, status, allowed }
}
