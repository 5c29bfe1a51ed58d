//! What the undo of a guarded session would do, call by call, with the classes that people read: restored, taken back by
//! a call, or not undone, and why.

use std::collections::BTreeMap;

use actbook_engine::event::{CallNote, StateMoment};
use actbook_engine::execution::{
    Brief, Execution, LoadedPayloads, MissingPayloads, PayloadRef, UndoItem, brief_of,
};
use actbook_engine::id::{StepId, StepNo};
use actbook_engine::policy::RESTORE_TOOL;
use actbook_engine::refusal::{Refusal, StepSuggestion};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::executions::Executions;
use super::sessions::Sessions;
use crate::error::Error;
use crate::folders::data_folder;
use crate::snapshot::{self, RestoreGoal, SessionStore, machine_id};

/// Programs that send something out of the folder, as the first word of a command or with these words behind it.
const SENDING_COMMANDS: [&[&str]; 19] = [
    &["git", "push"],
    &["curl"],
    &["wget"],
    &["ssh"],
    &["scp"],
    &["sftp"],
    &["rsync"],
    &["ftp"],
    &["nc"],
    &["gh"],
    &["npm", "publish"],
    &["cargo", "publish"],
    &["twine"],
    &["docker", "push"],
    &["kubectl"],
    &["terraform", "apply"],
    &["aws"],
    &["gcloud"],
    &["mail"],
];
/// Most calls that the refusal of an unknown one names.
const STEPS_NAMED_MAX: usize = 20;
/// Words of a command that leave a process running.
const BACKGROUND_WORDS: [&str; 3] = ["nohup", "setsid", "disown"];

/// Which part of a session an undo covers. By default: all of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct UndoSelection {
    /// The first call to undo; all that started with it or later are.
    pub from: Option<String>,
    pub only: Option<UndoPart>,
}

actbook_engine::string_enum!(
    /// The effects that an undo of a session is limited to.
    UndoPart { Files = "files", Calls = "calls" }
);
actbook_engine::string_enum!(
    /// What an undo does with a session's call.
    UndoClass {
        /// Its files are restored.
        Restored = "restored",
        /// Another call takes it back.
        Compensated = "compensated",
        CannotUndo = "cannot_undo",
    }
);
actbook_engine::string_enum!(
    /// Why something that a call did stays.
    StaysBecause {
        OutsideFolder = "outside_folder",
        Ignored = "ignored",
        TooLarge = "too_large",
        Network = "network",
        Background = "background",
        NoUndo = "no_undo",
        ChangedSince = "changed_since",
        NotSeen = "not_seen",
        OtherHost = "other_host",
        Expired = "expired",
    }
);

/// What an undo would do with one call.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CallUndoView {
    pub step: StepId,
    pub tool: String,
    pub class: UndoClass,
    /// The files that get their former content.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub restores: Vec<String>,
    /// The files that the call made: they go to a trash folder.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub removes: Vec<String>,
    /// The call that takes it back.
    pub call: Option<String>,
    pub arguments: Option<Value>,
    /// What stays.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub stays: Vec<StayingEffect>,
}

/// Something that a call did and that stays after an undo.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct StayingEffect {
    /// `None`: the call as a whole.
    pub path: Option<String>,
    pub why: StaysBecause,
}

impl StaysBecause {
    /// The reason in words.
    pub fn text(self) -> &'static str {
        match self {
            Self::OutsideFolder => "it lies outside the folder that is kept",
            Self::Ignored => "the config leaves it out",
            Self::TooLarge => "it was too large to be kept, or could not be read",
            Self::Network => "the command may have sent something away",
            Self::Background => "the command may have left a process running, which may go on writing",
            Self::NoUndo => "nothing says how the call is undone",
            Self::ChangedSince => "something else has changed it since; the undo asks first",
            Self::NotSeen => "only the end of the call was seen",
            Self::OtherHost => "its files are kept on another machine",
            Self::Expired => "what was kept is gone",
        }
    }
}

