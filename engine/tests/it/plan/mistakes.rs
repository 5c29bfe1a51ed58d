//! One mistake per case: the text, and all its findings.

use actbook_engine::plan::Plan;
use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::plan_of_steps;

fn refusal_text(text: &str) -> String {
    let Err(findings) = Plan::parse(text) else { return format!("accepted: {text}") };
    let lines = findings
        .iter()
        .map(|finding| format!("{} {}: {}; {}", finding.code, finding.path, finding.message, finding.cure));
    lines.collect::<Vec<_>>().join("\n")
}

/// Cases in the file are `### title`, the plan, `---` and the findings; a text that does not begin like a
/// whole document is one step per line.
#[test]
fn mistake_cases_give_the_expected_findings() {
    let mut wrong = String::new();
    let cases: Vec<&str> = include_str!("mistakes.txt").split("### ").skip(1).collect();
    for case in &cases {
        let (title, rest) = case.split_once('\n').expect("a title");
        let (text, expected) = rest.split_once("---\n").expect("a plan and its findings");
        let whole = ["name:", "{\"", "[", "steps:", "!"].iter().any(|start| text.starts_with(start));
        let text = if whole { text.to_owned() } else { plan_of_steps(&text.lines().collect::<Vec<_>>()) };
        let findings = refusal_text(&text);
        if findings.trim() != expected.trim() {
            wrong.push_str(&format!(
                "### {title}\n{}---\n{findings}\n\n",
                rest.split_once("---\n").expect("split above").0
            ));
        }
    }
    assert!(wrong.is_empty(), "\n{wrong}");
    assert!(cases.len() >= 40, "{} cases", cases.len());
}

#[test]
fn plans_beyond_their_limits_are_refused() {
    let deep = format!("{{\"name\": \"x\", \"steps\": {}1{}}}", "[".repeat(70), "]".repeat(70));
    assert!(
        refusal_text(&deep).contains("too_deep plan: values nest deeper than 64"),
        "{}",
        refusal_text(&deep)
    );
    let deeper = format!("{{\"name\": {}", "[".repeat(100_000));
    assert!(refusal_text(&deeper).starts_with("unreadable line 1"), "{}", refusal_text(&deeper));
    let deep_yaml = format!("name: {}", "[".repeat(100_000));
    assert!(refusal_text(&deep_yaml).starts_with("unreadable"), "{}", refusal_text(&deep_yaml));
    let long = format!("name: {}\n", "x".repeat(5 << 20));
    assert!(refusal_text(&long).starts_with("too_long plan: "), "{}", refusal_text(&long));
    let many = vec!["{id: a, tool: s/t}"; 10_001];
    assert_eq!(
        refusal_text(&plan_of_steps(&many)),
        "out_of_range steps: there are more than 10000 steps; split the plan"
    );
    let laughs = (1..12).fold("name: x\na0: &a0 [1]\n".to_owned(), |text, n| {
        let aliases = vec![format!("*a{}", n - 1); 10].join(", ");
        format!("{text}a{n}: &a{n} [{aliases}]\n")
    });
    assert!(refusal_text(&laughs).starts_with("unreadable"), "{}", refusal_text(&laughs));
    assert!(
        refusal_text(&laughs).contains("too many anchors (&) and aliases (*)"),
        "{}",
        refusal_text(&laughs)
    );
    let many_errors = vec!["{id: '', tool: x}"; 300];
    assert!(
        refusal_text(&plan_of_steps(&many_errors))
            .ends_with("more_errors plan: there are 400 more errors; correct these first")
    );
}

/// A field of another store's document under one of `names`, with one of these values; or absent.
fn foreign_field(
    names: &'static [&'static str],
    values: Vec<Value>,
) -> impl Strategy<Value = Option<(String, Value)>> {
    let field = (proptest::sample::select(names), proptest::sample::select(values));
    proptest::option::of(field.prop_map(|(name, value)| (name.to_owned(), value)))
}

fn foreign_step() -> impl Strategy<Value = Map<String, Value>> {
    let texts = || vec![json!("Write it"), json!(3), Value::Null];
    let durations = vec![json!(5), json!("5m"), Value::Null];
    let fields = (
        foreign_field(&["step_name", "title", "name"], texts()),
        foreign_field(&["description"], texts()),
        foreign_field(&["duration", "estimated_duration", "estimated_duration_minutes"], durations),
        foreign_field(&["rollback", "undo", "compensation"], vec![json!("Take it back"), Value::Null]),
        foreign_field(&["status", "order"], vec![json!(1), Value::Null]),
    );
    fields.prop_map(|(name, about, duration, undo, status)| {
        let action = Some(("action".to_owned(), json!("Do it")));
        [action, name, about, duration, undo, status].into_iter().flatten().collect()
    })
}

proptest! {
    #[test]
    fn corrected_document_of_another_store_is_accepted(
        task in foreign_field(&["task_id", "task"], vec![json!(3), json!("T-1"), Value::Null]),
        reasoning in foreign_field(&["rationale", "reasoning"], vec![json!("why"), json!(1), Value::Null]),
        mut steps in proptest::collection::vec(foreign_step(), 1..4),
        numbered in any::<bool>(),
    ) {
        for (index, step) in steps.iter_mut().enumerate().filter(|_| numbered) {
            step.insert("step_id".to_owned(), json!(index + 1));
            step.insert("dependencies".to_owned(), json!((1..=index).collect::<Vec<_>>()));
        }
        let mut document = json!({ "plan_type": "release", "version": 1, "steps": steps });
        for (name, value) in [task, reasoning].into_iter().flatten() {
            document[name] = value;
        }
        let findings = Plan::from_value(&document).expect_err("it is in another shape");
        prop_assert_eq!(findings.len(), 1, "{:?}", findings);
        let rest = findings[0].cure.strip_prefix("give this document instead: ").expect("a document");
        let corrected = serde_json::Deserializer::from_str(rest).into_iter::<Value>().next();
        let corrected = corrected.expect("a document").expect("JSON");
        prop_assert!(Plan::from_value(&corrected).is_ok(), "{}", corrected);
    }
}
