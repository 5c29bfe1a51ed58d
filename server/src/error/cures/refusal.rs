//! What to do after a refusal.

use actbook_engine::id::StepId;
use actbook_engine::policy::StepAnswer;
use actbook_engine::refusal::{
    AllowedAnswers, ArgumentsProblem, AwaitedReport, ClaimExpiry, ExecutionStage, Refusal, StepSuggestion,
    UndoByHandProblem,
};

use super::{Cures, cure, list_executions, list_plans};

const VIEW_OVER_API: &str = "GET /api/v1/executions/{id} says what can be done";
const VIEW_FOR_AGENT: &str = "status with its execution_id says what can be done";

/// The cures for a refusal.
pub(super) fn cures(refusal: &Refusal) -> Cures {
    match refusal {
        Refusal::NotTheDriver => cure("watch it instead"),
        Refusal::ClaimedByAnother => cure("check again which process drives it"),
        Refusal::OtherToolset { .. } => other_toolset(),
        Refusal::NoSuchExecution => list_executions(),
        Refusal::NoSuchPlan { .. } => list_plans("`plan list` shows them"),
        Refusal::NoSuchStep { suggestion, .. } => cure(step_suggestion(suggestion)),
        Refusal::NoSuchTask { .. } => cure("`actbook task list` shows them")
            .agent("give the id of a task that a plan, an execution or a note names, or leave it out")
            .api("GET /api/v1/tasks lists them"),
        Refusal::NoSuchNote { .. } => cure("search for it"),
        Refusal::TaskExists { .. } => cure("choose another id, or change that one"),
        Refusal::KeyReused { .. } => cure("use a new key for a new request"),
        Refusal::WrongStatus { stage, .. } => stage_cures(*stage),
        Refusal::AnswerNotAllowed { allowed, .. } => allowed_answers(allowed),
        Refusal::OutputNotAllowed { .. } => {
            cure("give one with `skip` or `happened`, or with `retry` where the tool asked something")
        }
        Refusal::ArgumentsNotAllowed(problem) => arguments_cures(problem),
        Refusal::ReplyNeedsApproval { step } => reply_of_a_person(step.as_str()),
        Refusal::StaleQuestion => cure("nothing was decided; `show` it: it says what it asks now")
            .agent("nothing was decided; status with its execution_id says what it asks now")
            .api("nothing was decided; GET /api/v1/executions/{id} says what it asks now"),
        Refusal::NothingToApprove { awaiting } => approvable_steps(awaiting),
        Refusal::NothingToUndo { has_ended: true } => {
            cure("`show` it: the brief names what cannot be undone")
                .agent("status with its execution_id: the brief names what cannot be undone")
                .api("GET /api/v1/executions/{id}: the brief names what cannot be undone")
        }
        Refusal::NothingToUndo { has_ended: false } => cure("`cancel` it to stop it")
            .agent("control with action \"cancel\" stops it")
            .api("POST /api/v1/executions/{id}/cancel stops it"),
        Refusal::AlreadyUndoing => cure("`watch` it, or answer what it asks")
            .agent("status with wait_s waits for it; or answer what it asks")
            .api("GET /api/v1/executions/{id}?wait_s= waits for it; or answer what it asks"),
        Refusal::UndoOfErased => cure("undo by hand what `journal` shows")
            .agent("undo by hand what query_ledger shows")
            .api("undo by hand what GET /api/v1/executions/{id}/journal shows"),
        Refusal::UndoByHandNotAllowed(problem) => undo_by_hand_cures(problem),
        Refusal::NotAwaited { awaited, .. } => awaited_report(awaited),
        Refusal::Claimed { expiry, .. } => cure(claim_cure(*expiry)),
        Refusal::RecordInErased => cure("record it without an execution"),
        Refusal::UnclearDecision { nearest, .. } => {
            cure(format!("did you mean `{nearest}`? To record a remark, use more than one word"))
        }
        Refusal::InvalidConfidence => cure("0 is a guess, 1 is certain"),
        Refusal::NotASession | Refusal::ScopeNotAllowed => cure("leave out what is for sessions alone"),
        Refusal::SessionPartOver | Refusal::LabelsMoved => cure("make the call again"),
        Refusal::NoSuchLabel { .. } | Refusal::NoOpenCall { .. } | Refusal::NotWaiting { .. } => {
            session_view()
        }
        Refusal::NotIdle => cure("close it when it is idle"),
        Refusal::EraseBeforeEnd => cure("wait for its end, or cancel it"),
        Refusal::EraseBeforeUndoApproval => answer_undo_first(),
        Refusal::InvalidName { .. } => cure("give a short name"),
        Refusal::OwnParent => cure("name another task"),
        Refusal::TooManyLabels { .. } => cure("keep those that matter"),
        Refusal::FactsTooLarge { bytes_max, .. } | Refusal::NoteTooLarge { bytes_max, .. } => {
            cure(format!("keep it below {bytes_max} bytes; name a file instead of quoting it"))
        }
        Refusal::DecisionTooLarge { .. } => cure("shorten it, and name a file for the rest"),
        Refusal::TaskFieldsTooLarge { .. } => cure("keep what is long in a note"),
    }
}

