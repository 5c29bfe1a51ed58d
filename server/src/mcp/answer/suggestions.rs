//! Suggests what to do next for an execution: the exact call, or the command for a person.

use actbook_engine::policy::{ExecutionStatus, StepAnswer, StepStatus};
use actbook_engine::template::escape_expressions;
use serde_json::{Value, json};

use crate::mcp::text::Suggestion;
use crate::mcp::waiting::WAIT_S_SUGGESTED;
use crate::service::view::{AnswerOption, ClaimView, ExecutionView, QuestionKind, StepView, WaitingView};
use crate::service::{ReportedStatus, quote};

/// Most characters of the name and session of the agent that holds a claim.
const HOLDER_CHARS_MAX: usize = 100;
/// Arguments up to this size are filled into a suggested correction.
const FILLED_IN_BYTES_MAX: usize = 1_000;
/// Questions that get a suggestion.
const QUESTIONS_MAX: usize = 8;

/// How an approval can be given for a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ApprovalRoute {
    /// The agent may approve by itself: the config allows it.
    Agent,
    /// A person answers a form that the client shows (MCP elicitation).
    Elicitation,
    /// A person runs a command.
    CommandLine,
}

/// Suggestions for an execution that no process with this toolset can drive; `why` says so and comes last.
pub fn undrivable_execution_suggestions(
    view: &ExecutionView,
    route: ApprovalRoute,
    why: &str,
) -> Vec<Suggestion> {
    let mut lines = question_suggestions(view, route);
    lines.push(Suggestion::advice(why));
    lines
}

/// One suggestion for each of the first `QUESTIONS_MAX` open questions. `route`: how an approval can be given.
fn question_suggestions(view: &ExecutionView, route: ApprovalRoute) -> Vec<Suggestion> {
    view.waiting.iter().take(QUESTIONS_MAX).map(|question| suggest_answer(view, question, route)).collect()
}

/// Suggestions for an execution by its status and open questions; empty if there is nothing to do.
pub fn execution_suggestions(view: &ExecutionView, route: ApprovalRoute) -> Vec<Suggestion> {
    let mut lines = question_suggestions(view, route);
    let id = view.id.as_str();
    lines.extend(suggest_instead_of_undo(view));
    match view.status {
        ExecutionStatus::Running | ExecutionStatus::Compensating => lines.push(suggest_waiting(id)),
        ExecutionStatus::Paused => {
            lines.push(suggest_control(id, "resume", None, "goes on, action \"cancel\" stops it for good"))
        }
        ExecutionStatus::Failed | ExecutionStatus::Cancelled if can_undo(view) && view.waiting.is_empty() => {
            lines.push(suggest_undo(view));
        }
        ExecutionStatus::Blocked
        | ExecutionStatus::Succeeded
        | ExecutionStatus::Compensated
        | ExecutionStatus::Failed
        | ExecutionStatus::Cancelled => {}
    }
    lines
}

/// Suggests to wait for the execution with `status`.
fn suggest_waiting(id: &str) -> Suggestion {
    Suggestion::tool_call("status", json!({ "execution_id": id, "wait_s": WAIT_S_SUGGESTED }), "waits for it")
}

/// Suggests to undo an ended execution; if a person has rejected an undo, only advises to ask first.
fn suggest_undo(view: &ExecutionView) -> Suggestion {
    let undo = suggest_control(view.id.as_str(), "compensate", None, "undoes what the brief lists");
    if view.undo_rejected.is_none() {
        return undo;
    }
    Suggestion::advice("a person said no to the undo: ask them before you ask for it again")
}

/// Whether the brief lists a step that can be undone.
fn can_undo(view: &ExecutionView) -> bool {
    view.brief.as_ref().is_some_and(|brief| !brief.undo.is_empty())
}

/// While a proposed undo waits for its yes: suggests to answer a failed step instead.
fn suggest_instead_of_undo(view: &ExecutionView) -> Option<Suggestion> {
    let proposed = view.waiting.iter().any(|waiting| waiting.proposes_undo);
    let failed = view.steps.iter().find(|step| step.status == StepStatus::Failed).filter(|_| proposed)?;
    let why = "(with `arguments`, all of the call's, to correct it) goes on instead of the undo; so does action skip";
    Some(suggest_control(view.id.as_str(), "retry", Some(failed.id.as_str()), why))
}

