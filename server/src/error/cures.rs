//! What to do about an error, in the words of each interface's readers: all wordings of a case in one place.

mod refusal;

use actbook_engine::plan::{CureAction, Finding};

pub use refusal::action_name;

use super::{Ambiguity, ClosedPart, Corruption, ErasedUse, Error, InvalidDocument, PersonAct, SecretProblem};
use crate::caller::{Right, Role};
use crate::config::{ConfigError, WithheldConfig, WithheldReason};
use crate::store;
use crate::tools::CatalogError;

/// The cure for a secret in a value that would be stored.
pub const SECRET_CURE: &str = "leave it out: `${env:NAME}` in the config puts it in when the call is made; a value that is no secret \
                               is written into the config as it is";
/// What an agent does about servers that are not started because their config is not trusted.
const UNTRUSTED_FOR_AGENT: &str = "its servers are not started: your user reads that file, runs `actbook trust` in its folder and starts this server again (by reconnecting it in the client, or by restarting the client)";
const TOOL_SCHEMA_FOR_AGENT: &str = "list_tools with the tool's name as `search` shows its schema";

/// What to do about an error, for the readers of each interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cures {
    /// For people at the command line and for programs that embed Actbook: the command to run.
    pub command_line: String,
    /// The tool call to make, or what is for the agent's user to do.
    pub agent: String,
    /// For callers of the API and readers of a page: the request to make.
    pub api: String,
}

/// A cure that is the same for every reader.
fn cure(words: impl Into<String>) -> Cures {
    let words = words.into();
    Cures { command_line: words.clone(), agent: words.clone(), api: words }
}

impl Cures {
    /// With other words for agents.
    fn agent(self, words: impl Into<String>) -> Self {
        Self { agent: words.into(), ..self }
    }

    /// With other words for callers of the API.
    fn api(self, words: impl Into<String>) -> Self {
        Self { api: words.into(), ..self }
    }

    /// For agents marked as what they cannot do themselves.
    fn for_user(self) -> Self {
        let words = format!("for your user: {}", self.command_line);
        self.agent(words)
    }
}

