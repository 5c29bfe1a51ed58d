//! A call's arguments: the schema that is offered, made from the type that reads them, and refusals that
//! name the place and what was probably meant. Knows no tool.

use std::sync::Arc;

use actbook_engine::analysis::nearest;
use rmcp::model::JsonObject;
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use super::uses::{ToolUse, uses_that_take};
use crate::error::Error;

/// Where an agent finds a value for an argument.
const SOURCES: [(&str, &str); 3] = [
    ("execution_id", "status without arguments shows executions"),
    ("step_id", "status with the execution_id names its steps"),
    ("plan_id", "plan {\"action\":\"list\"} shows saved plans"),
];

/// What a tool takes, as offered and as checked.
#[derive(Clone, Debug)]
pub struct Arguments {
    pub schema: Arc<JsonObject>,
    validator: Arc<jsonschema::Validator>,
    /// Empty: any arguments go together.
    uses: &'static [ToolUse],
}

impl Arguments {
    pub fn of<T: JsonSchema>() -> Self {
        let settings = SchemaSettings::draft2020_12().with(|settings| {
            settings.meta_schema = None;
            settings.inline_subschemas = true;
        });
        let mut schema = settings.into_generator().into_root_schema_for::<T>().to_value();
        slim(&mut schema);
        let validator = jsonschema::validator_for(&schema).expect("a schema made from a type compiles");
        let Value::Object(schema) = schema else { unreachable!("arguments are an object") };
        Self { schema: Arc::new(schema), validator: Arc::new(validator), uses: &[] }
    }

    /// The same, with a table that says which of them go together.
    pub fn with_uses(self, uses: &'static [ToolUse]) -> Self {
        Self { uses, ..self }
    }

    /// Names that only the schema or only the table of uses has. A test wants none.
    #[cfg(test)]
    pub fn unmatched(&self) -> Vec<String> {
        let (known, uses) = (self.properties(), self.uses);
        let named = uses.iter().flat_map(ToolUse::names).map(str::to_owned);
        let named = named.filter(|name| !known.contains_key(name));
        let taken = |name: &str| uses.is_empty() || uses.iter().any(|one| one.accepts(name));
        named.chain(known.keys().filter(|name| !taken(name)).cloned()).collect()
    }

    pub fn read<T: DeserializeOwned>(&self, tool: &str, mut given: JsonObject) -> Result<T, Error> {
        // Some models write `null` where they mean to leave an argument out.
        given.retain(|_, value| !value.is_null());
        self.fold_words(&mut given);
        self.check_names(tool, &given)?;
        self.check_use(tool, &given)?;
        let given = Value::Object(given);
        if let Some(error) = self.validator.iter_errors(&given).next() {
            let path = error.instance_path().as_str().trim_start_matches('/').replace('/', ".");
            let message = format!("`{path}` of {tool}: {error}");
            return Err(at(&path, "invalid_argument", message, self.cure(&path, error.instance())));
        }
        serde_json::from_value(given).map_err(|error| {
            Error::new("invalid_argument", format!("{tool}: {error}"), format!("it takes: {}", self.names()))
        })
    }

    fn check_names(&self, tool: &str, given: &JsonObject) -> Result<(), Error> {
        let known = self.properties();
        if let Some(stranger) = given.keys().find(|name| !known.contains_key(*name)) {
            let cure = match nearest(stranger, known.keys().map(String::as_str)) {
                Some(near) => format!("did you mean `{near}`? {tool} takes: {}", self.names()),
                None => format!("leave it out; {tool} takes: {}", self.names()),
            };
            let message = format!("`{stranger}` is no argument of {tool}");
            return Err(at(stranger, "unknown_argument", message, cure));
        }
        let required = self.schema.get("required").and_then(Value::as_array).into_iter().flatten();
        let missing = required.filter_map(Value::as_str).find(|name| !given.contains_key(*name));
        match missing {
            Some(name) => {
                let message = format!("{tool} needs `{name}`");
                Err(at(name, "missing_argument", message, self.cure(name, &Value::Null)))
            }
            None => Ok(()),
        }
    }

    /// Refuses an argument that does not go with the others, and names one that is missing beside them.
    fn check_use(&self, tool: &str, given: &JsonObject) -> Result<(), Error> {
        let Some(chosen) = self.uses.iter().find(|one| one.fits(given)) else { return Ok(()) };
        let called = chosen.describe(tool);
        // An argument that the table does not know goes with everything.
        let elsewhere = |name: &str| uses_that_take(self.uses, tool, name);
        let stranger = given
            .keys()
            .find_map(|name| elsewhere(name).filter(|_| !chosen.accepts(name)).map(|uses| (name, uses)));
        if let Some((stranger, elsewhere)) = stranger {
            let takes: Vec<&str> = chosen.names().collect();
            let takes = if takes.is_empty() { "nothing else".to_owned() } else { takes.join(", ") };
            let cure = format!("leave it out: {called} takes {takes}; it goes with: {elsewhere}");
            let message = format!("{called} does not take `{stranger}`");
            return Err(at(stranger, "unexpected_argument", message, cure));
        }
        match chosen.needs.iter().find(|name| !given.contains_key(**name)) {
            Some(name) => {
                let message = format!("{called} needs `{name}`");
                Err(at(name, "missing_argument", message, self.cure(name, &Value::Null)))
            }
            None => Ok(()),
        }
    }

