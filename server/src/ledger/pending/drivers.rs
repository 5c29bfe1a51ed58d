//! The drivers in this process, by stream: each is woken when its execution is changed by a caller's request
//! or by another process.

use std::fmt;
use std::sync::{Arc, Weak};

use actbook_engine::execution::Execution;
use actbook_engine::id::{Epoch, StreamId};
use parking_lot::Mutex;
use tokio::sync::Notify;

use super::super::Error;
use super::PendingState;
use crate::store::journal;

/// The driver of one execution in this process.
#[derive(Debug, Default)]
pub struct LocalDriver {
    /// Notified when anyone but the driver has appended to the execution.
    pub outside_change: Notify,
    /// None: the driver has not begun.
    follow_permit: Mutex<Option<FollowPermit>>,
}

/// Lets the ledger append what follows from a caller's command at once, in the driver's name, so that both are
/// one commit.
pub struct FollowPermit {
    /// The epoch in which the driver drives.
    pub epoch: Epoch,
    /// Whether the driver may decide now: it is not halted, and its lease has not lapsed.
    pub may_decide: Box<dyn Fn() -> bool + Send>,
}

impl fmt::Debug for FollowPermit {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("FollowPermit").field("epoch", &self.epoch).finish_non_exhaustive()
    }
}

impl LocalDriver {
    /// Replaces the permit: the driver drives in a new epoch.
    pub fn permit_follow(&self, permit: FollowPermit) {
        *self.follow_permit.lock() = Some(permit);
    }

    fn may_decide(&self, epoch: Epoch) -> bool {
        self.follow_permit
            .lock()
            .as_ref()
            .is_some_and(|permit| permit.epoch == epoch && (permit.may_decide)())
    }
}

impl PendingState {
    /// Registers a driver in this process until the result is dropped.
    pub(crate) fn register_driver(&mut self, stream: StreamId) -> Arc<LocalDriver> {
        self.drivers.retain(|_, driver| driver.strong_count() > 0);
        if let Some(driver) = self.drivers.get(&stream).and_then(Weak::upgrade) {
            return driver;
        }
        let driver = Arc::new(LocalDriver::default());
        self.drivers.insert(stream, Arc::downgrade(&driver));
        driver
    }

    /// Whether a driver of the execution is registered in this process, whatever the lease says.
    pub(crate) fn is_driven_here(&self, stream: StreamId) -> bool {
        self.drivers.get(&stream).is_some_and(|driver| driver.strong_count() > 0)
    }

    pub(crate) fn wake_driver(&self, stream: StreamId) {
        if let Some(driver) = self.drivers.get(&stream).and_then(Weak::upgrade) {
            driver.outside_change.notify_one();
        }
    }

    /// Whether the execution's driver is in this process and may decide now.
    pub(super) fn may_follow_for_driver(&self, stream: StreamId, execution: &Execution) -> bool {
        let driver = self.drivers.get(&stream).and_then(Weak::upgrade);
        driver.is_some_and(|driver| driver.may_decide(execution.epoch))
    }

    /// Does nothing if this process knows of all appends up to `position`.
    pub(crate) fn on_remote_append(&mut self, position: u64) -> Result<(), Error> {
        if self.woken_up_to.is_some_and(|woken| position <= woken) {
            return Ok(());
        }
        self.invalidate_and_replay(Vec::new());
        self.wake_remote_waiters()
    }

    /// The append failed, so positions after `after` may belong to another process.
    pub(crate) fn on_append_failed(&mut self, after: u64) {
        self.woken_up_to = self.woken_up_to.map(|woken| woken.min(after));
    }

    /// Wakes the drivers of the executions that other processes have appended to.
    pub(crate) fn wake_remote_waiters(&mut self) -> Result<(), Error> {
        self.ensure_head()?;
        let (Some(woken), Some(head)) = (self.woken_up_to, self.batch_head) else { return Ok(()) };
        if !self.drivers.is_empty() {
            for stream in
                journal::streams_between(self.tenant, woken, head.position).all_blocking(&self.db)?
            {
                self.wake_driver(stream);
            }
        }
        self.woken_up_to = Some(head.position);
        Ok(())
    }
}
