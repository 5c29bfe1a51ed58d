//! The words of a run: which plan, what it is given, how it goes.

use std::path::PathBuf;

use clap::Args as Group;

use super::{Detach, key_value};

#[derive(Debug, Group)]
#[command(after_help = "\
Examples:
  actbook run notes.yaml --input version=1.2
  actbook run publish-notes --inputs inputs.yaml --yes
  actbook run notes.yaml --detach      and `actbook watch` it")]
pub struct Run {
    /// A file, `-` for stdin, or the name or id of a saved plan
    pub plan: String,
    #[command(flatten)]
    pub given: Given,
    #[command(flatten)]
    pub how: How,
}

/// A run with what an earlier one was given.
#[derive(Debug, Group)]
#[command(after_help = "\
Examples:
  actbook rerun 7k2m
  actbook rerun 7k2m --input version=1.3      the other inputs as before")]
pub struct Rerun {
    /// The earlier execution: its id, or a unique beginning of it
    pub execution: String,
    #[command(flatten)]
    pub given: Given,
    #[command(flatten)]
    pub how: How,
}

/// What a plan is given.
#[derive(Debug, Group)]
pub struct Given {
    /// An input; read as JSON where the plan's schema or the text says so
    #[arg(long = "input", value_name = "KEY=VALUE", value_parser = key_value)]
    pub inputs: Vec<(String, String)>,
    /// Inputs from a YAML or JSON file; `--input` goes over them
    #[arg(long = "inputs", value_name = "FILE")]
    pub inputs_file: Option<PathBuf>,
}

/// How a run goes.
#[derive(Clone, Copy, Debug, Group)]
pub struct How {
    /// Say yes to the plan's own approval, and to nothing else
    #[arg(long)]
    pub yes: bool,
    /// Print the arguments and the output of each step as it ends
    #[arg(long, short, conflicts_with = "detach")]
    pub verbose: bool,
    #[command(flatten)]
    pub detach: Detach,
}
