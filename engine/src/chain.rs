//! The hash chain: what makes the journal tamper-evident. Golden vectors are in docs/journal.md.
//!
//! `entry = SHA-256(parts)`, each part length-prefixed; `hash = SHA-256(previous hash, entry)`.
//! Everything is computed over the exact stored bytes, never over re-serialised JSON.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::id::Position;

/// Written into every entry's hash, so that a later layout cannot be confused with this one.
pub const FORMAT_VERSION: u64 = 1;

pub type Hash = [u8; 32];

/// The hash before the first entry of a journal.
pub const GENESIS: Hash = [0; 32];

/// An entry's stored columns, borrowed.
#[derive(Clone, Copy, Debug)]
pub struct Parts<'a> {
    pub tenant: u64,
    pub position: Position,
    pub stream: u64,
    pub version: u64,
    pub at_ms: i64,
    pub actor: &'a str,
    pub kind: &'a str,
    pub body: &'a str,
}

pub fn entry_hash(parts: &Parts<'_>) -> Hash {
    let mut hasher = Sha256::new();
    let numbers = [FORMAT_VERSION, parts.tenant, parts.position.0, parts.stream, parts.version];
    for number in numbers {
        put(&mut hasher, &number.to_be_bytes());
    }
    put(&mut hasher, &parts.at_ms.to_be_bytes());
    for text in [parts.actor, parts.kind, parts.body] {
        put(&mut hasher, text.as_bytes());
    }
    hasher.finalize().into()
}

pub fn chain_hash(previous: &Hash, entry: &Hash) -> Hash {
    let mut hasher = Sha256::new();
    hasher.update(previous);
    hasher.update(entry);
    hasher.finalize().into()
}

fn put(hasher: &mut Sha256, bytes: &[u8]) {
    hasher.update((bytes.len() as u64).to_be_bytes());
    hasher.update(bytes);
}

/// What an entry's body says of a payload that is kept beside it: enough to prove it, and nothing
/// that would give it away once it is erased.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Digest(pub Hash);

impl Digest {
    /// The salt makes short, guessable payloads unguessable after they have been erased.
    pub fn salted(salt: &[u8], bytes: &[u8]) -> Self {
        let mut hasher = Sha256::new();
        hasher.update(salt);
        hasher.update(bytes);
        Self(hasher.finalize().into())
    }

    pub fn of(bytes: &[u8]) -> Self {
        Self::salted(&[], bytes)
    }
}

impl std::fmt::Display for Digest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&URL_SAFE_NO_PAD.encode(self.0))
    }
}

impl Serialize for Digest {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&URL_SAFE_NO_PAD.encode(self.0))
    }
}

impl<'de> Deserialize<'de> for Digest {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        let bytes = URL_SAFE_NO_PAD.decode(text.as_bytes()).map_err(serde::de::Error::custom)?;
        let hash = Hash::try_from(bytes).map_err(|_| serde::de::Error::custom("a digest has 32 bytes"))?;
        Ok(Self(hash))
    }
}

/// The value with its keys in order, even where serde_json is built to keep the author's: what is
/// digested must not depend on who wrote it down.
pub fn in_order(value: &Value) -> Value {
    match value {
        Value::Array(items) => Value::Array(items.iter().map(in_order).collect()),
        Value::Object(fields) => {
            let mut entries: Vec<_> = fields.iter().collect();
            entries.sort_unstable_by_key(|(name, _)| name.as_str());
            Value::Object(entries.into_iter().map(|(name, field)| (name.clone(), in_order(field))).collect())
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.clone(),
    }
}
