//! Templates at the command line: shipped ones, and ones made from plans and executions; and the research
//! template from its first question to its end.

use super::*;
use crate::store::for_each_database;

/// One literal in three places, one that differs in the compensation, and an expression.
const NOTES: &str = r#"
name: notes
task: TASK-1
inputs: { type: object, properties: { version: { type: string } }, required: [version] }
steps:
  - id: draft
    tool: files/write_file
    arguments: { path: notes.md, content: "first\n" }
    compensation: { tool: files/delete_file, arguments: { path: notes.md } }
  - id: count
    tool: files/counter_add
    arguments: { name: releases, amount: 2 }
    compensation: { tool: files/counter_add, arguments: { name: releases, amount: -2 } }
  - id: sign
    tool: files/append_file
    arguments: { path: notes.md, content: "version ${inputs.version}\n" }
    compensation: { action: "Nothing to do: it goes with the file" }
"#;

fn sandbox_on(database: &str) -> Sandbox {
    Sandbox { database: Some(database.to_owned()), ..Sandbox::new() }
}

/// The arguments that each step sent.
fn sent_arguments(sandbox: &Sandbox, id: &str) -> Vec<Value> {
    let view = sandbox.json(&["show", id]);
    view["steps"].as_array().unwrap().iter().map(|step| step["arguments"].clone()).collect()
}

fn read_file(sandbox: &Sandbox, file: &str) -> String {
    std::fs::read_to_string(sandbox.path(file)).unwrap()
}

#[test]
fn template_from_an_execution_runs_with_other_inputs() {
    for_each_database(async |scratch| {
        let sandbox = sandbox_on(&scratch.url);
        sandbox.write("notes.yaml", NOTES);
        sandbox.expect(0, &["run", "notes.yaml", "--input", "version=1.2"]);
        let first = sandbox.newest();
        let made = sandbox.json(&["template", "from", &first[..6], "publish"]);
        assert_eq!(
            (&made["name"], &made["version"], &made["fresh"]),
            (&json!("publish"), &json!(1), &json!(true))
        );
        let shown = sandbox.json(&["template", "show", "publish"]);
        let inputs: Vec<(&str, &Value)> = shown["inputs"]
            .as_array()
            .unwrap()
            .iter()
            .map(|input| (input["name"].as_str().unwrap(), &input["default"]))
            .collect();
        let expected = [
            ("content", &json!("first\n")),
            ("name", &json!("releases")),
            ("path", &json!("notes.md")),
            ("version", &json!("1.2")),
        ];
        assert_eq!(inputs, expected);
        assert!(shown["document"].get("task").is_none(), "a template belongs to no task");

        std::fs::remove_file(sandbox.path("work/notes.md")).unwrap();
        sandbox.expect(0, &["template", "use", "publish", "--run"]);
        assert_eq!(
            sent_arguments(&sandbox, &sandbox.newest()),
            sent_arguments(&sandbox, &first),
            "the defaults must make the same calls"
        );
        assert_eq!(read_file(&sandbox, "work/notes.md"), "first\nversion 1.2\n");

        let words = [
            "template",
            "use",
            "publish",
            "--as",
            "second",
            "--input",
            "path=other.md",
            "--input",
            "version=2",
            "--run",
        ];
        sandbox.expect(0, &words);
        let second = sandbox.newest();
        assert_eq!(read_file(&sandbox, "work/other.md"), "first\nversion 2\n");
        assert_eq!(sandbox.json(&["show", &second])["plan"]["name"], "second");
        sandbox.expect(3, &["undo", &second]);
        assert!(sandbox.path("work/notes.md").exists(), "the undo must use the new values");
        sandbox.expect(0, &["record", &second, "sign", "compensated"]);
        sandbox.expect(1, &["resume", &second]);
        assert!(!sandbox.path("work/other.md").exists() && sandbox.path("work/notes.md").exists());
        assert!(sandbox.expect(0, &["verify"]).contains("is whole"));
    });
}