    /// A word of a closed list is taken in any case, and with `-` or a space for `_`.
    fn fold_words(&self, given: &mut JsonObject) {
        for (name, value) in given.iter_mut() {
            let Some(text) = value.as_str() else { continue };
            let folded = text.trim().to_lowercase().replace(['-', ' '], "_");
            if text != folded && self.words(name).contains(&folded.as_str()) {
                *value = Value::String(folded);
            }
        }
    }

    /// The closed list of words that an argument is one of; empty where it is anything else.
    fn words(&self, name: &str) -> Vec<&str> {
        let words = self.properties().get(name).and_then(|property| property["enum"].as_array());
        words.into_iter().flatten().filter_map(Value::as_str).collect()
    }

    /// What an argument may be.
    fn cure(&self, path: &str, given: &Value) -> String {
        let name = path.split('.').next().unwrap_or(path);
        let Some(property) = self.properties().get(name) else {
            return format!("it takes: {}", self.names());
        };
        let words = self.words(name);
        if words.is_empty() {
            let about = property["description"].as_str().map_or_else(|| kind_text(property), str::to_owned);
            let source = SOURCES.iter().find(|(of, _)| *of == name);
            let source = source.map(|(_, source)| format!("; {source}")).unwrap_or_default();
            return format!("`{name}`: {about}{source}");
        }
        let near = given.as_str().and_then(|given| nearest(given, words.iter().copied()));
        let near = near.map(|near| format!("did you mean `{near}`? ")).unwrap_or_default();
        format!("{near}`{name}` is one of: {}", words.join(", "))
    }

    fn properties(&self) -> &Map<String, Value> {
        self.schema.get("properties").and_then(Value::as_object).expect("arguments have properties")
    }

    fn names(&self) -> String {
        self.properties().keys().map(String::as_str).collect::<Vec<_>>().join(", ")
    }
}

/// What kind of value a property's schema asks for, in words.
fn kind_text(property: &Value) -> String {
    let word = |kind: &Value| match kind["type"].as_str() {
        Some("string") => "text",
        Some("integer") => "a whole number",
        Some("number") => "a number",
        Some("boolean") => "true or false",
        Some("array") => "a list",
        Some("object") => "an object",
        Some(_) | None => "any value",
    };
    match property["anyOf"].as_array() {
        Some(kinds) => kinds.iter().map(word).collect::<Vec<_>>().join(" or "),
        None => word(property).to_owned(),
    }
}

fn at(path: &str, code: &'static str, message: String, cure: String) -> Error {
    Error { path: Some(path.to_owned()), ..Error::new(code, message, cure) }
}

/// Every word of a schema is read by a model before it reads its task: what says nothing goes.
fn slim(schema: &mut Value) {
    match schema {
        Value::Object(object) => {
            for empty in ["title", "format", "minimum", "maximum"] {
                object.remove(empty);
            }
            object.retain(|name, value| !(name == "default" && value.is_null()));
            if let Some(kinds) = object.get_mut("type").and_then(Value::as_array_mut) {
                kinds.retain(|kind| kind != "null");
                if let [kind] = kinds.as_slice() {
                    let kind = kind.clone();
                    object.insert("type".to_owned(), kind);
                }
            }
            if let Some(words) = object.get_mut("enum").and_then(Value::as_array_mut) {
                words.retain(|word| !word.is_null());
            }
            without_null(object);
            for (name, value) in object.iter_mut() {
                match (name.as_str(), value) {
                    // Its keys are names, whatever words they are.
                    ("properties", Value::Object(properties)) => {
                        properties.values_mut().for_each(|property| {
                            of_some_kind(property);
                            slim(property);
                        });
                    }
                    (_, value) => slim(value),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(slim),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Clients that map schemas onto a narrower language need a kind for every value.
fn of_some_kind(property: &mut Value) {
    if *property == Value::Bool(true) {
        *property = json!({});
    }
    let Value::Object(property) = property else { return };
    let says = ["type", "anyOf", "enum", "const", "$ref"].iter().any(|word| property.contains_key(*word));
    if !says {
        property.insert("anyOf".to_owned(), json!([{ "type": "object" }, { "type": "string" }]));
    }
}

/// `anyOf: [X, null]` is X: what may be left out is said by leaving it out.
fn without_null(object: &mut Map<String, Value>) {
    let Some(Value::Array(choices)) = object.get("anyOf") else { return };
    let choices: Vec<Value> =
        choices.iter().filter(|one| **one != json!({ "type": "null" })).cloned().collect();
    if let [Value::Object(only)] = choices.as_slice() {
        object.remove("anyOf");
        for (name, value) in only {
            object.entry(name.clone()).or_insert_with(|| value.clone());
        }
    }
}
