//! A message as it came in: what it asks, or what is wrong with it and whose it is, so that nobody waits
//! for an answer that never comes. Knows the protocol's methods and nothing of what they do.

use actbook_engine::plan::inexact_in_json;
use rmcp::model::{
    CallToolRequestParams, CancelTaskParams, ClientJsonRpcMessage, ClientRequest, CompleteRequestParams,
    DiscoverRequestParams, ErrorData, GetPromptRequestParams, GetTaskParams, InitializeRequestParams,
    JsonRpcRequest, PaginatedRequestParams, ReadResourceRequestParams, RequestId, SubscribeRequestParams,
    SubscriptionsListenRequestParams, UnsubscribeRequestParams, UpdateTaskParams,
};
use serde::de::{DeserializeOwned, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::error::Category;
use serde_json::{Map, Value, json};

/// What is wrong with a message.
#[derive(Debug)]
pub struct Fault {
    /// Of the request, as far as it could be read; else null.
    id: Value,
    error: ErrorData,
    /// Somebody waits for an answer: it is no notification, and no answer itself.
    pub owed: bool,
}

impl Fault {
    pub fn answer(&self) -> Value {
        json!({ "jsonrpc": "2.0", "id": self.id, "error": self.error })
    }

    /// A request whose id another one has that is still being answered.
    pub fn id_in_use(id: &RequestId) -> Self {
        Self { owed: true, id: id.clone().into_json_value(), error: id_in_use(id) }
    }

    /// A message of which only the beginning was kept.
    pub fn too_long(beginning: &[u8], bytes_max: usize) -> Self {
        let head = Head::of(beginning);
        let words = format!("Invalid Request: the message is longer than {bytes_max} bytes");
        Self { owed: !head.answers(), id: head.id(), error: ErrorData::invalid_request(words, None) }
    }

    fn of(bytes: &[u8], error: &serde_json::Error) -> Self {
        let head = Head::of(bytes);
        match error.classify() {
            Category::Syntax | Category::Eof => {
                let error = ErrorData::parse_error(format!("Parse error: {error}"), None);
                Self { owed: !head.answers(), id: head.id(), error }
            }
            Category::Data | Category::Io => {
                let owed = !head.answers() && !head.notifies();
                Self { owed, id: head.id(), error: head.wrong(bytes, error) }
            }
        }
    }
}

/// Sent twice, a call without a key would act twice.
pub fn id_in_use(id: &RequestId) -> ErrorData {
    let message = format!(
        "Invalid Request: a request with the id {id} is still being answered; give every request an id of its own, or an idempotency_key"
    );
    ErrorData::invalid_request(message, None)
}

/// A repeat of the call is the same call.
pub fn has_key(call: &CallToolRequestParams) -> bool {
    call.arguments.as_ref().is_some_and(|given| given.contains_key("idempotency_key"))
}

pub fn read(bytes: &[u8]) -> Result<ClientJsonRpcMessage, Fault> {
    let message = serde_json::from_slice(bytes).map_err(|error| Fault::of(bytes, &error))?;
    // What fits none of the protocol's requests is read as a custom one, even if only its parameters are wrong.
    if let ClientJsonRpcMessage::Request(JsonRpcRequest {
        id,
        request: ClientRequest::CustomRequest(asked),
        ..
    }) = &message
        && let Some(error) = misread(&asked.method, asked.params.as_ref())
    {
        return Err(Fault { id: id.clone().into_json_value(), error, owed: true });
    }
    if let ClientJsonRpcMessage::Request(JsonRpcRequest { id, .. }) = &message
        && let Some(error) = inexact(bytes)
    {
        return Err(Fault { id: id.clone().into_json_value(), error, owed: true });
    }
    Ok(message)
}

/// A whole number that no value here can hold is refused rather than rounded.
fn inexact(bytes: &[u8]) -> Option<ErrorData> {
    let number = inexact_in_json(std::str::from_utf8(bytes).ok()?)?;
    let (message, cure) = number.message_and_cure();
    Some(ErrorData::invalid_params(format!("Invalid params: `{}`: {message}; {cure}", number.path), None))
}

#[expect(deprecated, reason = "the older revisions of the protocol still set the level of logging")]
use rmcp::model::SetLevelRequestParams;

/// What is wrong with parameters, and where.
type Wrong = fn(&Value) -> Option<(String, String)>;

#[expect(deprecated, reason = "the older revisions of the protocol still set the level of logging")]
const METHODS: [(&str, Wrong); 17] = [
    ("initialize", wrong::<InitializeRequestParams>),
    ("server/discover", wrong::<DiscoverRequestParams>),
    ("tools/call", wrong::<CallToolRequestParams>),
    ("tools/list", wrong::<PaginatedRequestParams>),
    ("prompts/get", wrong::<GetPromptRequestParams>),
    ("prompts/list", wrong::<PaginatedRequestParams>),
    ("resources/list", wrong::<PaginatedRequestParams>),
    ("resources/templates/list", wrong::<PaginatedRequestParams>),
    ("resources/read", wrong::<ReadResourceRequestParams>),
    ("resources/subscribe", wrong::<SubscribeRequestParams>),
    ("resources/unsubscribe", wrong::<UnsubscribeRequestParams>),
    ("subscriptions/listen", wrong::<SubscriptionsListenRequestParams>),
    ("completion/complete", wrong::<CompleteRequestParams>),
    ("logging/setLevel", wrong::<SetLevelRequestParams>),
    ("tasks/get", wrong::<GetTaskParams>),
    ("tasks/update", wrong::<UpdateTaskParams>),
    ("tasks/cancel", wrong::<CancelTaskParams>),
];

/// Why the parameters of a method that there is cannot be read.
pub fn misread(method: &str, params: Option<&Value>) -> Option<ErrorData> {
    let (_, wrong) = METHODS.iter().find(|(known, _)| *known == method)?;
    let nothing = json!({});
    let (path, why) = wrong(params.filter(|params| !params.is_null()).unwrap_or(&nothing))?;
    Some(ErrorData::invalid_params(format!("Invalid params: `{path}` of {method}: {why}"), None))
}

fn wrong<T: DeserializeOwned>(params: &Value) -> Option<(String, String)> {
    let why = |params: &Value| T::deserialize(params).err().map(|error| error.to_string());
    let error = why(params)?;
    let Value::Object(fields) = params else { return Some(("params".to_owned(), error)) };
    // The library does not say where, so it is tried: what changes the complaint is what it is about.
    let changed = |fields: Map<String, Value>| why(&Value::Object(fields)).as_ref() != Some(&error);
    let with = |name: &str| {
        let mut fields = fields.clone();
        fields.insert(name.to_owned(), Value::Null);
        fields
    };
    let without = |name: &str| {
        let mut fields = fields.clone();
        fields.remove(name);
        fields
    };
    let missing = error.strip_prefix("missing field `").and_then(|rest| rest.split('`').next());
    let name = missing
        .filter(|name| !fields.contains_key(*name) && changed(with(name)))
        .or_else(|| fields.keys().map(String::as_str).find(|name| changed(without(name))));
    let path = name.map_or_else(|| "params".to_owned(), |name| format!("params.{name}"));
    Some((path, error))
}

/// What can be read of a message that cannot be read whole: what is skipped may be cut off, and of any depth.
#[derive(Debug, Default)]
struct Head {
    is_object: bool,
    jsonrpc: Value,
    id: Value,
    method: Value,
    has_outcome: bool,
}

impl Head {
    fn of(bytes: &[u8]) -> Self {
        let mut head = Self::default();
        let mut reader = serde_json::Deserializer::from_slice(bytes);
        if let Err(error) = reader.deserialize_map(&mut head) {
            tracing::debug!("a message was read only as far as this: {error}");
        }
        head
    }

    /// An id without a method may be that of a question of ours.
    fn id(&self) -> Value {
        match &self.id {
            id if self.answers() || !(id.is_string() || id.is_i64()) => Value::Null,
            id => id.clone(),
        }
    }

    fn answers(&self) -> bool {
        self.has_outcome && self.method.is_null()
    }

    fn notifies(&self) -> bool {
        self.method.is_string() && self.id.is_null() && self.jsonrpc == "2.0"
    }

    fn wrong(&self, bytes: &[u8], error: &serde_json::Error) -> ErrorData {
        let whole: Value = serde_json::from_slice(bytes).unwrap_or_default();
        let is_request = self.jsonrpc == "2.0" && !self.id().is_null();
        let misread = self
            .method
            .as_str()
            .filter(|_| is_request)
            .and_then(|method| misread(method, whole.get("params")));
        let why = match self {
            Self { is_object: false, .. } => "a message is one object; batches are not taken".to_owned(),
            Self { jsonrpc, .. } if jsonrpc != "2.0" => "`jsonrpc` must be \"2.0\"".to_owned(),
            Self { method, .. } if !method.is_string() => "`method` is missing".to_owned(),
            Self { id, .. } if *id != self.id() => "`id` must be a string or an integer".to_owned(),
            Self { .. } => error.to_string(),
        };
        misread.unwrap_or_else(|| ErrorData::invalid_request(format!("Invalid Request: {why}"), None))
    }
}

impl<'de> Visitor<'de> for &mut Head {
    type Value = ();

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a message")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<(), A::Error> {
        self.is_object = true;
        let mut id = Value::Null;
        loop {
            let key = fields.next_key::<String>()?;
            // Only here is it sure that the id was not cut off in its middle.
            self.id = id.clone();
            match key.as_deref() {
                Some("id") => id = fields.next_value()?,
                Some("jsonrpc") => self.jsonrpc = fields.next_value()?,
                Some("method") => self.method = fields.next_value()?,
                Some(other) => {
                    self.has_outcome |= ["result", "error"].contains(&other);
                    fields.next_value::<IgnoredAny>()?;
                }
                None => return Ok(()),
            }
        }
    }
}
