//! How the command line, MCP and HTTP word each error of the server, in text: `errors.txt` has a case for every
//! sentence that is the same wherever the error comes from.

use std::io;
use std::path::PathBuf;

use actbook::caller::Right;
use actbook::config::{ConfigError, WithheldConfig, WithheldReason};
use actbook::error::{
    Ambiguity, CatalogError, ClosedPart, Corruption, DocumentKind, ErasedUse, Error, InvalidDocument,
    PersonAct, ReplyProblem, SecretProblem, StoreError, UnfitReply,
};
use actbook_engine::event::ReportedStatus;
use actbook_engine::id::ExecutionId;
use actbook_engine::plan::{CureAction, Finding};
use actbook_engine::refusal::StepSuggestion;

use super::{check_wordings, step, steps};

fn withheld(reason: WithheldReason) -> WithheldConfig {
    WithheldConfig { file: PathBuf::from("/shop/actbook.yaml"), reason, secret_source: None }
}

fn finding(code: &'static str) -> Finding {
    Finding::error(code, "steps[0].tool", "it is wrong", "correct it")
}

fn invalid(kind: DocumentKind) -> Error {
    Error::invalid(kind, vec![finding("no_such_field")])
}

fn unavailable(error: CatalogError, nearest: Option<&str>) -> Error {
    Error::ToolUnavailable { error, nearest: nearest.map(str::to_owned) }
}

fn unfit_reply(problem: ReplyProblem) -> Error {
    UnfitReply { problem, asked: vec!["p".into(), "q".into()] }.into()
}

fn full_disk() -> io::Error {
    io::Error::new(io::ErrorKind::StorageFull, "no space left")
}

fn no_permission() -> io::Error {
    io::Error::new(io::ErrorKind::PermissionDenied, "permission denied")
}

/// Documents that were refused.
fn of_documents() -> Vec<Error> {
    let file = Some("plan.yaml".to_owned());
    let findings = vec![finding("no_such_field"), finding("no_such_field")];
    let document = InvalidDocument { file, ..InvalidDocument::new(DocumentKind::Plan, findings) };
    let with_action = |code, cure: &str, action| {
        let finding = Finding { cure: cure.to_owned(), ..finding(code) };
        Error::invalid(DocumentKind::Plan, vec![finding.with_action(action)])
    };
    vec![
        invalid(DocumentKind::Plan),
        Error::Invalid(document),
        invalid(DocumentKind::PlanOfShippedTemplate),
        invalid(DocumentKind::DemoPlan),
        invalid(DocumentKind::StoredPlan),
        invalid(DocumentKind::RecordedPlan),
        invalid(DocumentKind::Inputs),
        invalid(DocumentKind::TaskPlan),
        invalid(DocumentKind::TaskInputs),
        Error::invalid(DocumentKind::Plan, vec![finding("a"), finding("secret_in_plan")]),
        with_action("untrusted_config", "read it, then run `actbook trust` in /x", CureAction::TrustConfig),
        with_action("bad_argument", "compare it with the schema of `t/a`", CureAction::ReadToolSchema),
        with_action("hidden_text", "read its description", CureAction::ReadToolDescription),
        with_action("no_such_tool", "`actbook tools list`", CureAction::ListTools),
        with_action("no_such_tool", "`actbook tools list t` shows it", CureAction::ListServerTools),
        with_action("no_such_tool", "`actbook doctor`", CureAction::InspectServers),
    ]
}

