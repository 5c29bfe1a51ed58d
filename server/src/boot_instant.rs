//! Instants within this boot, by a clock that goes on while the machine sleeps: leases expire meanwhile,
//! because the database and other machines do not sleep with it.

use std::ops::Add;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// On Linux `Monotonic` stops while the machine sleeps; this clock does not.
#[cfg(target_os = "linux")]
const CLOCK: ClockId = ClockId::Boottime;
#[cfg(not(target_os = "linux"))]
const CLOCK: ClockId = ClockId::Monotonic;

/// The time since boot, suspended time included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct BootInstant(Duration);

impl BootInstant {
    pub fn now() -> Self {
        let now = clock_gettime(CLOCK);
        Self(Duration::new(now.tv_sec.unsigned_abs(), now.tv_nsec.unsigned_abs() as u32))
    }

    /// The time from `earlier` to this instant; zero if `earlier` is later.
    pub fn duration_since(self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }
}

impl Add<Duration> for BootInstant {
    type Output = Self;

    fn add(self, later: Duration) -> Self {
        Self(self.0 + later)
    }
}
