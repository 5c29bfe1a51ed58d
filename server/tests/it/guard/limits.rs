//! What a client sends is stored only as far as an export of it can be verified.

use super::*;

/// Exports the newest session and verifies the file.
#[track_caller]
fn verify_export(sandbox: &Sandbox) {
    let file = sandbox.path("e.actbook");
    let file = file.to_str().unwrap();
    sandbox.expect(0, &["export", &sandbox.newest(), "-o", file]);
    let size = std::fs::metadata(file).unwrap().len();
    sandbox.expect(0, &["verify", file]);
    std::fs::remove_file(file).unwrap();
    assert!(size < 8 * 1024 * 1024, "{size}");
}

#[test]
fn output_of_a_hooked_call_is_cut() {
    let sandbox = guarded(json!({}));
    let call = before(&sandbox, "t1", "Bash", json!({ "command": "ls" }));
    assert_eq!(decide(&sandbox, &call), None);
    let response = json!({ "stdout": "\"\n".repeat(1_500_000) });
    assert_eq!(decide(&sandbox, &after(&call, response)), None);
    let output = &sandbox.json(&["show", &sandbox.newest(), "c1"])["output"];
    assert_eq!((&output["truncated"], &output["bytes"]), (&json!(true), &json!(6_000_013)), "{output}");
    let mut failed = before(&sandbox, "t2", "Bash", json!({ "command": "ls" }));
    assert_eq!(decide(&sandbox, &failed), None);
    (failed["hook_event_name"], failed["error"]) =
        (json!("PostToolUseFailure"), json!("x".repeat(3_000_000)));
    assert_eq!(decide(&sandbox, &failed), None);
    assert_eq!(statuses(&sandbox), ["succeeded", "failed"]);
    verify_export(&sandbox);
}

#[test]
fn input_that_is_too_large_to_be_judged_is_denied() {
    let sandbox = guarded(json!({ "mode": "observe" }));
    let write = |id: &str| {
        let content = "\"\n".repeat(1_200_000);
        before(&sandbox, id, "Write", json!({ "file_path": "a.txt", "content": content }))
    };
    assert_eq!(decide(&sandbox, &write("t1")), None, "an observing guard refuses nothing");
    assert_eq!(decide(&sandbox, &after(&write("t1"), json!({}))), None);
    sandbox.write_config(json!({ "guard": {} }));
    let denied = decide(&sandbox, &write("t2")).unwrap();
    assert!(denied.0 == "deny" && denied.1.contains("larger than 4 MiB"), "{denied:?}");
    assert_eq!(statuses(&sandbox), ["succeeded", "failed"]);
    let demanded = json!({ "client": { "tools": { "write": { "approval": "required" } } } });
    sandbox.write_config(json!({ "guard": { "mode": "observe" }, "servers": demanded }));
    assert_eq!(decide(&sandbox, &write("t3")).unwrap().0, "deny");
    verify_export(&sandbox);
}

#[test]
fn event_or_name_that_is_too_long_blocks() {
    let sandbox = guarded(json!({}));
    let large = before(&sandbox, "t1", "Bash", json!({ "command": "x".repeat(17 * 1024 * 1024) }));
    let mut session = before(&sandbox, "t1", "Bash", json!({ "command": "ls" }));
    session["session_id"] = json!("s".repeat(2_000));
    let name = before(&sandbox, "t1", &"Tool".repeat(500), json!({}));
    for (event, why) in
        [(large, "larger than 16 MiB"), (session, "more than 1000 bytes"), (name, "more than 1000 bytes")]
    {
        let ran = run_hook(&sandbox, &event, &[]);
        assert_eq!(ran.code, Some(2), "{}", ran.stderr);
        assert!(ran.stderr.contains(why), "{}", ran.stderr);
    }
}
