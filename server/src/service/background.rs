//! Drives executions in background tasks of this process, from claim to end or until another process takes
//! them over. Closing a connection or dropping a request does not stop them.
//!
//!   drive_claimed ─► drive ─► blocked or paused ─► an answer or a deadline ─► drive ─► … ─► ended

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use actbook_engine::execution::{Command, due};
use actbook_engine::id::StreamId;
use actbook_engine::policy::ExecutionStatus;
use actbook_engine::refusal::Refusal;
use parking_lot::Mutex;
use tokio::sync::{Notify, watch};

use super::Service;
use super::executions::FoundExecution;
use super::view::ExecutionView;
use crate::caller::Caller;
use crate::error::Error;
use crate::ledger::{self, DriveState};
use crate::runner::{ClaimResult, HaltSignal};
use crate::store::executions;

/// At most this many orphaned executions are taken over at a time.
const TAKEOVER_MAX: u64 = 10_000;
/// Pause between two searches for orphaned executions.
const TAKEOVER_INTERVAL: Duration = Duration::from_secs(5);

/// Drives executions in background tasks. Clones share the same set of executions.
#[derive(Clone, Debug)]
pub struct BackgroundDriver(Arc<BackgroundState>);

/// The state that all clones of a `BackgroundDriver` share.
#[derive(Debug)]
struct BackgroundState {
    service: Service,
    /// Streams of the executions that this process drives or is claiming; none of them is claimed twice.
    streams: Mutex<HashSet<StreamId>>,
    /// Streams of executions with another toolset, which are not tried again.
    other_toolset: Mutex<HashSet<StreamId>>,
    /// True: nothing further starts.
    halt: watch::Sender<bool>,
    /// How many executions are being driven now, without those that wait.
    busy: watch::Sender<usize>,
}

/// Which process drives an execution after `continue_execution`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContinueResult {
    /// This process.
    DrivenHere,
    /// Another process that is alive.
    DrivenElsewhere,
    /// None: the execution has ended.
    Ended,
}

impl BackgroundDriver {
    pub fn new(service: Service) -> Self {
        let (halt, busy) = (watch::Sender::new(false), watch::Sender::new(0));
        Self(Arc::new(BackgroundState {
            service,
            streams: Mutex::default(),
            other_toolset: Mutex::default(),
            halt,
            busy,
        }))
    }

    pub fn service(&self) -> &Service {
        &self.0.service
    }

    /// Drives an execution that this process has just claimed, in a background task.
    pub fn drive_claimed(&self, claimed: DriveState) {
        if self.register(claimed.stream) {
            self.spawn_driver(claimed);
        }
    }

    /// Makes sure that an execution has a driver: claims and drives it here unless a live process drives it.
    pub async fn continue_execution(&self, stream: StreamId) -> Result<ContinueResult, Error> {
        if !self.register(stream) {
            return Ok(ContinueResult::DrivenHere);
        }
        let claimed = self.claim(stream).await;
        match claimed {
            Ok(ClaimResult::Claimed(progress)) => {
                self.spawn_driver(*progress);
                Ok(ContinueResult::DrivenHere)
            }
            Ok(ClaimResult::DrivenElsewhere) => self.unregister(stream, Ok(ContinueResult::DrivenElsewhere)),
            Ok(ClaimResult::Ended) => self.unregister(stream, Ok(ContinueResult::Ended)),
            Err(error) => self.unregister(stream, Err(error)),
        }
    }

    /// Continues an execution after a command and returns its view. The second value is the error
    /// `other_place`: this process has another toolset and cannot drive the execution; the command is
    /// journaled nevertheless.
    pub async fn continue_and_view(
        &self,
        found: &FoundExecution,
    ) -> Result<(ExecutionView, Option<Error>), Error> {
        let other_place = match self.continue_execution(found.stream).await {
            Ok(_) => None,
            Err(error) if matches!(error.refusal(), Some(Refusal::OtherToolset { .. })) => Some(error),
            Err(error) => return Err(error),
        };
        Ok((self.0.service.executions().view_stream(found.stream).await?, other_place))
    }