/// The cures for an error.
pub fn cures(error: &Error) -> Cures {
    match error {
        Error::Refused(refusal) => refusal::cures(refusal),
        Error::Invalid(document) => document_cures(document),
        Error::Config(error) => config_cures(error),
        Error::UntrustedConfig(withheld) => trust_cures(withheld),
        Error::Store(error) => store_cures(error),
        Error::Corrupt(corruption) => corruption_cures(corruption),
        Error::Closed(ClosedPart::Ledger | ClosedPart::Journal) => cure("start actbook again"),
        Error::Closed(ClosedPart::Client) => cure("open another one"),
        Error::NodeLock(error) if error.kind() == std::io::ErrorKind::StorageFull => {
            cure("free some space on the disk of the data folder")
        }
        Error::NodeLock(_) | Error::KeyFile { .. } => cure("make the data folder writable"),
        Error::Bug(_) => cure("this is a bug in actbook"),
        Error::NoSuchExecution { .. } => list_executions(),
        Error::NoSuchStep { suggestion, .. } => cure(refusal::step_suggestion(suggestion)),
        Error::NoSuchPlan { nearest: None, .. } => {
            list_plans("`actbook plan list` shows the saved ones; a file is given by its path")
        }
        Error::NoSuchVersion { newest, .. } => cure(format!("its newest version is {newest}")),
        Error::NoSuchTemplate { nearest: None, .. } => list_templates(),
        Error::NoSuchPlan { nearest: Some(nearest), .. }
        | Error::NoSuchTemplate { nearest: Some(nearest), .. } => cure(did_you_mean(nearest)),
        Error::NoSuchNote { .. } => find_notes(),
        Error::ToolUnavailable { error, nearest } => tool_cures(error, nearest.as_deref()),
        Error::ServerNotConfigured { .. } => cure("name its config with --config"),
        Error::NoSuchKind { alike, known, .. } => cure(kind_cure(alike, known)),
        Error::NoSuchStatus(_) | Error::NoSuchCategory(_) => cure("give one of these, or leave it out"),
        Error::Ambiguous(ambiguity) => cure(ambiguity_cure(ambiguity)),
        Error::InvalidArguments { tool, .. } => read_tool_schema(tool),
        Error::ToolChanged { tool, .. } => accept_tool(tool),
        Error::NothingToAccept { .. } => cure("accept tools of servers and commands"),
        Error::InvalidExecutor { .. } => cure("give each tool of the program once, as server/tool"),
        Error::InvalidName { .. } => cure("use one line of plain text"),
        Error::InvalidKey { .. } => cure("use a fresh random id for each new request"),
        Error::ForeignCursor => {
            cure("repeat the request without the cursor, or with the filters of its first page")
        }
        Error::NoWords { .. } => cure("search for words, the beginning of one (begin*), or \"a phrase\""),
        Error::SeveralOwners => cure("name the narrowest one"),
        Error::StepWithoutExecution => cure("name the execution, or leave the step out"),
        Error::OutputNotAllowed { .. } => {
            cure("give one with `succeeded` or `compensated`; nothing was recorded")
        }
        Error::ReplyDoesNotFit(unfit) => {
            cure(format!("it asks under {}", refusal::quoted_list(&unfit.asked)))
        }
        Error::ShippedTemplate { .. } => cure("only templates that were saved can be deleted"),
        Error::Erased { needed_for } => erased_cures(needed_for),
        Error::Secret(problem) => cure(secret_cure(problem)),
        Error::NeedsPerson(act) => person_cures(act),
        Error::Forbidden { needed } => cure(forbidden_cure(*needed)).for_user(),
        Error::NoSuchToken { .. } => {
            cure("`actbook token list` shows them").for_user().api("GET /api/v1/tokens lists them")
        }
        Error::NoSuchSession { .. } => {
            cure("`GET /api/v1/sessions` lists them").for_user().api("GET /api/v1/sessions lists them")
        }
        Error::NotAnExport { .. } => cure("make one with `actbook export EXECUTION`")
            .for_user()
            .api("GET /api/v1/executions/{id}/export makes one"),
        Error::ExportNotWritten(_) => cure("choose another file"),
        Error::CommandLine(error) => cure(&error.cure),
        Error::Agent(error) => cure(&error.cure),
    }
}

fn list_executions() -> Cures {
    cure("`actbook list` shows them")
        .agent("status without arguments shows them")
        .api("GET /api/v1/executions lists them")
}

/// The cures for a plan that does not exist. `command`: the command that lists the saved ones.
fn list_plans(command: &str) -> Cures {
    cure(command)
        .agent("plan {\"action\":\"list\"} shows them; or give the document as `plan`")
        .api("GET /api/v1/plans lists the saved ones")
}

fn list_templates() -> Cures {
    cure("`actbook template list` shows them")
        .agent("template with action \"list\" shows them")
        .api("GET /api/v1/templates lists them")
}

fn find_notes() -> Cures {
    cure("`actbook context search WORDS` finds notes")
        .agent("query_context with `search` finds notes")
        .api("GET /api/v1/context?search= finds notes")
}

fn read_tool_schema(tool: &str) -> Cures {
    cure(format!("`actbook tools show {tool}` shows what it takes"))
        .agent(format!("{TOOL_SCHEMA_FOR_AGENT}; give all arguments of the call"))
        .api("GET /api/v1/tools shows what the tool takes")
}

fn accept_tool(tool: &str) -> Cures {
    cure(format!("read it, then save the plan again, or `actbook tools accept {tool}`"))
        .for_user()
        .api("read its new definition (GET /api/v1/tools), then save the plan again or accept the tool")
}

fn erased_cures(needed_for: &ErasedUse) -> Cures {
    match needed_for {
        ErasedUse::Rerun { plan } => cure(format!("start it again: `actbook run {plan} --input NAME=VALUE`"))
            .for_user()
            .api("start it again with its inputs: POST /api/v1/executions"),
        ErasedUse::Template => cure("make the template of its plan: `template save`"),
    }
}

