//! The journal as people care for it: verified, exported, rebuilt, copied, cleaned up.

use std::path::Path;

use actbook_engine::execution::Command;
use serde::Serialize;

use super::Service;
pub use super::export::Exported;
pub use super::verify::{Bad, Verified};
use crate::caller::Caller;
use crate::error::Error;
use crate::ledger::{self, Asked, Request};
use crate::store::{executions, journal, notes, requests};

#[derive(Clone, Debug, Default, Serialize)]
pub struct Cleaned {
    pub executions: usize,
    /// Recorded outside of any execution.
    pub acts: usize,
    /// Deleted, expired, or of such an execution.
    pub notes: usize,
    pub dry_run: bool,
}

/// How many executions one round of `cleanup` takes on.
const CLEANUP_ROUND: u64 = 500;
/// Request keys are kept at least this long.
const KEYS_KEPT_MS: i64 = 7 * 24 * 3600 * 1000;

impl Service {
    /// Wakes when the journal has moved, whoever moved it.
    pub fn journal_bell(&self) -> Result<(crate::bell::Listening, tokio::sync::watch::Receiver<u64>), Error> {
        Ok((self.bell.listen()?, self.bell.subscribe()))
    }

    /// The last entry's position and hash.
    pub async fn head(&self) -> Result<(u64, String), Error> {
        let head = journal::head(self.tenant).first(&self.db).await?;
        let lost = || Error::new("corrupt", "the journal has no head", "restore a backup");
        head.map(|head| (head.position, super::verify::hex(&head.hash))).ok_or_else(lost)
    }

    /// The whole chain and every payload, or the first position that does not hold.
    pub async fn verify(&self) -> Result<Verified, Error> {
        super::verify::journal(&self.db, self.tenant).await
    }

    pub async fn export(&self, id: &str, to: &mut (dyn std::io::Write + Send)) -> Result<Exported, Error> {
        let found = self.find(id).await?;
        super::export::write(&self.db, self.tenant, found.stream, to).await
    }

    /// Replays the projections from the journal; gives how many rows there are.
    pub async fn rebuild(&self) -> Result<usize, Error> {
        let (db, tenant) = (self.db.clone(), self.tenant);
        let rebuilding = tokio::task::spawn_blocking(move || ledger::rebuild(&db, tenant));
        let stopped = |error| Error::new("internal", format!("rebuilding stopped: {error}"), "try again");
        Ok(rebuilding.await.map_err(stopped)??)
    }

    pub async fn backup(&self, file: &Path) -> Result<(), Error> {
        Ok(self.db.backup(file).await?)
    }

    /// Erases arguments, outputs and salts of executions that ended before a time.
    pub async fn cleanup(&self, caller: &Caller, before_ms: i64, dry_run: bool) -> Result<Cleaned, Error> {
        let mut cleaned = Cleaned { dry_run, ..Cleaned::default() };
        let mut after = 0;
        loop {
            let boundary = self.boundary();
            let round = executions::ended_before(self.tenant, boundary, before_ms, after, CLEANUP_ROUND);
            let round = round.all(&self.db).await?;
            let Some(last) = round.last() else { break };
            after = last.id;
            for row in round {
                cleaned.executions += usize::from(self.erase(caller, row.id, dry_run).await?);
            }
        }
        cleaned.acts = self.erase_acts(caller, before_ms, dry_run).await?;
        cleaned.notes = self.erase_notes(caller, before_ms, dry_run).await?;
        if !dry_run {
            let old = self.ledger.clock().now_ms().saturating_sub(KEYS_KEPT_MS).min(before_ms);
            self.db.transact(vec![requests::erase_before(self.tenant, old)]).await?;
            self.db.scrub().await?;
        }
        Ok(cleaned)
    }

    async fn erase_acts(&self, caller: &Caller, before_ms: i64, dry_run: bool) -> Result<usize, Error> {
        let (mut count, mut after) = (0, 0);
        loop {
            let round =
                journal::acts_before(self.tenant, before_ms, after, CLEANUP_ROUND).all(&self.db).await?;
            let Some(last) = round.last() else { return Ok(count) };
            after = *last;
            for stream in round {
                let first = journal::at(self.tenant, stream).first(&self.db).await?;
                if !first.is_some_and(|first| self.is_first_entry_visible(&first)) {
                    continue;
                }
                count += 1;
                if dry_run {
                    continue;
                }
                let request = Request::EraseAct { stream };
                self.ledger.ask(Asked { actor: caller.actor.clone(), request, key: None }).await?;
            }
        }
    }

    async fn erase_notes(&self, caller: &Caller, before_ms: i64, dry_run: bool) -> Result<usize, Error> {
        let (mut count, mut after) = (0, 0);
        loop {
            let round = notes::past(self.tenant, self.boundary(), before_ms, after, CLEANUP_ROUND);
            let round = round.all(&self.db).await?;
            let Some(last) = round.last() else { return Ok(count) };
            (count, after) = (count + round.len(), last.stream);
            for note in round.iter().filter(|_| !dry_run) {
                let request = Request::EraseNote { stream: note.stream, version: note.version };
                self.ledger.ask(Asked { actor: caller.actor.clone(), request, key: None }).await?;
            }
        }
    }

    async fn erase(&self, caller: &Caller, stream: u64, dry_run: bool) -> Result<bool, Error> {
        let execution = self.fold(stream)?;
        // An undo that waits for its yes needs the arguments.
        if execution.erased || execution.asks_for_undo() {
            return Ok(false);
        }
        if !dry_run {
            self.ledger.command(&caller.actor, stream, Command::Erase).await?;
        }
        Ok(true)
    }
}
