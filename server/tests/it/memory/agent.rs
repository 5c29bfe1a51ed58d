//! An agent with its own MCP client, in a folder and database that outlive its conversations.

use std::process::Stdio;

use rmcp::ServiceExt as _;
use rmcp::model::{CallToolRequestParams, CallToolResponse, ClientConfig};
use rmcp::service::{RoleClient, RunningService};
use serde_json::Value;
use tempfile::TempDir;

const BINARY: &str = env!("CARGO_BIN_EXE_actbook");

/// A scratch folder in which the binary runs as CLI and as MCP server.
pub struct AgentFixture {
    pub folder: TempDir,
    database: Option<String>,
}

/// One conversation: an MCP client connected to `actbook mcp` over stdio.
pub struct AgentConversation {
    client: RunningService<RoleClient, ClientConfig>,
    _child: tokio::process::Child,
}

impl AgentFixture {
    pub fn new(database: Option<&str>) -> Self {
        Self { folder: tempfile::tempdir().unwrap(), database: database.map(str::to_owned) }
    }

    pub fn write(&self, name: &str, text: &str) {
        std::fs::write(self.folder.path().join(name), text).unwrap();
        if name == "actbook.yaml" {
            let mut trust = self.command(&["trust", "--yes"]);
            assert!(trust.as_std_mut().status().unwrap().success(), "{text}");
        }
    }

    fn command(&self, args: &[&str]) -> tokio::process::Command {
        let mut command = tokio::process::Command::new(BINARY);
        command.args(args).current_dir(self.folder.path()).stderr(Stdio::piped()).stdin(Stdio::null());
        command.env("HOME", self.folder.path()).env_remove("ACTBOOK_DATABASE").env_remove("ACTBOOK_CONFIG");
        command.env("XDG_DATA_HOME", self.folder.path().join("data"));
        command.env("XDG_CONFIG_HOME", self.folder.path().join("config"));
        command.envs(self.database.iter().map(|url| ("ACTBOOK_DATABASE", url)));
        command
    }

    /// Starts a new conversation with one tool profile.
    pub async fn connect_agent(&self, profile: &str) -> AgentConversation {
        let mut child = self.command(&["mcp", "--tools", profile]);
        let child = child.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = child.kill_on_drop(true).spawn().unwrap();
        let pipes = (child.stdout.take().unwrap(), child.stdin.take().unwrap());
        let client = ClientConfig::default().serve(pipes).await.expect("the handshake");
        AgentConversation { client, _child: child }
    }

    /// The stdout of a command that succeeds.
    pub async fn run(&self, args: &[&str]) -> String {
        let output = self.command(args).output().await.unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        assert!(output.status.success(), "{args:?}: {}", text(output.stderr));
        text(output.stdout)
    }

    /// The stderr of a command that exits with 1.
    pub async fn run_refused(&self, args: &[&str]) -> String {
        let output = self.command(args).output().await.unwrap();
        assert_eq!(output.status.code(), Some(1), "{args:?}");
        String::from_utf8(output.stderr).unwrap()
    }

    pub async fn run_json(&self, args: &[&str]) -> Value {
        serde_json::from_str(&self.run(&[args, &["--json"]].concat()).await).unwrap()
    }
}

impl AgentConversation {
    /// Calls a tool that succeeds; returns structured content and text.
    pub async fn call_ok(&self, tool: &str, arguments: Value) -> (Value, String) {
        let (refused, json, text) = self.call(tool, arguments).await;
        assert!(!refused, "{text}");
        (json, text)
    }

    /// Calls a tool that answers with an error; returns its text.
    pub async fn call_refused(&self, tool: &str, arguments: Value) -> String {
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
