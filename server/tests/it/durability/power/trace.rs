//! What strace saw, as events in the order in which they were seen. A write counts from its beginning,
//! for it may reach the disk from then on; a sync counts only once it has returned.

use std::collections::HashMap;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};

/// Everything that changes a file or a folder, so that nothing can slip by unseen.
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
pub enum Event {
    Folder(PathBuf),
    File(PathBuf),
    Removed(PathBuf),
    Write {
        file: PathBuf,
        at: usize,
        bytes: Vec<u8>,
    },
    Length {
        file: PathBuf,
        bytes: usize,
    },
    /// Number and what it syncs: a file's bytes or a folder's names.
    SyncBegun(usize, PathBuf),
    SyncEnded(usize),
    Said(String),
}

/// The events below `root`; the shared memory beside the log is no part of any disk.
pub fn read(log: &Path, root: &Path) -> Vec<Event> {
    let mut reader = Reader { root, events: Vec::new(), open: HashMap::new(), syncs: 0 };
    for line in BufReader::new(std::fs::File::open(log).unwrap()).lines() {
        reader.line(&line.unwrap());
    }
    reader.events
}

struct Reader<'a> {
    root: &'a Path,
    events: Vec<Event>,
    /// What each thread's unfinished call will mean once it has returned.
    open: HashMap<String, Option<Event>>,
    syncs: usize,
}

/// What strace writes behind the arguments where another thread's call came in between.
const UNFINISHED: &str = "<unfinished ...>";

impl Reader<'_> {
    fn line(&mut self, line: &str) {
        let (thread, call) = line.split_once(' ').expect("strace names the thread first");
        let call = call.trim_start();
        if let Some(result) = call.strip_prefix("<... ") {
            let ending = self.open.remove(thread).flatten();
            self.returned(ending, result);
        } else if let Some((name, arguments)) = call.split_once('(') {
            // The tracer was cut off within this line. What it tells of counts as never written, which
            // can only make the disk poorer than it was.
            if !arguments.contains(')') && !arguments.ends_with(UNFINISHED) {
                return;
            }
            let ending = self.called(name, arguments);
            if arguments.ends_with(UNFINISHED) {
                self.open.insert(thread.to_owned(), ending);
            } else {
                self.returned(ending, arguments);
            }
        }
    }

    fn returned(&mut self, ending: Option<Event>, result: &str) {
        let failed = result.rsplit_once(" = ").is_none_or(|(_, value)| value.starts_with('-'));
        self.events.extend(ending.filter(|_| !failed));
    }

    /// Notes what counts from the beginning; gives what counts from the return.
    fn called(&mut self, name: &str, arguments: &str) -> Option<Event> {
        let strings = strings(arguments);
        if name == "write" && arguments.starts_with("1<") {
            let text = String::from_utf8_lossy(&strings[0]).into_owned();
            self.events.extend(super::process::spoken(&text).map(|said| Event::Said(said.to_owned())));
            return None;
        }
        let given = strings.first().map(|bytes| PathBuf::from(String::from_utf8_lossy(bytes).into_owned()));
        let file = match name {
            "openat" | "unlink" | "mkdir" => given.expect("it names a path"),
            _ => descriptor(arguments),
        };
        let is_disk = file.starts_with(self.root) && !file.to_string_lossy().ends_with("-shm");
        if !is_disk {
            return None;
        }
        match name {
            "openat" if arguments.contains("O_TRUNC") => panic!("an open that truncates: {arguments}"),
            "openat" => arguments.contains("O_CREAT").then_some(Event::File(file)),
            "mkdir" => Some(Event::Folder(file)),
            "unlink" => Some(Event::Removed(file)),
            "pwrite64" => {
                let [_, at] = numbers(arguments)[..] else { panic!("{arguments}") };
                self.events.push(Event::Write { file, at, bytes: strings[0].clone() });
                None
            }
            "ftruncate" => {
                let [bytes] = numbers(arguments)[..] else { panic!("{arguments}") };
                self.events.push(Event::Length { file, bytes });
                None
            }
            "fsync" | "fdatasync" => {
                self.syncs += 1;
                self.events.push(Event::SyncBegun(self.syncs, file));
                Some(Event::SyncEnded(self.syncs))
            }
            other => panic!("the disk does not know {other}({arguments}"),
        }
    }
}

/// The path that `-y` shows behind a descriptor.
fn descriptor(arguments: &str) -> PathBuf {
    let path = arguments.split_once('<').and_then(|(_, rest)| rest.split_once('>'));
    path.map_or_else(PathBuf::new, |(path, _)| String::from_utf8_lossy(&unescape(path)).into_owned().into())
}

fn strings(arguments: &str) -> Vec<Vec<u8>> {
    arguments.split('"').skip(1).step_by(2).map(unescape).collect()
}

/// With `-xx` every byte is written as four characters.
fn unescape(text: &str) -> Vec<u8> {
    let digits = text.split("\\x").skip(1);
    digits.map(|byte| u8::from_str_radix(byte, 16).expect("two digits")).collect()
}

/// The plain numbers behind the descriptor and the string.
fn numbers(arguments: &str) -> Vec<usize> {
    let end = arguments.find(')').or(arguments.find(UNFINISHED)).expect("only whole lines are read");
    arguments[..end].split(", ").filter_map(|argument| argument.trim_end().parse().ok()).collect()
}
