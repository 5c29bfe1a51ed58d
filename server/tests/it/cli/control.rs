//! Commands of another process (pause, approve, decide, record, resume) take effect on a running driver.

use super::*;

#[test]
fn pause_stops_the_driver_and_resume_skips_finished_steps() {
    let sandbox = Sandbox::new();
    sandbox.write(
        "p.yaml",
        "name: p\nsteps:\n  - { id: first, tool: command/hold }\n  - { id: second, tool: files/counter_add, arguments: { name: n } }\n",
    );
    let journal = sandbox.follow_journal();
    let run = sandbox.start(&["run", "p.yaml"]);
    journal.wait_for("attempt_started", Some("first"));
    let id = sandbox.newest();
    assert!(sandbox.expect(0, &["pause", &id, "--reason", "wait a little"]).contains("paused"));
    journal.wait_for("paused", None);
    sandbox.release();
    let ran = CliOutput::from(run.wait_with_output().unwrap());
    assert_eq!(ran.code, Some(3), "{}{}", ran.stdout, ran.stderr);
    assert_eq!(step(&sandbox.json(&["show", &id]), "second")["status"], "pending");
    sandbox.expect(1, &["pause", &id]);

    sandbox.expect(0, &["resume", &id]);
    let started = sandbox.expect(0, &["journal", "--kind", "attempt_started"]);
    assert_eq!(started.lines().count(), 2, "{started}");
}

#[test]
fn approval_and_decision_reach_the_running_driver() {
    check_answers_reach_busy_driver(&Sandbox::new());
}

#[tokio::test]
async fn approval_and_decision_reach_the_running_driver_on_postgresql() {
    let database = crate::postgres::PostgresDatabase::create().await;
    check_answers_reach_busy_driver(&Sandbox { database: Some(database.url.clone()), ..Sandbox::new() });
}

fn check_answers_reach_busy_driver(sandbox: &Sandbox) {
    let plan = r#"
name: busy
policy: { concurrency: 3 }
steps:
  - { id: long, tool: command/hold, read_only: true }
  - { id: gated, tool: files/echo, arguments: { x: 1 }, read_only: true, approval: required }
  - id: flaky
    tool: files/fail_times
    arguments: { name: f, times: 1 }
    read_only: true
    depends_on: [gated]
"#;
    sandbox.write("busy.yaml", plan);
    let journal = sandbox.follow_journal();
    let run = sandbox.start(&["run", "busy.yaml"]);
    journal.wait_for("approval_asked", Some("gated"));
    let id = sandbox.newest();
    let nameless = sandbox.run(&["approve", &id]).stderr;
    assert!(nameless.contains("as in `actbook approve ID gated`"), "{nameless}");
    let answered = sandbox.expect(0, &["approve", &id, "gated"]);
    assert!(answered.contains("continues it"), "{answered}");
    journal.wait_for("step_failed", Some("flaky"));
    let answered =
        sandbox.expect(0, &["decide", &id, "flaky", "retry", "--reason", "it works the second time"]);
    assert!(answered.contains("continues it"), "{answered}");
    let ended = journal.wait_for("attempt_ended", Some("flaky"));
    assert_eq!(ended["body"]["outcome"], "succeeded");
    assert_eq!(step(&sandbox.json(&["show", &id]), "long")["status"], "running");
    sandbox.release();
    assert_eq!(run.wait_with_output().unwrap().status.code(), Some(0));
}

