//! Whole numbers that would lose something on the way into a JSON value: more than 64 bits become a
//! floating-point number, and so does YAML's `010`. They are found in the text, because the value no longer
//! shows how they were written.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;
use serde_saphyr::{Options, Spanned};

use super::document::DOCUMENT_DEPTH_MAX;
use super::finding::Finding;

/// The fewest digits of a whole number that may not fit into 64 bits.
const DIGITS_MIN: usize = 19;

/// A whole number as it was written, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InexactNumber {
    /// As in `steps[0].arguments.id`; empty for the outermost value.
    pub path: String,
    pub written: String,
}

impl InexactNumber {
    /// What is wrong with the number, and what to write instead.
    pub fn message_and_cure(&self) -> (String, String) {
        let written = &self.written;
        if has_leading_zero(written) {
            let message = format!("{written} is a whole number with a leading zero");
            let cure = format!("write \"{written}\" in quotes for a text, or the number without the zero");
            return (message, cure);
        }
        let message = format!("{written} does not fit into 64 bits and would lose digits");
        (message, format!("write it as a text: \"{written}\""))
    }

    pub(super) fn into_finding(self) -> Finding {
        let (message, cure) = self.message_and_cure();
        let path = if self.path.is_empty() { "plan".to_owned() } else { self.path };
        Finding::error("inexact_number", path, message, cure)
    }
}

/// The first whole number in a JSON text that 64 bits do not hold. `None` also where the text is no JSON.
pub fn inexact_in_json(text: &str) -> Option<InexactNumber> {
    let long = text.as_bytes().split(|byte| !byte.is_ascii_digit()).any(|run| run.len() >= DIGITS_MIN);
    if long { find_in_json(text, &mut Vec::new()) } else { None }
}

fn find_in_json(text: &str, path: &mut Vec<String>) -> Option<InexactNumber> {
    let text = text.trim();
    if path.len() > DOCUMENT_DEPTH_MAX {
        return None;
    }
    match text.as_bytes().first()? {
        b'{' => {
            let fields: BTreeMap<String, &RawValue> = serde_json::from_str(text).ok()?;
            let inner = fields.into_iter().map(|(name, value)| (format!(".{name}"), value.get()));
            inner.into_iter().find_map(|(name, value)| find_inside(name, value, path))
        }
        b'[' => {
            let items: Vec<&RawValue> = serde_json::from_str(text).ok()?;
            let inner =
                items.into_iter().enumerate().map(|(index, value)| (format!("[{index}]"), value.get()));
            inner.into_iter().find_map(|(name, value)| find_inside(name, value, path))
        }
        b'-' | b'0'..=b'9' if is_whole(text) && !fits(text) => Some(InexactNumber::at(path, text)),
        _ => None,
    }
}

fn find_inside(name: String, value: &str, path: &mut Vec<String>) -> Option<InexactNumber> {
    path.push(name);
    let found = find_in_json(value, path);
    path.pop();
    found
}

impl InexactNumber {
    fn at(path: &[String], written: &str) -> Self {
        let path = path.concat();
        let path = path.strip_prefix('.').unwrap_or(&path).to_owned();
        Self { path, written: written.to_owned() }
    }
}

/// The first whole number in a YAML text that was read as a floating-point number. `value` is what was read:
/// the text is looked at again only where that holds such a number.
pub(super) fn inexact_in_yaml(text: &str, options: Options, value: &Value) -> Option<InexactNumber> {
    if !has_whole_float(value) {
        return None;
    }
    let located: Spanned<Located> = serde_saphyr::from_str_with_options(text, options).ok()?;
    find_in_yaml(text, &located, &mut Vec::new())
}

fn has_whole_float(value: &Value) -> bool {
    match value {
        Value::Number(number) => number.is_f64() && number.as_f64().is_some_and(|float| float.fract() == 0.0),
        Value::Array(items) => items.iter().any(has_whole_float),
        Value::Object(fields) => fields.values().any(has_whole_float),
        Value::Null | Value::Bool(_) | Value::String(_) => false,
    }
}

fn find_in_yaml(text: &str, at: &Spanned<Located>, path: &mut Vec<String>) -> Option<InexactNumber> {
    let inside = |name: String, value: &Spanned<Located>, path: &mut Vec<String>| {
        path.push(name);
        let found = find_in_yaml(text, value, path);
        path.pop();
        found
    };
    match &at.value {
        Located::Float => {
            let start = usize::try_from(at.defined.span().byte_offset()?).ok()?;
            let rest = text.get(start..)?;
            let end = rest.find(|sign: char| !(sign.is_ascii_alphanumeric() || "+-_.".contains(sign)));
            let written = &rest[..end.unwrap_or(rest.len())];
            is_whole(written).then(|| InexactNumber::at(path, written))
        }
        Located::List(items) => {
            items.iter().enumerate().find_map(|(index, item)| inside(format!("[{index}]"), item, path))
        }
        Located::Map(fields) => {
            fields.iter().find_map(|(name, field)| inside(format!(".{name}"), field, path))
        }
        Located::Other => None,
    }
}

fn is_whole(written: &str) -> bool {
    let digits = written.trim_start_matches(['+', '-']);
    !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit() || byte == b'_')
}

fn fits(written: &str) -> bool {
    written.parse::<i64>().is_ok() || written.parse::<u64>().is_ok()
}

fn has_leading_zero(written: &str) -> bool {
    let digits = written.trim_start_matches(['+', '-']);
    digits.len() > 1 && digits.starts_with('0')
}

/// A YAML value with the place of everything inside, as far as numbers need it.
enum Located {
    Float,
    List(Vec<Spanned<Located>>),
    Map(Vec<(String, Spanned<Located>)>),
    Other,
}

impl<'de> Deserialize<'de> for Located {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(LocatedVisitor)
    }
}

struct LocatedVisitor;

impl<'de> Visitor<'de> for LocatedVisitor {
    type Value = Located;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_bool<E>(self, _: bool) -> Result<Located, E> {
        Ok(Located::Other)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Located, E> {
        Ok(Located::Other)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Located, E> {
        Ok(Located::Other)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Located, E> {
        Ok(Located::Float)
    }

    fn visit_str<E>(self, _: &str) -> Result<Located, E> {
        Ok(Located::Other)
    }

    fn visit_unit<E>(self) -> Result<Located, E> {
        Ok(Located::Other)
    }

    fn visit_none<E>(self) -> Result<Located, E> {
        Ok(Located::Other)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Located, D::Error> {
        deserializer.deserialize_any(self)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Located, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(Located::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Located, A::Error> {
        let mut map = Vec::new();
        while let Some(entry) = entries.next_entry()? {
            map.push(entry);
        }
        Ok(Located::Map(map))
    }
}
