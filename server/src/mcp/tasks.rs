//! An execution as a task of the protocol's extension: its id is the execution's, its state is read from
//! the journal, and it is there as long as the journal is. Questions go out as input requests.

use std::collections::BTreeMap;

use actbook_engine::policy::Status;
use rmcp::model::{
    CallToolResponse, CreateTaskResult, DetailedTask, ElicitRequest, ErrorData, GetTaskResult, InputRequest,
    InputRequests, InputResponses, JsonObject, Task, TaskPayload, TaskStatus,
};
use serde_json::Value;

use super::Door;
use super::answer::{self, Doors};
use super::ask::Ask;
use super::cures;
use super::elicit::{self, Shown};
use crate::error::Error;
use crate::service::PersonQuestion;
use crate::service::quote;
use crate::service::view::ExecutionView;

const POLL_EVERY_MS: u64 = 1_000;
const WAITS_CHARS_MAX: usize = 500;

/// An execution that goes on becomes a task where its client can handle one and can put every question
/// that may come up to a person.
pub fn instead(ask: &Ask, view: &ExecutionView) -> Option<CallToolResponse> {
    let runs = matches!(view.status, Status::Running | Status::Compensating);
    let able = ask.capabilities().supports_tasks() && ask.can_elicit() && ask.is_modern();
    let needs_the_agent = view.steps.iter().any(|step| step.by.is_some());
    (runs && able && !needs_the_agent).then(|| CreateTaskResult::new(task(view, TaskStatus::Working)).into())
}

pub async fn get(door: &Door, ask: &Ask, id: &str) -> Result<GetTaskResult, ErrorData> {
    let (view, questions) = elicit::asked(door, ask, id, None).await.map_err(|error| unknown(&error))?;
    let doors = door.doors(ask);
    let payload = match view.status {
        Status::Running | Status::Compensating | Status::Paused => TaskPayload::Working,
        Status::Blocked => {
            let input_requests = requests(&questions);
            match input_requests.is_empty() || doors == Doors::Terminal {
                true => TaskPayload::Working,
                false => TaskPayload::InputRequired { input_requests },
            }
        }
        Status::Cancelled => TaskPayload::Cancelled,
        Status::Succeeded | Status::Compensated | Status::Failed => {
            TaskPayload::Completed { result: result(&view, doors)? }
        }
    };
    let task = task(&view, payload.status());
    Ok(GetTaskResult::new(DetailedTask::new(task, payload)))
}

fn result(view: &ExecutionView, doors: Doors) -> Result<JsonObject, ErrorData> {
    let mut result = answer::execution(view, doors).into_result();
    result.is_error = Some(view.status == Status::Failed);
    match serde_json::to_value(result) {
        Ok(Value::Object(result)) => Ok(result),
        Ok(_) => unreachable!("a result is an object"),
        Err(error) => Err(ErrorData::internal_error(error.to_string(), None)),
    }
}

/// Everything that a person can be asked, by a name that this question alone has.
fn requests(questions: &[PersonQuestion]) -> InputRequests {
    let requests = questions.iter().map(|question| {
        let request = ElicitRequest::new(elicit::form(question));
        (Shown::of(question).name(), InputRequest::Elicitation(request))
    });
    requests.collect::<BTreeMap<_, _>>()
}

pub async fn update(door: &Door, ask: &Ask, id: &str, responses: &InputResponses) -> Result<(), ErrorData> {
    let (_, questions) = elicit::asked(door, ask, id, None).await.map_err(|error| unknown(&error))?;
    for (name, response) in responses {
        // What is not, or no longer, asked needs no answer.
        let open = questions.iter().find(|one| Shown::of(one).name() == *name);
        if let Some(open) = open {
            settle(door, ask, open, response).await.map_err(|error| refused(&error))?;
        }
    }
    Ok(())
}

async fn settle(door: &Door, ask: &Ask, question: &PersonQuestion, response: &Value) -> Result<(), Error> {
    let said = serde_json::from_value(response.clone()).map_err(|error| {
        Error::new(
            "invalid_argument",
            format!("the answer is no elicitation result: {error}"),
            "answer the form",
        )
    })?;
    if let Some((word, reason)) = elicit::word_of(said, &question.waiting) {
        let found = elicit::settle(door, ask, &Shown::of(question), &word, reason).await?;
        door.background().go_on(found.stream).await?;
    }
    Ok(())
}

/// Whoever cancels the task cancels the execution; one that has ended stays as it ended.
pub async fn cancel(door: &Door, ask: &Ask, id: &str) -> Result<(), ErrorData> {
    let service = door.service();
    let found = service.find(id).await.map_err(|error| unknown(&error))?;
    match found.status {
        Status::Succeeded | Status::Failed | Status::Cancelled | Status::Compensated => Ok(()),
        Status::Running | Status::Paused | Status::Blocked | Status::Compensating => {
            let why = Some("the task was cancelled".to_owned());
            service.cancel(&ask.caller, id, why).await.map_err(|error| refused(&error))?;
            door.background().go_on(found.stream).await.map_err(|error| refused(&error))?;
            Ok(())
        }
    }
}

fn task(view: &ExecutionView, status: TaskStatus) -> Task {
    let times = view.steps.iter().flat_map(|step| [step.started_at.as_deref(), step.ended_at.as_deref()]);
    let latest = times.flatten().max().unwrap_or(&view.started_at);
    let updated = view.ended_at.as_deref().unwrap_or(latest);
    let mut task = Task::new(view.id.to_string(), status, view.started_at.clone(), updated.to_owned());
    task.ttl_ms = None;
    task.poll_interval_ms = Some(POLL_EVERY_MS);
    let waits = view.waiting.first().map(|one| format!(": {}", quote::line(&one.question, WAITS_CHARS_MAX)));
    let waits = waits.unwrap_or_default();
    let progress = view.progress;
    task.status_message =
        Some(format!("{}, {} of {} steps done{waits}", view.status, progress.done, progress.total));
    task
}

fn unknown(error: &Error) -> ErrorData {
    ErrorData::invalid_params(error.message.clone(), None)
}

fn refused(error: &Error) -> ErrorData {
    let cure = cures::of(error.code, &error.cure);
    ErrorData::invalid_params(format!("{}: {}; {cure}", error.code, error.message), None)
}
