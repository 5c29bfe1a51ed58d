//! Every role in which a tool is called, with every policy that an operator can set for the tool: no
//! combination sends what the config forbids. The tables use the engine's types, so a new role or policy
//! field does not compile here.

use std::collections::BTreeSet;
use std::sync::Arc;

use actbook_engine::chain::Digest;
use actbook_engine::execution::{CallKind, Command, ReportedOutcome, due};
use actbook_engine::plan::Plan;
use actbook_engine::policy::{ErrorCategory, StepAnswer};
use actbook_engine::tool_policy::{ToolPolicies, ToolPolicy};
use serde_json::{Value, json};

use crate::book::Book;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Step,
    /// The plan's own retry of an attempt whose outcome is unknown.
    AutomaticRetry,
    AnsweredRetry,
    Takeover,
    Compensation,
    AnsweredUndoRetry,
    Probe,
    /// A probe whose driver was lost while it was in flight.
    LostProbe,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Demand {
    Approval,
    NotReadOnly,
    NotIdempotent,
    /// Neither the config nor a trusted server declares the tool repeatable.
    NotTrusted,
    Budget,
    Pin,
}

const ROLES: [Role; 8] = [
    Role::Step,
    Role::AutomaticRetry,
    Role::AnsweredRetry,
    Role::Takeover,
    Role::Compensation,
    Role::AnsweredUndoRetry,
    Role::Probe,
    Role::LostProbe,
];
const DEMANDS: [Demand; 6] = [
    Demand::Approval,
    Demand::NotReadOnly,
    Demand::NotIdempotent,
    Demand::NotTrusted,
    Demand::Budget,
    Demand::Pin,
];

impl Role {
    fn kind(self) -> CallKind {
        match self {
            Self::Step | Self::AutomaticRetry | Self::AnsweredRetry | Self::Takeover => CallKind::Run,
            Self::Compensation | Self::AnsweredUndoRetry => CallKind::Compensation,
            Self::Probe | Self::LostProbe => CallKind::Probe,
        }
    }
}

/// Whether the call is made without a further decision of a person.
fn may_send(role: Role, demand: Demand) -> bool {
    use Role as R;
    match demand {
        // An approval covers automatic attempts, and nothing else.
        Demand::Approval => matches!(role, R::AutomaticRetry | R::Takeover),
        Demand::NotReadOnly => !matches!(role, R::AutomaticRetry | R::Takeover | R::Probe | R::LostProbe),
        Demand::NotIdempotent => !matches!(role, R::AutomaticRetry | R::Takeover | R::LostProbe),
        Demand::NotTrusted => !matches!(role, R::AutomaticRetry | R::Takeover | R::LostProbe),
        // An answered retry may exceed it, and it never stops an unwinding.
        Demand::Budget => matches!(role, R::AnsweredRetry | R::Compensation | R::AnsweredUndoRetry),
        Demand::Pin => true,
    }
}

/// The operator's policy for the tool under test; the plan itself is as permissive as possible.
fn terms(demand: Demand) -> ToolPolicy {
    let permissive = ToolPolicy { hinted: true, read_only: None, idempotent: None, ..ToolPolicy::default() };
    let policy = match demand {
        Demand::Approval => ToolPolicy { approval: true, ..permissive },
        Demand::NotReadOnly => ToolPolicy { read_only: Some(false), hinted: false, ..permissive },
        Demand::NotIdempotent => ToolPolicy { idempotent: Some(false), hinted: false, ..permissive },
        Demand::NotTrusted => ToolPolicy { hinted: false, ..permissive },
        Demand::Budget => permissive,
        Demand::Pin => ToolPolicy { pin: Some(Digest::of(b"seen")), ..permissive },
    };
    // A new field needs a row above.
    let ToolPolicy { pin: _, timeout_ms: _, retry: _, idempotent: _, read_only: _, hinted: _, approval: _ } =
        policy;
    policy
}

/// One step declared as permissive as possible, with the compensation or probe of the role.
fn plan(role: Role, demand: Demand) -> Value {
    let retry = json!({ "max_attempts": 3, "backoff": "0s", "on": ["timeout"] });
    let mut step = json!({ "id": "a", "tool": "t/x", "retry": retry });
    match (role.kind(), demand) {
        (CallKind::Run, Demand::NotReadOnly) => step["read_only"] = json!(true),
        (CallKind::Run, Demand::NotIdempotent) => step["idempotent"] = json!(true),
        (CallKind::Run, _) => {}
        (CallKind::Compensation, _) => step["compensation"] = json!({ "tool": "t/u", "idempotent": true }),
        (CallKind::Probe, _) => step["probe"] = json!({ "tool": "t/p", "happened": "output.done" }),
    }
    // The first call spends the budget: another step's call where the role is a first attempt.
    let first = json!({ "id": "first", "tool": "t/free" });
    let steps = if spends_elsewhere(role, demand) { vec![first, step] } else { vec![step] };
    let policy = if demand == Demand::Budget { json!({ "max_calls": 1 }) } else { json!({}) };
    json!({ "name": "cell", "policy": policy, "steps": steps })
}

