//! What came back from a downstream, and what that says of the call. The one place where a call is
//! judged succeeded, failed or unknown; it knows nothing of how the call travelled.

use std::process::ExitStatus;
use std::time::Duration;

use actbook_engine::policy::Category;
use serde_json::{Value, json};

use super::Ended;
use super::process::describe;

/// A larger answer is cut, and says so, where the config does not say otherwise. The call still counts as
/// what it was.
pub const OUTPUT_BYTES_MAX: usize = 1024 * 1024;
/// What the frame around a cut answer's text takes.
const CUT_FRAME_BYTES: usize = 64;
const MESSAGE_BYTES_MAX: usize = 8 * 1024;

/// What the transport saw.
#[derive(Clone, Debug)]
pub enum Came {
    /// Nothing of the call left the house.
    NotSent {
        category: Category,
        why: String,
    },
    /// An MCP tool's answer: its text blocks joined, its structured content, its `isError`.
    Answer {
        text: String,
        structured: Option<Value>,
        is_error: bool,
    },
    /// An HTTP answer that says yes.
    Page {
        code: u16,
        body: Vec<u8>,
        cut: bool,
    },
    /// A JSON-RPC error under the call's id.
    Error {
        code: i32,
        message: String,
        data: Option<Value>,
    },
    /// The tool wants to ask somebody: before it does anything, or in the middle of its work.
    Question {
        question: Value,
        began: bool,
    },
    /// The server goes on with it by itself, under this handle.
    Background {
        task: String,
        poll: Option<Duration>,
    },
    /// The server gave up a task, or has forgotten it.
    TaskLost {
        why: String,
    },
    /// An answer that is no tool result, no message, or not to this call.
    Unintelligible {
        why: String,
    },
    /// The server no longer knows the session that the call was made in.
    SessionLost,
    /// A redirect that we would not or could not go after.
    NotFollowed {
        category: Category,
        why: String,
    },
    /// An HTTP status that is no success, with what came along: where it points to, or the body's head.
    Status {
        code: u16,
        text: String,
        retry_after: Option<Duration>,
    },
    /// The connection or the child ended while the call was out.
    Broken {
        why: String,
    },
    TimedOut {
        after: Duration,
    },
    /// An executor inside this process panicked.
    Panicked {
        why: String,
    },
    /// A command ended by itself.
    Exited {
        status: ExitStatus,
        stdout: Vec<u8>,
        stdout_cut: bool,
        stderr: String,
    },
}

/// The table; docs/classification.md has it per transport, in the same order.
///
/// | what came back | outcome |
/// |---|---|
/// | not sent: unknown server, own validation, our own no, cannot start, no connection, no handshake | failed, `sent: false` |
/// | a tool's answer; a page; exit code 0 | succeeded |
/// | an answer with `isError`; another exit code | failed, `tool_error` |
/// | a JSON-RPC error | failed, category by code; unknown where it reports a time-out or a lost connection further down |
/// | a question | asks: failed where nothing was done yet, unknown in the middle of a task |
/// | a task's end | as the answer that it carries; asked after until then |
/// | a task that was cancelled, or that the server does not know any more | unknown, `unavailable` |
/// | an answer that is no tool result, no message, or not to this call | unknown, `protocol` |
/// | a forgotten session | failed, `unavailable` |
/// | a redirect that led nowhere | failed, category by why |
/// | a status below 500 | failed, category by status; 408 unknown, `timeout` |
/// | any other status | unknown, `unavailable` |
/// | the connection broke, the child died, killed by a signal | unknown, `unavailable` |
/// | time-out | unknown, `timeout` |
/// | an executor in this process panicked | unknown, `internal` |
///
/// `stopped` says that we had asked the call to stop: then a no may mean "interrupted half-way", so
/// that it is unknown rather than failed.
pub fn classify(came: Came, stopped: bool) -> Ended {
    let ended = match came {
        Came::NotSent { category, why } => {
            Ended::Failed { category, message: why, sent: false, output: None, retry_after: None }
        }
        Came::Answer { text, structured, is_error: false } => {
            Ended::Succeeded { output: structured.unwrap_or_else(|| json!({ "text": text })) }
        }
        Came::Page { code, body, cut } => {
            Ended::Succeeded { output: page_output(code, &String::from_utf8_lossy(&body), cut) }
        }
        Came::Answer { text, structured, is_error: true } => tool_said_no(text, structured),
        Came::Error { code, message, data } => rpc_error(code, message, data),
        Came::Question { question, began } => asks(question, began),
        Came::Background { task, .. } => {
            unknown(Category::Protocol, format!("the server goes on with the call by itself, as task {task}"))
        }
        Came::TaskLost { why } => unknown(Category::Unavailable, why),
        Came::Unintelligible { why } => unknown(Category::Protocol, why),
        Came::SessionLost => failed(
            Category::Unavailable,
            "the server has forgotten our session; the next call begins one".into(),
        ),
        Came::NotFollowed { category, why } => failed(category, why),
        Came::Status { code, text, retry_after } => status(code, &text, retry_after),
        Came::Broken { why } => unknown(Category::Unavailable, why),
        Came::TimedOut { after } if stopped => {
            unknown(Category::Timeout, format!("it was asked to stop, and gave no answer within {after:?}"))
        }
        Came::TimedOut { after } => unknown(Category::Timeout, format!("no answer within {after:?}")),
        Came::Panicked { why } => unknown(Category::Internal, format!("the executor panicked: {why}")),
        Came::Exited { status, stdout, stdout_cut, stderr } => {
            exited(status, &String::from_utf8_lossy(&stdout), stdout_cut, stderr)
        }
    };
    if stopped { doubt_a_no(ended) } else { ended }
}

