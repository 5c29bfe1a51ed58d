//! The whole binary under kill -9, takeover and real downstream servers. The tests are black-box: they
//! start `actbook` as a user would, read the journal over a separate database connection, and count the
//! calls that arrive by the tools' witness file.

mod checks;
mod database_outage;
pub mod direct_sql;
mod fixture;
mod frozen;
mod guarded;
mod kill;
mod npm_servers;
mod probe;
mod real_servers;
mod reference_plan;
mod takeover;
pub mod tasks;

use std::process::{Child, Output};

use direct_sql::DirectSql;
use fixture::{CliFixture, CommandOutput};
use rustix::process::{Pid, Signal, kill_process};

use crate::waiting::wait_for;

/// Returns the states of a process's threads from `/proc`; empty when the process is gone.
fn thread_states(process: Pid) -> Vec<char> {
    let threads = std::fs::read_dir(format!("/proc/{}/task", process.as_raw_nonzero()));
    let state = |thread: std::fs::DirEntry| {
        let stat = std::fs::read_to_string(thread.path().join("stat")).ok()?;
        stat.rsplit(')').next()?.trim().chars().next()
    };
    threads.into_iter().flatten().flatten().filter_map(state).collect()
}

/// True when every thread is stopped: one that still runs could act unobserved.
fn is_stopped(process: Pid) -> bool {
    let states = thread_states(process);
    !states.is_empty() && states.iter().all(|state| matches!(state, 't' | 'T'))
}

/// Stops a process while it has no write transaction open: a process stopped inside a transaction would block
/// every other writer.
pub fn freeze(child: &Child, database: &DirectSql) {
    let process = Pid::from_child(child);
    wait_for("the process to be stopped between two writes", || {
        kill_process(process, Signal::STOP).unwrap();
        wait_for("the process to stop", || is_stopped(process).then_some(()));
        if database.is_writable() {
            return Some(());
        }
        kill_process(process, Signal::CONT).unwrap();
        None
    });
}

/// Takes an execution over from a frozen driver: `resume` watches it while its lease is valid, and then continues
/// the execution.
fn take_over(fixture: &CliFixture, id: &str) -> CommandOutput {
    fixture.run(&["resume", id])
}

/// Waits for the process to exit, within the time-out, and returns its output.
fn wait_for_exit(mut child: Child) -> Output {
    wait_for("the process to end", || child.try_wait().expect("the child is ours"));
    child.wait_with_output().expect("its output is read")
}
