//! Drives executions: claims them, makes the calls that are due, reports the outcomes.
//! Correctness comes from the epoch, liveness from the node's lease. The runner decides no policy: whether
//! to retry is the engine's decision.
//!
//!   claim ─► due ─► perform (tools) ─► report ─► due ─► …        every arrow is a command to the ledger
//!
//! An execution is driven in the background (`background`), or in a task that a command waits for
//! (`drive_task`).

mod background;
mod drive;
mod drive_task;
mod driving_process;
mod lazy_runner;
mod lease;
mod node;
mod perform;
mod pins;
mod progress_board;
mod session_calls;

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use actbook_engine::chain::Digest;
use actbook_engine::execution::Command;
use actbook_engine::id::{StepNo, StreamId, TenantId};
use actbook_engine::refusal::Refusal;
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::ledger::{self, DriveState, Ledger};
use crate::notify::{Notifier, RemoteListener};
use crate::store::{self, Db, nodes};
use crate::tools::Tools;
pub use background::{BackgroundDriver, ContinueResult};
pub use drive::HaltSignal;
pub use drive_task::{DriveStopper, DriveTask};
pub use driving_process::{Driver, RegisteredNode};
pub use lazy_runner::LazyRunner;
use lease::Lease;
use node::{NodeLock, NodeStatus, SentCalls, node_has_exited};
pub use perform::CallRelay;
use progress_board::ProgressBoard;
pub use session_calls::{SendingSince, SessionCallInput};

