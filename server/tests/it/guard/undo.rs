//! Undo of guarded sessions: real hooks around real edits and shell commands in a real folder. Afterwards the folder is
//! as it was before, but for what a person has touched since, which is asked about.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use super::*;
use crate::counts::times;
use crate::durability::rng::SeededRng;
use crate::store::{Kind, ScratchStorage, create_storage, open};

mod kills;
mod random_sessions;
mod relayed;
mod restores;

/// A project in a sandbox whose config keeps the project's files.
pub struct Project {
    pub sandbox: Sandbox,
    calls: u32,
    _storage: Option<ScratchStorage>,
}

/// What a folder holds: for each path its kind, its mode and its content.
pub type Tree = BTreeMap<String, (char, u32, Vec<u8>)>;

impl Project {
    pub fn new() -> Self {
        Self::with_guard(json!({ "snapshot": { "folder": "project" } }), json!({}))
    }

    pub fn with_guard(guard: Value, servers: Value) -> Self {
        let sandbox = Sandbox::new();
        std::fs::create_dir(sandbox.path("project")).unwrap();
        sandbox.write_config(json!({
            "guard": guard,
            "servers": servers,
            "mcpServers": { "files": { "command": env!("CARGO_BIN_EXE_actbook"), "args": ["demo-tools", "--folder", "work"] } },
        }));
        Self { sandbox, calls: 0, _storage: None }
    }

    /// A project whose journal is in a fresh database of this kind.
    pub fn on(kind: Kind) -> Self {
        let mut project = Self::new();
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let (storage, url) = runtime.block_on(async {
            let (storage, url) = create_storage(kind).await;
            drop(open(&url).await);
            (storage, url)
        });
        (project.sandbox.database, project._storage) = (Some(url), Some(storage));
        project
    }

    pub fn folder(&self) -> PathBuf {
        self.sandbox.path("project")
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder().join(name)
    }

    pub fn write(&self, name: &str, text: &str) {
        std::fs::create_dir_all(self.path(name).parent().unwrap()).unwrap();
        std::fs::write(self.path(name), text).unwrap();
    }

