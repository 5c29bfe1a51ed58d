//! Every role in which a tool is called, with every policy that an operator can set for the tool, under the
//! commands of a person and of an agent: no combination sends what the config forbids. The tables use the
//! engine's types, so a new role or policy field does not compile here. `mcp::doors` of the server's tests
//! shows which commands each interface gives.

use std::collections::BTreeSet;
use std::sync::Arc;

use actbook_engine::chain::Digest;
use actbook_engine::event::ApprovalScope;
use actbook_engine::execution::{CallKind, Command, ReportedOutcome, due};
use actbook_engine::plan::Plan;
use actbook_engine::policy::{ErrorCategory, StepAnswer};
use actbook_engine::tool_policy::{ToolPolicies, ToolPolicy};
use serde_json::{Value, json};

use crate::harness::ExecutionHarness;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CallRole {
    Step,
    /// The plan's own retry of an attempt whose outcome is unknown.
    AutomaticRetry,
    AnsweredRetry,
    /// The retry that carries the reply to the tool's question.
    Reply,
    /// The retry after the word that an unknown call did not happen.
    AnsweredDidNotHappen,
    Takeover,
    Compensation,
    AnsweredUndoRetry,
    Probe,
    /// A probe whose driver was lost while it was in flight.
    LostProbe,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ConfigDemand {
    Approval,
    NotReadOnly,
    NotIdempotent,
    /// Neither the config nor a trusted server declares the tool repeatable.
    NotTrusted,
    Budget,
    Pin,
}

/// Who gives the commands: the only thing about an interface that the engine knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Commander {
    /// A person, or an agent whom the config lets approve.
    Approver,
    Agent,
}

const COMMANDERS: [Commander; 2] = [Commander::Approver, Commander::Agent];
const ROLES: [CallRole; 10] = [
    CallRole::Step,
    CallRole::AutomaticRetry,
    CallRole::AnsweredRetry,
    CallRole::Reply,
    CallRole::AnsweredDidNotHappen,
    CallRole::Takeover,
    CallRole::Compensation,
    CallRole::AnsweredUndoRetry,
    CallRole::Probe,
    CallRole::LostProbe,
];
const DEMANDS: [ConfigDemand; 6] = [
    ConfigDemand::Approval,
    ConfigDemand::NotReadOnly,
    ConfigDemand::NotIdempotent,
    ConfigDemand::NotTrusted,
    ConfigDemand::Budget,
    ConfigDemand::Pin,
];

impl CallRole {
    fn kind(self) -> CallKind {
        match self {
            Self::Step
            | Self::AutomaticRetry
            | Self::AnsweredRetry
            | Self::Reply
            | Self::AnsweredDidNotHappen
            | Self::Takeover => CallKind::Run,
            Self::Compensation | Self::AnsweredUndoRetry => CallKind::Compensation,
            Self::Probe | Self::LostProbe => CallKind::Probe,
        }
    }
}

/// Whether the call is made without a further decision of a person.
fn may_send(role: CallRole, demand: ConfigDemand, commander: Commander) -> bool {
    use CallRole as R;
    match demand {
        // An approval covers automatic attempts, and nothing else; the undo and the reply of one who may approve are one.
        ConfigDemand::Approval => {
            matches!(role, R::AutomaticRetry | R::Takeover)
                || (matches!(role, R::Compensation | R::Reply) && commander == Commander::Approver)
        }
        ConfigDemand::NotReadOnly => {
            !matches!(role, R::AutomaticRetry | R::Takeover | R::Probe | R::LostProbe)
        }
        ConfigDemand::NotIdempotent => !matches!(role, R::AutomaticRetry | R::Takeover | R::LostProbe),
        ConfigDemand::NotTrusted => !matches!(role, R::AutomaticRetry | R::Takeover | R::LostProbe),
        // An answered retry may exceed it, and it never stops an unwinding.
        ConfigDemand::Budget => matches!(
            role,
            R::AnsweredRetry | R::Reply | R::AnsweredDidNotHappen | R::Compensation | R::AnsweredUndoRetry
        ),
        ConfigDemand::Pin => true,
    }
}

