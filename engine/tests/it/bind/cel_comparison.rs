//! The engine's evaluator compared with the `cel` crate's: random expressions over the shared language give
//! the same value, or no value, in both.

use std::sync::Arc;

use actbook_engine::bind::{ExpressionScope, ValueTemplate};
use cel::{Context, Program};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::fuzz_cases;

fn expression() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        (-3_i64..4).prop_map(|n| n.to_string()),
        prop_oneof![Just("1.5"), Just("-0.5"), Just("2.0")].prop_map(str::to_owned),
        prop_oneof![Just("'a'"), Just("''"), Just("'ab'"), Just("\"b\"")].prop_map(str::to_owned),
        prop_oneof![Just("true"), Just("false"), Just("null")].prop_map(str::to_owned),
        prop_oneof![
            Just("inputs.n"),
            Just("inputs.f"),
            Just("inputs.s"),
            Just("inputs.l"),
            Just("inputs.m"),
            Just("inputs.m.a"),
            Just("inputs.gone")
        ]
        .prop_map(str::to_owned),
    ];
    leaf.prop_recursive(4, 24, 3, |inner| {
        let operator = prop_oneof![
            Just("+"),
            Just("-"),
            Just("*"),
            Just("/"),
            Just("%"),
            Just("=="),
            Just("!="),
            Just("<"),
            Just("<="),
            Just(">"),
            Just(">="),
            Just("&&"),
            Just("||"),
            Just(" in "),
        ];
        let function = prop_oneof![Just("size"), Just("string"), Just("int"), Just("double")];
        let method = prop_oneof![Just("contains"), Just("startsWith"), Just("endsWith"), Just("matches")];
        let each = prop_oneof![Just("all"), Just("exists"), Just("exists_one"), Just("map"), Just("filter")];
        prop_oneof![
            (inner.clone(), operator, inner.clone()).prop_map(|(a, op, b)| format!("({a}{op}{b})")),
            (inner.clone(), inner.clone(), inner.clone()).prop_map(|(a, b, c)| format!("({a} ? {b} : {c})")),
            inner.clone().prop_map(|a| format!("(!{a})")),
            inner.clone().prop_map(|a| format!("(-({a}))")),
            (function, inner.clone()).prop_map(|(f, a)| format!("{f}({a})")),
            (inner.clone(), method, inner.clone()).prop_map(|(a, m, b)| format!("({a}).{m}({b})")),
            (inner.clone(), each, inner.clone())
                .prop_map(|(a, each, b)| format!("({a}).{each}(x, {b} == x)")),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("({a})[{b}]")),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("[{a}, {b}]")),
            inner.clone().prop_map(|a| format!("{{'k': {a}}}")),
            inner.prop_map(|a| format!("has({{'k': {a}}}.a)")),
        ]
    })
}

fn inputs() -> Value {
    json!({"n": 2, "f": 0.5, "s": "ab", "l": [1, 2], "m": {"a": 1}})
}

fn ours(expression: &str) -> Result<Value, String> {
    let template =
        ValueTemplate::parse(&json!(format!("${{{expression}}}"))).map_err(|error| error.message)?;
    let scope = ExpressionScope { inputs: Some(Arc::new(inputs())), ..ExpressionScope::default() };
    template.bind(&scope).map_err(|error| error.message)
}

/// Errors that only the engine gives: JSON has no infinity, and the crate adds a map's keys to a list, which
/// CEL does not.
const REFUSED_BY_US_ONLY: [&str; 2] = ["is not a JSON number", "list and map cannot be calculated together"];

fn theirs(expression: &str) -> Option<Value> {
    let program = Program::compile(expression).ok()?;
    let mut context = Context::default();
    let mut value = cel::to_value(inputs()).ok()?;
    make_signed(&mut value);
    context.add_variable_from_value("inputs", value);
    program.execute(&context).ok()?.json().ok()
}

/// The crate reads whole JSON numbers as unsigned, which cannot be combined with signed ones.
fn make_signed(value: &mut cel::Value) {
    match value {
        cel::Value::UInt(number) => *value = cel::Value::Int(*number as i64),
        cel::Value::List(items) => Arc::make_mut(items).iter_mut().for_each(make_signed),
        cel::Value::Map(map) => Arc::make_mut(&mut map.map).values_mut().for_each(make_signed),
        _ => {}
    }
}

#[test]
fn random_expressions_evaluate_as_in_the_cel_crate() {
    let thread = std::thread::Builder::new().stack_size(256 << 20).spawn(|| {
        let config =
            ProptestConfig { cases: fuzz_cases(), failure_persistence: None, ..ProptestConfig::default() };
        proptest!(config, |(expression in expression())| {
            match ours(&expression) {
                Err(message) if REFUSED_BY_US_ONLY.iter().any(|known| message.ends_with(known)) => {}
                ours => prop_assert_eq!(ours.ok(), theirs(&expression), "{}", expression),
            }
        });
    });
    thread.expect("a thread").join().expect("both evaluators agree");
}
