//! The arguments of the command line, as clap parses them. Doc comments here are the help that users see.

mod decide;
mod guard;
mod history;
mod install;
mod memory;
mod plan;
mod run;
mod serve;
mod token;
mod undo;

use std::path::PathBuf;

use crate::service::ReportedStatus;
use actbook_engine::plan::find_inexact_in_json;
use clap::builder::styling::{AnsiColor, Styles};
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args as ClapArgs, CommandFactory, Parser, Subcommand, ValueEnum};
use serde_json::Value;

use super::times;
pub use decide::{DecideArgs, UnsettledKind};
pub use guard::{ApprovalScopeArgs, HookArgs, PolicySubcommand, SessionSubcommand};
pub use history::{JournalArgs, ListArgs, ListExclusion, ListedStatus, StatsArgs};
pub use install::{AgentClient, HookScope, InstallArgs, UninstallArgs};
pub use memory::{
    ContextSubcommand, NoteOwnerArgs, TaskDetailArgs, TaskSubcommand, TemplateSubcommand, UseTemplateArgs,
};
pub use plan::{GraphFormat, PlanListArgs, PlanSubcommand};
pub use run::{InputArgs, RerunArgs, RunArgs, RunFlags};
pub use serve::ServeArgs;
pub use token::{CreateTokenArgs, TokenSubcommand};
pub use undo::UndoArgs;

const STYLES: Styles = Styles::styled()
    .header(AnsiColor::Green.on_default().bold())
    .usage(AnsiColor::Green.on_default().bold())
    .literal(AnsiColor::Cyan.on_default().bold())
    .placeholder(AnsiColor::Cyan.on_default());

/// The book of acts for AI agents: checks a plan of tool calls, runs it, journals it, undoes it.
#[derive(Debug, Parser)]
#[command(name = "actbook", version, styles = STYLES, propagate_version = true, max_term_width = 110)]
#[command(disable_help_subcommand = true)]
#[command(after_help = "\
Examples:
  actbook demo                                  the whole story in a minute, in a scratch folder
  actbook check notes.yaml                      what would happen, and where the point of no return lies
  actbook run notes.yaml --input version=1.2    to the end, or to the first question
  actbook show 7k2m                             what happened, what waits, what to type next

Exit codes: 0 done; 1 refused or failed; 2 usage; 3 the execution waits for an answer.
Ids may be shortened to a unique beginning.
Reference: actbook help plan|config|expressions|answers|semantics|journal|agents|clients …")]
pub struct CliArgs {
    #[command(flatten)]
    pub common: CommonArgs,
    #[command(subcommand)]
    pub command: CliCommand,
}

impl CliArgs {
    /// Checks what clap cannot: that the words of `decide` make sense. `Err` is the usage error to print.
    pub fn validate(self) -> Result<Self, clap::Error> {
        if let CliCommand::Decide(decide) = &self.command
            && let Err(why) = decide.steps_and_answer()
        {
            let mut command = Self::command();
            command.build();
            let decide = command.find_subcommand_mut("decide").expect("it was parsed");
            return Err(decide.error(clap::error::ErrorKind::ValueValidation, why));
        }
        Ok(self)
    }

    /// The same error, without hidden commands among its suggestions.
    pub fn without_hidden_suggestions(mut error: clap::Error) -> clap::Error {
        use clap::error::{ContextKind, ContextValue};
        if let Some(ContextValue::Strings(mut names)) = error.remove(ContextKind::SuggestedSubcommand) {
            let command = Self::command();
            names.retain(|name| !command.find_subcommand(name).is_some_and(clap::Command::is_hide_set));
            if !names.is_empty() {
                error.insert(ContextKind::SuggestedSubcommand, ContextValue::Strings(names));
            }
        }
        error
    }
}

#[derive(Clone, Debug, ClapArgs)]
pub struct CommonArgs {
    /// The database: a file for SQLite, or postgres://… [default: SQLite in your data folder]
    #[arg(long, global = true, value_name = "URL", env = "ACTBOOK_DATABASE", hide_env_values = true)]
    #[arg(help_heading = "Everywhere")]
    pub database: Option<String>,
    /// The config [default: actbook.yaml here, once you trust it, then in your config folder]
    #[arg(long, global = true, value_name = "FILE", env = "ACTBOOK_CONFIG", hide_env_values = true)]
    #[arg(help_heading = "Everywhere")]
    pub config: Option<PathBuf>,
    /// Answer with one JSON document, or one per line for streams
    #[arg(long, global = true, help_heading = "Everywhere")]
    pub json: bool,
    /// Accept a PostgreSQL server that answers before it has synced: a power cut may lose what was answered
    #[arg(long, global = true, help_heading = "Everywhere")]
    pub unsafe_durability: bool,
}

