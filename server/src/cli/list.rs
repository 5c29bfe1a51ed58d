//! Executions, newest first, page by page.

use actbook::service::ExecutionFilter;
use actbook::service::view::ExecutionRow;
use actbook_engine::policy::Status;

use super::args::List;
use super::output::Output;
use super::session::Session;
use super::signs::{self, ASKS, QUIET, painted, short};
use super::table::{Cell, Table, cell, coloured};
use super::{Ended, Exit, times};

pub async fn list(session: &Session, asked: List) -> Ended {
    let limit = asked.limit;
    let filter = filter(session, asked).await?;
    let rows = session.service.list(&filter, limit).await?;
    let output = &session.output;
    if output.json {
        output.document(&rows);
    } else if rows.is_empty() && filter == ExecutionFilter::default() {
        output.line("no executions; `actbook run PLAN` starts one");
    } else if rows.is_empty() {
        output.line("no execution fits");
    } else {
        let mut table = Table::new(0, &["execution", "status", "plan", "started", "took", "task", "project"]);
        rows.iter().for_each(|row| table.row(line(row)));
        table.print(output);
        waiting(output, &rows);
    }
    if let Some(last) = rows.last().filter(|_| rows.len() as u64 == limit && !output.json) {
        output.aside(painted(QUIET, format_args!("more: the same with --cursor {}", last.id)));
    }
    Ok(Exit::Done)
}

async fn filter(session: &Session, asked: List) -> Result<ExecutionFilter, actbook::error::Error> {
    let before = match &asked.cursor {
        Some(id) => Some(session.service.find(id).await?.stream),
        None => None,
    };
    Ok(ExecutionFilter {
        status: asked.status.map(|status| status.to_string()),
        plan: asked.plan,
        task: asked.task,
        project: asked.project,
        actor: asked.actor,
        category: asked.category.map(|category| category.to_string()),
        since: asked.since,
        until: asked.until,
        words: asked.search.iter().flat_map(|words| words.split_whitespace()).map(str::to_owned).collect(),
        before,
    })
}

/// What does not go on by itself: executions that wait for an answer, and those that nobody drives.
fn waiting(output: &Output, rows: &[ExecutionRow]) {
    let blocked = rows.iter().filter(|row| row.status == Status::Blocked.as_str()).count();
    let stopped: Vec<&ExecutionRow> = rows.iter().filter(|row| row.stopped).collect();
    if blocked + stopped.len() == 0 {
        return;
    }
    let answers = (blocked > 0).then(|| format!("{blocked} for an answer (`actbook show EXECUTION`)"));
    let resumes = stopped.first().map(|first| {
        let resume = format!("actbook resume {}", short(&first.id));
        format!("{} stopped: nobody drives it; `{resume}`", stopped.len())
    });
    let words = [answers, resumes].into_iter().flatten().collect::<Vec<_>>().join(", ");
    output.line(format_args!("{} {words}", painted(ASKS, format_args!("{} wait:", blocked + stopped.len()))));
}

fn line(row: &ExecutionRow) -> Vec<Cell> {
    let style = row.status.parse().map(signs::execution).unwrap_or(QUIET);
    let (status, style) = if row.stopped { ("stopped", ASKS) } else { (row.status.as_str(), style) };
    let instant = |text: &str| text.parse::<jiff::Timestamp>().map(|at| at.as_millisecond()).ok();
    let took = instant(&row.started_at).zip(row.ended_at.as_deref().and_then(instant));
    vec![
        cell(short(&row.id)),
        coloured(style, status),
        cell(format!("{} v{}", row.plan.name, row.plan.version)),
        cell(times::date(&row.started_at)),
        cell(took.map(|(from, to)| times::took(to - from)).unwrap_or_default()),
        coloured(QUIET, row.task.clone().unwrap_or_default()),
        coloured(QUIET, row.project.clone().unwrap_or_default()),
    ]
}
