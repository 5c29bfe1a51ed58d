//! Classification of outcomes: the one place that decides whether a call succeeded, failed or is unknown. It
//! knows what the transport observed, not how the call was sent.

use std::process::ExitStatus;
use std::time::Duration;

use actbook_engine::long_number::quote_inexact_in_json;
use actbook_engine::policy::ErrorCategory;
use serde_json::{Value, json};

use super::CallOutcome;
use super::process::describe_exit;
use crate::egress::{EgressError, HttpFailure};

/// The default limit of an output; a larger one is truncated and marked so, which does not change the
/// outcome.
pub const OUTPUT_BYTES_MAX: usize = 1024 * 1024;
/// Room for the JSON object around a truncated text.
const TRUNCATION_FRAME_BYTES: usize = 64;
/// A longer error message is truncated.
const ERROR_MESSAGE_BYTES_MAX: usize = 8 * 1024;

/// The outcome of a call as the transport observed it, before classification.
#[derive(Clone, Debug)]
pub enum RawOutcome {
    /// No byte of the call was sent.
    NotSent { category: ErrorCategory, why: String },
    /// An MCP tool result: its text blocks joined, its structured content, its `isError`.
    ToolResult { text: String, structured: Option<Value>, is_error: bool },
    /// An HTTP response with a 2xx status. `cut`: the body was longer than the limit.
    HttpSuccess { code: u16, body: Vec<u8>, cut: bool },
    /// A JSON-RPC error under the call's id.
    RpcError { code: i32, message: String, data: Option<Value> },
    /// The tool asks a question. `began`: in the middle of its work rather than before any effect.
    InputRequired { question: Value, began: bool },
    /// The server continues the call as an MCP task with this id. `poll`: the interval it asks for.
    McpTaskCreated { task: String, poll: Option<Duration> },
    /// The server cancelled the MCP task or no longer knows it.
    McpTaskLost { why: String },
    /// A response that is not a tool result, not a JSON-RPC message, or not to this call.
    InvalidResponse { why: String },
    /// The server no longer knows the session that the call was made in.
    SessionLost,
    /// A redirect that was refused or could not be followed.
    RedirectFailed { category: ErrorCategory, why: String },
    /// A non-2xx HTTP status. `text`: the redirect's target, or the beginning of the body.
    HttpFailure { code: u16, text: String, retry_after: Option<Duration> },
    /// The connection or the child process ended while the call was in flight.
    ConnectionLost { why: String },
    /// No answer came within the call's timeout.
    TimedOut { after: Duration },
    /// An in-process executor panicked.
    ExecutorPanicked { why: String },
    /// A command exited, or was killed by a signal.
    CommandExited { status: ExitStatus, stdout: Vec<u8>, stdout_cut: bool, stderr: String },
}

impl From<EgressError> for RawOutcome {
    fn from(error: EgressError) -> Self {
        match error {
            EgressError::NotSent { category, why } => Self::NotSent { category, why },
            EgressError::RedirectFailed { category, why } => Self::RedirectFailed { category, why },
            EgressError::ConnectionLost { why } => Self::ConnectionLost { why },
        }
    }
}

impl From<HttpFailure> for RawOutcome {
    fn from(HttpFailure { code, text, retry_after, .. }: HttpFailure) -> Self {
        Self::HttpFailure { code, text, retry_after }
    }
}

