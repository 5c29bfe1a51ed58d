//! Maintenance of the journal and of saved plans: export, backup, rebuild, cleanup, graphs, doctor, help.

use super::*;

fn run_one_step_plan(sandbox: &Sandbox) -> String {
    sandbox.write("one.yaml", "name: one\nsteps: [{ id: a, tool: files/write_file, arguments: { path: a, content: secret-ish }, compensation: { tool: files/delete_file, arguments: { path: a } } }]");
    sandbox.expect(0, &["run", "one.yaml"]);
    sandbox.newest()
}

#[test]
fn changed_export_fails_verification() {
    let sandbox = Sandbox::new();
    let id = run_one_step_plan(&sandbox);
    sandbox.expect(0, &["export", &id, "run.jsonl"]);
    let exported = sandbox.expect(0, &["export", &id]);
    assert_eq!(exported, std::fs::read_to_string(sandbox.path("run.jsonl")).unwrap());
    assert!(sandbox.expect(0, &["verify", "run.jsonl"]).contains("is whole"));
    sandbox.write("run.jsonl", &exported.replace("secret-ish", "secret-ist"));
    let ran = sandbox.run(&["verify", "run.jsonl"]);
    assert_eq!(ran.code, Some(1));
    assert!(ran.stdout.contains("is not valid at position"), "{}", ran.stdout);
}

#[test]
fn backup_verifies_and_lists_as_a_database() {
    let sandbox = Sandbox::new();
    let id = run_one_step_plan(&sandbox);
    sandbox.expect(0, &["backup", "copy.db"]);
    sandbox.expect(1, &["backup", "copy.db"]);
    sandbox.expect(0, &["verify", "--database", "copy.db"]);
    assert_eq!(sandbox.json(&["list", "--database", "copy.db"])[0]["id"], json!(id));
    sandbox.expect(0, &["rebuild"]);
    assert_eq!(sandbox.json(&["list"])[0]["id"], json!(id));
}

#[test]
fn database_file_is_complete_after_the_last_process_exits() {
    let sandbox = Sandbox::new();
    sandbox.write("one.yaml", "name: one\nsteps: [{ id: a, tool: files/echo }]");
    sandbox.expect(0, &["run", "one.yaml"]);
    std::fs::copy(sandbox.path("data/actbook/actbook.db"), sandbox.path("copy.db")).unwrap();
    assert_eq!(sandbox.json(&["list", "--database", "copy.db"])[0]["plan"]["name"], "one");
    let heads =
        ["data/actbook/actbook.db", "copy.db"].map(|file| sandbox.json(&["verify", "--database", file]));
    assert_eq!(heads[0], heads[1]);
    let doctor = sandbox.run(&["doctor"]).stdout;
    assert!(doctor.contains("`actbook backup FILE`"), "{doctor}");
}

#[test]
fn command_waiting_for_a_locked_database_names_the_holder() {
    let sandbox = Sandbox::new();
    sandbox.write("one.yaml", "name: one\nsteps: [{ id: a, tool: files/echo }]");
    sandbox.expect(0, &["plan", "save", "one.yaml"]);
    let holder = rusqlite::Connection::open(sandbox.path("data/actbook/actbook.db")).unwrap();
    holder.execute_batch("BEGIN IMMEDIATE").unwrap();
    sandbox.write("two.yaml", "name: two\nsteps: [{ id: a, tool: files/echo }]");
    let mut waits = sandbox.start(&["plan", "save", "two.yaml"]);
    wait_for_line(
        &read_lines(waits.stderr.take().unwrap()),
        &format!("waiting for process {} (", std::process::id()),
    );
    holder.execute_batch("ROLLBACK").unwrap();
    assert_eq!(waits.wait().unwrap().code(), Some(0));
}

