//! The journal's clock. Backoffs and time limits must count elapsed time, but the machine's wall clock can be
//! set to another time. So this clock advances by the boot clock and is slewed towards the wall clock by at
//! most a tenth of the elapsed time. A difference of one second is gone within ten; a wall clock that is set
//! by a day lengthens or shortens no wait by more than a tenth.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;

use crate::boot_instant::BootInstant;

/// The slew per read is at most the elapsed time divided by this.
const SLEW_DIVISOR: i128 = 10;

/// A last entry further ahead than this was written under a wrong clock and is ignored.
const AHEAD_MAX: Duration = Duration::from_secs(7 * 24 * 3600);

/// How far the wall clock may differ before a warning is logged.
const WARN_ABOVE: Duration = Duration::from_secs(60);

/// How long a wait sleeps at most before it reads the clock again: timers stop while the machine is
/// suspended.
const SLEEP_MAX: Duration = Duration::from_secs(30);

/// Milliseconds since 1970 that never go back and never jump. One per ledger.
#[derive(Debug)]
pub struct Clock(Mutex<ClockReading>);

/// The clock's last reading.
#[derive(Clone, Copy, Debug)]
struct ClockReading {
    /// Nanoseconds since 1970.
    at_ns: i128,
    read_at: BootInstant,
    /// The current difference to the wall clock has been logged.
    warned: bool,
}

impl Clock {
    /// A clock that starts at the wall clock's time.
    pub fn new() -> Self {
        Self(Mutex::new(ClockReading { at_ns: wall_ns(), read_at: BootInstant::now(), warned: false }))
    }

    /// Unix time in ms. It never goes back, and follows a changed wall clock only slowly.
    pub fn now_ms(&self) -> i64 {
        let mut reading = self.0.lock();
        *reading = reading.advanced_to(BootInstant::now(), wall_ns());
        ns_to_ms(reading.at_ns)
    }

    /// Moves the clock forward to the time of the journal's last entry, in ms, if that is ahead: the wall
    /// clock was set back since, and waits that end after that entry would be lengthened by the difference.
    pub fn start_after(&self, last_ms: i64) {
        let mut reading = self.0.lock();
        let last_ns = i128::from(last_ms) * 1_000_000;
        let ahead = last_ns - reading.at_ns;
        if ahead > AHEAD_MAX.as_nanos().cast_signed() {
            tracing::warn!("the journal's last entry is {} h in the future", ns_to_hours(ahead));
        } else if ahead > 0 {
            reading.at_ns = last_ns;
        }
    }

    /// Resolves when this clock reaches `at_ms`; never for None.
    pub async fn wait_until(&self, at_ms: Option<i64>) {
        let Some(at_ms) = at_ms else { return std::future::pending().await };
        while let Ok(left @ 1..) = u64::try_from(at_ms.saturating_sub(self.now_ms())) {
            tokio::time::sleep(Duration::from_millis(left).min(SLEEP_MAX)).await;
        }
    }
}

impl ClockReading {
    /// The reading at `now`, slewed towards the wall clock.
    fn advanced_to(self, now: BootInstant, wall_ns: i128) -> Self {
        let elapsed = now.duration_since(self.read_at).as_nanos().cast_signed();
        let (expected, slew_max) = (self.at_ns + elapsed, elapsed / SLEW_DIVISOR);
        let off = wall_ns - expected;
        let warned = if off.unsigned_abs() > WARN_ABOVE.as_nanos() {
            self.warned || warn_clock_off(off)
        } else {
            false
        };
        Self { at_ns: expected + off.clamp(-slew_max, slew_max), read_at: now, warned }
    }
}

/// Logs that the wall clock differs by `off_ns`; returns true, for `warned`.
fn warn_clock_off(off_ns: i128) -> bool {
    let (by_s, side) = (off_ns.abs() / 1_000_000_000, if off_ns > 0 { "ahead of" } else { "behind" });
    tracing::warn!(
        "the system clock is {by_s} s {side} the journal's, which is adjusted slowly so that waits keep their length"
    );
    true
}

fn ns_to_hours(ns: i128) -> i128 {
    ns / 3_600_000_000_000
}

fn ns_to_ms(ns: i128) -> i64 {
    i64::try_from(ns / 1_000_000).unwrap_or(i64::MAX)
}

/// The wall clock in nanoseconds since 1970; negative before that.
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

    fn after(reading: ClockReading, seconds: u64, wall_ns: i128) -> ClockReading {
        reading.advanced_to(reading.read_at + Duration::from_secs(seconds), wall_ns)
    }

    #[test]
    fn set_wall_clock_changes_waits_by_a_tenth_at_most() {
        let start = ClockReading { at_ns: 100 * DAY, read_at: BootInstant::now(), warned: false };
        assert_eq!(after(start, 10, 100 * DAY + 10 * SECOND).at_ns, 100 * DAY + 10 * SECOND);
        assert_eq!(after(start, 10, 101 * DAY).at_ns, 100 * DAY + 11 * SECOND);
        assert_eq!(after(start, 10, 99 * DAY).at_ns, 100 * DAY + 9 * SECOND);
    }

    #[test]
    fn clock_follows_a_wall_clock_that_is_a_second_off_within_ten() {
        let start = ClockReading { at_ns: 100 * DAY, read_at: BootInstant::now(), warned: false };
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
