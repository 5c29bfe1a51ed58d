//! What to do next: the exact call, or the exact words for a person.

use actbook_engine::policy::{Status, StepStatus};
use serde_json::{Value, json};

use crate::mcp::text::Next;
use crate::mcp::waiting::WAIT_S_SUGGESTED;
use crate::service::quote;
use crate::service::view::{ClaimView, ExecutionView, WaitingView};

/// Of an agent's name with its session.
const HOLDER_CHARS_MAX: usize = 100;
/// More lines than this help nobody.
const LINES_MAX: usize = 8;

/// Which ways to an approval are open to this caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Doors {
    /// The config lets agents approve.
    Agent,
    /// The client can put the question to its person.
    Person,
    /// Only the command line.
    Terminal,
}

/// Where nobody of this place can go on with it.
pub fn elsewhere(view: &ExecutionView, doors: Doors, why: &str) -> Vec<Next> {
    let mut lines = answers(view, doors);
    lines.push(Next::say(why));
    lines
}

fn answers(view: &ExecutionView, doors: Doors) -> Vec<Next> {
    view.waiting.iter().take(LINES_MAX).map(|one| answer(view, one, doors)).collect()
}

pub fn lines(view: &ExecutionView, doors: Doors) -> Vec<Next> {
    let mut lines = answers(view, doors);
    let id = view.id.as_str();
    match view.status {
        Status::Running | Status::Compensating => lines.push(waits(id)),
        Status::Paused => {
            lines.push(control(id, "resume", None, "goes on, action \"cancel\" stops it for good"))
        }
        Status::Failed | Status::Cancelled if can_undo(view) => {
            lines.push(control(id, "compensate", None, "undoes what the brief lists"));
        }
        Status::Blocked | Status::Succeeded | Status::Compensated | Status::Failed | Status::Cancelled => {}
    }
    lines
}

fn waits(id: &str) -> Next {
    Next::call("status", json!({ "execution_id": id, "wait_s": WAIT_S_SUGGESTED }), "waits for it")
}

fn can_undo(view: &ExecutionView) -> bool {
    view.brief.as_ref().is_some_and(|brief| !brief.undo.is_empty())
}

fn answer(view: &ExecutionView, waiting: &WaitingView, doors: Doors) -> Next {
    let id = view.id.as_str();
    let step = waiting.step.as_ref().map(|step| step.as_str());
    match waiting.kind {
        "approval" if doors == Doors::Agent && !view.agents_may_approve => {
            approval(id, step, Doors::Terminal)
        }
        "approval" => approval(id, step, doors),
        "agent" if waiting.options.contains(&"compensated") => {
            let step = step.unwrap_or_default();
            let arguments = json!({ "execution_id": id, "step_id": step, "action_taken": "what you did" });
            let first = format!("undo step `{step}` yourself, then");
            Next::call("record_compensation", arguments, "").after(first)
        }
        "agent" => agent(view, id, step.unwrap_or_default(), waiting.claim.as_ref()),
        _ if is_unknown(view, waiting) => unknown(id, step, waiting),
        _ => decision(id, step, waiting),
    }
}

fn approval(id: &str, step: Option<&str>, doors: Doors) -> Next {
    let words = step.map(|step| format!(" {step}")).unwrap_or_default();
    match doors {
        Doors::Agent => control(id, "approve", step, "or action \"reject\""),
        Doors::Person => control(id, "approve", step, "asks the person through this client"),
        Doors::Terminal => Next::say(format!(
            "ask a person to run `actbook approve {id}{words}` (or `actbook reject {id}{words}`); you cannot approve it yourself"
        )),
    }
}

/// What the agent does itself and then reports; where another has started it, who that is.
fn agent(view: &ExecutionView, id: &str, step: &str, claim: Option<&ClaimView>) -> Next {
    let shown = view.steps.iter().find(|one| one.id.as_str() == step);
    let what = match shown.and_then(|one| one.tool.as_deref()) {
        Some(tool) => format!("call {tool} yourself with the step's arguments, then"),
        None => format!("do step `{step}` yourself, then"),
    };
    let done =
        json!({ "execution_id": id, "step_id": step, "status": "succeeded", "description": "what you did" });
    let why = "(with `output` if it gave something; status \"failed\" with `error` if it did not work)";
    let claimed = claim.map(|ClaimView { holder, until }| {
        let holder = quote::line(holder, HOLDER_CHARS_MAX);
        format!(" — only if you are {holder}, who started it; after {until} others may, with take_over: true")
    });
    Next::call("record_action", done, format!("{why}{}", claimed.unwrap_or_default())).after(what)
}

fn decision(id: &str, step: Option<&str>, waiting: &WaitingView) -> Next {
    let words: Vec<String> = waiting.options.iter().map(|option| option.replace('-', "_")).collect();
    let Some((first, others)) = words.split_first() else { return control(id, "abandon", step, "") };
    let others =
        if others.is_empty() { String::new() } else { format!("— or action {}", others.join(", ")) };
    match &waiting.requests {
        Some(_) => control(id, "retry", step, &format!("with `output`: the fields it asks for {others}")),
        None => control(id, first, step, &others),
    }
}

fn is_unknown(view: &ExecutionView, waiting: &WaitingView) -> bool {
    let step = view.steps.iter().find(|one| Some(&one.id) == waiting.step.as_ref());
    step.is_some_and(|step| step.status == StepStatus::Unknown)
}

/// Nobody is to try again, or to guess, before having looked.
fn unknown(id: &str, step: Option<&str>, waiting: &WaitingView) -> Next {
    let settles = ["happened", "did-not-happen"];
    let others = waiting.options.iter().filter(|option| !settles.contains(option));
    let others: Vec<String> = others.map(|option| option.replace('-', "_")).collect();
    let first = format!(
        "find out first, by looking, whether step `{}` took effect. If it did:",
        step.unwrap_or_default()
    );
    let why = format!(
        "; if it certainly did not: action \"did_not_happen\". Should nobody be able to tell: {}",
        others.join(", ")
    );
    control(id, "happened", step, &why).after(first)
}

fn control(id: &str, action: &str, step: Option<&str>, why: &str) -> Next {
    let mut arguments = json!({ "execution_id": id, "action": action, "reason": "why" });
    if let Some(step) = step {
        arguments["step_id"] = json!(step);
    }
    Next::call("control", arguments, why)
}

/// The call that reads on in what a step gave, or reads the step whole.
pub fn reads_step(execution: &str, step: &str, offset: usize) -> Value {
    let mut arguments = json!({ "execution_id": execution, "step_id": step });
    if offset > 0 {
        arguments["offset"] = json!(offset);
    }
    arguments
}
