//! Rebuilds the projections from the journal. They hold nothing that the journal does not, so they can be
//! dropped and written again at any time, while other processes append.

use actbook_engine::event::{Event, NoteSet, TaskSet};
use actbook_engine::id::{StreamId, TenantId};

use super::Error;
use super::fold::{LIBRARY_STREAM, PlanCache, decode_entry, fold_execution};
use crate::store::tokenizer::NoteTokens;
use crate::store::{
    Appended, Appender, Batch, Db, JournalHead, Statement, executions, journal, notes, payloads, plans,
    projection, stream_rows, tasks,
};

/// How often an append may interrupt a rebuild before the rebuild locks the head row.
const UNLOCKED_TRIES_MAX: usize = 5;

/// Replaces all rows of the projections, and returns how many there are. Blocking: not for async code.
pub fn rebuild(db: &Db, tenant: TenantId) -> Result<usize, Error> {
    let mut appender = db.appender()?;
    refill_pages(tenant, &mut appender)?;
    for _ in 0..UNLOCKED_TRIES_MAX {
        let Some(head) = journal::head(tenant).first_blocking(db)? else { break };
        if let Some(count) = replace_projections(db, tenant, &mut appender, head)? {
            return Ok(count);
        }
    }
    let head = appender.lock_head(tenant)?;
    let replaced = replace_projections(db, tenant, &mut appender, head)?;
    Ok(replaced.expect("a locked head does not move"))
}

/// Refills the table of pages. It comes before all reads, because streams are found by their pages.
fn refill_pages(tenant: TenantId, appender: &mut Appender) -> Result<(), Error> {
    let head = appender.lock_head(tenant)?;
    let others = journal::rebuild_pages(tenant);
    let batch =
        Batch { tenant, old: head, new: head, entries: Vec::new(), other_statements: others, urgent: true };
    appender.append(&batch)?;
    Ok(())
}

/// Replaces all rows in one transaction and returns their number. None: the head has moved since it was read.
fn replace_projections(
    db: &Db,
    tenant: TenantId,
    appender: &mut Appender,
    head: JournalHead,
) -> Result<Option<usize>, Error> {
    let (plan_rows, plan_count) = plan_rows(db, tenant)?;
    let execution_rows = execution_rows(db, tenant)?;
    let (memory_rows, memory_count) = note_and_task_rows(db, tenant)?;
    let count = plan_count + execution_rows.len() + memory_count;
    let mut others = vec![plans::erase_all(tenant), executions::erase_all(tenant), tasks::erase_all(tenant)];
    others.extend(notes::erase_all(tenant));
    others.extend(stream_rows::erase_all(tenant));
    others.extend(plan_rows);
    others.extend(execution_rows);
    others.extend(memory_rows);
    let batch =
        Batch { tenant, old: head, new: head, entries: Vec::new(), other_statements: others, urgent: true };
    Ok((appender.append(&batch)? == Appended::Done).then_some(count))
}

/// The statements that write the plan rows, and the number of rows.
fn plan_rows(db: &Db, tenant: TenantId) -> Result<(Vec<Statement>, usize), Error> {
    let mut rows = Vec::new();
    let mut count = 0;
    for entry in &journal::by_stream(db.dialect(), tenant, LIBRARY_STREAM, 0).all_blocking(db)? {
        let recorded = decode_entry(entry)?;
        count += usize::from(matches!(recorded.event, Event::PlanSaved(_)));
        rows.extend(projection::plan_statement(tenant, &recorded));
    }
    Ok((rows, count))
}

/// The statements that insert a row for each execution, from the journal alone.
fn execution_rows(db: &Db, tenant: TenantId) -> Result<Vec<Statement>, Error> {
    let plans = PlanCache::from_library(db, tenant)?;
    let mut rows = Vec::new();
    for stream in journal::streams(tenant).all_blocking(db)? {
        if let Some(execution) = fold_execution(db, tenant, stream, &plans)? {
            rows.push(executions::insert(tenant, &projection::execution_row(stream, &execution)));
        }
    }
    Ok(rows)
}

/// The statements that write the rows of notes and tasks, and the number of rows.
fn note_and_task_rows(db: &Db, tenant: TenantId) -> Result<(Vec<Statement>, usize), Error> {
    let (mut rows, mut count) = (Vec::new(), 0);
    let ([note, note_older], [task, task_older]) = (NoteSet::VERSIONS, TaskSet::VERSIONS);
    for stream in
        journal::streams_starting_with(tenant, [note, note_older, task, task_older]).all_blocking(db)?
    {
        let (note, task) = read_note_or_task(db, tenant, stream)?;
        count += usize::from(note.is_some()) + usize::from(task.is_some());
        rows.extend(task.map(|task| tasks::upsert(tenant, &task)));
        if let Some(note) = note {
            let words = if note.deleted { None } else { Some(note_tokens(db, tenant, &note)?) };
            rows.extend(notes::upsert(db.dialect(), tenant, None, &note, words.as_ref()));
        }
    }
    Ok((rows, count))
}

/// The row of the note or of the task that the stream holds; neither, if it holds none or is erased.
fn read_note_or_task(
    db: &Db,
    tenant: TenantId,
    stream: StreamId,
) -> Result<(Option<notes::NoteRow>, Option<tasks::TaskRow>), Error> {
    let (mut note, mut task) = (None, None);
    for entry in journal::by_stream(db.dialect(), tenant, stream, 0).all_blocking(db)? {
        let recorded = decode_entry(&entry)?;
        let (version, author) = (entry.version, &*entry.actor);
        let written = notes::StreamEntry { stream, version, author, recorded: &recorded };
        note = projection::note_row(note, &written);
        task = projection::task_row(task, &written);
    }
    Ok((note, task))
}

/// Computes a note's tokens for the search index from its stored value. `Err(Corrupt)`: the value is gone.
fn note_tokens(db: &Db, tenant: TenantId, note: &notes::NoteRow) -> Result<NoteTokens, Error> {
    let lost = || Error::Corrupt(format!("the value of note `{}` is gone", note.key));
    let payload = payloads::by_position(tenant, note.position).first_blocking(db)?.ok_or_else(lost)?;
    NoteTokens::from_payload(&note.key, &payload.body).ok_or_else(lost)
}
