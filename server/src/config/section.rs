//! One mapping of the config, taken apart key by key, so that what remains at the end is unknown and
//! can be refused by path. Knows the shapes of values, not what they mean.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use actbook_engine::plan::parse_duration_ms;
use actbook_engine::policy::Category;
use actbook_engine::spelling::nearest;
use serde_json::{Map, Value};

use super::inherit::{self, InheritEnv};
use super::{Problem, RateWords, Schema, Scope, Shape, Template};

/// Each call in the stretch is remembered.
const RATE_CALLS_MAX: u32 = 100_000;

pub(super) struct Section {
    path: String,
    entries: Map<String, Value>,
    asked: Vec<&'static str>,
}

impl Section {
    pub fn open(path: &str, value: Value) -> Result<Self, Problem> {
        match value {
            Value::Object(entries) => Ok(Self { path: path.to_owned(), entries, asked: Vec::new() }),
            Value::Null => Ok(Self { path: path.to_owned(), entries: Map::new(), asked: Vec::new() }),
            other => Err(wrong(path, format!("must be a mapping, not {}", kind(&other)))),
        }
    }

    /// A problem with the value at `key`, or with the section itself where `key` is empty.
    pub fn wrong(&self, key: &str, problem: String) -> Problem {
        wrong(&self.at(key), problem)
    }

    pub fn value(&mut self, key: &'static str) -> Option<Value> {
        self.asked.push(key);
        self.entries.remove(key).filter(|value| !value.is_null())
    }

    pub fn section(&mut self, key: &'static str) -> Result<Section, Problem> {
        let value = self.value(key).unwrap_or(Value::Null);
        Section::open(&self.at(key), value)
    }

    pub fn optional_section(&mut self, key: &'static str) -> Result<Option<Section>, Problem> {
        let path = self.at(key);
        self.value(key).map(|value| Section::open(&path, value)).transpose()
    }

