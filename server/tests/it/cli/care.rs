//! Maintenance of the journal and of saved plans: export, backup, rebuild, cleanup, graphs, doctor, help.

use super::*;

fn one_run(house: &House) -> String {
    house.write("one.yaml", "name: one\nsteps: [{ id: a, tool: files/write_file, arguments: { path: a, content: secret-ish }, compensation: { tool: files/delete_file, arguments: { path: a } } }]");
    house.expect(0, &["run", "one.yaml"]);
    house.newest()
}

#[test]
fn an_export_verifies_offline_until_somebody_changes_it() {
    let house = House::new();
    let id = one_run(&house);
    house.expect(0, &["export", &id, "--output", "run.jsonl"]);
    let exported = house.expect(0, &["export", &id]);
    assert_eq!(exported, std::fs::read_to_string(house.path("run.jsonl")).unwrap());
    assert!(house.expect(0, &["verify", "run.jsonl"]).contains("is whole"));
    house.write("run.jsonl", &exported.replace("secret-ish", "secret-ist"));
    let ran = house.run(&["verify", "run.jsonl"]);
    assert_eq!(ran.code, Some(1));
    assert!(ran.out.contains("does not hold at position"), "{}", ran.out);
}

#[test]
fn a_backup_is_a_whole_database() {
    let house = House::new();
    let id = one_run(&house);
    house.expect(0, &["backup", "copy.db"]);
    house.expect(1, &["backup", "copy.db"]);
    house.expect(0, &["verify", "--database", "copy.db"]);
    assert_eq!(house.json(&["list", "--database", "copy.db"])[0]["id"], json!(id));
    house.expect(0, &["rebuild"]);
    assert_eq!(house.json(&["list"])[0]["id"], json!(id));
}

#[test]
fn database_file_alone_is_whole_once_the_last_process_has_left() {
    let house = House::new();
    house.write("one.yaml", "name: one\nsteps: [{ id: a, tool: files/echo }]");
    house.expect(0, &["run", "one.yaml"]);
    std::fs::copy(house.path("data/actbook/actbook.db"), house.path("copy.db")).unwrap();
    assert_eq!(house.json(&["list", "--database", "copy.db"])[0]["plan"]["name"], "one");
    let heads =
        ["data/actbook/actbook.db", "copy.db"].map(|file| house.json(&["verify", "--database", file]));
    assert_eq!(heads[0], heads[1]);
    let doctor = house.run(&["doctor"]).out;
    assert!(doctor.contains("`actbook backup FILE`"), "{doctor}");
}

#[test]
fn command_that_waits_for_the_database_names_the_process_that_holds_it() {
    let house = House::new();
    house.write("one.yaml", "name: one\nsteps: [{ id: a, tool: files/echo }]");
    house.expect(0, &["plan", "save", "one.yaml"]);
    let holder = rusqlite::Connection::open(house.path("data/actbook/actbook.db")).unwrap();
    holder.execute_batch("BEGIN IMMEDIATE").unwrap();
    house.write("two.yaml", "name: two\nsteps: [{ id: a, tool: files/echo }]");
    let mut waits = house.start(&["plan", "save", "two.yaml"]);
    hears(&lines(waits.stderr.take().unwrap()), &format!("waiting for process {} (", std::process::id()));
    holder.execute_batch("ROLLBACK").unwrap();
    assert_eq!(waits.wait().unwrap().code(), Some(0));
}

