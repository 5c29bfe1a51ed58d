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
pub mod tasks;

use std::process::{Child, Output};
use std::time::{Duration, Instant};

use book::{Book, Said};
use rustix::process::{Pid, Signal, kill_process};

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
pub fn wait_for<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(seen) = look() {
            return seen;
        }
        assert!(begun.elapsed() < PATIENCE, "waited in vain for {what}");
        std::thread::yield_now();
    }
}

/// The states of a process's threads, as `/proc` has them; none: the process is gone.
fn thread_states(process: Pid) -> Vec<char> {
    let threads = std::fs::read_dir(format!("/proc/{}/task", process.as_raw_nonzero()));
    let state = |thread: std::fs::DirEntry| {
        let stat = std::fs::read_to_string(thread.path().join("stat")).ok()?;
        stat.rsplit(')').next()?.trim().chars().next()
    };
    threads.into_iter().flatten().flatten().filter_map(state).collect()
}

/// All of its threads are stopped: one that still runs may do what nobody has seen.
fn is_stopped(process: Pid) -> bool {
    let states = thread_states(process);
    !states.is_empty() && states.iter().all(|state| matches!(state, 't' | 'T'))
}

/// Stops a process, and returns once it stands still with no write under way: one that is stopped inside a
/// transaction would keep every other process from writing.
fn freeze(child: &Child, book: &Book) {
    let process = Pid::from_child(child);
    wait_for("the process to stand still between two writes", || {
        kill_process(process, Signal::STOP).unwrap();
        wait_for("the process to stop", || is_stopped(process).then_some(()));
        if book.outside().is_writable() {
            return Some(());
        }
        kill_process(process, Signal::CONT).unwrap();
        None
    });
}

/// Takes an execution over from a driver that is frozen, once its lease has run out.
fn take_over(book: &Book, id: &str) -> Said {
    let resume = ["resume", id];
    let said = book.say(&resume);
    // While the lease runs it only watches.
    if said.json["code"] == "nobody_drives" { book.say(&resume) } else { said }
}

fn finish(mut child: Child) -> Output {
    wait_for("the process to end", || child.try_wait().expect("the child is ours"));
    child.wait_with_output().expect("its output is read")
}
