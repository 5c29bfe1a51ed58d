//! Operations on the whole journal: verify, export, rebuild projections, back up, erase old payloads.

use std::path::Path;
use std::sync::Arc;

use actbook_engine::execution::Command;
use actbook_engine::id::StreamId;
use parking_lot::Mutex;
use serde::Serialize;

use super::Service;
pub use super::export::ExportReport;
pub use super::verify::{VerifyFailure, VerifyReport};
use super::view::format_time;
use crate::caller::Caller;
use crate::error::{Corruption, Error};
use crate::ledger::{self, EraseActionRequest, EraseNoteRequest};
use crate::store::{executions, journal, notes, requests, run_blocking};

/// What `cleanup` erased, or would erase in a dry run.
#[derive(Clone, Debug, Default, Serialize)]
pub struct CleanupReport {
    pub executions: usize,
    /// Actions that were recorded outside of any execution.
    pub acts: usize,
    /// Notes that were deleted, have expired, or belong to such an execution.
    pub notes: usize,
    /// True: nothing was erased.
    pub dry_run: bool,
}

/// A verification of the journal, and when it ended.
#[derive(Clone, Debug, Serialize)]
pub struct LastVerification {
    pub at: String,
    #[serde(flatten)]
    pub report: VerifyReport,
}

/// The newest verification of this process. Clones share it.
#[derive(Clone, Debug, Default)]
pub(super) struct Verifications(Arc<Mutex<Option<LastVerification>>>);

/// How many executions, actions or notes `cleanup` reads at a time.
const CLEANUP_BATCH: u64 = 500;
/// Request keys are kept for at least a week.
const REQUEST_KEYS_RETENTION_MS: i64 = 7 * 24 * 3600 * 1000;

/// The journal as a whole: entries, statistics, verification, export and cleanup.
#[derive(Clone, Copy, Debug)]
pub struct Journal<'a>(pub(super) &'a Service);