/// Classifies an outcome by this table; docs/classification.md has it per transport, in the same order.
///
/// | observed | outcome |
/// |---|---|
/// | not sent: unknown server, invalid arguments, denied by policy, cannot start, no connection, no handshake | failed, `sent: false` |
/// | a tool result; a 2xx response; exit code 0 | succeeded |
/// | a tool result with `isError`; another exit code | failed, `tool_error` |
/// | a JSON-RPC error | failed, category by code; unknown where it reports a timeout or a lost connection further down |
/// | a question | input required: failed where nothing was done yet, unknown in the middle of an MCP task |
/// | an MCP task's end | as the result that it carries; polled until then |
/// | an MCP task that was cancelled, or that the server no longer knows | unknown, `unavailable` |
/// | a response that is not a tool result, no message, or not to this call | unknown, `protocol` |
/// | a session that the server no longer knows | failed, `unavailable` |
/// | a redirect that could not be followed | failed, category by reason |
/// | a status below 500 | failed, category by status; 408 unknown, `timeout` |
/// | any other status | unknown, `unavailable` |
/// | the connection was lost, the child exited or was killed by a signal | unknown, `unavailable` |
/// | timeout | unknown, `timeout` |
/// | an in-process executor panicked | unknown, `internal` |
///
/// `stopped`: the call had been asked to stop. A failure may then mean "interrupted half-way", so it is
/// classified as unknown.
pub fn classify(raw: RawOutcome, stopped: bool) -> CallOutcome {
    let outcome = match raw {
        RawOutcome::NotSent { category, why } => {
            CallOutcome::Failed { category, message: why, sent: false, output: None, retry_after: None }
        }
        RawOutcome::ToolResult { text, structured, is_error: false } => {
            CallOutcome::Succeeded { output: structured.unwrap_or_else(|| json!({ "text": text })) }
        }
        RawOutcome::HttpSuccess { code, body, cut } => {
            CallOutcome::Succeeded { output: http_output(code, &String::from_utf8_lossy(&body), cut) }
        }
        RawOutcome::ToolResult { text, structured, is_error: true } => tool_error(text, structured),
        RawOutcome::RpcError { code, message, data } => rpc_error(code, message, data),
        RawOutcome::InputRequired { question, began } => input_required(question, began),
        RawOutcome::McpTaskCreated { task, .. } => unknown(
            ErrorCategory::Protocol,
            format!("the server continues the call by itself, as task {task}"),
        ),
        RawOutcome::McpTaskLost { why } => unknown(ErrorCategory::Unavailable, why),
        RawOutcome::InvalidResponse { why } => unknown(ErrorCategory::Protocol, why),
        RawOutcome::SessionLost => failed(
            ErrorCategory::Unavailable,
            "the server has lost the session; the next call starts a new one".into(),
        ),
        RawOutcome::RedirectFailed { category, why } => failed(category, why),
        RawOutcome::HttpFailure { code, text, retry_after } => http_failure(code, &text, retry_after),
        RawOutcome::ConnectionLost { why } => unknown(ErrorCategory::Unavailable, why),
        RawOutcome::TimedOut { after } if stopped => unknown(
            ErrorCategory::Timeout,
            format!("it was asked to stop, and gave no answer within {after:?}"),
        ),
        RawOutcome::TimedOut { after } => {
            unknown(ErrorCategory::Timeout, format!("no answer within {after:?}"))
        }
        RawOutcome::ExecutorPanicked { why } => {
            unknown(ErrorCategory::Internal, format!("the executor panicked: {why}"))
        }
        RawOutcome::CommandExited { status, stdout, stdout_cut, stderr } => {
            command_exited(status, &String::from_utf8_lossy(&stdout), stdout_cut, stderr)
        }
    };
    if stopped { failed_to_unknown(outcome) } else { outcome }
}

/// A question, unless it is too large to store: then it could not be answered, and the call fails or is
/// unknown.
fn input_required(question: Value, began: bool) -> CallOutcome {
    if question.to_string().len() <= OUTPUT_BYTES_MAX {
        return CallOutcome::InputRequired { question, began };
    }
    let message = "the tool's question is too large".to_owned();
    if began { unknown(ErrorCategory::Protocol, message) } else { failed(ErrorCategory::Protocol, message) }
}

/// Failed after it was sent, without output.
fn failed(category: ErrorCategory, message: String) -> CallOutcome {
    CallOutcome::Failed { category, message, sent: true, output: None, retry_after: None }
}

/// Unknown, without a `retry_after`.
fn unknown(category: ErrorCategory, message: String) -> CallOutcome {
    CallOutcome::Unknown { category, message, retry_after: None }
}