/// The operator's policy for the tool under test; the plan itself is as permissive as possible.
fn tool_policy(demand: ConfigDemand) -> ToolPolicy {
    let permissive = ToolPolicy { hinted: true, read_only: None, idempotent: None, ..ToolPolicy::default() };
    let policy = match demand {
        ConfigDemand::Approval => ToolPolicy { approval: true, ..permissive },
        ConfigDemand::NotReadOnly => ToolPolicy { read_only: Some(false), hinted: false, ..permissive },
        ConfigDemand::NotIdempotent => ToolPolicy { idempotent: Some(false), hinted: false, ..permissive },
        ConfigDemand::NotTrusted => ToolPolicy { hinted: false, ..permissive },
        ConfigDemand::Budget => permissive,
        ConfigDemand::Pin => ToolPolicy { pin: Some(Digest::of(b"seen")), ..permissive },
    };
    // A new field needs a row above.
    let ToolPolicy { pin: _, timeout_ms: _, retry: _, idempotent: _, read_only: _, hinted: _, approval: _ } =
        policy;
    policy
}

/// One step declared as permissive as possible, with the compensation or probe of the role.
fn plan(role: CallRole, demand: ConfigDemand) -> Value {
    let retry = json!({ "max_attempts": 3, "backoff": "0s", "on": ["timeout"] });
    let mut step = json!({ "id": "a", "tool": "t/x" });
    if role != CallRole::AnsweredDidNotHappen {
        step["retry"] = retry;
    }
    match (role.kind(), demand) {
        (CallKind::Run, ConfigDemand::NotReadOnly) => step["read_only"] = json!(true),
        (CallKind::Run, ConfigDemand::NotIdempotent) => step["idempotent"] = json!(true),
        (CallKind::Run, _) => {}
        (CallKind::Compensation, _) => step["compensation"] = json!({ "tool": "t/u", "idempotent": true }),
        (CallKind::Probe, _) => step["probe"] = json!({ "tool": "t/p", "happened": "output.done" }),
    }
    // The first call spends the budget: another step's call where the role is a first attempt.
    let first = json!({ "id": "first", "tool": "t/free" });
    let steps = if first_step_spends_budget(role, demand) { vec![first, step] } else { vec![step] };
    let policy = if demand == ConfigDemand::Budget { json!({ "max_calls": 1 }) } else { json!({}) };
    json!({ "name": "cell", "policy": policy, "steps": steps })
}

fn first_step_spends_budget(role: CallRole, demand: ConfigDemand) -> bool {
    demand == ConfigDemand::Budget && role == CallRole::Step
}

struct MatrixCell {
    harness: ExecutionHarness,
    commander: Commander,
}

impl MatrixCell {
    fn open(role: CallRole, demand: ConfigDemand, commander: Commander) -> Self {
        let plan = plan(role, demand);
        let plan = Plan::from_value(&plan).unwrap_or_else(|found| panic!("{found:#?} in {plan:#}"));
        let tool = match role.kind() {
            CallKind::Run => "t/x",
            CallKind::Compensation => "t/u",
            CallKind::Probe => "t/p",
        };
        let policies = ToolPolicies::from([(tool.to_owned(), tool_policy(demand))]);
        let mut harness = ExecutionHarness::open(Arc::new(plan), None, &policies);
        harness.claim(BTreeSet::new());
        Self { harness, commander }
    }

    fn apply(&mut self, command: &Command) {
        self.harness.apply(command).unwrap_or_else(|refusal| panic!("{command:?}: {refusal}"));
        self.harness.drive();
    }

    fn approve(&mut self) {
        let step = Some("a".into());
        self.apply(&Command::Approve { step, reason: None, replies_to: None, scope: ApprovalScope::Once });
    }

