//! An error as agents get it: answers named as the actions of `control` are, and cures for agents.

use actbook_engine::plan::Finding;
use actbook_engine::refusal::Refusal;

use crate::error::cures::{action_name, finding_cure_for_agent};
use crate::error::{Error, ErrorReport};

/// The error as MCP's structured content and texts show it.
pub fn report_for_agent(error: &Error) -> ErrorReport {
    ErrorReport {
        message: message_for_agent(error),
        cure: error.cures().agent,
        findings: findings_for_agent(error.findings().to_vec()),
        ..ErrorReport::for_command_line(error)
    }
}

/// The message of an error, worded for an agent where it names an answer.
pub fn message_for_agent(error: &Error) -> String {
    match error.refusal() {
        Some(Refusal::AnswerNotAllowed { answer, step, status, .. }) => {
            format!("`{}` does not fit: step `{step}` is {status}", action_name(*answer))
        }
        Some(Refusal::OutputNotAllowed { answer }) => {
            format!("an output does not go with `{}`", action_name(*answer))
        }
        Some(_) | None => error.to_string(),
    }
}

/// The findings with cures worded for an agent.
pub fn findings_for_agent(findings: Vec<Finding>) -> Vec<Finding> {
    findings
        .into_iter()
        .map(|finding| Finding { cure: finding_cure_for_agent(&finding), ..finding })
        .collect()
}
