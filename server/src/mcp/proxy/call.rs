//! One call of a guarded agent: judged, asked about where a rule says so, journaled, sent and answered.

use std::sync::Arc;

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ErrorCode, ErrorData,
    InputRequiredResult,
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::sync::watch;

use super::super::McpEndpoint;
use super::super::error_report::report_for_agent;
use super::super::request::AgentRequest;
use super::Proxy;
use super::progress::ProgressRelay;
use super::question::WaitingCall;
use crate::error::Error;
use crate::guard::{CallDecision, GuardedCall, SessionOrigin};
use crate::service::{RelayedAnswer, RelayedCall, SendingSince, SessionPart};
use crate::tools::{ServerAnswer, ToolQuestionReply};

/// How many rounds of questions one call of a tool may ask, where we put them to the person.
const ROUNDS_MAX: usize = 10;

/// A call while it is decided about and sent.
pub struct GuardedRequest<'a> {
    pub endpoint: &'a McpEndpoint,
    pub proxy: &'a Proxy,
    pub request: &'a AgentRequest,
    pub progress: ProgressRelay,
    origin: SessionOrigin,
}

/// Why a call has no result of its tool.
pub enum CallFailure {
    /// What went wrong with Actbook, or is wrong with the call.
    Error(Error),
    /// What the agent reads, as the result of the call.
    Refused(String),
    /// The client is to ask its person, and to call again.
    InputRequired(InputRequiredResult),
    /// The server's own JSON-RPC error.
    Server(ErrorData),
}

impl CallFailure {
    pub fn refused(say: &str) -> Self {
        Self::Refused(say.to_owned())
    }
}

impl From<Error> for CallFailure {
    fn from(error: Error) -> Self {
        Self::Error(error)
    }
}

/// Answers a call of a server's tool, written `server/tool`, in the session of this origin.
pub async fn call_tool(
    endpoint: &McpEndpoint,
    request: &AgentRequest,
    origin: SessionOrigin,
    tool: String,
    params: CallToolRequestParams,
) -> Result<CallToolResponse, ErrorData> {
    let proxy = endpoint.proxy().expect("only a guarded endpoint offers the servers' tools");
    let progress = ProgressRelay::new(request);
    let mut guarded = GuardedRequest { endpoint, proxy, request, progress, origin };
    let answered = guarded.run(tool, params).await;
    guarded.progress.finish().await;
    match answered {
        Ok(response) => Ok(response),
        Err(CallFailure::InputRequired(result)) => Ok(result.into()),
        Err(CallFailure::Server(error)) => Err(error),
        Err(CallFailure::Refused(say)) => Ok(error_result(&say).into()),
        Err(CallFailure::Error(error)) => {
            let report = report_for_agent(&error);
            Ok(error_result(&format!("{}; {}", report.message, report.cure)).into())
        }
    }
}

