//! One mapping of the config, from which known keys are taken one by one; a key that is left at the end is
//! unknown and is refused with its path. It knows the types of values, not their meaning.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use actbook_engine::plan::parse_duration_ms;
use actbook_engine::policy::ErrorCategory;
use actbook_engine::spelling::nearest;
use serde_json::{Map, Value};

use super::inherit::{self, InheritEnv};
use super::{ConfigProblem, ConfigTemplate, JsonTemplate, RateConfig, ReferenceScope, Schema, UnknownWord};

/// The rate limiter remembers each call of a period, so their number is limited.
const RATE_CALLS_MAX: u32 = 100_000;

/// A mapping of the config. Its readers take a key: None is an absent key, `Err` a value of the wrong type.
pub(super) struct Section {
    /// The path of the mapping in the config; empty at the top.
    path: String,
    /// The keys that were not taken yet.
    entries: Map<String, Value>,
    /// The keys that were taken or looked for, for suggestions.
    known_keys: Vec<&'static str>,
}

impl Section {
    /// A section from a mapping, or an empty one from null.
    pub fn open(path: &str, value: Value) -> Result<Self, ConfigProblem> {
        match value {
            Value::Object(entries) => Ok(Self { path: path.to_owned(), entries, known_keys: Vec::new() }),
            Value::Null => Ok(Self { path: path.to_owned(), entries: Map::new(), known_keys: Vec::new() }),
            other => Err(problem_with(path, format!("must be a mapping, not {}", type_name(&other)))),
        }
    }

    /// A problem with the value at `key`, or with the section itself where `key` is empty.
    pub fn problem_at(&self, key: &str, problem: String) -> ConfigProblem {
        problem_with(&self.path_of(key), problem)
    }

    /// Takes a value of any type; null counts as absent.
    pub fn take_value(&mut self, key: &'static str) -> Option<Value> {
        self.known_keys.push(key);
        self.entries.remove(key).filter(|value| !value.is_null())
    }

    /// Takes a mapping; an absent one is empty.
    pub fn section(&mut self, key: &'static str) -> Result<Section, ConfigProblem> {
        let value = self.take_value(key).unwrap_or(Value::Null);
        Section::open(&self.path_of(key), value)
    }

    pub fn optional_section(&mut self, key: &'static str) -> Result<Option<Section>, ConfigProblem> {
        let path = self.path_of(key);
        self.take_value(key).map(|value| Section::open(&path, value)).transpose()
    }

