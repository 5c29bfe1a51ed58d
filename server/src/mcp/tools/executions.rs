//! The tools `execute_plan` and `status`: start an execution, show it, wait for it.

use std::sync::Arc;

use actbook_engine::analysis::PlanCheck;
use actbook_engine::event::PlanRef;
use actbook_engine::plan::Plan;
use actbook_engine::policy::ExecutionStatus;
use actbook_engine::refusal::Refusal;
use rmcp::model::{CallToolResponse, JsonObject};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::plans::PlanDocument;
use super::{ALL_PROFILES, AgentTool, CallVariant, RUN_AND_FULL, ToolEffect, ToolProfile};
use crate::error::{AgentErrorCode, Error};
use crate::mcp::McpEndpoint;
use crate::mcp::answer::{self, AgentAnswer, ApprovalRoute};
use crate::mcp::elicit::{self, QuestionOutcome};
use crate::mcp::mcp_tasks;
use crate::mcp::request::AgentRequest;
use crate::mcp::text::{AnswerText, Suggestion};
use crate::mcp::waiting::{self, WaitUntil};
use crate::service::view::ExecutionView;
use crate::service::{Agenda, AgendaItem, quote};

/// Suggestions in a list of executions.
const SUGGESTIONS_MAX: usize = 3;
/// Open questions of one execution in a list.
const WAITING_SHOWN_MAX: usize = 2;
const QUESTION_CHARS_MAX: usize = 300;

// Arguments of `execute_plan`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ExecutePlanInput {
    /// A saved plan's id or name
    plan_id: Option<String>,
    /// Instead of plan_id: the document; it is saved first
    plan: Option<PlanDocument>,
    /// What the plan's `inputs` schema asks for
    inputs: Option<PlanDocument>,
    /// Seconds to wait for its end or first question; default 0: answers at once while it runs on
    wait_s: Option<f64>,
    /// Same key + same request, from a client of your name = same execution
    #[expect(dead_code, reason = "`with_idempotency_key` reads it from the raw arguments")]
    idempotency_key: Option<String>,
}

// Arguments of `status`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StatusInput {
    /// Without it: what is active, blocked or recent
    execution_id: Option<String>,
    /// Instead: a task's plans, executions, decisions and notes in time
    task: Option<String>,
    /// Show this step whole
    step_id: Option<String>,
    /// Go on in its long values
    offset: Option<u64>,
    /// With wait_s: wait for anything after this `position`
    since: Option<u64>,
    /// Seconds to wait for a change; without `since`: for its end or a question
    wait_s: Option<f64>,
}

impl AgentTool for ExecutePlanInput {
    const NAME: &str = "execute_plan";
    const DESCRIPTION: &str = "Start an execution of a plan. Actbook calls the tools, journals every outcome, and stops to ask at a failure. If you disconnect, the next `actbook` process of the project goes on with it, such as `actbook serve`.";
    const EFFECT: ToolEffect = ToolEffect::ActsOutside;
    const PROFILES: &[ToolProfile] = RUN_AND_FULL;
    type Answer = CallToolResponse;

    /// Starts the execution, or continues it with a person's answer; waits, and puts questions to the person
    /// if the client can. The answer is an MCP task if the client supports it and the execution still runs.
    async fn handle(self, endpoint: &McpEndpoint, request: &AgentRequest) -> Result<CallToolResponse, Error> {
        let wait = waiting::parse_wait(self.wait_s)?;
        let shown_question = elicit::open_request_state(endpoint, request)?;
        let (id, check) = match &shown_question {
            Some(shown) => (shown.execution.clone(), None),
            None => start_execution(endpoint, request, self).await?,
        };
        let may_ask = endpoint.approval_route(request) == ApprovalRoute::Elicitation
            && (shown_question.is_some() || !wait.is_zero());
        let deadline = Instant::now() + wait;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let view =
                waiting::wait_for_view(endpoint.service(), request, &id, WaitUntil::Settled, left).await?;
            if let Some(task) = mcp_tasks::mcp_task_response(request, &view) {
                return Ok(task);
            }
            let outcome = if view.waiting.iter().any(elicit::is_for_a_person) && may_ask {
                put_first_question(endpoint, request, &id).await
            } else {
                Ok(QuestionOutcome::NoAnswer)
            };
            match outcome {
                Ok(QuestionOutcome::Answered(found)) => {
                    endpoint.background().continue_execution(found.stream).await?;
                }
                Ok(QuestionOutcome::InputRequired(result)) => return Ok(result.into()),
                // Steps may have run: the agent needs the execution's id, whatever became of the question.
                Err(error) if elicit::is_stale_question(&error) || elicit::is_dialog_failure(&error) => {
                    let view = endpoint.service().executions().view(&id).await?;
                    return Ok(answer::dialog_failed_answer(&view, &error).into());
                }
                Err(error) => return Err(error),
                Ok(QuestionOutcome::NoAnswer) => {
                    let mut answer = endpoint.execution_answer(request, view).await?;
                    if let Some(check) = check {
                        super::plans::add_check(&mut answer, check);
                    }
                    return Ok(answer.into());
                }
            }
        }
    }
}

