//! Questions (elicitation) from a third-party server on the Python SDK: asked, answered, declined.

use actbook::tools::{Call, CallContext, CallOutcome, ToolQuestionReply};
use actbook_engine::policy::ErrorCategory;
use serde_json::{Value, json};
use tempfile::tempdir;

use super::{a_call, failure, output, tools, watched_call};

const ASKS: &str = r#"
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

fn replying(question: &Value, part: Value) -> Call {
    let asked = question["inputRequests"].as_object().unwrap().keys().next().unwrap().clone();
    let reply = ToolQuestionReply { question: question.clone(), answer: json!({ asked: part }) };
    let context = CallContext { reply: Some(reply), ..CallContext::default() };
    Call { context, ..a_call("asks/sign", json!({ "path": "a.md" })) }
}

#[tokio::test]
async fn a_question_of_the_python_sdk_is_put_and_its_answer_goes_back() {
    let python = super::mcp_http::installed("ACTBOOK_TEST_PYPI").join("servers/bin/python");
    let folder = tempdir().unwrap();
    let server = json!({ "command": python, "args": ["-c", ASKS] });
    let tools = tools(folder.path(), json!({ "mcpServers": { "asks": server } }));
    let (ended, processes) = watched_call(&tools, a_call("asks/sign", json!({ "path": "a.md" }))).await;
    assert_eq!(processes.len(), 1, "the call was sent");
    let CallOutcome::InputRequired { question, began } = ended else { panic!("no question: {ended:?}") };
    assert!(!began, "the tool has not begun");
    assert_eq!(question["message"], "the tool asks: Who signs a.md?");
    let answer = json!({ "action": "accept", "content": { "name": "Ada" } });
    let (ended, _) = watched_call(&tools, replying(&question, answer)).await;
    assert_eq!(output(ended), json!({ "result": "a.md by Ada" }));
    let (ended, _) = watched_call(&tools, replying(&question, json!({ "action": "decline" }))).await;
    assert_eq!(failure(ended).0, ErrorCategory::ToolError, "the tool decides on a declined question");
    tools.shutdown().await;
}
