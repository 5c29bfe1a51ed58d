//! The source tree as the rules see it: text files with their paths from the root, `/` between parts.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::code;

/// Grown by tools, or not ours to check.
const PASSED_OVER: [&str; 4] = ["target", ".git", "node_modules", "proptest-regressions"];
const TEXT: [&str; 8] = ["rs", "sql", "md", "toml", "yaml", "yml", "json", "patch"];

#[derive(Debug)]
pub struct Source {
    pub path: String,
    pub text: String,
    /// For Rust: the text without comments and strings.
    pub code: String,
}

impl Source {
    pub fn new(path: &str, text: &str) -> Self {
        let code = if path.ends_with(".rs") { code::of(text) } else { String::new() };
        Self { path: path.to_owned(), text: text.to_owned(), code }
    }

    /// Rust that is shipped, as opposed to tests, examples and the project's own commands.
    pub fn is_product(&self) -> bool {
        ["engine/src/", "server/src/", "server/migrations/"].iter().any(|start| self.path.starts_with(start))
    }

    /// These files quote what they forbid.
    pub fn is_tidy(&self) -> bool {
        self.path.starts_with("server/tests/it/tidy")
    }
}

pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the server lies in the workspace's folder")
}

pub fn sources() -> Vec<Source> {
    let mut paths = vec![];
    walk(root(), &mut paths);
    let relative = |path: &Path| {
        let path = path.strip_prefix(root()).expect("the walk began at the root");
        path.to_string_lossy().replace('\\', "/")
    };
    let read = |path: &PathBuf| {
        let text = std::fs::read_to_string(path).expect("sources are text");
        Source::new(&relative(path), &text)
    };
    paths.iter().map(read).collect()
}

fn walk(folder: &Path, paths: &mut Vec<PathBuf>) {
    for entry in folder.read_dir().expect("the tree can be read").flatten() {
        let path = entry.path();
        if PASSED_OVER.iter().any(|name| entry.file_name() == *name) {
            continue;
        }
        if path.is_dir() {
            walk(&path, paths);
        } else if path.extension().is_some_and(|extension| TEXT.iter().any(|text| extension == *text)) {
            paths.push(path);
        }
    }
}

/// What a folder holds; nothing if it does not exist.
pub fn names(folder: &str) -> BTreeSet<String> {
    let entries = root().join(folder).read_dir().into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

/// What the repository holds at its root: git knows it best, and without git everything that is there.
pub fn root_entries() -> BTreeSet<String> {
    let listed = Command::new("git").args(["ls-files"]).current_dir(root()).output();
    let tracked: BTreeSet<String> = match listed {
        Ok(output) => String::from_utf8_lossy(&output.stdout).lines().map(first_part).collect(),
        Err(_) => BTreeSet::new(),
    };
    if !tracked.is_empty() {
        return tracked;
    }
    names(".").into_iter().filter(|name| !PASSED_OVER.contains(&name.as_str())).collect()
}

fn first_part(path: &str) -> String {
    path.split('/').next().unwrap_or(path).to_owned()
}