#[test]
fn template_of_an_execution_makes_its_corrected_calls() {
    let sandbox = Sandbox::new();
    let step = json!({ "id": "draft", "tool": "files/write_file",
        "arguments": { "path": "../draft.txt", "content": "text" },
        "compensation": { "tool": "files/delete_file", "arguments": { "path": "${arguments.path}" } } });
    sandbox.write("plan.json", &json!({ "name": "wrong", "steps": [step] }).to_string());
    sandbox.expect(3, &["run", "plan.json"]);
    let id = sandbox.newest();
    let corrected = r#"{"path": "draft.txt", "content": "text"}"#;
    sandbox.expect(0, &["decide", &id, "draft", "retry", "--reason", "wrong path", "--arguments", corrected]);
    sandbox.expect(0, &["resume", &id]);
    sandbox.expect(0, &["undo", &id]);
    sandbox.expect(0, &["template", "from", &id, "right"]);
    sandbox.expect(0, &["template", "use", "right", "--run"]);
    assert_eq!(sent_arguments(&sandbox, &sandbox.newest()), sent_arguments(&sandbox, &id));
    assert!(sandbox.path("work/draft.txt").exists());
}

#[test]
fn template_keeps_author_and_history_through_a_rebuild() {
    for_each_database(async |scratch| {
        let sandbox = sandbox_on(&scratch.url);
        sandbox.write("one.yaml", "name: release\nsteps: [{ id: a, action: do it }]");
        sandbox.expect(0, &["template", "save", "one.yaml"]);
        assert_eq!(sandbox.json(&["template", "save", "one.yaml"])["fresh"], false);
        sandbox.write("one.yaml", "name: release\ndescription: mine\nsteps: [{ id: a, action: do it well }]");
        sandbox.expect(0, &["template", "save", "one.yaml"]);
        let shown = sandbox.json(&["template", "show", "release"]);
        assert_eq!(
            (&shown["shipped"], &shown["version"]),
            (&json!(false), &json!(2)),
            "the user's template has priority"
        );
        let history = shown["history"].as_array().unwrap();
        assert_eq!(history.len(), 2);
        assert!(history.iter().all(|one| one["author"].as_str().unwrap().starts_with("person:")));
        assert_eq!(sandbox.json(&["plan", "list"]), json!([]), "a template is not listed as a plan");
        assert!(sandbox.run(&["run", "release"]).stderr.contains("no plan `release`"));

        let listed = sandbox.json(&["template", "list"]);
        let named = listed.as_array().unwrap().iter().filter(|one| one["name"] == "release").count();
        assert_eq!(named, 1);
        scratch.execute("DELETE FROM plans").await;
        sandbox.expect(0, &["rebuild"]);
        assert_eq!(sandbox.json(&["template", "list"]), listed);
        assert_eq!(sandbox.json(&["template", "show", "release"]), shown);

        sandbox.expect(0, &["template", "delete", "release"]);
        assert_eq!(sandbox.json(&["template", "show", "release"])["shipped"], true);
        let refused = sandbox.run(&["template", "delete", "release"]);
        assert_eq!(refused.code, Some(1));
        assert!(refused.stderr.contains("comes with Actbook"), "{}", refused.stderr);
        sandbox.expect(0, &["verify"]);
    });
}

#[test]
fn every_shipped_template_is_listed_shown_and_used() {
    let sandbox = Sandbox::new();
    let needs = [
        ("research", vec!["topic=queues"]),
        ("implementation", vec!["feature=csv", "branch=csv"]),
        ("release", vec!["version=1.2"]),
        ("database-migration", vec!["version=7"]),
        ("file-pipeline", vec!["customer=ada"]),
        ("travel-booking", vec!["traveller=ada", "city=Turin"]),
        ("agent-steps", vec![]),
    ];
    let listed = sandbox.json(&["template", "list"]);
    let names: Vec<&str> =
        listed.as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap()).collect();
    assert_eq!(names, needs.iter().map(|(name, _)| *name).collect::<Vec<_>>());
    for (name, inputs) in &needs {
        let file = format!("{}/../examples/{name}.yaml", env!("CARGO_MANIFEST_DIR"));
        let text = sandbox.expect(0, &["template", "show", name]);
        assert_eq!(text.trim_end(), std::fs::read_to_string(file).unwrap().trim_end(), "one source");
        let mut words = vec!["template", "use", name, "--offline"];
        inputs.iter().for_each(|input| words.extend(["--input", input]));
        let saved = sandbox.json(&words);
        assert_eq!((&saved["name"], &saved["check"]["ok"]), (&json!(name), &json!(true)), "{saved}");
        let all = |input: &Value| input["default"].is_null() && input["required"] == true;
        let document = sandbox.json(&["plan", "show", name])["document"].clone();
        let properties = document["inputs"]["properties"].as_object().cloned().unwrap_or_default();
        assert!(!properties.values().any(all), "given inputs become defaults");
    }
    sandbox.expect(
        0,
        &["template", "use", "travel-booking", "--input", "traveller=ada", "--input", "city=Turin", "--run"],
    );
    assert_eq!(read_file(&sandbox, "work/bookings/ada/flight.txt"), "A seat to Turin.\n");
}

