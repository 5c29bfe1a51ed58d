//! `list`: prints executions, newest first, page by page.

use crate::error::Error;
use crate::service::view::ExecutionSummary;
use crate::service::{ExecutionFilter, Terms, WaitingExecutions};
use actbook_engine::policy::ExecutionStatus;

use super::args::{ListArgs, ListExclusion, ListedStatus};
use super::catch_up::catch_up;
use super::output::Output;
use super::session::Session;
use super::status_style::{self, ATTENTION, QUIET, painted, short_id};
use super::table::{Cell, Table, cell, path_cell, styled_cell};
use super::{CommandResult, Exit, times};

/// Executions under way that are read at a time, to find those that no process drives.
const STOPPED_PAGE: u64 = 200;

/// Prints one page of the executions that fit, and how to get the next page.
pub async fn list(session: &Session, args: ListArgs) -> CommandResult {
    let limit = args.limit;
    let only_stopped = matches!(args.status, Some(ListedStatus::Stopped));
    let filter = execution_filter(session, args).await?;
    if filter.needs_projection() {
        catch_up(session).await?;
    }
    let rows = if only_stopped {
        stopped_rows(session, filter.clone(), limit).await?
    } else {
        session.service.executions().list(&filter, limit).await?
    };
    let output = &session.output;
    if output.json {
        output.document(&rows);
    } else if rows.is_empty() && filter == ExecutionFilter::default() {
        output.line("no executions; `actbook run PLAN` starts one");
    } else if rows.is_empty() {
        output.line("no execution matches");
    } else {
        let mut table = Table::new(0, &["execution", "status", "plan", "started", "took", "task", "project"]);
        rows.iter().for_each(|row| table.push_row(table_row(row)));
        table.print(output);
        print_waiting(output, &session.service.executions().waiting(&filter).await?);
    }
    if let Some(last) = rows.last().filter(|_| rows.len() as u64 == limit && !output.json) {
        output.notice(painted(QUIET, format_args!("more: the same with --cursor {}", last.id)));
    }
    Ok(Exit::Done)
}

/// Up to `limit` executions that match and that no process drives, which only their nodes tell.
async fn stopped_rows(
    session: &Session,
    mut filter: ExecutionFilter,
    limit: u64,
) -> Result<Vec<ExecutionSummary>, Error> {
    let mut stopped = Vec::new();
    loop {
        let page = session.service.executions().list(&filter, STOPPED_PAGE).await?;
        filter.before = page.last().map(|row| row.stream.0);
        let is_last = (page.len() as u64) < STOPPED_PAGE;
        stopped.extend(page.into_iter().filter(|row| row.stopped));
        if is_last || stopped.len() as u64 >= limit {
            stopped.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
            return Ok(stopped);
        }
    }
}

/// The service's filter; `--cursor` becomes the stream of that execution. `Err` if it does not exist.
async fn execution_filter(session: &Session, args: ListArgs) -> Result<ExecutionFilter, Error> {
    let before = match &args.cursor {
        Some(id) => Some(session.service.executions().find(id).await?.stream),
        None => None,
    };
    let mut filter = ExecutionFilter {
        status: match args.status {
            None => Terms::default(),
            Some(ListedStatus::Status(status)) => status.into(),
            Some(ListedStatus::Stopped) => {
                let under_way = vec![ExecutionStatus::Running, ExecutionStatus::Compensating];
                Terms { any_of: under_way, none_of: Vec::new() }
            }
        },
        plan: args.plan.into(),
        task: args.task.into(),
        tool: args.tool.into(),
        server: args.server.into(),
        project: args.project,
        actor: args.actor.into(),
        category: args.category.into(),
        since: args.since,
        until: args.until,
        words: args.search.iter().flat_map(|words| words.split_whitespace()).map(str::to_owned).collect(),
        before: before.map(|stream| stream.0),
    };
    for exclusion in args.not {
        match exclusion {
            ListExclusion::Status(status) => filter.status.none_of.push(status),
            ListExclusion::Plan(plan) => filter.plan.none_of.push(plan),
            ListExclusion::Task(task) => filter.task.none_of.push(task),
            ListExclusion::Tool(tool) => filter.tool.none_of.push(tool),
            ListExclusion::Server(server) => filter.server.none_of.push(server),
            ListExclusion::Actor(actor) => filter.actor.none_of.push(actor),
            ListExclusion::Category(category) => filter.category.none_of.push(category),
        }
    }
    Ok(filter)
}

/// Prints how many executions need a person, on whatever page they are listed.
fn print_waiting(output: &Output, waiting: &WaitingExecutions) {
    let WaitingExecutions { blocked, paused, stopped } = waiting;
    let resume = |ids: &[String]| format!("`actbook resume {}`", short_id(&ids[0]));
    let answers = (*blocked > 0).then(|| format!("{blocked} for an answer (`actbook show EXECUTION`)"));
    let pauses = (!paused.is_empty()).then(|| format!("{} paused ({})", paused.len(), resume(paused)));
    let stops = (!stopped.is_empty())
        .then(|| format!("{} stopped: no process drives it; {}", stopped.len(), resume(stopped)));
    let words = [answers, pauses, stops].into_iter().flatten().collect::<Vec<_>>().join(", ");
    let total = blocked + paused.len() + stopped.len();
    if total > 0 {
        output.line(format_args!("{} {words}", painted(ATTENTION, format_args!("{total} wait:"))));
    }
}

fn table_row(row: &ExecutionSummary) -> Vec<Cell> {
    let style = status_style::execution_style(row.status);
    let undo_waits = format!("{}, undo waits", row.status);
    let (status, style) = match (row.stopped, row.undo_waits) {
        (true, _) => ("stopped", ATTENTION),
        (false, true) => (undo_waits.as_str(), ATTENTION),
        (false, false) => (row.status.as_str(), style),
    };
    let instant = |text: &str| text.parse::<jiff::Timestamp>().map(|at| at.as_millisecond()).ok();
    let took = instant(&row.started_at).zip(row.ended_at.as_deref().and_then(instant));
    vec![
        cell(short_id(&row.id)),
        styled_cell(style, status),
        cell(format!("{} v{}", row.plan.name, row.plan.version)),
        cell(times::local_date_time(&row.started_at)),
        cell(took.map(|(from, to)| times::elapsed_text(to - from)).unwrap_or_default()),
        styled_cell(QUIET, row.task.clone().unwrap_or_default()),
        path_cell(QUIET, row.project.clone().unwrap_or_default()),
    ]
}
