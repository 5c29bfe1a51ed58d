//! Calls of guarded sessions that this process sends for an agent's client, and their servers' answers as they came.

use std::sync::Arc;

use actbook_engine::execution::ReportedOutcome;
use parking_lot::Mutex;
use serde_json::{Map, Value};
use tokio::sync::watch;

use super::sessions::{SessionPart, Sessions};
use crate::error::Error;
use crate::runner::{CallRelay, SendingSince, SessionCallInput};
use crate::tools::{OnProgress, ServerAnswer, ToolQuestionReply};

/// What a relayed call sends, and who hears of its progress.
pub struct RelayedCall {
    /// As the client sent them: the journal keeps them without secrets.
    pub arguments: Value,
    /// The client's `_meta`.
    pub client_meta: Map<String, Value>,
    /// The answer to what the tool asked when it was called before.
    pub reply: Option<ToolQuestionReply>,
    pub on_progress: OnProgress,
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

impl Sessions<'_> {
    /// A time before the intent of a call that is about to be judged, once this process may send calls.
    pub async fn sending_since(self) -> Result<SendingSince, Error> {
        // The lease begins when the process opens its runner.
        self.0.runner.open().await?;
        Ok(SendingSince::now())
    }

    /// Sends a call whose intent is durable, and returns the answer once its outcome is durable. `since`: a time before
    /// the intent. `stop` turns true when the agent's client no longer wants the call.
    pub async fn relay_call(
        self,
        (part, step): (&SessionPart, &str),
        since: SendingSince,
        call: RelayedCall,
        stop: watch::Receiver<bool>,
    ) -> Result<RelayedAnswer, Error> {
        let no = part.find(step).ok_or_else(|| Error::Bug("a started call has no step".to_owned()))?;
        let answer: Arc<Mutex<Option<ServerAnswer>>> = Arc::default();
        let slot = answer.clone();
        let relay = CallRelay {
            on_answer: Some(Arc::new(move |answer| *slot.lock() = Some(answer))),
            on_progress: Some(call.on_progress),
            client_meta: call.client_meta,
        };
        let input = SessionCallInput { arguments: call.arguments, reply: call.reply, relay };
        let runner = self.0.runner.open().await?;
        let outcome = runner.perform_session_call((part.stream, no), since, input, stop).await?;
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
