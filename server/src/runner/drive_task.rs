//! Drives one claimed execution in a task of its own, for a command that shows its progress meanwhile.

use std::sync::Arc;

use actbook_engine::policy::ExecutionStatus;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::{Error, Runner};
use crate::ledger::DriveState;

/// A task that drives an execution until it ends, waits for an answer, is paused, taken over or stopped.
/// Dropping this does not stop the task.
#[derive(Debug)]
pub struct DriveTask {
    stopper: DriveStopper,
    task: JoinHandle<Result<ExecutionStatus, Error>>,
}

/// Stops a drive task. Clones stop the same one.
#[derive(Clone, Debug)]
pub struct DriveStopper(Arc<watch::Sender<bool>>);

impl DriveStopper {
    /// Starts no further call; calls in flight finish. Returns whether it was stopped before.
    pub fn stop(&self) -> bool {
        self.0.send_replace(true)
    }

    pub fn is_stopped(&self) -> bool {
        *self.0.borrow()
    }
}

impl DriveTask {
    pub fn spawn(runner: Runner, claimed: DriveState) -> Self {
        let (stop, halt) = watch::channel(false);
        let task = tokio::spawn(async move { runner.drive(claimed, halt).await });
        Self { stopper: DriveStopper(Arc::new(stop)), task }
    }

    pub fn stopper(&self) -> &DriveStopper {
        &self.stopper
    }

    /// Waits for the end of the task; returns the execution's status then. Must not be called again after that.
    pub async fn wait_until_ended(&mut self) -> Result<ExecutionStatus, Error> {
        (&mut self.task).await?
    }
}
