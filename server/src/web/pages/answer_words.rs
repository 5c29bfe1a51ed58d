//! The words of an answer: its button, what it will do, and whether it asks once more.

use actbook_engine::policy::StepAnswer;
use serde_json::Value;

use super::markup::{Icon, count, icon};
use crate::service::view::{AnswerOption, StepView, WaitingView};
use crate::service::{PersonQuestion, QuestionSubject, ReportedStatus};

/// An answer as a button.
#[derive(Clone, Debug)]
pub struct AnswerButton {
    /// The answer's word, as it is sent.
    pub value: &'static str,
    pub icon: Icon,
    pub label: String,
    /// What it will do, in a sentence.
    pub effect: String,
    /// It leads to a page that shows what will happen and asks once more, or for a value.
    pub confirms: bool,
    /// It ends the execution, or cannot be taken back.
    pub is_hard: bool,
    /// The one that most people choose.
    pub is_first: bool,
}

/// The buttons of a question about this step, in the order of its options.
pub fn buttons(question: &PersonQuestion, step: Option<&StepView>) -> Vec<AnswerButton> {
    question.waiting.options.iter().map(|option| button(question, step, *option)).collect()
}

/// The button of one option.
pub fn button(question: &PersonQuestion, step: Option<&StepView>, option: AnswerOption) -> AnswerButton {
    let subject = question.facts.subject;
    let (name, label) = name_and_label(subject, option);
    let can_correct = correctable_arguments(question, step, option).is_some();
    let confirms = can_correct || confirms(subject, option);
    let is_hard = matches!(option, AnswerOption::Decide(StepAnswer::Compensate | StepAnswer::Abandon));
    let is_retry = option == AnswerOption::Decide(StepAnswer::Retry);
    let is_failure = matches!(subject, QuestionSubject::Failure | QuestionSubject::ToolQuestion);
    AnswerButton {
        value: option.as_str(),
        icon: icon(name),
        label: if confirms { format!("{label}…") } else { label.to_owned() },
        effect: if can_correct { correction_effect(&question.waiting) } else { effect(question, option) },
        confirms,
        is_hard,
        is_first: option == AnswerOption::Approve || (is_retry && is_failure && !question.waiting.rejected),
    }
}

/// The arguments of the failed call that a retry may send again or correct. `None`: the answer sends no such call.
pub fn correctable_arguments<'a>(
    question: &PersonQuestion,
    step: Option<&'a StepView>,
    option: AnswerOption,
) -> Option<&'a Value> {
    let is_retry = option == AnswerOption::Decide(StepAnswer::Retry);
    let step = step.filter(|step| is_retry && step.tool.is_some() && step.by.is_none())?;
    step.arguments.as_ref().filter(|_| question.facts.subject == QuestionSubject::Failure)
}

/// Whether an answer asks once more: it sends calls that were not agreed to before, ends the execution, or needs
/// words or a value.
fn confirms(subject: QuestionSubject, option: AnswerOption) -> bool {
    match option {
        AnswerOption::Approve | AnswerOption::Reject => true,
        AnswerOption::Report(status) => status != ReportedStatus::Started,
        AnswerOption::Decide(StepAnswer::Compensate | StepAnswer::Abandon) => true,
        AnswerOption::Decide(StepAnswer::Retry) => subject == QuestionSubject::ToolQuestion,
        AnswerOption::Decide(StepAnswer::Skip | StepAnswer::Happened | StepAnswer::DidNotHappen) => false,
    }
}

fn name_and_label(subject: QuestionSubject, option: AnswerOption) -> (&'static str, &'static str) {
    match option {
        AnswerOption::Approve if subject == QuestionSubject::UndoApproval => {
            ("compensating", "Approve the undo")
        }
        AnswerOption::Approve => ("check", "Approve"),
        AnswerOption::Reject => ("x", "Reject"),
        AnswerOption::Report(ReportedStatus::Started) => ("play", "I have begun"),
        AnswerOption::Report(ReportedStatus::Succeeded) => ("check", "It is done"),
        AnswerOption::Report(ReportedStatus::Failed) => ("x", "It failed"),
        AnswerOption::Report(ReportedStatus::Compensated) => ("compensated", "It is undone"),
        AnswerOption::Decide(StepAnswer::Retry) if subject == QuestionSubject::ToolQuestion => {
            ("agent", "Reply")
        }
        AnswerOption::Decide(StepAnswer::Retry) => ("retry", "Retry"),
        AnswerOption::Decide(StepAnswer::Skip) => ("skipped", "Skip"),
        AnswerOption::Decide(StepAnswer::Happened) if subject == QuestionSubject::Unknown => {
            ("check", "It happened")
        }
        AnswerOption::Decide(StepAnswer::Happened) => ("person", "Done by hand"),
        AnswerOption::Decide(StepAnswer::DidNotHappen) => ("x", "It did not happen"),
        AnswerOption::Decide(StepAnswer::Compensate) => ("compensating", "Undo everything"),
        AnswerOption::Decide(StepAnswer::Abandon) => ("cancelled", "Abandon"),
    }
}

