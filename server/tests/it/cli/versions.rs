//! Plan versions, filters and diffs; `rerun`; the newest journal entries; the reference printed by `help`.

use super::*;

fn write_plan(house: &House, content: &str) {
    let plan = json!({
        "name": "note", "type": "writing", "task": "TASK-1", "description": "Keeps a note",
        "inputs": { "type": "object", "properties": { "text": { "type": "string" } }, "required": ["text"] },
        "steps": [
            { "id": "write", "tool": "files/write_file", "arguments": { "path": "a", "content": content },
              "compensation": { "tool": "files/delete_file", "arguments": { "path": "a" } } },
        ],
    });
    house.write("note.json", &plan.to_string());
}

#[test]
fn old_versions_are_shown_and_compared() {
    let house = House::new();
    for content in ["one", "two ${inputs.text}", "three"] {
        write_plan(&house, content);
        house.expect(0, &["plan", "save", "note.json"]);
    }
    let first = house.expect(0, &["plan", "show", "note", "--version", "1"]);
    assert!(first.contains("version 1,") && first.contains("content: one"), "{first}");
    let document = house.json(&["plan", "show", "note", "--version", "2"])["document"].clone();
    assert_eq!(document["steps"][0]["arguments"]["content"], "two ${inputs.text}");
    let newest = house.expect(0, &["plan", "diff", "note"]);
    assert!(newest.contains("version 2 → 3") && newest.contains("+     content: three"), "{newest}");
    let diff = house.json(&["plan", "diff", "note", "--from", "1", "--to", "2"]);
    let lines = diff["diff"].to_string();
    assert!(
        lines.contains("- ") && lines.contains("content: one") && lines.contains("two ${inputs"),
        "{lines}"
    );
    let refused = house.run(&["plan", "show", "note", "--version", "4"]);
    assert_eq!(refused.code, Some(1));
    assert!(
        refused.err.contains("no version 4") && refused.err.contains("newest version is 3"),
        "{}",
        refused.err
    );
}

#[test]
fn name_saved_again_after_deletion_continues_its_versions() {
    let house = House::new();
    write_plan(&house, "one");
    assert_eq!(house.json(&["plan", "save", "note.json"])["version"], 1);
    house.expect(0, &["run", "note", "--input", "text=x"]);
    let before = house.newest();
    house.expect(0, &["plan", "delete", "note"]);
    write_plan(&house, "two");
    assert_eq!(house.json(&["plan", "save", "note.json"])["version"], 2);
    assert_eq!(house.json(&["plan", "list"])[0]["version"], 2);
    let refused = house.run(&["plan", "show", "note", "--version", "1"]);
    assert!(refused.err.contains("version 1 of the plan `note` was deleted"), "{}", refused.err);
    house.expect(0, &["rebuild"]);
    assert_eq!(
        house.json(&["plan", "save", "note.json"])["version"],
        2,
        "a rebuild keeps the version counter"
    );
    house.expect(0, &["rerun", &before]);
    let again = house.json(&["list"])[0].clone();
    assert_eq!(again["plan"]["version"], 1, "an execution keeps its version: {again}");
}

#[test]
fn plans_are_listed_by_type_task_and_words() {
    let house = House::new();
    write_plan(&house, "one");
    house.expect(0, &["plan", "save", "note.json"]);
    house.write("other.yaml", "name: other\ntype: research\nsteps: [{ id: a, action: Think }]");
    house.expect(0, &["plan", "save", "other.yaml"]);
    let names = |words: &[&str]| {
        let plans = house.json(&[&["plan", "list"], words].concat());
        let names = plans.as_array().unwrap().iter().map(|plan| plan["name"].as_str().unwrap().to_owned());
        names.collect::<Vec<_>>()
    };
    assert_eq!(names(&[]), ["note", "other"]);
    assert_eq!(names(&["--type", "research"]), ["other"]);
    assert_eq!(names(&["--task", "TASK-1"]), ["note"]);
    assert_eq!(names(&["--search", "NOTE keeps"]), ["note"]);
    assert_eq!(names(&["--search", "note research"]), Vec::<String>::new());
}

#[test]
fn rerun_takes_inputs_over_and_lets_them_be_replaced() {
    let house = House::new();
    let plan = json!({
        "name": "echo",
        "inputs": { "type": "object", "properties": {
            "text": { "type": "string" }, "count": { "type": "integer" },
            "password": { "writeOnly": true } } },
        "steps": [{ "id": "say", "tool": "files/echo", "read_only": true,
                    "arguments": { "text": "${inputs.text} ${inputs.count}" } }],
    });
    house.write("echo.json", &plan.to_string());
    house.expect(0, &["run", "echo.json", "--input", "text=a", "--input", "count=1"]);
    let first = house.newest();
    let sent_text = |house: &House| {
        let view = house.json(&["show", &house.newest()]);
        step(&view, "say")["arguments"]["text"].as_str().unwrap().to_owned()
    };
    house.expect(0, &["rerun", &first]);
    assert_ne!(house.newest(), first);
    assert_eq!(sent_text(&house), "a 1");
    house.expect(0, &["rerun", &first, "--input", "count=2"]);
    assert_eq!(sent_text(&house), "a 2");

    house
        .expect(0, &["run", "echo.json", "--input", "text=a", "--input", "count=1", "--input", "password=p"]);
    let secret = house.newest();
    let refused = house.run(&["rerun", &secret]);
    assert_eq!(refused.code, Some(1));
    assert!(refused.err.contains("inputs.password is secret and was not kept"), "{}", refused.err);
    assert_eq!(house.newest(), secret, "nothing was started");
    house.expect(0, &["rerun", &secret, "--input", "password=p"]);
}

