//! Finds the paths in a call's arguments, by the names of their keys, and resolves them as the file system would: from
//! the session's folder, with links followed.

use std::path::{Component, Path, PathBuf};

use serde_json::Value;

/// The names of arguments that hold a path or a list of paths, in lower case and without `_` and `-`.
const PATH_KEYS: [&str; 20] = [
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
];

/// Deepest nesting in which paths are looked for.
const DEPTH_MAX: usize = 8;

/// The paths in the arguments, absolute and with links followed, in the order of the arguments.
pub fn find_paths(arguments: &Value, folder: Option<&str>) -> Vec<String> {
    let mut found = Vec::new();
    collect(arguments, folder, 0, &mut found);
    found
}

fn collect(value: &Value, folder: Option<&str>, depth: usize, found: &mut Vec<String>) {
    if depth > DEPTH_MAX {
        return;
    }
    match value {
        Value::Object(fields) => {
            for (name, field) in fields {
                if is_path_key(name) {
                    let texts = std::iter::once(field).chain(field.as_array().into_iter().flatten());
                    found.extend(texts.filter_map(Value::as_str).map(|text| resolve(text, folder)));
                }
                collect(field, folder, depth + 1, found);
            }
        }
        Value::Array(items) => items.iter().for_each(|item| collect(item, folder, depth + 1, found)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn is_path_key(name: &str) -> bool {
    let plain: String = name.chars().filter(|c| !"_-".contains(*c)).flat_map(char::to_lowercase).collect();
    PATH_KEYS.contains(&plain.as_str())
}

/// The path as the file system resolves it; what does not exist of it stays as written.
pub fn resolve(text: &str, folder: Option<&str>) -> String {
    let text = text.strip_prefix("file://").unwrap_or(text);
    let joined = match folder {
        Some(folder) => Path::new(folder).join(expand_home(text)),
        None => expand_home(text),
    };
    resolve_existing(&joined).to_string_lossy().into_owned()
}

/// A leading `~/` as the home folder.
fn expand_home(text: &str) -> PathBuf {
    match (text.strip_prefix("~/"), std::env::var_os("HOME")) {
        (Some(rest), Some(home)) => Path::new(&home).join(rest),
        (Some(_) | None, _) => PathBuf::from(text),
    }
}

/// Follows the links of the longest part that exists. `..` leads to the parent of what a link points to, as in the
/// file system.
fn resolve_existing(path: &Path) -> PathBuf {
    let mut resolved = PathBuf::new();
    for component in path.components() {
        match component {
            Component::ParentDir => drop(resolved.pop()),
            Component::CurDir => {}
            Component::Prefix(_) | Component::RootDir | Component::Normal(_) => resolved.push(component),
        }
        if let Ok(real) = resolved.canonicalize() {
            resolved = real;
        }
    }
    resolved
}
