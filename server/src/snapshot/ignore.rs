//! Which paths of a folder are not kept.

/// Patterns of paths that are not kept. `name/` fits folders of that name at any depth, `name` anything; a pattern with
/// a `/` inside starts at the folder; `*` stands for any part of a name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IgnoreRules {
    patterns: Vec<String>,
    /// Absolute paths that are never kept: Actbook's own files.
    own: Vec<std::path::PathBuf>,
}

impl IgnoreRules {
    pub fn new(patterns: Vec<String>) -> Self {
        Self { patterns, own: Vec::new() }
    }

    /// These rules, with a path and everything that begins with it left out: Actbook's own database with its logs, and
    /// its data folder.
    #[must_use]
    pub fn without(mut self, own: std::path::PathBuf) -> Self {
        self.own.push(own);
        self
    }

    /// Whether this entry of the folder is not kept; all below an ignored folder is not looked at.
    pub fn ignores(&self, path: &str, is_folder: bool) -> bool {
        let name = path.rsplit('/').next().unwrap_or(path);
        name.starts_with(super::TEMPORARY_PREFIX)
            || self.patterns.iter().any(|pattern| fits(pattern, path, name, is_folder))
    }

    /// Whether the path, or a folder that it lies in, is not kept.
    pub fn ignores_within(&self, path: &str, is_folder: bool) -> bool {
        let parents = path.match_indices('/').map(|(at, _)| &path[..at]);
        self.ignores(path, is_folder) || parents.into_iter().any(|parent| self.ignores(parent, true))
    }

    /// Whether the absolute path is one of Actbook's own files.
    pub fn is_own(&self, path: &std::path::Path) -> bool {
        let begins = |own: &std::path::PathBuf| {
            let (path, own) = (path.as_os_str().as_encoded_bytes(), own.as_os_str().as_encoded_bytes());
            path.strip_prefix(own).is_some_and(|rest| rest.is_empty() || matches!(rest[0], b'-' | b'/'))
        };
        self.own.iter().any(begins)
    }
}

fn fits(pattern: &str, path: &str, name: &str, is_folder: bool) -> bool {
    let (pattern, folders_only) = match pattern.strip_suffix('/') {
        Some(pattern) => (pattern, true),
        None => (pattern, false),
    };
    if folders_only && !is_folder {
        return false;
    }
    let whole = pattern.trim_start_matches('/');
    if whole.contains('/') || whole.len() != pattern.len() {
        let same_depth = whole.matches('/').count() == path.matches('/').count();
        return same_depth && whole.split('/').zip(path.split('/')).all(|(one, other)| fits_name(one, other));
    }
    fits_name(pattern, name)
}

/// Whether a name fits a pattern in which `*` stands for anything.
fn fits_name(pattern: &str, name: &str) -> bool {
    let mut parts = pattern.split('*');
    let Some(mut rest) = parts.next().and_then(|first| name.strip_prefix(first)) else { return false };
    let mut parts = parts.peekable();
    if parts.peek().is_none() {
        return rest.is_empty();
    }
    while let Some(part) = parts.next() {
        if parts.peek().is_none() {
            return rest.ends_with(part);
        }
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_fit_as_documented() {
        let rules = IgnoreRules::new(["target/", "*.log", "site/*/out", "/top"].map(str::to_owned).into());
        for (path, is_folder, ignored) in [
            ("target", true, true),
            ("a/target", true, true),
            ("target", false, false),
            ("a/b.log", false, true),
            ("b.logs", false, false),
            ("site/x/out", false, true),
            ("site/x/y/out", false, false),
            ("top", false, true),
            ("a/top", false, false),
            (".actbook-restore-1", false, true),
        ] {
            assert_eq!(rules.ignores(path, is_folder), ignored, "{path}");
        }
        assert!(rules.ignores_within("a/target/b/c", false));
    }

    #[test]
    fn own_files_are_the_database_with_its_logs_and_the_data_folder() {
        let rules = IgnoreRules::default().without("/w/book.db".into());
        for (path, own) in
            [("/w/book.db", true), ("/w/book.db-wal", true), ("/w/book.db/x", true), ("/w/book.dbx", false)]
        {
            assert_eq!(rules.is_own(std::path::Path::new(path)), own, "{path}");
        }
    }
}
