//! What an undo needs to know of a call: the state before it is read before its intent is journaled, the state after it
//! with its outcome, or after it for a call that this process sends. Both ways in use the same two functions:
//! `prepare_undo` before a call is sent, `state_after` once it has ended.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use actbook_engine::bind::{ExpressionScope, ExpressionVocabulary, ValueTemplate};
use actbook_engine::event::{StateRead, UndoTemplate};
use actbook_engine::policy::{Outcome, RESTORE_TOOL};
use actbook_engine::rules::RuleEffect;
use serde_json::{Map, Value, json};

use super::{Guard, GuardedCall, judge, paths};
use crate::caller::Caller;
use crate::config::{COMMAND_SERVER, CallTemplate, Config, McpServer, SnapshotConfig};
use crate::error::Error;
use crate::folders::data_folder;
use crate::service::{LiveSession, SessionPart};
use crate::snapshot::{
    self, FileState, IgnoreRules, RefreshLimits, SessionStore, SnapshotSettings, StoreError, machine_id,
};

/// How long reading the state before a call may take.
const READ_TIMEOUT: Duration = Duration::from_secs(10);

/// Arguments that hold a program to run.
const COMMAND_ARGUMENTS: [&str; 5] = ["command", "cmd", "script", "code", "argv"];

/// What was kept before a call, and how the call is undone.
#[derive(Clone, Debug, Default)]
pub struct PreparedUndo {
    /// The state before the call, for the journal.
    pub before: Option<Value>,
    pub undo: Option<UndoTemplate>,
    /// Why the call could not be undone although it should be, and what holds for it then.
    pub problem: Option<(RuleEffect, String)>,
}

impl PreparedUndo {
    fn failed(effect: RuleEffect, why: String) -> Self {
        let before = Some(json!({ "not_kept": why }));
        Self { before, undo: None, problem: Some((effect, why)) }
    }
}

impl Guard<'_> {
    /// Reads and keeps what the undo of a call needs. Everything that the result names is durable. `part`: the id of the
    /// part of the session, under which files are kept.
    pub async fn prepare_undo(&self, part: &str, call: &GuardedCall) -> PreparedUndo {
        if judge::is_read_only(self.config, call) {
            return PreparedUndo::default();
        }
        let settings = call.settings(self.config);
        if let Some(undo) = &settings.undo {
            return self.prepare_undo_call(undo, settings.before.as_ref(), call).await;
        }
        let Some(kept) = files_to_keep(self.config, call) else { return PreparedUndo::default() };
        let Some((config, settings)) = self.snapshot_settings() else { return PreparedUndo::default() };
        let settings = match settings {
            Ok(settings) => settings,
            Err(why) => return PreparedUndo::failed(config.over, why),
        };
        match kept {
            KeptFiles::Targets(targets) => keep_targets(part, targets, settings, config.over).await,
            KeptFiles::Folder => keep_folder(part, settings, config).await,
        }
    }

    /// Reads the state that the config's `undo` is checked against, and that its arguments may read.
    async fn prepare_undo_call(
        &self,
        undo: &CallTemplate,
        before: Option<&CallTemplate>,
        call: &GuardedCall,
    ) -> PreparedUndo {
        let template =
            |check| UndoTemplate { tool: undo.tool.clone(), arguments: undo.arguments.clone(), check };
        let Some(before) = before else {
            return PreparedUndo { undo: Some(template(None)), ..PreparedUndo::default() };
        };
        let read = match bind_read(before, &call.arguments) {
            Ok(read) => read,
            Err(why) => return PreparedUndo::failed(RuleEffect::Ask, format!("no undo: {why}")),
        };
        match self.read_state(&read).await {
            Ok(state) => {
                PreparedUndo { before: Some(state), undo: Some(template(Some(read))), problem: None }
            }
            Err(why) => {
                let why = format!("no undo: the state before the call cannot be read: {why}");
                PreparedUndo::failed(RuleEffect::Ask, why)
            }
        }
    }

    /// Calls a tool that only reads.
    async fn read_state(&self, read: &StateRead) -> Result<Value, String> {
        let called = self.service.catalog().call(&read.tool, read.arguments.clone(), READ_TIMEOUT).await;
        match called.outcome {
            Outcome::Succeeded => Ok(called.output.unwrap_or_default()),
            Outcome::Failed | Outcome::Unknown => Err(called.message.unwrap_or_default()),
        }
    }

    /// The state after the call of a step, as its undo compares it. `None`: nothing was kept before it.
    pub async fn state_after(&self, part: &SessionPart, step: &str) -> Result<Option<Value>, Error> {
        if let Some(read) = part.undo_check(step) {
            return Ok(self.read_state(&read).await.ok());
        }
        let Some(before) = self.service.sessions().kept_before(part, step).await? else { return Ok(None) };
        let Some((_, Ok(settings))) = self.snapshot_settings() else { return Ok(None) };
        let session = part.id().to_owned();
        let work = tokio::task::spawn_blocking(move || after_files(&session, &settings, &before));
        match work.await {
            Ok(Ok(after)) => Ok(after),
            // The call has happened: its outcome is recorded all the same, without what it changed.
            Ok(Err(error)) => Ok(Some(json!({ "not_kept": error.to_string() }))),
            Err(panic) => Err(Error::Bug(panic.to_string())),
        }
    }

    /// Records the state after the call of a step that this process has sent, if its undo needs that.
    pub async fn keep_state_after(
        &self,
        caller: &Caller,
        live: &LiveSession,
        step: &str,
    ) -> Result<(), Error> {
        let sessions = self.service.sessions();
        if !sessions.needs_state_after(live, step)? {
            return Ok(());
        }
        match self.state_after(&sessions.part_of(live).await?, step).await? {
            Some(state) => sessions.keep_after(caller, live, step, state).await,
            None => Ok(()),
        }
    }

    /// Begins to keep the session's folder, so that the first shell command waits less.
    pub async fn begin_snapshot(&self, part: &SessionPart) {
        if let Some((config, Ok(settings))) = self.snapshot_settings() {
            drop(keep_folder(part.id(), settings, config).await);
        }
    }

    /// Removes kept files that are too old, or that nothing names any more.
    pub async fn remove_unneeded_files(&self) -> Result<(), Error> {
        let Some(config) = self.config.guard.as_ref().and_then(|guard| guard.snapshot.as_ref()) else {
            return Ok(());
        };
        // What cannot be removed now is removed at the end of another session.
        let due = snapshot::expire(&data_folder(), config.keep).unwrap_or_default();
        for session in due {
            if let Some((named, takes_calls)) = self.service.sessions().kept_contents(&session).await? {
                drop(snapshot::collect_contents(&data_folder(), &session, &named, takes_calls));
            }
        }
        Ok(())
    }

    /// What is kept of which folder. `None`: nothing is. The inner `Err`: why nothing can be.
    fn snapshot_settings(&self) -> Option<(SnapshotConfig, Result<SnapshotSettings, String>)> {
        let config = self.config.guard.as_ref()?.snapshot.clone()?;
        let folder = self.config.folder.join(config.folder.as_deref().unwrap_or(Path::new("")));
        let folder = folder.canonicalize();
        if config.folder.is_none() && folder.as_ref().is_ok_and(|folder| snapshot::is_refused_folder(folder))
        {
            return None;
        }
        let settings = match folder {
            Ok(folder) if snapshot::is_refused_folder(&folder) => {
                Err("`guard.snapshot.folder` must be neither / nor the home folder".to_owned())
            }
            Ok(folder) => Ok(self.settings_of(folder, &config)),
            Err(error) => Err(format!("`guard.snapshot.folder` cannot be read: {error}")),
        };
        Some((config, settings))
    }

    fn settings_of(&self, folder: PathBuf, config: &SnapshotConfig) -> SnapshotSettings {
        let real = |path: PathBuf| path.canonicalize().unwrap_or(path);
        let mut ignore = IgnoreRules::new(config.ignore.clone()).without(real(data_folder()));
        if let Some(database) = self.service.sessions().database_file() {
            ignore = ignore.without(real(database));
        }
        SnapshotSettings {
            folder,
            file_bytes_max: config.file_bytes_max,
            total_bytes_max: config.total_bytes_max,
            budget: config.budget,
            ignore,
        }
    }
}

