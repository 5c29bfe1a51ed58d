//! The folder that the demo tools change, and the checks that confine them to it.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Component, Path, PathBuf};

use serde_json::{Map, Value, json};

/// Every call of a tool with effects appends a line here before it acts, so that tests can count the calls.
const CALLS_LOG: &str = ".calls.log";
/// The counters, as a JSON object.
const NUMBERS: &str = ".numbers.json";
const LOCK: &str = ".lock";
/// The demo server's own files in the folder: its tools neither list nor touch them.
const RESERVED_FILES: [&str; 3] = [CALLS_LOG, NUMBERS, LOCK];
const READ_BYTES_MAX: u64 = 1024 * 1024;
const LISTED_MAX: usize = 10_000;

/// The folder, by its canonical path.
pub struct DemoFolder {
    root: PathBuf,
}

/// A tool's output, or its error message.
type DemoToolResult = Result<Value, String>;

impl DemoFolder {
    pub fn open(root: &Path) -> io::Result<Self> {
        Ok(Self { root: root.canonicalize()? })
    }

    /// Appends a call of `tool` with its idempotency key to the calls log.
    pub fn log_call(&self, tool: &str, key: &str) -> io::Result<()> {
        let mut log = OpenOptions::new().create(true).append(true).open(self.root.join(CALLS_LOG))?;
        log.write_all(format!("{tool} {key}\n").as_bytes())
    }