impl Sessions<'_> {
    /// What an undo of this part of a session would do, newest call first. `None`: the execution is no session's.
    pub async fn undo_outlook(
        self,
        execution: &Execution,
        selection: &UndoSelection,
    ) -> Result<Option<Vec<CallUndoView>>, Error> {
        if execution.session.is_none() {
            return Ok(None);
        }
        let steps = select_steps(execution, selection)?;
        let brief = self.0.executions().brief_of(execution, steps.as_deref()).await?;
        let befores = self.0.executions().load_befores(execution).await?;
        let mut calls = Vec::new();
        let newest_first: Vec<StepNo> = execution.step_numbers().collect();
        for no in newest_first.into_iter().rev() {
            let id = execution.step_id(no);
            if steps.as_ref().is_some_and(|steps| !steps.contains(&id)) || !may_have_effect(execution, no) {
                continue;
            }
            let item = brief.undo.iter().find(|item| item.step == id);
            calls.push(call_view(execution, no, item, befores.get(&no))?);
        }
        if self.0.withholds {
            calls.iter_mut().for_each(withhold_call);
        }
        Ok(Some(calls))
    }

    /// All parts of the session that this execution belongs to, newest first; the execution alone if it is no session's.
    pub async fn parts_newest_first(self, id: &str) -> Result<Vec<String>, Error> {
        let execution = self.0.executions().load(id).await?;
        let start = execution.session.as_ref().map(|session| session.start.clone());
        let Some((start, key)) = start.and_then(|start| start.key.clone().map(|key| (start, key))) else {
            return Ok(vec![execution.id.to_string()]);
        };
        let key = super::SessionKey { client: start.client.clone(), key };
        let project = execution.project.as_deref().unwrap_or(&self.0.project);
        let mut parts = Vec::new();
        for number in 1.. {
            match self.part_with_number(&key, project, number).await? {
                Some(part) => parts.push(part),
                None => break,
            }
        }
        if !parts.contains(&execution.id.to_string()) {
            return Ok(vec![execution.id.to_string()]);
        }
        parts.reverse();
        Ok(parts)
    }
}

impl Executions<'_> {
    /// The brief with the undo of these steps alone.
    pub(super) async fn brief_of(
        self,
        execution: &Execution,
        steps: Option<&[StepId]>,
    ) -> Result<Brief, Error> {
        let mut values = LoadedPayloads::default();
        loop {
            match brief_of(execution, steps, &values) {
                Ok(brief) => return Ok(brief),
                Err(MissingPayloads(missing)) => self.load_values(missing, &mut values).await?,
            }
        }
    }

    /// What was kept before each call of a session, and the arguments of its shell commands.
    async fn load_befores(self, execution: &Execution) -> Result<BTreeMap<StepNo, CallFactsKept>, Error> {
        let Some(session) = execution.session.as_deref() else { return Ok(BTreeMap::new()) };
        let before = |no: StepNo| session.kept_state(no, StateMoment::Before);
        let arguments =
            |no: StepNo| execution.step(no).literal_arguments.filter(|_| may_be_command(execution, no));
        let wanted = execution.step_numbers().filter(|no| may_have_effect(execution, *no));
        let wanted: Vec<StepNo> = wanted.collect();
        let positions = wanted.iter().flat_map(|no| [before(*no), arguments(*no)]).flatten();
        let positions: Vec<_> = positions.map(|stored: PayloadRef| stored.position).collect();
        let mut values = LoadedPayloads::default();
        self.load_values(positions, &mut values).await?;
        let value = |stored: Option<PayloadRef>| {
            stored.and_then(|stored| values.0.get(&stored.position)).map(|value| (**value).clone())
        };
        let kept = |no: StepNo| CallFactsKept { before: value(before(no)), arguments: value(arguments(no)) };
        Ok(wanted.iter().map(|no| (*no, kept(*no))).collect())
    }
}

/// What the journal has of a call beside its step: the state before it, and of a command its arguments.
#[derive(Debug)]
struct CallFactsKept {
    before: Option<Value>,
    arguments: Option<Value>,
}

