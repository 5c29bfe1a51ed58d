//! The one place where the free text of callers loses what is secret, before anything of it is journaled. Whatever a new
//! command takes from its caller is named here, or this does not compile.

use std::sync::Arc;

use actbook_engine::execution::{Command, Facts, Report};
use actbook_engine::plan::Finding;
use serde_json::Value;

use super::Service;
use crate::error::Error;
use crate::ledger::Request;

/// The code of a plan that holds a secret.
pub(super) const SECRET_IN_PLAN: &str = "secret_in_plan";
const CURE: &str = "leave it out: `${env:NAME}` in the config puts it in when the call is made; a value that is no secret \
                    is written into the config as it is";

impl Service {
    /// Redacts the free text of a request. Refused where a secret stands in what would be sent: redacted, it would be
    /// another call.
    pub(super) fn redact_request(&self, request: &mut Request) -> Result<(), Error> {
        match request {
            Request::Do { command, .. } => self.redact_command(Arc::make_mut(command))?,
            Request::AcceptTool { reason, .. } => self.redact_text(reason),
            Request::Act { facts, .. } => self.redact_facts(facts),
            // Plans and inputs that hold a secret were refused; notes and tasks lost theirs before they were indexed.
            Request::SavePlan(_)
            | Request::Start(_)
            | Request::SetNote(_)
            | Request::SetTasks { .. }
            | Request::AddTask(_) => {}
            Request::DeletePlan { .. }
            | Request::EraseAct { .. }
            | Request::DeleteNote { .. }
            | Request::EraseNote { .. } => {}
        }
        Ok(())
    }

    fn redact_command(&self, command: &mut Command) -> Result<(), Error> {
        match command {
            Command::Pause { reason }
            | Command::Cancel { reason }
            | Command::Undo { reason, approves: _ }
            | Command::Approve { step: _, reason }
            | Command::Reject { step: _, reason } => self.redact_text(reason),
            Command::Decide { step: _, answer: _, reason, output, arguments, approves: _ } => {
                self.refuse_secrets("secret_argument", "the argument", arguments.as_ref())?;
                self.redact_text(reason);
                self.redact_value(output);
            }
            Command::Record { step: _, report, facts, by: _ } => {
                self.redact_report(report);
                self.redact_facts(facts);
            }
            Command::Note { step: _, status: _, facts }
            | Command::RecordCompensation { step: _, done: _, facts } => self.redact_facts(facts),
            Command::RecordDecision { decision, reason, step: _, details } => {
                self.tools.redact_text(decision);
                self.redact_text(reason);
                self.redact_value(details);
            }
            // Of a driver, whose tools have redacted what came back, or without any text.
            Command::Claim { .. }
            | Command::ClaimAgain { .. }
            | Command::Drive { .. }
            | Command::Report { .. }
            | Command::Adopt { .. }
            | Command::MovePin { .. }
            | Command::Resume
            | Command::Accept { .. }
            | Command::Erase => {}
        }
        Ok(())
    }

    fn redact_report(&self, report: &mut Report) {
        match report {
            Report::Started => {}
            Report::Succeeded { output } | Report::Compensated { output } => self.redact_value(output),
            Report::Failed { reason, category: _ } => self.redact_text(reason),
        }
    }

    fn redact_facts(&self, facts: &mut Facts) {
        let Facts { description, kind, entity, error, reason, action_taken, .. } = facts;
        for text in [description, kind, entity, error, reason, action_taken].into_iter().flatten() {
            self.tools.redact_text(text);
        }
        let Facts { before_state, after_state, output, details, .. } = facts;
        for value in [before_state, after_state, output, details].into_iter().flatten() {
            self.tools.redact(value);
        }
    }

    fn redact_text(&self, text: &mut Option<String>) {
        text.iter_mut().for_each(|text| self.tools.redact_text(text));
    }

    fn redact_value(&self, value: &mut Option<Value>) {
        value.iter_mut().for_each(|value| self.tools.redact(value));
    }

    /// A finding may quote the document, or what a server says of its tools.
    pub(super) fn redact_findings(&self, findings: &mut [Finding]) {
        for finding in findings {
            let Finding { path, message, cure, .. } = finding;
            [path, message, cure].into_iter().for_each(|text| self.tools.redact_text(text));
        }
    }

    /// What is wrong with a plan that holds a secret: it would be kept, and shown to whoever reads it.
    pub(super) fn secret_in_plan(&self, document: &str) -> Option<Finding> {
        let document: Value = self.tools.knows_secrets().then(|| serde_json::from_str(document).ok())??;
        let (path, of) = self.tools.find_secret(&document)?;
        Some(Finding::error(SECRET_IN_PLAN, path, format!("holds the value of {of}"), CURE))
    }

    /// Refuses inputs that hold a secret. Those that the plan declares `writeOnly` are not kept.
    pub(super) fn refuse_secret_inputs(&self, inputs: Option<&Value>) -> Result<(), Error> {
        self.refuse_secrets("secret_input", "the input", inputs)
    }

    fn refuse_secrets(&self, code: &'static str, what: &str, value: Option<&Value>) -> Result<(), Error> {
        match value.and_then(|value| self.tools.find_secret(value)) {
            None => Ok(()),
            Some((path, of)) => {
                let message = format!("{what} `{path}` holds the value of {of}, and would be kept");
                Err(Error::new(code, message, CURE))
            }
        }
    }
}
