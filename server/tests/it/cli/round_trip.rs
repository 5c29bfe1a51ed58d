//! The main workflow: run, fail, show, undo, verify.

use super::*;

/// Two steps with an effect, then one that fails.
const NOTES: &str = r#"
name: notes
inputs: { type: object, properties: { version: { type: string }, count: { type: integer } }, required: [version] }
steps:
  - id: draft
    tool: files/write_file
    arguments: { path: "notes-${inputs.version}.md", content: "n" }
    compensation: { tool: files/delete_file, arguments: { path: "${arguments.path}" } }
  - id: count
    tool: files/counter_add
    arguments: { name: releases, amount: "${inputs.count}" }
    compensation: { tool: files/counter_add, arguments: { name: releases, amount: "${-arguments.amount}" } }
  - id: publish
    tool: files/move_file
    arguments: { from: missing.md, to: "${steps.draft.output.path}.public" }
    compensation: { tool: files/delete_file, arguments: { path: "${arguments.to}" } }
"#;

/// Runs the plan until it blocks on its failed step; returns the execution id.
fn failed_run(sandbox: &Sandbox) -> String {
    sandbox.write("notes.yaml", NOTES);
    let ran = sandbox.run(&["run", "notes.yaml", "--input", "version=1.0", "--input", "count=3"]);
    assert_eq!(ran.code, Some(3), "{}\n{}", ran.stdout, ran.stderr);
    for words in ["✓ draft succeeded", "✗ publish failed", "Recovery brief", "actbook decide", "actbook undo"]
    {
        assert!(ran.stdout.contains(words), "{words}\n{}", ran.stdout);
    }
    assert!(!ran.stdout.contains('\x1b'), "colours in a pipe: {:?}", ran.stdout);
    sandbox.newest()
}

#[test]
fn failed_run_is_explained_undone_and_verified() {
    check_failed_run(&Sandbox::new());
}

#[tokio::test]
async fn failed_run_on_postgresql_is_explained_undone_and_verified() {
    let database = crate::postgres::PostgresDatabase::create().await;
    check_failed_run(&Sandbox { database: Some(database.url.clone()), ..Sandbox::new() });
}

fn check_failed_run(sandbox: &Sandbox) {
    let id = failed_run(sandbox);
    assert_eq!(std::fs::read_to_string(sandbox.path("work/notes-1.0.md")).unwrap(), "n");

    let shown = sandbox.expect(0, &["show", &id[..6]]);
    assert!(shown.contains(&format!("actbook decide {} publish retry", &id[..8])), "{shown}");
    let dry = sandbox.json(&["undo", &id, "--dry-run"]);
    assert_eq!(dry["undo"][0]["arguments"], json!({ "name": "releases", "amount": -3 }));

    let undone = sandbox.expect(0, &["undo", &id]);
    assert!(undone.contains("↺ draft compensated"), "{undone}");
    assert!(!sandbox.path("work/notes-1.0.md").exists());
    assert_eq!(
        sandbox.json(&["tools", "call", "files/counter_get", r#"{"name": "releases"}"#])["output"]["value"],
        0
    );
    assert!(sandbox.expect(0, &["verify"]).contains("is whole"));
    assert_eq!(sandbox.json(&["list", "--status", "compensated"])[0]["id"], json!(id));
    sandbox.expect(1, &["undo", &id]);
}

#[test]
fn views_have_the_fields_that_scripts_rely_on() {
    let sandbox = Sandbox::new();
    let id = failed_run(&sandbox);
    let view = sandbox.json(&["show", &id]);
    let fields = ["id", "status", "plan", "started_at", "progress", "position", "steps", "waiting", "brief"];
    fields.iter().for_each(|field| assert!(view.get(field).is_some(), "{field} in {view}"));
    assert_eq!(view["status"], "blocked");
    assert_eq!(view["progress"], json!({ "done": 2, "total": 3 }));
    assert_eq!(step(&view, "draft")["arguments"]["path"], "notes-1.0.md");
    assert_eq!(step(&view, "publish")["error"]["category"], "tool_error");
    assert_eq!(view["waiting"][0]["for"], "decision");
    assert_eq!(view["brief"]["done"], json!(["draft", "count"]));
    assert_eq!(view["brief"]["undo"][1]["tool"], "files/delete_file");

    let entries = sandbox.expect(0, &["journal", "--execution", &id, "--json"]);
    let entries: Vec<Value> = entries.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    for field in ["position", "at", "execution", "version", "kind", "actor", "body", "hash"] {
        assert!(entries.iter().all(|entry| entry.get(field).is_some()), "{field}");
    }
    let words = |words: &[&str]| sandbox.expect(0, &[&["journal"], words].concat()).lines().count();
    assert_eq!(words(&["--kind", "attempt_started"]), 3);
    assert_eq!(words(&["--kind", "attempt_started", "--search", "publish"]), 1);
    assert_eq!(words(&["--since", "1h", "--limit", "2"]), 2);
    assert_eq!(words(&["--until", "1h"]), 0);
    assert_eq!(
        words(&["--actor", "actbook", "--after", "8"]),
        entries.iter().filter(|entry| entry["position"].as_u64() > Some(8)).count()
    );
}

#[test]
fn run_with_json_flag_streams_changes_and_ends_with_the_view() {
    let sandbox = Sandbox::new();
    sandbox.write(
        "one.yaml",
        "name: one\nsteps: [{ id: a, tool: files/echo, read_only: true, arguments: { x: 1 } }]",
    );
    let out = sandbox.expect(0, &["run", "one.yaml", "--json"]);
    let lines: Vec<Value> = out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let (view, changes) = lines.split_last().unwrap();
    assert_eq!((&view["status"], &step(view, "a")["output"]), (&json!("succeeded"), &json!({ "x": 1 })));
    assert!(
        changes.iter().any(|change| change["step"]["id"] == "a" && change["step"]["status"] == "succeeded")
    );
    assert_eq!(sandbox.json(&["plan", "list"])[0]["version"], 1);
    sandbox.expect(0, &["run", "one.yaml"]);
    sandbox.expect(0, &["run", "one"]);
    assert_eq!(
        sandbox.json(&["plan", "list"])[0]["version"],
        1,
        "the same document must not make a new version"
    );
}

#[test]
fn inputs_take_the_type_that_the_schema_declares() {
    let sandbox = Sandbox::new();
    let schema = "{ type: object, properties: { text: { type: string }, count: { type: integer }, flag: { type: boolean } }, additionalProperties: true }";
    sandbox.write("in.yaml", &format!("name: in\ninputs: {schema}\nsteps: [{{ id: a, tool: files/echo, read_only: true, arguments: {{ all: \"${{inputs}}\" }} }}]"));
    sandbox.write("given.yaml", "count: 1\nflag: true\n");
    let words = [
        "run",
        "in.yaml",
        "--inputs",
        "given.yaml",
        "--input",
        "text=12",
        "--input",
        "count=7",
        "--input",
        "free={\"a\":[1]}",
        "--json",
    ];
    let out = sandbox.expect(0, &words);
    let view: Value = serde_json::from_str(out.lines().last().unwrap()).unwrap();
    let expected = json!({ "text": "12", "count": 7, "flag": true, "free": { "a": [1] } });
    assert_eq!(step(&view, "a")["output"]["all"], expected);
    let refused = sandbox.run(&["run", "in", "--input", "count=many"]);
    assert_eq!(refused.code, Some(1));
    assert!(refused.stderr.contains("inputs.count"), "{}", refused.stderr);
}
