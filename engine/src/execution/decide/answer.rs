//! What a person or an agent answers to a failed or unknown step, or to its compensation.

use serde_json::Value;

use super::super::asks::answers;
use super::super::command::Refusal;
use super::super::due::{CallId, CallKind};
use super::super::ending::Ending;
use super::super::follow::{Missing, Values};
use super::super::state::{Attempt, Execution, Phase};
use super::super::{Fresh, question};
use super::{No, bytes, find, not_now};
use crate::event::{Decided, Event};
use crate::id::StepNo;
use crate::policy::{Answer, Outcome};

/// What comes with an answer.
#[derive(Clone, Copy)]
pub(super) struct Given<'a> {
    pub output: Option<&'a Value>,
    pub arguments: Option<&'a Value>,
}

pub(super) fn answer_step(
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

pub(super) fn does_not_fit(execution: &Execution, no: StepNo, answer: Answer, fitting: &[Answer]) -> Refusal {
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
