//! The whole binary under kill -9, takeover and real downstream servers. The tests stand outside: they
//! start `actbook` as a person would, read the journal through a connection of their own, and let a
//! witness count the calls that arrive.

mod away;
mod book;
mod checks;
mod five;
mod frozen;
mod kill;
mod npm;
mod outside;
mod reference;
mod takeover;
mod tasks;

use std::process::{Child, Output};
use std::time::{Duration, Instant};

/// Long enough that a test which waits for it has failed.
const PATIENCE: Duration = Duration::from_secs(60);

/// Seeded, so that a failing schedule can be run again.
#[derive(Debug, Clone)]
struct Dice(u64);

impl Dice {
    /// A number below `sides`.
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % sides
    }
}

/// Waits for a condition by looking, and fails with what was waited for.
fn wait_for<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(seen) = look() {
            return seen;
        }
        assert!(begun.elapsed() < PATIENCE, "waited in vain for {what}");
        std::thread::yield_now();
    }
}

fn finish(mut child: Child) -> Output {
    wait_for("the process to end", || child.try_wait().expect("the child is ours"));
    child.wait_with_output().expect("its output is read")
}
