//! The arguments of a tool call: the input schema, made from the type that the arguments are parsed into, and
//! errors that name the argument and what was probably meant. Knows no tool.

use std::sync::Arc;

use actbook_engine::analysis::nearest;
use rmcp::model::JsonObject;
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use super::call_variants::{CallVariant, variants_that_accept};
use crate::error::{AgentError, AgentErrorCode, Error};

/// For an argument, how an agent finds values for it.
const VALUE_SOURCES: [(&str, &str); 3] = [
    ("execution_id", "status without arguments shows executions"),
    ("step_id", "status with the execution_id names its steps"),
    ("plan_id", "plan {\"action\":\"list\"} shows saved plans"),
];

/// The arguments that a tool takes: input schema, its validator, and the table of which arguments go
/// together.
#[derive(Clone, Debug)]
pub struct ArgumentSpec {
    pub schema: Arc<JsonObject>,
    validator: Arc<jsonschema::Validator>,
    /// Empty: all arguments go together.
    variants: &'static [CallVariant],
}

impl ArgumentSpec {
    /// The arguments that are the fields of `T`.
    pub fn for_type<T: JsonSchema>() -> Self {
        let settings = SchemaSettings::draft2020_12().with(|settings| {
            settings.meta_schema = None;
            settings.inline_subschemas = true;
        });
        let mut schema = settings.into_generator().into_root_schema_for::<T>().to_value();
        strip_schema(&mut schema);
        let validator = jsonschema::validator_for(&schema).expect("a schema made from a type compiles");
        let Value::Object(schema) = schema else { unreachable!("arguments are an object") };
        Self { schema: Arc::new(schema), validator: Arc::new(validator), variants: &[] }
    }

    /// Adds the table of which arguments go together.
    pub fn with_call_variants(self, uses: &'static [CallVariant]) -> Self {
        Self { variants: uses, ..self }
    }

    /// Names that only the schema or only the table of call variants has; for a test.
    #[cfg(test)]
    pub fn mismatched_names(&self) -> Vec<String> {
        let (known, variants) = (self.properties(), self.variants);
        let named = variants.iter().flat_map(CallVariant::argument_names).map(str::to_owned);
        let named = named.filter(|name| !known.contains_key(name));
        let accepted =
            |name: &str| variants.is_empty() || variants.iter().any(|variant| variant.accepts(name));
        named.chain(known.keys().filter(|name| !accepted(name)).cloned()).collect()
    }

    /// Checks the arguments and parses them into `T`; the error names the argument and how to correct it.
    /// `tool`: its name, for errors. A null argument counts as left out.
    pub fn parse<T: DeserializeOwned>(&self, tool: &str, mut given: JsonObject) -> Result<T, Error> {
        // Some models write `null` for an argument that they leave out.
        given.retain(|_, value| !value.is_null());
        self.normalize_enum_values(&mut given);
        self.check_names(tool, &given)?;
        self.check_variant(tool, &given)?;
        let given = Value::Object(given);
        if let Some(error) = self.validator.iter_errors(&given).next() {
            let path = error.instance_path().as_str().trim_start_matches('/').replace('/', ".");
            let message = format!("`{path}` of {tool}: {error}");
            let cure = self.cure(&path, error.instance());
            return Err(argument_error(&path, AgentErrorCode::InvalidArgument, message, cure));
        }
        serde_json::from_value(given).map_err(|error| {
            let cure = format!("it takes: {}", self.joined_names());
            Error::agent(AgentErrorCode::InvalidArgument, format!("{tool}: {error}"), cure)
        })
    }

    /// Refuses an unknown argument, or a call without a required one; the error names it.
    fn check_names(&self, tool: &str, given: &JsonObject) -> Result<(), Error> {
        let known = self.properties();
        if let Some(unknown) = given.keys().find(|name| !known.contains_key(*name)) {
            let cure = match nearest(unknown, known.keys().map(String::as_str)) {
                _ if is_of_a_plan(unknown) && known.contains_key("plan") => {
                    format!("it belongs to the plan: {tool} {{\"plan\": {{\"name\": …, \"steps\": […]}}}}")
                }
                Some(near) => format!("did you mean `{near}`? {tool} takes: {}", self.joined_names()),
                None => format!("leave it out; {tool} takes: {}", self.joined_names()),
            };
            let message = format!("`{unknown}` is not an argument of {tool}");
            return Err(argument_error(unknown, AgentErrorCode::UnknownArgument, message, cure));
        }
        let required = self.schema.get("required").and_then(Value::as_array).into_iter().flatten();
        let missing = required.filter_map(Value::as_str).find(|name| !given.contains_key(*name));
        missing.map_or(Ok(()), |name| Err(self.missing_argument(tool, name)))
    }

    /// The error for a call without an argument that it needs.
    fn missing_argument(&self, called: &str, name: &str) -> Error {
        let message = format!("{called} needs `{name}`");
        argument_error(name, AgentErrorCode::MissingArgument, message, self.cure(name, &Value::Null))
    }

