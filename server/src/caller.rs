//! Who asks, and under which request key. Every entry of the journal names its actor.

use std::sync::Arc;

use actbook_engine::chain::Digest;

#[derive(Clone, Debug)]
pub struct Caller {
    /// As the journal writes it: `person:name`, `agent:name`.
    pub actor: Arc<str>,
    /// Makes a repeated request one request.
    pub key: Option<Key>,
}

/// A name that the caller chose for its request, and the digest of what it asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key {
    pub name: String,
    pub request: Digest,
}

impl Caller {
    pub fn new(actor: impl Into<Arc<str>>) -> Self {
        Self { actor: actor.into(), key: None }
    }

    /// The person at this machine's terminal, by the account's name.
    pub fn person() -> Self {
        let name = ["USER", "LOGNAME"].iter().find_map(|name| std::env::var(name).ok());
        let name = name.filter(|name| !name.is_empty()).unwrap_or_else(|| "someone".to_owned());
        Self::new(format!("person:{name}"))
    }

    pub fn with_key(self, key: Option<Key>) -> Self {
        Self { key, ..self }
    }
}
