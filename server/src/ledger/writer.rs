//! Writing: whatever has queued up becomes durable in one transaction, with no timer and no waiting for
//! company. Who holds the pen writes: a plain thread, or, where nobody else could join the batch anyway,
//! the caller itself, which spares two changes of thread.

use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::Duration;

use super::book::{Book, Said, Taken, Waiter};
use super::{Door, Error};
use crate::store::{Appended, Appender, Batch};

pub(super) fn spawn(door: Arc<Door>) -> Result<(), Error> {
    let thread = std::thread::Builder::new().name("ledger".into());
    let spawned = thread.spawn(move || {
        let _gone = Gone(door.clone());
        let mut word_in = None;
        loop {
            let (next, book) = wait_for_work(&door, word_in);
            let (mut pen, book) = take_pen(&door, book);
            word_in = match next {
                Next::Write => write(&door, book, pen, Until::NobodyWaits),
                Next::Tell => {
                    drop(book);
                    tell_if_due(&mut pen)
                }
                Next::Leave => {
                    drop(book);
                    tell(&mut pen);
                    break;
                }
            };
        }
    });
    spawned.map(drop).map_err(|error| Error::Store(crate::store::Error::Failed(error.to_string())))
}

/// The pen is taken before the book, or only tried.
fn take_pen<'a>(
    door: &'a Door,
    book: MutexGuard<'a, Book>,
) -> (MutexGuard<'a, Appender>, MutexGuard<'a, Book>) {
    if let Ok(pen) = door.pen.try_lock() {
        return (pen, book);
    }
    drop(book);
    let pen = door.pen.lock().unwrap_or_else(PoisonError::into_inner);
    (pen, door.lock())
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

fn wait_for_work(door: &Door, word_in: Option<Duration>) -> (Next, MutexGuard<'_, Book>) {
    let mut book = door.lock();
    book.word_is_due = word_in.is_some();
    while book.idle() {
        if book.closed {
            return (Next::Leave, book);
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
            return (Next::Tell, woken);
        }
        book = woken;
    }
    (Next::Write, book)
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

pub(super) enum Until {
    Written,
    NobodyWaits,
}

/// Batch after batch, by whoever holds the pen; and how soon other processes should hear of it. Who is
/// answered may want to write at once, so answers go out when the next batch is taken or the pen laid down.
pub(super) fn write<'a>(
    door: &'a Door,
    mut book: MutexGuard<'a, Book>,
    mut pen: MutexGuard<'a, Appender>,
    until: Until,
) -> Option<Duration> {
    let mut settled = Settled::default();
    while !book.idle() {
        let Some(Taken { batch, waiters }) = book.take_out() else {
            // The head could not even be read; those who wait have the error already.
            release(&mut pen);
            settled.said.extend(book.take_waiters().into_iter().map(|waiter| waiter.said));
            break;
        };
        let written = if batch.entries.is_empty() && batch.others.is_empty() {
            release(&mut pen);
            let head = book.head_in_store();
            head.map(|head| if head == Some(batch.old) { Appended::Done } else { Appended::HeadMoved })
        } else {
            drop(book);
            std::mem::take(&mut settled).go_out(door);
            let written = pen.append(&batch).map_err(Error::Store);
            book = door.lock();
            written
        };
        match written {
            Ok(Appended::Done) => {
                settled.position = Some(batch.new.position);
                settled.said.extend(book.written(batch, waiters));
            }
            Ok(Appended::HeadMoved) => book = lost_the_race(door, book, &mut pen, &batch, waiters),
            Err(error) => {
                book.not_written(batch.old.position);
                book.start_over(Vec::new());
                let failed = waiters.into_iter().map(|waiter| waiter.said.failed(error.clone()));
                settled.said.extend(failed);
            }
        }
        if matches!(until, Until::Written) {
            break;
        }
    }
    let word_in = pen.owes_word_in();
    drop(pen);
    drop(book);
    settled.go_out(door);
    word_in
}

/// What is settled and has yet to be said, without the lock.
#[derive(Default)]
struct Settled {
    position: Option<u64>,
    said: Vec<Said>,
}

impl Settled {
    fn go_out(self, door: &Door) {
        if let Some(position) = self.position {
            door.bell.ring(position);
        }
        self.said.into_iter().for_each(Said::go_out);
    }
}

/// Who lost the race holds the head while it decides again, so that it cannot lose for ever.
fn lost_the_race<'a>(
    door: &'a Door,
    book: MutexGuard<'a, Book>,
    pen: &mut Appender,
    batch: &Batch,
    waiters: Vec<Waiter>,
) -> MutexGuard<'a, Book> {
    drop(book);
    if let Err(error) = pen.hold(batch.tenant) {
        tracing::debug!("the head could not be held: {error}");
    }
    let mut book = door.lock();
    book.not_written(batch.old.position);
    book.start_over(waiters);
    if let Err(error) = book.wake_all() {
        tracing::warn!("another process's word could not be read: {error}");
    }
    book
}

fn release(pen: &mut Appender) {
    if let Err(error) = pen.release() {
        tracing::debug!("the head could not be released: {error}");
    }
}
