//! An act that belongs to no execution: a stream of its own with one entry, and a second one once what
//! it keeps has been erased.

use crate::chain::Digest;
use crate::event::{ActionRecorded, Event, Kept, PayloadsErased, Reported};
use crate::execution::{Corrupt, Facts, Fresh, Recorded, Refusal};

/// The entry that records it, in a project.
pub fn record(
    facts: &Facts,
    status: Option<Reported>,
    project: Option<&str>,
    salt: &[u8],
) -> Result<Fresh, Refusal> {
    let payload = facts.written()?;
    let kept = Kept { digest: Digest::salted(salt, &payload), size: payload.len() as u64 };
    let event = ActionRecorded { step: None, status, facts: kept, project: project.map(str::to_owned) };
    Ok(Fresh { event: event.into(), payload: Some(payload) })
}

/// Whether a stream that begins like this is an act's.
fn begins(event: &Event) -> bool {
    matches!(event, Event::ActionRecorded(_))
}

/// Whether a stream that begins like this is no execution's: an act's, a note's or a task's. It has a salt
/// of its own.
pub fn stands_alone(event: &Event) -> bool {
    begins(event) || matches!(event, Event::NoteSet(_) | Event::TaskSet(_))
}

#[derive(Clone, Copy, Debug)]
pub struct Act {
    pub erased: bool,
    /// How many entries the stream has.
    pub version: u64,
}

impl Act {
    /// Folds the stream's entries.
    pub fn open(entries: &[Recorded]) -> Result<Option<Self>, Corrupt> {
        let Some((first, rest)) = entries.split_first() else { return Ok(None) };
        let corrupt = |recorded: &Recorded| Corrupt {
            position: recorded.position,
            why: format!("`{}` in the stream of an act", recorded.event.kind()),
        };
        if !begins(&first.event) {
            return Err(corrupt(first));
        }
        match rest {
            [] => Ok(Some(Self { erased: false, version: 1 })),
            [Recorded { event: Event::PayloadsErased(_), .. }] => Ok(Some(Self { erased: true, version: 2 })),
            [other, ..] => Err(corrupt(other)),
        }
    }

    pub fn erase(&self) -> Option<PayloadsErased> {
        (!self.erased).then_some(PayloadsErased {})
    }
}
