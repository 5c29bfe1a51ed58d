//! Answers to questions, and commands about an execution: the page that asks once more, and the forms that act.
//! An answer names the question as it was shown; one that has changed or was answered since is refused.

use actbook_engine::policy::StepAnswer;
use actbook_engine::refusal::Refusal;
use askama::Template;
use axum::Form;
use axum::extract::{Path, Query};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{Html, IntoResponse, Redirect, Response};
use serde::Deserialize;
use serde_json::Value;

use super::answer_words::{AnswerButton, button, correctable_arguments};
use super::execution_parts::ReaderRights;
use super::frame::{Area, Frame};
use super::markup::{Markup, count, icon, short_id};
use super::question_card::{CallLine, QuestionCard, step_of, undo_lines};
use super::session_part::{EffectLine, effect_lines, undo_sentence};
use super::{render, with_status};
use crate::error::Error;
use crate::service::view::{AnswerOption, EntryView, StepView};
use crate::service::{
    AnswerChoice, FoundExecution, GivenAnswer, InspectedExecution, JournalFilter, PersonQuestion,
    QuestionSubject, ReportedStatus, UndoPart, UndoSelection, undo_digest,
};
use crate::tools::escape_hidden_in_json;
use crate::web::WebState;
use crate::web::authentication::SignedIn;
use crate::web::json::parse_json;
use crate::web::problem::Problem;

/// Entries that are looked through for who answered a question.
const ANSWERS_SEARCHED: u64 = 30;

/// What is to be confirmed: an answer to a question, or an action on the execution.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct ConfirmQuery {
    question: String,
    answer: String,
    action: String,
    reason: String,
    #[serde(flatten)]
    part: UndoPartFields,
}

/// With `undo` of a session: the part that is undone.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct UndoPartFields {
    /// The first call.
    from: String,
    /// `files` or `calls`.
    only: String,
}

impl UndoPartFields {
    /// The part that is meant. Err: `only` is no part.
    fn selection(&self) -> Result<UndoSelection, Problem> {
        let given = |text: &String| Some(text.clone()).filter(|text| !text.is_empty());
        let only = given(&self.only).map(|only| only.parse()).transpose();
        let only = only.map_err(|why: String| Problem::bad_parameter("only", why))?;
        Ok(UndoSelection { from: given(&self.from), only })
    }
}

/// The form of an answer.
#[derive(Debug, Deserialize)]
pub struct AnswerForm {
    question: String,
    answer: String,
    #[serde(default)]
    reason: String,
    /// A reply, corrected arguments or an output, as JSON.
    #[serde(default)]
    value: String,
    /// The page to go back to: `questions`, or the execution's.
    #[serde(default)]
    back: String,
}

/// The form of a command about the whole execution.
#[derive(Debug, Deserialize)]
pub struct ControlForm {
    action: String,
    #[serde(default)]
    reason: String,
    /// With `undo`: the digest of the calls that the page listed.
    #[serde(default)]
    calls: String,
    #[serde(flatten)]
    part: UndoPartFields,
}

/// The page that shows what an answer or an action will do, and asks once more.
#[derive(Debug, Template)]
#[template(path = "confirm.html")]
struct ConfirmPage {
    frame: Frame,
    execution: String,
    short: String,
    plan: String,
    title: Markup,
    /// What will happen, in a sentence.
    effect: String,
    card: Option<QuestionCard>,
    /// The calls that will be made.
    calls: Vec<CallLine>,
    /// What becomes of each call of a session.
    effects: Vec<EffectLine>,
    /// Steps whose effect remains.
    remains: Vec<(String, String)>,
    form_path: String,
    fields: Vec<(&'static str, String)>,
    value: Option<ValueField>,
    reason: String,
    asks_reason: &'static str,
    button: String,
    icon: Markup,
    is_hard: bool,
}

/// The field for a value that an answer may carry.
#[derive(Debug)]
struct ValueField {
    label: &'static str,
    text: String,
}

#[derive(Debug, Template)]
#[template(path = "conflict.html")]
struct ConflictPage {
    frame: Frame,
    execution: String,
    /// The newest answers: what, by whom, and why.
    answers: Vec<EntryView>,
}

/// `GET /executions/{id}/confirm`.
pub async fn confirm(
    state: WebState,
    signed_in: SignedIn,
    headers: HeaderMap,
    Path(id): Path<String>,
    Query(query): Query<ConfirmQuery>,
) -> Result<Response, Problem> {
    let inspected = state.service.executions().inspect(&id).await?;
    let frame = Frame::load(&state, &signed_in, &headers, Area::Executions, "Confirm").await?;
    let rights = ReaderRights::of(&signed_in);
    if !query.action.is_empty() {
        return Ok(render(&control_page(&state, &inspected, &query, rights, frame).await?)?.into_response());
    }
    match find_question(&inspected, &query.question, &query.answer) {
        Some((question, option)) => {
            let page = answer_page(&inspected, question, option, query.reason, rights, frame);
            Ok(render(&page)?.into_response())
        }
        None => conflict(&state, &signed_in, &headers, &inspected).await,
    }
}

/// The open question with this digest, and its option with this word. `None`: it changed, or has no such option.
fn find_question<'a>(
    inspected: &'a InspectedExecution,
    digest: &str,
    answer: &str,
) -> Option<(&'a PersonQuestion, AnswerOption)> {
    let question = inspected.questions.iter().find(|one| one.digest.to_string() == digest)?;
    let option = question.waiting.options.iter().find(|option| option.as_str() == answer)?;
    Some((question, *option))
}

