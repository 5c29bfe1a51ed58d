//! Invariants that must hold at every entry of every execution, for any plan and any command. The real
//! effects are not known here; `simulation` checks the end of an execution against them.

mod session;

use actbook_engine::event::{Event, ProbeFinding};
use actbook_engine::execution::{
    Attempt, CallId, CallKind, Execution, PayloadRef, Phase, ProbeState, Question, QuestionSubject,
    StepState, due, questions,
};
use actbook_engine::id::StepNo;
use actbook_engine::plan::Step;
use actbook_engine::policy::{
    EndStatus, ExecutionStatus, FailureAction, Outcome, PlanApproval, StepAnswer, StepStatus,
};
use actbook_engine::tool_policy::StepRules;

/// The parts of the state before an entry that are compared with the state after it.
pub struct StateBefore {
    statuses: Vec<StepStatus>,
    forced: Vec<bool>,
    ended: Option<EndStatus>,
    /// The event's step had an attempt in flight.
    in_flight: bool,
}

pub fn open_calls(execution: &Execution) -> Vec<CallId> {
    due(execution).calls.iter().map(|call| call.id).collect()
}

pub fn open_agent_calls(execution: &Execution) -> Vec<CallId> {
    let of_step = |no: StepNo| {
        let step = execution.step(no);
        let run = step.attempts.iter().position(|one| one.is_open() && one.by_agent);
        let undo = step.compensations.iter().position(|one| one.outcome.is_none() && one.by_agent);
        let run = run.map(|at| CallId { step: no, kind: CallKind::Run, index: at as u32 });
        run.into_iter().chain(undo.map(|at| CallId {
            step: no,
            kind: CallKind::Compensation,
            index: at as u32,
        }))
    };
    execution.step_numbers().flat_map(of_step).collect()
}

fn calls_in_flight(execution: &Execution) -> Vec<CallId> {
    let mut calls = open_calls(execution);
    calls.extend(open_agent_calls(execution));
    calls
}

fn step_of(execution: &Execution, event: &Event) -> Option<StepNo> {
    let step = match event {
        Event::AttemptStarted(event) => &event.step,
        Event::AttemptEnded(event) => &event.step,
        Event::LateAnswer(event) => &event.step,
        Event::ProbeStarted(event) => &event.step,
        Event::CompensationStarted(event) => &event.step,
        Event::Decided(event) => event.step.as_ref()?,
        _ => return None,
    };
    execution.plan.find_step(step.as_str())
}

impl StateBefore {
    pub fn capture(execution: &Execution, event: &Event) -> Self {
        match &execution.session {
            Some(_) => session::check_event(execution, event),
            None => check_paused_or_ended(execution, event),
        }
        let step = step_of(execution, event);
        match event {
            Event::AttemptStarted(_) if execution.session.is_some() => {
                session::check_call_start(execution, step.expect("a step of the plan"));
            }
            Event::AttemptStarted(_) => check_start(execution, step.expect("a step of the plan")),
            Event::CompensationStarted(event) => {
                check_undo(execution, step.expect("a step of the plan"), event.attempt - 1);
            }
            Event::ProbeStarted(_) => check_probe(execution, step.expect("a step of the plan")),
            Event::AttemptEnded(event) if event.takeover => {
                let state = execution.step(step.expect("a step of the plan"));
                let attempt = &state.attempts[event.attempt as usize - 1];
                assert!(attempt.task_handle.is_none(), "a task was recorded as lost with its driver");
            }
            Event::CompensationRecorded(_) => {
                let stopped = execution.ended.is_some() || execution.phase == Phase::Unwind;
                assert!(stopped, "undone by hand while the execution runs forward");
            }
            Event::FailureHandled(event) => {
                let no = execution.plan.find_step(event.step.as_str()).expect("a step of the plan");
                check_cancelled_by_failure(execution, no, event.cancelled.iter().chain(&event.skipped));
            }
            _ => {}
        }
        let statuses = execution.steps.iter().map(StepState::status).collect();
        let forced = execution.steps.iter().map(|step| step.forced).collect();
        let in_flight = step.is_some_and(|no| execution.step(no).attempts.iter().any(Attempt::is_open));
        Self { statuses, forced, ended: execution.ended, in_flight }
    }

