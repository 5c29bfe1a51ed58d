//! What a plan's `inputs` leave open: reads of inputs that nobody can give, and schemas that declare nothing.
//! The parser takes these, because stored plans must still load; the check does not.

use serde_json::{Map, Value};

use crate::plan::{Finding, Plan, Severity, input_reads, is_closed, undeclared, undeclared_input};
use crate::spelling::nearest;

/// What JSON Schema 2020-12 knows, for an object and for the values inside.
const KEYWORDS: [&str; 59] = [
    "$anchor",
    "$comment",
    "$defs",
    "$dynamicAnchor",
    "$dynamicRef",
    "$id",
    "$ref",
    "$schema",
    "$vocabulary",
    "additionalProperties",
    "allOf",
    "anyOf",
    "const",
    "contains",
    "contentEncoding",
    "contentMediaType",
    "contentSchema",
    "default",
    "definitions",
    "dependencies",
    "dependentRequired",
    "dependentSchemas",
    "deprecated",
    "description",
    "else",
    "enum",
    "examples",
    "exclusiveMaximum",
    "exclusiveMinimum",
    "format",
    "if",
    "items",
    "maxContains",
    "maxItems",
    "maxLength",
    "maxProperties",
    "maximum",
    "minContains",
    "minItems",
    "minLength",
    "minProperties",
    "minimum",
    "multipleOf",
    "not",
    "oneOf",
    "pattern",
    "patternProperties",
    "prefixItems",
    "properties",
    "propertyNames",
    "readOnly",
    "required",
    "then",
    "title",
    "type",
    "unevaluatedItems",
    "unevaluatedProperties",
    "uniqueItems",
    "writeOnly",
];

/// The keywords by which a schema may accept inputs that its `properties` do not name.
const OPENING: [&str; 10] = [
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

pub(super) fn findings(plan: &Plan) -> Vec<Finding> {
    let mut findings = plan.inputs.as_ref().map(schema_findings).unwrap_or_default();
    findings.extend(undeclared_reads(plan));
    findings
}

/// Reads of inputs that the schema does not name: an error where no such input can be given, else a warning.
fn undeclared_reads(plan: &Plan) -> Vec<Finding> {
    let none = Value::Object(Map::new());
    let schema = plan.inputs.as_ref().unwrap_or(&none);
    if is_closed(schema) {
        return Vec::new(); // The parser has refused it.
    }
    let severity = match &plan.inputs {
        Some(schema) if may_take_others(schema) => Severity::Warning,
        Some(_) | None => Severity::Error,
    };
    let mut findings = Vec::new();
    for (path, reads) in input_reads(plan) {
        for name in reads.input_fields.iter().filter_map(|fields| undeclared(schema, fields)) {
            let (message, cure) = undeclared_input(schema, name);
            let finding = Finding::error("undeclared_input", path.clone(), message, cure);
            findings.push(Finding { severity, ..finding });
        }
    }
    findings
}

fn may_take_others(schema: &Value) -> bool {
    schema.get("properties").is_none() || OPENING.iter().any(|keyword| schema.get(keyword).is_some())
}

/// Where `inputs` is no schema of a map: what stands there would be ignored, and every input accepted.
fn schema_findings(schema: &Value) -> Vec<Finding> {
    let mut findings = Vec::new();
    if let Some(kind) = schema.get("type").filter(|kind| !names_object(kind)) {
        let message = format!("the inputs are a map, and the schema asks for {kind}");
        findings.push(Finding::error("not_a_schema", "inputs.type", message, "write `type: object`"));
    }
    for name in unknown_keywords(schema) {
        let message = format!("`{name}` is no keyword of JSON Schema, so it declares nothing");
        let cure = match nearest(name, KEYWORDS) {
            Some(meant) => format!("did you mean `{meant}`?"),
            None => format!("declare it as {{type: object, properties: {{{name}: {{type: …}}}}}}"),
        };
        findings.push(Finding::error("not_a_schema", format!("inputs.{name}"), message, cure));
    }
    misspelt_keywords(schema, "inputs", &mut findings);
    findings
}

fn names_object(kind: &Value) -> bool {
    match kind {
        Value::Array(several) => several.iter().any(|one| one == "object"),
        one => one == "object",
    }
}

fn unknown_keywords(schema: &Value) -> impl Iterator<Item = &str> {
    let names = schema.as_object().into_iter().flat_map(Map::keys).map(String::as_str);
    names.filter(|name| !KEYWORDS.contains(name) && !name.starts_with("x-"))
}

/// Inside, a keyword of somebody else's may stand; one that is a slip away from a known one is probably none.
fn misspelt_keywords(schema: &Value, at: &str, findings: &mut Vec<Finding>) {
    let properties = schema.get("properties").and_then(Value::as_object);
    for (field, schema) in properties.into_iter().flatten() {
        let at = format!("{at}.properties.{field}");
        for (name, meant) in
            unknown_keywords(schema).filter_map(|name| Some((name, nearest(name, KEYWORDS)?)))
        {
            let message = format!("`{name}` is no keyword of JSON Schema, so it has no effect");
            let cure = format!("did you mean `{meant}`?");
            findings.push(Finding::warning("unknown_keyword", format!("{at}.{name}"), message, cure));
        }
        misspelt_keywords(schema, &at, findings);
    }
}
