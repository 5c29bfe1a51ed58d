//! Turns a plan that ran into a template: each literal in its steps' arguments is lifted into an input, with
//! the literal as default. Run with its defaults, the template makes exactly the plan's calls. Expressions
//! stay as they are.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use crate::bind::{ValueTemplate, find_redacted, json_type_of};
use crate::id::StepNo;
use crate::plan::{Plan, input_reads};

/// Most literals that become inputs: the person who runs the template has to read them all.
pub const LIFTED_MAX: usize = 200;

/// A literal argument, with the step and field of its first occurrence.
struct LiteralArgument {
    step: String,
    field: String,
    value: Value,
}

/// The values with which an execution ran.
#[derive(Clone, Copy, Debug)]
pub struct ExecutionValues<'a> {
    /// The inputs; `None` where the plan declares none.
    pub inputs: Option<&'a Value>,
    /// By step: the arguments from an answer that replaced the plan's.
    pub corrected_arguments: &'a BTreeMap<StepNo, Value>,
}

/// Makes a template document from a plan that ran with these `values`. A value that `secret` recognises gets
/// no default, so it is asked for at each run.
pub fn template_from_execution(
    plan: &Plan,
    name: &str,
    values: ExecutionValues<'_>,
    secret: &dyn Fn(&Value) -> bool,
) -> Value {
    let mut document = super::template_from_plan(plan, name);
    for (no, arguments) in values.corrected_arguments {
        replace_arguments(&mut document["steps"][no.index()], plan, *no, arguments);
    }
    let mut inputs = InputSchemaBuilder::new(&document, plan);
    inputs.add_given_defaults(values.inputs, secret);
    if !inputs.closed {
        let names = inputs.declare_inputs(liftable_literals(&document), secret);
        let steps = document["steps"].as_array_mut().into_iter().flatten();
        for arguments in steps.flat_map(arguments_mut) {
            replace_literals(arguments, "", &names);
        }
    }
    if let Some(schema) = inputs.into_schema() {
        document["inputs"] = schema;
    }
    document
}

/// Replaces a step's arguments by literal ones. The steps that the plan's arguments read stay dependencies.
fn replace_arguments(step: &mut Value, plan: &Plan, no: StepNo, arguments: &Value) {
    step["arguments"] = escape_expressions(arguments);
    let mut depends_on = step["depends_on"].as_array().cloned().unwrap_or_default();
    for (_, reads) in plan.step(no).reads().into_iter().filter(|(field, _)| *field == "arguments") {
        depends_on.extend(reads.outputs.union(&reads.statuses).map(|id| json!(id)));
    }
    let mut seen = BTreeSet::new();
    depends_on.retain(|id| seen.insert(id.to_string()));
    if !depends_on.is_empty() {
        step["depends_on"] = Value::Array(depends_on);
    }
}

