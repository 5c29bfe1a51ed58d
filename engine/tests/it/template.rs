//! Templates made from executions: literals become inputs, and with its defaults a template makes the same
//! calls.

use std::collections::BTreeMap;
use std::sync::Arc;

use actbook_engine::bind::{ExpressionScope, redaction_marker};
use actbook_engine::id::StepNo;
use actbook_engine::plan::{CompensationWork, Plan, StepWork};
use actbook_engine::template::{
    ExecutionValues, PlanFromTemplate, plan_from_template, template_from_execution,
};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

fn plan(document: &Value) -> Plan {
    Plan::from_value(document).unwrap_or_else(|findings| panic!("{document}: {findings:?}"))
}

fn lifted(document: &Value, given: Option<&Value>) -> Value {
    let values = ExecutionValues { inputs: given, corrected_arguments: &BTreeMap::new() };
    template_from_execution(&plan(document), "again", values, &|_| false)
}

fn steps(list: Value) -> Value {
    json!({ "name": "p", "steps": list })
}

fn defaults(template: &Value) -> Value {
    plan(template).with_defaults(json!({}))
}

/// The arguments that each step, its undo and its probe would send.
fn calls(document: &Value, inputs: Value) -> Vec<Value> {
    let plan = plan(document);
    let inputs = plan.with_defaults(inputs);
    plan.check_inputs(&inputs).expect("the inputs fit");
    let mut scope = ExpressionScope { inputs: Some(Arc::new(inputs)), ..ExpressionScope::default() };
    let mut sent = Vec::new();
    for step in &plan.steps {
        let StepWork::Tool { arguments, .. } = &step.work else { panic!("only calls") };
        let own = arguments.bind(&scope).expect("it is bound");
        scope.arguments = Some(Arc::new(own.clone()));
        let undo = step.compensation.as_ref().map(|undo| match &undo.work {
            CompensationWork::Tool { arguments, .. } => arguments.bind(&scope).expect("it is bound"),
            CompensationWork::Action { action } => action.bind(&scope).expect("it is bound"),
        });
        let probe = step.probe.as_ref().map(|probe| probe.arguments.bind(&scope).expect("it is bound"));
        sent.push(json!([own, undo, probe]));
    }
    sent
}

#[test]
fn equal_literals_become_one_input() {
    let document = steps(json!([
        { "id": "write", "tool": "f/write", "arguments": { "path": "a.md", "content": "words", "tries": 1 },
          "compensation": { "tool": "f/delete", "arguments": { "path": "a.md" } } },
        { "id": "move", "tool": "f/move", "arguments": { "from": "a.md", "to": "b.md", "other": 1 },
          "probe": { "tool": "f/stat", "arguments": { "path": "b.md" }, "happened": "output.exists" } },
    ]));
    let template = lifted(&document, None);
    assert_eq!(
        defaults(&template),
        json!({ "path": "a.md", "content": "words", "tries": 1, "to": "b.md", "other": 1 }),
        "equal texts share an input everywhere, equal numbers only under one name"
    );
    assert_eq!(template["steps"][1]["arguments"]["from"], "${inputs.path}");
    assert_eq!(template["steps"][0]["compensation"]["arguments"]["path"], "${inputs.path}");
    assert_eq!(template["steps"][1]["probe"]["arguments"]["path"], "${inputs.to}");
    assert_eq!(template["inputs"]["properties"]["tries"]["type"], "integer");
    assert_eq!(template["name"], "again");
    let other = calls(&template, json!({ "path": "c.md" }));
    assert_eq!(
        other[0],
        json!([{ "path": "c.md", "content": "words", "tries": 1 }, { "path": "c.md" }, null])
    );
}

#[test]
fn corrected_arguments_replace_the_plans_and_stay_literal() {
    let document = steps(json!([
        { "id": "read", "tool": "f/read", "arguments": {} },
        { "id": "write", "tool": "f/write", "arguments": { "path": "${steps.read.output.path}" },
          "compensation": { "tool": "f/delete", "arguments": { "path": "${arguments.path}" } } },
    ]));
    let corrected = BTreeMap::from([(StepNo(1), json!({ "path": "a-${b}.md" }))]);
    let values = ExecutionValues { inputs: None, corrected_arguments: &corrected };
    let template = template_from_execution(&plan(&document), "again", values, &|_| false);
    let sent = json!({ "path": "a-${b}.md" });
    assert_eq!(calls(&template, json!({}))[1], json!([sent, sent, null]));
    assert_eq!(template["steps"][1]["depends_on"], json!(["read"]), "the order stays");
}

#[test]
fn different_literals_of_one_name_get_step_prefixed_inputs() {
    let document = steps(json!([
        { "id": "one", "tool": "f/write", "arguments": { "path": "a", "in": "x" } },
        { "id": "two-b", "tool": "f/write", "arguments": { "path": "b", "deep": [{ "path": "c" }] } },
    ]));
    let inputs = defaults(&lifted(&document, None));
    assert_eq!(inputs, json!({ "one_path": "a", "one_in": "x", "two_b_path": "c", "two_b_path_2": "b" }));
}