/// The config, and the tools that it names.
fn of_config() -> Vec<Error> {
    let path = PathBuf::from("actbook.yaml");
    let tool = || CatalogError::UnknownTool { server: "t".into(), tool: "pya".into() };
    let server = |config| CatalogError::UnknownServer { server: "t".into(), config };
    vec![
        ConfigError::Ambiguous { one: path.clone(), other: PathBuf::from("actbook.yml") }.into(),
        ConfigError::Unreadable { path: path.clone(), error: no_permission() }.into(),
        ConfigError::Malformed { path: None, error: "no YAML".into() }.into(),
        ConfigError::Refused { path: Some(path.clone()), at: "http".into(), problem: "no map".into() }.into(),
        Error::UntrustedConfig(withheld(WithheldReason::NeverTrusted)),
        Error::UntrustedConfig(withheld(WithheldReason::ChangedSince)),
        Error::UntrustedConfig(withheld(WithheldReason::Broken("it is no YAML".into()))),
        unavailable(CatalogError::BadName("pay".into()), Some("t/pay")),
        unavailable(CatalogError::BadName("pay".into()), None),
        unavailable(tool(), Some("t/pay")),
        unavailable(tool(), None),
        unavailable(server(Some(path)), None),
        unavailable(server(None), None),
        unavailable(CatalogError::DisabledServer { server: "t".into() }, None),
        unavailable(CatalogError::Untrusted(withheld(WithheldReason::NeverTrusted)), None),
        unavailable(CatalogError::Unreachable { server: "t".into(), why: "it exited".into() }, None),
        Error::ServerNotConfigured { server: "t".into() },
        Error::InvalidArguments { tool: "t/pay".into(), why: "/sum: no number".into() },
        Error::ToolChanged { tool: "t/pay".into(), differences: "it takes `to`".into() },
        Error::NothingToAccept { tool: "t/pay".into() },
        Error::InvalidExecutor { why: "`pay` is not of the form server/tool".into() },
    ]
}

/// The database and the files of the data folder.
fn of_storage() -> Vec<Error> {
    let file = || Some("book.db".to_owned());
    vec![
        StoreError::Open { url: "book.db".into(), reason: "no folder".into() }.into(),
        StoreError::UnsafeDurability { setting: "fsync" }.into(),
        StoreError::NewerSchema { migration: "0099".into() }.into(),
        StoreError::OlderSchema { migration: "0018" }.into(),
        StoreError::DiskFull { file: file() }.into(),
        StoreError::ReadOnly { file: file() }.into(),
        StoreError::Busy { waited_s: 5, holder: None }.into(),
        StoreError::ForeignDatabase { file: "book.db".into() }.into(),
        StoreError::Constraint("c".into()).into(),
        StoreError::ConnectionLost("reset".into()).into(),
        StoreError::HeadMoved.into(),
        StoreError::Failed("f".into()).into(),
        StoreError::WrongColumn { column: 1, wanted: "text", found: "null" }.into(),
        StoreError::TooManyWords { limit: 8 }.into(),
        StoreError::Backup { file: "copy.db".into(), reason: "it exists already".into() }.into(),
        StoreError::BackupUnsupported.into(),
        Error::Corrupt(Corruption::Fold("entry 7".into())),
        Error::Corrupt(Corruption::Entry("entry 7 is missing".into())),
        Error::Corrupt(Corruption::Row("`x` is no status".into())),
        Error::Corrupt(Corruption::NoHead),
        Error::Closed(ClosedPart::Ledger),
        Error::Closed(ClosedPart::Journal),
        Error::Closed(ClosedPart::Client),
        Error::NodeLock(full_disk()),
        Error::NodeLock(no_permission()),
        Error::KeyFile { file: PathBuf::from("/data/door.key"), error: no_permission() },
        Error::Bug("no key".into()),
        Error::NotAnExport { why: "line 1".into() },
        Error::ExportNotWritten(full_disk()),
    ]
}