#[test]
fn template_errors_suggest_the_nearest_name() {
    let sandbox = Sandbox::new();
    let refused = |words: &[&str]| {
        let ran = sandbox.run(words);
        assert_eq!(ran.code, Some(1), "{}", ran.stdout);
        ran.stderr
    };
    assert!(refused(&["template", "use", "reserch"]).contains("did you mean `research`?"));
    assert!(refused(&["template", "show", "zzz"]).contains("`actbook template list` shows them"));
    let slip = refused(&["template", "use", "research", "--input", "topik=x"]);
    assert!(slip.contains("did you mean `inputs.topic`?"), "{slip}");
    let unknown = refused(&["template", "use", "research", "--input", "colour=x"]);
    assert!(unknown.contains("do not declare `colour`"), "an unknown input is refused: {unknown}");
    let wrong = refused(&["template", "use", "research", "--input", "topic=x", "--input", "depth=deep"]);
    assert!(wrong.contains("inputs.depth"), "{wrong}");
    assert!(refused(&["template", "from", "nobody", "x"]).contains("no execution `nobody`"));
    let lacking = refused(&["template", "use", "research", "--run"]);
    assert!(lacking.contains("topic"), "{lacking}");
}

#[test]
fn secret_values_never_become_template_defaults() {
    let sandbox = Sandbox::new();
    let config = json!({
        "mcpServers": { "files": { "command": BINARY, "args": ["demo-tools", "--folder", "work"], "env": { "KEY": "${env:SESAME:-none}" } } },
    });
    sandbox.write("actbook.yaml", &config.to_string());
    let run = |words: &[&str]| -> CliOutput {
        sandbox.command(words).env("SESAME", "open-sesame").output().unwrap().into()
    };
    let schema =
        "{ type: object, properties: { token: { type: string, writeOnly: true }, who: { type: string } } }";
    let step = "{ id: a, tool: files/echo, read_only: true, arguments: { key: open-sesame, who: \"${inputs.who}\" } }";
    sandbox.write("keys.yaml", &format!("name: keys\ninputs: {schema}\nsteps: [{step}]"));
    // A plan with a known secret is refused; this one runs while the variable is unset, so the value is no
    // secret yet.
    sandbox.expect(0, &["run", "keys.yaml", "--input", "token=hush-hush", "--input", "who=ada"]);
    let made = run(&["template", "from", &sandbox.newest(), "again"]);
    assert!(
        made.stdout.contains("key is required") && made.stdout.contains("who = \"ada\""),
        "{}",
        made.stdout
    );
    let shown = run(&["template", "show", "again", "--json"]).stdout;
    for secret in ["open-sesame", "hush-hush"] {
        assert!(!shown.contains(secret), "{secret} in {shown}");
    }
    let shown: Value = serde_json::from_str(&shown).unwrap();
    assert!(shown["document"]["inputs"]["properties"]["token"].get("default").is_none());
    let asked = run(&["template", "use", "again", "--run"]);
    assert!(
        asked.code == Some(1) && asked.stderr.contains("key"),
        "the secret input is required: {}",
        asked.stderr
    );
    for given in ["token=hush-hush", "who=open-sesame"] {
        let refused = run(&["template", "use", "again", "--input", given]);
        assert!(
            refused.code == Some(1) && refused.stderr.contains("give it when the plan runs"),
            "{}",
            refused.stderr
        );
    }
    let ran = run(&["template", "use", "again", "--input", "token=hush-hush", "--input", "key=k", "--run"]);
    assert_eq!(ran.code, Some(0), "with --run a secret is given to the execution only: {}", ran.stderr);
    assert!(!run(&["plan", "show", "again", "--json"]).stdout.contains("hush-hush"));
}