/// A question that is too large to keep could not be answered either.
fn asks(question: Value, began: bool) -> Ended {
    match question.to_string().len() <= OUTPUT_BYTES_MAX {
        true => Ended::Asks { question, began },
        false if began => unknown(Category::Protocol, "the tool asks too large a question".into()),
        false => failed(Category::Protocol, "the tool asks too large a question".into()),
    }
}

fn failed(category: Category, message: String) -> Ended {
    Ended::Failed { category, message, sent: true, output: None, retry_after: None }
}

fn unknown(category: Category, message: String) -> Ended {
    Ended::Unknown { category, message, retry_after: None }
}

/// The TypeScript SDK wraps its own errors (unknown tool, wrong arguments) into a tool's answer.
fn tool_said_no(text: String, structured: Option<Value>) -> Ended {
    let wrapped = text.strip_prefix("MCP error ").and_then(|rest| rest.split_once(": "));
    if let Some((code, message)) = wrapped
        && let Ok(code) = code.parse()
    {
        return rpc_error(code, message.to_owned(), structured);
    }
    let message = match (text.is_empty(), &structured) {
        (false, _) => text.clone(),
        (true, Some(structured)) => structured.to_string(),
        (true, None) => "the tool said no, without a word why".to_owned(),
    };
    let output = structured.or_else(|| (!text.is_empty()).then(|| json!({ "text": text })));
    Ended::Failed { category: Category::ToolError, message, sent: true, output, retry_after: None }
}

/// MCP names an unknown tool with "invalid params", so the words decide between the two. -32000 and
/// -32001 are what the TypeScript SDK gives for a connection or a request lost further down.
fn rpc_error(code: i32, message: String, data: Option<Value>) -> Ended {
    let words = message.to_lowercase();
    let says = |sought: &[&str]| sought.iter().any(|word| words.contains(word));
    let category = match code {
        -32000 if says(&["connection closed"]) => return unknown(Category::Unavailable, message),
        -32001 if says(&["timed out", "timeout"]) => return unknown(Category::Timeout, message),
        -32602 if says(&["unknown tool", "tool not found"]) => Category::NotFound,
        -32602 if says(&["tool"]) && says(&["not found"]) => Category::NotFound,
        -32602 | 400 | 422 => Category::InvalidArguments,
        -32601 | -32002 | 404 => Category::NotFound,
        401 | 403 => Category::Permission,
        429 => Category::RateLimited,
        -32600 | -32700 | -32022..=-32020 => Category::Protocol,
        -32603 => Category::Internal,
        _ => Category::ToolError,
    };
    let output = data.map(|data| json!({ "code": code, "data": data }));
    let message = format!("{message} ({code})");
    Ended::Failed { category, message, sent: true, output, retry_after: None }
}

