//! What an execution waits for, as it is asked: the question's text, the answers that fit, and who holds it.

use actbook_engine::event::ReportedStatus;
use actbook_engine::execution::{Question, QuestionSubject, StepState, UndoItem, questions};
use actbook_engine::id::{Position, StepId};
use actbook_engine::policy::{ErrorCategory, StepAnswer, StepStatus};
use serde::{Serialize, Serializer};
use serde_json::Value;

use super::question_content::{FORM_BYTES_MAX, QuestionContent, WHOLE, step_attempts_max};
use super::quote::{self, quoted};
use super::tool_questions::tool_request_text;
use super::view::{QUOTE_CHARS_MAX, StepView, format_time};
use crate::tools::AskedInput;

/// Longest description of a step's work in a question.
const WORK_CHARS_MAX: usize = 20_000;
/// How the question begins that asks for the approval of an undo; the calls follow.
const UNDO_QUESTION: &str = "May what has been done be undone?";

/// What an answer to a question is: a yes or no, a report, or a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum QuestionKind {
    /// A yes or no, to the plan, a step or an undo.
    Approval,
    /// The report of an agent that performs or undoes a step itself.
    Agent,
    /// How to go on with a step that failed, is unknown, or asks something.
    Decision,
}

/// An answer that fits a question; serialised as the word that the command line takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnswerOption {
    Approve,
    Reject,
    /// Of an agent step.
    Report(ReportedStatus),
    Decide(StepAnswer),
}

impl AnswerOption {
    /// The option's word, as serialised.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Approve => "approve",
            Self::Reject => "reject",
            Self::Report(status) => status.as_str(),
            Self::Decide(answer) => answer.as_str(),
        }
    }
}

impl Serialize for AnswerOption {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

/// A question that an execution waits for.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, Serialize)]
pub struct WaitingView {
    /// The question's id, to answer it and no other. `None`: only a report answers it.
    pub id: Option<String>,
    pub step: Option<StepId>,
    #[serde(rename = "for")]
    pub kind: QuestionKind,
    pub question: String,
    pub options: Vec<AnswerOption>,
    /// Where a person answers it in a browser. `None`: no process serves pages, or only a report answers it.
    pub page: Option<String>,
    /// What a tool asks for, as its server sent it: the reply needs one value under each of these keys.
    pub requests: Option<Value>,
    /// The same, read.
    #[serde(skip)]
    pub asked_input: Option<AskedInput>,
    /// The agent that has started the step, and until when no other agent may report on it.
    pub claim: Option<ClaimView>,
    /// The entry that asks: the same text asked again is another question. `None`: only a report answers it.
    #[serde(skip)]
    pub asked_at: Option<Position>,
    /// The entry since which an agent's work is awaited: other work on the same step has another one.
    #[serde(skip)]
    pub awaited_since: Option<Position>,
    /// The lines that say all that the approval sets off; empty for a question of another kind.
    #[serde(skip)]
    pub content: Vec<String>,
    /// The content does not fit into a form: a yes is taken only on the command line, which shows all of it.
    #[serde(skip)]
    pub too_long: bool,
    /// The arguments of a failed call that its tool, or its schema, refused: a retry has to correct them.
    #[serde(skip)]
    pub refused_arguments: Option<Value>,
    /// A person has rejected the step.
    #[serde(skip)]
    pub rejected: bool,
    /// An undo that was proposed waits for its yes.
    #[serde(skip)]
    pub proposes_undo: bool,
}

impl WaitingView {
    /// The question as the line above the field `content`: for an undo without its calls, which `content`
    /// lists.
    pub fn headline(&self) -> &str {
        if self.question.starts_with(UNDO_QUESTION) { UNDO_QUESTION } else { &self.question }
    }

    /// The id of the question's element on pages: the beginning of the execution's id, and the step, `plan` or
    /// `undo`.
    pub fn anchor(&self, execution: &str) -> String {
        const ID_CHARS: usize = 8;
        let short = execution.get(..ID_CHARS).unwrap_or(execution);
        let subject = match &self.step {
            Some(step) => step.as_str(),
            None if self.question.starts_with(UNDO_QUESTION) => "undo",
            None => "plan",
        };
        format!("q-{short}-{subject}")
    }

