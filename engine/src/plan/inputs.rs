//! A plan's inputs: their JSON Schema, validation and defaults of given values, and redaction of secrets.

use jsonschema::ValidationError;
use jsonschema::error::ValidationErrorKind;
use serde_json::{Map, Value};

use super::field_reader::{FieldReader, report_wrong_type};
use super::finding::{CureAction, DocumentPath, Finding, FindingCollector};
use super::{Plan, graph};
use crate::bind::{ReadSet, redaction_marker, with_large_stack};
use crate::schema;
use crate::spelling::nearest;

/// Most validation errors reported for one set of inputs.
const INPUT_ERRORS_SHOWN: usize = 50;

/// The keywords by which a schema may accept inputs that its `properties` do not name.
const OPENING_KEYWORDS: [&str; 10] = [
    "$ref",
    "additionalProperties",
    "allOf",
    "anyOf",
    "dependentSchemas",
    "if",
    "not",
    "oneOf",
    "patternProperties",
    "unevaluatedProperties",
];

/// Reads the plan's `inputs` field and reports an unusable schema; `None` where there is no map.
pub(super) fn read_inputs_schema(
    fields: &FieldReader<'_, '_>,
    found: &mut FindingCollector,
) -> Option<Value> {
    let schema = fields.value("inputs", found)?;
    let at = fields.at.field("inputs");
    if !schema.is_object() {
        report_wrong_type(&at, schema, "a JSON Schema", found);
        return None;
    }
    if let Err(message) = schema::check_size(schema) {
        let (message, cure) = message.rsplit_once("; ").unwrap_or((&message, "simplify the schema"));
        found.error("bad_schema", at, message, cure);
    } else if let Err(error) = schema::compile_checked(schema) {
        let path = at.join(&pointer_to_path(error.instance_path().as_str()));
        found.error(
            "bad_schema",
            path,
            format!("is not a JSON Schema: {error}"),
            "write JSON Schema 2020-12",
        );
    }
    if has_unreachable_secret(schema) {
        let message = "`writeOnly` marks a secret only where it stands under `properties`";
        found.error("bad_schema", at, message, "put it on a property, not behind a reference or in a list");
    }
    Some(schema.clone())
}

/// Converts a JSON pointer to a path: `/a/0/b` to `a[0].b`.
pub(crate) fn pointer_to_path(pointer: &str) -> String {
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
    /// Validates `inputs` against the plan's schema. Messages never show a value: it may be secret.
    pub fn check_inputs(&self, inputs: &Value) -> Result<(), Vec<Finding>> {
        if !inputs.is_object() {
            return Err(vec![Finding::error(
                "bad_input",
                "inputs",
                "the inputs are not a map",
                "give them by name",
            )]);
        }
        let Some(schema) = &self.inputs else { return refuse_all_inputs(inputs) };
        let mut findings = with_large_stack(|| validate_inputs(schema, inputs));
        findings.extend(undeclared_inputs(self, schema, inputs));
        if findings.is_empty() { Ok(()) } else { Err(findings) }
    }

    /// Validates a part of the inputs, to be stored as defaults: each must be declared and none secret. The
    /// rest may be given later.
    pub fn check_partial_inputs(&self, given: &Map<String, Value>) -> Result<(), Vec<Finding>> {
        let mut schema = self.inputs.clone().unwrap_or_else(|| Value::Object(Map::new()));
        if let Value::Object(keywords) = &mut schema {
            keywords.remove("required");
        }
        let mut findings: Vec<Finding> =
            given.keys().filter_map(|name| unstorable_input(&schema, name)).collect();
        if findings.is_empty() {
            findings = with_large_stack(|| validate_inputs(&schema, &Value::Object(given.clone())));
        }
        if findings.is_empty() { Ok(()) } else { Err(findings) }
    }

    /// The names of `inputs` that `check_inputs` refuses as undeclared and that no expression of the plan
    /// reads: without them every call stays the same.
    pub fn ignored_inputs(&self, inputs: &Map<String, Value>) -> Vec<String> {
        if input_reads(self).any(|(_, reads)| reads.input_fields.contains(&Vec::new())) {
            return Vec::new();
        }
        let is_undeclared = |name: &String| match &self.inputs {
            Some(schema) => undeclared_input(self, schema, name).is_some(),
            None => true,
        };
        inputs.keys().filter(|name| is_undeclared(name) && !reads_input(self, name)).cloned().collect()
    }

    /// Adds the schema's `default` for each input that was not given.
    pub fn with_defaults(&self, inputs: Value) -> Value {
        match &self.inputs {
            Some(schema) => fill_defaults(inputs, schema),
            None => inputs,
        }
    }

    /// The inputs as they are stored: each value that the schema marks `writeOnly` is replaced by a redaction
    /// marker with its name.
    pub fn redact_inputs(&self, inputs: Value) -> Value {
        match &self.inputs {
            Some(schema) => redact_secrets(inputs, schema, "inputs"),
            None => inputs,
        }
    }
}

