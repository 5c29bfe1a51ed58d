//! `execute_plan` and `status`: an execution is started, looked at, waited for.

use std::sync::Arc;

use actbook_engine::event::PlanRef;
use actbook_engine::plan::Plan;
use actbook_engine::policy::Status as Progress;
use rmcp::model::CallToolResponse;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use tokio::time::Instant;

use super::plans::Document;
use super::{EVERYWHERE, Effect, Offered, Profile, ToolUse, WHERE_PLANS_RUN};
use crate::error::Error;
use crate::mcp::Door;
use crate::mcp::answer::{self, Answer, Doors};
use crate::mcp::ask::Ask;
use crate::mcp::cures;
use crate::mcp::elicit::{self, Put};
use crate::mcp::tasks;
use crate::mcp::text::{Next, Text};
use crate::mcp::waiting::{self, Until};
use crate::service::view::ExecutionView;
use crate::service::{Agenda, AgendaItem, quote};

/// Calls that a list of executions suggests.
const NEXT_SHOWN_MAX: usize = 3;
/// Open questions of one execution in a list.
const WAITING_SHOWN_MAX: usize = 2;
const QUESTION_CHARS_MAX: usize = 300;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ExecutePlan {
    /// A saved plan's id or name
    plan_id: Option<String>,
    /// Instead of plan_id: the document; it is saved first
    plan: Option<Document>,
    /// What the plan's `inputs` schema asks for
    inputs: Option<Map<String, Value>>,
    /// Seconds to wait for its end or first question; default 0: answers at once while it runs on
    wait_s: Option<f64>,
    /// Same key + same request = same execution
    #[expect(dead_code, reason = "read where the call comes in")]
    idempotency_key: Option<String>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Status {
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

pub fn execute_plan() -> Offered {
    Offered::new::<ExecutePlan>(
        "execute_plan",
        "Start an execution of a plan. Actbook calls the tools, journals every outcome, and stops to ask at a failure. It runs on if you disconnect.",
        Effect::Acts,
        answer::execution_schema(),
        WHERE_PLANS_RUN,
    )
}

pub fn status() -> Offered {
    Offered::new::<Status>(
        "status",
        "Where things stand and what to do next: call it first when you have lost your context. With execution_id: outputs, errors, open questions and how to answer them, the brief.",
        Effect::Reads,
        answer::execution_or(&["executions", "story", "plans"], &["next"]),
        EVERYWHERE,
    )
    .with_uses(STATUS_USES)
}

const STATUS_USES: &[ToolUse] = &[
    ToolUse::given("execution_id", &[], &["step_id", "offset", "since", "wait_s"]),
    ToolUse::given("task", &[], &[]),
    ToolUse::otherwise("status without an id", &[]),
];

pub async fn execute(door: &Door, ask: &Ask, asked: ExecutePlan) -> Result<CallToolResponse, Error> {
    let wait = waiting::span(asked.wait_s)?;
    let answers = elicit::brought_back(door, ask)?;
    let id = match &answers {
        Some(shown) => shown.execution.clone(),
        None => start(door, ask, asked).await?,
    };
    let may_ask = door.doors(ask) == Doors::Person && (answers.is_some() || !wait.is_zero());
    let deadline = Instant::now() + wait;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let view = waiting::view(door.service(), ask, &id, Until::Settled, left).await?;
        if let Some(task) = tasks::instead(ask, &view) {
            return Ok(task);
        }
        let put = match view.waiting.iter().any(elicit::is_for_a_person) && may_ask {
            true => put_first(door, ask, &id).await?,
            false => Put::NoAnswer,
        };
        match put {
            Put::Answered(found) => drop(door.background().go_on(found.stream).await?),
            Put::Asks(result) => return Ok(result.into()),
            Put::NoAnswer => return Ok(answer::execution(&view, door.doors(ask)).into_result().into()),
        }
    }
}

/// Puts the first question that is for a person.
async fn put_first(door: &Door, ask: &Ask, id: &str) -> Result<Put, Error> {
    let (_, questions) = elicit::asked(door, ask, id, None).await?;
    match questions.iter().find(|question| elicit::is_for_a_person(&question.waiting)) {
        Some(question) => elicit::put(door, ask, question, None).await,
        None => Ok(Put::NoAnswer),
    }
}

async fn start(door: &Door, ask: &Ask, asked: ExecutePlan) -> Result<String, Error> {
    if let Some(started) = door.service().started_before(&ask.caller).await? {
        return Ok(started.id.to_string());
    }
    let (reference, plan) = plan(door, ask, &asked).await?;
    let inputs = asked.inputs.map(Value::Object);
    let started = door.service().start(&ask.caller, reference, plan, inputs, true).await?;
    let id = started.id.to_string();
    if started.fresh {
        door.background().keep(started.progress);
    }
    Ok(id)
}

/// A document is saved first; a saved plan is checked anew, for its tools may have gone.
async fn plan(door: &Door, ask: &Ask, asked: &ExecutePlan) -> Result<(PlanRef, Arc<Plan>), Error> {
    let service = door.service();
    match (&asked.plan_id, &asked.plan) {
        (Some(name), None) => {
            let (reference, plan, _) = service.ready_plan(name).await?;
            Ok((reference, plan))
        }
        (None, Some(document)) => {
            let saver = ask.caller.clone().with_key(None);
            let saved = service.save_plan(&saver, &document.text(), false).await?;
            Ok((saved.reference, saved.plan))
        }
        (Some(_), Some(_)) => Err(super::plans::both("execute_plan")),
        (None, None) => {
            let message = "execute_plan needs either `plan_id` or `plan`";
            Err(Error::new(
                "missing_argument",
                message,
                "give the id that save_plan answered, or the document",
            ))
        }
    }
}

pub async fn look(door: &Door, ask: &Ask, asked: Status) -> Result<Answer, Error> {
    if asked.step_id.is_some() || asked.offset.is_some() {
        return step(door, ask, asked).await;
    }
    let id = match (asked.execution_id, asked.task) {
        (Some(id), _) => id,
        (None, Some(task)) => return super::tasks::story(door, &task).await,
        (None, None) => return agenda(door, ask).await,
    };
    let until = asked.since.map_or(Until::Settled, Until::After);
    let view = waiting::view(door.service(), ask, &id, until, waiting::span(asked.wait_s)?).await?;
    Ok(match elsewhere(door, &view).await? {
        Some(why) => answer::execution_elsewhere(&view, door.doors(ask), &why),
        None => answer::execution(&view, door.doors(ask)),
    })
}

/// One step whole, once the wait, if there is one, is over.
async fn step(door: &Door, ask: &Ask, asked: Status) -> Result<Answer, Error> {
    let (Some(id), Some(step)) = (&asked.execution_id, &asked.step_id) else {
        let (message, cure) = match asked.step_id {
            Some(_) => ("a step belongs to an execution: status needs `execution_id`", "give both"),
            None => ("`offset` goes on in the values of a step: status needs `step_id`", "give both"),
        };
        return Err(Error::new("missing_argument", message, cure));
    };
    let wait = waiting::span(asked.wait_s)?;
    if !wait.is_zero() {
        let until = asked.since.map_or(Until::Settled, Until::After);
        waiting::view(door.service(), ask, id, until, wait).await?;
    }
    let offset = usize::try_from(asked.offset.unwrap_or(0)).unwrap_or(usize::MAX);
    answer::step(&door.service().step(id, step).await?, offset)
}

/// Why nobody here can go on with an execution that would.
async fn elsewhere(door: &Door, view: &ExecutionView) -> Result<Option<String>, Error> {
    let (service, id) = (door.service(), view.id.as_str());
    let goes = matches!(view.status, Progress::Running | Progress::Compensating | Progress::Paused);
    // What is about to end can be ended anywhere. A driver is asked for first: it is the cheaper question.
    if !goes || view.ending.is_some() || service.driver(&service.find(id).await?).await?.is_some() {
        return Ok(None);
    }
    match service.at_home(id).await {
        Ok(()) => Ok(None),
        Err(error) if error.code == "other_place" => {
            let cure = cures::of(error.code, &error.cure);
            Ok(Some(format!(
                "nobody here can drive it: {error}. {cure}; control with action \"cancel\" ends it"
            )))
        }
        Err(error) => Err(error),
    }
}

/// What an agent with an empty context needs to carry on.
async fn agenda(door: &Door, ask: &Ask) -> Result<Answer, Error> {
    let agenda = door.service().agenda().await?;
    let doors = door.doors(ask);
    let mut next: Vec<Next> = Vec::new();
    for view in agenda.items.iter().filter(|item| item.here).filter_map(|item| item.view.as_ref()) {
        if next.len() < NEXT_SHOWN_MAX {
            next.extend(answer::next_lines(view, doors));
        }
    }
    if agenda.items.is_empty() && agenda.unstarted.is_empty() {
        next.push(Next::say(door.profile().first_calls()));
    } else if next.is_empty() {
        next.push(Next::say("nothing waits; status with an execution_id tells more of one"));
    }
    let mut text = agenda_text(door.profile(), &agenda);
    text.next(&next);
    let structured = json!({
        "executions": agenda.items,
        "more": agenda.more,
        "plans": agenda.unstarted,
        "next": next,
    });
    Ok(Answer { structured, text: text.into_string() })
}

pub fn agenda_text(profile: Profile, agenda: &Agenda) -> Text {
    let mut text = Text::default();
    if agenda.items.is_empty() {
        text.line("Nothing is active, blocked or recent.");
    }
    for item in &agenda.items {
        tell_item(&mut text, item);
    }
    for (status, more) in &agenda.more {
        let all = json!({ "status": status });
        text.line(format!("{more} more are {status}: query_ledger {all} lists them."));
    }
    if !agenda.unstarted.is_empty() {
        text.line("Saved, and never started:");
    }
    for plan in &agenda.unstarted {
        let starts = profile.start(&plan.id, "").line();
        text.item(format!(
            "plan {} v{}, {} steps, saved {}: {starts}",
            quote::name(&plan.name),
            plan.version,
            plan.steps,
            plan.saved_at
        ));
    }
    text
}

/// An execution: how it stands, what it waits for, what it gave last, what was decided, and where its notes are.
fn tell_item(text: &mut Text, item: &AgendaItem) {
    let (row, place) = (&item.row, if item.here { "" } else { " (other servers)" });
    let (plan, version) = (quote::name(&row.plan.name), row.plan.version);
    text.line(format!("{} {} {plan} v{version} started {}{place}", row.status, row.id, row.started_at));
    let Some(view) = &item.view else { return };
    text.line(format!("  {} of {} steps done", view.progress.done, view.progress.total));
    for waiting in view.waiting.iter().take(WAITING_SHOWN_MAX) {
        text.line(format!("  waits: {}", answer::cut(&waiting.question, QUESTION_CHARS_MAX)));
    }
    if view.waiting.len() > WAITING_SHOWN_MAX {
        text.line(format!("  waits: {} more questions", view.waiting.len() - WAITING_SHOWN_MAX));
    }
    if let Some(output) = answer::last_outputs(view) {
        text.line(format!("  {output}"));
    }
    if let Some(record) = view.records.last() {
        text.line(format!("  {}", answer::record_line(record)));
    }
    let all = json!({ "execution_id": row.id });
    text.line(format!("  outputs and brief: status {all}; decisions and history: query_ledger {all}"));
    if item.notes > 0 {
        text.line(format!("  {} notes belong to it: query_context {all}", item.notes));
    }
}
