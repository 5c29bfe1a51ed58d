//! Redacts secrets from callers' free text before it is journaled, and refuses names that hold one: a name
//! with a part struck out would be another name. Every request and command is matched exhaustively, so that a
//! new one does not compile until its text is handled here.

use std::sync::Arc;

use actbook_engine::bind::redaction_marker_path;
use actbook_engine::execution::{
    ActionFacts, AgentReport, CallVerdict, Command, DECISION_BYTES_MAX, ReportedOutcome, SessionCommand,
    parse_acting_decision,
};
use actbook_engine::note::NoteScope;
use actbook_engine::plan::Finding;
use actbook_engine::refusal::{DecisionPart, Refusal};
use actbook_engine::task::Task;
use serde_json::{Value, json};

use super::Service;
use crate::caller::{Caller, Right};
use crate::error::cures::SECRET_CURE;
use crate::error::{Error, SECRET_IN_PLAN, SecretProblem};
use crate::ledger::{
    AcceptToolRequest, AddTaskRequest, CommandRequest, DeleteNoteRequest, DeletePlanRequest, LedgerRequest,
    ListServerRequest, PublicId, RecordActionRequest, SavePlanRequest, SetNoteRequest, SetTasksRequest,
    StartRequest, StartSessionRequest,
};

/// What a name is of, such as `the task's id`, and the name that a caller gives.
type CallerName<'a> = (&'static str, &'a str);

impl Service {
    /// The caller's name as the journal keeps it, with secrets redacted. The kind of caller before the colon
    /// is never redacted: who may approve depends on it.
    pub(super) fn journaled_actor(&self, caller: &Caller) -> Arc<str> {
        self.redact_actor(&caller.actor).into()
    }

    /// Redacts the name in `kind:name`, and not the kind.
    fn redact_actor(&self, actor: &str) -> String {
        match actor.split_once(':') {
            Some((kind, name)) => format!("{kind}:{}", self.redact_name(name.to_owned())),
            None => self.redact_name(actor.to_owned()),
        }
    }

    /// The name with the secrets redacted that plans must not contain.
    pub fn redact_name(&self, mut name: String) -> String {
        self.tools.redact_name(&mut name);
        name
    }

