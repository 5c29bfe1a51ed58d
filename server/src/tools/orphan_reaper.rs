//! A helper process that kills the servers of this process when this process is killed. It reads from a pipe
//! which servers run, and when the pipe closes, however this process ended, it kills those that are still on
//! its list.
//!
//! Most servers exit when their input closes; one that ignores it would live until Actbook is started again.
//! The parent-death signal (`PR_SET_PDEATHSIG`) is bound to the thread that started the child, which may end
//! before the process does.

use std::io::Write;
use std::os::unix::process::CommandExt;
use std::process::{ChildStdin, Command, Stdio};
use std::sync::LazyLock;

use parking_lot::Mutex;

/// Reads lines `+ GROUP` and `- GROUP`; at end of input kills the groups that remain.
const SCRIPT: &str = r#"
trap '' HUP INT TERM
groups=
while read -r sign group; do
    kept=
    for one in $groups; do [ "$one" = "$group" ] || kept="$kept $one"; done
    groups=$kept
    [ "$sign" = + ] && groups="$groups $group"
done
for group in $groups; do kill -KILL "-$group"; done
"#;

/// The helper's input; the helper is started with the first server. None: there is no shell.
static REAPER: LazyLock<Option<Mutex<ChildStdin>>> = LazyLock::new(start);

/// Starts the helper and returns its input. None: it could not be started.
fn start() -> Option<Mutex<ChildStdin>> {
    let mut command = Command::new("/bin/sh");
    command.args(["-c", SCRIPT]).env_clear().current_dir("/").process_group(0);
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    match command.spawn() {
        Ok(mut child) => child.stdin.take().map(Mutex::new),
        Err(error) => {
            tracing::debug!(
                "cannot start the helper that kills the servers of this process if it is killed: {error}"
            );
            None
        }
    }
}

/// Has the process group, given by its id, killed when this process ends.
pub fn register(group: u32) {
    send_line('+', group);
}

/// Takes an ended group off the list: the kernel may reuse its id.
pub fn unregister(group: u32) {
    send_line('-', group);
}

/// Sends the helper one line; `sign` is `+` or `-`.
fn send_line(sign: char, group: u32) {
    let Some(reaper) = REAPER.as_ref() else { return };
    let mut stdin = reaper.lock();
    // A single write: half a line would be read as another id.
    if let Err(error) = stdin.write_all(format!("{sign} {group}\n").as_bytes()) {
        tracing::debug!("the helper that kills servers has exited: {error}");
    }
}
