//! Literals become inputs. What stands in the arguments of a plan that ran is taken out of its steps and
//! becomes the default of an input; run with its defaults, the template makes exactly the calls of the plan.
//! Expressions stay as they are.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use crate::bind::{Template, kind_of, redacted_in};
use crate::plan::{Plan, input_reads};

/// Literals of a plan that become inputs; whoever runs a template reads them all.
pub const LIFTED_MAX: usize = 200;

/// A literal where it stands first.
struct Leaf {
    step: String,
    field: String,
    value: Value,
}

/// A template from a plan that ran with `given` inputs. A value that `secret` knows is asked for each time.
pub fn of_execution(
    plan: &Plan,
    name: &str,
    given: Option<&Value>,
    secret: &dyn Fn(&Value) -> bool,
) -> Value {
    let mut document = super::of_plan(plan, name);
    let mut inputs = Inputs::of(&document, plan);
    inputs.take_over(given, secret);
    if !inputs.closed {
        let names = inputs.name(literals(&document), secret);
        let steps = document["steps"].as_array_mut().into_iter().flatten();
        for place in steps.flat_map(argument_places) {
            rewrite(place, "", &names);
        }
    }
    if let Some(schema) = inputs.into_schema() {
        document["inputs"] = schema;
    }
    document
}

/// Where a step's values stand, its undo's and its probe's with them.
fn argument_places(step: &mut Value) -> impl Iterator<Item = &mut Value> {
    let Value::Object(fields) = step else { return Vec::new().into_iter() };
    let places = fields.iter_mut().filter_map(|(name, value)| match name.as_str() {
        "arguments" => Some(value),
        "compensation" | "probe" => value.get_mut("arguments"),
        _ => None,
    });
    places.collect::<Vec<_>>().into_iter()
}

/// Texts that are alike mean the same thing wherever they stand; numbers and the like only under one name.
fn key(field: &str, value: &Value) -> String {
    match value {
        Value::String(text) if !text.is_empty() => format!("text {text}"),
        other => format!("{field} {other}"),
    }
}

/// The literals of the steps' own arguments, each once, in order.
fn literals(document: &Value) -> Vec<Leaf> {
    let mut found = Vec::new();
    let mut kept = BTreeSet::new();
    for step in document["steps"].as_array().into_iter().flatten() {
        let id = step["id"].as_str().unwrap_or_default();
        let undo = leaves(&step["compensation"]["arguments"]);
        for (field, value) in leaves(&step["arguments"]) {
            // Changed here and not there, it would undo something else.
            let differs = |(name, other): &(String, Value)| *name == field && *other != value;
            if undo.iter().any(differs) {
                kept.insert(key(&field, &value));
            }
            found.push(Leaf { step: id.to_owned(), field, value });
        }
    }
    let mut seen = kept;
    found.retain(|leaf| seen.insert(key(&leaf.field, &leaf.value)));
    found.truncate(LIFTED_MAX);
    found
}

/// Every literal inside a value, with the name of the field that it stands under.
fn leaves(arguments: &Value) -> Vec<(String, Value)> {
    let mut found = Vec::new();
    collect(arguments, "", &mut found);
    found
}

fn collect(value: &Value, field: &str, found: &mut Vec<(String, Value)>) {
    match value {
        Value::Object(fields) => fields.iter().for_each(|(name, value)| collect(value, name, found)),
        Value::Array(items) => items.iter().for_each(|item| collect(item, field, found)),
        Value::Null => {}
        Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            found.extend(literal(value).map(|literal| (field.to_owned(), literal)));
        }
    }
}

/// As it is sent; none: an expression stands in it.
fn literal(value: &Value) -> Option<Value> {
    Template::parse(value).ok()?.literal().cloned()
}

fn rewrite(value: &mut Value, field: &str, names: &BTreeMap<String, String>) {
    match value {
        Value::Object(fields) => fields.iter_mut().for_each(|(name, value)| rewrite(value, name, names)),
        Value::Array(items) => items.iter_mut().for_each(|item| rewrite(item, field, names)),
        Value::Null => {}
        Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            let name = literal(value).and_then(|literal| names.get(&key(field, &literal)));
            if let Some(name) = name {
                *value = Value::from(format!("${{inputs.{name}}}"));
            }
        }
    }
}

