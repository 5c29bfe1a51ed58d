//! `check` against live tools reports every error of a plan in one run, before anything happens, and calls no
//! tool.

use super::changing_server::ChangingServer;
use super::*;
use crate::mcp::undo_approvals::change_config;

/// A tool that creates (`make`), one that deletes (`remove`) and a read-only one (`look`).
fn tool_definitions() -> Value {
    json!([
        {
            "name": "make",
            "inputSchema": {
                "type": "object",
                "properties": {
                    "name": { "type": "string", "minLength": 1 },
                    "size": { "type": "integer" },
                    "kind": { "enum": ["a", "b"] },
                    "parts": { "type": "array", "items": { "$ref": "#/$defs/part" } },
                },
                "required": ["name"],
                "additionalProperties": false,
                "$defs": { "part": { "type": "object", "properties": { "weight": { "type": "number" } } } },
            },
            "outputSchema": {
                "type": "object",
                "properties": {
                    "id": { "type": "string" },
                    "url": { "type": "string" },
                    "size": { "type": "integer" },
                },
                "required": ["id", "size"],
                "additionalProperties": false,
            },
            "annotations": { "readOnlyHint": false, "destructiveHint": false },
        },
        {
            "name": "remove",
            "inputSchema": {
                "type": "object",
                "properties": { "id": { "type": "string" } },
                "required": ["id"],
                "additionalProperties": false,
            },
            "annotations": { "readOnlyHint": false, "destructiveHint": true },
        },
        {
            "name": "look",
            "inputSchema": { "type": "object", "properties": { "id": { "type": "string" } }, "required": ["id"] },
            "outputSchema": {
                "type": "object",
                "properties": { "exists": { "type": "boolean" } },
                "required": ["exists"],
                "additionalProperties": false,
            },
            "annotations": { "readOnlyHint": true },
        },
    ])
}

/// Uses `simulate-research-query` of the reference server, which runs only as a task.
#[test]
fn tool_that_runs_only_as_a_task_is_refused_by_check() {
    let everything = crate::reference_servers::npm_script("server-everything");
    let sandbox = Sandbox::new();
    let server = json!({ "command": "node", "args": [everything, "stdio"] });
    sandbox.write("actbook.yaml", &json!({ "mcpServers": { "every": server } }).to_string());
    let step = |tool: &str, arguments: Value| json!({ "id": "one", "tool": tool, "arguments": arguments });
    let research = step("every/simulate-research-query", json!({ "topic": "x" }));
    sandbox.write("plan.json", &json!({ "name": "research", "steps": [research] }).to_string());
    let refused = sandbox.run(&["check", "plan.json"]);
    let output = format!("{}{}", refused.stdout, refused.stderr);
    assert!(refused.code != Some(0) && output.contains("runs only as a task"), "{output}");
    let echo = step("every/echo", json!({ "message": "hello" }));
    sandbox.write("plan.json", &json!({ "name": "echo", "steps": [echo] }).to_string());
    sandbox.expect(0, &["check", "plan.json"]);
}

fn compensation() -> Value {
    json!({ "tool": "shifty/remove", "arguments": { "id": "${output.id}" } })
}

/// A valid step with the fields of `over` put over it.
fn step_with(id: &str, over: Value) -> Value {
    let mut step = json!({
        "id": id, "tool": "shifty/make", "arguments": { "name": "x" }, "compensation": compensation(),
    });
    for (name, value) in over.as_object().unwrap() {
        step[name] = value.clone();
    }
    step
}

