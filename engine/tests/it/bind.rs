//! Expressions: their values, their errors, and their limits.

mod cel_comparison;
mod limits;

use std::sync::Arc;

use actbook_engine::bind::{ConditionExpression, ExpressionScope, ValueTemplate, redaction_marker};
use serde_json::{Value, json};

pub fn scope() -> ExpressionScope {
    let inputs = json!({
        "version": "1.2", "count": 3, "ratio": 1.5, "big": u64::MAX, "dry": false, "none": null,
        "files": ["a.txt", "b.md"], "tags": {"b": 2, "a": 1}, "evil": "${inputs.version}",
        "password": redaction_marker("inputs.password"), "nested": {"key": redaction_marker("inputs.nested.key"), "open": 1},
    });
    ExpressionScope {
        inputs: Some(Arc::new(inputs)),
        outputs: [
            ("fetch", json!({"id": 7, "items": [{"n": 1}, {"n": 2}]})),
            ("my-step", json!({"x": 1})),
            ("skipped", json!(null)),
        ]
        .map(|(id, output)| (id.to_owned(), Arc::new(output)))
        .into(),
        statuses: [("fetch".to_owned(), "succeeded")].into(),
        execution_id: "ex-1".to_owned(),
        arguments: Some(Arc::new(json!({"path": "a"}))),
        output: Some(Arc::new(json!({"exists": true}))),
        ..ExpressionScope::default()
    }
}

fn bind_template(template: Value) -> Result<Value, String> {
    let template = ValueTemplate::parse(&template).map_err(|error| format!("parse: {error}"))?;
    template.bind(&scope()).map_err(|error| format!("bind: {error}"))
}

#[test]
fn bound_values_keep_their_types() {
    let cases = [
        (json!("${inputs.count}"), json!(3)),
        (json!("${inputs.ratio}"), json!(1.5)),
        (json!("${inputs.big}"), json!(u64::MAX)),
        (json!("${inputs.dry}"), json!(false)),
        (json!("${inputs.none}"), json!(null)),
        (json!("${ inputs.files }"), json!(["a.txt", "b.md"])),
        (json!("${inputs.files[1]}"), json!("b.md")),
        (json!("${inputs['version']}"), json!("1.2")),
        (json!("v${inputs.version}"), json!("v1.2")),
        (json!("${inputs.count}/${inputs.files}"), json!("3/[\"a.txt\",\"b.md\"]")),
        (json!("$${inputs.version} costs $5 and $${"), json!("${inputs.version} costs $5 and ${")),
        (json!("${steps.fetch.output.items[0].n}"), json!(1)),
        (json!("${steps['fetch'].output.id}"), json!(7)),
        (json!("${steps.my-step.output.x}"), json!(1)),
        (json!("${steps.my-step.output.x - steps.fetch.output.id}"), json!(-6)),
        (json!("${steps[\"my-step\"].output}"), json!({"x": 1})),
        (json!("${'steps.my-step.output' + string(steps.my-step.output.x)}"), json!("steps.my-step.output1")),
        (json!("${steps.skipped.output}"), json!(null)),
        (json!("${steps.fetch.status}"), json!("succeeded")),
        (json!("${execution.id}"), json!("ex-1")),
        (json!("${arguments.path}"), json!("a")),
        (json!("${output.exists}"), json!(true)),
        (
            json!({"${inputs.version}": ["${inputs.count}", {"a": "x"}]}),
            json!({"${inputs.version}": [3, {"a": "x"}]}),
        ),
        (json!("${inputs.evil}"), json!("${inputs.version}")),
        (json!("${{'a': inputs.count, 'b': '}'}}"), json!({"a": 3, "b": "}"})),
        (json!("${inputs.nested.open}"), json!(1)),
        (json!(""), json!("")),
        (json!(1.0), json!(1.0)),
    ];
    for (template, expected) in cases {
        let value = bind_template(template.clone()).expect("binds");
        assert_eq!(value.to_string(), expected.to_string(), "{template}");
    }
}