#[test]
fn journal_shows_the_newest_first() {
    let house = House::new();
    house.write("think.yaml", "name: think\nsteps: [{ id: a, action: Think }]");
    house.expect(0, &["plan", "save", "think.yaml"]);
    for key in ["a", "b", "c", "d"] {
        house.expect(0, &["context", "set", key, "1"]);
    }
    let positions = |words: &[&str]| {
        let out = house.expect(0, &[&["journal", "--json"], words].concat());
        let position =
            |line: &str| serde_json::from_str::<Value>(line).unwrap()["position"].as_u64().unwrap();
        out.lines().map(position).collect::<Vec<_>>()
    };
    let mut all = positions(&[]);
    let head = *all.last().unwrap();
    all.reverse();
    assert_eq!(positions(&["--newest"]), all);
    assert_eq!(positions(&["--tail", "2"]), [head, head - 1]);
    assert_eq!(positions(&["--newest", "--limit", "2", "--cursor", &head.to_string()]), [head - 1, head - 2]);
    assert_eq!(positions(&["--tail", "5", "--kind", "plan_saved"]), [1]);
    assert_eq!(positions(&["--tail", "9", "--since", "2000-01-01"]).len(), all.len().min(9));
    assert_eq!(positions(&["--newest", "--until", "2000-01-01"]), Vec::<u64>::new());
}

#[test]
fn reference_comes_out_of_the_binary() {
    let house = House::new();
    let overview = house.expect(0, &["help"]);
    assert!(
        overview.contains("Commands:") && overview.contains("Topics of `actbook help TOPIC`"),
        "{overview}"
    );
    for (topic, holds) in [
        ("plan", "| `concurrency` |"),
        ("config", "mcpServers:"),
        ("expressions", "`json(value)`"),
        ("journal", "attempt_started"),
        ("semantics", "## Outcomes"),
        ("agents", "## The round"),
        ("undo", "actbook undo [OPTIONS] <EXECUTION>"),
    ] {
        let text = house.expect(0, &["help", topic]);
        assert!(text.contains(holds), "{topic}: {text}");
    }
    assert!(house.expect(0, &["help", "tools", "accept"]).contains("actbook tools accept"));
    let refused = house.run(&["help", "confg"]);
    assert_eq!(refused.code, Some(1));
    assert!(refused.err.contains("did you mean `actbook help config`?"), "{}", refused.err);
    house.write("actbook.yaml", "servers: 7");
    let refused = house.run(&["tools", "list", "--config", "actbook.yaml"]);
    assert!(refused.err.contains("actbook help config"), "{}", refused.err);
}

#[test]
fn version_compared_with_itself_is_the_same_version() {
    let house = House::new();
    write_plan(&house, "one");
    house.expect(0, &["plan", "save", "note.json"]);
    let same = house.expect(0, &["plan", "diff", "note", "--from", "1", "--to", "1"]);
    assert!(same.contains("both are the same version") && !same.contains("differ"), "{same}");
}

/// Writes the config of another project, whose demo server works in a folder of its own.
fn write_other_project(house: &House, name: &str) -> String {
    let server = json!({ "command": BINARY, "args": ["demo-tools", "--folder", format!("work-{name}")] });
    let file = format!("{name}.yaml");
    house.write(&file, &json!({ "project": name, "mcpServers": { "files": server } }).to_string());
    file
}

#[test]
fn rerun_in_another_project_is_refused_without_here() {
    let house = House::new();
    let (alpha, beta) = (write_other_project(&house, "alpha"), write_other_project(&house, "beta"));
    house.write(
        "e.yaml",
        "name: e\nsteps: [{ id: a, tool: files/write_file, arguments: { path: a, content: b } }]",
    );
    house.expect(0, &["run", "e.yaml", "--config", &alpha]);
    let first = house.newest();
    let refused = house.run(&["rerun", &first, "--config", &beta]);
    assert_eq!(refused.code, Some(1));
    assert!(
        refused.err.contains("other definitions of its servers, in the project alpha")
            && refused.err.contains("--here"),
        "{}",
        refused.err
    );
    let undo = house.run(&["undo", &first, "--config", &beta]);
    assert!(undo.err.contains("in the project alpha"), "{}", undo.err);
    assert_eq!(house.newest(), first, "nothing was started");
    house.expect(0, &["rerun", &first, "--here", "--config", &beta]);
    assert!(house.path("work-beta/a").exists());
}

#[test]
fn plans_and_figures_are_told_apart_by_project() {
    let house = House::new();
    let (alpha, beta) = (write_other_project(&house, "alpha"), write_other_project(&house, "beta"));
    for (config, name) in [(&alpha, "one"), (&beta, "two")] {
        house.write(
            "e.yaml",
            &format!("name: {name}\nsteps: [{{ id: a, tool: files/echo, read_only: true }}]"),
        );
        house.expect(0, &["run", "e.yaml", "--config", config]);
        let listed = house.expect(0, &["plan", "list"]);
        assert_eq!(listed.contains("project"), name == "two", "only where there are several: {listed}");
    }
    let only = house.expect(0, &["plan", "list", "--project", "beta"]);
    assert!(only.contains("two") && !only.contains("one"), "{only}");
    let calls = |words: &[&str]| house.json(words)["tools"][0]["calls"].clone();
    assert_eq!((calls(&["stats"]), calls(&["stats", "--project", "beta"])), (json!(2), json!(1)));
    let listed = house.json(&["tools", "list", "--config", &beta]);
    let echo =
        listed[0]["tools"].as_array().unwrap().iter().find(|tool| tool["name"] == "files/echo").unwrap();
    assert_eq!(echo["seen"]["calls"], 1, "another project's server of that name is another server");
}
