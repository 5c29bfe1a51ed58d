//! `policy`: what the config's rules say of a call.

use std::io::Read;

use actbook_engine::plan::read_document;
use actbook_engine::rules::{DecidedBy, RuleEffect, RuleFacts, RuleTrace};

use super::args::PolicySubcommand;
use super::output::Output;
use super::session::Session;
use super::{CommandResult, Exit};
use crate::error::{CommandLineCode, Error};
use crate::guard::{PolicyTest, test_policy};

/// Runs a subcommand of `policy`.
pub fn policy(session: &Session, subcommand: &PolicySubcommand) -> CommandResult {
    let PolicySubcommand::Test { file } = subcommand;
    let tested = test_policy(&session.config, read_facts(file)?);
    if session.output.json {
        session.output.document(&tested);
    } else {
        print_test(&session.output, &tested);
    }
    Ok(if tested.judgement.verdict == RuleEffect::Deny { Exit::Failed } else { Exit::Done })
}

/// Reads the call, YAML or JSON, with the names that rules read.
fn read_facts(file: &str) -> Result<RuleFacts, Error> {
    let failed = |code, message: String| {
        let cure = "write it as in `call: { tool: client/shell, arguments: { command: ls } }`";
        Error::command_line(code, message, cure)
    };
    let text = if file == "-" {
        let mut text = String::new();
        std::io::stdin().lock().read_to_string(&mut text).map(|_| text)
    } else {
        std::fs::read_to_string(file)
    };
    let text = text.map_err(|error| failed(CommandLineCode::NoSuchFile, format!("{file}: {error}")))?;
    let document = read_document(&text);
    let document = document.map_err(|found| failed(CommandLineCode::BadInput, found.message))?;
    let facts = serde_json::from_value::<RuleFacts>(document);
    facts.map_err(|error| failed(CommandLineCode::BadInput, format!("{file}: {error}")))
}

fn print_test(output: &Output, tested: &PolicyTest) {
    let judgement = &tested.judgement;
    let by = match &judgement.decided_by {
        DecidedBy::Nothing => "nothing stands against it".to_owned(),
        DecidedBy::Rule(rule) => format!("by the rule `{rule}`"),
        DecidedBy::Unknown => "by `unknown`".to_owned(),
        DecidedBy::Approval => "by the config's `approval: required`".to_owned(),
        DecidedBy::Budget => "by the budget".to_owned(),
    };
    output.line(format_args!("{}: {}, {by}", tested.tool, judgement.verdict));
    judgement.say.iter().for_each(|say| output.line(format_args!("  {say}")));
    if let Some(suspended) = judgement.suspended {
        output.line(format_args!("  observe: it would have been {suspended}"));
    }
    for (trace, condition) in judgement.trace.iter().zip(&tested.conditions) {
        output.line(format_args!("  {} {} ({}): {condition}", fit_word(trace), trace.rule, trace.then));
        trace.error.iter().for_each(|error| output.line(format_args!("      {error}")));
    }
}

/// How the rule stood to the call, in columns of one width.
fn fit_word(trace: &RuleTrace) -> &'static str {
    match (trace.fits, &trace.error) {
        (true, None) => "fits    ",
        (false, None) => "does not",
        (true, Some(_)) => "error, fits    ",
        (false, Some(_)) => "error, does not",
    }
}
