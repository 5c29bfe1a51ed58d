//! Parses an strace log into disk events, in order. A write counts from its start, because it may reach the
//! disk from then on; a sync counts only once it has returned.

use std::collections::HashMap;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};

/// strace options; they trace every system call that changes a file or folder.
pub const OPTIONS: [&str; 9] = [
    "-f",
    "-y",
    "-xx",
    "-s",
    "1000000",
    "--seccomp-bpf",
    "-qq",
    "-e",
    "trace=openat,creat,write,writev,pwrite64,pwritev,pwritev2,fsync,fdatasync,sync_file_range,msync,\
     ftruncate,truncate,fallocate,copy_file_range,sendfile,unlink,unlinkat,rename,renameat,renameat2,\
     mkdir,mkdirat,link,linkat,symlink,symlinkat",
];

#[derive(Debug)]
pub enum TraceEvent {
    CreateFolder(PathBuf),
    CreateFile(PathBuf),
    Removed(PathBuf),
    Write {
        file: PathBuf,
        at: usize,
        bytes: Vec<u8>,
    },
    Resize {
        file: PathBuf,
        bytes: usize,
    },
    /// The sync's number and its path: a file (bytes) or a folder (names).
    SyncBegun(usize, PathBuf),
    SyncEnded(usize),
    Emitted(String),
}

/// Returns the events below `root`, without the write-ahead log's shared memory file (`-shm`).
pub fn read_trace(log: &Path, root: &Path) -> Vec<TraceEvent> {
    let mut reader = TraceReader { root, events: Vec::new(), open: HashMap::new(), syncs: 0 };
    for line in BufReader::new(std::fs::File::open(log).unwrap()).lines() {
        reader.read_line(&line.unwrap());
    }
    reader.events
}

struct TraceReader<'a> {
    root: &'a Path,
    events: Vec<TraceEvent>,
    /// By thread: the event of its unfinished call, to be recorded when the call returns.
    open: HashMap<String, Option<TraceEvent>>,
    syncs: usize,
}

/// strace ends a line with this when another thread's call interrupts it.
const UNFINISHED: &str = "<unfinished ...>";

impl TraceReader<'_> {
    fn read_line(&mut self, line: &str) {
        let (thread, call) = line.split_once(' ').expect("strace names the thread first");
        let call = call.trim_start();
        if let Some(result) = call.strip_prefix("<... ") {
            let ending = self.open.remove(thread).flatten();
            self.on_return(ending, result);
        } else if let Some((name, arguments)) = call.split_once('(') {
            // The log was cut off within this line. Ignoring the call can only make the disk lose more than
            // it really did.
            if !arguments.contains(')') && !arguments.ends_with(UNFINISHED) {
                return;
            }
            let ending = self.on_call(name, arguments);
            if arguments.ends_with(UNFINISHED) {
                self.open.insert(thread.to_owned(), ending);
            } else {
                self.on_return(ending, arguments);
            }
        }
    }

    fn on_return(&mut self, ending: Option<TraceEvent>, result: &str) {
        let failed = result.rsplit_once(" = ").is_none_or(|(_, value)| value.starts_with('-'));
        self.events.extend(ending.filter(|_| !failed));
    }

    /// Records the event that counts from the start of the call; returns the one that counts from its return.
    fn on_call(&mut self, name: &str, arguments: &str) -> Option<TraceEvent> {
        let strings = string_arguments(arguments);
        if name == "write" && arguments.starts_with("1<") {
            let text = String::from_utf8_lossy(&strings[0]).into_owned();
            self.events.extend(
                super::helper_process::parse_emitted(&text).map(|line| TraceEvent::Emitted(line.to_owned())),
            );
            return None;
        }
        let given = strings.first().map(|bytes| PathBuf::from(String::from_utf8_lossy(bytes).into_owned()));
        let file = match name {
            "openat" | "unlink" | "mkdir" => given.expect("the call has a path"),
            _ => descriptor_path(arguments),
        };
        let is_disk = file.starts_with(self.root) && !file.to_string_lossy().ends_with("-shm");
        if !is_disk {
            return None;
        }
        match name {
            "openat" if arguments.contains("O_TRUNC") => panic!("an open that truncates: {arguments}"),
            "openat" => arguments.contains("O_CREAT").then_some(TraceEvent::CreateFile(file)),
            "mkdir" => Some(TraceEvent::CreateFolder(file)),
            "unlink" => Some(TraceEvent::Removed(file)),
            "pwrite64" => {
                let [_, at] = number_arguments(arguments)[..] else { panic!("{arguments}") };
                self.events.push(TraceEvent::Write { file, at, bytes: strings[0].clone() });
                None
            }
            "ftruncate" => {
                let [bytes] = number_arguments(arguments)[..] else { panic!("{arguments}") };
                self.events.push(TraceEvent::Resize { file, bytes });
                None
            }
            "fsync" | "fdatasync" => {
                self.syncs += 1;
                self.events.push(TraceEvent::SyncBegun(self.syncs, file));
                Some(TraceEvent::SyncEnded(self.syncs))
            }
            other => panic!("unsupported system call {other}({arguments}"),
        }
    }
}

/// The path that `-y` shows behind a descriptor.
fn descriptor_path(arguments: &str) -> PathBuf {
    let path = arguments.split_once('<').and_then(|(_, rest)| rest.split_once('>'));
    path.map_or_else(PathBuf::new, |(path, _)| String::from_utf8_lossy(&unescape(path)).into_owned().into())
}

fn string_arguments(arguments: &str) -> Vec<Vec<u8>> {
    arguments.split('"').skip(1).step_by(2).map(unescape).collect()
}

/// With `-xx` every byte is written as four characters.
fn unescape(text: &str) -> Vec<u8> {
    let digits = text.split("\\x").skip(1);
    digits.map(|byte| u8::from_str_radix(byte, 16).expect("two digits")).collect()
}

/// The plain numbers behind the descriptor and the string.
fn number_arguments(arguments: &str) -> Vec<usize> {
    let end = arguments.find(')').or(arguments.find(UNFINISHED)).expect("only whole lines are read");
    arguments[..end].split(", ").filter_map(|argument| argument.trim_end().parse().ok()).collect()
}
