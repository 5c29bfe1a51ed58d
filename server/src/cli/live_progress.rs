//! Live progress: a list redrawn in place on a terminal, plain lines in a pipe, one JSON document per change
//! with `--json`.

use std::collections::BTreeSet;

use crate::error::Error;
use crate::service::quote;
use crate::service::view::StepProgress;
use crate::service::{ExecutionWatcher, StepSnapshot};
use actbook_engine::policy::{ExecutionStatus, StepStatus};
use serde_json::{Value, json};

use super::output::Output;
use super::status_style::{self, QUIET, STRONG, painted, short_id};
use super::table::{display_width, truncate};
use super::times;

const SPINNER: [&str; 10] = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"];
/// Rows of the terminal that are not for steps: header, two "… more" lines, note, prompt.
const OTHER_ROWS: usize = 6;
const STEPS_ROWS_MIN: usize = 3;
/// Columns for a tool's progress message.
const PROGRESS_COLUMNS: usize = 40;

/// Shows the progress of one execution.
#[derive(Debug)]
pub struct ProgressScreen {
    output: Output,
    mode: ScreenMode,
    /// What was last printed of each step: its status and its number of attempts.
    shown: Vec<(StepStatus, usize)>,
    /// The execution's status last printed; `None` before the first.
    status: Option<ExecutionStatus>,
}

/// How progress is shown.
#[derive(Debug)]
enum ScreenMode {
    Live(LiveList),
    Plain,
    Json,
}

/// The list that is redrawn in place.
#[derive(Debug, Default)]
struct LiveList {
    /// The frame of the spinner.
    frame: usize,
    /// A line below the steps.
    note: Option<String>,
}

/// Prints arguments and outputs of ended steps, each attempt once. Holds what was printed: step and number of
/// attempts.
#[derive(Debug, Default)]
pub struct StepValuePrinter(BTreeSet<(String, usize)>);

impl StepValuePrinter {
    /// Prints the arguments and the output of each step that has ended since the last call. With `--json`
    /// nothing.
    pub async fn print(&mut self, output: &Output, watching: &ExecutionWatcher) -> Result<(), Error> {
        if output.json {
            return Ok(());
        }
        let is_unprinted = |step: &StepSnapshot<'_>| {
            step.ended_at_ms.is_some() && !self.0.contains(&(step.id.to_string(), step.attempts))
        };
        if !watching.step_snapshots().any(|step| is_unprinted(&step)) {
            return Ok(());
        }
        let view = watching.view().await?;
        for step in view.steps.iter().filter(|step| step.ended_at.is_some()) {
            if self.0.insert((step.id.to_string(), step.attempts)) {
                print_value(output, step.id.as_str(), "←", step.arguments.as_ref());
                print_value(output, step.id.as_str(), "→", step.output.as_ref());
            }
        }
        Ok(())
    }
}

/// Prints one value of a step behind an arrow; nothing without a value.
fn print_value(output: &Output, step: &str, arrow: &str, value: Option<&Value>) {
    if let Some(value) = value {
        output.line(format_args!("  {step} {} {}", painted(QUIET, arrow), quote::readable(value)));
    }
}

impl ProgressScreen {
    /// Chooses the mode by the output and shows the current state. Steps that have ended already are not
    /// printed.
    pub fn new(output: Output, watching: &ExecutionWatcher) -> Self {
        let mode = match (output.json, output.is_live()) {
            (true, _) => ScreenMode::Json,
            (false, true) => ScreenMode::Live(LiveList::default()),
            (false, false) => ScreenMode::Plain,
        };
        let before = watching.step_snapshots().map(|step| initially_shown(&step)).collect();
        let mut screen = Self { output, mode, shown: before, status: None };
        if let ScreenMode::Plain = screen.mode {
            let execution = watching.execution();
            let (plan, id) = (&execution.plan_ref, short_id(execution.id.as_str()));
            screen.output.line(format_args!("{} version {}, execution {id}", plan.name, plan.version));
        }
        screen.show(watching);
        screen
    }

    /// Shows the changes since the last call.
    pub fn show(&mut self, watching: &ExecutionWatcher) {
        match &mut self.mode {
            ScreenMode::Live(live) => live.draw(watching),
            ScreenMode::Plain | ScreenMode::Json => self.print_changes(watching),
        }
    }

    /// Advances the spinner and the clock; only time has passed.
    pub fn tick(&mut self, watching: &ExecutionWatcher) {
        if let ScreenMode::Live(live) = &mut self.mode {
            live.frame += 1;
            live.draw(watching);
        }
    }