    pub fn text(&mut self, key: &'static str) -> Result<Option<String>, Problem> {
        match self.value(key) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(other) => Err(self.wrong(key, format!("must be text, not {}", kind(&other)))),
        }
    }

    pub fn texts(&mut self, key: &'static str) -> Result<Vec<String>, Problem> {
        let Some(value) = self.value(key) else { return Ok(Vec::new()) };
        serde_json::from_value(value).map_err(|_| self.wrong(key, "must be a list of texts".into()))
    }

    pub fn inherit_env(&mut self) -> Result<Option<InheritEnv>, Problem> {
        let Some(value) = self.value(inherit::KEY) else { return Ok(None) };
        InheritEnv::parse(&value).map(Some).map_err(|problem| self.wrong(inherit::KEY, problem))
    }

    pub fn shape(&mut self, key: &'static str, scope: Scope) -> Result<Option<Shape>, Problem> {
        let Some(value) = self.value(key) else { return Ok(None) };
        Shape::parse(&value, scope).map(Some).map_err(|problem| self.wrong(key, problem))
    }

    pub fn flag(&mut self, key: &'static str) -> Result<Option<bool>, Problem> {
        match self.value(key) {
            None => Ok(None),
            Some(Value::Bool(flag)) => Ok(Some(flag)),
            Some(other) => Err(self.wrong(key, format!("must be true or false, not {}", kind(&other)))),
        }
    }

    pub fn count(&mut self, key: &'static str) -> Result<Option<u32>, Problem> {
        let Some(value) = self.value(key) else { return Ok(None) };
        let count = value.as_u64().and_then(|count| u32::try_from(count).ok()).filter(|count| *count > 0);
        count.map(Some).ok_or_else(|| self.wrong(key, format!("`{value}` is not a whole number above 0")))
    }

    pub fn factor(&mut self, key: &'static str) -> Result<Option<f64>, Problem> {
        let Some(value) = self.value(key) else { return Ok(None) };
        let factor = value.as_f64().filter(|factor| (1.0..=100.0).contains(factor));
        factor.map(Some).ok_or_else(|| self.wrong(key, format!("`{value}` is not a number from 1 to 100")))
    }

    pub fn duration(&mut self, key: &'static str) -> Result<Option<Duration>, Problem> {
        let Some(text) = self.text(key)? else { return Ok(None) };
        let refused = || self.wrong(key, format!("`{text}` is no duration; write 250ms, 30s, 5m or 2h"));
        parse_duration_ms(&text).filter(|ms| *ms > 0).map(Duration::from_millis).map(Some).ok_or_else(refused)
    }

    /// `10/s`, `600/m`, `5000/h`
    pub fn rate(&mut self, key: &'static str) -> Result<Option<RateWords>, Problem> {
        let Some(text) = self.text(key)? else { return Ok(None) };
        let refused = || self.wrong(key, format!("`{text}` is no rate; write 10/s, 600/m or 5000/h"));
        let (calls, unit) = text.split_once('/').ok_or_else(refused)?;
        let calls = calls.trim().parse().ok().filter(|calls| (1..=RATE_CALLS_MAX).contains(calls));
        let per = match unit.trim() {
            "s" => Some(Duration::from_secs(1)),
            "m" => Some(Duration::from_secs(60)),
            "h" => Some(Duration::from_secs(3600)),
            _ => None,
        };
        let words = calls.zip(per).map(|(calls, per)| RateWords { calls, per });
        words.map(Some).ok_or_else(refused)
    }

    pub fn categories(&mut self, key: &'static str) -> Result<Option<BTreeSet<Category>>, Problem> {
        let Some(value) = self.value(key) else { return Ok(None) };
        let parsed = serde_json::from_value(value);
        parsed.map(Some).map_err(|error| self.wrong(key, error.to_string()))
    }

    pub fn schema(&mut self, key: &'static str) -> Result<Option<Schema>, Problem> {
        let Some(value) = self.value(key) else { return Ok(None) };
        Schema::compile(value).map(Some).map_err(|error| self.wrong(key, error))
    }

    pub fn template(&mut self, key: &'static str, scope: Scope) -> Result<Option<Template>, Problem> {
        let path = self.at(key);
        self.value(key).map(|value| read_template(&path, value, scope)).transpose()
    }

    pub fn templates(&mut self, key: &'static str, scope: Scope) -> Result<Vec<Template>, Problem> {
        let path = self.at(key);
        let items = match self.value(key) {
            None => return Ok(Vec::new()),
            Some(Value::Array(items)) => items,
            Some(other) => return Err(wrong(&path, format!("must be a list, not {}", kind(&other)))),
        };
        let read = |(index, item)| read_template(&format!("{path}[{index}]"), item, scope);
        items.into_iter().enumerate().map(read).collect()
    }

    pub fn template_map(
        &mut self,
        key: &'static str,
        scope: Scope,
    ) -> Result<BTreeMap<String, Template>, Problem> {
        let Section { path, entries, .. } = self.section(key)?;
        let read = |(name, value)| {
            let template = read_template(&format!("{path}.{name}"), value, scope)?;
            Ok((name, template))
        };
        entries.into_iter().map(read).collect()
    }

    /// Reads every entry of a section whose keys are names of the user's choosing.
    pub fn map_entries<T>(
        self,
        read: impl Fn(Section) -> Result<T, Problem>,
    ) -> Result<BTreeMap<String, T>, Problem> {
        let Section { path, entries, .. } = self;
        let read = |(name, value): (String, Value)| {
            let entry = Section::open(&format!("{path}.{name}"), value)?;
            Ok((name, read(entry)?))
        };
        entries.into_iter().map(read).collect()
    }

    pub fn ignore_rest(&mut self) {
        self.entries.clear();
    }

    /// Refuses what nobody asked for.
    pub fn finish(self) -> Result<(), Problem> {
        match self.entries.keys().next() {
            None => Ok(()),
            Some(unknown) => {
                let hint = did_you_mean(unknown, self.asked.iter().copied());
                Err(self.wrong(unknown, format!("is no word of the config{hint}")))
            }
        }
    }

    fn at(&self, key: &str) -> String {
        match (self.path.as_str(), key) {
            (path, "") => path.to_owned(),
            ("", key) => key.to_owned(),
            (path, key) => format!("{path}.{key}"),
        }
    }
}

fn wrong(at: &str, problem: String) -> Problem {
    let at = if at.is_empty() { "config".to_owned() } else { at.to_owned() };
    Problem { at, problem }
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "nothing",
        Value::Bool(_) => "a truth value",
        Value::Number(_) => "a number",
        Value::String(_) => "text",
        Value::Array(_) => "a list",
        Value::Object(_) => "a mapping",
    }
}

/// Numbers and truth values are taken as their text: `env: { PORT: 8080 }` is what people write.
fn read_template(path: &str, value: Value, scope: Scope) -> Result<Template, Problem> {
    let text = match value {
        Value::String(text) => text,
        Value::Number(number) => number.to_string(),
        Value::Bool(flag) => flag.to_string(),
        other @ (Value::Null | Value::Array(_) | Value::Object(_)) => {
            return Err(wrong(path, format!("must be text, not {}", kind(&other))));
        }
    };
    Template::parse(&text, scope).map_err(|problem| wrong(path, problem))
}

pub(super) fn did_you_mean<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    nearest(word, known).map_or_else(String::new, |name| format!("; did you mean `{name}`?"))
}