/// Suggests how to answer one open question.
fn suggest_answer(view: &ExecutionView, waiting: &WaitingView, route: ApprovalRoute) -> Suggestion {
    let id = view.id.as_str();
    let step = waiting.step.as_ref().map(|step| step.as_str());
    match waiting.kind {
        QuestionKind::Approval if route == ApprovalRoute::Agent && !view.agents_may_approve => {
            suggest_approval(id, waiting, ApprovalRoute::CommandLine)
        }
        QuestionKind::Approval if route == ApprovalRoute::Elicitation && waiting.too_long => {
            Suggestion::advice(format!(
                "ask a person: {}; `actbook reject` says no",
                waiting.too_long_text(id)
            ))
        }
        QuestionKind::Approval => suggest_approval(id, waiting, route),
        QuestionKind::Agent
            if waiting.options.contains(&AnswerOption::Report(ReportedStatus::Compensated)) =>
        {
            let step = step.unwrap_or_default();
            let arguments = json!({ "execution_id": id, "step_id": step, "action_taken": "what you did" });
            let first = format!("undo step `{step}` yourself, then");
            Suggestion::tool_call("record_compensation", arguments, "").preceded_by(first)
        }
        QuestionKind::Agent => suggest_agent_step(view, id, step.unwrap_or_default(), waiting.claim.as_ref()),
        QuestionKind::Decision if is_about_unknown_step(view, waiting) => {
            suggest_resolving_unknown(id, step, waiting)
        }
        QuestionKind::Decision if is_about_undo(view, waiting) => {
            let first = format!(
                "the undo of step `{}` failed; each answer is about that undo:",
                step.unwrap_or_default()
            );
            suggest_decision(id, step, waiting, false).preceded_by(first)
        }
        QuestionKind::Decision => suggest_decision(id, step, waiting, is_about_call(view, waiting)),
    }
}

/// Suggests the approval of a step, or of the plan or undo without one.
fn suggest_approval(id: &str, waiting: &WaitingView, route: ApprovalRoute) -> Suggestion {
    let step = waiting.step.as_ref().map(|step| step.as_str());
    let step_word = step.map(|step| format!(" {step}")).unwrap_or_default();
    match route {
        ApprovalRoute::Agent => suggest_control(id, "approve", step, "or action \"reject\""),
        ApprovalRoute::Elicitation => {
            suggest_control(id, "approve", step, "asks the person through this client")
        }
        ApprovalRoute::CommandLine => Suggestion::advice(format!(
            "ask a person to {}run `actbook approve {id}{step_word}` (or `actbook reject {id}{step_word}`); you cannot approve it yourself",
            page_words(waiting)
        )),
    }
}

/// `answer it at URL or to `, if a page shows the question; else nothing.
pub fn page_words(waiting: &WaitingView) -> String {
    waiting.page.as_ref().map(|page| format!("answer it at {page} or to ")).unwrap_or_default()
}

/// Suggests to do a step and report it with `record_action`; names another agent that claimed it.
fn suggest_agent_step(view: &ExecutionView, id: &str, step: &str, claim: Option<&ClaimView>) -> Suggestion {
    if let Some(claim) = claim.filter(|claim| claim.is_anothers) {
        let holder = quote::line(&claim.holder, HOLDER_CHARS_MAX);
        return Suggestion::advice(format!(
            "leave step `{step}` to {holder}, who started it; after {} record_action with take_over: true takes it over",
            claim.until
        ));
    }
    let shown = view.steps.iter().find(|one| one.id.as_str() == step);
    let what = match shown.and_then(|one| one.tool.as_deref()) {
        Some(tool) => format!("call {tool} yourself with the step's arguments, then"),
        None => format!("do step `{step}` yourself, then"),
    };
    let mut done =
        json!({ "execution_id": id, "step_id": step, "status": "succeeded", "description": "what you did" });
    if claim.is_some_and(|claim| claim.lapsed) {
        done["take_over"] = json!(true);
    }
    let why = "(with `output` if it gave something; status \"failed\" with `error` if it did not work)";
    let claimed = claim.filter(|claim| claim.lapsed).map(|claim| {
        let holder = quote::line(&claim.holder, HOLDER_CHARS_MAX);
        format!(" — it was started by {holder}, whose claim has lapsed")
    });
    Suggestion::tool_call("record_action", done, format!("{why}{}", claimed.unwrap_or_default()))
        .preceded_by(what)
}

