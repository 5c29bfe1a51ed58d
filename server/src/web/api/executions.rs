//! `/executions`: listing, starting and showing them.

use std::time::Duration;

use actbook_engine::policy::{ErrorCategory, ExecutionStatus, StepStatus};
use axum::Json;
use axum::extract::Path;
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::Response;
use axum::routing::{get, post};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use tokio::time::{Instant, timeout_at};

use super::change::{Change, created};
use super::filter::FilterParams;
use super::operation::Operation;
use super::page::{ListName, Page, page_limit};
use super::params::{self, Params};
use super::plans::{PlanText, plan_text};
use super::ranges::{ranged, ranged_export};
use super::value_budget::{limit_step_values, limit_values};
use crate::caller::{Caller, Right};
use crate::error::Error;
use crate::service::view::{ExecutionSummary, ExecutionView, StepView};
use crate::service::{ExecutedPlan, FoundExecution, Service};
use crate::web::{Problem, SignedIn, WebState};

pub fn operations() -> Vec<Operation> {
    vec![
        Operation::new("GET", "/executions", "list_executions", get(list))
            .summary("List executions, newest first")
            .query::<ExecutionsQuery>()
            .gives("ExecutionPage"),
        Operation::new("POST", "/executions", "start_execution", post(start))
            .summary("Start an execution of a saved plan, or of a document, which is saved first")
            .right(Right::Run)
            .body::<StartBody>(json!({ "plan_id": "publish-notes", "inputs": { "version": "2.1" } }))
            .waits()
            .creates_resource("Execution"),
        Operation::new("GET", "/executions/{id}", "get_execution", get(show))
            .summary("One execution: its steps, what it waits for, the brief when something went wrong")
            .query::<ShowQuery>()
            .gives("Execution"),
        Operation::new("GET", "/executions/{id}/steps", "list_steps", get(list_steps))
            .summary("Pages of its steps, in the plan's order")
            .query::<StepPageQuery>()
            .gives("StepPage"),
        Operation::new("GET", "/executions/{id}/steps/{step}", "get_step", get(show_step))
            .summary(
                "One step whole: arguments, output, attempts, approvals, compensations; `Range` reads a part",
            )
            .gives("StepDetail"),
        Operation::new("GET", "/executions/{id}/export", "export_execution", get(export))
            .summary("The execution as a file that `actbook verify FILE` checks without this server")
            .right(Right::Payloads)
            .gives_media("application/x-ndjson"),
        Operation::new("POST", "/executions/{id}/rerun", "rerun_execution", post(rerun))
            .summary("Start the same plan version again, with its inputs and those that are given")
            .right(Right::Run)
            .body::<RerunBody>(json!({ "inputs": { "version": "2.2" } }))
            .waits()
            .creates_resource("Execution"),
    ]
}

/// The query of `GET /executions`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ExecutionsQuery {
    /// running, paused, blocked, compensating, succeeded, failed, cancelled or compensated
    #[schemars(extend("enum" = params::choices(ExecutionStatus::ALL, ExecutionStatus::as_str)))]
    status: Option<String>,
    /// A plan's id or name
    plan: Option<String>,
    task: Option<String>,
    /// A tool that was called, as in files/write_file
    tool: Option<String>,
    /// A server of which a tool was called
    server: Option<String>,
    /// An actor with entries in the execution, as in agent:claude
    actor: Option<String>,
    /// Of a step that ended failed or unknown, such as timeout
    #[schemars(extend("enum" = params::choices(ErrorCategory::ALL, ErrorCategory::as_str)))]
    category: Option<String>,
    /// Words that must all occur in the id, the plan's name or the task
    search: Option<String>,
    /// Earliest start: RFC 3339, a date, or an age such as 2h
    #[schemars(extend("anyOf" = params::time_forms()))]
    since: Option<String>,
    #[schemars(extend("anyOf" = params::time_forms()))]
    until: Option<String>,
    /// 1 to 500; 50 unless given
    #[schemars(range(min = 1, max = 500))]
    limit: Option<u64>,
    /// `next_cursor` of the page before
    cursor: Option<String>,
}

