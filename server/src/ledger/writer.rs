//! The writer: makes everything queued durable in one transaction, without a timer to fill the batch.
//! The thread that holds the appender's lock writes: the ledger's own thread or, where no other request
//! could join the batch, the caller's, which saves two thread switches.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::MutexGuard;

use super::pending::{BatchInFlight, PendingRequest, PendingState};
use super::{Error, Shared};
use crate::store::{Appended, Appender, Batch};

/// Starts the writer thread. It stops when the ledger is closed and everything queued is written.
pub(super) fn spawn(shared: Arc<Shared>) -> Result<(), Error> {
    let thread = std::thread::Builder::new().name("ledger".into());
    let spawned = thread.spawn(move || {
        let _guard = WriterGuard(shared.clone());
        let mut notify_due_in = None;
        loop {
            let (action, pending) = wait_for_work(&shared, notify_due_in);
            let (mut appender, pending) = lock_appender(&shared, pending);
            notify_due_in = match action {
                WriterAction::Write => write_batches(&shared, pending, appender, WriteUntil::QueueEmpty),
                WriterAction::Notify => {
                    drop(pending);
                    notify_if_due(&mut appender)
                }
                WriterAction::Stop => {
                    drop(pending);
                    notify_other_processes(&mut appender);
                    break;
                }
            };
        }
    });
    spawned.map(drop).map_err(|error| Error::Store(crate::store::Error::Failed(error.to_string())))
}

/// Locks the appender. The lock order is appender, then `pending`; so `pending` is released while it waits.
fn lock_appender<'a>(
    shared: &'a Shared,
    pending: MutexGuard<'a, PendingState>,
) -> (MutexGuard<'a, Appender>, MutexGuard<'a, PendingState>) {
    if let Some(appender) = shared.appender.try_lock() {
        return (appender, pending);
    }
    drop(pending);
    let appender = shared.appender.lock();
    (appender, shared.lock())
}

/// Closes the ledger when the writer thread ends, also by a panic, and drops the queued requests: their
/// callers get `Closed` instead of waiting for ever.
struct WriterGuard(Arc<Shared>);

impl Drop for WriterGuard {
    fn drop(&mut self) {
        let mut pending = self.0.lock();
        pending.closed = true;
        drop(pending.take_requests());
    }
}

/// What the writer thread does next.
enum WriterAction {
    Write,
    /// Notifies other processes of earlier appends; there is nothing to write.
    Notify,
    /// Stops: the ledger is closed and everything is written.
    Stop,
}

/// Waits until something is queued, the ledger is closed, or other processes must be notified.
/// `notify_due_in`: how long that notification may still wait; None: none is owed.
fn wait_for_work(
    shared: &Shared,
    notify_due_in: Option<Duration>,
) -> (WriterAction, MutexGuard<'_, PendingState>) {
    let mut pending = shared.lock();
    pending.notify_pending = notify_due_in.is_some();
    while pending.is_idle() {
        if pending.closed {
            return (WriterAction::Stop, pending);
        }
        pending.writer_is_waiting = true;
        let timed_out = match notify_due_in {
            None => {
                shared.work_available.wait(&mut pending);
                false
            }
            Some(due_in) => shared.work_available.wait_for(&mut pending, due_in).timed_out(),
        };
        pending.writer_is_waiting = false;
        let became_due = notify_due_in.is_none() && pending.notify_pending;
        if pending.is_idle() && (timed_out || became_due) {
            return (WriterAction::Notify, pending);
        }
    }
    (WriterAction::Write, pending)
}

/// Notifies other processes if that is due; returns how long an owed notification may still wait.
fn notify_if_due(appender: &mut Appender) -> Option<Duration> {
    if appender.notify_due_in().is_some_and(|due_in| due_in.is_zero()) {
        notify_other_processes(appender);
    }
    appender.notify_due_in()
}

