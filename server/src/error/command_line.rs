//! What to do about an error, for people at the command line and for programs that embed Actbook.

mod refusal;

pub use refusal::refusal_cure;

use super::{
    Ambiguity, ClosedPart, Corruption, ErasedUse, Error, ErrorReport, InvalidDocument, PersonAct,
    SecretProblem,
};
use crate::caller::{Right, Role};
use crate::config::{ConfigError, WithheldConfig, WithheldReason};
use crate::store;
use crate::tools::CatalogError;

/// The cure for a secret in a value that would be stored.
pub const SECRET_CURE: &str = "leave it out: `${env:NAME}` in the config puts it in when the call is made; a value that is no secret \
                               is written into the config as it is";

/// The error as `--json` and the library show it.
pub fn report(error: &Error) -> ErrorReport {
    ErrorReport {
        code: error.code(),
        message: error.to_string(),
        cure: cure(error),
        path: error.path().map(str::to_owned),
        findings: error.findings().to_vec(),
    }
}

/// The cure for an error: what to do instead.
pub fn cure(error: &Error) -> String {
    let cure = match error {
        Error::Refused(refusal) => return refusal_cure(refusal),
        Error::Invalid(document) => return document_cure(document),
        Error::Config(error) => config_cure(error),
        Error::UntrustedConfig(withheld) => return trust_cure(withheld),
        Error::Store(error) => store_cure(error),
        Error::Corrupt(corruption) => corruption_cure(corruption),
        Error::Closed(ClosedPart::Ledger | ClosedPart::Journal) => "start actbook again",
        Error::Closed(ClosedPart::Client) => "open another one",
        Error::NodeLock(error) if error.kind() == std::io::ErrorKind::StorageFull => {
            "free some space on the disk of the data folder"
        }
        Error::NodeLock(_) | Error::KeyFile { .. } => "make the data folder writable",
        Error::Bug(_) => "this is a bug in actbook",
        Error::NoSuchExecution { .. } => "`actbook list` shows them",
        Error::NoSuchStep { suggestion, .. } => return refusal::step_suggestion(suggestion),
        Error::NoSuchPlan { nearest: None, .. } => {
            "`actbook plan list` shows the saved ones; a file is given by its path"
        }
        Error::NoSuchVersion { newest, .. } => return format!("its newest version is {newest}"),
        Error::NoSuchTemplate { nearest: None, .. } => "`actbook template list` shows them",
        Error::NoSuchPlan { nearest: Some(nearest), .. }
        | Error::NoSuchTemplate { nearest: Some(nearest), .. } => return did_you_mean(nearest),
        Error::NoSuchNote { .. } => "`actbook context search WORDS` finds notes",
        Error::ToolUnavailable { error, nearest } => return tool_cure(error, nearest.as_deref()),
        Error::ServerNotConfigured { .. } => "name its config with --config",
        Error::NoSuchKind { alike, known, .. } => return kind_cure(alike, known),
        Error::NoSuchStatus(_) | Error::NoSuchCategory(_) => "give one of these, or leave it out",
        Error::Ambiguous(ambiguity) => ambiguity_cure(ambiguity),
        Error::InvalidArguments { tool, .. } => {
            return format!("`actbook tools show {tool}` shows what it takes");
        }
        Error::ToolChanged { tool, .. } => {
            return format!("read it, then save the plan again, or `actbook tools accept {tool}`");
        }
        Error::NothingToAccept { .. } => "accept tools of servers and commands",
        Error::InvalidExecutor { .. } => "give each tool of the program once, as server/tool",
        Error::InvalidName { .. } => "use one line of plain text",
        Error::InvalidKey { .. } => "use a fresh random id for each new request",
        Error::ForeignCursor => {
            "repeat the request without the cursor, or with the filters of its first page"
        }
        Error::NoWords { .. } => "search for words, the beginning of one (begin*), or \"a phrase\"",
        Error::SeveralOwners => "name the narrowest one",
        Error::StepWithoutExecution => "name the execution, or leave the step out",
        Error::OutputNotAllowed { .. } => "give one with `succeeded` or `compensated`; nothing was recorded",
        Error::ReplyDoesNotFit(unfit) => {
            return format!("it asks under {}", refusal::quoted_list(&unfit.asked));
        }
        Error::ShippedTemplate { .. } => "only templates that were saved can be deleted",
        Error::Erased { needed_for: ErasedUse::Rerun { plan } } => {
            return format!("start it again: `actbook run {plan} --input NAME=VALUE`");
        }
        Error::Erased { needed_for: ErasedUse::Template } => "make the template of its plan: `template save`",
        Error::Secret(problem) => secret_cure(problem),
        Error::NeedsPerson(act) => return person_cure(act),
        Error::Forbidden { needed } => return forbidden_cure(*needed),
        Error::NoSuchToken { .. } => "`actbook token list` shows them",
        Error::NoSuchSession { .. } => "`GET /api/v1/sessions` lists them",
        Error::NotAnExport { .. } => "make one with `actbook export EXECUTION`",
        Error::ExportNotWritten(_) => "choose another file",
        Error::CommandLine(error) => return error.cure.clone(),
        Error::Agent(error) => return error.cure.clone(),
    };
    cure.to_owned()
}

/// The cure of the first finding, and the command that lists all of them where there are several.
fn document_cure(document: &InvalidDocument) -> String {
    let cure = document.findings.first().map(|first| first.cure.clone()).unwrap_or_default();
    match (&document.file, document.findings.len()) {
        (Some(file), count @ 2..) => format!("{cure}; `actbook check {file}` shows all {count}"),
        (Some(_) | None, _) => cure,
    }
}