impl ExecutionsQuery {
    /// The filters, without the place in the list.
    fn into_filter(self) -> FilterParams {
        let Self { status, plan, task, tool, server, actor, category, search, since, until, .. } = self;
        FilterParams { status, plan, task, tool, server, actor, category, search, since, until }
    }
}

/// The body of `POST /executions`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct StartBody {
    /// A saved plan's id or name
    plan_id: Option<String>,
    /// Instead of plan_id: the document, as JSON or as YAML text
    plan: Option<PlanText>,
    inputs: Option<Map<String, Value>>,
}

/// The body of `POST /executions/{id}/rerun`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct RerunBody {
    /// Replace those of the execution
    inputs: Option<Map<String, Value>>,
}

/// The query of `GET /executions/{id}`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ShowQuery {
    /// Seconds to wait for its end or a question, or with `since` for any change
    #[schemars(range(min = 0, max = 300))]
    wait_s: Option<f64>,
    /// The `position` of the view that is known
    since: Option<u64>,
}

/// The query of `GET /executions/{id}/steps`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct StepPageQuery {
    /// Such as failed
    #[schemars(extend("enum" = params::choices(StepStatus::ALL, StepStatus::as_str)))]
    status: Option<String>,
    #[schemars(range(min = 1, max = 500))]
    limit: Option<u64>,
    cursor: Option<String>,
}

async fn list(
    state: WebState,
    _signed_in: SignedIn,
    Params(query): Params<ExecutionsQuery>,
) -> Result<Json<Page<ExecutionSummary>>, Problem> {
    let limit = page_limit(query.limit)?;
    let cursor = query.cursor.clone();
    let filter = query.into_filter().parse()?;
    let page = state.service.executions().list_page(&filter, cursor.as_deref(), limit).await?;
    Ok(Page::continued(page.items, page.next_cursor, page.behind))
}

async fn start(
    state: WebState,
    Change { caller, body, wait }: Change<StartBody>,
) -> Result<Response, Problem> {
    let id = start_execution(&state.service, &caller, body).await?;
    let view = view_after_wait(&state.service, &caller, &id, None, wait).await?;
    Ok(created(&caller, &format!("/executions/{}", view.id), &view))
}

/// Starts the execution, or finds the one that the same request started before; returns its id.
async fn start_execution(service: &Service, caller: &Caller, body: StartBody) -> Result<String, Problem> {
    if let Some(started) = service.executions().find_previous_start(caller).await? {
        return Ok(started.id.to_string());
    }
    let (reference, plan) = match (body.plan_id, body.plan) {
        (Some(name), None) => {
            let (reference, plan, _) = service.plans().load_and_check(&name).await?;
            (reference, plan)
        }
        (None, Some(document)) => {
            // The key is the execution's: saving the same document again makes no new version.
            let keyless = caller.clone().with_key(None);
            let saved = service.plans().save(&keyless, &plan_text(&document)?, false).await?;
            (saved.reference, saved.plan)
        }
        (Some(_), Some(_)) | (None, None) => {
            return Err(Problem::bad_field("", "give either `plan_id` or `plan`"));
        }
    };
    let inputs = body.inputs.map(Value::Object);
    let started = service.executions().start(caller, reference, plan, inputs, true).await?;
    if started.fresh {
        service.background().drive_claimed(started.progress);
    }
    Ok(started.id.to_string())
}

async fn rerun(
    state: WebState,
    Path(id): Path<String>,
    Change { caller, body, wait }: Change<RerunBody>,
) -> Result<Response, Problem> {
    let executions = state.service.executions();
    let started = match executions.find_previous_start(&caller).await? {
        Some(started) => started.id.to_string(),
        None => {
            let ExecutedPlan { reference, plan, mut inputs, .. } =
                executions.executed_plan(&id, false).await?;
            state.service.plans().check_saved(&plan).await?;
            inputs.extend(body.inputs.unwrap_or_default());
            let inputs = (!inputs.is_empty()).then_some(Value::Object(inputs));
            let started = executions.start(&caller, reference, plan, inputs, true).await?;
            if started.fresh {
                state.service.background().drive_claimed(started.progress);
            }
            started.id.to_string()
        }
    };
    let view = view_after_wait(&state.service, &caller, &started, None, wait).await?;
    Ok(created(&caller, &format!("/executions/{}", view.id), &view))
}