    /// The sentence for a question of execution `id` that is `too_long`: the form takes no yes, and these
    /// commands show all of it and approve it; of a question that is no approval, the commands of the undo
    /// that it offers.
    pub fn too_long_text(&self, id: &str) -> String {
        let step = self.step.as_ref().map(|step| format!(" {step}")).unwrap_or_default();
        if self.kind != QuestionKind::Approval {
            return format!(
                "The undo is too long to be agreed to here: `actbook undo {id} --dry-run` shows all of it, `actbook undo {id}` does it"
            );
        }
        format!(
            "This is too long to be approved here: `actbook show {id}{step}` shows all of it, `actbook approve {id}{step}` approves it"
        )
    }
}

/// An agent's claim of a step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ClaimView {
    pub holder: String,
    pub until: String,
    /// Another agent may take the step over: the claim's time is up, or the holder's session has ended.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub lapsed: bool,
    /// The reader is not the holder, and the claim has not lapsed.
    #[serde(skip)]
    pub is_anothers: bool,
}

pub(super) fn waiting_views(content: QuestionContent<'_>) -> Vec<WaitingView> {
    let undo_bytes = content.undo_bytes();
    questions(content.execution).iter().map(|question| waiting_view(content, question, undo_bytes)).collect()
}

/// The view of an open question; `undo_bytes`: the size in bytes of what an undo would do, written out.
fn waiting_view(content: QuestionContent<'_>, question: &Question, undo_bytes: usize) -> WaitingView {
    let QuestionContent { execution, steps, values, .. } = content;
    let state = question.step.map(|no| execution.step(no));
    let view = question.step.map(|no| &steps[no.index()]);
    let asked = state.and_then(|step| step.open_question()).and_then(|stored| values.0.get(&stored.position));
    let asked = asked.map(|asked| AskedInput::parse(asked));
    let (kind, text, mut options) = word_question(content, question, asked.as_ref());
    let rejected = question.subject == QuestionSubject::Failure && state.is_some_and(StepState::is_rejected);
    if rejected {
        // Asking for the same call again is the last thing to do after a no.
        options.sort_by_key(|option| *option == AnswerOption::Decide(StepAnswer::Retry));
    }
    let lines = if kind == QuestionKind::Approval { content.lines(question, WHOLE) } else { Vec::new() };
    let bytes = if kind == QuestionKind::Approval {
        lines.iter().map(String::len).sum()
    } else {
        let call = view.and_then(|view| view.arguments.as_ref()).map_or(0, |value| value.to_string().len());
        call + undo_bytes * usize::from(question.answers.contains(&StepAnswer::Compensate))
    };
    WaitingView {
        id: question.asked_at.map(|position| position.0.to_string()),
        step: view.map(|view| view.id.clone()),
        kind,
        question: text,
        options,
        page: None,
        requests: asked.as_ref().and_then(AskedInput::as_sent).cloned(),
        asked_input: asked,
        claim: claim_view(question, state),
        asked_at: question.asked_at,
        awaited_since: question.step.and_then(|no| execution.agent_awaited_since(no)),
        content: lines,
        too_long: bytes > FORM_BYTES_MAX,
        refused_arguments: view.and_then(refused_arguments),
        proposes_undo: question.subject == QuestionSubject::UndoApproval,
        rejected,
    }
}