    /// Refuses names that hold a known secret.
    fn refuse_secret_names<'a>(&self, names: impl IntoIterator<Item = CallerName<'a>>) -> Result<(), Error> {
        if !self.tools.has_secrets() {
            return Ok(());
        }
        names.into_iter().try_for_each(|(what, name)| self.refuse_secret_name(what, name))
    }

    /// Refuses a name that holds a known secret; the refusal names the variable that the secret comes from.
    /// `what` says what the name is of.
    pub(super) fn refuse_secret_name(&self, what: &'static str, name: &str) -> Result<(), Error> {
        match self.tools.find_secret(&Value::from(name)) {
            None => Ok(()),
            Some((_, origin)) => Err(Error::Secret(SecretProblem::InName { what, origin })),
        }
    }

    /// Redacts the free text of a command. Refused if arguments to be sent hold a known secret.
    fn redact_command(&self, command: &mut Command) -> Result<(), Error> {
        match command {
            Command::Pause { reason }
            | Command::Cancel { reason }
            | Command::Undo { reason, steps: _, approves: _ }
            | Command::Approve { step: _, reason, replies_to: _, scope: _ }
            | Command::Reject { step: _, reason, replies_to: _ } => self.redact_reason(reason)?,
            Command::Decide { step: _, answer: _, reason, output, arguments, approves: _, replies_to: _ } => {
                self.refuse_secret_arguments(arguments.as_ref())?;
                refuse_marker(arguments.as_ref())?;
                self.redact_reason(reason)?;
                self.redact_value(output);
            }
            Command::RecordReport { step: _, report, facts, by, replies_to: _ } => {
                by.iter_mut().for_each(|by| by.holder = self.redact_actor(&by.holder));
                self.redact_report(report);
                self.redact_facts(facts);
            }
            Command::RecordAction { step: _, status: _, facts }
            | Command::RecordCompensation { step: _, done: _, facts } => self.redact_facts(facts),
            Command::RecordDecision { decision, reason, step: _, details } => {
                self.tools.redact_text(decision);
                self.redact_text(reason);
                self.redact_value(details);
            }
            Command::Session(command) => self.redact_session_command(command)?,
            // Commands of a driver, whose tools have redacted what came back, and commands without text.
            Command::Claim { .. }
            | Command::Reclaim { .. }
            | Command::Drive { .. }
            | Command::ReportOutcome { .. }
            | Command::AdoptToolset { .. }
            | Command::MovePin { .. }
            | Command::Resume
            | Command::AcceptTask { .. }
            | Command::ErasePayloads => {}
        }
        Ok(())
    }

    /// Redacts what a session is to store: arguments, outputs, states and free text. Refused if a secret stands in a
    /// name, or in the arguments of a call that Actbook sends, which redacted would be another call.
    fn redact_session_command(&self, command: &mut SessionCommand) -> Result<(), Error> {
        match command {
            SessionCommand::AddCall(call) => {
                if !call.by_agent {
                    self.refuse_secret_arguments(Some(&call.arguments))?;
                }
                let ids = [
                    ("the call's id", &call.call),
                    ("the agent's id", &call.agent),
                    ("the client's name of the tool", &call.client_tool),
                ];
                let ids = ids.into_iter().filter_map(|(what, id)| Some((what, id.as_deref()?)));
                self.refuse_secret_names(ids.chain([("the tool's name", tool_part(&call.tool))]))?;
                // What is redacted looks the same whichever secret it was; an approval is for one of them.
                call.secrets = self.tools.name_secret_sources(&json!([call.arguments, call.folder]));
                self.tools.redact(&mut call.arguments);
                self.redact_text(&mut call.folder);
                self.redact_value(&mut call.before);
                if let CallVerdict::Refuse { error } = &mut call.verdict {
                    self.tools.redact(error);
                }
            }
            SessionCommand::StartCall { step: _, labels: _, node: _, before } => self.redact_value(before),
            SessionCommand::EndCall { step: _, outcome, after } => {
                self.redact_outcome(outcome);
                self.redact_value(after);
            }
            SessionCommand::KeepState { step: _, moment: _, state } => self.tools.redact(state),
            SessionCommand::ClearLabel { label: _, reason }
            | SessionCommand::Close { reason, idle_since: _ } => self.redact_text(reason),
            SessionCommand::StopWaiting { step: _ } | SessionCommand::LoseCalls { node: _, unsent: _ } => {}
        }
        Ok(())
    }

    /// Redacts what a call of a session returned.
    fn redact_outcome(&self, outcome: &mut ReportedOutcome) {
        match outcome {
            ReportedOutcome::Succeeded { output: value }
            | ReportedOutcome::Failed { error: value, .. }
            | ReportedOutcome::Unknown { error: value, .. }
            | ReportedOutcome::InputRequired { question: value, .. } => self.tools.redact(value),
        }
    }

    /// Redacts the output or the reason of an agent's report.
    fn redact_report(&self, report: &mut AgentReport) {
        match report {
            AgentReport::Started => {}
            AgentReport::Succeeded { output } | AgentReport::Compensated { output } => {
                self.redact_value(output)
            }
            AgentReport::Failed { reason, category: _ } => self.redact_text(reason),
        }
    }

    /// Redacts all texts and values of the facts.
    fn redact_facts(&self, facts: &mut ActionFacts) {
        let ActionFacts { description, kind, entity, error, reason, action_taken, .. } = facts;
        for text in [description, kind, entity, error, reason, action_taken].into_iter().flatten() {
            self.tools.redact_text(text);
        }
        let ActionFacts { before_state, after_state, output, details, .. } = facts;
        for value in [before_state, after_state, output, details].into_iter().flatten() {
            self.tools.redact(value);
        }
    }

    /// Redacts a reason, if there is one. Refused if it is long: it stands in the entry itself, which every reader
    /// of the journal loads.
    fn redact_reason(&self, reason: &mut Option<String>) -> Result<(), Error> {
        if reason.as_ref().is_some_and(|reason| reason.len() > DECISION_BYTES_MAX) {
            let part = DecisionPart::Text;
            return Err(Refusal::DecisionTooLarge { part, bytes_max: DECISION_BYTES_MAX }.into());
        }
        self.redact_text(reason);
        Ok(())
    }

    /// Redacts the text, if there is one.
    fn redact_text(&self, text: &mut Option<String>) {
        text.iter_mut().for_each(|text| self.tools.redact_text(text));
    }

    fn redact_value(&self, value: &mut Option<Value>) {
        value.iter_mut().for_each(|value| self.tools.redact(value));
    }

    /// Redacts the path, message and cure of findings, which may quote the document or a server's description
    /// of its tools.
    pub(super) fn redact_findings(&self, findings: &mut [Finding]) {
        for finding in findings {
            let Finding { path, message, cure, .. } = finding;
            [path, message, cure].into_iter().for_each(|text| self.tools.redact_text(text));
        }
    }

    /// The finding that a plan's document holds a known secret, which would be stored and shown. `None`: it
    /// holds none.
    pub(super) fn secret_in_plan(&self, document: &str) -> Option<Finding> {
        let document: Value = self.tools.has_secrets().then(|| serde_json::from_str(document).ok())??;
        let (path, source) = self.tools.find_secret(&document)?;
        Some(Finding::error(SECRET_IN_PLAN, path, format!("contains the value of {source}"), SECRET_CURE))
    }

    /// Refuses inputs that hold a known secret. Inputs that the plan declares `writeOnly` were removed
    /// before.
    pub(super) fn refuse_secret_inputs(&self, inputs: Option<&Value>) -> Result<(), Error> {
        match inputs.and_then(|inputs| self.tools.find_secret(inputs)) {
            None => Ok(()),
            Some((path, origin)) => Err(Error::Secret(SecretProblem::InInput { path, origin })),
        }
    }

    /// Refuses arguments to be sent that hold a known secret.
    fn refuse_secret_arguments(&self, arguments: Option<&Value>) -> Result<(), Error> {
        match arguments.and_then(|arguments| self.tools.find_secret(arguments)) {
            None => Ok(()),
            Some((path, origin)) => Err(Error::Secret(SecretProblem::InArgument { path, origin })),
        }
    }
}