#[test]
fn expressions_evaluate_as_in_cel() {
    let cases = [
        ("inputs.count + 1", json!(4)),
        ("inputs.big - 1", json!(u64::MAX - 1)),
        ("inputs.ratio * 2.0", json!(3.0)),
        ("7 / 2 + 7 % 2", json!(4)),
        ("-inputs.count", json!(-3)),
        ("'a' + 'b'", json!("ab")),
        ("[1] + [2]", json!([1, 2])),
        ("1 == 1.0 && 1 < 1.5", json!(true)),
        ("inputs.count in [1, 2, 3]", json!(true)),
        ("'a' in inputs.tags", json!(true)),
        ("has(inputs.missing)", json!(false)),
        ("has(inputs.version)", json!(true)),
        ("has(steps.skipped.output.id)", json!(false)),
        ("has(inputs.missing) ? inputs.missing : 'none'", json!("none")),
        ("inputs.missing == 1 || true", json!(true)),
        ("inputs.none == null", json!(true)),
        ("inputs.files.map(f, f + '!')", json!(["a.txt!", "b.md!"])),
        ("inputs.files.map(f, f.endsWith('.md'), f.size())", json!([4])),
        ("inputs.files.filter(f, f.contains('txt'))", json!(["a.txt"])),
        ("inputs.files.all(f, f.size() > 3)", json!(true)),
        ("inputs.files.exists(f, f == 'b.md')", json!(true)),
        ("inputs.files.exists_one(f, f.startsWith('a'))", json!(true)),
        ("inputs.tags.map(k, k)", json!(["a", "b"])),
        ("steps.fetch.output.items.map(i, i.n).filter(n, n > 1)", json!([2])),
        ("[[1, 2], [3]].map(l, l.map(n, n * 2))", json!([[2, 4], [6]])),
        ("inputs.version.matches('^[0-9.]+$')", json!(true)),
        ("string(inputs.count) + string(true) + string(1.5)", json!("3true1.5")),
        ("int('42') + int(3.9)", json!(45)),
        ("double(inputs.count)", json!(3.0)),
        ("type(inputs.count) == int && type('') == string", json!(true)),
        ("'a,b'.split(',').join('-')", json!("a-b")),
        ("' X '.trim().lowerAscii().upperAscii()", json!("X")),
        ("'aXbX'.replace('X', '.')", json!("a.b.")),
        ("size('äö')", json!(2)),
        ("json(inputs.tags)", json!("{\"a\":1,\"b\":2}")),
        ("json(inputs.version) + json(inputs.none) + json([1.5, true])", json!("\"1.2\"null[1.5,true]")),
        ("inputs.files.map(f, json(f)).join()", json!("\"a.txt\"\"b.md\"")),
        ("{'b': 1, 'a': [inputs.count]}.a[0]", json!(3)),
    ];
    for (expression, expected) in cases {
        let value = bind_template(json!(format!("${{{expression}}}"))).expect(expression);
        assert_eq!(value.to_string(), expected.to_string(), "{expression}");
    }
}

#[test]
fn unbindable_expression_error_names_the_path() {
    let cases = [
        ("inputs.none.x", "bind: `inputs.none.x`: inputs.none is null; inputs.none.x cannot be read"),
        ("inputs.missing.x", "bind: `inputs.missing.x`: there is no inputs.missing"),
        (
            "steps.skipped.output.id",
            "bind: `steps.skipped.output.id`: steps.skipped.output is null; steps.skipped.output.id cannot be read",
        ),
        ("steps.other.output", "bind: `steps.other.output`: steps.other.output is not known"),
        (
            "inputs.version.x",
            "bind: `inputs.version.x`: inputs.version is of type string; inputs.version.x cannot be read",
        ),
        ("inputs.files[9]", "bind: `inputs.files[9]`: there is no inputs.files[9]"),
        ("inputs.count + 'a'", "bind: `inputs.count + 'a'`: int and string cannot be calculated together"),
        ("1 / 0", "bind: `1 / 0`: division by zero"),
        (
            "9223372036854775807 * 9223372036854775807",
            "bind: `9223372036854775807 * 9223372036854775807`: the result is out of range",
        ),
        (
            "inputs.password",
            "bind: `inputs.password`: inputs.password is secret and is not kept; take it from the environment in the config with ${env:NAME}",
        ),
        (
            "inputs.password == 'x' || true",
            "bind: `inputs.password == 'x' || true`: inputs.password is secret and is not kept; take it from the environment in the config with ${env:NAME}",
        ),
        (
            "inputs.nested",
            "bind: `inputs.nested`: inputs.nested.key is secret and is not kept; take it from the environment in the config with ${env:NAME}",
        ),
        (
            "size(inputs)",
            "bind: `size(inputs)`: inputs.nested.key is secret and is not kept; take it from the environment in the config with ${env:NAME}",
        ),
        (
            "json(inputs.nested)",
            "bind: `json(inputs.nested)`: inputs.nested.key is secret and is not kept; take it from the environment in the config with ${env:NAME}",
        ),
        (
            "inputs.password.length",
            "bind: `inputs.password.length`: inputs.password is secret and is not kept; take it from the environment in the config with ${env:NAME}",
        ),
    ];
    for (expression, expected) in cases {
        let refusal = bind_template(json!(format!("${{{expression}}}"))).expect_err(expression);
        assert_eq!(refusal, expected, "{expression}");
    }
    assert_eq!(
        bind_template(json!({"a": [{"b": "x ${inputs.missing}"}]})),
        Err("bind: a[0].b: `inputs.missing`: there is no inputs.missing".to_owned())
    );
}

