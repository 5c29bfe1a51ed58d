//! A helper process that ends servers which a killed process leaves behind. It reads from a pipe which servers run,
//! and when the pipe closes, however this process ended, it kills those that are still on its list.
//!
//! A server notices its end of input by itself; one that ignores it would live on until somebody starts Actbook
//! again. A signal at the parent's death (`PR_SET_PDEATHSIG`) follows the thread that started the child, which may
//! end before the process does.

use std::io::Write;
use std::os::unix::process::CommandExt;
use std::process::{ChildStdin, Command, Stdio};
use std::sync::{LazyLock, Mutex, PoisonError};

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

/// Started with the first server; none where there is no shell.
static GUARD: LazyLock<Option<Mutex<ChildStdin>>> = LazyLock::new(start);

fn start() -> Option<Mutex<ChildStdin>> {
    let mut command = Command::new("/bin/sh");
    command.args(["-c", SCRIPT]).env_clear().current_dir("/").process_group(0);
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    match command.spawn() {
        Ok(mut child) => child.stdin.take().map(Mutex::new),
        Err(error) => {
            tracing::debug!("nothing will end the servers of this process if it is killed: {error}");
            None
        }
    }
}

/// Ends this process group when this process is gone.
pub fn watch(group: u32) {
    tell('+', group);
}

/// The group has ended: its number may come to belong to another process.
pub fn forget(group: u32) {
    tell('-', group);
}

fn tell(sign: char, group: u32) {
    let Some(guard) = GUARD.as_ref() else { return };
    let mut guard = guard.lock().unwrap_or_else(PoisonError::into_inner);
    // One write: half a line would be taken for another number.
    if let Err(error) = guard.write_all(format!("{sign} {group}\n").as_bytes()) {
        tracing::debug!("the helper that ends servers is gone: {error}");
    }
}
