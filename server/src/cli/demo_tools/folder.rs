//! The one folder where the demo tools have their effects, and the confinement to it.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Component, Path, PathBuf};

use serde_json::{Map, Value, json};

/// Every effectful call leaves a line here before it acts: what a test counts from outside.
const CALLS_LOG: &str = ".calls.log";
const NUMBERS: &str = ".numbers.json";
const LOCK: &str = ".lock";
const OWN_FILES: [&str; 3] = [CALLS_LOG, NUMBERS, LOCK];
const READ_BYTES_MAX: u64 = 1024 * 1024;
const LISTED_MAX: usize = 10_000;

pub struct Folder {
    root: PathBuf,
}

type Answer = Result<Value, String>;

impl Folder {
    pub fn open(root: &Path) -> io::Result<Self> {
        Ok(Self { root: root.canonicalize()? })
    }

    pub fn witness(&self, tool: &str, key: &str) -> io::Result<()> {
        let mut log = OpenOptions::new().create(true).append(true).open(self.root.join(CALLS_LOG))?;
        log.write_all(format!("{tool} {key}\n").as_bytes())
    }

    /// Arguments have been checked against the tool's schema.
    pub fn act(&self, tool: &str, arguments: &Value) -> Answer {
        let text = |name: &str| arguments.get(name).and_then(Value::as_str).unwrap_or_default();
        match tool {
            "write_file" => self.write(text("path"), text("content")),
            "append_file" => self.append(text("path"), text("content")),
            "move_file" => self.rename(text("from"), text("to")),
            "delete_file" => self.delete(text("path")),
            "stat_file" => self.stat(text("path")),
            "read_file" => self.read(text("path")),
            "list_files" => self.list(),
            "counter_add" => {
                let amount = arguments.get("amount").and_then(Value::as_i64).unwrap_or(1);
                let value = self.add(&format!("counter {}", text("name")), amount)?;
                Ok(json!({ "name": text("name"), "value": value }))
            }
            "counter_get" => {
                let value = self.add(&format!("counter {}", text("name")), 0)?;
                Ok(json!({ "name": text("name"), "value": value }))
            }
            "fail_times" => self.fail_times(text("name"), arguments["times"].as_i64().unwrap_or(0)),
            unknown => Err(format!("there is no tool `{unknown}`")),
        }
    }

    fn write(&self, path: &str, content: &str) -> Answer {
        let file = self.confined(path)?;
        let created = !file.exists();
        make_parents(&file).and_then(|()| fs::write(&file, content)).map_err(said(path))?;
        Ok(json!({ "path": path, "bytes": content.len(), "created": created }))
    }

    fn append(&self, path: &str, content: &str) -> Answer {
        let file = self.confined(path)?;
        make_parents(&file).map_err(said(path))?;
        let opened = OpenOptions::new().create(true).append(true).open(&file);
        let mut opened = opened.map_err(said(path))?;
        opened.write_all(content.as_bytes()).map_err(said(path))?;
        let bytes = opened.metadata().map_err(said(path))?.len();
        Ok(json!({ "path": path, "bytes": bytes }))
    }

    fn rename(&self, from: &str, to: &str) -> Answer {
        let (source, target) = (self.confined(from)?, self.confined(to)?);
        if target.exists() {
            return Err(format!("{to}: there is a file already"));
        }
        make_parents(&target).and_then(|()| fs::rename(&source, &target)).map_err(said(from))?;
        Ok(json!({ "from": from, "to": to }))
    }

