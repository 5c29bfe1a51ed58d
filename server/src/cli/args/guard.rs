//! The arguments of `hook` and `policy`.

use clap::{Args as ClapArgs, Subcommand, ValueEnum};

use super::one_of;
use crate::cli::times;
use crate::guard::HookClient;

/// The arguments of `hook`.
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Example:
  actbook hook claude-code < event.json

`actbook help guard` has the entry for each client's settings.")]
pub struct HookArgs {
    /// The client that calls the hook
    #[arg(value_parser = one_of(HookClient::ALL.iter().map(|client| client.as_str()), str::parse::<HookClient>))]
    pub client: HookClient,
    /// When the client gives the hook up; a held call is answered five seconds before [default: the client's own]
    #[arg(long, value_name = "SPAN", value_parser = times::span)]
    pub limit: Option<u64>,
}

/// The subcommands of `policy`.
#[derive(Debug, Subcommand)]
pub enum PolicySubcommand {
    /// Judge one call by the config's rules, with the trace of each rule; nothing is journaled
    #[command(after_help = "\
Example:
  actbook policy test call.yaml

A call: `call: { tool: client/shell, arguments: { command: ls } }`, and what else rules read: session, tool, caller, now")]
    Test {
        /// A file with the call, or `-` for stdin
        file: String,
    },
    /// Judge the calls of earlier sessions by the config's rules as they are now; nothing is journaled
    #[command(after_help = "\
Example:
  actbook policy replay --since 30d

It says what would change: calls that were allowed and would be asked about or denied, how many of them failed or were
undone, and how many went well.")]
    Replay {
        /// An age such as 30d, a date, or a time
        #[arg(long, value_name = "WHEN", default_value = "30d", value_parser = times::since)]
        since: i64,
    },
}

/// A scope of an approval that is wider than one call.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum ApprovalScopeArg {
    Session,
}

/// What an approval covers.
#[derive(Clone, Copy, Debug, ClapArgs)]
pub struct ApprovalScopeArgs {
    /// `session`: of a call of a session, later calls of its tool too, until the session gets another label
    #[arg(long = "for", value_name = "SCOPE", requires = "step")]
    scope: Option<ApprovalScopeArg>,
}

impl ApprovalScopeArgs {
    /// Whether the approval is for the tool as long as the session's labels stay.
    pub fn is_for_session(self) -> bool {
        self.scope.is_some()
    }
}

/// The subcommands of `session`.
#[derive(Debug, Subcommand)]
pub enum SessionSubcommand {
    /// Take a label off a session, which agents cannot do
    #[command(
        after_help = "Example:\n  actbook session clear-label 7k2m untrusted --reason \"read the page myself\""
    )]
    ClearLabel {
        /// Its id, or a unique beginning of it
        execution: String,
        label: String,
        /// Why; it is journaled
        #[arg(long, value_name = "TEXT")]
        reason: Option<String>,
    },
}
