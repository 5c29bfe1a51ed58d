//! Replays the projections. They hold nothing that the journal does not say, so they can be thrown
//! away and made again at any time, while others write.

use actbook_engine::event::{Event, NoteSet, TaskSet};

use super::Error;
use super::fold::{LIBRARY, Plans, fold, recorded};
use crate::store::words::Words;
use crate::store::{
    Appended, Appender, Batch, Db, Head, Statement, executions, journal, notes, payloads, plans, project,
    seen, tasks,
};

/// How often writers may get in between before they are made to wait.
const TRIES: usize = 5;

/// Gives how many rows there are. Blocking, and not to be called where a runtime runs.
pub fn rebuild(db: &Db, tenant: i64) -> Result<usize, Error> {
    let mut appender = db.appender()?;
    refill_pages(tenant, &mut appender)?;
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

/// Before anything is read, for streams are found by them.
fn refill_pages(tenant: i64, appender: &mut Appender) -> Result<(), Error> {
    let head = appender.hold(tenant)?;
    let others = journal::fill_pages(tenant);
    let batch = Batch { tenant, old: head, new: head, entries: Vec::new(), others, urgent: true };
    appender.append(&batch)?;
    Ok(())
}

/// None: somebody has appended since the head was read.
fn replace(db: &Db, tenant: i64, appender: &mut Appender, head: Head) -> Result<Option<usize>, Error> {
    let (plan_rows, plan_count) = plan_rows(db, tenant)?;
    let execution_rows = execution_rows(db, tenant)?;
    let (memory_rows, memory_count) = memory_rows(db, tenant)?;
    let count = plan_count + execution_rows.len() + memory_count;
    let mut others = vec![plans::erase_all(tenant), executions::erase_all(tenant), tasks::erase_all(tenant)];
    others.extend(notes::erase_all(tenant));
    others.extend(seen::erase_all(tenant));
    others.extend(plan_rows);
    others.extend(execution_rows);
    others.extend(memory_rows);
    let batch = Batch { tenant, old: head, new: head, entries: Vec::new(), others, urgent: true };
    Ok((appender.append(&batch)? == Appended::Done).then_some(count))
}

/// The statements, and how many rows they leave.
fn plan_rows(db: &Db, tenant: i64) -> Result<(Vec<Statement>, usize), Error> {
    let mut rows = Vec::new();
    let mut count = 0;
    for entry in &journal::of_stream(db.dialect(), tenant, LIBRARY, 0).all_blocking(db)? {
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

/// Notes and tasks: the statements, and how many rows they leave.
fn memory_rows(db: &Db, tenant: i64) -> Result<(Vec<Statement>, usize), Error> {
    let (mut rows, mut count) = (Vec::new(), 0);
    let [&[note, note_older], &[task, task_older]] = [NoteSet::VERSIONS, TaskSet::VERSIONS] else {
        unreachable!("notes and tasks have two versions each")
    };
    for stream in journal::streams_of(tenant, [note, note_older, task, task_older]).all_blocking(db)? {
        let (note, task) = stands(db, tenant, stream)?;
        count += usize::from(note.is_some()) + usize::from(task.is_some());
        rows.extend(task.map(|task| tasks::put(tenant, &task)));
        if let Some(note) = note {
            let words = if note.deleted { None } else { Some(words(db, tenant, &note)?) };
            rows.extend(notes::put(db.dialect(), tenant, None, &note, words.as_ref()));
        }
    }
    Ok((rows, count))
}

/// What a stream's entries leave of a note or a task; nothing once it is erased.
fn stands(db: &Db, tenant: i64, stream: u64) -> Result<(Option<notes::Note>, Option<tasks::Task>), Error> {
    let (mut note, mut task) = (None, None);
    for entry in journal::of_stream(db.dialect(), tenant, stream, 0).all_blocking(db)? {
        let recorded = recorded(&entry)?;
        let (version, author) = (entry.version, &*entry.actor);
        let written = notes::Written { stream, version, author, recorded: &recorded };
        note = project::note(note, &written);
        task = project::task(task, &written);
    }
    Ok((note, task))
}

fn words(db: &Db, tenant: i64, note: &notes::Note) -> Result<Words, Error> {
    let lost = || Error::Corrupt(format!("the value of note `{}` is gone", note.key));
    let payload = payloads::at(tenant, note.position).first_blocking(db)?.ok_or_else(lost)?;
    Words::of_note(&note.key, &payload.body).ok_or_else(lost)
}
