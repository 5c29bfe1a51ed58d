//! How many bytes of its servers' messages this process holds: sizes of what may come in one piece, and budgets
//! for what is on its way in or out, per connection and for the whole process.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

const MIB: usize = 1024 * 1024;

/// One message of a server: a line of a child's output, an HTTP body or one event of a stream.
pub const MESSAGE_BYTES_MAX: usize = 16 * MIB;
/// All that a server may write before its handshake is done.
pub const HANDSHAKE_BYTES_MAX: usize = MIB;
/// What a server may write between two messages that is no message.
pub const NOISE_BYTES_MAX: usize = 2 * MESSAGE_BYTES_MAX;
/// The descriptions of one server's tools, as they are written.
pub const LISTING_BYTES_MAX: usize = 4 * MIB;
/// The tools of one server.
pub const TOOLS_MAX: usize = 10_000;
/// Answers to a server's own requests that it has not read yet. Beyond that the connection is given up.
pub const UNREAD_REPLIES_BYTES_MAX: usize = 4 * MIB;
/// Calls that a server has not read yet. Beyond that a call is not sent.
pub const UNREAD_CALLS_BYTES_MAX: usize = 64 * MIB;
/// All of the above that is incomplete or unread, over all connections of this process.
const PROCESS_BYTES_MAX: usize = 256 * MIB;
/// What a queued message takes beside its text: the task that writes it.
const QUEUED_OVERHEAD_BYTES: usize = 1024;

static PROCESS: Count = Count { max: PROCESS_BYTES_MAX, held: AtomicUsize::new(0) };

/// Bytes held against a maximum.
#[derive(Debug)]
struct Count {
    max: usize,
    held: AtomicUsize,
}

impl Count {
    fn take(&self, bytes: usize) -> bool {
        let more = |held: usize| held.checked_add(bytes).filter(|held| *held <= self.max);
        self.held.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok()
    }

    fn give_back(&self, bytes: usize) {
        self.held.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// The bytes that one connection may hold, which also count for the whole process. Clones share one count.
#[derive(Clone, Debug)]
pub struct ByteBudget(Arc<Count>);

impl ByteBudget {
    pub fn new(max: usize) -> Self {
        Self(Arc::new(Count { max, held: AtomicUsize::new(0) }))
    }

    /// Room for a message in a queue; none where the queue, or this process, holds too much already.
    pub fn reserve_queued(&self, bytes: usize) -> Option<Reservation> {
        let mut reservation = self.empty();
        reservation.resize(bytes + QUEUED_OVERHEAD_BYTES).then_some(reservation)
    }

    /// A reservation of nothing, to be resized.
    pub fn empty(&self) -> Reservation {
        Reservation { budget: self.clone(), bytes: 0 }
    }
}

/// Bytes taken from a budget, until dropped.
#[derive(Debug)]
pub struct Reservation {
    budget: ByteBudget,
    bytes: usize,
}

impl Reservation {
    /// Holds `bytes` from here on; false, and as before, where there is no room for them.
    pub fn resize(&mut self, bytes: usize) -> bool {
        let own = &self.budget.0;
        if let Some(less) = self.bytes.checked_sub(bytes) {
            own.give_back(less);
            PROCESS.give_back(less);
        } else {
            let more = bytes - self.bytes;
            if !own.take(more) {
                return false;
            }
            if !PROCESS.take(more) {
                own.give_back(more);
                return false;
            }
        }
        self.bytes = bytes;
        true
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.resize(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One test: the total of the process is shared by all that run in it.
    #[test]
    fn reservations_share_their_budget_and_the_process_total() {
        let budget = ByteBudget::new(10_000);
        let first = budget.reserve_queued(8_000).unwrap();
        assert!(budget.reserve_queued(8_000).is_none());
        drop(first);
        let mut second = budget.empty();
        assert!(second.resize(10_000));
        assert!(!second.resize(10_001));
        assert!(second.resize(1) && budget.reserve_queued(8_000).is_some());

        let most = PROCESS_BYTES_MAX / UNREAD_CALLS_BYTES_MAX;
        let whole = |_| {
            let mut one = ByteBudget::new(UNREAD_CALLS_BYTES_MAX).empty();
            one.resize(UNREAD_CALLS_BYTES_MAX).then_some(one)
        };
        let held: Vec<Reservation> = (0..=most).map_while(whole).collect();
        assert!(held.len() < most, "one byte is taken already: {}", held.len());
        assert!(!second.resize(UNREAD_CALLS_BYTES_MAX), "over its own maximum");
        drop(held);
        assert!(whole(0).is_some());
    }
}
