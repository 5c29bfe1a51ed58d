//! `actbook install --hooks` and `uninstall --hooks`: adds this binary to a client's hooks, and removes it again. Entries
//! that are not ours, and comments, stay as they are.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use super::args::{AgentClient, CommonArgs, HookScope, InstallArgs, UninstallArgs};
use super::install::{install_error, portable_database};
use super::json_document::{JsonDocument, JsonStep};
use super::output::Output;
use super::{CommandResult, Exit};
use crate::error::Error;
use crate::folders::replace_file;
use crate::guard::HookClient;

/// How long a client waits for a hook, in seconds: a person may be asked meanwhile.
const TIMEOUT_SECONDS: u64 = 600;
/// How long Codex lets the hook of a session's end take at most, in seconds.
const CODEX_END_SECONDS: u64 = 3;
/// How long other clients let the hook of a session's end take, in seconds: it writes the database's log back.
const END_SECONDS: u64 = 60;

/// What follows the command of a hook that is asked before a call: where the command cannot be run, or dies, the shell
/// denies the call in its place.
const DENY_UNLESS_RUN: &str = "|| { test $? -eq 2 || echo 'Actbook cannot be run, so this call is denied; see actbook doctor' >&2; exit 2; }";

/// What follows the command of every other hook: where it fails, some clients hold the agent's answer back and try again
/// without end.
const NEVER_FAIL: &str = "|| true";

/// The first version of Claude Code that knows `onFailure`.
const ON_FAILURE_SINCE: [u64; 3] = [2, 1, 295];

/// A client's file of hooks, and the client.
#[derive(Clone, Debug)]
pub struct HookFile {
    pub client: HookClient,
    pub scope: HookScope,
    pub path: PathBuf,
}

/// The words that start the hook, as they stand in a client's file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HookCommand(Vec<String>);

/// Adds the hooks, or prints them.
pub fn install(output: &Output, common: &CommonArgs, args: &InstallArgs) -> CommandResult {
    let client = hook_client(args.client)?;
    let command = HookCommand::of_this_binary(client, common, args.config.as_deref())?;
    let entries = entries(client, &command, client == HookClient::ClaudeCode && knows_on_failure());
    if args.print {
        output.document(&whole_document(client, &entries));
        return Ok(Exit::Done);
    }
    let file = HookFile::find(client, args.scope)?;
    let mut document = file.read()?;
    if !holds_exactly(&document, client, &entries) {
        remove_ours(&mut document, client);
        add(&mut document, client, &entries).map_err(|why| file.error(&why))?;
        file.write(document.text())?;
    }
    print_result(output, &file, "installed", &entries);
    output.notice(advice(client));
    Ok(Exit::Done)
}

/// Removes the hooks that are ours.
pub fn uninstall(output: &Output, args: &UninstallArgs) -> CommandResult {
    let client = hook_client(args.client)?;
    let file = HookFile::find(client, args.scope)?;
    let mut document = file.read()?;
    let before = document.text().to_owned();
    remove_ours(&mut document, client);
    if document.text() == before {
        output.notice(format_args!("no hook of Actbook is in {}", file.path.display()));
        return Ok(Exit::Done);
    }
    let rest = document.value();
    if rest == json!({}) || rest == json!({ "version": 1 }) {
        std::fs::remove_file(&file.path).map_err(|error| file.error(&error.to_string()))?;
    } else {
        file.write(document.text())?;
    }
    print_result(output, &file, "removed", &[]);
    Ok(Exit::Done)
}

fn hook_client(client: AgentClient) -> Result<HookClient, Error> {
    client.hook_client().ok_or_else(|| {
        install_error(
            &"Claude Desktop has no hooks",
            "leave --hooks out: it can use Actbook as an MCP server",
        )
    })
}