impl AgentTool for StatusInput {
    const NAME: &str = "status";
    const DESCRIPTION: &str = "Where things stand and what to do next: call it first when you have lost your context. With execution_id: outputs, errors, open questions and how to answer them, the brief.";
    const EFFECT: ToolEffect = ToolEffect::ReadOnly;
    const PROFILES: &[ToolProfile] = ALL_PROFILES;
    const VARIANTS: &[CallVariant] = STATUS_VARIANTS;
    type Answer = AgentAnswer;

    /// The schema of an answer that shows an execution, the agenda or a task's story.
    fn output_schema() -> Arc<JsonObject> {
        answer::execution_or_lists_schema(&["executions", "story", "plans"], &["next"])
    }

    /// Answers with a step, an execution, a task's story, or the agenda.
    async fn handle(self, endpoint: &McpEndpoint, request: &AgentRequest) -> Result<AgentAnswer, Error> {
        if self.step_id.is_some() || self.offset.is_some() {
            return step_status(endpoint, request, self).await;
        }
        let id = match (self.execution_id, self.task) {
            (Some(id), _) => id,
            (None, Some(task)) => return super::tasks::task_story_answer(endpoint, &task).await,
            (None, None) => return agenda_answer(endpoint, request).await,
        };
        let until = self.since.map_or(WaitUntil::Settled, WaitUntil::AfterPosition);
        let wait = waiting::parse_wait(self.wait_s)?;
        let mut view = waiting::wait_for_view(endpoint.service(), request, &id, until, wait).await?;
        let Some(why) = undrivable_reason(endpoint, &view).await? else {
            return endpoint.execution_answer(request, view).await;
        };
        endpoint.service().executions().address_claims(&request.caller, &mut view).await?;
        Ok(answer::undrivable_execution_answer(&view, endpoint.approval_route(request), &why))
    }
}

/// Which arguments go together in `status`.
const STATUS_VARIANTS: &[CallVariant] = &[
    CallVariant::when_given("execution_id", &[], &["step_id", "offset", "since", "wait_s"]),
    CallVariant::when_given("task", &[], &[]),
    CallVariant::otherwise("status without an id", &[]),
];

/// Puts the first open question that a person can answer; `NoAnswer` if there is none.
async fn put_first_question(
    endpoint: &McpEndpoint,
    request: &AgentRequest,
    id: &str,
) -> Result<QuestionOutcome, Error> {
    let (_, questions) = elicit::open_questions(endpoint, request, id, None).await?;
    match questions.iter().find(|question| elicit::is_for_a_person(&question.waiting)) {
        Some(question) => elicit::put_question(endpoint, request, question, None).await,
        None => Ok(QuestionOutcome::NoAnswer),
    }
}

/// Starts the execution, or finds the one that a repeated idempotency key started; returns its id, and the
/// check of a document that was saved for it.
async fn start_execution(
    endpoint: &McpEndpoint,
    request: &AgentRequest,
    input: ExecutePlanInput,
) -> Result<(String, Option<PlanCheck>), Error> {
    if let Some(started) = endpoint.service().executions().find_previous_start(&request.caller).await? {
        return Ok((started.id.to_string(), None));
    }
    let (reference, plan, check) = resolve_plan(endpoint, request, &input).await?;
    let inputs = input.inputs.map(|inputs| inputs.into_object("inputs")).transpose()?.map(Value::Object);
    let started =
        endpoint.service().executions().start(&request.caller, reference, plan, inputs, true).await?;
    let id = started.id.to_string();
    if started.fresh {
        endpoint.background().drive_claimed(started.progress);
    }
    Ok((id, check))
}

