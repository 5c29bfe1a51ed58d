//! Claims of agent steps. Who starts one holds it for a while, so that several agents can share a plan and
//! none reports what another is doing.

use serde_json::Value;

use super::command::{Facts, Refusal, Report};
use super::state::{Execution, StepState};
use crate::id::StepNo;

/// How long a claim lasts after it was made or renewed.
pub const CLAIM_MS: i64 = 15 * 60 * 1000;

/// Who holds an agent step, and until when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    pub holder: String,
    pub until_ms: i64,
}

/// Who reports on an agent step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reporter {
    /// The caller with its session: two agents of one name are two holders.
    pub holder: String,
    /// A person may report on any step at any time.
    pub is_person: bool,
    /// Wants the step though another agent has started it; only after that agent's claim has lapsed.
    pub takes_over: bool,
    /// The time of the report.
    pub at_ms: i64,
}

/// What a report of this caller is to the step.
pub(super) enum Standing {
    /// It moves the step.
    Counts,
    /// Its step was taken over meanwhile: it is kept, and moves nothing.
    Evidence,
}

pub(super) fn standing(execution: &Execution, no: StepNo, by: &Reporter) -> Result<Standing, Refusal> {
    let step = execution.step(no);
    let is_open = execution.open_agent(no).is_some();
    if step.former_holders.contains(&by.holder) && !by.takes_over {
        return Ok(Standing::Evidence);
    }
    let Some(claim) = step.claim.as_ref().filter(|claim| is_open && claim.holder != by.holder) else {
        return Ok(Standing::Counts);
    };
    let has_lapsed = claim.until_ms <= by.at_ms;
    if by.is_person || (by.takes_over && has_lapsed) {
        return Ok(Standing::Counts);
    }
    let id = execution.step_id(no);
    let message = format!("step `{id}` was started by {}, not by you", claim.holder);
    let cure = if has_lapsed {
        "that claim has lapsed: report with `take_over: true` and say why".to_owned()
    } else {
        let left_s = (claim.until_ms - by.at_ms + 999) / 1000;
        format!(
            "leave it to them; their claim lapses in {left_s} s, and then `take_over: true` takes it over"
        )
    };
    Err(Refusal::new("claimed", message, cure))
}

impl StepState {
    /// Gives the step to a holder; the one before has no say in it any more.
    pub(super) fn give_to(&mut self, claim: Claim) {
        let before = self.claim.replace(claim).map(|before| before.holder);
        let now = self.claim.as_ref().map(|claim| &claim.holder);
        self.former_holders.retain(|holder| Some(holder) != now);
        self.former_holders.extend(before.filter(|before| Some(before) != now));
    }
}

/// The facts of a report that is only evidence, with its output among them.
pub(super) fn evidence(report: &Report, facts: &Facts) -> Facts {
    let output: Option<Value> = match report {
        Report::Succeeded { output } | Report::Compensated { output } => output.clone(),
        Report::Started | Report::Failed { .. } => None,
    };
    Facts { output: output.or_else(|| facts.output.clone()), ..facts.clone() }
}
