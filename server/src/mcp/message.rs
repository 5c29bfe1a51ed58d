//! Parses incoming JSON-RPC messages. A message that cannot be parsed yields the error reply, with the
//! request's id where it can be read, so that no client waits for a reply that never comes. Knows the
//! protocol's methods and their parameter types, not what they do.

use actbook_engine::plan::find_inexact_in_json;
use rmcp::model::{
    CallToolRequestParams, CancelTaskParams, ClientJsonRpcMessage, ClientRequest, CompleteRequestParams,
    DiscoverRequestParams, ErrorData, GetPromptRequestParams, GetTaskParams, InitializeRequestParams,
    JsonRpcRequest, PaginatedRequestParams, ReadResourceRequestParams, RequestId, SubscribeRequestParams,
    SubscriptionsListenRequestParams, UnsubscribeRequestParams, UpdateTaskParams,
};
use serde::de::{DeserializeOwned, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::error::Category;
use serde_json::{Map, Value, json};

/// A message that is refused: the error, the id to reply to, and whether a reply is due.
#[derive(Debug)]
pub struct MessageFault {
    /// The id of the request; null where it could not be read.
    id: Value,
    error: ErrorData,
    /// The message gets an error reply: it is neither a notification nor a response.
    pub needs_reply: bool,
}

impl MessageFault {
    /// The JSON-RPC error reply.
    pub fn error_reply(&self) -> Value {
        json!({ "jsonrpc": "2.0", "id": self.id, "error": self.error })
    }

    /// The fault of a request whose id another request in flight has.
    pub fn id_in_use(id: &RequestId) -> Self {
        Self { needs_reply: true, id: id.clone().into_json_value(), error: id_in_use_error(id) }
    }

    /// The fault of a message that is longer than `bytes_max`; `beginning` is the part that was kept.
    pub fn too_long(beginning: &[u8], bytes_max: usize) -> Self {
        let head = MessageHead::read(beginning);
        let message = format!("Invalid Request: the message is longer than {bytes_max} bytes");
        Self {
            needs_reply: !head.is_response(),
            id: head.reply_id(),
            error: ErrorData::invalid_request(message, None),
        }
    }

    /// The fault of a message that serde could not read for this error.
    fn from_parse_error(bytes: &[u8], error: &serde_json::Error) -> Self {
        let head = MessageHead::read(bytes);
        match error.classify() {
            Category::Syntax | Category::Eof => {
                let error = ErrorData::parse_error(format!("Parse error: {error}"), None);
                Self { needs_reply: !head.is_response(), id: head.reply_id(), error }
            }
            Category::Data | Category::Io => {
                let needs_reply = !head.is_response() && !head.is_notification();
                Self { needs_reply, id: head.reply_id(), error: head.to_error(bytes, error) }
            }
        }
    }
}

/// The error for a repeated request id: a call that is sent twice without an idempotency key would act twice.
pub fn id_in_use_error(id: &RequestId) -> ErrorData {
    let message = format!(
        "Invalid Request: a request with the id {id} is still being answered; give every request an id of its own, or an idempotency_key"
    );
    ErrorData::invalid_request(message, None)
}

/// Whether the call carries an `idempotency_key`, so that a repeat of it acts once.
pub fn has_idempotency_key(call: &CallToolRequestParams) -> bool {
    call.arguments.as_ref().is_some_and(|given| given.contains_key("idempotency_key"))
}

/// Parses one message. Err: bad JSON, bad parameters, or an integer that would be rounded.
pub fn parse_message(bytes: &[u8]) -> Result<ClientJsonRpcMessage, MessageFault> {
    let message =
        serde_json::from_slice(bytes).map_err(|error| MessageFault::from_parse_error(bytes, &error))?;
    // The library parses a known method with bad parameters as a custom request.
    if let ClientJsonRpcMessage::Request(JsonRpcRequest {
        id,
        request: ClientRequest::CustomRequest(custom),
        ..
    }) = &message
        && let Some(error) = params_error(&custom.method, custom.params.as_ref())
    {
        return Err(MessageFault { id: id.clone().into_json_value(), error, needs_reply: true });
    }
    if let ClientJsonRpcMessage::Request(JsonRpcRequest { id, .. }) = &message
        && let Some(error) = inexact_number_error(bytes)
    {
        return Err(MessageFault { id: id.clone().into_json_value(), error, needs_reply: true });
    }
    Ok(message)
}

/// The error for the first integer in a JSON text that does not fit into 64 bits; None: all of them fit.
fn inexact_number_error(bytes: &[u8]) -> Option<ErrorData> {
    let number = find_inexact_in_json(std::str::from_utf8(bytes).ok()?)?;
    let (message, cure) = number.message_and_cure();
    Some(ErrorData::invalid_params(format!("Invalid params: `{}`: {message}; {cure}", number.path), None))
}

#[expect(deprecated, reason = "the older revisions of the protocol still set the level of logging")]
use rmcp::model::SetLevelRequestParams;

/// Checks parameters against one method's type: the path and the message of an error, None if they parse.
type ParamsCheck = fn(&Value) -> Option<(String, String)>;

/// The check of parameters for each method that this server has.
#[expect(deprecated, reason = "the older revisions of the protocol still set the level of logging")]
const METHOD_PARAMS: [(&str, ParamsCheck); 17] = [
    ("initialize", check_params::<InitializeRequestParams>),
    ("server/discover", check_params::<DiscoverRequestParams>),
    ("tools/call", check_params::<CallToolRequestParams>),
    ("tools/list", check_params::<PaginatedRequestParams>),
    ("prompts/get", check_params::<GetPromptRequestParams>),
    ("prompts/list", check_params::<PaginatedRequestParams>),
    ("resources/list", check_params::<PaginatedRequestParams>),
    ("resources/templates/list", check_params::<PaginatedRequestParams>),
    ("resources/read", check_params::<ReadResourceRequestParams>),
    ("resources/subscribe", check_params::<SubscribeRequestParams>),
    ("resources/unsubscribe", check_params::<UnsubscribeRequestParams>),
    ("subscriptions/listen", check_params::<SubscriptionsListenRequestParams>),
    ("completion/complete", check_params::<CompleteRequestParams>),
    ("logging/setLevel", check_params::<SetLevelRequestParams>),
    ("tasks/get", check_params::<GetTaskParams>),
    ("tasks/update", check_params::<UpdateTaskParams>),
    ("tasks/cancel", check_params::<CancelTaskParams>),
];

/// The error for parameters that do not parse; None: they parse, or the method is unknown.
pub fn params_error(method: &str, params: Option<&Value>) -> Option<ErrorData> {
    let (_, check) = METHOD_PARAMS.iter().find(|(known, _)| *known == method)?;
    let empty = json!({});
    let (path, why) = check(params.filter(|params| !params.is_null()).unwrap_or(&empty))?;
    Some(ErrorData::invalid_params(format!("Invalid params: `{path}` of {method}: {why}"), None))
}

/// The path and the message of the error that `T` gives for these parameters; None if they parse.
fn check_params<T: DeserializeOwned>(params: &Value) -> Option<(String, String)> {
    let parse_error = |params: &Value| T::deserialize(params).err().map(|error| error.to_string());
    let error = parse_error(params)?;
    let Value::Object(fields) = params else { return Some(("params".to_owned(), error)) };
    // serde does not name the field: the one whose removal or addition changes the error is wrong.
    let changed = |fields: Map<String, Value>| parse_error(&Value::Object(fields)).as_ref() != Some(&error);
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

/// The top-level fields of a message that does not parse; other fields may be cut off or nested to any depth.
#[derive(Debug, Default)]
struct MessageHead {
    is_object: bool,
    jsonrpc: Value,
    id: Value,
    method: Value,
    has_result_or_error: bool,
}

impl MessageHead {
    /// Reads id, method and kind of a message that may be invalid, up to the first syntax error.
    fn read(bytes: &[u8]) -> Self {
        let mut head = Self::default();
        let mut reader = serde_json::Deserializer::from_slice(bytes);
        if let Err(error) = reader.deserialize_map(&mut head) {
            tracing::debug!("a message was parsed only up to this error: {error}");
        }
        head
    }

    /// The id to reply to, else null. A response carries the id of a request of ours, so it counts as none.
    fn reply_id(&self) -> Value {
        match &self.id {
            id if self.is_response() || !(id.is_string() || id.is_i64()) => Value::Null,
            id => id.clone(),
        }
    }

    /// Whether it is a response to a request of this server.
    fn is_response(&self) -> bool {
        self.has_result_or_error && self.method.is_null()
    }

    /// Whether it has a method and no id, so that no reply is due.
    fn is_notification(&self) -> bool {
        self.method.is_string() && self.id.is_null() && self.jsonrpc == "2.0"
    }

    /// The error for this message: bad parameters of a known method, else an invalid request.
    fn to_error(&self, bytes: &[u8], error: &serde_json::Error) -> ErrorData {
        let whole: Value = serde_json::from_slice(bytes).unwrap_or_default();
        let is_request = self.jsonrpc == "2.0" && !self.reply_id().is_null();
        let params_error = self
            .method
            .as_str()
            .filter(|_| is_request)
            .and_then(|method| params_error(method, whole.get("params")));
        let why = match self {
            Self { is_object: false, .. } => "a message is one object; batches are not taken".to_owned(),
            Self { jsonrpc, .. } if jsonrpc != "2.0" => "`jsonrpc` must be \"2.0\"".to_owned(),
            Self { method, .. } if !method.is_string() => "`method` is missing".to_owned(),
            Self { id, .. } if *id != self.reply_id() => "`id` must be a string or an integer".to_owned(),
            Self { .. } => error.to_string(),
        };
        params_error.unwrap_or_else(|| ErrorData::invalid_request(format!("Invalid Request: {why}"), None))
    }
}

impl<'de> Visitor<'de> for &mut MessageHead {
    type Value = ();

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a message")
    }

    /// Fills in the head field by field; what was read before an error stays.
    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<(), A::Error> {
        self.is_object = true;
        let mut id = Value::Null;
        loop {
            let key = fields.next_key::<String>()?;
            // The next key was read, so the id before it is complete and was not cut off.
            self.id = id.clone();
            match key.as_deref() {
                Some("id") => id = fields.next_value()?,
                Some("jsonrpc") => self.jsonrpc = fields.next_value()?,
                Some("method") => self.method = fields.next_value()?,
                Some(other) => {
                    self.has_result_or_error |= ["result", "error"].contains(&other);
                    fields.next_value::<IgnoredAny>()?;
                }
                None => return Ok(()),
            }
        }
    }
}