/// The cure of the first finding, and the command that lists all of them where there are several.
fn document_cures(document: &InvalidDocument) -> Cures {
    let Some(first) = document.findings.first() else { return cure("") };
    let first_cure = finding_cure_for_command_line(first);
    let command_line = match (&document.file, document.findings.len()) {
        (Some(file), count @ 2..) => format!("{first_cure}; `actbook check {file}` shows all {count}"),
        (Some(_) | None, _) => first_cure,
    };
    cure(command_line).api(&first.cure).agent(finding_cure_for_agent(first))
}

/// The cure of a finding, worded for the command line.
pub fn finding_cure_for_command_line(finding: &Finding) -> String {
    match finding.action {
        Some(CureAction::ReadToolSchema | CureAction::ReadToolDescription) => {
            format!("{}: `actbook tools show SERVER/TOOL` prints it", finding.cure)
        }
        Some(CureAction::GiveInputs) => {
            let name = finding.path.strip_prefix("inputs.").unwrap_or("NAME");
            format!(
                "give it as --input {name}=…, or in a file with --inputs; `actbook plan show PLAN` shows the plan's `inputs`"
            )
        }
        Some(
            CureAction::ListTools
            | CureAction::ListServerTools
            | CureAction::InspectServers
            | CureAction::TrustConfig,
        )
        | None => finding.cure.clone(),
    }
}

/// The cure of a finding, worded for an agent.
pub fn finding_cure_for_agent(finding: &Finding) -> String {
    action_cures(finding.action, cure(&finding.cure)).agent
}

/// A cure that asks for this action, if an agent does it otherwise than a person.
fn action_cures(action: Option<CureAction>, cure: Cures) -> Cures {
    match action {
        None => cure,
        Some(CureAction::ReadToolSchema) => cure.agent(TOOL_SCHEMA_FOR_AGENT),
        Some(CureAction::ReadToolDescription) => {
            cure.agent("read its description in list_tools, and be careful with its server")
        }
        Some(CureAction::ListTools) => {
            cure.agent("list_tools shows what there is; your user names servers in actbook.yaml")
        }
        Some(CureAction::ListServerTools) => cure.for_user(),
        Some(CureAction::InspectServers) => {
            cure.agent("list_tools says what is wrong with its server; tell your user")
        }
        Some(CureAction::TrustConfig) => cure.agent(UNTRUSTED_FOR_AGENT),
        Some(CureAction::GiveInputs) => {
            cure.agent("give it under `inputs`; plan {\"action\":\"show\"} shows the plan's `inputs`")
        }
    }
}

fn config_cures(error: &ConfigError) -> Cures {
    match error {
        ConfigError::Unreadable { .. } => cure("check --config (or ACTBOOK_CONFIG)"),
        ConfigError::Ambiguous { .. } => cure("keep one of them, or name it with --config"),
        ConfigError::Malformed { .. } | ConfigError::Refused { .. } => {
            cure("correct the config; `actbook help config` describes every key").for_user()
        }
    }
}

/// The command line's cure for a config that has no effect.
pub fn trust_cure(withheld: &WithheldConfig) -> String {
    match withheld.reason {
        WithheldReason::NeverTrusted | WithheldReason::ChangedSince => {
            format!("read it, then run `actbook trust` in {}", withheld.folder().display())
        }
        WithheldReason::Broken(_) => "correct it, then run `actbook trust` there".to_owned(),
    }
}

fn trust_cures(withheld: &WithheldConfig) -> Cures {
    action_cures(Some(CureAction::TrustConfig), cure(trust_cure(withheld)))
}