/// Below 500 the server refused it. 408 says that it gave up waiting, not how far it had come; and whatever
/// comes with a 5xx, a 503 that asks for patience included, may have been sent by a gate after it had let the
/// call through.
fn status(code: u16, text: &str, patience: Option<Duration>) -> Ended {
    let message = joined(format!("HTTP {code}"), text);
    let category = match code {
        300..=399 => Category::Protocol,
        400 | 422 => Category::InvalidArguments,
        401 | 403 | 407 => Category::Permission,
        404 | 410 => Category::NotFound,
        408 => Category::Timeout,
        429 => Category::RateLimited,
        400..=499 => Category::ToolError,
        _ => Category::Unavailable,
    };
    match code {
        408 | 0..300 | 500.. => Ended::Unknown { category, message, retry_after: patience },
        300..408 | 409..500 => {
            let output = Some(json!({ "status": code, "text": text }));
            Ended::Failed { category, message, sent: true, output, retry_after: patience }
        }
    }
}

fn exited(status: ExitStatus, stdout: &str, stdout_cut: bool, stderr: String) -> Ended {
    match status.code() {
        Some(0) => Ended::Succeeded { output: command_output(stdout, stdout_cut) },
        Some(code) => Ended::Failed {
            category: Category::ToolError,
            message: joined(describe(status), &stderr),
            sent: true,
            output: Some(json!({ "exit_code": code, "stdout": stdout, "stderr": stderr })),
            retry_after: None,
        },
        None => unknown(Category::Unavailable, joined(format!("the command {}", describe(status)), &stderr)),
    }
}

fn command_output(stdout: &str, cut: bool) -> Value {
    match serde_json::from_str(stdout) {
        Ok(output @ Value::Object(_)) => output,
        Ok(_) | Err(_) if cut => json!({ "text": stdout, "truncated": true }),
        Ok(_) | Err(_) => json!({ "text": stdout }),
    }
}

fn page_output(code: u16, text: &str, cut: bool) -> Value {
    match serde_json::from_str(text) {
        Ok(output @ Value::Object(_)) => output,
        Ok(_) | Err(_) if cut => json!({ "text": text, "status": code, "truncated": true }),
        Ok(_) | Err(_) => json!({ "text": text, "status": code }),
    }
}

fn doubt_a_no(ended: Ended) -> Ended {
    match ended {
        Ended::Failed { category, message, sent: true, .. } => {
            unknown(category, format!("asked to stop, the tool answered: {message}"))
        }
        Ended::Failed { sent: false, .. }
        | Ended::Succeeded { .. }
        | Ended::Unknown { .. }
        | Ended::Asks { .. } => ended,
    }
}

/// Cuts what is too large; done after secrets have been struck out, lest half of one remain at the cut.
/// What happened outweighs what was said of it: a success with too large an answer stays a success.
pub fn cap(ended: Ended, bytes_max: usize) -> Ended {
    match ended {
        Ended::Succeeded { output } => Ended::Succeeded { output: cut_output(output, bytes_max) },
        Ended::Failed { category, message, sent, output, retry_after } => {
            let output = output.map(|output| cut_output(output, bytes_max));
            Ended::Failed { category, message: cut_message(message), sent, output, retry_after }
        }
        Ended::Unknown { category, message, retry_after } => {
            Ended::Unknown { category, message: cut_message(message), retry_after }
        }
        Ended::Asks { .. } => ended,
    }
}

fn cut_output(output: Value, bytes_max: usize) -> Value {
    let written = output.to_string();
    if written.len() <= bytes_max {
        return output;
    }
    let text = output.get("text").and_then(Value::as_str).unwrap_or(&written);
    let kept = head_written(text, bytes_max.saturating_sub(CUT_FRAME_BYTES));
    json!({ "text": kept, "truncated": true, "bytes": written.len() })
}

/// As much of the beginning as takes so many bytes once it is written as JSON.
fn head_written(text: &str, bytes: usize) -> &str {
    let mut used = 0;
    for (at, sign) in text.char_indices() {
        used += match sign {
            '"' | '\\' | '\n' | '\r' | '\t' | '\u{8}' | '\u{c}' => 2,
            '\0'..='\u{1f}' => 6,
            _ => sign.len_utf8(),
        };
        if used > bytes {
            return &text[..at];
        }
    }
    text
}

fn cut_message(message: String) -> String {
    match message.len() > MESSAGE_BYTES_MAX {
        true => format!("{} …", head(&message, MESSAGE_BYTES_MAX)),
        false => message,
    }
}

fn head(text: &str, bytes: usize) -> &str {
    let end = (0..=bytes.min(text.len())).rev().find(|at| text.is_char_boundary(*at));
    &text[..end.unwrap_or(0)]
}

/// What happened, and the child's last words where there are any.
pub fn joined(what: String, last_words: &str) -> String {
    match last_words.is_empty() {
        true => what,
        false => format!("{what}: {last_words}"),
    }
}
