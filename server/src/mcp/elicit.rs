//! Puts questions to the person at the client (MCP elicitation). With sessions, the server asks while the
//! call waits. In the sessionless protocol the call answers `input_required` and the client calls again, with
//! a sealed state that binds the answer to the question that was shown: execution, step, and the digest of
//! what the person read.

use std::collections::BTreeMap;
use std::time::Duration;

use actbook_engine::policy::StepAnswer;
use actbook_engine::refusal::Refusal;
use rmcp::model::{
    CallToolResponse, ElicitRequest, ElicitRequestParams, ElicitResult, ElicitationAction, ElicitationSchema,
    InputRequest, InputRequiredResult, RequestStateCodec, SealOptions,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::McpEndpoint;
use super::answer;
use super::request::AgentRequest;
use super::tools::continued_answer;
use crate::error::{AgentErrorCode, Error};
use crate::service::view::{AnswerOption, ExecutionView, QuestionKind, WaitingView};
use crate::service::{Asker, FoundExecution, PersonQuestion, QuestionMedium};

/// How long a person may take to answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(15 * 60);
/// The key of the one question in an `input_required` result.
const QUESTION_KEY: &str = "question";

/// The result of putting a question to a person.
#[derive(Debug)]
pub enum QuestionOutcome {
    /// The answer was applied to this execution.
    Answered(FoundExecution),
    /// The client has to show the question and to call again.
    InputRequired(InputRequiredResult),
    /// The person gave no answer, or the call was cancelled.
    NoAnswer,
}

/// Identifies the question that the person was shown: the content of a sealed state, which the client cannot
/// change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShownQuestion {
    pub execution: String,
    step: Option<String>,
    /// Digest of what the person is shown.
    digest: String,
}

impl ShownQuestion {
    /// What identifies this question: its execution, its step and its digest.
    pub fn from_question(question: &PersonQuestion) -> Self {
        Self {
            execution: question.execution.to_string(),
            step: question.waiting.step.as_ref().map(ToString::to_string),
            digest: question.digest.to_string(),
        }
    }

    /// The key of this question among input requests; a later question about the same step has another key.
    pub fn input_key(&self) -> String {
        format!("{}-{}", self.step.as_deref().unwrap_or("plan"), self.digest)
    }
}

/// Puts an open approval of a step, or without one of the plan or an undo, to the person, and answers with
/// the execution, after it has gone on for `wait` at most. Err `no_answer`: the person gave none.
pub async fn elicit_approval(
    endpoint: &McpEndpoint,
    request: &AgentRequest,
    id: &str,
    step: Option<&str>,
    reason: Option<&str>,
    wait: Duration,
) -> Result<CallToolResponse, Error> {
    let (view, questions) = open_questions(endpoint, request, id, reason).await?;
    let index = find_open_approval(&view, step)?;
    match put_question(endpoint, request, &questions[index], reason).await {
        Ok(QuestionOutcome::Answered(found)) => {
            Ok(continued_answer(endpoint, request, &found, wait).await?.into_result().into())
        }
        Ok(QuestionOutcome::InputRequired(result)) => Ok(result.into()),
        Err(error) if is_dialog_failure(&error) => Ok(answer::dialog_failed_answer(&view, &error).into()),
        Err(error) => Err(error),
        Ok(QuestionOutcome::NoAnswer) => {
            let waiting = &view.waiting[index];
            let cure = if waiting.too_long {
                format!("nothing was decided; for your user: {}", waiting.too_long_text(view.id.as_str()))
            } else {
                "nothing was decided; ask your user what they want, and call again".to_owned()
            };
            Err(Error::agent(AgentErrorCode::NoAnswer, "the person gave no answer", cure))
        }
    }
}

/// The execution and its open questions, worded for a person; `reason` is the agent's reason to ask.
pub async fn open_questions(
    endpoint: &McpEndpoint,
    request: &AgentRequest,
    id: &str,
    reason: Option<&str>,
) -> Result<(ExecutionView, Vec<PersonQuestion>), Error> {
    let asker = Asker { actor: &request.caller.actor, reason };
    endpoint.service().executions().person_questions(id, Some(asker), QuestionMedium::Form).await
}

