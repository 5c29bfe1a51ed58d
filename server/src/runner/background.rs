//! Drives executions in background tasks of this process, from claim to end or until another process takes
//! them over. Closing a connection or dropping a request does not stop them.
//!
//!   drive_claimed ─► drive ─► blocked or paused ─► an answer or a deadline ─► drive ─► … ─► ended

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use actbook_engine::execution::{Command, Execution, due};
use actbook_engine::id::StreamId;
use actbook_engine::policy::ExecutionStatus;
use actbook_engine::refusal::Refusal;
use parking_lot::Mutex;
use tokio::sync::watch;

use super::{ClaimResult, Error, HaltSignal, LazyRunner};
use crate::ledger::{self, DriveState, LocalDriver};
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
    runner: LazyRunner,
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
    pub fn new(runner: LazyRunner) -> Self {
        let (halt, busy) = (watch::Sender::new(false), watch::Sender::new(0));
        Self(Arc::new(BackgroundState {
            runner,
            streams: Mutex::default(),
            other_toolset: Mutex::default(),
            halt,
            busy,
        }))
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

    /// Claims and drives every orphaned execution with this process's toolset; returns how many it took over.
    pub async fn take_over_orphaned(&self) -> Result<usize, Error> {
        let orphaned = self.find_orphaned().await?;
        self.0.runner.ledger().prefetch(orphaned.clone()).await?;
        let mut claims = tokio::task::JoinSet::new();
        for stream in orphaned {
            let background = self.clone();
            claims.spawn(async move { (stream, background.continue_execution(stream).await) });
        }
        let mut taken = 0;
        while let Some(claimed) = claims.join_next().await {
            match claimed {
                Ok((_, Ok(result))) => taken += usize::from(result == ContinueResult::DrivenHere),
                Ok((stream, Err(error))) if error.is_other_toolset() => {
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
        let runner = &self.0.runner;
        let own = runner.open().await?.node_id();
        // Whether each node is alive. The own node counts as not: an execution of it that is not registered
        // here has no task that drives it.
        let mut is_alive = HashMap::from([(own.as_str().to_owned(), false)]);
        let mut orphaned = Vec::new();
        let now_ms = runner.ledger().clock().now_ms();
        for row in executions::due_by(runner.tenant(), now_ms, TAKEOVER_MAX).all(runner.db()).await? {
            let is_driven = match row.node {
                None => false,
                Some(node) => match is_alive.get(&node) {
                    Some(alive) => *alive,
                    None => {
                        let alive = runner.live_driver(&node).await?.is_some();
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

    /// Ends the takeover loop and lets no drive start a further call. Does not wait for calls in flight.
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

    /// Claims an execution for this process, under the toolset digest that `toolset_for` gives for it here.
    async fn claim(&self, stream: StreamId) -> Result<ClaimResult, Error> {
        let runner = &self.0.runner;
        let toolset = runner.ledger().with_execution(stream, |execution| runner.toolset_for(execution))?;
        runner.open().await?.claim(stream, toolset).await
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
        let ledger = self.0.runner.ledger();
        let stream = claimed.stream;
        // Subscribed before driving, so that a command between driving and waiting is not missed.
        let registration = ledger.register_driver(stream);
        loop {
            let (epoch, decided) = (claimed.epoch, claimed.decided_at);
            let status = self.drive(claimed).await?;
            if matches!(status, ExecutionStatus::Blocked | ExecutionStatus::Paused) {
                self.wait_until_runnable(stream, &registration).await?;
            }
            // A session whose undo is over is driven again when another one is asked for.
            let is_over = |one: &Execution| {
                one.ended.is_some() || one.session.is_some() && one.status() == ExecutionStatus::Running
            };
            if *self.0.halt.borrow() || ledger.with_execution(stream, is_over)? {
                return Ok(());
            }
            let driver = ledger::DRIVER_ACTOR.into();
            claimed = match ledger.command(&driver, stream, Command::Drive { epoch }).await {
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
        let driven = match self.0.runner.open().await {
            Ok(runner) => runner.drive(claimed, halt).await,
            Err(error) => Err(error),
        };
        self.0.busy.send_modify(|busy| *busy -= 1);
        driven
    }

    /// Waits until an execution is no longer blocked or paused, its deadline has passed, or `halt` was
    /// called.
    async fn wait_until_runnable(&self, stream: StreamId, driver: &LocalDriver) -> Result<(), Error> {
        let (ledger, mut halt) = (self.0.runner.ledger(), self.0.halt.subscribe());
        loop {
            let (status, deadline) =
                ledger.with_execution(stream, |execution| (execution.status(), due(execution).wake_at))?;
            if !matches!(status, ExecutionStatus::Blocked | ExecutionStatus::Paused) {
                return Ok(());
            }
            let deadline = deadline.filter(|_| status == ExecutionStatus::Blocked);
            tokio::select! {
                () = driver.outside_change.notified() => {}
                () = ledger.clock().wait_until(deadline) => return Ok(()),
                _ = halt.wait_for(|halted| *halted) => return Ok(()),
            }
        }
    }
}
