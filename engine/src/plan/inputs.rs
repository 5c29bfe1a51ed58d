//! A plan's inputs: their schema, the values given for them, and which of them are secret.

use jsonschema::ValidationError;
use serde_json::{Map, Value};

use super::fields::{Fields, wrong_type};
use super::finding::{At, Finding, Findings};
use super::{Plan, graph};
use crate::bind::{Reads, redacted, with_room};
use crate::schema;
use crate::spelling::nearest;

const INPUT_ERRORS_SHOWN: usize = 50;

pub(super) fn read(fields: &Fields<'_, '_>, found: &mut Findings) -> Option<Value> {
    let schema = fields.value("inputs", found)?;
    let at = fields.at.field("inputs");
    if !schema.is_object() {
        wrong_type(&at, schema, "a JSON Schema", found);
        return None;
    }
    if let Err(message) = schema::measured(schema) {
        let (message, cure) = message.rsplit_once("; ").unwrap_or((&message, "simplify the schema"));
        found.error("bad_schema", at, message, cure);
    } else if let Err(error) = schema::validator(schema) {
        let path = at.within(&dotted(error.instance_path().as_str()));
        found.error("bad_schema", path, format!("is no JSON Schema: {error}"), "write JSON Schema 2020-12");
    }
    if hides_secret(schema) {
        let message = "`writeOnly` marks a secret only where it stands under `properties`";
        found.error("bad_schema", at, message, "put it on a property, not behind a reference or in a list");
    }
    Some(schema.clone())
}

/// `/a/0/b` as `a[0].b`.
pub(crate) fn dotted(pointer: &str) -> String {
    let mut path = String::new();
    for part in pointer.split('/').skip(1) {
        let part = part.replace("~1", "/").replace("~0", "~");
        match part.parse::<usize>() {
            Ok(index) => path.push_str(&format!("[{index}]")),
            Err(_) if path.is_empty() => path.push_str(&part),
            Err(_) => path.extend([".", &part]),
        }
    }
    path
}

impl Plan {
    /// Whether `inputs` are what the plan's schema asks for. Messages never show a value: it may be secret.
    pub fn check_inputs(&self, inputs: &Value) -> Result<(), Vec<Finding>> {
        if !inputs.is_object() {
            return Err(vec![Finding::error(
                "bad_input",
                "inputs",
                "the inputs are no map",
                "give them by name",
            )]);
        }
        let Some(schema) = &self.inputs else { return none_declared(inputs) };
        let mut findings = with_room(|| input_findings(schema, inputs));
        findings.extend(undeclared_inputs(schema, inputs));
        if findings.is_empty() { Ok(()) } else { Err(findings) }
    }

    /// The same for some of the inputs, of which the rest may follow: each must be one that is declared, and
    /// none a secret, since what is given here is kept.
    pub fn check_given(&self, given: &Map<String, Value>) -> Result<(), Vec<Finding>> {
        let mut schema = self.inputs.clone().unwrap_or_else(|| Value::Object(Map::new()));
        if let Value::Object(keywords) = &mut schema {
            keywords.remove("required");
        }
        let mut findings: Vec<Finding> =
            given.keys().filter_map(|name| not_to_be_kept(&schema, name)).collect();
        if findings.is_empty() {
            findings = with_room(|| input_findings(&schema, &Value::Object(given.clone())));
        }
        if findings.is_empty() { Ok(()) } else { Err(findings) }
    }

    /// The inputs with the schema's `default` wherever nothing was given.
    pub fn with_defaults(&self, inputs: Value) -> Value {
        match &self.inputs {
            Some(schema) => filled(inputs, schema),
            None => inputs,
        }
    }

    /// The inputs as they are kept: what the schema marks `writeOnly` is taken out, by name.
    pub fn redact_inputs(&self, inputs: Value) -> Value {
        match &self.inputs {
            Some(schema) => without_secrets(inputs, schema, "inputs"),
            None => inputs,
        }
    }
}

fn input_findings(schema: &Value, inputs: &Value) -> Vec<Finding> {
    let at = At::Plan.field("inputs");
    let found = |error: &ValidationError<'_>| {
        let path = at.within(&dotted(error.instance_path().as_str()));
        let message = error.masked_with("the value").to_string();
        Finding::error("bad_input", path, message, "see the plan's `inputs`")
    };
    match schema::validator(schema) {
        Ok(validator) => {
            validator.iter_errors(inputs).take(INPUT_ERRORS_SHOWN).map(|error| found(&error)).collect()
        }
        Err(error) => {
            vec![Finding::error(
                "bad_schema",
                at,
                format!("is no JSON Schema: {error}"),
                "save the plan again",
            )]
        }
    }
}

fn none_declared(inputs: &Value) -> Result<(), Vec<Finding>> {
    let refused = |name: &String| {
        let message = format!("the plan declares no inputs, and `{name}` was given");
        Finding::error("unknown_input", format!("inputs.{name}"), message, "declare it under `inputs`")
    };
    let findings: Vec<_> =
        inputs.as_object().into_iter().flat_map(|inputs| inputs.keys()).map(refused).collect();
    if findings.is_empty() { Ok(()) } else { Err(findings) }
}