/// Task, subtasks, records, notes, blockers and decisions around one research plan.
#[test]
fn research_template_runs_from_first_question_to_end() {
    for_each_database(async |scratch| {
        let sandbox = sandbox_on(&scratch.url);
        sandbox.expect(0, &["task", "add", "TASK-9", "--title", "Choose a queue", "--estimate", "4h"]);
        let words = ["template", "use", "research", "--input", "topic=queues", "--task", "TASK-9", "--run"];
        sandbox.expect(3, &words);
        let id = sandbox.newest();
        let split = sandbox.json(&["task", "split", "TASK-9", "research"]);
        let statuses = |tasks: &Value| -> Vec<String> {
            tasks.as_array().unwrap().iter().map(|task| task["status"].as_str().unwrap().to_owned()).collect()
        };
        assert_eq!(statuses(&split), ["in_progress", "open", "open", "open", "open"]);
        let report = |step: &str, words: &[&str]| {
            let recorded = sandbox.run(&[&["record", &id, step], words].concat());
            assert_eq!(recorded.code, Some(0), "{}", recorded.stderr);
        };
        report("scope", &["started", "--description", "reading the ticket"]);
        let view = sandbox.json(&["show", &id]);
        assert_eq!((&view["current"], &view["task"]), (&json!(["scope"]), &json!("TASK-9")));
        assert_eq!(
            view["durations"],
            json!({ "estimated_ms": 9_900_000, "took_ms": 0, "left_ms": 9_900_000 })
        );
        assert!(step(&view, "scope")["action"].as_str().unwrap().contains("the team has about queues"));
        report(
            "scope",
            &["succeeded", "--output", r#"{"questions": ["which keeps order?"]}"#, "--confidence", "0.8"],
        );
        sandbox.expect(3, &["resume", &id]);

        sandbox.expect(
            0,
            &["context", "set", "order", "The broker keeps order", "--type", "research", "--task", "TASK-9"],
        );
        report("sources", &["failed", "--reason", "no access to the archive"]);
        sandbox.expect(3, &["resume", &id]);
        sandbox.expect(
            0,
            &["context", "set", "archive", "access is asked for", "--type", "blockers", "--execution", &id],
        );
        let blocked = sandbox.json(&["show", &id]);
        assert_eq!((&blocked["status"], &blocked["current"]), (&json!("blocked"), &json!(["sources"])));
        assert_eq!(blocked["blockers"][0]["value"], "access is asked for");
        let shown = sandbox.expect(0, &["show", &id]);
        assert!(shown.contains("blocker archive: access is asked for"), "{shown}");
        assert!(shown.contains("at sources; estimated 165m"), "{shown}");
        assert_eq!(sandbox.json(&["task", "list", "--status", "blocked"])[0]["id"], "TASK-9");

        sandbox.expect(0, &["decide", &id, "sources", "retry", "--reason", "access was given"]);
        sandbox.expect(0, &["context", "delete", "archive", "--execution", &id]);
        sandbox.expect(3, &["resume", &id]);
        assert!(sandbox.json(&["show", &id]).get("blockers").is_none(), "a deleted blocker is not shown");
        for step in ["sources", "weigh", "report"] {
            report(step, &["succeeded"]);
            sandbox.expect(3, &["resume", &id]);
        }
        report("review", &["succeeded"]);
        let story = sandbox.json(&["task", "show", "TASK-9"]);
        assert_eq!(statuses(&story["subtasks"]), ["done"; 5]);
        assert_eq!(sandbox.json(&["show", &id])["status"], "succeeded");
        sandbox.expect(0, &["verify"]);
    });
}