/// The plan to run: a document is saved first, and its check returned; a saved plan is checked again, because
/// its tools may be gone. Err: both or neither of `plan_id` and `plan`, or the check finds an error.
async fn resolve_plan(
    endpoint: &McpEndpoint,
    request: &AgentRequest,
    input: &ExecutePlanInput,
) -> Result<(PlanRef, Arc<Plan>, Option<PlanCheck>), Error> {
    let service = endpoint.service();
    match (&input.plan_id, &input.plan) {
        (Some(name), None) => {
            let (reference, plan, _) = service.plans().load_and_check(name).await?;
            Ok((reference, plan, None))
        }
        (None, Some(document)) => {
            document.require_document()?;
            let saver = request.caller.clone().with_key(None);
            let saved = service.plans().save(&saver, &document.text(), false).await?;
            Ok((saved.reference, saved.plan, Some(saved.check)))
        }
        (Some(_), Some(_)) => Err(super::plans::both_given_error("execute_plan")),
        (None, None) => {
            let message = "execute_plan needs either `plan_id` or `plan`";
            let cure = "give the id that save_plan answered, or the document";
            Err(Error::agent(AgentErrorCode::MissingArgument, message, cure))
        }
    }
}

/// Shows one step whole, after waiting if `wait_s` is given. Err: `execution_id` or `step_id` is missing.
async fn step_status(
    endpoint: &McpEndpoint,
    request: &AgentRequest,
    input: StatusInput,
) -> Result<AgentAnswer, Error> {
    let (Some(id), Some(step)) = (&input.execution_id, &input.step_id) else {
        let (message, cure) = match input.step_id {
            Some(_) => ("a step belongs to an execution: status needs `execution_id`", "give both"),
            None => ("`offset` goes on in the values of a step: status needs `step_id`", "give both"),
        };
        return Err(Error::agent(AgentErrorCode::MissingArgument, message, cure));
    };
    let wait = waiting::parse_wait(input.wait_s)?;
    if !wait.is_zero() {
        let until = input.since.map_or(WaitUntil::Settled, WaitUntil::AfterPosition);
        waiting::wait_for_view(endpoint.service(), request, id, until, wait).await?;
    }
    let offset = usize::try_from(input.offset.unwrap_or(0)).unwrap_or(usize::MAX);
    answer::step_answer(&endpoint.service().executions().step(id, step).await?, offset)
}

/// Why this process cannot drive an execution that needs a driver; None: it can, or needs none.
async fn undrivable_reason(endpoint: &McpEndpoint, view: &ExecutionView) -> Result<Option<String>, Error> {
    let (service, id) = (endpoint.service(), view.id.as_str());
    let needs_driver = matches!(
        view.status,
        ExecutionStatus::Running | ExecutionStatus::Compensating | ExecutionStatus::Paused
    );
    // Any process can finish an execution that is about to end. The cheaper check, for a driver, is first.
    if !needs_driver
        || view.ending.is_some()
        || service.executions().driver(&service.executions().find(id).await?).await?.is_some()
    {
        return Ok(None);
    }
    match service.executions().require_drivable(id).await {
        Ok(()) => Ok(None),
        Err(error @ Error::Refused(Refusal::OtherToolset { .. })) => {
            let cure = error.cures().agent;
            Ok(Some(format!(
                "no process here can drive it: {error}. {cure}; control with action \"cancel\" ends it"
            )))
        }
        Err(error) => Err(error),
    }
}