/// The outcome of a result with `isError`; a JSON-RPC error that the TypeScript SDK wrapped is unwrapped
/// first.
fn tool_error(text: String, structured: Option<Value>) -> CallOutcome {
    let wrapped = text.strip_prefix("MCP error ").and_then(|rest| rest.split_once(": "));
    if let Some((code, message)) = wrapped
        && let Ok(code) = code.parse()
    {
        return rpc_error(code, message.to_owned(), structured);
    }
    let message = match (text.is_empty(), &structured) {
        (false, _) => text.clone(),
        (true, Some(structured)) => structured.to_string(),
        (true, None) => "the tool reported an error without a message".to_owned(),
    };
    let output = structured.or_else(|| (!text.is_empty()).then(|| json!({ "text": text })));
    CallOutcome::Failed { category: ErrorCategory::ToolError, message, sent: true, output, retry_after: None }
}

/// The outcome of a JSON-RPC error. MCP reports an unknown tool as "invalid params", so the message decides
/// between the two. -32000 and -32001 are the TypeScript SDK's codes for a connection or a request lost
/// further down.
fn rpc_error(code: i32, message: String, data: Option<Value>) -> CallOutcome {
    let lowercase = message.to_lowercase();
    let says = |phrases: &[&str]| phrases.iter().any(|phrase| lowercase.contains(phrase));
    let category = match code {
        -32000 if says(&["connection closed"]) => return unknown(ErrorCategory::Unavailable, message),
        -32001 if says(&["timed out", "timeout"]) => return unknown(ErrorCategory::Timeout, message),
        -32602 if says(&["unknown tool", "tool not found"]) => ErrorCategory::NotFound,
        -32602 if says(&["tool"]) && says(&["not found"]) => ErrorCategory::NotFound,
        -32602 | 400 | 422 => ErrorCategory::InvalidArguments,
        -32601 | -32002 | 404 => ErrorCategory::NotFound,
        401 | 403 => ErrorCategory::Permission,
        429 => ErrorCategory::RateLimited,
        -32600 | -32700 | -32022..=-32020 => ErrorCategory::Protocol,
        -32603 => ErrorCategory::Internal,
        _ => ErrorCategory::ToolError,
    };
    let output = data.map(|data| json!({ "code": code, "data": data }));
    let message = format!("{message} ({code})");
    CallOutcome::Failed { category, message, sent: true, output, retry_after: None }
}

/// The outcome of a non-2xx HTTP status. Below 500 the server refused the request. 408 says that the server
/// stopped waiting, not how far it had come. A 5xx, even a 503 with `Retry-After`, may come from a gateway
/// that had already forwarded the call.
fn http_failure(code: u16, text: &str, retry_after: Option<Duration>) -> CallOutcome {
    let message = with_detail(format!("HTTP {code}"), text);
    let category = match code {
        300..=399 => ErrorCategory::Protocol,
        400 | 422 => ErrorCategory::InvalidArguments,
        401 | 403 | 407 => ErrorCategory::Permission,
        404 | 410 => ErrorCategory::NotFound,
        408 => ErrorCategory::Timeout,
        429 => ErrorCategory::RateLimited,
        400..=499 => ErrorCategory::ToolError,
        _ => ErrorCategory::Unavailable,
    };
    match code {
        408 | 0..300 | 500.. => CallOutcome::Unknown { category, message, retry_after },
        300..408 | 409..500 => {
            let output = Some(json!({ "status": code, "text": text }));
            CallOutcome::Failed { category, message, sent: true, output, retry_after }
        }
    }
}

/// The outcome of a command that exited: code 0 succeeded, another code failed, a signal unknown.
fn command_exited(status: ExitStatus, stdout: &str, stdout_cut: bool, stderr: String) -> CallOutcome {
    match status.code() {
        Some(0) => CallOutcome::Succeeded { output: command_output(stdout, stdout_cut) },
        Some(code) => CallOutcome::Failed {
            category: ErrorCategory::ToolError,
            message: with_detail(describe_exit(status), &stderr),
            sent: true,
            output: Some(json!({ "exit_code": code, "stdout": stdout, "stderr": stderr })),
            retry_after: None,
        },
        None => unknown(
            ErrorCategory::Unavailable,
            with_detail(format!("the command {}", describe_exit(status)), &stderr),
        ),
    }
}

/// The JSON object that the text is. `None`: it is not one.
fn parse_object(text: &str) -> Option<Value> {
    serde_json::from_str(&quote_inexact_in_json(text)).ok().filter(Value::is_object)
}