/// The value as a template that binds to it: `${` in its texts is escaped.
pub fn escape_expressions(value: &Value) -> Value {
    match value {
        Value::String(text) => Value::String(text.replace("${", "$${")),
        Value::Array(items) => items.iter().map(escape_expressions).collect(),
        Value::Object(fields) => {
            fields.iter().map(|(name, value)| (name.clone(), escape_expressions(value))).collect()
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
    }
}

/// The `arguments` of a step, of its compensation and of its probe, where present.
fn arguments_mut(step: &mut Value) -> impl Iterator<Item = &mut Value> {
    let Value::Object(fields) = step else { return Vec::new().into_iter() };
    let arguments = fields.iter_mut().filter_map(|(name, value)| match name.as_str() {
        "arguments" => Some(value),
        "compensation" | "probe" => value.get_mut("arguments"),
        _ => None,
    });
    arguments.collect::<Vec<_>>().into_iter()
}

/// The key under which equal literals share one input: the value for texts, field and value for all others.
/// Equal texts mean the same thing in any field; equal numbers only in fields of the same name.
fn literal_key(field: &str, value: &Value) -> String {
    match value {
        Value::String(text) if !text.is_empty() => format!("text {text}"),
        other => format!("{field} {other}"),
    }
}

/// The literals to lift from the steps' own arguments, each once, in order; at most `LIFTED_MAX`.
fn liftable_literals(document: &Value) -> Vec<LiteralArgument> {
    let mut found = Vec::new();
    let mut kept = BTreeSet::new();
    for step in document["steps"].as_array().into_iter().flatten() {
        let id = step["id"].as_str().unwrap_or_default();
        let undo = literals_in(&step["compensation"]["arguments"]);
        for (field, value) in literals_in(&step["arguments"]) {
            // The compensation has another value in this field. An input would change the step's value and
            // not the compensation's, which would then undo something else.
            let differs = |(name, other): &(String, Value)| *name == field && *other != value;
            if undo.iter().any(differs) {
                kept.insert(literal_key(&field, &value));
            }
            found.push(LiteralArgument { step: id.to_owned(), field, value });
        }
    }
    let mut seen = kept;
    found.retain(|leaf| seen.insert(literal_key(&leaf.field, &leaf.value)));
    found.truncate(LIFTED_MAX);
    found
}

/// Every literal inside a value, with the name of the field that holds it.
fn literals_in(arguments: &Value) -> Vec<(String, Value)> {
    let mut found = Vec::new();
    collect_literals(arguments, "", &mut found);
    found
}

/// Adds the literals inside `value`, which the field `field` holds.
fn collect_literals(value: &Value, field: &str, found: &mut Vec<(String, Value)>) {
    match value {
        Value::Object(fields) => fields.iter().for_each(|(name, value)| collect_literals(value, name, found)),
        Value::Array(items) => items.iter().for_each(|item| collect_literals(item, field, found)),
        Value::Null => {}
        Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            found.extend(as_literal(value).map(|literal| (field.to_owned(), literal)));
        }
    }
}

/// The value as it is sent; `None` where it holds an expression.
fn as_literal(value: &Value) -> Option<Value> {
    ValueTemplate::parse(value).ok()?.as_literal().cloned()
}

/// Replaces each lifted literal inside `value` by a reference to its input.
fn replace_literals(value: &mut Value, field: &str, names: &BTreeMap<String, String>) {
    match value {
        Value::Object(fields) => {
            fields.iter_mut().for_each(|(name, value)| replace_literals(value, name, names))
        }
        Value::Array(items) => items.iter_mut().for_each(|item| replace_literals(item, field, names)),
        Value::Null => {}
        Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            let name = as_literal(value).and_then(|literal| names.get(&literal_key(field, &literal)));
            if let Some(name) = name {
                *value = Value::from(format!("${{inputs.{name}}}"));
            }
        }
    }
}

/// Builds the template's inputs schema from the plan's.
struct InputSchemaBuilder {
    schema: Map<String, Value>,
    properties: Map<String, Value>,
    required: Vec<Value>,
    /// Names of inputs that are declared, read or given already.
    taken: BTreeSet<String>,
    /// No input may be added: an expression reads all inputs as a whole, or the schema may refuse another.
    closed: bool,
}

/// Keywords that a schema may have and still accept further declared properties.
const OPEN_SCHEMA_KEYWORDS: [&str; 8] =
    ["$schema", "$defs", "type", "title", "description", "default", "examples", "additionalProperties"];

impl InputSchemaBuilder {
    /// Starts from the inputs schema of the document.
    fn new(document: &Value, plan: &Plan) -> Self {
        let mut schema = document["inputs"].as_object().cloned().unwrap_or_default();
        let properties = match schema.remove("properties") {
            Some(Value::Object(properties)) => properties,
            Some(_) | None => Map::new(),
        };
        let required = match schema.remove("required") {
            Some(Value::Array(required)) => required,
            Some(_) | None => Vec::new(),
        };
        let mut taken: BTreeSet<String> = properties.keys().cloned().collect();
        let mut closed = schema.keys().any(|keyword| !OPEN_SCHEMA_KEYWORDS.contains(&keyword.as_str()));
        for (_, reads) in input_reads(plan) {
            closed |= reads.input_fields.contains(&Vec::new());
            taken.extend(reads.input_fields.iter().filter_map(|path| path.first().cloned()));
        }
        Self { schema, properties, required, taken, closed }
    }

