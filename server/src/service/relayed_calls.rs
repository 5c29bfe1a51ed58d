//! Calls of guarded sessions that this process sends for an agent's client, and their servers' answers as they came.

use std::sync::Arc;

use actbook_engine::execution::{Command, ReportedOutcome, SessionCall, SessionCommand};
use actbook_engine::id::{ExecutionId, StreamId};
use actbook_engine::refusal::Refusal;
use parking_lot::Mutex;
use serde_json::{Map, Value};
use tokio::sync::watch;

use super::judged_session::JudgedSession;
use super::sessions::{SessionKey, Sessions};
use crate::caller::Caller;
use crate::error::Error;
use crate::runner::{CallRelay, SendingSince, SessionCallInput};
use crate::tools::{OnProgress, OnQuestion, RelayedRequest, ServerAnswer, ToolQuestionReply};

/// The ids of one part of a guarded session (`SessionPart`) whose calls this process sends. Holds no state,
/// so that none is copied for each call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LiveSession {
    pub(super) stream: StreamId,
    pub(super) key: SessionKey,
    pub(super) number: u32,
    pub(super) id: ExecutionId,
}

impl LiveSession {
    /// The public id of the part's execution.
    pub fn id(&self) -> &str {
        self.id.as_str()
    }
}

/// What a relayed call sends, and who hears of its progress.
pub struct RelayedCall {
    /// As the client sent them: the journal keeps them without secrets.
    pub arguments: Value,
    /// The request that is sent instead of a tool call.
    pub request: Option<RelayedRequest>,
    /// The client's `_meta`.
    pub client_meta: Map<String, Value>,
    /// The answer to what the tool asked when it was called before.
    pub reply: Option<ToolQuestionReply>,
    pub on_progress: OnProgress,
    /// Answers what the server asks during the call. `None`: the client cannot show questions while a call runs.
    pub on_question: Option<OnQuestion>,
}

/// What an agent's client is answered to a call that was sent for it.
#[derive(Clone, Debug, PartialEq)]
pub enum RelayedAnswer {
    /// The server's own answer.
    Server(ServerAnswer),
    /// The output of a tool that no MCP server offers.
    Output(Value),
    /// The call failed without an answer of its server. `unsent`: nothing was sent.
    Failed { message: String, unsent: bool },
    /// Nobody can tell what the call did.
    Unknown { message: String },
}

impl std::fmt::Debug for RelayedCall {
    /// Leaves out what may hold secrets, and the callback.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RelayedCall").finish_non_exhaustive()
    }
}

/// The result of adding a call that this process sends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AddedRelayedCall {
    /// Its intent is durable.
    Started { step: String },
    /// It waits for a person, or is refused: its step says so.
    NotStarted { step: String },
    /// The session's labels are not those that the call was judged with.
    JudgeAgain,
    /// This part takes no more calls: the next one does.
    PartOver,
}

impl Sessions<'_> {
    /// A time before the intent of a call that is about to be judged, once this process may send calls.
    pub async fn sending_since(self) -> Result<SendingSince, Error> {
        // The lease begins when the process opens its runner.
        self.0.runner.open().await?;
        Ok(SendingSince::now())
    }

    /// What a call is judged with, as this process knows the session. What another process has changed meanwhile is
    /// noticed when the call is added.
    pub fn live_state(self, live: &LiveSession, call: (&str, &Value)) -> Result<JudgedSession, Error> {
        let now_ms = self.now_ms();
        let state =
            self.0.ledger.with_execution(live.stream, |one| JudgedSession::of(one, call, None, now_ms))?;
        Ok(state)
    }

    /// Adds a call that this process sends, as a step, with its intent, its question or its refusal.
    pub async fn add_relayed_call(
        self,
        caller: &Caller,
        live: &LiveSession,
        call: SessionCall,
    ) -> Result<AddedRelayedCall, Error> {
        let mut servers = self.0.catalog().server_digests(&call.tool);
        servers.extend(call.servers);
        let call = SessionCall { node: Some(self.node().await?), by_agent: false, servers, ..call };
        let command = Command::Session(SessionCommand::AddCall(Box::new(call)));
        let progress = match self.0.executions().command(caller, live.stream, command).await {
            Ok(progress) => progress,
            Err(Error::Refused(Refusal::LabelsMoved)) => return Ok(AddedRelayedCall::JudgeAgain),
            Err(Error::Refused(Refusal::SessionPartOver)) => return Ok(AddedRelayedCall::PartOver),
            Err(error) => return Err(error),
        };
        let added = self.0.ledger.with_execution(live.stream, |execution| {
            let no = execution.newest_call_up_to(progress.position)?;
            let (step, state) = (execution.step_id(no).to_string(), execution.step(no));
            let started = !state.attempts.is_empty();
            Some(if started {
                AddedRelayedCall::Started { step }
            } else {
                AddedRelayedCall::NotStarted { step }
            })
        })?;
        added.ok_or_else(|| Error::Bug("a call was added without a step".to_owned()))
    }

    /// Sends a call whose intent is durable, and returns the answer once its outcome is durable. `since`: a time before
    /// the intent. `stop` turns true when the agent's client no longer wants the call.
    pub async fn relay_call(
        self,
        caller: &Caller,
        (live, step): (&LiveSession, &str),
        since: SendingSince,
        call: RelayedCall,
        stop: watch::Receiver<bool>,
    ) -> Result<RelayedAnswer, Error> {
        let no = self.0.ledger.with_execution(live.stream, |execution| execution.plan.find_step(step))?;
        let no = no.ok_or_else(|| Error::Bug("a started call has no step".to_owned()))?;
        let answer: Arc<Mutex<Option<ServerAnswer>>> = Arc::default();
        let slot = answer.clone();
        let relay = CallRelay {
            on_answer: Some(Arc::new(move |answer| *slot.lock() = Some(answer))),
            on_progress: Some(call.on_progress),
            on_question: call.on_question,
            request: call.request,
            client_meta: call.client_meta,
        };
        let input = SessionCallInput { arguments: call.arguments, reply: call.reply, relay };
        let runner = self.0.runner.open().await?;
        let outcome = runner.perform_session_call((live.stream, no), since, input, stop).await?;
        let matched = self.0.ledger.with_execution(live.stream, |execution| {
            execution.session.as_deref().and_then(|session| session.call(no).matched.clone())
        })?;
        if let Some(matched) = matched {
            self.report_matched(caller, &matched, &outcome).await?;
        }
        let answer = answer.lock().take();
        Ok(answer.map_or_else(|| answer_from(outcome), RelayedAnswer::Server))
    }
}

/// The answer of a call that no MCP server answered.
fn answer_from(outcome: ReportedOutcome) -> RelayedAnswer {
    let message_of = |error: &Value| error["message"].as_str().unwrap_or("it failed").to_owned();
    match outcome {
        ReportedOutcome::Succeeded { output } => RelayedAnswer::Output(output),
        ReportedOutcome::Failed { error, unsent, .. } => {
            RelayedAnswer::Failed { message: message_of(&error), unsent }
        }
        ReportedOutcome::Unknown { error, .. } => RelayedAnswer::Unknown { message: message_of(&error) },
        ReportedOutcome::InputRequired { question, may_have_run: false } => {
            RelayedAnswer::Failed { message: message_of(&question), unsent: false }
        }
        ReportedOutcome::InputRequired { question, may_have_run: true } => {
            RelayedAnswer::Unknown { message: message_of(&question) }
        }
    }
}
