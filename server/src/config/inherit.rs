//! `inherit_env`: which variables of Actbook's own environment a child process gets beside the basic ones.

use serde_json::Value;

use super::{Config, McpServer, Problem};

/// The word in the config.
pub(super) const KEY: &str = "inherit_env";

/// The variables that a child inherits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InheritEnv {
    /// These, where they are set.
    Names(Vec<String>),
    /// Every variable but Actbook's own settings.
    All,
}

impl Default for InheritEnv {
    fn default() -> Self {
        Self::Names(Vec::new())
    }
}

impl InheritEnv {
    /// Reads `all` or a list of names.
    pub(super) fn parse(value: &Value) -> Result<Self, String> {
        let refused = || format!("must be `all` or a list of variable names, not {value}");
        match value {
            Value::String(word) if word == "all" => Ok(Self::All),
            Value::Array(names) => {
                let names: Option<Vec<String>> = names.iter().map(|name| variable(name.as_str()?)).collect();
                names.map(Self::Names).ok_or_else(refused)
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Object(_) => {
                Err(refused())
            }
        }
    }

    /// The names that it lists; none for `all`.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        let names: &[String] = match self {
            Self::Names(names) => names,
            Self::All => &[],
        };
        names.iter().map(String::as_str)
    }

    /// As written in the config. None: nothing is inherited, so that a definition without the word keeps its digest.
    pub fn source(&self) -> Option<Value> {
        match self {
            Self::All => Some(Value::from("all")),
            Self::Names(names) if names.is_empty() => None,
            Self::Names(names) => Some(Value::from(names.clone())),
        }
    }
}

fn variable(name: &str) -> Option<String> {
    let well_formed = !name.is_empty() && !name.contains(['=', '\0']);
    well_formed.then(|| name.to_owned())
}

/// Moves `servers.NAME.inherit_env` to the server that it speaks of.
pub(super) fn settle(config: &mut Config) -> Result<(), Problem> {
    for (name, words) in &config.servers {
        let Some(said) = &words.inherit_env else { continue };
        let at = format!("servers.{name}.{KEY}");
        let problem = match config.mcp_servers.get_mut(name) {
            Some(McpServer::Stdio { inherit_env, .. }) if *inherit_env == InheritEnv::default() => {
                *inherit_env = said.clone();
                continue;
            }
            Some(McpServer::Stdio { .. }) => format!("stands under `mcpServers.{name}` already"),
            Some(McpServer::Http { .. }) => "only a server that is started has an environment".to_owned(),
            None => "is said of each command under `commands`".to_owned(),
        };
        return Err(Problem { at, problem });
    }
    Ok(())
}
