//! Every form of nesting up to its limit and beyond, parsed, evaluated and dropped on a small stack; and
//! small expressions that would run long or grow large.

use std::sync::Arc;
use std::time::{Duration, Instant};

use actbook_engine::bind::{BRACKET_DEPTH_MAX, ExpressionScope, SOURCE_BYTES_MAX, TOKENS_MAX, ValueTemplate};
use serde_json::{Value, json};

const SMALL_STACK: usize = 2 << 20;

fn on_small_stack<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    let thread = std::thread::Builder::new().stack_size(SMALL_STACK).spawn(work);
    thread.expect("a thread").join().expect("no panic")
}

fn bind(expression: &str, inputs: Value) -> Result<Value, String> {
    let template =
        ValueTemplate::parse(&json!(format!("${{{expression}}}"))).map_err(|error| error.message)?;
    let scope = ExpressionScope { inputs: Some(Arc::new(inputs)), ..ExpressionScope::default() };
    template.bind(&scope).map_err(|error| error.message)
}

/// Builds an expression of the given nesting depth.
type NestingForm = fn(usize) -> String;

fn nestings() -> Vec<(&'static str, NestingForm)> {
    vec![
        ("parentheses", |n| format!("{}1{}", "(".repeat(n), ")".repeat(n))),
        ("lists", |n| format!("{}1{}", "[".repeat(n), "]".repeat(n))),
        ("maps", |n| format!("{}1{}", "{'a':".repeat(n), "}".repeat(n))),
        ("indices", |n| format!("{}0{}", "[0][".repeat(n), "]".repeat(n))),
        ("nots", |n| format!("{}true", "!".repeat(n))),
        ("minuses", |n| format!("{}1", "-".repeat(n))),
        ("negated paths", |n| format!("{}inputs.n", "-".repeat(n))),
        ("ternaries", |n| format!("{}1", "true?1:".repeat(n))),
        ("ternaries in the middle", |n| format!("{}1{}", "true?".repeat(n), ":1".repeat(n))),
        ("members", |n| format!("inputs{}", ".a".repeat(n))),
        ("members of a map", |n| format!("{{'a':1}}{}", ".a".repeat(n))),
        ("sums", |n| format!("1{}", "+1".repeat(n))),
        ("ands", |n| format!("true{}", "&&true".repeat(n))),
        ("ors", |n| format!("false{}", "||false".repeat(n))),
        ("comparisons", |n| format!("1{}", "==1".repeat(n))),
        ("calls", |n| format!("{}'a'{}", "size(".repeat(n), ")".repeat(n))),
        ("dyn calls", |n| format!("{}'a'{}", "dyn(".repeat(n), ")".repeat(n))),
        ("method calls", |n| format!("'a'{}", ".trim()".repeat(n))),
        ("loops in a row", |n| format!("[1]{}", ".map(x,x)".repeat(n))),
        ("loops in loops", |n| format!("{}1{}", "[1].map(x,".repeat(n), ")".repeat(n))),
        ("loops over loops", |n| format!("{}[1]{}", "(".repeat(n), ".map(x,x))".repeat(n))),
        ("has", |n| format!("{}inputs.a{}", "has(".repeat(n), ")".repeat(n))),
        ("open brackets", |n| "[".repeat(n)),
        ("open braces", |n| "({".repeat(n)),
        ("mixed", |n| format!("{}1{}", "(![-{'a':".repeat(n), "}])".repeat(n))),
    ]
}

#[test]
fn no_nesting_overflows_a_small_stack() {
    on_small_stack(|| {
        for (name, form) in nestings() {
            for depth in [
                1,
                2,
                8,
                BRACKET_DEPTH_MAX,
                BRACKET_DEPTH_MAX + 1,
                62,
                64,
                66,
                130,
                TOKENS_MAX / 3,
                TOKENS_MAX - 1,
                4_000,
            ] {
                let begun = Instant::now();
                let result = bind(&form(depth), json!({"n": 1}));
                let message = result.err().unwrap_or_default();
                assert!(!message.contains("panic"), "{name} {depth}: {message}");
                assert!(
                    begun.elapsed() < Duration::from_secs(5),
                    "{name} {depth} took {:?}",
                    begun.elapsed()
                );
            }
        }
    });
}

#[test]
fn nesting_up_to_the_caps_works() {
    on_small_stack(|| {
        let works = |expression: &str| bind(expression, json!({"n": 1})).expect(expression);
        let forms = nestings();
        let form = |name: &str, depth| {
            forms.iter().find(|(known, _)| *known == name).map(|(_, form)| form(depth)).expect("a form")
        };
        works(&form("parentheses", BRACKET_DEPTH_MAX));
        works(&form("lists", BRACKET_DEPTH_MAX));
        works(&form("maps", BRACKET_DEPTH_MAX));
        works(&form("dyn calls", BRACKET_DEPTH_MAX));
        works(&form("method calls", 60));
        works(&form("sums", 60));
        works(&form("nots", 60));
        works(&form("ternaries", 60));
        works(&form("negated paths", 60));
        works(&form("loops in loops", 2));
    });
}

#[test]
fn expression_beyond_a_limit_is_refused_with_the_limit() {
    let refused = |expression: &str| bind(expression, json!({})).expect_err(expression);
    assert!(refused(&format!("'{}'", "x".repeat(SOURCE_BYTES_MAX))).contains("longer than 4096 bytes"));
    assert!(
        refused(&format!("{}1{}", "(".repeat(25), ")".repeat(25))).contains("nests brackets deeper than 24")
    );
    assert!(refused(&"1+".repeat(300)).contains("more than 400 words and signs"));
    assert!(refused(&format!("1{}", "+1".repeat(80))).contains("nests operations deeper than 64"));
    assert!(refused("[1].map(x, [1].map(y, [1].map(z, z)))").contains("deeper than 2 loops"));
}

#[test]
fn small_expressions_are_bounded_in_time_and_size() {
    let inputs = || json!({"list": vec![1; 20_000], "text": "x".repeat(1 << 20)});
    let cases = [
        ("inputs.list.all(x, inputs.list.all(y, y == x))", "takes more than 1000000 operations"),
        (
            "inputs.list.exists(x, inputs.list.exists(y, y != 1) || inputs.list.exists(z, z != 1))",
            "takes more than",
        ),
        ("inputs.list.map(x, inputs.text)", "makes more than 8 MiB"),
        (
            "[inputs.text, inputs.text, inputs.text, inputs.text, inputs.text, inputs.text, inputs.text, inputs.text]",
            "makes more than 8 MiB",
        ),
        (
            "['x'].map(a,a+a+a+a).map(a,a+a+a+a).map(a,a+a+a+a).map(a,a+a+a+a).map(a,a+a+a+a).map(a,a+a+a+a).map(a,a+a+a+a).map(a,a+a+a+a).map(a,a+a+a+a).map(a,a+a+a+a).map(a,a+a+a+a).map(a,a+a+a+a)",
            "makes more than 8 MiB",
        ),
        ("inputs.text.replace('', inputs.text)", "makes more than 8 MiB"),
        ("inputs.text.split('')", "makes more than 8 MiB"),
        ("inputs.list.all(x, inputs.text.contains('y') || true)", "takes more than"),
        ("inputs.list.all(x, inputs.text == inputs.text)", "takes more than"),
    ];
    let begun = Instant::now();
    for (expression, expected) in cases {
        let refusal = bind(expression, inputs()).expect_err(expression);
        assert!(refusal.contains(expected), "{expression}: {refusal}");
    }
    assert!(begun.elapsed() < Duration::from_secs(10), "took {:?}", begun.elapsed());
}
