//! Plans: parsing of valid ones, and the findings of invalid ones.

mod fuzz;
mod inputs;
mod mistakes;

use std::time::{Duration, Instant};

use actbook_engine::long_number::quote_inexact_in_json;
use actbook_engine::plan::{Dependency, Plan, RetryPolicy, Step, StepWork, duration_text, parse_duration_ms};
use actbook_engine::policy::{ErrorCategory, FailureAction, OnFailure, PlanApproval, Reversibility};

pub const DOCUMENTED: &str = include_str!("plan/documented.yaml");

pub fn parse_plan(text: &str) -> Plan {
    Plan::parse(text).unwrap_or_else(|findings| panic!("refused: {findings:#?}"))
}

/// A plan document of these steps, each a line of YAML.
pub fn plan_of_steps(lines: &[&str]) -> String {
    let lines: Vec<String> = lines.iter().map(|line| format!("  - {line}\n")).collect();
    format!("name: test\nsteps:\n{}", lines.concat())
}

fn find_step<'a>(plan: &'a Plan, id: &str) -> &'a Step {
    plan.step(plan.find_step(id).expect("a step of that id"))
}

#[test]
fn documented_plan_parses_completely() {
    let plan = parse_plan(DOCUMENTED);
    assert_eq!(
        (plan.name.as_str(), plan.kind.as_deref(), plan.task.as_deref()),
        ("publish-notes", Some("deployment"), Some("TASK-12"))
    );
    assert_eq!(
        (plan.policy.concurrency, plan.policy.timeout_ms, plan.policy.max_calls),
        (1, Some(600_000), Some(100))
    );
    assert_eq!((plan.policy.on_failure, plan.policy.approval), (OnFailure::Manual, PlanApproval::None));
    let draft = find_step(&plan, "draft");
    assert_eq!(
        (draft.tool(), draft.timeout_ms, draft.approval),
        (Some("files/write_file"), Some(30_000), true)
    );
    assert_eq!(
        (draft.cancellable, draft.failure_action),
        (Reversibility::Reversible, Some(FailureAction::ManualDecision))
    );
    assert_eq!(draft.retry, RetryPolicy { max_attempts: 3, ..RetryPolicy::default() });
    let announce = find_step(&plan, "announce");
    assert!(matches!(&announce.work, StepWork::Action { estimated_ms: Some(1_800_000), .. }));
    assert_eq!((announce.timeout_ms, announce.is_irreversible()), (None, true));
}

#[test]
fn minimal_plan_gets_safe_defaults() {
    let plan = parse_plan(&plan_of_steps(&[
        "{id: a, tool: s/t}",
        "{id: b, tool: s/t, read_only: true}",
        "{id: c, tool: s/t, by: agent}",
    ]));
    let policy = &plan.policy;
    assert_eq!((policy.concurrency, policy.timeout_ms, policy.max_calls), (1, None, None));
    assert_eq!((policy.on_failure, policy.approval), (OnFailure::Manual, PlanApproval::None));
    let a = find_step(&plan, "a");
    assert_eq!(
        (a.timeout_ms, a.retry.max_attempts, a.approval, a.read_only, a.idempotent),
        (Some(60_000), 1, false, false, false)
    );
    assert_eq!((a.cancellable, a.failure_action, a.priority), (Reversibility::Irreversible, None, 0));
    assert_eq!(
        a.retry.on,
        [ErrorCategory::Unavailable, ErrorCategory::RateLimited, ErrorCategory::Timeout].into()
    );
    assert_eq!(find_step(&plan, "b").cancellable, Reversibility::Reversible);
    assert_eq!((find_step(&plan, "c").timeout_ms, find_step(&plan, "c").is_agent_step()), (None, true));
}

#[test]
fn stored_document_parses_to_the_same_plan() {
    let json = r#" {"steps": [{"tool": "s/t", "id": "a", "arguments": {"z": 1.0, "b": [1e300, -0.0, 18446744073709551615]}}], "name": "x"}"#;
    for text in [DOCUMENTED, json] {
        let plan = parse_plan(text);
        let again = parse_plan(&plan.document);
        assert_eq!(format!("{plan:?}"), format!("{again:?}"));
        assert_eq!(plan.digest, again.digest);
    }
    let yaml = "steps: [{arguments: {b: [1.0e+300, -0.0, 18446744073709551615], z: 1.0}, id: a, tool: s/t}]\nname: x\n";
    assert_eq!(
        parse_plan(json).digest,
        parse_plan(yaml).digest,
        "JSON and YAML of one plan have the same digest"
    );
}

#[test]
fn findings_name_their_step() {
    let findings = Plan::parse(&plan_of_steps(&["{id: a, tool: s/t}", "{id: b, tool: s/t, retri: 1}"]))
        .expect_err("refused");
    assert_eq!(findings[0].step.as_deref(), Some("b"));
    assert_eq!(findings[0].path_with_step(), "steps[1].retri (b)");
}

