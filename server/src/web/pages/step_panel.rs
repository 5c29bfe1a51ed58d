//! The panel of one step: facts, error, attempts, arguments, output, approvals, compensation, and how to read it
//! from a terminal or a program.

use actbook_engine::policy::Outcome;
use askama::Template;
use askama::filters::HtmlSafe;
use serde_json::Value;

use super::execution::PageQuery;
use super::execution_parts::ReaderRights;
use super::json_tree::{JsonTree, TreeExtent, json_tree};
use super::markup::{Markup, StatusMark, short_id, url_part};
use super::times::{PageTime, duration, page_time};
use crate::service::view::ExecutionView;
use crate::service::{ApprovalView, AttemptView, CompensationView, StepDetail};

/// The panel beside the views.
#[derive(Debug, Template)]
#[template(path = "step_panel.html")]
pub struct StepPanel {
    step: String,
    link: String,
    close_path: String,
    mark: StatusMark,
    name: Option<String>,
    tool: Option<String>,
    action: Option<String>,
    by_agent: bool,
    /// Each with the path of its own panel.
    needs: Vec<(String, String)>,
    undo: Vec<Markup>,
    error: Option<(&'static str, String)>,
    attempts: Vec<AttemptLine>,
    arguments: Option<ValueBox>,
    output: Option<ValueBox>,
    recorded: Option<ValueBox>,
    approvals: Vec<ApprovalLine>,
    compensations: Vec<AttemptLine>,
    late: Vec<String>,
    shows_values: bool,
    commands: Vec<(&'static str, String)>,
}

impl HtmlSafe for StepPanel {}

/// A JSON value with its headline.
#[derive(Debug)]
struct ValueBox {
    title: &'static str,
    tree: JsonTree,
    size: String,
    places: ValuePlaces,
    /// The page can show all of it.
    fits_page: bool,
    /// The value's text, for the copy button; `None`: too long for a page.
    text: Option<String>,
}

/// Where a value can be read.
#[derive(Debug)]
struct ValuePlaces {
    /// `arguments`, `output` or `recorded`.
    name: String,
    /// Gives all of it as a file.
    download: String,
    /// The page with the whole value in its panel.
    whole: String,
}

/// Longest value that a page carries for its copy button, in bytes.
const COPY_BYTES_MAX: usize = 20_000;
/// Longest value that a page shows whole, in bytes; a longer one is downloaded.
const WHOLE_BYTES_MAX: usize = 300_000;

/// One attempt of the step or of its compensation.
#[derive(Debug)]
struct AttemptLine {
    number: usize,
    class: &'static str,
    word: &'static str,
    started: PageTime,
    took: String,
    note: String,
}

/// One answer to a question of the step.
#[derive(Debug)]
struct ApprovalLine {
    approved: bool,
    by: String,
    at: PageTime,
    reason: Option<String>,
    position: u64,
    /// Leads to its entry in the journal.
    entry: String,
}

impl StepPanel {
    /// The panel of a step on the page that `query` shows; closing it leads back to that page.
    pub fn of(
        view: &ExecutionView,
        detail: StepDetail,
        query: &PageQuery,
        rights: ReaderRights,
        base_url: &str,
    ) -> Self {
        let id = view.id.to_string();
        let step = detail.step.id.to_string();
        let values = format!("/executions/{id}/steps/{}", url_part(&step));
        let link = |step: &str| query.step_path(&id, step);
        let boxed = |title, name: &str, value: &Option<Value>, path: Option<String>| {
            let value = value.as_ref().filter(|_| rights.values)?;
            let extent = if query.all == name { TreeExtent::Whole } else { TreeExtent::Part };
            let places = ValuePlaces {
                download: format!("{values}/{name}.json"),
                whole: link(&step).replace("#panel", &format!("&all={name}#{name}")),
                name: name.to_owned(),
            };
            Some(ValueBox::of(title, value, places, path.as_deref(), extent))
        };
        let undo = detail.to_undo.iter().map(|item| match (&item.tool, &item.action) {
            (Some(tool), _) => Markup::code(tool),
            (None, Some(action)) => Markup::text(action),
            (None, None) => Markup::text("nothing"),
        });
        let commands = commands(&id, &step, base_url, &detail);
        Self {
            link: link(&step),
            close_path: format!(
                "/executions/{id}?view={}{}",
                query.tab().as_str(),
                query.kept(&["step", "all"])
            ),
            mark: StatusMark::of_step(detail.step.status),
            needs: detail.depends_on.iter().map(|need| (need.to_string(), link(need.as_str()))).collect(),
            undo: undo.collect(),
            error: detail
                .step
                .error
                .as_ref()
                .filter(|_| rights.values)
                .map(|error| (error.category.as_str(), error.message.clone())),
            attempts: detail
                .history
                .iter()
                .enumerate()
                .map(|(index, one)| attempt_line(index, one))
                .collect(),
            arguments: boxed("Arguments", "arguments", &detail.step.arguments, None),
            output: boxed("Output", "output", &detail.step.output, Some(format!("steps.{step}.output"))),
            recorded: boxed("Recorded by the agent", "recorded", &detail.step.recorded, None),
            approvals: detail.approvals.iter().map(|one| approval_line(&id, one)).collect(),
            compensations: detail.compensations.iter().map(compensation_line).collect(),
            late: detail.step.late.iter().map(|late| late.outcome.as_str().to_owned()).collect(),
            shows_values: rights.values,
            commands,
            name: detail.step.name,
            tool: detail.step.tool,
            action: detail.step.action,
            by_agent: detail.step.by.is_some(),
            step,
        }
    }
}

impl ValueBox {
    fn of(
        title: &'static str,
        value: &Value,
        places: ValuePlaces,
        expression: Option<&str>,
        extent: TreeExtent,
    ) -> Self {
        let text = serde_json::to_string_pretty(value).unwrap_or_default();
        let fits_page = text.len() <= WHOLE_BYTES_MAX;
        let extent = if fits_page { extent } else { TreeExtent::Part };
        Self {
            title,
            tree: json_tree(value, expression, extent),
            size: if text.len() < 10_000 {
                format!("{} bytes", text.len())
            } else {
                format!("{} KB", text.len() / 1_000)
            },
            places,
            fits_page,
            text: Some(text).filter(|text| text.len() <= COPY_BYTES_MAX),
        }
    }
}

fn attempt_line(index: usize, attempt: &AttemptView) -> AttemptLine {
    let (class, word) = outcome_words(attempt.outcome);
    let mut notes: Vec<String> = Vec::new();
    notes.extend(attempt.category.map(|category| category.to_string()));
    notes.extend(
        attempt
            .result
            .as_ref()
            .and_then(|result| result.get("message"))
            .and_then(Value::as_str)
            .map(str::to_owned),
    );
    notes.extend(attempt.happened.map(|happened| {
        if happened {
            "found to have taken effect".to_owned()
        } else {
            "found to have had no effect".to_owned()
        }
    }));
    notes.extend(attempt.late.map(|late| format!("answered late: {late}")));
    AttemptLine {
        number: index + 1,
        class,
        word,
        started: page_time(&attempt.started_at),
        took: took(&attempt.started_at, attempt.ended_at.as_deref()),
        note: notes.join(": "),
    }
}

fn compensation_line(undo: &CompensationView) -> AttemptLine {
    let (class, word) = match undo.outcome {
        Some(Outcome::Succeeded) => ("compensated", "undone"),
        Some(Outcome::Failed) => ("compensation_failed", "failed"),
        Some(Outcome::Unknown) => ("unknown", "unknown"),
        None => ("compensating", "in flight"),
    };
    AttemptLine {
        number: undo.attempt as usize,
        class,
        word,
        started: page_time(&undo.started_at),
        took: String::new(),
        note: undo.category.map(|category| category.to_string()).unwrap_or_default(),
    }
}

fn outcome_words(outcome: Option<Outcome>) -> (&'static str, &'static str) {
    match outcome {
        Some(Outcome::Succeeded) => ("succeeded", "succeeded"),
        Some(Outcome::Failed) => ("failed", "failed"),
        Some(Outcome::Unknown) => ("unknown", "unknown"),
        None => ("running", "in flight"),
    }
}

/// The duration between two times; empty without an end.
fn took(from: &str, to: Option<&str>) -> String {
    let parse = |text: &str| text.parse::<jiff::Timestamp>().ok().map(|at| at.as_millisecond());
    let both = parse(from).zip(to.and_then(parse));
    both.map(|(from, to)| duration(to - from)).unwrap_or_default()
}

fn approval_line(execution: &str, approval: &ApprovalView) -> ApprovalLine {
    ApprovalLine {
        entry: format!("/executions/{execution}?view=journal&at={0}#p-{0}", approval.position),
        approved: approval.approved,
        by: approval.by.clone(),
        at: page_time(&approval.at),
        reason: approval.reason.clone(),
        position: approval.position,
    }
}

/// How to read the step, and answer its question, from a terminal and from a program.
fn commands(id: &str, step: &str, base_url: &str, detail: &StepDetail) -> Vec<(&'static str, String)> {
    let short = short_id(id);
    let mut commands = vec![("CLI", format!("actbook show {short} {step}"))];
    if let Some(option) = detail.waiting.first().and_then(|waiting| waiting.options.first()) {
        let answer = option.as_str();
        let command = match answer {
            "approve" => format!("actbook approve {short} {step}"),
            "started" | "succeeded" | "failed" => format!("actbook record {short} {step} succeeded"),
            other => format!("actbook decide {short} {step} {other} --reason '…'"),
        };
        commands.push(("CLI", command));
    }
    let address = format!("{base_url}/api/v1/executions/{id}/steps/{}", url_part(step));
    commands.push(("curl", format!("curl -H \"Authorization: Bearer $ACTBOOK_TOKEN\" {address}")));
    commands
}
