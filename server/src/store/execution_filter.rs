//! Which executions to list: one filter for the interfaces, the service and the store; and the cursor that
//! continues a list, bound to its filter.

use actbook_engine::chain::Digest;
use actbook_engine::policy::{ErrorCategory, ExecutionStatus};

/// A condition on an attribute that may have several values: at least one of `any_of`, unless that is empty,
/// and none of `none_of`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Terms<T> {
    pub any_of: Vec<T>,
    pub none_of: Vec<T>,
}

impl<T> Default for Terms<T> {
    fn default() -> Self {
        Self { any_of: Vec::new(), none_of: Vec::new() }
    }
}

impl<T> From<T> for Terms<T> {
    fn from(value: T) -> Self {
        Some(value).into()
    }
}

impl<T> From<Option<T>> for Terms<T> {
    fn from(value: Option<T>) -> Self {
        Self { any_of: value.into_iter().collect(), none_of: Vec::new() }
    }
}

impl<T> Terms<T> {
    /// Whether every value passes.
    pub fn is_unrestricted(&self) -> bool {
        self.any_of.is_empty() && self.none_of.is_empty()
    }

    /// The same condition with each value replaced.
    pub fn map<U>(self, replace: impl Fn(T) -> U) -> Terms<U> {
        Terms {
            any_of: self.any_of.into_iter().map(&replace).collect(),
            none_of: self.none_of.into_iter().map(&replace).collect(),
        }
    }
}

/// Which executions to list. A field that is not set does not restrict.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExecutionFilter {
    pub status: Terms<ExecutionStatus>,
    /// A plan's id or name.
    pub plan: Terms<String>,
    pub task: Terms<String>,
    /// A tool that was called, as `server/tool`.
    pub tool: Terms<String>,
    /// A server of which a tool was called.
    pub server: Terms<String>,
    /// An actor with entries in the execution; a name without a colon means a person.
    pub actor: Terms<String>,
    /// Error category of a step that ended failed or unknown.
    pub category: Terms<ErrorCategory>,
    pub project: Option<String>,
    /// Earliest start, in milliseconds since 1970.
    pub since: Option<i64>,
    /// Starts before this, in milliseconds since 1970.
    pub until: Option<i64>,
    /// Each is the beginning of the id, or occurs in the plan's name, the task, a tool, an actor or an error
    /// category, ignoring case.
    pub words: Vec<String>,
    /// Position in the list: only executions whose stream is lower, which are older.
    pub before: Option<u64>,
}

/// The text `cursor` is not a cursor of this filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ForeignCursor;

impl ExecutionFilter {
    /// Whether the list is read from what the projector writes; otherwise the database's own indexes answer it.
    pub fn needs_projection(&self) -> bool {
        let is_open = |status: &ExecutionStatus| {
            use ExecutionStatus::{Blocked, Compensating, Paused, Running};
            matches!(status, Running | Paused | Blocked | Compensating)
        };
        ![&self.plan, &self.tool, &self.server, &self.actor].into_iter().all(Terms::is_unrestricted)
            || !self.category.is_unrestricted()
            || !self.task.none_of.is_empty()
            || !self.status.none_of.is_empty()
            || !self.status.any_of.iter().all(is_open)
            || [self.since, self.until].iter().any(Option::is_some)
            || self.project.is_some()
            || !self.words.is_empty()
    }

    /// The cursor that continues this list after the execution of stream `last`. It holds the list's time
    /// range, because an age such as `2h` means another time at each request.
    pub fn cursor_after(&self, last: u64) -> String {
        let number = |at: Option<i64>| at.map_or_else(|| "-".to_owned(), |at| at.to_string());
        format!("{last}.{}.{}.{}", number(self.since), number(self.until), self.digest_text())
    }

    /// This filter continued at `cursor`. `Err`: the cursor is of another filter, or not a cursor.
    pub fn continued_at(&self, cursor: &str) -> Result<Self, ForeignCursor> {
        let mut parts = cursor.split('.');
        let mut part = || parts.next().ok_or(ForeignCursor);
        let (last, since, until, digest) = (part()?, part()?, part()?, part()?);
        let time = |text: &str| match text {
            "-" => Ok(None),
            text => text.parse().map(Some).map_err(|_| ForeignCursor),
        };
        let before = Some(last.parse().map_err(|_| ForeignCursor)?);
        let continued = Self { since: time(since)?, until: time(until)?, before, ..self.clone() };
        let same_bounds = continued.since.is_some() == self.since.is_some()
            && continued.until.is_some() == self.until.is_some();
        if !same_bounds || digest != continued.digest_text() {
            return Err(ForeignCursor);
        }
        Ok(continued)
    }

    /// A digest of everything but the position in the list.
    fn digest_text(&self) -> String {
        let unpositioned = Self { before: None, ..self.clone() };
        let digest = Digest::of(format!("{unpositioned:?}").as_bytes());
        digest.0[..8].iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failed_of(plan: &str) -> ExecutionFilter {
        ExecutionFilter {
            status: ExecutionStatus::Failed.into(),
            plan: plan.to_owned().into(),
            since: Some(7),
            ..ExecutionFilter::default()
        }
    }

    #[test]
    fn cursor_continues_its_own_filter() {
        let filter = failed_of("a");
        let later = ExecutionFilter { since: Some(9), ..filter.clone() };
        let continued = later.continued_at(&filter.cursor_after(42)).unwrap();
        assert_eq!(continued, ExecutionFilter { before: Some(42), ..filter.clone() });
        assert_eq!(continued.cursor_after(3), filter.cursor_after(3), "pages of one list have one digest");
    }

    #[test]
    fn cursor_of_another_filter_is_refused() {
        let cursor = failed_of("a").cursor_after(42);
        let mut excluding = failed_of("a");
        std::mem::swap(&mut excluding.plan.any_of, &mut excluding.plan.none_of);
        let unbounded = ExecutionFilter { since: None, ..failed_of("a") };
        for other in [failed_of("b"), excluding, unbounded, ExecutionFilter::default()] {
            assert_eq!(other.continued_at(&cursor), Err(ForeignCursor), "{other:?}");
        }
        for text in ["", "42", "42.-.-", "x.7.-.00", "42.7.-."] {
            assert_eq!(failed_of("a").continued_at(text), Err(ForeignCursor), "{text}");
        }
        assert_eq!(failed_of("a").continued_at("42.8.-.0011223344556677"), Err(ForeignCursor));
    }
}
