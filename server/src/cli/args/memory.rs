//! The arguments of `context` (notes), `task` and `template`.

use crate::service::TaskStatus;
use clap::{Args, Subcommand};
use serde_json::Value;

use super::{InputArgs, RunFlags, one_of, parse_json_argument, parse_json_or_text};
use crate::cli::times;

#[derive(Debug, Subcommand)]
pub enum ContextSubcommand {
    /// Write a note; the newest value of a key wins, earlier ones stay in its history
    #[command(after_help = "\
Examples:
  actbook context set db-port 5433 --type decisions --task TASK-12
  actbook context set endpoints '{\"users\": \"/v2/users\"}' --type api_endpoints
  actbook context set login-token-rotated yes --expires-in 12h")]
    Set {
        key: String,
        /// JSON, or a text
        #[arg(value_parser = parse_json_or_text)]
        value: Value,
        /// research, decisions, blockers, dependencies, notes, files, code_references, api_endpoints, or a word of your own
        #[arg(long, value_name = "TYPE")]
        r#type: Option<String>,
        #[command(flatten)]
        owner: NoteOwnerArgs,
        #[arg(long, value_name = "JSON", value_parser = parse_json_argument)]
        metadata: Option<Value>,
        /// Not found any more after this long: `30m`, `12h`, `90d`
        #[arg(long, value_name = "AGE", value_parser = times::age)]
        expires_in: Option<i64>,
        /// Every project sees it
        #[arg(long)]
        everywhere: bool,
    },
    /// Print the newest value of a key
    #[command(after_help = "\
Examples:
  actbook context get db-port
  actbook context get db-port --history      every value it had, newest first")]
    Get {
        key: String,
        #[command(flatten)]
        owner: NoteOwnerArgs,
        #[arg(long)]
        history: bool,
    },
    /// Find notes by words: all must occur; `begin*` and \"a phrase\" work
    #[command(after_help = "\
Examples:
  actbook context search port
  actbook context search 'conn* \"read replica\"' --type decisions
  actbook context search --task TASK-12      all notes of a task, newest first")]
    Search {
        #[arg(value_name = "WORDS")]
        words: Vec<String>,
        #[arg(long, value_name = "TYPE")]
        r#type: Option<String>,
        #[command(flatten)]
        owner: NoteOwnerArgs,
        #[arg(long)]
        limit: Option<u64>,
    },
    /// Delete a note; that is journaled, and its history stays
    #[command(after_help = "Example:\n  actbook context delete db-port")]
    Delete {
        key: String,
        #[command(flatten)]
        owner: NoteOwnerArgs,
    },
}

// The subcommands of `task`. Plans, executions and notes can belong to a task.
#[derive(Debug, Subcommand)]
pub enum TaskSubcommand {
    /// Add a task; if a rule of the config matches it, the rule's plan is saved for it
    #[command(after_help = "\
Examples:
  actbook task add TASK-12 --title \"Move the database\" --priority 2 --estimate 4h
  actbook task add BUG-7 --type bug --label urgent --field version=1.2")]
    Add {
        /// Its id, as it is known elsewhere
        id: String,
        #[command(flatten)]
        details: TaskDetailArgs,
    },
    /// List tasks, what is open first
    #[command(after_help = "Example:\n  actbook task list --status blocked")]
    List {
        #[arg(long, value_parser = one_of(TaskStatus::ALL.iter().map(|word| word.as_str()), str::parse::<TaskStatus>))]
        status: Option<TaskStatus>,
    },
    /// A task's whole history: plans, executions, decisions, notes, in time
    #[command(after_help = "Example:\n  actbook task show TASK-12")]
    Show { id: String },
    /// Make a subtask of each step of a saved plan; they follow its executions
    #[command(after_help = "Example:\n  actbook task split TASK-12 move-the-database")]
    Split {
        id: String,
        /// A saved plan's name or id
        plan: String,
    },
    /// Change a task's fields
    #[command(after_help = "Example:\n  actbook task set TASK-12 --status blocked --priority 5")]
    Set {
        id: String,
        #[arg(long, value_parser = one_of(TaskStatus::ALL.iter().map(|word| word.as_str()), str::parse::<TaskStatus>))]
        status: Option<TaskStatus>,
        #[command(flatten)]
        details: TaskDetailArgs,
    },
    /// Mark a task as done
    #[command(after_help = "Example:\n  actbook task done TASK-12")]
    Done { id: String },
}

