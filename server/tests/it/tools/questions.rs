//! Questions (elicitation) from a third-party server on the Python SDK: asked, answered, declined.

use actbook::tools::{Call, CallContext, CallOutcome, ToolQuestionReply};
use actbook_engine::policy::ErrorCategory;
use serde_json::{Value, json};
use tempfile::tempdir;

use super::{expect_failure, expect_output, new_call, tools, watched_call};

const ASKING_SERVER: &str = r#"
from typing import Annotated
from pydantic import BaseModel
from mcp.server.mcpserver import Elicit, MCPServer, Resolve

class Author(BaseModel):
    name: str

async def author(path: str):
    return Elicit(f"Who signs {path}?", Author)

server = MCPServer("asks")

@server.tool()
async def sign(path: str, who: Annotated[Author, Resolve(author)]) -> str:
    "Signs a file."
    return f"{path} by {who.name}"

server.run()
"#;

fn reply_call(question: &Value, part: Value) -> Call {
    let asked = question["inputRequests"].as_object().unwrap().keys().next().unwrap().clone();
    let reply = ToolQuestionReply { question: question.clone(), answer: json!({ asked: part }) };
    let context = CallContext { reply: Some(reply), ..CallContext::default() };
    Call { context, ..new_call("asks/sign", json!({ "path": "a.md" })) }
}

#[tokio::test]
async fn python_sdk_question_is_returned_and_its_reply_reaches_the_tool() {
    let python = crate::reference_servers::pypi_program("servers/bin/python");
    let folder = tempdir().unwrap();
    let server = json!({ "command": python, "args": ["-c", ASKING_SERVER] });
    let tools = tools(folder.path(), json!({ "mcpServers": { "asks": server } }));
    let (ended, processes) = watched_call(&tools, new_call("asks/sign", json!({ "path": "a.md" }))).await;
    assert_eq!(processes.len(), 1, "the call was sent");
    let CallOutcome::InputRequired { question, began } = ended else { panic!("no question: {ended:?}") };
    assert!(!began, "the tool has not begun");
    assert_eq!(question["message"], "the tool asks: Who signs a.md?");
    let answer = json!({ "action": "accept", "content": { "name": "Ada" } });
    let (ended, _) = watched_call(&tools, reply_call(&question, answer)).await;
    assert_eq!(expect_output(ended), json!({ "result": "a.md by Ada" }));
    let (ended, _) = watched_call(&tools, reply_call(&question, json!({ "action": "decline" }))).await;
    assert_eq!(expect_failure(ended).0, ErrorCategory::ToolError, "the tool decides on a declined question");
    tools.shutdown().await;
}
