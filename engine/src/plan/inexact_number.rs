//! Finds integers that a JSON value cannot hold exactly: one of more than 64 bits becomes a floating-point
//! number, and so does YAML's `010`. The search is over the text, because the parsed value no longer shows
//! how the number was written.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;
use serde_saphyr::{Options, Spanned};

use super::document::DOCUMENT_DEPTH_MAX;
use super::finding::Finding;
use crate::long_number::{fits_64_bits, has_long_number, is_integer_literal};

/// An integer that would not be kept exactly, with its location in the document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InexactNumber {
    /// As in `steps[0].arguments.id`; empty for the outermost value.
    pub path: String,
    /// The number as it stands in the text.
    pub written: String,
}

impl InexactNumber {
    /// The error message, and what to write instead.
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

    /// The plan error about this number.
    pub(super) fn into_finding(self) -> Finding {
        let (message, cure) = self.message_and_cure();
        let path = if self.path.is_empty() { "plan".to_owned() } else { self.path };
        Finding::error("inexact_number", path, message, cure)
    }
}

/// The first integer in a JSON text that does not fit into 64 bits; `None` also where the text is not JSON.
pub fn find_inexact_in_json(text: &str) -> Option<InexactNumber> {
    if has_long_number(text) { search_json(text, &mut Vec::new()) } else { None }
}

/// Searches one JSON value, depth first. `path` holds the segments that lead to it.
fn search_json(text: &str, path: &mut Vec<String>) -> Option<InexactNumber> {
    let text = text.trim();
    if path.len() > DOCUMENT_DEPTH_MAX {
        return None;
    }
    match text.as_bytes().first()? {
        b'{' => {
            let fields: BTreeMap<String, &RawValue> = serde_json::from_str(text).ok()?;
            let inner = fields.into_iter().map(|(name, value)| (format!(".{name}"), value.get()));
            inner.into_iter().find_map(|(name, value)| search_json_child(name, value, path))
        }
        b'[' => {
            let items: Vec<&RawValue> = serde_json::from_str(text).ok()?;
            let inner =
                items.into_iter().enumerate().map(|(index, value)| (format!("[{index}]"), value.get()));
            inner.into_iter().find_map(|(name, value)| search_json_child(name, value, path))
        }
        b'-' | b'0'..=b'9' if is_integer_literal(text) && !fits_64_bits(text) => {
            Some(InexactNumber::from_segments(path, text))
        }
        _ => None,
    }
}

/// Searches a field or item, with its segment on `path` for the duration.
fn search_json_child(name: String, value: &str, path: &mut Vec<String>) -> Option<InexactNumber> {
    path.push(name);
    let found = search_json(value, path);
    path.pop();
    found
}

impl InexactNumber {
    /// The number at the joined path segments, such as `.name` and `[0]`; `written`: its digits as in the text.
    fn from_segments(path: &[String], written: &str) -> Self {
        let path = path.concat();
        let path = path.strip_prefix('.').unwrap_or(&path).to_owned();
        Self { path, written: written.to_owned() }
    }
}

/// The first integer in a YAML text that was parsed as a floating-point number. `value` is the parsed
/// document: the text is parsed a second time only where that holds a float without a fraction.
pub(super) fn find_inexact_in_yaml(text: &str, options: Options, value: &Value) -> Option<InexactNumber> {
    if !has_integral_float(value) {
        return None;
    }
    let located: Spanned<LocatedValue> = serde_saphyr::from_str_with_options(text, options).ok()?;
    search_yaml(text, &located, &mut Vec::new())
}

/// Whether the value holds a float without a fraction, which may have been written as an integer.
fn has_integral_float(value: &Value) -> bool {
    match value {
        Value::Number(number) => number.is_f64() && number.as_f64().is_some_and(|float| float.fract() == 0.0),
        Value::Array(items) => items.iter().any(has_integral_float),
        Value::Object(fields) => fields.values().any(has_integral_float),
        Value::Null | Value::Bool(_) | Value::String(_) => false,
    }
}

/// Searches one YAML value, depth first, and reads numbers as written from `text`.
fn search_yaml(text: &str, at: &Spanned<LocatedValue>, path: &mut Vec<String>) -> Option<InexactNumber> {
    let inside = |name: String, value: &Spanned<LocatedValue>, path: &mut Vec<String>| {
        path.push(name);
        let found = search_yaml(text, value, path);
        path.pop();
        found
    };
    match &at.value {
        LocatedValue::Float => {
            let start = usize::try_from(at.defined.span().byte_offset()?).ok()?;
            let rest = text.get(start..)?;
            let end = rest.find(|sign: char| !(sign.is_ascii_alphanumeric() || "+-_.".contains(sign)));
            let written = &rest[..end.unwrap_or(rest.len())];
            is_integer_literal(written).then(|| InexactNumber::from_segments(path, written))
        }
        LocatedValue::List(items) => {
            items.iter().enumerate().find_map(|(index, item)| inside(format!("[{index}]"), item, path))
        }
        LocatedValue::Map(fields) => {
            fields.iter().find_map(|(name, field)| inside(format!(".{name}"), field, path))
        }
        LocatedValue::Other => None,
    }
}

fn has_leading_zero(written: &str) -> bool {
    let digits = written.trim_start_matches(['+', '-']);
    digits.len() > 1 && digits.starts_with('0')
}

/// A parsed YAML value that keeps the source location of each part, reduced to what the search needs.
enum LocatedValue {
    Float,
    List(Vec<Spanned<LocatedValue>>),
    Map(Vec<(String, Spanned<LocatedValue>)>),
    Other,
}

impl<'de> Deserialize<'de> for LocatedValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(LocatedVisitor)
    }
}

struct LocatedVisitor;

impl<'de> Visitor<'de> for LocatedVisitor {
    type Value = LocatedValue;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_bool<E>(self, _: bool) -> Result<LocatedValue, E> {
        Ok(LocatedValue::Other)
    }

    fn visit_i64<E>(self, _: i64) -> Result<LocatedValue, E> {
        Ok(LocatedValue::Other)
    }

    fn visit_u64<E>(self, _: u64) -> Result<LocatedValue, E> {
        Ok(LocatedValue::Other)
    }

    fn visit_f64<E>(self, _: f64) -> Result<LocatedValue, E> {
        Ok(LocatedValue::Float)
    }

    fn visit_str<E>(self, _: &str) -> Result<LocatedValue, E> {
        Ok(LocatedValue::Other)
    }

    fn visit_unit<E>(self) -> Result<LocatedValue, E> {
        Ok(LocatedValue::Other)
    }

    fn visit_none<E>(self) -> Result<LocatedValue, E> {
        Ok(LocatedValue::Other)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<LocatedValue, D::Error> {
        deserializer.deserialize_any(self)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<LocatedValue, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(LocatedValue::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<LocatedValue, A::Error> {
        let mut map = Vec::new();
        while let Some(entry) = entries.next_entry()? {
            map.push(entry);
        }
        Ok(LocatedValue::Map(map))
    }
}
