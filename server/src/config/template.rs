//! Texts with `${…}` references, parsed when the config is read and filled in when a call needs them. This
//! module knows the syntax of references; `tools` knows where the values come from.

use std::collections::BTreeMap;

use serde_json::Value;

/// Which references a text in the config may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReferenceScope {
    /// `${env:NAME}`, and `${NAME}` and `${NAME:-default}` as other clients write them.
    Client,
    /// `${env:NAME}`.
    Environment,
    /// `${env:NAME}`, `${arguments}` and `${arguments.a.b}`.
    Call,
}

/// A text with references.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigTemplate {
    /// As written; it holds a secret only if its author wrote one literally.
    pub source: String,
    pub parts: Vec<TemplatePart>,
}

/// A literal or a reference in a template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TemplatePart {
    Text(String),
    Environment {
        name: String,
        default: Option<String>,
    },
    /// The path into the call's arguments; empty for all of them.
    Argument(Vec<String>),
    /// A reference that only another client understands. It is an error only when it is needed, so that a
    /// pasted block with one such server still loads.
    Foreign(String),
}

impl ConfigTemplate {
    /// Parses a text; `$${` is a literal `${`. `Err`: a reference is malformed or not allowed in this scope.
    pub fn parse(source: &str, scope: ReferenceScope) -> Result<Self, String> {
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
                parts.push(TemplatePart::Text(std::mem::take(&mut text)));
            }
            parts.push(parse_reference(&inner[..end], scope)?);
            rest = &inner[end + 1..];
        }
        text.push_str(rest);
        if !text.is_empty() {
            parts.push(TemplatePart::Text(text));
        }
        Ok(Self { source: source.to_owned(), parts })
    }

    /// The environment variables that the text refers to.
    pub fn variables(&self) -> impl Iterator<Item = &str> {
        self.parts.iter().filter_map(|part| match part {
            TemplatePart::Environment { name, .. } => Some(name.as_str()),
            TemplatePart::Text(_) | TemplatePart::Argument(_) | TemplatePart::Foreign(_) => None,
        })
    }

    /// Whether the text refers to the call's arguments.
    pub fn reads_arguments(&self) -> bool {
        self.parts.iter().any(|part| matches!(part, TemplatePart::Argument(_)))
    }
}

/// A JSON value whose strings are templates.
#[derive(Clone, Debug, PartialEq)]
pub enum JsonTemplate {
    Text(ConfigTemplate),
    List(Vec<JsonTemplate>),
    Map(BTreeMap<String, JsonTemplate>),
    Plain(Value),
}

impl JsonTemplate {
    pub fn parse(value: &Value, scope: ReferenceScope) -> Result<Self, String> {
        Ok(match value {
            Value::String(text) => Self::Text(ConfigTemplate::parse(text, scope)?),
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

    /// All templates in the value.
    pub fn templates(&self) -> Vec<&ConfigTemplate> {
        match self {
            Self::Text(template) => vec![template],
            Self::List(items) => items.iter().flat_map(Self::templates).collect(),
            Self::Map(entries) => entries.values().flat_map(Self::templates).collect(),
            Self::Plain(_) => Vec::new(),
        }
    }

    /// The value as written in the config.
    pub fn source(&self) -> Value {
        match self {
            Self::Text(template) => Value::from(template.source.as_str()),
            Self::List(items) => items.iter().map(Self::source).collect(),
            Self::Map(entries) => entries.iter().map(|(name, item)| (name.clone(), item.source())).collect(),
            Self::Plain(value) => value.clone(),
        }
    }
}

/// Parses what stands between `${` and `}`.
fn parse_reference(inner: &str, scope: ReferenceScope) -> Result<TemplatePart, String> {
    if let Some(variable) = inner.strip_prefix("env:") {
        let part = parse_variable(variable);
        return part.ok_or_else(|| format!("`${{{inner}}}` names no environment variable"));
    }
    match scope {
        ReferenceScope::Client => {
            Ok(parse_variable(inner).unwrap_or_else(|| TemplatePart::Foreign(inner.to_owned())))
        }
        ReferenceScope::Call if inner == "arguments" => Ok(TemplatePart::Argument(Vec::new())),
        ReferenceScope::Call if inner.starts_with("arguments.") => parse_argument_path(inner),
        ReferenceScope::Call => {
            Err(format!("`${{{inner}}}` is unknown here; there are ${{arguments.…}} and ${{env:…}}"))
        }
        ReferenceScope::Environment => Err(format!("`${{{inner}}}` is unknown here; there is ${{env:…}}")),
    }
}

/// Parses `NAME` or `NAME:-default`; None: the name is malformed.
fn parse_variable(variable: &str) -> Option<TemplatePart> {
    let (name, default) = match variable.split_once(":-") {
        Some((name, default)) => (name, Some(default.to_owned())),
        None => (variable, None),
    };
    let starts_well = name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_');
    let well_formed = starts_well && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    well_formed.then(|| TemplatePart::Environment { name: name.to_owned(), default })
}

/// Parses `arguments.a.b`.
fn parse_argument_path(inner: &str) -> Result<TemplatePart, String> {
    let path: Vec<String> = inner.split('.').skip(1).map(str::to_owned).collect();
    if path.iter().any(String::is_empty) {
        return Err(format!("`${{{inner}}}` has an empty name in it"));
    }
    Ok(TemplatePart::Argument(path))
}
