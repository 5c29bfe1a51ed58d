//! What a tool asks for before it continues, read from the question as a server sent it and the journal keeps
//! it; and the reply in the form that the server expects. People may give less: for a single form, its fields
//! are enough.

use serde_json::{Map, Value, json};

/// The part of a stored question that holds the server's requests, by key.
const REQUESTS: &str = "inputRequests";

/// The input that a tool asks for.
#[derive(Clone, Debug, Default)]
pub struct AskedInput {
    /// By key; the reply needs a value under each of the keys. Empty: the tool only asks to be called again.
    pub requests: Vec<RequestedInput>,
    /// The requests as the server sent them.
    as_sent: Option<Value>,
}

/// One request of a tool.
#[derive(Clone, Debug)]
pub struct RequestedInput {
    pub key: String,
    /// The text for the person. `None`: the request is not for a person.
    pub message: Option<String>,
    /// The fields of the form; empty where there is none.
    pub fields: Vec<InputField>,
    /// An address that the person is to open.
    pub url: Option<String>,
}

/// A field of a form.
#[derive(Clone, Debug)]
pub struct InputField {
    pub name: String,
    /// The type's name, such as `string`, or the choices.
    pub kind: String,
    pub is_optional: bool,
}

/// A reply that does not answer what the tool asks.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{problem}")]
pub struct UnfitReply {
    pub problem: ReplyProblem,
    /// The keys of the tool's requests.
    pub asked: Vec<String>,
}

/// Why a reply does not answer a tool's question.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReplyProblem {
    #[error("the reply is a JSON object")]
    NotAnObject,
    #[error("nothing was asked under `{key}`")]
    NotAsked { key: String },
    #[error("`{key}` has no reply")]
    NoReply { key: String },
}

impl AskedInput {
    /// Parses a question as the journal keeps it; the result has no requests if the question has none.
    pub fn parse(question: &Value) -> Self {
        let as_sent = question.get(REQUESTS).cloned();
        let requests = as_sent.as_ref().and_then(Value::as_object).into_iter().flatten();
        let requests = requests.map(|(key, request)| RequestedInput::parse(key, &request["params"]));
        Self { requests: requests.collect(), as_sent }
    }

    /// The requests as the server sent them, for clients that read them; `None` where there are none.
    pub fn as_sent(&self) -> Option<&Value> {
        self.as_sent.as_ref()
    }

    /// Completes a reply to the form that the server expects: a value under each key. For a single request
    /// the fields of its form are enough. `Err`: not an object, or a key is missing or was not asked.
    pub fn complete_reply(&self, given: &Value) -> Result<Value, UnfitReply> {
        let Value::Object(given) = given else { return Err(self.unfit(ReplyProblem::NotAnObject)) };
        let is_keyed = !given.is_empty() && given.keys().all(|key| self.asks_under(key));
        let replies: Map<String, Value> = match self.requests.as_slice() {
            [] => Map::new(),
            [only] if !is_keyed => {
                Map::from_iter([(only.key.clone(), wrap_form_reply(&Value::Object(given.clone())))])
            }
            [_, ..] => given.iter().map(|(key, value)| (key.clone(), wrap_form_reply(value))).collect(),
        };
        if let Some(key) = replies.keys().find(|key| !self.asks_under(key)) {
            return Err(self.unfit(ReplyProblem::NotAsked { key: key.clone() }));
        }
        if let Some(left) = self.requests.iter().find(|request| !replies.contains_key(&request.key)) {
            return Err(self.unfit(ReplyProblem::NoReply { key: left.key.clone() }));
        }
        Ok(Value::Object(replies))
    }

    /// Whether one of the requests has this key.
    fn asks_under(&self, key: &str) -> bool {
        self.requests.iter().any(|request| request.key == key)
    }

    /// The error for a reply with this problem; it lists the keys that were asked.
    fn unfit(&self, problem: ReplyProblem) -> UnfitReply {
        let asked = self.requests.iter().map(|request| request.key.clone()).collect();
        UnfitReply { problem, asked }
    }
}