    /// Lifts a pause. An execution that only lacks a driver needs no entry; one that has ended is refused.
    pub async fn resume(&self, caller: &Caller, id: &str) -> Result<FoundExecution, Error> {
        let found = self.0.service.executions().find(id).await?;
        match found.status {
            ExecutionStatus::Running | ExecutionStatus::Blocked | ExecutionStatus::Compensating => Ok(found),
            ExecutionStatus::Paused
            | ExecutionStatus::Succeeded
            | ExecutionStatus::Failed
            | ExecutionStatus::Cancelled
            | ExecutionStatus::Compensated => Ok(self.0.service.executions().resume(caller, id).await?.0),
        }
    }

    /// Claims and drives every orphaned execution with this process's toolset; returns how many it took over.
    pub async fn take_over_orphaned(&self) -> Result<usize, Error> {
        let orphaned = self.find_orphaned().await?;
        self.0.service.ledger.prefetch(orphaned.clone()).await?;
        let mut claims = tokio::task::JoinSet::new();
        for stream in orphaned {
            let background = self.clone();
            claims.spawn(async move { (stream, background.continue_execution(stream).await) });
        }
        let mut taken = 0;
        while let Some(claimed) = claims.join_next().await {
            match claimed {
                Ok((_, Ok(result))) => taken += usize::from(result == ContinueResult::DrivenHere),
                Ok((stream, Err(error))) if matches!(error.refusal(), Some(Refusal::OtherToolset { .. })) => {
                    self.0.other_toolset.lock().insert(stream);
                }
                Ok((_, Err(error))) => tracing::warn!("taking over an orphaned execution failed: {error}"),
                Err(error) => tracing::warn!("taking over an orphaned execution failed: {error}"),
            }
        }
        Ok(taken)
    }

    /// Streams of executions that have work to do and no live driver, according to the projections.
    async fn find_orphaned(&self) -> Result<Vec<StreamId>, Error> {
        let service = &self.0.service;
        let own = service.runner().await?.node_id();
        // Whether each node is alive. The own node counts as not: an execution of it that is not registered
        // here has no task that drives it.
        let mut is_alive = HashMap::from([(own.as_str().to_owned(), false)]);
        let mut orphaned = Vec::new();
        let now_ms = service.ledger.clock().now_ms();
        for row in executions::due_by(service.tenant, now_ms, TAKEOVER_MAX).all(&service.db).await? {
            let is_driven = match row.node {
                None => false,
                Some(node) => match is_alive.get(&node) {
                    Some(alive) => *alive,
                    None => {
                        let alive = service.executions().live_driver(&node).await?.is_some();
                        is_alive.insert(node, alive);
                        alive
                    }
                },
            };
            if !is_driven && !self.is_excluded(row.id) {
                orphaned.push(row.id);
            }
        }
        Ok(orphaned)
    }

    /// Takes over orphaned executions at an interval, until `halt`.
    pub async fn run_takeover_loop(&self) {
        let mut halt = self.0.halt.subscribe();
        loop {
            if let Err(error) = self.take_over_orphaned().await {
                tracing::warn!("searching for orphaned executions failed: {error}");
            }
            if tokio::time::timeout(TAKEOVER_INTERVAL, halt.wait_for(|halted| *halted)).await.is_ok() {
                return;
            }
        }
    }

    /// Starts nothing further; does not wait.
    pub fn halt(&self) {
        self.0.halt.send_replace(true);
    }

    /// Starts nothing further and waits for calls in flight, for `patience` at most.
    pub async fn halt_and_drain(&self, patience: Duration) {
        self.halt();
        let mut busy = self.0.busy.subscribe();
        let idle = busy.wait_for(|busy| *busy == 0);
        if tokio::time::timeout(patience, idle).await.is_err() {
            tracing::warn!("calls are still in flight; their attempts will be unknown to the next driver");
        }
    }