/// The JSON object on stdout, else `{"text": …}`. `cut`: a part was discarded, which a text is then marked
/// with.
fn command_output(stdout: &str, cut: bool) -> Value {
    match parse_object(stdout) {
        Some(output) => output,
        None if cut => json!({ "text": stdout, "truncated": true }),
        None => json!({ "text": stdout }),
    }
}

/// The JSON object in the body, else `{"text": …, "status": …}`. `cut`: a part was discarded, which a text is
/// then marked with.
fn http_output(code: u16, text: &str, cut: bool) -> Value {
    match parse_object(text) {
        Some(output) => output,
        None if cut => json!({ "text": text, "status": code, "truncated": true }),
        None => json!({ "text": text, "status": code }),
    }
}

/// Turns a failure of a call that was sent into unknown, and leaves any other outcome; for calls that were
/// asked to stop.
fn failed_to_unknown(outcome: CallOutcome) -> CallOutcome {
    match outcome {
        CallOutcome::Failed { category, message, sent: true, .. } => {
            unknown(category, format!("asked to stop, the tool answered: {message}"))
        }
        CallOutcome::Failed { sent: false, .. }
        | CallOutcome::Succeeded { .. }
        | CallOutcome::Unknown { .. }
        | CallOutcome::InputRequired { .. } => outcome,
    }
}

/// Truncates an output larger than `bytes_max` and a too long message; questions stay whole, and a success
/// stays a success. Must run after redaction: a secret that is split by the truncation would not be
/// recognised.
pub fn truncate_outcome(outcome: CallOutcome, bytes_max: usize) -> CallOutcome {
    match outcome {
        CallOutcome::Succeeded { output } => {
            CallOutcome::Succeeded { output: truncate_output(output, bytes_max) }
        }
        CallOutcome::Failed { category, message, sent, output, retry_after } => {
            let output = output.map(|output| truncate_output(output, bytes_max));
            CallOutcome::Failed { category, message: truncate_message(message), sent, output, retry_after }
        }
        CallOutcome::Unknown { category, message, retry_after } => {
            CallOutcome::Unknown { category, message: truncate_message(message), retry_after }
        }
        CallOutcome::InputRequired { .. } => outcome,
    }
}

/// The output if its JSON fits into `bytes_max`, else the beginning of its text, marked as truncated.
pub fn truncate_output(output: Value, bytes_max: usize) -> Value {
    let written = output.to_string();
    if written.len() <= bytes_max {
        return output;
    }
    let text = output.get("text").and_then(Value::as_str).unwrap_or(&written);
    let kept = json_prefix(text, bytes_max.saturating_sub(TRUNCATION_FRAME_BYTES));
    json!({ "text": kept, "truncated": true, "bytes": written.len() })
}

/// The longest prefix whose JSON encoding, without quotes, takes at most `bytes`.
fn json_prefix(text: &str, bytes: usize) -> &str {
    let mut used = 0;
    for (at, c) in text.char_indices() {
        used += match c {
            '"' | '\\' | '\n' | '\r' | '\t' | '\u{8}' | '\u{c}' => 2,
            '\0'..='\u{1f}' => 6,
            _ => c.len_utf8(),
        };
        if used > bytes {
            return &text[..at];
        }
    }
    text
}

/// The message; one longer than `ERROR_MESSAGE_BYTES_MAX` is cut to that many bytes, and ` …` is added.
pub fn truncate_message(message: String) -> String {
    if message.len() > ERROR_MESSAGE_BYTES_MAX {
        format!("{} …", utf8_prefix(&message, ERROR_MESSAGE_BYTES_MAX))
    } else {
        message
    }
}

/// The longest prefix of at most `bytes` bytes that ends at a character boundary.
fn utf8_prefix(text: &str, bytes: usize) -> &str {
    let end = (0..=bytes.min(text.len())).rev().find(|at| text.is_char_boundary(*at));
    &text[..end.unwrap_or(0)]
}

/// `message: detail`, or the message alone where the detail is empty.
pub fn with_detail(message: String, detail: &str) -> String {
    if detail.is_empty() { message } else { format!("{message}: {detail}") }
}
