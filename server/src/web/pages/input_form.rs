//! The form for a plan's inputs, made from their JSON Schema: a field for each input, nested objects as groups of
//! fields, and JSON text for what no field can hold.

mod control;
mod submitted;

use actbook_engine::bind::REDACTED_KEY;
use actbook_engine::plan::{Finding, Plan};
use askama::Template;
use askama::filters::HtmlSafe;
use serde_json::{Map, Value};

use control::{choice_labels, control_of};
pub use submitted::SubmittedInputs;

/// Objects deeper than this are given as JSON.
const GROUP_DEPTH_MAX: usize = 2;
/// References of a schema that are followed from one input.
const REFERENCES_MAX: usize = 8;

/// The fields of one form.
#[derive(Debug, Template)]
#[template(path = "input_form.html")]
pub struct InputForm {
    pub fields: Vec<FormField>,
    /// Why the given inputs were refused.
    pub faults: Vec<InputFault>,
    /// Inputs beside those that the schema names, as a JSON object. `None`: the schema allows none.
    pub others: Option<String>,
}

impl HtmlSafe for InputForm {}

/// One fault of the given inputs: the name of its field, or nothing, and what is wrong.
#[derive(Clone, Debug)]
pub struct InputFault {
    pub field: String,
    pub message: String,
}

/// One input.
#[derive(Clone, Debug)]
pub struct FormField {
    /// The name of an input; that of a nested one is a JSON pointer.
    pub name: String,
    pub label: String,
    pub about: String,
    pub is_required: bool,
    pub is_secret: bool,
    pub control: FieldControl,
    /// What the field shows first.
    pub value: String,
    /// How the value is limited, in words.
    pub limits: String,
    /// The headline of a group of fields that begins here.
    pub group: Option<String>,
}

/// What a field looks like, and how its text becomes a value.
#[derive(Clone, Debug, PartialEq)]
pub enum FieldControl {
    /// One line; the `type` of the field: `text`, `email`, `url`, `date` or `password`.
    Text(&'static str),
    /// Several lines.
    LongText,
    /// A number; whether it must be whole.
    Number { whole: bool },
    /// A box to tick; without a tick the value is false.
    Flag,
    /// Some values to choose one from: each as JSON, and as it is shown.
    Choice(Vec<(String, String)>),
    /// Some values to choose any of.
    Choices(Vec<(String, String)>),
    /// One text a line.
    Lines,
    /// JSON text.
    Json,
}

impl InputForm {
    /// The form of a plan's inputs, with the given values and else the schema's defaults.
    pub fn of(plan: &Plan, values: &Map<String, Value>) -> Self {
        let fields = fields(plan.inputs.as_ref(), values);
        let is_open = plan.inputs.as_ref().is_some_and(|schema| {
            schema
                .get("additionalProperties")
                .is_some_and(|more| more.is_object() || *more == Value::Bool(true))
        });
        let is_named = |name: &String| property(plan.inputs.as_ref(), name).is_some();
        let others: Map<String, Value> = values
            .iter()
            .filter(|(name, _)| !is_named(name))
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect();
        let text = if others.is_empty() { String::new() } else { pretty(&Value::Object(others)) };
        Self { fields, faults: Vec::new(), others: (is_open || !text.is_empty()).then_some(text) }
    }

    /// The same form with what was sent, and why it was refused.
    pub fn refused(plan: &Plan, sent: &SubmittedInputs, faults: Vec<InputFault>) -> Self {
        let mut form = Self::of(plan, &Map::new());
        for field in &mut form.fields {
            field.value = sent.text(&field.name).unwrap_or_default();
        }
        form.others = form.others.map(|_| sent.text(submitted::OTHERS).unwrap_or_default());
        Self { faults, ..form }
    }

    /// The same form, in which every field may be left empty.
    pub fn with_all_optional(mut self) -> Self {
        self.fields.iter_mut().for_each(|field| field.is_required = false);
        self
    }

    pub fn is_empty(&self) -> bool {
        self.fields.is_empty() && self.others.is_none()
    }

    /// What is wrong with a field. `None`: nothing.
    fn fault_of(&self, field: &str) -> Option<&str> {
        self.faults.iter().find(|fault| fault.field == field).map(|fault| fault.message.as_str())
    }

    /// What is wrong with no field of the form.
    fn other_faults(&self) -> impl Iterator<Item = &InputFault> {
        self.faults.iter().filter(|fault| !self.fields.iter().any(|field| field.name == fault.field))
    }
}

impl InputFault {
    /// The fault of a finding about inputs, whose path is `inputs.server.port`.
    pub fn of(finding: &Finding) -> Self {
        let path = finding.path.strip_prefix("inputs").unwrap_or(&finding.path);
        let path = path.strip_prefix('.').unwrap_or(path);
        let field = if path.contains('.') { format!("/{}", path.replace('.', "/")) } else { path.to_owned() };
        Self { field, message: finding.message.clone() }
    }
}

/// The fields for the properties of a schema, required ones first.
fn fields(schema: Option<&Value>, values: &Map<String, Value>) -> Vec<FormField> {
    let mut fields = Vec::new();
    if let Some(schema) = schema {
        let reader = SchemaReader { root: schema };
        reader.push_fields(&mut fields, schema, values, "", 0);
    }
    fields
}

/// Reads a schema, whose references lead into itself.
struct SchemaReader<'a> {
    root: &'a Value,
}