impl Journal<'_> {
    /// A receiver that changes when any process has appended to the journal, and the guard that keeps it
    /// informed.
    pub fn subscribe(
        self,
    ) -> Result<(crate::notify::RemoteListener, tokio::sync::watch::Receiver<u64>), Error> {
        Ok((self.0.notifier.listen_remote()?, self.0.notifier.subscribe()))
    }

    /// The position and the hash (in hexadecimal) of the last entry. Err `Corrupt`: the head row is missing.
    pub async fn head(self) -> Result<(u64, String), Error> {
        let head = journal::head(self.0.tenant).first(&self.0.db).await?;
        let head = head.ok_or(Error::Corrupt(Corruption::NoHead))?;
        Ok((head.position, super::verify::hex(&head.hash)))
    }

    /// Verifies the whole chain and every payload; reports the first position that fails.
    pub async fn verify(self) -> Result<VerifyReport, Error> {
        let report = super::verify::verify_journal(&self.0.db, self.0.tenant).await?;
        let at = format_time(self.0.ledger.clock().now_ms());
        *self.0.verifications.0.lock() = Some(LastVerification { at, report: report.clone() });
        Ok(report)
    }

    /// The report of the newest verification by this process, passed or failed, and when that ended. `None`:
    /// none yet.
    pub fn last_verification(self) -> Option<LastVerification> {
        self.0.verifications.0.lock().clone()
    }

    /// Writes one execution as a file that can be verified offline.
    pub async fn export(self, id: &str, to: &mut (dyn std::io::Write + Send)) -> Result<ExportReport, Error> {
        let found = self.0.executions().find(id).await?;
        super::export::write_export(&self.0.db, self.0.tenant, found.stream, to).await
    }

    /// The same file, to be read a part at a time.
    pub async fn read_export(self, id: &str) -> Result<super::export::ExportReader, Error> {
        let found = self.0.executions().find(id).await?;
        super::export::ExportReader::open(&self.0.db, self.0.tenant, found.stream).await
    }

    /// Rebuilds the projections from the journal; returns how many rows they have.
    pub async fn rebuild(self) -> Result<usize, Error> {
        let tenant = self.0.tenant;
        Ok(run_blocking(&self.0.db, move |db| ledger::rebuild(&db, tenant)).await?)
    }

    /// Copies the database into `file`.
    pub async fn backup(self, file: &Path) -> Result<(), Error> {
        Ok(self.0.db.backup(file).await?)
    }

    /// Erases the payloads and salts of executions that ended before a time (in milliseconds since 1970), of
    /// standalone actions recorded before it, and of notes deleted or expired before it or owned by such an
    /// execution. Also erases old request keys. Only counts if `dry_run`.
    pub async fn cleanup(
        self,
        caller: &Caller,
        before_ms: i64,
        dry_run: bool,
    ) -> Result<CleanupReport, Error> {
        let mut cleaned = CleanupReport { dry_run, ..CleanupReport::default() };
        let mut after = 0;
        loop {
            let boundary = self.0.boundary();
            let batch = executions::ended_before(self.0.tenant, boundary, before_ms, after, CLEANUP_BATCH);
            let batch = batch.all(&self.0.db).await?;
            let Some(last) = batch.last() else { break };
            after = last.id.0;
            for row in batch {
                cleaned.executions += usize::from(self.erase_execution(caller, row.id, dry_run).await?);
            }
        }
        cleaned.acts = self.erase_acts(caller, before_ms, dry_run).await?;
        cleaned.notes = self.erase_notes(caller, before_ms, dry_run).await?;
        if !dry_run {
            let old = self.0.ledger.clock().now_ms().saturating_sub(REQUEST_KEYS_RETENTION_MS).min(before_ms);
            self.0.db.transact(vec![requests::erase_before(self.0.tenant, old)]).await?;
            self.0.db.scrub().await?;
        }
        Ok(cleaned)
    }

    /// Erases standalone actions of visible projects that were recorded before a time; returns how many, also
    /// if `dry_run`.
    async fn erase_acts(self, caller: &Caller, before_ms: i64, dry_run: bool) -> Result<usize, Error> {
        let (mut count, mut after) = (0, 0);
        loop {
            let batch = journal::standalone_actions_before(self.0.tenant, before_ms, after, CLEANUP_BATCH)
                .all(&self.0.db)
                .await?;
            let Some(last) = batch.last() else { return Ok(count) };
            after = last.0;
            for stream in batch {
                let first = journal::by_position(self.0.tenant, stream.0).first(&self.0.db).await?;
                if !first.is_some_and(|first| self.0.is_first_entry_visible(&first)) {
                    continue;
                }
                count += 1;
                if dry_run {
                    continue;
                }
                self.0.ledger.submit(&self.0.journaled_actor(caller), EraseActionRequest { stream }).await?;
            }
        }
    }

    /// Erases the notes that `cleanup` selects; returns how many, also if `dry_run`.
    async fn erase_notes(self, caller: &Caller, before_ms: i64, dry_run: bool) -> Result<usize, Error> {
        let (mut count, mut after) = (0, 0);
        loop {
            let batch =
                notes::erasable_before(self.0.tenant, self.0.boundary(), before_ms, after, CLEANUP_BATCH);
            let batch = batch.all(&self.0.db).await?;
            let Some(last) = batch.last() else { return Ok(count) };
            (count, after) = (count + batch.len(), last.stream.0);
            for note in batch.iter().filter(|_| !dry_run) {
                let request = EraseNoteRequest { stream: note.stream, version: note.version };
                self.0.ledger.submit(&self.0.journaled_actor(caller), request).await?;
            }
        }
    }

    /// Erases one execution's payloads, unless `dry_run`. False: that was done before or must not be done
    /// yet.
    async fn erase_execution(self, caller: &Caller, stream: StreamId, dry_run: bool) -> Result<bool, Error> {
        let execution = self.0.executions().fold(stream).await?;
        // An undo that waits for approval needs the arguments.
        if execution.erased || execution.awaits_undo_approval() {
            return Ok(false);
        }
        if !dry_run {
            self.0.ledger.command(&self.0.journaled_actor(caller), stream, Command::ErasePayloads).await?;
        }
        Ok(true)
    }
}
