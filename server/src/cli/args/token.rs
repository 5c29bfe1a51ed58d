//! The arguments of `token`: create, list, rotate and revoke.

use clap::{Args, Subcommand};

use crate::caller::Role;
use crate::cli::times;

#[derive(Debug, Subcommand)]
pub enum TokenSubcommand {
    /// Create a token and print it, this once
    #[command(after_help = "\
Examples:
  actbook token create --role operator --name claude       for an agent that runs plans and answers their questions
  actbook token create --role viewer --name ci --expires 30d
  actbook token create --role approver --person --name ada

Roles: viewer (read); agent (read, run, see arguments and outputs); operator (agent, and pause, resume, cancel, decide,
undo); approver (read, see arguments and outputs, approve); admin (all).")]
    Create(CreateTokenArgs),
    /// List the tokens
    #[command(after_help = "Example:\n  actbook token list")]
    List,
    /// Replace a token by a new one of the same name and role; the old one is good for another 24 hours
    #[command(after_help = "Example:\n  actbook token rotate claude")]
    Rotate {
        /// Its name, its id, or a unique beginning of the id
        token: String,
    },
    /// Revoke a token at once
    #[command(after_help = "Example:\n  actbook token revoke claude")]
    Revoke {
        /// Its name, its id, or a unique beginning of the id
        token: String,
    },
}

#[derive(Debug, Args)]
pub struct CreateTokenArgs {
    /// viewer, agent, operator, approver or admin
    #[arg(long, value_name = "ROLE")]
    pub role: Role,
    /// Who the journal says acted [default: the role]
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// For a person instead of an agent or a program
    #[arg(long)]
    pub person: bool,
    /// How long it is good, as in `30d`
    #[arg(long, value_name = "AGE", default_value = "90d", value_parser = times::age)]
    pub expires: i64,
}
