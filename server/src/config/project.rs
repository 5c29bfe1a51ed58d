//! The project of a config. Projects are the boundary between agents that share a database.

use std::path::Path;

use super::section::Section;
use super::{Config, ConfigProblem};

/// The name is written into every execution, so its length is limited.
const NAME_BYTES_MAX: usize = 200;

impl Config {
    /// The project of everything that is started under this config: its `project`, else the real path of its
    /// file's folder, else that of the working folder. Never empty.
    pub fn project_name(&self) -> String {
        match &self.project {
            Some(name) => name.clone(),
            None => {
                real_folder(if self.folder.as_os_str().is_empty() { Path::new(".") } else { &self.folder })
            }
        }
    }
}

/// The folder's path without symbolic links, so that a folder is one project by whichever path it is reached.
fn real_folder(folder: &Path) -> String {
    let real = folder.canonicalize().or_else(|_| std::path::absolute(folder));
    real.as_deref().unwrap_or(folder).to_string_lossy().into_owned()
}

pub(super) fn read_project(top: &mut Section) -> Result<Option<String>, ConfigProblem> {
    let Some(name) = top.text("project")? else { return Ok(None) };
    if name.trim().is_empty() || name.len() > NAME_BYTES_MAX || name.chars().any(char::is_control) {
        let problem = format!("a project's name has 1 to {NAME_BYTES_MAX} bytes and no control characters");
        return Err(top.problem_at("project", problem));
    }
    Ok(Some(name))
}
