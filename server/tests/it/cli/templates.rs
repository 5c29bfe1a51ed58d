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

/// A sandbox on this database.
fn on(database: &str) -> House {
    House { database: Some(database.to_owned()), ..House::new() }
}

/// The arguments that each step sent.
fn sent(house: &House, id: &str) -> Vec<Value> {
    let view = house.json(&["show", id]);
    view["steps"].as_array().unwrap().iter().map(|step| step["arguments"].clone()).collect()
}

fn read(house: &House, file: &str) -> String {
    std::fs::read_to_string(house.path(file)).unwrap()
}

#[test]
fn a_template_made_of_a_past_execution_runs_again_with_other_inputs() {
    for_each_database(async |scratch| {
        let house = on(&scratch.url);
        house.write("notes.yaml", NOTES);
        house.expect(0, &["run", "notes.yaml", "--input", "version=1.2"]);
        let first = house.newest();
        let made = house.json(&["template", "from", &first[..6], "publish"]);
        assert_eq!(
            (&made["name"], &made["version"], &made["fresh"]),
            (&json!("publish"), &json!(1), &json!(true))
        );
        let shown = house.json(&["template", "show", "publish"]);
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

        std::fs::remove_file(house.path("work/notes.md")).unwrap();
        house.expect(0, &["template", "use", "publish", "--run"]);
        assert_eq!(
            sent(&house, &house.newest()),
            sent(&house, &first),
            "the defaults must make the same calls"
        );
        assert_eq!(read(&house, "work/notes.md"), "first\nversion 1.2\n");

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
        house.expect(0, &words);
        let second = house.newest();
        assert_eq!(read(&house, "work/other.md"), "first\nversion 2\n");
        assert_eq!(house.json(&["show", &second])["plan"]["name"], "second");
        house.expect(3, &["undo", &second]);
        assert!(house.path("work/notes.md").exists(), "the undo must use the new values");
        house.expect(0, &["record", &second, "sign", "compensated"]);
        house.expect(1, &["resume", &second]);
        assert!(!house.path("work/other.md").exists() && house.path("work/notes.md").exists());
        assert!(house.expect(0, &["verify"]).contains("is whole"));
    });
}

#[test]
fn template_of_an_execution_makes_its_corrected_calls() {
    let house = House::new();
    let step = json!({ "id": "draft", "tool": "files/write_file",
        "arguments": { "path": "../draft.txt", "content": "text" },
        "compensation": { "tool": "files/delete_file", "arguments": { "path": "${arguments.path}" } } });
    house.write("plan.json", &json!({ "name": "wrong", "steps": [step] }).to_string());
    house.expect(3, &["run", "plan.json"]);
    let id = house.newest();
    let corrected = r#"{"path": "draft.txt", "content": "text"}"#;
    house.expect(0, &["decide", &id, "draft", "retry", "--reason", "wrong path", "--arguments", corrected]);
    house.expect(0, &["resume", &id]);
    house.expect(0, &["undo", &id]);
    house.expect(0, &["template", "from", &id, "right"]);
    house.expect(0, &["template", "use", "right", "--run"]);
    assert_eq!(sent(&house, &house.newest()), sent(&house, &id));
    assert!(house.path("work/draft.txt").exists());
}

