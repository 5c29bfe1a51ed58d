//! A scratch folder with a config and plans, a database, and the real binary run in it.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use serde_json::Value;

use super::direct_sql::{DirectSql, RawEntry};
use super::wait_for_exit;
use crate::store::{Kind, ScratchStorage, create_storage, open};

/// A scratch folder, its database, and the binary configured for both. Removed on drop.
pub struct CliFixture {
    pub folder: tempfile::TempDir,
    pub url: String,
    _storage: ScratchStorage,
}

impl CliFixture {
    pub fn new(kind: Kind, config: &Value) -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("work")).unwrap();
        std::fs::write(folder.path().join("actbook.yaml"), config.to_string()).unwrap();
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let (storage, url) = runtime.block_on(async {
            let (storage, url) = create_storage(kind).await;
            drop(open(&url).await);
            (storage, url)
        });
        Self { folder, url, _storage: storage }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The binary with these arguments, in this folder, with `--json`.
    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_actbook"));
        command.args(args).args(["--json", "--database", &self.url, "--config"]);
        command.arg(self.path("actbook.yaml")).current_dir(&self.folder);
        command.env("XDG_DATA_HOME", self.path("data")).env("XDG_CONFIG_HOME", self.path("data"));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    pub fn spawn(&self, args: &[&str]) -> Child {
        self.command(args).spawn().expect("the binary starts")
    }

    /// Runs a command until it exits.
    pub fn run(&self, args: &[&str]) -> CommandOutput {
        CommandOutput::from_output(wait_for_exit(self.spawn(args)), args)
    }

    pub fn direct_sql(&self) -> DirectSql {
        DirectSql::open(&self.url)
    }

    pub fn entries(&self) -> Vec<RawEntry> {
        self.direct_sql().entries()
    }

    /// Counts the calls sent, by the notes that drivers write to their node files immediately before sending:
    /// a call that has not arrived yet may still be on its way.
    pub fn sent_call_count(&self) -> usize {
        let nodes = self.path("data/actbook/seats");
        let texts = file_names(&nodes).into_iter().map(|name| std::fs::read_to_string(nodes.join(name)));
        let text: String = texts.map(Result::unwrap).collect();
        text.lines()
            .filter(|line| line.starts_with("sent "))
            .map(|line| line.split(' ').nth(1))
            .collect::<BTreeSet<_>>()
            .len()
    }

    pub fn assert_verifies(&self) {
        let output = self.run(&["verify"]);
        assert_eq!(output.code, Some(0), "verify: {output:?}");
    }
}

/// The exit code and output of a command.
#[derive(Debug)]
pub struct CommandOutput {
    pub code: Option<i32>,
    /// The last document on stdout.
    pub json: Value,
    #[expect(dead_code, reason = "read by people, when a test fails")]
    text: String,
}

impl CommandOutput {
    pub fn from_output(output: Output, args: &[&str]) -> Self {
        let stdout = String::from_utf8_lossy(&output.stdout);
        let documents = serde_json::Deserializer::from_str(&stdout).into_iter::<Value>();
        let json = documents.map_while(Result::ok).last().unwrap_or(Value::Null);
        let text = format!("{args:?}\n{stdout}\n{}", String::from_utf8_lossy(&output.stderr));
        Self { code: output.status.code(), json, text }
    }

    pub fn status(&self) -> &str {
        self.json["status"].as_str().unwrap_or_else(|| panic!("an execution's view: {self:?}"))
    }
}

/// The sorted names of the files in a folder.
pub fn file_names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}
