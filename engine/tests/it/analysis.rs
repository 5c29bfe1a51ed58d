//! Valid plans, and the findings of their check before they run.

use actbook_engine::analysis::{
    LEFT_BEHIND_SHOWN, PlanCheck, PlanComparison, Severity, check_names, check_plan, compare_plans,
    forbidden_character, nearest,
};
use actbook_engine::id::StepId;
use actbook_engine::plan::Plan;
use serde_json::json;

use crate::plan::{parse_plan, plan_of_steps};

fn check_steps(lines: &[&str]) -> PlanCheck {
    check_plan(&parse_plan(&plan_of_steps(lines)), &Default::default())
}

fn ids(list: &[StepId]) -> Vec<&str> {
    list.iter().map(StepId::as_str).collect()
}

#[test]
fn waves_group_steps_that_could_run_concurrently() {
    let check = check_steps(&[
        "{id: e, tool: s/t, depends_on: [c, d]}",
        "{id: a, tool: s/t}",
        "{id: b, tool: s/t}",
        "{id: c, tool: s/t, arguments: {x: '${steps.a.output}'}}",
        "{id: d, tool: s/t, depends_on: [c]}",
        "{id: f, tool: s/t, when: steps.b.status == 'failed'}",
    ]);
    let waves: Vec<_> = check.waves.iter().map(|wave| ids(wave)).collect();
    assert_eq!(waves, [vec!["a", "b"], vec!["c", "f"], vec!["d"], vec!["e"]]);
    let order: Vec<_> = check.stopping.iter().map(|leftover| leftover.step.as_str()).collect();
    assert_eq!(order, ["a", "b", "c", "d", "e", "f"], "the first ready step in the list, one at a time");
}

#[test]
fn point_of_no_return_is_the_first_step_with_a_leftover() {
    let undo = "compensation: {tool: s/u}";
    let check = check_steps(&[
        "{id: last, tool: s/t, depends_on: [pay]}",
        "{id: look, tool: s/t, read_only: true}",
        &format!("{{id: write, tool: s/t, {undo}}}"),
        &format!("{{id: pay, tool: s/t, cancellable: partially-reversible, depends_on: [write], {undo}}}"),
    ]);
    assert_eq!(check.point_of_no_return.as_ref().map(StepId::as_str), Some("pay"));
    let left: Vec<_> =
        check.stopping.iter().map(|leftover| (leftover.step.as_str(), ids(&leftover.left_behind))).collect();
    assert_eq!(
        left,
        [("look", vec![]), ("write", vec![]), ("pay", vec!["pay"]), ("last", vec!["pay", "last"])]
    );
    let none =
        check_steps(&[&format!("{{id: a, tool: s/t, {undo}}}"), "{id: b, tool: s/t, read_only: true}"]);
    assert_eq!(none.point_of_no_return, None);
}

#[test]
fn many_leftovers_are_counted_and_the_latest_listed() {
    let lines: Vec<String> = (0..100).map(|index| format!("{{id: s{index}, tool: s/t}}")).collect();
    let check = check_steps(&lines.iter().map(String::as_str).collect::<Vec<_>>());
    let last = check.stopping.last().expect("a step");
    assert_eq!((last.left_behind_total, last.left_behind.len()), (100, LEFT_BEHIND_SHOWN));
    assert_eq!(last.left_behind.last().map(StepId::as_str), Some("s99"));
}

#[test]
fn plan_check_serializes_as_documented() {
    let shown = serde_json::to_value(check_steps(&["{id: a, tool: s/t, when: false}"])).expect("JSON");
    let expected = json!({
        "ok": true,
        "findings": [{
            "severity": "warning", "code": "never_runs", "path": "steps[0].when",
            "message": "`a` is always skipped", "cure": "change `when`, or drop the step",
        }],
        "waves": [["a"]],
        "point_of_no_return": "a",
        "stopping": [{"step": "a", "left_behind": ["a"], "left_behind_total": 1}],
    });
    assert_eq!(shown, expected);
    let refused = PlanCheck::from_errors(Plan::parse("name: x").expect_err("no steps"));
    assert!(!refused.ok && refused.findings.len() == 1);
}

/// Cases are `### title`, the plan, `---` and every finding; a plan without `name:` is one step per line.
#[test]
fn advice_cases_give_the_expected_findings() {
    let mut wrong = String::new();
    for case in include_str!("analysis/advice.txt").split("### ").skip(1) {
        let (title, rest) = case.split_once('\n').expect("a title");
        let (text, expected) = rest.split_once("---\n").expect("a plan and its findings");
        let plan = if text.starts_with("name:") {
            text.to_owned()
        } else {
            plan_of_steps(&text.lines().collect::<Vec<_>>())
        };
        let findings = check_plan(&parse_plan(&plan), &Default::default()).findings;
        let lines: Vec<_> = findings
            .iter()
            .map(|f| format!("{} {} {}: {}; {}", f.severity, f.code, f.path, f.message, f.cure))
            .collect();
        if lines.join("\n") != expected.trim() {
            wrong.push_str(&format!("### {title}\n{text}---\n{}\n\n", lines.join("\n")));
        }
    }
    assert!(wrong.is_empty(), "\n{wrong}");
}

