//! An agent with a client of its own, in a house that outlives its conversations.

use std::process::Stdio;

use rmcp::ServiceExt as _;
use rmcp::model::{CallToolRequestParams, CallToolResponse, ClientConfig};
use rmcp::service::{RoleClient, RunningService};
use serde_json::Value;
use tempfile::TempDir;

const BINARY: &str = env!("CARGO_BIN_EXE_actbook");

pub struct House {
    pub folder: TempDir,
    database: Option<String>,
}

/// One conversation.
pub struct Agent {
    client: RunningService<RoleClient, ClientConfig>,
    _child: tokio::process::Child,
}

impl House {
    pub fn new(database: Option<&str>) -> Self {
        Self { folder: tempfile::tempdir().unwrap(), database: database.map(str::to_owned) }
    }

    pub fn write(&self, name: &str, text: &str) {
        std::fs::write(self.folder.path().join(name), text).unwrap();
        if name == "actbook.yaml" {
            let mut trusting = self.command(&["trust", "--yes"]);
            assert!(trusting.as_std_mut().status().unwrap().success(), "{text}");
        }
    }

    fn command(&self, words: &[&str]) -> tokio::process::Command {
        let mut command = tokio::process::Command::new(BINARY);
        command.args(words).current_dir(self.folder.path()).stderr(Stdio::piped()).stdin(Stdio::null());
        command.env("HOME", self.folder.path()).env_remove("ACTBOOK_DATABASE").env_remove("ACTBOOK_CONFIG");
        command.env("XDG_DATA_HOME", self.folder.path().join("data"));
        command.env("XDG_CONFIG_HOME", self.folder.path().join("config"));
        command.envs(self.database.iter().map(|url| ("ACTBOOK_DATABASE", url)));
        command
    }

    /// A new conversation, with nothing in its context.
    pub async fn agent(&self, profile: &str) -> Agent {
        let mut child = self.command(&["mcp", "--tools", profile]);
        let child = child.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = child.kill_on_drop(true).spawn().unwrap();
        let pipes = (child.stdout.take().unwrap(), child.stdin.take().unwrap());
        let client = ClientConfig::default().serve(pipes).await.expect("the handshake");
        Agent { client, _child: child }
    }

    /// What the command line says.
    pub async fn run(&self, words: &[&str]) -> String {
        let output = self.command(words).output().await.unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        assert!(output.status.success(), "{words:?}: {}", text(output.stderr));
        text(output.stdout)
    }

    /// What it says of a refusal.
    pub async fn refused(&self, words: &[&str]) -> String {
        let output = self.command(words).output().await.unwrap();
        assert_eq!(output.status.code(), Some(1), "{words:?}");
        String::from_utf8(output.stderr).unwrap()
    }

    pub async fn json(&self, words: &[&str]) -> Value {
        serde_json::from_str(&self.run(&[words, &["--json"]].concat()).await).unwrap()
    }
}

impl Agent {
    /// Structure and text of an answer that is a yes.
    pub async fn say(&self, tool: &str, arguments: Value) -> (Value, String) {
        let (refused, json, text) = self.call(tool, arguments).await;
        assert!(!refused, "{text}");
        (json, text)
    }

    /// The text of a no.
    pub async fn no(&self, tool: &str, arguments: Value) -> String {
        let (refused, _, text) = self.call(tool, arguments).await;
        assert!(refused, "{text}");
        text
    }

    async fn call(&self, tool: &str, arguments: Value) -> (bool, Value, String) {
        let Value::Object(arguments) = arguments else { panic!("arguments are an object") };
        let request = CallToolRequestParams::new(tool.to_owned()).with_arguments(arguments);
        let answered = self.client.call_tool_once(request).await.expect("an answer");
        let CallToolResponse::Complete(result) = answered else { panic!("{answered:?}") };
        let texts = result.content.iter().filter_map(|block| block.as_text());
        let text = texts.map(|text| text.text.as_str()).collect();
        (result.is_error == Some(true), result.structured_content.unwrap_or_default(), text)
    }
}
