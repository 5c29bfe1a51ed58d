//! The arguments of `install` and `uninstall`.

use std::path::PathBuf;

use clap::{Args as ClapArgs, ValueEnum};

use crate::caller::Role;
use crate::guard::HookClient;

/// An agent's client. Hooks are understood from all but Claude Desktop, which has none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum AgentClient {
    ClaudeCode,
    ClaudeDesktop,
    Cursor,
    Vscode,
    Codex,
    Gemini,
    Copilot,
}

impl AgentClient {
    /// The client as `hook` knows it; `None`: it has no hooks.
    pub fn hook_client(self) -> Option<HookClient> {
        match self {
            Self::ClaudeCode => Some(HookClient::ClaudeCode),
            Self::ClaudeDesktop => None,
            Self::Cursor => Some(HookClient::Cursor),
            Self::Vscode => Some(HookClient::Vscode),
            Self::Codex => Some(HookClient::Codex),
            Self::Gemini => Some(HookClient::Gemini),
            Self::Copilot => Some(HookClient::Copilot),
        }
    }
}

/// Whose calls hooks see: those in all folders of this account, or those in one project.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum HookScope {
    #[default]
    User,
    Project,
}

impl HookScope {
    pub const ALL: [Self; 2] = [Self::User, Self::Project];

    /// The word on the command line.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Project => "project",
        }
    }
}

#[derive(Debug, ClapArgs)]
pub struct InstallArgs {
    #[arg(long, value_enum)]
    pub client: AgentClient,
    /// Print what would be written, and write nothing
    #[arg(long)]
    pub print: bool,
    /// The config that the client's Actbook should use [default: the one of the folder that the client starts it in]
    #[arg(long = "with-config", value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Guard the client's own calls: add hooks instead of an MCP server
    #[arg(long, conflicts_with = "url")]
    pub hooks: bool,
    /// With --hooks: in the settings of this account, or of the project in this folder
    #[arg(long, value_enum, default_value_t, requires = "hooks")]
    pub scope: HookScope,
    /// Offer the tools of the config's servers too, and guard their calls: `actbook mcp --guard`
    #[arg(long, conflicts_with = "url")]
    pub guard: bool,
    /// Connect the client to a running `serve` instead of starting Actbook
    #[arg(long, value_name = "URL", conflicts_with = "config")]
    pub url: Option<String>,
    /// With --url: the role of the client's new token
    #[arg(long, value_name = "ROLE", default_value_t = Role::Operator, requires = "url")]
    pub role: Role,
}

#[derive(Debug, ClapArgs)]
pub struct UninstallArgs {
    #[arg(long, value_enum)]
    pub client: AgentClient,
    /// Remove the hooks that `install --hooks` added, and nothing else
    #[arg(long, required = true)]
    pub hooks: bool,
    /// From the settings of this account, or of the project in this folder
    #[arg(long, value_enum, default_value_t)]
    pub scope: HookScope,
}
