//! Id types: each kind of id has its own type, so that the compiler rejects a mix-up.
//! The engine generates no ids; the caller passes random ids in.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// Declares an id type that wraps a shared text.
macro_rules! text_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(Arc<str>);

        impl $name {
            pub fn new(text: impl Into<Arc<str>>) -> Self {
                Self(text.into())
            }
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&self.0, f)
            }
        }
        impl std::borrow::Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }
    };
}

text_id!(
    /// A step's id as the plan's author wrote it.
    StepId
);
text_id!(
    /// A plan's public id; all versions of a plan share it.
    PlanId
);
text_id!(
    /// An execution's public id.
    ExecutionId
);
text_id!(
    /// The id of a node: one running process, as named by its lock file and its row.
    NodeId
);

/// A step's index in its plan's list, from 0. Used inside the engine; journal and interfaces use `StepId`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StepNo(pub u32);

impl StepNo {
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// A tenant: whose journal and whose data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TenantId(pub i64);

impl fmt::Display for TenantId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A stream of entries: one execution, note, task or standalone action, named by the position of its first entry.
/// The library of plans is stream 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct StreamId(pub u64);

impl StreamId {
    /// The stream whose first entry is at `position`.
    pub fn starting_at(position: Position) -> Self {
        Self(position.0)
    }
}

impl fmt::Display for StreamId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// An entry's position in its tenant's journal: gapless, from 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Position(pub u64);

/// An execution's fencing number: each change of driver adds 1, and only the current epoch starts attempts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Epoch(pub u64);
