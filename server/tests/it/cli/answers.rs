//! Commands of another process (pause, approve, decide, record, resume) take effect on a running driver.

use super::*;

#[test]
fn a_pause_stops_the_driver_and_a_resume_runs_no_finished_step_again() {
    let house = House::new();
    house.write(
        "p.yaml",
        "name: p\nsteps:\n  - { id: first, tool: command/hold }\n  - { id: second, tool: files/counter_add, arguments: { name: n } }\n",
    );
    let journal = house.journal();
    let run = house.start(&["run", "p.yaml"]);
    journal.until("attempt_started", Some("first"));
    let id = house.newest();
    assert!(house.expect(0, &["pause", &id, "--reason", "wait a little"]).contains("paused"));
    journal.until("paused", None);
    house.release();
    let ran = Ran::from(run.wait_with_output().unwrap());
    assert_eq!(ran.code, Some(3), "{}{}", ran.out, ran.err);
    assert_eq!(step(&house.json(&["show", &id]), "second")["status"], "pending");
    house.expect(1, &["pause", &id]);

    house.expect(0, &["resume", &id]);
    let started = house.expect(0, &["journal", "--kind", "attempt_started"]);
    assert_eq!(started.lines().count(), 2, "{started}");
}

#[test]
fn a_yes_and_a_decision_reach_the_driver_at_once() {
    check_busy(&House::new());
}

#[tokio::test]
async fn a_yes_and_a_decision_reach_the_driver_at_once_on_postgresql() {
    let database = crate::postgres::Database::create().await;
    check_busy(&House { database: Some(database.url.clone()), ..House::new() });
}

fn check_busy(house: &House) {
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
    house.write("busy.yaml", plan);
    let journal = house.journal();
    let run = house.start(&["run", "busy.yaml"]);
    journal.until("approval_asked", Some("gated"));
    let id = house.newest();
    let answered = house.expect(0, &["approve", &id, "gated"]);
    assert!(answered.contains("goes on"), "{answered}");
    journal.until("step_failed", Some("flaky"));
    let answered =
        house.expect(0, &["decide", &id, "flaky", "retry", "--reason", "it works the second time"]);
    assert!(answered.contains("goes on"), "{answered}");
    let ended = journal.until("attempt_ended", Some("flaky"));
    assert_eq!(ended["body"]["outcome"], "succeeded");
    assert_eq!(step(&house.json(&["show", &id]), "long")["status"], "running");
    house.release();
    assert_eq!(run.wait_with_output().unwrap().status.code(), Some(0));
}

