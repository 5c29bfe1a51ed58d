//! An action that was recorded outside any execution. It has a journal stream of its own: one entry, and a
//! second one after its payload was erased.

use crate::chain::Digest;
use crate::event::{ActionRecorded, Event, PayloadDigest, PayloadsErased, ReportedStatus};
use crate::execution::{ActionFacts, CorruptJournal, NewEvent, RecordedEvent};
use crate::refusal::Refusal;

/// Builds the event that records an action outside any execution; refused where the facts are invalid.
pub fn build_action_event(
    facts: &ActionFacts,
    status: Option<ReportedStatus>,
    project: Option<&str>,
    salt: &[u8],
) -> Result<NewEvent, Refusal> {
    let payload = facts.to_payload()?;
    let digest = PayloadDigest { digest: Digest::salted(salt, &payload), size: payload.len() as u64 };
    let event = ActionRecorded { step: None, status, facts: digest, project: project.map(str::to_owned) };
    Ok(NewEvent { event: event.into(), payload: Some(payload) })
}

/// Whether a stream whose first event is `event` belongs to a standalone action.
fn starts_action_stream(event: &Event) -> bool {
    matches!(event, Event::ActionRecorded(_))
}

/// Whether a stream whose first event is `event` belongs to a standalone action, a note or a task. Such a
/// stream has a salt of its own.
pub fn starts_standalone_stream(event: &Event) -> bool {
    starts_action_stream(event) || matches!(event, Event::NoteSet(_) | Event::TaskSet(_))
}

/// The folded state of an action that was recorded outside any execution, and may be erased since.
#[derive(Clone, Copy, Debug)]
pub struct StandaloneAction {
    /// Whether the payload was erased.
    pub erased: bool,
    /// Number of entries in the stream.
    pub version: u64,
}

impl StandaloneAction {
    /// Folds the stream's entries; `None` for an empty stream, an error for entries that do not belong here.
    pub fn fold(entries: &[RecordedEvent]) -> Result<Option<Self>, CorruptJournal> {
        let Some((first, rest)) = entries.split_first() else { return Ok(None) };
        let corrupt = |recorded: &RecordedEvent| CorruptJournal {
            position: recorded.position,
            why: format!("`{}` in the stream of an act", recorded.event.kind()),
        };
        if !starts_action_stream(&first.event) {
            return Err(corrupt(first));
        }
        match rest {
            [] => Ok(Some(Self { erased: false, version: 1 })),
            [RecordedEvent { event: Event::PayloadsErased(_), .. }] => {
                Ok(Some(Self { erased: true, version: 2 }))
            }
            [other, ..] => Err(corrupt(other)),
        }
    }

    /// The event that erases the payload; `None` where it was erased before.
    pub fn erase_event(&self) -> Option<PayloadsErased> {
        (!self.erased).then_some(PayloadsErased {})
    }
}
