//! What a form of inputs sent, and the values that it means.

use actbook_engine::plan::Plan;
use serde_json::{Map, Value};

use super::{FieldControl, InputFault, fields};
use crate::web::json::{inexact_number, read_field};

/// The name of the field for inputs that the schema does not name.
pub const OTHERS: &str = "//others";

/// The names and texts that a form sent.
#[derive(Debug)]
pub struct SubmittedInputs(pub Vec<(String, String)>);

impl SubmittedInputs {
    /// The text of a field; of several values a JSON list. `None`: the form did not send it.
    pub fn text(&self, name: &str) -> Option<String> {
        let mut texts = self.all(name);
        let first = texts.next()?;
        let rest: Vec<&str> = texts.collect();
        if rest.is_empty() {
            return Some(first.to_owned());
        }
        Some(format!("[{first},{}]", rest.join(",")))
    }

    fn all(&self, name: &str) -> impl Iterator<Item = &str> {
        self.0.iter().filter(move |(given, _)| given == name).map(|(_, value)| value.as_str())
    }

    /// The inputs that the fields mean. An empty field is left out, an unticked box is false. `Err`: texts that are
    /// no value of their field.
    pub fn inputs(&self, plan: &Plan) -> Result<Map<String, Value>, Vec<InputFault>> {
        let (mut inputs, mut faults) = (Map::new(), Vec::new());
        if let Some(text) = self.text(OTHERS).filter(|text| !text.trim().is_empty()) {
            match read_field(&text) {
                Ok(Value::Object(others)) => inputs = others,
                Ok(_) => faults.push(fault("", "the other inputs are no JSON object".to_owned())),
                Err(why) => faults.push(fault("", format!("the other inputs: {why}"))),
            }
        }
        for field in fields(plan.inputs.as_ref(), &Map::new()) {
            match self.value(&field.name, &field.control) {
                Ok(Some(value)) => insert(&mut inputs, &field.name, value),
                Ok(None) => {}
                Err(message) => faults.push(fault(&field.name, message)),
            }
        }
        if faults.is_empty() { Ok(inputs) } else { Err(faults) }
    }

    /// The value of one field. `None`: it was left out. `Err` says why its text is none.
    fn value(&self, name: &str, control: &FieldControl) -> Result<Option<Value>, String> {
        let text = || self.all(name).next().filter(|text| !text.is_empty());
        Ok(match control {
            FieldControl::Flag => Some(Value::Bool(text().is_some())),
            FieldControl::Text(_) | FieldControl::LongText => {
                text().map(|text| Value::from(text.replace("\r\n", "\n")))
            }
            FieldControl::Number { whole } => text().map(|text| number(text, *whole)).transpose()?,
            FieldControl::Choice(_) | FieldControl::Json => text().map(read_field).transpose()?,
            FieldControl::Choices(_) => {
                let chosen: Vec<Value> = self.all(name).map(read_field).collect::<Result<_, _>>()?;
                (!chosen.is_empty()).then_some(Value::Array(chosen))
            }
            FieldControl::Lines => text().map(|text| {
                let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
                Value::Array(lines.map(Value::from).collect())
            }),
        })
    }
}

fn fault(field: &str, message: String) -> InputFault {
    InputFault { field: field.to_owned(), message }
}

fn number(text: &str, whole: bool) -> Result<Value, String> {
    let text = text.trim();
    if let Some(trouble) = inexact_number(text) {
        return Err(trouble);
    }
    match read_field(text) {
        Ok(value) if value.is_number() && (!whole || !text.contains(['.', 'e', 'E'])) => Ok(value),
        Ok(_) | Err(_) => Err(format!("this is no {}number", if whole { "whole " } else { "" })),
    }
}

/// Puts a value where a field's name, an input or a JSON pointer, says.
fn insert(inputs: &mut Map<String, Value>, name: &str, value: Value) {
    let unescape = |part: &str| part.replace("~1", "/").replace("~0", "~");
    let Some(pointer) = name.strip_prefix('/') else {
        inputs.insert(name.to_owned(), value);
        return;
    };
    let mut parts: Vec<String> = pointer.split('/').map(unescape).collect();
    let last = parts.pop().unwrap_or_default();
    let mut place = inputs;
    for part in parts {
        let inner = place.entry(part).or_insert_with(|| Value::Object(Map::new()));
        let Value::Object(inner) = inner else { return };
        place = inner;
    }
    place.insert(last, value);
}
