//! The arguments of `decide`: an answer to steps that failed, or whose outcome is unknown.

use actbook_engine::policy::{StepAnswer, StepStatus};
use clap::{Args, ValueEnum};
use serde_json::Value;

use super::parse_json_argument;

#[derive(Debug, Args)]
#[command(override_usage = "\
actbook decide <EXECUTION> <STEP>... <ANSWER> --reason <TEXT> [--output <JSON>] [--arguments <JSON>]
       actbook decide <EXECUTION> --all <unknown|failed> <ANSWER> --reason <TEXT>")]
#[command(after_help = "\
Examples:
  actbook decide 7k2m publish retry --reason \"the disk has room again\"
  actbook decide 7k2m publish retry --reason \"the path was wrong\" --arguments '{\"path\": \"notes.md\"}'
  actbook decide 7k2m charge happened --reason \"seen on the account\" --output '{\"id\": 12}'
  actbook decide 7k2m first second skip --reason \"not needed any more\"
  actbook decide 7k2m --all unknown did-not-happen --reason \"the server was never reached\"")]
pub struct DecideArgs {
    /// Its id, or a unique beginning of it
    pub execution: String,
    /// The steps' ids in their plan, then what becomes of them: retry, skip, happened, did-not-happen, compensate or
    /// abandon
    #[arg(required = true, num_args = 1.., value_name = "STEP… ANSWER")]
    words: Vec<String>,
    /// Every step of this kind that waits for an answer, instead of naming them
    #[arg(long, value_enum, value_name = "KIND")]
    pub all: Option<UnsettledKind>,
    /// Why; it is journaled
    #[arg(long, value_name = "TEXT")]
    pub reason: String,
    /// The step's output, for `happened` and `skip`; with `retry` the reply to what its tool asks
    #[arg(long, value_name = "JSON", value_parser = parse_json_argument)]
    pub output: Option<Value>,
    /// With `retry` or `did-not-happen` of one step: all arguments of its call, corrected
    #[arg(long, value_name = "JSON", value_parser = parse_json_argument, conflicts_with = "output")]
    pub arguments: Option<Value>,
}

/// The kind of steps that `--all` answers together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum UnsettledKind {
    /// Those of which it is unknown whether they took effect
    Unknown,
    /// Those that failed
    Failed,
}

impl UnsettledKind {
    /// The step status that this kind stands for.
    pub fn status(self) -> StepStatus {
        match self {
            Self::Unknown => StepStatus::Unknown,
            Self::Failed => StepStatus::Failed,
        }
    }
}

impl DecideArgs {
    /// Splits the positional words into step ids and the answer behind them. The ids are empty with `--all`.
    /// `Err` is the usage text.
    pub fn steps_and_answer(&self) -> Result<(&[String], StepAnswer), String> {
        let (answer, steps) = self.words.split_last().ok_or("an answer is missing")?;
        // MCP spells some answers with an underscore; accept that spelling too.
        let parsed = answer.parse().or_else(|_| answer.replace('_', "-").parse());
        let known = StepAnswer::ALL.iter().map(|answer| answer.as_str()).collect::<Vec<_>>().join(", ");
        let answer =
            parsed.map_err(|_: String| format!("`{answer}` is not an answer; there are: {known}"))?;
        if self.arguments.is_some() && steps.len() != 1 {
            return Err("--arguments are those of one step: name it".to_owned());
        }
        match (self.all, steps.is_empty()) {
            (Some(_), false) => Err("name steps, or give --all, not both".to_owned()),
            (None, true) => {
                Err("name the step before the answer, or give --all unknown or --all failed".to_owned())
            }
            (Some(_), true) | (None, false) => Ok((steps, answer)),
        }
    }
}
