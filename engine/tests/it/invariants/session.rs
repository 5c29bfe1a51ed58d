//! Invariants of sessions: nothing happens by itself, a call starts once and only where it may, and an unwinding leaves
//! the session as open, or as ended, as it was.

use actbook_engine::event::Event;
use actbook_engine::execution::{CallKind, Execution, Phase};
use actbook_engine::id::StepNo;
use actbook_engine::policy::{EndStatus, StepStatus};

use super::calls_in_flight;

/// Which entries a session may have, by its state before them.
pub fn check_event(execution: &Execution, event: &Event) {
    let by_itself = matches!(
        event,
        Event::RetryScheduled(_)
            | Event::ProbeStarted(_)
            | Event::FailureHandled(_)
            | Event::StepSkipped(_)
            | Event::StepUnknown(_)
            | Event::PlanApprovalAsked(_)
    );
    assert!(!by_itself, "{} in a session", event.kind());
    let starts = matches!(event, Event::AttemptStarted(_) | Event::ApprovalAsked(_) | Event::YesSpent(_));
    assert!(!starts || execution.takes_calls(), "a session that takes no calls, and yet {}", event.kind());
    let after_the_end = matches!(
        event,
        Event::AttemptEnded(_)
            | Event::LateAnswer(_)
            | Event::LateCompensation(_)
            | Event::StateKept(_)
            | Event::LabelsChanged(_)
            | Event::UndoAsked(_)
            | Event::UnwindProposed(_)
            | Event::UnwindRejected(_)
            | Event::UnwindStarted(_)
            | Event::DriverChanged(_)
            | Event::PayloadsErased(_)
            | Event::ActionRecorded(_)
            | Event::DecisionRecorded(_)
            | Event::CompensationRecorded(_)
    );
    let ends_again = matches!(event, Event::ExecutionEnded(again) if again.status == EndStatus::Compensated);
    assert!(execution.ended.is_none() || after_the_end || ends_again, "ended, and yet {}", event.kind());
    assert!(
        !(execution.paused && matches!(event, Event::CompensationStarted(_))),
        "paused, and yet {}",
        event.kind()
    );
}

/// A call starts once; with an approval that config or rules demand, and with the labels that its question showed.
pub fn check_call_start(execution: &Execution, no: StepNo) {
    let session = execution.session.as_ref().expect("a session");
    let (spec, step) = (execution.plan.step(no), execution.step(no));
    assert_eq!(step.status(), StepStatus::Pending, "`{}` starts", spec.id);
    assert!(step.attempts.is_empty(), "`{}` starts twice", spec.id);
    assert!(step.is_approved() || !execution.rules(no).needs_approval, "`{}` starts without a yes", spec.id);
    assert!(
        step.is_approved() || !session.questions.contains_key(&no),
        "`{}` asked, and starts without a yes",
        spec.id
    );
    let joined = session.call(no).adds.iter().all(|label| session.labels.contains(label));
    assert!(joined, "`{}` starts before its labels have joined", spec.id);
}

/// After an unwinding nothing is in flight, and the session is as open, or as ended, as before.
pub fn check_unwind_end(execution: &Execution, event: &Event) {
    let session = execution.session.as_ref().expect("a session");
    assert_eq!(execution.phase, Phase::Forward, "an unwinding has ended");
    let undoes = |call: &super::CallId| call.kind == CallKind::Compensation;
    assert!(!calls_in_flight(execution).iter().any(undoes), "an unwinding ended with an undo in flight");
    assert!(execution.steps.iter().all(|step| !step.undo.outside_selection), "a selection outlives its undo");
    match event {
        Event::ExecutionEnded(ended) => {
            let as_before = Some(ended.status) == session.ended_before;
            let again = session.ended_before == Some(EndStatus::Compensated);
            assert!(as_before || again || ended.status == EndStatus::Compensated, "ended {}", ended.status);
        }
        _ => assert_eq!((execution.ended, session.ended_before), (None, None), "an open session stays open"),
    }
    if execution.ended == Some(EndStatus::Compensated) {
        for no in execution.step_numbers() {
            let left = execution.step(no).attempts_to_undo(execution.rules(no));
            assert!(left.is_empty(), "compensated, and `{}` has effects", execution.step_id(no));
        }
    }
}