async fn show(
    state: WebState,
    signed_in: SignedIn,
    Path(id): Path<String>,
    Params(query): Params<ShowQuery>,
) -> Result<Json<ExecutionView>, Problem> {
    let wait = params::wait(query.wait_s)?;
    Ok(Json(view_after_wait(&state.service, &signed_in.caller, &id, query.since, wait).await?))
}

/// The view of an execution once it has settled, or with `since` once it has an entry after that position; at the
/// latest after `wait`.
pub async fn view_after_wait(
    service: &Service,
    caller: &Caller,
    id: &str,
    since: Option<u64>,
    wait: Duration,
) -> Result<ExecutionView, Problem> {
    let mut view = if wait.is_zero() {
        service.executions().view(id).await?
    } else {
        let (mut watch, deadline) = (service.executions().watch(id).await?, Instant::now() + wait);
        let has_reached = |watch: &crate::service::ExecutionWatcher| match since {
            Some(position) => watch.position() > position,
            None => watch.is_settled(),
        };
        while !has_reached(&watch) {
            match timeout_at(deadline, watch.wait_for_change()).await {
                Ok(changed) => changed?,
                Err(_) => break,
            }
        }
        watch.view().await?
    };
    service.executions().address_claims(caller, &mut view).await?;
    limit_values(&mut view);
    Ok(view)
}

/// Lets an execution continue after a command, waits, and gives its view.
pub async fn continue_and_view(
    service: &Service,
    caller: &Caller,
    found: &FoundExecution,
    wait: Duration,
) -> Result<ExecutionView, Problem> {
    // A process with the execution's toolset continues it if this one cannot; the command is journaled either way.
    service.executions().continue_and_view(found).await?;
    view_after_wait(service, caller, found.id.as_str(), None, wait).await
}

async fn list_steps(
    state: WebState,
    _signed_in: SignedIn,
    Path(id): Path<String>,
    Params(query): Params<StepPageQuery>,
) -> Result<Json<Page<StepView>>, Problem> {
    let limit = page_limit(query.limit)?;
    let status: Option<StepStatus> = params::word(Error::NoSuchStatus, query.status)?;
    let name = ListName::new("steps", &(&id, status));
    let from = name.position(query.cursor.as_deref())?.unwrap_or(0);
    let executions = state.service.executions();
    let inspected = executions.inspect(&id).await?;
    let first = usize::try_from(from).unwrap_or(usize::MAX);
    let numbered = inspected.view.steps.iter().enumerate().skip(first);
    let matching = numbered.filter(|(_, step)| status.is_none_or(|status| step.status == status));
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let mut numbers: Vec<usize> = matching.map(|(index, _)| index).take(limit.saturating_add(1)).collect();
    let has_more = numbers.len() > limit;
    numbers.truncate(limit);
    let mut page = executions.steps_with_values(&id, &numbers).await?;
    limit_step_values(&mut page, inspected.view.id.as_str());
    let next = numbers.last().filter(|_| has_more).map(|last| *last as u64 + 1);
    Ok(Page::before(page, next, &name))
}

async fn show_step(
    state: WebState,
    _signed_in: SignedIn,
    headers: HeaderMap,
    Path((id, step)): Path<(String, String)>,
) -> Result<Response, Problem> {
    let detail = state.service.executions().step(&id, &step).await?;
    let unwritten = |error: serde_json::Error| Error::Bug(format!("a step is no JSON: {error}"));
    ranged(&headers, "application/json", serde_json::to_vec(&detail).map_err(unwritten)?)
}

async fn export(
    state: WebState,
    _signed_in: SignedIn,
    headers: HeaderMap,
    Path(id): Path<String>,
) -> Result<Response, Problem> {
    let id = state.service.executions().find(&id).await?.id;
    let export = state.service.journal().read_export(id.as_str()).await?;
    let mut response = ranged_export(&headers, "application/x-ndjson", export).await?;
    if let Ok(name) = HeaderValue::try_from(format!("attachment; filename=\"{id}.actbook\"")) {
        response.headers_mut().insert(header::CONTENT_DISPOSITION, name);
    }
    Ok(response)
}