    /// Claims an execution for this process under the toolset of its plan here.
    async fn claim(&self, stream: StreamId) -> Result<ClaimResult, Error> {
        let service = &self.0.service;
        let plan = service.ledger.with_execution(stream, |execution| execution.plan.clone())?;
        Ok(service.runner().await?.claim(stream, service.executions().toolset_digest(&plan)).await?)
    }

    /// Registers an execution as driven here; false if it was registered already.
    fn register(&self, stream: StreamId) -> bool {
        self.0.streams.lock().insert(stream)
    }

    /// Whether an execution is registered here already or has another toolset.
    fn is_excluded(&self, stream: StreamId) -> bool {
        let contains = |set: &Mutex<HashSet<StreamId>>| set.lock().contains(&stream);
        contains(&self.0.streams) || contains(&self.0.other_toolset)
    }

    /// Removes an execution from the registered ones and passes `result` through.
    fn unregister<T>(&self, stream: StreamId, result: T) -> T {
        self.0.streams.lock().remove(&stream);
        result
    }

    /// Spawns the task that drives a registered execution to its end.
    fn spawn_driver(&self, claimed: DriveState) {
        let background = self.clone();
        tokio::spawn(async move {
            let (stream, id) = (claimed.stream, claimed.id.clone());
            if let Err(error) = background.drive_until_ended(claimed).await {
                tracing::warn!("execution {id} is no longer driven here: {error}");
            }
            background.unregister(stream, ());
        });
    }

    /// Drives an execution, waits while it is blocked or paused, and drives it on. Returns when it has ended,
    /// after `halt`, or when another process drives it.
    async fn drive_until_ended(&self, mut claimed: DriveState) -> Result<(), Error> {
        let service = &self.0.service;
        let stream = claimed.stream;
        // Subscribed before driving, so that a command between driving and waiting is not missed.
        let woken = service.ledger.register_driver(stream);
        loop {
            let (epoch, decided) = (claimed.epoch, claimed.decided_at);
            let status = self.drive(claimed).await?;
            if matches!(status, ExecutionStatus::Blocked | ExecutionStatus::Paused) {
                self.wait_until_runnable(stream, &woken).await?;
            }
            if *self.0.halt.borrow() || service.ledger.with_execution(stream, |one| one.ended.is_some())? {
                return Ok(());
            }
            let driver = ledger::DRIVER_ACTOR.into();
            claimed = match service.ledger.command(&driver, stream, Command::Drive { epoch }).await {
                Ok(progress) => DriveState { decided_at: decided, ..progress },
                Err(ledger::Error::Refused(Refusal::NotTheDriver)) => match self.claim(stream).await? {
                    ClaimResult::Claimed(progress) => *progress,
                    ClaimResult::DrivenElsewhere | ClaimResult::Ended => return Ok(()),
                },
                Err(error) => return Err(error.into()),
            };
        }
    }

    /// Drives an execution until it blocks, pauses or ends, counted in `busy`.
    async fn drive(&self, claimed: DriveState) -> Result<ExecutionStatus, Error> {
        self.0.busy.send_modify(|busy| *busy += 1);
        let halt: HaltSignal = self.0.halt.subscribe();
        let driven = self.0.service.executions().drive(claimed, halt).await;
        self.0.busy.send_modify(|busy| *busy -= 1);
        driven
    }

    /// Waits until an execution is no longer blocked or paused, its deadline has passed, or `halt` was
    /// called.
    async fn wait_until_runnable(&self, stream: StreamId, woken: &Notify) -> Result<(), Error> {
        let mut halt = self.0.halt.subscribe();
        loop {
            let (status, deadline) = self
                .0
                .service
                .ledger
                .with_execution(stream, |execution| (execution.status(), due(execution).wake_at))?;
            if !matches!(status, ExecutionStatus::Blocked | ExecutionStatus::Paused) {
                return Ok(());
            }
            let deadline = deadline.filter(|_| status == ExecutionStatus::Blocked);
            tokio::select! {
                () = woken.notified() => {}
                () = self.0.service.ledger.clock().wait_until(deadline) => return Ok(()),
                _ = halt.wait_for(|halted| *halted) => return Ok(()),
            }
        }
    }
}
