//! Rules about the tree's shape rather than a file's text: what lies where, and what it is called.

use std::collections::BTreeSet;

const ROOT: [&str; 23] = [
    ".cargo",
    ".ci",
    ".config",
    ".gitignore",
    "ARCHITECTURE.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "Cargo.lock",
    "Cargo.toml",
    "LICENSE",
    "LICENSE-APACHE",
    "LICENSE-MIT",
    "README.md",
    "STYLE.md",
    "clippy.toml",
    "deny.toml",
    "docs",
    "engine",
    "examples",
    "rust-toolchain.toml",
    "rustfmt.toml",
    "server",
    "server.json",
];
const COMMANDS: &str = "xtask";

pub fn unlisted_entries(entries: &BTreeSet<String>) -> Vec<String> {
    let known = |name: &str| name == COMMANDS || ROOT.contains(&name);
    let strange = entries.iter().filter(|name| !known(name));
    strange.map(|name| format!("{name}: the root holds only what ARCHITECTURE.md shows")).collect()
}

pub fn unpaired(sqlite: &BTreeSet<String>, postgres: &BTreeSet<String>) -> Vec<String> {
    let alone = sqlite.symmetric_difference(postgres);
    alone.map(|name| format!("{name}: a migration has the same name in both folders")).collect()
}

/// `0001-…md`, `0002-…md`, without a gap and without a double.
pub fn misnumbered(records: &BTreeSet<String>) -> Vec<String> {
    let fits = |index: usize, name: &str| {
        let start = format!("{:04}-", index + 1);
        name.strip_prefix(&start).is_some_and(|rest| rest.len() > 3 && rest.ends_with(".md"))
    };
    let wrong = records.iter().enumerate().filter(|(index, name)| !fits(*index, name));
    wrong.map(|(index, name)| format!("docs/decisions/{name}: expected {:04}-….md", index + 1)).collect()
}