/// Refuses corrected arguments with the key that stands for a redacted secret: pages would not show the value.
fn refuse_marker(arguments: Option<&Value>) -> Result<(), Error> {
    match arguments.and_then(redaction_marker_path) {
        None => Ok(()),
        Some(path) => {
            let path = path.trim_start_matches('.').to_owned();
            Err(Error::Secret(SecretProblem::MarkerInArgument { path }))
        }
    }
}

/// A request that is redacted before the ledger gets it.
pub(super) trait RedactedRequest: LedgerRequest<Reply: PublicId> {
    /// Redacts the free text. Refused if a secret stands in arguments to be sent, which redacted would make a
    /// different call, or in a name that the request brings into the journal. A name that exists already, as
    /// of a step or of a task to change, is not checked: refusing it would only keep people from what it names.
    fn redact(&mut self, _service: &Service) -> Result<(), Error> {
        Ok(())
    }

    /// The right that the request needs: each request names its own, so that none is forgotten.
    fn required_right(&self) -> Right;
}

impl RedactedRequest for CommandRequest {
    fn required_right(&self) -> Right {
        match &*self.command {
            Command::Pause { .. }
            | Command::Resume
            | Command::Cancel { .. }
            | Command::Undo { .. }
            | Command::Decide { .. }
            | Command::AdoptToolset { .. }
            | Command::MovePin { .. }
            | Command::Session(SessionCommand::ClearLabel { .. }) => Right::Operate,
            Command::Approve { .. } | Command::Reject { .. } => Right::Approve,
            // `stop` and `continue` act, like cancel and resume.
            Command::RecordDecision { decision, .. }
                if matches!(parse_acting_decision(decision), Ok(Some(_))) =>
            {
                Right::Operate
            }
            Command::RecordReport { .. }
            | Command::RecordAction { .. }
            | Command::RecordCompensation { .. }
            | Command::RecordDecision { .. }
            | Command::Claim { .. }
            | Command::Reclaim { .. }
            | Command::Drive { .. }
            | Command::ReportOutcome { .. }
            | Command::AcceptTask { .. }
            | Command::Session(
                SessionCommand::AddCall(_)
                | SessionCommand::StartCall { .. }
                | SessionCommand::StopWaiting { .. }
                | SessionCommand::EndCall { .. }
                | SessionCommand::LoseCalls { .. }
                | SessionCommand::KeepState { .. }
                | SessionCommand::Close { .. },
            ) => Right::Run,
            Command::ErasePayloads => Right::Admin,
        }
    }

