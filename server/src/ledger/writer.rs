//! Writing: whatever has queued up becomes durable in one transaction, with no timer and no waiting for
//! company. Who holds the pen writes: a plain thread, or, where nobody else could join the batch anyway,
//! the caller itself, which spares two changes of thread.

use std::sync::{Arc, MutexGuard, PoisonError};

use super::book::{Book, Taken};
use super::{Door, Error};
use crate::store::{Appended, Appender};

pub(super) fn spawn(door: Arc<Door>) -> Result<(), Error> {
    let thread = std::thread::Builder::new().name("ledger".into());
    let spawned = thread.spawn(move || {
        let _gone = Gone(door.clone());
        while wait_for_work(&door) {
            let mut pen = door.pen.lock().unwrap_or_else(PoisonError::into_inner);
            write(&door, door.lock(), &mut pen);
        }
    });
    spawned.map(drop).map_err(|error| Error::Store(crate::store::Error::Failed(error.to_string())))
}

/// A ledger without its writer is closed, however the writer left: nobody waits for an answer that
/// cannot come.
struct Gone(Arc<Door>);

impl Drop for Gone {
    fn drop(&mut self) {
        let mut book = self.0.lock();
        book.closed = true;
        drop(book.take_waiters());
    }
}

/// False: the ledger is closed and everything is written.
fn wait_for_work(door: &Door) -> bool {
    let mut book = door.lock();
    while book.idle() {
        if book.closed {
            return false;
        }
        book = door.work.wait(book).unwrap_or_else(PoisonError::into_inner);
    }
    true
}

/// One batch, by whoever holds the pen.
pub(super) fn write<'a>(door: &'a Door, mut book: MutexGuard<'a, Book>, pen: &mut Appender) {
    if book.idle() {
        return;
    }
    let Some(Taken { batch, waiters }) = book.take_out() else {
        // The head could not even be read; those who wait have the error already.
        release(pen);
        let waiters = book.take_waiters();
        drop(book);
        waiters.into_iter().for_each(|waiter| waiter.answer());
        return;
    };
    let unchanged = batch.entries.is_empty() && batch.others.is_empty();
    let written = if unchanged {
        release(pen);
        let head = book.head_in_store();
        head.map(|head| if head == Some(batch.old) { Appended::Done } else { Appended::HeadMoved })
    } else {
        drop(book);
        let written = pen.append(&batch).map_err(Error::Store);
        book = door.lock();
        written
    };
    match written {
        Ok(Appended::Done) => {
            book.written();
            let outside = waiters.iter().filter_map(|waiter| waiter.moved_from_outside());
            outside.for_each(|stream| book.wake(stream));
            drop(book);
            door.bell.ring(batch.new.position);
            waiters.into_iter().for_each(|waiter| waiter.answer());
        }
        Ok(Appended::HeadMoved) => {
            // Who lost the race holds the head while it decides again, so that it cannot lose for ever.
            drop(book);
            if let Err(error) = pen.hold(batch.tenant) {
                tracing::debug!("the head could not be held: {error}");
            }
            let mut book = door.lock();
            book.start_over(waiters);
            if let Err(error) = book.wake_since(batch.old.position) {
                tracing::warn!("another process's word could not be read: {error}");
            }
        }
        Err(error) => {
            book.start_over(Vec::new());
            drop(book);
            waiters.into_iter().for_each(|waiter| waiter.fail(error.clone()));
        }
    }
}

fn release(pen: &mut Appender) {
    if let Err(error) = pen.release() {
        tracing::debug!("the head could not be released: {error}");
    }
}
