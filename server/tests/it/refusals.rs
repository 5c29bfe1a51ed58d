//! How the command line, MCP and HTTP word each refusal of the engine, in text: `refusals/wordings.txt` has a case
//! for every sentence. `ACTBOOK_UPDATE=1` rewrites it; review the changes before you keep them.

mod errors;

use std::path::PathBuf;

use actbook::error::{Error, ErrorReport};
use actbook::mcp::error_report::report_for_agent;
use actbook::web::status::error_status;
use actbook_engine::id::{PlanId, StepId};
use actbook_engine::policy::{ActingDecision, ExecutionStatus, StepAnswer, StepStatus};
use actbook_engine::refusal::*;

fn step(id: &str) -> StepId {
    StepId::new(id)
}

fn steps() -> Vec<StepId> {
    vec![step("a"), step("b")]
}

fn wrong_status(action: StatusAction, status: ExecutionStatus, stage: ExecutionStage) -> Refusal {
    Refusal::WrongStatus { action, status, stage }
}

fn answer_not_allowed(answer: StepAnswer, allowed: AllowedAnswers) -> Refusal {
    Refusal::AnswerNotAllowed { answer, step: step("a"), status: StepStatus::Failed, allowed }
}

fn not_awaited(awaited: AwaitedReport) -> Refusal {
    Refusal::NotAwaited { step: step("a"), status: StepStatus::Running, awaited }
}

fn claimed(expiry: ClaimExpiry) -> Refusal {
    Refusal::Claimed { step: step("a"), holder: "agent:one".into(), reporter: "agent:two".into(), expiry }
}

/// Refusals about what exists, and about an execution as a whole.
fn of_executions() -> Vec<Refusal> {
    vec![
        Refusal::NotTheDriver,
        Refusal::ClaimedByAnother,
        Refusal::OtherToolset { project: None },
        Refusal::OtherToolset { project: Some("shop".into()) },
        Refusal::NoSuchExecution,
        Refusal::NoSuchPlan { id: PlanId::new("7k2m") },
        Refusal::NoSuchStep { step: "aa".into(), suggestion: StepSuggestion::Nearest(step("a")) },
        Refusal::NoSuchStep { step: "z".into(), suggestion: StepSuggestion::Known(steps()) },
        Refusal::KeyReused { key: "k".into() },
        wrong_status(
            StatusAction::Decide,
            ExecutionStatus::Succeeded,
            ExecutionStage::Ended { can_undo: true },
        ),
        wrong_status(
            StatusAction::Pause,
            ExecutionStatus::Cancelled,
            ExecutionStage::Ended { can_undo: false },
        ),
        wrong_status(StatusAction::Cancel, ExecutionStatus::Compensating, ExecutionStage::Unwinding),
        wrong_status(StatusAction::Approve, ExecutionStatus::Running, ExecutionStage::Unfinished),
        Refusal::NothingToApprove { awaiting: vec![] },
        Refusal::NothingToApprove { awaiting: steps() },
        Refusal::EraseBeforeEnd,
        Refusal::EraseBeforeUndoApproval,
    ]
}

/// Refusals of answers about a step.
fn of_answers() -> Vec<Refusal> {
    let fitting = vec![StepAnswer::Retry, StepAnswer::DidNotHappen];
    let of_arguments = [
        ArgumentsProblem::AnswerTakesNone { answer: StepAnswer::Skip },
        ArgumentsProblem::GivenWithOutput,
        ArgumentsProblem::StepIsUndone { step: step("a") },
        ArgumentsProblem::StepHasNone { step: step("a") },
        ArgumentsProblem::EffectUnknown { step: step("a") },
        ArgumentsProblem::NotAnObject,
        ArgumentsProblem::HoldExpression { path: ".to[0]".into() },
    ];
    let of_answers = [
        answer_not_allowed(StepAnswer::Happened, AllowedAnswers::Listed(fitting)),
        answer_not_allowed(StepAnswer::DidNotHappen, AllowedAnswers::AfterReport),
        answer_not_allowed(StepAnswer::Retry, AllowedAnswers::None),
        Refusal::StaleQuestion,
        Refusal::OutputNotAllowed { answer: StepAnswer::DidNotHappen },
        Refusal::ReplyNeedsApproval { step: step("a") },
    ];
    let of_arguments = of_arguments.into_iter().map(Refusal::ArgumentsNotAllowed);
    of_answers.into_iter().chain(of_arguments).collect()
}

