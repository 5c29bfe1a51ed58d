//! Inputs: checked against the plan's schema, and stored with their secrets redacted.

use actbook_engine::plan::Plan;
use serde_json::{Value, json};

use super::parse_plan;

const PLAN: &str = r#"
name: login
inputs:
  type: object
  additionalProperties: false
  required: [user, password]
  properties:
    user: {type: string, minLength: 1}
    password: {type: string, writeOnly: true, minLength: 8}
    proxy: {type: object, properties: {url: {type: string}, token: {type: string, writeOnly: true}}}
steps:
  - {id: a, tool: s/t, arguments: {user: "${inputs.user}", proxy: "${inputs.proxy.url}"}}
"#;

fn input_findings(plan: &Plan, inputs: Value) -> Vec<String> {
    let findings = plan.check_inputs(&inputs).expect_err("refused");
    findings.into_iter().map(|finding| format!("{}: {}", finding.path, finding.message)).collect()
}

#[test]
fn input_errors_never_show_values() {
    let plan = parse_plan(PLAN);
    assert!(plan.check_inputs(&json!({"user": "u", "password": "long enough"})).is_ok());
    let wrong = json!({"user": 7, "password": "hunter2", "proxy": {"url": 1}});
    let findings = input_findings(&plan, wrong).join("\n");
    assert!(
        findings.contains("inputs.user: ")
            && findings.contains("inputs.password: ")
            && findings.contains("inputs.proxy.url: "),
        "{findings}"
    );
    assert!(!findings.contains("hunter2"), "{findings}");
    assert_eq!(input_findings(&plan, json!([])), ["inputs: the inputs are not a map"]);
    assert_eq!(
        input_findings(&plan, json!({"user": "u"})),
        ["inputs.password: \"password\" is a required property"]
    );
}

#[test]
fn secret_inputs_are_redacted_at_any_depth() {
    let plan = parse_plan(PLAN);
    let kept = plan.redact_inputs(json!({"user": "u", "password": "p", "proxy": {"url": "h", "token": "t"}}));
    let marked = |name: &str| json!({"actbook:redacted": name});
    let expected = json!({"user": "u", "password": marked("inputs.password"), "proxy": {"url": "h", "token": marked("inputs.proxy.token")}});
    assert_eq!(kept, expected);
}

#[test]
fn undeclared_input_is_refused_unless_the_schema_allows_further_names() {
    let plan = |more: &str| {
        parse_plan(&format!(
            "name: x\ninputs: {{type: object, properties: {{city: {{type: string}}}}{more}}}\nsteps: [{{id: a, tool: s/t}}]"
        ))
    };
    let given = json!({"city": "Rome", "colour": "red"});
    let refused = plan("").check_inputs(&given).expect_err("refused");
    assert_eq!((refused[0].code, refused[0].path.as_str()), ("unknown_input", "inputs.colour"));
    assert!(refused[0].cure.contains("additionalProperties: true"), "{}", refused[0].cure);
    let near = plan("").check_inputs(&json!({"citty": "Rome"})).expect_err("refused");
    assert_eq!(near[0].cure, "did you mean `city`?");
    for open in [
        "additionalProperties: true",
        "additionalProperties: {type: string}",
        "patternProperties: {^c: true}",
    ] {
        assert!(plan(&format!(", {open}")).check_inputs(&given).is_ok(), "{open}");
    }
}

/// Each level refers twice to the next: without the count, thirty lines would validate for ever.
#[test]
fn exponential_schema_is_refused() {
    let level = |n: usize| {
        (
            format!("d{n}"),
            json!({"allOf": [{"$ref": format!("#/$defs/d{}", n + 1)}, {"$ref": format!("#/$defs/d{}", n + 1)}]}),
        )
    };
    let plan = |levels: usize| {
        let mut definitions: serde_json::Map<_, _> = (0..levels).map(level).collect();
        definitions.insert(format!("d{levels}"), json!({"type": "object"}));
        json!({"name": "x", "inputs": {"$defs": definitions, "$ref": "#/$defs/d0"}, "steps": [{"id": "a", "tool": "s/t"}]})
    };
    let small = Plan::from_value(&plan(5)).expect("valid");
    assert!(small.check_inputs(&json!({})).is_ok());
    let findings = Plan::from_value(&plan(30)).expect_err("refused");
    assert_eq!(findings[0].message, "its references add up to more than 100000 values");
    let findings = Plan::from_value(&plan(100)).expect_err("refused");
    assert_eq!(findings[0].message, "more than 32 references form one chain");
}

#[test]
fn undeclared_inputs_that_no_expression_reads_are_ignored_inputs() {
    let plan = |arguments: &str| {
        parse_plan(&format!(
            "name: x\ninputs: {{type: object, properties: {{city: {{type: string}}}}}}\nsteps: [{{id: a, tool: s/t, arguments: {{x: '{arguments}'}}}}]"
        ))
    };
    let given = json!({"city": "Rome", "citty": "Roma", "colour": "red"});
    let given = given.as_object().unwrap();
    assert_eq!(plan("${inputs.city}").ignored_inputs(given), ["citty", "colour"]);
    assert_eq!(plan("${inputs}").ignored_inputs(given), Vec::<String>::new(), "all inputs are read");
    let declares_none = parse_plan("name: x\nsteps: [{id: a, tool: s/t}]");
    assert_eq!(declares_none.ignored_inputs(given).len(), 3);
}