impl RequestedInput {
    /// Parses the `params` of the request under `key`; parts that are missing or malformed are left empty.
    fn parse(key: &str, params: &Value) -> Self {
        let schema = &params["requestedSchema"];
        let required: Vec<&str> =
            schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        let fields = schema["properties"].as_object().into_iter().flatten().map(|(name, field)| InputField {
            name: name.clone(),
            kind: field_kind(field),
            is_optional: !required.contains(&name.as_str()),
        });
        Self {
            key: key.to_owned(),
            message: params["message"].as_str().map(str::to_owned),
            fields: fields.collect(),
            url: params["url"].as_str().map(str::to_owned),
        }
    }
}

/// The choices of a field, as `a | b`, or the name of its type; `any` if it has none.
fn field_kind(field: &Value) -> String {
    let choices: Vec<&str> =
        field["enum"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    if choices.is_empty() { field["type"].as_str().unwrap_or("any").to_owned() } else { choices.join(" | ") }
}

/// Wraps a form's fields as an accepted form. A value that has the fields of a request's full result stays as
/// it is.
fn wrap_form_reply(value: &Value) -> Value {
    let is_full_result = ["action", "role", "roots"].iter().any(|field| value.get(field).is_some());
    if is_full_result { value.clone() } else { json!({ "action": "accept", "content": value }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(requests: Value) -> AskedInput {
        AskedInput::parse(&json!({ "message": "the tool asks", REQUESTS: requests }))
    }

    #[track_caller]
    fn assert_unfit(asked: &AskedInput, reply: Value, message: &str) {
        let unfit = asked.complete_reply(&reply).unwrap_err();
        assert_eq!(unfit.to_string(), message);
        assert_eq!(unfit.asked, ["p", "q"]);
    }

    #[test]
    fn fields_of_the_only_form_are_keyed_and_accepted() {
        let accepted = json!({ "q": { "action": "accept", "content": { "name": "ada" } } });
        let one = asked(json!({ "q": { "method": "elicitation/create" } }));
        assert_eq!(one.complete_reply(&json!({ "name": "ada" })), Ok(accepted.clone()));
        assert_eq!(one.complete_reply(&json!({ "q": { "name": "ada" } })), Ok(accepted.clone()));
        assert_eq!(one.complete_reply(&accepted), Ok(accepted));
        let declined = json!({ "q": { "action": "decline" } });
        assert_eq!(one.complete_reply(&json!({ "action": "decline" })), Ok(declined));
    }

    #[test]
    fn reply_without_a_key_or_under_an_unknown_one_does_not_fit() {
        let two = asked(json!({ "p": {}, "q": {} }));
        assert_unfit(&two, json!({ "p": { "n": 1 } }), "`q` has no reply");
        assert_unfit(
            &two,
            json!({ "p": { "n": 1 }, "q": { "n": 1 }, "r": { "n": 1 } }),
            "nothing was asked under `r`",
        );
        assert_unfit(&two, json!(7), "the reply is a JSON object");
        let both = json!({ "p": { "n": 1 }, "q": { "action": "decline" } });
        let completed =
            json!({ "p": { "action": "accept", "content": { "n": 1 } }, "q": { "action": "decline" } });
        assert_eq!(two.complete_reply(&both), Ok(completed));
    }

    #[test]
    fn question_without_requests_takes_any_object() {
        let none = AskedInput::parse(&Value::Null);
        assert!(none.requests.is_empty() && none.as_sent().is_none());
        assert_eq!(none.complete_reply(&json!({ "n": 1 })), Ok(json!({})));
    }

    #[test]
    fn form_is_read_with_its_fields() {
        let schema = json!({
            "properties": { "name": { "type": "string" }, "size": { "enum": ["s", "m"] }, "other": {} },
            "required": ["name", "size"],
        });
        let params = json!({ "message": "who?", "requestedSchema": schema });
        let read = asked(json!({ "q": { "params": params } }));
        let [request] = read.requests.as_slice() else { panic!("one request: {read:?}") };
        assert_eq!((request.key.as_str(), request.message.as_deref()), ("q", Some("who?")));
        let fields = request.fields.iter().map(|field| (&*field.name, &*field.kind, field.is_optional));
        let fields: Vec<_> = fields.collect();
        assert_eq!(fields, [("name", "string", false), ("other", "any", true), ("size", "s | m", false)]);
    }
}
