//! Finds the paths in a call's arguments, by the names of their keys, and resolves them as the file system would: from
//! the session's folder, with links followed.

use std::path::{Component, Path, PathBuf};

use serde_json::Value;

/// The names of arguments that hold a path or a list of paths, in lower case and without `_` and `-`.
const PATH_KEYS: [&str; 35] = [
    "path",
    "paths",
    "file",
    "files",
    "filepath",
    "filename",
    "filenames",
    "notebookpath",
    "dir",
    "directory",
    "dirpath",
    "directorypath",
    "targetdirectory",
    "absolutepath",
    "folder",
    "source",
    "destination",
    "src",
    "dst",
    "target",
    "targetfile",
    "oldpath",
    "newpath",
    "cwd",
    "from",
    "to",
    "uri",
    "dest",
    "output",
    "outputpath",
    "out",
    "root",
    "workdir",
    "repopath",
    "workingdirectory",
];

/// How the address of a file begins.
const FILE_SCHEME: &str = "file://";

/// Most links that are followed one after the other; the file system itself follows 40.
const LINKS_MAX: usize = 40;

/// The paths in the arguments, absolute and with links followed, in the order of the arguments.
pub fn find_paths(arguments: &Value, folder: Option<&str>) -> Vec<String> {
    let mut found = Vec::new();
    collect(arguments, false, &mut |text| found.push(resolve(text, folder)));
    found
}

/// Gives every text that stands under the name of a path; `is_path`: this value does. JSON is parsed to a limited depth,
/// so the recursion ends.
fn collect(value: &Value, is_path: bool, found: &mut impl FnMut(&str)) {
    match value {
        Value::Object(fields) => {
            for (name, field) in fields {
                collect(field, is_path_key(name), found);
            }
        }
        Value::Array(items) => items.iter().for_each(|item| collect(item, is_path, found)),
        Value::String(text) if is_path && !is_remote(text) => found(text),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Whether the text is the address of something that is no file, such as `https://…`.
fn is_remote(text: &str) -> bool {
    text.contains("://") && !text.starts_with(FILE_SCHEME)
}

fn is_path_key(name: &str) -> bool {
    let plain: String = name.chars().filter(|c| !"_-".contains(*c)).flat_map(char::to_lowercase).collect();
    PATH_KEYS.contains(&plain.as_str())
}

/// The path as the file system resolves it; what does not exist of it stays as written.
pub fn resolve(text: &str, folder: Option<&str>) -> String {
    let text = match text.strip_prefix(FILE_SCHEME) {
        Some(rest) => rest.strip_prefix("localhost").unwrap_or(rest),
        None => text,
    };
    let joined = match folder {
        Some(folder) => Path::new(folder).join(expand_home(text)),
        None => expand_home(text),
    };
    resolve_existing(&joined, LINKS_MAX).to_string_lossy().into_owned()
}

/// A leading `~` as the home folder. That of another user stays as written below a folder that nobody has.
fn expand_home(text: &str) -> PathBuf {
    let Some(rest) = text.strip_prefix('~') else { return PathBuf::from(text) };
    match std::env::var_os("HOME") {
        Some(home) if rest.is_empty() || rest.starts_with('/') => {
            Path::new(&home).join(rest.trim_start_matches('/'))
        }
        Some(_) | None => Path::new("/~").join(rest),
    }
}

/// Follows links, also one whose target does not exist: a write would make it. `..` leads to the parent of what a link
/// points to, as in the file system.
fn resolve_existing(path: &Path, links: usize) -> PathBuf {
    let mut resolved = PathBuf::new();
    for component in path.components() {
        match component {
            Component::ParentDir => drop(resolved.pop()),
            Component::CurDir => {}
            Component::Prefix(_) | Component::RootDir | Component::Normal(_) => resolved.push(component),
        }
        if let Ok(real) = resolved.canonicalize() {
            resolved = real;
        } else if let (Ok(target), Some(links)) = (resolved.read_link(), links.checked_sub(1)) {
            resolved.pop();
            resolved = resolve_existing(&resolved.join(target), links);
        }
    }
    resolved
}