    /// Makes each value that the execution was given the default of its input, unless the value is secret.
    fn add_given_defaults(&mut self, given: Option<&Value>, secret: &dyn Fn(&Value) -> bool) {
        for (name, value) in given.and_then(Value::as_object).into_iter().flatten() {
            self.taken.insert(name.clone());
            let hidden = find_redacted(value).is_some() || secret(value);
            let property = self.properties.entry(name).or_insert_with(|| schema_for_value(value));
            if let (Value::Object(property), false) = (property, hidden) {
                property.insert("default".to_owned(), value.clone());
            }
        }
    }

    /// Declares an input for each literal; returns the inputs' names by the literals' keys.
    fn declare_inputs(
        &mut self,
        literals: Vec<LiteralArgument>,
        secret: &dyn Fn(&Value) -> bool,
    ) -> BTreeMap<String, String> {
        let mut fields: BTreeMap<String, usize> = BTreeMap::new();
        literals.iter().for_each(|leaf| *fields.entry(leaf.field.clone()).or_default() += 1);
        let mut names = BTreeMap::new();
        for leaf in literals {
            let LiteralArgument { step, field, value } = leaf;
            let alone = fields.get(&field) == Some(&1);
            let name = self.free_name(&step, &field, alone);
            let mut property = schema_for_value(&value);
            property["description"] = json!(format!("`{field}` of step {step}"));
            if !secret(&value) {
                property["default"] = value.clone();
            }
            // A compensation may read the input, so a value is required.
            self.required.push(json!(name));
            self.properties.insert(name.clone(), property);
            names.insert(literal_key(&field, &value), name);
        }
        names
    }

    /// An unused input name: the field's if no other literal has that field, else step and field.
    fn free_name(&mut self, step: &str, field: &str, alone: bool) -> String {
        let long = to_identifier(&format!("{step}_{field}"));
        let short = alone.then(|| to_identifier(field)).filter(|name| is_readable_input_name(name));
        let numbered = (2..).map(|number| format!("{long}_{number}"));
        let mut names = short.into_iter().chain([long.clone()]).chain(numbered);
        let name = names.find(|name| is_readable_input_name(name) && !self.taken.contains(name));
        let name = name.expect("the numbered names are infinite");
        self.taken.insert(name.clone());
        name
    }

    /// The finished schema; `None` where there is nothing to declare.
    fn into_schema(self) -> Option<Value> {
        let Self { mut schema, properties, required, .. } = self;
        if properties.is_empty() && schema.is_empty() {
            return None;
        }
        schema.entry("type").or_insert_with(|| json!("object"));
        schema.insert("properties".to_owned(), Value::Object(properties));
        if !required.is_empty() {
            schema.insert("required".to_owned(), Value::Array(required));
        }
        Some(Value::Object(schema))
    }
}

/// The schema of an input with this example value: its type, or anything for null and secrets.
fn schema_for_value(value: &Value) -> Value {
    match value {
        Value::Null => json!({}),
        value if find_redacted(value).is_some() => json!({}),
        value => json!({ "type": json_type_of(value) }),
    }
}

/// The text as an identifier: other characters become `_`.
fn to_identifier(text: &str) -> String {
    let characters = text.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' });
    let word: String = characters.collect();
    if word.starts_with(|c: char| c.is_ascii_digit()) { format!("_{word}") } else { word }
}

/// Whether `inputs.<name>` is an expression that reads exactly this input: some names are keywords.
fn is_readable_input_name(name: &str) -> bool {
    let read = ValueTemplate::parse(&Value::from(format!("${{inputs.{name}}}")));
    read.is_ok_and(|read| read.reads().input_fields == BTreeSet::from([vec![name.to_owned()]]))
}
