//! What `doctor` says about hooks: whether they are present, unchanged and trusted, and what the client does where one
//! fails.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::args::HookScope;
use super::install_hooks::{HookFile, InstalledState, installed_state};
use super::json_document::JsonDocument;
use crate::guard::HookClient;

/// What was found out about the hooks of one client.
#[derive(Clone, Debug)]
pub struct HookFinding {
    pub says: String,
    /// What to do; `None`: nothing is wrong.
    pub cure: Option<String>,
}

/// A finding for each client that has hooks of ours.
pub fn check_hooks() -> Vec<HookFinding> {
    let files = HookClient::ALL.into_iter().flat_map(|client| {
        HookScope::ALL.into_iter().filter_map(move |scope| HookFile::find(client, scope).ok())
    });
    files.filter(|file| file.path.exists()).filter_map(|file| check_file(&file)).collect()
}

/// What is found in one file; `None`: nothing of ours.
fn check_file(file: &HookFile) -> Option<HookFinding> {
    let place = format!("{} ({}, {})", file.client, file.scope.as_str(), file.path.display());
    let install = format!("actbook install --client {} --hooks --scope {}", file.client, file.scope.as_str());
    let document = match file.read() {
        Ok(document) => document,
        Err(error) => {
            return Some(HookFinding { says: format!("{place}: {error}"), cure: Some(error.cure()) });
        }
    };
    let (state, command) = installed_state(&document, file.client);
    let program = command.map(|command| command.program().to_owned()).unwrap_or_default();
    let problem = match state {
        InstalledState::Absent => return None,
        InstalledState::Changed => Some((
            "its hooks are not as `install` writes them".to_owned(),
            format!("`{install}` writes them anew"),
        )),
        InstalledState::Unchanged if !Path::new(&program).is_file() => Some((
            format!("its hooks start {program}, which does not exist: every call is denied"),
            format!("`{install}` names this binary"),
        )),
        InstalledState::Unchanged => find_distrust(file, &document.value()),
    };
    let fails = failure_behaviour(file.client, &document);
    Some(match problem {
        Some((what, cure)) => HookFinding { says: format!("{place}: {what}; {fails}"), cure: Some(cure) },
        None => HookFinding {
            says: format!("{place}: hooks are present and unchanged; {}; {fails}", trust_text(file)),
            cure: None,
        },
    })
}

/// What the client does where our hook gives no answer.
fn failure_behaviour(client: HookClient, document: &JsonDocument) -> &'static str {
    match client {
        HookClient::ClaudeCode if document.text().contains("\"onFailure\"") => {
            "it denies a call whose hook fails or times out"
        }
        HookClient::ClaudeCode => {
            "it denies a call whose hook fails, and makes one whose hook times out (up to 2.1.294)"
        }
        HookClient::Cursor => "it denies a call whose hook fails or times out",
        HookClient::Codex | HookClient::Gemini | HookClient::Vscode | HookClient::Copilot => {
            "it denies a call whose hook fails, and makes one whose hook times out"
        }
    }
}

/// What is known of the client's trust in the hooks, where nothing speaks against it.
fn trust_text(file: &HookFile) -> &'static str {
    match (file.client, file.scope) {
        (HookClient::Codex, _) => {
            "Codex has an approval of them (`/hooks` shows whether it is of these entries)"
        }
        (HookClient::ClaudeCode | HookClient::Gemini, HookScope::Project) => "the client trusts the folder",
        (HookClient::ClaudeCode | HookClient::Gemini | HookClient::Cursor, _) => {
            "the client runs them unasked"
        }
        (HookClient::Vscode | HookClient::Copilot, HookScope::User) => "the client runs them unasked",
        (HookClient::Vscode | HookClient::Copilot, HookScope::Project) => {
            "the client runs them in a folder that it trusts, which cannot be seen from here"
        }
    }
}

/// Why the client does not run the hooks, and what to do about it; `None`: nothing says so.
fn find_distrust(file: &HookFile, settings: &Value) -> Option<(String, String)> {
    let is = |pointer: &str, value: bool| settings.pointer(pointer) == Some(&Value::Bool(value));
    if is("/disableAllHooks", true) || is("/hooksConfig/enabled", false) {
        let what = "the file switches all hooks off".to_owned();
        return Some((what, "remove `disableAllHooks` or `hooksConfig.enabled` from it".to_owned()));
    }
    let home = PathBuf::from(std::env::var_os("HOME")?);
    let folder = file.path.parent()?.parent()?.to_string_lossy().into_owned();
    let untrusted = match (file.client, file.scope) {
        (HookClient::Codex, _) => !codex_has_approval(file),
        (HookClient::ClaudeCode, HookScope::Project) => {
            let trusted = read_json(&home.join(".claude.json")).and_then(|state| {
                state.get("projects")?.get(&folder)?.get("hasTrustDialogAccepted").cloned()
            });
            trusted != Some(Value::Bool(true))
        }
        (HookClient::Gemini, HookScope::Project) => {
            let folders = read_json(&home.join(".gemini/trustedFolders.json"));
            // Without the file, Gemini's trust in folders is switched off.
            folders.is_some_and(|folders| !gemini_trusts(&folders, &folder))
        }
        (HookClient::ClaudeCode | HookClient::Gemini, HookScope::User)
        | (HookClient::Cursor | HookClient::Vscode | HookClient::Copilot, _) => false,
    };
    let cure = match file.client {
        HookClient::Codex => {
            "start `codex` and approve them (`/hooks`); until then it makes every call unasked"
        }
        HookClient::ClaudeCode
        | HookClient::Cursor
        | HookClient::Gemini
        | HookClient::Vscode
        | HookClient::Copilot => "start the client in this folder and trust it",
    };
    untrusted.then(|| ("the client does not trust its hooks yet".to_owned(), cure.to_owned()))
}

/// Whether Codex' config records an approval of the entry before a call, and has not switched it off.
fn codex_has_approval(file: &HookFile) -> bool {
    let config = HookFile::find(HookClient::Codex, HookScope::User)
        .ok()
        .and_then(|user| std::fs::read_to_string(user.path.with_file_name("config.toml")).ok())
        .unwrap_or_default();
    let key = format!("{}:pre_tool_use:", file.path.display());
    let sections =
        config.split("\n[").filter(|section| section.starts_with("hooks.state.") && section.contains(&key));
    sections
        .into_iter()
        .any(|section| section.contains("trusted_hash") && !section.contains("enabled = false"))
}

/// Whether Gemini's list of folders trusts this one or one above.
fn gemini_trusts(folders: &Value, folder: &str) -> bool {
    let folder = Path::new(folder);
    folder.ancestors().enumerate().any(|(above, path)| {
        match folders.get(path.to_string_lossy().as_ref()).and_then(Value::as_str) {
            Some("TRUST_FOLDER") => true,
            // The rule names a folder in this one's parent.
            Some("TRUST_PARENT") => above > 0,
            Some(_) | None => false,
        }
    })
}

fn read_json(path: &Path) -> Option<Value> {
    serde_json::from_str(&std::fs::read_to_string(path).ok()?).ok()
}
