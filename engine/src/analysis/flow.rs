//! How far types flow: from the schema of a tool's output, of the inputs, or from a step's own arguments
//! to the place that reads them. What no schema speaks of is unknown, and nothing is said about it.

use std::collections::BTreeSet;

use serde_json::Value;

use super::ToolFacts;
use crate::bind::{Outline, Path, Root, Segment, kind_of};
use crate::plan::{Plan, Step, Work};
use crate::spelling::nearest;

/// References followed before a schema is taken for endless.
const REFERENCES_MAX: usize = 32;

/// What is known of a value before it is there.
#[derive(Debug)]
pub(super) enum Flow<'a> {
    Unknown,
    Known(&'a Value),
    Kind(&'static str),
    /// Its schema, the document that it stands in, and whether the value is always there.
    Schema {
        root: &'a Value,
        schema: &'a Value,
        always: bool,
    },
    /// Nothing declares it. `never`: it cannot be there at all.
    Absent {
        message: String,
        cure: String,
        never: bool,
    },
}

/// Where an expression stands, and so what its paths lead to.
#[derive(Clone, Copy)]
pub(super) struct Scene<'a> {
    pub plan: &'a Plan,
    pub tools: &'a super::Tools,
    pub step: &'a Step,
    /// Whose output `output` is: the step's, or in `happened` the probe's.
    pub output_of: Option<&'a str>,
}

impl<'a> Scene<'a> {
    pub fn flow(&self, path: &'a Path) -> Flow<'a> {
        match &path.root {
            Root::Status(_) | Root::ExecutionId => Flow::Kind("string"),
            Root::Inputs => match &self.plan.inputs {
                // What the inputs do not declare is the parser's business.
                Some(schema) => match descend(schema, path) {
                    Flow::Absent { never: false, .. } => Flow::Unknown,
                    flow => flow,
                },
                None => Flow::Unknown,
            },
            Root::Output(id) => {
                let tool = self.plan.find(id).and_then(|no| called(self.plan.step(no)));
                self.output(tool, path)
            }
            Root::OwnOutput => self.output(self.output_of, path),
            Root::OwnArguments => own_arguments(self.step, path),
        }
    }

    fn output(&self, tool: Option<&str>, path: &'a Path) -> Flow<'a> {
        let facts: Option<&ToolFacts> = tool.and_then(|tool| self.tools.get(tool));
        match facts.and_then(|facts| facts.output_schema.as_ref()) {
            Some(schema) => descend(schema, path),
            None => Flow::Unknown,
        }
    }
}

/// The tool that Actbook calls for a step.
pub(super) fn called(step: &Step) -> Option<&str> {
    match &step.work {
        Work::Tool { tool, .. } => Some(tool),
        Work::AgentTool { .. } | Work::Action { .. } => None,
    }
}

fn own_arguments<'a>(step: &'a Step, path: &'a Path) -> Flow<'a> {
    let (Work::Tool { arguments, .. } | Work::AgentTool { arguments, .. }) = &step.work else {
        return Flow::Unknown;
    };
    let mut outline = arguments.outline();
    for (length, segment) in path.segments.iter().enumerate() {
        outline = match (outline, segment) {
            (Outline::Literal(value), _) => match literal_part(value, segment) {
                Some(part) => Outline::Literal(part),
                None => {
                    return absent_argument(
                        path,
                        length,
                        value.as_object().into_iter().flat_map(|o| o.keys().map(String::as_str)),
                    );
                }
            },
            (Outline::Object(fields), Segment::Field(name)) => {
                let names: Vec<&str> = fields.iter().map(|(name, _)| *name).collect();
                match fields.into_iter().find(|(field, _)| field == name) {
                    Some((_, field)) => field,
                    None => return absent_argument(path, length, names.into_iter()),
                }
            }
            (Outline::List(items), Segment::Item(index)) => match items.into_iter().nth(*index) {
                Some(item) => item,
                None => return absent_argument(path, length, std::iter::empty()),
            },
            (_, _) => return Flow::Unknown,
        };
    }
    match outline {
        Outline::Literal(value) => Flow::Known(value),
        Outline::Computed(Some(kind)) => Flow::Kind(kind),
        Outline::List(_) => Flow::Kind("array"),
        Outline::Object(_) => Flow::Kind("object"),
        Outline::Read(_) | Outline::Computed(None) => Flow::Unknown,
    }
}

fn literal_part<'a>(value: &'a Value, segment: &Segment) -> Option<&'a Value> {
    match segment {
        Segment::Field(name) => value.get(name),
        Segment::Item(index) => value.get(index),
    }
}

fn absent_argument<'a, 'n>(path: &Path, length: usize, known: impl Iterator<Item = &'n str>) -> Flow<'a> {
    let (whole, inside) = (path.spelled(length + 1), path.spelled(length));
    let message = format!("`{whole}` is not among what the step sends");
    Flow::Absent { message, cure: offered(&path.segments[length], &inside, known), never: true }
}

fn offered<'n>(wanted: &Segment, inside: &str, known: impl Iterator<Item = &'n str>) -> String {
    let known: Vec<&str> = known.collect();
    let meant = match wanted {
        Segment::Field(name) => nearest(name, known.iter().copied()),
        Segment::Item(_) => None,
    };
    match (meant, known.is_empty()) {
        (Some(meant), _) => format!("did you mean `{inside}.{meant}`?"),
        (None, false) => format!("`{inside}` has {}", known.join(", ")),
        (None, true) => format!("read `{inside}` as a whole, or something else"),
    }
}

