//! Words refusals for agents: an agent needs the tool call where a person needs the command.

use actbook_engine::policy::StepAnswer;
use actbook_engine::refusal::{
    AllowedAnswers, ArgumentsProblem, AwaitedReport, ExecutionStage, Refusal, UndoByHandProblem,
};

use crate::error::command_line::refusal_cure;

/// The message of a refusal, with answers named as the actions of `control` are.
pub(super) fn refusal_message_for_agent(refusal: &Refusal) -> String {
    if let Refusal::AnswerNotAllowed { answer, step, status, .. } = refusal {
        return format!("`{}` does not fit: step `{step}` is {status}", action_name(*answer));
    }
    if let Refusal::OutputNotAllowed { answer } = refusal {
        return format!("an output does not go with `{}`", action_name(*answer));
    }
    refusal.to_string()
}

/// The action of `control` that gives this answer.
pub fn action_name(answer: StepAnswer) -> &'static str {
    match answer {
        StepAnswer::DidNotHappen => "did_not_happen",
        StepAnswer::Retry
        | StepAnswer::Skip
        | StepAnswer::Happened
        | StepAnswer::Compensate
        | StepAnswer::Abandon => answer.as_str(),
    }
}

/// The cure for a refusal, for an agent: the tool call to make, or what is for the agent's user to do.
pub fn refusal_cure_for_agent(refusal: &Refusal) -> String {
    let cure = match refusal {
        Refusal::OtherToolset { .. } => {
            "it continues where it was started; to continue with the servers defined here, your user runs `actbook resume EXECUTION --here`"
        }
        Refusal::NoSuchExecution => "status without arguments shows them",
        Refusal::NoSuchPlan { .. } => "plan {\"action\":\"list\"} shows them; or give the document as `plan`",
        Refusal::NoSuchTask { .. } => {
            "give the id of a task that a plan, an execution or a note names, or leave it out"
        }
        Refusal::WrongStatus { stage, .. } => stage_cure(*stage),
        Refusal::AnswerNotAllowed { allowed, .. } => return allowed_actions(allowed),
        Refusal::ArgumentsNotAllowed(problem) => return arguments_cure(problem, refusal),
        Refusal::StaleQuestion => "nothing was decided; status with its execution_id says what it asks now",
        Refusal::NothingToApprove { awaiting } if awaiting.is_empty() => {
            "status with its execution_id says what waits"
        }
        Refusal::NothingToUndo { has_ended: true } => {
            "status with its execution_id: the brief names what cannot be undone"
        }
        Refusal::NothingToUndo { has_ended: false } => "control with action \"cancel\" stops it",
        Refusal::AlreadyUndoing => "status with wait_s waits for it; or answer what it asks",
        Refusal::UndoOfErased => "undo by hand what query_ledger shows",
        Refusal::UndoByHandNotAllowed(problem) => return undo_by_hand_cure(problem, refusal),
        Refusal::NotAwaited { awaited, .. } => return awaited_report(awaited, refusal),
        Refusal::EraseBeforeUndoApproval => "for your user: `actbook approve` or `actbook reject` it first",
        // Their cures name no command, and are the same for every reader.
        Refusal::NotTheDriver
        | Refusal::ClaimedByAnother
        | Refusal::NoSuchStep { .. }
        | Refusal::NoSuchNote { .. }
        | Refusal::TaskExists { .. }
        | Refusal::KeyReused { .. }
        | Refusal::OutputNotAllowed { .. }
        | Refusal::NothingToApprove { .. }
        | Refusal::Claimed { .. }
        | Refusal::RecordInErased
        | Refusal::UnclearDecision { .. }
        | Refusal::InvalidConfidence
        | Refusal::EraseBeforeEnd
        | Refusal::InvalidName { .. }
        | Refusal::OwnParent
        | Refusal::TooManyLabels { .. }
        | Refusal::FactsTooLarge { .. }
        | Refusal::DecisionTooLarge { .. }
        | Refusal::NoteTooLarge { .. }
        | Refusal::TaskFieldsTooLarge { .. } => return refusal_cure(refusal),
    };
    cure.to_owned()
}

/// The cure for a command that the execution's stage does not allow.
fn stage_cure(stage: ExecutionStage) -> &'static str {
    match stage {
        ExecutionStage::Ended { can_undo: true } => {
            "start a new one, or undo this one: control with action \"compensate\""
        }
        ExecutionStage::Ended { can_undo: false } => "start a new one",
        ExecutionStage::Unwinding => "control with action \"pause\" halts it, or answer what it asks",
        ExecutionStage::Unfinished => "status with its execution_id says what can be done",
    }
}

/// The cure for an answer that does not fit: the actions that do, or what has to come first.
fn allowed_actions(allowed: &AllowedAnswers) -> String {
    match allowed {
        AllowedAnswers::Listed(answers) => {
            let actions: Vec<&str> = answers.iter().map(|answer| action_name(*answer)).collect();
            format!("answers that fit: {}", actions.join(", "))
        }
        AllowedAnswers::AfterReport => {
            "its agent reports it first: record_action with status \"failed\", then retry or skip fits. Another agent's step: take_over: true as well, once its claim has lapsed".to_owned()
        }
        AllowedAnswers::None => "status with its execution_id says what can be done".to_owned(),
    }
}

/// The cure for corrected arguments that are refused for this problem; `refusal` is the same refusal as a
/// whole.
fn arguments_cure(problem: &ArgumentsProblem, refusal: &Refusal) -> String {
    match problem {
        ArgumentsProblem::EffectUnknown { .. } => {
            let action = action_name(StepAnswer::DidNotHappen);
            format!("if it certainly did not, answer `{action}` with these arguments")
        }
        ArgumentsProblem::AnswerTakesNone { .. }
        | ArgumentsProblem::GivenWithOutput
        | ArgumentsProblem::StepIsUndone { .. }
        | ArgumentsProblem::StepHasNone { .. }
        | ArgumentsProblem::NotAnObject
        | ArgumentsProblem::HoldExpression { .. } => refusal_cure(refusal),
    }
}

/// The cure for a compensation by hand that is refused for this problem; `refusal` is the same refusal as a
/// whole.
fn undo_by_hand_cure(problem: &UndoByHandProblem, refusal: &Refusal) -> String {
    match problem {
        UndoByHandProblem::GoesForward { .. } => {
            "stop it first with control, action \"cancel\", or undo it all with action \"compensate\""
                .to_owned()
        }
        UndoByHandProblem::NoEffect { .. }
        | UndoByHandProblem::UndoneByActbook { .. }
        | UndoByHandProblem::InProgress { .. }
        | UndoByHandProblem::DependentsFirst { .. } => refusal_cure(refusal),
    }
}

/// The cure for a report that nothing waits for: what is awaited instead. `refusal` is the same refusal as a
/// whole.
fn awaited_report(awaited: &AwaitedReport, refusal: &Refusal) -> String {
    match awaited {
        AwaitedReport::Compensation => {
            "the step is being undone: report that with record_compensation, outcome \"succeeded\" or \"failed\"".to_owned()
        }
        AwaitedReport::None => "no step waits for you; status with its execution_id says what does".to_owned(),
        AwaitedReport::Outcome | AwaitedReport::OtherSteps(_) => refusal_cure(refusal),
    }
}
