//! Commands to an execution: pause, resume, cancel, undo, and the answers to its questions; and what agents report.

use actbook_engine::policy::StepAnswer;
use actbook_engine::refusal::Refusal;
use axum::extract::Path;
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::post;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::change::{Change, changed};
use super::executions::continue_and_view;
use super::operation::Operation;
use super::params;
use crate::caller::{Caller, Right};
use crate::error::Error;
use crate::service::view::ExecutionView;
use crate::service::{
    ActionFacts, ActionRecord, AnswerChoice, Brief, CallUndoView, Decision, FoundExecution, GivenAnswer,
    RecordResult, ReportedStatus, UndoPart, UndoSelection, undo_digest,
};
use crate::web::{Problem, WebState};

pub fn operations() -> Vec<Operation> {
    let operate = |path, id, handler, summary| {
        Operation::new("POST", path, id, handler).summary(summary).right(Right::Operate)
    };
    let reason = || json!({ "reason": "the release is wrong" });
    let approval = || json!({ "step_id": "announce", "question": "41", "reason": "read it" });
    vec![
        operate("/executions/{id}/pause", "pause_execution", post(pause), "Start nothing further")
            .body::<ReasonBody>(reason())
            .waits()
            .gives("Execution"),
        operate("/executions/{id}/resume", "resume_execution", post(resume), "Lift a pause, or take it up")
            .body::<ReasonBody>(reason())
            .waits()
            .gives("Execution"),
        operate("/executions/{id}/cancel", "cancel_execution", post(cancel), "End it; nothing is undone")
            .body::<ReasonBody>(reason())
            .waits()
            .gives("Execution"),
        operate("/executions/{id}/undo", "undo_execution", post(undo), "Compensate whatever may have run")
            .body::<UndoBody>(json!({ "dry_run": false, "reason": "the release is wrong" }))
            .waits()
            .gives("ExecutionOrBrief"),
        operate(
            "/executions/{id}/decide",
            "decide",
            post(decide),
            "Answer about steps that failed or are unknown",
        )
        .body::<DecideBody>(json!({ "step_id": "draft", "answer": "retry", "question": "17" }))
        .waits()
        .gives("DecidedExecution"),
        Operation::new("POST", "/executions/{id}/approve", "approve", post(approve))
            .summary("Say yes to a step; without step_id to the plan or a proposed undo")
            .right(Right::Approve)
            .body::<ApprovalBody>(approval())
            .waits()
            .gives("Execution"),
        Operation::new("POST", "/executions/{id}/reject", "reject", post(reject))
            .summary("Say no to a step; without step_id to the plan or a proposed undo")
            .right(Right::Approve)
            .body::<ApprovalBody>(approval())
            .waits()
            .gives("Execution"),
        Operation::new("POST", "/executions/{id}/steps/{step}/record", "record_step", post(record_step))
            .summary("Report on a step that an agent or a person performs")
            .right(Right::Run)
            .body::<RecordBody>(json!({ "status": "succeeded", "description": "told the team" }))
            .waits()
            .gives("Execution"),
        Operation::new("POST", "/executions/{id}/decisions", "record_decision", post(record_decision))
            .summary("Put a decision and its reason on record")
            .right(Right::Run)
            .body::<DecisionBody>(json!({ "decision": "ship without notes", "reason": "asked for" }))
            .waits()
            .gives("Execution"),
        Operation::new("POST", "/records", "record_action", post(record_action))
            .summary("Put an act outside of any plan on record")
            .right(Right::Run)
            .body::<RecordBody>(json!({ "description": "renamed the branch", "type": "git" }))
            .creates("Recorded"),
    ]
}

/// A body with nothing but a reason.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ReasonBody {
    /// Why; it is journaled
    reason: Option<String>,
}

/// The body of `…/undo`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct UndoBody {
    /// Why; it is journaled
    reason: Option<String>,
    /// Only show what undoing would do
    #[serde(default)]
    dry_run: bool,
    /// In a session: undo this call and those that started later
    from: Option<String>,
    /// In a session: restore files alone, or make the calls alone
    only: Option<UndoPartName>,
    /// The `calls` of a dry run: refused with 409 if undoing would make other calls by now
    calls: Option<String>,
}

/// What an undo of a session is limited to.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum UndoPartName {
    Files,
    Calls,
}

