//! Tools that need input from the client before they can answer: one round, several, with a sealed state
//! or without.

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, ClientCapabilities, ErrorData, GetPromptRequestParams,
    GetPromptResponse, InputRequiredResult, InputResponses, RequestStateCodec,
};
use serde_json::{Value, json};

use super::{Context, shaped, text};

/// A question that a client can answer, by the name under which it answers.
pub fn question(name: &str) -> Value {
    let form = |message: &str, field: &str, kind: &str| {
        let schema =
            json!({ "type": "object", "properties": { field: { "type": kind } }, "required": [field] });
        json!({ "method": "elicitation/create", "params": { "mode": "form", "message": message, "requestedSchema": schema } })
    };
    let sampling = |words: &str, tokens: u32| {
        let message = json!({ "role": "user", "content": { "type": "text", "text": words } });
        json!({ "method": "sampling/createMessage", "params": { "messages": [message], "maxTokens": tokens } })
    };
    match name {
        "confirm" => form("Please confirm", "ok", "boolean"),
        "step1" => form("Step 1: What is your name?", "name", "string"),
        "step2" => form("Step 2: What is your favorite color?", "color", "string"),
        "user_context" => form("What context should the prompt use?", "context", "string"),
        "capital_question" => sampling("What is the capital of France?", 100),
        "greeting" => sampling("Generate a greeting", 50),
        "client_roots" => json!({ "method": "roots/list", "params": {} }),
        _ => form("What is your name?", "name", "string"),
    }
}

fn ask(names: &[&str], state: Option<String>) -> Result<InputRequiredResult, ErrorData> {
    let requests = names.iter().map(|name| ((*name).to_owned(), question(name)));
    let requests: serde_json::Map<String, Value> = requests.collect();
    Ok(InputRequiredResult::new(Some(shaped(Value::Object(requests))?), state))
}

/// Whether every question has an answer of the right shape.
fn answered(responses: Option<&InputResponses>, names: &[&str]) -> bool {
    names.iter().all(|name| {
        let given = responses.and_then(|responses| responses.get(*name));
        given.is_some_and(|given| match question(name)["method"].as_str() {
            Some("elicitation/create") => given["action"] != "accept" || given["content"].is_object(),
            Some("roots/list") => given["roots"].is_array(),
            _ => given["content"].is_object() || given["content"].is_array(),
        })
    })
}

pub fn call(
    seal: &RequestStateCodec,
    request: CallToolRequestParams,
    context: &Context,
) -> Result<CallToolResponse, ErrorData> {
    let (names, sealed): (&[&str], bool) = match request.name.as_ref() {
        "test_input_required_result_elicitation" => (&["user_name"], false),
        "test_input_required_result_sampling" => (&["capital_question"], false),
        "test_input_required_result_list_roots" => (&["client_roots"], false),
        "test_input_required_result_request_state" | "test_input_required_result_tampered_state" => {
            (&["confirm"], true)
        }
        "test_input_required_result_multiple_inputs" => (&["user_name", "greeting", "client_roots"], true),
        "test_input_required_result_multi_round" => return rounds(seal, &request),
        "test_input_required_result_capabilities" => (possible(context), false),
        name => return Err(ErrorData::invalid_params(format!("Unknown tool: {name}"), None)),
    };
    let state = sealed.then(|| seal.seal(request.name.as_bytes()));
    if !answered(request.input_responses.as_ref(), names) {
        return Ok(ask(names, state)?.into());
    }
    if sealed {
        opened(seal, &request)?;
    }
    Ok(text(told(&request)))
}

/// What the client said to `ask_name`.
pub fn name_given(request: &CallToolRequestParams) -> Option<String> {
    let given = request.input_responses.as_ref()?.get("user_name")?;
    given["content"]["name"].as_str().map(str::to_owned)
}

pub fn ask_name() -> Result<CallToolResponse, ErrorData> {
    Ok(ask(&["user_name"], None)?.into())
}

fn opened(seal: &RequestStateCodec, request: &CallToolRequestParams) -> Result<Vec<u8>, ErrorData> {
    let state = request.request_state.as_deref().unwrap_or_default();
    let broken = |error| ErrorData::invalid_params(format!("the requestState does not hold: {error}"), None);
    seal.open(state).map_err(broken)
}

fn told(request: &CallToolRequestParams) -> String {
    let responses = request.input_responses.clone().unwrap_or_default();
    match responses.get("user_name").and_then(|given| given["content"]["name"].as_str()) {
        Some(name) if request.request_state.is_none() => format!("Hello, {name}!"),
        _ => format!("state-ok {}", json!(responses)),
    }
}

fn rounds(seal: &RequestStateCodec, request: &CallToolRequestParams) -> Result<CallToolResponse, ErrorData> {
    let responses = request.input_responses.as_ref();
    let round = match request.request_state {
        None => b"first".to_vec(),
        Some(_) => opened(seal, request)?,
    };
    match round.as_slice() {
        b"step1" if answered(responses, &["step1"]) => Ok(ask(&["step2"], Some(seal.seal(b"step2")))?.into()),
        b"step2" if answered(responses, &["step2"]) => Ok(text("All rounds are done")),
        b"step2" => Ok(ask(&["step2"], Some(seal.seal(b"step2")))?.into()),
        _ => Ok(ask(&["step1"], Some(seal.seal(b"step1")))?.into()),
    }
}

/// Only what the client said it can do.
fn possible(context: &Context) -> &'static [&'static str] {
    let ClientCapabilities { elicitation, sampling, .. } = context.client_capabilities().unwrap_or_default();
    match (elicitation.is_some(), sampling.is_some()) {
        (true, true) => &["user_name", "greeting"],
        (true, false) => &["user_name"],
        (false, true) => &["greeting"],
        (false, false) => &[],
    }
}

pub fn prompt(request: &GetPromptRequestParams) -> Result<GetPromptResponse, ErrorData> {
    let responses = request.input_responses.as_ref();
    if !answered(responses, &["user_context"]) {
        return Ok(GetPromptResponse::InputRequired(ask(&["user_context"], None)?));
    }
    let words = format!("Use this context: {}", json!(responses));
    let message = json!({ "role": "user", "content": { "type": "text", "text": words } });
    Ok(GetPromptResponse::Complete(shaped(json!({ "resultType": "complete", "messages": [message] }))?))
}
