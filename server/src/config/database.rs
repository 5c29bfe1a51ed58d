//! How a database is opened, and its address without the password: errors, `doctor` and logs show addresses.

use std::time::Duration;

/// How to open a database.
#[derive(Debug, Clone, Default)]
pub struct DatabaseOptions {
    /// Accept a PostgreSQL server that acknowledges a commit before it is synced to disk.
    pub unsafe_durability: bool,
    pub usage: DatabaseUsage,
}

/// What kind of process opens a database.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum DatabaseUsage {
    /// A command or a server, which a person started.
    #[default]
    Command,
    /// A hook, which an agent's client starts at each call and waits for. It changes no schema under other processes'
    /// feet, and leaves the write-ahead log to them.
    Hook,
}

impl DatabaseUsage {
    /// How long to wait for a lock of another process. It is ample: even with twenty processes, each holds the lock well
    /// under a millisecond.
    pub fn lock_wait(self) -> Duration {
        match self {
            Self::Command => Duration::from_secs(30),
            Self::Hook => Duration::from_secs(5),
        }
    }
}

/// Replaces a redacted part.
const HIDDEN: &str = "…";

/// Returns the address without anything that may be a password: the part between user name and host, and
/// options with a secret-sounding name. Handles misspelt addresses too, because those are the ones that
/// errors repeat.
pub fn without_password(address: &str) -> String {
    let (scheme, rest) = match address.find("://") {
        Some(at) => address.split_at(at + 3),
        None if address.starts_with(['/', '.']) => return address.to_owned(),
        None => ("", address),
    };
    match (rest.find('?'), rest.rfind('@')) {
        // The password contains an unescaped `?` or `@`, so the parts cannot be told apart.
        (Some(options), Some(at)) if options < at => format!("{scheme}{HIDDEN}"),
        (Some(options), _) => {
            let (host, options) = rest.split_at(options);
            format!("{scheme}{}{}", without_user_info(host), hide_options(options, '&'))
        }
        (None, _) => format!("{scheme}{}", hide_options(&without_user_info(rest), ' ')),
    }
}

/// `user:password@host` becomes `user@host`.
fn without_user_info(rest: &str) -> String {
    match rest.rsplit_once('@') {
        Some((user, host)) if user.contains(':') => {
            format!("{}@{host}", user.split(':').next().unwrap_or_default())
        }
        Some(_) | None => rest.to_owned(),
    }
}

/// `password=x` becomes `password=…`; other options stay.
fn hide_options(options: &str, separator: char) -> String {
    let shown = |option: &str| match option.split_once('=') {
        Some((name, _)) if sounds_secret(name) => format!("{name}={HIDDEN}"),
        Some(_) | None => option.to_owned(),
    };
    options.split(separator).map(shown).collect::<Vec<_>>().join(&separator.to_string())
}

/// Whether an option of this name may hold a secret.
fn sounds_secret(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    ["pass", "pwd", "secret", "token"].iter().any(|word| name.contains(word))
}