/// What undoing would do, and the name of exactly that.
#[derive(Debug, Serialize)]
struct UndoPreview {
    #[serde(flatten)]
    brief: Brief,
    calls: String,
    /// Of a session: what becomes of each call.
    #[serde(skip_serializing_if = "Option::is_none")]
    session_calls: Option<Vec<CallUndoView>>,
}

impl UndoBody {
    fn selection(&self) -> UndoSelection {
        let only = self.only.map(|only| match only {
            UndoPartName::Files => UndoPart::Files,
            UndoPartName::Calls => UndoPart::Calls,
        });
        UndoSelection { from: self.from.clone(), only }
    }
}

/// The body of `…/approve` and `…/reject`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ApprovalBody {
    /// Without it: the plan, or a proposed undo
    step_id: Option<String>,
    /// The `id` of the question in `waiting`: the answer counts for no other
    #[schemars(regex(pattern = "^[0-9]{1,18}$"))]
    question: Option<String>,
    /// Why; it is journaled
    reason: Option<String>,
}

/// The body of `…/decide`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct DecideBody {
    step_id: Option<String>,
    /// Instead of step_id: several steps, one answer
    step_ids: Option<Vec<String>>,
    /// retry, skip, happened, did-not-happen, compensate or abandon
    #[schemars(extend("enum" = answer_words()))]
    answer: String,
    /// The `id` of the question in `waiting`: the answer counts for no other
    #[schemars(regex(pattern = "^[0-9]{1,18}$"))]
    question: Option<String>,
    /// Why; it is journaled
    reason: Option<String>,
    /// With happened or skip: the step's output; with retry: the fields its tool asks for
    output: Option<Value>,
    /// With retry or did-not-happen: all arguments of the call, corrected
    arguments: Option<Value>,
}

/// The body of `…/record` and of `/records`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct RecordBody {
    /// Of a step: started, succeeded, failed or compensated; without it: only a remark
    #[schemars(extend("enum" = params::choices(ReportedStatus::ALL, ReportedStatus::as_str)))]
    status: Option<String>,
    /// What was done, in a sentence
    description: Option<String>,
    /// A label, such as file_edit
    r#type: Option<String>,
    /// What it was done to
    entity: Option<String>,
    before_state: Option<Value>,
    after_state: Option<Value>,
    /// What it gave; later steps can refer to it
    output: Option<Value>,
    /// 0 to 1
    #[schemars(range(min = 0, max = 1))]
    confidence: Option<f64>,
    /// With failed: what went wrong
    error: Option<String>,
    reason: Option<String>,
    /// Of a step: take it over from an agent whose claim has lapsed
    #[serde(default)]
    take_over: bool,
}

/// The body of `…/decisions`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct DecisionBody {
    /// stop (cancels it), continue (lifts a pause), or any text
    decision: String,
    reason: Option<String>,
    step_id: Option<String>,
    details: Option<Value>,
}

async fn pause(
    state: WebState,
    Path(id): Path<String>,
    Change { caller, body, wait }: Change<ReasonBody>,
) -> Result<Response, Problem> {
    let (found, _) = state.service.executions().pause(&caller, &id, body.reason).await?;
    respond(&caller, &continue_and_view(&state.service, &caller, &found, wait).await?)
}

async fn resume(
    state: WebState,
    Path(id): Path<String>,
    Change { caller, body, wait }: Change<ReasonBody>,
) -> Result<Response, Problem> {
    let found = state.service.executions().resume_with_reason(&caller, &id, body.reason).await?;
    respond(&caller, &continue_and_view(&state.service, &caller, &found, wait).await?)
}

async fn cancel(
    state: WebState,
    Path(id): Path<String>,
    Change { caller, body, wait }: Change<ReasonBody>,
) -> Result<Response, Problem> {
    let (found, _) = state.service.executions().cancel(&caller, &id, body.reason).await?;
    respond(&caller, &continue_and_view(&state.service, &caller, &found, wait).await?)
}

