//! `policy`: what the config's rules say of a call.

use std::io::Read;

use actbook_engine::plan::read_document;
use actbook_engine::rules::{DecidedBy, RuleEffect, RuleFacts, RuleTrace};

use super::args::PolicySubcommand;
use super::output::Output;
use super::session::Session;
use super::status_style::short_id;
use super::{CommandResult, Exit};
use crate::error::{CommandLineCode, Error};
use crate::guard::{PolicyReplay, PolicyTest, replay_policy, test_policy};

/// Most changed calls that are printed.
const REPLAYED_SHOWN: usize = 20;

/// Runs a subcommand of `policy`.
pub async fn policy(session: &Session, subcommand: &PolicySubcommand) -> CommandResult {
    match subcommand {
        PolicySubcommand::Test { file } => test(session, file),
        PolicySubcommand::Replay { since } => replay(session, *since).await,
    }
}

/// Judges the calls of earlier sessions by today's rules, and prints what would change.
async fn replay(session: &Session, since_ms: i64) -> CommandResult {
    let replayed = replay_policy(&session.service, &session.config, since_ms).await?;
    if session.output.json {
        session.output.document(&replayed);
    } else {
        print_replay(&session.output, &replayed);
    }
    Ok(Exit::Done)
}

fn print_replay(output: &Output, replayed: &PolicyReplay) {
    let count = |number: usize, what: &str| output.line(format_args!("{number:>6}  {what}"));
    count(replayed.calls, "calls");
    count(replayed.unchanged, "unchanged");
    count(replayed.allow_to_ask, "allow to ask");
    count(replayed.allow_to_deny, "allow to deny");
    count(replayed.other_changes, "other changes");
    output.line("Of the calls that were allowed, the rules");
    count(replayed.would_have_stopped, "would have stopped: they failed or were undone");
    count(replayed.would_have_hindered, "would have hindered: they went well");
    count(replayed.undecidable, "undecidable: nobody knows how they ended, or their arguments are erased");
    for (rule, number) in &replayed.by_rule {
        output.line(format_args!("  by `{rule}`: {number}"));
    }
    for call in replayed.changed.iter().take(REPLAYED_SHOWN) {
        let rule = call.rule.as_deref().map(|rule| format!(" by `{rule}`")).unwrap_or_default();
        output.line(format_args!(
            "{} {} {}: {} to {}{rule}",
            short_id(&call.execution),
            call.step,
            call.tool,
            call.was,
            call.now
        ));
    }
    if let Some(more) = replayed.changed.len().checked_sub(REPLAYED_SHOWN).filter(|more| *more > 0) {
        output.line(format_args!("… and {more} more (--json shows all)"));
    }
}

fn test(session: &Session, file: &str) -> CommandResult {
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
        DecidedBy::Repeat => "because an equal call has an unknown outcome".to_owned(),
        DecidedBy::Pin => "by the tool's definition, which nobody accepted".to_owned(),
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