    /// Ends the only call in flight.
    fn end_call(&mut self, ended: ReportedOutcome) {
        let call = due(self.harness.execution()).calls[0].id;
        let report = Command::ReportOutcome { epoch: self.harness.epoch(), call, outcome: ended };
        self.harness.apply(&report).expect("the driver may report");
    }

    fn answer(&mut self, answer: StepAnswer) {
        self.apply(&Command::Decide {
            step: "a".to_owned(),
            answer,
            reason: None,
            output: None,
            arguments: None,
            approves: self.commander == Commander::Approver,
            replies_to: None,
        });
    }

    /// Replies to the tool's question; refused only if the reply is a person's.
    fn reply(&mut self) {
        let no = self.harness.execution().plan.find_step("a").expect("the step");
        let reply = Command::Decide {
            step: "a".to_owned(),
            answer: StepAnswer::Retry,
            reason: None,
            output: Some(json!({ "action": "accept" })),
            arguments: None,
            approves: self.commander == Commander::Approver,
            replies_to: self.harness.execution().asked_at(Some(no)),
        };
        match self.harness.apply(&reply) {
            Ok(()) => self.harness.drive(),
            Err(refusal) => assert_eq!(refusal.code(), "needs_a_person"),
        }
    }

    fn undo(&mut self) {
        let approves = self.commander == Commander::Approver;
        self.apply(&Command::Undo { reason: None, steps: None, approves });
    }

    fn open_calls(&self, kind: CallKind) -> Vec<actbook_engine::execution::DueCall> {
        due(self.harness.execution()).calls.into_iter().filter(|call| call.id.kind == kind).collect()
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

fn asks() -> ReportedOutcome {
    ReportedOutcome::InputRequired { question: json!({}), may_have_run: false }
}

fn succeeded() -> ReportedOutcome {
    ReportedOutcome::Succeeded { output: json!({}) }
}

/// Brings the execution to the point where the call of this role would be made.
fn reach_call(role: CallRole, demand: ConfigDemand, commander: Commander) -> MatrixCell {
    let mut cell = MatrixCell::open(role, demand, commander);
    if first_step_spends_budget(role, demand) {
        cell.end_call(succeeded());
        return cell;
    }
    if demand == ConfigDemand::Approval && role.kind() == CallKind::Run && role != CallRole::Step {
        cell.approve();
    }
    match role {
        CallRole::Step => {}
        CallRole::AutomaticRetry | CallRole::Probe => cell.end_call(unknown()),
        CallRole::AnsweredRetry => {
            cell.end_call(failed());
            cell.answer(StepAnswer::Retry);
        }
        CallRole::Reply => {
            cell.end_call(asks());
            cell.reply();
        }
        CallRole::AnsweredDidNotHappen => {
            cell.end_call(unknown());
            cell.answer(StepAnswer::DidNotHappen);
        }
        CallRole::Takeover => cell.harness.claim(BTreeSet::new()),
        CallRole::Compensation => {
            cell.end_call(succeeded());
            cell.undo();
        }
        CallRole::AnsweredUndoRetry => {
            cell.end_call(succeeded());
            cell.apply(&Command::Undo { reason: None, steps: None, approves: true });
            cell.end_call(failed());
            cell.answer(StepAnswer::Retry);
        }
        CallRole::LostProbe => {
            cell.end_call(unknown());
            cell.harness.claim(BTreeSet::new());
        }
    }
    cell
}

fn check_cell(role: CallRole, demand: ConfigDemand, commander: Commander) {
    let cell = reach_call(role, demand, commander);
    let out = cell.open_calls(role.kind());
    let expected = may_send(role, demand, commander);
    assert_eq!(!out.is_empty(), expected, "{role:?} under {demand:?} for {commander:?}: {out:?}");
    if demand == ConfigDemand::Pin {
        assert!(out.iter().all(|call| call.pin == Some(Digest::of(b"seen"))), "{role:?}: {out:?}");
    }
}

#[test]
fn every_call_role_obeys_the_config() {
    for commander in COMMANDERS {
        for role in ROLES {
            for demand in DEMANDS {
                check_cell(role, demand, commander);
            }
        }
    }
}