#[test]
fn execution_inputs_become_defaults_and_expressions_stay() {
    let mut document = steps(json!([
        { "id": "a", "tool": "f/write", "arguments": { "path": "n-${inputs.version}.md", "who": "${inputs.path}", "x": "y" } },
    ]));
    document["task"] = json!("TASK-1");
    document["inputs"] = json!({ "type": "object", "required": ["version"],
        "properties": { "version": { "type": "string" }, "token": { "type": "string", "writeOnly": true } } });
    let given = json!({ "version": "1.2", "path": "p", "token": redaction_marker("inputs.token") });
    let template = lifted(&document, Some(&given));
    assert_eq!(template["steps"][0]["arguments"]["path"], "n-${inputs.version}.md");
    assert_eq!(
        defaults(&template),
        json!({ "version": "1.2", "path": "p", "x": "y" }),
        "a secret has no default"
    );
    assert!(template.get("task").is_none());
    let open = json!({ "version": "1.2", "path": "p" });
    assert_eq!(calls(&template, json!({})), calls(&document, open));
}

#[test]
fn secret_literal_becomes_a_required_input() {
    let document =
        steps(json!([{ "id": "a", "tool": "f/send", "arguments": { "key": "sesame", "to": "ada" } }]));
    let values = ExecutionValues { inputs: None, corrected_arguments: &BTreeMap::new() };
    let template = template_from_execution(&plan(&document), "again", values, &|value| value == "sesame");
    assert!(!template.to_string().contains("sesame"), "{template}");
    assert_eq!(template["steps"][0]["arguments"]["key"], "${inputs.key}");
    assert!(plan(&template).check_inputs(&defaults(&template)).is_err());
}

#[test]
fn literal_that_differs_in_the_undo_stays() {
    let document = steps(json!([
        { "id": "add", "tool": "c/add", "arguments": { "name": "n", "amount": 1 },
          "compensation": { "tool": "c/add", "arguments": { "name": "n", "amount": -1 } } },
    ]));
    let template = lifted(&document, None);
    assert_eq!(defaults(&template), json!({ "name": "n" }));
    assert_eq!(
        template["steps"][0]["compensation"]["arguments"],
        json!({ "name": "${inputs.name}", "amount": -1 })
    );
}

#[test]
fn whole_inputs_reference_prevents_lifting() {
    let mut document = steps(json!([
        { "id": "a", "tool": "f/write", "arguments": { "all": "${inputs}", "path": "a" } },
    ]));
    document["inputs"] = json!({ "type": "object" });
    let given = json!({ "x": 1 });
    let template = lifted(&document, Some(&given));
    assert_eq!(defaults(&template), given);
    assert_eq!(calls(&template, json!({})), calls(&document, given));
}

#[test]
fn plan_from_a_template_keeps_given_inputs_as_defaults() {
    let mut document =
        steps(json!([{ "id": "a", "tool": "f/write", "arguments": { "path": "${inputs.path}" } }]));
    document["inputs"] = json!({ "type": "object", "required": ["path", "size"], "properties": {
        "path": { "type": "string" }, "size": { "type": "integer" }, "token": { "writeOnly": true } } });
    let template = plan(&document);
    let made = |inputs: Value| {
        let inputs: Map<String, Value> = serde_json::from_value(inputs).unwrap();
        plan_from_template(&template, PlanFromTemplate { name: "mine", task: Some("T-1"), inputs: &inputs })
            .map_err(|findings| findings[0].to_string())
    };
    let plan = made(json!({ "path": "a" })).unwrap();
    assert_eq!((&plan["name"], &plan["task"]), (&json!("mine"), &json!("T-1")));
    assert_eq!(plan["inputs"]["properties"]["path"]["default"], "a");
    for (inputs, word) in [
        (json!({ "paht": "a" }), "did you mean `inputs.path`?"),
        (json!({ "size": "big" }), "inputs.size"),
        (json!({ "token": "t" }), "give it when the plan runs"),
    ] {
        let refused = made(inputs).unwrap_err();
        assert!(refused.contains(word), "{refused}");
    }
}

/// A random value, from few words so that some repeat.
fn value() -> impl Strategy<Value = Value> {
    let text = prop::sample::select(vec!["a", "b", "", "$${x}", "n ${inputs.a}", "${inputs.b}", "in", "x y"]);
    let leaf = prop_oneof![
        text.prop_map(Value::from),
        (0..3).prop_map(Value::from),
        any::<bool>().prop_map(Value::from),
        Just(Value::Null),
    ];
    leaf.prop_recursive(2, 8, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::Array),
            fields(inner).prop_map(Value::Object),
        ]
    })
}

fn fields(inner: impl Strategy<Value = Value>) -> impl Strategy<Value = Map<String, Value>> {
    let name = prop::sample::select(vec!["a", "b", "path", "in", "x-y", "1st"]);
    prop::collection::vec((name, inner), 0..4)
        .prop_map(|fields| fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(crate::fuzz_cases() / 10) })]

    #[test]
    fn template_with_defaults_makes_the_plans_calls(
        own in prop::collection::vec((fields(value()), fields(value())), 1..4),
    ) {
        let list: Vec<Value> = own.into_iter().enumerate().map(|(index, (arguments, undo))| json!({
            "id": format!("s{index}"), "tool": "t/x", "arguments": arguments,
            "compensation": { "tool": "t/u", "arguments": undo },
        })).collect();
        let mut document = steps(Value::Array(list));
        document["inputs"] = json!({ "type": "object" });
        let given = json!({ "a": "given", "b": [1, "two"] });
        let template = lifted(&document, Some(&given));
        prop_assert_eq!(calls(&template, json!({})), calls(&document, given));
    }
}
