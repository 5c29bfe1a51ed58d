//! The journal's clock. Backoffs and time limits must count time that passed, and the machine's wall clock can be
//! set: so this clock runs by the boot clock, and only leans towards the wall clock, by at most a tenth of the
//! time that passes. A wall clock that is off by a second is followed within ten, one that was set by a day
//! stretches or shortens no wait by more than a tenth.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::moment::Moment;

/// How much of the time that passes may be spent on following the wall clock: one part in so many.
const LEAN: i128 = 10;

/// An entry that is further ahead than this was written under a wrong clock, and is not gone by.
const AHEAD_MAX: Duration = Duration::from_secs(7 * 24 * 3600);

/// How far the wall clock may be off before the log says so.
const TOLD_ABOVE: Duration = Duration::from_secs(60);

/// How long a wait sleeps at most before it looks at the clock again: a machine may sleep meanwhile, and timers
/// sleep with it.
const SLEEP_MAX: Duration = Duration::from_secs(30);

/// Milliseconds since 1970 that never go back and never jump. One per ledger.
#[derive(Debug)]
pub struct Clock(Mutex<Reading>);

/// What the clock showed when it was last read.
#[derive(Clone, Copy, Debug)]
struct Reading {
    /// Nanoseconds since 1970.
    at_ns: i128,
    read: Moment,
    /// The log has said that the wall clock is off.
    told: bool,
}

impl Clock {
    /// Begins at the wall clock.
    pub fn new() -> Self {
        Self(Mutex::new(Reading { at_ns: wall_ns(), read: Moment::now(), told: false }))
    }

    pub fn now_ms(&self) -> i64 {
        let mut reading = self.lock();
        *reading = reading.advanced(Moment::now(), wall_ns());
        in_ms(reading.at_ns)
    }

    /// Goes on from the journal's last entry where that is ahead: the wall clock was set back since, and what
    /// waits until a time after that entry would wait for as long again.
    pub fn start_after(&self, last_ms: i64) {
        let mut reading = self.lock();
        let last_ns = i128::from(last_ms) * 1_000_000;
        let ahead = last_ns - reading.at_ns;
        if ahead > AHEAD_MAX.as_nanos().cast_signed() {
            tracing::warn!("the journal's last entry is from the future, by {} h", hours(ahead));
        } else if ahead > 0 {
            reading.at_ns = last_ns;
        }
    }

    /// Resolves once this clock shows `at_ms`; never without a time.
    pub async fn wait_until(&self, at_ms: Option<i64>) {
        let Some(at_ms) = at_ms else { return std::future::pending().await };
        while let Ok(left @ 1..) = u64::try_from(at_ms.saturating_sub(self.now_ms())) {
            tokio::time::sleep(Duration::from_millis(left).min(SLEEP_MAX)).await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Reading> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Reading {
    fn advanced(self, now: Moment, wall_ns: i128) -> Self {
        let passed = now.since(self.read).as_nanos().cast_signed();
        let (expected, lean) = (self.at_ns + passed, passed / LEAN);
        let off = wall_ns - expected;
        let told = if off.unsigned_abs() > TOLD_ABOVE.as_nanos() { self.told || tell(off) } else { false };
        Self { at_ns: expected + off.clamp(-lean, lean), read: now, told }
    }
}

/// Says that the wall clock is off; true, for having said it.
fn tell(off_ns: i128) -> bool {
    let (by_s, side) = (off_ns.abs() / 1_000_000_000, if off_ns > 0 { "ahead of" } else { "behind" });
    tracing::warn!(
        "the system clock is {by_s} s {side} the journal's, which follows slowly and keeps waits as they are"
    );
    true
}

fn hours(ns: i128) -> i128 {
    ns / 3_600_000_000_000
}

fn in_ms(ns: i128) -> i64 {
    i64::try_from(ns / 1_000_000).unwrap_or(i64::MAX)
}

fn wall_ns() -> i128 {
    match SystemTime::now().duration_since(UNIX_EPOCH) {
        Ok(since) => since.as_nanos().cast_signed(),
        Err(before) => -before.duration().as_nanos().cast_signed(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: i128 = 1_000_000_000;
    const DAY: i128 = 24 * 3600 * SECOND;

    fn after(reading: Reading, seconds: u64, wall_ns: i128) -> Reading {
        reading.advanced(reading.read + Duration::from_secs(seconds), wall_ns)
    }

    #[test]
    fn clock_that_is_set_moves_waits_by_a_tenth_at_most() {
        let start = Reading { at_ns: 100 * DAY, read: Moment::now(), told: false };
        assert_eq!(after(start, 10, 100 * DAY + 10 * SECOND).at_ns, 100 * DAY + 10 * SECOND);
        assert_eq!(after(start, 10, 101 * DAY).at_ns, 100 * DAY + 11 * SECOND);
        assert_eq!(after(start, 10, 99 * DAY).at_ns, 100 * DAY + 9 * SECOND);
    }

    #[test]
    fn clock_follows_a_wall_clock_that_is_a_second_off_within_ten() {
        let start = Reading { at_ns: 100 * DAY, read: Moment::now(), told: false };
        let ten_later = after(start, 10, 100 * DAY + 11 * SECOND);
        assert_eq!(ten_later.at_ns, 100 * DAY + 11 * SECOND);
    }

    #[test]
    fn clock_starts_after_the_last_entry_unless_that_is_a_week_ahead() {
        let clock = Clock::new();
        let day_ahead = clock.now_ms() + 24 * 3600 * 1000;
        clock.start_after(day_ahead);
        assert!(clock.now_ms() >= day_ahead);
        clock.start_after(day_ahead + 30 * 24 * 3600 * 1000);
        assert!(clock.now_ms() < day_ahead + 3600 * 1000);
    }
}