/// What a person does next, in one line.
fn advice(client: HookClient) -> &'static str {
    match client {
        HookClient::ClaudeCode => {
            "start Claude Code again; `/hooks` lists them, `actbook doctor` checks them"
        }
        HookClient::Codex => "start Codex again and approve the hooks there (`/hooks`): it runs no others",
        HookClient::Cursor => "start Cursor again; Settings > Hooks lists them",
        HookClient::Gemini => "start Gemini CLI again; `/hooks` lists them",
        HookClient::Vscode | HookClient::Copilot => {
            "start it again. VS Code and Copilot CLI run each other's hooks: install them for one of the two"
        }
    }
}

fn print_result(output: &Output, file: &HookFile, what: &str, entries: &[(&str, Value)]) {
    if output.json {
        let hooks = entries.iter().map(|(event, entry)| ((*event).to_owned(), entry.clone()));
        let hooks: serde_json::Map<String, Value> = hooks.collect();
        output.document(&json!({ "file": file.path, "hooks": hooks }));
    } else {
        output.line(format_args!("{what}: the hooks of {} in {}", file.client, file.path.display()));
    }
}

impl HookFile {
    /// The client's file of this scope. `Err` if HOME is not set.
    pub fn find(client: HookClient, scope: HookScope) -> Result<Self, Error> {
        let of_account = |variable: &str, folder: &str| {
            let named = std::env::var_os(variable).map(PathBuf::from);
            let home = || std::env::var_os("HOME").map(|home| Path::new(&home).join(folder));
            named.or_else(home).ok_or_else(|| install_error(&"HOME is not set", "use --print, and paste it"))
        };
        let here =
            || std::env::current_dir().map_err(|error| install_error(&error, "go to the project's folder"));
        let folder = match (scope, client) {
            (HookScope::Project, HookClient::ClaudeCode) => here()?.join(".claude"),
            (HookScope::Project, HookClient::Codex) => here()?.join(".codex"),
            (HookScope::Project, HookClient::Cursor) => here()?.join(".cursor"),
            (HookScope::Project, HookClient::Gemini) => here()?.join(".gemini"),
            (HookScope::Project, HookClient::Vscode | HookClient::Copilot) => here()?.join(".github/hooks"),
            (HookScope::User, HookClient::ClaudeCode) => of_account("CLAUDE_CONFIG_DIR", ".claude")?,
            (HookScope::User, HookClient::Codex) => of_account("CODEX_HOME", ".codex")?,
            (HookScope::User, HookClient::Cursor) => of_account("CURSOR_CONFIG_DIR", ".cursor")?,
            (HookScope::User, HookClient::Gemini) => of_account("", ".gemini")?,
            (HookScope::User, HookClient::Vscode) => of_account("", ".copilot")?.join("hooks"),
            (HookScope::User, HookClient::Copilot) => of_account("COPILOT_HOME", ".copilot")?.join("hooks"),
        };
        let name = match client {
            HookClient::ClaudeCode | HookClient::Gemini => "settings.json",
            HookClient::Codex | HookClient::Cursor => "hooks.json",
            HookClient::Vscode => "actbook-vscode.json",
            HookClient::Copilot => "actbook-copilot.json",
        };
        Ok(Self { client, scope, path: folder.join(name) })
    }

    /// Reads the file; a missing one is empty.
    pub fn read(&self) -> Result<JsonDocument, Error> {
        let text = match std::fs::read_to_string(&self.path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
            Err(error) => return Err(self.error(&error.to_string())),
        };
        JsonDocument::parse(&text).map_err(|why| self.error(&why))
    }

    /// Replaces the file; where it is a link, the file that the link leads to.
    fn write(&self, text: &str) -> Result<(), Error> {
        let write = || {
            self.path.parent().map_or(Ok(()), std::fs::create_dir_all)?;
            let target = std::fs::canonicalize(&self.path).unwrap_or_else(|_| self.path.clone());
            replace_file(&target, text)
        };
        write().map_err(|error| self.error(&error.to_string()))
    }

