//! `policy test`, and the errors of the config's `guard` section.

use super::*;

#[test]
fn policy_test_shows_the_trace_of_each_rule() {
    let sandbox = guarded(json!({
        "use": ["trifecta", "stay-in-folder"],
        "rules": [{ "name": "broken", "when": "call.arguments.missing == 1", "then": "ask" }],
    }));
    sandbox.write(
        "call.yaml",
        "call: { tool: files/write, arguments: { path: /etc/motd } }\nsession: { folder: /srv/site }\n",
    );
    let ran = sandbox.run(&["policy", "test", "call.yaml"]);
    assert_eq!(ran.code, Some(1), "{}", ran.stderr);
    assert!(ran.stdout.starts_with("files/write: deny, by the rule `stay-in-folder`"), "{}", ran.stdout);
    let tested = sandbox.json(&["policy", "test", "call.yaml"]);
    let fits: Vec<_> =
        tested["trace"].as_array().unwrap().iter().map(|rule| rule["fits"].as_bool().unwrap()).collect();
    assert_eq!(fits, [false, false, false, false, true, false, true], "{tested}");
    assert!(tested["trace"][6]["error"].as_str().unwrap().contains("missing"), "{tested}");
    sandbox.write("call.yaml", "call: { tool: client/shell, arguments: { command: ls } }");
    assert!(sandbox.run(&["policy", "test", "call.yaml"]).stdout.contains("ask"), "the broken rule asks");
    sandbox.write("call.yaml", "call: { tol: x }");
    let wrong = sandbox.run(&["policy", "test", "call.yaml"]);
    assert!(wrong.code == Some(1) && wrong.stderr.contains("unknown field `tol`"), "{}", wrong.stderr);
    assert_eq!(sandbox.json(&["list"]).as_array().map(Vec::len), Some(0), "nothing is journaled");
}

#[test]
fn mistakes_in_the_guard_section_name_their_path_and_cure() {
    let sandbox = Sandbox::new();
    for (guard, path, says) in [
        ("{ mod: observe }", "guard.mod", "did you mean `mode`?"),
        ("{ mode: observ }", "guard.mode", "did you mean `observe`?"),
        ("{ use: [trifekta] }", "guard.use", "did you mean `trifecta`?"),
        (
            "{ rules: [{ name: a, when: 'sesion.calls > 1', then: ask }] }",
            "guard.rules[0].when",
            "did you mean `session`?",
        ),
        ("{ rules: [{ name: a, when: 'true' }] }", "guard.rules[0].then", "is missing"),
        (
            "{ rules: [{ name: a, when: 'true', then: ask }, { name: a, when: 'true', then: ask }] }",
            "guard.rules[1].name",
            "already",
        ),
        ("{ ask: { hold: 10m, expires: 5m } }", "guard.ask.expires", "shorter than `hold`"),
        ("{ budget: { per_tool: { a: none } } }", "guard.budget.per_tool", "mapping"),
        ("[]", "guard", "must be a mapping"),
    ] {
        sandbox.write("named.yaml", &format!("guard: {guard}"));
        sandbox.write("call.yaml", "call: { tool: a/b }");
        let ran = sandbox.run(&["policy", "test", "call.yaml", "--config", "named.yaml"]);
        assert_eq!(ran.code, Some(1), "{guard}: {}", ran.stdout);
        assert!(
            ran.stderr.contains(&format!("`{path}`")) && ran.stderr.contains(says),
            "{guard}: {}",
            ran.stderr
        );
    }
}