/// The cures for an approval without a step, by the steps that wait for one.
fn approvable_steps(awaiting: &[StepId]) -> Cures {
    let Some(first) = awaiting.first() else {
        return cure("`show` it: it says what waits")
            .agent("status with its execution_id says what waits")
            .api(VIEW_OVER_API);
    };
    let steps = quoted_list(awaiting);
    cure(format!("name the step, as in `actbook approve ID {first}`: {steps}"))
        .agent(format!("name the step as `step_id`: {steps}"))
        .api(format!("name the step: {steps}"))
}

fn answer_undo_first() -> Cures {
    cure("`approve` or `reject` it first")
        .agent("for your user: `actbook approve` or `actbook reject` it first")
        .api("POST /api/v1/executions/{id}/approve or …/reject first")
}

fn reply_of_a_person(step: &str) -> Cures {
    cure(format!("a person runs `actbook decide ID {step} retry --output JSON --reason TEXT`"))
        .for_user()
        .api("a credential with the right `approve` replies")
}

/// The cures for a command that does not fit the session: to look at it.
fn session_view() -> Cures {
    cure("`show` the session: it lists its labels, and how far each call is")
        .agent("status with its execution_id shows its labels, and how far each call is")
        .api("GET /api/v1/executions/{id} shows its labels, and how far each call is")
}

fn other_toolset() -> Cures {
    cure("go to the folder it was started from, or name its config with --config; `--here` with `resume`, `undo` or `rerun` continues with those defined here")
        .agent("it continues where it was started; to continue with the servers defined here, your user runs `actbook resume EXECUTION --here`")
        .api("it continues where it was started; to continue it with this server's tools, run `actbook resume EXECUTION --here` on its machine")
}

pub(super) fn step_suggestion(suggestion: &StepSuggestion) -> String {
    match suggestion {
        StepSuggestion::Nearest(step) => super::did_you_mean(step.as_str()),
        StepSuggestion::Known(steps) => {
            let steps: Vec<&str> = steps.iter().map(|step| step.as_str()).collect();
            format!("its steps: {}", steps.join(", "))
        }
    }
}

/// The cures for a command that the execution's stage does not allow.
fn stage_cures(stage: ExecutionStage) -> Cures {
    match stage {
        ExecutionStage::Ended { can_undo: true } => cure("start a new one, or `undo` this one")
            .agent("start a new one, or undo this one: control with action \"compensate\"")
            .api("start a new one, or undo this one: POST /api/v1/executions/{id}/undo"),
        ExecutionStage::Ended { can_undo: false } => {
            cure("start a new one").api("start a new one: POST /api/v1/executions")
        }
        ExecutionStage::Unwinding => cure("`pause` it, or answer what it asks")
            .agent("control with action \"pause\" halts it, or answer what it asks")
            .api("POST /api/v1/executions/{id}/pause halts it, or answer what it asks"),
        ExecutionStage::Unfinished => {
            cure("`show` it: it says what can be done now").agent(VIEW_FOR_AGENT).api(VIEW_OVER_API)
        }
    }
}

