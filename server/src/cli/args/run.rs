//! The arguments of `run` and `rerun`: the plan, its inputs, and how to run it.

use std::path::PathBuf;

use clap::Args;

use super::{DetachFlag, key_value};

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  actbook run notes.yaml --input version=1.2
  actbook run publish-notes --inputs inputs.yaml --yes
  actbook run notes.yaml --detach      and `actbook watch` it")]
pub struct RunArgs {
    /// A file, `-` for stdin, or the name or id of a saved plan
    pub plan: String,
    #[command(flatten)]
    pub input_args: InputArgs,
    #[command(flatten)]
    pub flags: RunFlags,
}

/// Run the plan of an execution again.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  actbook rerun 7k2m
  actbook rerun 7k2m --input version=1.3      the other inputs as before
  actbook rerun 7k2m --here                   with the servers as this config defines them")]
pub struct RerunArgs {
    /// The earlier execution: its id, or a unique beginning of it
    pub execution: String,
    /// Use this config's servers, though the earlier execution had other definitions of them
    #[arg(long)]
    pub here: bool,
    #[command(flatten)]
    pub input_args: InputArgs,
    #[command(flatten)]
    pub flags: RunFlags,
}

/// Inputs of a plan.
#[derive(Debug, Args)]
pub struct InputArgs {
    /// An input; read as JSON where the plan's schema or the text says so
    #[arg(long = "input", value_name = "KEY=VALUE", value_parser = key_value)]
    pub inputs: Vec<(String, String)>,
    /// Inputs from a YAML or JSON file; `--input` overrides them
    #[arg(long = "inputs", value_name = "FILE")]
    pub inputs_file: Option<PathBuf>,
}

/// How to run a plan.
#[derive(Clone, Copy, Debug, Args)]
pub struct RunFlags {
    /// Approve the plan, and nothing else
    #[arg(long)]
    pub yes: bool,
    /// Print what commands write as it comes, and the arguments and the output of each step as it ends
    #[arg(long, short, conflicts_with = "detach")]
    pub verbose: bool,
    #[command(flatten)]
    pub detach: DetachFlag,
}