fn answer_page(
    inspected: &InspectedExecution,
    question: &PersonQuestion,
    option: AnswerOption,
    reason: String,
    rights: ReaderRights,
    frame: Frame,
) -> ConfirmPage {
    let id = inspected.view.id.to_string();
    let step = step_of(inspected, question);
    let AnswerButton { label, effect, is_hard, icon, .. } = button(question, step, option);
    let card = QuestionCard::of(inspected, question, rights.values);
    let undoes = option == AnswerOption::Decide(StepAnswer::Compensate);
    let brief = &question.facts.brief;
    ConfirmPage {
        short: short_id(&id).to_owned(),
        plan: inspected.view.plan.name.clone(),
        title: card.title.clone(),
        effect: effect.replace(" Asks once more.", ""),
        calls: if undoes { undo_lines(&question.facts.undo, rights.values, usize::MAX) } else { Vec::new() },
        effects: Vec::new(),
        remains: if undoes { remains(brief) } else { Vec::new() },
        form_path: format!("/executions/{id}/answer"),
        fields: vec![("question", question.digest.to_string()), ("answer", option.as_str().to_owned())],
        value: value_field(question, step, option, rights),
        reason,
        asks_reason: if option == AnswerOption::Reject {
            "Reason, for whoever has to go on"
        } else {
            "Reason"
        },
        button: label.trim_end_matches('…').to_owned(),
        icon: Markup::from_rendered(icon.to_string()),
        is_hard: is_hard || option == AnswerOption::Reject,
        card: Some(card),
        execution: id,
        frame,
    }
}

fn remains(brief: &crate::service::Brief) -> Vec<(String, String)> {
    brief.cannot_undo.iter().map(|one| (one.step.to_string(), one.why.clone())).collect()
}

/// The field for the value that fits an answer. `None`: the answer carries none.
fn value_field(
    question: &PersonQuestion,
    step: Option<&StepView>,
    option: AnswerOption,
    rights: ReaderRights,
) -> Option<ValueField> {
    let pretty =
        |value: &Value| escape_hidden_in_json(&serde_json::to_string_pretty(value).unwrap_or_default());
    match option {
        AnswerOption::Decide(StepAnswer::Retry)
            if question.facts.subject == QuestionSubject::ToolQuestion =>
        {
            Some(ValueField { label: "Reply, as JSON", text: reply_template(question) })
        }
        AnswerOption::Decide(StepAnswer::Retry) => {
            let sent = correctable_arguments(question, step, option).filter(|_| rights.values)?;
            Some(ValueField {
                label: "Arguments, as JSON, to be sent as they are or corrected",
                text: pretty(sent),
            })
        }
        AnswerOption::Decide(StepAnswer::Happened) | AnswerOption::Report(ReportedStatus::Succeeded) => {
            Some(ValueField { label: "Output, as JSON, if later steps read it", text: String::new() })
        }
        AnswerOption::Approve | AnswerOption::Reject | AnswerOption::Report(_) | AnswerOption::Decide(_) => {
            None
        }
    }
}

/// An empty reply with every field that the tool asks for.
fn reply_template(question: &PersonQuestion) -> String {
    let asked = question.waiting.asked_input.as_ref();
    let fields = asked.into_iter().flat_map(|asked| &asked.requests).map(|request| {
        let fields = request.fields.iter().map(|field| (field.name.clone(), Value::String(String::new())));
        (request.key.clone(), Value::Object(fields.collect()))
    });
    serde_json::to_string_pretty(&Value::Object(fields.collect())).unwrap_or_default()
}

/// The page that confirms `cancel` or `undo`.
async fn control_page(
    state: &WebState,
    inspected: &InspectedExecution,
    query: &ConfirmQuery,
    rights: ReaderRights,
    frame: Frame,
) -> Result<ConfirmPage, Problem> {
    match query.action.as_str() {
        "undo" => undo_page(state, inspected, query, rights, frame).await,
        "cancel" => Ok(cancel_page(inspected, query, frame)),
        _ => Err(Problem::bad_parameter("action", "only `undo` and `cancel` are confirmed")),
    }
}