#[test]
fn record_without_a_driver_names_the_resume_command() {
    let sandbox = Sandbox::new();
    sandbox.write("a.yaml", "name: a\nsteps: [{ id: work, action: Water the plants }, { id: say, tool: files/echo, read_only: true }]");
    sandbox.expect(3, &["run", "a.yaml"]);
    let id = sandbox.newest();
    let refused = sandbox.run(&["record", &id, "wrk", "succeeded"]);
    assert!(refused.stderr.contains("did you mean `work`?"), "{}", refused.stderr);
    let answered = sandbox.expect(0, &["record", &id, "work", "succeeded", "--output", r#"{"litres": 2}"#]);
    assert!(answered.contains(&format!("actbook resume {}", &id[..8])), "{answered}");
    sandbox.expect(0, &["resume", &id]);
    assert_eq!(step(&sandbox.json(&["show", &id]), "work")["output"], json!({ "litres": 2 }));
    let again = sandbox.run(&["resume", &id]);
    assert_eq!(again.code, Some(1));
    assert!(again.stderr.contains("the execution is succeeded"), "{}", again.stderr);
}

#[test]
fn yes_flag_approves_the_plan_but_not_its_steps() {
    let sandbox = Sandbox::new();
    let step = "{ id: a, tool: files/echo, read_only: true, approval: required }";
    sandbox.write("y.yaml", &format!("name: y\npolicy: {{ approval: plan }}\nsteps: [{step}]"));
    assert!(sandbox.expect(3, &["run", "y.yaml"]).contains("May the plan `y` start"));
    let asked = sandbox.expect(3, &["run", "y.yaml", "--yes"]);
    assert!(asked.contains("May step `a` run?"), "{asked}");
    let id = sandbox.newest();
    sandbox.expect(0, &["reject", &id, "a", "--reason", "not today"]);
    sandbox.expect(3, &["resume", &id]);
    let view = sandbox.json(&["show", &id]);
    assert_eq!(view["steps"][0]["error"]["category"], "policy");
    sandbox.expect(0, &["cancel", &id]);
    assert_eq!(sandbox.json(&["show", &id])["status"], "cancelled");
}

#[test]
fn decide_applies_to_several_steps_and_reports_each_refusal() {
    let sandbox = Sandbox::new();
    let step = |n: usize| {
        let arguments = json!({ "name": format!("f{n}"), "times": 1 });
        let policy = json!({ "action": "manual_decision" });
        json!({ "id": format!("s{n}"), "tool": "files/fail_times", "arguments": arguments, "failure_policy": policy, "read_only": true })
    };
    let steps: Vec<Value> = (0..4).map(step).collect();
    sandbox.write(
        "many.json",
        &json!({ "name": "many", "policy": { "concurrency": 4 }, "steps": steps }).to_string(),
    );
    sandbox.expect(3, &["run", "many.json"]);
    let id = sandbox.newest();
    let words = ["decide", &id, "s0", "nosuch", "s1", "skip", "--reason", "not needed"];
    let some = sandbox.run(&words);
    assert_eq!(some.code, Some(1), "one of the steps is refused");
    assert!(some.stdout.contains("s0: skip") && some.stdout.contains("s1: skip"), "{}", some.stdout);
    assert!(some.stderr.contains("nosuch refused"), "{}", some.stderr);

    sandbox.expect(2, &["decide", &id, "retry", "--reason", "no step is named"]);
    sandbox.expect(2, &["decide", &id, "s2", "--all", "failed", "retry", "--reason", "both"]);
    sandbox.expect(2, &["decide", &id, "s2", "again", "--reason", "no such answer"]);
    let none = sandbox.run(&["decide", &id, "--all", "unknown", "did_not_happen", "--reason", "r"]);
    assert_eq!(none.code, Some(1));
    assert!(none.stderr.contains("no step that is unknown"), "{}", none.stderr);

    let rest = sandbox.expect(0, &["decide", &id, "--all", "failed", "retry", "--reason", "it works now"]);
    assert!(rest.contains("s2: retry") && rest.contains("s3: retry"), "{rest}");
    sandbox.expect(0, &["resume", &id]);
    assert_eq!(sandbox.expect(0, &["journal", "--kind", "decided"]).lines().count(), 4);
}

#[test]
fn failed_call_is_retried_with_corrected_arguments() {
    let sandbox = Sandbox::new();
    let step = json!({ "id": "draft", "tool": "files/write_file", "arguments": { "path": "../draft.txt", "content": "text" },
        "compensation": { "tool": "files/delete_file", "arguments": { "path": "${arguments.path}" } } });
    sandbox.write("plan.json", &json!({ "name": "wrong", "steps": [step] }).to_string());
    sandbox.expect(3, &["run", "plan.json"]);
    let id = sandbox.newest();
    let retry = ["decide", &id, "draft", "retry", "--reason", "the path was wrong", "--arguments"];
    let refused = sandbox.run(&[&retry[..], &[r#"{"path": "draft.txt"}"#]].concat());
    assert!(
        refused.code == Some(1) && refused.stderr.contains("does not take these arguments"),
        "{}",
        refused.stderr
    );
    sandbox.expect(0, &[&retry[..], &[r#"{"path": "draft.txt", "content": "text"}"#]].concat());
    sandbox.expect(0, &["resume", &id]);
    assert!(sandbox.path("work/draft.txt").exists());
    sandbox.expect(0, &["undo", &id]);
    assert!(!sandbox.path("work/draft.txt").exists());
}

#[test]
fn detached_run_continues_after_the_starting_command_exits() {
    let sandbox = Sandbox::new();
    sandbox.write("d.yaml", "name: d\nsteps: [{ id: a, tool: command/hold }, { id: b, tool: files/echo }]");
    let journal = sandbox.follow_journal();
    let output = sandbox.expect(0, &["run", "d.yaml", "--detach"]);
    assert!(
        output.contains("drives it, to its end or its first question") && output.contains("actbook watch"),
        "{output}"
    );
    journal.wait_for("attempt_started", Some("a"));
    let id = sandbox.newest();
    let mut watcher = sandbox.start(&["resume", &id]);
    wait_for_line(&read_lines(watcher.stderr.take().unwrap()), "watching");
    sandbox.release();
    journal.wait_for("execution_ended", None);
    let watched = CliOutput::from(watcher.wait_with_output().unwrap());
    assert_eq!(watched.code, Some(0), "{}{}", watched.stdout, watched.stderr);
    assert_eq!(sandbox.json(&["show", &id])["status"], "succeeded");
}

#[test]
fn resume_with_another_toolset_is_refused_without_here_flag() {
    let sandbox = Sandbox::new();
    sandbox.write(
        "p.yaml",
        "name: p\nsteps: [{ id: work, action: Do it }, { id: b, tool: files/echo, depends_on: [work] }]",
    );
    sandbox.expect(3, &["run", "p.yaml"]);
    let id = sandbox.newest();
    sandbox.expect(0, &["record", &id, "work", "succeeded"]);
    let other = json!({ "mcpServers": { "files": { "command": BINARY, "args": ["demo-tools", "--folder", "other"] } } });
    sandbox.write("actbook.yaml", &other.to_string());
    let refused = sandbox.run(&["resume", &id]);
    assert_eq!(refused.code, Some(1));
    assert!(refused.stderr.contains("--here"), "{}", refused.stderr);
    sandbox.expect(0, &["resume", &id, "--here"]);
    assert_eq!(sandbox.expect(0, &["journal", "--kind", "place_adopted"]).lines().count(), 1);
}

#[test]
fn execution_of_a_killed_driver_is_resumed_without_waiting() {
    let sandbox = Sandbox::new();
    sandbox.write("k.yaml", "name: k\nsteps: [{ id: a, tool: command/hold, read_only: true, retry: { max_attempts: 2, backoff: 1ms, on: [unavailable] } }]");
    let journal = sandbox.follow_journal();
    let mut run = sandbox.start(&["run", "k.yaml"]);
    journal.wait_for("attempt_started", Some("a"));
    run.kill().unwrap();
    run.wait().unwrap();
    let id = sandbox.newest();
    assert!(sandbox.expect(0, &["show", &id]).contains("no process drives it"));
    let watched = sandbox.run(&["watch", &id]);
    assert_eq!(watched.code, Some(1));
    assert!(watched.stderr.contains("actbook resume"), "{}", watched.stderr);
    assert_eq!(sandbox.run(&["doctor"]).code, Some(1));
    sandbox.release();
    sandbox.expect(0, &["resume", &id]);
}

#[test]
fn read_only_calls_lost_in_a_crash_are_repeated_without_a_question() {
    let sandbox = Sandbox::new();
    let steps: Vec<Value> =
        (0..8).map(|n| json!({ "id": format!("s{n}"), "tool": "command/hold", "read_only": true })).collect();
    let plan = json!({ "name": "reads", "policy": { "concurrency": 8 }, "steps": steps });
    sandbox.write("reads.json", &plan.to_string());
    let journal = sandbox.follow_journal();
    let mut run = sandbox.start(&["run", "reads.json"]);
    for n in 0..8 {
        journal.wait_for("attempt_started", Some(&format!("s{n}")));
    }
    run.kill().unwrap();
    run.wait().unwrap();
    sandbox.release();
    sandbox.expect(0, &["resume", &sandbox.newest()]);
}

#[test]
fn compensated_is_a_success_of_undo_alone() {
    let sandbox = Sandbox::new();
    let undo = json!({ "tool": "files/delete_file", "arguments": { "path": "a.txt" } });
    let plan = |on_failure: &str| {
        json!({ "name": on_failure, "policy": { "on_failure": on_failure }, "steps": [
            { "id": "file", "tool": "files/write_file", "arguments": { "path": "a.txt", "content": "a" }, "compensation": undo },
            { "id": "gone", "tool": "files/read_file", "arguments": { "path": "none.txt" }, "read_only": true },
        ] })
        .to_string()
    };
    sandbox.write("auto.json", &plan("auto"));
    sandbox.expect(1, &["run", "auto.json"]);
    sandbox.expect(1, &["watch", &sandbox.newest()]);
    sandbox.write("propose.json", &plan("propose"));
    sandbox.expect(3, &["run", "propose.json"]);
    sandbox.expect(0, &["approve", &sandbox.newest()]);
    sandbox.expect(1, &["resume", &sandbox.newest()]);
    sandbox.write("manual.json", &plan("manual"));
    sandbox.expect(3, &["run", "manual.json"]);
    sandbox.expect(0, &["undo", &sandbox.newest()]);
    assert!(sandbox.json(&["list"]).as_array().unwrap().iter().all(|one| one["status"] == "compensated"));
}