    fn error(&self, why: &str) -> Error {
        let message = format!("{}: {why}", self.path.display());
        install_error(&message, "correct the file, or use --print and paste the hooks where they belong")
    }
}

impl HookCommand {
    fn of_this_binary(client: HookClient, common: &CommonArgs, config: Option<&Path>) -> Result<Self, Error> {
        let failed = |error: std::io::Error| install_error(&error, "start actbook by its full path");
        let program = std::env::current_exe().map_err(failed)?.to_string_lossy().into_owned();
        let limit = format!("{TIMEOUT_SECONDS}s");
        let mut words = vec![program, "hook".into(), client.to_string(), "--limit".into(), limit];
        if let Some(config) = config.or(common.config.as_deref()) {
            let config = std::path::absolute(config).map_err(failed)?;
            words.extend(["--config".to_owned(), config.to_string_lossy().into_owned()]);
        }
        if let Some(database) = &common.database {
            words.extend(["--database".to_owned(), portable_database(database)?]);
        }
        Ok(Self(words))
    }

    /// The program that the client starts.
    pub fn program(&self) -> &str {
        self.0.first().map_or("", String::as_str)
    }

    /// The command as a shell reads it; one that is asked before a call denies it where it cannot be run, any other one is
    /// then silent.
    fn shell_line(&self, is_before: bool) -> String {
        let words: Vec<String> = self.0.iter().map(|word| shell_word(word)).collect();
        let line = words.join(" ");
        let otherwise = if is_before { DENY_UNLESS_RUN } else { NEVER_FAIL };
        format!("{line} {otherwise}")
    }

    /// The command of an entry of ours, as `shell_line` or the arguments of Copilot say it.
    fn of_entry(entry: &Value) -> Option<Self> {
        if let Some(program) = entry.get("exec").and_then(Value::as_str) {
            let words = entry.get("args")?.as_array()?.iter().filter_map(Value::as_str);
            return Some(Self(std::iter::once(program).chain(words).map(str::to_owned).collect()));
        }
        let line = entry.get("command")?.as_str()?;
        let line =
            line.strip_suffix(DENY_UNLESS_RUN).or_else(|| line.strip_suffix(NEVER_FAIL)).unwrap_or(line);
        Some(Self(split_shell_words(line)))
    }
}

/// A word as a shell reads it.
fn shell_word(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-=:@%+,".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

/// The words of a line that `shell_word` wrote.
fn split_shell_words(line: &str) -> Vec<String> {
    let (mut words, mut word, mut quoted, mut escaped) = (Vec::new(), String::new(), false, false);
    for c in line.chars() {
        match c {
            _ if escaped => {
                word.push(c);
                escaped = false;
            }
            '\'' => quoted = !quoted,
            '\\' if !quoted => escaped = true,
            ' ' if !quoted => {
                words.extend(Some(std::mem::take(&mut word)).filter(|word| !word.is_empty()));
            }
            _ => word.push(c),
        }
    }
    words.extend(Some(word).filter(|word| !word.is_empty()));
    words
}

/// The client's entries by event, in the order in which they are written.
pub fn entries(client: HookClient, command: &HookCommand, on_failure: bool) -> Vec<(&'static str, Value)> {
    const BEFORE: [&str; 3] = ["PreToolUse", "preToolUse", "BeforeTool"];
    let entry = |event: &&'static str| {
        let line = command.shell_line(BEFORE.contains(event));
        let seconds = match *event {
            "SessionEnd" | "sessionEnd" if client == HookClient::Codex => CODEX_END_SECONDS,
            "SessionEnd" | "sessionEnd" => END_SECONDS,
            _ => TIMEOUT_SECONDS,
        };
        let mut hook = match client {
            HookClient::ClaudeCode | HookClient::Codex | HookClient::Vscode => {
                json!({ "type": "command", "command": line, "timeout": seconds })
            }
            HookClient::Gemini => {
                json!({ "name": "actbook", "type": "command", "command": line, "timeout": seconds * 1000 })
            }
            HookClient::Cursor => json!({ "command": line, "timeout": seconds }),
            HookClient::Copilot => {
                let (exec, args) = (command.program(), command.0.get(1..).unwrap_or_default());
                json!({ "type": "command", "exec": exec, "args": args, "timeoutSec": seconds })
            }
        };
        if BEFORE.contains(event) && client == HookClient::Cursor {
            hook["failClosed"] = json!(true);
        }
        if BEFORE.contains(event) && on_failure {
            hook["onFailure"] = json!("block");
        }
        let is_group = matches!(client, HookClient::ClaudeCode | HookClient::Codex | HookClient::Gemini);
        (*event, if is_group { json!({ "hooks": [hook] }) } else { hook })
    };
    events(client).iter().map(entry).collect()
}

