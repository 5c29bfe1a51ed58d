//! Replays the projections. They hold nothing that the journal does not say, so they can be thrown
//! away and made again at any time, while others write.

use actbook_engine::event::Event;

use super::Error;
use super::fold::{LIBRARY, Plans, fold, recorded};
use crate::store::{
    Appended, Appender, Batch, Db, Head, Statement, calls, executions, journal, plans, project,
};

/// How often writers may get in between before they are made to wait.
const TRIES: usize = 5;

/// Gives how many rows there are. Blocking, and not to be called where a runtime runs.
pub fn rebuild(db: &Db, tenant: i64) -> Result<usize, Error> {
    let mut appender = db.appender()?;
    for _ in 0..TRIES {
        let Some(head) = journal::head(tenant).first_blocking(db)? else { break };
        if let Some(count) = replace(db, tenant, &mut appender, head)? {
            return Ok(count);
        }
    }
    let head = appender.hold(tenant)?;
    let replaced = replace(db, tenant, &mut appender, head)?;
    Ok(replaced.expect("nobody moves a head that is held"))
}

/// None: somebody has appended since the head was read.
fn replace(db: &Db, tenant: i64, appender: &mut Appender, head: Head) -> Result<Option<usize>, Error> {
    let (plan_rows, plan_count) = plan_rows(db, tenant)?;
    let execution_rows = execution_rows(db, tenant)?;
    let count = plan_count + execution_rows.len();
    let mut others = vec![plans::erase_all(tenant), executions::erase_all(tenant)];
    others.extend(calls::erase_all(tenant));
    others.extend(plan_rows);
    others.extend(execution_rows);
    let batch = Batch { tenant, old: head, new: head, entries: Vec::new(), others };
    Ok((appender.append(&batch)? == Appended::Done).then_some(count))
}

/// The statements, and how many rows they leave.
fn plan_rows(db: &Db, tenant: i64) -> Result<(Vec<Statement>, usize), Error> {
    let mut rows = Vec::new();
    let mut count = 0;
    for entry in &journal::of_stream(tenant, LIBRARY, 1).all_blocking(db)? {
        let recorded = recorded(entry)?;
        count += usize::from(matches!(recorded.event, Event::PlanSaved(_)));
        rows.extend(project::plan(tenant, &recorded));
    }
    Ok((rows, count))
}

fn execution_rows(db: &Db, tenant: i64) -> Result<Vec<Statement>, Error> {
    let plans = Plans::from_library(db, tenant)?;
    let mut rows = Vec::new();
    for stream in journal::streams(tenant).all_blocking(db)? {
        if let Some(execution) = fold(db, tenant, stream, &plans)? {
            rows.push(executions::insert(tenant, &project::execution(stream, &execution)));
        }
    }
    Ok(rows)
}