    pub fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap()
    }

    /// A call as the client makes it: the hook before it, the call itself, the hook after it. Returns the step.
    pub fn call(&mut self, tool: &str, input: Value, act: impl FnOnce()) -> String {
        let before = self.begin(tool, input);
        act();
        self.end(&before);
        format!("c{}", self.calls)
    }

    pub fn begin(&mut self, tool: &str, input: Value) -> Value {
        self.calls += 1;
        let mut event = before(&self.sandbox, &format!("toolu_{}", self.calls), tool, input);
        event["cwd"] = json!(self.folder());
        assert_eq!(decide(&self.sandbox, &event), None, "{event}");
        event
    }

    pub fn end(&self, before: &Value) {
        assert_eq!(decide(&self.sandbox, &after(before, json!({ "ok": true }))), None);
    }

    /// The agent writes a file with its own tool.
    pub fn agent_writes(&mut self, name: &str, text: &str) -> String {
        let (path, folder) = (self.path(name), self.folder());
        let name = name.to_owned();
        self.call("Write", json!({ "file_path": path, "content": text }), move || {
            std::fs::create_dir_all(folder.join(&name).parent().unwrap()).unwrap();
            std::fs::write(folder.join(&name), text).unwrap();
        })
    }

    /// The agent runs a shell command; one that fails is reported as failed.
    pub fn agent_runs(&mut self, script: &str) -> String {
        let event = self.begin("Bash", json!({ "command": script }));
        let ran = Command::new("sh").args(["-c", script]).current_dir(self.folder()).output().unwrap();
        if ran.status.success() {
            self.end(&event);
        } else {
            let mut failed = after(&event, json!({}));
            (failed["hook_event_name"], failed["error"]) = (json!("PostToolUseFailure"), json!("exit 1"));
            assert_eq!(decide(&self.sandbox, &failed), None);
        }
        format!("c{}", self.calls)
    }

    pub fn tree(&self) -> Tree {
        let mut tree = Tree::new();
        collect(&self.folder(), "", &mut tree);
        tree
    }

    /// The classes of the calls that an undo would cover, by step, with what stays of each.
    pub fn outlook(&self, more: &[&str]) -> BTreeMap<String, (String, Vec<(String, String)>)> {
        let id = self.sandbox.newest();
        let view = self.sandbox.json(&[&["undo", &id, "--dry-run"], more].concat());
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let stays = |call: &Value| {
            let stays = call["stays"].as_array().cloned().unwrap_or_default();
            stays.iter().map(|one| (text(&one["path"]), text(&one["why"]))).collect()
        };
        let calls = view["calls"].as_array().unwrap();
        calls.iter().map(|call| (text(&call["step"]), (text(&call["class"]), stays(call)))).collect()
    }

    /// Undoes the session, and answers `answer` to whatever is asked. Returns the paths that the questions named.
    pub fn undo(&self, more: &[&str], answer: &str) -> BTreeSet<String> {
        let id = self.sandbox.newest();
        let mut ran = self.sandbox.run(&[&["undo", &id, "--json"], more].concat());
        let mut asked = BTreeSet::new();
        for _ in 0..200 {
            match ran.code {
                Some(0) => return asked,
                Some(3) => {}
                _ => panic!("{}{}", ran.stdout, ran.stderr),
            }
            let view = self.sandbox.json(&["show", &id]);
            let waiting = view["waiting"][0].clone();
            let step = waiting["step"].as_str().unwrap_or_else(|| panic!("{view}")).to_owned();
            asked.extend(self.changed_paths(&id, &step));
            self.sandbox.expect(0, &["decide", &id, &step, answer, "--reason", "a test says so"]);
            ran = self.sandbox.run(&["resume", &id, "--json"]);
        }
        panic!("the undo does not end: {}", ran.stdout);
    }

    /// The paths that the step's last failed undo found changed.
    fn changed_paths(&self, id: &str, step: &str) -> Vec<String> {
        let view = self.sandbox.json(&["show", id, step]);
        let tries = view["compensations"].as_array().cloned().unwrap_or_default();
        let changed =
            tries.last().map(|last| last["result"]["output"]["changed"].clone()).unwrap_or_default();
        changed.as_object().map(|changed| changed.keys().cloned().collect()).unwrap_or_default()
    }
}

/// Adds what the folder holds; `prefix` is empty or ends with `/`.
fn collect(folder: &Path, prefix: &str, tree: &mut Tree) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        let path = format!("{prefix}{}", entry.file_name().to_str().unwrap());
        let metadata = entry.path().symlink_metadata().unwrap();
        let mode = metadata.mode() & 0o7777;
        let found = if metadata.is_symlink() {
            ('l', 0, std::fs::read_link(entry.path()).unwrap().into_os_string().into_encoded_bytes())
        } else if metadata.is_dir() {
            collect(&entry.path(), &format!("{path}/"), tree);
            ('d', mode, Vec::new())
        } else {
            ('f', mode, std::fs::read(entry.path()).unwrap())
        };
        tree.insert(path, found);
    }
}

/// What differs between two folders, for people.
pub fn differences(before: &Tree, now: &Tree) -> Vec<String> {
    let paths: BTreeSet<&String> = before.keys().chain(now.keys()).collect();
    let show = |found: Option<&(char, u32, Vec<u8>)>| match found {
        None => "absent".to_owned(),
        Some((kind, mode, content)) => format!("{kind} {mode:o} {:?}", String::from_utf8_lossy(content)),
    };
    let differs = paths.into_iter().filter(|path| before.get(*path) != now.get(*path));
    differs.map(|path| format!("{path}: {} -> {}", show(before.get(path)), show(now.get(path)))).collect()
}