/// Names that fit nothing, or more than one item.
fn of_names() -> Vec<Error> {
    let execution = || ExecutionId::new("7k2m");
    let (near, given) = (|name: &str| Some(name.to_owned()), || "x".to_owned());
    vec![
        Error::NoSuchExecution { given: given() },
        Error::NoSuchStep {
            execution: execution(),
            step: "aa".into(),
            suggestion: StepSuggestion::Nearest(step("a")),
        },
        Error::NoSuchStep {
            execution: execution(),
            step: "z".into(),
            suggestion: StepSuggestion::Known(steps()),
        },
        Error::NoSuchPlan { given: given(), nearest: near("y") },
        Error::NoSuchPlan { given: given(), nearest: None },
        Error::NoSuchVersion { plan: "p".into(), version: 2, newest: 3 },
        Error::NoSuchVersion { plan: "p".into(), version: 4, newest: 3 },
        Error::NoSuchTemplate { given: given(), nearest: near("y") },
        Error::NoSuchTemplate { given: given(), nearest: None },
        Error::NoSuchNote { key: "port".into() },
        Error::NoSuchKind { given: given(), alike: vec!["a", "b"], known: vec![] },
        Error::NoSuchKind { given: given(), alike: vec![], known: vec!["a", "b"] },
        Error::NoSuchStatus("`x` is not one of a, b".into()),
        Error::NoSuchCategory("`x` is not one of a, b".into()),
        Error::Ambiguous(Ambiguity::ExecutionId { prefix: given() }),
        Error::Ambiguous(Ambiguity::PlanId { prefix: given() }),
        Error::Ambiguous(Ambiguity::NoteKey { key: "port".into() }),
        Error::Ambiguous(Ambiguity::NoteOwner {
            key: "port".into(),
            owners: vec!["task `T-1`".into(), "plan `p`".into()],
        }),
    ]
}

/// Requests that do not fit.
fn of_requests() -> Vec<Error> {
    vec![
        Error::InvalidName { field: "title", trouble: "a line end".into() },
        Error::InvalidKey { bytes_max: 200 },
        Error::ForeignCursor,
        Error::NoWords { text: "!".into() },
        Error::SeveralOwners,
        Error::StepWithoutExecution,
        Error::OutputNotAllowed { status: ReportedStatus::Started },
        unfit_reply(ReplyProblem::NotAnObject),
        unfit_reply(ReplyProblem::NotAsked { key: "r".into() }),
        unfit_reply(ReplyProblem::NoReply { key: "q".into() }),
        Error::ShippedTemplate { name: "release".into() },
        Error::Erased { needed_for: ErasedUse::Rerun { plan: "p".into() } },
        Error::Erased { needed_for: ErasedUse::Template },
        Error::Secret(SecretProblem::InName { what: "a label", origin: "${env:KEY}".into() }),
        Error::Secret(SecretProblem::InArgument { path: "a.b".into(), origin: "${env:KEY}".into() }),
        Error::Secret(SecretProblem::MarkerInArgument { path: "a.b".into() }),
        Error::Secret(SecretProblem::InInput { path: "a".into(), origin: "${env:KEY}".into() }),
        Error::Secret(SecretProblem::InTemplateInput { input: "key".into() }),
        Error::Secret(SecretProblem::NotKept { input: "key".into() }),
        Error::NeedsPerson(PersonAct::DeleteForeignPlan),
        Error::NeedsPerson(PersonAct::DeleteForeignTemplate),
        Error::NeedsPerson(PersonAct::Share),
        Error::NeedsPerson(PersonAct::Approve { execution: "7k2m".into() }),
    ]
}

/// Credentials.
fn of_credentials() -> Vec<Error> {
    let given = || "ci".to_owned();
    let mut cases: Vec<Error> =
        Right::ALL.iter().map(|needed| Error::Forbidden { needed: *needed }).collect();
    cases.push(Error::NoSuchToken { given: given() });
    cases.push(Error::NoSuchSession { given: given() });
    cases.push(Error::Ambiguous(Ambiguity::Token { given: given() }));
    cases
}

#[test]
fn each_interface_words_errors_for_its_readers() {
    let cases = [of_documents(), of_config(), of_storage(), of_names(), of_requests(), of_credentials()];
    check_wordings("errors.txt", cases.into_iter().flatten());
}
