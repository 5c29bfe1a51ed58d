//! The states that were kept around a session's calls, as the journal has them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use actbook_engine::chain::Digest;
use actbook_engine::event::StateMoment;
use actbook_engine::execution::{Command, LoadedPayloads, PayloadRef, SessionCommand};
use serde_json::Value;

use super::relayed_calls::LiveSession;
use super::sessions::{SessionPart, Sessions};
use crate::caller::Caller;
use crate::error::Error;
use crate::store::executions;

impl Sessions<'_> {
    /// The state that was kept before a step's call. `None`: none was.
    pub async fn kept_before(self, part: &SessionPart, step: &str) -> Result<Option<Value>, Error> {
        let part = self.reload(part).await?;
        let kept = part.find(step).and_then(|no| part.session().kept_state(no, StateMoment::Before));
        let Some(PayloadRef { position, .. }) = kept else { return Ok(None) };
        let mut values = LoadedPayloads::default();
        self.0.executions().load_values(vec![position], &mut values).await?;
        Ok(values.0.get(&position).map(|value| (**value).clone()))
    }

    /// Whether something was kept before the call of a step that this process sends, so that the state after it is needed.
    pub fn needs_state_after(self, live: &LiveSession, step: &str) -> Result<bool, Error> {
        let needs = self.0.ledger.with_execution(live.stream, |execution| {
            let no = execution.plan.find_step(step)?;
            let call = execution.session.as_deref()?.call(no);
            Some(call.before.is_some() || call.check.is_some())
        })?;
        Ok(needs == Some(true))
    }

    /// Records the state after the call of a step that this process has sent.
    pub async fn keep_after(
        self,
        caller: &Caller,
        live: &LiveSession,
        step: &str,
        state: Value,
    ) -> Result<(), Error> {
        let (step, moment) = (step.to_owned(), StateMoment::After);
        let command = Command::Session(SessionCommand::KeepState { step, moment, state });
        self.0.executions().command(caller, live.stream, command).await.map(drop)
    }

    /// The names of the contents that the journal names for this part of a session, and whether it takes calls. `None`:
    /// the journal knows no such session.
    pub async fn kept_contents(self, id: &str) -> Result<Option<(BTreeSet<String>, bool)>, Error> {
        let found = executions::by_public_id(self.0.tenant, id).first(&self.0.db).await?;
        let Some(row) = found else { return Ok(None) };
        let execution = self.0.executions().fold(row.id).await?;
        let Some(session) = execution.session.as_deref() else { return Ok(None) };
        let kept = session.calls.iter().flat_map(|call| [call.before, call.after]).flatten();
        let mut values = LoadedPayloads::default();
        let positions = kept.map(|stored| stored.position).collect();
        self.0.executions().load_values(positions, &mut values).await?;
        let mut named = BTreeSet::new();
        values.0.values().for_each(|value| collect_blobs(value, &mut named));
        Ok(Some((named, execution.ended.is_none())))
    }

    /// The digests of the definitions of these tools' servers, as a call records them for its undo.
    pub fn server_digests(self, tools: &[&str]) -> BTreeMap<String, Digest> {
        self.0.runner.server_digests(tools.iter().copied())
    }

    /// The file that the journal is in, if it is in one.
    pub fn database_file(self) -> Option<PathBuf> {
        self.0.db.file()
    }
}

/// Adds the names of the contents in a kept state.
fn collect_blobs(value: &Value, named: &mut BTreeSet<String>) {
    match value {
        Value::Object(fields) => {
            named.extend(fields.get("blob").and_then(Value::as_str).map(str::to_owned));
            fields.values().for_each(|field| collect_blobs(field, named));
        }
        Value::Array(items) => items.iter().for_each(|item| collect_blobs(item, named)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Whether every path that a call was to write holds what it held before. Of a shell command that says nothing.
pub(super) fn leaves_targets_unchanged(before: Option<&Value>, after: Option<&Value>) -> bool {
    let files = |value: Option<&Value>| value.and_then(|value| value.get("files")).cloned();
    let is_of_paths = before.is_some_and(|before| before.get("place").is_none());
    is_of_paths
        && files(before).is_some_and(|files_before| {
            files_before.as_object().is_some_and(|files| !files.is_empty())
                && files(after) == Some(files_before)
        })
}
