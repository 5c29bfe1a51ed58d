//! Writing: whatever has queued up becomes durable in one transaction, with no timer and no waiting for
//! company. Who holds the pen writes: a plain thread, or, where nobody else could join the batch anyway,
//! the caller itself, which spares two changes of thread.

use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::Duration;

use super::book::{Book, Taken};
use super::{Door, Error};
use crate::store::{Appended, Appender};

pub(super) fn spawn(door: Arc<Door>) -> Result<(), Error> {
    let thread = std::thread::Builder::new().name("ledger".into());
    let spawned = thread.spawn(move || {
        let _gone = Gone(door.clone());
        let mut word_in = None;
        loop {
            let next = wait_for_work(&door, word_in);
            let mut pen = door.pen.lock().unwrap_or_else(PoisonError::into_inner);
            word_in = match next {
                Next::Write => write(&door, door.lock(), pen),
                Next::Tell => tell_if_due(&mut pen),
                Next::Leave => {
                    tell(&mut pen);
                    break;
                }
            };
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

enum Next {
    Write,
    /// Nothing to write, but other processes may have yet to hear of what was written.
    Tell,
    /// The ledger is closed and everything is written.
    Leave,
}

fn wait_for_work(door: &Door, word_in: Option<Duration>) -> Next {
    let mut book = door.lock();
    book.word_is_due = word_in.is_some();
    while book.idle() {
        if book.closed {
            return Next::Leave;
        }
        book.writer_waits = true;
        let (mut woken, patience_ended) = match word_in {
            None => (door.work.wait(book).unwrap_or_else(PoisonError::into_inner), false),
            Some(patience) => {
                let waited = door.work.wait_timeout(book, patience);
                let (book, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
                (book, timeout.timed_out())
            }
        };
        woken.writer_waits = false;
        let became_due = word_in.is_none() && woken.word_is_due;
        if woken.idle() && (patience_ended || became_due) {
            return Next::Tell;
        }
        book = woken;
    }
    Next::Write
}

/// How long there is still time, if there is.
fn tell_if_due(pen: &mut Appender) -> Option<Duration> {
    if pen.owes_word_in().is_some_and(|time| time.is_zero()) {
        tell(pen);
    }
    pen.owes_word_in()
}

fn tell(pen: &mut Appender) {
    if let Err(error) = pen.tell() {
        tracing::debug!("other processes could not be told: {error}");
    }
}

/// One batch, by whoever holds the pen; and how soon other processes should hear of it. The pen is laid down
/// before anybody is answered: who is answered may want to write at once.
pub(super) fn write<'a>(
    door: &'a Door,
    mut book: MutexGuard<'a, Book>,
    mut pen: MutexGuard<'a, Appender>,
) -> Option<Duration> {
    if book.idle() {
        return pen.owes_word_in();
    }
    let Some(Taken { batch, waiters }) = book.take_out() else {
        // The head could not even be read; those who wait have the error already.
        release(&mut pen);
        let waiters = book.take_waiters();
        drop(book);
        waiters.into_iter().for_each(|waiter| waiter.answer());
        return pen.owes_word_in();
    };
    let unchanged = batch.entries.is_empty() && batch.others.is_empty();
    let written = if unchanged {
        release(&mut pen);
        let head = book.head_in_store();
        head.map(|head| if head == Some(batch.old) { Appended::Done } else { Appended::HeadMoved })
    } else {
        drop(book);
        let written = pen.append(&batch).map_err(Error::Store);
        book = door.lock();
        written
    };
    let word_in = pen.owes_word_in();
    match written {
        Ok(Appended::Done) => {
            drop(pen);
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
    word_in
}

fn release(pen: &mut Appender) {
    if let Err(error) = pen.release() {
        tracing::debug!("the head could not be released: {error}");
    }
}
