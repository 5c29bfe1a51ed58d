//! How `run`, `show`, `list` and `journal` display values, many steps, and executions without a driver.

use super::*;

const ECHO_AND_WRITE: &str = r#"
name: gives
inputs: { type: object, properties: { word: { type: string } }, required: [word] }
steps:
  - { id: say, tool: files/echo, arguments: { said: "${inputs.word}" }, read_only: true, approval: required }
  - id: keep
    tool: files/write_file
    arguments: { path: note.md, content: "${inputs.word}\n" }
    compensation: { tool: files/delete_file, arguments: { path: note.md } }
"#;

/// Runs a plan of two steps, the first approved with a reason; returns its id and the output of `resume`.
fn run_with_approval() -> (Sandbox, String, String) {
    let sandbox = Sandbox::new();
    sandbox.write("gives.yaml", ECHO_AND_WRITE);
    sandbox.expect(3, &["run", "gives.yaml", "--input", "word=heron"]);
    let id = sandbox.newest();
    sandbox.expect(0, &["approve", &id, "say", "--reason", "read it twice"]);
    let out = sandbox.expect(0, &["resume", &id]);
    (sandbox, id, out)
}

#[test]
fn outputs_of_a_small_run_appear_in_summary_and_show() {
    let (sandbox, id, out) = run_with_approval();
    let summary = out.split("succeeded after").nth(1).unwrap();
    assert!(summary.contains("say →") && summary.contains("heron"), "{out}");
    let shown = sandbox.expect(0, &["show", &id]);
    for words in [r#"inputs {"word":"heron"}"#, "←  {\"said\":\"heron\"}", "→"] {
        assert!(shown.contains(words), "{words}: {shown}");
    }
    assert_eq!(sandbox.json(&["show", &id])["inputs"], json!({ "word": "heron" }));
}

#[test]
fn show_of_one_step_has_its_values_approval_and_compensation() {
    let (sandbox, id, _) = run_with_approval();
    let say = sandbox.expect(0, &["show", &id, "say"]);
    for words in
        ["succeeded", "arguments", "\"said\": \"heron\"", "output", "approved by person:", "read it twice"]
    {
        assert!(say.contains(words), "{words}: {say}");
    }
    let keep = sandbox.expect(0, &["show", &id, "keep"]);
    assert!(keep.contains("compensation") && keep.contains("files/delete_file"), "{keep}");
    assert_eq!(sandbox.json(&["show", &id, "say"])["approvals"][0]["reason"], "read it twice");
    let wrong = sandbox.run(&["show", &id, "kep"]);
    assert_eq!(wrong.code, Some(1));
    assert!(wrong.stderr.contains("did you mean `keep`?"), "{}", wrong.stderr);
}

#[test]
fn show_of_one_step_lists_every_attempt() {
    let sandbox = Sandbox::new();
    let retry = "{ max_attempts: 2, backoff: 1ms, on: [tool_error] }";
    let flaky = "tool: files/fail_times, arguments: { name: f, times: 1 }, read_only: true";
    sandbox.write("flaky.yaml", &format!("name: flaky\nsteps: [{{ id: a, {flaky}, retry: {retry} }}]"));
    sandbox.expect(0, &["run", "flaky.yaml"]);
    let shown = sandbox.expect(0, &["show", &sandbox.newest(), "a"]);
    assert!(shown.contains("1. ") && shown.contains("failed (tool_error)"), "{shown}");
    assert!(shown.contains("2. ") && shown.contains("succeeded"), "{shown}");
}

#[test]
fn verbose_run_prints_the_output_of_a_command() {
    let sandbox = Sandbox::new();
    sandbox.write_config(
        json!({ "commands": { "build": { "argv": ["sh", "-c", "echo first line; echo second line"] } } }),
    );
    sandbox.write("build.yaml", "name: build\nsteps: [{ id: make, tool: command/build }]");
    let out = sandbox.expect(0, &["run", "build.yaml", "--verbose"]);
    let before_the_summary = out.split("\nsucceeded").next().unwrap();
    assert!(before_the_summary.contains("make →"), "{out}");
    assert!(before_the_summary.contains("second line"), "{out}");
    sandbox.expect(2, &["run", "build.yaml", "--verbose", "--detach"]);
}

#[test]
fn verbose_run_prints_what_a_command_writes_while_it_runs() {
    let sandbox = Sandbox::new();
    let build = "echo first line; until [ -e released ]; do sleep 0.01; done; echo second line";
    sandbox.write_config(json!({ "commands": { "build": { "argv": ["sh", "-c", build] } } }));
    sandbox.write("build.yaml", "name: build\nsteps: [{ id: make, tool: command/build }]");
    let mut run = sandbox.start(&["run", "build.yaml", "--verbose"]);
    let lines = read_lines(run.stdout.take().unwrap());
    wait_for_line(&lines, "command/build │ first line");
    sandbox.release();
    wait_for_line(&lines, "command/build │ second line");
    assert_eq!(run.wait().unwrap().code(), Some(0));
}

