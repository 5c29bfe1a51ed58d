//! Plan versions, filters and diffs; `rerun`; the newest journal entries; the reference printed by `help`.

use super::*;

fn write_plan(sandbox: &Sandbox, content: &str) {
    let plan = json!({
        "name": "note", "type": "writing", "task": "TASK-1", "description": "Keeps a note",
        "inputs": { "type": "object", "properties": { "text": { "type": "string" } }, "required": ["text"] },
        "steps": [
            { "id": "write", "tool": "files/write_file", "arguments": { "path": "a", "content": content },
              "compensation": { "tool": "files/delete_file", "arguments": { "path": "a" } } },
        ],
    });
    sandbox.write("note.json", &plan.to_string());
}

#[test]
fn old_versions_are_shown_and_compared() {
    let sandbox = Sandbox::new();
    for content in ["one", "two ${inputs.text}", "three"] {
        write_plan(&sandbox, content);
        sandbox.expect(0, &["plan", "save", "note.json"]);
    }
    let first = sandbox.expect(0, &["plan", "show", "note", "--version", "1"]);
    assert!(first.contains("version 1,") && first.contains("content: one"), "{first}");
    let document = sandbox.json(&["plan", "show", "note", "--version", "2"])["document"].clone();
    assert_eq!(document["steps"][0]["arguments"]["content"], "two ${inputs.text}");
    let newest = sandbox.expect(0, &["plan", "diff", "note"]);
    assert!(newest.contains("version 2 → 3") && newest.contains("+     content: three"), "{newest}");
    let diff = sandbox.json(&["plan", "diff", "note", "--from", "1", "--to", "2"]);
    let lines = diff["diff"].to_string();
    assert!(
        lines.contains("- ") && lines.contains("content: one") && lines.contains("two ${inputs"),
        "{lines}"
    );
    let refused = sandbox.run(&["plan", "show", "note", "--version", "4"]);
    assert_eq!(refused.code, Some(1));
    assert!(
        refused.stderr.contains("no version 4") && refused.stderr.contains("newest version is 3"),
        "{}",
        refused.stderr
    );
}

#[test]
fn name_saved_again_after_deletion_continues_its_versions() {
    let sandbox = Sandbox::new();
    write_plan(&sandbox, "one");
    assert_eq!(sandbox.json(&["plan", "save", "note.json"])["version"], 1);
    sandbox.expect(0, &["run", "note", "--input", "text=x"]);
    let before = sandbox.newest();
    sandbox.expect(0, &["plan", "delete", "note"]);
    write_plan(&sandbox, "two");
    assert_eq!(sandbox.json(&["plan", "save", "note.json"])["version"], 2);
    assert_eq!(sandbox.json(&["plan", "list"])[0]["version"], 2);
    let refused = sandbox.run(&["plan", "show", "note", "--version", "1"]);
    assert!(refused.stderr.contains("version 1 of the plan `note` was deleted"), "{}", refused.stderr);
    sandbox.expect(0, &["rebuild"]);
    assert_eq!(
        sandbox.json(&["plan", "save", "note.json"])["version"],
        2,
        "a rebuild keeps the version counter"
    );
    sandbox.expect(0, &["rerun", &before]);
    let again = sandbox.json(&["list"])[0].clone();
    assert_eq!(again["plan"]["version"], 1, "an execution keeps its version: {again}");
}