async fn undo(
    state: WebState,
    Path(id): Path<String>,
    Change { caller, body, wait }: Change<UndoBody>,
) -> Result<Response, Problem> {
    let (executions, selection) = (state.service.executions(), body.selection());
    if body.dry_run {
        let watching = executions.watch(&id).await?;
        let brief = watching.brief_of(&selection).await?;
        let session_calls = watching.session_undo(&selection).await?;
        return respond(&caller, &UndoPreview { calls: undo_digest(&brief), brief, session_calls });
    }
    executions.require_drivable(&id).await?;
    let (found, _) = match body.calls {
        Some(calls) => executions.undo_shown(&caller, &id, body.reason, &selection, &calls).await?,
        None => executions.undo_selected(&caller, &id, body.reason, &selection).await?,
    };
    respond(&caller, &continue_and_view(&state.service, &caller, &found, wait).await?)
}

async fn approve(
    state: WebState,
    id: Path<String>,
    change: Change<ApprovalBody>,
) -> Result<Response, Problem> {
    answer_approval(state, id, change, AnswerChoice::Approve).await
}

async fn reject(
    state: WebState,
    id: Path<String>,
    change: Change<ApprovalBody>,
) -> Result<Response, Problem> {
    answer_approval(state, id, change, AnswerChoice::Reject).await
}

async fn answer_approval(
    state: WebState,
    Path(id): Path<String>,
    Change { caller, body, wait }: Change<ApprovalBody>,
    choice: AnswerChoice,
) -> Result<Response, Problem> {
    let question = parse_question(body.question.as_deref())?;
    let given = GivenAnswer { step: body.step_id, choice, reason: body.reason, question };
    let found = give_answer(&state, &caller, &id, given).await?;
    respond(&caller, &continue_and_view(&state.service, &caller, &found, wait).await?)
}

/// An execution after several steps were answered, and which of them were refused.
#[derive(Debug, Serialize)]
struct DecidedExecution {
    #[serde(flatten)]
    execution: ExecutionView,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    refused: Vec<RefusedStep>,
}

/// A step whose answer was refused, and why.
#[derive(Debug, Serialize)]
struct RefusedStep {
    step: String,
    code: &'static str,
    message: String,
    cure: String,
}

async fn decide(
    state: WebState,
    Path(id): Path<String>,
    Change { caller, body, wait }: Change<DecideBody>,
) -> Result<Response, Problem> {
    let answer: StepAnswer = parse_answer(&body.answer)?;
    let question = parse_question(body.question.as_deref())?;
    let steps = answered_steps(&body)?;
    let (mut decided, mut refused, last) = (None, Vec::new(), steps.len() - 1);
    for (number, step) in steps.into_iter().enumerate() {
        // Only the last entry has the request's own key: with it, all of the request has been made.
        let key =
            caller.key.as_ref().map(|key| if number == last { key.clone() } else { key.for_part(number) });
        let choice =
            AnswerChoice::Decide { answer, output: body.output.clone(), arguments: body.arguments.clone() };
        let given = GivenAnswer { step: Some(step.clone()), choice, reason: body.reason.clone(), question };
        match give_answer(&state, &caller.clone().with_key(key), &id, given).await {
            Ok(found) => decided = Some(found),
            Err(problem) if last == 0 => return Err(problem),
            Err(problem) => refused.push((step, problem)),
        }
    }
    let Some(found) = decided else { return Err(refused.swap_remove(0).1) };
    let execution = continue_and_view(&state.service, &caller, &found, wait).await?;
    let refused = refused.into_iter().map(|(step, problem)| RefusedStep {
        step,
        code: problem.code,
        message: problem.detail,
        cure: problem.cure,
    });
    respond(&caller, &DecidedExecution { execution, refused: refused.collect() })
}

/// The steps that a body names. Err: none, both ways at once, or several with the values of one.
fn answered_steps(body: &DecideBody) -> Result<Vec<String>, Problem> {
    match (&body.step_id, &body.step_ids) {
        (Some(step), None) => Ok(vec![step.clone()]),
        (None, Some(steps)) if !steps.is_empty() => {
            if body.output.is_some() || body.arguments.is_some() || body.question.is_some() {
                let detail =
                    "`output`, `arguments` and `question` are those of one step; answer them one by one";
                return Err(Problem::bad_field("/step_ids", detail));
            }
            Ok(steps.clone())
        }
        (_, _) => Err(Problem::bad_field("/step_id", "give either `step_id` or `step_ids`")),
    }
}

