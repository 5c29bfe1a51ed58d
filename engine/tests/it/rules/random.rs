//! Random conditions over random facts: no panic, and a condition that cannot be evaluated never lets a call pass.

use actbook_engine::rules::{Rule, RuleEffect, judge};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::{facts, terms};

fn json_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(|number| json!(number)),
        "\\PC{0,8}".prop_map(Value::from),
        Just(json!({ "actbook:redacted": "secret" })),
    ];
    leaf.prop_recursive(3, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map("[a-c]{1,2}", inner, 0..4).prop_map(|map| json!(map)),
        ]
    })
}

/// A part of a condition: paths that exist or not, values and operators, in any order.
fn fragment() -> impl Strategy<Value = String> {
    let known = [
        "call.tool",
        "call.arguments",
        "call.arguments.a",
        "call.arguments[\"b\"][0]",
        "call.paths",
        "tool.labels",
        "tool.pin",
        "session.count",
        "session.folder",
        "session.agent",
        "caller.roles",
        "now",
        "\"x\"",
        "1",
        "2.5",
        "null",
        "true",
        "[]",
        "{}",
    ];
    prop_oneof![prop::sample::select(known.to_vec()).prop_map(str::to_owned), "\\PC{0,12}",]
}

fn condition() -> impl Strategy<Value = String> {
    let operator = prop::sample::select(vec![
        "==",
        "!=",
        "<",
        ">=",
        "&&",
        "||",
        "in",
        "+",
        "-",
        "*",
        "/",
        "%",
        ".matches",
        ".exists(x,",
        "?",
        ":",
    ]);
    let tail = prop::collection::vec((operator, fragment()), 0..4);
    (fragment(), tail, any::<bool>()).prop_map(|(first, tail, negated)| {
        let rest: String = tail.into_iter().map(|(operator, part)| format!(" {operator} ({part})")).collect();
        if negated { format!("!({first}{rest})") } else { format!("{first}{rest}") }
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: crate::fuzz_cases(), ..ProptestConfig::default() })]

    #[test]
    fn random_conditions_never_panic_nor_pass_on_an_error(
        when in condition(),
        arguments in json_value(),
        deny in any::<bool>(),
    ) {
        let then = if deny { RuleEffect::Deny } else { RuleEffect::Ask };
        let Ok(rule) = Rule::parse("random", &when, then, None) else { return Ok(()) };
        let mut facts = facts();
        facts.call.arguments = arguments;
        let judgement = judge(&[rule], &facts, &terms());
        let trace = &judgement.trace[0];
        prop_assert!(trace.error.is_none() || trace.fits, "an error that does not fit: {:?}", judgement);
        prop_assert_eq!(judgement.verdict, if trace.fits { then } else { RuleEffect::Allow });
    }

    #[test]
    fn any_text_is_a_rule_or_an_error(when in "\\PC{0,200}") {
        let parsed = Rule::parse("random", &when, RuleEffect::Deny, None);
        if let Ok(rule) = parsed {
            prop_assert_eq!(rule.condition(), when.trim());
        }
    }
}