#[test]
fn invalid_expression_is_refused_at_parse() {
    let cases = [
        ("input.version", "parse: `input.version`: `input` is not in scope; did you mean `inputs`?"),
        ("foo", "parse: `foo`: `foo` is not in scope; there are inputs, steps and execution"),
        (
            "siz(inputs.files)",
            "parse: `siz(inputs.files)`: there is no function siz(…); did you mean size(…)?",
        ),
        (
            "inputs.version.startWith('1')",
            "parse: `inputs.version.startWith('1')`: there is no function startWith(…); did you mean startsWith(…)?",
        ),
        (
            "steps",
            "parse: `steps`: name the step that is read, as in steps.fetch.output or steps[\"fetch\"].output",
        ),
        (
            "steps[inputs.version].output",
            "parse: `steps[inputs.version].output`: name the step that is read, as in steps.fetch.output or steps[\"fetch\"].output",
        ),
        (
            "steps.fetch",
            "parse: `steps.fetch`: say what of the step is read: steps.fetch.output or steps.fetch.status",
        ),
        (
            "steps.fetch.result",
            "parse: `steps.fetch.result`: of a step only output and status can be read: steps.fetch.output, steps.fetch.status, not result",
        ),
        ("execution.name", "parse: `execution.name`: of the execution only execution.id can be read"),
        ("1 +", "parse: `1 +`: is not a CEL expression: mismatched input '<EOF>' at character 4"),
        ("", "parse: ``: is empty; write an expression"),
        (
            "env:TOKEN",
            "parse: `env:TOKEN`: the environment is read in the config only, so that secrets stay out of plans",
        ),
        ("1u", "parse: `1u`: write 1 instead of 1u"),
        (
            "inputs.version.matches('(')",
            "parse: `inputs.version.matches('(')`: `(` is not a regular expression: error: unclosed group",
        ),
    ];
    for (expression, expected) in cases {
        let refusal = bind_template(json!(format!("${{{expression}}}"))).expect_err(expression);
        assert_eq!(refusal, expected, "{expression}");
    }
    assert_eq!(
        bind_template(json!("${inputs.a")),
        Err("parse: `${inputs.a`: the `${` is never closed; write `$${` for a plain `${`".to_owned())
    );
}

#[test]
fn template_reports_what_it_reads() {
    let template = json!(["${steps.a.output.x + steps['b-c'].status}", {"k": "${inputs.n} ${has(inputs.m.o)} ${output}"}, "${[1].map(inputs, inputs)}"]);
    let template = ValueTemplate::parse(&template).expect("parses");
    let reads = template.reads();
    assert_eq!(reads.outputs, ["a".to_owned()].into());
    assert_eq!(reads.statuses, ["b-c".to_owned()].into());
    assert_eq!(reads.input_fields, [vec!["n".to_owned()], vec!["m".to_owned(), "o".to_owned()]].into());
    assert!(reads.inputs && reads.own_output && !reads.own_arguments);
    assert!(template.as_literal().is_none());
    let literal = ValueTemplate::parse(&json!({"a": ["$${x}", 1]})).expect("parses");
    assert_eq!(literal.as_literal(), Some(&json!({"a": ["${x}", 1]})));
}

#[test]
fn non_boolean_conditions_are_refused() {
    let test = |text: &str| match ConditionExpression::parse(text) {
        Ok(condition) => condition.test(&scope()).map_err(|error| error.to_string()),
        Err(error) => Err(format!("parse: {error}")),
    };
    assert_eq!(test("inputs.version != ''"), Ok(true));
    assert_eq!(test("steps.fetch.status == 'failed'"), Ok(false));
    assert_eq!(test("inputs.dry"), Ok(false));
    assert_eq!(test("inputs.count"), Err("`inputs.count`: gave int, not true or false".to_owned()));
    assert_eq!(
        test("'yes'"),
        Err("parse: `'yes'`: gives a text, not true or false; compare it with something".to_owned())
    );
    assert_eq!(
        test("size(inputs.files)"),
        Err("parse: `size(inputs.files)`: gives a number, not true or false; compare it with something"
            .to_owned())
    );
    assert_eq!(
        test("inputs.a ? 1 : 2"),
        Err("parse: `inputs.a ? 1 : 2`: gives a number, not true or false; compare it with something"
            .to_owned())
    );
    assert_eq!(
        test("${inputs.dry}"),
        Err("parse: `${inputs.dry}`: a condition is an expression by itself; write it without ${…}"
            .to_owned())
    );
}

#[test]
fn missing_field_of_a_truncated_output_names_the_cause() {
    let output = json!({"text": "{\"content\": \"aaa", "truncated": true, "bytes": 2_000_000});
    let scope = ExpressionScope { outputs: [("r".to_owned(), Arc::new(output))].into(), ..scope() };
    let template = ValueTemplate::parse(&json!("${steps.r.output.content}")).unwrap();
    let error = template.bind(&scope).unwrap_err().to_string();
    assert!(error.contains("there is no steps.r.output.content: steps.r.output was too long"), "{error}");
}