    /// Shows a message: below the steps on a terminal, else on stderr.
    pub fn note(&mut self, text: &str) {
        match &mut self.mode {
            ScreenMode::Live(live) => live.note = Some(text.to_owned()),
            ScreenMode::Plain | ScreenMode::Json => self.output.notice(text),
        }
    }

    /// Leaves the list as it is; later output goes below it.
    pub fn finish(&mut self) {
        Output::finish_drawing();
    }

    /// Prints a line, or a JSON document, for each step that has changed, and the changed status of the
    /// execution.
    fn print_changes(&mut self, watching: &ExecutionWatcher) {
        let mut changed = Vec::new();
        for (step, shown) in watching.step_snapshots().zip(&mut self.shown) {
            let current = (step.status, step.attempts);
            if current != *shown {
                *shown = current;
                changed.push(step);
            }
        }
        let last_entry_ms = watching.execution().last_entry_at_ms;
        // An undo runs in reverse order, and the snapshot has one time for all of its changes.
        if changed.iter().any(|step| is_undo(step.status)) {
            changed.reverse();
        }
        // By time; within a millisecond, steps that ended before steps that began.
        changed.sort_by_key(|step| {
            (changed_at_ms(step, last_entry_ms), status_style::is_under_way(step.status))
        });
        for step in changed {
            if self.output.json {
                self.output.entry(&change_document(watching, &step));
            } else {
                self.output.line(change_line(&step, changed_at_ms(&step, last_entry_ms)));
            }
        }
        let status = watching.status();
        if self.output.json && self.status != Some(status) {
            self.output.entry(&json!({
                "execution": watching.execution().id, "position": watching.position(), "status": status,
            }));
        }
        self.status = Some(status);
    }
}

/// What counts as already printed when watching begins: steps that have ended.
fn initially_shown(step: &StepSnapshot<'_>) -> (StepStatus, usize) {
    match step.ended_at_ms {
        Some(_) => (step.status, step.attempts),
        None => (StepStatus::Pending, 0),
    }
}

/// The JSON document of a step's change.
fn change_document(watching: &ExecutionWatcher, step: &StepSnapshot<'_>) -> Value {
    let (id, position, status) = (&watching.execution().id, watching.position(), watching.status());
    let step = json!({ "id": step.id, "status": step.status, "attempts": step.attempts });
    json!({ "execution": id, "position": position, "status": status, "step": step })
}

/// When the step came to its current status, in Unix ms. The snapshot has the times of the step's own attempt:
/// a change of its undo was journaled with the execution's last entries.
fn changed_at_ms(step: &StepSnapshot<'_>, last_entry_ms: i64) -> i64 {
    let own = step.ended_at_ms.or(step.started_at_ms);
    own.filter(|_| !is_undo(step.status)).unwrap_or(last_entry_ms)
}

/// Whether the step's effect is being undone, was undone, or could not be undone.
fn is_undo(status: StepStatus) -> bool {
    matches!(status, StepStatus::Compensating | StepStatus::Compensated | StepStatus::CompensationFailed)
}

/// `12:00:01 draft succeeded 0.2 s`
fn change_line(step: &StepSnapshot<'_>, at_ms: i64) -> String {
    let (symbol, style) = status_style::step_symbol_and_style(step.status);
    let state = painted(style, format_args!("{symbol} {} {}", step.id, step.status));
    [times::local_time(at_ms), state, timing_text(step)].join(" ").trim_end().to_owned()
}

/// How long the step took or has taken so far, and the number of the attempt if it is not the first.
fn timing_text(step: &StepSnapshot<'_>) -> String {
    let until = match step.status {
        StepStatus::Running => Some(times::now_ms()),
        StepStatus::Succeeded | StepStatus::Failed | StepStatus::Unknown => step.ended_at_ms,
        StepStatus::Pending
        | StepStatus::AwaitingApproval
        | StepStatus::AwaitingAgent
        | StepStatus::Skipped
        | StepStatus::Cancelled
        | StepStatus::Compensating
        | StepStatus::Compensated
        | StepStatus::CompensationFailed => None,
    };
    let took = step.started_at_ms.zip(until).map(|(from, to)| times::elapsed_text(to - from));
    let attempt = (step.attempts > 1).then(|| format!("attempt {}", step.attempts));
    [took, attempt].into_iter().flatten().collect::<Vec<_>>().join("  ")
}

/// `42 % fetching the index`
fn progress_text(progress: &StepProgress) -> String {
    let measure = match progress.total.filter(|total| *total > 0.0) {
        Some(total) => format!("{:.0} %", (progress.done / total * 100.0).clamp(0.0, 100.0)),
        None => progress.done.to_string(),
    };
    let message = progress.message.as_deref().unwrap_or_default();
    truncate(format!("{measure} {message}").trim_end(), PROGRESS_COLUMNS)
}

