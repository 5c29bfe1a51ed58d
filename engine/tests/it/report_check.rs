//! Reports of agents against calls that were seen, in tables.

use actbook_engine::chain::Digest;
use actbook_engine::report_check::{
    REPORT_SLACK_MS, ReportVerdict, ReportedCall, SeenCall, check_reports, unreported_calls,
};

/// `tool arguments +|- due-reported`: a report of success or failure.
fn report(text: &str) -> ReportedCall {
    let [tool, arguments, end, times] = words(text);
    let (due, reported) = times.split_once("..").expect("the table is written well");
    ReportedCall {
        tool: tool.to_owned(),
        arguments: Digest::of(arguments.as_bytes()),
        succeeded: end == "+",
        due_ms: due.parse().expect("the table is written well"),
        reported_ms: reported.parse().expect("the table is written well"),
    }
}

/// `tool arguments +|-|?|refused time`: a call that was seen. `+2`: recognised as that report.
fn seen(text: &str) -> SeenCall {
    let [tool, arguments, end, at] = words(text);
    let recognised_as = end.get(1..).and_then(|index| index.parse().ok());
    SeenCall {
        tool: tool.to_owned(),
        arguments: arguments.split('|').map(|form| Digest::of(form.as_bytes())).collect(),
        succeeded: match end.chars().next() {
            Some('+') => Some(true),
            Some('?') => None,
            _ => Some(false),
        },
        was_made: end != "refused",
        at_ms: at.parse().expect("the table is written well"),
        recognised_as,
    }
}

fn words(text: &str) -> [&str; 4] {
    text.split_whitespace().collect::<Vec<_>>().try_into().expect("the table is written well")
}

/// Checks the reports; the result as `c0` (confirmed by call 0), `x1` (contradicted by call 1), `u` or `u2` (unseen), and
/// the calls that nobody reported.
fn check(reports: &[&str], calls: &[&str]) -> (String, Vec<usize>) {
    let (reports, calls): (Vec<_>, Vec<_>) =
        (reports.iter().map(|one| report(one)).collect(), calls.iter().map(|one| seen(one)).collect());
    let checked = check_reports(&reports, &calls);
    let words = checked.iter().map(|one| {
        let letter = match one.verdict {
            ReportVerdict::Confirmed => "c",
            ReportVerdict::Contradicted => "x",
            ReportVerdict::ClaimedUnseen | ReportVerdict::SeenUnclaimed => "u",
        };
        format!("{letter}{}", one.seen.map(|index| index.to_string()).unwrap_or_default())
    });
    (words.collect::<Vec<_>>().join(" "), unreported_calls(&checked, &calls))
}

#[test]
fn reports_are_matched_by_tool_arguments_and_time() {
    let far = (20 + REPORT_SLACK_MS + 1).to_string();
    for (name, reports, calls, verdicts, unreported) in [
        ("seen as reported", vec!["a x + 0..20"], vec!["a x + 5"], "c0", vec![]),
        ("reported as failed, and so it did", vec!["a x - 0..20"], vec!["a x - 5"], "c0", vec![]),
        ("it failed", vec!["a x + 0..20"], vec!["a x - 5"], "x0", vec![]),
        ("it succeeded", vec!["a x - 0..20"], vec!["a x + 5"], "x0", vec![]),
        ("it was refused", vec!["a x + 0..20"], vec!["a x refused 5"], "x0", vec![]),
        ("refused, and reported as failed", vec!["a x - 0..20"], vec!["a x refused 5"], "c0", vec![]),
        ("its end was not seen", vec!["a x + 0..20"], vec!["a x ? 5"], "u0", vec![]),
        ("never seen", vec!["a x + 0..20"], vec![], "u", vec![]),
        ("other arguments", vec!["a x + 0..20"], vec!["a y + 5"], "u", vec![0]),
        ("another tool", vec!["a x + 0..20"], vec!["b x + 5"], "u", vec![0]),
        ("another form of the arguments", vec!["a x + 0..20"], vec!["a z|x + 5"], "c0", vec![]),
        ("just after its time", vec!["a x + 0..20"], vec!["a x + 60020"], "c0", vec![]),
        ("long after its time", vec!["a x + 0..20"], vec![&*format!("a x + {far}")], "u", vec![0]),
        ("refused calls are no unreported ones", vec!["b x + 0..20"], vec!["a x refused 5"], "u", vec![]),
    ] {
        assert_eq!(check(&reports, &calls), (verdicts.to_owned(), unreported), "{name}");
    }
}

#[test]
fn each_call_belongs_to_one_report() {
    for (name, reports, calls, verdicts, unreported) in [
        ("one call, two reports", vec!["a x + 0..20", "a x + 0..30"], vec!["a x + 5"], "c0 u", vec![]),
        (
            "two calls, two reports",
            vec!["a x + 0..20", "a x + 0..30"],
            vec!["a x + 5", "a x + 6"],
            "c0 c1",
            vec![],
        ),
        ("a retry is what succeeded", vec!["a x + 0..20"], vec!["a x - 5", "a x + 6"], "c1", vec![0]),
        (
            "a refused call was made again",
            vec!["a x + 0..20"],
            vec!["a x refused 5", "a x ? 6"],
            "u1",
            vec![],
        ),
        (
            "both ends are reported",
            vec!["a x - 0..20", "a x + 0..30"],
            vec!["a x + 6", "a x - 5"],
            "c1 c0",
            vec![],
        ),
        (
            "the report with less time takes the call that both could have",
            vec!["a x + 0..200000", "a x + 0..20"],
            vec!["a x + 5", "a x + 150000"],
            "c1 c0",
            vec![],
        ),
        (
            "a recognised call is its step's",
            vec!["a x + 0..20", "a x - 0..20"],
            vec!["a y -0 5"],
            "x0 u",
            vec![],
        ),
    ] {
        assert_eq!(check(&reports, &calls), (verdicts.to_owned(), unreported), "{name}");
    }
}