impl GuardedRequest<'_> {
    async fn run(
        &mut self,
        tool: String,
        params: CallToolRequestParams,
    ) -> Result<CallToolResponse, CallFailure> {
        let arguments = Value::Object(params.arguments.unwrap_or_default());
        let mut reply = None;
        if self.carries_own_state() {
            self.apply_carried_answer().await?;
        } else {
            reply = carried_reply(self.request);
        }
        for _ in 0..ROUNDS_MAX {
            match self.send_when_allowed(&tool, &arguments, reply.take()).await? {
                RelayedAnswer::Server(ServerAnswer::InputRequired(asked))
                    if !self.request.is_sessionless() =>
                {
                    reply = Some(self.ask_for_server(&asked).await?);
                }
                answer => return response(answer),
            }
        }
        Err(CallFailure::refused("the tool asks too many questions in one call"))
    }

    /// Has the call judged and asked about, and sends it once it may be sent.
    async fn send_when_allowed(
        &mut self,
        tool: &str,
        arguments: &Value,
        reply: Option<ToolQuestionReply>,
    ) -> Result<RelayedAnswer, CallFailure> {
        let since = self.endpoint.service().sessions().sending_since().await?;
        let guard = self.proxy.guard(self.endpoint);
        let relayed = self.endpoint.service().catalog().guarded_tool(&self.request.caller, tool).await?;
        let call = GuardedCall {
            tool: tool.to_owned(),
            arguments: arguments.clone(),
            folder: self.origin.folder.clone(),
            relayed: Some(relayed),
            id: None,
            agent: None,
        };
        let mut decision = guard.begin_call(&self.request.caller, &self.origin, &call).await?;
        if let CallDecision::Waits { part, step, say } = &decision {
            let (part, step, say) = (part.clone(), step.clone(), say.clone());
            decision = self.ask(&WaitingCall { part: &part, step: &step, say: &say }).await?;
        }
        match decision {
            CallDecision::Started { part, step, by_yes: _ } => {
                self.send((&part, &step), since, arguments.clone(), reply).await
            }
            CallDecision::Refused { say }
            | CallDecision::AskClient { say }
            | CallDecision::Waits { say, .. } => Err(CallFailure::Refused(say)),
        }
    }

    /// Sends a call whose intent is durable. A client that cancels it has the server asked to stop.
    async fn send(
        &self,
        (part, step): (&SessionPart, &str),
        since: SendingSince,
        arguments: Value,
        reply: Option<ToolQuestionReply>,
    ) -> Result<RelayedAnswer, CallFailure> {
        let call = RelayedCall {
            arguments,
            client_meta: self
                .request
                .context
                .meta
                .iter()
                .map(|(name, value)| (name.clone(), value.clone()))
                .collect(),
            reply,
            on_progress: Arc::new(self.progress.receiver()),
        };
        let (stop, stopped) = watch::channel(false);
        let sending = self.endpoint.service().sessions().relay_call((part, step), since, call, stopped);
        tokio::pin!(sending);
        tokio::select! {
            answer = &mut sending => Ok(answer?),
            () = self.request.context.ct.cancelled() => {
                stop.send_replace(true);
                Ok(sending.await?)
            }
        }
    }

    /// Puts the questions of a server of the protocol without sessions to a client of one with sessions, and returns
    /// the reply to them.
    async fn ask_for_server(&self, asked: &Value) -> Result<ToolQuestionReply, CallFailure> {
        let mut answers = serde_json::Map::new();
        for (key, asked) in asked["inputRequests"].as_object().into_iter().flatten() {
            let params = serde_json::from_value(asked["params"].clone());
            let (Ok(params), true) = (params, self.request.can_elicit()) else {
                let message = format!("the tool asks for input that this client cannot give: {asked}");
                return Err(CallFailure::Refused(message));
            };
            let answer = self.request.context.peer.create_elicitation(params).await;
            let answer = answer.map_err(|error| {
                CallFailure::Refused(format!("the client did not show the tool's question: {error}"))
            })?;
            answers.insert(key.clone(), json!(answer));
        }
        Ok(ToolQuestionReply { question: asked.clone(), answer: Value::Object(answers) })
    }
}

/// The client's reply to a question of the server, which a repeated call brings. `None`: it brings none.
fn carried_reply(request: &AgentRequest) -> Option<ToolQuestionReply> {
    let answer = request.input_responses.as_ref()?;
    let question = json!({ "requestState": request.request_state });
    Some(ToolQuestionReply { question, answer: json!(answer) })
}

/// The response with what came of the call.
fn response(answer: RelayedAnswer) -> Result<CallToolResponse, CallFailure> {
    let why = |message: String| CallFailure::Refused(message);
    match answer {
        RelayedAnswer::Server(ServerAnswer::Result(result)) => {
            Ok(CallToolResponse::from(parsed::<CallToolResult>(result)?))
        }
        RelayedAnswer::Server(ServerAnswer::InputRequired(asked)) => {
            Ok(CallToolResponse::from(parsed::<InputRequiredResult>(asked)?))
        }
        RelayedAnswer::Server(ServerAnswer::Error { code, message, data }) => {
            Err(CallFailure::Server(ErrorData::new(ErrorCode(code), message, data)))
        }
        RelayedAnswer::Output(output) => Ok(CallToolResult::structured(output).into()),
        RelayedAnswer::Failed { message, unsent: true } => Err(why(format!("nothing was sent: {message}"))),
        RelayedAnswer::Failed { message, unsent: false } => Err(why(message)),
        RelayedAnswer::Unknown { message } => Err(why(format!(
            "it is unknown whether the call took effect: {message}; find out before you make it again"
        ))),
    }
}

/// The server's answer in the library's type, from which it was made.
fn parsed<T: DeserializeOwned>(answer: Value) -> Result<T, Error> {
    serde_json::from_value(answer)
        .map_err(|error| Error::Bug(format!("an answer cannot be passed on: {error}")))
}

/// A result that says what happened instead of an answer of the tool.
fn error_result(say: &str) -> CallToolResult {
    CallToolResult::error(vec![ContentBlock::text(format!("Actbook: {say}"))])
}