#[test]
fn plan_saved_before_a_stricter_rule_still_runs() {
    let plan =
        "name: x\ninputs: {version: {type: string}}\nsteps: [{id: a, action: 'Ship ${inputs.version}'}]";
    let plan = parse_plan(plan);
    let found = check_plan(&parse_plan(&plan.document), &Default::default());
    let errors = |check: &PlanCheck| {
        let errors = check.findings.iter().filter(|finding| finding.severity == Severity::Error);
        errors.map(|finding| finding.code).collect::<Vec<_>>()
    };
    assert_eq!(errors(&found), ["not_a_schema"]);
    let saved = found.for_saved_plan();
    assert!(saved.ok && errors(&saved).is_empty(), "{saved:?}");
}

#[test]
fn repeated_findings_are_capped_and_counted() {
    let check = check_steps(&["{id: a, tool: s/t, when: false}"]);
    assert_eq!(check.findings.len(), 1);
    let lines: Vec<String> =
        (0..50).map(|index| format!("{{id: s{index}, tool: s/t, when: false}}")).collect();
    let check = check_steps(&lines.iter().map(String::as_str).collect::<Vec<_>>());
    assert_eq!(check.findings.len(), 21);
    assert_eq!(check.findings[20].message, "there are 30 more findings `never_runs`");
}

#[test]
fn nearest_suggests_only_similar_names() {
    let words = ["timeout", "retry", "on_failure", "max_attempts", "id"];
    for (typed, meant) in [
        ("timeuot", Some("timeout")),
        ("Timeout", Some("timeout")),
        ("retries", Some("retry")),
        ("on-fail", Some("on_failure")),
        ("maxAttempts", Some("max_attempts")),
        ("ib", None),
        ("", None),
        ("something else", None),
    ] {
        assert_eq!(nearest(typed, words), meant, "{typed}");
    }
}

#[test]
fn plan_with_a_misleading_name_loads_and_fails_its_check() {
    let document = json!({ "name": "a\n`b`", "steps": [{ "id": "s", "name": "tick `", "tool": "s/t" }] });
    let plan = Plan::parse(&document.to_string()).expect("a stored plan still loads");
    let found = check_names(&plan);
    let paths: Vec<&str> = found.iter().map(|finding| finding.path.as_str()).collect();
    assert_eq!(paths, ["name", "steps[0].name"]);
    assert!(found.iter().all(|finding| finding.code == "invalid_name" && !finding.cure.is_empty()));
    assert_eq!(forbidden_character("Déjà vu (2): “fine”"), None);
}

fn compare(older: &[&str], newer: &[&str]) -> PlanComparison {
    let [older, newer] = [older, newer].map(|lines| parse_plan(&plan_of_steps(lines)));
    compare_plans(&older, &newer)
}

/// Each finding's code and step.
fn codes(comparison: &PlanComparison) -> Vec<String> {
    let code = |one: &actbook_engine::plan::Finding| match &one.step {
        Some(step) => format!("{} {step}", one.code),
        None => one.code.to_owned(),
    };
    comparison.findings.iter().map(code).collect()
}

#[test]
fn equal_plans_do_not_differ() {
    let lines = ["{id: a, tool: s/t}", "{id: b, tool: s/t, depends_on: [a]}"];
    assert_eq!(compare(&lines, &lines), PlanComparison::default());
}

#[test]
fn changed_added_removed_and_moved_steps_are_told_apart() {
    let compared = compare(
        &[
            "{id: gone, tool: s/t}",
            "{id: a, tool: s/t, arguments: {x: {y: 1}}}",
            "{id: b, tool: s/t}",
            "{id: c, tool: s/t}",
        ],
        &[
            "{id: c, tool: s/t}",
            "{id: a, tool: s/t, arguments: {x: {y: 2}, z: 3}}",
            "{id: b, tool: s/t}",
            "{id: new, tool: s/t}",
        ],
    );
    let steps: Vec<String> =
        compared.steps.iter().map(|one| format!("{} {}", one.change, one.step)).collect();
    assert_eq!(steps, ["removed gone", "moved c", "changed a", "added new"]);
    let fields = serde_json::to_value(&compared.steps[2].fields).unwrap();
    let expected = json!([
        { "path": "arguments.x.y", "from": 1, "to": 2 },
        { "path": "arguments.z", "from": null, "to": 3 },
    ]);
    assert_eq!(fields, expected);
}

#[test]
fn what_a_new_version_does_without_is_found() {
    let undo = "compensation: {tool: s/u}";
    let compared = compare_plans(
        &parse_plan(&plan_of_steps(&[&format!("{{id: a, tool: s/t, {undo}, approval: required}}")])),
        &parse_plan(&plan_of_steps(&["{id: a, tool: s/t, idempotent: true}", "{id: b, tool: mail/send}"])),
    );
    let expected = [
        "point_of_no_return_moved",
        "compensation_lost a",
        "reversibility_weakened a",
        "approval_weakened a",
        "repeat_allowed a",
        "new_tool",
    ];
    assert_eq!(codes(&compared), expected);
}

#[test]
fn fewer_approvals_in_the_policy_are_found() {
    let plan = |approval: &str| {
        let policy = json!({ "approval": approval });
        let steps = json!([{ "id": "a", "action": "look" }]);
        Plan::from_value(&json!({ "name": "p", "policy": policy, "steps": steps })).unwrap()
    };
    for (before, after, is_weaker) in [
        ("every_write", "none", true),
        ("every_write", "plan", true),
        ("plan", "none", true),
        ("none", "plan", false),
        ("plan", "every_write", false),
        ("plan", "at_point_of_no_return", false),
    ] {
        let compared = compare_plans(&plan(before), &plan(after));
        let found = compared.findings.iter().any(|one| one.code == "approval_weakened");
        assert_eq!(found, is_weaker, "{before} → {after}");
        assert_eq!(compared.fields[0].path, "policy.approval");
    }
}