/// What an answer will do, in a sentence.
fn effect(question: &PersonQuestion, option: AnswerOption) -> String {
    let subject = question.facts.subject;
    let calls = count(question.facts.brief.undo.len(), "call");
    let text = match option {
        AnswerOption::Approve => return approval_effect(question),
        AnswerOption::Reject => rejection_effect(subject),
        AnswerOption::Report(ReportedStatus::Started) => "Tells others that you are at it.",
        AnswerOption::Report(ReportedStatus::Succeeded) => "Counts as succeeded; what needs it may start.",
        AnswerOption::Report(ReportedStatus::Failed) => "Counts as failed, and asks what to do.",
        AnswerOption::Report(ReportedStatus::Compensated) => "Counts as undone; the undo goes on.",
        AnswerOption::Decide(StepAnswer::Retry) => return retry_effect(&question.waiting, subject),
        AnswerOption::Decide(StepAnswer::Skip) if subject == QuestionSubject::Unknown => {
            "Goes on; it still counts as one that may have run."
        }
        AnswerOption::Decide(StepAnswer::Skip) if subject == QuestionSubject::FailedUndo => {
            "Leaves its effect as it is; the undo goes on."
        }
        AnswerOption::Decide(StepAnswer::Skip) => "Goes on without it.",
        AnswerOption::Decide(StepAnswer::Happened) if subject == QuestionSubject::Unknown => {
            "Counts as succeeded, and stays on the undo list."
        }
        AnswerOption::Decide(StepAnswer::Happened) if subject == QuestionSubject::FailedUndo => {
            "Counts as undone; the undo goes on."
        }
        AnswerOption::Decide(StepAnswer::Happened) => "Counts as succeeded, although the call failed.",
        AnswerOption::Decide(StepAnswer::DidNotHappen) => "Counts as never run; it may run again.",
        AnswerOption::Decide(StepAnswer::Compensate) => {
            return format!("Makes {calls}, newest first, then ends. Asks once more.");
        }
        AnswerOption::Decide(StepAnswer::Abandon) => "Ends as failed and undoes nothing. Asks once more.",
    };
    text.to_owned()
}

fn approval_effect(question: &PersonQuestion) -> String {
    match question.facts.subject {
        QuestionSubject::UndoApproval => {
            format!("Makes these {}, in this order.", count(question.facts.brief.undo.len(), "call"))
        }
        QuestionSubject::PlanApproval => "Starts the plan with exactly these steps.".to_owned(),
        QuestionSubject::StepApproval
        | QuestionSubject::AgentWork
        | QuestionSubject::AgentUndo
        | QuestionSubject::ToolQuestion
        | QuestionSubject::Failure
        | QuestionSubject::Unknown
        | QuestionSubject::FailedUndo => {
            let attempts = question.facts.attempts_max.map(|max| format!(", in up to {max} attempts"));
            format!("Sends exactly these arguments{}.", attempts.unwrap_or_default())
        }
    }
}

fn rejection_effect(subject: QuestionSubject) -> &'static str {
    match subject {
        QuestionSubject::UndoApproval => "Undoes nothing; what was done stays.",
        QuestionSubject::PlanApproval => "Ends the execution before its first step.",
        QuestionSubject::StepApproval
        | QuestionSubject::AgentWork
        | QuestionSubject::AgentUndo
        | QuestionSubject::ToolQuestion
        | QuestionSubject::Failure
        | QuestionSubject::Unknown
        | QuestionSubject::FailedUndo => "The step fails without being called, and asks what to do.",
    }
}

/// What a retry will do whose arguments can be corrected first.
fn correction_effect(waiting: &WaitingView) -> String {
    let text = if waiting.refused_arguments.is_some() {
        "Calls it again; the same arguments were refused, so correct them."
    } else if waiting.rejected {
        "Asks for approval again, with the same arguments or corrected ones."
    } else {
        "Calls it again, with the same arguments or corrected ones."
    };
    text.to_owned()
}

fn retry_effect(waiting: &WaitingView, subject: QuestionSubject) -> String {
    let text = if subject == QuestionSubject::ToolQuestion {
        "Calls the tool again, with your reply."
    } else if subject == QuestionSubject::FailedUndo {
        "Makes the compensating call again."
    } else if waiting.refused_arguments.is_some() {
        "Calls it again; the same arguments were refused."
    } else if waiting.rejected {
        "Asks for the same approval again."
    } else {
        "Calls it again with the same arguments."
    };
    text.to_owned()
}