#[test]
fn a_template_has_an_author_and_a_history_and_outlives_a_rebuild() {
    for_each_database(async |scratch| {
        let house = on(&scratch.url);
        house.write("one.yaml", "name: release\nsteps: [{ id: a, action: do it }]");
        house.expect(0, &["template", "save", "one.yaml"]);
        assert_eq!(house.json(&["template", "save", "one.yaml"])["fresh"], false);
        house.write("one.yaml", "name: release\ndescription: mine\nsteps: [{ id: a, action: do it well }]");
        house.expect(0, &["template", "save", "one.yaml"]);
        let shown = house.json(&["template", "show", "release"]);
        assert_eq!(
            (&shown["shipped"], &shown["version"]),
            (&json!(false), &json!(2)),
            "the user's template has priority"
        );
        let history = shown["history"].as_array().unwrap();
        assert_eq!(history.len(), 2);
        assert!(history.iter().all(|one| one["author"].as_str().unwrap().starts_with("person:")));
        assert_eq!(house.json(&["plan", "list"]), json!([]), "a template is not listed as a plan");
        assert!(house.run(&["run", "release"]).err.contains("no plan `release`"));

        let listed = house.json(&["template", "list"]);
        let named = listed.as_array().unwrap().iter().filter(|one| one["name"] == "release").count();
        assert_eq!(named, 1);
        scratch.execute("DELETE FROM plans").await;
        house.expect(0, &["rebuild"]);
        assert_eq!(house.json(&["template", "list"]), listed);
        assert_eq!(house.json(&["template", "show", "release"]), shown);

        house.expect(0, &["template", "delete", "release"]);
        assert_eq!(house.json(&["template", "show", "release"])["shipped"], true);
        let refused = house.run(&["template", "delete", "release"]);
        assert_eq!(refused.code, Some(1));
        assert!(refused.err.contains("comes with Actbook"), "{}", refused.err);
        house.expect(0, &["verify"]);
    });
}

#[test]
fn every_shipped_template_is_listed_shown_and_used() {
    let house = House::new();
    let needs = [
        ("research", vec!["topic=queues"]),
        ("implementation", vec!["feature=csv", "branch=csv"]),
        ("release", vec!["version=1.2"]),
        ("database-migration", vec!["version=7"]),
        ("file-pipeline", vec!["customer=ada"]),
        ("travel-booking", vec!["traveller=ada", "city=Turin"]),
        ("agent-steps", vec![]),
    ];
    let listed = house.json(&["template", "list"]);
    let names: Vec<&str> =
        listed.as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap()).collect();
    assert_eq!(names, needs.iter().map(|(name, _)| *name).collect::<Vec<_>>());
    for (name, inputs) in &needs {
        let file = format!("{}/../examples/{name}.yaml", env!("CARGO_MANIFEST_DIR"));
        let text = house.expect(0, &["template", "show", name]);
        assert_eq!(text.trim_end(), std::fs::read_to_string(file).unwrap().trim_end(), "one source");
        let mut words = vec!["template", "use", name, "--offline"];
        inputs.iter().for_each(|input| words.extend(["--input", input]));
        let saved = house.json(&words);
        assert_eq!((&saved["name"], &saved["check"]["ok"]), (&json!(name), &json!(true)), "{saved}");
        let all = |input: &Value| input["default"].is_null() && input["required"] == true;
        let document = house.json(&["plan", "show", name])["document"].clone();
        let properties = document["inputs"]["properties"].as_object().cloned().unwrap_or_default();
        assert!(!properties.values().any(all), "given inputs become defaults");
    }
    house.expect(
        0,
        &["template", "use", "travel-booking", "--input", "traveller=ada", "--input", "city=Turin", "--run"],
    );
    assert_eq!(read(&house, "work/bookings/ada/flight.txt"), "A seat to Turin.\n");
}

