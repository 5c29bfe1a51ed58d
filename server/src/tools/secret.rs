//! Secrets: values read from the environment when a call needs them, and redacted from everything that is
//! returned, stored or logged.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use parking_lot::RwLock;
use serde_json::Value;

use super::CallOutcome;
use super::config_secrets::find_config_secrets;
use super::environment::is_basic;
use crate::config::{Config, ConfigTemplate, JsonTemplate, TemplatePart, is_secret_name};

/// Stands in the place of a secret.
pub const REDACTED: &str = "[redacted]";
/// Shorter values are not redacted: they occur in ordinary text.
const SECRET_CHARS_MIN: usize = 4;
/// A line of a secret of several lines is redacted by itself if it is at least this long.
const SECRET_LINE_CHARS_MIN: usize = 8;
/// How the first and the last line of a key file begin; they are the same in all of them.
const KEY_FILE_MARK: &str = "-----";
/// Plans may contain a shorter value unless its name says that it is a secret: it may be an ordinary word.
const REFUSED_CHARS_MIN: usize = 8;
/// Variables that hold no secret, beside the basic ones: their values are part of ordinary paths and outputs.
const NON_SECRET_VARIABLES: [&str; 2] = ["PWD", "HOSTNAME"];

/// Text that prints as `[redacted]`, also with `Debug`.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text itself, for the code that passes it to the tool.
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

/// A `${…}` reference that cannot be resolved.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnresolvedReference {
    #[error("the environment variable {0} is not set")]
    UnsetVariable(String),
    #[error("the call has no argument `{0}`")]
    MissingArgument(String),
    #[error("`${{{0}}}` is unknown to Actbook; use ${{env:NAME}}")]
    UnknownReference(String),
}

/// One encoding of a secret value, or of a line of it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct KnownSecret {
    text: String,
    /// Where the value comes from, for error messages: `the environment variable X`.
    origin: Arc<str>,
    /// Whether a plan that contains it is refused.
    refused_in_plans: bool,
}

/// All secrets that any `Secrets` of this process has learned: log lines of libraries cannot be attributed to
/// one.
static PROCESS_SECRETS: RwLock<Vec<KnownSecret>> = RwLock::new(Vec::new());

/// Redacts every secret that this process has learned from a log line.
pub fn redact_log_line(line: &mut String) {
    redact_known(&PROCESS_SECRETS, line, |_| true);
}

/// Replaces every known secret that passes `filter` in `text` with `REDACTED`. `known` has the longest first.
fn redact_known(known: &RwLock<Vec<KnownSecret>>, text: &mut String, filter: fn(&KnownSecret) -> bool) {
    for secret in known.read().iter().filter(|known| filter(known)) {
        secret.replace_in(text, REDACTED);
    }
}

impl KnownSecret {
    /// Replaces the secret wherever it stands in the text.
    fn replace_in(&self, text: &mut String, replacement: &str) {
        if text.contains(self.text.as_str()) {
            *text = text.replace(self.text.as_str(), replacement);
        }
    }
}

/// The lines of a value that are redacted by themselves; none if the value has only one line.
fn secret_lines(value: &str) -> impl Iterator<Item = &str> {
    let lines = value.contains('\n').then(|| value.lines().map(str::trim)).into_iter().flatten();
    lines.filter(|line| line.chars().count() >= SECRET_LINE_CHARS_MIN && !line.starts_with(KEY_FILE_MARK))
}

/// The encodings in which a secret may appear: plain, in JSON, in JSON inside JSON (logs quote values), in
/// ASCII-only JSON, with doubled backslashes as in Python's `repr`, and percent-encoded. No duplicates.
fn encodings(value: &str) -> Vec<String> {
    let json = |text: &str| {
        let quoted = Value::from(text).to_string();
        quoted[1..quoted.len() - 1].to_owned()
    };
    let ascii = |text: &str| -> String { text.chars().flat_map(escape_non_ascii).collect() };
    let once = json(value);
    let percent: String = value.bytes().flat_map(percent_encode_byte).collect();
    let repr = value.replace('\\', "\\\\");
    let mut forms =
        vec![value.to_owned(), repr, json(&once), ascii(&once), json(&ascii(&once)), percent, once];
    forms.sort();
    forms.dedup();
    forms
}

