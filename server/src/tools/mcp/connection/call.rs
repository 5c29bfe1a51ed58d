//! One tool call on a connection: sent, awaited, and asked to stop or abandoned where necessary.

use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use actbook_engine::policy::ErrorCategory;
use rmcp::model::{
    CallToolRequest, CallToolRequestParams, CallToolResult, ClientNotification, ClientRequest, ContentBlock,
    CustomNotification, ProgressToken, RequestId, RequestMetaObject, ServerResult,
};
use rmcp::service::{PeerRequestOptions, ServiceError};
use serde_json::{Value, json};
use tokio::sync::oneshot;

use super::{EXIT_TIMEOUT, McpConnection, ServerEndpoint, find_post_error};
use crate::tools::classify::RawOutcome;
use crate::tools::mcp::client_events::ProgressSubscription;
use crate::tools::mcp::http::PostError;
use crate::tools::mcp::pending_calls::{PendingCall, RpcResult};
use crate::tools::mcp::stdio::{CallWriter, ToolCallMeta, ToolCallParams};
use crate::tools::mcp::{StopFuture, mcp_tasks};
use crate::tools::{Call, OnAnswer, OnLateRawOutcome, OnProgress, ServerAnswer, new_traceparent};

/// The `_meta` key of the idempotency key.
pub const IDEMPOTENCY_KEY_META: &str = "actbook/idempotency-key";
/// The `_meta` key of the trace context.
pub const TRACE_META: &str = "traceparent";
/// The `_meta` key of the server's name and version.
const SERVER_INFO_META: &str = "io.modelcontextprotocol/serverInfo";
/// How long a server may take to answer after it was asked to stop a call.
const STOP_GRACE: Duration = Duration::from_secs(5);

impl McpConnection {
    /// Calls a tool, a name without the server; also returns whether the call was asked to stop. An answer
    /// after the timeout is passed to `late`.
    pub async fn call<F>(
        &self,
        tool: &str,
        call: &Call,
        (progress, late): (OnProgress, OnLateRawOutcome),
        stop: StopFuture<'_, F>,
    ) -> (RawOutcome, bool)
    where
        F: Future<Output = ()> + Send,
    {
        let in_flight = InFlightCallGuard::new(&self.calls_in_flight);
        let on_question = call.context.on_question.clone();
        let _questions = on_question.map(|on_question| self.questions.subscribe(on_question));
        let sent = match &self.endpoint {
            ServerEndpoint::Child(child) => {
                self.write_call(&child.call_writer, call_params(tool, call), call_meta(call), progress)
            }
            ServerEndpoint::Http(_) => {
                self.post_call(call_params(tool, call), call_meta(call), progress).await
            }
        };
        match sent {
            Some(mut sent) => {
                sent.on_answer = call.context.on_answer.clone();
                let (raw, stopped) = self.await_answer(&mut sent, in_flight, call.timeout, stop).await;
                if matches!(raw, RawOutcome::TimedOut { .. }) {
                    self.late_calls.await_late_answer(sent, late, &self.peer, &self.endpoint);
                }
                (raw, stopped)
            }
            None => {
                // The call was not even queued for writing.
                let why = self.not_sent_reason().await;
                (RawOutcome::NotSent { category: ErrorCategory::Unavailable, why }, false)
            }
        }
    }

    /// Why a call was not sent, as a sentence.
    async fn not_sent_reason(&self) -> String {
        if self.is_up() {
            return "the server does not read the calls that were sent to it before".to_owned();
        }
        self.loss_reason().await
    }

    /// Writes a call to a child. None: it was not written, since the child is gone or has too much unread.
    fn write_call(
        &self,
        call_writer: &CallWriter,
        params: CallToolRequestParams,
        meta: RequestMetaObject,
        progress: OnProgress,
    ) -> Option<SentCall> {
        let (pending, answer) = call_writer.calls.register()?;
        let (id, token) = (pending.id.clone(), ProgressToken(pending.id.clone()));
        let meta = ToolCallMeta { client_meta: &self.client_meta, call: meta, progress_token: &token };
        let params = ToolCallParams { meta, call: params };
        let subscription = self.progress_handlers.subscribe(token.clone(), progress);
        let queued = call_writer.call(&pending, &params);
        queued.then_some(SentCall {
            id,
            answer,
            on_answer: None,
            _subscription: subscription,
            _pending: Some(pending),
        })
    }

