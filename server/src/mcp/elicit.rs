//! Questions to the person at the client. The older protocol asks while the call waits; the newer one
//! answers `input_required` and is called again, with a sealed state that binds the answer to the very
//! question that was shown: the execution, the step, and the digest of everything that the person read.

use std::collections::BTreeMap;
use std::time::Duration;

use actbook_engine::policy::Answer as Verdict;
use rmcp::model::{
    CallToolResponse, ElicitRequest, ElicitRequestParams, ElicitResult, ElicitationAction, ElicitationSchema,
    InputRequest, InputRequiredResult, RequestStateCodec, SealOptions,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::Door;
use super::ask::Ask;
use super::tools::answered;
use crate::caller::Caller;
use crate::error::Error;
use crate::service::view::{ExecutionView, WaitingView};
use crate::service::{Action, Asker, Facts, Found, Noted, PersonQuestion};

/// How long a person may take.
const PATIENCE: Duration = Duration::from_secs(15 * 60);
/// The one question of a round.
const QUESTION: &str = "question";

/// What came of putting a question.
#[derive(Debug)]
pub enum Put {
    Answered(Found),
    /// The client is to ask, and to call again.
    Asks(InputRequiredResult),
    /// The person would not say.
    NoAnswer,
}

/// What a sealed state says. The client carries it and cannot change it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shown {
    pub execution: String,
    step: Option<String>,
    /// Of what the person is shown.
    digest: String,
}

impl Shown {
    pub fn of(question: &PersonQuestion) -> Self {
        Self {
            execution: question.execution.to_string(),
            step: question.waiting.step.as_ref().map(ToString::to_string),
            digest: question.digest.to_string(),
        }
    }

    /// What this question goes by; another one, even of the same step, goes by another name.
    pub fn name(&self) -> String {
        format!("{}-{}", self.step.as_deref().unwrap_or("plan"), self.digest)
    }
}

/// `control` with `approve` or `reject`: the person's word, not the agent's.
pub async fn approval(
    door: &Door,
    ask: &Ask,
    id: &str,
    step: Option<&str>,
    reason: Option<&str>,
) -> Result<CallToolResponse, Error> {
    let (view, questions) = asked(door, ask, id, reason).await?;
    let open = open_approval(&view, step)?;
    match put(door, ask, &questions[open], reason).await? {
        Put::Answered(found) => answered(door, ask, &found).await,
        Put::Asks(result) => Ok(result.into()),
        Put::NoAnswer => {
            let cure = "nothing was decided; ask your user what they want, and call again";
            Err(Error::new("no_answer", "the person gave no answer", cure))
        }
    }
}

/// The execution, and its open questions as this caller puts them to a person.
pub async fn asked(
    door: &Door,
    ask: &Ask,
    id: &str,
    reason: Option<&str>,
) -> Result<(ExecutionView, Vec<PersonQuestion>), Error> {
    let asker = Asker { actor: &ask.caller.actor, reason };
    door.service().person_questions(id, Some(asker)).await
}

/// The index, in `view.waiting`, of the approval that is waited for; there may be none.
pub fn open_approval(view: &ExecutionView, step: Option<&str>) -> Result<usize, Error> {
    fn name(one: &WaitingView) -> Option<&str> {
        one.step.as_ref().map(|step| step.as_str())
    }
    let approvals = || view.waiting.iter().filter(|one| one.kind == "approval");
    view.waiting.iter().position(|one| one.kind == "approval" && name(one) == step).ok_or_else(|| {
        let message = match step {
            Some(step) => format!("step `{step}` waits for no approval"),
            None => "neither the plan nor an undo waits for an approval".to_owned(),
        };
        let cure = match approvals().find_map(name) {
            Some(other) => format!("step `{other}` does: give its step_id"),
            None => "nothing here does: status names what waits".to_owned(),
        };
        Error::new("not_waiting", message, cure)
    })
}

/// Whether an execution has this question to put to a person: an approval, or an outcome nobody knows.
pub fn is_for_a_person(waiting: &WaitingView) -> bool {
    let unknown = waiting.requests.is_none() && waiting.options.contains(&"did-not-happen");
    waiting.kind == "approval" || unknown
}

/// The state that a repeated call brings back, if it brings one.
pub fn brought_back(door: &Door, ask: &Ask) -> Result<Option<Shown>, Error> {
    let Some(state) = &ask.request_state else { return Ok(None) };
    let opened = door.seal().open_json_with(state, ask.caller.actor.as_bytes());
    opened.map(Some).map_err(|error| {
        let cure = "call again without requestState: the question is put anew";
        Error::new("stale_question", format!("the state of the question does not hold: {error}"), cure)
    })
}