/// The events that are of use, in the client's own spelling.
fn events(client: HookClient) -> &'static [&'static str] {
    match client {
        HookClient::ClaudeCode => &[
            "PreToolUse",
            "PostToolUse",
            "PostToolUseFailure",
            "SessionStart",
            "Stop",
            "SubagentStop",
            "SessionEnd",
        ],
        HookClient::Codex => {
            &["PreToolUse", "PostToolUse", "SessionStart", "Stop", "SubagentStop", "SessionEnd"]
        }
        HookClient::Cursor => {
            &["preToolUse", "postToolUse", "postToolUseFailure", "sessionStart", "stop", "sessionEnd"]
        }
        HookClient::Gemini => &["BeforeTool", "AfterTool", "SessionStart", "AfterAgent", "SessionEnd"],
        HookClient::Vscode => &["PreToolUse", "PostToolUse", "SessionStart", "Stop", "SubagentStop"],
        HookClient::Copilot => &[
            "preToolUse",
            "postToolUse",
            "postToolUseFailure",
            "sessionStart",
            "agentStop",
            "subagentStop",
            "sessionEnd",
        ],
    }
}

/// Whether the client's format of hooks has a version.
fn has_version(client: HookClient) -> bool {
    matches!(client, HookClient::Cursor | HookClient::Copilot)
}

/// A file that holds nothing else.
fn whole_document(client: HookClient, entries: &[(&str, Value)]) -> Value {
    let hooks = entries.iter().map(|(event, entry)| ((*event).to_owned(), json!([entry])));
    let hooks: serde_json::Map<String, Value> = hooks.collect();
    if has_version(client) { json!({ "version": 1, "hooks": hooks }) } else { json!({ "hooks": hooks }) }
}

fn add(document: &mut JsonDocument, client: HookClient, entries: &[(&str, Value)]) -> Result<(), String> {
    if has_version(client) {
        document.set_default("version", &json!(1));
    }
    entries.iter().try_for_each(|(event, entry)| document.push(&["hooks", event], entry))
}

/// Where an entry of ours stands: the event, its place in the list, and its place in that group.
type EntryPlace = (String, usize, Option<usize>);

/// The entries of ours in the file, in order.
pub fn find_ours(document: &Value, client: HookClient) -> Vec<(EntryPlace, Value)> {
    let mut found = Vec::new();
    let events = document.get("hooks").and_then(Value::as_object);
    for (event, entries) in events.into_iter().flatten() {
        for (index, entry) in entries.as_array().into_iter().flatten().enumerate() {
            if is_ours(entry, client) {
                found.push(((event.clone(), index, None), entry.clone()));
            }
            for (inner, hook) in
                entry.get("hooks").and_then(Value::as_array).into_iter().flatten().enumerate()
            {
                if is_ours(hook, client) {
                    found.push(((event.clone(), index, Some(inner)), hook.clone()));
                }
            }
        }
    }
    found
}

