//! Limits on the bytes of servers' messages that this process holds: maximum sizes of single messages, and
//! budgets for buffered input and output, per connection and for the whole process.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

const MIB: usize = 1024 * 1024;

/// One message of a server: a line of a child's output, an HTTP body or one event of a stream.
pub const MESSAGE_BYTES_MAX: usize = 16 * MIB;
/// All output of a server before its handshake is done.
pub const HANDSHAKE_BYTES_MAX: usize = MIB;
/// Output of a server between two messages that is not a message.
pub const NOISE_BYTES_MAX: usize = 2 * MESSAGE_BYTES_MAX;
/// The descriptions of one server's tools, as JSON text.
pub const LISTING_BYTES_MAX: usize = 4 * MIB;
/// The number of tools of one server.
pub const TOOLS_MAX: usize = 10_000;
/// Replies to a server's own requests that it has not read yet. Beyond that the connection is aborted.
pub const UNREAD_REPLIES_BYTES_MAX: usize = 4 * MIB;
/// Calls that a server has not read yet. Beyond that a call is not sent.
pub const UNREAD_CALLS_BYTES_MAX: usize = 64 * MIB;
/// All incomplete or unread messages, over all connections of this process.
const PROCESS_BYTES_MAX: usize = 256 * MIB;
/// The memory of a queued message beside its text: the Tokio task that writes it.
const QUEUED_OVERHEAD_BYTES: usize = 1024;

/// The bytes held by all connections of this process.
static PROCESS_TOTAL: ByteCounter = ByteCounter { max: PROCESS_BYTES_MAX, held: AtomicUsize::new(0) };

/// A count of held bytes with a maximum.
#[derive(Debug)]
struct ByteCounter {
    max: usize,
    held: AtomicUsize,
}

impl ByteCounter {
    /// Adds to the count. False: the maximum would be exceeded, and the count is unchanged.
    fn try_take(&self, bytes: usize) -> bool {
        let add = |held: usize| held.checked_add(bytes).filter(|held| *held <= self.max);
        self.held.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add).is_ok()
    }

    /// Subtracts from the count.
    fn release(&self, bytes: usize) {
        self.held.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// The bytes that one connection may hold; they also count towards the process total. Clones share one count.
#[derive(Clone, Debug)]
pub struct ByteBudget(Arc<ByteCounter>);

impl ByteBudget {
    /// A budget of `max` bytes, none of which is taken.
    pub fn new(max: usize) -> Self {
        Self(Arc::new(ByteCounter { max, held: AtomicUsize::new(0) }))
    }

    /// Reserves room for a queued message of `bytes` and its overhead. None: the connection or the process
    /// would hold too much.
    pub fn reserve_queued(&self, bytes: usize) -> Option<ByteReservation> {
        let mut reservation = self.empty_reservation();
        reservation.try_resize(bytes + QUEUED_OVERHEAD_BYTES).then_some(reservation)
    }

    /// A reservation of 0 bytes, to be resized.
    pub fn empty_reservation(&self) -> ByteReservation {
        ByteReservation { budget: self.clone(), bytes: 0 }
    }
}

/// Bytes taken from a budget, until dropped.
#[derive(Debug)]
pub struct ByteReservation {
    budget: ByteBudget,
    bytes: usize,
}

impl ByteReservation {
    /// Changes the reservation to `bytes`. False: there is no room in the budget or the process, and nothing
    /// changed.
    pub fn try_resize(&mut self, bytes: usize) -> bool {
        let own = &self.budget.0;
        if let Some(less) = self.bytes.checked_sub(bytes) {
            own.release(less);
            PROCESS_TOTAL.release(less);
        } else {
            let more = bytes - self.bytes;
            if !own.try_take(more) {
                return false;
            }
            if !PROCESS_TOTAL.try_take(more) {
                own.release(more);
                return false;
            }
        }
        self.bytes = bytes;
        true
    }
}

impl Drop for ByteReservation {
    fn drop(&mut self) {
        self.try_resize(0);
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
        let mut second = budget.empty_reservation();
        assert!(second.try_resize(10_000));
        assert!(!second.try_resize(10_001));
        assert!(second.try_resize(1) && budget.reserve_queued(8_000).is_some());

        let most = PROCESS_BYTES_MAX / UNREAD_CALLS_BYTES_MAX;
        let whole = |_| {
            let mut one = ByteBudget::new(UNREAD_CALLS_BYTES_MAX).empty_reservation();
            one.try_resize(UNREAD_CALLS_BYTES_MAX).then_some(one)
        };
        let held: Vec<ByteReservation> = (0..=most).map_while(whole).collect();
        assert!(held.len() < most, "one byte is taken already: {}", held.len());
        assert!(!second.try_resize(UNREAD_CALLS_BYTES_MAX), "over its own maximum");
        drop(held);
        assert!(whole(0).is_some());
    }
}
