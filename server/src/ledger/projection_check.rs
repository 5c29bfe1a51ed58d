//! Compares the projection of executions with the journal. Lists, searches by id and the search for due work
//! read the projection alone, so a forged row hides an execution or shows another status.

use std::collections::{BTreeMap, BTreeSet};

use actbook_engine::id::{StreamId, TenantId};

use super::Error;
use super::fold::{PlanCache, fold_execution, fold_executions};
use crate::store::executions::{ExecutionRow, WAITS_AFTER_END};
use crate::store::{Db, executions, journal, projection};

/// How many streams are folded at a time.
const BATCH_STREAMS: usize = 500;
/// How often a row that differs is read again: a process that appends may change it in between.
const REREADS_MAX: usize = 5;

/// An execution whose row differs from the fold of its journal entries, is missing, or should not exist.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowDifference {
    pub stream: StreamId,
    /// `None`: the row is missing.
    pub found: Option<ExecutionRow>,
    /// `None`: the journal has no such execution.
    pub expected: Option<ExecutionRow>,
}

/// The first row of the projection of executions that differs from the fold of its stream. Blocking: not for
/// async code.
pub fn find_row_difference(db: &Db, tenant: TenantId) -> Result<Option<RowDifference>, Error> {
    let plans = PlanCache::from_library(db, tenant)?;
    let streams = journal::streams(tenant).all_blocking(db)?;
    let mut after = 0;
    for batch in streams.chunks(BATCH_STREAMS) {
        let through = batch.last().map_or(after, |stream| stream.0);
        let executions = fold_executions(db, tenant, batch, &plans)?;
        let expected = batch.iter().zip(executions).filter_map(|(stream, execution)| {
            Some((*stream, projection::execution_row(*stream, &execution?)))
        });
        let difference = differing_row(db, tenant, (after, through), &expected.collect(), &plans)?;
        if difference.is_some() {
            return Ok(difference);
        }
        after = through;
    }
    differing_row(db, tenant, (after, u64::MAX), &BTreeMap::new(), &plans)
}

/// The first row in a range of streams that differs from `expected`, and still does when it is read again.
fn differing_row(
    db: &Db,
    tenant: TenantId,
    (after, through): (u64, u64),
    expected: &BTreeMap<StreamId, ExecutionRow>,
    plans: &PlanCache,
) -> Result<Option<RowDifference>, Error> {
    let found = executions::between(tenant, after, through).all_blocking(db)?;
    let found: BTreeMap<StreamId, ExecutionRow> = found.into_iter().map(|row| (row.id, row)).collect();
    let streams: BTreeSet<StreamId> = found.keys().chain(expected.keys()).copied().collect();
    for stream in streams.into_iter().filter(|stream| !is_same_row(found.get(stream), expected.get(stream))) {
        let difference = reread_difference(db, tenant, stream, plans)?;
        if difference.is_some() {
            return Ok(difference);
        }
    }
    Ok(None)
}

/// Whether a row is what the journal says. Two differences are none, because former versions wrote such rows and
/// `rebuild` or the next change mends them: no `WAITS_AFTER_END` for an undo that waits after the end, and no
/// progress (`total` and the columns beside it).
fn is_same_row(found: Option<&ExecutionRow>, expected: Option<&ExecutionRow>) -> bool {
    let (Some(found), Some(expected)) = (found, expected) else { return found == expected };
    let mut expected = expected.clone();
    if found.wake_at.is_none() && expected.wake_at == Some(WAITS_AFTER_END) {
        expected.wake_at = None;
    }
    if found.total.is_none() {
        (expected.done, expected.total, expected.first_error) = (None, None, None);
    }
    *found == expected
}

/// Reads a row and its stream again. The row before or after the fold equals it, unless it is forged or was
/// written several times in between.
fn reread_difference(
    db: &Db,
    tenant: TenantId,
    stream: StreamId,
    plans: &PlanCache,
) -> Result<Option<RowDifference>, Error> {
    let row = || executions::by_id(tenant, stream).first_blocking(db);
    let mut found = row()?;
    let mut difference = None;
    for _ in 0..REREADS_MAX {
        let execution = fold_execution(db, tenant, stream, plans)?;
        let expected = execution.map(|execution| projection::execution_row(stream, &execution));
        let later = row()?;
        if [&found, &later].into_iter().any(|row| is_same_row(row.as_ref(), expected.as_ref())) {
            return Ok(None);
        }
        found = later.clone();
        difference = Some(RowDifference { stream, found: later, expected });
    }
    Ok(difference)
}
