//! The drivers in this process, by stream: each is woken when its execution is changed by a caller's request
//! or by another process.

use std::sync::{Arc, Weak};

use actbook_engine::id::StreamId;
use tokio::sync::Notify;

use super::super::Error;
use super::PendingState;
use crate::store::journal;

impl PendingState {
    /// Registers a driver in this process until the `Notify` is dropped, which wakes it on outside changes.
    pub(crate) fn register_driver(&mut self, stream: StreamId) -> Arc<Notify> {
        self.drivers.retain(|_, driver| driver.strong_count() > 0);
        if let Some(driver) = self.drivers.get(&stream).and_then(Weak::upgrade) {
            return driver;
        }
        let driver = Arc::new(Notify::new());
        self.drivers.insert(stream, Arc::downgrade(&driver));
        driver
    }

    pub(crate) fn is_driven_here(&self, stream: StreamId) -> bool {
        self.drivers.get(&stream).is_some_and(|driver| driver.strong_count() > 0)
    }

    pub(crate) fn wake_driver(&self, stream: StreamId) {
        if let Some(driver) = self.drivers.get(&stream).and_then(Weak::upgrade) {
            driver.notify_one();
        }
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
