//! Which project a config stands for. Projects are the boundary between agents that share a database.

use std::path::Path;

use super::section::Section;
use super::{Config, Problem};

/// It is written into every execution.
const NAME_BYTES_MAX: usize = 200;

impl Config {
    /// The project of whatever is started under this config: the name that it gives, else the real folder of
    /// its file, else the real working folder. Never empty.
    pub fn project_name(&self) -> String {
        match &self.project {
            Some(name) => name.clone(),
            None => {
                real_folder(if self.folder.as_os_str().is_empty() { Path::new(".") } else { &self.folder })
            }
        }
    }
}

/// Who may share a note or a template with every project.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sharing {
    #[default]
    People,
    Agents,
}

pub(super) fn read_sharing(top: &mut Section) -> Result<Sharing, Problem> {
    match top.text("everywhere")?.as_deref() {
        None | Some("people") => Ok(Sharing::People),
        Some("agents") => Ok(Sharing::Agents),
        Some(other) => Err(top.wrong("everywhere", format!("`{other}` is none of people, agents"))),
    }
}

/// The folder without symbolic links, so that one folder is one project by whichever path it is reached.
fn real_folder(folder: &Path) -> String {
    let real = folder.canonicalize().or_else(|_| std::path::absolute(folder));
    real.as_deref().unwrap_or(folder).to_string_lossy().into_owned()
}

pub(super) fn read_project(top: &mut Section) -> Result<Option<String>, Problem> {
    let Some(name) = top.text("project")? else { return Ok(None) };
    if name.trim().is_empty() || name.len() > NAME_BYTES_MAX || name.chars().any(char::is_control) {
        let problem = format!("a project's name has 1 to {NAME_BYTES_MAX} bytes and no control characters");
        return Err(top.wrong("project", problem));
    }
    Ok(Some(name))
}
