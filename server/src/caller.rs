//! The caller of a request, and its idempotency key. Every entry of the journal names its actor.

mod rights;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use actbook_engine::chain::{Digest, with_sorted_keys};
use serde_json::Value;

pub use rights::{Credential, CredentialKind, Right, Rights, Role};

/// Longest idempotency key that a caller may choose, in bytes.
pub const KEY_BYTES_MAX: usize = 200;
/// Stands before the number of a part in the key of a part of a request.
pub const KEY_PART_SEPARATOR: char = '\u{1f}';

/// The person, agent or program that makes a request.
#[derive(Clone, Debug)]
pub struct Caller {
    /// As the journal writes it: `person:name`, `agent:name`, `program:name`.
    pub actor: Arc<str>,
    /// Makes a repeated request take effect once.
    pub key: Option<IdempotencyKey>,
    /// Tells two agents of one name apart, if their connections do.
    pub session: Option<Arc<str>>,
    pub rights: Rights,
    /// The credential's id, if the request came with one; request keys are separate per credential.
    pub credential: Option<Arc<str>>,
}

/// A name that the caller chose for its request, and the digest of that request.
#[derive(Clone, Debug)]
pub struct IdempotencyKey {
    pub name: String,
    pub request_digest: Digest,
    /// The request turned out to be a repetition. Shared by all clones.
    repeated: Arc<AtomicBool>,
}

impl IdempotencyKey {
    /// A key for this request; the order of its JSON keys does not count.
    pub fn new(name: impl Into<String>, request: &Value) -> Self {
        let request = Digest::of(with_sorted_keys(request).to_string().as_bytes());
        Self { name: name.into(), request_digest: request, repeated: Arc::default() }
    }

    /// The key of one part of a request that becomes several entries.
    pub fn for_part(&self, number: usize) -> Self {
        Self {
            name: format!("{}{KEY_PART_SEPARATOR}{number}", self.name),
            repeated: Arc::default(),
            ..self.clone()
        }
    }

    pub fn mark_repeated(&self) {
        self.repeated.store(true, Ordering::Relaxed);
    }

    /// Whether the request was made before under this key, so that nothing was done this time.
    pub fn was_repeated(&self) -> bool {
        self.repeated.load(Ordering::Relaxed)
    }
}

impl PartialEq for IdempotencyKey {
    fn eq(&self, other: &Self) -> bool {
        (&self.name, self.request_digest) == (&other.name, other.request_digest)
    }
}

impl Eq for IdempotencyKey {}

impl Caller {
    /// A caller under this name, with every right, without a key or a session.
    pub fn new(actor: impl Into<Arc<str>>) -> Self {
        Self { actor: actor.into(), key: None, session: None, rights: Rights::ALL, credential: None }
    }

    /// The holder of a credential, outside MCP: a person, or a program of the token's name.
    pub fn of_credential(credential: &Credential) -> Self {
        let kind = match credential.kind {
            CredentialKind::PersonToken | CredentialKind::Session => "person",
            CredentialKind::ProgramToken if credential.role == Role::Agent => "agent",
            CredentialKind::ProgramToken => "program",
        };
        Self::new(format!("{kind}:{}", credential.name)).limited_to(credential)
    }

    /// The same caller with the rights of this credential, and no others.
    pub fn limited_to(self, credential: &Credential) -> Self {
        Self { rights: credential.role.rights(), credential: Some(credential.id.as_str().into()), ..self }
    }

    /// The same caller with one right more.
    pub fn with_right(self, right: Right) -> Self {
        Self { rights: self.rights.with(right), ..self }
    }

    /// The running program, by the name of its executable.
    pub fn program() -> Self {
        let file = std::env::current_exe().ok();
        let name = file.as_deref().and_then(|file| file.file_stem()).unwrap_or_default().to_string_lossy();
        Self::new(format!("program:{}", if name.is_empty() { "unnamed" } else { &name }))
    }

    /// The person at the terminal, by the name of the account.
    pub fn person() -> Self {
        let name = ["USER", "LOGNAME"].iter().find_map(|name| std::env::var(name).ok());
        let name = name.filter(|name| !name.is_empty()).unwrap_or_else(|| "someone".to_owned());
        Self::new(format!("person:{name}"))
    }

    /// Whether the caller is an agent, which may not give every approval: see `approvals` in the config.
    pub fn is_agent(&self) -> bool {
        self.actor.starts_with("agent:")
    }

    /// Whether the caller may report steps that an agent has claimed: a person or a program, unless its role is that
    /// of an agent.
    pub fn overrides_claims(&self) -> bool {
        !self.is_agent() && self.rights.has(Right::Operate)
    }

    /// The holder of an agent step that this caller starts: the actor, with its session if there is one, else with
    /// its credential: two tokens may have one name.
    pub fn step_holder(&self) -> String {
        match self.session.as_ref().or(self.credential.as_ref()) {
            Some(session) => format!("{}#{session}", self.actor),
            None => self.actor.to_string(),
        }
    }

    pub fn with_key(self, key: Option<IdempotencyKey>) -> Self {
        Self { key, ..self }
    }
}
