//! One call of a guarded agent: judged, asked about where a rule says so, journaled, sent and answered.

use std::sync::Arc;

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ErrorCode, ErrorData,
    InputRequiredResult,
};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use tokio::sync::watch;

use super::super::McpEndpoint;
use super::super::error_report::report_for_agent;
use super::super::request::AgentRequest;
use super::Proxy;
use super::progress::ProgressRelay;
use super::question::WaitingCall;
use crate::error::Error;
use crate::guard::{CallDecision, GuardedCall, SessionOrigin};
use crate::service::{GuardedTool, LiveSession, RelayedAnswer, RelayedCall, SendingSince};
use crate::tools::{OnQuestion, RelayedRequest, ServerAnswer, ToolQuestionReply};

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

    /// What the agent reads.
    pub fn text(&self) -> String {
        match self {
            Self::Error(error) => {
                let report = report_for_agent(error);
                format!("{}; {}", report.message, report.cure)
            }
            Self::Refused(say) => say.clone(),
            Self::InputRequired(_) => "a person is asked first".to_owned(),
            Self::Server(error) => error.message.clone().into_owned(),
        }
    }
}

impl From<Error> for CallFailure {
    fn from(error: Error) -> Self {
        Self::Error(error)
    }
}

/// What a client asks of a server.
pub struct GuardedWork {
    /// `server/tool`, or the server and the method of another request.
    pub tool: String,
    pub arguments: Value,
    /// The request that is sent instead of a tool call.
    pub request: Option<RelayedRequest>,
}

/// Answers a call of a server's tool, written `server/tool`, in the session of this origin.
pub async fn call_tool(
    endpoint: &McpEndpoint,
    request: &AgentRequest,
    origin: SessionOrigin,
    tool: String,
    params: CallToolRequestParams,
) -> Result<CallToolResponse, ErrorData> {
    let arguments = Value::Object(params.arguments.unwrap_or_default());
    let work = GuardedWork { tool, arguments, request: None };
    match relay(endpoint, request, origin, &work).await.and_then(response) {
        Ok(response) => Ok(response),
        Err(CallFailure::InputRequired(result)) => Ok(result.into()),
        Err(CallFailure::Server(error)) => Err(error),
        Err(failure @ (CallFailure::Refused(_) | CallFailure::Error(_))) => {
            Ok(error_result(&failure.text()).into())
        }
    }
}

/// Has a call judged, asked about and sent, and returns its answer. What the server asks in the protocol without
/// sessions is put to the person at a client of an older one.
pub async fn relay(
    endpoint: &McpEndpoint,
    request: &AgentRequest,
    origin: SessionOrigin,
    work: &GuardedWork,
) -> Result<RelayedAnswer, CallFailure> {
    let proxy = endpoint.proxy().expect("only a guarded endpoint relays");
    let progress = ProgressRelay::new(request);
    let mut guarded = GuardedRequest { endpoint, proxy, request, progress, origin };
    let answered = guarded.run(work).await;
    guarded.progress.finish().await;
    answered
}

