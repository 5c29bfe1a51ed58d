//! What to do after a refusal.

use actbook_engine::refusal::{
    AllowedAnswers, ArgumentsProblem, AwaitedReport, ClaimExpiry, ExecutionStage, Refusal, StepSuggestion,
    UndoByHandProblem,
};

/// The cure for a refusal: what to do instead.
pub fn refusal_cure(refusal: &Refusal) -> String {
    let cure = match refusal {
        Refusal::NotTheDriver => "watch it instead",
        Refusal::ClaimedByAnother => "check again which process drives it",
        Refusal::OtherToolset { .. } => {
            "go to the folder it was started from, or name its config with --config; `--here` with `resume`, `undo` or `rerun` continues with those defined here"
        }
        Refusal::NoSuchExecution => "`actbook list` shows them",
        Refusal::NoSuchPlan { .. } => "`plan list` shows them",
        Refusal::NoSuchStep { suggestion, .. } => return step_suggestion(suggestion),
        Refusal::NoSuchTask { .. } => "`actbook task list` shows them",
        Refusal::NoSuchNote { .. } => "search for it",
        Refusal::TaskExists { .. } => "choose another id, or change that one",
        Refusal::KeyReused { .. } => "use a new key for a new request",
        Refusal::WrongStatus { stage, .. } => stage_cure(*stage),
        Refusal::AnswerNotAllowed { allowed, .. } => return allowed_answers(allowed),
        Refusal::OutputNotAllowed { .. } => {
            "give one with `skip` or `happened`, or with `retry` where the tool asked something"
        }
        Refusal::ArgumentsNotAllowed(problem) => arguments_cure(problem),
        Refusal::StaleQuestion => "nothing was decided; `show` it: it says what it asks now",
        Refusal::NothingToApprove { awaiting } if awaiting.is_empty() => "`show` it: it says what waits",
        Refusal::NothingToApprove { awaiting } => return format!("name the step: {}", quoted_list(awaiting)),
        Refusal::NothingToUndo { has_ended: true } => "`show` it: the brief names what cannot be undone",
        Refusal::NothingToUndo { has_ended: false } => "`cancel` it to stop it",
        Refusal::AlreadyUndoing => "`watch` it, or answer what it asks",
        Refusal::UndoOfErased => "undo by hand what `journal` shows",
        Refusal::UndoByHandNotAllowed(problem) => return undo_by_hand_cure(problem),
        Refusal::NotAwaited { awaited, .. } => return awaited_report(awaited),
        Refusal::Claimed { expiry, .. } => return claim_cure(*expiry),
        Refusal::RecordInErased => "record it without an execution",
        Refusal::UnclearDecision { nearest, .. } => {
            return format!("did you mean `{nearest}`? To record a remark, use more than one word");
        }
        Refusal::InvalidConfidence => "0 is a guess, 1 is certain",
        Refusal::EraseBeforeEnd => "wait for its end, or cancel it",
        Refusal::EraseBeforeUndoApproval => "`approve` or `reject` it first",
        Refusal::InvalidName { .. } => "give a short name",
        Refusal::OwnParent => "name another task",
        Refusal::TooManyLabels { .. } => "keep those that matter",
        Refusal::FactsTooLarge { bytes_max, .. } | Refusal::NoteTooLarge { bytes_max, .. } => {
            return format!("keep it below {bytes_max} bytes; name a file instead of quoting it");
        }
        Refusal::DecisionTooLarge { .. } => "shorten it, and name a file for the rest",
        Refusal::TaskFieldsTooLarge { .. } => "keep what is long in a note",
    };
    cure.to_owned()
}

pub(super) fn step_suggestion(suggestion: &StepSuggestion) -> String {
    match suggestion {
        StepSuggestion::Nearest(step) => format!("did you mean `{step}`?"),
        StepSuggestion::Known(steps) => {
            let steps: Vec<&str> = steps.iter().map(|step| step.as_str()).collect();
            format!("its steps: {}", steps.join(", "))
        }
    }
}