#[test]
fn refusals_name_what_was_meant() {
    let house = House::new();
    let refused = |words: &[&str]| {
        let ran = house.run(words);
        assert_eq!(ran.code, Some(1), "{}", ran.out);
        ran.err
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
fn a_secret_never_becomes_a_default() {
    let house = House::new();
    let config = json!({
        "mcpServers": { "files": { "command": BINARY, "args": ["demo-tools", "--folder", "work"], "env": { "KEY": "${env:SESAME:-none}" } } },
    });
    house.write("actbook.yaml", &config.to_string());
    let run = |words: &[&str]| -> Ran {
        house.command(words).env("SESAME", "open-sesame").output().unwrap().into()
    };
    let schema =
        "{ type: object, properties: { token: { type: string, writeOnly: true }, who: { type: string } } }";
    let step = "{ id: a, tool: files/echo, read_only: true, arguments: { key: open-sesame, who: \"${inputs.who}\" } }";
    house.write("keys.yaml", &format!("name: keys\ninputs: {schema}\nsteps: [{step}]"));
    // A plan with a known secret is refused; this one runs while the variable is unset, so the value is no
    // secret yet.
    house.expect(0, &["run", "keys.yaml", "--input", "token=hush-hush", "--input", "who=ada"]);
    let made = run(&["template", "from", &house.newest(), "again"]);
    assert!(made.out.contains("key has to be given") && made.out.contains("who = \"ada\""), "{}", made.out);
    let shown = run(&["template", "show", "again", "--json"]).out;
    for secret in ["open-sesame", "hush-hush"] {
        assert!(!shown.contains(secret), "{secret} in {shown}");
    }
    let shown: Value = serde_json::from_str(&shown).unwrap();
    assert!(shown["document"]["inputs"]["properties"]["token"].get("default").is_none());
    let asked = run(&["template", "use", "again", "--run"]);
    assert!(
        asked.code == Some(1) && asked.err.contains("key"),
        "the secret input is required: {}",
        asked.err
    );
    for given in ["token=hush-hush", "who=open-sesame"] {
        let refused = run(&["template", "use", "again", "--input", given]);
        assert!(
            refused.code == Some(1) && refused.err.contains("give it when the plan runs"),
            "{}",
            refused.err
        );
    }
    let ran = run(&["template", "use", "again", "--input", "token=hush-hush", "--input", "key=k", "--run"]);
    assert_eq!(ran.code, Some(0), "with --run a secret is given to the execution only: {}", ran.err);
    assert!(!run(&["plan", "show", "again", "--json"]).out.contains("hush-hush"));
}

/// Task, subtasks, records, notes, blockers and decisions around one research plan.
#[test]
fn a_research_plan_goes_from_its_first_question_to_its_end() {
    for_each_database(async |scratch| {
        let house = on(&scratch.url);
        house.expect(0, &["task", "add", "TASK-9", "--title", "Choose a queue", "--estimate", "4h"]);
        let words = ["template", "use", "research", "--input", "topic=queues", "--task", "TASK-9", "--run"];
        house.expect(3, &words);
        let id = house.newest();
        let split = house.json(&["task", "split", "TASK-9", "research"]);
        let statuses = |tasks: &Value| -> Vec<String> {
            tasks.as_array().unwrap().iter().map(|task| task["status"].as_str().unwrap().to_owned()).collect()
        };
        assert_eq!(statuses(&split), ["in_progress", "open", "open", "open", "open"]);
        let report = |step: &str, words: &[&str]| {
            let recorded = house.run(&[&["record", &id, step], words].concat());
            assert_eq!(recorded.code, Some(0), "{}", recorded.err);
        };
        report("scope", &["started", "--description", "reading the ticket"]);
        let view = house.json(&["show", &id]);
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
        house.expect(3, &["resume", &id]);

        house.expect(
            0,
            &["context", "set", "order", "The broker keeps order", "--type", "research", "--task", "TASK-9"],
        );
        report("sources", &["failed", "--reason", "no access to the archive"]);
        house.expect(3, &["resume", &id]);
        house.expect(
            0,
            &["context", "set", "archive", "access is asked for", "--type", "blockers", "--execution", &id],
        );
        let blocked = house.json(&["show", &id]);
        assert_eq!((&blocked["status"], &blocked["current"]), (&json!("blocked"), &json!(["sources"])));
        assert_eq!(blocked["blockers"][0]["value"], "access is asked for");
        let shown = house.expect(0, &["show", &id]);
        assert!(shown.contains("blocker archive: access is asked for"), "{shown}");
        assert!(shown.contains("at sources; estimated 165m"), "{shown}");
        assert_eq!(house.json(&["task", "list", "--status", "blocked"])[0]["id"], "TASK-9");

        house.expect(0, &["decide", &id, "sources", "retry", "--reason", "access was given"]);
        house.expect(0, &["context", "delete", "archive", "--execution", &id]);
        house.expect(3, &["resume", &id]);
        assert!(house.json(&["show", &id]).get("blockers").is_none(), "a deleted blocker is not shown");
        for (step, code) in [("sources", 3), ("weigh", 3), ("report", 3), ("review", 0)] {
            report(step, &["succeeded"]);
            house.expect(code, &["resume", &id]);
        }
        let story = house.json(&["task", "show", "TASK-9"]);
        assert_eq!(statuses(&story["subtasks"]), ["done"; 5]);
        assert_eq!(house.json(&["show", &id])["status"], "succeeded");
        house.expect(0, &["verify"]);
    });
}
