//! Finds reads of inputs that the schema does not declare, and `inputs` that are no usable schema. The parser
//! accepts both, because stored plans must still load; the plan check reports them.

use serde_json::{Map, Value};

use crate::plan::{
    Finding, Plan, Severity, forbids_undeclared, input_reads, may_accept_undeclared,
    undeclared_input_message, undeclared_name,
};
use crate::spelling::nearest;

/// The keywords of JSON Schema 2020-12, and of earlier drafts that are still accepted.
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

/// The findings about a plan's inputs schema and the reads of inputs.
pub(super) fn findings(plan: &Plan) -> Vec<Finding> {
    let mut findings = plan.inputs.as_ref().map(schema_findings).unwrap_or_default();
    findings.extend(undeclared_reads(plan));
    findings
}

/// Reports reads of undeclared inputs: an error where the schema cannot accept such an input, else a warning.
fn undeclared_reads(plan: &Plan) -> Vec<Finding> {
    let none = Value::Object(Map::new());
    let schema = plan.inputs.as_ref().unwrap_or(&none);
    if forbids_undeclared(schema) {
        return Vec::new(); // The parser reports these reads.
    }
    let severity = match &plan.inputs {
        Some(schema) if may_accept_undeclared(schema) => Severity::Warning,
        Some(_) | None => Severity::Error,
    };
    let mut findings = Vec::new();
    for (path, reads) in input_reads(plan) {
        for name in reads.input_fields.iter().filter_map(|fields| undeclared_name(schema, fields)) {
            let (message, cure) = undeclared_input_message(schema, name);
            let finding = Finding::error("undeclared_input", path.clone(), message, cure);
            findings.push(Finding { severity, ..finding });
        }
    }
    findings
}

/// Reports `inputs` that is not the schema of an object: its unknown keywords would be ignored, and every
/// input accepted.
fn schema_findings(schema: &Value) -> Vec<Finding> {
    let mut findings = Vec::new();
    if let Some(kind) = schema.get("type").filter(|kind| !allows_object(kind)) {
        let message = format!("the inputs are a map, and the schema asks for {kind}");
        findings.push(Finding::error("not_a_schema", "inputs.type", message, "write `type: object`"));
    }
    for name in unknown_keywords(schema) {
        let message = format!("`{name}` is not a keyword of JSON Schema, so it declares nothing");
        let cure = match nearest(name, KEYWORDS) {
            Some(meant) => format!("did you mean `{meant}`?"),
            None => format!("declare it as {{type: object, properties: {{{name}: {{type: …}}}}}}"),
        };
        findings.push(Finding::error("not_a_schema", format!("inputs.{name}"), message, cure));
    }
    misspelt_keywords(schema, "inputs", &mut findings);
    findings
}

/// Whether the schema's `type` includes `object`.
fn allows_object(kind: &Value) -> bool {
    match kind {
        Value::Array(several) => several.iter().any(|one| one == "object"),
        one => one == "object",
    }
}

/// The top-level keys that are no JSON Schema keyword and no `x-` extension.
fn unknown_keywords(schema: &Value) -> impl Iterator<Item = &str> {
    let names = schema.as_object().into_iter().flat_map(Map::keys).map(String::as_str);
    names.filter(|name| !KEYWORDS.contains(name) && !name.starts_with("x-"))
}

/// Warns of keys in nested properties that look like misspelt keywords. Other unknown keys may be extensions
/// and are left alone.
fn misspelt_keywords(schema: &Value, at: &str, findings: &mut Vec<Finding>) {
    let properties = schema.get("properties").and_then(Value::as_object);
    for (field, schema) in properties.into_iter().flatten() {
        let at = format!("{at}.properties.{field}");
        for (name, meant) in
            unknown_keywords(schema).filter_map(|name| Some((name, nearest(name, KEYWORDS)?)))
        {
            let message = format!("`{name}` is not a keyword of JSON Schema, so it has no effect");
            let cure = format!("did you mean `{meant}`?");
            findings.push(Finding::warning("unknown_keyword", format!("{at}.{name}"), message, cure));
        }
        misspelt_keywords(schema, &at, findings);
    }
}