fn cancel_page(inspected: &InspectedExecution, query: &ConfirmQuery, frame: Frame) -> ConfirmPage {
    let mut title = Markup::text("Cancel ");
    title.push_code(&inspected.view.plan.name);
    title.push_text("?");
    let effect =
        "Ends it and undoes nothing; calls in flight are asked to stop. What was done stays done.".to_owned();
    ConfirmPage {
        effect,
        button: "Cancel the execution".to_owned(),
        icon: Markup::from_rendered(icon("cancelled").to_string()),
        ..ConfirmPage::of_control(inspected, query, title, frame)
    }
}

async fn undo_page(
    state: &WebState,
    inspected: &InspectedExecution,
    query: &ConfirmQuery,
    rights: ReaderRights,
    frame: Frame,
) -> Result<ConfirmPage, Problem> {
    let selection = query.part.selection()?;
    let watcher = state.service.executions().watch(inspected.view.id.as_str()).await?;
    let brief = watcher.brief_of(&selection).await?;
    let session = watcher.session_undo(&selection).await?;
    let undo = watcher.undo_calls(&brief);
    let title = undo_title(&inspected.view.plan.name, &selection);
    let mut page = ConfirmPage::of_control(inspected, query, title, frame);
    page.fields.push(("calls", undo_digest(&brief)));
    let UndoPartFields { from, only } = query.part.clone();
    page.fields.extend([("from", from), ("only", only)].into_iter().filter(|(_, part)| !part.is_empty()));
    match session {
        Some(calls) => {
            let stays_open = if inspected.view.ended_at.is_none() { " The session stays open." } else { "" };
            page.effect = format!("{}{stays_open}", undo_sentence(&calls));
            page.effects = effect_lines(&calls);
        }
        None => {
            page.effect = format!("Makes {}, in this order, then ends.", count(undo.len(), "call"));
            page.calls = undo_lines(&undo, rights.values, usize::MAX);
            page.remains = remains(&brief);
        }
    }
    Ok(page)
}

/// The question whether to undo, with the part of a session that is meant.
fn undo_title(plan: &str, selection: &UndoSelection) -> Markup {
    let mut title = Markup::text(match selection.only {
        None => "Undo what ",
        Some(UndoPart::Files) => "Restore only the files of ",
        Some(UndoPart::Calls) => "Take back only the calls of ",
    });
    title.push_code(plan);
    if let Some(from) = &selection.from {
        title.push_text(if selection.only.is_none() { " did from " } else { " from " });
        title.push_code(from);
        title.push_text(" on");
    } else if selection.only.is_none() {
        title.push_text(" did");
    }
    title.push_text("?");
    title
}

impl ConfirmPage {
    /// The page of an action on the whole execution, as of an undo that does nothing.
    fn of_control(inspected: &InspectedExecution, query: &ConfirmQuery, title: Markup, frame: Frame) -> Self {
        let id = inspected.view.id.to_string();
        Self {
            short: short_id(&id).to_owned(),
            plan: inspected.view.plan.name.clone(),
            title,
            effect: String::new(),
            card: None,
            calls: Vec::new(),
            effects: Vec::new(),
            remains: Vec::new(),
            form_path: format!("/executions/{id}/control"),
            fields: vec![("action", query.action.clone())],
            value: None,
            reason: query.reason.clone(),
            asks_reason: "Reason",
            button: "Undo".to_owned(),
            icon: Markup::from_rendered(icon("compensating").to_string()),
            is_hard: true,
            execution: id,
            frame,
        }
    }
}

/// `POST /executions/{id}/answer`.
pub async fn answer(
    state: WebState,
    signed_in: SignedIn,
    headers: HeaderMap,
    Path(id): Path<String>,
    Form(form): Form<AnswerForm>,
) -> Result<Response, Problem> {
    let inspected = state.service.executions().inspect(&id).await?;
    let Some((question, option)) = find_question(&inspected, &form.question, &form.answer) else {
        return conflict(&state, &signed_in, &headers, &inspected).await;
    };
    let reason = Some(form.reason.trim().to_owned()).filter(|reason| !reason.is_empty());
    let value = match form.value.trim() {
        "" => None,
        text => Some(parse_json(text.as_bytes(), "value")?),
    };
    // Arguments that were not changed are no correction: the step binds and sends them as before.
    let sent = correctable_arguments(question, step_of(&inspected, question), option);
    let value = value.filter(|value| sent != Some(value));
    let result = give_answer(&state, &signed_in, question, option, reason, value).await;
    let found = match result {
        Err(Error::Refused(Refusal::StaleQuestion)) => {
            return conflict(&state, &signed_in, &headers, &inspected).await;
        }
        other => other?,
    };
    let to_inbox = form.back == "questions";
    go_on(&state, &found, if to_inbox { "/questions" } else { "" }).await
}