/// The inputs' schema while it grows.
struct Inputs {
    schema: Map<String, Value>,
    properties: Map<String, Value>,
    required: Vec<Value>,
    /// Names that mean something already.
    taken: BTreeSet<String>,
    /// One input more would change what somebody reads, or be refused.
    closed: bool,
}

/// What a schema may say without minding further properties.
const PLAIN: [&str; 8] =
    ["$schema", "$defs", "type", "title", "description", "default", "examples", "additionalProperties"];

impl Inputs {
    fn of(document: &Value, plan: &Plan) -> Self {
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
        let mut closed = schema.keys().any(|keyword| !PLAIN.contains(&keyword.as_str()));
        for (_, reads) in input_reads(plan) {
            closed |= reads.input_fields.contains(&Vec::new());
            taken.extend(reads.input_fields.iter().filter_map(|path| path.first().cloned()));
        }
        Self { schema, properties, required, taken, closed }
    }

    /// What the execution was given becomes the default.
    fn take_over(&mut self, given: Option<&Value>, secret: &dyn Fn(&Value) -> bool) {
        for (name, value) in given.and_then(Value::as_object).into_iter().flatten() {
            self.taken.insert(name.clone());
            let hidden = redacted_in(value).is_some() || secret(value);
            let property = self.properties.entry(name).or_insert_with(|| declared(value));
            if let (Value::Object(property), false) = (property, hidden) {
                property.insert("default".to_owned(), value.clone());
            }
        }
    }

    /// A name for each literal, by the key that it is found by again.
    fn name(&mut self, literals: Vec<Leaf>, secret: &dyn Fn(&Value) -> bool) -> BTreeMap<String, String> {
        let mut fields: BTreeMap<String, usize> = BTreeMap::new();
        literals.iter().for_each(|leaf| *fields.entry(leaf.field.clone()).or_default() += 1);
        let mut names = BTreeMap::new();
        for leaf in literals {
            let Leaf { step, field, value } = leaf;
            let alone = fields.get(&field) == Some(&1);
            let name = self.free_name(&step, &field, alone);
            let mut property = declared(&value);
            property["description"] = json!(format!("`{field}` of step {step}"));
            if !secret(&value) {
                property["default"] = value.clone();
            }
            // An undo may rely on it.
            self.required.push(json!(name));
            self.properties.insert(name.clone(), property);
            names.insert(key(&field, &value), name);
        }
        names
    }

    fn free_name(&mut self, step: &str, field: &str, alone: bool) -> String {
        let long = word(&format!("{step}_{field}"));
        let short = alone.then(|| word(field)).filter(|name| reads_as_input(name));
        let numbered = (2..).map(|number| format!("{long}_{number}"));
        let mut names = short.into_iter().chain([long.clone()]).chain(numbered);
        let name = names.find(|name| reads_as_input(name) && !self.taken.contains(name));
        let name = name.expect("numbers do not end");
        self.taken.insert(name.clone());
        name
    }

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

fn declared(value: &Value) -> Value {
    match value {
        Value::Null => json!({}),
        value if redacted_in(value).is_some() => json!({}),
        value => json!({ "type": kind_of(value) }),
    }
}

fn word(text: &str) -> String {
    let signs = text.chars().map(|sign| if sign.is_ascii_alphanumeric() { sign } else { '_' });
    let word: String = signs.collect();
    if word.starts_with(|sign: char| sign.is_ascii_digit()) { format!("_{word}") } else { word }
}

/// Some words mean something else in an expression.
fn reads_as_input(name: &str) -> bool {
    let read = Template::parse(&Value::from(format!("${{inputs.{name}}}")));
    read.is_ok_and(|read| read.reads().input_fields == BTreeSet::from([vec![name.to_owned()]]))
}
