//! Infers what is known of a value before the plan runs: from the schema of a tool's output or of the inputs,
//! or from a step's own arguments. What no schema covers is unknown and never reported.

use std::collections::BTreeSet;

use serde_json::Value;

use super::ToolFacts;
use crate::bind::{PathSegment, ReferencePath, ReferenceRoot, TemplateOutline, json_type_of};
use crate::plan::{Plan, Step, StepWork};
use crate::spelling::nearest;

/// Most `$ref`s followed in a row, and most alternatives of `anyOf` looked at.
const REFERENCES_MAX: usize = 32;

/// What is known of a value before the plan runs. Types are named as in JSON Schema.
#[derive(Debug)]
pub(super) enum InferredValue<'a> {
    Unknown,
    /// The value itself.
    Known(&'a Value),
    /// Its type.
    Type(&'static str),
    /// Its schema, the whole document that `$ref`s in it refer to, and whether the value always exists.
    Schema {
        root: &'a Value,
        schema: &'a Value,
        always: bool,
    },
    /// No schema declares it, with the message and cure for a read of it. `never`: the value cannot exist at
    /// all.
    Undeclared {
        message: String,
        cure: String,
        never: bool,
    },
}

/// The step that an expression belongs to, with what is needed to resolve its paths.
#[derive(Clone, Copy)]
pub(super) struct ExpressionContext<'a> {
    pub plan: &'a Plan,
    pub tools: &'a super::ToolFactsByName,
    pub step: &'a Step,
    /// The tool whose output `output` is: the step's, or in `happened` the probe's.
    pub output_of: Option<&'a str>,
}

impl<'a> ExpressionContext<'a> {
    /// What is known of the value that a path reads.
    pub fn infer(&self, path: &'a ReferencePath) -> InferredValue<'a> {
        match &path.root {
            ReferenceRoot::Status(_) | ReferenceRoot::ExecutionId => InferredValue::Type("string"),
            ReferenceRoot::Inputs => match &self.plan.inputs {
                // The parser and `inputs` report undeclared inputs.
                Some(schema) => match infer_from_schema(schema, path) {
                    InferredValue::Undeclared { never: false, .. } => InferredValue::Unknown,
                    flow => flow,
                },
                None => InferredValue::Unknown,
            },
            ReferenceRoot::Output(id) => {
                let tool = self.plan.find_step(id).and_then(|no| tool_called_by_actbook(self.plan.step(no)));
                self.infer_output(tool, path)
            }
            ReferenceRoot::OwnOutput => self.infer_output(self.output_of, path),
            ReferenceRoot::OwnArguments => infer_own_argument(self.step, path),
            ReferenceRoot::Fact(_) => InferredValue::Unknown,
        }
    }

    /// What is known of a path into a tool's output.
    fn infer_output(&self, tool: Option<&str>, path: &'a ReferencePath) -> InferredValue<'a> {
        let facts: Option<&ToolFacts> = tool.and_then(|tool| self.tools.get(tool));
        match facts.and_then(|facts| facts.output_schema.as_ref()) {
            Some(schema) => infer_from_schema(schema, path),
            None => InferredValue::Unknown,
        }
    }
}

/// The tool that Actbook calls for a step; `None` where the agent does the work.
pub(super) fn tool_called_by_actbook(step: &Step) -> Option<&str> {
    match &step.work {
        StepWork::Tool { tool, .. } => Some(tool),
        StepWork::AgentTool { .. } | StepWork::Action { .. } => None,
    }
}

/// What is known of a path into the step's own arguments.
fn infer_own_argument<'a>(step: &'a Step, path: &'a ReferencePath) -> InferredValue<'a> {
    let (StepWork::Tool { arguments, .. } | StepWork::AgentTool { arguments, .. }) = &step.work else {
        return InferredValue::Unknown;
    };
    let mut outline = arguments.outline();
    for (length, segment) in path.segments.iter().enumerate() {
        outline = match (outline, segment) {
            (TemplateOutline::Literal(value), _) => match literal_part(value, segment) {
                Some(part) => TemplateOutline::Literal(part),
                None => {
                    return undeclared_argument(
                        path,
                        length,
                        value.as_object().into_iter().flat_map(|o| o.keys().map(String::as_str)),
                    );
                }
            },
            (TemplateOutline::Object(fields), PathSegment::Field(name)) => {
                let names: Vec<&str> = fields.iter().map(|(name, _)| *name).collect();
                match fields.into_iter().find(|(field, _)| field == name) {
                    Some((_, field)) => field,
                    None => return undeclared_argument(path, length, names.into_iter()),
                }
            }
            (TemplateOutline::List(items), PathSegment::Item(index)) => match items.into_iter().nth(*index) {
                Some(item) => item,
                None => return undeclared_argument(path, length, std::iter::empty()),
            },
            (TemplateOutline::Read(_) | TemplateOutline::Computed(_), _)
            | (TemplateOutline::Object(_), PathSegment::Item(_))
            | (TemplateOutline::List(_), PathSegment::Field(_)) => return InferredValue::Unknown,
        };
    }
    match outline {
        TemplateOutline::Literal(value) => InferredValue::Known(value),
        TemplateOutline::Computed(Some(kind)) => InferredValue::Type(kind),
        TemplateOutline::List(_) => InferredValue::Type("array"),
        TemplateOutline::Object(_) => InferredValue::Type("object"),
        TemplateOutline::Read(_) | TemplateOutline::Computed(None) => InferredValue::Unknown,
    }
}

/// The field or item of a literal; `None` where it has none.
fn literal_part<'a>(value: &'a Value, segment: &PathSegment) -> Option<&'a Value> {
    match segment {
        PathSegment::Field(name) => value.get(name),
        PathSegment::Item(index) => value.get(index),
    }
}

