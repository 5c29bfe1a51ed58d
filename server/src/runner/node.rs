//! The node file: one for each process, on local disk, locked until the process exits. Immediately before a
//! call is sent, a line about it is written here without a sync: the line survives a crash of the process
//! but not of the machine. It tells calls that were certainly never sent from calls that are unknown.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use actbook_engine::execution::{CallId, CallKind, Execution, due, open_session_calls};
use actbook_engine::id::StreamId;
use parking_lot::Mutex;
use rustix::fs::{FlockOperation, flock};

use crate::tools::ProcessIdentity;

/// How long the file of an exited process is kept.
const FILE_KEPT_FOR: std::time::Duration = std::time::Duration::from_secs(30 * 24 * 3600);

/// This process's node file, under an exclusive lock.
#[derive(Debug)]
pub struct NodeLock {
    folder: PathBuf,
    id: String,
    boot: String,
    host: String,
    file: Mutex<File>,
    /// The file must outlive the process: attempts stay open of which it tells whether they were sent.
    keep_file: AtomicBool,
    /// Where this process serves HTTP, once it does.
    served_url: Arc<OnceLock<String>>,
}

/// What the node file of another process says about it.
#[derive(Debug)]
pub enum NodeStatus {
    /// The lock is held, so the process runs.
    Alive,
    /// The process has exited in this boot, and can have sent no other calls than these.
    Exited(Arc<SentCalls>),
    /// There is no file here, or it is from another boot: nothing can be concluded.
    Undetermined,
}

/// The calls that an exited process may have sent, and the child processes that it may have left running.
#[derive(Debug)]
pub struct SentCalls {
    process: Option<ProcessIdentity>,
    /// By `CallMark`, with the child process that runs the call, if one does.
    calls: BTreeMap<String, Option<ProcessIdentity>>,
}

impl NodeLock {
    /// Creates and locks a new node file, after removing the files of exited processes that were last written
    /// more than `FILE_KEPT_FOR` ago. Blocks.
    pub fn acquire(folder: &Path) -> io::Result<Self> {
        std::fs::create_dir_all(folder)?;
        remove_old_files(folder);
        let id = crate::random::id();
        let boot = read_boot_id();
        let mut file = OpenOptions::new().create_new(true).append(true).read(true).open(folder.join(&id))?;
        flock(&file, FlockOperation::NonBlockingLockExclusive)?;
        file.write_all(format!("boot {boot}\nprocess {}\n", ProcessIdentity::current()).as_bytes())?;
        let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_else(|_| "unknown".into());
        let host = host.trim().to_owned();
        Ok(Self {
            folder: folder.to_owned(),
            id,
            boot,
            host,
            file: Mutex::new(file),
            keep_file: AtomicBool::new(false),
            served_url: Arc::default(),
        })
    }

    /// The id of the node (one runner in one process), which is also the name of its lock file.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The kernel's boot id.
    pub fn boot_id(&self) -> &str {
        &self.boot
    }

    pub fn host(&self) -> &str {
        &self.host
    }

    /// Where this process serves HTTP, once it does. Clones share the cell.
    pub fn served_url(&self) -> &Arc<OnceLock<String>> {
        &self.served_url
    }

    /// Writes a line that the call is about to be sent: one write, no sync, so short enough for an async
    /// thread. On `Err` it must not be sent.
    pub fn record_sending(
        &self,
        stream: StreamId,
        call: CallId,
        child: Option<ProcessIdentity>,
    ) -> io::Result<()> {
        let mark = CallMark(stream, call);
        let line = match child {
            Some(child) => format!("sent {mark} {child}\n"),
            None => format!("sent {mark}\n"),
        };
        let mut file = self.file.lock();
        file.write_all(line.as_bytes())
    }

    /// Keeps the file when this is dropped, for the node that takes the open attempts over.
    pub fn keep_file_on_drop(&self) {
        self.keep_file.store(true, Ordering::Relaxed);
    }

    /// Reads and tries to lock another node's file. Blocks: the file may be long.
    pub fn status_of(&self, other: &str) -> NodeStatus {
        let Ok(mut file) = open_node_file(&self.folder, other) else { return NodeStatus::Undetermined };
        if flock(&file, FlockOperation::NonBlockingLockShared).is_err() {
            return NodeStatus::Alive;
        }
        let mut text = String::new();
        match file.read_to_string(&mut text) {
            Ok(_) if text.starts_with(&format!("boot {}\n", self.boot)) => {
                NodeStatus::Exited(Arc::new(SentCalls::parse(&text)))
            }
            Ok(_) | Err(_) => NodeStatus::Undetermined,
        }
    }
}

/// Whether the process of a node has certainly exited: its file is in the folder and not locked. Short enough
/// for an async thread: opens a local file, and reads nothing.
pub fn node_has_exited(folder: &Path, node: &str) -> bool {
    let opened = open_node_file(folder, node);
    opened.is_ok_and(|file| flock(&file, FlockOperation::NonBlockingLockShared).is_ok())
}

