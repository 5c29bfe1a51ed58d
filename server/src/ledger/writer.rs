//! The writer: a plain thread that takes whatever has queued up and makes it durable in one
//! transaction. It waits for no timer and for no company.

use std::sync::Arc;

use super::book::Taken;
use super::{Door, Error};
use crate::bell::Bell;
use crate::store::{Appended, Appender};

pub(super) fn spawn(door: Arc<Door>, mut appender: Appender, bell: Bell) -> Result<(), Error> {
    let thread = std::thread::Builder::new().name("ledger".into());
    let spawned = thread.spawn(move || {
        let _gone = Gone(door.clone());
        while write(&door, &mut appender, &bell) {}
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

/// One batch. False: the ledger is closed and everything is written.
fn write(door: &Door, appender: &mut Appender, bell: &Bell) -> bool {
    let mut book = door.lock();
    while book.idle() {
        release(appender);
        if book.closed {
            return false;
        }
        book = door.work.wait(book).unwrap_or_else(std::sync::PoisonError::into_inner);
    }
    let Some(Taken { batch, waiters }) = book.take_out() else {
        // The head could not even be read; those who wait have the error already.
        release(appender);
        let waiters = book.take_waiters();
        drop(book);
        waiters.into_iter().for_each(|waiter| waiter.answer());
        return true;
    };
    let unchanged = batch.entries.is_empty() && batch.others.is_empty();
    let written = if unchanged {
        release(appender);
        book.head_in_store()
            .map(|head| if head == Some(batch.old) { Appended::Done } else { Appended::HeadMoved })
    } else {
        drop(book);
        let written = appender.append(&batch).map_err(Error::Store);
        book = door.lock();
        written
    };
    match written {
        Ok(Appended::Done) => {
            book.written();
            let outside = waiters.iter().filter_map(|waiter| waiter.moved_from_outside());
            outside.for_each(|stream| book.wake(stream));
            drop(book);
            bell.ring(batch.new.position);
            waiters.into_iter().for_each(|waiter| waiter.answer());
        }
        Ok(Appended::HeadMoved) => {
            // Who lost the race holds the head while it decides again, so that it cannot lose for ever.
            drop(book);
            if let Err(error) = appender.hold(batch.tenant) {
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
    true
}

fn release(appender: &mut Appender) {
    if let Err(error) = appender.release() {
        tracing::debug!("the head could not be released: {error}");
    }
}
