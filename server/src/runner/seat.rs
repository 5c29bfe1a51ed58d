//! The seat file: one per process, on local disk, locked for life. Immediately before a call is sent a
//! line about it is written here, unsynced: it survives the process, not the machine, and that is
//! exactly what is needed to tell "never sent" from "nobody knows".

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use actbook_engine::execution::{CallId, CallKind, Execution, due};
use rustix::fs::{FlockOperation, flock};

use crate::tools::ChildProcess;

/// How long a dead process's file is kept as proof.
const KEPT: std::time::Duration = std::time::Duration::from_secs(30 * 24 * 3600);

#[derive(Debug)]
pub struct Seat {
    folder: PathBuf,
    id: String,
    boot: String,
    host: String,
    file: Mutex<File>,
    /// Something was left open, about which the file says whether it was sent.
    proves: AtomicBool,
}

/// What can be concluded about another process's calls.
#[derive(Debug)]
pub enum Proof {
    /// Its lock is held.
    Alive,
    /// It is gone, in this boot, and this is all that it can have sent.
    Sent(Arc<Sent>),
    /// No file, another boot: nothing can be concluded.
    None,
}

/// The calls that a dead process may have sent, and the children it may have left.
#[derive(Debug)]
pub struct Sent {
    process: Option<ChildProcess>,
    /// With the child that was noted for each, if one was.
    calls: BTreeMap<String, Option<ChildProcess>>,
}

impl Seat {
    pub fn take(folder: &Path) -> io::Result<Self> {
        std::fs::create_dir_all(folder)?;
        sweep(folder);
        let id = crate::random::id();
        let boot = boot_id();
        let mut file = OpenOptions::new().create_new(true).append(true).read(true).open(folder.join(&id))?;
        flock(&file, FlockOperation::NonBlockingLockExclusive)?;
        file.write_all(format!("boot {boot}\nprocess {}\n", ChildProcess::this()).as_bytes())?;
        let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_else(|_| "unknown".into());
        let host = host.trim().to_owned();
        Ok(Self {
            folder: folder.to_owned(),
            id,
            boot,
            host,
            file: Mutex::new(file),
            proves: AtomicBool::new(false),
        })
    }

    pub fn id(&self) -> &str {
        &self.id
    }

    pub fn boot(&self) -> &str {
        &self.boot
    }

    pub fn host(&self) -> &str {
        &self.host
    }

    /// One write, no sync, before the first byte leaves. A seat that cannot be written must not send.
    pub fn sending(&self, stream: u64, call: CallId, child: Option<ChildProcess>) -> io::Result<()> {
        let mark = Mark(stream, call);
        let line = match child {
            Some(child) => format!("sent {mark} {child}\n"),
            None => format!("sent {mark}\n"),
        };
        let mut file = self.file.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        file.write_all(line.as_bytes())
    }

    pub fn keep_as_proof(&self) {
        self.proves.store(true, Ordering::Relaxed);
    }

    pub fn proof(&self, other: &str) -> Proof {
        let well_formed = other.bytes().all(|byte| byte.is_ascii_alphanumeric());
        let opened = OpenOptions::new().read(true).open(self.folder.join(other));
        let Ok(mut file) =
            opened.and_then(|file| if well_formed { Ok(file) } else { Err(io::ErrorKind::NotFound.into()) })
        else {
            return Proof::None;
        };
        if flock(&file, FlockOperation::NonBlockingLockShared).is_err() {
            return Proof::Alive;
        }
        let mut text = String::new();
        match file.read_to_string(&mut text) {
            Ok(_) if text.starts_with(&format!("boot {}\n", self.boot)) => {
                Proof::Sent(Arc::new(Sent::parse(&text)))
            }
            Ok(_) | Err(_) => Proof::None,
        }
    }
}

/// Whether the process of a seat has certainly left: its file lies here and nobody holds the lock.
pub fn is_gone(folder: &Path, seat: &str) -> bool {
    let well_formed = seat.bytes().all(|byte| byte.is_ascii_alphanumeric());
    let opened = OpenOptions::new().read(true).open(folder.join(seat));
    well_formed && opened.is_ok_and(|file| flock(&file, FlockOperation::NonBlockingLockShared).is_ok())
}

impl Drop for Seat {
    fn drop(&mut self) {
        if self.proves.load(Ordering::Relaxed) {
            return;
        }
        if let Err(error) = std::fs::remove_file(self.folder.join(&self.id)) {
            tracing::debug!("the seat file stays behind: {error}");
        }
    }
}

impl Sent {
    fn parse(text: &str) -> Self {
        let process = text.lines().find_map(|line| line.strip_prefix("process ")).and_then(child);
        let mut calls = BTreeMap::new();
        for line in text.lines().filter_map(|line| line.strip_prefix("sent ")) {
            let (call, rest) = line.split_once(' ').unwrap_or((line, ""));
            calls.insert(call.to_owned(), child(rest));
        }
        Self { process, calls }
    }

    /// The open calls of an execution that are certainly not among those sent.
    pub fn unsent(&self, stream: u64, execution: &Execution) -> BTreeSet<CallId> {
        let open = due(execution).calls.into_iter().map(|call| call.id);
        open.filter(|call| !self.calls.contains_key(&Mark(stream, *call).to_string())).collect()
    }

    /// Ends what the dead process has left running. A start time tells a child from a later process
    /// that was given the same number. Where this very process left the seat, others in it live on.
    pub fn end_children(&self) {
        self.calls.values().flatten().for_each(|child| child.kill_group());
        let gone = self.process.filter(|process| *process != ChildProcess::this());
        if let (Some(process), true) = (gone, self.calls.values().any(Option::is_none)) {
            process.kill_started();
        }
    }
}

fn child(words: &str) -> Option<ChildProcess> {
    let (pid, start_time) = words.split_once(' ')?;
    Some(ChildProcess { pid: pid.parse().ok()?, start_time: start_time.parse().ok()? })
}

/// Proofs of processes that died long ago serve nobody: without one, calls that were open are unknown.
fn sweep(folder: &Path) {
    let old = |file: &std::fs::DirEntry| {
        let age = file.metadata().and_then(|data| data.modified()).ok().and_then(|at| at.elapsed().ok());
        age.is_some_and(|age| age > KEPT)
    };
    let dead = |path: &Path| {
        File::open(path).is_ok_and(|file| flock(&file, FlockOperation::NonBlockingLockShared).is_ok())
    };
    for file in std::fs::read_dir(folder).into_iter().flatten().flatten().filter(old) {
        if dead(&file.path())
            && let Err(error) = std::fs::remove_file(file.path())
        {
            tracing::debug!("an old seat file stays behind: {error}");
        }
    }
}

/// By which a call is known in the file.
struct Mark(u64, CallId);

impl fmt::Display for Mark {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(stream, call) = self;
        let kind = match call.kind {
            CallKind::Run => "run",
            CallKind::Probe => "probe",
            CallKind::Compensation => "undo",
        };
        write!(to, "{stream}/{}/{kind}/{}", call.step.0, call.no)
    }
}

fn boot_id() -> String {
    let id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id");
    id.map_or_else(|_| "unknown".into(), |id| id.trim().to_owned())
}