/// The kind of a question, its text and its options; `asked`: what the step's tool asks.
fn word_question(
    content: QuestionContent<'_>,
    question: &Question,
    asked: Option<&AskedInput>,
) -> (QuestionKind, String, Vec<AnswerOption>) {
    use ReportedStatus::{Compensated, Failed, Started, Succeeded};
    let QuestionContent { execution, steps, brief, .. } = content;
    let undo = brief.map_or(&[][..], |brief| &brief.undo);
    let view = question.step.map(|no| &steps[no.index()]);
    let id = view.map(|view| view.id.to_string()).unwrap_or_default();
    let error = view.and_then(|view| view.error.as_ref()).map_or_else(String::new, |error| {
        format!(" ({}: {})", error.category, quoted(&error.message, QUOTE_CHARS_MAX))
    });
    let answers = question.answers.iter().copied().map(AnswerOption::Decide).collect();
    let approvals = vec![AnswerOption::Approve, AnswerOption::Reject];
    let reports = |statuses: &[ReportedStatus]| statuses.iter().copied().map(AnswerOption::Report).collect();
    match question.subject {
        QuestionSubject::PlanApproval => {
            let plan = &execution.plan_ref;
            let (name, version, digest) = (quote::name(&plan.name), plan.version, plan.digest);
            let text = format!("May the plan {name} start, in version {version} ({digest})?");
            (QuestionKind::Approval, text, approvals)
        }
        QuestionSubject::UndoApproval => {
            let text = format!("{UNDO_QUESTION} {}", undo_text(undo));
            (QuestionKind::Approval, text, approvals)
        }
        QuestionSubject::StepApproval => {
            let pin = question.step.and_then(|no| execution.step(no).approval.pin);
            let pinned = pin.map(|pin| format!(", with the definition {pin}")).unwrap_or_default();
            let attempts = question.step.and_then(|no| step_attempts_max(execution, no));
            let attempts = attempts.map(|max| format!(", in up to {max} attempts")).unwrap_or_default();
            let text = format!("May step `{id}` run? {}{attempts}{pinned}", work_text(view));
            (QuestionKind::Approval, text, approvals)
        }
        QuestionSubject::AgentWork => {
            let text = format!("Step `{id}` is yours: {}", work_text(view));
            (QuestionKind::Agent, text, reports(&[Started, Succeeded, Failed]))
        }
        QuestionSubject::AgentUndo => {
            let work = undo.iter().find(|one| one.step.as_str() == id).and_then(|one| one.action.as_deref());
            let text = work.map_or("undo its effect".to_owned(), |work| quoted(work, WORK_CHARS_MAX));
            (QuestionKind::Agent, format!("Undo step `{id}`: {text}"), reports(&[Compensated, Failed]))
        }
        QuestionSubject::ToolQuestion => {
            (QuestionKind::Decision, format!("Step `{id}` asks{}", tool_request_text(asked)), answers)
        }
        QuestionSubject::Failure => {
            (QuestionKind::Decision, format!("Step `{id}` failed{error}. What now?"), answers)
        }
        QuestionSubject::Unknown => (
            QuestionKind::Decision,
            format!("It is unknown whether step `{id}` took effect{error}. Did it?"),
            answers,
        ),
        QuestionSubject::FailedUndo => {
            (QuestionKind::Decision, format!("Undoing step `{id}` failed{error}. What now?"), answers)
        }
    }
}

/// Who holds the agent step in question, and until when; `lapsed` is left to the caller. `None`: no agent
/// step, or not claimed.
fn claim_view(question: &Question, step: Option<&StepState>) -> Option<ClaimView> {
    let claim = step.and_then(|step| step.claim.as_ref());
    let claim = claim.filter(|_| question.subject == QuestionSubject::AgentWork)?;
    Some(ClaimView {
        holder: claim.holder.clone(),
        until: format_time(claim.until_ms),
        lapsed: false,
        is_anothers: false,
    })
}

/// The arguments of a failed step that were refused as invalid; an empty object if they are not known.
/// `None`: it did not fail for that.
fn refused_arguments(view: &StepView) -> Option<Value> {
    let error = view.error.as_ref().filter(|_| view.status == StepStatus::Failed)?;
    let is_refused = error.category == ErrorCategory::InvalidArguments && view.tool.is_some();
    is_refused.then(|| view.arguments.clone().unwrap_or_else(|| Value::Object(Default::default())))
}

/// The calls that an undo would make, on one line.
fn undo_text(undo: &[UndoItem]) -> String {
    let calls = undo.iter().map(|one| {
        let how = match (&one.tool, &one.action) {
            (Some(tool), _) => {
                let arguments = one.arguments.as_ref().map(|arguments| format!(" with {arguments}"));
                format!("by {tool}{}", arguments.unwrap_or_default())
            }
            (None, Some(action)) => format!("by hand: {}", quoted(action, WORK_CHARS_MAX)),
            (None, None) => "by nothing".to_owned(),
        };
        format!("`{}` {how}", one.step)
    });
    let calls = calls.collect::<Vec<_>>().join("; ");
    quote::line(&format!("It undoes, in this order: {calls}"), WORK_CHARS_MAX)
}

/// What a step would do, on one line: its call with arguments, or its action. Empty without a step.
fn work_text(view: Option<&StepView>) -> String {
    let Some(view) = view else { return String::new() };
    let arguments = view.arguments.as_ref().map(|arguments| format!(" with {arguments}")).unwrap_or_default();
    match (&view.tool, &view.action) {
        (Some(tool), _) => quote::line(&format!("It calls {}{arguments}", quote::tool(tool)), WORK_CHARS_MAX),
        (None, Some(action)) => quoted(action, WORK_CHARS_MAX),
        (None, None) => String::new(),
    }
}
