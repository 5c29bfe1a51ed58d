//! The runner of a process, opened on first use: a process that only reads needs no node.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use actbook_engine::chain::Digest;
use actbook_engine::execution::Execution;
use actbook_engine::id::{StepNo, TenantId};
use actbook_engine::plan::Plan;
use actbook_engine::policy::RESTORE_TOOL;
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

    /// The digest that an execution's toolset must equal for this process to drive it. A session needs only the servers
    /// of the calls that take its calls back, each as it was defined at the call.
    pub fn toolset_for(&self, execution: &Execution) -> Digest {
        let Some(session) = execution.session.as_deref() else { return self.toolset_digest(&execution.plan) };
        let tools = &self.0.tools;
        let undo = |no: StepNo| {
            let compensation = execution.plan.step(no).compensation.as_ref();
            compensation.and_then(|undo| undo.tool()).filter(|tool| *tool != RESTORE_TOOL)
        };
        let calls = execution.step_numbers().filter_map(|no| Some((no, tools.toolset_key(undo(no)?))));
        let calls: Vec<(StepNo, &str)> = calls.collect();
        let is_unchanged = |(no, key): &(StepNo, &str)| {
            let recorded = session.call(*no).servers.get(*key);
            recorded.is_none_or(|recorded| *recorded == self.server_digest(key))
        };
        if calls.iter().all(is_unchanged) {
            return execution.toolset;
        }
        tools.toolset_digest(&calls.iter().map(|(_, key)| (*key).to_owned()).collect())
    }

    /// The digest of one server's definition here, by its toolset key.
    fn server_digest(&self, key: &str) -> Digest {
        self.0.tools.toolset_digest(&[key.to_owned()].into())
    }

    /// The digests of the definitions of the servers that these tools belong to, as a session's call records them.
    pub fn server_digests<'a>(&self, named: impl IntoIterator<Item = &'a str>) -> BTreeMap<String, Digest> {
        let keys = named.into_iter().map(|tool| self.0.tools.toolset_key(tool).to_owned());
        keys.map(|key| (key.clone(), self.server_digest(&key))).collect()
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
