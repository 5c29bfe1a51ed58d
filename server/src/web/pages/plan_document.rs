//! A plan's document in the order in which people write its fields; it is stored in that of the alphabet.

use serde::ser::{Serialize, SerializeMap as _, SerializeSeq as _, Serializer};
use serde_json::{Map, Value};

/// The fields that come first, of the plan and of its steps; the others follow.
const FIRST: [&str; 14] = [
    "id",
    "name",
    "description",
    "type",
    "task",
    "reasoning",
    "inputs",
    "policy",
    "tool",
    "action",
    "arguments",
    "depends_on",
    "when",
    "compensation",
];
/// Fields with data of their own, which stay as they are.
const DATA: [&str; 3] = ["arguments", "inputs", "metadata"];

/// The document, or a part of it that is not data.
#[derive(Clone, Copy, Debug)]
pub struct OrderedPlanDocument<'a>(pub &'a Value);

impl Serialize for OrderedPlanDocument<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Value::Object(fields) => serialize_fields(fields, serializer),
            Value::Array(items) => {
                let mut list = serializer.serialize_seq(Some(items.len()))?;
                items.iter().try_for_each(|item| list.serialize_element(&OrderedPlanDocument(item)))?;
                list.end()
            }
            other => other.serialize(serializer),
        }
    }
}

fn serialize_fields<S: Serializer>(fields: &Map<String, Value>, serializer: S) -> Result<S::Ok, S::Error> {
    let rank = |name: &str| FIRST.iter().position(|first| *first == name).unwrap_or(FIRST.len());
    let mut ordered: Vec<(&String, &Value)> = fields.iter().collect();
    ordered.sort_by_key(|(name, _)| rank(name));
    let mut map = serializer.serialize_map(Some(ordered.len()))?;
    for (name, value) in ordered {
        if DATA.contains(&name.as_str()) {
            map.serialize_entry(name, value)?;
        } else {
            map.serialize_entry(name, &OrderedPlanDocument(value))?;
        }
    }
    map.end()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn fields_come_in_the_order_of_writing() {
        let step =
            json!({ "tool": "a/b", "id": "s", "arguments": { "name": 1, "a": 2 }, "approval": "required" });
        let document = json!({ "steps": [step], "policy": { "concurrency": 2 }, "name": "p" });
        let text = serde_json::to_string(&OrderedPlanDocument(&document)).unwrap();
        let expected = concat!(
            r#"{"name":"p","policy":{"concurrency":2},"steps":[{"id":"s","tool":"a/b","#,
            r#""arguments":{"a":2,"name":1},"approval":"required"}]}"#
        );
        assert_eq!(text, expected);
    }
}