/// The index in `view.waiting` of the open approval of a step, or without one of the plan or an undo. Err
/// `not_waiting`: it is not open.
pub fn find_open_approval(view: &ExecutionView, step: Option<&str>) -> Result<usize, Error> {
    fn step_id(question: &WaitingView) -> Option<&str> {
        question.step.as_ref().map(|step| step.as_str())
    }
    let approvals = || view.waiting.iter().filter(|one| one.kind == QuestionKind::Approval);
    view.waiting.iter().position(|one| one.kind == QuestionKind::Approval && step_id(one) == step).ok_or_else(
        || {
            let message = match step {
                Some(step) => format!("step `{step}` waits for no approval"),
                None => "neither the plan nor an undo waits for an approval".to_owned(),
            };
            let cure = match approvals().find_map(step_id) {
                Some(other) => format!("step `{other}` does: give its step_id"),
                None => "nothing here does: status names what waits".to_owned(),
            };
            Error::agent(AgentErrorCode::NotWaiting, message, cure)
        },
    )
}

/// Whether a person can be asked this question: an approval, or a step with an unknown outcome.
pub fn is_for_a_person(waiting: &WaitingView) -> bool {
    let unknown = waiting.requests.is_none()
        && waiting.options.contains(&AnswerOption::Decide(StepAnswer::DidNotHappen));
    waiting.kind == QuestionKind::Approval || unknown
}

/// Opens the state that a repeated call brings; None: it brings none. Err: altered or expired.
pub fn open_request_state(
    endpoint: &McpEndpoint,
    request: &AgentRequest,
) -> Result<Option<ShownQuestion>, Error> {
    let Some(state) = &request.request_state else { return Ok(None) };
    let opened = endpoint.state_codec().open_json_with(state, request.caller.actor.as_bytes());
    opened.map(Some).map_err(|error| {
        let cure = "call again without requestState: the question is asked again";
        let message = format!("the state of the question is not valid: {error}");
        Error::agent(AgentErrorCode::StaleQuestion, message, cure)
    })
}

/// Puts a question to the person and applies the answer. Err `stale_question`: it has changed meanwhile;
/// `dialog_failed`: the client did not show it.
pub async fn put_question(
    endpoint: &McpEndpoint,
    request: &AgentRequest,
    question: &PersonQuestion,
    reason: Option<&str>,
) -> Result<QuestionOutcome, Error> {
    let shown = ShownQuestion::from_question(question);
    let elicitation = elicitation_form(question);
    let result = match (request.is_sessionless(), open_request_state(endpoint, request)?) {
        (true, Some(earlier)) if earlier == shown => elicit_response(request)?,
        (true, _) => {
            return Ok(QuestionOutcome::InputRequired(input_required_result(
                endpoint.state_codec(),
                request,
                &shown,
                elicitation,
            )?));
        }
        (false, _) => {
            let answer =
                request.context.peer.create_elicitation_with_timeout(elicitation, Some(ANSWER_TIMEOUT));
            tokio::select! {
                result = answer => result.map_err(|error| dialog_error(format!("the client did not show the question: {error}")))?,
                () = request.context.ct.cancelled() => return Ok(QuestionOutcome::NoAnswer),
            }
        }
    };
    let was_accepted = result.action == ElicitationAction::Accept;
    let Some((option, why)) = chosen_option(result, &question.waiting) else {
        if was_accepted {
            return Err(dialog_error("the client's answer is none of those that the form offers"));
        }
        return Ok(QuestionOutcome::NoAnswer);
    };
    let (_, current) = open_questions(endpoint, request, &shown.execution, reason).await?;
    if !current.iter().any(|question| ShownQuestion::from_question(question) == shown) {
        let message = "the question has changed while it was being answered";
        let cure = "status shows what waits now; nothing was decided";
        return Err(Error::agent(AgentErrorCode::StaleQuestion, message, cure));
    }
    Ok(QuestionOutcome::Answered(apply_answer(endpoint, request, question, option, why).await?))
}