// The flag `--detach` of the commands that drive an execution.
#[derive(Clone, Copy, Debug, ClapArgs)]
pub struct DetachFlag {
    /// Leave a background process driving it
    #[arg(long)]
    pub detach: bool,
}

#[derive(Debug, Subcommand)]
pub enum CliCommand {
    /// Run a plan to its end or the first question, with live progress
    Run(RunArgs),
    /// Run the plan of an execution again: the same version, the same inputs
    Rerun(RerunArgs),
    /// Check a plan before anything happens: schema, graph, references, live tools, point of no return
    #[command(after_help = "\
Examples:
  actbook check notes.yaml
  actbook check notes.yaml --offline      without asking the servers for their tools")]
    Check {
        /// A file, `-` for stdin, or the name or id of a saved plan
        plan: String,
        /// Leave out whatever needs the servers
        #[arg(long)]
        offline: bool,
    },
    /// Saved plans: save, list, show, diff, graph, delete
    #[command(subcommand)]
    Plan(PlanSubcommand),
    /// List executions, newest first
    List(ListArgs),
    /// Explain an execution: what happened, what waits, what to type next; or one of its steps whole
    #[command(after_help = "\
Examples:
  actbook show 7k2m
  actbook show 7k2m publish      its arguments, output, attempts, approval, compensation
  actbook show 7k2m --json | jq .brief")]
    Show {
        /// Its id, or a unique beginning of it
        execution: String,
        /// The step's id in its plan
        step: Option<String>,
    },
    /// Follow an execution to its end or its next question
    #[command(after_help = "Example:\n  actbook watch 7k2m")]
    Watch {
        /// Its id, or a unique beginning of it
        execution: String,
    },
    /// Start nothing further; calls in flight finish
    #[command(after_help = "Example:\n  actbook pause 7k2m --reason \"the network is down\"")]
    Pause {
        /// Its id, or a unique beginning of it
        execution: String,
        /// Why; it is journaled
        #[arg(long, value_name = "TEXT")]
        reason: Option<String>,
    },
    /// Lift a pause, or continue an execution whose driver is gone
    #[command(after_help = "\
Examples:
  actbook resume 7k2m
  actbook resume 7k2m --here      go on with the servers as this config defines them")]
    Resume {
        /// Its id, or a unique beginning of it
        execution: String,
        /// Adopt this config's definitions of its servers; that is journaled
        #[arg(long)]
        here: bool,
        #[command(flatten)]
        detach: DetachFlag,
    },
    /// Stop for good, undoing nothing; calls in flight are asked to stop
    #[command(after_help = "Example:\n  actbook cancel 7k2m --reason \"no longer wanted\"")]
    Cancel {
        /// Its id, or a unique beginning of it
        execution: String,
        /// Why; it is journaled
        #[arg(long, value_name = "TEXT")]
        reason: Option<String>,
    },
    /// Answer one event of an agent's client: judge, journal or hold the call
    Hook(HookArgs),
    /// What the config's rules say of a call
    #[command(subcommand)]
    Policy(PolicySubcommand),
    /// Guarded sessions: take a label off
    #[command(subcommand)]
    Session(SessionSubcommand),
    /// Answer steps that failed, whose outcome is unknown, or whose undo failed
    Decide(DecideArgs),
    /// Approve a step; without STEP the plan, or a proposed undo
    #[command(after_help = "\
Examples:
  actbook approve 7k2m
  actbook approve 7k2m publish --reason \"read it twice\"")]
    Approve {
        /// Its id, or a unique beginning of it
        execution: String,
        /// The step's id in its plan
        step: Option<String>,
        #[command(flatten)]
        scope: ApprovalScopeArgs,
        /// Why; it is journaled
        #[arg(long, value_name = "TEXT")]
        reason: Option<String>,
    },
    /// Reject a step; without STEP the plan, or a proposed undo
    #[command(after_help = "Example:\n  actbook reject 7k2m publish --reason \"wrong version\"")]
    Reject {
        /// Its id, or a unique beginning of it
        execution: String,
        /// The step's id in its plan
        step: Option<String>,
        /// Why; it is journaled
        #[arg(long, value_name = "TEXT")]
        reason: Option<String>,
    },
    /// Report an agent's step by hand
    Record(RecordArgs),
    /// Compensate whatever may have run, in reverse order
    #[command(after_help = "\
