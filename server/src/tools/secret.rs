//! Values that must not be seen: taken from the environment at the last moment, handed to a child
//! process, and struck out of everything that comes back.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use serde_json::Value;

use super::Ended;
use super::environment::is_basic;
use super::literal::literals;
use crate::config::{Config, Part, Shape, Template, is_secret_name};

pub const REDACTED: &str = "[redacted]";
/// Shorter values would strike out half of every text.
const SECRET_CHARS_MIN: usize = 4;
/// A value that is not under a usual name is refused in a plan from this length on: a shorter one is a word of the
/// language as often as it is a secret.
const REFUSED_CHARS_MIN: usize = 8;
/// Beside the basic variables: what describes the machine is part of ordinary paths and answers.
const NOT_SECRET: [&str; 2] = ["PWD", "HOSTNAME"];

/// Text that prints as `[redacted]`.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text itself, for the one place that must hand it on.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(REDACTED)
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(REDACTED)
    }
}

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unresolved {
    #[error("the environment variable {0} is not set")]
    Unset(String),
    #[error("the call has no argument `{0}`")]
    NoArgument(String),
    #[error("`${{{0}}}` means nothing to Actbook; use ${{env:NAME}}")]
    Foreign(String),
}

/// One spelling of a value that must not be seen.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Known {
    text: String,
    /// Whose value it is, for a refusal: `the environment variable X`.
    of: Arc<str>,
    /// A plan that holds it is refused.
    refused: bool,
}

/// Whatever any `Secrets` of this process has learned. A library logs what it likes, wherever it runs.
static EVER_KNOWN: RwLock<Vec<Known>> = RwLock::new(Vec::new());

/// Strikes out of a line of the log whatever this process knows to be secret.
pub fn redact_log(line: &mut String) {
    strike_out(&EVER_KNOWN, line);
}

fn strike_out(known: &RwLock<Vec<Known>>, text: &mut String) {
    for secret in known.read().unwrap_or_else(PoisonError::into_inner).iter() {
        if text.contains(secret.text.as_str()) {
            *text = text.replace(secret.text.as_str(), REDACTED);
        }
    }
}

/// A secret as it stands, and as it is written in JSON, in JSON inside JSON (a log quotes what it shows),
/// in JSON that is all ASCII, between single quotes, and in an address.
fn forms(value: &str) -> Vec<String> {
    let json = |text: &str| {
        let quoted = Value::from(text).to_string();
        quoted[1..quoted.len() - 1].to_owned()
    };
    let ascii = |text: &str| -> String { text.chars().flat_map(ascii_only).collect() };
    let once = json(value);
    let percent: String = value.bytes().flat_map(percent_encoded).collect();
    let repr = value.replace('\\', "\\\\");
    let mut forms =
        vec![value.to_owned(), repr, json(&once), ascii(&once), json(&ascii(&once)), percent, once];
    forms.sort();
    forms.dedup();
    forms
}

fn ascii_only(c: char) -> Vec<char> {
    match c.is_ascii() {
        true => vec![c],
        false => c.encode_utf16(&mut [0; 2]).iter().flat_map(|unit| escaped(*unit)).collect(),
    }
}

fn escaped(unit: u16) -> Vec<char> {
    format!("\\u{unit:04x}").chars().collect()
}

fn percent_encoded(byte: u8) -> Vec<char> {
    match byte {
        b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => vec![char::from(byte)],
        other => format!("%{other:02X}").chars().collect(),
    }
}

type Lookup = dyn Fn(&str) -> Option<String> + Send + Sync;

/// Where `${env:NAME}` comes from, and every value that ever came from there.
#[derive(Clone)]
pub struct Secrets {
    environment: Arc<Lookup>,
    /// Longest first, so that a secret inside another does not leave the rest of it standing.
    known: Arc<RwLock<Vec<Known>>>,
}

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Secrets").finish_non_exhaustive()
    }
}

impl Secrets {
    pub fn new(environment: impl Fn(&str) -> Option<String> + Send + Sync + 'static) -> Self {
        Self { environment: Arc::new(environment), known: Arc::default() }
    }