/// Whether the entry starts `actbook hook` for the client.
fn is_ours(entry: &Value, client: HookClient) -> bool {
    let text = |name: &str| entry.get(name).and_then(Value::as_str).unwrap_or_default();
    let args = entry.get("args").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
    let line =
        [text("exec"), text("command"), text("bash")].into_iter().chain(args).collect::<Vec<_>>().join(" ");
    let words = split_shell_words(&line);
    let is_hook = |pair: &[String]| {
        let program = Path::new(&pair[0]).file_name().is_some_and(|name| name == "actbook");
        program && pair[1] == "hook" && pair[2] == client.as_str()
    };
    words.windows(3).any(is_hook)
}

fn remove_ours(document: &mut JsonDocument, client: HookClient) {
    let ours = find_ours(&document.value(), client);
    for ((event, index, inner), _) in ours.iter().rev() {
        let list = [JsonStep::Key("hooks"), JsonStep::Key(event)];
        let entry = [list[0], list[1], JsonStep::Index(*index)];
        match inner {
            None => document.remove(&entry),
            Some(inner) => {
                let hooks = [entry[0], entry[1], entry[2], JsonStep::Key("hooks")];
                document.remove(&[hooks[0], hooks[1], hooks[2], hooks[3], JsonStep::Index(*inner)]);
                let is_empty =
                    document.value().pointer(&format!("/hooks/{event}/{index}/hooks")) == Some(&json!([]));
                if is_empty {
                    document.remove(&entry);
                }
            }
        }
        document.remove_if_empty(&list);
    }
    if !ours.is_empty() {
        document.remove_if_empty(&[JsonStep::Key("hooks")]);
    }
}

/// Whether the file has these entries of ours, and no other ones.
fn holds_exactly(document: &JsonDocument, client: HookClient, entries: &[(&str, Value)]) -> bool {
    let strip = |entry: &Value| entry.pointer("/hooks/0").cloned().unwrap_or_else(|| entry.clone());
    let mut wanted: Vec<(String, Value)> =
        entries.iter().map(|(event, entry)| ((*event).to_owned(), strip(entry))).collect();
    let found = find_ours(&document.value(), client);
    let mut found: Vec<(String, Value)> =
        found.into_iter().map(|((event, ..), entry)| (event, entry)).collect();
    wanted.sort_by(|one, other| one.0.cmp(&other.0));
    found.sort_by(|one, other| one.0.cmp(&other.0));
    wanted == found
}

/// What of ours is in a client's file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InstalledState {
    Absent,
    /// As `install` writes them.
    Unchanged,
    /// Some are missing, or not as `install` writes them.
    Changed,
}

/// What of ours is in the file, and the program that it starts.
pub fn installed_state(document: &JsonDocument, client: HookClient) -> (InstalledState, Option<HookCommand>) {
    let found = find_ours(&document.value(), client);
    let Some((_, first)) = found.first() else { return (InstalledState::Absent, None) };
    let command = HookCommand::of_entry(first);
    let is_exact = |on_failure: bool| {
        let expected = command.as_ref().map(|command| entries(client, command, on_failure));
        expected.is_some_and(|expected| holds_exactly(document, client, &expected))
    };
    let state =
        if is_exact(false) || is_exact(true) { InstalledState::Unchanged } else { InstalledState::Changed };
    (state, command)
}

/// Whether the installed Claude Code knows `onFailure`; an older one may refuse settings that have it.
fn knows_on_failure() -> bool {
    let ran = Command::new("claude").arg("--version").stdin(std::process::Stdio::null()).output();
    ran.is_ok_and(|ran| version_of(&String::from_utf8_lossy(&ran.stdout)) >= Some(ON_FAILURE_SINCE))
}

/// The version at the beginning of a text such as `2.1.295 (Claude Code)`.
fn version_of(text: &str) -> Option<[u64; 3]> {
    let mut parts = text.split_whitespace().next()?.split('.').map(str::parse);
    let mut part = || parts.next()?.ok();
    Some([part()?, part()?, part()?])
}