#[test]
fn verbose_journal_shows_arguments_and_outputs() {
    let (sandbox, id, _) = run_with_approval();
    assert!(!sandbox.expect(0, &["journal", "--execution", &id]).contains("note.md"));
    let verbose = sandbox.expect(0, &["journal", "--execution", &id, "--verbose"]);
    assert!(verbose.contains("note.md") && verbose.contains("heron"), "{verbose}");
    let words = ["journal", "--execution", &id, "--kind", "attempt_started", "--verbose", "--json"];
    let entries = sandbox.expect(0, &words);
    let last: Value = serde_json::from_str(entries.lines().last().unwrap()).unwrap();
    assert_eq!(last["payload"], json!({ "path": "note.md", "content": "heron\n" }));
}

#[test]
fn execution_without_a_driver_is_shown_as_stopped() {
    let sandbox = Sandbox::new();
    sandbox.write("k.yaml", "name: k\nsteps: [{ id: a, tool: command/hold }]");
    let journal = sandbox.follow_journal();
    let mut run = sandbox.start(&["run", "k.yaml"]);
    journal.wait_for("attempt_started", Some("a"));
    let id = sandbox.newest();
    assert!(!sandbox.expect(0, &["list"]).contains("stopped"), "an execution with a driver is not stopped");
    assert_eq!(sandbox.json(&["list"])[0].get("stopped"), None);
    assert_eq!(sandbox.json(&["list", "--status", "stopped"]), json!([]));
    run.kill().unwrap();
    run.wait().unwrap();
    let listed = sandbox.expect(0, &["list"]);
    let resume = format!("actbook resume {}", &id[..8]);
    assert!(listed.contains("1 wait:") && listed.contains("stopped: no process drives it"), "{listed}");
    assert!(listed.contains(&resume) && !listed.contains("running"), "{listed}");
    let shown = sandbox.expect(0, &["show", &id]);
    assert!(shown.contains("stopped: no process drives it") && shown.contains(&resume), "{shown}");
    assert_eq!(sandbox.json(&["list"])[0]["stopped"], true);
    assert_eq!(sandbox.json(&["list", "--status", "stopped"])[0]["id"], id);
    assert_eq!(sandbox.json(&["show", &id])["stopped"], true);
    sandbox.release();
}

#[test]
fn show_of_many_steps_lists_failures_first_and_counts_the_rest() {
    let sandbox = Sandbox::new();
    let echo = |n: usize| json!({ "id": format!("s{n}"), "tool": "files/echo", "read_only": true });
    let mut steps: Vec<Value> = (0..1_000).map(echo).collect();
    steps[700] = json!({ "id": "broken", "tool": "files/fail_times", "arguments": { "name": "f", "times": 9 }, "read_only": true });
    sandbox.write("many.json", &json!({ "name": "many", "steps": steps }).to_string());
    sandbox.expect(3, &["run", "many.json"]);
    let id = sandbox.newest();
    let shown = sandbox.expect(0, &["show", &id]);
    let lines: Vec<&str> = shown.lines().collect();
    assert!(lines.len() < 60, "{} lines: {shown}", lines.len());
    let row_of = |words: &str| {
        lines.iter().position(|line| line.contains(words)).unwrap_or_else(|| panic!("{words}: {shown}"))
    };
    assert!(row_of("✗  broken") < row_of("… 299 pending, 700 succeeded"), "{shown}");
}

#[test]
fn failed_undo_is_printed_with_its_own_time() {
    let sandbox = Sandbox::new();
    sandbox.write_config(json!({ "commands": {
        "act": { "argv": ["true"] }, "late": { "argv": ["sh", "-c", "sleep 1.5; exit 1"] }, "fails": { "argv": ["false"] },
    } }));
    let steps = "[{ id: a, tool: command/act, compensation: { tool: command/fails } }, { id: b, tool: command/late }]";
    sandbox.write("p.yaml", &format!("name: p\npolicy: {{ on_failure: auto }}\nsteps: {steps}"));
    let out = sandbox.expect(3, &["run", "p.yaml"]);
    let time_of = |words: &str| {
        let line = out.lines().find(|line| line.contains(words)).unwrap_or_else(|| panic!("{words}: {out}"));
        line.split(' ').next().unwrap().to_owned()
    };
    // More than a second lies between them.
    assert_ne!(time_of("a compensation_failed"), time_of("a succeeded"), "{out}");
}

#[test]
fn list_counts_all_that_waits_whatever_page_it_shows() {
    let sandbox = Sandbox::new();
    sandbox.write("a.yaml", "name: a\nsteps: [{ id: a, action: Do it }]");
    for _ in 0..3 {
        sandbox.expect(3, &["run", "a.yaml"]);
    }
    sandbox.expect(0, &["pause", &sandbox.newest()]);
    let listed = sandbox.expect(0, &["list", "--limit", "1"]);
    assert!(
        listed.contains("3 wait: 2 for an answer") && listed.contains("1 paused (`actbook resume"),
        "{listed}"
    );
}