    /// Learns beforehand what the config refers to, so that arguments can be struck out before any
    /// server has been started. What is not set is no error here.
    pub fn learn(&self, config: &Config) {
        if let Some(names) = config.withheld.as_ref().and_then(|withheld| withheld.names.as_deref()) {
            self.learn(names);
        }
        let referred = config.templates().into_iter().flat_map(Template::variables);
        for name in referred.chain(config.inherited_variables()) {
            if let Some(value) = (self.environment)(name) {
                self.remember(name, &value);
            }
        }
        for (name, value) in literals(config) {
            self.remember_as(&format!("`{name}` in the config"), &name, &value);
        }
    }

    fn remember(&self, name: &str, value: &str) {
        if !is_basic(name) && !NOT_SECRET.contains(&name) {
            self.remember_as(&format!("the environment variable {name}"), name, value);
        }
    }

    fn remember_as(&self, of: &str, name: &str, value: &str) {
        if value.chars().count() < SECRET_CHARS_MIN {
            return;
        }
        let (of, refused) = (Arc::from(of), is_secret_name(name) || !is_common(value));
        let forms = forms(value).into_iter().map(|text| Known { text, of: Arc::clone(&of), refused });
        let forms: Vec<Known> = forms.collect();
        for list in [self.known.as_ref(), &EVER_KNOWN] {
            let mut known = list.write().unwrap_or_else(PoisonError::into_inner);
            known.extend(forms.iter().cloned());
            known.sort_by(|one, other| other.text.len().cmp(&one.text.len()).then_with(|| one.cmp(other)));
            known.dedup();
        }
    }

    /// The first text that holds a secret: its path, as in `steps[0].arguments.key`, and whose value it holds.
    pub fn find(&self, value: &Value) -> Option<(String, Arc<str>)> {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        let refused: Vec<&Known> = known.iter().filter(|known| known.refused).collect();
        if refused.is_empty() { None } else { find_in(&refused, value, "") }
    }

    /// Fills a template in. An unset variable is an error that names it, never text.
    pub fn resolve(&self, template: &Template, arguments: &Value) -> Result<Secret, Unresolved> {
        let mut text = String::new();
        for part in &template.parts {
            match part {
                Part::Text(part) => text.push_str(part),
                Part::Argument(path) => text.push_str(&argument_text(arguments, path)?),
                Part::Foreign(inner) => return Err(Unresolved::Foreign(inner.clone())),
                Part::Environment { name, default } => match ((self.environment)(name), default) {
                    (Some(value), _) => {
                        self.remember(name, &value);
                        text.push_str(&value);
                    }
                    (None, Some(default)) => text.push_str(default),
                    (None, None) => return Err(Unresolved::Unset(name.clone())),
                },
            }
        }
        Ok(Secret(text))
    }

    /// The variables without a default that these texts refer to and that are not set.
    pub fn unset_in(&self, templates: &[&Template]) -> Vec<String> {
        let parts = templates.iter().flat_map(|template| &template.parts);
        let unset = parts.filter_map(|part| match part {
            Part::Environment { name, default: None } => {
                Some(name).filter(|name| (self.environment)(name).is_none())
            }
            Part::Environment { default: Some(_), .. }
            | Part::Text(_)
            | Part::Argument(_)
            | Part::Foreign(_) => None,
        });
        unset.cloned().collect::<BTreeSet<_>>().into_iter().collect()
    }

    /// The same for a whole value. A text that is one reference to an argument keeps that argument's type.
    pub fn resolve_shape(&self, shape: &Shape, arguments: &Value) -> Result<Value, Unresolved> {
        match shape {
            Shape::Text(template) => match template.parts.as_slice() {
                [Part::Argument(path)] => argument(arguments, path).cloned(),
                _ => Ok(Value::from(self.resolve(template, arguments)?.expose())),
            },
            Shape::List(items) => items.iter().map(|item| self.resolve_shape(item, arguments)).collect(),
            Shape::Map(entries) => {
                let fill = |(name, item): (&String, &Shape)| {
                    Ok((name.clone(), self.resolve_shape(item, arguments)?))
                };
                entries.iter().map(fill).collect()
            }
            Shape::Plain(value) => Ok(value.clone()),
        }
    }