/// An open schema takes any name; one that is a slip of the pen away from a declared input must not be
/// dropped without a word.
fn undeclared_inputs(schema: &Value, inputs: &Value) -> Vec<Finding> {
    let (Some(names), Some(inputs), false) = (properties(schema), inputs.as_object(), is_closed(schema))
    else {
        return Vec::new();
    };
    let slip = |name: &String| {
        let meant = nearest(name, names.keys().map(String::as_str))?;
        let message = format!("the plan's inputs do not declare `{name}`");
        let cure = format!("did you mean `{meant}`?");
        Some(Finding::error("unknown_input", format!("inputs.{name}"), message, cure))
    };
    inputs.keys().filter(|name| !names.contains_key(*name)).filter_map(slip).collect()
}

fn not_to_be_kept(schema: &Value, name: &str) -> Option<Finding> {
    let path = format!("inputs.{name}");
    if undeclared(schema, &[name.to_owned()]).is_some() {
        let (message, cure) = undeclared_input(schema, name);
        return Some(Finding::error("unknown_input", path, message, cure));
    }
    let secret = secret_at(schema, &[name.to_owned()], "inputs")?;
    let message = format!("{secret} is secret (`writeOnly`) and is not kept");
    Some(Finding::error("secret_input", path, message, "give it when the plan runs"))
}

fn filled(value: Value, schema: &Value) -> Value {
    let (Value::Object(mut fields), Some(properties)) = (value.clone(), properties(schema)) else {
        return value;
    };
    for (name, schema) in properties {
        match (fields.remove(name), schema.get("default")) {
            (Some(given), _) => drop(fields.insert(name.clone(), filled(given, schema))),
            (None, Some(default)) => drop(fields.insert(name.clone(), default.clone())),
            (None, None) => {}
        }
    }
    Value::Object(fields)
}

fn without_secrets(value: Value, schema: &Value, name: &str) -> Value {
    if is_secret(schema) {
        return redacted(name);
    }
    match (value, properties(schema)) {
        (Value::Object(fields), Some(properties)) => {
            let kept = fields.into_iter().map(|(field, value)| match properties.get(&field) {
                Some(schema) => {
                    let kept = without_secrets(value, schema, &format!("{name}.{field}"));
                    (field, kept)
                }
                None => (field, value),
            });
            Value::Object(kept.collect())
        }
        (value, _) => value,
    }
}

fn is_secret(schema: &Value) -> bool {
    schema.get("writeOnly") == Some(&Value::Bool(true))
}

fn properties(schema: &Value) -> Option<&Map<String, Value>> {
    schema.get("properties")?.as_object()
}

/// Whether `writeOnly` stands where redaction would not find it.
fn hides_secret(schema: &Value) -> bool {
    let Value::Object(keywords) = schema else { return false };
    keywords.iter().any(|(keyword, value)| match (keyword.as_str(), value) {
        ("properties", Value::Object(fields)) => fields.values().any(hides_secret),
        ("writeOnly", _) => false,
        (_, value) => names_secret(value),
    })
}

fn names_secret(value: &Value) -> bool {
    match value {
        Value::Object(fields) => is_secret(value) || fields.values().any(names_secret),
        Value::Array(items) => items.iter().any(names_secret),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

/// The secret that reading `path` would give: on the way, at its end, or inside.
fn secret_at(schema: &Value, path: &[String], name: &str) -> Option<String> {
    if is_secret(schema) {
        return Some(name.to_owned());
    }
    let properties = properties(schema)?;
    match path {
        [first, rest @ ..] => secret_at(properties.get(first)?, rest, &format!("{name}.{first}")),
        [] => {
            properties.iter().find_map(|(field, schema)| secret_at(schema, &[], &format!("{name}.{field}")))
        }
    }
}

/// Every read of an input, with its place.
pub(crate) fn input_reads(plan: &Plan) -> impl Iterator<Item = (String, &Reads)> {
    plan.steps.iter().enumerate().flat_map(|(index, step)| {
        let reads = step.reads().into_iter().chain(graph::undoing(step)).filter(|(_, reads)| reads.inputs);
        reads.map(move |(field, reads)| (format!("steps[{index}].{field}"), reads)).collect::<Vec<_>>()
    })
}

/// What the schema says of the inputs that expressions read.
pub(super) fn check_references(plan: &Plan, found: &mut Findings) {
    let Some(schema) = &plan.inputs else { return };
    for (path, reads) in input_reads(plan) {
        for fields in &reads.input_fields {
            if let Some(secret) = secret_at(schema, fields, "inputs") {
                let cure = "take it from the environment in the config with ${env:NAME}";
                found.error(
                    "secret_input",
                    &path,
                    format!("{secret} is secret (`writeOnly`) and is not kept"),
                    cure,
                );
            }
            if let (Some(name), true) = (undeclared(schema, fields), is_closed(schema)) {
                let (message, cure) = undeclared_input(schema, name);
                found.error("unknown_input", &path, message, cure);
            }
        }
    }
}

pub(crate) fn is_closed(schema: &Value) -> bool {
    schema.get("additionalProperties") == Some(&Value::Bool(false))
}

/// The input's name, where the schema's properties do not have it.
pub(crate) fn undeclared<'a>(schema: &Value, fields: &'a [String]) -> Option<&'a str> {
    let name = fields.first()?;
    let declared = properties(schema).is_some_and(|properties| properties.contains_key(name));
    (!declared).then_some(name)
}

pub(crate) fn undeclared_input(schema: &Value, name: &str) -> (String, String) {
    let known = properties(schema).into_iter().flat_map(Map::keys).map(String::as_str);
    let cure = match nearest(name, known) {
        Some(meant) => format!("did you mean `inputs.{meant}`?"),
        None => format!("add `{name}` to the plan's inputs"),
    };
    (format!("the plan's inputs do not declare `{name}`"), cure)
}
