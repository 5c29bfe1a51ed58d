//! Notes: values that an agent or a person stores under a key. Each key of a scope has a journal stream of
//! its own, so that it has a history, and a salt that is erased with it.

use crate::chain::Digest;
pub use crate::event::NoteScope;
use crate::event::{NoteSet, PayloadDigest};
use crate::execution::NewEvent;
use crate::refusal::{NamedField, Refusal};
use crate::task::{check_id, check_name};

/// Longest key of a note, in bytes.
pub const KEY_BYTES_MAX: usize = 200;
/// Longest type of a note, in bytes.
pub const TYPE_BYTES_MAX: usize = 60;
/// Largest value of a note with its metadata, in bytes. Notes are for text, not for files.
pub const NOTE_BYTES_MAX: usize = 256 * 1024;
/// The type of a note whose author gives none.
pub const TYPE_DEFAULT: &str = "notes";

/// A note that is to be stored under its key.
#[derive(Clone, Debug)]
pub struct Note {
    pub key: String,
    pub scope: NoteScope,
    /// `None`: the previous note's type, or the default.
    pub r#type: Option<String>,
    pub expires_at_ms: Option<i64>,
    /// `None`: the note was written before projects existed.
    pub project: Option<String>,
    /// Visible in every project; `None`: as the previous note was, or not.
    pub everywhere: Option<bool>,
    /// The value and its metadata, as JSON.
    pub payload: Vec<u8>,
}

/// The type and the visibility of the note stored under the same key: a new note keeps those it does not set.
#[derive(Clone, Copy, Debug)]
pub struct PreviousNote<'a> {
    pub r#type: &'a str,
    pub everywhere: bool,
}

/// Builds the event that stores a note; refused where a name is invalid or the note too large. `before` is
/// `None` where there is no such note, or it was deleted.
pub fn build_note_event(
    note: &Note,
    before: Option<PreviousNote<'_>>,
    salt: &[u8],
) -> Result<NewEvent, Refusal> {
    let note_type = note.r#type.as_deref().or(before.map(|before| before.r#type)).unwrap_or(TYPE_DEFAULT);
    check_name(NamedField::Key, &note.key, KEY_BYTES_MAX)?;
    check_name(NamedField::Type, note_type, TYPE_BYTES_MAX)?;
    if let NoteScope::Task(task) = &note.scope {
        check_id(task)?;
    }
    if note.payload.len() > NOTE_BYTES_MAX {
        return Err(Refusal::NoteTooLarge { bytes: note.payload.len(), bytes_max: NOTE_BYTES_MAX });
    }
    let digest =
        PayloadDigest { digest: Digest::salted(salt, &note.payload), size: note.payload.len() as u64 };
    let event = NoteSet {
        key: note.key.clone(),
        r#type: note_type.to_owned(),
        scope: note.scope.clone(),
        expires_at_ms: note.expires_at_ms,
        note: digest,
        project: note.project.clone(),
        everywhere: note.everywhere.unwrap_or(before.is_some_and(|before| before.everywhere)),
    };
    Ok(NewEvent { event: event.into(), payload: Some(note.payload.clone()) })
}