#[test]
fn backup_and_export_are_readable_by_their_owner_alone() {
    use std::os::unix::fs::PermissionsExt as _;
    let house = House::new();
    let id = one_run(&house);
    house.write("old.jsonl", "readable by all");
    std::fs::set_permissions(house.path("old.jsonl"), std::fs::Permissions::from_mode(0o644)).unwrap();
    house.expect(0, &["backup", "copy.db"]);
    house.expect(0, &["export", &id, "--output", "run.jsonl"]);
    house.expect(0, &["export", &id, "--output", "old.jsonl"]);
    for name in ["copy.db", "run.jsonl", "old.jsonl"] {
        let mode = std::fs::metadata(house.path(name)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{name}");
    }
}

#[test]
fn cleanup_erases_payloads_and_the_chain_still_holds() {
    let house = House::new();
    let id = one_run(&house);
    assert_eq!(house.json(&["cleanup", "--older-than", "1d"])["executions"], 0);
    assert_eq!(
        house.json(&["cleanup", "--older-than", "0s", "--dry-run"]),
        json!({ "executions": 1, "acts": 0, "notes": 0, "dry_run": true })
    );
    assert_eq!(house.json(&["cleanup", "--older-than", "0s"])["executions"], 1);
    assert!(step(&house.json(&["show", &id]), "a").get("arguments").is_none_or(Value::is_null));
    assert_eq!(house.json(&["verify"])["ok"], true);
    let undo = house.run(&["undo", &id]);
    assert!(undo.err.contains("erased"), "{}", undo.err);
}

#[test]
fn saved_plans_are_listed_shown_and_deleted() {
    let house = House::new();
    one_run(&house);
    house.write("one.yaml", "name: one\nsteps: [{ id: b, action: Think }]");
    assert!(house.expect(0, &["plan", "save", "one.yaml"]).contains("version 2"));
    assert!(house.expect(0, &["plan", "save", "one.yaml"]).contains("unchanged"));
    assert!(house.expect(0, &["plan", "show", "one"]).contains("Think"));
    house.expect(0, &["plan", "delete", "one"]);
    house.expect(1, &["plan", "show", "one"]);
}

#[test]
fn graphs_show_the_point_of_no_return_and_escape_labels() {
    let house = House::new();
    let plan = json!({ "name": "<b>&\"x\"", "policy": { "concurrency": 2 }, "steps": [
        { "id": "a", "name": "</text><script>", "tool": "files/echo", "read_only": true },
        { "id": "b", "action": "Say \"it\" ]--> s0", "depends_on": ["a"] },
    ] });
    house.write("g.json", &plan.to_string());
    let text = house.expect(0, &["plan", "graph", "g.json"]);
    assert!(text.contains("point of no return") && text.contains("← a"), "{text}");
    let svg = house.expect(0, &["plan", "graph", "g.json", "--format", "svg"]);
    assert!(svg.starts_with("<svg") && svg.contains("&lt;script&gt;") && !svg.contains("<script"), "{svg}");
    let mermaid = house.expect(0, &["plan", "graph", "g.json", "--format", "mermaid"]);
    assert!(mermaid.contains("s0 --> s1") && !mermaid.contains("\"it\""), "{mermaid}");
    let dot = house.expect(0, &["plan", "graph", "g.json", "--format", "dot"]);
    assert!(dot.contains("s0 -> s1") && dot.contains("\\\"it\\\""), "{dot}");
    house.expect(0, &["plan", "graph", "g.json", "--format", "svg", "--output", "g.svg"]);
    assert_eq!(std::fs::read_to_string(house.path("g.svg")).unwrap().trim_end(), svg.trim_end());
}

#[test]
fn wide_plan_is_drawn_in_rows_and_conditions_are_shown() {
    let house = House::new();
    let mut steps: Vec<Value> =
        (0..60).map(|number| json!({ "id": format!("step-{number}"), "tool": "files/echo" })).collect();
    steps.push(json!({ "id": "last", "tool": "files/echo", "when": "steps.step-0.output.text\n!= 'x'" }));
    let plan = json!({ "name": "wide", "policy": { "concurrency": 8 }, "steps": steps });
    house.write("wide.json", &plan.to_string());
    let drawn = |format: &str| house.expect(0, &["plan", "graph", "wide.json", "--format", format]);
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
fn the_doctor_names_what_is_wrong() {
    let house = House::new();
    assert!(house.expect(0, &["doctor"]).contains("files answers with"));
    house.write("actbook.yaml", r#"{"mcpServers": {"broken": {"command": "no-such-program-anywhere"}}}"#);
    let lines = house.json(&["doctor"]);
    let server = lines.as_array().unwrap().iter().find(|line| line["what"] == "server").unwrap();
    assert_eq!(server["ok"], false);
}

#[test]
fn every_command_has_help_with_an_example_and_there_are_completions_and_a_man_page() {
    let house = House::new();
    let help = house.expect(0, &["--help"]);
    let commands =
        help.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    // The continuation line of a description is indented further.
    let names = commands.filter_map(|line| line.strip_prefix("  ").filter(|rest| !rest.starts_with(' ')));
    let names = names.filter_map(|rest| rest.split_whitespace().next());
    let names: Vec<&str> = names.collect();
    assert!(names.len() > 20, "{help}");
    for name in names {
        let help = house.expect(0, &[name, "--help"]);
        let leaf = !help.contains("Commands:");
        assert!(!leaf || help.contains("Example"), "{name} has no example");
    }
    for shell in ["bash", "zsh", "fish"] {
        assert!(house.expect(0, &["completions", shell]).contains("actbook"));
    }
    let man = house.expect(0, &["man"]);
    assert!(man.contains(".TH actbook 1") && man.contains("ACTBOOK UNDO"), "{man}");
}