#[derive(Debug, Subcommand)]
pub enum TemplateSubcommand {
    /// List the templates, those that were made here first; an input with a star is required
    #[command(after_help = "Example:\n  actbook template list")]
    List,
    /// Show a template's document, and who saved it when
    #[command(after_help = "\
Examples:
  actbook template show research
  actbook template show release > release.yaml      to write one of your own")]
    Show { template: String },
    /// Make a plan of a template and save it; what is given becomes the default of its input
    Use(UseTemplateArgs),
    /// Save a plan as a template
    #[command(after_help = "\
Examples:
  actbook template save notes.yaml
  actbook template save publish-notes publish")]
    Save {
        /// A file, `-` for stdin, or the name or id of a saved plan
        plan: String,
        /// The template's name [default: the plan's]
        name: Option<String>,
        /// Every project sees it
        #[arg(long)]
        everywhere: bool,
    },
    /// Make a template of what an execution ran: its literals become inputs, with their old values as defaults
    #[command(after_help = "\
Examples:
  actbook template from 7k2m publish
  actbook template use publish --input path=notes-1.3.md --run")]
    From {
        /// Its id, or a unique beginning of it
        execution: String,
        /// The template's name
        name: String,
        /// Every project sees it
        #[arg(long)]
        everywhere: bool,
    },
    /// Delete a template that was made here; that is journaled, and plans made of it stay
    #[command(after_help = "Example:\n  actbook template delete publish")]
    Delete { template: String },
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  actbook template use research --input topic=queues --task TASK-9
  actbook template use release --input version=1.3 --run
  actbook template use research --input topic=queues --as compare-queues")]
pub struct UseTemplateArgs {
    pub template: String,
    #[command(flatten)]
    pub input_args: InputArgs,
    /// The plan's name [default: the template's]
    #[arg(long = "as", value_name = "NAME")]
    pub name: Option<String>,
    /// The task that the plan belongs to
    #[arg(long, value_name = "ID")]
    pub task: Option<String>,
    /// Save it without asking the servers for their tools
    #[arg(long, conflicts_with = "run")]
    pub offline: bool,
    /// Run it to its end or the first question
    #[arg(long)]
    pub run: bool,
    #[command(flatten)]
    pub flags: RunFlags,
}

#[derive(Debug, Args)]
pub struct TaskDetailArgs {
    #[arg(long, value_name = "TEXT")]
    pub title: Option<String>,
    /// The higher, the more urgent
    #[arg(long, value_name = "NUMBER", allow_negative_numbers = true)]
    pub priority: Option<i64>,
    /// As in `30m`, `4h`, `2d`
    #[arg(long, value_name = "TIME", value_parser = times::age)]
    pub estimate: Option<i64>,
    /// The task that it is a part of
    #[arg(long, value_name = "ID")]
    pub parent: Option<String>,
    #[arg(long, value_name = "WORD")]
    pub r#type: Option<String>,
    #[arg(long = "label", value_name = "WORD")]
    pub labels: Vec<String>,
    /// What else there is to say; an input of its plan, where that has one of this name
    #[arg(long = "field", value_name = "NAME=VALUE")]
    pub fields: Vec<String>,
}

/// What a note belongs to.
#[derive(Clone, Debug, Default, Args)]
#[group(multiple = false)]
pub struct NoteOwnerArgs {
    /// A task's id
    #[arg(long, value_name = "ID")]
    pub task: Option<String>,
    /// A plan's name or id
    #[arg(long, value_name = "PLAN")]
    pub plan: Option<String>,
    /// An execution's id, or a unique beginning of it
    #[arg(long, value_name = "ID")]
    pub execution: Option<String>,
}
