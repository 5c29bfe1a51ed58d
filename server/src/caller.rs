//! Who asks, and under which request key. Every entry of the journal names its actor.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use actbook_engine::chain::{Digest, in_order};
use serde_json::Value;

/// Whoever asks.
#[derive(Clone, Debug)]
pub struct Caller {
    /// As the journal writes it: `person:name`, `agent:name`, `program:name`.
    pub actor: Arc<str>,
    /// Makes a repeated request one request.
    pub key: Option<Key>,
    /// Tells two agents of one name apart, where their connection does.
    pub session: Option<Arc<str>>,
}

/// A name that the caller chose for its request, and the digest of what it asks for.
#[derive(Clone, Debug)]
pub struct Key {
    pub name: String,
    pub request: Digest,
    /// Shared by all clones: the request was found to have been made before.
    repeated: Arc<AtomicBool>,
}

impl Key {
    pub fn new(name: impl Into<String>, request: &Value) -> Self {
        let request = Digest::of(in_order(request).to_string().as_bytes());
        Self { name: name.into(), request, repeated: Arc::default() }
    }

    pub fn mark_repeated(&self) {
        self.repeated.store(true, Ordering::Relaxed);
    }

    /// The request was made before under this key: nothing was done for it this time.
    pub fn was_repeated(&self) -> bool {
        self.repeated.load(Ordering::Relaxed)
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        (&self.name, self.request) == (&other.name, other.request)
    }
}

impl Eq for Key {}

impl Caller {
    /// By the name that the journal writes.
    pub fn new(actor: impl Into<Arc<str>>) -> Self {
        Self { actor: actor.into(), key: None, session: None }
    }

    /// The program that this is a part of, by the name of its file.
    pub fn program() -> Self {
        let file = std::env::current_exe().ok();
        let name = file.as_deref().and_then(|file| file.file_stem()).unwrap_or_default().to_string_lossy();
        Self::new(format!("program:{}", if name.is_empty() { "unnamed" } else { &name }))
    }

    /// The person at this machine's terminal, by the account's name.
    pub fn person() -> Self {
        let name = ["USER", "LOGNAME"].iter().find_map(|name| std::env::var(name).ok());
        let name = name.filter(|name| !name.is_empty()).unwrap_or_else(|| "someone".to_owned());
        Self::new(format!("person:{name}"))
    }

    /// An agent's word counts for less than a person's: see `approvals` in the config.
    pub fn is_agent(&self) -> bool {
        self.actor.starts_with("agent:")
    }

    /// Whose an agent step is that this caller starts.
    pub fn holder(&self) -> String {
        match &self.session {
            Some(session) => format!("{}#{session}", self.actor),
            None => self.actor.to_string(),
        }
    }

    pub fn with_session(self, session: Option<Arc<str>>) -> Self {
        Self { session, ..self }
    }

    pub fn with_key(self, key: Option<Key>) -> Self {
        Self { key, ..self }
    }
}
