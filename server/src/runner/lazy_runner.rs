//! The runner of a process, opened on first use: a process that only reads needs no node.

use std::path::PathBuf;
use std::sync::Arc;

use actbook_engine::chain::Digest;
use actbook_engine::id::TenantId;
use actbook_engine::plan::Plan;
use tokio::sync::OnceCell;

use super::{Error, Runner};
use crate::ledger::Ledger;
use crate::notify::Notifier;
use crate::store::Db;
use crate::tools::Tools;

/// The runner of this process, opened on first use. Clones share it.
#[derive(Clone, Debug)]
pub struct LazyRunner(Arc<LazyRunnerInner>);

/// What all clones of a `LazyRunner` share.
#[derive(Debug)]
struct LazyRunnerInner {
    db: Db,
    tenant: TenantId,
    ledger: Ledger,
    notifier: Notifier,
    tools: Arc<Tools>,
    /// Holds the lock file of each node.
    nodes_folder: PathBuf,
    opened: OnceCell<Runner>,
}

impl LazyRunner {
    pub fn new(
        db: Db,
        tenant: TenantId,
        ledger: Ledger,
        notifier: Notifier,
        tools: Arc<Tools>,
        nodes_folder: PathBuf,
    ) -> Self {
        let opened = OnceCell::new();
        Self(Arc::new(LazyRunnerInner { db, tenant, ledger, notifier, tools, nodes_folder, opened }))
    }

    /// The runner; the first call opens it and registers the process as a node.
    pub async fn open(&self) -> Result<&Runner, Error> {
        let LazyRunnerInner { db, tenant, ledger, notifier, tools, nodes_folder, opened } = &*self.0;
        let open = || {
            let (db, ledger, notifier) = (db.clone(), ledger.clone(), notifier.clone());
            Runner::open(db, *tenant, ledger, notifier, tools.clone(), nodes_folder)
        };
        opened.get_or_try_init(open).await
    }

    /// The runner, if it was opened.
    pub fn get(&self) -> Option<&Runner> {
        self.0.opened.get()
    }

    /// Closes the runner, if it was opened, and stops the servers that this process started.
    pub async fn close(&self) {
        match self.get() {
            Some(runner) => runner.close().await,
            None => self.0.tools.shutdown().await,
        }
    }

    /// The toolset digest of a plan: over this process's definitions of the servers that the plan names.
    pub fn toolset_digest(&self, plan: &Plan) -> Digest {
        let tools = &self.0.tools;
        let homes = plan.named_tools().into_iter().map(|(_, tool)| tools.toolset_key(tool).to_owned());
        tools.toolset_digest(&homes.collect())
    }

    pub(super) fn db(&self) -> &Db {
        &self.0.db
    }

    pub(super) fn tenant(&self) -> TenantId {
        self.0.tenant
    }

    pub(super) fn ledger(&self) -> &Ledger {
        &self.0.ledger
    }

    pub(super) fn nodes_folder(&self) -> &std::path::Path {
        &self.0.nodes_folder
    }
}