fn stage_cure(stage: ExecutionStage) -> &'static str {
    match stage {
        ExecutionStage::Ended { can_undo: true } => "start a new one, or `undo` this one",
        ExecutionStage::Ended { can_undo: false } => "start a new one",
        ExecutionStage::Unwinding => "`pause` it, or answer what it asks",
        ExecutionStage::Unfinished => "`show` it: it says what can be done now",
    }
}

fn allowed_answers(allowed: &AllowedAnswers) -> String {
    match allowed {
        AllowedAnswers::Listed(answers) => {
            let answers: Vec<&str> = answers.iter().map(|answer| answer.as_str()).collect();
            format!("answers that fit: {}", answers.join(", "))
        }
        AllowedAnswers::AfterReport => {
            "its agent reports it first: after `record … failed` it can be retried or skipped".to_owned()
        }
        AllowedAnswers::None => "`show` the execution: it says what waits for an answer".to_owned(),
    }
}

fn arguments_cure(problem: &ArgumentsProblem) -> &'static str {
    match problem {
        ArgumentsProblem::AnswerTakesNone { .. } => "give them with `retry`",
        ArgumentsProblem::GivenWithOutput => "an output answers what the tool asked; give one of the two",
        ArgumentsProblem::StepIsUndone { .. } => "undo it by hand and answer `happened`, or `skip` it",
        ArgumentsProblem::StepHasNone { .. } => "`retry` it without them, and tell its agent what to do",
        ArgumentsProblem::EffectUnknown { .. } => {
            "if it certainly did not, answer `did-not-happen` with these arguments"
        }
        ArgumentsProblem::NotAnObject => "give all of them, not only those that change",
        ArgumentsProblem::HoldExpression { .. } => "give the value itself, or write `$${` for a plain `${`",
    }
}

fn undo_by_hand_cure(problem: &UndoByHandProblem) -> String {
    match problem {
        UndoByHandProblem::NoEffect { others, .. } if others.is_empty() => {
            "nothing that ran is left to compensate".to_owned()
        }
        UndoByHandProblem::NoEffect { others, .. } => format!("what may have run: {}", quoted_list(others)),
        UndoByHandProblem::GoesForward { .. } => {
            "stop it first, or `undo` it, and then compensate".to_owned()
        }
        UndoByHandProblem::UndoneByActbook { .. } => "wait for its end".to_owned(),
        UndoByHandProblem::InProgress { .. } => "wait for its end, or report it".to_owned(),
        UndoByHandProblem::DependentsFirst { dependents, .. } => {
            format!("first compensate {}", quoted_list(dependents))
        }
    }
}

fn awaited_report(awaited: &AwaitedReport) -> String {
    match awaited {
        AwaitedReport::Outcome => "report `succeeded` or `failed`".to_owned(),
        AwaitedReport::Compensation => "report `compensated` or `failed`".to_owned(),
        AwaitedReport::OtherSteps(steps) => {
            format!("steps that wait for their agent: {}", quoted_list(steps))
        }
        AwaitedReport::None => "no step waits for its agent; `show` the execution".to_owned(),
    }
}

fn claim_cure(expiry: ClaimExpiry) -> String {
    match expiry {
        ClaimExpiry::HolderDeparted => {
            "that agent's connection has ended: report with `take_over: true` and say why".to_owned()
        }
        ClaimExpiry::Lapsed => "that claim has lapsed: report with `take_over: true` and say why".to_owned(),
        ClaimExpiry::LapsesIn { seconds } => format!(
            "leave it to them; their claim lapses in {seconds} s, and then `take_over: true` takes it over"
        ),
    }
}

/// The items in backquotes, separated by commas.
pub(super) fn quoted_list(items: &[impl std::fmt::Display]) -> String {
    let quoted: Vec<String> = items.iter().map(|item| format!("`{item}`")).collect();
    quoted.join(", ")
}
