//! The words of an answer to steps that failed, or whose outcome nobody knows.

use actbook_engine::policy::{Answer, StepStatus};
use clap::{Args as Group, ValueEnum};
use serde_json::Value;

use super::json;

#[derive(Debug, Group)]
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
pub struct Decide {
    /// Its id, or a unique beginning of it
    pub execution: String,
    /// The steps' ids in their plan, then what becomes of them: retry, skip, happened, did-not-happen, compensate or
    /// abandon
    #[arg(required = true, num_args = 1.., value_name = "STEP… ANSWER")]
    words: Vec<String>,
    /// Every step of this kind that waits for an answer, instead of naming them
    #[arg(long, value_enum, value_name = "KIND")]
    pub all: Option<Unsettled>,
    /// Why; it is journaled
    #[arg(long, value_name = "TEXT")]
    pub reason: String,
    /// The step's output, for `happened` and `skip`; with `retry` the reply to what its tool asks
    #[arg(long, value_name = "JSON", value_parser = json)]
    pub output: Option<Value>,
    /// With `retry` or `did-not-happen` of one step: all arguments of its call, corrected
    #[arg(long, value_name = "JSON", value_parser = json, conflicts_with = "output")]
    pub arguments: Option<Value>,
}

/// Which steps are answered together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Unsettled {
    /// Those of which nobody knows whether they took effect
    Unknown,
    /// Those that failed
    Failed,
}

impl Unsettled {
    pub fn status(self) -> StepStatus {
        match self {
            Self::Unknown => StepStatus::Unknown,
            Self::Failed => StepStatus::Failed,
        }
    }
}

impl Decide {
    /// The steps that were named, and the answer; or why the words make no sense.
    pub fn parts(&self) -> Result<(&[String], Answer), String> {
        let (answer, steps) = self.words.split_last().ok_or("an answer is missing")?;
        // MCP writes some with an underscore, and people who know it do too.
        let read = answer.parse().or_else(|_| answer.replace('_', "-").parse());
        let known = Answer::ALL.iter().map(|answer| answer.as_str()).collect::<Vec<_>>().join(", ");
        let answer = read.map_err(|_: String| format!("`{answer}` is no answer; there are: {known}"))?;
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
