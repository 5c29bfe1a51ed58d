//! Text with `${…}` in it, taken apart when the config is read and filled in when a call needs it.
//! Knows the spellings of a reference; where the values come from is the business of `tools`.

use std::collections::BTreeMap;

use serde_json::Value;

/// Which references a place in the config understands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// `${env:NAME}`, and `${NAME}`, `${NAME:-default}` as clients write them.
    Client,
    /// `${env:NAME}`.
    Environment,
    /// `${env:NAME}`, `${arguments}` and `${arguments.a.b}`.
    Call,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template {
    /// As written; holds no secret unless the author wrote one down.
    pub source: String,
    pub parts: Vec<Part>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    Text(String),
    Environment {
        name: String,
        default: Option<String>,
    },
    /// The path into the call's arguments; empty for all of them.
    Argument(Vec<String>),
    /// A reference of another client that has no meaning here; an error only when it is needed, so
    /// that a pasted block with one such server still loads.
    Foreign(String),
}

impl Template {
    /// `$${` stands for a literal `${`.
    pub fn parse(source: &str, scope: Scope) -> Result<Self, String> {
        let mut parts = Vec::new();
        let mut text = String::new();
        let mut rest = source;
        while let Some(at) = rest.find("${") {
            if rest[..at].ends_with('$') {
                text.push_str(&rest[..at - 1]);
                text.push_str("${");
                rest = &rest[at + 2..];
                continue;
            }
            text.push_str(&rest[..at]);
            let inner = &rest[at + 2..];
            let end = inner.find('}').ok_or_else(|| format!("`{source}` opens `${{` and never closes it"))?;
            if !text.is_empty() {
                parts.push(Part::Text(std::mem::take(&mut text)));
            }
            parts.push(reference(&inner[..end], scope)?);
            rest = &inner[end + 1..];
        }
        text.push_str(rest);
        if !text.is_empty() {
            parts.push(Part::Text(text));
        }
        Ok(Self { source: source.to_owned(), parts })
    }

    /// The environment variables that it refers to.
    pub fn variables(&self) -> impl Iterator<Item = &str> {
        self.parts.iter().filter_map(|part| match part {
            Part::Environment { name, .. } => Some(name.as_str()),
            Part::Text(_) | Part::Argument(_) | Part::Foreign(_) => None,
        })
    }

    pub fn reads_arguments(&self) -> bool {
        self.parts.iter().any(|part| matches!(part, Part::Argument(_)))
    }
}

/// A JSON value whose texts are templates.
#[derive(Clone, Debug, PartialEq)]
pub enum Shape {
    Text(Template),
    List(Vec<Shape>),
    Map(BTreeMap<String, Shape>),
    Plain(Value),
}

impl Shape {
    pub fn parse(value: &Value, scope: Scope) -> Result<Self, String> {
        Ok(match value {
            Value::String(text) => Self::Text(Template::parse(text, scope)?),
            Value::Array(items) => {
                let parsed = items.iter().map(|item| Self::parse(item, scope));
                Self::List(parsed.collect::<Result<_, _>>()?)
            }
            Value::Object(entries) => {
                let parsed = entries.iter().map(|(name, item)| Ok((name.clone(), Self::parse(item, scope)?)));
                Self::Map(parsed.collect::<Result<_, String>>()?)
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => Self::Plain(value.clone()),
        })
    }

    pub fn templates(&self) -> Vec<&Template> {
        match self {
            Self::Text(template) => vec![template],
            Self::List(items) => items.iter().flat_map(Self::templates).collect(),
            Self::Map(entries) => entries.values().flat_map(Self::templates).collect(),
            Self::Plain(_) => Vec::new(),
        }
    }

    /// As written.
    pub fn source(&self) -> Value {
        match self {
            Self::Text(template) => Value::from(template.source.as_str()),
            Self::List(items) => items.iter().map(Self::source).collect(),
            Self::Map(entries) => entries.iter().map(|(name, item)| (name.clone(), item.source())).collect(),
            Self::Plain(value) => value.clone(),
        }
    }
}

fn reference(inner: &str, scope: Scope) -> Result<Part, String> {
    if let Some(variable) = inner.strip_prefix("env:") {
        let part = environment(variable);
        return part.ok_or_else(|| format!("`${{{inner}}}` names no environment variable"));
    }
    match scope {
        Scope::Client => Ok(environment(inner).unwrap_or_else(|| Part::Foreign(inner.to_owned()))),
        Scope::Call if inner == "arguments" => Ok(Part::Argument(Vec::new())),
        Scope::Call if inner.starts_with("arguments.") => argument(inner),
        Scope::Call => {
            Err(format!("`${{{inner}}}` is unknown here; there are ${{arguments.…}} and ${{env:…}}"))
        }
        Scope::Environment => Err(format!("`${{{inner}}}` is unknown here; there is ${{env:…}}")),
    }
}

fn environment(variable: &str) -> Option<Part> {
    let (name, default) = match variable.split_once(":-") {
        Some((name, default)) => (name, Some(default.to_owned())),
        None => (variable, None),
    };
    let starts_well = name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_');
    let well_formed = starts_well && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    well_formed.then(|| Part::Environment { name: name.to_owned(), default })
}

fn argument(inner: &str) -> Result<Part, String> {
    let path: Vec<String> = inner.split('.').skip(1).map(str::to_owned).collect();
    match path.iter().any(String::is_empty) {
        true => Err(format!("`${{{inner}}}` has an empty name in it")),
        false => Ok(Part::Argument(path)),
    }
}