#[test]
fn backup_and_export_files_have_mode_0600() {
    use std::os::unix::fs::PermissionsExt as _;
    let sandbox = Sandbox::new();
    let id = run_one_step_plan(&sandbox);
    sandbox.write("old.jsonl", "readable by all");
    std::fs::set_permissions(sandbox.path("old.jsonl"), std::fs::Permissions::from_mode(0o644)).unwrap();
    sandbox.expect(0, &["backup", "copy.db"]);
    sandbox.expect(0, &["export", &id, "--output", "run.jsonl"]);
    sandbox.expect(0, &["export", &id, "--output", "old.jsonl"]);
    for name in ["copy.db", "run.jsonl", "old.jsonl"] {
        let mode = std::fs::metadata(sandbox.path(name)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{name}");
    }
}

#[test]
fn cleanup_erases_payloads_and_the_hash_chain_still_verifies() {
    let sandbox = Sandbox::new();
    let id = run_one_step_plan(&sandbox);
    assert_eq!(sandbox.json(&["cleanup", "--older-than", "1d"])["executions"], 0);
    assert_eq!(
        sandbox.json(&["cleanup", "--older-than", "0s", "--dry-run"]),
        json!({ "executions": 1, "acts": 0, "notes": 0, "dry_run": true })
    );
    assert_eq!(sandbox.json(&["cleanup", "--older-than", "0s"])["executions"], 1);
    assert!(step(&sandbox.json(&["show", &id]), "a").get("arguments").is_none_or(Value::is_null));
    assert_eq!(sandbox.json(&["verify"])["ok"], true);
    let undo = sandbox.run(&["undo", &id]);
    assert!(undo.stderr.contains("erased"), "{}", undo.stderr);
}

#[test]
fn saved_plans_are_listed_shown_and_deleted() {
    let sandbox = Sandbox::new();
    run_one_step_plan(&sandbox);
    sandbox.write("one.yaml", "name: one\nsteps: [{ id: b, action: Think }]");
    assert!(sandbox.expect(0, &["plan", "save", "one.yaml"]).contains("version 2"));
    assert!(sandbox.expect(0, &["plan", "save", "one.yaml"]).contains("unchanged"));
    assert!(sandbox.expect(0, &["plan", "show", "one"]).contains("Think"));
    sandbox.expect(0, &["plan", "delete", "one"]);
    sandbox.expect(1, &["plan", "show", "one"]);
}

#[test]
fn graphs_show_the_point_of_no_return_and_escape_labels() {
    let sandbox = Sandbox::new();
    let plan = json!({ "name": "<b>&\"x\"", "policy": { "concurrency": 2 }, "steps": [
        { "id": "a", "name": "</text><script>", "tool": "files/echo", "read_only": true },
        { "id": "b", "action": "Say \"it\" ]--> s0", "depends_on": ["a"] },
    ] });
    sandbox.write("g.json", &plan.to_string());
    let text = sandbox.expect(0, &["plan", "graph", "g.json"]);
    assert!(text.contains("point of no return") && text.contains("← a"), "{text}");
    let svg = sandbox.expect(0, &["plan", "graph", "g.json", "--format", "svg"]);
    assert!(svg.starts_with("<svg") && svg.contains("&lt;script&gt;") && !svg.contains("<script"), "{svg}");
    let mermaid = sandbox.expect(0, &["plan", "graph", "g.json", "--format", "mermaid"]);
    assert!(mermaid.contains("s0 --> s1") && !mermaid.contains("\"it\""), "{mermaid}");
    let dot = sandbox.expect(0, &["plan", "graph", "g.json", "--format", "dot"]);
    assert!(dot.contains("s0 -> s1") && dot.contains("\\\"it\\\""), "{dot}");
    sandbox.expect(0, &["plan", "graph", "g.json", "--format", "svg", "--output", "g.svg"]);
    assert_eq!(std::fs::read_to_string(sandbox.path("g.svg")).unwrap().trim_end(), svg.trim_end());
}

#[test]
fn graph_of_a_wide_plan_wraps_into_rows_and_shows_conditions() {
    let sandbox = Sandbox::new();
    let mut steps: Vec<Value> =
        (0..60).map(|number| json!({ "id": format!("step-{number}"), "tool": "files/echo" })).collect();
    steps.push(json!({ "id": "last", "tool": "files/echo", "when": "steps.step-0.output.text\n!= 'x'" }));
    let plan = json!({ "name": "wide", "policy": { "concurrency": 8 }, "steps": steps });
    sandbox.write("wide.json", &plan.to_string());
    let drawn = |format: &str| sandbox.expect(0, &["plan", "graph", "wide.json", "--format", format]);
    let svg = drawn("svg");
    let width = svg.split("width=\"").nth(1).and_then(|rest| rest.split('"').next()?.parse::<u32>().ok());
    assert!(width.is_some_and(|width| width < 2_200), "{width:?}");
    assert!(
        svg.contains(">when steps.step-0.output.text") && svg.contains("class=\"box stays maybe\""),
        "{svg}"
    );
    assert!(drawn("text").contains("when steps.step-0.output.text != 'x'"));
    assert!(drawn("mermaid").contains("style s60 stroke-dasharray"));
    assert!(drawn("dot").contains("dashed") && drawn("dot").contains("when steps.step-0.output.text != 'x'"));
}

#[test]
fn doctor_reports_a_server_that_does_not_start() {
    let sandbox = Sandbox::new();
    assert!(sandbox.expect(0, &["doctor"]).contains("files answers with"));
    sandbox.write("actbook.yaml", r#"{"mcpServers": {"broken": {"command": "no-such-program-anywhere"}}}"#);
    let lines = sandbox.json(&["doctor"]);
    let server = lines.as_array().unwrap().iter().find(|line| line["what"] == "server").unwrap();
    assert_eq!(server["ok"], false);
    sandbox.write(
        "actbook.yaml",
        r#"{"mcpServers": {"unset": {"command": "sh", "args": ["${env:NOT_SET_ANYWHERE}"]}}}"#,
    );
    let unset = sandbox.run(&["doctor"]).stdout;
    assert!(unset.contains("set NOT_SET_ANYWHERE where actbook runs"), "{unset}");
}

#[test]
fn every_command_has_an_example_and_completions_and_man_page_exist() {
    let sandbox = Sandbox::new();
    let help = sandbox.expect(0, &["--help"]);
    let commands =
        help.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    // The continuation line of a description is indented further.
    let names = commands.filter_map(|line| line.strip_prefix("  ").filter(|rest| !rest.starts_with(' ')));
    let names = names.filter_map(|rest| rest.split_whitespace().next());
    let names: Vec<&str> = names.collect();
    assert!(names.len() > 20, "{help}");
    for name in names {
        let help = sandbox.expect(0, &[name, "--help"]);
        let leaf = !help.contains("Commands:");
        assert!(!leaf || help.contains("Example"), "{name} has no example");
    }
    for shell in ["bash", "zsh", "fish"] {
        assert!(sandbox.expect(0, &["completions", shell]).contains("actbook"));
    }
    let man = sandbox.expect(0, &["man"]);
    assert!(man.contains(".TH actbook 1") && man.contains("ACTBOOK UNDO"), "{man}");
}
