//! Tools and prompts of the suite that answer `input_required` before they complete: in one round or several,
//! with a sealed state or without.

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, ClientCapabilities, ErrorData, GetPromptRequestParams,
    GetPromptResponse, InputRequiredResult, InputResponses, RequestStateCodec,
};
use serde_json::{Value, json};

use super::{McpRequestContext, from_json, text_response};

/// The input request that has this key, as JSON.
pub fn input_request(name: &str) -> Value {
    let form = |message: &str, field: &str, kind: &str| {
        let schema =
            json!({ "type": "object", "properties": { field: { "type": kind } }, "required": [field] });
        json!({ "method": "elicitation/create", "params": { "mode": "form", "message": message, "requestedSchema": schema } })
    };
    let sampling = |prompt: &str, tokens: u32| {
        let message = json!({ "role": "user", "content": { "type": "text", "text": prompt } });
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

/// An `input_required` result with these input requests.
fn request_inputs(names: &[&str], state: Option<String>) -> Result<InputRequiredResult, ErrorData> {
    let requests = names.iter().map(|name| ((*name).to_owned(), input_request(name)));
    let requests: serde_json::Map<String, Value> = requests.collect();
    Ok(InputRequiredResult::new(Some(from_json(Value::Object(requests))?), state))
}

/// Whether every input request has a response of the right type.
fn has_all_responses(responses: Option<&InputResponses>, names: &[&str]) -> bool {
    names.iter().all(|name| {
        let given = responses.and_then(|responses| responses.get(*name));
        given.is_some_and(|given| match input_request(name)["method"].as_str() {
            Some("elicitation/create") => given["action"] != "accept" || given["content"].is_object(),
            Some("roots/list") => given["roots"].is_array(),
            _ => given["content"].is_object() || given["content"].is_array(),
        })
    })
}

/// Calls a tool that needs input. Err: unknown tool, or a state that was altered.
pub fn call_input_tool(
    codec: &RequestStateCodec,
    request: CallToolRequestParams,
    context: &McpRequestContext,
) -> Result<CallToolResponse, ErrorData> {
    let (names, sealed): (&[&str], bool) = match request.name.as_ref() {
        "test_input_required_result_elicitation" => (&["user_name"], false),
        "test_input_required_result_sampling" => (&["capital_question"], false),
        "test_input_required_result_list_roots" => (&["client_roots"], false),
        "test_input_required_result_request_state" | "test_input_required_result_tampered_state" => {
            (&["confirm"], true)
        }
        "test_input_required_result_multiple_inputs" => (&["user_name", "greeting", "client_roots"], true),
        "test_input_required_result_multi_round" => return run_two_rounds(codec, &request),
        "test_input_required_result_capabilities" => (supported_inputs(context), false),
        name => return Err(ErrorData::invalid_params(format!("Unknown tool: {name}"), None)),
    };
    let state = sealed.then(|| codec.seal(request.name.as_bytes()));
    if !has_all_responses(request.input_responses.as_ref(), names) {
        return Ok(request_inputs(names, state)?.into());
    }
    if sealed {
        open_state(codec, &request)?;
    }
    Ok(text_response(completed_text(&request)))
}

/// The response to `request_name`; None: the call brings none.
pub fn answered_name(request: &CallToolRequestParams) -> Option<String> {
    let given = request.input_responses.as_ref()?.get("user_name")?;
    given["content"]["name"].as_str().map(str::to_owned)
}

/// Asks the client for the user's name.
pub fn request_name() -> Result<CallToolResponse, ErrorData> {
    Ok(request_inputs(&["user_name"], None)?.into())
}

/// Opens the state that the call brings back. Err: it was altered or is missing.
fn open_state(codec: &RequestStateCodec, request: &CallToolRequestParams) -> Result<Vec<u8>, ErrorData> {
    let state = request.request_state.as_deref().unwrap_or_default();
    let broken = |error| ErrorData::invalid_params(format!("the requestState does not hold: {error}"), None);
    codec.open(state).map_err(broken)
}

fn completed_text(request: &CallToolRequestParams) -> String {
    let responses = request.input_responses.clone().unwrap_or_default();
    match responses.get("user_name").and_then(|given| given["content"]["name"].as_str()) {
        Some(name) if request.request_state.is_none() => format!("Hello, {name}!"),
        _ => format!("state-ok {}", json!(responses)),
    }
}

/// The tool with two rounds: each state names the question that it belongs to.
fn run_two_rounds(
    codec: &RequestStateCodec,
    request: &CallToolRequestParams,
) -> Result<CallToolResponse, ErrorData> {
    let responses = request.input_responses.as_ref();
    let round = match request.request_state {
        None => b"first".to_vec(),
        Some(_) => open_state(codec, request)?,
    };
    match round.as_slice() {
        b"step1" if has_all_responses(responses, &["step1"]) => {
            Ok(request_inputs(&["step2"], Some(codec.seal(b"step2")))?.into())
        }
        b"step2" if has_all_responses(responses, &["step2"]) => Ok(text_response("All rounds are done")),
        b"step2" => Ok(request_inputs(&["step2"], Some(codec.seal(b"step2")))?.into()),
        _ => Ok(request_inputs(&["step1"], Some(codec.seal(b"step1")))?.into()),
    }
}

/// The input requests that the client's declared capabilities can answer.
fn supported_inputs(context: &McpRequestContext) -> &'static [&'static str] {
    let ClientCapabilities { elicitation, sampling, .. } = context.client_capabilities().unwrap_or_default();
    match (elicitation.is_some(), sampling.is_some()) {
        (true, true) => &["user_name", "greeting"],
        (true, false) => &["user_name"],
        (false, true) => &["greeting"],
        (false, false) => &[],
    }
}

/// Answers `prompts/get` of the prompt that needs input.
pub fn get_input_prompt(request: &GetPromptRequestParams) -> Result<GetPromptResponse, ErrorData> {
    let responses = request.input_responses.as_ref();
    if !has_all_responses(responses, &["user_context"]) {
        return Ok(GetPromptResponse::InputRequired(request_inputs(&["user_context"], None)?));
    }
    let text = format!("Use this context: {}", json!(responses));
    let message = json!({ "role": "user", "content": { "type": "text", "text": text } });
    Ok(GetPromptResponse::Complete(from_json(json!({ "resultType": "complete", "messages": [message] }))?))
}