/// The result for a path whose segment at `length` is not among the step's arguments. `known` are the names
/// there.
fn undeclared_argument<'a, 'n>(
    path: &ReferencePath,
    length: usize,
    known: impl Iterator<Item = &'n str>,
) -> InferredValue<'a> {
    let (whole, inside) = (path.source_text(length + 1), path.source_text(length));
    let message = format!("`{whole}` is not among the step's arguments");
    InferredValue::Undeclared {
        message,
        cure: undeclared_field_cure(&path.segments[length], &inside, known),
        never: true,
    }
}

/// The cure for a read of an undeclared field: the nearest of the `known` names, or all of them.
fn undeclared_field_cure<'n>(
    wanted: &PathSegment,
    inside: &str,
    known: impl Iterator<Item = &'n str>,
) -> String {
    let known: Vec<&str> = known.collect();
    let meant = match wanted {
        PathSegment::Field(name) => nearest(name, known.iter().copied()),
        PathSegment::Item(_) => None,
    };
    match (meant, known.is_empty()) {
        (Some(meant), _) => format!("did you mean `{inside}.{meant}`?"),
        (None, false) => format!("`{inside}` has {}", known.join(", ")),
        (None, true) => format!("read `{inside}` as a whole, or something else"),
    }
}

/// What is known of a path into a value with the schema `root`.
fn infer_from_schema<'a>(root: &'a Value, path: &'a ReferencePath) -> InferredValue<'a> {
    let mut at = root;
    let mut always = true;
    for (length, segment) in path.segments.iter().enumerate() {
        let Some(schema) = resolve_references(root, at) else { return InferredValue::Unknown };
        match look_up_segment(root, schema, segment) {
            SchemaLookup::Found(inner, required) => {
                at = inner;
                always &= required;
            }
            SchemaLookup::Undeclared { never, known } => {
                let (whole, inside) = (path.source_text(length + 1), path.source_text(length));
                let message = if never {
                    format!("the schema of `{inside}` allows no `{whole}`")
                } else {
                    format!("the schema of `{inside}` does not mention `{whole}`")
                };
                return InferredValue::Undeclared {
                    message,
                    cure: undeclared_field_cure(segment, &inside, known.into_iter()),
                    never,
                };
            }
            SchemaLookup::Unknown => return InferredValue::Unknown,
        }
    }
    InferredValue::Schema { root, schema: at, always }
}

/// The result of looking one path segment up in a schema.
enum SchemaLookup<'a> {
    /// The segment's schema, and whether the value always exists.
    Found(&'a Value, bool),
    /// Not declared, with the names that are. `never`: the value cannot exist at all.
    Undeclared {
        never: bool,
        known: Vec<&'a str>,
    },
    Unknown,
}

