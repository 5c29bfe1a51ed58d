//! The steps of plans that wait for an agent's own call, for the guard, which sees the call itself.

use actbook_engine::chain::{Digest, with_sorted_keys};
use actbook_engine::event::{Event, MatchedStep};
use actbook_engine::execution::{
    ActionFacts, AgentReport, Command, Execution, RecordedEvent, ReportedOutcome,
};
use actbook_engine::id::{Position, StepNo, StreamId};
use actbook_engine::policy::StepStatus;
use serde_json::Value;

use super::sessions::{SessionPart, Sessions};
use crate::caller::Caller;
use crate::error::Error;
use crate::ledger::replay_execution;
use crate::store::executions;

impl Sessions<'_> {
    /// The first step, of the newest execution first, that awaits an agent's call of this tool with arguments of one of
    /// these forms, and that no call in flight of the session is matched with.
    pub async fn find_awaited_step(
        self,
        part: &SessionPart,
        tool: &str,
        forms: &[Value],
    ) -> Result<Option<MatchedStep>, Error> {
        for row in executions::open_plans(self.0.tenant, &self.0.project).all(&self.0.db).await? {
            let execution = self.0.executions().fold(row.id).await?;
            let awaited = execution.step_numbers().filter(|no| awaits_call(&execution, *no, tool, forms));
            let mut awaited = awaited.map(|no| matched_step(&execution, no));
            if let Some(matched) = awaited.find(|matched| !part.has_matched(matched)) {
                return Ok(Some(matched));
            }
        }
        Ok(None)
    }

    /// The entry in which a person approved the plan of this execution; `None`: nobody has.
    pub async fn plan_approved_at(self, matched: &MatchedStep) -> Result<Option<Position>, Error> {
        let found =
            executions::by_public_id(self.0.tenant, matched.execution.as_str()).first(&self.0.db).await?;
        let Some(row) = found else { return Ok(None) };
        let approval = |_: &Execution, entry: &RecordedEvent| {
            matches!(entry.event, Event::PlanApproved(_)).then_some(entry.position)
        };
        Ok(self.observe(row.id, approval).await?.pop())
    }

    /// The first entry with which the session had the label that it has now; `None`: it has not.
    pub async fn label_since(self, part: &SessionPart, label: &str) -> Result<Option<Position>, Error> {
        if !part.labels().contains(label) {
            return Ok(None);
        }
        let wanted = label.to_owned();
        let without = move |execution: &Execution, entry: &RecordedEvent| {
            let has = execution.session.as_deref().is_some_and(|session| session.labels.contains(&wanted));
            (!has).then_some(entry.position)
        };
        // The last entry that was written without the label is the one that added it.
        Ok(Some(self.observe(part.stream(), without).await?.pop().unwrap_or_default()))
    }

    async fn observe<T: Send + 'static>(
        self,
        stream: StreamId,
        observe: impl Fn(&Execution, &RecordedEvent) -> Option<T> + Send + 'static,
    ) -> Result<Vec<T>, Error> {
        let replayed =
            replay_execution(&self.0.db, self.0.tenant, stream, &self.0.plan_cache, observe).await?;
        Ok(replayed.map(|(_, observed)| observed).unwrap_or_default())
    }

    /// Reports on the plan's step how the call ended that was matched with it. A step that the agent has reported on
    /// already stays as it was reported.
    pub async fn report_matched(
        self,
        caller: &Caller,
        matched: &MatchedStep,
        outcome: &ReportedOutcome,
    ) -> Result<(), Error> {
        let report = match outcome {
            ReportedOutcome::Succeeded { output } => AgentReport::Succeeded { output: Some(output.clone()) },
            ReportedOutcome::Failed { category, error, .. } => {
                let reason = error.get("message").and_then(Value::as_str).map(str::to_owned);
                AgentReport::Failed { reason, category: *category }
            }
            ReportedOutcome::Unknown { .. } | ReportedOutcome::InputRequired { .. } => return Ok(()),
        };
        let facts = ActionFacts { kind: Some("observed".to_owned()), ..ActionFacts::default() };
        let step = matched.step.to_string();
        let command =
            Command::RecordReport { step, report, facts: Box::new(facts), by: None, replies_to: None };
        let found =
            executions::by_public_id(self.0.tenant, matched.execution.as_str()).first(&self.0.db).await?;
        let Some(row) = found else { return Ok(()) };
        match self.0.executions().command(caller, row.id, command).await {
            Ok(_) | Err(Error::Refused(_)) => Ok(()),
            Err(error) => Err(error),
        }
    }
}

/// Whether the step waits for an agent that calls this tool with arguments of one of these forms.
fn awaits_call(execution: &Execution, no: StepNo, tool: &str, forms: &[Value]) -> bool {
    let step = execution.step(no);
    if step.status() != StepStatus::AwaitingAgent || execution.plan.step(no).tool() != Some(tool) {
        return false;
    }
    let Some(bound) = step.attempts.last().and_then(|attempt| attempt.arguments) else { return false };
    forms.iter().any(|form| {
        let bytes = serde_json::to_vec(&with_sorted_keys(form)).expect("a JSON value always serialises");
        Digest::salted(execution.salt(), &bytes) == bound.digest.digest
    })
}

fn matched_step(execution: &Execution, no: StepNo) -> MatchedStep {
    let attempt = u32::try_from(execution.step(no).attempts.len()).unwrap_or(u32::MAX);
    MatchedStep { execution: execution.id.clone(), step: execution.step_id(no), attempt }
}