    pub fn text(&mut self, key: &'static str) -> Result<Option<String>, ConfigProblem> {
        match self.take_value(key) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(other) => Err(self.problem_at(key, format!("must be text, not {}", type_name(&other)))),
        }
    }

    pub fn texts(&mut self, key: &'static str) -> Result<Vec<String>, ConfigProblem> {
        let Some(value) = self.take_value(key) else { return Ok(Vec::new()) };
        serde_json::from_value(value).map_err(|_| self.problem_at(key, "must be a list of texts".into()))
    }

    pub fn inherit_env(&mut self) -> Result<Option<InheritEnv>, ConfigProblem> {
        let Some(value) = self.take_value(inherit::KEY) else { return Ok(None) };
        InheritEnv::parse(&value).map(Some).map_err(|problem| self.problem_at(inherit::KEY, problem))
    }

    /// Takes a JSON value whose strings are templates.
    pub fn json_template(
        &mut self,
        key: &'static str,
        scope: ReferenceScope,
    ) -> Result<Option<JsonTemplate>, ConfigProblem> {
        let Some(value) = self.take_value(key) else { return Ok(None) };
        JsonTemplate::parse(&value, scope).map(Some).map_err(|problem| self.problem_at(key, problem))
    }

    pub fn flag(&mut self, key: &'static str) -> Result<Option<bool>, ConfigProblem> {
        match self.take_value(key) {
            None => Ok(None),
            Some(Value::Bool(flag)) => Ok(Some(flag)),
            Some(other) => {
                Err(self.problem_at(key, format!("must be true or false, not {}", type_name(&other))))
            }
        }
    }

    /// Takes one of these words; None if the key is absent.
    pub fn keyword<T: Copy>(
        &mut self,
        key: &'static str,
        all: &[T],
        text: fn(T) -> &'static str,
    ) -> Result<Option<T>, ConfigProblem> {
        let Some(word) = self.text(key)? else { return Ok(None) };
        if let Some(known) = all.iter().copied().find(|known| text(*known) == word) {
            return Ok(Some(known));
        }
        let names: Vec<&str> = all.iter().map(|known| text(*known)).collect();
        let hint = did_you_mean(&word, names.iter().copied());
        Err(self.problem_at(key, format!("`{word}` is not one of {}{hint}", names.join(", "))))
    }

    /// Takes a list of mappings; an absent one is empty.
    pub fn sections(&mut self, key: &'static str) -> Result<Vec<Section>, ConfigProblem> {
        let path = self.path_of(key);
        match self.take_value(key) {
            None => Ok(Vec::new()),
            Some(Value::Array(items)) => {
                let items = items.into_iter().enumerate();
                items.map(|(index, item)| Section::open(&format!("{path}[{index}]"), item)).collect()
            }
            Some(other) => Err(problem_with(&path, format!("must be a list, not {}", type_name(&other)))),
        }
    }

    /// Takes a whole number above 0.
    pub fn count(&mut self, key: &'static str) -> Result<Option<u32>, ConfigProblem> {
        let Some(value) = self.take_value(key) else { return Ok(None) };
        let count = value.as_u64().and_then(|count| u32::try_from(count).ok()).filter(|count| *count > 0);
        count
            .map(Some)
            .ok_or_else(|| self.problem_at(key, format!("`{value}` is not a whole number above 0")))
    }

    /// Takes a number from 1 to 100.
    pub fn factor(&mut self, key: &'static str) -> Result<Option<f64>, ConfigProblem> {
        let Some(value) = self.take_value(key) else { return Ok(None) };
        let factor = value.as_f64().filter(|factor| (1.0..=100.0).contains(factor));
        factor
            .map(Some)
            .ok_or_else(|| self.problem_at(key, format!("`{value}` is not a number from 1 to 100")))
    }

    /// Takes a duration above 0, such as `250ms` or `5m`.
    pub fn duration(&mut self, key: &'static str) -> Result<Option<Duration>, ConfigProblem> {
        let text = match self.take_value(key) {
            None => return Ok(None),
            Some(Value::String(text)) => text,
            Some(other) => {
                let seconds = other.as_u64().filter(|seconds| *seconds > 0);
                let hint = seconds
                    .map_or_else(|| "250ms, 30s, 5m or 2h".to_owned(), |seconds| format!("{seconds}s"));
                return Err(self.problem_at(key, format!("`{other}` is not a duration; write {hint}")));
            }
        };
        let refused =
            || self.problem_at(key, format!("`{text}` is not a duration; write 250ms, 30s, 5m or 2h"));
        parse_duration_ms(&text).filter(|ms| *ms > 0).map(Duration::from_millis).map(Some).ok_or_else(refused)
    }

    /// Takes a rate: `10/s`, `600/m`, `5000/h`.
    pub fn rate(&mut self, key: &'static str) -> Result<Option<RateConfig>, ConfigProblem> {
        let Some(text) = self.text(key)? else { return Ok(None) };
        let refused = || self.problem_at(key, format!("`{text}` is not a rate; write 10/s, 600/m or 5000/h"));
        let (calls, unit) = text.split_once('/').ok_or_else(refused)?;
        let calls = calls.trim().parse().ok().filter(|calls| (1..=RATE_CALLS_MAX).contains(calls));
        let per = match unit.trim() {
            "s" => Some(Duration::from_secs(1)),
            "m" => Some(Duration::from_secs(60)),
            "h" => Some(Duration::from_secs(3600)),
            _ => None,
        };
        let rate = calls.zip(per).map(|(calls, per)| RateConfig { calls, per });
        rate.map(Some).ok_or_else(refused)
    }

    pub fn categories(
        &mut self,
        key: &'static str,
    ) -> Result<Option<BTreeSet<ErrorCategory>>, ConfigProblem> {
        let Some(value) = self.take_value(key) else { return Ok(None) };
        let parsed = serde_json::from_value(value);
        parsed.map(Some).map_err(|error| self.problem_at(key, error.to_string()))
    }

    pub fn schema(&mut self, key: &'static str) -> Result<Option<Schema>, ConfigProblem> {
        let Some(value) = self.take_value(key) else { return Ok(None) };
        Schema::compile(value).map(Some).map_err(|error| self.problem_at(key, error))
    }

    pub fn template(
        &mut self,
        key: &'static str,
        scope: ReferenceScope,
    ) -> Result<Option<ConfigTemplate>, ConfigProblem> {
        let path = self.path_of(key);
        self.take_value(key).map(|value| read_template(&path, value, scope)).transpose()
    }

    /// Takes a list of templates; an absent one is empty.
    pub fn templates(
        &mut self,
        key: &'static str,
        scope: ReferenceScope,
    ) -> Result<Vec<ConfigTemplate>, ConfigProblem> {
        let path = self.path_of(key);
        let items = match self.take_value(key) {
            None => return Ok(Vec::new()),
            Some(Value::Array(items)) => items,
            Some(other) => {
                return Err(problem_with(&path, format!("must be a list, not {}", type_name(&other))));
            }
        };
        let read = |(index, item)| read_template(&format!("{path}[{index}]"), item, scope);
        items.into_iter().enumerate().map(read).collect()
    }

    /// Takes a mapping from names to templates; an absent one is empty.
    pub fn template_map(
        &mut self,
        key: &'static str,
        scope: ReferenceScope,
    ) -> Result<BTreeMap<String, ConfigTemplate>, ConfigProblem> {
        let Section { path, entries, .. } = self.section(key)?;
        let read = |(name, value)| {
            let template = read_template(&format!("{path}.{name}"), value, scope)?;
            Ok((name, template))
        };
        entries.into_iter().map(read).collect()
    }

    /// Reads all entries of a section whose keys are names that the user chose.
    pub fn map_entries<T>(
        self,
        read: impl Fn(Section) -> Result<T, ConfigProblem>,
    ) -> Result<BTreeMap<String, T>, ConfigProblem> {
        let Section { path, entries, .. } = self;
        let read = |(name, value): (String, Value)| {
            let entry = Section::open(&format!("{path}.{name}"), value)?;
            Ok((name, read(entry)?))
        };
        entries.into_iter().map(read).collect()
    }

    /// The keys that are in neither list, each with the nearest of `known`.
    pub fn unknown_words(&self, known: &[&'static str], ignored: &[&str]) -> Vec<UnknownWord> {
        let names = self.entries.keys().map(String::as_str);
        let unknown = names.filter(|name| !known.contains(name) && !ignored.contains(name));
        unknown
            .map(|name| UnknownWord { path: self.path_of(name), meant: nearest(name, known.iter().copied()) })
            .collect()
    }

    /// A hint at the first key that is left and is near one of `wanted`, to append to a message.
    pub fn slip_for(&self, wanted: &[&str]) -> Option<String> {
        self.entries.keys().find_map(|name| {
            let meant = nearest(name, wanted.iter().copied())?;
            Some(format!("; did you mean `{meant}` by `{name}`?"))
        })
    }

    /// Refuses the section if a key is left, which is therefore unknown.
    pub fn finish(self) -> Result<(), ConfigProblem> {
        match self.entries.keys().next() {
            None => Ok(()),
            Some(unknown) => {
                let hint = did_you_mean(unknown, self.known_keys.iter().copied());
                Err(self.problem_at(unknown, format!("is not a key of the config{hint}")))
            }
        }
    }

    /// The path of a key; with an empty key, of the section itself.
    fn path_of(&self, key: &str) -> String {
        match (self.path.as_str(), key) {
            (path, "") => path.to_owned(),
            ("", key) => key.to_owned(),
            (path, key) => format!("{path}.{key}"),
        }
    }
}

fn problem_with(at: &str, problem: String) -> ConfigProblem {
    let at = if at.is_empty() { "config".to_owned() } else { at.to_owned() };
    ConfigProblem { at, problem }
}

/// The type of a value, as error messages call it.
fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "nothing",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "text",
        Value::Array(_) => "a list",
        Value::Object(_) => "a mapping",
    }
}

/// Parses a template. Numbers and booleans count as their text, because people write `env: { PORT: 8080 }`.
fn read_template(path: &str, value: Value, scope: ReferenceScope) -> Result<ConfigTemplate, ConfigProblem> {
    let text = match value {
        Value::String(text) => text,
        Value::Number(number) => number.to_string(),
        Value::Bool(flag) => flag.to_string(),
        other @ (Value::Null | Value::Array(_) | Value::Object(_)) => {
            return Err(problem_with(path, format!("must be text, not {}", type_name(&other))));
        }
    };
    ConfigTemplate::parse(&text, scope).map_err(|problem| problem_with(path, problem))
}

/// A suggestion of the nearest known name, to append to a message; empty if none is near.
pub(super) fn did_you_mean<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    nearest(word, known).map_or_else(String::new, |name| format!("; did you mean `{name}`?"))
}
