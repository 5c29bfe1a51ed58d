//! Who drives an execution: this process, in the background or in a task that a command waits for, or another
//! live process. Finds executions and authorises; `runner` claims and drives them.

use std::time::Duration;

use actbook_engine::chain::Digest;
use actbook_engine::execution::Command;
use actbook_engine::plan::Plan;
use actbook_engine::policy::ExecutionStatus;

use super::Service;
use super::executions::{Executions, FoundExecution};
use super::records::Decision;
use super::view::ExecutionView;
use crate::caller::{Caller, Right};
use crate::error::Error;
use crate::ledger::DriveState;
use crate::runner::{
    self, BackgroundDriver, ClaimResult, DriveStopper, DriveTask, Driver, HaltSignal, RegisteredNode, Runner,
};
use crate::store::execution_filter::ExecutionFilter;

/// At most this many executions of each status are checked for a missing driver.
const ORPHAN_CANDIDATES_MAX: u64 = 200;
/// How long a pause may take to be journaled; after that this process merely stops driving.
const PAUSE_TIMEOUT: Duration = Duration::from_secs(5);

impl Service {
    /// The runner of this process. The first call opens it and registers the process as a node.
    pub async fn runner(&self) -> Result<&Runner, Error> {
        Ok(self.runner.open().await?)
    }

    /// The driver that runs executions in tasks of this process, independently of connections and requests.
    pub fn background(&self) -> &BackgroundDriver {
        &self.background
    }
}