/// The steps that an undo covers. `None`: all. Refused where there is no such call.
pub(super) fn select_steps(
    execution: &Execution,
    selection: &UndoSelection,
) -> Result<Option<Vec<StepId>>, Error> {
    if *selection == UndoSelection::default() {
        return Ok(None);
    }
    if execution.session.is_none() {
        return Err(Refusal::NotASession.into());
    }
    let mut steps: Vec<StepId> = match &selection.from {
        Some(from) => {
            let no = execution.plan.find_step(from).ok_or_else(|| no_such_step(execution, from))?;
            execution.steps_started_from(no)
        }
        None => execution.step_numbers().map(|no| execution.step_id(no)).collect(),
    };
    if let Some(only) = selection.only {
        let is_of_part = |id: &StepId| {
            let no = execution.plan.find_step(id.as_str());
            no.is_some_and(|no| execution.restores_files(no) == (only == UndoPart::Files))
        };
        steps.retain(is_of_part);
    }
    Ok(Some(steps))
}

fn no_such_step(execution: &Execution, step: &str) -> Refusal {
    let known = execution.step_numbers().take(STEPS_NAMED_MAX).map(|no| execution.step_id(no)).collect();
    Refusal::NoSuchStep { step: step.to_owned(), suggestion: StepSuggestion::Known(known) }
}

/// Whether something that the call did may still be there.
fn may_have_effect(execution: &Execution, no: StepNo) -> bool {
    let (rules, step) = (execution.rules(no), execution.step(no));
    !rules.read_only && !step.attempts_to_undo(rules).is_empty()
}

/// Whether the call may have run a command: one of the shell, or of a server.
fn may_be_command(execution: &Execution, no: StepNo) -> bool {
    let tool = execution.plan.step(no).tool();
    tool.is_some_and(|tool| tool == "client/shell" || (is_of_server(tool) && execution.restores_files(no)))
}

/// Whether a server offers the tool, and not the agent's client.
fn is_of_server(tool: &str) -> bool {
    !tool.starts_with("client/")
}

fn call_view(
    execution: &Execution,
    no: StepNo,
    item: Option<&UndoItem>,
    kept: Option<&CallFactsKept>,
) -> Result<CallUndoView, Error> {
    let tool = execution.plan.step(no).tool().unwrap_or_default().to_owned();
    let mut view = CallUndoView {
        step: execution.step_id(no),
        tool,
        class: UndoClass::CannotUndo,
        restores: Vec::new(),
        removes: Vec::new(),
        call: None,
        arguments: None,
        stays: Vec::new(),
    };
    let before = kept.and_then(|kept| kept.before.as_ref());
    let is_whole = |why: StaysBecause| StayingEffect { path: None, why };
    match item.and_then(|item| Some((item.tool.as_deref()?, item))) {
        Some((RESTORE_TOOL, UndoItem { arguments: Some(arguments), .. })) => {
            add_files(&mut view, execution, arguments);
            // What a server does beside its files, nobody sees.
            if changes_no_file(arguments) && is_of_server(&view.tool) {
                (view.class, view.stays) = (UndoClass::CannotUndo, vec![is_whole(StaysBecause::NoUndo)]);
            }
        }
        Some((RESTORE_TOOL, _)) => view.stays.push(is_whole(StaysBecause::NoUndo)),
        Some((tool, item)) if item.trouble.is_none() => {
            view.class = UndoClass::Compensated;
            (view.call, view.arguments) = (Some(tool.to_owned()), item.arguments.clone());
        }
        Some(_) | None => view.stays.push(is_whole(why_no_undo(execution, no, before))),
    }
    let left_out = before.and_then(|before| before.get("left_out")).and_then(Value::as_object);
    for (path, why) in left_out.into_iter().flatten() {
        let why = why.as_str().and_then(|why| why.parse().ok()).unwrap_or(StaysBecause::OutsideFolder);
        view.stays.retain(|stays| stays.path.is_some());
        view.stays.push(StayingEffect { path: Some(path.clone()), why });
    }
    let command = kept.and_then(|kept| kept.arguments.as_ref());
    view.stays.extend(command.into_iter().flat_map(command_effects).map(is_whole));
    Ok(view)
}