#[test]
fn references_imply_dependencies() {
    let plan = parse_plan(&plan_of_steps(&[
        "{id: a, tool: s/t}",
        "{id: b-1, tool: s/t, depends_on: [c]}",
        "{id: c, tool: s/t, arguments: {x: ['${steps.a.output.y}']}}",
        "{id: d, tool: s/t, when: steps.a.status == 'failed'}",
        "{id: e, tool: s/t, when: steps.a.status == 'failed', depends_on: [a]}",
        "{id: f, tool: s/t, when: steps.a.status != steps.a.output.x}",
        "{id: g, tool: s/t, when: steps.a.status == 'failed', arguments: {x: '${steps.b-1.status}'}}",
        "{id: h, tool: s/t, depends_on: [a], compensation: {tool: s/u, arguments: {x: '${steps.a.output}'}}}",
    ]));
    let needs = |id: &str| {
        let needs = find_step(&plan, id).dependencies.iter();
        needs
            .map(|Dependency { step, status_read }| (plan.step(*step).id.as_str(), *status_read))
            .collect::<Vec<_>>()
    };
    assert_eq!(needs("a"), []);
    assert_eq!(needs("b-1"), [("c", false)]);
    assert_eq!(needs("c"), [("a", false)]);
    assert_eq!(needs("d"), [("a", true)]);
    assert_eq!(needs("e"), [("a", true)]);
    assert_eq!(needs("f"), [("a", true)]);
    assert_eq!(needs("g"), [("a", true), ("b-1", false)]);
    assert_eq!(needs("h"), [("a", false)]);
    let needed_by: Vec<_> =
        find_step(&plan, "a").dependents.iter().map(|no| plan.step(*no).id.as_str()).collect();
    assert_eq!(needed_by, ["c", "d", "e", "f", "g", "h"]);
}

#[test]
fn plan_is_send_and_sync() {
    fn shared<T: Send + Sync>() {}
    shared::<Plan>();
}

#[test]
fn durations_parse_and_print() {
    for (text, ms) in [("250ms", 250), ("30s", 30_000), ("5m", 300_000), ("2h", 7_200_000), ("0s", 0)] {
        assert_eq!(parse_duration_ms(text), Some(ms), "{text}");
    }
    for text in [
        "",
        "5",
        "s",
        "5 s",
        "-5s",
        "1.5s",
        "5d",
        "5S",
        "1h30m",
        "99999999999999999999h",
        "18446744073709551615h",
    ] {
        assert_eq!(parse_duration_ms(text), None, "{text}");
    }
    for text in ["250ms", "30s", "5m", "2h", "0ms", "90s"] {
        assert_eq!(duration_text(parse_duration_ms(text).expect("a duration")), text);
    }
}

/// Parsing and checking take linear time, and do not recurse over steps.
#[test]
fn ten_thousand_steps_parse_and_check_in_time() {
    let step = |index: usize| {
        let previous = index
            .checked_sub(1)
            .map_or("${inputs.x}".to_owned(), |previous| format!("${{steps.s{previous}.output.x}}"));
        let undo = "{tool: s/u, arguments: {x: '${arguments.x}', y: '${steps.s0.output}'}}";
        let undo = if index > 0 { format!(", compensation: {undo}") } else { String::new() };
        format!(
            "{{id: s{index}, tool: s/t, arguments: {{x: \"{previous}\"}}, when: 'inputs.n > {}'{undo}}}",
            index % 7
        )
    };
    let lines: Vec<String> = (0..10_000).map(step).collect();
    let text = plan_of_steps(&lines.iter().map(String::as_str).collect::<Vec<_>>());
    let begun = Instant::now();
    let plan = parse_plan(&text);
    let check = actbook_engine::analysis::check_plan(&plan, &Default::default());
    assert_eq!((plan.steps.len(), check.waves.len()), (10_000, 10_000));
    assert!(begun.elapsed() < Duration::from_secs(20), "took {:?}", begun.elapsed());
}

#[test]
fn integers_over_64_bits_become_strings_of_their_digits() {
    let cases = [
        (r#"{"id": 18446744073709551616}"#, r#"{"id": "18446744073709551616"}"#),
        (
            r#"[-9223372036854775809,-9223372036854775808]"#,
            r#"["-9223372036854775809",-9223372036854775808]"#,
        ),
        (
            r#"{"t": "18446744073709551616 \\\" 18446744073709551616"}"#,
            r#"{"t": "18446744073709551616 \\\" 18446744073709551616"}"#,
        ),
        (
            r#"{"18446744073709551616": [18446744073709551615, 1e400000000000000000000, 0.12345678901234567890]}"#,
            r#"{"18446744073709551616": [18446744073709551615, 1e400000000000000000000, 0.12345678901234567890]}"#,
        ),
        ("18446744073709551616", r#""18446744073709551616""#),
        (r#"{"cut": "1844674407370955161600"#, r#"{"cut": "1844674407370955161600"#),
    ];
    for (text, quoted) in cases {
        assert_eq!(quote_inexact_in_json(text), quoted);
    }
}