impl<'a> SchemaReader<'a> {
    /// Adds the fields of an object's properties; `at` is its JSON pointer.
    fn push_fields(
        &self,
        fields: &mut Vec<FormField>,
        schema: &'a Value,
        values: &Map<String, Value>,
        at: &str,
        depth: usize,
    ) {
        let properties = schema.get("properties").and_then(Value::as_object);
        let required = schema.get("required").and_then(Value::as_array);
        let is_required = |name: &str| required.is_some_and(|names| names.iter().any(|one| one == name));
        let mut properties: Vec<(&String, &Value)> = properties.into_iter().flatten().collect();
        properties.sort_by_key(|(name, _)| !is_required(name));
        for (name, property) in properties {
            let property = self.resolve(property);
            let pointer = format!("{at}/{}", name.replace('~', "~0").replace('/', "~1"));
            let given = values.get(name).or_else(|| property.get("default"));
            let is_group = property.get("properties").is_some_and(Value::is_object)
                && property.get("additionalProperties").is_none_or(|more| *more == Value::Bool(false))
                && depth < GROUP_DEPTH_MAX;
            let is_required = is_required(name);
            if is_group {
                let none = Map::new();
                let inner = given.and_then(Value::as_object).unwrap_or(&none);
                let first = fields.len();
                self.push_fields(fields, property, inner, &pointer, depth + 1);
                let title = text_of(property, "title").unwrap_or(name);
                if let Some(field) = fields.get_mut(first) {
                    field.group.get_or_insert_with(|| title.to_owned());
                }
                // A group that may be left out does not force its fields.
                fields[first..].iter_mut().for_each(|field| field.is_required &= is_required);
                continue;
            }
            let name = if depth == 0 && !name.starts_with('/') { name.clone() } else { pointer };
            fields.push(field(name, property, given, is_required));
        }
    }

    /// The schema that a reference leads to, with the words that stand beside the reference left out.
    fn resolve(&self, schema: &'a Value) -> &'a Value {
        let mut found = schema;
        for _ in 0..REFERENCES_MAX {
            let Some(reference) = text_of(found, "$ref") else { break };
            let Some(target) = reference.strip_prefix('#').and_then(|pointer| self.root.pointer(pointer))
            else {
                break;
            };
            found = target;
        }
        found
    }
}

fn field(name: String, schema: &Value, given: Option<&Value>, is_required: bool) -> FormField {
    let is_secret = schema.get("writeOnly") == Some(&Value::Bool(true));
    let control = if is_secret { FieldControl::Text("password") } else { control_of(schema, is_required) };
    let label = name.rsplit('/').next().unwrap_or(&name).replace("~1", "/").replace("~0", "~");
    FormField {
        value: given
            .filter(|value| !holds_marker(value))
            .map(|value| shown(&control, value))
            .unwrap_or_default(),
        label,
        about: [text_of(schema, "title"), text_of(schema, "description")]
            .into_iter()
            .flatten()
            .collect::<Vec<_>>()
            .join(": "),
        is_required,
        is_secret,
        limits: control::limits(schema),
        control,
        group: None,
        name,
    }
}

/// Whether a value is the marker of a secret, which is not kept.
fn holds_marker(value: &Value) -> bool {
    value.get(REDACTED_KEY).is_some()
}

/// A value as its field shows it.
fn shown(control: &FieldControl, value: &Value) -> String {
    match (control, value) {
        (FieldControl::Text(_) | FieldControl::LongText, Value::String(text)) => text.clone(),
        (FieldControl::Lines, Value::Array(items)) => {
            items.iter().map(choice_labels).collect::<Vec<_>>().join("\n")
        }
        (FieldControl::Json, value) => pretty(value),
        (_, value) => value.to_string(),
    }
}

fn pretty(value: &Value) -> String {
    serde_json::to_string_pretty(value).unwrap_or_default()
}

fn text_of<'a>(schema: &'a Value, keyword: &str) -> Option<&'a str> {
    schema.get(keyword).and_then(Value::as_str)
}

fn property<'a>(schema: Option<&'a Value>, name: &str) -> Option<&'a Value> {
    schema?.get("properties")?.get(name)
}

impl FormField {
    /// Whether a value of several is chosen, for a template.
    fn has(&self, choice: &str) -> bool {
        match &self.control {
            FieldControl::Choices(_) => {
                let chosen: Vec<Value> = serde_json::from_str(&self.value).unwrap_or_default();
                let wanted: Option<Value> = serde_json::from_str(choice).ok();
                wanted.is_some_and(|wanted| chosen.contains(&wanted))
            }
            FieldControl::Text(_)
            | FieldControl::LongText
            | FieldControl::Number { .. }
            | FieldControl::Flag
            | FieldControl::Choice(_)
            | FieldControl::Lines
            | FieldControl::Json => self.value == choice,
        }
    }
}

#[cfg(test)]
mod tests;
