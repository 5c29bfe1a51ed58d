//! The calls of earlier sessions, each with what was known when it was judged, and with what became of it.

use actbook_engine::event::{CallNote, Event};
use actbook_engine::execution::{Execution, LoadedPayloads, RecordedEvent};
use actbook_engine::id::StepNo;
use actbook_engine::policy::{ErrorCategory, StepStatus};
use actbook_engine::rules::{RuleEffect, SessionFacts};
use serde::Serialize;
use serde_json::Value;

use super::judged_session::session_facts;
use super::sessions::Sessions;
use crate::error::Error;
use crate::ledger::replay_execution;
use crate::store::executions;

/// A call of an earlier session.
#[derive(Clone, Debug)]
pub struct PastCall {
    pub execution: String,
    pub step: String,
    pub tool: String,
    /// As they are stored, without known secrets; `None`: erased.
    pub arguments: Option<Value>,
    /// The session when the call was judged.
    pub session: SessionFacts,
    /// The folder that it was made in.
    pub folder: Option<String>,
    pub at_ms: i64,
    /// What was decided about it.
    pub decided: RuleEffect,
    pub result: PastResult,
}

/// What became of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum PastResult {
    /// It succeeded, and nobody undid it.
    WentWell,
    Failed,
    /// It was undone afterwards.
    Undone,
    /// Nobody knows, or it has not ended.
    Unknown,
    /// It was refused, or nobody said yes.
    NotMade,
}

impl Sessions<'_> {
    /// The calls of this project's sessions that started since `since_ms`, oldest session first. A call of which only the
    /// end was seen was never judged, and is left out.
    pub async fn past_calls(self, since_ms: i64) -> Result<Vec<PastCall>, Error> {
        let rows =
            executions::all_sessions_since(self.0.tenant, &self.0.project, since_ms).all(&self.0.db).await?;
        let mut calls = Vec::new();
        for row in rows {
            let (db, plans) = (&self.0.db, &self.0.plan_cache);
            let replayed = replay_execution(db, self.0.tenant, row.id, plans, facts_before_call).await?;
            let Some((execution, facts)) = replayed else { continue };
            let values = self.load_arguments(&execution).await?;
            let judged = execution.step_numbers().zip(facts).filter(|(no, _)| was_judged(&execution, *no));
            calls.extend(judged.map(|(no, facts)| past_call(&execution, no, facts, &values)));
        }
        Ok(calls)
    }

    /// The stored arguments of all calls of a session.
    async fn load_arguments(self, execution: &Execution) -> Result<LoadedPayloads, Error> {
        let stored = execution.steps.iter().filter_map(|step| step.literal_arguments);
        let mut values = LoadedPayloads::default();
        self.0.executions().load_values(stored.map(|stored| stored.position).collect(), &mut values).await?;
        Ok(values)
    }
}

/// The session and the time when an entry adds a call; `None`: the entry adds none.
fn facts_before_call(execution: &Execution, entry: &RecordedEvent) -> Option<(SessionFacts, i64)> {
    let Event::StepAdded(added) = &entry.event else { return None };
    session_facts(execution, added.agent.clone()).map(|facts| (facts, entry.at_ms))
}

fn was_judged(execution: &Execution, no: StepNo) -> bool {
    execution.session.as_deref().is_some_and(|session| session.call(no).note != Some(CallNote::NotSeen))
}

fn past_call(
    execution: &Execution,
    no: StepNo,
    (session, at_ms): (SessionFacts, i64),
    values: &LoadedPayloads,
) -> PastCall {
    let folder = execution.session.as_deref().and_then(|session| session.call(no).folder.clone());
    let stored = execution.step(no).literal_arguments.and_then(|stored| values.0.get(&stored.position));
    PastCall {
        execution: execution.id.to_string(),
        step: execution.step_id(no).to_string(),
        tool: execution.plan.step(no).tool().unwrap_or_default().to_owned(),
        arguments: stored.map(|value| Value::clone(value)).filter(|value| !value.is_null()),
        session,
        folder,
        at_ms,
        decided: past_decision(execution, no),
        result: past_result(execution, no),
    }
}

/// What was decided about a call when it was made.
fn past_decision(execution: &Execution, no: StepNo) -> RuleEffect {
    let Some(session) = execution.session.as_deref() else { return RuleEffect::Allow };
    let step = execution.step(no);
    let was_refused =
        step.attempts.is_empty() && step.error.is_some_and(|error| error.category == ErrorCategory::Policy);
    let was_asked = session.questions.contains_key(&no)
        || step.is_approved()
        || session.call(no).note == Some(CallNote::AskedInClient);
    match (was_asked, was_refused) {
        (true, _) => RuleEffect::Ask,
        (false, true) => RuleEffect::Deny,
        (false, false) => RuleEffect::Allow,
    }
}

fn past_result(execution: &Execution, no: StepNo) -> PastResult {
    let step = execution.step(no);
    if step.attempts.is_empty() {
        return PastResult::NotMade;
    }
    match step.status() {
        StepStatus::Succeeded => PastResult::WentWell,
        StepStatus::Failed => PastResult::Failed,
        StepStatus::Compensating | StepStatus::Compensated | StepStatus::CompensationFailed => {
            PastResult::Undone
        }
        StepStatus::Skipped | StepStatus::Cancelled => PastResult::NotMade,
        StepStatus::Pending
        | StepStatus::Running
        | StepStatus::AwaitingApproval
        | StepStatus::AwaitingAgent
        | StepStatus::Unknown => PastResult::Unknown,
    }
}