Examples:
  actbook undo 7k2m --dry-run      the calls it would make, in order
  actbook undo 7k2m
  actbook undo 7k2m --from c7      in a session: what this call and later ones did
  actbook undo 7k2m --only files   in a session: restore files, make no call
  actbook undo 7k2m --here         with the servers as this config defines them")]
    Undo(UndoArgs),
    /// Read the journal
    Journal(JournalArgs),
    /// Figures: success, times, failures, retries, waiting, confidence
    Stats(StatsArgs),
    /// Check the whole journal, or an exported FILE without any database
    #[command(after_help = "\
Examples:
  actbook verify
  actbook verify run.jsonl      an export, checked offline")]
    Verify { file: Option<PathBuf> },
    /// Write one execution as a file that anybody can check offline
    #[command(after_help = "\
Examples:
  actbook export 7k2m --output run.jsonl
  actbook export 7k2m | gzip > run.jsonl.gz")]
    Export {
        /// Its id, or a unique beginning of it
        execution: String,
        /// Instead of stdout
        #[arg(value_name = "FILE", conflicts_with = "output")]
        file: Option<PathBuf>,
        /// The same
        #[arg(long, short, value_name = "FILE")]
        output: Option<PathBuf>,
    },
    /// Replay the lists from the journal
    #[command(after_help = "Example:\n  actbook rebuild")]
    Rebuild,
    /// Copy the database to a new file while others write
    #[command(after_help = "Example:\n  actbook backup actbook-copy.db")]
    Backup { file: PathBuf },
    /// Erase arguments and outputs of executions that ended long ago; the chain still verifies
    #[command(after_help = "\
Examples:
  actbook cleanup --older-than 90d --dry-run
  actbook cleanup --older-than 90d")]
    Cleanup {
        /// As in `90d`
        #[arg(long, value_name = "AGE", value_parser = times::age)]
        older_than: i64,
        #[arg(long)]
        dry_run: bool,
    },
    /// The downstream tools: list, show, call, accept, import
    #[command(subcommand)]
    Tools(ToolsSubcommand),
    /// Notes that outlive a conversation: set, get, search, delete
    #[command(subcommand)]
    Context(ContextSubcommand),
    /// Tasks, which have an id elsewhere: add, list, show, split, set, done
    #[command(subcommand)]
    Task(TaskSubcommand),
    /// Plans with inputs, to be used again: list, show, use, save, from, delete
    #[command(subcommand)]
    Template(TemplateSubcommand),
    /// Serve MCP over stdio, for an agent's client to start
    #[command(after_help = "\
Examples:
  claude mcp add actbook -- actbook mcp
  actbook mcp --tools record      for agents that call their tools themselves and report
  actbook mcp --guard             the servers' tools too, as server__tool: each call is judged by the rules and journaled")]
    Mcp {
        /// Which tools to offer
        #[arg(long, value_enum, default_value_t)]
        tools: ProfileArg,
        /// Offer the tools of the config's servers too, as `server__tool`, and guard their calls
        #[arg(long)]
        guard: bool,
    },
    /// Serve the dashboard at /, the API at /api/v1 and MCP at /mcp, beside /healthz and /readyz
    #[command(after_help = "\
Examples:
  actbook serve
  actbook serve --listen 127.0.0.1:8080 --tools full
  actbook serve --listen 0.0.0.0:4700 --public-url https://book.example      behind a proxy with TLS")]
    Serve(ServeArgs),
    /// Sign in to the dashboard of a running `serve`: a one-time URL, opened in the browser
    #[command(after_help = "Example:\n  actbook open      over ssh it only prints the URL")]
    Open,
    /// Tokens for programs, agents and people who call `serve`
    #[command(subcommand)]
    Token(TokenSubcommand),
    /// Add Actbook to an agent client's MCP servers, or guard its calls by hooks
    #[command(after_help = "\