pub async fn put(
    door: &Door,
    ask: &Ask,
    question: &PersonQuestion,
    reason: Option<&str>,
) -> Result<Put, Error> {
    let shown = Shown::of(question);
    let request = form(question);
    let said = match (ask.is_modern(), brought_back(door, ask)?) {
        (true, Some(before)) if before == shown => response(ask)?,
        (true, _) => return Ok(Put::Asks(asks(door.seal(), ask, &shown, request)?)),
        (false, _) => {
            let answer = ask.context.peer.create_elicitation_with_timeout(request, Some(PATIENCE));
            tokio::select! {
                said = answer => said.map_err(|error| no_client(&error))?,
                () = ask.context.ct.cancelled() => return Ok(Put::NoAnswer),
            }
        }
    };
    let Some((word, why)) = word_of(said, &question.waiting) else { return Ok(Put::NoAnswer) };
    let (_, now) = asked(door, ask, &shown.execution, reason).await?;
    if !now.iter().any(|one| Shown::of(one) == shown) {
        let message = "the question has changed while it was being answered";
        return Err(Error::new(
            "stale_question",
            message,
            "status shows what waits now; nothing was decided",
        ));
    }
    Ok(Put::Answered(settle(door, ask, &shown, &word, why).await?))
}

fn asks(
    seal: &RequestStateCodec,
    ask: &Ask,
    shown: &Shown,
    request: ElicitRequestParams,
) -> Result<InputRequiredResult, Error> {
    let options = SealOptions::new().associated_data(ask.caller.actor.as_bytes()).ttl(PATIENCE);
    let state = seal.seal_json_with(shown, &options);
    let state =
        state.map_err(|error| Error::new("internal", error.to_string(), "this is a bug in actbook"))?;
    let requests =
        BTreeMap::from([(QUESTION.to_owned(), InputRequest::Elicitation(ElicitRequest::new(request)))]);
    Ok(InputRequiredResult::new(Some(requests), Some(state)))
}

fn response(ask: &Ask) -> Result<ElicitResult, Error> {
    let given = ask.responses.as_ref().and_then(|responses| responses.get(QUESTION));
    let said = given.and_then(|given| serde_json::from_value(given.clone()).ok());
    said.ok_or_else(|| {
        let cure = "send inputResponses with the answer to `question`, or call without requestState";
        Error::new("no_answer", "the call brings no answer to the question", cure)
    })
}

pub fn form(question: &PersonQuestion) -> ElicitRequestParams {
    let words: Vec<String> = question.waiting.options.iter().map(|option| option.replace('-', "_")).collect();
    let schema = json!({
        "type": "object",
        "properties": {
            "answer": { "type": "string", "title": "Your answer", "enum": words },
            "reason": { "type": "string", "title": "Why", "description": "It is journaled with your answer" },
        },
        "required": ["answer"],
    });
    let schema: ElicitationSchema = serde_json::from_value(schema).expect("the schema is written by hand");
    let message = question.text.clone();
    ElicitRequestParams::FormElicitationParams { meta: None, message, requested_schema: schema }
}

/// The word that was chosen, and why. To decline an approval is to say no to it.
pub fn word_of(said: ElicitResult, waiting: &WaitingView) -> Option<(String, Option<String>)> {
    let content = said.content.unwrap_or_default();
    let text = |name: &str| {
        content.get(name).and_then(Value::as_str).filter(|text| !text.is_empty()).map(str::to_owned)
    };
    let word = match said.action {
        ElicitationAction::Accept => text("answer")?.replace('_', "-"),
        ElicitationAction::Decline if waiting.kind == "approval" => "reject".to_owned(),
        _ => return None,
    };
    waiting.options.contains(&word.as_str()).then(|| (word, text("reason")))
}

pub async fn settle(
    door: &Door,
    ask: &Ask,
    shown: &Shown,
    word: &str,
    reason: Option<String>,
) -> Result<Found, Error> {
    let (service, person) = (door.service(), ask.person());
    let (id, step) = (shown.execution.as_str(), shown.step.clone());
    let (found, _) = match word {
        "approve" => service.approve(&person, id, step, reason).await?,
        "reject" => service.reject(&person, id, step, reason).await?,
        "started" | "succeeded" | "failed" | "compensated" => {
            return record(door, &person, shown, word, reason).await;
        }
        verdict => {
            let strange = |error: String| Error::new("invalid_argument", error, "status lists the answers");
            let verdict: Verdict = verdict.parse().map_err(strange)?;
            service.decide(&person, id, step.unwrap_or_default(), verdict, reason, None).await?
        }
    };
    Ok(found)
}

async fn record(
    door: &Door,
    person: &Caller,
    shown: &Shown,
    word: &str,
    reason: Option<String>,
) -> Result<Found, Error> {
    let strange = |error: String| Error::new("invalid_argument", error, "status lists the answers");
    let action = Action {
        execution: Some(shown.execution.clone()),
        step: shown.step.clone(),
        status: Some(word.parse().map_err(strange)?),
        facts: Facts { reason, ..Facts::default() },
        ..Action::default()
    };
    match door.service().record_action(person, action).await? {
        Noted::In(found, _) => Ok(found),
        Noted::Alone(_) => unreachable!("an execution was named"),
    }
}

fn no_client(error: &rmcp::ServiceError) -> Error {
    let message = format!("the client did not put the question: {error}");
    Error::new(
        "no_answer",
        message,
        "nothing was decided; the person can use `actbook approve` or `actbook decide`",
    )
}