    fn redact(&mut self, service: &Service) -> Result<(), Error> {
        service.redact_command(Arc::make_mut(&mut self.command))
    }
}

impl RedactedRequest for StartSessionRequest {
    fn required_right(&self) -> Right {
        Right::Run
    }

    fn redact(&mut self, service: &Service) -> Result<(), Error> {
        service.redact_text(&mut self.session.folder);
        service.refuse_secret_names(self.session.key.iter().map(|key| ("the session's id", key.as_str())))
    }
}

impl RedactedRequest for AcceptToolRequest {
    fn required_right(&self) -> Right {
        Right::Admin
    }

    fn redact(&mut self, service: &Service) -> Result<(), Error> {
        service.redact_text(&mut self.reason);
        service.refuse_secret_names([("the tool's name", tool_part(&self.tool.name))])
    }
}

// The names of tools were redacted when they were listed.
impl RedactedRequest for ListServerRequest {
    fn required_right(&self) -> Right {
        Right::Run
    }
}

impl RedactedRequest for RecordActionRequest {
    fn required_right(&self) -> Right {
        Right::Run
    }

    fn redact(&mut self, service: &Service) -> Result<(), Error> {
        service.redact_facts(&mut self.facts);
        Ok(())
    }
}

// The texts of notes and tasks were redacted before they were indexed.
impl RedactedRequest for SetNoteRequest {
    fn required_right(&self) -> Right {
        Right::Run
    }

    fn redact(&mut self, service: &Service) -> Result<(), Error> {
        let note_type = self.note.r#type.iter().map(|name| ("the note's type", name.as_str()));
        service.refuse_secret_names(note_type.chain(task_of(&self.note.scope)))
    }
}

impl RedactedRequest for SetTasksRequest {
    /// `Run`: whoever may start executions may also create and change tasks.
    fn required_right(&self) -> Right {
        Right::Run
    }

    fn redact(&mut self, service: &Service) -> Result<(), Error> {
        let names = self.tasks.iter().flat_map(|(task, _)| names_of_task(task, self.create));
        service.refuse_secret_names(names)
    }
}

impl RedactedRequest for AddTaskRequest {
    fn required_right(&self) -> Right {
        Right::Run
    }

    fn redact(&mut self, service: &Service) -> Result<(), Error> {
        service.refuse_secret_names(names_of_task(&self.task, true))
    }
}

// Plans and inputs with a secret were refused before, with the names in them.
impl RedactedRequest for SavePlanRequest {
    fn required_right(&self) -> Right {
        Right::Run
    }
}

impl RedactedRequest for StartRequest {
    fn required_right(&self) -> Right {
        Right::Run
    }
}

// These name only what exists.
impl RedactedRequest for DeletePlanRequest {
    fn required_right(&self) -> Right {
        Right::Run
    }
}

impl RedactedRequest for DeleteNoteRequest {
    fn required_right(&self) -> Right {
        Right::Run
    }
}

/// The part of `server/tool` that the server chose; the server's name is the config's.
pub(super) fn tool_part(name: &str) -> &str {
    name.split_once('/').map_or(name, |(_, tool)| tool)
}

/// The id of the task that owns a note. `None`: no task does.
fn task_of(scope: &NoteScope) -> Option<CallerName<'_>> {
    match scope {
        NoteScope::Task(id) => Some(("the task's id", id)),
        NoteScope::Everybody | NoteScope::Plan(_) | NoteScope::Execution(_) => None,
    }
}

/// The names that a new task (`create`) or a change of a task brings into the journal. Empty for a subtask of
/// a plan's step: its names are those of the task and of the step, which exist.
fn names_of_task(task: &Task, create: bool) -> Vec<CallerName<'_>> {
    if task.step.is_some() {
        return Vec::new();
    }
    let id = create.then_some(("the task's id", task.id.as_str()));
    let optional = [("the parent's id", &task.parent), ("the task's type", &task.r#type)];
    let optional = optional.into_iter().filter_map(|(what, name)| Some((what, name.as_deref()?)));
    let labels = task.labels.iter().flatten().map(|label| ("a label", label.as_str()));
    id.into_iter().chain(optional).chain(labels).collect()
}
