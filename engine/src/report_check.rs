//! Compares what agents report of their calls with the calls that were seen: each report belongs to at most one call.

use std::cmp::Reverse;

use serde::{Deserialize, Serialize};

use crate::chain::Digest;
use crate::policy::string_enum;

/// How far outside the time of its report a call may have started, in milliseconds: agents report late, and begin
/// before they say so.
pub const REPORT_SLACK_MS: i64 = 60_000;

string_enum!(
    /// How a report and the calls that were seen agree.
    ReportVerdict {
        /// An equal call was seen, and it ended as reported.
        Confirmed = "confirmed",
        /// An equal call was seen, and it ended otherwise, or was refused.
        Contradicted = "contradicted",
        /// No equal call was seen to end.
        ClaimedUnseen = "claimed_unseen",
        /// A call was seen that no report is about.
        SeenUnclaimed = "seen_unclaimed",
    }
);

/// An agent's report that it made a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReportedCall {
    pub tool: String,
    /// Digest of the arguments as canonical JSON.
    pub arguments: Digest,
    pub succeeded: bool,
    /// When the call was due, and when its end was reported, in Unix milliseconds.
    pub due_ms: i64,
    pub reported_ms: i64,
}

/// A call that a guard has seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeenCall {
    pub tool: String,
    /// Digests of the arguments, in each form in which a plan may have them.
    pub arguments: Vec<Digest>,
    /// `None`: its end was not seen, or is unknown.
    pub succeeded: Option<bool>,
    /// False: it was refused.
    pub was_made: bool,
    /// When it started, or was refused, in Unix milliseconds.
    pub at_ms: i64,
    /// The report of the step of a plan that the call was recognised as: its index.
    pub recognised_as: Option<usize>,
}

/// A report with what was seen of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckedReport {
    pub verdict: ReportVerdict,
    /// The index of the call that the report is about. `None`: no equal one was seen.
    pub seen: Option<usize>,
}

/// Finds the call of each report, one to one, by tool, arguments and time: first those that a plan's step was recognised
/// by, then equal calls that ended as reported, then others, and refused ones last.
pub fn check_reports(reports: &[ReportedCall], seen: &[SeenCall]) -> Vec<CheckedReport> {
    let mut pairs: Vec<Option<usize>> = vec![None; reports.len()];
    let mut is_taken = vec![false; seen.len()];
    for (index, call) in seen.iter().enumerate() {
        let report = call.recognised_as.filter(|report| pairs.get(*report) == Some(&None));
        if let Some(report) = report {
            (pairs[report], is_taken[index]) = (Some(index), true);
        }
    }
    let ended_as = |report: &ReportedCall, call: &SeenCall| call.succeeded == Some(report.succeeded);
    pair_up(reports, seen, &mut pairs, &mut is_taken, |report, call| call.was_made && ended_as(report, call));
    pair_up(reports, seen, &mut pairs, &mut is_taken, |_, call| call.was_made);
    pair_up(reports, seen, &mut pairs, &mut is_taken, |_, _| true);
    let checked = |(report, pair): (&ReportedCall, Option<usize>)| {
        let verdict = pair.map_or(ReportVerdict::ClaimedUnseen, |index| verdict(report, &seen[index]));
        CheckedReport { verdict, seen: pair }
    };
    reports.iter().zip(pairs).map(checked).collect()
}

/// Pairs calls with reports that fit. In the order of their start, each call goes to the report that was made first of
/// those whose time it lies in: so as many find a partner as can.
fn pair_up(
    reports: &[ReportedCall],
    seen: &[SeenCall],
    pairs: &mut [Option<usize>],
    is_taken: &mut [bool],
    fits: impl Fn(&ReportedCall, &SeenCall) -> bool,
) {
    let mut order: Vec<usize> = (0..seen.len()).filter(|index| !is_taken[*index]).collect();
    order.sort_by_key(|index| seen[*index].at_ms);
    for index in order {
        let call = &seen[index];
        let open = (0..reports.len()).filter(|report| pairs[*report].is_none());
        let fitting =
            open.filter(|report| is_about(&reports[*report], call) && fits(&reports[*report], call));
        if let Some(report) = fitting.max_by_key(|report| Reverse((reports[*report].reported_ms, *report))) {
            (pairs[report], is_taken[index]) = (Some(index), true);
        }
    }
}

/// Whether the report can be about the call: same tool, equal arguments, and within its time.
fn is_about(report: &ReportedCall, call: &SeenCall) -> bool {
    let (from, until) = (report.due_ms - REPORT_SLACK_MS, report.reported_ms + REPORT_SLACK_MS);
    report.tool == call.tool
        && call.arguments.contains(&report.arguments)
        && (from..=until).contains(&call.at_ms)
}

fn verdict(report: &ReportedCall, call: &SeenCall) -> ReportVerdict {
    match call.succeeded {
        Some(succeeded) if succeeded == report.succeeded => ReportVerdict::Confirmed,
        Some(_) => ReportVerdict::Contradicted,
        None => ReportVerdict::ClaimedUnseen,
    }
}

/// The indexes of the calls that were made and that no report is about.
pub fn unreported_calls(checked: &[CheckedReport], seen: &[SeenCall]) -> Vec<usize> {
    let is_reported = |index: &usize| checked.iter().any(|report| report.seen == Some(*index));
    (0..seen.len()).filter(|index| seen[*index].was_made && !is_reported(index)).collect()
}