/// Suggests the first option of a decision, and names the others; `is_call`: it is about a call of a tool. If the tool asks for input or refused the
/// arguments, suggests a retry with what it needs.
fn suggest_decision(id: &str, step: Option<&str>, waiting: &WaitingView, is_call: bool) -> Suggestion {
    let actions: Vec<String> =
        waiting.options.iter().map(|option| option.as_str().replace('-', "_")).collect();
    let Some((first, others)) = actions.split_first() else {
        return suggest_control(id, "abandon", step, "");
    };
    let others =
        if others.is_empty() { String::new() } else { format!("— or action {}", others.join(", ")) };
    if waiting.requests.is_some() {
        return suggest_control(
            id,
            "retry",
            step,
            &format!("with `output`: the fields it asks for {others}"),
        );
    }
    let is_retry = waiting.options.first() == Some(&AnswerOption::Decide(StepAnswer::Retry));
    if let Some(refused) = waiting.refused_arguments.as_ref().filter(|_| is_retry) {
        return suggest_correction(id, step, refused, &others);
    }
    let corrects =
        if is_retry && is_call { "(with `arguments`, all of the call's, to correct it) " } else { "" };
    let suggestion = suggest_control(id, first, step, &format!("{corrects}{others}"));
    if waiting.rejected {
        return suggestion.preceded_by("a person said no to this call: ask them what to do instead, then");
    }
    suggestion
}

/// Suggests a retry with corrected arguments; short ones are filled in as they were, with `${` escaped
/// because an answer may hold no expression. `others`: the text on the other options.
fn suggest_correction(id: &str, step: Option<&str>, refused: &Value, others: &str) -> Suggestion {
    let escaped = escape_expressions(refused);
    let fits = escaped.to_string().len() <= FILLED_IN_BYTES_MAX;
    // Without a reason, as in `suggest_control`.
    let mut arguments = json!({ "execution_id": id, "action": "retry" });
    arguments["step_id"] = json!(step);
    arguments["arguments"] = if fits { escaped } else { json!({}) };
    Suggestion::tool_call("control", arguments, others)
        .preceded_by("correct `arguments`, all of the call's, then")
}

/// Whether the question is about a step's own call of a tool, which a retry can correct.
fn is_about_call(view: &ExecutionView, waiting: &WaitingView) -> bool {
    asked_step(view, waiting)
        .is_some_and(|step| step.tool.is_some() && step.status != StepStatus::CompensationFailed)
}

/// Whether the question is about the undo of a step.
fn is_about_undo(view: &ExecutionView, waiting: &WaitingView) -> bool {
    asked_step(view, waiting).is_some_and(|step| step.status == StepStatus::CompensationFailed)
}

/// The step that the question is about.
fn asked_step<'a>(view: &'a ExecutionView, waiting: &WaitingView) -> Option<&'a StepView> {
    view.steps.iter().find(|one| Some(&one.id) == waiting.step.as_ref())
}

/// Whether the step that the question is about has an unknown outcome.
fn is_about_unknown_step(view: &ExecutionView, waiting: &WaitingView) -> bool {
    asked_step(view, waiting).is_some_and(|step| step.status == StepStatus::Unknown)
}

/// Suggests to find out first whether an unknown step took effect, so that agents do not guess.
fn suggest_resolving_unknown(id: &str, step: Option<&str>, waiting: &WaitingView) -> Suggestion {
    let answers = [StepAnswer::Happened, StepAnswer::DidNotHappen].map(AnswerOption::Decide);
    let others = waiting.options.iter().filter(|option| !answers.contains(option));
    let others: Vec<String> = others.map(|option| option.as_str().replace('-', "_")).collect();
    let first = format!("check first whether step `{}` took effect. If it did:", step.unwrap_or_default());
    let why = format!(
        "(with `output`, what it gave, if a later step reads that); if it certainly did not: action \"did_not_happen\". If nobody can tell: {}",
        others.join(", ")
    );
    suggest_control(id, "happened", step, &why).preceded_by(first)
}

/// Suggests a call of `control` with this action; `why` is the text after the call.
fn suggest_control(id: &str, action: &str, step: Option<&str>, why: &str) -> Suggestion {
    // Without a reason: a placeholder would be journaled by an agent that makes the call as it stands.
    let mut arguments = json!({ "execution_id": id, "action": action });
    if let Some(step) = step {
        arguments["step_id"] = json!(step);
    }
    Suggestion::tool_call("control", arguments, why)
}

/// The arguments of a `status` call that shows a step whole, from character `offset` of its values on.
pub fn status_step_arguments(execution: &str, step: &str, offset: usize) -> Value {
    let mut arguments = json!({ "execution_id": execution, "step_id": step });
    if offset > 0 {
        arguments["offset"] = json!(offset);
    }
    arguments
}
