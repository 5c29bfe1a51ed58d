//! Which program a command line of the config would start, so that its user sees it before trusting the
//! config: `PATH` in a tool's own `env` decides it, and may point into the cloned folder.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use super::{ConfigTemplate, TemplatePart};

/// The variables whose values are looked up to find a program. Others may hold secrets.
const RESOLVED_VARIABLES: [&str; 3] = ["PATH", "HOME", "USER"];
/// The variable that names the folders to search.
const SEARCH_PATH: &str = "PATH";

/// The absolute path of the program that `command` starts with the variables `env` in the folder `cwd` of
/// `folder`. None: there is no such program, or a text depends on what is only known at the call.
pub fn resolve_program(
    command: &ConfigTemplate,
    env: &BTreeMap<String, ConfigTemplate>,
    cwd: Option<&ConfigTemplate>,
    folder: &Path,
) -> Option<PathBuf> {
    let program = resolve_text(command)?;
    let cwd = cwd.map_or(Some(String::new()), resolve_text)?;
    let cwd = folder.join(cwd);
    if program.contains('/') {
        return executable(&cwd.join(program));
    }
    let search_path = match env.get(SEARCH_PATH) {
        Some(path) => resolve_text(path)?,
        None => std::env::var(SEARCH_PATH).ok()?,
    };
    search_path.split(':').find_map(|entry| executable(&cwd.join(entry).join(&program)))
}

/// The path without `.` and double slashes, if it is an executable file.
fn executable(path: &Path) -> Option<PathBuf> {
    let found = std::fs::metadata(path).ok()?;
    let is_executable = found.is_file() && found.permissions().mode() & 0o111 != 0;
    is_executable.then(|| std::path::absolute(path).unwrap_or_else(|_| path.to_owned()))
}

/// The text with its references filled in. None: it refers to something else than `RESOLVED_VARIABLES`.
fn resolve_text(template: &ConfigTemplate) -> Option<String> {
    template.parts.iter().map(resolve_part).collect()
}

fn resolve_part(part: &TemplatePart) -> Option<String> {
    match part {
        TemplatePart::Text(text) => Some(text.clone()),
        TemplatePart::Environment { name, default } if RESOLVED_VARIABLES.contains(&name.as_str()) => {
            std::env::var(name).ok().or_else(|| default.clone())
        }
        TemplatePart::Environment { .. } | TemplatePart::Argument(_) | TemplatePart::Foreign(_) => None,
    }
}