/// The `input_required` result that asks the question; its state is bound to the caller and expires.
fn input_required_result(
    codec: &RequestStateCodec,
    request: &AgentRequest,
    shown: &ShownQuestion,
    elicitation: ElicitRequestParams,
) -> Result<InputRequiredResult, Error> {
    let options = SealOptions::new().associated_data(request.caller.actor.as_bytes()).ttl(ANSWER_TIMEOUT);
    let state = codec.seal_json_with(shown, &options);
    let state = state.map_err(|error| Error::Bug(error.to_string()))?;
    let requests = BTreeMap::from([(
        QUESTION_KEY.to_owned(),
        InputRequest::Elicitation(ElicitRequest::new(elicitation)),
    )]);
    Ok(InputRequiredResult::new(Some(requests), Some(state)))
}

/// The person's answer that a repeated call brings. Err `dialog_failed`: it brings none that parses.
fn elicit_response(request: &AgentRequest) -> Result<ElicitResult, Error> {
    let given = request.input_responses.as_ref().and_then(|responses| responses.get(QUESTION_KEY));
    let result = given.and_then(|given| serde_json::from_value(given.clone()).ok());
    result.ok_or_else(|| {
        let cure = "send inputResponses with the answer to `question`, or call without requestState";
        let message = "the call brings no answer to the question";
        Error::agent(AgentErrorCode::DialogFailed, message, cure)
    })
}

/// The form that puts a question to a person: its text, the options and a reason.
pub fn elicitation_form(question: &PersonQuestion) -> ElicitRequestParams {
    let options: Vec<String> =
        question.waiting.options.iter().map(|option| option.as_str().replace('-', "_")).collect();
    let schema = json!({
        "type": "object",
        "properties": {
            "answer": { "type": "string", "title": "Your answer", "enum": options },
            "reason": { "type": "string", "title": "Why", "description": "It is journaled with your answer" },
        },
        "required": ["answer"],
    });
    let schema: ElicitationSchema = serde_json::from_value(schema).expect("the schema is written by hand");
    let message = question.text.clone();
    ElicitRequestParams::FormElicitationParams { meta: None, message, requested_schema: schema }
}

/// The chosen option and the reason; None: no valid choice, or the form was dismissed. Declining the form of
/// an approval rejects it.
pub fn chosen_option(result: ElicitResult, waiting: &WaitingView) -> Option<(AnswerOption, Option<String>)> {
    let content = result.content.unwrap_or_default();
    let text = |name: &str| {
        content.get(name).and_then(Value::as_str).filter(|text| !text.is_empty()).map(str::to_owned)
    };
    let word = match result.action {
        ElicitationAction::Accept => text("answer")?.replace('_', "-"),
        ElicitationAction::Decline if waiting.kind == QuestionKind::Approval => {
            AnswerOption::Reject.as_str().to_owned()
        }
        _ => return None,
    };
    let option = waiting.options.iter().copied().find(|option| option.as_str() == word)?;
    Some((option, text("reason")))
}

/// Applies a person's answer to the question that was shown, in the person's name. Err `stale_question`: it
/// is no longer open.
pub async fn apply_answer(
    endpoint: &McpEndpoint,
    request: &AgentRequest,
    question: &PersonQuestion,
    option: AnswerOption,
    reason: Option<String>,
) -> Result<FoundExecution, Error> {
    let (executions, person) = (endpoint.service().executions(), request.person_caller());
    Ok(executions.answer_question(&person, question, option, reason).await?.0)
}

/// The error `dialog_failed`, of a form that the client did not show, or whose answer cannot be read. Nothing
/// was decided.
fn dialog_error(message: impl Into<String>) -> Error {
    let cure = "nothing was decided; the person can use `actbook approve` or `actbook decide`";
    Error::agent(AgentErrorCode::DialogFailed, message, cure)
}

/// Whether the error is `dialog_failed`: the client refused the form, showed none, or gave an answer that
/// cannot be read.
pub fn is_dialog_failure(error: &Error) -> bool {
    matches!(error, Error::Agent(error) if error.code == AgentErrorCode::DialogFailed)
}

/// Whether the error says that the question was answered or replaced before this answer to it arrived.
pub fn is_stale_question(error: &Error) -> bool {
    match error {
        Error::Agent(error) => error.code == AgentErrorCode::StaleQuestion,
        error => matches!(error.refusal(), Some(Refusal::StaleQuestion)),
    }
}
