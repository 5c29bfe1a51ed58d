//! `inherit_env`: which variables of Actbook's own environment a child process gets besides the basic ones.

use serde_json::Value;

use super::{Config, ConfigProblem, McpServer};

/// The config key.
pub(super) const KEY: &str = "inherit_env";

/// The variables that a child inherits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InheritEnv {
    /// These variables, as far as they are set.
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
            Value::String(text) if text == "all" => Ok(Self::All),
            Value::Array(names) => {
                let names: Option<Vec<String>> =
                    names.iter().map(|name| valid_variable_name(name.as_str()?)).collect();
                names.map(Self::Names).ok_or_else(refused)
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Object(_) => {
                Err(refused())
            }
        }
    }

    /// The listed names; empty for `all`.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        let names: &[String] = match self {
            Self::Names(names) => names,
            Self::All => &[],
        };
        names.iter().map(String::as_str)
    }

    /// As written in the config. None: nothing is inherited; so the digest of a definition without the key is
    /// the same as before the key existed.
    pub fn source(&self) -> Option<Value> {
        match self {
            Self::All => Some(Value::from("all")),
            Self::Names(names) if names.is_empty() => None,
            Self::Names(names) => Some(Value::from(names.clone())),
        }
    }
}

/// The name, if it can be that of an environment variable.
fn valid_variable_name(name: &str) -> Option<String> {
    let well_formed = !name.is_empty() && !name.contains(['=', '\0']);
    well_formed.then(|| name.to_owned())
}

/// Moves `servers.NAME.inherit_env` to the definition of that server under `mcpServers`.
pub(super) fn move_to_definitions(config: &mut Config) -> Result<(), ConfigProblem> {
    for (name, server_config) in &config.servers {
        let Some(inherited) = &server_config.inherit_env else { continue };
        let at = format!("servers.{name}.{KEY}");
        let problem = match config.mcp_servers.get_mut(name) {
            Some(McpServer::Stdio { inherit_env, .. }) if *inherit_env == InheritEnv::default() => {
                *inherit_env = inherited.clone();
                continue;
            }
            Some(McpServer::Stdio { .. }) => format!("is already set under `mcpServers.{name}`"),
            Some(McpServer::Http { .. }) => "only a server that is started has an environment".to_owned(),
            None => "is set for each command under `commands`".to_owned(),
        };
        return Err(ConfigProblem { at, problem });
    }
    Ok(())
}