    pub fn check_after(&self, execution: &Execution, event: &Event) {
        execution.check_index();
        self.check_finished_steps(execution);
        self.check_forced_steps(execution, event);
        check_undone_steps(execution);
        match event {
            Event::LateAnswer(event) => self.check_late_answer(execution, event),
            Event::UnwindStarted(_) => {
                assert!(
                    execution.steps.iter().all(|step| !step.undo.left_in_place),
                    "an undo includes steps that were left in place"
                );
            }
            Event::ExecutionEnded(_) | Event::UnwindEnded(_) if execution.session.is_some() => {
                session::check_unwind_end(execution, event);
            }
            Event::ExecutionEnded(event) => check_end(execution, event.status),
            Event::CompensationStarted(_) => {
                check_undo_approval(execution, step_of(execution, event).expect("a step of the plan"));
            }
            Event::AttemptStarted(_) => {
                check_started_attempt(execution, step_of(execution, event).expect("a step of the plan"))
            }
            _ => {}
        }
        if let Some(end) = execution.ended {
            assert_eq!(execution.status(), ExecutionStatus::from(end), "the status is the end status");
        }
        if self.ended.is_some() && !matches!(event, Event::UnwindStarted(_) | Event::ExecutionEnded(_)) {
            assert_eq!(self.ended, execution.ended, "ended stays ended");
        }
    }

    fn check_finished_steps(&self, execution: &Execution) {
        use StepStatus as S;
        for (before, step) in self.statuses.iter().zip(&execution.steps) {
            let now = step.status();
            let kept = match before {
                S::Succeeded => {
                    matches!(now, S::Succeeded | S::Compensating | S::CompensationFailed | S::Compensated)
                }
                S::Compensated => matches!(now, S::Compensated | S::CompensationFailed | S::Compensating),
                _ => true,
            };
            assert!(kept, "a {before} step became {now}");
        }
    }

    fn check_forced_steps(&self, execution: &Execution, event: &Event) {
        let answered = match event {
            Event::Decided(event) => matches!(event.answer, StepAnswer::Retry | StepAnswer::DidNotHappen),
            // An attempt proven unsent starts again as it would have before.
            Event::AttemptEnded(event) => event.unsent && event.takeover,
            _ => false,
        };
        for (before, step) in self.forced.iter().zip(&execution.steps) {
            assert!(*before || !step.forced || answered, "forced without an answer");
        }
    }

    fn check_late_answer(&self, execution: &Execution, event: &actbook_engine::event::LateAnswer) {
        use StepStatus as S;
        let no = execution.plan.find_step(event.step.as_str()).expect("a step of the plan");
        let (before, now) = (self.statuses[no.index()], execution.step(no).status());
        if self.in_flight {
            assert_eq!(before, now, "a late answer moved a step with an attempt in flight");
        } else if event.outcome == Outcome::Succeeded {
            let moves = matches!(before, S::Failed | S::Unknown | S::Pending | S::AwaitingApproval);
            assert!(!moves || now == S::Succeeded, "a late success left a {before} step {now}");
        }
    }
}

fn check_undone_steps(execution: &Execution) {
    for no in execution.step_numbers() {
        let (spec, step) = (execution.plan.step(no), execution.step(no));
        let has_effect = !step.attempts_to_undo(execution.rules(no)).is_empty();
        match step.status() {
            StepStatus::Compensated => {
                assert!(!has_effect, "`{}` is compensated, and has effects to undo", spec.id);
            }
            StepStatus::Compensating | StepStatus::CompensationFailed => {
                assert!(has_effect, "`{}` is {}, and has nothing to undo", spec.id, step.status());
            }
            _ => {}
        }
    }
}

/// While paused nothing starts and nothing ends; after the end only late answers, records and an undo are
/// appended.
fn check_paused_or_ended(execution: &Execution, event: &Event) {
    let starts = matches!(
        event,
        Event::AttemptStarted(_)
            | Event::ProbeStarted(_)
            | Event::CompensationStarted(_)
            | Event::RetryScheduled(_)
            | Event::ApprovalAsked(_)
            | Event::StepsCancelled(_)
            | Event::FailureHandled(_)
            | Event::ExecutionEnded(_)
    );
    assert!(!(execution.paused && starts), "paused, and yet {}", event.kind());
    let after_the_end = matches!(
        event,
        Event::UnwindStarted(_)
            | Event::UndoAsked(_)
            | Event::UnwindProposed(_)
            | Event::UnwindRejected(_)
            | Event::LateAnswer(_)
            | Event::LateCompensation(_)
            | Event::DriverChanged(_)
            | Event::PlaceAdopted(_)
            | Event::PayloadsErased(_)
            | Event::ActionRecorded(_)
            | Event::DecisionRecorded(_)
            | Event::CompensationRecorded(_)
    );
    // A manual undo after the end may end the execution again, with another status.
    let ends_again = matches!(event, Event::ExecutionEnded(again)
        if again.status != EndStatus::Succeeded && Some(again.status) != execution.ended);
    assert!(execution.ended.is_none() || after_the_end || ends_again, "ended, and yet {}", event.kind());
    let sends = matches!(event, Event::AttemptStarted(_) | Event::CompensationStarted(_));
    assert!(
        !(execution.awaits_undo_approval() && sends),
        "an undo waits for approval, and yet {}",
        event.kind()
    );
}