/// Looks a segment up in a schema whose own reference is resolved.
fn look_up_segment<'a>(root: &'a Value, schema: &'a Value, segment: &PathSegment) -> SchemaLookup<'a> {
    let wanted = match segment {
        PathSegment::Field(_) => "object",
        PathSegment::Item(_) => "array",
    };
    if accepted_types(root, schema).is_some_and(|kinds| !kinds.contains(wanted)) {
        return SchemaLookup::Undeclared { never: true, known: Vec::new() };
    }
    if ["anyOf", "oneOf", "allOf", "if", "patternProperties"].iter().any(|word| schema.get(word).is_some()) {
        return SchemaLookup::Unknown;
    }
    match segment {
        PathSegment::Field(name) => look_up_field(schema, name),
        PathSegment::Item(index) => {
            let first = schema.get("prefixItems").and_then(|items| items.get(index));
            match first.or_else(|| schema.get("items").filter(|items| items.is_object())) {
                Some(item) => SchemaLookup::Found(item, false),
                None => SchemaLookup::Unknown,
            }
        }
    }
}

/// Looks a field up among the properties of a schema.
fn look_up_field<'a>(schema: &'a Value, name: &str) -> SchemaLookup<'a> {
    let properties = schema.get("properties").and_then(Value::as_object);
    if let Some(property) = properties.and_then(|properties| properties.get(name)) {
        let required = schema.get("required").and_then(Value::as_array);
        let required = required.is_some_and(|names| names.iter().any(|one| one == name));
        return SchemaLookup::Found(property, required);
    }
    let known: Vec<&str> =
        properties.into_iter().flat_map(|names| names.keys().map(String::as_str)).collect();
    match schema.get("additionalProperties") {
        Some(Value::Bool(false)) => SchemaLookup::Undeclared { never: true, known },
        Some(other) if other.is_object() => SchemaLookup::Found(other, false),
        Some(_) | None if known.is_empty() => SchemaLookup::Unknown,
        Some(_) | None => SchemaLookup::Undeclared { never: false, known },
    }
}

/// Follows `$ref`s within the document; `None` where one leads out of it or there are too many.
pub(super) fn resolve_references<'a>(root: &'a Value, mut schema: &'a Value) -> Option<&'a Value> {
    for _ in 0..REFERENCES_MAX {
        let Some(reference) = schema.get("$ref") else { return Some(schema) };
        let pointer = reference.as_str()?.strip_prefix('#').filter(|pointer| !pointer.contains('%'))?;
        schema = root.pointer(pointer)?;
    }
    None
}

/// The JSON Schema types that a schema accepts; `None` where it does not say.
pub(super) fn accepted_types<'a>(root: &'a Value, schema: &'a Value) -> Option<BTreeSet<&'a str>> {
    let schema = resolve_references(root, schema)?;
    if let Some(value) = schema.get("const") {
        return Some([json_type_of(value)].into());
    }
    if let Some(Value::Array(values)) = schema.get("enum") {
        return Some(values.iter().map(json_type_of).collect());
    }
    match schema.get("type") {
        Some(Value::String(kind)) => return Some([kind.as_str()].into()),
        Some(Value::Array(several)) => return Some(several.iter().filter_map(Value::as_str).collect()),
        Some(_) | None => {}
    }
    let alternatives = ["anyOf", "oneOf"].iter().find_map(|word| schema.get(word)?.as_array())?;
    let mut all = BTreeSet::new();
    for one in alternatives.iter().take(REFERENCES_MAX) {
        // A reference inside an alternative could lead back to this schema and recurse for ever.
        let plain = one.get("$ref").is_none() && one.get("anyOf").is_none() && one.get("oneOf").is_none();
        all.extend(accepted_types(root, one).filter(|_| plain)?);
    }
    Some(all)
}

/// Whether a value of one of the `given` types may be of a `wanted` type. Integers and numbers are
/// interchangeable.
pub(super) fn types_may_match(given: &BTreeSet<&str>, wanted: &BTreeSet<&str>) -> bool {
    let has_number = |kinds: &BTreeSet<&str>| kinds.contains("integer") || kinds.contains("number");
    given.iter().any(|kind| wanted.contains(kind)) || (has_number(given) && has_number(wanted))
}
