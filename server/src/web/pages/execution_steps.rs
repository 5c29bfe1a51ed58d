//! The table of an execution's steps, failures first, one page of it at a time.

use actbook_engine::policy::StepStatus;
use askama::Template;
use askama::filters::HtmlSafe;

use super::execution::PageQuery;
use super::execution_parts::ReaderRights;
use super::markup::{Markup, StatusMark, grouped};
use super::question_card::short_summary;
use super::times::{duration, elapsed};
use crate::service::view::{ExecutionView, StepView};

/// Steps of one page.
const STEPS_PER_PAGE: usize = 200;

/// The view of the table.
#[derive(Debug, Template)]
#[template(path = "execution_steps.html")]
pub struct StepsPart {
    execution: String,
    rows: Vec<StepRow>,
    /// How many steps pass the filters, and how many there are.
    matching: String,
    total: String,
    first: usize,
    hides_finished: bool,
    find: String,
    step: String,
    all_path: String,
    toggle_path: String,
    before_path: Option<String>,
    next_path: Option<String>,
}

impl HtmlSafe for StepsPart {}

/// One step of the table.
#[derive(Debug)]
struct StepRow {
    number: usize,
    id: String,
    path: String,
    is_selected: bool,
    does: String,
    mark: StatusMark,
    /// The error, the progress, or the output in short.
    note: String,
    is_bad: bool,
    attempts: usize,
    took: Markup,
}

/// Which steps a page of the table shows.
#[derive(Debug)]
pub struct StepSelection {
    /// Their places in the plan, in the order of the table.
    pub shown: Vec<usize>,
    /// How many steps pass the filters.
    matching: usize,
}

impl StepSelection {
    pub fn of(view: &ExecutionView, query: &PageQuery) -> Self {
        let hides_finished = query.hides_finished();
        let find = query.find.trim().to_lowercase();
        let is_shown = |step: &StepView| {
            (!hides_finished || !is_finished(step.status)) && (find.is_empty() || contains(step, &find))
        };
        let mut steps: Vec<(usize, &StepView)> =
            view.steps.iter().enumerate().filter(|(_, step)| is_shown(step)).collect();
        steps.sort_by_key(|(number, step)| (rank(step.status), *number));
        let matching = steps.len();
        let shown = steps.into_iter().skip(query.from).take(STEPS_PER_PAGE).map(|(index, _)| index);
        Self { shown: shown.collect(), matching }
    }
}

impl StepsPart {
    /// The table; `steps`: those of the selection, with their values.
    pub fn of(
        view: &ExecutionView,
        selection: &StepSelection,
        steps: &[StepView],
        query: &PageQuery,
        rights: ReaderRights,
    ) -> Self {
        let (hides_finished, matching) = (query.hides_finished(), selection.matching);
        let rows = selection.shown.iter().zip(steps);
        let paths = query.step_paths(view.id.as_str());
        let row = |(index, step): (&usize, &StepView)| {
            let (id, is_selected) = (step.id.as_str(), query.step == step.id.as_str());
            StepRow::of(*index, step, paths.of(id), is_selected, rights)
        };
        let rows = rows.map(row).collect();
        let path = |kept: &str| format!("/executions/{}?view=steps{kept}#tabs", view.id);
        let page_path = |from: usize| path(&format!("{}&from={from}", query.kept(&["from"])));
        let unfiltered = query.kept(&["from", "finished"]);
        let hiding = format!("{unfiltered}&finished=hide");
        let next = query.from + STEPS_PER_PAGE;
        Self {
            execution: view.id.to_string(),
            rows,
            matching: grouped(matching as u64),
            total: grouped(view.steps.len() as u64),
            first: query.from + 1,
            hides_finished,
            find: query.find.clone(),
            step: query.step.clone(),
            all_path: path(""),
            toggle_path: path(if hides_finished { &unfiltered } else { &hiding }),
            before_path: (query.from > 0).then(|| page_path(query.from.saturating_sub(STEPS_PER_PAGE))),
            next_path: (next < matching).then(|| page_path(next)),
        }
    }
}

/// Whether a step's id, name or work has these lower-case words in it.
fn contains(step: &StepView, words: &str) -> bool {
    let texts = [Some(step.id.as_str()), step.name.as_deref(), step.tool.as_deref(), step.action.as_deref()];
    texts.into_iter().flatten().any(|text| text.to_lowercase().contains(words))
}

impl StepRow {
    /// The row of a step; `path` leads to its panel.
    fn of(index: usize, step: &StepView, path: String, is_selected: bool, rights: ReaderRights) -> Self {
        let error = step.error.as_ref().filter(|_| rights.values);
        let note = match (error, &step.progress, step.output.as_ref().filter(|_| rights.values)) {
            (Some(error), _, _) => format!("{}: {}", error.category, error.message),
            (None, Some(progress), _) => progress.message.clone().unwrap_or_default(),
            (None, None, Some(output)) => short_summary(output),
            (None, None, None) => String::new(),
        };
        let took = match (step.took_ms, &step.started_at) {
            (Some(ms), _) => Markup::text(&duration(ms)),
            (None, Some(at)) => Markup::from_rendered(elapsed(at, None).to_string()),
            (None, None) => Markup::text("–"),
        };
        let id = step.id.as_str();
        Self {
            number: index + 1,
            path,
            is_selected,
            does: step.tool.clone().or_else(|| step.action.clone()).unwrap_or_default(),
            mark: StatusMark::of_step(step.status),
            is_bad: error.is_some() && rank(step.status) == 0,
            note,
            attempts: step.attempts,
            took,
            id: id.to_owned(),
        }
    }
}

/// The order of statuses in the table: what went wrong, what is under way, what is to come, what is finished.
fn rank(status: StepStatus) -> usize {
    match status {
        StepStatus::Failed | StepStatus::Unknown | StepStatus::CompensationFailed => 0,
        StepStatus::AwaitingApproval | StepStatus::AwaitingAgent => 1,
        StepStatus::Running | StepStatus::Compensating => 2,
        StepStatus::Pending | StepStatus::Cancelled => 3,
        StepStatus::Succeeded | StepStatus::Skipped | StepStatus::Compensated => 4,
    }
}

/// Whether nothing more happens to a step of this status by itself, and nothing went wrong.
fn is_finished(status: StepStatus) -> bool {
    rank(status) == 4
}