/// Gives an answer; a stale question names who answered it.
async fn give_answer(
    state: &WebState,
    caller: &Caller,
    id: &str,
    given: GivenAnswer,
) -> Result<FoundExecution, Problem> {
    let executions = state.service.executions();
    let (step, question) = (given.step.clone(), given.question);
    match (executions.answer(caller, id, given).await, question) {
        (Ok((found, _)), _) => Ok(found),
        (Err(error @ Error::Refused(Refusal::StaleQuestion)), Some(question)) => {
            let answer = executions.earlier_answer(id, step.as_deref(), question).await?;
            Err(Problem { answer: answer.map(Box::new), ..error.into() })
        }
        (Err(error), _) => Err(error.into()),
    }
}

/// The position that the id of a question stands for. Err: it is no id of a question.
fn parse_question(given: Option<&str>) -> Result<Option<u64>, Problem> {
    let wrong = |_| Problem::bad_field("/question", "it is an `id` from `waiting`");
    given.map(|text| text.parse().map_err(wrong)).transpose()
}

/// The words of all answers, in both spellings.
fn answer_words() -> Vec<String> {
    let words = StepAnswer::ALL.iter().map(|answer| answer.as_str().to_owned());
    let mut words: Vec<String> = words.flat_map(|word| [word.replace('-', "_"), word]).collect();
    words.sort();
    words.dedup();
    words
}

/// An answer; MCP's spelling with underscores is taken too.
fn parse_answer(given: &str) -> Result<StepAnswer, Problem> {
    given.replace('_', "-").parse().map_err(|why: String| Problem::bad_field("/answer", why))
}

async fn record_step(
    state: WebState,
    Path((id, step)): Path<(String, String)>,
    Change { caller, body, wait }: Change<RecordBody>,
) -> Result<Response, Problem> {
    let action = ActionRecord { step: Some(step), ..action_record(body)? };
    let (found, _) = state.service.executions().record_in_execution(&caller, &id, action).await?;
    respond(&caller, &continue_and_view(&state.service, &caller, &found, wait).await?)
}

async fn record_decision(
    state: WebState,
    Path(id): Path<String>,
    Change { caller, body, wait }: Change<DecisionBody>,
) -> Result<Response, Problem> {
    let DecisionBody { decision, reason, step_id, details } = body;
    let decision = Decision { decision, reason, step: step_id, details };
    let (found, _) = state.service.executions().record_decision(&caller, &id, decision).await?;
    respond(&caller, &continue_and_view(&state.service, &caller, &found, wait).await?)
}

async fn record_action(
    state: WebState,
    Change { caller, body, .. }: Change<RecordBody>,
) -> Result<Response, Problem> {
    refuse_step_fields(&body)?;
    let recorded = state.service.executions().record_action(&caller, action_record(body)?).await?;
    let position = match recorded {
        RecordResult::Standalone(position) => position.0,
        RecordResult::InExecution(_, progress) => progress.position.0,
    };
    Ok(changed(&caller, StatusCode::CREATED, &json!({ "position": position })))
}

/// Refuses what only a report on a step has: it would be dropped.
fn refuse_step_fields(body: &RecordBody) -> Result<(), Problem> {
    let given = if body.status.is_some() { "/status" } else { "/take_over" };
    if body.status.is_none() && !body.take_over {
        return Ok(());
    }
    let detail = "it is of a step: POST /api/v1/executions/{id}/steps/{step}/record";
    Err(Problem::bad_field(given, detail))
}

/// What a body reports, of no step and no execution.
fn action_record(body: RecordBody) -> Result<ActionRecord, Problem> {
    let status = body.status.as_deref().map(parse_reported_status).transpose()?;
    let facts = ActionFacts {
        description: body.description,
        kind: body.r#type,
        entity: body.entity,
        before_state: body.before_state,
        after_state: body.after_state,
        confidence: body.confidence,
        error: body.error,
        reason: body.reason,
        ..ActionFacts::default()
    };
    let (output, take_over) = (body.output, body.take_over);
    Ok(ActionRecord { execution: None, step: None, status, output, facts, take_over, replies_to: None })
}

fn parse_reported_status(text: &str) -> Result<ReportedStatus, Problem> {
    text.parse().map_err(|why: String| Problem::bad_field("/status", why))
}

/// The response of a command.
fn respond(caller: &Caller, view: &impl Serialize) -> Result<Response, Problem> {
    Ok(changed(caller, StatusCode::OK, view))
}