    pub fn redact_text(&self, text: &mut String) {
        strike_out(&self.known, text);
    }

    /// Whether no value is known yet.
    pub fn is_empty(&self) -> bool {
        self.known.read().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    pub fn redact(&self, value: &mut Value) {
        if !self.is_empty() {
            self.redact_inside(value);
        }
    }

    fn redact_inside(&self, value: &mut Value) {
        match value {
            Value::String(text) => self.redact_text(text),
            Value::Array(items) => items.iter_mut().for_each(|item| self.redact_inside(item)),
            Value::Object(entries) => {
                for (mut name, mut item) in std::mem::take(entries) {
                    self.redact_text(&mut name);
                    self.redact_inside(&mut item);
                    entries.insert(name, item);
                }
            }
            Value::Number(number) => {
                let mut text = number.to_string();
                self.redact_text(&mut text);
                if text == REDACTED {
                    *value = Value::String(text);
                }
            }
            Value::Null | Value::Bool(_) => {}
        }
    }
}

/// A short value, a word in small letters or a number: more plans hold it by chance than because somebody copied it.
fn is_common(value: &str) -> bool {
    let is_word = value.chars().all(|c| c.is_ascii_lowercase()) || value.chars().all(|c| c.is_ascii_digit());
    is_word || value.chars().count() < REFUSED_CHARS_MIN
}

fn find_in(known: &[&Known], value: &Value, path: &str) -> Option<(String, Arc<str>)> {
    let holds = |text: &str| {
        let found = known.iter().find(|known| text.contains(known.text.as_str()))?;
        Some((path.to_owned(), Arc::clone(&found.of)))
    };
    match value {
        Value::String(text) => holds(text),
        Value::Number(number) => holds(&number.to_string()),
        Value::Array(items) => {
            let mut items = items.iter().enumerate();
            items.find_map(|(index, item)| find_in(known, item, &format!("{path}[{index}]")))
        }
        Value::Object(entries) => entries.iter().find_map(|(name, item)| {
            let inner = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
            // A name that holds a secret is not repeated as a path.
            holds(name).or_else(|| find_in(known, item, &inner))
        }),
        Value::Null | Value::Bool(_) => None,
    }
}

fn argument<'a>(arguments: &'a Value, path: &[String]) -> Result<&'a Value, Unresolved> {
    let missing = || Unresolved::NoArgument(path.join("."));
    path.iter().try_fold(arguments, |value, name| value.get(name)).ok_or_else(missing)
}

/// Text as it is; anything else as JSON. Never more than one word of the command line.
pub fn argument_text(arguments: &Value, path: &[String]) -> Result<String, Unresolved> {
    match argument(arguments, path)? {
        Value::Null => Err(Unresolved::NoArgument(path.join("."))),
        Value::String(text) => Ok(text.clone()),
        value @ (Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_)) => {
            Ok(value.to_string())
        }
    }
}

impl Secrets {
    /// Strikes every known secret out of a call's end.
    pub fn redacted(&self, ended: Ended) -> Ended {
        match ended {
            Ended::Succeeded { mut output } => {
                self.redact(&mut output);
                Ended::Succeeded { output }
            }
            Ended::Failed { category, mut message, sent, mut output, retry_after } => {
                self.redact_text(&mut message);
                output.iter_mut().for_each(|output| self.redact(output));
                Ended::Failed { category, message, sent, output, retry_after }
            }
            Ended::Unknown { category, mut message, retry_after } => {
                self.redact_text(&mut message);
                Ended::Unknown { category, message, retry_after }
            }
            Ended::Asks { mut question, began } => {
                self.redact(&mut question);
                Ended::Asks { question, began }
            }
        }
    }
}
