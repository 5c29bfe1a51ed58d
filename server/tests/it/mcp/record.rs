//! Record mode: an agent that does every step itself records its work in order; a record out of order is
//! refused with the steps that are due.

use std::process::Stdio;

use rmcp::ServiceExt as _;
use rmcp::model::{CallToolRequestParams, CallToolResponse, CallToolResult, ClientConfig};
use rmcp::service::{RoleClient, RunningService};
use serde_json::{Value, json};
use tempfile::TempDir;

const BINARY: &str = env!("CARGO_BIN_EXE_actbook");

/// A client of the `record` profile in its own folder.
struct RecordingAgent {
    client: RunningService<RoleClient, ClientConfig>,
    folder: TempDir,
    _child: tokio::process::Child,
}

/// The result of one tool call.
struct RecordAnswer {
    is_error: bool,
    text: String,
    json: Value,
}

impl RecordingAgent {
    /// Starts `actbook mcp --tools record` in its own folder, without servers.
    async fn open() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut child = actbook_command(&folder, &["mcp", "--tools", "record"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let pipes = (child.stdout.take().unwrap(), child.stdin.take().unwrap());
        let client = ClientConfig::default().serve(pipes).await.expect("the handshake");
        Self { client, folder, _child: child }
    }

    async fn call(&self, tool: &str, arguments: Value) -> RecordAnswer {
        let Value::Object(arguments) = arguments else { panic!("arguments are an object") };
        let request = CallToolRequestParams::new(tool.to_owned()).with_arguments(arguments);
        let answered: CallToolResponse = self.client.call_tool_once(request).await.expect("an answer");
        let CallToolResponse::Complete(result) = answered else { panic!("{answered:?}") };
        RecordAnswer::from_result(result)
    }

    #[track_caller]
    fn expect_success(answer: RecordAnswer) -> Value {
        assert!(!answer.is_error, "{}", answer.text);
        answer.json
    }

    /// Calls a tool and asserts that it is not refused; returns its structured content.
    async fn call_ok(&self, tool: &str, arguments: Value) -> Value {
        Self::expect_success(self.call(tool, arguments).await)
    }

    /// Calls a tool and asserts that it is refused; returns the text.
    async fn call_refused(&self, tool: &str, arguments: Value) -> String {
        let answer = self.call(tool, arguments).await;
        assert!(answer.is_error, "{}", answer.text);
        answer.text
    }

    /// The kinds of all journal entries.
    async fn journal_kinds(&self) -> Vec<String> {
        let output = actbook_command(&self.folder, &["journal", "--json"]).output().await.unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let kind = |line: &str| -> Value { serde_json::from_str(line).unwrap() };
        text.lines().map(|line| kind(line)["kind"].as_str().unwrap().to_owned()).collect()
    }

    async fn verify(&self) {
        let output = actbook_command(&self.folder, &["verify"]).output().await.unwrap();
        assert!(output.status.success(), "{output:?}");
    }
}

impl RecordAnswer {
    fn from_result(result: CallToolResult) -> Self {
        let texts = result.content.iter().filter_map(|block| block.as_text());
        let text = texts.map(|text| text.text.as_str()).collect();
        let json = result.structured_content.unwrap_or_default();
        Self { is_error: result.is_error == Some(true), text, json }
    }
}

fn actbook_command(folder: &TempDir, words: &[&str]) -> tokio::process::Command {
    let mut command = tokio::process::Command::new(BINARY);
    command.args(words).current_dir(folder.path()).stderr(Stdio::null());
    command.env("HOME", folder.path()).env_remove("ACTBOOK_DATABASE").env_remove("ACTBOOK_CONFIG");
    command.env("XDG_DATA_HOME", folder.path().join("data"));
    command.env("XDG_CONFIG_HOME", folder.path().join("config"));
    command
}

fn plan() -> Value {
    let edit = json!({
        "id": "edit", "tool": "files/write", "arguments": { "path": "a.md" }, "by": "agent",
        "compensation": { "action": "Put the old text back" },
    });
    let review = json!({
        "id": "review", "action": "Read it once more", "depends_on": ["edit"],
        "compensation": { "action": "Forget it" },
    });
    json!({ "name": "edit-a-file", "task": "TASK-1", "steps": [edit, review] })
}

/// The ids of the steps that an execution waits for.
fn waiting_steps(view: &Value) -> Vec<&str> {
    view["waiting"].as_array().unwrap().iter().filter_map(|one| one["step"].as_str()).collect()
}

#[tokio::test]
async fn recording_agent_reports_steps_in_order() {
    let agent = RecordingAgent::open().await;
    let saved = agent.call_ok("record_plan", json!({ "plan": plan() })).await;
    let started = agent.call_ok("record_execution_start", json!({ "plan_id": saved["plan_id"] })).await;
    let id = started["id"].as_str().unwrap();
    assert_eq!(waiting_steps(&started), ["edit"]);
    assert_eq!(
        started["steps"][0]["arguments"],
        json!({ "path": "a.md" }),
        "the arguments are bound at start"
    );

    let report = |step: &str, status: &str| json!({ "execution_id": id, "step_id": step, "status": status, "description": "did it" });
    let early = agent.call_refused("record_action", report("review", "started")).await;
    assert!(
        early.contains("`review`") && early.contains("`edit`"),
        "the refusal names the step that is due: {early}"
    );
    agent.call_ok("record_action", report("edit", "started")).await;

    let mut done = report("edit", "succeeded");
    let facts = json!({
        "type": "file_edit", "entity": "a.md", "before_state": { "lines": 1 }, "after_state": { "lines": 2 },
        "confidence": 0.9, "output": { "bytes": 20 },
    });
    done.as_object_mut().unwrap().extend(facts.as_object().unwrap().clone());
    let next = agent.call_ok("record_action", done.clone()).await;
    assert_eq!(waiting_steps(&next), ["review"], "the answer names the next step");
    let edit = &next["steps"][0];
    assert_eq!((&edit["output"], &edit["recorded"]["entity"]), (&json!({ "bytes": 20 }), &json!("a.md")));
    assert_eq!(edit["recorded"]["before_state"], json!({ "lines": 1 }));
    assert_eq!(edit["recorded"]["confidence"], 0.9);
    let twice = agent.call_refused("record_action", done).await;
    assert!(twice.contains("`review`"), "{twice}");

    let ended = agent.call_ok("record_action", report("review", "succeeded")).await;
    assert_eq!(ended["status"], "succeeded");
    let history = agent.call_ok("query_history", json!({ "task": "TASK-1" })).await;
    assert_eq!(history["executions"][0]["plan"]["name"], "edit-a-file");
    agent.verify().await;
}

#[tokio::test]
async fn stop_decision_cancels_and_compensations_are_recorded_in_order() {
    let agent = RecordingAgent::open().await;
    let started = agent.call_ok("record_execution_start", json!({ "plan": plan() })).await;
    let id = started["id"].as_str().unwrap();
    let done = json!({
        "execution_id": id, "step_id": "edit", "status": "succeeded", "description": "wrote it",
    });
    agent.call_ok("record_action", done).await;
    let undo = |step: &str| json!({ "execution_id": id, "step_id": step, "action_taken": "put it back" });
    let forward = agent.call_refused("record_compensation", undo("edit")).await;
    assert!(forward.contains("stop it first"), "{forward}");

    let kept = json!({ "execution_id": id, "decision": "use the short form", "reason": "it reads better" });
    let kept = agent.call_ok("record_decision", kept).await;
    assert_eq!(kept["records"][0]["decision"], "use the short form");
    assert_eq!(waiting_steps(&kept), ["review"], "a free-text decision changes no step");
    let stop = json!({ "execution_id": id, "decision": "stop", "reason": "the file is another's" });
    assert_eq!(agent.call_ok("record_decision", stop).await["status"], "cancelled");

    let early = agent.call_refused("record_compensation", undo("edit")).await;
    assert!(early.contains("`review`"), "dependants are compensated first: {early}");
    agent.call_ok("record_compensation", undo("review")).await;
    let undone = agent.call_ok("record_compensation", undo("edit")).await;
    assert_eq!(undone["steps"][0]["status"], "compensated");
    assert_eq!(undone["steps"][0]["recorded"]["action_taken"], "put it back");
    assert_eq!(undone["status"], "compensated", "all steps are compensated");
    let journal = agent.journal_kinds().await;
    let stop = journal.iter().position(|kind| kind == "cancel_asked.1").unwrap();
    assert_eq!(journal[stop - 1], "decision_recorded.1", "the decision and the cancel are one append");
    agent.verify().await;
}

#[tokio::test]
async fn action_without_an_execution_is_recorded_once_per_key() {
    let agent = RecordingAgent::open().await;
    let act = json!({ "description": "looked at the logs", "entity": "server-7", "idempotency_key": "k1" });
    let (first, second) = tokio::join!(
        agent.call_ok("record_action", act.clone()),
        agent.call_ok("record_action", act.clone())
    );
    assert_eq!(first["position"], second["position"], "one key records one action");
    let lost = json!({ "description": "of nothing", "step_id": "edit" });
    assert!(agent.call_refused("record_action", lost).await.contains("execution"));
    let sure = json!({ "description": "surely", "confidence": 7 });
    assert!(agent.call_refused("record_action", sure).await.contains("0 to 1"));
    assert_eq!(agent.journal_kinds().await, ["action_recorded.2"]);
    agent.verify().await;
    assert!(
        agent.call_refused("cleanup_history", json!({ "older_than_days": 0 })).await.contains("1 or more")
    );
    let cleaned = agent.call_ok("cleanup_history", json!({ "older_than_days": 1 })).await;
    assert_eq!((&cleaned["acts"], &cleaned["dry_run"]), (&json!(0), &json!(true)));
}

#[tokio::test]
async fn cleanup_by_an_agent_is_refused_with_the_persons_command() {
    let agent = RecordingAgent::open().await;
    let refused =
        agent.call_refused("cleanup_history", json!({ "older_than_days": 90, "dry_run": false })).await;
    assert!(refused.starts_with("needs_a_person"), "{refused}");
    assert!(refused.contains("`actbook cleanup --older-than 90d`"), "{refused}");
}

#[tokio::test]
async fn plan_with_actbook_steps_is_refused_in_record_mode() {
    let agent = RecordingAgent::open().await;
    let step = json!({ "id": "edit", "tool": "files/write", "arguments": {} });
    let refused =
        agent.call_refused("record_plan", json!({ "plan": { "name": "p", "steps": [step] } })).await;
    assert!(refused.contains("by: agent"), "{refused}");
}