impl GuardedRequest<'_> {
    async fn run(&mut self, work: &GuardedWork) -> Result<RelayedAnswer, CallFailure> {
        let mut reply = None;
        if self.carries_own_state() {
            self.apply_carried_answer().await?;
        } else {
            reply = carried_reply(self.request);
        }
        for _ in 0..ROUNDS_MAX {
            match self.send_when_allowed(work, reply.take()).await? {
                RelayedAnswer::Server(ServerAnswer::InputRequired(asked))
                    if !self.request.is_sessionless() =>
                {
                    reply = Some(self.ask_for_server(&asked).await?);
                }
                answer => return Ok(answer),
            }
        }
        Err(CallFailure::refused("the tool asks too many questions in one call"))
    }

    /// Has the call judged and asked about, and sends it once it may be sent.
    async fn send_when_allowed(
        &mut self,
        work: &GuardedWork,
        reply: Option<ToolQuestionReply>,
    ) -> Result<RelayedAnswer, CallFailure> {
        let since = self.endpoint.service().sessions().sending_since().await?;
        let guard = self.proxy.guard(self.endpoint);
        let catalog = self.endpoint.service().catalog();
        let relayed = match &work.request {
            None => catalog.guarded_tool(&self.request.caller, &work.tool).await?,
            Some(_) => GuardedTool::of_reading_request(&work.tool),
        };
        let call = GuardedCall {
            tool: work.tool.clone(),
            arguments: work.arguments.clone(),
            folder: self.origin.folder.clone(),
            relayed: Some(relayed),
            ..GuardedCall::default()
        };
        let decision = guard.begin_relayed_call(
            &self.request.caller,
            &self.origin,
            self.proxy.live(&self.origin),
            &call,
        );
        let mut decision = decision.await?;
        if let CallDecision::Waits { part, step, say } = &decision {
            let (part, step, say) = (part.clone(), step.clone(), say.clone());
            decision = self.ask(&WaitingCall { part: &part, step: &step, call: &call, say: &say }).await?;
        }
        match decision {
            CallDecision::Started { live, step, by_yes: _ } => {
                self.proxy.keep_live(&self.origin, &live);
                self.send((&live, &step), since, work, reply).await
            }
            CallDecision::Refused { say }
            | CallDecision::AskClient { say }
            | CallDecision::Waits { say, .. } => Err(CallFailure::Refused(say)),
        }
    }

    /// Sends a call whose intent is durable. A client that cancels it has the server asked to stop.
    async fn send(
        &self,
        (live, step): (&LiveSession, &str),
        since: SendingSince,
        work: &GuardedWork,
        reply: Option<ToolQuestionReply>,
    ) -> Result<RelayedAnswer, CallFailure> {
        let call = RelayedCall {
            arguments: work.arguments.clone(),
            request: work.request.clone(),
            client_meta: self.client_meta(),
            reply,
            on_progress: Arc::new(self.progress.receiver()),
            on_question: self.question_relay(),
        };
        let (stop, stopped) = watch::channel(false);
        let (sessions, caller) = (self.endpoint.service().sessions(), &self.request.caller);
        let sending = sessions.relay_call(caller, (live, step), since, call, stopped);
        tokio::pin!(sending);
        let answer = tokio::select! {
            answer = &mut sending => answer?,
            () = self.request.context.ct.cancelled() => {
                stop.send_replace(true);
                sending.await?
            }
        };
        // Before the answer, because the agent's next call may change the state again.
        let kept = self.proxy.guard(self.endpoint).keep_state_after(caller, live, step).await;
        if let Err(error) = kept {
            tracing::warn!("the state after a call was not kept, so that its undo will ask: {error}");
        }
        Ok(answer)
    }

    /// The client's `_meta`.
    fn client_meta(&self) -> Map<String, Value> {
        let meta = self.request.context.meta.iter();
        meta.map(|(name, value)| (name.clone(), value.clone())).collect()
    }

    /// Puts what a server asks while a call runs to the client. `None`: the client shows no questions meanwhile.
    fn question_relay(&self) -> Option<OnQuestion> {
        if self.request.is_sessionless() || !self.request.can_elicit() {
            return None;
        }
        let peer = self.request.context.peer.clone();
        Some(Arc::new(move |asked: Value| {
            let peer = peer.clone();
            Box::pin(async move {
                let answer = peer.create_elicitation(serde_json::from_value(asked).ok()?).await;
                let answer = answer.inspect_err(|error| tracing::debug!("a question was not shown: {error}"));
                serde_json::to_value(answer.ok()?).ok()
            })
        }))
    }

    /// Puts the questions of a server of the protocol without sessions to a client of one with sessions, and returns
    /// the reply to them.
    async fn ask_for_server(&self, asked: &Value) -> Result<ToolQuestionReply, CallFailure> {
        let mut answers = Map::new();
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
pub fn parsed<T: DeserializeOwned>(answer: Value) -> Result<T, Error> {
    serde_json::from_value(answer)
        .map_err(|error| Error::Bug(format!("an answer cannot be passed on: {error}")))
}

/// A result that says what happened instead of an answer of the tool.
fn error_result(say: &str) -> CallToolResult {
    CallToolResult::error(vec![ContentBlock::text(format!("Actbook: {say}"))])
}
