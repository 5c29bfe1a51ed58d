//! What the text of an answer says, for an agent that reads nothing else: what was cut, what was found, what
//! was left out, and what to do about a refusal.

use serde_json::json;

use super::agent::Agent;
use super::{hold, steps, write};
use crate::cli::{BINARY, House};

#[test]
fn truncated_output_is_named_in_the_text_and_in_the_error_of_its_reader() {
    let house = House::new();
    let large = json!({ "argv": ["sh", "-c", "head -c 2000000 /dev/zero | tr '\\0' a"] });
    house.config(json!({
        "mcpServers": { "files": { "command": BINARY, "args": ["demo-tools", "--folder", "work"] } },
        "commands": { "large": large },
    }));
    let mut agent = Agent::new(&house);
    let reader = json!({
        "id": "w", "tool": "files/write_file", "cancellable": "irreversible",
        "arguments": { "path": "a.txt", "content": "${steps.r.output.content}" },
    });
    let plan = steps(&[json!({ "id": "r", "tool": "command/large", "read_only": true }), reader]);
    let blocked = agent.good("execute_plan", json!({ "plan": plan, "wait_s": 45 }));
    assert!(blocked.line("Output of step `r` (").contains("truncated"), "{}", blocked.text);
    let cause = "there is no steps.r.output.content: steps.r.output was too long";
    assert!(blocked.text.contains(cause), "{}", blocked.text);
    let step = agent.good("status", json!({ "execution_id": blocked.id(), "step_id": "r" }));
    assert!(step.line("Output (").contains("truncated"), "{}", step.text);
}

#[test]
fn execute_plan_with_a_document_tells_what_the_check_found() {
    let house = House::new();
    house.config(json!({
        "mcpServers": { "files": {
            "command": BINARY, "args": ["demo-tools", "--folder", "work"],
            "tools": { "delete_file": { "approval": "required" } },
        } },
    }));
    let mut agent = Agent::new(&house);
    let last = json!({ "id": "b", "action": "Tell the team" });
    let started = agent.good("execute_plan", json!({ "plan": steps(&[write("a", "a.txt"), last]), "wait_s": 45 }));
    assert!(started.text.contains("Check: the point of no return is step `b`."), "{}", started.text);
    let note = "before a call of `files/delete_file`: undoing `a` waits for it";
    assert!(started.text.contains(note), "{}", started.text);
    assert_eq!(started.content["check"]["point_of_no_return"], "b");
    let findings = started.content["check"]["findings"].as_array().unwrap();
    assert!(findings.iter().any(|finding| finding["code"] == "approval_by_config"), "{findings:?}");
}
