//! The guarantee of a plan: what its policy promises, in one line for people and agents.

use actbook_engine::plan::Plan;
use actbook_engine::policy::{OnFailure, PlanApproval};

/// One line on order, failure handling and approvals under the plan's policy.
pub fn guarantee(plan: &Plan) -> String {
    let policy = &plan.policy;
    let order = match policy.concurrency {
        1 => "one step at a time, in list order".to_owned(),
        count => format!("up to {count} steps side by side"),
    };
    let failure = match policy.on_failure {
        OnFailure::Manual => "stops at a failure and asks; nothing is undone unasked",
        OnFailure::Propose => "stops at a failure and proposes the undo; it waits for a yes",
        OnFailure::Auto => "undoes everything by itself at a failure",
    };
    let approval = match policy.approval {
        PlanApproval::None => "",
        PlanApproval::Plan => "; a person approves the plan first",
        PlanApproval::AtPointOfNoReturn => "; a person approves at the point of no return",
        PlanApproval::EveryWrite => "; a person approves every write",
    };
    let unknown = "a call whose outcome is not known is never repeated silently";
    format!("{order}; {failure}; {unknown}{approval}")
}