/// The files that are kept before a call.
enum KeptFiles {
    /// The files at these paths.
    Targets(Vec<String>),
    /// Everything in the session's folder.
    Folder,
}

/// What is kept of files before a call that writes; `None`: nothing, because it reaches no files here as far as its name
/// and its arguments tell.
fn files_to_keep(config: &Config, call: &GuardedCall) -> Option<KeptFiles> {
    match call.tool.as_str() {
        "client/write" | "client/edit" => Some(KeptFiles::Targets(call_paths(call))),
        "client/shell" => Some(KeptFiles::Folder),
        _ if call.relayed.is_some() && runs_here(config, call.server()) => files_of_relayed(call),
        _ => None,
    }
}

/// A command may write anywhere. So may a call that names a folder: it moves, unpacks or commits what is in it.
fn files_of_relayed(call: &GuardedCall) -> Option<KeptFiles> {
    let is_command = COMMAND_ARGUMENTS.iter().any(|name| call.arguments.get(name).is_some());
    let paths = call_paths(call);
    if call.server() == COMMAND_SERVER || is_command || paths.iter().any(|path| Path::new(path).is_dir()) {
        return Some(KeptFiles::Folder);
    }
    (!paths.is_empty()).then_some(KeptFiles::Targets(paths))
}

fn call_paths(call: &GuardedCall) -> Vec<String> {
    paths::find_paths(&call.arguments, call.folder.as_deref())
}

/// Whether the server's calls can write files of this machine: those of a server at an address do not.
fn runs_here(config: &Config, server: &str) -> bool {
    let is_started_here = matches!(config.mcp_servers.get(server), Some(McpServer::Stdio { .. }));
    is_started_here || server == COMMAND_SERVER
}

