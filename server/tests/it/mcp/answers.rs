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
