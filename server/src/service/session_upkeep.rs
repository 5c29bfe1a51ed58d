//! What is due in guarded sessions without a call: calls whose process is gone, and sessions in which nothing happens.

use std::time::Duration;

use actbook_engine::execution::{Command, SessionCommand, open_session_calls};
use actbook_engine::id::StreamId;

use super::sessions::{LABELS_LAST, SessionPart, Sessions};
use crate::caller::Caller;
use crate::error::Error;
use crate::ledger;
use crate::store::executions;

/// A session in which nothing has happened for so long is over.
pub const GUARDED_IDLE_MAX: Duration = Duration::from_secs(24 * 60 * 60);

impl Sessions<'_> {
    /// Ends a session.
    pub async fn close(self, caller: &Caller, part: &SessionPart, reason: &str) -> Result<(), Error> {
        let command = SessionCommand::Close { reason: Some(reason.to_owned()), idle_since: None };
        self.command(caller, part, command).await.map(drop)
    }

    /// Ends the calls that processes which are gone had in flight, in the project's recent sessions.
    pub async fn settle_lost_calls(self) -> Result<(), Error> {
        let since_ms = self.now_ms().saturating_sub(LABELS_LAST.as_millis() as i64);
        let recent = executions::sessions_since(self.0.tenant, &self.0.project, since_ms);
        for row in recent.all(&self.0.db).await? {
            self.settle_lost_calls_of(row.id).await?;
        }
        Ok(())
    }

    /// Ends the project's sessions in which nothing has happened for so long.
    pub async fn close_idle(self, idle: Duration) -> Result<(), Error> {
        let before_ms = self.now_ms().saturating_sub(idle.as_millis() as i64);
        let open = executions::open_sessions(self.0.tenant, &self.0.project, before_ms);
        for row in open.all(&self.0.db).await? {
            let execution = self.0.executions().fold(row.id).await?;
            if execution.last_entry_at_ms >= before_ms || execution.is_stopping() {
                continue;
            }
            let command = SessionCommand::Close { reason: None, idle_since: Some(execution.position) };
            match self.0.ledger.command(&ledger::DRIVER_ACTOR.into(), row.id, Command::Session(command)).await
            {
                Ok(_) | Err(ledger::Error::Refused(_)) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Like `settle_lost_calls`, for one execution; nothing if it is no session or has no call in flight.
    pub(super) async fn settle_lost_calls_of(self, stream: StreamId) -> Result<(), Error> {
        let execution = self.0.executions().fold(stream).await?;
        if open_session_calls(&execution).next().is_none() {
            return Ok(());
        }
        Ok(self.0.runner.open().await?.lose_session_calls(stream).await?)
    }
}