/// The call that reads the state around a call with these arguments.
fn bind_read(before: &CallTemplate, arguments: &Value) -> Result<StateRead, String> {
    let template = ValueTemplate::parse_in(&before.arguments, ExpressionVocabulary::Undo);
    let scope =
        ExpressionScope { arguments: Some(Arc::new(arguments.clone())), ..ExpressionScope::default() };
    let bound = template.and_then(|template| template.bind(&scope)).map_err(|error| error.to_string())?;
    Ok(StateRead { tool: before.tool.clone(), arguments: bound })
}

/// The undo of calls whose files are kept.
fn restore_template() -> UndoTemplate {
    UndoTemplate { tool: RESTORE_TOOL.to_owned(), arguments: json!({}), check: None }
}

/// Keeps the files that a call names.
async fn keep_targets(
    part: &str,
    targets: Vec<String>,
    settings: SnapshotSettings,
    over: RuleEffect,
) -> PreparedUndo {
    let session = part.to_owned();
    let work = tokio::task::spawn_blocking(move || {
        let (inside, outside) = sort_targets(&settings, &targets);
        let mut store = SessionStore::create(&data_folder(), &session)?;
        let kept = store.keep_paths(&settings, &inside)?;
        Ok::<_, StoreError>((before_files(&settings, kept), outside, !inside.is_empty()))
    });
    match work.await.unwrap_or_else(|panic| Err(std::io::Error::other(panic.to_string()).into())) {
        Ok((mut before, outside, is_inside)) => {
            if !outside.is_empty() {
                before["left_out"] = json!(outside);
            }
            let undo = is_inside.then(restore_template);
            PreparedUndo { before: Some(before), undo, problem: None }
        }
        Err(error) => PreparedUndo::failed(over, format!("no undo: its files cannot be kept: {error}")),
    }
}

/// The targets in the folder, as relative paths; and the others, with why nothing is kept of them.
fn sort_targets(
    settings: &SnapshotSettings,
    targets: &[String],
) -> (Vec<String>, BTreeMap<String, &'static str>) {
    let (mut inside, mut outside) = (Vec::new(), BTreeMap::new());
    for target in targets {
        let path = snapshot::relative_path(&settings.folder, Path::new(target));
        match path {
            None => drop(outside.insert(target.clone(), "outside_folder")),
            Some(path) => {
                let is_own = settings.ignore.is_own(&settings.folder.join(&path));
                if is_own || settings.ignore.ignores_within(&path, false) {
                    outside.insert(path, "ignored");
                } else {
                    inside.push(path);
                }
            }
        }
    }
    (inside, outside)
}

/// Keeps the whole folder before a command.
async fn keep_folder(part: &str, settings: SnapshotSettings, config: SnapshotConfig) -> PreparedUndo {
    let session = part.to_owned();
    let budget = config.budget;
    let work = tokio::task::spawn_blocking(move || {
        let mut store = SessionStore::create(&data_folder(), &session)?;
        let limits = RefreshLimits { first_until: Instant::now().checked_add(budget) };
        let refreshed = store.refresh(&settings, limits)?;
        let mut before = before_files(&settings, Vec::new());
        before["place"] = json!(refreshed.place);
        Ok::<_, StoreError>((before, refreshed.is_complete))
    });
    match work.await.unwrap_or_else(|panic| Err(std::io::Error::other(panic.to_string()).into())) {
        Ok((before, true)) => {
            PreparedUndo { before: Some(before), undo: Some(restore_template()), problem: None }
        }
        Ok((_, false)) => {
            let why =
                "no undo: the first snapshot of the folder is not complete (`guard.snapshot` has its limits)";
            PreparedUndo::failed(config.over, why.to_owned())
        }
        Err(error) => {
            PreparedUndo::failed(config.over, format!("no undo: the folder cannot be kept: {error}"))
        }
    }
}

fn before_files(settings: &SnapshotSettings, kept: Vec<(String, Option<FileState>)>) -> Value {
    let files: Map<String, Value> = kept.into_iter().map(|(path, state)| (path, json!(state))).collect();
    let machine = machine_id(&data_folder()).ok();
    json!({ "folder": settings.folder, "machine": machine, "files": files })
}

/// The states after a call: of the same paths, or after a shell command of all that it changed, with what they were.
fn after_files(
    session: &str,
    settings: &SnapshotSettings,
    before: &Value,
) -> Result<Option<Value>, StoreError> {
    let Some(files) = before.get("files").and_then(Value::as_object) else { return Ok(None) };
    let mut store = SessionStore::open(&data_folder(), session)?;
    if let Some(place) = before.get("place").and_then(Value::as_u64) {
        store.refresh(settings, RefreshLimits { first_until: None })?;
        let changes = store.changes_since(place)?;
        let was: Map<String, Value> =
            changes.iter().map(|change| (change.path.clone(), json!(change.before))).collect();
        let now: Map<String, Value> =
            changes.iter().map(|change| (change.path.clone(), json!(change.after))).collect();
        return Ok(Some(json!({ "files": now, "was": was })));
    }
    let paths: Vec<String> = files.keys().cloned().collect();
    let kept = store.keep_again(settings, &paths)?;
    let now: Map<String, Value> = kept.into_iter().map(|(path, state)| (path, json!(state))).collect();
    Ok(Some(json!({ "files": now })))
}
