//! Replays the projections. They hold nothing that the journal does not say, so they can be thrown
//! away and made again at any time, while others write.

use super::Error;
use super::fold::{LIBRARY, Plans, fold, recorded};
use crate::store::{Appended, Batch, Db, Statement, executions, journal, plans, project};

/// How often writers may get in between before it is given up.
const TRIES: usize = 20;

pub fn rebuild(db: &Db, tenant: i64) -> Result<usize, Error> {
    for _ in 0..TRIES {
        let Some(head) = journal::head(tenant).first_blocking(db)? else { break };
        // The plans come first and alone: executions are folded with the plans as they stand there.
        let plan_rows = plan_rows(db, tenant)?;
        let execution_rows = execution_rows(db, tenant)?;
        let count = plan_rows.len() + execution_rows.len();
        let mut others = vec![plans::erase_all(tenant), executions::erase_all(tenant)];
        others.extend(plan_rows);
        others.extend(execution_rows);
        let batch = Batch { tenant, old: head, new: head, entries: Vec::new(), others };
        if db.appender()?.append(&batch)? == Appended::Done {
            return Ok(count);
        }
    }
    Err(Error::Store(crate::store::Error::Busy { waited_s: 0 }))
}

fn plan_rows(db: &Db, tenant: i64) -> Result<Vec<Statement>, Error> {
    let entries = journal::of_stream(tenant, LIBRARY, 1).all_blocking(db)?;
    let mut rows = Vec::new();
    for entry in &entries {
        rows.extend(project::plan(tenant, &recorded(entry)?));
    }
    Ok(rows)
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
