//! One call: sent, waited for, judged; or asked to stop, or given up.

use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use actbook_engine::policy::Category;
use rmcp::model::{
    CallToolRequest, CallToolRequestParams, CallToolResult, ClientNotification, ClientRequest, ContentBlock,
    CustomNotification, ProgressToken, RequestId, RequestMetaObject, ServerResult,
};
use rmcp::service::{PeerRequestOptions, ServiceError};
use serde_json::{Value, json};
use tokio::sync::oneshot;

use super::{Carrier, Connection, EXIT_LIMIT, no_message};
use crate::tools::classify::Came;
use crate::tools::mcp::calls::{Outcome, Waiting};
use crate::tools::mcp::ears::Listening;
use crate::tools::mcp::http::NoMessage;
use crate::tools::mcp::lines::{Meta, Params, Speaker};
use crate::tools::mcp::{Stop, tasks};
use crate::tools::{Call, OnLateCame, OnProgress, traceparent};

pub const KEY_META: &str = "actbook/idempotency-key";
pub const TRACE_META: &str = "traceparent";
/// After it was asked to stop a call, a server has this long to say how far it came.
const STOP_GRACE: Duration = Duration::from_secs(5);

impl Connection {
    /// Also says whether the call was asked to stop. An answer that comes after its time is handed to `late`.
    pub async fn call<F>(
        &self,
        tool: &str,
        call: &Call,
        (progress, late): (OnProgress, OnLateCame),
        stop: Stop<'_, F>,
    ) -> (Came, bool)
    where
        F: Future<Output = ()> + Send,
    {
        let out = CallOut::new(&self.calls_out);
        let sent = match &self.carrier {
            Carrier::Child(child) => self.speak(&child.speaker, params(tool, call), meta(call), progress),
            Carrier::Http(_) => self.post(params(tool, call), meta(call), progress).await,
        };
        match sent {
            Some(mut sent) => {
                let (came, stopped) = self.answer(&mut sent, out, call.timeout, stop).await;
                if matches!(came, Came::TimedOut { .. }) {
                    self.late.listen(sent, late, &self.peer, &self.carrier);
                }
                (came, stopped)
            }
            None => {
                // It was not even handed over to whoever writes.
                let why = self.why_unsent().await;
                (Came::NotSent { category: Category::Unavailable, why }, false)
            }
        }
    }

    async fn why_unsent(&self) -> String {
        if self.is_up() {
            return "the server does not read the calls that were sent to it before".to_owned();
        }
        self.why_broken().await
    }

    fn speak(
        &self,
        speaker: &Speaker,
        params: CallToolRequestParams,
        meta: RequestMetaObject,
        progress: OnProgress,
    ) -> Option<Sent> {
        let (waiting, answer) = speaker.calls.enter()?;
        let (id, token) = (waiting.id.clone(), ProgressToken(waiting.id.clone()));
        let meta = Meta { introduction: &self.introduction, call: meta, progress_token: &token };
        let params = Params { meta, call: params };
        let listening = self.reports.listen(token.clone(), progress);
        let queued = speaker.call(&waiting, &params);
        queued.then_some(Sent { id, answer, _listening: listening, _waiting: Some(waiting) })
    }

    async fn post(
        &self,
        params: CallToolRequestParams,
        meta: RequestMetaObject,
        progress: OnProgress,
    ) -> Option<Sent> {
        let request = ClientRequest::CallToolRequest(CallToolRequest::new(params));
        let options = PeerRequestOptions::no_options().with_meta(meta);
        let handle = self.peer.send_cancellable_request(request, options).await.ok()?;
        let listening = self.reports.listen(handle.progress_token, progress);
        Some(Sent { id: handle.id, answer: handle.rx, _listening: listening, _waiting: None })
    }

    async fn answer<F>(
        &self,
        sent: &mut Sent,
        out: CallOut<'_>,
        mut timeout: Duration,
        mut stop: Stop<'_, F>,
    ) -> (Came, bool)
    where
        F: Future<Output = ()> + Send,
    {
        let mut deadline = pin!(tokio::time::sleep(timeout));
        let mut stopped = false;
        let came = loop {
            tokio::select! {
                biased;
                answer = &mut sent.answer => break match answer {
                    Ok(answer) => self.judge(answer).await,
                    Err(_) => self.broken().await,
                },
                () = self.bereft() => break self.broken().await,
                () = &mut deadline => {
                    drop(out);
                    self.give_up(&sent.id);
                    break Came::TimedOut { after: timeout };
                }
                () = &mut stop, if !stopped => {
                    stopped = true;
                    // Whoever obeys says nothing more, as the protocol has it.
                    timeout = timeout.min(STOP_GRACE);
                    let soon = tokio::time::Instant::now() + timeout;
                    let until = deadline.deadline().min(soon);
                    deadline.as_mut().reset(until);
                    self.ask_to_stop(&sent.id);
                }
            }
        };
        (came, stopped)
    }