/// The answer of `status` without an id: active, blocked and recent executions, and what to do next.
async fn agenda_answer(endpoint: &McpEndpoint, request: &AgentRequest) -> Result<AgentAnswer, Error> {
    let mut agenda = endpoint.service().executions().agenda().await?;
    endpoint.address_agenda(request, &mut agenda).await?;
    let route = endpoint.approval_route(request);
    let mut next: Vec<Suggestion> = Vec::new();
    let mut blocked = agenda.more.get(ExecutionStatus::Blocked.as_str()).copied().unwrap_or(0);
    for item in &agenda.items {
        let Some(view) = &item.view else { continue };
        if item.here && next.len() < SUGGESTIONS_MAX {
            next.extend(answer::execution_suggestions(view, route));
        } else if view.status == ExecutionStatus::Blocked {
            blocked += 1;
        }
    }
    if agenda.items.is_empty() && agenda.unstarted.is_empty() {
        next.push(Suggestion::advice(endpoint.profile().first_calls()));
    } else if next.is_empty() {
        next.push(Suggestion::advice("nothing waits; status with an execution_id tells more of one"));
    }
    let mut text = agenda_text(endpoint.profile(), &agenda);
    if let Some(withheld) = endpoint.service().catalog().untrusted_config() {
        text.push_line(format!("Tools: none, because {withheld}; {}", withheld.cures().agent));
    }
    if blocked > 0 {
        text.push_line(format!(
            "{blocked} more blocked executions have no Next line here; status with an execution_id gives it."
        ));
    }
    text.push_suggestions(&next);
    let structured = json!({
        "executions": agenda.items,
        "more": agenda.more,
        "plans": agenda.unstarted,
        "next": next,
    });
    Ok(AgentAnswer { structured, text: text.into_string() })
}

/// The agenda as text, without suggestions.
pub fn agenda_text(profile: ToolProfile, agenda: &Agenda) -> AnswerText {
    let mut text = AnswerText::default();
    if agenda.items.is_empty() {
        text.push_line("Nothing is active, blocked or recent.");
    }
    for item in &agenda.items {
        push_agenda_item(&mut text, item);
    }
    for (status, more) in &agenda.more {
        let all = json!({ "status": status });
        text.push_line(format!("{more} more are {status}: query_ledger {all} lists them."));
    }
    if !agenda.unstarted.is_empty() {
        text.push_line("Saved, and never started:");
    }
    for plan in &agenda.unstarted {
        let starts = profile.start_suggestion(&plan.id, None).to_line();
        text.push_item(format!(
            "plan {} v{}, {} steps, saved {}: {starts}",
            quote::name(&plan.name),
            plan.version,
            plan.steps,
            plan.saved_at
        ));
    }
    text
}

/// Adds an execution: status, open questions, last output, last record, and the calls that read more.
fn push_agenda_item(text: &mut AnswerText, item: &AgendaItem) {
    let (row, toolset) = (&item.row, if item.here { "" } else { " (other servers)" });
    let (plan, version) = (quote::name(&row.plan.name), row.plan.version);
    let waits = if row.undo_waits { ", its undo waits for approval" } else { "" };
    text.push_line(format!(
        "{} {} {plan} v{version} started {}{toolset}{waits}",
        row.status, row.id, row.started_at
    ));
    let Some(view) = &item.view else { return };
    text.push_line(format!("  {}", view.progress_text()));
    for waiting in view.waiting.iter().take(WAITING_SHOWN_MAX) {
        text.push_line(format!("  waits: {}", answer::truncate_chars(&waiting.question, QUESTION_CHARS_MAX)));
    }
    if view.waiting.len() > WAITING_SHOWN_MAX {
        text.push_line(format!("  waits: {} more questions", view.waiting.len() - WAITING_SHOWN_MAX));
    }
    if let Some(output) = answer::last_output_line(view) {
        text.push_line(format!("  {output}"));
    }
    if let Some(record) = view.records.last() {
        text.push_line(format!("  {}", answer::record_line(record)));
    }
    let remaining = view.brief.as_ref().map_or(0, |brief| brief.undo.len());
    if remaining > 0 && matches!(row.status, ExecutionStatus::Failed | ExecutionStatus::Cancelled) {
        text.push_line(format!("  what it did remains: an undo would take back {remaining} of its calls"));
    }
    let all = json!({ "execution_id": row.id });
    text.push_line(format!("  outputs and brief: status {all}; decisions and history: query_ledger {all}"));
    if item.notes > 0 {
        text.push_line(format!("  {} notes belong to it: query_context {all}", item.notes));
    }
}