    /// Runs a tool by name. The arguments must have been checked against its schema.
    pub fn run_tool(&self, tool: &str, arguments: &Value) -> DemoToolResult {
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
                let value = self.add_to_counter(&format!("counter {}", text("name")), amount)?;
                Ok(json!({ "name": text("name"), "value": value }))
            }
            "counter_get" => {
                let value = self.add_to_counter(&format!("counter {}", text("name")), 0)?;
                Ok(json!({ "name": text("name"), "value": value }))
            }
            "fail_times" => self.fail_times(text("name"), arguments["times"].as_i64().unwrap_or(0)),
            unknown => Err(format!("there is no tool `{unknown}`")),
        }
    }

    fn write(&self, path: &str, content: &str) -> DemoToolResult {
        let file = self.confined_path(path)?;
        let created = !file.exists();
        create_parent_folders(&file).and_then(|()| fs::write(&file, content)).map_err(file_error(path))?;
        Ok(json!({ "path": path, "bytes": content.len(), "created": created }))
    }

    fn append(&self, path: &str, content: &str) -> DemoToolResult {
        let file = self.confined_path(path)?;
        create_parent_folders(&file).map_err(file_error(path))?;
        let opened = OpenOptions::new().create(true).append(true).open(&file);
        let mut opened = opened.map_err(file_error(path))?;
        opened.write_all(content.as_bytes()).map_err(file_error(path))?;
        let bytes = opened.metadata().map_err(file_error(path))?.len();
        Ok(json!({ "path": path, "bytes": bytes }))
    }

    fn rename(&self, from: &str, to: &str) -> DemoToolResult {
        let (source, target) = (self.confined_path(from)?, self.confined_path(to)?);
        if target.exists() {
            return Err(format!("{to}: there is a file already"));
        }
        create_parent_folders(&target)
            .and_then(|()| fs::rename(&source, &target))
            .map_err(file_error(from))?;
        Ok(json!({ "from": from, "to": to }))
    }

    fn delete(&self, path: &str) -> DemoToolResult {
        match fs::remove_file(self.confined_path(path)?) {
            Ok(()) => Ok(json!({ "path": path, "existed": true })),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Ok(json!({ "path": path, "existed": false }))
            }
            Err(error) => Err(file_error(path)(error)),
        }
    }

    fn stat(&self, path: &str) -> DemoToolResult {
        match fs::metadata(self.confined_path(path)?) {
            Ok(found) => Ok(json!({ "path": path, "exists": true, "bytes": found.len() })),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Ok(json!({ "path": path, "exists": false, "bytes": 0 }))
            }
            Err(error) => Err(file_error(path)(error)),
        }
    }

    fn read(&self, path: &str) -> DemoToolResult {
        let file = self.confined_path(path)?;
        let bytes = fs::metadata(&file).map_err(file_error(path))?.len();
        if bytes > READ_BYTES_MAX {
            return Err(format!("{path}: {bytes} bytes is too much to read"));
        }
        let content = fs::read_to_string(&file).map_err(file_error(path))?;
        Ok(json!({ "path": path, "content": content }))
    }

    /// Every file below the folder, except the server's own files.
    fn list(&self) -> DemoToolResult {
        let mut files = Vec::new();
        let mut folders = vec![self.root.clone()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(&folder).map_err(file_error("list"))? {
                let entry = entry.map_err(file_error("list"))?;
                let kind = entry.file_type().map_err(file_error("list"))?;
                let path = entry.path();
                let name = path.strip_prefix(&self.root).unwrap_or(&path).to_string_lossy().into_owned();
                if kind.is_dir() {
                    folders.push(path);
                } else if !RESERVED_FILES.contains(&name.as_str()) {
                    files.push(name);
                }
            }
            if files.len() > LISTED_MAX {
                return Err(format!("more than {LISTED_MAX} files"));
            }
        }
        files.sort();
        Ok(json!({ "files": files }))
    }

    /// Fails the first `times` calls under `name`, then succeeds.
    fn fail_times(&self, name: &str, times: i64) -> DemoToolResult {
        let calls = self.add_to_counter(&format!("fail_times {name}"), 1)?;
        if calls > times {
            Ok(json!({ "name": name, "calls": calls }))
        } else {
            Err(format!("failing on purpose, {calls} of {times}"))
        }
    }

    /// Adds to a counter kept in the folder and returns its new value; 0 only reads. A lock file makes it
    /// safe with several servers on one folder, and a server killed half-way leaves the old file or the new
    /// one.
    fn add_to_counter(&self, name: &str, amount: i64) -> Result<i64, String> {
        let lock = File::create(self.root.join(LOCK)).map_err(file_error(LOCK))?;
        lock.lock().map_err(file_error(LOCK))?;
        let file = self.root.join(NUMBERS);
        let mut numbers: Map<String, Value> = match fs::read(&file) {
            Ok(bytes) => serde_json::from_slice(&bytes).map_err(|error| format!("{NUMBERS}: {error}"))?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Map::new(),
            Err(error) => return Err(file_error(NUMBERS)(error)),
        };
        let before = numbers.get(name).and_then(Value::as_i64).unwrap_or(0);
        if amount == 0 {
            return Ok(before);
        }
        let after =
            before.checked_add(amount).ok_or_else(|| format!("{name}: the number would be too large"))?;
        numbers.insert(name.to_owned(), Value::from(after));
        let fresh = self.root.join(format!("{NUMBERS}.new"));
        fs::write(&fresh, Value::Object(numbers).to_string()).map_err(file_error(NUMBERS))?;
        fs::rename(&fresh, &file).map_err(file_error(NUMBERS))?;
        Ok(after)
    }

    /// The full path of a relative one. Refuses a path that leads out of the folder, by itself or by a
    /// symbolic link, and the server's own files.
    fn confined_path(&self, path: &str) -> Result<PathBuf, String> {
        let is_relative =
            Path::new(path).components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
        if !is_relative || path.contains('\0') {
            return Err(format!("{path}: a path must be relative and stay inside the folder"));
        }
        let full = self.root.join(path);
        if RESERVED_FILES.iter().any(|own| full == self.root.join(own)) {
            return Err(format!("{path}: is the server's own"));
        }
        // The deepest ancestor that exists shows where the path really leads. A dangling link counts as
        // existing: writing to it would create its target.
        let existing = full.ancestors().find(|part| part.symlink_metadata().is_ok()).unwrap_or(&self.root);
        let real = existing.canonicalize().map_err(|error| format!("{path}: {error}"))?;
        if real.starts_with(&self.root) { Ok(full) } else { Err(format!("{path}: leads out of the folder")) }
    }
}

fn create_parent_folders(file: &Path) -> io::Result<()> {
    file.parent().map_or(Ok(()), fs::create_dir_all)
}

/// Maps an I/O error to a tool's error message: the file, and the system's text.
fn file_error(path: &str) -> impl Fn(io::Error) -> String {
    move |error| format!("{path}: {error}")
}