fn check_start(execution: &Execution, no: StepNo) {
    let (spec, step) = (execution.plan.step(no), execution.step(no));
    assert!(
        matches!(step.status(), StepStatus::Pending | StepStatus::Running),
        "a {} step starts",
        step.status()
    );
    assert!(execution.phase == Phase::Forward && execution.stop.is_none(), "starts while stopping");
    assert!(!step.attempts.iter().any(Attempt::is_open), "two attempts of one step in flight");
    assert!(!step.attempts.iter().any(Attempt::has_succeeded), "an attempt after a success");
    let others: Vec<CallId> = calls_in_flight(execution).into_iter().filter(|call| call.step != no).collect();
    assert!(
        !execution.rules(no).is_irreversible() || others.is_empty(),
        "an irreversible step not alone: {others:?}"
    );
    let alone = |call: &CallId| call.kind == CallKind::Run && execution.rules(call.step).is_irreversible();
    assert!(!others.iter().any(alone), "starts beside an irreversible step");
    assert!(others.len() < execution.plan.policy.concurrency as usize, "more in flight than slots");
    check_sent_once(execution, no);
    check_dependencies(execution, spec);
    let limit = execution.plan.policy.max_calls.filter(|_| !spec.is_agent_step());
    let answered = step.forced || step.last_attempt().is_some_and(|last| last.forced);
    assert!(answered || limit.is_none_or(|limit| execution.calls_made < limit), "beyond the budget");
    let halting = execution.step_numbers().any(|other| failure_halts_starts(execution, other));
    assert!(answered || !halting, "starts though a failure halts all starts");
    check_approval(execution, no);
}

fn failure_halts_starts(execution: &Execution, no: StepNo) -> bool {
    let failed = matches!(execution.step(no).status(), StepStatus::Failed | StepStatus::Unknown);
    failed
        && match execution.plan.step(no).failure_action {
            None | Some(FailureAction::CancelAll | FailureAction::ManualDecision) => true,
            Some(FailureAction::CancelDependent | FailureAction::ContinueOthers) => false,
        }
}

/// Without an answer, a call that may have run is not sent again, unless it is repeatable.
fn check_sent_once(execution: &Execution, no: StepNo) {
    let (spec, step) = (execution.plan.step(no), execution.step(no));
    if execution.rules(no).repeatable || step.forced {
        return;
    }
    let answered = step.attempts.iter().rposition(|attempt| attempt.forced).unwrap_or(0);
    let since = &step.attempts[answered..];
    assert!(
        since.iter().all(|one| one.effective_outcome() == Some(Outcome::Failed)),
        "sent again over an unknown"
    );
    let tries = since.iter().filter(|one| !one.is_proven_unsent()).count();
    assert!(tries < spec.retry.max_attempts as usize, "more attempts than the plan allows");
}

fn check_dependencies(execution: &Execution, spec: &Step) {
    for need in &spec.dependencies {
        let needed = execution.step(need.step);
        let satisfied = match needed.status() {
            StepStatus::Succeeded => true,
            StepStatus::Skipped => needed.cause.is_none() || need.status_read,
            StepStatus::Failed | StepStatus::Unknown | StepStatus::Cancelled => need.status_read,
            _ => false,
        };
        // A step that reads another's status may be retried while that status changes.
        assert!(satisfied || need.status_read, "ran though a dependency is {}", needed.status());
    }
}