    /// Sends a call over HTTP through rmcp. None: rmcp's client has ended.
    async fn post_call(
        &self,
        params: CallToolRequestParams,
        meta: RequestMetaObject,
        progress: OnProgress,
    ) -> Option<SentCall> {
        let request = ClientRequest::CallToolRequest(CallToolRequest::new(params));
        let options = PeerRequestOptions::no_options().with_meta(meta);
        let handle = self.peer.send_cancellable_request(request, options).await.ok()?;
        let subscription = self.progress_handlers.subscribe(handle.progress_token, progress);
        Some(SentCall {
            id: handle.id,
            answer: handle.rx,
            on_answer: None,
            _subscription: subscription,
            _pending: None,
        })
    }

    /// Waits for the answer, the timeout or the loss of the connection; asks the server to stop when `stop`
    /// resolves, and then waits at most `STOP_GRACE`. Also returns whether it was asked.
    async fn await_answer<F>(
        &self,
        sent: &mut SentCall,
        in_flight: InFlightCallGuard<'_>,
        mut timeout: Duration,
        mut stop: StopFuture<'_, F>,
    ) -> (RawOutcome, bool)
    where
        F: Future<Output = ()> + Send,
    {
        let mut deadline = pin!(tokio::time::sleep(timeout));
        let mut stopped = false;
        let raw = loop {
            tokio::select! {
                biased;
                answer = &mut sent.answer => break match answer {
                    Ok(answer) => {
                        relay_answer(&answer, sent.on_answer.as_ref());
                        self.to_raw_outcome(answer).await
                    }
                    Err(_) => self.connection_lost().await,
                },
                () = self.process_exited() => break self.connection_lost().await,
                () = &mut deadline => {
                    drop(in_flight);
                    self.abandon(&sent.id);
                    break RawOutcome::TimedOut { after: timeout };
                }
                () = &mut stop, if !stopped => {
                    stopped = true;
                    // A server that cancels a call does not answer it, as the protocol says: wait only
                    // briefly.
                    timeout = timeout.min(STOP_GRACE);
                    let grace_end = tokio::time::Instant::now() + timeout;
                    let earlier = deadline.deadline().min(grace_end);
                    deadline.as_mut().reset(earlier);
                    self.request_stop(&sent.id);
                }
            }
        };
        (raw, stopped)
    }

    /// Resolves shortly after the child has exited; never for HTTP. Needed where a descendant that left the
    /// process group still holds the child's stdout open.
    async fn process_exited(&self) {
        match &self.endpoint {
            ServerEndpoint::Child(child) => {
                child.group.wait_for_exit().await;
                tokio::time::sleep(EXIT_TIMEOUT).await;
            }
            ServerEndpoint::Http(_) => std::future::pending().await,
        }
    }

    /// The raw outcome of an answer, or of an error of the transport; an answer of the server is recorded in
    /// the connection's health.
    async fn to_raw_outcome(&self, answer: RpcResult) -> RawOutcome {
        if let Ok(_) | Err(ServiceError::McpError(_)) = &answer {
            self.health.record_call_answer();
        }
        match answer {
            Ok(ServerResult::CallToolResult(result)) => tool_result(result),
            Ok(ServerResult::InputRequiredResult(asks)) => mcp_tasks::input_required(&asks),
            Ok(ServerResult::CreateTaskResult(accepted)) => mcp_tasks::task_created(&accepted.task),
            Ok(_) => {
                RawOutcome::InvalidResponse { why: "the server's answer is not a tool result".to_owned() }
            }
            Err(ServiceError::McpError(error)) => RawOutcome::RpcError {
                code: error.code.0,
                message: error.message.into_owned(),
                data: error.data,
            },
            Err(ServiceError::TransportSend(error)) => match find_post_error(&error) {
                Some(PostError(raw)) => raw.clone(),
                None => self.connection_lost().await,
            },
            Err(ServiceError::TransportClosed) => self.connection_lost().await,
            Err(other) => RawOutcome::InvalidResponse { why: other.to_string() },
        }
    }

    /// Asks the server to cancel the call. As a custom notification, since rmcp's own cancellation would also
    /// drop the answer, and a server that finishes nevertheless is believed.
    fn request_stop(&self, id: &RequestId) {
        self.send_cancelled(id, "asked to stop");
    }

    /// Sends `notifications/cancelled` for the request in the background.
    fn send_cancelled(&self, id: &RequestId, reason: &str) {
        let params = json!({ "requestId": id, "reason": reason });
        self.spawn_notification(CustomNotification::new("notifications/cancelled", Some(params)).into());
    }