/// How long after a failed read other processes' appends are read again.
const READ_RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// Why an execution could not be claimed or driven.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Ledger(#[from] ledger::Error),
    #[error(transparent)]
    Store(#[from] store::Error),
    #[error("the node's lock file cannot be written: {0}")]
    NodeLock(#[from] std::io::Error),
    #[error("the task that drove the execution broke off: {0}")]
    Task(#[from] tokio::task::JoinError),
}

impl Error {
    /// Whether the same command may succeed later, because the database was only out of reach.
    fn is_transient(&self) -> bool {
        matches!(self, Self::Store(error) | Self::Ledger(ledger::Error::Store(error)) if error.is_transient())
    }

    /// Whether the execution was started with another toolset, so that this process cannot drive it.
    pub fn is_other_toolset(&self) -> bool {
        matches!(self, Self::Ledger(ledger::Error::Refused(Refusal::OtherToolset { .. })))
    }
}

impl From<Refusal> for Error {
    fn from(refusal: Refusal) -> Self {
        Self::Ledger(refusal.into())
    }
}

/// Drives this process's executions, under one node lock and lease. Clones share them; dropping the last
/// clone releases the lock.
#[derive(Clone, Debug)]
pub struct Runner(Arc<RunnerInner>);

/// What all clones of a runner share.
#[derive(Debug)]
struct RunnerInner {
    db: Db,
    tenant: TenantId,
    ledger: Ledger,
    tools: Arc<Tools>,
    node: NodeLock,
    actor: Arc<str>,
    /// The calls of exited nodes, by node id: each node's file is read once.
    exited_nodes: tokio::sync::Mutex<HashMap<String, Arc<SentCalls>>>,
    progress: ProgressBoard,
    lease: watch::Receiver<Lease>,
    _listener: RemoteListener,
    renewal: Mutex<Option<JoinHandle<()>>>,
    /// Ends the background tasks when it sends or is dropped.
    shutdown: watch::Sender<()>,
}

impl RunnerInner {
    /// Waits for the next renewal of the lease, which shows that the database is back; at most for one lease
    /// period, because the database may be back and refuse the renewal.
    async fn wait_for_database(&self) {
        let mut lease = self.lease.clone();
        lease.mark_unchanged();
        let renewed = async {
            if lease.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        };
        drop(tokio::time::timeout(lease::LEASE, renewed).await);
    }
}

impl Runner {
    /// Takes a node lock in the folder and a lease in the database, and starts the background tasks that
    /// renew the lease and listen for other processes' appends.
    pub async fn open(
        db: Db,
        tenant: TenantId,
        ledger: Ledger,
        notifier: Notifier,
        tools: Arc<Tools>,
        nodes_folder: &std::path::Path,
    ) -> Result<Self, Error> {
        let nodes_folder = nodes_folder.to_owned();
        let node =
            store::run_blocking(&nodes_folder, |folder| Ok::<_, Error>(NodeLock::acquire(&folder)?)).await?;
        nodes::sweep_leases(&db, lease::LEASE_MS).await?;
        let (renewed, lease) = watch::channel(Lease::acquire(&db, &node).await?);
        let listener = notifier.listen_remote()?;
        let (shutdown, stopped) = watch::channel(());
        let identity = lease::NodeIdentity::from_lock(&node);
        let renewal =
            tokio::spawn(lease::renew_until_shutdown(db.clone(), identity, renewed, stopped.clone()));
        tokio::spawn(forward_notifications(ledger.clone(), notifier.subscribe_remote(), stopped));
        let inner = RunnerInner {
            db,
            tenant,
            ledger,
            tools,
            node,
            actor: ledger::DRIVER_ACTOR.into(),
            exited_nodes: Default::default(),
            progress: ProgressBoard::default(),
            lease,
            _listener: listener,
            renewal: Mutex::new(Some(renewal)),
            shutdown,
        };
        Ok(Self(Arc::new(inner)))
    }

    /// Tells other processes where this one serves HTTP.
    pub async fn publish_url(&self, url: String) -> Result<(), Error> {
        Ok(lease::publish_url(&self.0.db, &self.0.node, url).await?)
    }

    pub fn node_id(&self) -> actbook_engine::id::NodeId {
        actbook_engine::id::NodeId::new(self.0.node.id())
    }

    /// The last progress that a step's call reported. None: no report, or no such call in this process.
    pub fn call_progress(&self, stream: StreamId, step: StepNo) -> Option<crate::tools::CallProgress> {
        self.0.progress.latest(stream, step)
    }

    pub fn tools(&self) -> &Arc<Tools> {
        &self.0.tools
    }

    /// Releases the lease, so that other nodes need not wait for it to expire, and shuts the tools down.
    pub async fn close(&self) {
        self.stop_renewal().await;
        if let Err(error) = nodes::release_lease(&self.0.db, self.0.node.id()).await {
            tracing::warn!("the node's lease could not be released and will expire: {error}");
        }
        self.0.tools.shutdown().await;
    }

    /// Ends the renewal task and waits for it: a renewal in flight would undo the release of the lease.
    async fn stop_renewal(&self) {
        self.0.shutdown.send_replace(());
        let renewal = self.0.renewal.lock().take();
        if let Some(renewal) = renewal
            && let Err(error) = renewal.await
        {
            tracing::debug!("the task that renews the node's lease did not end cleanly: {error}");
        }
    }

    /// Claims an execution, unless it has ended or a live node drives it. `toolset`: the digest of this
    /// process's server definitions. Refused for an execution of another toolset, unless it is stopping: it
    /// calls no tool.
    pub async fn claim(&self, stream: StreamId, toolset: Digest) -> Result<ClaimResult, Error> {
        loop {
            match self.try_claim(stream, toolset).await {
                Err(Error::Ledger(ledger::Error::Refused(Refusal::ClaimedByAnother))) => {}
                claimed => return claimed,
            }
        }
    }

    /// One attempt to claim; refused with `ClaimedByAnother` if another node was faster.
    async fn try_claim(&self, stream: StreamId, toolset: Digest) -> Result<ClaimResult, Error> {
        let (refusal, driver, after, ended) = self.0.ledger.with_execution(stream, |execution| {
            // An execution that is stopping makes no more calls, so it needs no tools.
            let may_run_here = execution.toolset == toolset || execution.stop.is_some();
            let refusal = (!may_run_here).then(|| other_toolset(execution.project.as_deref()));
            (refusal, execution.node.clone(), execution.epoch, execution.ended.is_some())
        })?;
        if ended {
            return Ok(ClaimResult::Ended);
        }
        if let Some(refusal) = refusal {
            return Err(refusal.into());
        }
        let mut unsent = BTreeSet::new();
        if let Some(node) = driver.filter(|node| node.as_str() != self.0.node.id()) {
            match self.node_status(node.as_str()).await? {
                NodeStatus::Exited(sent) => {
                    unsent =
                        self.0.ledger.with_execution(stream, |execution| sent.unsent(stream, execution))?
                }
                NodeStatus::Alive | NodeStatus::Undetermined
                    if self.has_live_lease(node.as_str()).await? =>
                {
                    return Ok(ClaimResult::DrivenElsewhere);
                }
                NodeStatus::Alive | NodeStatus::Undetermined => {}
            }
        }
        let command = Command::Claim { node: self.node_id(), expected_epoch: after, unsent };
        let progress = self.0.ledger.command(&self.0.actor, stream, command).await?;
        Ok(ClaimResult::Claimed(Box::new(progress)))
    }

    /// Whether another node is alive. When a node is first found to have exited, its child processes are
    /// killed and its sent calls are cached.
    async fn node_status(&self, node: &str) -> Result<NodeStatus, Error> {
        let mut exited = self.0.exited_nodes.lock().await;
        if let Some(sent) = exited.get(node) {
            return Ok(NodeStatus::Exited(sent.clone()));
        }
        let other = node.to_owned();
        // The file has a line for each call of the node's life.
        let status = store::run_blocking(&self.0, move |inner| {
            let status = inner.node.status_of(&other);
            if let NodeStatus::Exited(sent) = &status {
                sent.kill_children();
            }
            Ok::<_, Error>(status)
        });
        let status = status.await?;
        if let NodeStatus::Exited(sent) = &status {
            exited.insert(node.to_owned(), sent.clone());
        }
        Ok(status)
    }

    /// Whether the node's lease has not expired, by the database's clock.
    async fn has_live_lease(&self, node: &str) -> Result<bool, Error> {
        let now = self.0.db.now_ms().await?;
        Ok(nodes::by_id(node).first(&self.0.db).await?.is_some_and(|row| row.lease_ends_at > now))
    }
}

/// The refusal to drive an execution that was started with another toolset: another project's process on
/// the same database must not run the plan with the wrong tools. `project`: that of the execution.
pub fn other_toolset(project: Option<&str>) -> Refusal {
    Refusal::OtherToolset { project: project.map(str::to_owned) }
}

/// What came of an attempt to claim an execution.
#[derive(Debug)]
pub enum ClaimResult {
    /// This node drives the execution from now on.
    Claimed(Box<DriveState>),
    /// A live node drives the execution.
    DrivenElsewhere,
    /// The execution has ended: there is nothing left to drive.
    Ended,
}

/// Resolves when `predicate` holds; never, if the sender was dropped.
async fn wait_until_true<T>(mut watched: watch::Receiver<T>, predicate: impl FnMut(&T) -> bool) {
    if watched.wait_for(predicate).await.is_err() {
        std::future::pending::<()>().await;
    }
}

/// Passes the database's notifications on to the ledger until `shutdown` fires. Each notification comes only
/// once, so a failed read is tried again later.
async fn forward_notifications(
    ledger: Ledger,
    mut positions: watch::Receiver<u64>,
    mut shutdown: watch::Receiver<()>,
) {
    let mut read_failed = false;
    loop {
        tokio::select! {
            changed = positions.changed() => if changed.is_err() { return },
            () = tokio::time::sleep(READ_RETRY_INTERVAL), if read_failed => {}
            _ = shutdown.changed() => return,
        }
        let position = *positions.borrow_and_update();
        let read = ledger.on_remote_append(position).await;
        read_failed = read.is_err();
        if let Err(error) = read {
            tracing::debug!("other processes' appends could not be read: {error}");
        }
    }
}