/// Refusals to undo, by Actbook or by hand.
fn of_undo() -> Vec<Refusal> {
    let (status, a) = (StepStatus::Compensated, || step("a"));
    let by_hand = [
        UndoByHandProblem::NoEffect { step: a(), status, others: vec![] },
        UndoByHandProblem::NoEffect { step: a(), status, others: steps() },
        UndoByHandProblem::GoesForward { status: ExecutionStatus::Blocked },
        UndoByHandProblem::UndoneByActbook { step: a() },
        UndoByHandProblem::InProgress { step: a() },
        UndoByHandProblem::DependentsFirst { step: a(), dependents: vec![step("b")] },
    ];
    let by_actbook = [
        Refusal::NothingToUndo { has_ended: true },
        Refusal::NothingToUndo { has_ended: false },
        Refusal::AlreadyUndoing,
        Refusal::UndoOfErased,
    ];
    by_actbook.into_iter().chain(by_hand.map(Refusal::UndoByHandNotAllowed)).collect()
}

/// Refusals of what agents record, and of notes and tasks.
fn of_records() -> Vec<Refusal> {
    vec![
        not_awaited(AwaitedReport::Outcome),
        not_awaited(AwaitedReport::Compensation),
        not_awaited(AwaitedReport::OtherSteps(steps())),
        not_awaited(AwaitedReport::None),
        claimed(ClaimExpiry::HolderDeparted),
        claimed(ClaimExpiry::Lapsed),
        claimed(ClaimExpiry::LapsesIn { seconds: 900 }),
        Refusal::RecordInErased,
        Refusal::UnclearDecision { decision: "stopp".into(), nearest: ActingDecision::Stop },
        Refusal::InvalidConfidence,
        Refusal::FactsTooLarge { bytes: 11, bytes_max: 10 },
        Refusal::DecisionTooLarge { part: DecisionPart::Text, bytes_max: 10 },
        Refusal::DecisionTooLarge { part: DecisionPart::Details, bytes_max: 10 },
        Refusal::NoSuchNote { key: "k".into() },
        Refusal::NoteTooLarge { bytes: 11, bytes_max: 10 },
        Refusal::InvalidName { field: NamedField::TaskId, bytes_max: 200 },
        Refusal::NoSuchTask { id: "T-1".into() },
        Refusal::TaskExists { id: "T-1".into() },
        Refusal::OwnParent,
        Refusal::TooManyLabels { labels_max: 20 },
        Refusal::TaskFieldsTooLarge { bytes_max: 10 },
    ]
}

fn wording(error: &Error) -> String {
    let (report, for_agent) = (ErrorReport::for_command_line(error), report_for_agent(error));
    assert_eq!(report.code, for_agent.code);
    for text in [&for_agent.message, &for_agent.cure] {
        // The demo server's command line is what a config names.
        let text = text.replace("`actbook demo-tools`", "");
        assert!(!text.contains("did-not-happen"), "a control action is misspelt: {text}");
        assert!(
            !text.contains("`actbook ") || text.contains("your user"),
            "an agent gets a person's command: {text}"
        );
    }
    let mut text = format!("{}: {}\n", report.code, report.message);
    if for_agent.message != report.message {
        text += &format!("  message for agents: {}\n", for_agent.message);
    }
    text += &format!("  command line: {}\n  agents: {}\n", report.cure, for_agent.cure);
    text + &format!("  http: {} {}\n\n", error_status(error).as_u16(), error.cures().api)
}

/// Compares the wordings of these errors with those in `refusals/FILE`.
fn check_wordings(file: &str, errors: impl Iterator<Item = Error>) {
    let actual: String = errors.map(|error| wording(&error)).collect();
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/it/refusals").join(file);
    if std::env::var_os("ACTBOOK_UPDATE").is_some() {
        std::fs::write(&path, &actual).unwrap();
    }
    let expected = std::fs::read_to_string(&path).unwrap();
    for (expected, actual) in expected.split("\n\n").zip(actual.split("\n\n")) {
        assert_eq!(expected, actual);
    }
    assert_eq!(expected.len(), actual.len(), "a case is missing, or one too many");
}

#[test]
fn each_interface_words_refusals_for_its_readers() {
    let cases = [of_executions(), of_answers(), of_undo(), of_records()].concat();
    check_wordings("wordings.txt", cases.into_iter().map(Error::from));
}
