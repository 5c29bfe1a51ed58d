//! The cases of errors that have several.

use std::sync::Arc;

/// What no longer accepts requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ClosedPart {
    #[error("the ledger is closed")]
    Ledger,
    #[error("the journal is closed")]
    Journal,
    /// The embedding program's own client.
    #[error("this client was shut down")]
    Client,
}

/// Stored data that cannot be what was written; each case holds what was found.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Corruption {
    /// The entries of a stream do not fold.
    #[error("the journal is inconsistent: {0}")]
    Fold(String),
    /// An entry or a payload of the journal is missing or cannot be read.
    #[error("{0}")]
    Entry(String),
    /// A row that is derived from the journal cannot be read.
    #[error("{0}")]
    Row(String),
    #[error("the journal has no head")]
    NoHead,
}

/// What more than one item fits.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Ambiguity {
    #[error("more than one execution's id begins with `{prefix}`")]
    ExecutionId { prefix: String },
    #[error("more than one plan's id begins with `{prefix}`")]
    PlanId { prefix: String },
    #[error("more than one token is named `{given}`, or has an id that begins with it")]
    Token { given: String },
    #[error("more than one note has the key `{key}`")]
    NoteKey { key: String },
    /// Every note with this key has an owner, and none was named. `owners`: each with its kind, as in
    /// ``task `T-1` ``.
    #[error("no note `{key}` is shared by all; there is one of {}", .owners.join(", "))]
    NoteOwner { key: String, owners: Vec<String> },
}

/// A secret in a value that would be stored, or one that was not stored and is missing. `origin` says
/// where the secret comes from, as in `$TOKEN`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SecretProblem {
    #[error("{what} contains the value of {origin}, and would be stored")]
    InName { what: &'static str, origin: Arc<str> },
    #[error("the argument `{path}` contains the value of {origin}, and would be stored")]
    InArgument { path: String, origin: Arc<str> },
    /// An argument that pages would show as a secret.
    #[error("the argument `{path}` has the key that stands for a redacted secret")]
    MarkerInArgument { path: String },
    #[error("the input `{path}` contains the value of {origin}, and would be stored")]
    InInput { path: String, origin: Arc<str> },
    /// An input of a template becomes a default of the plan.
    #[error("`{input}` is secret, and what is given here is stored")]
    InTemplateInput { input: String },
    /// A rerun needs an input that was redacted.
    #[error("{input} is secret and was not kept")]
    NotKept { input: String },
}

impl SecretProblem {
    pub(super) fn code(&self) -> &'static str {
        match self {
            Self::InName { .. } => "secret_name",
            Self::InArgument { .. } | Self::MarkerInArgument { .. } => "secret_argument",
            Self::InInput { .. } | Self::InTemplateInput { .. } | Self::NotKept { .. } => "secret_input",
        }
    }
}

/// What erased values were needed for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ErasedUse {
    /// `plan`: the name of the execution's plan.
    Rerun {
        plan: String,
    },
    Template,
}

/// What only a person may do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PersonAct {
    #[error("the plan does not belong to this project")]
    DeleteForeignPlan,
    #[error("the template does not belong to this project")]
    DeleteForeignTemplate,
    #[error("only a person can share something with every project")]
    Share,
    #[error("only a person can answer an approval; an agent cannot do it here")]
    Approve { execution: String },
}
