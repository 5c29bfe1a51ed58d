//! Child processes. Each leads a process group of its own, so that it can be killed together with all that it
//! starts. Knows how to start, identify, watch and kill a group; not what the child is for.

use std::collections::{BTreeSet, VecDeque};
use std::fmt;
use std::os::unix::process::ExitStatusExt;
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::{ChildStderr, ChildStdin, ChildStdout, Command};
use tokio::sync::watch;

use super::orphan_reaper;
use super::secret::Secrets;

/// The time between SIGTERM and SIGKILL.
pub const TERM_GRACE: Duration = Duration::from_secs(1);
/// How long pipes are read after the group has exited; a process that left the group may hold them open
/// longer.
pub const DRAIN_TIMEOUT: Duration = Duration::from_secs(1);
/// How much of the end of a child's stderr is kept for error messages.
const TAIL_BYTES: usize = 4 * 1024;
/// A longer line of a child's stderr is logged in pieces.
const LOG_LINE_BYTES: usize = 2 * 1024;

/// Identifies a process by pid and start time, so that a later process with the same pid is not mistaken for
/// it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcessIdentity {
    pub pid: u32,
    /// Field 22 of `/proc/<pid>/stat`: clock ticks since boot. 0 where there is no such file.
    pub start_time: u64,
}

/// The variable that tells a command's processes which process started them.
pub const PARENT_VARIABLE: &str = "ACTBOOK_PARENT";
/// The variable that marks all processes of a server, even those that leave its group.
const SERVER_VARIABLE: &str = "ACTBOOK_SERVER";

impl fmt::Display for ProcessIdentity {
    /// `PID START_TIME`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.pid, self.start_time)
    }
}

impl ProcessIdentity {
    /// The identity of the current process.
    pub fn current() -> Self {
        Self::from_pid(std::process::id())
    }

    /// The identity of the process that has this pid; start time 0 if there is none. Short enough for an
    /// async thread: the kernel answers from memory.
    fn from_pid(pid: u32) -> Self {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        Self { pid, start_time: start_time(&stat).unwrap_or(0) }
    }
}

/// The start time in the text of `/proc/<pid>/stat`; None if the text is malformed. The name in field 2 may
/// contain spaces and parentheses, so fields are counted after the last parenthesis.
fn start_time(stat: &str) -> Option<u64> {
    let (_, after_name) = stat.rsplit_once(')')?;
    after_name.split_ascii_whitespace().nth(19)?.parse().ok()
}

/// The pids of the running group leaders, for killing all groups when this process must exit at once.
static GROUP_LEADERS: Mutex<BTreeSet<u32>> = Mutex::new(BTreeSet::new());

/// Kills every group that this process started, and the processes of its servers that left their groups.
pub fn kill_child_processes() {
    GROUP_LEADERS.lock().iter().for_each(|leader| signal_group(*leader, Signal::KILL));
    let mark = format!("{SERVER_VARIABLE}={} ", ProcessIdentity::current());
    kill_groups_where(|variable| variable.starts_with(mark.as_bytes()));
}

/// A process group and the exit status of its leader, once that has exited. Killed when dropped.
#[derive(Debug)]
pub struct ProcessGroup {
    pub process: ProcessIdentity,
    exit_status: watch::Receiver<Option<ExitStatus>>,
}

/// The pipes to a child's standard streams.
#[derive(Debug)]
pub struct ChildPipes {
    pub stdin: ChildStdin,
    pub stdout: ChildStdout,
    pub stderr: ChildStderr,
}

/// Starts a server like a command, but with a marker variable in its environment: processes that left the
/// group are found by it and killed too. A command may leave a daemon behind on purpose; a stopped server may
/// not.
pub fn spawn_server(command: &mut Command) -> std::io::Result<(ProcessGroup, ChildPipes)> {
    static SERVERS: AtomicU64 = AtomicU64::new(0);
    let mark = format!("{} {}", ProcessIdentity::current(), SERVERS.fetch_add(1, Ordering::Relaxed));
    command.env(SERVER_VARIABLE, &mark);
    spawn_group(command, Some(mark))
}

/// Starts a command as the leader of a new process group, with pipes for all three standard streams.
pub fn spawn_command(command: &mut Command) -> std::io::Result<(ProcessGroup, ChildPipes)> {
    spawn_group(command, None)
}

