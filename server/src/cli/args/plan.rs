//! The arguments of `plan`: save, list, show, diff, graph and delete.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

#[derive(Debug, Subcommand)]
pub enum PlanSubcommand {
    /// Check a plan and save it; a new version only if it changed
    #[command(after_help = "Example:\n  actbook plan save notes.yaml")]
    Save {
        /// A file, or `-` for stdin
        file: String,
        /// Save it without asking the servers for their tools
        #[arg(long)]
        offline: bool,
    },
    /// List the saved plans
    List(PlanListArgs),
    /// Show a saved plan's document
    #[command(disable_version_flag = true)]
    #[command(after_help = "\
Examples:
  actbook plan show publish-notes
  actbook plan show publish-notes --version 2")]
    Show {
        plan: String,
        /// An earlier version [default: the newest]
        #[arg(long, value_name = "N")]
        version: Option<u64>,
    },
    /// Compare two versions of a saved plan
    #[command(after_help = "\
Examples:
  actbook plan diff publish-notes                    the newest against the one before
  actbook plan diff publish-notes --from 1 --to 3")]
    Diff {
        plan: String,
        /// [default: the version before --to]
        #[arg(long, value_name = "N")]
        from: Option<u64>,
        /// [default: the newest version]
        #[arg(long, value_name = "N")]
        to: Option<u64>,
    },
    /// Draw a plan: dependencies, conditions, compensations, point of no return
    #[command(after_help = "\
Examples:
  actbook plan graph notes.yaml
  actbook plan graph publish-notes --format svg --output notes.svg")]
    Graph {
        /// A file, `-` for stdin, or the name or id of a saved plan
        plan: String,
        #[arg(long, value_enum, default_value_t)]
        format: GraphFormat,
        /// Instead of stdout
        #[arg(long, short, value_name = "FILE")]
        output: Option<PathBuf>,
    },
    /// Delete a saved plan; its executions and its journal entries stay
    #[command(after_help = "Example:\n  actbook plan delete publish-notes")]
    Delete { plan: String },
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  actbook plan list
  actbook plan list --type deployment --search \"notes weekly\"")]
pub struct PlanListArgs {
    /// Only those of this `type`
    #[arg(long = "type", value_name = "TYPE")]
    pub kind: Option<String>,
    /// Only those that belong to this task
    #[arg(long, value_name = "ID")]
    pub task: Option<String>,
    /// Only those of this project: its name in the config, or its folder
    #[arg(long)]
    pub project: Option<String>,
    /// Words of the name, the description, the type or the task, which must all occur
    #[arg(long, value_name = "WORDS")]
    pub search: Option<String>,
}

#[derive(Clone, Copy, Debug, Default, ValueEnum)]
pub enum GraphFormat {
    #[default]
    Text,
    Mermaid,
    Dot,
    Svg,
}
