//! Notes: what an agent or a person wants found again. Each key of a scope is a stream of its own, so that
//! it has a history, and a salt that goes with it when it is erased.

use serde::{Deserialize, Serialize};

use crate::chain::Digest;
use crate::event::{Kept, NoteSet};
use crate::execution::{Fresh, Refusal};
use crate::id::{ExecutionId, PlanId};

/// A key is for looking things up, a value for reading: neither is a place for files.
pub const KEY_BYTES_MAX: usize = 200;
pub const TYPE_BYTES_MAX: usize = 60;
pub const NOTE_BYTES_MAX: usize = 256 * 1024;
/// What a note is whose author does not say.
pub const TYPE_DEFAULT: &str = "notes";

/// What a note belongs to; by itself to everybody.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    #[default]
    Everybody,
    Task(String),
    Plan(PlanId),
    Execution(ExecutionId),
}

impl Scope {
    pub fn is_everybodys(&self) -> bool {
        *self == Self::Everybody
    }

    /// As rows hold it.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Everybody => "everybody",
            Self::Task(_) => "task",
            Self::Plan(_) => "plan",
            Self::Execution(_) => "execution",
        }
    }

    /// Whose it is; empty where it is everybody's.
    pub fn owner(&self) -> &str {
        match self {
            Self::Everybody => "",
            Self::Task(task) => task,
            Self::Plan(plan) => plan.as_str(),
            Self::Execution(execution) => execution.as_str(),
        }
    }
}

/// What is to be noted.
#[derive(Clone, Debug)]
pub struct Note {
    pub key: String,
    pub scope: Scope,
    /// None: as it was, or the default.
    pub r#type: Option<String>,
    pub expires_at_ms: Option<i64>,
    /// None: it is older than projects.
    pub project: Option<String>,
    /// Every project sees it; none: as it was, or not.
    pub everywhere: Option<bool>,
    /// The value and its metadata.
    pub payload: Vec<u8>,
}

/// What a note was before it is written again.
#[derive(Clone, Copy, Debug)]
pub struct Before<'a> {
    pub r#type: &'a str,
    pub everywhere: bool,
}

/// The entry that gives a note its value. `before`: none where there is no such note, or it was deleted.
pub fn set(note: &Note, before: Option<Before<'_>>, salt: &[u8]) -> Result<Fresh, Refusal> {
    let named = note.r#type.as_deref().or(before.map(|before| before.r#type)).unwrap_or(TYPE_DEFAULT);
    fits("a key", &note.key, KEY_BYTES_MAX)?;
    fits("a type", named, TYPE_BYTES_MAX)?;
    if let Scope::Task(task) = &note.scope {
        crate::task::check_id(task)?;
    }
    if note.payload.len() > NOTE_BYTES_MAX {
        let message = format!("{} bytes are too much for a note", note.payload.len());
        let cure = format!("keep it below {NOTE_BYTES_MAX} bytes; name a file instead of quoting it");
        return Err(Refusal::new("too_large", message, cure));
    }
    let kept = Kept { digest: Digest::salted(salt, &note.payload), size: note.payload.len() as u64 };
    let event = NoteSet {
        key: note.key.clone(),
        r#type: named.to_owned(),
        scope: note.scope.clone(),
        expires_at_ms: note.expires_at_ms,
        note: kept,
        project: note.project.clone(),
        everywhere: note.everywhere.unwrap_or(before.is_some_and(|before| before.everywhere)),
    };
    Ok(Fresh { event: event.into(), payload: Some(note.payload.clone()) })
}

pub(crate) fn fits(what: &str, text: &str, bytes_max: usize) -> Result<(), Refusal> {
    if text.trim().is_empty() || text.len() > bytes_max || text.chars().any(char::is_control) {
        let message = format!("{what} has 1 to {bytes_max} bytes and no control characters");
        return Err(Refusal::new("invalid_name", message, "give a short name"));
    }
    Ok(())
}
