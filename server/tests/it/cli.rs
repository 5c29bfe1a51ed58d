//! Tests of the command line through the real binary. Each test has its own sandbox: data folder, database,
//! config, and the demo server as the only MCP server.

mod async_tools;
pub mod changing_server;
mod control;
mod demo;
mod environment;
mod escapes;
mod examples;
mod http;
mod import;
mod maintenance;
mod pins;
mod policies;
mod preflight;
mod records;
mod refusals;
mod round_trip;
mod secrets;
mod show_output;
mod signals;
mod templates;
mod terminal;
mod trust;
mod versions;

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::{Receiver, channel};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::waiting::TEST_TIMEOUT;

pub const BINARY: &str = env!("CARGO_BIN_EXE_actbook");

/// A temporary folder with its own config, data folder and environment, in which commands are run.
pub struct Sandbox {
    pub folder: TempDir,
    /// The URL or path given as `ACTBOOK_DATABASE`; `None` means the default database of the sandbox.
    pub database: Option<String>,
    /// Additional environment variables of every command.
    pub variables: Vec<(&'static str, &'static str)>,
}

/// Exit code and output of a finished command.
pub struct CliOutput {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl From<Output> for CliOutput {
    fn from(output: Output) -> Self {
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        Self { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
    }
}

impl Sandbox {
    /// Configures the demo server as `files`, and `command/hold`, which runs until `release` is called.
    pub fn new() -> Self {
        let sandbox = Self { folder: tempfile::tempdir().unwrap(), database: None, variables: Vec::new() };
        let hold = json!({ "argv": ["sh", "-c", "echo $$ > pid; touch holding; while [ -e pid ] && [ ! -e released ]; do sleep 0.01; done; echo held"] });
        let config = json!({
            "mcpServers": { "files": { "command": BINARY, "args": ["demo-tools", "--folder", "work"] } },
            "commands": { "hold": hold },
        });
        sandbox.write_config(config);
        sandbox
    }

    /// Replaces the config that `new` wrote, and trusts it.
    pub fn write_config(&self, config: Value) {
        self.write("actbook.yaml", &config.to_string());
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Writes a file. An `actbook.yaml` is trusted at once; only `trust.rs` tests untrusted configs.
    pub fn write(&self, name: &str, text: &str) {
        std::fs::write(self.path(name), text).unwrap();
        if name == "actbook.yaml" {
            drop(self.command(&["trust", "--yes", name]).output().unwrap());
        }
    }

    /// Lets every `command/hold` call return.
    pub fn release(&self) {
        self.write("released", "");
    }

    /// The binary with these arguments, in the sandbox's folder and environment.
    pub fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(BINARY);
        let binaries = Path::new(BINARY).parent().unwrap().to_str().unwrap();
        let path = format!("{binaries}:{}", std::env::var("PATH").unwrap_or_default());
        command
            .args(words)
            .current_dir(self.folder.path())
            .env("PATH", path)
            .env("HOME", self.folder.path())
            .env("XDG_DATA_HOME", self.path("data"))
            .env("XDG_CONFIG_HOME", self.path("config"))
            .env_remove("ACTBOOK_DATABASE")
            .env_remove("ACTBOOK_CONFIG")
            .env_remove("ACTBOOK_LOG")
            .env_remove("CLAUDE_PROJECT_DIR")
            .stdin(Stdio::null())
            .envs(self.database.iter().map(|url| ("ACTBOOK_DATABASE", url)))
            .envs(self.variables.iter().copied());
        command
    }

    pub fn run(&self, words: &[&str]) -> CliOutput {
        self.command(words).output().unwrap().into()
    }

    /// Runs the command, asserts its exit code and returns its stdout.
    #[track_caller]
    pub fn expect(&self, code: i32, words: &[&str]) -> String {
        let ran = self.run(words);
        assert_eq!(ran.code, Some(code), "{words:?}\n{}\n{}", ran.stdout, ran.stderr);
        ran.stdout
    }

    /// Runs the command with `--json` and parses the one document that it prints.
    #[track_caller]
    pub fn json(&self, words: &[&str]) -> Value {
        let ran = self.run(&[words, &["--json"]].concat());
        serde_json::from_str(&ran.stdout)
            .unwrap_or_else(|error| panic!("{words:?}: {error}\n{}\n{}", ran.stdout, ran.stderr))
    }

    /// Spawns the command with piped stdout and stderr.
    pub fn start(&self, words: &[&str]) -> Child {
        self.command(words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }

    /// The newest execution's id.
    pub fn newest(&self) -> String {
        self.json(&["list"])[0]["id"].as_str().unwrap().to_owned()
    }

    /// Follows the journal from its beginning in a separate process.
    pub fn follow_journal(&self) -> JournalFollower {
        JournalFollower::new(self.command(&["journal", "--follow", "--json"]))
    }
}

/// A `journal --follow` process and its entries as they are written.
pub struct JournalFollower {
    child: Child,
    lines: Receiver<String>,
}

impl Drop for JournalFollower {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl JournalFollower {
    fn new(mut command: Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let lines = read_lines(child.stdout.take().unwrap());
        Self { child, lines }
    }

    /// Waits for the next entry of this kind, and of this step where one is given.
    #[track_caller]
    pub fn wait_for(&self, kind: &str, step: Option<&str>) -> Value {
        loop {
            let line = self
                .lines
                .recv_timeout(TEST_TIMEOUT)
                .unwrap_or_else(|_| panic!("no {kind} {step:?} arrived"));
            let entry: Value = serde_json::from_str(&line).unwrap();
            let same_kind = entry["kind"].as_str().unwrap().starts_with(&format!("{kind}."));
            if same_kind && step.is_none_or(|step| entry["body"]["step"] == step) {
                return entry;
            }
        }
    }
}

/// Reads lines in a thread and returns them as a channel.
fn read_lines(reader: impl std::io::Read + Send + 'static) -> Receiver<String> {
    let (sender, lines) = channel();
    std::thread::spawn(move || {
        let read = BufReader::new(reader).lines().map_while(Result::ok);
        read.take_while(|line| sender.send(line.clone()).is_ok()).count()
    });
    lines
}

/// Waits until a line that contains `text` arrives.
#[track_caller]
fn wait_for_line(lines: &Receiver<String>, text: &str) {
    while !lines.recv_timeout(TEST_TIMEOUT).unwrap().contains(text) {}
}

/// The step with this id in an execution's view.
fn step<'a>(view: &'a Value, id: &str) -> &'a Value {
    let steps = view["steps"].as_array().unwrap();
    steps.iter().find(|step| step["id"] == id).unwrap()
}