    fn delete(&self, path: &str) -> Answer {
        match fs::remove_file(self.confined(path)?) {
            Ok(()) => Ok(json!({ "path": path, "existed": true })),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Ok(json!({ "path": path, "existed": false }))
            }
            Err(error) => Err(said(path)(error)),
        }
    }

    fn stat(&self, path: &str) -> Answer {
        match fs::metadata(self.confined(path)?) {
            Ok(found) => Ok(json!({ "path": path, "exists": true, "bytes": found.len() })),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Ok(json!({ "path": path, "exists": false, "bytes": 0 }))
            }
            Err(error) => Err(said(path)(error)),
        }
    }

    fn read(&self, path: &str) -> Answer {
        let file = self.confined(path)?;
        let bytes = fs::metadata(&file).map_err(said(path))?.len();
        if bytes > READ_BYTES_MAX {
            return Err(format!("{path}: {bytes} bytes is too much to read"));
        }
        let content = fs::read_to_string(&file).map_err(said(path))?;
        Ok(json!({ "path": path, "content": content }))
    }

    /// Without what the server keeps for itself.
    fn list(&self) -> Answer {
        let mut files = Vec::new();
        let mut folders = vec![self.root.clone()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(&folder).map_err(said("list"))? {
                let entry = entry.map_err(said("list"))?;
                let kind = entry.file_type().map_err(said("list"))?;
                let path = entry.path();
                let name = path.strip_prefix(&self.root).unwrap_or(&path).to_string_lossy().into_owned();
                match kind.is_dir() {
                    true => folders.push(path),
                    false if !OWN_FILES.contains(&name.as_str()) => files.push(name),
                    false => {}
                }
            }
            if files.len() > LISTED_MAX {
                return Err(format!("more than {LISTED_MAX} files"));
            }
        }
        files.sort();
        Ok(json!({ "files": files }))
    }

    fn fail_times(&self, name: &str, times: i64) -> Answer {
        let calls = self.add(&format!("fail_times {name}"), 1)?;
        match calls > times {
            true => Ok(json!({ "name": name, "calls": calls })),
            false => Err(format!("failing on purpose, {calls} of {times}")),
        }
    }

    /// Adds to a number kept in the folder; safe with several servers on one folder, and a server that
    /// is killed half-way leaves the old file or the new one.
    fn add(&self, name: &str, amount: i64) -> Result<i64, String> {
        let lock = File::create(self.root.join(LOCK)).map_err(said(LOCK))?;
        lock.lock().map_err(said(LOCK))?;
        let file = self.root.join(NUMBERS);
        let mut numbers: Map<String, Value> = match fs::read(&file) {
            Ok(bytes) => serde_json::from_slice(&bytes).map_err(|error| format!("{NUMBERS}: {error}"))?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Map::new(),
            Err(error) => return Err(said(NUMBERS)(error)),
        };
        let before = numbers.get(name).and_then(Value::as_i64).unwrap_or(0);
        if amount == 0 {
            return Ok(before);
        }
        let after =
            before.checked_add(amount).ok_or_else(|| format!("{name}: the number would be too large"))?;
        numbers.insert(name.to_owned(), Value::from(after));
        let fresh = self.root.join(format!("{NUMBERS}.new"));
        fs::write(&fresh, Value::Object(numbers).to_string()).map_err(said(NUMBERS))?;
        fs::rename(&fresh, &file).map_err(said(NUMBERS))?;
        Ok(after)
    }

    /// The path inside the folder. Refuses to be led out of it, by the path or by a symbolic link.
    fn confined(&self, path: &str) -> Result<PathBuf, String> {
        let plain =
            Path::new(path).components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
        if !plain || path.contains('\0') {
            return Err(format!("{path}: a path must be relative and stay inside the folder"));
        }
        let full = self.root.join(path);
        if OWN_FILES.iter().any(|own| full == self.root.join(own)) {
            return Err(format!("{path}: is the server's own"));
        }
        // The deepest part that exists tells where the path really leads. A dangling link counts as
        // existing: writing to it would create its target.
        let existing = full.ancestors().find(|part| part.symlink_metadata().is_ok()).unwrap_or(&self.root);
        let real = existing.canonicalize().map_err(|error| format!("{path}: {error}"))?;
        match real.starts_with(&self.root) {
            true => Ok(full),
            false => Err(format!("{path}: leads out of the folder")),
        }
    }
}

fn make_parents(file: &Path) -> io::Result<()> {
    file.parent().map_or(Ok(()), fs::create_dir_all)
}

/// An error in the tool's words: which file, and what the system said.
fn said(path: &str) -> impl Fn(io::Error) -> String {
    move |error| format!("{path}: {error}")
}
