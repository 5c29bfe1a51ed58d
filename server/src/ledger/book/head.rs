//! The head: the position and hash that the next entry is chained to.

use super::super::Error;
use super::Book;
use crate::store::{self, Head, journal};

impl Book {
    /// The head is read before anything is folded: a state older than the head that it is kept beside
    /// would be taken for the present.
    pub(super) fn hold_head(&mut self) -> Result<(), Error> {
        if self.head.is_none() {
            let head = self.checked_head()?;
            (self.head, self.taken) = (Some(head), Some(head));
            self.woken = self.woken.or(Some(head.position));
        }
        Ok(())
    }

    /// The head as the database has it. Every entry is chained to this row, so a row that does not name the
    /// journal's last entry is refused before anything is decided on it.
    fn checked_head(&self) -> Result<Head, Error> {
        let found = match journal::head_and_last(self.tenant).first_blocking(&self.db) {
            Ok(found) => found,
            Err(unreadable @ store::Error::Column { .. }) => {
                return Err(Error::Corrupt(format!("the head: {unreadable}")));
            }
            Err(error) => return Err(error.into()),
        };
        let found = found.ok_or_else(|| Error::Corrupt("the journal has no head".into()))?;
        if !found.agree() {
            let (head, last) = (found.head.position, found.last_position());
            let why =
                format!("the head row (position {head}) does not name the last entry (position {last})");
            return Err(Error::Corrupt(why));
        }
        if let (None, Some(last)) = (self.woken, found.last) {
            self.clock.start_after(last.at);
        }
        Ok(found.head)
    }

    pub fn head_in_store(&self) -> Result<Option<Head>, Error> {
        Ok(journal::head(self.tenant).first_blocking(&self.db)?)
    }
}