fn spends_elsewhere(role: Role, demand: Demand) -> bool {
    demand == Demand::Budget && role == Role::Step
}

struct Cell {
    book: Book,
}

impl Cell {
    fn open(role: Role, demand: Demand) -> Self {
        let plan = plan(role, demand);
        let plan = Plan::from_value(&plan).unwrap_or_else(|found| panic!("{found:#?} in {plan:#}"));
        let tool = match role.kind() {
            CallKind::Run => "t/x",
            CallKind::Compensation => "t/u",
            CallKind::Probe => "t/p",
        };
        let policies = ToolPolicies::from([(tool.to_owned(), terms(demand))]);
        let mut harness = Book::open(Arc::new(plan), None, &policies);
        harness.claim(BTreeSet::new());
        Self { book: harness }
    }

    fn give(&mut self, command: &Command) {
        self.book.ask(command).unwrap_or_else(|refusal| panic!("{command:?}: {refusal}"));
        self.book.drive();
    }

    fn approve(&mut self) {
        self.give(&Command::Approve { step: Some("a".into()), reason: None });
    }

    /// Ends the only call in flight.
    fn end(&mut self, ended: ReportedOutcome) {
        let call = due(self.book.execution()).calls[0].id;
        let report = Command::ReportOutcome { epoch: self.book.epoch(), call, outcome: ended };
        self.book.ask(&report).expect("the driver may report");
    }

    /// Answers as an agent, which may not approve.
    fn answer(&mut self, answer: StepAnswer) {
        let (step, approves) = ("a".to_owned(), false);
        let command = Command::Decide { step, answer, reason: None, output: None, arguments: None, approves };
        self.give(&command);
    }

    fn undo(&mut self) {
        self.give(&Command::Undo { reason: None, approves: false });
    }

    fn out(&self, kind: CallKind) -> Vec<actbook_engine::execution::DueCall> {
        due(self.book.execution()).calls.into_iter().filter(|call| call.id.kind == kind).collect()
    }
}

fn unknown() -> ReportedOutcome {
    ReportedOutcome::Unknown { category: ErrorCategory::Timeout, error: json!({}), retry_after_ms: None }
}

fn failed() -> ReportedOutcome {
    ReportedOutcome::Failed {
        category: ErrorCategory::ToolError,
        error: json!({}),
        unsent: false,
        retry_after_ms: None,
    }
}

fn succeeded() -> ReportedOutcome {
    ReportedOutcome::Succeeded { output: json!({}) }
}

/// Brings the execution to the point where the call of this role would be made.
fn play(role: Role, demand: Demand) -> Cell {
    let mut cell = Cell::open(role, demand);
    if spends_elsewhere(role, demand) {
        cell.end(succeeded());
        return cell;
    }
    if demand == Demand::Approval && role.kind() == CallKind::Run && role != Role::Step {
        cell.approve();
    }
    match role {
        Role::Step => {}
        Role::AutomaticRetry | Role::Probe => cell.end(unknown()),
        Role::AnsweredRetry => {
            cell.end(failed());
            cell.answer(StepAnswer::Retry);
        }
        Role::Takeover => cell.book.claim(BTreeSet::new()),
        Role::Compensation => {
            cell.end(succeeded());
            cell.undo();
        }
        Role::AnsweredUndoRetry => {
            cell.end(succeeded());
            cell.give(&Command::Undo { reason: None, approves: true });
            cell.end(failed());
            cell.answer(StepAnswer::Retry);
        }
        Role::LostProbe => {
            cell.end(unknown());
            cell.book.claim(BTreeSet::new());
        }
    }
    cell
}

#[test]
fn no_role_of_a_call_escapes_what_the_config_demands() {
    for role in ROLES {
        for demand in DEMANDS {
            let cell = play(role, demand);
            let out = cell.out(role.kind());
            assert_eq!(!out.is_empty(), may_send(role, demand), "{role:?} under {demand:?}: {out:?}");
            if demand == Demand::Pin {
                assert!(out.iter().all(|call| call.pin == Some(Digest::of(b"seen"))), "{role:?}: {out:?}");
            }
        }
    }
}