type PlantedMistake = (Value, &'static str, &'static str, &'static str);

/// For each mistake: the fields put over a step, and the expected code, field, and a fragment of the cure.
fn mistakes_in_calls() -> Vec<PlantedMistake> {
    vec![
        (json!({ "tool": "shifty/mak" }), "no_such_tool", "tool", "`shifty/make`"),
        (json!({ "tool": "shfty/make" }), "no_such_tool", "tool", "`shifty/make`"),
        (json!({ "arguments": { "size": 1 } }), "missing_argument", "arguments.name", "add `name`"),
        (
            json!({ "arguments": { "name": "x", "colour": "red" } }),
            "superfluous_argument",
            "arguments.colour",
            "leave it out",
        ),
        (
            json!({ "arguments": { "name": "x", "size": "big" } }),
            "bad_argument",
            "arguments.size",
            "compare it with the schema",
        ),
        (
            json!({ "arguments": { "name": "x", "kind": "c" } }),
            "bad_argument",
            "arguments.kind",
            "compare it with the schema",
        ),
        (
            json!({ "arguments": { "name": "x", "size": "${steps.first.output.id}" } }),
            "mistyped_argument",
            "arguments.size",
            "integer",
        ),
        (
            json!({ "arguments": { "name": "x", "parts": [{ "weight": "${steps.first.status}" }] } }),
            "mistyped_argument",
            "arguments.parts[0].weight",
            "number",
        ),
        (
            json!({ "arguments": { "name": "${steps.first.output.idd}" } }),
            "not_there",
            "arguments",
            "`steps.first.output.id`",
        ),
    ]
}

fn mistakes_around_calls() -> Vec<PlantedMistake> {
    vec![
        (
            json!({ "compensation": { "tool": "shifty/remove" } }),
            "missing_argument",
            "compensation.arguments.id",
            "add `id`",
        ),
        (
            json!({ "compensation": { "tool": "shifty/remove", "arguments": { "id": "${arguments.nam}" } } }),
            "not_there",
            "compensation.arguments",
            "`arguments.name`",
        ),
        (
            json!({ "compensation": { "tool": "shifty/remove", "arguments": { "id": "${output.url}" } } }),
            "undo_may_lack",
            "compensation.arguments",
            "requires",
        ),
        (
            json!({ "probe": { "tool": "shifty/look", "arguments": { "id": "1" }, "happened": "output.exist" } }),
            "not_there",
            "probe.happened",
            "`output.exists`",
        ),
        (
            json!({ "probe": { "tool": "shifty/look", "arguments": { "id": "1", "di": 2 }, "happened": "output.exists" } }),
            "superfluous_argument",
            "probe.arguments.di",
            "there are id",
        ),
        (
            json!({ "compensation": null, "read_only": true }),
            "contradicts_server",
            "read_only",
            "leave `read_only` out",
        ),
        (json!({ "compensation": null }), "no_compensation", "", "add a `compensation`"),
        (
            json!({ "tool": "shifty/remove", "arguments": { "id": "1" }, "cancellable": "reversible",
                    "compensation": { "tool": "shifty/make", "arguments": { "name": "x" } } }),
            "contradicts_server",
            "cancellable",
            "partially-reversible",
        ),
        (json!({ "timout": "5s" }), "unknown_field", "timout", "`timeout`"),
        (json!({ "depends_on": ["frist"] }), "unknown_step", "depends_on[0]", "`first`"),
    ]
}

/// A plan with all mistakes, and for each the expected code, path, and a fragment of the cure.
fn mistakes() -> (Value, Vec<(&'static str, String, &'static str)>) {
    let planted = mistakes_in_calls().into_iter().chain(mistakes_around_calls());
    let mut steps = vec![step_with("first", json!({}))];
    let mut expected = Vec::new();
    for (number, (over, code, field, cure)) in planted.enumerate() {
        let mut made = step_with(&format!("s{number}"), over);
        if made["compensation"].is_null() {
            made.as_object_mut().unwrap().remove("compensation");
        }
        steps.push(made);
        let at = format!("steps[{}]", number + 1);
        let path = if field.is_empty() { at } else { format!("{at}.{field}") };
        expected.push((code, path, cure));
    }
    (json!({ "name": "mistakes", "steps": steps }), expected)
}

#[test]
fn every_planted_mistake_is_found_in_one_run_and_no_tool_is_called() {
    let shifty = ChangingServer::new(&tool_definitions());
    let (plan, expected) = mistakes();
    assert!(expected.len() >= 12);
    shifty.sandbox.write("plan.json", &plan.to_string());
    let check = shifty.sandbox.json(&["check", "plan.json"]);
    assert_eq!(check["ok"], false);
    let findings = check["findings"].as_array().unwrap();
    for (code, path, cure) in &expected {
        let found = findings.iter().find(|found| found["code"] == *code && found["path"] == *path);
        let found = found.unwrap_or_else(|| panic!("{code} at {path} is not among {findings:#?}"));
        assert!(found["cure"].as_str().unwrap().contains(cure), "{found}");
    }
    for found in findings {
        assert!(
            !found["message"].as_str().unwrap().is_empty() && !found["cure"].as_str().unwrap().is_empty()
        );
    }
    let first = |found: &&Value| found["path"].as_str().unwrap().starts_with("steps[0]");
    let about_first: Vec<_> =
        findings.iter().filter(first).filter(|found| found["severity"] != "note").collect();
    assert!(about_first.is_empty(), "the first step has no error: {about_first:#?}");
    assert!(shifty.sandbox.run(&["plan", "save", "plan.json"]).stderr.contains("the plan is refused"));
    assert_eq!(shifty.calls(), 0, "a check must call no tool");
}

#[test]
fn plan_that_fits_its_tools_passes_check_and_runs() {
    let shifty = ChangingServer::new(&tool_definitions());
    let plan = json!({ "name": "right", "inputs": { "type": "object", "properties": { "size": { "type": "integer", "default": 3 } } },
        "steps": [
            step_with("one", json!({ "arguments": { "name": "x", "size": "${inputs.size}" } })),
            step_with("two", json!({ "arguments": { "name": "${steps.one.status}", "size": "${1 + 1}", "parts": [{ "weight": 1.5 }, "${{'weight': 2}}"] } })),
        ] });
    shifty.sandbox.write("plan.json", &plan.to_string());
    let check = shifty.sandbox.json(&["check", "plan.json"]);
    let errors: Vec<&Value> =
        check["findings"].as_array().unwrap().iter().filter(|found| found["severity"] == "error").collect();
    assert!(check["ok"] == true && errors.is_empty(), "{errors:#?}");
    shifty.sandbox.expect(0, &["run", "plan.json"]);
    assert_eq!(shifty.calls(), 2);
}

/// A value without a schema is validated once it is bound, before the call is sent.
#[test]
fn value_of_unknown_type_is_validated_when_bound() {
    let shifty = ChangingServer::new(&tool_definitions());
    let plan = json!({ "name": "late", "steps": [
        { "id": "ask", "action": "Say how large" },
        step_with("make", json!({ "arguments": { "name": "x", "size": "${steps.ask.output.size}" } })),
    ] });
    shifty.sandbox.write("plan.json", &plan.to_string());
    shifty.sandbox.expect(3, &["run", "plan.json"]);
    let id = shifty.sandbox.newest();
    shifty.sandbox.expect(0, &["record", &id, "ask", "succeeded", "--output", "{\"size\": \"large\"}"]);
    shifty.sandbox.expect(3, &["resume", &id]);
    let view = shifty.sandbox.json(&["show", &id]);
    let step = &view["steps"][1];
    assert_eq!(
        (&step["status"], &step["error"]["category"]),
        (&json!("failed"), &json!("invalid_arguments")),
        "{step}"
    );
    assert_eq!(shifty.calls(), 0);
}

#[test]
fn inputs_get_defaults_and_misspelt_names_are_refused() {
    let sandbox = Sandbox::new();
    let schema = "{ type: object, properties: { name: { type: string, default: ada }, deep: { type: object, properties: { n: { type: integer, default: 7 } } }, count: { type: integer } } }";
    sandbox.write("in.yaml", &format!("name: in\ninputs: {schema}\nsteps: [{{ id: a, tool: files/echo, read_only: true, arguments: {{ all: \"${{inputs}}\" }} }}]"));
    let out = sandbox.expect(0, &["run", "in.yaml", "--input", "deep={}", "--json"]);
    let view: Value = serde_json::from_str(out.lines().last().unwrap()).unwrap();
    assert_eq!(view["steps"][0]["output"]["all"], json!({ "name": "ada", "deep": { "n": 7 } }));
    let slip = sandbox.run(&["run", "in", "--input", "cuont=1"]);
    assert_eq!(slip.code, Some(1));
    assert!(slip.stderr.contains("did you mean `count`?"), "{}", slip.stderr);
    assert_eq!(sandbox.run(&["run", "in", "--input", "count=many"]).code, Some(1), "mistyped");
    let usage = sandbox.run(&["run", "in", "--input", "count"]);
    assert_eq!(usage.code, Some(2), "{}", usage.stderr);
}

#[test]
fn check_refuses_unset_variables_and_undeclared_inputs() {
    let sandbox = Sandbox::new();
    let config = json!({ "commands": {
        "build": { "argv": ["echo", "${env:ACTBOOK_TEST_UNSET}"] },
        "clean": { "argv": ["echo", "${env:ACTBOOK_TEST_UNSET:-none}"] },
    } });
    sandbox.write("actbook.yaml", &config.to_string());
    sandbox.write(
        "p.yaml",
        "name: p\nsteps:\n  - { id: clean, tool: command/clean, read_only: true }\n  \
         - { id: make, tool: command/build, read_only: true }\n",
    );
    let ran = sandbox.run(&["check", "p.yaml"]);
    assert_eq!(ran.code, Some(1));
    let named = "steps[1].tool (make): `command/build` needs ACTBOOK_TEST_UNSET";
    assert!(ran.stdout.contains(named), "{}", ran.stdout);
    assert_eq!(sandbox.json(&["check", "p.yaml"])["findings"][0]["step"], "make");
    sandbox.expect(0, &["check", "p.yaml", "--offline"]);
    let set = sandbox.command(&["check", "p.yaml"]).env("ACTBOOK_TEST_UNSET", "x").output().unwrap();
    assert!(set.status.success(), "{set:?}");

    for (inputs, code) in [
        ("", "undeclared_input"),
        ("inputs: { version: { type: string } }\n", "not_a_schema"),
        ("inputs: { type: object, properties: { verson: { type: string } } }\n", "undeclared_input"),
    ] {
        let steps = "steps: [{ id: a, action: 'Ship ${inputs.version}' }]";
        sandbox.write("p.yaml", &format!("name: p\n{inputs}{steps}"));
        let check = sandbox.json(&["check", "p.yaml", "--offline"]);
        assert_eq!(check["ok"], false, "{check}");
        assert!(check["findings"].as_array().unwrap().iter().any(|found| found["code"] == code), "{check}");
        sandbox.expect(1, &["plan", "save", "p.yaml", "--offline"]);
    }
}

#[test]
fn integer_that_would_lose_digits_is_refused_in_plan_inputs_and_call() {
    let sandbox = Sandbox::new();
    sandbox.write("p.yaml", "name: p\nsteps: [{ id: a, tool: files/echo, arguments: { code: 010 } }]");
    let ran = sandbox.run(&["check", "p.yaml", "--offline"]);
    assert_eq!(ran.code, Some(1));
    assert!(
        ran.stdout.contains("steps[0].arguments.code") && ran.stdout.contains("leading zero"),
        "{}",
        ran.stdout
    );
    sandbox.write(
        "p.yaml",
        "name: p\ninputs: { type: object, properties: { id: {} } }\n\
         steps: [{ id: a, tool: files/echo, read_only: true, arguments: { text: 'n ${inputs.id}' } }]",
    );
    const LARGE: &str = "18446744073709551616";
    sandbox.write("inputs.json", &format!("{{\"id\": {LARGE}}}"));
    for words in [["--input", &format!("id={LARGE}")], ["--inputs", "inputs.json"]] {
        let ran = sandbox.run(&[&["run", "p.yaml"], &words[..]].concat());
        assert_eq!(ran.code, Some(1), "{}", ran.stderr);
        assert!(ran.stderr.contains("does not fit into 64 bits"), "{}", ran.stderr);
    }
    assert_eq!(sandbox.json(&["list"]), json!([]), "nothing was started");
    let ran = sandbox.run(&["tools", "call", "files/echo", &format!("{{\"text\": {LARGE}}}")]);
    assert_eq!(ran.code, Some(2), "{}", ran.stderr);
}

#[test]
fn integer_over_64_bits_in_an_output_reaches_the_next_step_with_all_digits() {
    let shifty = ChangingServer::new(&json!([{ "name": "make", "inputSchema": { "type": "object" } }]));
    let large = r#"{"id": 18446744073709551616, "fits": 18446744073709551615}"#;
    change_config(&shifty.sandbox, |config| {
        config["commands"] = json!({ "print": { "argv": ["echo", large] } })
    });
    let says = |from: &str| json!({ "say": format!("${{steps.{from}.output}}") });
    let plan = json!({ "name": "digits", "steps": [
        { "id": "mcp", "tool": "shifty/make", "arguments": { "json": large } },
        { "id": "command", "tool": "command/print" },
        { "id": "after_mcp", "tool": "shifty/make", "arguments": says("mcp") },
        { "id": "after_command", "tool": "shifty/make", "arguments": says("command") },
    ] });
    shifty.sandbox.write("digits.json", &plan.to_string());
    shifty.sandbox.expect(0, &["run", "digits.json"]);
    let id = shifty.sandbox.newest();
    for step in ["mcp", "command", "after_mcp", "after_command"] {
        let output = shifty.sandbox.expect(0, &["show", &id, step, "--json"]);
        let output = &serde_json::from_str::<Value>(&output).unwrap()["output"];
        assert_eq!(output, &json!({ "id": "18446744073709551616", "fits": u64::MAX }), "{step}");
    }
}

#[test]
fn wrong_expressions_hide_no_other_finding() {
    let sandbox = Sandbox::new();
    let arguments = r#"{ a: "${steps.b.outptu}", b: "${steps.zz.output}", c: "${inputs.foo} ${1 +}" }"#;
    let steps = format!(
        "[{{ id: a, tool: files/echo, arguments: {arguments} }}, {{ id: b, tool: files/nothing, when: inputs.bar }}]"
    );
    sandbox.write("bad.yaml", &format!("name: bad\nsteps: {steps}"));
    for offline in [false, true] {
        let words = ["check", "bad.yaml", "--offline"];
        let check = sandbox.json(&words[..if offline { 3 } else { 2 }]);
        let messages: Vec<&str> = check["findings"]
            .as_array()
            .unwrap()
            .iter()
            .map(|found| found["message"].as_str().unwrap())
            .collect();
        let tools = if offline { None } else { Some("has no tool `nothing`") };
        for part in ["outptu", "`zz`", "`foo`", "`1 +`", "`bar`"].into_iter().chain(tools) {
            assert!(messages.iter().any(|message| message.contains(part)), "{part}: {messages:#?}");
        }
    }
}
