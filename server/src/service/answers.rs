//! What people and agents say to an execution. Each is a fact in the journal; the driver goes on from it.

use actbook_engine::execution::Command;
use actbook_engine::policy::Answer;
use serde_json::Value;

use super::Service;
use super::executions::Found;
use crate::caller::Caller;
use crate::error::Error;
use crate::ledger::{Progress, Reply, Request};

/// Where it was said, and how far that brought it.
type Told = Result<(Found, Progress), Error>;

impl Service {
    pub(super) async fn tell(&self, caller: &Caller, id: &str, command: Command) -> Told {
        let found = self.find(id).await?;
        let request = Request::Do { stream: found.stream, command: command.into() };
        let progress = match self.ask(caller, request).await? {
            Reply::Moved(progress) => *progress,
            Reply::Repeated(_) => self.stands(found.stream)?,
            Reply::Saved { .. } | Reply::Deleted | Reply::Accepted { .. } | Reply::Recorded(_) => {
                unreachable!("a command moves its execution")
            }
        };
        Ok((found, progress))
    }

    pub async fn pause(&self, caller: &Caller, id: &str, reason: Option<String>) -> Told {
        self.tell(caller, id, Command::Pause { reason }).await
    }

    pub async fn resume(&self, caller: &Caller, id: &str) -> Told {
        self.tell(caller, id, Command::Resume).await
    }

    pub async fn cancel(&self, caller: &Caller, id: &str, reason: Option<String>) -> Told {
        self.tell(caller, id, Command::Cancel { reason }).await
    }

    pub async fn undo(&self, caller: &Caller, id: &str, reason: Option<String>) -> Told {
        self.tell(caller, id, Command::Undo { reason }).await
    }

    pub async fn approve(
        &self,
        caller: &Caller,
        id: &str,
        to: Option<String>,
        reason: Option<String>,
    ) -> Told {
        self.require_approver(caller, id).await?;
        self.tell(caller, id, Command::Approve { step: to, reason }).await
    }

    pub async fn reject(
        &self,
        caller: &Caller,
        id: &str,
        to: Option<String>,
        reason: Option<String>,
    ) -> Told {
        self.require_approver(caller, id).await?;
        self.tell(caller, id, Command::Reject { step: to, reason }).await
    }

    pub async fn decide(
        &self,
        caller: &Caller,
        id: &str,
        step: String,
        answer: Answer,
        reason: Option<String>,
        mut output: Option<Value>,
    ) -> Told {
        output.iter_mut().for_each(|output| self.tools.redact(output));
        if answer == Answer::Retry {
            self.take_over_accepted(caller, id, &step).await?;
        }
        self.tell(caller, id, Command::Decide { step, answer, reason, output }).await
    }
}