fn config_cure(error: &ConfigError) -> &'static str {
    match error {
        ConfigError::Unreadable { .. } => "check --config (or ACTBOOK_CONFIG)",
        ConfigError::Ambiguous { .. } => "keep one of them, or name it with --config",
        ConfigError::Malformed { .. } | ConfigError::Refused { .. } => {
            "correct the config; `actbook help config` describes every key"
        }
    }
}

/// The cure for a config that has no effect.
pub fn trust_cure(withheld: &WithheldConfig) -> String {
    match withheld.reason {
        WithheldReason::NeverTrusted | WithheldReason::ChangedSince => {
            format!("read it, then run `actbook trust` in {}", withheld.folder().display())
        }
        WithheldReason::Broken(_) => "correct it, then run `actbook trust` there".to_owned(),
    }
}

fn store_cure(error: &store::Error) -> &'static str {
    match error {
        store::Error::Open { .. } => "check --database (or ACTBOOK_DATABASE)",
        store::Error::DiskFull { .. } => {
            "free some disk space, then try again; nothing that was acknowledged is lost"
        }
        store::Error::ReadOnly { .. } => {
            "make both writable for this account, or choose another place with --database (or ACTBOOK_DATABASE)"
        }
        store::Error::UnsafeDurability { .. } => {
            "turn it on, or accept that with --unsafe-durability (`unsafe_durability()` in a program)"
        }
        store::Error::NewerSchema { .. } => "run that Actbook, or open a copy from before it with --database",
        store::Error::Busy { .. } => {
            "try again when that process has finished; continue it if it was stopped (`kill -CONT`), or end it"
        }
        store::Error::ForeignDatabase { .. } => {
            "give Actbook a file of its own with --database (or ACTBOOK_DATABASE); a new one is made where there is none"
        }
        store::Error::TooManyWords { .. } => "search for fewer words",
        store::Error::Backup { .. } => "choose another file",
        store::Error::BackupUnsupported => "`pg_dump` copies it while others write",
        store::Error::Constraint(_)
        | store::Error::ConnectionLost(_)
        | store::Error::HeadMoved
        | store::Error::Failed(_)
        | store::Error::WrongColumn { .. } => "nothing was lost; `actbook doctor` checks the database",
    }
}

fn corruption_cure(corruption: &Corruption) -> &'static str {
    match corruption {
        Corruption::Fold(_) => "`actbook verify` names the first bad position",
        Corruption::Entry(_) => "run `actbook verify`",
        Corruption::Row(_) => "run `actbook rebuild`",
        Corruption::NoHead => "restore a backup",
    }
}

fn tool_cure(error: &CatalogError, nearest: Option<&str>) -> String {
    match (error, nearest) {
        (CatalogError::Untrusted(withheld), _) => trust_cure(withheld),
        (CatalogError::Unreachable { .. }, _) => "`actbook doctor` checks every server".to_owned(),
        (CatalogError::DisabledServer { .. }, _) => {
            "remove `disabled: true` from it, or use another server".to_owned()
        }
        (
            CatalogError::BadName(_) | CatalogError::UnknownServer { .. } | CatalogError::UnknownTool { .. },
            Some(nearest),
        ) => did_you_mean(nearest),
        (
            CatalogError::BadName(_) | CatalogError::UnknownServer { .. } | CatalogError::UnknownTool { .. },
            None,
        ) => "`actbook tools list` shows what there is; servers are named in actbook.yaml".to_owned(),
    }
}

fn kind_cure(alike: &[&str], known: &[&str]) -> String {
    let quoted = refusal::quoted_list;
    if alike.is_empty() {
        format!("give one of: {}; its beginning is enough, as in `attempt`", quoted(known))
    } else {
        format!("did you mean {}? The beginning of a kind is enough, as in `attempt`", quoted(alike))
    }
}

fn ambiguity_cure(ambiguity: &Ambiguity) -> &'static str {
    match ambiguity {
        Ambiguity::ExecutionId { .. } | Ambiguity::PlanId { .. } => "give more of the id",
        Ambiguity::Token { .. } => "give its whole id",
        Ambiguity::NoteKey { .. } | Ambiguity::NoteOwner { .. } => "name its task, its plan or its execution",
    }
}

fn secret_cure(problem: &SecretProblem) -> &'static str {
    match problem {
        SecretProblem::InName { .. } => "use another name: it is kept and shown as it is written",
        SecretProblem::InArgument { .. } | SecretProblem::InInput { .. } => SECRET_CURE,
        SecretProblem::InTemplateInput { .. } => "give it when the plan runs",
        SecretProblem::NotKept { .. } => "give it again by its name",
    }
}

fn person_cure(act: &PersonAct) -> String {
    match act {
        PersonAct::DeleteForeignPlan | PersonAct::DeleteForeignTemplate => {
            "a person can delete it at the command line".to_owned()
        }
        PersonAct::Share => {
            "leave `everywhere` out, or ask your user for `everywhere: agents` in the config".to_owned()
        }
        PersonAct::Approve { execution } => format!("a person runs `actbook approve {execution}`"),
    }
}

/// The roles that have the right.
fn forbidden_cure(needed: Right) -> String {
    let roles: Vec<&str> =
        Role::ALL.into_iter().filter(|role| role.rights().has(needed)).map(Role::as_str).collect();
    format!("use a token with the role {}: `actbook token create --role ROLE`", roles.join(" or "))
}

fn did_you_mean(nearest: &str) -> String {
    format!("did you mean `{nearest}`?")
}
