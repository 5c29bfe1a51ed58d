//! Child processes, each leading a process group of its own, so that whatever it starts can be ended
//! with it. Knows how to start, name, watch and end a group; not what the child is for.

use std::collections::{BTreeSet, VecDeque};
use std::fmt;
use std::os::unix::process::ExitStatusExt;
use std::process::{ExitStatus, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::{ChildStderr, ChildStdin, ChildStdout, Command};
use tokio::sync::watch;

use super::guard;
use super::secret::Secrets;

/// Between asking a group to end and ending it.
pub const TERM_GRACE: Duration = Duration::from_secs(1);
/// After a group has ended its pipes close; a process that fled the group may hold them longer.
pub const DRAIN_LIMIT: Duration = Duration::from_secs(1);
/// How much of a child's last words is kept for error messages.
const TAIL_BYTES: usize = 4 * 1024;
/// A longer line of a child's stderr is logged in pieces.
const LOG_LINE_BYTES: usize = 2 * 1024;

/// A process that cannot be mistaken for a later one with the same number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChildProcess {
    pub pid: u32,
    /// Field 22 of `/proc/<pid>/stat`: clock ticks since boot. 0 where there is no such file.
    pub start_time: u64,
}

/// Names, to whatever is started for a call, the process that started it.
pub const PARENT_VARIABLE: &str = "ACTBOOK_PARENT";
/// Marks all that a server starts, wherever it goes.
const SERVER_VARIABLE: &str = "ACTBOOK_SERVER";

impl fmt::Display for ChildProcess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.pid, self.start_time)
    }
}

impl ChildProcess {
    pub fn this() -> Self {
        Self::of(std::process::id())
    }

    fn of(pid: u32) -> Self {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        Self { pid, start_time: start_time(&stat).unwrap_or(0) }
    }
}

/// The name in field 2 may hold spaces and parentheses, so fields are counted after its last one.
fn start_time(stat: &str) -> Option<u64> {
    let (_, after_name) = stat.rsplit_once(')')?;
    after_name.split_ascii_whitespace().nth(19)?.parse().ok()
}

/// The leaders of the groups that run, for a process that must leave at once.
static LEADERS: Mutex<BTreeSet<u32>> = Mutex::new(BTreeSet::new());

fn leaders() -> MutexGuard<'static, BTreeSet<u32>> {
    LEADERS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Kills every group that this process started, and whatever of its servers fled from them.
pub fn kill_child_processes() {
    leaders().iter().for_each(|leader| signal(*leader, Signal::KILL));
    let mark = format!("{SERVER_VARIABLE}={} ", ChildProcess::this());
    kill_where(|variable| variable.starts_with(mark.as_bytes()));
}

/// A running group. Dropped, it is ended at once.
#[derive(Debug)]
pub struct Group {
    pub process: ChildProcess,
    ended: watch::Receiver<Option<ExitStatus>>,
}

#[derive(Debug)]
pub struct Pipes {
    pub stdin: ChildStdin,
    pub stdout: ChildStdout,
    pub stderr: ChildStderr,
}

/// Starts a server: as a command is started, but marked, so that what fled its group is found by the mark
/// and ended with it. A command may leave a daemon behind on purpose; a server that was stopped may not.
pub fn start_server(command: &mut Command) -> std::io::Result<(Group, Pipes)> {
    static SERVERS: AtomicU64 = AtomicU64::new(0);
    let mark = format!("{} {}", ChildProcess::this(), SERVERS.fetch_add(1, Ordering::Relaxed));
    command.env(SERVER_VARIABLE, &mark);
    start_with(command, Some(mark))
}

/// Starts the command as the leader of a group of its own, all three pipes in our hands.
pub fn start(command: &mut Command) -> std::io::Result<(Group, Pipes)> {
    start_with(command, None)
}

/// `server_mark`: what a server's processes are found by.
fn start_with(command: &mut Command, server_mark: Option<String>) -> std::io::Result<(Group, Pipes)> {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.process_group(0).kill_on_drop(true).spawn()?;
    let pid = child.id().ok_or_else(|| std::io::Error::other("the child ended while it started"))?;
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let (report, ended) = watch::channel(None);
    let process = ChildProcess::of(pid);
    leaders().insert(pid);
    if server_mark.is_some() {
        guard::watch(pid);
    }
    tokio::spawn(async move {
        let status = child.wait().await;
        // At once after the leader is reaped: later its number might belong to somebody else.
        signal(pid, Signal::KILL);
        leaders().remove(&pid);
        if let Some(mark) = server_mark {
            guard::forget(pid);
            kill_marked(SERVER_VARIABLE, &mark);
        }
        report.send_replace(Some(status.unwrap_or_else(|_| lost())));
    });
    let pipes = stdin.zip(stdout).zip(stderr);
    let ((stdin, stdout), stderr) = pipes.expect("all three pipes were asked for and taken once");
    Ok((Group { process, ended }, Pipes { stdin, stdout, stderr }))
}

impl Group {
    pub fn is_running(&self) -> bool {
        self.ended.borrow().is_none()
    }

    /// The leader has ended, and so has every leftover of its group.
    pub async fn ended(&self) -> ExitStatus {
        let mut ended = self.ended.clone();
        let seen = ended.wait_for(Option::is_some).await;
        seen.ok().and_then(|status| *status).unwrap_or_else(lost)
    }