Examples:
  actbook install --client claude-code
  actbook install --client cursor --print      what to paste, and change nothing
  actbook install --client cursor --url http://127.0.0.1:4700/mcp      a running `serve`, with a token of its own
  actbook install --client codex --hooks      guard the client's own calls; `actbook help guard`")]
    Install(InstallArgs),
    /// Remove the hooks that `install --hooks` added
    #[command(after_help = "Example:\n  actbook uninstall --client cursor --hooks")]
    Uninstall(UninstallArgs),
    /// Trust a config found in the working folder, so that its servers may be started
    #[command(after_help = "\
Examples:
  actbook trust                 shows what actbook.yaml here would start, reach and read, and asks
  actbook trust --yes FILE      without asking

A config that --config, ACTBOOK_CONFIG or your config folder names needs no trust. A change of what the file says needs
it again.")]
    Trust(TrustArgs),
    /// Check the database, the config, the servers and the folders
    #[command(after_help = "Example:\n  actbook doctor")]
    Doctor,
    /// The whole story in a minute: run, fail, brief, undo, verify, in a scratch folder
    #[command(after_help = "\
Examples:
  actbook demo
  actbook demo --serve           and show it in the dashboard
  actbook demo --keep story      leave the folder there to look around in")]
    Demo {
        /// Use this folder and leave it there
        #[arg(long, value_name = "DIR")]
        keep: Option<PathBuf>,
        /// Then serve the dashboard of this story until Ctrl-C
        #[arg(long)]
        serve: bool,
        /// An agent without a plan instead: its calls are guarded, one is stopped, and all are undone
        #[arg(long, conflicts_with = "serve")]
        guard: bool,
    },
    /// An MCP server over stdio with real effects in one folder, for the demo and for trying plans
    #[command(
        after_help = "Example, in actbook.yaml:\n  mcpServers:\n    files: { command: actbook, args: [demo-tools, --folder, ./work] }"
    )]
    DemoTools {
        #[arg(long, value_name = "DIR")]
        folder: PathBuf,
        /// Also tools that answer later, or ask back
        #[arg(long, hide = true)]
        long: bool,
    },
    /// The reference: plans, config, answers, the journal …; or the help of a command
    #[command(after_help = "\
Examples:
  actbook help                 the commands and the topics
  actbook help plan            every field of a plan
  actbook help config          every key of actbook.yaml")]
    Help {
        /// A topic, or a command
        #[arg(value_name = "TOPIC")]
        topic: Vec<String>,
    },
    /// Print shell completions
    #[command(
        after_help = "Example:\n  actbook completions bash > ~/.local/share/bash-completion/completions/actbook"
    )]
    Completions { shell: clap_complete::Shell },
    /// Print the man page
    #[command(hide = true, after_help = "Example:\n  actbook man > actbook.1 && man ./actbook.1")]
    Man,
    /// Drive an execution without a terminal: what `--detach` leaves behind
    #[command(hide = true)]
    Drive {
        /// Its id, or a unique beginning of it
        execution: String,
    },
}

#[derive(Debug, ClapArgs)]
pub struct TrustArgs {
    /// Do not ask
    #[arg(long)]
    pub yes: bool,
    /// The config [default: the one in the working folder]
    pub file: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, Default, ValueEnum)]
pub enum ProfileArg {
    /// Plans that Actbook runs
    #[default]
    Run,
    /// For agents that call their tools themselves and report
    Record,
    /// Those of `run`, and plans, templates, tasks and statistics
    Full,
}

#[derive(Debug, Subcommand)]
pub enum ToolsSubcommand {
    /// List the tools of every server
    #[command(after_help = "\
Examples:
  actbook tools list
  actbook tools list files")]
    List {
        /// Only this server's
        server: Option<String>,
    },
    /// Show one tool: its schemas and what its server declares about it
    #[command(after_help = "Example:\n  actbook tools show files/write_file")]
    Show { tool: String },
    /// Call a tool by hand, outside any plan and any journal; asks first where the config demands an approval
    Call(CallToolArgs),
    /// Accept a tool's current definition, for every plan that was checked against an older one
    #[command(
        after_help = "Example:\n  actbook tools accept files/write_file --reason \"read the new description\""
    )]
    Accept {
        tool: String,
        /// Why; it is journaled
        #[arg(long, value_name = "TEXT")]
        reason: Option<String>,
    },
    /// Import the servers of another client's config
    #[command(after_help = "\