/// Sends the database's notification of new entries. A failure is only logged: the entries are durable
/// without it.
fn notify_other_processes(appender: &mut Appender) {
    if let Err(error) = appender.send_notify() {
        tracing::debug!("other processes could not be notified: {error}");
    }
}

/// How long `write_batches` goes on.
pub(super) enum WriteUntil {
    OneBatchWritten,
    QueueEmpty,
}

/// Writes batch after batch. Returns how soon other processes must be notified of it; None: nothing is owed.
/// A caller that gets its reply may write again at once, so replies are sent only after the next batch is
/// taken, or after the locks are released.
pub(super) fn write_batches<'a>(
    shared: &'a Shared,
    mut pending: MutexGuard<'a, PendingState>,
    mut appender: MutexGuard<'a, Appender>,
    until: WriteUntil,
) -> Option<Duration> {
    let mut settled = SettledRequests::default();
    while !pending.is_idle() {
        let Some(BatchInFlight { batch, mut requests }) = pending.take_batch() else {
            // The head could not be read; the pending replies hold that error already.
            release_head(&mut appender);
            settled.requests.extend(pending.take_requests());
            break;
        };
        let appended = if batch.entries.is_empty() && batch.other_statements.is_empty() {
            release_head(&mut appender);
            let head = pending.read_stored_head();
            head.map(|head| if head == Some(batch.old) { Appended::Done } else { Appended::HeadMoved })
        } else {
            drop(pending);
            std::mem::take(&mut settled).send(shared);
            let appended = appender.append(&batch).map_err(Error::Store);
            pending = shared.lock();
            appended
        };
        match appended {
            Ok(Appended::Done) => {
                settled.position = Some(batch.new.position);
                pending.finish_batch(batch, &requests);
                settled.requests.extend(requests);
            }
            Ok(Appended::HeadMoved) => {
                pending = replay_holding_head(shared, pending, &mut appender, &batch, requests);
            }
            Err(error) => {
                pending.on_append_failed(batch.old.position);
                pending.invalidate_and_replay(Vec::new());
                requests.iter_mut().for_each(|request| request.fail(error.clone()));
                settled.requests.extend(requests);
            }
        }
        if matches!(until, WriteUntil::OneBatchWritten) {
            break;
        }
    }
    let notify_due_in = appender.notify_due_in();
    drop(appender);
    drop(pending);
    settled.send(shared);
    notify_due_in
}

/// Requests whose replies are final and are to be sent without the lock, and the position to notify
/// subscribers of.
#[derive(Default)]
struct SettledRequests {
    position: Option<u64>,
    requests: Vec<Box<dyn PendingRequest>>,
}

impl SettledRequests {
    /// Notifies subscribers, then sends the replies. Call it without the locks.
    fn send(self, shared: &Shared) {
        if let Some(position) = self.position {
            shared.notifier.notify(position);
        }
        self.requests.into_iter().for_each(|request| request.reply());
    }
}

/// Another process has moved the head: locks the head row in the database, then decides all requests again.
/// While the row is locked no other process can append, so the next append does not lose the race again.
fn replay_holding_head<'a>(
    shared: &'a Shared,
    pending: MutexGuard<'a, PendingState>,
    appender: &mut Appender,
    batch: &Batch,
    requests: Vec<Box<dyn PendingRequest>>,
) -> MutexGuard<'a, PendingState> {
    drop(pending);
    if let Err(error) = appender.lock_head(batch.tenant) {
        tracing::debug!("the head row could not be locked: {error}");
    }
    let mut pending = shared.lock();
    pending.on_append_failed(batch.old.position);
    pending.invalidate_and_replay(requests);
    if let Err(error) = pending.wake_remote_waiters() {
        tracing::warn!("other processes' appends could not be read: {error}");
    }
    pending
}

/// Unlocks the head row, if `replay_holding_head` has locked it.
fn release_head(appender: &mut Appender) {
    if let Err(error) = appender.unlock_head() {
        tracing::debug!("the head row could not be unlocked: {error}");
    }
}
