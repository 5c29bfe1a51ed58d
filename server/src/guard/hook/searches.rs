//! The paths that a search of a client reads: its folder, and the file names that its pattern stands for.

use std::path::Path;

use serde_json::{Map, Value};

/// Searches by the clients' names for them, and the arguments that hold a pattern of file names.
const SEARCHES: [(&[&str], &[&str]); 3] = [
    (&["Glob", "glob", "file_search"], &["pattern", "glob_pattern", "query"]),
    (
        &["Grep", "grep", "rg", "grep_search", "search_file_content"],
        &["glob", "include", "includePattern", "include_pattern"],
    ),
    (&["read_many_files"], &["include"]),
];
/// The arguments that hold the folder of a search; without any, the search is in the agent's folder.
const FOLDERS: [&str; 5] = ["path", "dir_path", "target_directory", "directory", "folder"];
/// The path of a search that may read any.
const ANY_PATH: &str = "/";
/// Most file names that the braces of one pattern are written out to, and its most bytes then.
const ALTERNATIVES_MAX: usize = 64;
const PATTERN_BYTES_MAX: usize = 4096;
/// Most patterns of one search that are looked at.
const PATTERNS_MAX: usize = 1000;

/// Adds the paths that a search reads to its arguments, as `paths`. Other tools' arguments stay as they are.
pub fn add_paths(name: &str, fields: &mut Map<String, Value>) {
    let search = SEARCHES.iter().find(|(names, _)| names.contains(&name));
    let Some((_, patterns)) = search else { return };
    let folder = FOLDERS.iter().find_map(|folder| fields.get(*folder)?.as_str()).unwrap_or(".").to_owned();
    let mut patterns: Vec<&str> =
        patterns.iter().filter_map(|name| fields.get(*name)).flat_map(texts).collect();
    if patterns.len() > PATTERNS_MAX {
        patterns = vec![ANY_PATH];
    }
    let mut paths: Vec<Value> =
        patterns.into_iter().flat_map(alternatives).map(|pattern| joined(&folder, &pattern).into()).collect();
    paths.insert(0, folder.into());
    if let Some(given) = fields.remove("paths") {
        paths.push(given);
    }
    fields.insert("paths".to_owned(), paths.into());
}

/// The text, or the texts of a list.
fn texts(value: &Value) -> Vec<&str> {
    let items = value.as_array().map_or(std::slice::from_ref(value), Vec::as_slice);
    items.iter().filter_map(Value::as_str).collect()
}

/// A pattern within a folder; one that begins at the root or at a home folder stays.
fn joined(folder: &str, pattern: &str) -> String {
    if pattern.starts_with('~') {
        return pattern.to_owned();
    }
    Path::new(folder).join(pattern).to_string_lossy().into_owned()
}

/// The pattern with each choice of its braces written out: `{a,b}/c` is `a/c` and `b/c`. One with too many choices may
/// be any path.
fn alternatives(pattern: &str) -> Vec<String> {
    if pattern.len() > PATTERN_BYTES_MAX {
        return vec![ANY_PATH.to_owned()];
    }
    let (mut open, mut done) = (vec![pattern.to_owned()], Vec::new());
    while let Some(pattern) = open.pop() {
        match innermost_braces(&pattern) {
            Some((before, choices, after)) => {
                if open.len() + done.len() + choices.split(',').count() > ALTERNATIVES_MAX {
                    return vec![ANY_PATH.to_owned()];
                }
                open.extend(choices.split(',').map(|choice| format!("{before}{choice}{after}")));
            }
            None => done.push(pattern),
        }
    }
    done
}

/// What stands before, in and after the first braces that hold no others; `None`: there are none.
fn innermost_braces(pattern: &str) -> Option<(&str, &str, &str)> {
    let close = pattern.find('}')?;
    let open = pattern[..close].rfind('{')?;
    Some((&pattern[..open], &pattern[open + 1..close], &pattern[close + 1..]))
}
