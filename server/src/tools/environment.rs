//! Which environment variables a child process gets: one server must not read another's token, nor the keys that a
//! user keeps in the shell.

use tokio::process::Command;

use crate::config::InheritEnv;

/// Variables that programs need to run at all.
const BASIC: [&str; 9] = ["PATH", "HOME", "USER", "LOGNAME", "SHELL", "TERM", "LANG", "TZ", "TMPDIR"];
const BASIC_PREFIXES: [&str; 2] = ["LC_", "XDG_"];
/// Actbook's own settings; a database's password may be among them.
const OWN_PREFIX: &str = "ACTBOOK_";

/// Empties the child's environment but for the basic variables and those that the config lets it inherit. The
/// variables of its own `env` are set afterwards.
pub fn restrict(command: &mut Command, inherit: &InheritEnv) {
    command.env_clear();
    let passed = std::env::vars_os().filter(|(name, _)| is_passed(&name.to_string_lossy(), inherit));
    command.envs(passed);
}

/// Whether the variable describes the machine and the account, and holds no secret.
pub fn is_basic(name: &str) -> bool {
    BASIC.contains(&name) || BASIC_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

fn is_passed(name: &str, inherit: &InheritEnv) -> bool {
    let inherited = match inherit {
        InheritEnv::Names(names) => names.iter().any(|inherited| inherited == name),
        InheritEnv::All => !name.starts_with(OWN_PREFIX),
    };
    inherited || is_basic(name)
}