#[test]
fn an_answer_without_a_driver_names_the_command_that_takes_it_up() {
    let house = House::new();
    house.write("a.yaml", "name: a\nsteps: [{ id: work, action: Water the plants }]");
    house.expect(3, &["run", "a.yaml"]);
    let id = house.newest();
    let refused = house.run(&["record", &id, "wrk", "succeeded"]);
    assert!(refused.err.contains("did you mean `work`?"), "{}", refused.err);
    let answered = house.expect(0, &["record", &id, "work", "succeeded", "--output", r#"{"litres": 2}"#]);
    assert!(answered.contains(&format!("actbook resume {}", &id[..8])), "{answered}");
    house.expect(0, &["resume", &id]);
    assert_eq!(step(&house.json(&["show", &id]), "work")["output"], json!({ "litres": 2 }));
    let again = house.run(&["resume", &id]);
    assert_eq!(again.code, Some(1));
    assert!(again.err.contains("the execution is succeeded"), "{}", again.err);
}

#[test]
fn yes_answers_the_plan_and_nothing_else() {
    let house = House::new();
    let step = "{ id: a, tool: files/echo, read_only: true, approval: required }";
    house.write("y.yaml", &format!("name: y\npolicy: {{ approval: plan }}\nsteps: [{step}]"));
    assert!(house.expect(3, &["run", "y.yaml"]).contains("May the plan `y` start"));
    let asked = house.expect(3, &["run", "y.yaml", "--yes"]);
    assert!(asked.contains("May step `a` run?"), "{asked}");
    let id = house.newest();
    house.expect(0, &["reject", &id, "a", "--reason", "not today"]);
    house.expect(3, &["resume", &id]);
    let view = house.json(&["show", &id]);
    assert_eq!(view["steps"][0]["error"]["category"], "policy");
    house.expect(0, &["cancel", &id]);
    assert_eq!(house.json(&["show", &id])["status"], "cancelled");
}

#[test]
fn several_steps_are_decided_at_once() {
    let house = House::new();
    let step = |n: usize| {
        let arguments = json!({ "name": format!("f{n}"), "times": 1 });
        let policy = json!({ "action": "manual_decision" });
        json!({ "id": format!("s{n}"), "tool": "files/fail_times", "arguments": arguments, "failure_policy": policy, "read_only": true })
    };
    let steps: Vec<Value> = (0..4).map(step).collect();
    house.write(
        "many.json",
        &json!({ "name": "many", "policy": { "concurrency": 4 }, "steps": steps }).to_string(),
    );
    house.expect(3, &["run", "many.json"]);
    let id = house.newest();
    let words = ["decide", &id, "s0", "nosuch", "s1", "skip", "--reason", "not needed"];
    let some = house.run(&words);
    assert_eq!(some.code, Some(1), "one of the steps is refused");
    assert!(some.out.contains("s0: skip") && some.out.contains("s1: skip"), "{}", some.out);
    assert!(some.err.contains("nosuch refused"), "{}", some.err);

    house.expect(2, &["decide", &id, "retry", "--reason", "no step is named"]);
    house.expect(2, &["decide", &id, "s2", "--all", "failed", "retry", "--reason", "both"]);
    house.expect(2, &["decide", &id, "s2", "again", "--reason", "no such answer"]);
    let none = house.run(&["decide", &id, "--all", "unknown", "did_not_happen", "--reason", "r"]);
    assert_eq!(none.code, Some(1));
    assert!(none.err.contains("no step that is unknown"), "{}", none.err);

    let rest = house.expect(0, &["decide", &id, "--all", "failed", "retry", "--reason", "it works now"]);
    assert!(rest.contains("s2: retry") && rest.contains("s3: retry"), "{rest}");
    house.expect(0, &["resume", &id]);
    assert_eq!(house.expect(0, &["journal", "--kind", "decided"]).lines().count(), 4);
}

#[test]
fn failed_call_is_retried_with_corrected_arguments() {
    let house = House::new();
    let step = json!({ "id": "draft", "tool": "files/write_file", "arguments": { "path": "../draft.txt", "content": "text" },
        "compensation": { "tool": "files/delete_file", "arguments": { "path": "${arguments.path}" } } });
    house.write("plan.json", &json!({ "name": "wrong", "steps": [step] }).to_string());
    house.expect(3, &["run", "plan.json"]);
    let id = house.newest();
    let retry = ["decide", &id, "draft", "retry", "--reason", "the path was wrong", "--arguments"];
    let refused = house.run(&[&retry[..], &[r#"{"path": "draft.txt"}"#]].concat());
    assert!(
        refused.code == Some(1) && refused.err.contains("does not take these arguments"),
        "{}",
        refused.err
    );
    house.expect(0, &[&retry[..], &[r#"{"path": "draft.txt", "content": "text"}"#]].concat());
    house.expect(0, &["resume", &id]);
    assert!(house.path("work/draft.txt").exists());
    house.expect(0, &["undo", &id]);
    assert!(!house.path("work/draft.txt").exists());
}

#[test]
fn a_detached_run_goes_on_without_its_starter() {
    let house = House::new();
    house.write("d.yaml", "name: d\nsteps: [{ id: a, tool: command/hold }, { id: b, tool: files/echo }]");
    let journal = house.journal();
    let output = house.expect(0, &["run", "d.yaml", "--detach"]);
    assert!(output.contains("drives it") && output.contains("actbook watch"), "{output}");
    journal.until("attempt_started", Some("a"));
    let id = house.newest();
    let mut watcher = house.start(&["resume", &id]);
    hears(&lines(watcher.stderr.take().unwrap()), "watching");
    house.release();
    journal.until("execution_ended", None);
    let watched = Ran::from(watcher.wait_with_output().unwrap());
    assert_eq!(watched.code, Some(0), "{}{}", watched.out, watched.err);
    assert_eq!(house.json(&["show", &id])["status"], "succeeded");
}

#[test]
fn another_place_is_refused_until_it_is_adopted() {
    let house = House::new();
    house.write(
        "p.yaml",
        "name: p\nsteps: [{ id: work, action: Do it }, { id: b, tool: files/echo, depends_on: [work] }]",
    );
    house.expect(3, &["run", "p.yaml"]);
    let id = house.newest();
    house.expect(0, &["record", &id, "work", "succeeded"]);
    let other = json!({ "mcpServers": { "files": { "command": BINARY, "args": ["demo-tools", "--folder", "other"] } } });
    house.write("actbook.yaml", &other.to_string());
    let refused = house.run(&["resume", &id]);
    assert_eq!(refused.code, Some(1));
    assert!(refused.err.contains("--here"), "{}", refused.err);
    house.expect(0, &["resume", &id, "--here"]);
    assert_eq!(house.expect(0, &["journal", "--kind", "place_adopted"]).lines().count(), 1);
}

#[test]
fn an_execution_whose_driver_was_killed_is_taken_up_at_once() {
    let house = House::new();
    house.write("k.yaml", "name: k\nsteps: [{ id: a, tool: command/hold, read_only: true, retry: { max_attempts: 2, backoff: 1ms, on: [unavailable] } }]");
    let journal = house.journal();
    let mut run = house.start(&["run", "k.yaml"]);
    journal.until("attempt_started", Some("a"));
    run.kill().unwrap();
    run.wait().unwrap();
    let id = house.newest();
    assert!(house.expect(0, &["show", &id]).contains("nobody drives it"));
    let watched = house.run(&["watch", &id]);
    assert_eq!(watched.code, Some(1));
    assert!(watched.err.contains("actbook resume"), "{}", watched.err);
    assert_eq!(house.run(&["doctor"]).code, Some(1));
    house.release();
    house.expect(0, &["resume", &id]);
}

#[test]
fn compensated_is_a_success_of_undo_alone() {
    let house = House::new();
    let undo = json!({ "tool": "files/delete_file", "arguments": { "path": "a.txt" } });
    let plan = |on_failure: &str| {
        json!({ "name": on_failure, "policy": { "on_failure": on_failure }, "steps": [
            { "id": "file", "tool": "files/write_file", "arguments": { "path": "a.txt", "content": "a" }, "compensation": undo },
            { "id": "gone", "tool": "files/read_file", "arguments": { "path": "none.txt" }, "read_only": true },
        ] })
        .to_string()
    };
    house.write("auto.json", &plan("auto"));
    house.expect(1, &["run", "auto.json"]);
    house.expect(1, &["watch", &house.newest()]);
    house.write("propose.json", &plan("propose"));
    house.expect(3, &["run", "propose.json"]);
    house.expect(0, &["approve", &house.newest()]);
    house.expect(1, &["resume", &house.newest()]);
    house.write("manual.json", &plan("manual"));
    house.expect(3, &["run", "manual.json"]);
    house.expect(0, &["undo", &house.newest()]);
    assert!(house.json(&["list"]).as_array().unwrap().iter().all(|one| one["status"] == "compensated"));
}