/// The character if it is ASCII, else its `\uXXXX` escapes.
fn escape_non_ascii(c: char) -> Vec<char> {
    if c.is_ascii() {
        vec![c]
    } else {
        c.encode_utf16(&mut [0; 2]).iter().flat_map(|unit| unicode_escape(*unit)).collect()
    }
}

/// The characters of `\uXXXX`.
fn unicode_escape(unit: u16) -> Vec<char> {
    format!("\\u{unit:04x}").chars().collect()
}

/// The character itself if it is unreserved in URLs, else the characters of `%XX`.
fn percent_encode_byte(byte: u8) -> Vec<char> {
    match byte {
        b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => vec![char::from(byte)],
        other => format!("%{other:02X}").chars().collect(),
    }
}

/// Returns the value of an environment variable. None: not set.
type EnvironmentLookup = dyn Fn(&str) -> Option<String> + Send + Sync;

/// Resolves `${env:NAME}` references and redacts every value it has resolved. Clones share the known secrets.
#[derive(Clone)]
pub struct Secrets {
    environment: Arc<EnvironmentLookup>,
    /// Longest first: redacting a secret that is part of another would leave the rest of the longer one
    /// visible.
    known: Arc<RwLock<Vec<KnownSecret>>>,
}

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Secrets").finish_non_exhaustive()
    }
}

impl Secrets {
    /// Knows no secret yet. `environment`: the value of a variable, or None if it is not set.
    pub fn new(environment: impl Fn(&str) -> Option<String> + Send + Sync + 'static) -> Self {
        Self { environment: Arc::new(environment), known: Arc::default() }
    }

    /// Learns the secrets that the config refers to or contains, so that arguments can be redacted before any
    /// server is started. Unset variables are ignored here.
    pub fn learn_config(&self, config: &Config) {
        if let Some(names) = config.withheld.as_ref().and_then(|withheld| withheld.secret_source.as_deref()) {
            self.learn_config(names);
        }
        let referenced = config.templates().into_iter().flat_map(ConfigTemplate::variables);
        for name in referenced.chain(config.inherited_variables()) {
            if let Some(value) = (self.environment)(name) {
                self.remember_variable(name, &value);
            }
        }
        for (name, value) in find_config_secrets(config) {
            self.remember_value(&format!("`{name}` in the config"), &name, &value);
        }
    }

    /// Learns the value of an environment variable, unless the variable is known to hold no secret.
    fn remember_variable(&self, name: &str, value: &str) {
        if !is_basic(name) && !NON_SECRET_VARIABLES.contains(&name) {
            self.remember_value(&format!("the environment variable {name}"), name, value);
        }
    }

    /// Learns a value in all its encodings, and each long line of it: tools return key files line by line.
    /// Ignores a short value. `origin`: where it comes from, for error messages; `name`: decides whether
    /// plans may contain it.
    fn remember_value(&self, origin: &str, name: &str, value: &str) {
        if value.chars().count() < SECRET_CHARS_MIN {
            return;
        }
        let origin: Arc<str> = Arc::from(origin);
        let is_refused = |text: &str| is_secret_name(name) || !is_common_value(text);
        // A line with a space in it, as of a config file, may be an ordinary one; plans may contain it.
        let lines = secret_lines(value).map(|line| (line, is_refused(line) && !line.contains(' ')));
        let texts = [(value, is_refused(value))].into_iter().chain(lines);
        let learned = texts.flat_map(|(text, refused_in_plans)| {
            let origin = Arc::clone(&origin);
            let known = move |text| KnownSecret { text, origin: Arc::clone(&origin), refused_in_plans };
            encodings(text).into_iter().map(known)
        });
        let learned: Vec<KnownSecret> = learned.collect();
        for list in [self.known.as_ref(), &PROCESS_SECRETS] {
            let mut known = list.write();
            known.extend(learned.iter().cloned());
            known.sort_by(|one, other| other.text.len().cmp(&one.text.len()).then_with(|| one.cmp(other)));
            known.dedup();
        }
    }

