//! The head: the position and hash of the journal's last entry, to which the next entry is chained.

use super::super::Error;
use super::PendingState;
use crate::store::{self, JournalHead, journal};

impl PendingState {
    /// Reads the head from the database if it is not known. This comes before any fold: a state that was
    /// folded before its head was read could be older than that head and be taken for current.
    pub(super) fn ensure_head(&mut self) -> Result<(), Error> {
        if self.head.is_none() {
            let head = self.read_checked_head()?;
            (self.head, self.batch_head) = (Some(head), Some(head));
            self.woken_up_to = self.woken_up_to.or(Some(head.position));
        }
        Ok(())
    }

    /// Reads the head row and compares it with the journal's last entry. `Err(Corrupt)`: they differ. All
    /// entries are chained to this row, so a wrong one must be refused before anything is decided on it.
    fn read_checked_head(&self) -> Result<JournalHead, Error> {
        let found = match journal::head_and_last(self.tenant).first_blocking(&self.db) {
            Ok(found) => found,
            Err(unreadable @ store::Error::WrongColumn { .. }) => {
                return Err(Error::Corrupt(format!("the head: {unreadable}")));
            }
            Err(error) => return Err(error.into()),
        };
        let found = found.ok_or_else(|| Error::Corrupt("the journal has no head".into()))?;
        if !found.is_consistent() {
            let (head, last) = (found.head.position, found.last_position());
            let why =
                format!("the head row (position {head}) does not name the last entry (position {last})");
            return Err(Error::Corrupt(why));
        }
        if let (None, Some(last)) = (self.woken_up_to, found.last) {
            self.clock.start_after(last.at);
        }
        Ok(found.head)
    }

    /// Reads the head row; unlike `read_checked_head`, does not compare it with the journal's last entry.
    /// None: there is no such row.
    pub(crate) fn read_stored_head(&self) -> Result<Option<JournalHead>, Error> {
        Ok(journal::head(self.tenant).first_blocking(&self.db)?)
    }
}