/// Opens a node's file. The id comes from the database; one that is no id of ours is not opened, since it may
/// lead out of the folder.
fn open_node_file(folder: &Path, node: &str) -> io::Result<File> {
    if node.is_empty() || !node.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        return Err(io::ErrorKind::NotFound.into());
    }
    OpenOptions::new().read(true).open(folder.join(node))
}

impl Drop for NodeLock {
    fn drop(&mut self) {
        if self.keep_file.load(Ordering::Relaxed) {
            return;
        }
        if let Err(error) = std::fs::remove_file(self.folder.join(&self.id)) {
            tracing::debug!("the node file could not be removed: {error}");
        }
    }
}

impl SentCalls {
    /// Parses the `process` and `sent` lines of a node file; others are ignored.
    fn parse(text: &str) -> Self {
        let process = text.lines().find_map(|line| line.strip_prefix("process ")).and_then(parse_child);
        let mut calls = BTreeMap::new();
        for line in text.lines().filter_map(|line| line.strip_prefix("sent ")) {
            let (call, rest) = line.split_once(' ').unwrap_or((line, ""));
            calls.insert(call.to_owned(), parse_child(rest));
        }
        Self { process, calls }
    }

    /// The open calls that the exited process never sent: its node file has no line about them.
    pub fn unsent(&self, stream: StreamId, execution: &Execution) -> BTreeSet<CallId> {
        let due = due(execution).calls.into_iter().map(|call| call.id);
        let open = due.chain(open_session_calls(execution).map(|(call, _)| call));
        open.filter(|call| !self.calls.contains_key(&CallMark(stream, *call).to_string())).collect()
    }

    /// Kills the child processes that ran the exited node's calls, identified by pid and start time. If a
    /// call has no child on record, kills all commands that the node's process had started, unless that is
    /// this process: its other nodes still use theirs.
    pub fn kill_children(&self) {
        self.calls.values().flatten().for_each(|child| child.kill_group());
        let gone = self.process.filter(|process| *process != ProcessIdentity::current());
        if let (Some(process), true) = (gone, self.calls.values().any(Option::is_none)) {
            process.kill_started_processes();
        }
    }
}

/// Parses `PID START_TIME`.
fn parse_child(text: &str) -> Option<ProcessIdentity> {
    let (pid, start_time) = text.split_once(' ')?;
    Some(ProcessIdentity { pid: pid.parse().ok()?, start_time: start_time.parse().ok()? })
}

/// Removes the files of processes that exited long ago. Calls that are still open then count as unknown.
fn remove_old_files(folder: &Path) {
    let is_old = |file: &std::fs::DirEntry| {
        let age = file.metadata().and_then(|data| data.modified()).ok().and_then(|at| at.elapsed().ok());
        age.is_some_and(|age| age > FILE_KEPT_FOR)
    };
    let has_exited = |path: &Path| {
        File::open(path).is_ok_and(|file| flock(&file, FlockOperation::NonBlockingLockShared).is_ok())
    };
    for file in std::fs::read_dir(folder).into_iter().flatten().flatten().filter(is_old) {
        if has_exited(&file.path())
            && let Err(error) = std::fs::remove_file(file.path())
        {
            tracing::debug!("an old node file could not be removed: {error}");
        }
    }
}

/// A call's name in the file: `STREAM/STEP/KIND/NUMBER`.
struct CallMark(StreamId, CallId);

impl fmt::Display for CallMark {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(stream, call) = self;
        let kind = match call.kind {
            CallKind::Run => "run",
            CallKind::Probe => "probe",
            CallKind::Compensation => "undo",
        };
        write!(to, "{stream}/{}/{kind}/{}", call.step.0, call.index)
    }
}

/// The kernel's boot id, or `unknown` where the system has none.
fn read_boot_id() -> String {
    let id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id");
    id.map_or_else(|_| "unknown".into(), |id| id.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Opening a pipe without a writer would block for ever.
    #[test]
    fn node_id_that_leads_out_of_the_folder_is_not_opened() {
        let outer = tempfile::tempdir().unwrap();
        let folder = outer.path().join("nodes");
        let lock = NodeLock::acquire(&folder).unwrap();
        let made = std::process::Command::new("mkfifo").arg(outer.path().join("pipe")).status().unwrap();
        assert!(made.success());
        let (sender, checked) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            for id in ["../pipe", "", "."] {
                let undetermined = matches!(lock.status_of(id), NodeStatus::Undetermined);
                sender.send((undetermined, node_has_exited(&folder, id))).unwrap();
            }
        });
        let patience = std::time::Duration::from_secs(30);
        for _ in 0..3 {
            assert_eq!(checked.recv_timeout(patience), Ok((true, false)));
        }
    }
}
