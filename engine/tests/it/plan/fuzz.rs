//! Random input as a plan: refused with a path and a reason, or a plan that parses the same again.

use actbook_engine::analysis;
use actbook_engine::plan::Plan;
use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::DOCUMENTED;
use crate::fuzz_cases;

fn config() -> ProptestConfig {
    ProptestConfig { cases: fuzz_cases(), failure_persistence: None, ..ProptestConfig::default() }
}

fn sound(result: Result<Plan, Vec<actbook_engine::plan::Finding>>) -> Result<(), TestCaseError> {
    match result {
        Ok(plan) => {
            let again = Plan::parse(&plan.document);
            let again =
                again.map_err(|findings| TestCaseError::fail(format!("{}: {findings:?}", plan.document)))?;
            prop_assert_eq!(plan.digest, again.digest);
            prop_assert_eq!(format!("{plan:?}"), format!("{again:?}"));
            prop_assert_eq!(plan.sequential_order().len(), plan.steps.len());
            prop_assert_eq!(
                analysis::check_plan(&plan, &Default::default()).stopping.len(),
                plan.steps.len()
            );
        }
        Err(findings) => {
            prop_assert!(!findings.is_empty());
            for finding in findings {
                prop_assert!(
                    !finding.path.is_empty() && !finding.message.is_empty() && !finding.cure.is_empty(),
                    "{finding:?}"
                );
            }
        }
    }
    Ok(())
}

fn any_json() -> impl Strategy<Value = Value> {
    let key = prop_oneof![
        4 => prop::sample::select(WORDS.to_vec()).prop_map(str::to_owned),
        1 => ".{0,8}",
    ];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(|number| json!(number)),
        key.clone().prop_map(Value::from),
        ".{0,20}".prop_map(Value::from),
        expression_like().prop_map(|text| Value::from(format!("${{{text}}}"))),
    ];
    leaf.prop_recursive(5, 40, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::Array),
            prop::collection::vec((key.clone(), inner), 0..6)
                .prop_map(|fields| Value::Object(fields.into_iter().collect::<Map<_, _>>())),
        ]
    })
}

const WORDS: [&str; 44] = [
    "name",
    "description",
    "type",
    "task",
    "reasoning",
    "inputs",
    "policy",
    "steps",
    "id",
    "tool",
    "action",
    "arguments",
    "depends_on",
    "when",
    "timeout",
    "retry",
    "idempotent",
    "read_only",
    "cancellable",
    "compensation",
    "probe",
    "approval",
    "by",
    "failure_policy",
    "priority",
    "metadata",
    "estimated_duration",
    "max_attempts",
    "backoff",
    "factor",
    "on",
    "happened",
    "propagate_to",
    "concurrency",
    "on_failure",
    "auto",
    "required",
    "agent",
    "a",
    "b",
    "s/t",
    "30s",
    "properties",
    "$ref",
];

fn expression_like() -> impl Strategy<Value = String> {
    let token = prop::sample::select(vec![
        "inputs",
        "steps",
        ".",
        "a",
        "output",
        "status",
        "execution.id",
        "(",
        ")",
        "[",
        "]",
        "{",
        "}",
        "'x'",
        "\"",
        "'",
        "1",
        "2.5",
        "+",
        "-",
        "!",
        "?",
        ":",
        "&&",
        "||",
        "==",
        "<",
        " in ",
        ",",
        "has(",
        ".map(x,",
        "size(",
        "x",
        "\\",
        "ä",
        "`",
        "r'",
        "'''",
        "$",
    ]);
    prop::collection::vec(token, 0..30).prop_map(|tokens| tokens.concat())
}

/// The documented plan with one value replaced.
fn mutated(seed: u64, with: Value) -> Value {
    let plan = Plan::parse(DOCUMENTED).expect("valid");
    let mut document: Value = serde_json::from_str(&plan.document).expect("JSON");
    let mut at = &mut document;
    let mut seed = seed;
    loop {
        let choice = (seed % 7) as usize;
        seed /= 7;
        let inner = match at {
            Value::Array(items) if !items.is_empty() && choice > 1 => items.len(),
            Value::Object(fields) if !fields.is_empty() && choice > 1 => fields.len(),
            _ => 0,
        };
        if inner == 0 || seed == 0 {
            break;
        }
        let index = (seed % inner as u64) as usize;
        seed /= inner as u64;
        at = match at {
            Value::Array(items) => &mut items[index],
            Value::Object(fields) => fields.values_mut().nth(index).expect("a field"),
            _ => break,
        };
    }
    *at = with;
    document
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn random_bytes_parse_or_are_refused(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        sound(Plan::parse(&String::from_utf8_lossy(&bytes)))?;
    }

    #[test]
    fn random_text_parses_or_is_refused(text in "[-{}\\[\\]:,&*!|>'\"%@`# \n\ta-c0-9~?<.$/]{0,200}") {
        sound(Plan::parse(&text))?;
        sound(Plan::parse(&format!("{{{text}")))?;
    }

    #[test]
    fn random_json_parses_or_is_refused(value in any_json()) {
        sound(Plan::from_value(&value))?;
        sound(Plan::parse(&value.to_string()))?;
        sound(Plan::from_value(&json!({"name": "x", "steps": [value]})))?;
    }

    #[test]
    fn mutated_plans_parse_or_are_refused(seed in any::<u64>(), with in any_json()) {
        sound(Plan::from_value(&mutated(seed, with)))?;
    }

    #[test]
    fn broken_texts_parse_or_are_refused(at in 0_usize..1_500, length in 0_usize..40, with in "[-{}\\[\\]:,&*!'\" \na$]{0,6}") {
        let mut text: Vec<char> = DOCUMENTED.chars().collect();
        let start = at.min(text.len());
        let end = (start + length).min(text.len());
        text.splice(start..end, with.chars());
        sound(Plan::parse(&text.into_iter().collect::<String>()))?;
    }

    #[test]
    fn random_expressions_parse_or_are_refused(text in expression_like()) {
        sound(Plan::from_value(&json!({"name": "x", "steps": [
            {"id": "a", "tool": "s/t"},
            {"id": "b", "tool": "s/t", "when": text, "arguments": {"x": format!("${{{text}}}")}},
        ]})))?;
    }
}
