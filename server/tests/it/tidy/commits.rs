//! Commit messages, checked where git and its history are there.

use std::process::Command;

use super::tree::root;

const SUBJECT_CHARS_MAX: usize = 70;
/// Author time, in Unix seconds, of the last commit from before the rule. Unlike a hash it survives a rebase.
const RULE_SINCE_S: i64 = 1_794_883_306;

/// What is wrong with a commit's message; nothing for one from before the rule.
pub fn finding(authored_at_s: i64, subject: &str, body: &str) -> Option<String> {
    if authored_at_s <= RULE_SINCE_S {
        return None;
    }
    let length = subject.chars().count();
    if length > SUBJECT_CHARS_MAX {
        return Some(format!("`{subject}`: {length} characters, at most {SUBJECT_CHARS_MAX}"));
    }
    body.trim().is_empty().then(|| format!("`{subject}`: no body says why"))
}

/// The findings of all commits but merges; none where there is no git.
pub fn findings() -> Vec<String> {
    let log = ["log", "--no-merges", "--format=%at%x1f%s%x1f%b%x1e"];
    let Ok(output) = Command::new("git").args(log).current_dir(root()).output() else { return vec![] };
    let text = String::from_utf8_lossy(&output.stdout);
    let commits = text.split('\x1e').filter_map(|commit| {
        let mut fields = commit.trim_start().splitn(3, '\x1f');
        Some((fields.next()?.parse().ok()?, fields.next()?, fields.next()?))
    });
    commits.filter_map(|(at, subject, body)| finding(at, subject, body)).collect()
}
