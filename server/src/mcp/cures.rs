//! Words errors for agents: an agent needs the tool call where a person needs the command. Knows errors and
//! findings, and no state.

mod refusal;

use actbook_engine::plan::{CureAction, Finding};

pub use refusal::{action_name, refusal_cure_for_agent};

use crate::config::ConfigError;
use crate::error::{Corruption, ErasedUse, Error, ErrorReport, PersonAct, StoreError, command_line};

const TRUST_CURE: &str = "its servers are not started: your user reads that file, runs `actbook trust` in its folder and starts this server again";

/// The error as MCP's structured content and texts show it.
pub fn report_for_agent(error: &Error) -> ErrorReport {
    ErrorReport {
        code: error.code(),
        message: message_for_agent(error),
        cure: cure_for_agent(error),
        path: error.path().map(str::to_owned),
        findings: findings_for_agent(error.findings().to_vec()),
    }
}

/// The message of an error, worded for an agent where it is a refusal.
pub fn message_for_agent(error: &Error) -> String {
    error.refusal().map_or_else(|| error.to_string(), refusal::refusal_message_for_agent)
}

/// The cure for an error, for an agent: the tool call to make, or what is for the agent's user to do.
pub fn cure_for_agent(error: &Error) -> String {
    let cure = match error {
        Error::Refused(refusal) => return refusal_cure_for_agent(refusal),
        Error::Invalid(document) => {
            return document.findings.first().map(finding_cure_for_agent).unwrap_or_default();
        }
        Error::UntrustedConfig(_) => TRUST_CURE,
        Error::NoSuchExecution { .. } => "status without arguments shows them",
        Error::NoSuchPlan { nearest: None, .. } => {
            "plan {\"action\":\"list\"} shows them; or give the document as `plan`"
        }
        Error::NoSuchTemplate { nearest: None, .. } => "template with action \"list\" shows them",
        Error::NoSuchNote { .. } => "query_context with `search` finds notes",
        Error::ToolUnavailable { .. } => return action_cure(error.cure_action(), &command_line::cure(error)),
        Error::InvalidArguments { .. } => {
            "list_tools with the tool's name as `search` shows its schema; give all arguments of the call"
        }
        // Their cures name a command.
        Error::Config(ConfigError::Malformed { .. } | ConfigError::Refused { .. })
        | Error::Corrupt(Corruption::Fold(_) | Corruption::Entry(_) | Corruption::Row(_))
        | Error::ToolChanged { .. }
        | Error::Erased { needed_for: ErasedUse::Rerun { .. } }
        | Error::NeedsPerson(PersonAct::Approve { .. })
        | Error::Forbidden { .. }
        | Error::NoSuchToken { .. }
        | Error::NoSuchSession { .. }
        | Error::NotAnExport { .. } => return for_user(error),
        Error::Store(cause) if names_command(cause) => return for_user(error),
        // Their cures are the same for every reader.
        Error::Config(ConfigError::Unreadable { .. } | ConfigError::Ambiguous { .. })
        | Error::Store(_)
        | Error::Corrupt(Corruption::NoHead)
        | Error::Closed(_)
        | Error::NodeLock(_)
        | Error::KeyFile { .. }
        | Error::Bug(_)
        | Error::NoSuchStep { .. }
        | Error::NoSuchPlan { nearest: Some(_), .. }
        | Error::NoSuchVersion { .. }
        | Error::NoSuchTemplate { nearest: Some(_), .. }
        | Error::ServerNotConfigured { .. }
        | Error::NoSuchKind { .. }
        | Error::NoSuchStatus(_)
        | Error::NoSuchCategory(_)
        | Error::Ambiguous(_)
        | Error::NothingToAccept { .. }
        | Error::InvalidExecutor { .. }
        | Error::InvalidName { .. }
        | Error::InvalidKey { .. }
        | Error::NoWords { .. }
        | Error::ForeignCursor
        | Error::SeveralOwners
        | Error::StepWithoutExecution
        | Error::OutputNotAllowed { .. }
        | Error::ReplyDoesNotFit(_)
        | Error::ShippedTemplate { .. }
        | Error::Erased { needed_for: ErasedUse::Template }
        | Error::Secret(_)
        | Error::NeedsPerson(
            PersonAct::DeleteForeignPlan | PersonAct::DeleteForeignTemplate | PersonAct::Share,
        )
        | Error::ExportNotWritten(_)
        | Error::CommandLine(_)
        | Error::Agent(_) => return command_line::cure(error),
    };
    cure.to_owned()
}

/// The command line's cure, marked `for your user` because the agent cannot follow it itself.
fn for_user(error: &Error) -> String {
    format!("for your user: {}", command_line::cure(error))
}

/// Whether the command line's cure for a failure of the database names a command of Actbook.
fn names_command(error: &StoreError) -> bool {
    match error {
        StoreError::Constraint(_)
        | StoreError::ConnectionLost(_)
        | StoreError::HeadMoved
        | StoreError::Failed(_)
        | StoreError::WrongColumn { .. } => true,
        StoreError::Open { .. }
        | StoreError::UnsafeDurability { .. }
        | StoreError::NewerSchema { .. }
        | StoreError::DiskFull { .. }
        | StoreError::ReadOnly { .. }
        | StoreError::Busy { .. }
        | StoreError::ForeignDatabase { .. }
        | StoreError::TooManyWords { .. }
        | StoreError::Backup { .. }
        | StoreError::BackupUnsupported => false,
    }
}

/// The findings with cures worded for an agent.
pub fn findings_for_agent(findings: Vec<Finding>) -> Vec<Finding> {
    findings
        .into_iter()
        .map(|finding| Finding { cure: finding_cure_for_agent(&finding), ..finding })
        .collect()
}

/// The cure of a finding, worded for an agent.
fn finding_cure_for_agent(finding: &Finding) -> String {
    action_cure(finding.action, &finding.cure)
}

/// The cure for an agent. `action`: what the cure asks for, if an agent does it otherwise than a person.
/// `cure`: the command line's words, which are the agent's if there is no action.
fn action_cure(action: Option<CureAction>, cure: &str) -> String {
    let reworded = match action {
        None => cure,
        Some(CureAction::ReadToolSchema) => "list_tools with the tool's name as `search` shows its schema",
        Some(CureAction::ReadToolDescription) => {
            "read its description in list_tools, and be careful with its server"
        }
        Some(CureAction::ListTools) => {
            "list_tools shows what there is; your user names servers in actbook.yaml"
        }
        Some(CureAction::ListServerTools) => return format!("for your user: {cure}"),
        Some(CureAction::InspectServers) => "list_tools says what is wrong with its server; tell your user",
        Some(CureAction::TrustConfig) => TRUST_CURE,
    };
    reworded.to_owned()
}
