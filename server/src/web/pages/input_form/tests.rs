//! What the form of a plan's inputs offers, and what becomes of what it sends.

use serde_json::json;

use super::*;

/// A plan with this schema of inputs.
fn plan(inputs: Value) -> Plan {
    let document = json!({ "name": "p", "inputs": inputs, "steps": [{ "id": "a", "action": "look" }] });
    Plan::parse(&document.to_string()).unwrap()
}

fn every_kind() -> Plan {
    plan(json!({
        "type": "object",
        "required": ["name", "dry"],
        "properties": {
            "name": { "type": "string", "minLength": 2 },
            "notes": { "type": "string", "maxLength": 4_000 },
            "when": { "type": "string", "format": "date" },
            "count": { "type": "integer", "default": 2, "minimum": 1 },
            "share": { "type": ["number", "null"] },
            "dry": { "type": "boolean" },
            "loud": { "type": "boolean" },
            "level": { "enum": ["low", "high", 3] },
            "tone": { "oneOf": [{ "const": "a", "title": "Calm" }, { "const": "b" }] },
            "regions": { "type": "array", "items": { "enum": ["eu", "us"] } },
            "tags": { "type": "array", "items": { "type": "string" } },
            "server": {
                "type": "object",
                "required": ["host"],
                "properties": { "host": { "$ref": "#/$defs/host" }, "port": { "type": "integer" } }
            },
            "more": { "type": "object" },
            "token": { "type": "string", "writeOnly": true }
        },
        "$defs": { "host": { "type": "string", "title": "Host" } }
    }))
}

#[test]
fn each_kind_of_schema_has_its_field() {
    let form = InputForm::of(&every_kind(), &Map::new());
    let control = |name: &str| &form.fields.iter().find(|field| field.name == name).unwrap().control;
    assert_eq!(control("name"), &FieldControl::Text("text"));
    assert_eq!(control("notes"), &FieldControl::LongText);
    assert_eq!(control("when"), &FieldControl::Text("date"));
    assert_eq!(control("count"), &FieldControl::Number { whole: true });
    assert_eq!(control("share"), &FieldControl::Number { whole: false });
    assert_eq!(control("dry"), &FieldControl::Flag);
    assert!(matches!(control("loud"), FieldControl::Choice(two) if two.len() == 2));
    assert!(matches!(control("level"), FieldControl::Choice(three) if three[2] == ("3".into(), "3".into())));
    assert!(
        matches!(control("tone"), FieldControl::Choice(two) if two[0] == ("\"a\"".into(), "Calm".into()))
    );
    assert!(matches!(control("regions"), FieldControl::Choices(_)));
    assert_eq!(control("tags"), &FieldControl::Lines);
    assert_eq!(control("/server/host"), &FieldControl::Text("text"));
    assert_eq!(control("more"), &FieldControl::Json);
    assert_eq!(control("token"), &FieldControl::Text("password"));
    let host = form.fields.iter().find(|field| field.name == "/server/host").unwrap();
    assert_eq!((host.group.as_deref(), host.is_required), (Some("server"), false));
    assert!(form.others.is_none());
}

#[test]
fn fields_become_the_inputs_that_the_schema_takes() {
    let sent = [
        ("name", "Ada"),
        ("notes", "one\r\ntwo"),
        ("when", ""),
        ("count", "3"),
        ("share", "0.5"),
        ("loud", "false"),
        ("level", "3"),
        ("regions", "\"eu\""),
        ("regions", "\"us\""),
        ("tags", "a\r\n\r\nb"),
        ("/server/host", "h"),
        ("/server/port", "8080"),
        ("more", "{\"x\": [1]}"),
    ];
    let sent =
        SubmittedInputs(sent.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect());
    let (plan, inputs) = (every_kind(), sent.inputs(&every_kind()).unwrap());
    let expected = json!({
        "name": "Ada", "notes": "one\ntwo", "count": 3, "share": 0.5, "dry": false, "loud": false, "level": 3,
        "regions": ["eu", "us"], "tags": ["a", "b"], "server": { "host": "h", "port": 8080 }, "more": { "x": [1] }
    });
    assert_eq!(Value::Object(inputs.clone()), expected);
    plan.check_inputs(&expected).unwrap();
    // The form of these values sends the same again.
    let again = InputForm::of(&plan, &inputs);
    let mut fields = Vec::new();
    for field in &again.fields {
        match &field.control {
            FieldControl::Choices(choices) => {
                let chosen = choices.iter().filter(|(value, _)| field.has(value));
                fields.extend(chosen.map(|(value, _)| (field.name.clone(), value.clone())));
            }
            FieldControl::Flag if field.value != "true" => {}
            FieldControl::Flag
            | FieldControl::Text(_)
            | FieldControl::LongText
            | FieldControl::Number { .. }
            | FieldControl::Choice(_)
            | FieldControl::Lines
            | FieldControl::Json => fields.push((field.name.clone(), field.value.clone())),
        }
    }
    assert_eq!(Value::Object(SubmittedInputs(fields).inputs(&plan).unwrap()), expected);
}

#[test]
fn text_that_is_no_value_is_a_fault_of_its_field() {
    let sent = vec![("count".to_owned(), "2.5".to_owned()), ("more".to_owned(), "{".to_owned())];
    let sent = SubmittedInputs(sent);
    let faults = sent.inputs(&every_kind()).unwrap_err();
    let names: Vec<&str> = faults.iter().map(|fault| fault.field.as_str()).collect();
    assert_eq!(names, ["count", "more"]);
    let form = InputForm::refused(&every_kind(), &sent, faults);
    assert_eq!(form.fault_of("count"), Some("this is no whole number"));
    let finding = Finding::error("bad_input", "inputs.server.port", "too large", "");
    assert_eq!(InputFault::of(&finding).field, "/server/port");
}

#[test]
fn secret_is_asked_again() {
    let values = json!({ "token": { REDACTED_KEY: "inputs.token" }, "name": "Ada" });
    let form = InputForm::of(&every_kind(), values.as_object().unwrap());
    let value = |name: &str| form.fields.iter().find(|field| field.name == name).unwrap().value.clone();
    assert_eq!((value("token").as_str(), value("name").as_str()), ("", "Ada"));
}