/// Starts a process group, and a task that kills the rest of the group when the leader exits. `server_mark`:
/// for a server, the value of the variable that marks its processes.
fn spawn_group(
    command: &mut Command,
    server_mark: Option<String>,
) -> std::io::Result<(ProcessGroup, ChildPipes)> {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.process_group(0).kill_on_drop(true).spawn()?;
    let pid = child.id().ok_or_else(|| std::io::Error::other("the child ended while it started"))?;
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let (status_sender, exit_status) = watch::channel(None);
    let process = ProcessIdentity::from_pid(pid);
    GROUP_LEADERS.lock().insert(pid);
    if server_mark.is_some() {
        orphan_reaper::register(pid);
    }
    tokio::spawn(async move {
        let status = child.wait().await;
        // Immediately after the leader is reaped: later its pid might be reused.
        signal_group(pid, Signal::KILL);
        GROUP_LEADERS.lock().remove(&pid);
        if let Some(mark) = server_mark {
            orphan_reaper::unregister(pid);
            let killed = tokio::task::spawn_blocking(move || kill_by_variable(SERVER_VARIABLE, &mark)).await;
            if let Err(error) = killed {
                tracing::warn!("processes that left a server's group may still run: {error}");
            }
        }
        status_sender.send_replace(Some(status.unwrap_or_else(|_| unknown_exit_status())));
    });
    let pipes = stdin.zip(stdout).zip(stderr);
    let ((stdin, stdout), stderr) = pipes.expect("all three pipes were asked for and taken once");
    Ok((ProcessGroup { process, exit_status }, ChildPipes { stdin, stdout, stderr }))
}

impl ProcessGroup {
    /// Whether the leader has not exited, or what it left behind is still being killed.
    pub fn is_running(&self) -> bool {
        self.exit_status.borrow().is_none()
    }

    /// Waits until the leader has exited and the rest of its group has been killed; returns the leader's
    /// status.
    pub async fn wait_for_exit(&self) -> ExitStatus {
        let mut exit_status = self.exit_status.clone();
        let received = exit_status.wait_for(Option::is_some).await;
        received.ok().and_then(|status| *status).unwrap_or_else(unknown_exit_status)
    }

    /// Runs `work`, such as reading a pipe, until it is done or `DRAIN_TIMEOUT` after the group has exited: a
    /// process that left the group may hold the pipe open. The future does not borrow the group.
    pub fn run_until_exit<W>(&self, work: W) -> impl Future<Output = ()> + Send + use<W>
    where
        W: Future<Output = ()> + Send,
    {
        let mut exit_status = self.exit_status.clone();
        async move {
            let exited = async {
                // An error means that the sender was dropped, which counts as an exit too.
                drop(exit_status.wait_for(Option::is_some).await);
                tokio::time::sleep(DRAIN_TIMEOUT).await;
            };
            tokio::select! {
                () = work => {}
                () = exited => tracing::debug!("a process that left its group still holds the output open"),
            }
        }
    }

    /// A handle that can kill the group but does not own it.
    pub fn killer(&self) -> GroupKiller {
        GroupKiller { pid: self.process.pid, exit_status: self.exit_status.clone() }
    }

    /// Sends SIGTERM to the group if its leader runs.
    pub fn terminate(&self) {
        if self.is_running() {
            signal_group(self.process.pid, Signal::TERM);
        }
    }

    /// Sends SIGKILL to the group if its leader runs.
    pub fn kill(&self) {
        if self.is_running() {
            signal_group(self.process.pid, Signal::KILL);
        }
    }

    /// Sends SIGTERM, after `TERM_GRACE` SIGKILL; returns the leader's status when nothing of the group is
    /// left.
    pub async fn terminate_then_kill(&self) -> ExitStatus {
        self.terminate();
        match tokio::time::timeout(TERM_GRACE, self.wait_for_exit()).await {
            Ok(status) => status,
            Err(_) => {
                self.kill();
                self.wait_for_exit().await
            }
        }
    }
}

/// Kills a group without owning it. Dropping it does nothing.
#[derive(Clone, Debug)]
pub struct GroupKiller {
    pid: u32,
    exit_status: watch::Receiver<Option<ExitStatus>>,
}

impl GroupKiller {
    /// Sends SIGKILL to the group if its leader runs.
    pub fn kill(&self) {
        if self.exit_status.borrow().is_none() {
            signal_group(self.pid, Signal::KILL);
        }
    }
}

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Signals the group of a leader; a group that no longer exists is no error.
fn signal_group(leader: u32, signal: Signal) {
    let group = i32::try_from(leader).ok().and_then(Pid::from_raw);
    if let Some(group) = group
        && let Err(error) = kill_process_group(group, signal)
        && error != rustix::io::Errno::SRCH
    {
        tracing::warn!(leader, %error, "cannot signal a process group");
    }
}

/// The status of a child whose exit could not be observed: neither an exit code nor a signal. The default
/// status would mean success.
fn unknown_exit_status() -> ExitStatus {
    const STOPPED: i32 = 0x7f;
    ExitStatus::from_raw(STOPPED)
}

/// The exit as the rest of a sentence: `exited with code 1`.
pub fn describe_exit(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exited with code {code}"),
        (None, Some(signal)) => format!("was killed by signal {signal}"),
        (None, None) => "ended with an unknown status".to_owned(),
    }
}