/// Validates the inputs; values in the messages are masked.
fn validate_inputs(schema: &Value, inputs: &Value) -> Vec<Finding> {
    let at = DocumentPath::Plan.field("inputs");
    let found = |error: &ValidationError<'_>| {
        let mut path = at.join(&pointer_to_path(error.instance_path().as_str()));
        if let ValidationErrorKind::Required { property } = error.kind() {
            path = format!("{path}.{}", property.as_str().unwrap_or_default());
        }
        let message = error.masked_with("the value").to_string();
        Finding::error("bad_input", path, message, "see the plan's `inputs`")
            .with_action(CureAction::GiveInputs)
    };
    match schema::compile_checked(schema) {
        Ok(validator) => {
            validator.iter_errors(inputs).take(INPUT_ERRORS_SHOWN).map(|error| found(&error)).collect()
        }
        Err(error) => {
            vec![Finding::error(
                "bad_schema",
                at,
                format!("is not a JSON Schema: {error}"),
                "save the plan again",
            )]
        }
    }
}

/// Refuses every given input of a plan that declares none.
fn refuse_all_inputs(inputs: &Value) -> Result<(), Vec<Finding>> {
    let refused = |name: &String| {
        let message = format!("the plan declares no inputs, and `{name}` was given");
        Finding::error("unknown_input", format!("inputs.{name}"), message, "declare it under `inputs`")
    };
    let findings: Vec<_> =
        inputs.as_object().into_iter().flat_map(|inputs| inputs.keys()).map(refused).collect();
    if findings.is_empty() { Ok(()) } else { Err(findings) }
}

/// Reports inputs that the schema does not declare: the plan would ignore them silently. A schema that may
/// accept further names, as with `additionalProperties: true`, lets all pass but near misspellings of a
/// declared name; and so does any schema for a name that the plan reads, as plans saved earlier may.
fn undeclared_inputs(plan: &Plan, schema: &Value, inputs: &Value) -> Vec<Finding> {
    let names = inputs.as_object().into_iter().flat_map(Map::keys);
    names.filter_map(|name| undeclared_input(plan, schema, name)).collect()
}

/// The finding of `undeclared_inputs` for one name; `None` if it may be given, or if the schema itself
/// forbids undeclared names.
fn undeclared_input(plan: &Plan, schema: &Value, name: &str) -> Option<Finding> {
    let names =
        properties(schema).filter(|names| !names.contains_key(name) && !forbids_undeclared(schema))?;
    let cure = match nearest(name, names.keys().map(String::as_str)) {
        Some(meant) => format!("did you mean `{meant}`?"),
        None if may_accept_undeclared(schema) || reads_input(plan, name) => return None,
        None => "leave it out, declare it under the plan's `inputs.properties`, or allow any with \
                 `additionalProperties: true` there"
            .to_owned(),
    };
    let message = format!("the plan's inputs do not declare `{name}`");
    Some(Finding::error("unknown_input", format!("inputs.{name}"), message, cure))
}

/// Whether an expression of the plan reads the input of this name.
fn reads_input(plan: &Plan, name: &str) -> bool {
    let is_path_into = |path: &Vec<String>| path.first().is_some_and(|first| first == name);
    input_reads(plan).any(|(_, reads)| reads.input_fields.iter().any(is_path_into))
}

/// Why a value for this input must not be stored: the input is undeclared or secret; `None` if it may be.
fn unstorable_input(schema: &Value, name: &str) -> Option<Finding> {
    let path = format!("inputs.{name}");
    if undeclared_name(schema, &[name.to_owned()]).is_some() {
        let (message, cure) = undeclared_input_message(schema, name);
        return Some(Finding::error("unknown_input", path, message, cure));
    }
    let secret = secret_on_path(schema, &[name.to_owned()], "inputs")?;
    let message = format!("{secret} is secret (`writeOnly`) and is not kept");
    Some(Finding::error("secret_input", path, message, "give it when the plan runs"))
}

/// Adds defaults to an object and, recursively, to its declared properties.
fn fill_defaults(value: Value, schema: &Value) -> Value {
    let (Value::Object(mut fields), Some(properties)) = (value.clone(), properties(schema)) else {
        return value;
    };
    for (name, schema) in properties {
        match (fields.remove(name), schema.get("default")) {
            (Some(given), _) => drop(fields.insert(name.clone(), fill_defaults(given, schema))),
            (None, Some(default)) => drop(fields.insert(name.clone(), default.clone())),
            (None, None) => {}
        }
    }
    Value::Object(fields)
}