    /// Sends a notification in the background; a failure is only logged.
    fn spawn_notification(&self, notification: ClientNotification) {
        let peer = self.peer.clone();
        // In a separate Tokio task: a server that does not read would block the call.
        tokio::spawn(async move {
            if let Err(error) = peer.send_notification(notification).await {
                tracing::debug!(%error, "a cancellation was not delivered");
            }
        });
    }

    /// Tells the server that the call timed out, and marks a child as suspect.
    fn abandon(&self, id: &RequestId) {
        self.send_cancelled(id, "timed out");
        if let ServerEndpoint::Child(_) = &self.endpoint {
            self.health.mark_suspect();
        }
    }
}

/// Counts a call as in flight at its connection until dropped.
struct InFlightCallGuard<'a>(&'a AtomicUsize);

impl<'a> InFlightCallGuard<'a> {
    fn new(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::SeqCst);
        Self(count)
    }
}

impl Drop for InFlightCallGuard<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// A call that was sent and waits for its answer. Dropped, it takes no answer and no progress reports any
/// more.
pub(super) struct SentCall {
    pub id: RequestId,
    pub answer: oneshot::Receiver<RpcResult>,
    on_answer: Option<OnAnswer>,
    _subscription: ProgressSubscription,
    _pending: Option<PendingCall>,
}

/// Passes a server's own answer to the client that the call is relayed for; an error of the transport is none.
fn relay_answer(answer: &RpcResult, on_answer: Option<&OnAnswer>) {
    let Some(on_answer) = on_answer else { return };
    let to_json = |result: serde_json::Result<Value>| result.expect("what was parsed from JSON serialises");
    match answer {
        Ok(ServerResult::CallToolResult(result)) => {
            on_answer(ServerAnswer::Result(without_server_info(to_json(serde_json::to_value(result)))));
        }
        Ok(ServerResult::InputRequiredResult(asks)) => {
            on_answer(ServerAnswer::InputRequired(to_json(serde_json::to_value(asks))));
        }
        Err(ServiceError::McpError(error)) => on_answer(ServerAnswer::Error {
            code: error.code.0,
            message: error.message.clone().into_owned(),
            data: error.data.clone(),
        }),
        Ok(_) | Err(_) => {}
    }
}

/// The parameters of `tools/call`, with the reply to a question where there is one. Arguments that are not an
/// object are left out.
fn call_params(tool: &str, call: &Call) -> CallToolRequestParams {
    let params = CallToolRequestParams::new(tool.to_owned());
    let params = match &call.arguments {
        Value::Object(arguments) => params.with_arguments(arguments.clone()),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => params,
    };
    mcp_tasks::with_reply(params, call)
}

/// The `_meta` of a call: idempotency key and trace context.
fn call_meta(call: &Call) -> RequestMetaObject {
    let mut meta = RequestMetaObject::new();
    for (name, value) in call.context.client_meta.iter().filter(|(name, _)| !is_connections_own(name)) {
        meta.insert(name.clone(), value.clone());
    }
    meta.insert(IDEMPOTENCY_KEY_META.to_owned(), Value::from(call.key.as_str()));
    if !meta.contains_key(TRACE_META) {
        meta.insert(TRACE_META.to_owned(), Value::from(new_traceparent()));
    }
    meta
}

/// The answer without the server's name and version, which newer protocol versions put into each: the client of a relayed
/// call is told ours.
pub fn without_server_info(mut answer: Value) -> Value {
    if let Some(Value::Object(meta)) = answer.get_mut("_meta") {
        meta.remove(SERVER_INFO_META);
        if meta.is_empty()
            && let Some(fields) = answer.as_object_mut()
        {
            fields.remove("_meta");
        }
    }
    answer
}

/// Whether each connection sets this key of `_meta` itself: what a client says to us is not what we say to the server.
fn is_connections_own(name: &str) -> bool {
    name == "progressToken" || name.starts_with("io.modelcontextprotocol/")
}

/// The raw outcome of a tool result; only text blocks are kept of its content, joined by line breaks.
pub fn tool_result(result: CallToolResult) -> RawOutcome {
    let texts: Vec<&str> = result.content.iter().filter_map(block_text).collect();
    let is_error = result.is_error.unwrap_or(false);
    RawOutcome::ToolResult { text: texts.join("\n"), structured: result.structured_content, is_error }
}

/// The text of a text block. None: a block of another kind, such as an image.
fn block_text(block: &ContentBlock) -> Option<&str> {
    match block {
        ContentBlock::Text(text) => Some(&text.text),
        _ => None,
    }
}