    /// Its process has ended, and yet its output has not: somebody who fled holds it open.
    async fn bereft(&self) {
        match &self.carrier {
            Carrier::Child(child) => {
                child.group.ended().await;
                tokio::time::sleep(EXIT_LIMIT).await;
            }
            Carrier::Http(_) => std::future::pending().await,
        }
    }

    async fn judge(&self, answer: Outcome) -> Came {
        if let Ok(_) | Err(ServiceError::McpError(_)) = &answer {
            self.life.answered_a_call();
        }
        match answer {
            Ok(ServerResult::CallToolResult(result)) => tool_answer(result),
            Ok(ServerResult::InputRequiredResult(asks)) => tasks::question(&asks),
            Ok(ServerResult::CreateTaskResult(accepted)) => tasks::accepted(&accepted.task),
            Ok(_) => Came::Unintelligible { why: "the server's answer is no tool result".to_owned() },
            Err(ServiceError::McpError(error)) => {
                Came::Error { code: error.code.0, message: error.message.into_owned(), data: error.data }
            }
            Err(ServiceError::TransportSend(error)) => match no_message(&error) {
                Some(NoMessage(came)) => came.clone(),
                None => self.broken().await,
            },
            Err(ServiceError::TransportClosed) => self.broken().await,
            Err(other) => Came::Unintelligible { why: other.to_string() },
        }
    }

    /// As a plain notification, since rmcp's own way would also stop listening for the answer, and a
    /// server that finishes all the same should be believed.
    fn ask_to_stop(&self, id: &RequestId) {
        self.cancel(id, "asked to stop");
    }

    fn cancel(&self, id: &RequestId, reason: &str) {
        let params = json!({ "requestId": id, "reason": reason });
        self.notify(CustomNotification::new("notifications/cancelled", Some(params)).into());
    }

    fn notify(&self, notification: ClientNotification) {
        let peer = self.peer.clone();
        // Apart from the call: a server that does not read would block it.
        tokio::spawn(async move {
            if let Err(error) = peer.send_notification(notification).await {
                tracing::debug!(%error, "a cancellation was not delivered");
            }
        });
    }

    /// Tells the server that the call's time is up.
    fn give_up(&self, id: &RequestId) {
        self.cancel(id, "timed out");
        if let Carrier::Child(_) = &self.carrier {
            self.life.doubt();
        }
    }
}

/// Counts a call while it is out.
struct CallOut<'a>(&'a AtomicUsize);

impl<'a> CallOut<'a> {
    fn new(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::SeqCst);
        Self(count)
    }
}

impl Drop for CallOut<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// A call on its way.
pub(super) struct Sent {
    pub id: RequestId,
    pub answer: oneshot::Receiver<Outcome>,
    _listening: Listening,
    _waiting: Option<Waiting>,
}

fn params(tool: &str, call: &Call) -> CallToolRequestParams {
    let params = CallToolRequestParams::new(tool.to_owned());
    let params = match &call.arguments {
        Value::Object(arguments) => params.with_arguments(arguments.clone()),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => params,
    };
    tasks::with_reply(params, call)
}

fn meta(call: &Call) -> RequestMetaObject {
    let mut meta = RequestMetaObject::new();
    meta.insert(KEY_META.to_owned(), Value::from(call.key.as_str()));
    meta.insert(TRACE_META.to_owned(), Value::from(traceparent()));
    meta
}

pub fn tool_answer(result: CallToolResult) -> Came {
    let texts: Vec<&str> = result.content.iter().filter_map(block_text).collect();
    let is_error = result.is_error.unwrap_or(false);
    Came::Answer { text: texts.join("\n"), structured: result.structured_content, is_error }
}

fn block_text(block: &ContentBlock) -> Option<&str> {
    match block {
        ContentBlock::Text(text) => Some(&text.text),
        _ => None,
    }
}