/// The cures for an answer that does not fit: the answers that do, or what has to come first.
fn allowed_answers(allowed: &AllowedAnswers) -> Cures {
    match allowed {
        AllowedAnswers::Listed(answers) => {
            let named = |name: fn(StepAnswer) -> &'static str| {
                let names: Vec<&str> = answers.iter().copied().map(name).collect();
                format!("answers that fit: {}", names.join(", "))
            };
            cure(named(StepAnswer::as_str)).agent(named(action_name))
        }
        AllowedAnswers::AfterReport => {
            cure("its agent reports it first: after `record … failed` it can be retried or skipped")
                .agent("its agent reports it first: record_action with status \"failed\", then retry or skip fits. Another agent's step: take_over: true as well, once its claim has lapsed")
                .api("its agent reports it first: after POST /api/v1/executions/{id}/steps/{step}/record with `failed` it can be retried or skipped")
        }
        AllowedAnswers::None => cure("`show` the execution: it says what waits for an answer")
            .agent(VIEW_FOR_AGENT)
            .api(VIEW_OVER_API),
    }
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

fn arguments_cures(problem: &ArgumentsProblem) -> Cures {
    match problem {
        ArgumentsProblem::AnswerTakesNone { .. } => cure("give them with `retry`"),
        ArgumentsProblem::GivenWithOutput => {
            cure("an output answers what the tool asked; give one of the two")
        }
        ArgumentsProblem::StepIsUndone { .. } => cure("undo it by hand and answer `happened`, or `skip` it"),
        ArgumentsProblem::StepHasNone { .. } => {
            cure("`retry` it without them, and tell its agent what to do")
        }
        ArgumentsProblem::EffectUnknown { .. } => {
            let named = |answer| format!("if it certainly did not, answer `{answer}` with these arguments");
            let answer = StepAnswer::DidNotHappen;
            cure(named(answer.as_str())).agent(named(action_name(answer)))
        }
        ArgumentsProblem::NotAnObject => cure("give all of them, not only those that change"),
        ArgumentsProblem::HoldExpression { .. } => {
            cure("give the value itself, or write `$${` for a plain `${`")
        }
    }
}

fn undo_by_hand_cures(problem: &UndoByHandProblem) -> Cures {
    match problem {
        UndoByHandProblem::NoEffect { others, .. } if others.is_empty() => {
            cure("nothing that ran is left to compensate")
        }
        UndoByHandProblem::NoEffect { others, .. } => {
            cure(format!("what may have run: {}", quoted_list(others)))
        }
        UndoByHandProblem::GoesForward { .. } => cure("stop it first, or `undo` it, and then compensate")
            .agent("stop it first with control, action \"cancel\", or undo it all with action \"compensate\"")
            .api("stop it first: POST /api/v1/executions/{id}/cancel, or undo it all with …/undo"),
        UndoByHandProblem::UndoneByActbook { .. } => cure("wait for its end"),
        UndoByHandProblem::InProgress { .. } => cure("wait for its end, or report it"),
        UndoByHandProblem::DependentsFirst { dependents, .. } => {
            cure(format!("first compensate {}", quoted_list(dependents)))
        }
    }
}

/// The cures for a report that nothing waits for: what is awaited instead.
fn awaited_report(awaited: &AwaitedReport) -> Cures {
    match awaited {
        AwaitedReport::Outcome => cure("report `succeeded` or `failed`"),
        AwaitedReport::Compensation => cure("report `compensated` or `failed`").agent(
            "the step is being undone: report that with record_compensation, outcome \"succeeded\" or \"failed\"",
        ),
        AwaitedReport::OtherSteps(steps) => {
            cure(format!("steps that wait for their agent: {}", quoted_list(steps)))
        }
        AwaitedReport::None => cure("no step waits for its agent; `show` the execution")
            .agent("no step waits for you; status with its execution_id says what does")
            .api(VIEW_OVER_API),
    }
}

fn claim_cure(expiry: ClaimExpiry) -> String {
    match expiry {
        ClaimExpiry::HolderDeparted => {
            "that agent's connection has ended: report with `take_over: true`".to_owned()
        }
        ClaimExpiry::Lapsed => "that claim has lapsed: report with `take_over: true`".to_owned(),
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
