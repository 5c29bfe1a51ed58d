//! Progress while it happens: a list redrawn in place on a terminal, plain lines in a pipe, one JSON
//! document per change for programs.

use std::collections::BTreeSet;

use actbook::error::Error;
use actbook::service::view::StepProgress;
use actbook::service::{Glance, Watching};
use actbook_engine::policy::{Status, StepStatus};
use serde_json::{Value, json};

use super::output::Output;
use super::signs::{self, QUIET, STRONG, painted, short};
use super::table::{cut, width};
use super::{brief, times};

const SPINNER: [&str; 10] = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"];
/// Rows of the terminal that are not for steps: header, two folds, note, prompt.
const OTHER_ROWS: usize = 6;
const STEPS_ROWS_MIN: usize = 3;
/// Of what a tool says of its progress.
const PROGRESS_COLUMNS: usize = 40;

#[derive(Debug)]
pub struct Screen {
    output: Output,
    mode: Mode,
    /// What was last shown of each step: its state and its attempts.
    shown: Vec<(StepStatus, usize)>,
    status: Option<Status>,
}

#[derive(Debug)]
enum Mode {
    Live(Live),
    Plain,
    Json,
}

#[derive(Debug, Default)]
struct Live {
    frame: usize,
    note: Option<String>,
}

/// Which attempts have been printed with their values: step and number of attempts.
#[derive(Debug, Default)]
pub struct StepValues(BTreeSet<(String, usize)>);

impl StepValues {
    /// Prints what each step that has ended since was given, and what it gave.
    pub async fn print(&mut self, output: &Output, watching: &Watching) -> Result<(), Error> {
        if output.json {
            return Ok(());
        }
        let fresh = |step: &Glance<'_>| {
            step.ended_at_ms.is_some() && !self.0.contains(&(step.id.to_string(), step.attempts))
        };
        if !watching.glances().any(|step| fresh(&step)) {
            return Ok(());
        }
        let view = watching.view().await?;
        for step in view.steps.iter().filter(|step| step.ended_at.is_some()) {
            if self.0.insert((step.id.to_string(), step.attempts)) {
                value_lines(output, step.id.as_str(), "←", step.arguments.as_ref());
                value_lines(output, step.id.as_str(), "→", step.output.as_ref());
            }
        }
        Ok(())
    }
}

fn value_lines(output: &Output, step: &str, sign: &str, value: Option<&Value>) {
    if let Some(value) = value {
        output.line(format_args!("  {step} {} {}", painted(QUIET, sign), brief::value_text(value)));
    }
}

impl Screen {
    pub fn new(output: Output, watching: &Watching) -> Self {
        let mode = match (output.json, output.is_live()) {
            (true, _) => Mode::Json,
            (false, true) => Mode::Live(Live::default()),
            (false, false) => Mode::Plain,
        };
        let before = watching.glances().map(|step| before(&step)).collect();
        let mut screen = Self { output, mode, shown: before, status: None };
        if let Mode::Plain = screen.mode {
            let execution = watching.execution();
            let (plan, id) = (&execution.plan_ref, short(execution.id.as_str()));
            screen.output.line(format_args!("{} version {}, execution {id}", plan.name, plan.version));
        }
        screen.show(watching);
        screen
    }

    /// Something has moved.
    pub fn show(&mut self, watching: &Watching) {
        match &mut self.mode {
            Mode::Live(live) => live.draw(watching),
            Mode::Plain | Mode::Json => self.changes(watching),
        }
    }

    /// Only time has passed.
    pub fn tick(&mut self, watching: &Watching) {
        if let Mode::Live(live) = &mut self.mode {
            live.frame += 1;
            live.draw(watching);
        }
    }

    pub fn note(&mut self, text: &str) {
        match &mut self.mode {
            Mode::Live(live) => live.note = Some(text.to_owned()),
            Mode::Plain | Mode::Json => self.output.aside(text),
        }
    }

    pub fn finish(&mut self) {
        Output::leave_drawing();
    }