/// Follows a path into the schema of the value that it starts from.
fn descend<'a>(root: &'a Value, path: &'a Path) -> Flow<'a> {
    let mut at = root;
    let mut always = true;
    for (length, segment) in path.segments.iter().enumerate() {
        let Some(schema) = dereferenced(root, at) else { return Flow::Unknown };
        match into(root, schema, segment) {
            Into::Found(inner, required) => {
                at = inner;
                always &= required;
            }
            Into::Absent { never, known } => {
                let (whole, inside) = (path.spelled(length + 1), path.spelled(length));
                let message = match never {
                    true => format!("there is never a `{whole}`, by the schema of `{inside}`"),
                    false => format!("the schema of `{inside}` does not speak of `{whole}`"),
                };
                return Flow::Absent { message, cure: offered(segment, &inside, known.into_iter()), never };
            }
            Into::Unknown => return Flow::Unknown,
        }
    }
    Flow::Schema { root, schema: at, always }
}

/// One step of a path into a schema.
enum Into<'a> {
    /// And whether it is always there.
    Found(&'a Value, bool),
    Absent {
        never: bool,
        known: Vec<&'a str>,
    },
    Unknown,
}

fn into<'a>(root: &'a Value, schema: &'a Value, segment: &Segment) -> Into<'a> {
    let wanted = match segment {
        Segment::Field(_) => "object",
        Segment::Item(_) => "array",
    };
    if kinds(root, schema).is_some_and(|kinds| !kinds.contains(wanted)) {
        return Into::Absent { never: true, known: Vec::new() };
    }
    if ["anyOf", "oneOf", "allOf", "if", "patternProperties"].iter().any(|word| schema.get(word).is_some()) {
        return Into::Unknown;
    }
    match segment {
        Segment::Field(name) => field(schema, name),
        Segment::Item(index) => {
            let first = schema.get("prefixItems").and_then(|items| items.get(index));
            match first.or_else(|| schema.get("items").filter(|items| items.is_object())) {
                Some(item) => Into::Found(item, false),
                None => Into::Unknown,
            }
        }
    }
}

fn field<'a>(schema: &'a Value, name: &str) -> Into<'a> {
    let properties = schema.get("properties").and_then(Value::as_object);
    if let Some(property) = properties.and_then(|properties| properties.get(name)) {
        let required = schema.get("required").and_then(Value::as_array);
        let required = required.is_some_and(|names| names.iter().any(|one| one == name));
        return Into::Found(property, required);
    }
    let known: Vec<&str> =
        properties.into_iter().flat_map(|names| names.keys().map(String::as_str)).collect();
    match schema.get("additionalProperties") {
        Some(Value::Bool(false)) => Into::Absent { never: true, known },
        Some(other) if other.is_object() => Into::Found(other, false),
        Some(_) | None if known.is_empty() => Into::Unknown,
        Some(_) | None => Into::Absent { never: false, known },
    }
}

/// What a schema stands for once its references are followed, as long as they stay within the document.
pub(super) fn dereferenced<'a>(root: &'a Value, mut schema: &'a Value) -> Option<&'a Value> {
    for _ in 0..REFERENCES_MAX {
        let Some(reference) = schema.get("$ref") else { return Some(schema) };
        let pointer = reference.as_str()?.strip_prefix('#').filter(|pointer| !pointer.contains('%'))?;
        schema = root.pointer(pointer)?;
    }
    None
}

/// The kinds of value that a schema lets through, where it says so.
pub(super) fn kinds<'a>(root: &'a Value, schema: &'a Value) -> Option<BTreeSet<&'a str>> {
    let schema = dereferenced(root, schema)?;
    if let Some(value) = schema.get("const") {
        return Some([kind_of(value)].into());
    }
    if let Some(Value::Array(values)) = schema.get("enum") {
        return Some(values.iter().map(kind_of).collect());
    }
    match schema.get("type") {
        Some(Value::String(kind)) => return Some([kind.as_str()].into()),
        Some(Value::Array(several)) => return Some(several.iter().filter_map(Value::as_str).collect()),
        Some(_) | None => {}
    }
    let any = ["anyOf", "oneOf"].iter().find_map(|word| schema.get(word)?.as_array())?;
    let mut all = BTreeSet::new();
    for one in any.iter().take(REFERENCES_MAX) {
        // A reference inside an alternative could lead back here.
        let plain = one.get("$ref").is_none() && one.get("anyOf").is_none() && one.get("oneOf").is_none();
        all.extend(kinds(root, one).filter(|_| plain)?);
    }
    Some(all)
}

/// Whether a value of one of these kinds may pass where those are wanted.
pub(super) fn may_pass(given: &BTreeSet<&str>, wanted: &BTreeSet<&str>) -> bool {
    let number = |kinds: &BTreeSet<&str>| kinds.contains("integer") || kinds.contains("number");
    given.iter().any(|kind| wanted.contains(kind)) || (number(given) && number(wanted))
}