/// Gives the answer; with a value, as the command that takes one.
async fn give_answer(
    state: &WebState,
    signed_in: &SignedIn,
    question: &PersonQuestion,
    option: AnswerOption,
    reason: Option<String>,
    value: Option<Value>,
) -> Result<FoundExecution, crate::error::Error> {
    let (executions, caller) = (state.service.executions(), &signed_in.caller);
    let id = question.execution.as_str();
    let step = question.waiting.step.as_ref().map(ToString::to_string);
    let is_tool_question = question.facts.subject == QuestionSubject::ToolQuestion;
    let (found, _) = match (option, value) {
        (AnswerOption::Decide(answer), Some(value)) => {
            let corrects = answer == StepAnswer::Retry && !is_tool_question;
            let (arguments, output) = if corrects { (Some(value), None) } else { (None, Some(value)) };
            let choice = AnswerChoice::Decide { answer, output, arguments };
            let question = question.waiting.asked_at.map(|asked_at| asked_at.0);
            executions.answer(caller, id, GivenAnswer { step, choice, reason, question }).await?
        }
        (AnswerOption::Report(status), output @ Some(_)) => {
            executions.report_as_shown(caller, question, status, output, reason).await?
        }
        (option, _) => executions.answer_question(caller, question, option, reason).await?,
    };
    Ok(found)
}

/// Goes on with an execution after a command, and leads to its page, or to `path`.
async fn go_on(state: &WebState, found: &FoundExecution, path: &str) -> Result<Response, Problem> {
    let (_, elsewhere) = state.service.executions().continue_and_view(found).await?;
    let note = if elsewhere.is_some() { "?note=elsewhere" } else { "" };
    let path = if path.is_empty() || elsewhere.is_some() {
        format!("/executions/{}{note}", found.id)
    } else {
        path.to_owned()
    };
    Ok(Redirect::to(&path).into_response())
}

/// `POST /executions/{id}/control`.
pub async fn control(
    state: WebState,
    signed_in: SignedIn,
    headers: HeaderMap,
    Path(id): Path<String>,
    Form(form): Form<ControlForm>,
) -> Result<Response, Problem> {
    let (executions, caller) = (state.service.executions(), &signed_in.caller);
    let reason = Some(form.reason.trim().to_owned()).filter(|reason| !reason.is_empty());
    let found = match form.action.as_str() {
        "pause" => executions.pause(caller, &id, reason).await?.0,
        "resume" => executions.resume_if_paused(caller, &id).await?,
        "cancel" => executions.cancel(caller, &id, reason).await?.0,
        "undo" => {
            let selection = form.part.selection()?;
            match executions.undo_shown(caller, &id, reason, &selection, &form.calls).await {
                Err(Error::Refused(Refusal::StaleQuestion)) => {
                    let ControlForm { action, reason, part, .. } = form;
                    let query = ConfirmQuery { action, reason, part, ..ConfirmQuery::default() };
                    return changed_undo(&state, &signed_in, &headers, &id, &query).await;
                }
                result => result?.0,
            }
        }
        other => return Err(Problem::bad_parameter("action", format!("`{other}` is no action"))),
    };
    go_on(&state, &found, "").await
}

/// The page of an undo that would make other calls by now: 409, with those.
async fn changed_undo(
    state: &WebState,
    signed_in: &SignedIn,
    headers: &HeaderMap,
    id: &str,
    query: &ConfirmQuery,
) -> Result<Response, Problem> {
    let inspected = state.service.executions().inspect(id).await?;
    let frame = Frame::load(state, signed_in, headers, Area::Executions, "Confirm").await?;
    let mut page = control_page(state, &inspected, query, ReaderRights::of(signed_in), frame).await?;
    page.effect =
        format!("Nothing was undone: the calls have changed since they were shown. {}", page.effect);
    Ok(with_status(StatusCode::CONFLICT, render(&page)?))
}

/// The page of an answer that came too late: 409, with the newest answers.
async fn conflict(
    state: &WebState,
    signed_in: &SignedIn,
    headers: &HeaderMap,
    inspected: &InspectedExecution,
) -> Result<Response, Problem> {
    let execution = inspected.view.id.to_string();
    let filter = JournalFilter { execution: Some(execution.clone()), ..JournalFilter::default() };
    let mut answers = state.service.journal().list_newest(&filter, None, ANSWERS_SEARCHED).await?;
    answers.retain(|entry| entry.actor.contains(':'));
    answers.truncate(3);
    let frame = Frame::load(state, signed_in, headers, Area::Executions, "Answered already").await?;
    let page: Html<String> = render(&ConflictPage { frame, execution, answers })?;
    Ok(with_status(StatusCode::CONFLICT, page))
}
