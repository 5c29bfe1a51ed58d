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

/// The scheme of a file's address.
const FILE_SCHEME: &str = "file";

/// Most links that are followed one after the other; the file system itself follows 40.
const LINKS_MAX: usize = 40;

/// The paths in the arguments, absolute and with links followed, in the order of the arguments. A text that tools read
/// differently gives a path for each reading.
pub fn find_paths(arguments: &Value, folder: Option<&str>) -> Vec<String> {
    let mut found = Vec::new();
    collect(arguments, false, &mut |text| found.extend(readings(text, folder)));
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
        Value::String(text) if is_path => found(text),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn is_path_key(name: &str) -> bool {
    let plain: String = name.chars().filter(|c| !"_-".contains(*c)).flat_map(char::to_lowercase).collect();
    PATH_KEYS.contains(&plain.as_str())
}

/// The paths that a text may stand for; none, if it is the address of something that is no file, such as `https://…`.
fn readings(text: &str, folder: Option<&str>) -> Vec<String> {
    // Readers of addresses drop line breaks and tabs.
    let address: String = text.chars().filter(|c| !"\t\n\r".contains(*c)).collect();
    let mut written = match scheme(&address) {
        Some((FILE_SCHEME, rest)) => file_address_paths(rest),
        Some(_) if is_remote(text, folder) => return Vec::new(),
        Some(_) | None => Vec::new(),
    };
    // A tool that knows no addresses takes the text as it is.
    written.push(text.to_owned());
    let mut found = Vec::new();
    for path in written.iter().flat_map(|text| [resolve(text, folder), resolve_folded(text, folder)]) {
        if !found.contains(&path) {
            found.push(path);
        }
    }
    found
}

/// The scheme of an address, in lower case if it is that of files, and what follows its colon.
fn scheme(text: &str) -> Option<(&str, &str)> {
    let (scheme, rest) = text.trim_start_matches(|c: char| c <= ' ').split_once(':')?;
    let is_name = scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c));
    let scheme = if scheme.eq_ignore_ascii_case(FILE_SCHEME) { FILE_SCHEME } else { scheme };
    is_name.then_some((scheme, rest))
}

/// Whether the text, which begins with a scheme, is an address of something that is no file. As a path its first part
/// would be a folder whose name ends in a colon.
fn is_remote(text: &str, folder: Option<&str>) -> bool {
    let Some((first, rest)) = text.split_once("://") else { return false };
    let is_folder = join(&format!("{first}:"), folder).symlink_metadata().is_ok();
    !is_folder && !rest.split(['/', '\\']).any(|part| part == "..")
}

/// The paths that the part of a file's address after `file:` may stand for: with and without what looks like a host, as
/// written and as decoded.
fn file_address_paths(rest: &str) -> Vec<String> {
    let rest = rest.replace('\\', "/");
    let named = rest.strip_prefix("//").unwrap_or(&rest);
    let hostless =
        if named.len() < rest.len() { named.find('/').map_or("/", |at| &named[at..]) } else { named };
    let written = [hostless.to_owned(), named.to_owned(), format!("/{named}")];
    let decoded = written.each_ref().map(|path| decode(path.split(['?', '#']).next().unwrap_or(path)));
    decoded.into_iter().chain(written).collect()
}

/// The text with each `%41` as the character that it stands for.
fn decode(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let hex = after.get(..2).filter(|_| *first == b'%').and_then(|hex| std::str::from_utf8(hex).ok());
        let byte = hex.and_then(|hex| u8::from_str_radix(hex, 16).ok());
        bytes.push(byte.unwrap_or(*first));
        rest = if byte.is_some() { &after[2..] } else { after };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The path as the file system resolves it; what does not exist of it stays as written.
pub fn resolve(text: &str, folder: Option<&str>) -> String {
    resolve_existing(&join(text, folder), LINKS_MAX).to_string_lossy().into_owned()
}

/// The path as many tools resolve it: `..` takes away the part before it, before any link is followed.
fn resolve_folded(text: &str, folder: Option<&str>) -> String {
    let mut folded = PathBuf::new();
    for component in join(text, folder).components() {
        match component {
            Component::ParentDir => drop(folded.pop()),
            Component::CurDir => {}
            Component::Prefix(_) | Component::RootDir | Component::Normal(_) => folded.push(component),
        }
    }
    resolve_existing(&folded, LINKS_MAX).to_string_lossy().into_owned()
}

/// The path below the folder, unless it is absolute.
fn join(text: &str, folder: Option<&str>) -> PathBuf {
    match folder {
        Some(folder) => Path::new(folder).join(expand_home(text)),
        None => expand_home(text),
    }
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
