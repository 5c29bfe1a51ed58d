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
        let progress = self.command(caller, found.stream, command).await?;
        Ok((found, progress))
    }

    /// A caller's command on an execution that was found before.
    pub(super) async fn command(
        &self,
        caller: &Caller,
        stream: u64,
        command: Command,
    ) -> Result<Progress, Error> {
        let request = Request::Do { stream, command: command.into() };
        match self.ask(caller, request).await? {
            Reply::Moved(progress) => Ok(*progress),
            Reply::Repeated(_) => self.stands(stream),
            Reply::Saved { .. } | Reply::Deleted | Reply::Accepted { .. } | Reply::Recorded(_) => {
                unreachable!("a command moves its execution")
            }
        }
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
        let approves = self.is_approver(caller, id).await?;
        self.tell(caller, id, Command::Undo { reason, approves }).await
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
        output: Option<Value>,
    ) -> Told {
        if answer == Answer::Retry {
            self.take_over_accepted(caller, id, &step).await?;
        }
        let approves = self.is_approver(caller, id).await?;
        let command = Command::Decide { step, answer, reason, output, arguments: None, approves };
        self.tell(caller, id, command).await
    }

    /// A failed call is made again with these arguments instead of those that the plan binds. They are held
    /// against the tool's schema first, so that nothing is decided which could not be sent.
    pub async fn retry_with(
        &self,
        caller: &Caller,
        id: &str,
        step: String,
        answer: Answer,
        reason: Option<String>,
        arguments: Value,
    ) -> Told {
        self.require_fitting_arguments(id, &step, &arguments).await?;
        self.take_over_accepted(caller, id, &step).await?;
        let approves = self.is_approver(caller, id).await?;
        let arguments = Some(arguments);
        let command = Command::Decide { step, answer, reason, output: None, arguments, approves };
        self.tell(caller, id, command).await
    }

    async fn require_fitting_arguments(&self, id: &str, step: &str, arguments: &Value) -> Result<(), Error> {
        let plan = self.fold(self.find(id).await?.stream)?.plan;
        let tool = plan.find(step).and_then(|no| plan.step(no).tool().map(str::to_owned));
        let Some(tool) = tool else { return Ok(()) };
        let described = self.tools.describe(&tool).await;
        let Ok(info) = described else { return Ok(()) };
        info.check_arguments(arguments).map_err(|why| {
            let message = format!("`{tool}` does not take these arguments: {why}");
            Error::new(
                "invalid_arguments",
                message,
                format!("`actbook tools show {tool}` shows what it takes"),
            )
        })
    }
}
