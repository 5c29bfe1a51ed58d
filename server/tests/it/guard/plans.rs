//! Calls that a plan waits for: they are recognised and reported there, and where the config demands a plan, nothing else
//! passes.

use super::*;

/// A sandbox that matches calls with plans, and a plan of these steps, started; returns its execution too.
fn planned(plan_use: &str, policy: Value, steps: Value) -> (Sandbox, String) {
    let sandbox = guarded(json!({ "plan": plan_use, "unknown": "allow" }));
    let id = start(&sandbox, policy, steps);
    (sandbox, id)
}

fn start(sandbox: &Sandbox, policy: Value, steps: Value) -> String {
    let plan = json!({ "name": "release", "policy": policy, "steps": steps });
    sandbox.write("plan.yaml", &plan.to_string());
    sandbox.expect(3, &["run", "plan.yaml", "--yes"]);
    sandbox.newest()
}

fn agent_step(id: &str, tool: &str, arguments: Value) -> Value {
    json!({ "id": id, "tool": tool, "arguments": arguments, "by": "agent" })
}

fn step_of(sandbox: &Sandbox, execution: &str, step: &str) -> Value {
    sandbox.json(&["show", execution, step])
}

#[test]
fn call_that_a_plan_waits_for_is_reported_there() {
    let build = agent_step("build", "client/shell", json!({ "command": "make" }));
    let move_card = agent_step("move", "board/move_card", json!({ "id": "7", "list": "done" }));
    let (sandbox, id) = planned("match", json!({}), json!([build, move_card]));
    let other = before(&sandbox, "t0", "Bash", json!({ "command": "make test" }));
    assert_eq!(decide(&sandbox, &other), None, "in this mode all else passes");
    decide(&sandbox, &after(&other, json!({})));
    assert_eq!(step_of(&sandbox, &id, "build")["status"], "awaiting_agent");

    let call = before(&sandbox, "t1", "Bash", json!({ "command": "make", "description": "Build it" }));
    assert_eq!(decide(&sandbox, &call), None);
    let added = sandbox.expect(0, &["journal", "--kind", "step_added", "--json"]);
    assert!(added.contains(&format!("\"execution\":\"{id}\"")), "{added}");
    decide(&sandbox, &after(&call, json!({ "stdout": "built" })));
    let step = step_of(&sandbox, &id, "build");
    assert_eq!(
        (&step["status"], &step["output"]["stdout"]),
        (&json!("succeeded"), &json!("built")),
        "{step}"
    );
    assert_eq!(sandbox.json(&["show", &id])["steps"][0]["recorded"]["type"], "observed");
}

#[test]
fn nothing_but_the_steps_of_an_approved_plan_passes_where_a_plan_is_demanded() {
    let approved = json!({ "approval": "plan" });
    let fetch = agent_step("fetch", "client/fetch", json!({ "url": "https://x.example" }));
    let (sandbox, id) = planned("require", approved.clone(), json!([fetch]));
    let denied = decide(&sandbox, &before(&sandbox, "t1", "Bash", json!({ "command": "ls" }))).unwrap();
    assert!(denied.0 == "deny" && denied.1.contains("no plan waits for this call"), "{denied:?}");
    let other = before(&sandbox, "t2", "WebFetch", json!({ "url": "https://y.example" }));
    assert_eq!(decide(&sandbox, &other).unwrap().0, "deny");
    let own = before(&sandbox, "t3", "mcp__actbook__status", json!({}));
    assert_eq!(decide(&sandbox, &own), None);
    let call = before(&sandbox, "t4", "WebFetch", json!({ "url": "https://x.example" }));
    assert_eq!(decide(&sandbox, &call), None);
    decide(&sandbox, &after(&call, json!("text")));
    assert_eq!(step_of(&sandbox, &id, "fetch")["status"], "succeeded");

    // What is approved once a stranger's text was read may be the stranger's plan.
    let mail = agent_step("mail", "mail/send", json!({ "to": "a@b.example" }));
    start(&sandbox, approved, json!([mail]));
    let late =
        decide(&sandbox, &before(&sandbox, "t5", "mcp__mail__send", json!({ "to": "a@b.example" }))).unwrap();
    assert!(late.0 == "deny" && late.1.contains("after the session had read untrusted text"), "{late:?}");
}

#[test]
fn plan_that_nobody_approved_lets_nothing_pass_where_one_is_demanded() {
    let list = agent_step("list", "client/shell", json!({ "command": "ls" }));
    let (sandbox, _) = planned("require", json!({}), json!([list]));
    let denied = decide(&sandbox, &before(&sandbox, "t1", "Bash", json!({ "command": "ls" }))).unwrap();
    assert!(denied.0 == "deny" && denied.1.contains("nobody has approved the plan"), "{denied:?}");
}