Examples:
  actbook tools import --from claude-code
  actbook tools import --from ./mcp.json --dry-run")]
    Import {
        /// claude-code, claude-desktop, cursor, vscode, or a file
        #[arg(long, value_name = "CLIENT|FILE")]
        from: String,
        /// Say what would be done, and do nothing
        #[arg(long, alias = "print")]
        dry_run: bool,
    },
}

#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Examples:
  actbook tools call files/stat_file '{\"path\": \"notes.md\"}'
  actbook tools call mail/send --arguments '{\"to\": \"ada\"}' --yes      without the question of `approval: required`")]
pub struct CallToolArgs {
    pub tool: String,
    #[arg(value_name = "JSON", value_parser = parse_json_argument, conflicts_with = "named_arguments")]
    pub arguments: Option<Value>,
    /// The arguments, as `decide` takes them
    #[arg(long = "arguments", value_name = "JSON", value_parser = parse_json_argument)]
    pub named_arguments: Option<Value>,
    #[arg(long, value_parser = times::span, default_value = "60s")]
    pub timeout: u64,
    /// Approve the call where the config demands an approval of the tool
    #[arg(long)]
    pub yes: bool,
}

#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Examples:
  actbook record 7k2m announce succeeded --output '{\"link\": \"…\"}' --confidence 0.9
  actbook record 7k2m announce failed --reason \"the channel is gone\"
  actbook record 7k2m draft compensated --description \"deleted the file\"")]
pub struct RecordArgs {
    /// Its id, or a unique beginning of it
    pub execution: String,
    /// The step's id in its plan
    pub step: String,
    /// How it ended
    #[arg(value_parser = one_of(ReportedStatus::ALL.iter().map(|word| word.as_str()), str::parse::<ReportedStatus>))]
    pub status: ReportedStatus,
    /// Its output
    #[arg(long, value_name = "JSON", value_parser = parse_json_argument)]
    pub output: Option<Value>,
    /// Why; it is journaled
    #[arg(long, value_name = "TEXT")]
    pub reason: Option<String>,
    /// What was done, in words
    #[arg(long, value_name = "TEXT")]
    pub description: Option<String>,
    /// A label, such as `file_edit`
    #[arg(long = "type", value_name = "WORD")]
    pub kind: Option<String>,
    /// What it was done to
    #[arg(long, value_name = "NAME")]
    pub entity: Option<String>,
    /// How that was before; JSON, or a text
    #[arg(long, value_name = "STATE", value_parser = parse_json_or_text)]
    pub before: Option<Value>,
    /// How it is now; JSON, or a text
    #[arg(long, value_name = "STATE", value_parser = parse_json_or_text)]
    pub after: Option<Value>,
    /// How sure, from 0 to 1
    #[arg(long, value_name = "NUMBER")]
    pub confidence: Option<f64>,
}

/// Parses `KEY=VALUE` with a key that is not empty; `Err` is the usage text.
fn key_value(text: &str) -> Result<(String, String), String> {
    let pair = text.split_once('=').filter(|(key, _)| !key.is_empty());
    let pair = pair.map(|(key, value)| (key.to_owned(), value.to_owned()));
    pair.ok_or_else(|| "write it as in --input version=1.2".to_owned())
}

/// Parses JSON whose numbers can be held exactly; `Err` is the usage text.
fn parse_json_argument(text: &str) -> Result<Value, String> {
    reject_inexact_number(text)?;
    serde_json::from_str(text).map_err(|error| format!("is not JSON: {error}"))
}

/// Parses JSON; text that is no JSON becomes a string. `Err`: it holds a number that would lose digits.
pub fn parse_json_or_text(text: &str) -> Result<Value, String> {
    reject_inexact_number(text)?;
    Ok(serde_json::from_str(text).unwrap_or_else(|_| Value::from(text)))
}

/// Refuses text with a whole number that would lose digits when read as JSON; `Err` says which, and the cure.
fn reject_inexact_number(text: &str) -> Result<(), String> {
    let Some(number) = find_inexact_in_json(text) else { return Ok(()) };
    let (message, cure) = number.message_and_cure();
    Err(format!("{message}; {cure}"))
}

/// A clap value parser: accepts exactly the words `known`, lists them in the help, and parses with `read`.
fn one_of<W: Clone + Send + Sync + 'static>(
    known: impl Iterator<Item = &'static str>,
    read: fn(&str) -> Result<W, String>,
) -> impl TypedValueParser<Value = W> {
    PossibleValuesParser::new(known.map(PossibleValue::new)).try_map(move |text| read(&text))
}