fn store_cures(error: &store::Error) -> Cures {
    match error {
        store::Error::Open { .. } => cure("check --database (or ACTBOOK_DATABASE)"),
        store::Error::DiskFull { .. } => {
            cure("free some disk space, then try again; nothing that was acknowledged is lost")
        }
        store::Error::ReadOnly { .. } => cure(
            "make both writable for this account, or choose another place with --database (or ACTBOOK_DATABASE)",
        ),
        store::Error::UnsafeDurability { .. } => {
            cure("turn it on, or accept that with --unsafe-durability (`unsafe_durability()` in a program)")
        }
        store::Error::NewerSchema { .. } => {
            cure("run that Actbook, or open a copy from before it with --database")
        }
        store::Error::OlderSchema { .. } => {
            cure("end older Actbooks and run any command of this one, such as `actbook list`: it migrates the database")
                .for_user()
        }
        store::Error::Busy { .. } => cure(
            "try again when that process has finished; continue it if it was stopped (`kill -CONT`), or end it",
        ),
        store::Error::ForeignDatabase { .. } => cure(
            "give Actbook a file of its own with --database (or ACTBOOK_DATABASE); a new one is made where there is none",
        ),
        store::Error::TooManyWords { .. } => cure("search for fewer words"),
        store::Error::Backup { .. } => cure("choose another file"),
        store::Error::BackupUnsupported => cure("`pg_dump` copies it while others write"),
        store::Error::Constraint(_)
        | store::Error::ConnectionLost(_)
        | store::Error::HeadMoved
        | store::Error::Failed(_)
        | store::Error::WrongColumn { .. } => {
            cure("nothing was lost; `actbook doctor` checks the database").for_user()
        }
    }
}

fn corruption_cures(corruption: &Corruption) -> Cures {
    let verify = "POST /api/v1/journal:verify names the first bad position";
    match corruption {
        Corruption::Fold(_) => cure("`actbook verify` names the first bad position").for_user().api(verify),
        Corruption::Entry(_) => cure("run `actbook verify`").for_user().api(verify),
        Corruption::Row(_) => cure("run `actbook rebuild`").for_user(),
        Corruption::NoHead => cure("restore a backup"),
    }
}

fn tool_cures(error: &CatalogError, nearest: Option<&str>) -> Cures {
    let cure = match (error, nearest) {
        (CatalogError::Untrusted(withheld), _) => return trust_cures(withheld),
        (CatalogError::Unreachable { .. }, _) => cure("`actbook doctor` checks every server"),
        (CatalogError::DisabledServer { .. }, _) => {
            cure("remove `disabled: true` from it, or use another server")
        }
        (
            CatalogError::BadName(_) | CatalogError::UnknownServer { .. } | CatalogError::UnknownTool { .. },
            Some(nearest),
        ) => cure(did_you_mean(nearest)),
        (
            CatalogError::BadName(_) | CatalogError::UnknownServer { .. } | CatalogError::UnknownTool { .. },
            None,
        ) => cure("`actbook tools list` shows what there is; servers are named in actbook.yaml"),
    };
    action_cures(tool_action(error, nearest), cure)
}

/// What a reader does about a tool that cannot be described; `None`: the same for every reader.
pub(super) fn tool_action(error: &CatalogError, nearest: Option<&str>) -> Option<CureAction> {
    match error {
        CatalogError::Unreachable { .. } => Some(CureAction::InspectServers),
        CatalogError::Untrusted(_) => Some(CureAction::TrustConfig),
        CatalogError::DisabledServer { .. } => None,
        CatalogError::BadName(_) | CatalogError::UnknownServer { .. } | CatalogError::UnknownTool { .. } => {
            nearest.is_none().then_some(CureAction::ListTools)
        }
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
        SecretProblem::MarkerInArgument { .. } => "give the value itself",
        SecretProblem::InTemplateInput { .. } => "give it when the plan runs",
        SecretProblem::NotKept { .. } => "give it again by its name",
    }
}

fn person_cures(act: &PersonAct) -> Cures {
    match act {
        PersonAct::DeleteForeignPlan | PersonAct::DeleteForeignTemplate => {
            cure("a person can delete it at the command line")
        }
        PersonAct::Share => {
            cure("leave `everywhere` out, or ask your user for `everywhere: agents` in the config")
        }
        PersonAct::Approve { execution } => cure(format!("a person runs `actbook approve {execution}`"))
            .for_user()
            .api("a credential with the right `approve` answers it"),
    }
}

/// The roles that have the right.
fn forbidden_cure(needed: Right) -> String {
    let roles: Vec<&str> =
        Role::ALL.iter().filter(|role| role.rights().has(needed)).map(|role| role.as_str()).collect();
    format!("use a token with the role {}: `actbook token create --role ROLE`", roles.join(" or "))
}

fn did_you_mean(nearest: &str) -> String {
    format!("did you mean `{nearest}`?")
}