    fn changes(&mut self, watching: &Watching) {
        let mut changed = Vec::new();
        for (step, shown) in watching.glances().zip(&mut self.shown) {
            let seen = (step.status, step.attempts);
            if seen != *shown {
                *shown = seen;
                changed.push(step);
            }
        }
        // What ended comes before what then began, in the same millisecond too.
        changed.sort_by_key(|step| (at_ms(step), is_under_way(step.status)));
        for step in changed {
            if self.output.json {
                self.output.entry(&change(watching, &step));
            } else {
                self.output.line(line(&step));
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

/// What has ended already is no news to whoever begins to look.
fn before(step: &Glance<'_>) -> (StepStatus, usize) {
    match step.ended_at_ms {
        Some(_) => (step.status, step.attempts),
        None => (StepStatus::Pending, 0),
    }
}

fn change(watching: &Watching, step: &Glance<'_>) -> Value {
    let (id, position, status) = (&watching.execution().id, watching.position(), watching.status());
    let step = json!({ "id": step.id, "status": step.status, "attempts": step.attempts });
    json!({ "execution": id, "position": position, "status": status, "step": step })
}

fn is_under_way(status: StepStatus) -> bool {
    use StepStatus::{AwaitingAgent, AwaitingApproval, Compensating, Running};
    matches!(status, Running | AwaitingApproval | AwaitingAgent | Compensating)
}

/// When it came to where it is.
fn at_ms(step: &Glance<'_>) -> i64 {
    let undoing = step.status == StepStatus::Compensating;
    step.ended_at_ms.or(step.started_at_ms).filter(|_| !undoing).unwrap_or_else(times::now_ms)
}

/// `12:00:01 draft succeeded 0.2 s`
fn line(step: &Glance<'_>) -> String {
    let (sign, style) = signs::step(step.status);
    let state = painted(style, format_args!("{sign} {} {}", step.id, step.status));
    [times::clock(at_ms(step)), state, tail(step)].join(" ").trim_end().to_owned()
}

/// How long it took or has taken so far, and the attempt where it is not the first.
fn tail(step: &Glance<'_>) -> String {
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
    let took = step.started_at_ms.zip(until).map(|(from, to)| times::took(to - from));
    let attempt = (step.attempts > 1).then(|| format!("attempt {}", step.attempts));
    [took, attempt].into_iter().flatten().collect::<Vec<_>>().join("  ")
}

/// `42 % fetching the index`
fn said(progress: &StepProgress) -> String {
    let measure = match progress.total.filter(|total| *total > 0.0) {
        Some(total) => format!("{:.0} %", (progress.done / total * 100.0).clamp(0.0, 100.0)),
        None => progress.done.to_string(),
    };
    let message = progress.message.as_deref().unwrap_or_default();
    cut(format!("{measure} {message}").trim_end(), PROGRESS_COLUMNS)
}

impl Live {
    fn draw(&self, watching: &Watching) {
        let (columns, rows) = Output::size();
        let steps_rows = rows.saturating_sub(OTHER_ROWS).max(STEPS_ROWS_MIN);
        Output::draw(self.lines(watching, columns, steps_rows));
    }

    fn lines(&self, watching: &Watching, columns: usize, rows: usize) -> Vec<String> {
        let steps: Vec<Glance<'_>> = watching.glances().collect();
        let (first, last) = window(&steps, rows);
        let mut lines = vec![self.head(watching, &steps, columns)];
        let fold = |count: usize, where_: &str| painted(QUIET, format_args!("    … {count} more {where_}"));
        if first > 0 {
            lines.push(fold(first, "above"));
        }
        let ids = steps[first..last].iter().map(|step| width(step.id.as_str())).max().unwrap_or(0);
        lines.extend(steps[first..last].iter().map(|step| self.step(step, ids.min(32), columns)));
        if last < steps.len() {
            lines.push(fold(steps.len() - last, "below"));
        }
        lines.extend(self.note.iter().map(|note| painted(signs::ASKS, cut(note, columns))));
        lines
    }

    fn head(&self, watching: &Watching, steps: &[Glance<'_>], columns: usize) -> String {
        let execution = watching.execution();
        let done = |step: &&Glance<'_>| matches!(step.status, StepStatus::Succeeded | StepStatus::Skipped);
        let done = steps.iter().filter(done).count();
        let until = execution.ended_at_ms.unwrap_or_else(times::now_ms);
        let status = watching.status();
        let (name, version) = (&execution.plan_ref.name, execution.plan_ref.version);
        let rest = format!(
            " version {version} · {} · {status} · {done}/{} · {}",
            short(execution.id.as_str()),
            steps.len(),
            times::took(until - execution.started_at_ms)
        );
        let name = cut(name, columns.saturating_sub(width(&rest)));
        painted(STRONG, name) + &painted(signs::execution(status), cut(&rest, columns))
    }

    fn step(&self, step: &Glance<'_>, ids: usize, columns: usize) -> String {
        let (mut sign, style) = signs::step(step.status);
        if matches!(step.status, StepStatus::Running | StepStatus::Compensating) {
            sign = SPINNER[self.frame % SPINNER.len()];
        }
        let id = cut(step.id.as_str(), ids);
        let gap = " ".repeat(ids - width(&id));
        let state = match step.status {
            StepStatus::Pending | StepStatus::Succeeded => String::new(),
            other => format!("{other}  "),
        };
        let said = step.progress.as_ref().map(|progress| format!("{}  ", said(progress)));
        let tail = format!("{state}{}{}", said.unwrap_or_default(), tail(step));
        let room = columns.saturating_sub(6 + ids + width(&tail) + 2);
        let name = cut(step.name.unwrap_or_default(), room.min(48));
        let (name_width, wanted) = (width(&name), room.min(40));
        let pad = " ".repeat(wanted.saturating_sub(name_width));
        format!("  {} {id}{gap}  {name}{pad}  {}", painted(style, sign), painted(QUIET, tail))
    }
}

/// The steps that fit, around the one at work.
fn window(steps: &[Glance<'_>], rows: usize) -> (usize, usize) {
    if steps.len() <= rows {
        return (0, steps.len());
    }
    use StepStatus as S;
    let at_work = |step: &Glance<'_>| is_under_way(step.status);
    let unsettled = |step: &Glance<'_>| !matches!(step.status, S::Succeeded | S::Skipped);
    let focus = steps.iter().position(at_work).or_else(|| steps.iter().position(unsettled));
    let focus = focus.unwrap_or(steps.len());
    let first = focus.saturating_sub(rows / 3).min(steps.len() - rows);
    (first, first + rows)
}