impl LiveList {
    /// Redraws the list for the terminal's current size.
    fn draw(&self, watching: &ExecutionWatcher) {
        let (columns, rows) = Output::terminal_size();
        let steps_rows = rows.saturating_sub(OTHER_ROWS).max(STEPS_ROWS_MIN);
        Output::draw(self.lines(watching, columns, steps_rows));
    }

    /// The lines of the list: header, as many steps as fit in `rows`, note.
    fn lines(&self, watching: &ExecutionWatcher, columns: usize, rows: usize) -> Vec<String> {
        let steps: Vec<StepSnapshot<'_>> = watching.step_snapshots().collect();
        let (first, last) = visible_range(&steps, rows);
        let mut lines = vec![self.header_line(watching, &steps, columns)];
        let more = |count: usize, where_: &str| painted(QUIET, format_args!("    … {count} more {where_}"));
        if first > 0 {
            lines.push(more(first, "above"));
        }
        let id_width =
            steps[first..last].iter().map(|step| display_width(step.id.as_str())).max().unwrap_or(0);
        lines.extend(steps[first..last].iter().map(|step| self.step_line(step, id_width.min(32), columns)));
        if last < steps.len() {
            lines.push(more(steps.len() - last, "below"));
        }
        lines.extend(self.note.iter().map(|note| painted(status_style::ATTENTION, truncate(note, columns))));
        lines
    }

    /// The header: plan, execution, status, steps done, elapsed time.
    fn header_line(&self, watching: &ExecutionWatcher, steps: &[StepSnapshot<'_>], columns: usize) -> String {
        let execution = watching.execution();
        let done =
            |step: &&StepSnapshot<'_>| matches!(step.status, StepStatus::Succeeded | StepStatus::Skipped);
        let done = steps.iter().filter(done).count();
        let until = execution.ended_at_ms.unwrap_or_else(times::now_ms);
        let status = watching.status();
        let (name, version) = (&execution.plan_ref.name, execution.plan_ref.version);
        let rest = format!(
            " version {version} · {} · {status} · {done}/{} · {}",
            short_id(execution.id.as_str()),
            steps.len(),
            times::elapsed_text(until - execution.started_at_ms)
        );
        let name = truncate(name, columns.saturating_sub(display_width(&rest)));
        painted(STRONG, name) + &painted(status_style::execution_style(status), truncate(&rest, columns))
    }

    /// The line of one step, with its id padded to `id_width`.
    fn step_line(&self, step: &StepSnapshot<'_>, id_width: usize, columns: usize) -> String {
        let (mut symbol, style) = status_style::step_symbol_and_style(step.status);
        if matches!(step.status, StepStatus::Running | StepStatus::Compensating) {
            symbol = SPINNER[self.frame % SPINNER.len()];
        }
        let id = truncate(step.id.as_str(), id_width);
        let gap = " ".repeat(id_width - display_width(&id));
        let state = match step.status {
            StepStatus::Pending | StepStatus::Succeeded => String::new(),
            other => format!("{other}  "),
        };
        let progress = step.progress.as_ref().map(|progress| format!("{}  ", progress_text(progress)));
        let tail = format!("{state}{}{}", progress.unwrap_or_default(), timing_text(step));
        let room = columns.saturating_sub(6 + id_width + display_width(&tail) + 2);
        let name = truncate(step.name.unwrap_or_default(), room.min(48));
        let (name_width, wanted) = (display_width(&name), room.min(40));
        let pad = " ".repeat(wanted.saturating_sub(name_width));
        format!("  {} {id}{gap}  {name}{pad}  {}", painted(style, symbol), painted(QUIET, tail))
    }
}

/// The range of steps that fits in `rows`, around the first one under way, or else the first unfinished one.
fn visible_range(steps: &[StepSnapshot<'_>], rows: usize) -> (usize, usize) {
    if steps.len() <= rows {
        return (0, steps.len());
    }
    use StepStatus as S;
    let under_way = |step: &StepSnapshot<'_>| status_style::is_under_way(step.status);
    let unfinished = |step: &StepSnapshot<'_>| !matches!(step.status, S::Succeeded | S::Skipped);
    let focus = steps.iter().position(under_way).or_else(|| steps.iter().position(unfinished));
    let focus = focus.unwrap_or(steps.len());
    let first = focus.saturating_sub(rows / 3).min(steps.len() - rows);
    (first, first + rows)
}