    /// Refuses an argument that the call's variant does not take, or a call without one that the variant
    /// requires; the error names it.
    fn check_variant(&self, tool: &str, given: &JsonObject) -> Result<(), Error> {
        let Some(variant) = self.variants.iter().find(|variant| variant.matches(given)) else {
            return Ok(());
        };
        let called = variant.describe(tool);
        // An argument that no variant names goes with every variant.
        let others_with = |name: &str| variants_that_accept(self.variants, tool, name);
        let unexpected = given.keys().find_map(|name| {
            others_with(name).filter(|_| !variant.accepts(name)).map(|others| (name, others))
        });
        if let Some((unexpected, others)) = unexpected {
            let takes: Vec<&str> = variant.argument_names().collect();
            let takes = if takes.is_empty() { "nothing else".to_owned() } else { takes.join(", ") };
            let cure = format!("leave it out: {called} takes {takes}; it goes with: {others}");
            let message = format!("{called} does not take `{unexpected}`");
            return Err(argument_error(unexpected, AgentErrorCode::UnexpectedArgument, message, cure));
        }
        let missing = variant.required.iter().find(|name| !given.contains_key(**name));
        missing.map_or(Ok(()), |name| Err(self.missing_argument(&called, name)))
    }

    /// Rewrites enum values that differ only in case, or in `-` or a space for `_`, to the declared ones.
    fn normalize_enum_values(&self, given: &mut JsonObject) {
        for (name, value) in given.iter_mut() {
            let Some(text) = value.as_str() else { continue };
            let folded = text.trim().to_lowercase().replace(['-', ' '], "_");
            if text != folded && self.enum_values(name).contains(&folded.as_str()) {
                *value = Value::String(folded);
            }
        }
    }

    /// The enum values of an argument; empty if it is no enum.
    fn enum_values(&self, name: &str) -> Vec<&str> {
        let words = self.properties().get(name).and_then(|property| property["enum"].as_array());
        words.into_iter().flatten().filter_map(Value::as_str).collect()
    }

    /// How to correct the argument at a path such as `plan.name`: the enum values, with the one nearest to
    /// `given`, or its description and where to find values.
    fn cure(&self, path: &str, given: &Value) -> String {
        let name = path.split('.').next().unwrap_or(path);
        let Some(property) = self.properties().get(name) else {
            return format!("it takes: {}", self.joined_names());
        };
        let words = self.enum_values(name);
        if words.is_empty() {
            let about = property["description"].as_str().map_or_else(|| type_text(property), str::to_owned);
            let source = VALUE_SOURCES.iter().find(|(of, _)| *of == name);
            let source = source.map(|(_, source)| format!("; {source}")).unwrap_or_default();
            return format!("`{name}`: {about}{source}");
        }
        let near = given.as_str().and_then(|given| nearest(given, words.iter().copied()));
        let near = near.map(|near| format!("did you mean `{near}`? ")).unwrap_or_default();
        format!("{near}`{name}` is one of: {}", words.join(", "))
    }

    /// The schemas of the arguments by name.
    fn properties(&self) -> &Map<String, Value> {
        self.schema.get("properties").and_then(Value::as_object).expect("arguments have properties")
    }

    /// The names of all arguments, joined with commas.
    fn joined_names(&self) -> String {
        self.properties().keys().map(String::as_str).collect::<Vec<_>>().join(", ")
    }
}

/// Whether a field of this name stands in every plan, so that the plan's fields were given as arguments.
fn is_of_a_plan(name: &str) -> bool {
    matches!(name, "name" | "steps" | "policy")
}

/// The JSON type that a property's schema asks for, in words: `a whole number`, `text or a list`.
fn type_text(property: &Value) -> String {
    let type_name = |kind: &Value| match kind["type"].as_str() {
        Some("string") => "text",
        Some("integer") => "a whole number",
        Some("number") => "a number",
        Some("boolean") => "true or false",
        Some("array") => "a list",
        Some("object") => "an object",
        Some(_) | None => "any value",
    };
    match property["anyOf"].as_array() {
        Some(kinds) => kinds.iter().map(type_name).collect::<Vec<_>>().join(" or "),
        None => type_name(property).to_owned(),
    }
}

/// An error about the argument at this path.
fn argument_error(path: &str, code: AgentErrorCode, message: String, cure: String) -> Error {
    AgentError::new(code, message, cure).with_path(path).into()
}

/// Removes what tells a model nothing from a generated schema, because schemas fill its context.
fn strip_schema(schema: &mut Value) {
    match schema {
        Value::Object(object) => {
            for keyword in ["title", "format", "minimum", "maximum"] {
                object.remove(keyword);
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
            unwrap_nullable(object);
            for (name, value) in object.iter_mut() {
                match (name.as_str(), value) {
                    // The keys of `properties` are argument names, not keywords.
                    ("properties", Value::Object(properties)) => {
                        properties.values_mut().for_each(|property| {
                            ensure_type(property);
                            strip_schema(property);
                        });
                    }
                    (_, value) => strip_schema(value),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(strip_schema),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Gives an untyped property a type: clients that convert schemas to a narrower dialect need one.
fn ensure_type(property: &mut Value) {
    if *property == Value::Bool(true) {
        *property = json!({});
    }
    let Value::Object(property) = property else { return };
    let is_typed =
        ["type", "anyOf", "enum", "const", "$ref"].iter().any(|keyword| property.contains_key(*keyword));
    if !is_typed {
        property.insert("anyOf".to_owned(), json!([{ "type": "object" }, { "type": "string" }]));
    }
}

/// Replaces `anyOf: [X, null]` by X: an optional argument is left out rather than null.
fn unwrap_nullable(object: &mut Map<String, Value>) {
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