/// The last bytes of a child's stderr. Clones share them.
#[derive(Clone, Debug)]
pub struct StderrTail {
    last: Arc<Mutex<LastBytes>>,
    /// True once stderr has been read to its end.
    complete: watch::Sender<bool>,
}

/// The last bytes of a child's stderr, `TAIL_BYTES` at most.
#[derive(Debug, Default)]
struct LastBytes {
    bytes: VecDeque<u8>,
    /// Earlier bytes were discarded.
    truncated: bool,
}

impl Default for StderrTail {
    /// An empty tail that is not complete.
    fn default() -> Self {
        Self { last: Arc::default(), complete: watch::Sender::new(false) }
    }
}

impl StderrTail {
    /// Appends bytes and discards the oldest beyond `TAIL_BYTES`.
    fn push(&self, bytes: &[u8]) {
        let mut last = self.last.lock();
        last.bytes.extend(bytes);
        let excess = last.bytes.len().saturating_sub(TAIL_BYTES);
        last.bytes.drain(..excess);
        last.truncated |= excess > 0;
    }

    /// For a child that has exited: the text once stderr has been read to its end, at most `DRAIN_TIMEOUT`
    /// later.
    pub async fn wait_for_text(&self) -> String {
        let mut complete = self.complete.subscribe();
        let read = complete.wait_for(|complete| *complete);
        if tokio::time::timeout(DRAIN_TIMEOUT, read).await.is_err() {
            tracing::debug!("a process outside the group still holds the child's stderr open");
        }
        self.text()
    }

    /// The text so far, trimmed. After truncation it begins at a whole word: redaction would not recognise
    /// half a secret.
    pub fn text(&self) -> String {
        let last = self.last.lock();
        let bytes: Vec<u8> = last.bytes.iter().copied().collect();
        let text = String::from_utf8_lossy(&bytes);
        let whole = match text.split_once(char::is_whitespace) {
            Some((_, whole)) if last.truncated => whole,
            Some(_) | None => &text,
        };
        whole.trim().to_owned()
    }
}

/// Reads a child's stderr to its end, so that the child never blocks on it. Keeps the tail, and logs the
/// redacted lines under the child's name.
pub async fn drain_stderr(
    name: String,
    mut stderr: impl AsyncRead + Unpin,
    tail: StderrTail,
    secrets: Secrets,
) {
    let mut chunk = [0; 8 * 1024];
    let mut line = Vec::new();
    while let Ok(count @ 1..) = stderr.read(&mut chunk).await {
        tail.push(&chunk[..count]);
        for byte in &chunk[..count] {
            if *byte == b'\n' || line.len() == LOG_LINE_BYTES {
                log_line(&name, &mut line, &secrets);
            }
            if *byte != b'\n' {
                line.push(*byte);
            }
        }
    }
    log_line(&name, &mut line, &secrets);
    tail.complete.send_replace(true);
}

/// Logs one line of a child's stderr, redacted, and clears it; an empty line is not logged.
fn log_line(name: &str, line: &mut Vec<u8>, secrets: &Secrets) {
    let mut text = String::from_utf8_lossy(line).into_owned();
    line.clear();
    secrets.redact_text(&mut text);
    if !text.trim().is_empty() {
        tracing::debug!(server = name, "{}", text.trim_end());
    }
}

impl ProcessIdentity {
    /// Kills the group of this leader, which has exited. A group's id is not reused while the group exists,
    /// so it is safe unless another process has this pid; then nothing is killed.
    pub fn kill_group(self) {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.pid));
        let is_reused = stat.is_ok_and(|stat| start_time(&stat) != Some(self.start_time));
        if !is_reused {
            signal_group(self.pid, Signal::KILL);
        }
    }

    /// Kills all commands that this process, which has exited, had started for calls. If it died between
    /// starting a command and recording its pid, only the environment variable identifies the command.
    /// Blocks.
    pub fn kill_started_processes(self) {
        kill_by_variable(PARENT_VARIABLE, &self.to_string());
    }
}

/// Kills the group of every process that has `variable=value` in its environment. Blocks: it reads a file for
/// each process of the machine.
fn kill_by_variable(variable: &str, value: &str) {
    let mark = format!("{variable}={value}");
    kill_groups_where(|variable| variable == mark.as_bytes());
}

/// Kills the group of every process with a matching `NAME=value` in its environment, except the own group.
/// Blocks.
fn kill_groups_where(is_mark: impl Fn(&[u8]) -> bool) {
    let own = rustix::process::getpgrp();
    let marked = |pid: &u32| {
        let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(&is_mark)
    };
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    for pid in pids.filter(marked) {
        let group = i32::try_from(pid).ok().and_then(Pid::from_raw);
        let group = group.and_then(|pid| rustix::process::getpgid(Some(pid)).ok());
        if let Some(group) = group.filter(|group| *group != own) {
            signal_group(group.as_raw_nonzero().get().unsigned_abs(), Signal::KILL);
        }
    }
}