    /// Finds the first text with a secret that plans must not contain: its path, as in
    /// `steps[0].arguments.key`, and the secret's origin, for error messages. `None`: there is none.
    pub fn find_secret(&self, value: &Value) -> Option<(String, Arc<str>)> {
        let known = self.known.read();
        let refused: Vec<&KnownSecret> = known.iter().filter(|known| known.refused_in_plans).collect();
        if refused.is_empty() { None } else { find_secret_in(&refused, value, "") }
    }

    /// Fills in a template, and learns the values of the variables. Err: an unset variable without a default,
    /// a missing argument, or an unknown reference.
    pub fn resolve(
        &self,
        template: &ConfigTemplate,
        arguments: &Value,
    ) -> Result<Secret, UnresolvedReference> {
        let mut text = String::new();
        for part in &template.parts {
            match part {
                TemplatePart::Text(part) => text.push_str(part),
                TemplatePart::Argument(path) => text.push_str(&argument_text(arguments, path)?),
                TemplatePart::Foreign(inner) => {
                    return Err(UnresolvedReference::UnknownReference(inner.clone()));
                }
                TemplatePart::Environment { name, default } => match ((self.environment)(name), default) {
                    (Some(value), _) => {
                        self.remember_variable(name, &value);
                        text.push_str(&value);
                    }
                    (None, Some(default)) => text.push_str(default),
                    (None, None) => return Err(UnresolvedReference::UnsetVariable(name.clone())),
                },
            }
        }
        Ok(Secret(text))
    }

    /// The unset variables, without a default, that these templates refer to; sorted.
    pub fn unset_variables(&self, templates: &[&ConfigTemplate]) -> Vec<String> {
        let parts = templates.iter().flat_map(|template| &template.parts);
        let unset = parts.filter_map(|part| match part {
            TemplatePart::Environment { name, default: None } => {
                Some(name).filter(|name| (self.environment)(name).is_none())
            }
            TemplatePart::Environment { default: Some(_), .. }
            | TemplatePart::Text(_)
            | TemplatePart::Argument(_)
            | TemplatePart::Foreign(_) => None,
        });
        unset.cloned().collect::<BTreeSet<_>>().into_iter().collect()
    }

    /// Fills in a JSON value of templates. A text that is only a reference to an argument keeps the
    /// argument's type. Err: as `resolve`.
    pub fn resolve_value(
        &self,
        shape: &JsonTemplate,
        arguments: &Value,
    ) -> Result<Value, UnresolvedReference> {
        match shape {
            JsonTemplate::Text(template) => {
                if let [TemplatePart::Argument(path)] = template.parts.as_slice() {
                    return argument_at(arguments, path).cloned();
                }
                Ok(Value::from(self.resolve(template, arguments)?.expose()))
            }
            JsonTemplate::List(items) => {
                items.iter().map(|item| self.resolve_value(item, arguments)).collect()
            }
            JsonTemplate::Map(entries) => {
                let fill = |(name, item): (&String, &JsonTemplate)| {
                    Ok((name.clone(), self.resolve_value(item, arguments)?))
                };
                entries.iter().map(fill).collect()
            }
            JsonTemplate::Plain(value) => Ok(value.clone()),
        }
    }

    /// Replaces every known secret in the text.
    pub fn redact_text(&self, text: &mut String) {
        redact_known(&self.known, text, |_| true);
    }

    /// Replaces the known secrets that plans must not contain. For names: a name that is an ordinary word
    /// stays readable although a variable happens to have the same value.
    pub fn redact_name(&self, name: &mut String) {
        redact_known(&self.known, name, |known| known.refused_in_plans);
    }

    /// The value with the source of each known secret in the secret's place: it tells apart what looks the same once it
    /// is redacted, and holds no secret. `None`: the value has none.
    pub fn name_sources(&self, value: &Value) -> Option<Value> {
        let mut named = value.clone();
        replace_nested(&mut named, &self.known.read(), |secret| &secret.origin);
        (named != *value).then_some(named)
    }

    /// Whether no secret is known yet.
    pub fn is_empty(&self) -> bool {
        self.known.read().is_empty()
    }