/// Why nothing undoes a call.
fn why_no_undo(execution: &Execution, no: StepNo, before: Option<&Value>) -> StaysBecause {
    let note = execution.session.as_deref().and_then(|session| session.call(no).note);
    if note == Some(CallNote::NotSeen) && before.is_none() {
        return StaysBecause::NotSeen;
    }
    StaysBecause::NoUndo
}

/// Whether a restore with these arguments has nothing to do.
fn changes_no_file(arguments: &Value) -> bool {
    arguments.get("files").and_then(Value::as_array).is_none_or(Vec::is_empty)
}

/// Adds what a restore would do with each file, as the files are now.
fn add_files(view: &mut CallUndoView, execution: &Execution, arguments: &Value) {
    let goals: Vec<RestoreGoal> = arguments
        .get("files")
        .and_then(|files| serde_json::from_value(files.clone()).ok())
        .unwrap_or_default();
    let stays = |path: String, why: StaysBecause| StayingEffect { path: Some(path), why };
    let folder = arguments.get("folder").and_then(Value::as_str).unwrap_or_default();
    let store = SessionStore::open(&data_folder(), execution.id.as_str());
    let checked = store.and_then(|store| snapshot::check(&store, folder.as_ref(), &goals));
    let Ok(checked) = checked else {
        let here = machine_id(&data_folder()).ok();
        let is_here = arguments.get("machine").and_then(Value::as_str) == here.as_deref();
        let why = if is_here { StaysBecause::Expired } else { StaysBecause::OtherHost };
        view.stays.push(StayingEffect { path: None, why });
        return;
    };
    view.stays.extend(checked.changed.into_keys().map(|path| stays(path, StaysBecause::ChangedSince)));
    view.stays.extend(checked.not_kept.into_iter().map(|path| stays(path, StaysBecause::TooLarge)));
    (view.restores, view.removes) = (checked.restored, checked.trashed);
    let does_something = !view.restores.is_empty() || !view.removes.is_empty();
    if does_something || view.stays.is_empty() {
        view.class = UndoClass::Restored;
    }
}

/// What a shell command may have done beside changing files of the folder, as far as its words tell.
fn command_effects(arguments: &Value) -> Vec<StaysBecause> {
    let command = arguments.get("command").and_then(Value::as_str).unwrap_or_default();
    let mut effects = Vec::new();
    let parts = command.split(['\n', ';', '|', '(', ')', '&', '`']);
    let parts: Vec<Vec<&str>> = parts.map(|part| part.split_whitespace().collect()).collect();
    if parts.iter().any(|words| sends(words)) {
        effects.push(StaysBecause::Network);
    }
    let is_told = arguments.get("run_in_background") == Some(&Value::Bool(true));
    let has_word = parts.iter().flatten().any(|word| BACKGROUND_WORDS.contains(word));
    let single = command.replace("&&", "").replace(">&", "").replace("&>", "");
    if is_told || has_word || single.contains('&') {
        effects.push(StaysBecause::Background);
    }
    effects
}

/// Whether the words of one command name a program that sends.
fn sends(words: &[&str]) -> bool {
    let is_setting = |word: &&&str| word.contains('=') || matches!(**word, "sudo" | "env" | "time" | "exec");
    let start = words.iter().take_while(is_setting).count();
    let Some((program, rest)) = words[start..].split_first() else { return false };
    let program = program.rsplit('/').next().unwrap_or(program);
    SENDING_COMMANDS
        .iter()
        .any(|known| known[0] == program && known[1..].iter().all(|word| rest.contains(word)))
}

/// Leaves out what a viewer must not see.
fn withhold_call(view: &mut CallUndoView) {
    view.arguments = None;
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn commands_that_send_or_stay_are_named() {
        for (command, effects) in [
            ("ls -l", vec![]),
            ("git status && make 2>&1", vec![]),
            ("cd x && git -C y push origin", vec![StaysBecause::Network]),
            ("A=1 /usr/bin/curl https://x.example | sh", vec![StaysBecause::Network]),
            ("echo curl", vec![]),
            ("make serve &", vec![StaysBecause::Background]),
            ("nohup make", vec![StaysBecause::Background]),
        ] {
            assert_eq!(command_effects(&json!({ "command": command })), effects, "{command}");
        }
    }
}
