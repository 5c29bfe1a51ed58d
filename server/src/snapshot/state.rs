//! What a path held at one time, as the journal keeps it.

use serde::{Deserialize, Serialize};

/// The state of a path. An absent path has none (`null` in the journal).
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum FileState {
    File {
        /// The permission bits.
        mode: u32,
        size: u64,
        /// The name of the kept content: its hash under the session's key. `None`: it was not kept.
        blob: Option<String>,
        /// Why the content was not kept.
        not_kept: Option<NotKept>,
        /// Of a file whose content was not kept: its time of change, in nanoseconds, to recognise it again.
        changed_ns: Option<i64>,
    },
    Link {
        target: String,
    },
    Folder {
        mode: u32,
    },
    /// A device, socket or pipe, or a name that is no text: never kept.
    Other,
}

/// Why a content was not kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NotKept {
    TooLarge,
    /// It could not be read, or changed while it was read.
    Unreadable,
}

/// What a call did to one path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileChange {
    pub path: String,
    pub before: Option<FileState>,
    pub after: Option<FileState>,
}

impl FileState {
    /// Whether the state can be restored from what was kept.
    pub fn is_kept(&self) -> bool {
        match self {
            Self::File { blob, .. } => blob.is_some(),
            Self::Link { .. } | Self::Folder { .. } => true,
            Self::Other => false,
        }
    }

    pub fn is_folder(&self) -> bool {
        matches!(self, Self::Folder { .. })
    }
}