/// Replaces secret values by redaction markers. `name` is the path of `value`, as in `inputs.token`.
fn redact_secrets(value: Value, schema: &Value, name: &str) -> Value {
    if is_secret(schema) {
        return redaction_marker(name);
    }
    match (value, properties(schema)) {
        (Value::Object(fields), Some(properties)) => {
            let kept = fields.into_iter().map(|(field, value)| match properties.get(&field) {
                Some(schema) => {
                    let kept = redact_secrets(value, schema, &format!("{name}.{field}"));
                    (field, kept)
                }
                None => (field, value),
            });
            Value::Object(kept.collect())
        }
        (value, _) => value,
    }
}

/// Whether the schema itself is marked `writeOnly: true`.
fn is_secret(schema: &Value) -> bool {
    schema.get("writeOnly") == Some(&Value::Bool(true))
}

fn properties(schema: &Value) -> Option<&Map<String, Value>> {
    schema.get("properties")?.as_object()
}

/// Whether the schema has a `writeOnly` that redaction would miss: anywhere but on nested `properties`.
fn has_unreachable_secret(schema: &Value) -> bool {
    let Value::Object(keywords) = schema else { return false };
    keywords.iter().any(|(keyword, value)| match (keyword.as_str(), value) {
        ("properties", Value::Object(fields)) => fields.values().any(has_unreachable_secret),
        ("writeOnly", _) => false,
        (_, value) => contains_secret_marker(value),
    })
}

/// Whether `writeOnly: true` occurs at any depth.
fn contains_secret_marker(value: &Value) -> bool {
    match value {
        Value::Object(fields) => is_secret(value) || fields.values().any(contains_secret_marker),
        Value::Array(items) => items.iter().any(contains_secret_marker),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

/// The name of a secret that reading `path` would touch: on the way, at its end or inside; `None` if there is
/// none.
fn secret_on_path(schema: &Value, path: &[String], name: &str) -> Option<String> {
    if is_secret(schema) {
        return Some(name.to_owned());
    }
    let properties = properties(schema)?;
    match path {
        [first, rest @ ..] => secret_on_path(properties.get(first)?, rest, &format!("{name}.{first}")),
        [] => properties
            .iter()
            .find_map(|(field, schema)| secret_on_path(schema, &[], &format!("{name}.{field}"))),
    }
}

/// Every read of the inputs in the plan, with the document path of the field that reads.
pub(crate) fn input_reads(plan: &Plan) -> impl Iterator<Item = (String, &ReadSet)> {
    plan.steps.iter().enumerate().flat_map(|(index, step)| {
        let reads = step.reads().into_iter().chain(graph::undo_reads(step)).filter(|(_, reads)| reads.inputs);
        reads.map(move |(field, reads)| (format!("steps[{index}].{field}"), reads)).collect::<Vec<_>>()
    })
}

/// Reports expressions that read a secret input, or one that a closed schema does not declare.
pub(super) fn check_input_references(plan: &Plan, found: &mut FindingCollector) {
    let Some(schema) = &plan.inputs else { return };
    for (path, reads) in input_reads(plan) {
        for fields in &reads.input_fields {
            if let Some(secret) = secret_on_path(schema, fields, "inputs") {
                let cure = "take it from the environment in the config with ${env:NAME}";
                found.error(
                    "secret_input",
                    &path,
                    format!("{secret} is secret (`writeOnly`) and is not kept"),
                    cure,
                );
            }
            if let (Some(name), true) = (undeclared_name(schema, fields), forbids_undeclared(schema)) {
                let (message, cure) = undeclared_input_message(schema, name);
                found.error("unknown_input", &path, message, cure);
            }
        }
    }
}

/// Whether the schema accepts declared properties only.
pub(crate) fn forbids_undeclared(schema: &Value) -> bool {
    schema.get("additionalProperties") == Some(&Value::Bool(false))
}

/// Whether the schema may be meant to accept inputs that its `properties` do not name.
pub(crate) fn may_accept_undeclared(schema: &Value) -> bool {
    properties(schema).is_none() || OPENING_KEYWORDS.iter().any(|keyword| schema.get(keyword).is_some())
}

/// The first name of the path `fields`, if the schema does not declare it; `None` if it does or the path is
/// empty.
pub(crate) fn undeclared_name<'a>(schema: &Value, fields: &'a [String]) -> Option<&'a str> {
    let name = fields.first()?;
    let declared = properties(schema).is_some_and(|properties| properties.contains_key(name));
    (!declared).then_some(name)
}

/// The message and cure for an input that the schema does not declare.
pub(crate) fn undeclared_input_message(schema: &Value, name: &str) -> (String, String) {
    let known = properties(schema).into_iter().flat_map(Map::keys).map(String::as_str);
    let cure = match nearest(name, known) {
        Some(meant) => format!("did you mean `inputs.{meant}`?"),
        None => format!("add `{name}` to the plan's inputs"),
    };
    (format!("the plan's inputs do not declare `{name}`"), cure)
}