    /// Replaces every known secret in the value, object keys and numbers included.
    pub fn redact(&self, value: &mut Value) {
        if !self.is_empty() {
            replace_nested(value, &self.known.read(), |_| REDACTED);
        }
    }
}

/// Replaces the known secrets in every text of the value, object keys included; `with` gives the text for a secret. A
/// number that is a secret becomes a text.
fn replace_nested(value: &mut Value, known: &[KnownSecret], with: fn(&KnownSecret) -> &str) {
    let replace = |text: &mut String| known.iter().for_each(|secret| secret.replace_in(text, with(secret)));
    match value {
        Value::String(text) => replace(text),
        Value::Array(items) => items.iter_mut().for_each(|item| replace_nested(item, known, with)),
        Value::Object(entries) => {
            for (mut name, mut item) in std::mem::take(entries) {
                replace(&mut name);
                replace_nested(&mut item, known, with);
                entries.insert(name, item);
            }
        }
        Value::Number(number) => {
            let text = number.to_string();
            if let Some(secret) = known.iter().find(|known| known.text == text) {
                *value = Value::from(with(secret));
            }
        }
        Value::Null | Value::Bool(_) => {}
    }
}

/// Whether the value is short, a lowercase word or a number: plans contain such values by chance.
fn is_common_value(value: &str) -> bool {
    let is_word = value.chars().all(|c| c.is_ascii_lowercase()) || value.chars().all(|c| c.is_ascii_digit());
    is_word || value.chars().count() < REFUSED_CHARS_MIN
}

/// The path and origin of the first of these secrets in `value`; paths begin with `path`. None: there is
/// none.
fn find_secret_in(known: &[&KnownSecret], value: &Value, path: &str) -> Option<(String, Arc<str>)> {
    let holds = |text: &str| {
        let found = known.iter().find(|known| text.contains(known.text.as_str()))?;
        Some((path.to_owned(), Arc::clone(&found.origin)))
    };
    match value {
        Value::String(text) => holds(text),
        Value::Number(number) => holds(&number.to_string()),
        Value::Array(items) => {
            let mut items = items.iter().enumerate();
            items.find_map(|(index, item)| find_secret_in(known, item, &format!("{path}[{index}]")))
        }
        Value::Object(entries) => entries.iter().find_map(|(name, item)| {
            let inner = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
            // A key that contains a secret must not become part of the path.
            holds(name).or_else(|| find_secret_in(known, item, &inner))
        }),
        Value::Null | Value::Bool(_) => None,
    }
}

/// The argument at a path of names. Err: there is none.
fn argument_at<'a>(arguments: &'a Value, path: &[String]) -> Result<&'a Value, UnresolvedReference> {
    let missing = || UnresolvedReference::MissingArgument(path.join("."));
    path.iter().try_fold(arguments, |value, name| value.get(name)).ok_or_else(missing)
}

/// The argument at a path of names as text: a string as it is, anything else as JSON. Err: it is missing or
/// null.
pub fn argument_text(arguments: &Value, path: &[String]) -> Result<String, UnresolvedReference> {
    match argument_at(arguments, path)? {
        Value::Null => Err(UnresolvedReference::MissingArgument(path.join("."))),
        Value::String(text) => Ok(text.clone()),
        value @ (Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_)) => {
            Ok(value.to_string())
        }
    }
}

impl Secrets {
    /// Redacts the output, the message and the question of an outcome.
    pub fn redact_outcome(&self, outcome: CallOutcome) -> CallOutcome {
        match outcome {
            CallOutcome::Succeeded { mut output } => {
                self.redact(&mut output);
                CallOutcome::Succeeded { output }
            }
            CallOutcome::Failed { category, mut message, sent, mut output, retry_after } => {
                self.redact_text(&mut message);
                output.iter_mut().for_each(|output| self.redact(output));
                CallOutcome::Failed { category, message, sent, output, retry_after }
            }
            CallOutcome::Unknown { category, mut message, retry_after } => {
                self.redact_text(&mut message);
                CallOutcome::Unknown { category, message, retry_after }
            }
            CallOutcome::InputRequired { mut question, began } => {
                self.redact(&mut question);
                CallOutcome::InputRequired { question, began }
            }
        }
    }
}
