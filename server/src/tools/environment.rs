//! Which environment variables a child process inherits: a server must not read another server's token, nor
//! the keys in the user's shell.

use tokio::process::Command;

use crate::config::InheritEnv;

/// Variables that programs need to run at all.
const BASIC_VARIABLES: [&str; 9] =
    ["PATH", "HOME", "USER", "LOGNAME", "SHELL", "TERM", "LANG", "TZ", "TMPDIR"];
const BASIC_PREFIXES: [&str; 2] = ["LC_", "XDG_"];
/// Actbook's own settings; a database's password may be among them.
const OWN_PREFIX: &str = "ACTBOOK_";

/// Clears the child's environment except for the basic variables and those that the config lets it inherit.
/// The caller sets the variables of the tool's own `env` afterwards.
pub fn restrict(command: &mut Command, inherit: &InheritEnv) {
    command.env_clear();
    let inherited = std::env::vars_os().filter(|(name, _)| is_inherited(&name.to_string_lossy(), inherit));
    command.envs(inherited);
}

/// Whether the variable describes the machine and the account, and holds no secret.
pub fn is_basic(name: &str) -> bool {
    BASIC_VARIABLES.contains(&name) || BASIC_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

/// Whether a child process inherits the variable: it is basic, or the config passes it on.
fn is_inherited(name: &str, inherit: &InheritEnv) -> bool {
    let is_configured = match inherit {
        InheritEnv::Names(names) => names.iter().any(|configured| configured == name),
        InheritEnv::All => !name.starts_with(OWN_PREFIX),
    };
    is_configured || is_basic(name)
}