    /// Reading its output, say: nothing more comes of it soon after the group has ended, though a process
    /// that fled may hold the pipe open.
    pub fn while_it_lasts<W>(&self, work: W) -> impl Future<Output = ()> + Send + use<W>
    where
        W: Future<Output = ()> + Send,
    {
        let mut ended = self.ended.clone();
        async move {
            let over = async {
                // An error means that nobody will tell, which is an end too.
                drop(ended.wait_for(Option::is_some).await);
                tokio::time::sleep(DRAIN_LIMIT).await;
            };
            tokio::select! {
                () = work => {}
                () = over => tracing::debug!("a process that fled its group still holds its output"),
            }
        }
    }

    pub fn killer(&self) -> GroupKiller {
        GroupKiller { pid: self.process.pid, ended: self.ended.clone() }
    }

    pub fn ask_to_end(&self) {
        if self.is_running() {
            signal(self.process.pid, Signal::TERM);
        }
    }

    pub fn kill(&self) {
        if self.is_running() {
            signal(self.process.pid, Signal::KILL);
        }
    }

    /// Asks, waits a moment, then kills; returns when nothing of the group is left.
    pub async fn end(&self) -> ExitStatus {
        self.ask_to_end();
        match tokio::time::timeout(TERM_GRACE, self.ended()).await {
            Ok(status) => status,
            Err(_) => {
                self.kill();
                self.ended().await
            }
        }
    }
}

/// Ends a group from elsewhere than its owner, who may be waiting for it. Does not keep it alive.
#[derive(Clone, Debug)]
pub struct GroupKiller {
    pid: u32,
    ended: watch::Receiver<Option<ExitStatus>>,
}

impl GroupKiller {
    pub fn kill(&self) {
        if self.ended.borrow().is_none() {
            signal(self.pid, Signal::KILL);
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.kill();
    }
}

fn signal(leader: u32, signal: Signal) {
    let group = i32::try_from(leader).ok().and_then(Pid::from_raw);
    if let Some(group) = group
        && let Err(error) = kill_process_group(group, signal)
        && error != rustix::io::Errno::SRCH
    {
        tracing::warn!(leader, %error, "cannot signal a process group");
    }
}

/// How a child ended that nobody could wait for. Neither an exit code nor a signal: the default status
/// would be a success.
fn lost() -> ExitStatus {
    const STOPPED: i32 = 0x7f;
    ExitStatus::from_raw(STOPPED)
}

pub fn describe(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exited with code {code}"),
        (None, Some(signal)) => format!("was killed by signal {signal}"),
        (None, None) => "ended, nobody knows how".to_owned(),
    }
}

/// The last words of a child.
#[derive(Clone, Debug)]
pub struct Tail {
    last: Arc<Mutex<LastBytes>>,
    complete: watch::Sender<bool>,
}

#[derive(Debug, Default)]
struct LastBytes {
    bytes: VecDeque<u8>,
    cut: bool,
}

impl Default for Tail {
    fn default() -> Self {
        Self { last: Arc::default(), complete: watch::Sender::new(false) }
    }
}

impl Tail {
    fn push(&self, bytes: &[u8]) {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        last.bytes.extend(bytes);
        let excess = last.bytes.len().saturating_sub(TAIL_BYTES);
        last.bytes.drain(..excess);
        last.cut |= excess > 0;
    }

    /// For a child that has ended: all that it said, once that has been read.
    pub async fn whole(&self) -> String {
        let mut complete = self.complete.subscribe();
        let read = complete.wait_for(|complete| *complete);
        if tokio::time::timeout(DRAIN_LIMIT, read).await.is_err() {
            tracing::debug!("a process outside the group still holds the child's stderr");
        }
        self.text()
    }

    /// Begins at a whole word: half a secret at the cut would not be recognised as one.
    pub fn text(&self) -> String {
        let last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let bytes: Vec<u8> = last.bytes.iter().copied().collect();
        let text = String::from_utf8_lossy(&bytes);
        let whole = match text.split_once(char::is_whitespace) {
            Some((_, whole)) if last.cut => whole,
            Some(_) | None => &text,
        };
        whole.trim().to_owned()
    }
}

/// Reads a child's stderr to its end, so that the child never blocks on it: the tail is kept, lines
/// go to the log under the child's name, secrets struck out.
pub async fn drain_stderr(name: String, mut stderr: impl AsyncRead + Unpin, tail: Tail, secrets: Secrets) {
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

fn log_line(name: &str, line: &mut Vec<u8>, secrets: &Secrets) {
    let mut text = String::from_utf8_lossy(line).into_owned();
    line.clear();
    secrets.redact_text(&mut text);
    if !text.trim().is_empty() {
        tracing::debug!(server = name, "{}", text.trim_end());
    }
}

impl ChildProcess {
    /// Ends what a process that is gone has left running. While a group lives its number is not given
    /// away, so only another process with this number forbids it.
    pub fn kill_group(self) {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.pid));
        let somebody_else = stat.is_ok_and(|stat| start_time(&stat) != Some(self.start_time));
        if !somebody_else {
            signal(self.pid, Signal::KILL);
        }
    }

    /// Ends whatever this process, which is gone, had started for calls: a process that died between
    /// starting a command and noting its number has left nothing else to find it by.
    pub fn kill_started(self) {
        kill_marked(PARENT_VARIABLE, &self.to_string());
    }
}

/// Ends the group of every process that has this in its environment.
fn kill_marked(variable: &str, value: &str) {
    let mark = format!("{variable}={value}");
    kill_where(|variable| variable == mark.as_bytes());
}

/// Ends the group of every process in whose environment such a variable stands.
fn kill_where(is_mark: impl Fn(&[u8]) -> bool) {
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
            signal(group.as_raw_nonzero().get().unsigned_abs(), Signal::KILL);
        }
    }
}