impl Executions<'_> {
    /// The toolset digest of a plan: over this process's definitions of the servers that the plan names.
    pub fn toolset_digest(self, plan: &Plan) -> Digest {
        self.0.runner.toolset_digest(plan)
    }

    /// Claims an execution for this process; with `adopt` the execution first takes over this process's
    /// toolset. `None`: another live process drives the execution, or it has ended.
    pub async fn claim(self, caller: &Caller, id: &str, adopt: bool) -> Result<Option<DriveState>, Error> {
        if adopt {
            self.adopt(caller, id).await?;
        }
        let found = self.find(id).await?;
        let toolset = self.0.runner.toolset_for(&*self.fold(found.stream).await?);
        match self.0.runner().await?.claim(found.stream, toolset).await? {
            ClaimResult::Claimed(progress) => Ok(Some(*progress)),
            ClaimResult::DrivenElsewhere | ClaimResult::Ended => Ok(None),
        }
    }

    /// Drives a claimed execution until it blocks, pauses or ends, or `halt` fires; returns its status then.
    pub async fn drive(self, claimed: DriveState, halt: HaltSignal) -> Result<ExecutionStatus, Error> {
        Ok(self.0.runner().await?.drive(claimed, halt).await?)
    }

    /// Drives a claimed execution in a task, until it blocks, pauses or ends, or is stopped.
    pub async fn drive_in_task(self, claimed: DriveState) -> Result<DriveTask, Error> {
        Ok(DriveTask::spawn(self.0.runner().await?.clone(), claimed))
    }

    /// Pauses an execution, so that no other process continues it, and stops the task that drives it here.
    /// Stops the task also if the pause is refused or takes too long.
    pub async fn pause_and_stop(self, caller: &Caller, id: &str, reason: &str, stopper: &DriveStopper) {
        let pausing = self.pause(caller, id, Some(reason.to_owned()));
        let paused = tokio::time::timeout(PAUSE_TIMEOUT, pausing).await;
        if !matches!(paused, Ok(Ok(_))) {
            tracing::debug!(
                "the execution was not paused: it has ended, is being stopped, or the database is unreachable"
            );
        }
        // A server's task may run for long: do not wait for it, a later `resume` picks it up.
        stopper.stop();
    }

    /// Continues an execution in the background after a command and returns its view. The second value is the
    /// error `other_place`: this process has another toolset and cannot drive the execution; the command is
    /// journaled nevertheless.
    pub async fn continue_and_view(
        self,
        found: &FoundExecution,
    ) -> Result<(ExecutionView, Option<Error>), Error> {
        let other_place = match self.0.background().continue_execution(found.stream).await {
            Ok(_) => None,
            Err(error) if error.is_other_toolset() => Some(error.into()),
            Err(error) => return Err(error.into()),
        };
        Ok((self.view_stream(found.stream).await?, other_place))
    }

    /// Lifts a pause. An execution that only lacks a driver needs no entry, and is returned as it is; one
    /// that has ended is refused.
    pub async fn resume_if_paused(self, caller: &Caller, id: &str) -> Result<FoundExecution, Error> {
        // An execution that is not paused gets no entry, and is taken up nevertheless.
        self.0.require(caller, Right::Operate)?;
        let found = self.find(id).await?;
        match found.status {
            ExecutionStatus::Running | ExecutionStatus::Blocked | ExecutionStatus::Compensating => Ok(found),
            ExecutionStatus::Paused
            | ExecutionStatus::Succeeded
            | ExecutionStatus::Failed
            | ExecutionStatus::Cancelled
            | ExecutionStatus::Compensated => Ok(self.resume(caller, id).await?.0),
        }
    }

    /// Lifts a pause. The command has no reason: with one, the decision to continue is journaled instead.
    pub async fn resume_with_reason(
        self,
        caller: &Caller,
        id: &str,
        reason: Option<String>,
    ) -> Result<FoundExecution, Error> {
        let Some(reason) = reason else { return self.resume_if_paused(caller, id).await };
        let (decision, reason) = ("continue".to_owned(), Some(reason));
        let decision = Decision { decision, reason, step: None, details: None };
        Ok(self.record_decision(caller, id, decision).await?.0)
    }

    /// Replaces an execution's toolset by this process's. Refused if a server of its plan is not configured
    /// here.
    pub async fn adopt(self, caller: &Caller, id: &str) -> Result<(), Error> {
        let found = self.find(id).await?;
        let execution = self.fold(found.stream).await?;
        // A session's calls were made by its client: only the servers that take them back must be here.
        let is_needed = |tool: &&str| execution.session.is_none() || execution.undoes_by(tool);
        let named = execution.plan.named_tools().into_iter().map(|(_, tool)| tool).filter(is_needed);
        let mut servers = named.filter_map(|tool| tool.split_once('/'));
        if let Some((missing, _)) = servers.find(|(server, _)| !self.0.tools.has_server(server)) {
            return Err(Error::ServerNotConfigured { server: missing.to_owned() });
        }
        let toolset = self.0.runner.toolset_for(&execution);
        self.0
            .ledger
            .command(&self.0.journaled_actor(caller), found.stream, Command::AdoptToolset { toolset })
            .await?;
        Ok(())
    }

    /// Refuses a command that this process could journal but not carry out. Ok: a live process drives the
    /// execution, or its toolset is this process's.
    pub async fn require_drivable(self, id: &str) -> Result<(), Error> {
        let found = self.find(id).await?;
        let execution = self.fold(found.stream).await?;
        if self.driver(&found).await?.is_some() || self.0.runner.toolset_for(&execution) == execution.toolset
        {
            return Ok(());
        }
        Err(runner::other_toolset(execution.project.as_deref()).into())
    }

    /// The live process that drives an execution. `None`: no process does. Checks the node that `found`
    /// names.
    pub async fn driver(self, found: &FoundExecution) -> Result<Option<Driver>, Error> {
        match &found.node {
            Some(node) => self.live_driver(node).await,
            None => Ok(None),
        }
    }

    /// The process of a node. `None`: its lease has lapsed or it has exited.
    pub(super) async fn live_driver(self, node: &str) -> Result<Option<Driver>, Error> {
        Ok(self.0.runner.live_driver(node).await?)
    }

    /// Resolves once no live process drives the execution.
    pub async fn wait_until_undriven(self, found: &FoundExecution) -> Result<(), Error> {
        Ok(self.0.runner.wait_until_undriven(found.stream).await?)
    }

    /// Tells other processes where this one serves HTTP.
    pub async fn publish_url(self, url: &str) -> Result<(), Error> {
        Ok(self.0.runner().await?.publish_url(url.to_owned()).await?)
    }

    /// Where live processes serve HTTP for this database.
    pub async fn served_urls(self) -> Result<Vec<String>, Error> {
        Ok(self.0.runner.served_urls().await?)
    }

    /// Every registered node, and whether its process is alive.
    pub async fn nodes(self) -> Result<Vec<RegisteredNode>, Error> {
        Ok(self.0.runner.registered_nodes().await?)
    }

    /// Ids of running and compensating executions that no live process drives; looks at
    /// `ORPHAN_CANDIDATES_MAX` of each.
    pub async fn list_orphaned(self) -> Result<Vec<String>, Error> {
        let mut orphaned = Vec::new();
        for status in [ExecutionStatus::Running, ExecutionStatus::Compensating] {
            let filter = ExecutionFilter { status: status.into(), ..ExecutionFilter::default() };
            for row in self.rows(&filter, ORPHAN_CANDIDATES_MAX).await?.0 {
                let found = self.find(&row.public_id).await?;
                if self.driver(&found).await?.is_none() {
                    orphaned.push(row.public_id);
                }
            }
        }
        Ok(orphaned)
    }
}