fn check_approval(execution: &Execution, no: StepNo) {
    let (rules, step) = (execution.rules(no), execution.step(no));
    let by_policy = match execution.plan.policy.approval {
        PlanApproval::EveryWrite => !rules.read_only,
        PlanApproval::AtPointOfNoReturn => {
            rules.cancellable != actbook_engine::policy::Reversibility::Reversible
                && !execution.past_point_of_no_return
        }
        PlanApproval::None | PlanApproval::Plan => false,
    };
    assert!(step.is_approved() || !(rules.needs_approval || by_policy), "starts without its approval");
}

/// A just started attempt sends the approved arguments, with the right key.
fn check_started_attempt(execution: &Execution, no: StepNo) {
    let step = execution.step(no);
    let (new, earlier) = step.attempts.split_last().expect("one has just started");
    if step.is_approved() {
        assert_eq!(
            (new.arguments, new.pin),
            (step.approval.arguments, step.approval.pin),
            "sends what was approved"
        );
    }
    let Some(last) = earlier.iter().rev().find(|one| !one.unsent).or(earlier.last()) else { return };
    let digest = |stored: Option<PayloadRef>| stored.map(|stored| stored.digest.digest);
    if step.corrected_arguments.is_some() && last.effective_outcome() != Some(Outcome::Unknown) {
        assert_eq!(digest(new.arguments), digest(step.corrected_arguments), "sends the corrected arguments");
        return;
    }
    if last.ended_with_question() && last.outcome == Some(Outcome::Failed) {
        assert_eq!(last.key, new.key, "the key changed over a question");
        assert!(
            new.reply.is_none() || new.arguments == last.arguments,
            "a reply is sent with other arguments"
        );
        return;
    }
    match last.effective_outcome() {
        Some(Outcome::Unknown) => assert_eq!(last.key, new.key, "the key changed over an unknown"),
        Some(Outcome::Failed) if last.unsent => {
            assert_eq!(last.key, new.key, "the key changed though nothing was sent")
        }
        Some(Outcome::Failed) => assert_ne!(last.key, new.key, "the key was kept after a failure"),
        Some(Outcome::Succeeded) | None => panic!("an attempt after one that has not failed"),
    }
}

fn check_probe(execution: &Execution, no: StepNo) {
    let last = execution.step(no).last_attempt().expect("a probe is about an attempt");
    assert_eq!(last.effective_outcome(), Some(Outcome::Unknown), "probes a known outcome");
    assert!(
        !matches!(last.probe, ProbeState::Open { .. } | ProbeState::Done(ProbeFinding::Happened)),
        "probes twice"
    );
    assert!(execution.stop.is_none(), "cancel and abandon start no probe");
    let probe = execution.plan.step(no).probe.as_ref().expect("the step has one");
    let policy = execution.tool_policies.get(&probe.tool).cloned().unwrap_or_default();
    assert!(
        !policy.approval && policy.read_only != Some(false),
        "probes with a tool that the config forbids"
    );
    let limit = execution.plan.policy.max_calls.filter(|_| execution.phase == Phase::Forward);
    assert!(limit.is_none_or(|limit| execution.calls_made < limit), "a probe beyond the budget");
}

/// A just started compensation needs no approval, or its arguments are approved.
fn check_undo_approval(execution: &Execution, no: StepNo) {
    let compensation = execution.plan.step(no).compensation.as_ref().expect("the step has one");
    let Some(tool) = compensation.tool() else { return };
    if !execution.tool_policies.get(tool).is_some_and(|policy| policy.approval) {
        return;
    }
    let last = execution.step(no).last_compensation().expect("one has just started");
    let approval = last.undoes.and_then(|attempt| execution.step(no).undo.approvals.get(&attempt));
    let sent = last.arguments.map(|arguments| arguments.digest.digest);
    assert!(
        sent.is_none() || approval.is_some_and(|approval| approval.arguments == sent),
        "undoes without its approval"
    );
}

fn check_undo(execution: &Execution, no: StepNo, attempt: u32) {
    assert_eq!(execution.phase, Phase::Unwind, "undoes without unwinding");
    assert!(execution.stop.is_none(), "undoes though abandoned");
    let calls = calls_in_flight(execution);
    assert!(
        calls.iter().all(|call| call.kind == CallKind::Compensation),
        "unwinds while something is in flight"
    );
    assert!(calls.iter().all(|call| call.step != no), "two compensations of one step");
    assert!(calls.len() < execution.plan.policy.concurrency as usize, "more compensations than slots");
    let asks = |other: &StepState| {
        other.status() == StepStatus::CompensationFailed && !other.undo.left_in_place && !other.undo.retry
    };
    assert!(!execution.steps.iter().any(asks), "undoes another step though a compensation failed");
    let targets = execution.step(no).attempts_to_undo(execution.rules(no));
    assert_eq!(targets.last(), Some(&attempt), "undoes the newest first");
    for later in transitive_dependents(execution, no) {
        let (spec, state) = (execution.plan.step(later), execution.step(later));
        let to_undo = spec.compensation.is_some()
            && !state.undo.left_in_place
            && !state.attempts_to_undo(execution.rules(later)).is_empty();
        assert!(!to_undo, "undone before `{}`, which depends on it", spec.id);
    }
}

