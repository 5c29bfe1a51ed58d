//! Claims on agent steps. An agent that starts a step holds it for a limited time, so that several agents can
//! share a plan and none reports on another's step.

use serde_json::Value;

use super::command::{ActionFacts, AgentReport};
use super::evolve::Execution;
use super::state::StepState;
use crate::id::{NodeId, StepNo};
use crate::refusal::{ClaimExpiry, Refusal};

/// How long a claim lasts after it was made or renewed, in milliseconds.
pub const CLAIM_DURATION_MS: i64 = 15 * 60 * 1000;

/// Who holds an agent step, and until when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    pub holder: String,
    pub until_ms: i64,
    /// The process that serves the holder's session; `None`: the holder has no session that could end.
    pub node: Option<NodeId>,
}

/// Who reports on an agent step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reporter {
    /// The caller with its session: two agents of one name are two holders.
    pub holder: String,
    /// A person may report on any step at any time.
    pub is_person: bool,
    /// Asks to take the step over from another agent; allowed once that agent's claim has lapsed.
    pub takes_over: bool,
    /// The process that serves the reporter's session.
    pub node: Option<NodeId>,
    /// A holder whose session is known to have ended: its claim has lapsed.
    pub departed_holder: Option<String>,
    /// The time of the report, in Unix milliseconds.
    pub at_ms: i64,
}

/// Whether an agent's report moves its step, or is only recorded because the step was taken over.
pub(super) enum ReportEffect {
    /// The report changes the step's state.
    MovesStep,
    /// The step was taken over from the reporter: the report is recorded and changes nothing.
    EvidenceOnly,
}

/// Checks a report against the step's claim; refused while another agent holds the step.
pub(super) fn check_claim(execution: &Execution, no: StepNo, by: &Reporter) -> Result<ReportEffect, Refusal> {
    let step = execution.step(no);
    let is_open = execution.open_agent_call(no).is_some();
    if step.former_holders.contains(&by.holder) && !by.takes_over {
        return Ok(ReportEffect::EvidenceOnly);
    }
    let Some(claim) = step.claim.as_ref().filter(|claim| is_open && claim.holder != by.holder) else {
        return Ok(ReportEffect::MovesStep);
    };
    let has_departed = by.departed_holder.as_ref() == Some(&claim.holder);
    let has_lapsed = has_departed || claim.until_ms <= by.at_ms;
    if by.is_person || (by.takes_over && has_lapsed) {
        return Ok(ReportEffect::MovesStep);
    }
    let expiry = if has_departed {
        ClaimExpiry::HolderDeparted
    } else if has_lapsed {
        ClaimExpiry::Lapsed
    } else {
        ClaimExpiry::LapsesIn { seconds: (claim.until_ms - by.at_ms + 999) / 1000 }
    };
    let (holder, reporter) = (claim.holder.clone(), by.holder.clone());
    Err(Refusal::Claimed { step: execution.step_id(no), holder, reporter, expiry })
}

impl StepState {
    /// Gives the step to a new holder; later reports of the former holder are evidence only.
    pub(super) fn assign_claim(&mut self, claim: Claim) {
        let previous = self.claim.replace(claim).map(|previous| previous.holder);
        let current = self.claim.as_ref().map(|claim| &claim.holder);
        self.former_holders.retain(|holder| Some(holder) != current);
        self.former_holders.extend(previous.filter(|previous| Some(previous) != current));
    }
}

/// The facts to record for a report that is only evidence, with the report's output added.
pub(super) fn evidence_facts(report: &AgentReport, facts: &ActionFacts) -> ActionFacts {
    let output: Option<Value> = match report {
        AgentReport::Succeeded { output } | AgentReport::Compensated { output } => output.clone(),
        AgentReport::Started | AgentReport::Failed { .. } => None,
    };
    ActionFacts { output: output.or_else(|| facts.output.clone()), ..facts.clone() }
}
