//! The arguments of commands that read the past: `list`, `journal`, `stats`.

use actbook_engine::policy::{ErrorCategory, ExecutionStatus};
use clap::Args;

use super::one_of;
use crate::cli::times;

// Arguments of `actbook list`, which lists executions.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  actbook list --status blocked
  actbook list --plan publish-notes --since 2d
  actbook list --category timeout --limit 20 --cursor 7k2m      the page after that one")]
pub struct ListArgs {
    /// Only those with this status; `stopped`: under way, and no process drives it
    #[arg(long, value_parser = one_of(ListedStatus::words(), ListedStatus::parse))]
    pub status: Option<ListedStatus>,
    /// Only those of this plan, by its name or id
    #[arg(long, value_name = "PLAN")]
    pub plan: Option<String>,
    /// Only those of this task
    #[arg(long, value_name = "ID")]
    pub task: Option<String>,
    /// Only those of this project: its name in the config, or its folder
    #[arg(long)]
    pub project: Option<String>,
    /// Only those with a step that failed, or is unknown, for this reason
    #[arg(long, value_parser = one_of(ErrorCategory::ALL.iter().map(|word| word.as_str()), str::parse::<ErrorCategory>))]
    pub category: Option<ErrorCategory>,
    /// Only those that called this tool, as `server/tool`
    #[arg(long, value_name = "TOOL")]
    pub tool: Option<String>,
    /// Only those that called a tool of this server
    #[arg(long, value_name = "SERVER")]
    pub server: Option<String>,
    /// Only those in which this actor has entries: `person:ada`, or `ada`
    #[arg(long)]
    pub actor: Option<String>,
    /// Only those started since: `30m`, `2h`, `3d` ago, a date, or a time such as 2030-01-31T12:00:00Z
    #[arg(long, value_name = "TIME", value_parser = times::since)]
    pub since: Option<i64>,
    #[arg(long, value_name = "TIME", value_parser = times::until)]
    pub until: Option<i64>,
    /// Words that must all occur: the id's beginning, or in the plan's name, the task, a tool or an actor
    #[arg(long, value_name = "WORDS")]
    pub search: Option<String>,
    /// Only those without this value: `status=failed`, `tool=mail/send`; also plan, task, server, actor and category
    #[arg(long, value_name = "NAME=VALUE", value_parser = parse_exclusion)]
    pub not: Vec<ListExclusion>,
    #[arg(long, default_value_t = 50)]
    pub limit: u64,
    /// Continue after this execution: the last one of the page before
    #[arg(long, value_name = "EXECUTION")]
    pub cursor: Option<String>,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  actbook journal --execution 7k2m
  actbook journal --kind decided --since 7d
  actbook journal --plan publish-notes --category timeout --limit 20
  actbook journal --limit 20 --cursor 1040      the page after position 1040
  actbook journal --tail 20 --since 2030-01-31  the newest twenty since that day, newest first
  actbook journal --follow --json")]
pub struct JournalArgs {
    #[arg(long, value_name = "ID")]
    pub execution: Option<String>,
    /// Of this plan's executions, by its name or id
    #[arg(long, value_name = "PLAN")]
    pub plan: Option<String>,
    /// Of this task's executions
    #[arg(long, value_name = "ID")]
    pub task: Option<String>,
    /// Of executions that have this status now
    #[arg(long, value_parser = one_of(ExecutionStatus::ALL.iter().map(|word| word.as_str()), str::parse::<ExecutionStatus>))]
    pub status: Option<ExecutionStatus>,
    /// Such as `attempt_ended`
    #[arg(long)]
    pub kind: Option<String>,
    /// Such as `person:ada`, or `ada`
    #[arg(long)]
    pub actor: Option<String>,
    /// What went wrong for this reason
    #[arg(long, value_parser = one_of(ErrorCategory::ALL.iter().map(|word| word.as_str()), str::parse::<ErrorCategory>))]
    pub category: Option<ErrorCategory>,
    /// `30m`, `2h`, `3d` ago, a date, or a time such as 2030-01-31T12:00:00Z
    #[arg(long, value_name = "TIME", value_parser = times::since)]
    pub since: Option<i64>,
    #[arg(long, value_name = "TIME", value_parser = times::until)]
    pub until: Option<i64>,
    /// Words that must all occur
    #[arg(long, value_name = "WORDS")]
    pub search: Option<String>,
    /// Only entries after this position: the last one of the page before
    #[arg(long, visible_alias = "after", value_name = "POSITION", default_value_t = 0)]
    pub cursor: u64,
    /// Stop after this many entries
    #[arg(long)]
    pub limit: Option<u64>,
    /// The newest N entries, newest first
    #[arg(long, value_name = "N", conflicts_with_all = ["limit", "follow"])]
    pub tail: Option<u64>,
    /// Newest first; `--cursor` then continues with older entries
    #[arg(long, conflicts_with_all = ["tail", "follow"])]
    pub newest: bool,
    /// Show the arguments, outputs and errors that belong to the entries
    #[arg(long, short)]
    pub verbose: bool,
    /// Continue with what is appended, until Ctrl-C
    #[arg(long, short)]
    pub follow: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  actbook stats
  actbook stats --since 7d --plan publish-notes
  actbook stats --json | jq .tools")]
pub struct StatsArgs {
    /// Only what began since: `30m`, `2h`, `3d` ago, a date, or a time such as 2030-01-31T12:00:00Z
    #[arg(long, value_name = "TIME", value_parser = times::since)]
    pub since: Option<i64>,
    #[arg(long, value_name = "TIME", value_parser = times::until)]
    pub until: Option<i64>,
    /// Only of this plan, by its name or id
    #[arg(long, value_name = "PLAN")]
    pub plan: Option<String>,
    /// Only of this task
    #[arg(long, value_name = "ID")]
    pub task: Option<String>,
    /// Only of this project: its name in the config, or its folder
    #[arg(long)]
    pub project: Option<String>,
}

/// A status as `list` shows it.
#[derive(Clone, Copy, Debug)]
pub enum ListedStatus {
    Status(ExecutionStatus),
    /// Under way, without a process that drives it.
    Stopped,
}

impl ListedStatus {
    const STOPPED: &str = "stopped";

    fn words() -> impl Iterator<Item = &'static str> {
        ExecutionStatus::ALL.iter().map(|status| status.as_str()).chain([Self::STOPPED])
    }

    fn parse(text: &str) -> Result<Self, String> {
        if text == Self::STOPPED { Ok(Self::Stopped) } else { text.parse().map(Self::Status) }
    }
}

/// A value that listed executions must not have.
#[derive(Clone, Debug)]
pub enum ListExclusion {
    Status(ExecutionStatus),
    Plan(String),
    Task(String),
    Tool(String),
    Server(String),
    Actor(String),
    Category(ErrorCategory),
}

/// Parses `NAME=VALUE`. `Err` names what a list can leave out.
fn parse_exclusion(text: &str) -> Result<ListExclusion, String> {
    let (name, value) = text.split_once('=').ok_or("write it as in status=failed")?;
    let text = || value.to_owned();
    match name {
        "status" => Ok(ListExclusion::Status(value.parse()?)),
        "plan" => Ok(ListExclusion::Plan(text())),
        "task" => Ok(ListExclusion::Task(text())),
        "tool" => Ok(ListExclusion::Tool(text())),
        "server" => Ok(ListExclusion::Server(text())),
        "actor" => Ok(ListExclusion::Actor(text())),
        "category" => Ok(ListExclusion::Category(value.parse()?)),
        other => Err(format!("`{other}` is not one of status, plan, task, tool, server, actor, category")),
    }
}