fn transitive_dependents(execution: &Execution, no: StepNo) -> Vec<StepNo> {
    let mut found: Vec<StepNo> = Vec::new();
    let mut open = vec![no];
    while let Some(step) = open.pop() {
        for other in &execution.plan.step(step).dependents {
            if !found.contains(other) {
                found.push(*other);
                open.push(*other);
            }
        }
    }
    found
}

/// A failure does not cancel or skip a step that only reads its status.
fn check_cancelled_by_failure<'a>(
    execution: &Execution,
    failed: StepNo,
    affected: impl Iterator<Item = &'a actbook_engine::id::StepId>,
) {
    let spec = execution.plan.step(failed);
    let reaches_all = spec.failure_action == Some(FailureAction::CancelAll);
    let affected: Vec<StepNo> =
        affected.map(|step| execution.plan.find_step(step.as_str()).expect("a step")).collect();
    for no in &affected {
        let named = spec.propagate_to.contains(no) || reaches_all;
        let through = execution.plan.step(*no).dependencies.iter().any(|need| {
            let state = execution.step(need.step);
            let stopped = state.status() == StepStatus::Cancelled || state.cause.is_some();
            !need.status_read && (need.step == failed || affected.contains(&need.step) || stopped)
        });
        assert!(named || through, "stopped by a failure whose status it reads");
    }
}

fn check_end(execution: &Execution, end: EndStatus) {
    use StepStatus as S;
    let unfinished = [S::Pending, S::Running, S::AwaitingApproval, S::AwaitingAgent, S::Compensating];
    for step in &execution.steps {
        assert!(!unfinished.contains(&step.status()), "ended {end} with a {} step", step.status());
        assert!(!step.attempts.iter().any(Attempt::is_open), "ended {end} with an attempt in flight");
        assert!(!step.is_compensation_open(), "ended {end} with a compensation in flight");
    }
    let specs = || execution.step_numbers().map(|no| (execution.rules(no), execution.step(no)));
    match end {
        EndStatus::Succeeded => {
            let done = |step: &StepState| matches!(step.status(), S::Succeeded | S::Skipped);
            assert!(execution.steps.iter().all(done), "succeeded with an unfinished step");
        }
        EndStatus::Compensated => {
            for no in execution.step_numbers() {
                let (rules, step, id) = (execution.rules(no), execution.step(no), execution.step_id(no));
                assert!(
                    step.attempts_to_undo(rules).is_empty(),
                    "compensated, and `{id}` has effects to undo"
                );
                let partly = rules.cancellable != actbook_engine::policy::Reversibility::Reversible;
                assert!(!partly || step.undo.undone.is_empty(), "compensated, and `{id}` is not reversible");
            }
        }
        EndStatus::Failed if execution.phase == Phase::Unwind && execution.stop.is_none() => {
            let remains = |(rules, step): (StepRules, &StepState)| {
                let partly = rules.cancellable != actbook_engine::policy::Reversibility::Reversible;
                !step.attempts_to_undo(rules).is_empty() || (partly && !step.undo.undone.is_empty())
            };
            assert!(specs().any(remains), "everything is undone, and yet the execution failed");
        }
        EndStatus::Failed | EndStatus::Cancelled => {}
    }
}

/// Between commands: after the end nothing is due or asked, and while paused nothing wakes up.
pub fn check_between_commands(execution: &Execution) {
    if execution.ended.is_some() {
        let due = due(execution);
        assert!(due.calls.is_empty() && due.wake_at.is_none(), "something is due after the end");
        let whole_undo = |question: &Question| question.subject == QuestionSubject::UndoApproval;
        assert!(questions(execution).iter().all(whole_undo), "a question after the end");
    }
    if execution.paused {
        assert!(due(execution).wake_at.is_none(), "a paused execution has a wake-up time");
    }
}
