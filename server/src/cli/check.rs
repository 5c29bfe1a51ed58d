//! `check`: analyses a plan without running it, and prints findings, waves and the point of no return.

use crate::error::cures::finding_cure_for_command_line;
use crate::service::CheckedPlan;
use actbook_engine::analysis::PlanCheck;
use actbook_engine::id::StepId;
use actbook_engine::plan::{Finding, Severity};

use super::inputs::{self, PlanArgument};
use super::output::Output;
use super::session::Session;
use super::status_style::{ATTENTION, BAD, GOOD, QUIET, STRONG, painted};
use super::{CommandResult, Exit, brief};

const GROUPS_SHOWN: usize = 40;
/// Most steps for which the check prints what stopping after them leaves behind.
const STOPS_SHOWN: usize = 40;

/// Checks a plan given as a file or by name; `Exit::Failed` if it cannot run.
pub async fn check(session: &Session, word: &str, offline: bool) -> CommandResult {
    let text = match inputs::plan_source(word)? {
        PlanArgument::Document(text) => text,
        PlanArgument::Saved(name) => session.service.plans().get(&name).await?.1.document.clone(),
    };
    let CheckedPlan { plan, check, .. } = session.service.plans().check(&text, offline).await;
    if session.output.json {
        session.output.document(&check);
    } else {
        let one_at_a_time = plan.is_some_and(|plan| plan.policy.concurrency == 1);
        print_check(&session.output, &check, one_at_a_time, offline);
    }
    Ok(if check.ok { Exit::Done } else { Exit::Failed })
}

fn print_check(output: &Output, check: &PlanCheck, one_at_a_time: bool, offline: bool) {
    print_findings(output, &check.findings);
    if !check.waves.is_empty() {
        if one_at_a_time {
            let steps: Vec<&[StepId]> =
                check.stopping.iter().map(|stop| std::slice::from_ref(&stop.step)).collect();
            print_groups(output, "Order (one step at a time)", &steps);
        } else {
            let waves: Vec<&[StepId]> = check.waves.iter().map(Vec::as_slice).collect();
            print_groups(output, "Waves (steps of one wave do not need each other)", &waves);
        }
        print_point_of_no_return(output, check);
    }
    let offline = if offline { " (the tools were not queried)" } else { "" };
    output.line(if check.ok {
        format!("{} the plan can run{offline}", painted(GOOD, "✓"))
    } else {
        format!("{} the plan cannot run", painted(BAD, "✗"))
    });
}

/// Prints the findings by severity, errors first: path and message, then the cure.
pub fn print_findings(output: &Output, findings: &[Finding]) {
    for severity in Severity::ALL {
        let style = match severity {
            Severity::Error => BAD,
            Severity::Warning => ATTENTION,
            Severity::Note => QUIET,
        };
        for finding in findings.iter().filter(|finding| finding.severity == *severity) {
            let word = painted(style, severity);
            output.line(format_args!(
                "{word} {}: {}",
                painted(STRONG, finding.path_with_step()),
                finding.message
            ));
            output.line(format_args!("  → {}", finding_cure_for_command_line(finding)));
        }
    }
}

/// Prints groups of steps in their order, a line each.
fn print_groups(output: &Output, title: &str, groups: &[&[StepId]]) {
    output.line(painted(STRONG, title));
    for (index, steps) in groups.iter().take(GROUPS_SHOWN).enumerate() {
        output.line(format_args!("  {:>3}  {}", index + 1, brief::step_names(steps)));
    }
    if groups.len() > GROUPS_SHOWN {
        output.line(format_args!("  … {} more", groups.len() - GROUPS_SHOWN));
    }
}

/// Prints the point of no return, and what each earlier stop with an undo would leave behind.
fn print_point_of_no_return(output: &Output, check: &PlanCheck) {
    output.line(painted(STRONG, "Point of no return"));
    let Some(step) = &check.point_of_no_return else {
        output.line("  none: whatever ran can be undone at any time");
        return;
    };
    output
        .line(format_args!("  {}: once it may have run, full undo is impossible", painted(ATTENTION, step)));
    output.line(painted(STRONG, "Stopping after a step, and undoing, would leave behind"));
    let mut shown: Option<&[_]> = None;
    for stop in check.stopping.iter().take(STOPS_SHOWN) {
        // Consecutive steps that leave the same behind are printed once, at the first.
        if shown == Some(&stop.left_behind) {
            continue;
        }
        shown = Some(&stop.left_behind);
        let left = if stop.left_behind.is_empty() {
            "nothing".to_owned()
        } else {
            brief::step_names(&stop.left_behind)
        };
        output.line(format_args!("  from {} on: {left}", stop.step));
    }
}
