//! The guarantee of a plan: what its policy promises, in one line for people and agents.

use actbook_engine::execution::Execution;
use actbook_engine::policy::{OnFailure, PlanApproval};

/// One line on order, failure handling and approvals under the plan's policy and the config's tool policies.
pub fn guarantee(execution: &Execution) -> String {
    let policy = &execution.plan.policy;
    let undo_waits = execution.step_numbers().any(|no| execution.rules(no).undo_needs_approval);
    let order = match policy.concurrency {
        1 => "one step at a time, in list order".to_owned(),
        count => format!("up to {count} steps in parallel"),
    };
    let failure = match policy.on_failure {
        OnFailure::Manual => "stops at a failure and asks; nothing is undone without being asked",
        OnFailure::Propose => "stops at a failure and proposes the undo; it waits for approval",
        OnFailure::Auto if undo_waits => {
            "stops at a failure and proposes the undo; it waits for approval, because it calls a tool under approval"
        }
        OnFailure::Auto => "undoes everything automatically at a failure",
    };
    let approval = match policy.approval {
        PlanApproval::None => "",
        PlanApproval::Plan => "; a person approves the plan first",
        PlanApproval::AtPointOfNoReturn => "; a person approves at the point of no return",
        PlanApproval::EveryWrite => "; a person approves every write",
    };
    let has_own_rule = |no| execution.plan.step(no).failure_action.is_some();
    let excepted = if execution.step_numbers().any(has_own_rule) {
        ", unless the step's `failure_policy` says otherwise"
    } else {
        ""
    };
    let unknown = "a call whose outcome is not known is never repeated silently";
    format!("{order}; {failure}{excepted}; {unknown}{approval}")
}
