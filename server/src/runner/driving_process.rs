//! Which process drives an execution, and whether it is alive: its lease is valid, and it holds its node's lock.

use std::time::Duration;

use actbook_engine::id::StreamId;
use serde::Serialize;

use super::{Error, LazyRunner, node_has_exited};
use crate::store::{executions, nodes};

/// How often a watcher checks that the driving process is still alive.
const DRIVER_CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// The process that drives an execution, by host name and process id.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Driver {
    pub host: String,
    pub process: u64,
}

/// A registered node: its process, and whether that is alive.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RegisteredNode {
    #[serde(flatten)]
    pub driver: Driver,
    pub alive: bool,
}

impl LazyRunner {
    /// The process of a node. `None`: its lease has lapsed or it has exited.
    pub async fn live_driver(&self, node: &str) -> Result<Option<Driver>, Error> {
        let now = self.db().now_ms().await?;
        let row = nodes::by_id(node).first(self.db()).await?.filter(|row| row.lease_ends_at > now);
        let alive = row.filter(|_| !node_has_exited(self.nodes_folder(), node));
        Ok(alive.map(|row| Driver { host: row.host, process: row.pid }))
    }

    /// Where live processes serve HTTP.
    pub async fn served_urls(&self) -> Result<Vec<String>, Error> {
        let alive = nodes::list_live().all(self.db()).await?;
        let serves = alive.into_iter().filter(|row| !node_has_exited(self.nodes_folder(), &row.id));
        Ok(serves.filter_map(|row| row.url).collect())
    }

    /// Every registered node, and whether its process is alive.
    pub async fn registered_nodes(&self) -> Result<Vec<RegisteredNode>, Error> {
        let alive = nodes::list_live().all(self.db()).await?;
        let expired = nodes::list_expired().all(self.db()).await?;
        let status = |row: nodes::NodeRow, has_lease: bool| RegisteredNode {
            alive: has_lease && !node_has_exited(self.nodes_folder(), &row.id),
            driver: Driver { host: row.host, process: row.pid },
        };
        let alive = alive.into_iter().map(|row| status(row, true));
        Ok(alive.chain(expired.into_iter().map(|row| status(row, false))).collect())
    }

    /// Resolves once no live process drives the execution.
    pub async fn wait_until_undriven(&self, stream: StreamId) -> Result<(), Error> {
        loop {
            let row = executions::by_id(self.tenant(), stream).first(self.db()).await?;
            let Some(node) = row.and_then(|row| row.node) else { return Ok(()) };
            if self.live_driver(&node).await?.is_none() {
                return Ok(());
            }
            tokio::time::sleep(DRIVER_CHECK_INTERVAL).await;
        }
    }
}
