//! A session for its page: the calls as they came, the labels with the calls that brought them, the budget, and what an
//! undo would do.

use std::collections::BTreeSet;

use actbook_engine::event::{CallBudget, CallNote};
use actbook_engine::execution::{Execution, LoadedPayloads, SessionState};
use actbook_engine::id::{StepId, StepNo};
use actbook_engine::policy::StepStatus;
use serde_json::Value;

use super::quote;
use super::session_undo::{CallUndoView, UndoSelection};
use super::sessions::Sessions;
use super::view::format_time;
use crate::error::Error;

/// Calls that the page shows: the newest.
const CALLS_SHOWN: usize = 200;
/// Most characters of what a call is about.
const SUMMARY_CHARS_MAX: usize = 160;
/// The arguments that say what a call is about, the first that is there.
const TELLING_ARGUMENTS: [&str; 6] = ["command", "path", "url", "query", "paths", "description"];

/// One call of a session.
#[derive(Clone, Debug)]
pub struct SessionCallView {
    pub step: StepId,
    pub tool: String,
    pub status: StepStatus,
    /// When it started; `None`: it has not.
    pub at: Option<String>,
    /// What it is about, from its arguments; empty for readers that must not see them.
    pub summary: String,
    /// The rule that asked about it or refused it.
    pub rule: Option<String>,
    /// What a refusal says.
    pub refusal: Option<String>,
    /// The labels that joined the session with it.
    pub joined: Vec<String>,
    /// The subagent that made it.
    pub agent: Option<String>,
    /// The client asked its person.
    pub is_asked_in_client: bool,
    /// Actbook has the end of the call alone.
    pub is_not_seen: bool,
}

/// A session as its page shows it.
#[derive(Clone, Debug)]
pub struct SessionPageView {
    pub client: String,
    pub folder: Option<String>,
    pub is_open: bool,
    /// Oldest first.
    pub calls: Vec<SessionCallView>,
    /// Older calls that are not shown.
    pub more: usize,
    /// Each label of the session, with the call that brought it. `None`: it came with the session.
    pub labels: Vec<(String, Option<StepId>)>,
    /// The calls that have started, those of earlier parts included.
    pub calls_started: u32,
    pub budget: CallBudget,
    /// When the session's first part began, in Unix milliseconds.
    pub began_at_ms: i64,
    pub undo: Vec<CallUndoView>,
}

impl Sessions<'_> {
    /// A session for its page. `None`: the execution is no session's.
    pub async fn page(self, id: &str) -> Result<Option<SessionPageView>, Error> {
        let execution = self.0.executions().load(id).await?;
        let Some(session) = execution.session.as_deref() else { return Ok(None) };
        let undo = self.undo_outlook(&execution, &UndoSelection::default()).await?.unwrap_or_default();
        let more = execution.steps.len().saturating_sub(CALLS_SHOWN);
        let shown: Vec<StepNo> = execution.step_numbers().skip(more).collect();
        let values = self.load_call_values(&execution, &shown).await?;
        let joined = joined_labels(&execution, session);
        let call = |no: &StepNo| {
            let joined = joined.iter().filter(|(_, by)| by == no).map(|(label, _)| label.clone()).collect();
            self.call_view(&execution, session, *no, joined, &values)
        };
        let brought_by = |label: &String| joined.iter().find(|(known, _)| known == label);
        let label = |label: &String| (label.clone(), brought_by(label).map(|(_, no)| execution.step_id(*no)));
        Ok(Some(SessionPageView {
            client: session.start.client.clone(),
            folder: session.start.folder.clone(),
            is_open: execution.ended.is_none(),
            calls: shown.iter().map(call).collect(),
            more,
            labels: session.labels.iter().map(label).collect(),
            calls_started: session.calls_started(),
            budget: session.start.budget.clone().unwrap_or_default(),
            began_at_ms: session.start.began_at_ms.unwrap_or(execution.started_at_ms),
            undo,
        }))
    }

    /// The arguments of these calls, and the errors of those that were refused.
    async fn load_call_values(
        self,
        execution: &Execution,
        shown: &[StepNo],
    ) -> Result<LoadedPayloads, Error> {
        let mut values = LoadedPayloads::default();
        if self.0.withholds {
            return Ok(values);
        }
        let stored = |no: &StepNo| {
            let step = execution.step(*no);
            [step.literal_arguments, step.error.and_then(|error| error.detail)]
        };
        let positions = shown.iter().flat_map(stored).flatten().map(|stored| stored.position).collect();
        self.0.executions().load_values(positions, &mut values).await?;
        Ok(values)
    }

    fn call_view(
        self,
        execution: &Execution,
        session: &SessionState,
        no: StepNo,
        joined: Vec<String>,
        values: &LoadedPayloads,
    ) -> SessionCallView {
        let (step, record) = (execution.step(no), session.call(no));
        let value = |stored: Option<actbook_engine::execution::PayloadRef>| {
            stored.and_then(|stored| values.0.get(&stored.position))
        };
        let refusal = value(step.error.and_then(|error| error.detail));
        let refusal = refusal.and_then(|error| error.get("message")).and_then(Value::as_str);
        SessionCallView {
            step: execution.step_id(no),
            tool: execution.plan.step(no).tool().unwrap_or_default().to_owned(),
            status: step.status(),
            at: step.started_at_ms.map(format_time),
            summary: value(step.literal_arguments).map(|arguments| summary(arguments)).unwrap_or_default(),
            rule: record.rule.clone(),
            refusal: refusal.map(str::to_owned),
            joined,
            agent: record.agent.clone(),
            is_asked_in_client: record.note == Some(CallNote::AskedInClient),
            is_not_seen: record.note == Some(CallNote::NotSeen),
        }
    }
}

/// Each label that a call brought, with the call: the first that adds it and has started.
fn joined_labels(execution: &Execution, session: &SessionState) -> Vec<(String, StepNo)> {
    let mut known: BTreeSet<&String> = session.start.labels.iter().collect();
    let mut joined = Vec::new();
    let mut started: Vec<StepNo> =
        execution.step_numbers().filter(|no| !execution.step(*no).attempts.is_empty()).collect();
    started.sort_by_key(|no| execution.step(*no).started_at_ms);
    for no in started {
        for label in &session.call(no).adds {
            if known.insert(label) {
                joined.push((label.clone(), no));
            }
        }
    }
    joined
}

/// What a call is about, in a line.
fn summary(arguments: &Value) -> String {
    let telling = TELLING_ARGUMENTS.iter().find_map(|name| arguments.get(name));
    let text = match telling {
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
        None => arguments.to_string(),
    };
    quote::line(&text, SUMMARY_CHARS_MAX)
}
