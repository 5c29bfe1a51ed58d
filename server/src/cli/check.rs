//! `check`: everything that can be known about a plan before anything happens.

use actbook_engine::analysis::Check;
use actbook_engine::plan::{Finding, Severity};

use super::inputs::{self, Named};
use super::output::Output;
use super::session::Session;
use super::signs::{ASKS, BAD, GOOD, QUIET, STRONG, painted};
use super::{Ended, Exit, brief};

const WAVES_SHOWN: usize = 40;
const STOPS_SHOWN: usize = 40;

pub async fn check(session: &Session, word: &str, offline: bool) -> Ended {
    let text = match inputs::plan(word)? {
        Named::Document(text) => text,
        Named::Saved(name) => session.service.plan(&name).await?.1.document.clone(),
    };
    let check = session.service.check(&text, offline).await.check;
    match session.output.json {
        true => session.output.document(&check),
        false => show(&session.output, &check, offline),
    }
    Ok(if check.ok { Exit::Done } else { Exit::Failed })
}

fn show(output: &Output, check: &Check, offline: bool) {
    findings(output, &check.findings);
    if !check.waves.is_empty() {
        waves(output, check);
        stopping(output, check);
    }
    let offline = if offline { " (the tools were not asked)" } else { "" };
    output.line(match check.ok {
        true => format!("{} the plan can run{offline}", painted(GOOD, "✓")),
        false => format!("{} the plan cannot run", painted(BAD, "✗")),
    });
}

/// Grouped by severity: path and sentence, then the cure.
pub fn findings(output: &Output, findings: &[Finding]) {
    for severity in Severity::ALL {
        let style = match severity {
            Severity::Error => BAD,
            Severity::Warning => ASKS,
            Severity::Note => QUIET,
        };
        for finding in findings.iter().filter(|finding| finding.severity == *severity) {
            let word = painted(style, severity);
            output.line(format_args!("{word} {}: {}", painted(STRONG, finding.place()), finding.message));
            output.line(format_args!("  → {}", finding.cure));
        }
    }
}

fn waves(output: &Output, check: &Check) {
    output.line(painted(STRONG, "Waves (steps of one wave do not need each other)"));
    for (index, wave) in check.waves.iter().take(WAVES_SHOWN).enumerate() {
        output.line(format_args!("  {:>3}  {}", index + 1, brief::listed(wave)));
    }
    if check.waves.len() > WAVES_SHOWN {
        output.line(format_args!("  … {} more", check.waves.len() - WAVES_SHOWN));
    }
}

fn stopping(output: &Output, check: &Check) {
    output.line(painted(STRONG, "Point of no return"));
    let Some(step) = &check.point_of_no_return else {
        output.line("  none: whatever ran can be undone at any time");
        return;
    };
    output.line(format_args!("  {}: once it may have run, full undo is impossible", painted(ASKS, step)));
    output.line(painted(STRONG, "Stopping after a step, and undoing, would leave behind"));
    let mut shown: Option<&[_]> = None;
    for stop in check.stopping.iter().take(STOPS_SHOWN) {
        // Steps in a row that leave the same behind are told once, at the first.
        if shown == Some(&stop.left_behind) {
            continue;
        }
        shown = Some(&stop.left_behind);
        let left = match stop.left_behind.is_empty() {
            true => "nothing".to_owned(),
            false => brief::listed(&stop.left_behind),
        };
        output.line(format_args!("  from {} on: {left}", stop.step));
    }
}