#[test]
fn plan_list_filters_by_type_task_and_search() {
    let sandbox = Sandbox::new();
    write_plan(&sandbox, "one");
    sandbox.expect(0, &["plan", "save", "note.json"]);
    sandbox.write("other.yaml", "name: other\ntype: research\nsteps: [{ id: a, action: Think }]");
    sandbox.expect(0, &["plan", "save", "other.yaml"]);
    let names = |words: &[&str]| {
        let plans = sandbox.json(&[&["plan", "list"], words].concat());
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
fn rerun_reuses_inputs_except_secrets_and_allows_overrides() {
    let sandbox = Sandbox::new();
    let plan = json!({
        "name": "echo",
        "inputs": { "type": "object", "properties": {
            "text": { "type": "string" }, "count": { "type": "integer" },
            "password": { "writeOnly": true } } },
        "steps": [{ "id": "say", "tool": "files/echo", "read_only": true,
                    "arguments": { "text": "${inputs.text} ${inputs.count}" } }],
    });
    sandbox.write("echo.json", &plan.to_string());
    sandbox.expect(0, &["run", "echo.json", "--input", "text=a", "--input", "count=1"]);
    let first = sandbox.newest();
    let sent_text = |sandbox: &Sandbox| {
        let view = sandbox.json(&["show", &sandbox.newest()]);
        step(&view, "say")["arguments"]["text"].as_str().unwrap().to_owned()
    };
    sandbox.expect(0, &["rerun", &first]);
    assert_ne!(sandbox.newest(), first);
    assert_eq!(sent_text(&sandbox), "a 1");
    sandbox.expect(0, &["rerun", &first, "--input", "count=2"]);
    assert_eq!(sent_text(&sandbox), "a 2");

    sandbox
        .expect(0, &["run", "echo.json", "--input", "text=a", "--input", "count=1", "--input", "password=p"]);
    let secret = sandbox.newest();
    let refused = sandbox.run(&["rerun", &secret]);
    assert_eq!(refused.code, Some(1));
    assert!(refused.stderr.contains("inputs.password is secret and was not kept"), "{}", refused.stderr);
    assert_eq!(sandbox.newest(), secret, "nothing was started");
    sandbox.expect(0, &["rerun", &secret, "--input", "password=p"]);
}

#[test]
fn journal_newest_and_tail_list_in_reverse_order() {
    let sandbox = Sandbox::new();
    sandbox.write("think.yaml", "name: think\nsteps: [{ id: a, action: Think }]");
    sandbox.expect(0, &["plan", "save", "think.yaml"]);
    for key in ["a", "b", "c", "d"] {
        sandbox.expect(0, &["context", "set", key, "1"]);
    }
    let positions = |words: &[&str]| {
        let out = sandbox.expect(0, &[&["journal", "--json"], words].concat());
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
fn help_topics_print_the_reference() {
    let sandbox = Sandbox::new();
    let overview = sandbox.expect(0, &["help"]);
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
        let text = sandbox.expect(0, &["help", topic]);
        assert!(text.contains(holds), "{topic}: {text}");
    }
    assert!(sandbox.expect(0, &["help", "tools", "accept"]).contains("actbook tools accept"));
    let refused = sandbox.run(&["help", "confg"]);
    assert_eq!(refused.code, Some(1));
    assert!(refused.stderr.contains("did you mean `actbook help config`?"), "{}", refused.stderr);
    sandbox.write("actbook.yaml", "servers: 7");
    let refused = sandbox.run(&["tools", "list", "--config", "actbook.yaml"]);
    assert!(refused.stderr.contains("actbook help config"), "{}", refused.stderr);
}

#[test]
fn version_compared_with_itself_is_the_same_version() {
    let sandbox = Sandbox::new();
    write_plan(&sandbox, "one");
    sandbox.expect(0, &["plan", "save", "note.json"]);
    let same = sandbox.expect(0, &["plan", "diff", "note", "--from", "1", "--to", "1"]);
    assert!(same.contains("both are the same version") && !same.contains("differ"), "{same}");
}

/// Writes the config of another project, whose demo server works in a folder of its own.
fn write_other_project(sandbox: &Sandbox, name: &str) -> String {
    let server = json!({ "command": BINARY, "args": ["demo-tools", "--folder", format!("work-{name}")] });
    let file = format!("{name}.yaml");
    sandbox.write(&file, &json!({ "project": name, "mcpServers": { "files": server } }).to_string());
    file
}

#[test]
fn rerun_in_another_project_is_refused_without_here() {
    let sandbox = Sandbox::new();
    let (alpha, beta) = (write_other_project(&sandbox, "alpha"), write_other_project(&sandbox, "beta"));
    sandbox.write(
        "e.yaml",
        "name: e\nsteps: [{ id: a, tool: files/write_file, arguments: { path: a, content: b } }]",
    );
    sandbox.expect(0, &["run", "e.yaml", "--config", &alpha]);
    let first = sandbox.newest();
    let refused = sandbox.run(&["rerun", &first, "--config", &beta]);
    assert_eq!(refused.code, Some(1));
    assert!(
        refused.stderr.contains("other definitions of its servers, in the project alpha")
            && refused.stderr.contains("--here"),
        "{}",
        refused.stderr
    );
    let undo = sandbox.run(&["undo", &first, "--config", &beta]);
    assert!(undo.stderr.contains("in the project alpha"), "{}", undo.stderr);
    assert_eq!(sandbox.newest(), first, "nothing was started");
    sandbox.expect(0, &["rerun", &first, "--here", "--config", &beta]);
    assert!(sandbox.path("work-beta/a").exists());
}

#[test]
fn rerun_after_an_edit_of_the_config_in_the_same_project_uses_the_new_servers() {
    let sandbox = Sandbox::new();
    let config = write_other_project(&sandbox, "alpha");
    sandbox.write(
        "e.yaml",
        "name: e\nsteps: [{ id: a, tool: files/write_file, arguments: { path: a, content: b } }]",
    );
    sandbox.expect(0, &["run", "e.yaml", "--config", &config]);
    let first = sandbox.newest();
    let server = json!({ "command": BINARY, "args": ["demo-tools", "--folder", "work-edited"] });
    sandbox.write(&config, &json!({ "project": "alpha", "mcpServers": { "files": server } }).to_string());
    sandbox.expect(0, &["rerun", &first, "--config", &config]);
    assert!(sandbox.path("work-edited/a").exists());
}

/// The stored inputs are changed to those that a former version accepted.
#[test]
fn rerun_leaves_out_a_recorded_input_that_the_plan_does_not_declare() {
    let sandbox = Sandbox::new();
    sandbox.write(
        "e.yaml",
        "name: e\ninputs: { type: object, properties: { text: { type: string } } }\n\
         steps: [{ id: say, tool: files/echo, read_only: true, arguments: { text: '${inputs.text}' } }]",
    );
    sandbox.expect(0, &["run", "e.yaml", "--input", "text=kept"]);
    let first = sandbox.newest();
    let database = rusqlite::Connection::open(sandbox.path("data/actbook/actbook.db")).unwrap();
    let forge = r#"UPDATE payloads SET body = CAST('{"text":"kept","colour":"red"}' AS BLOB)
        WHERE entry = (SELECT entry FROM journal WHERE kind LIKE 'execution_started%')"#;
    assert_eq!(database.execute(forge, []).unwrap(), 1);
    drop(database);
    let rerun = sandbox.run(&["rerun", &first]);
    assert_eq!(rerun.code, Some(0), "{}", rerun.stderr);
    assert!(rerun.stderr.contains("declares no input `colour`: it is left out"), "{}", rerun.stderr);
    let view = sandbox.json(&["show", &sandbox.newest()]);
    assert_eq!(step(&view, "say")["arguments"]["text"], "kept");
}

#[test]
fn plans_and_figures_are_told_apart_by_project() {
    let sandbox = Sandbox::new();
    let (alpha, beta) = (write_other_project(&sandbox, "alpha"), write_other_project(&sandbox, "beta"));
    for (config, name) in [(&alpha, "one"), (&beta, "two")] {
        sandbox.write(
            "e.yaml",
            &format!("name: {name}\nsteps: [{{ id: a, tool: files/echo, read_only: true }}]"),
        );
        sandbox.expect(0, &["run", "e.yaml", "--config", config]);
        let listed = sandbox.expect(0, &["plan", "list"]);
        assert_eq!(listed.contains("project"), name == "two", "only where there are several: {listed}");
    }
    let only = sandbox.expect(0, &["plan", "list", "--project", "beta"]);
    assert!(only.contains("two") && !only.contains("one"), "{only}");
    let calls = |words: &[&str]| sandbox.json(words)["tools"][0]["calls"].clone();
    assert_eq!((calls(&["stats"]), calls(&["stats", "--project", "beta"])), (json!(2), json!(1)));
    let listed = sandbox.json(&["tools", "list", "--config", &beta]);
    let echo =
        listed[0]["tools"].as_array().unwrap().iter().find(|tool| tool["name"] == "files/echo").unwrap();
    assert_eq!(echo["seen"]["calls"], 1, "another project's server of that name is another server");
}
