//! The calls of guarded sessions that this process sends for an agent. Such a session has no driver: the process whose
//! name the intent carries sends the call and records its outcome, and the call is lost only when that process is gone.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use actbook_engine::execution::{
    Command, DueCall, ReportedOutcome, SessionCommand, open_session_calls, session_call,
};
use actbook_engine::id::{NodeId, StepId, StepNo, StreamId};
use actbook_engine::policy::ErrorCategory;
use serde_json::{Value, json};
use tokio::sync::watch;

use super::drive::NodeFileGuard;
use super::perform::{CallInput, CallRelay, perform_call};
use super::{Error, NodeStatus, Runner};
use crate::boot_instant::BootInstant;
use crate::{ledger, tools};

/// A time since which this process's lease must have held without a gap for a call to be sent: not later than the
/// call's intent. Otherwise another process may have counted the call as lost.
#[derive(Clone, Copy, Debug)]
pub struct SendingSince(BootInstant);

impl SendingSince {
    pub fn now() -> Self {
        Self(BootInstant::now())
    }
}

/// What a session's call sends.
#[derive(Debug)]
pub struct SessionCallInput {
    pub arguments: Value,
    /// The answer to a question that the tool asked when it was called before.
    pub reply: Option<tools::ToolQuestionReply>,
    pub relay: CallRelay,
}

impl Runner {
    /// Sends the call of a session's step, whose intent is durable, and records its outcome, which is returned once it
    /// is durable. `stop` turns true when the agent's client no longer wants the call.
    pub async fn perform_session_call(
        &self,
        (stream, step): (StreamId, StepNo),
        since: SendingSince,
        input: SessionCallInput,
        stop: watch::Receiver<bool>,
    ) -> Result<ReportedOutcome, Error> {
        let mut guard = NodeFileGuard(Some(&self.0.node));
        let due = self.0.ledger.with_execution(stream, |execution| {
            let origin = tools::Origin {
                execution: execution.id.clone(),
                step: execution.step_id(step),
                purpose: tools::Purpose::Run,
                attempt: 1,
            };
            session_call(execution, step).map(|call| (call, origin))
        })?;
        let Some((call, origin)) = due else {
            return Err(ledger::Error::Corrupt("a session's call has no intent".to_owned()).into());
        };
        let outcome = self.send_session_call(stream, call, origin.clone(), since, input, stop).await;
        self.record_session_call(stream, &origin.step, outcome.clone()).await?;
        guard.0.take();
        Ok(outcome)
    }

    async fn send_session_call(
        &self,
        stream: StreamId,
        call: DueCall,
        origin: tools::Origin,
        since: SendingSince,
        input: SessionCallInput,
        stop: watch::Receiver<bool>,
    ) -> ReportedOutcome {
        let SessionCallInput { arguments, reply, relay } = input;
        let input = CallInput { origin, arguments, reply, relay };
        let handle_recorded = Arc::new(AtomicBool::new(false));
        let (inner, since) = (self.0.clone(), since.0);
        let (_, outcome) = perform_call(inner, stream, call, input, stop, handle_recorded, since).await;
        outcome.unwrap_or_else(|| ReportedOutcome::Failed {
            category: ErrorCategory::Unavailable,
            error: json!({ "message": "this process has lost its lease in the database; nothing was sent" }),
            unsent: true,
            retry_after_ms: None,
        })
    }

    /// Records how a session's call ended, again after each database outage: its effect must not go unrecorded.
    async fn record_session_call(
        &self,
        stream: StreamId,
        step: &StepId,
        outcome: ReportedOutcome,
    ) -> Result<(), Error> {
        let end = SessionCommand::EndCall { step: step.to_string(), outcome, after: None };
        let command = Arc::new(Command::Session(end));
        loop {
            match self.0.ledger.command(&self.0.actor, stream, command.clone()).await {
                Ok(_) => return Ok(()),
                Err(ledger::Error::Store(error)) if error.is_transient() => {
                    tracing::warn!("{error}; the outcome of a call is recorded once the database answers");
                    self.0.wait_for_database().await;
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Ends the calls of a session whose process is gone: those that were certainly never sent have failed, the others
    /// are unknown.
    pub async fn lose_session_calls(&self, stream: StreamId) -> Result<(), Error> {
        let nodes: BTreeSet<NodeId> = self.0.ledger.with_execution(stream, |execution| {
            open_session_calls(execution).filter_map(|(_, node)| node.cloned()).collect()
        })?;
        for node in nodes.into_iter().filter(|node| *node != self.node_id()) {
            let unsent = match self.node_status(node.as_str()).await? {
                NodeStatus::Exited(sent) => {
                    self.0.ledger.with_execution(stream, |execution| sent.unsent(stream, execution))?
                }
                NodeStatus::Alive | NodeStatus::Undetermined
                    if self.has_live_lease(node.as_str()).await? =>
                {
                    continue;
                }
                NodeStatus::Alive | NodeStatus::Undetermined => BTreeSet::new(),
            };
            let command = Command::Session(SessionCommand::LoseCalls { node, unsent });
            self.0.ledger.command(&self.0.actor, stream, command).await?;
        }
        Ok(())
    }
}
