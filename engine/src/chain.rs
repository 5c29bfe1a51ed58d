//! The hash chain that makes the journal tamper-evident. Golden vectors are in docs/journal.md.
//!
//! `entry = SHA-256(parts)`, each part length-prefixed; `hash = SHA-256(previous hash, entry)`.
//! All hashes are over the exact stored bytes, never over re-serialised JSON.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::id::{Position, StreamId, TenantId};

/// Layout version, hashed into every entry so that a later layout cannot be confused with this one.
pub const FORMAT_VERSION: u64 = 1;

/// A SHA-256 hash.
pub type Hash = [u8; 32];

/// The previous hash of a journal's first entry.
pub const GENESIS: Hash = [0; 32];

/// The stored columns of a journal entry that its hash covers.
#[derive(Clone, Copy, Debug)]
pub struct EntryParts<'a> {
    pub tenant: TenantId,
    pub position: Position,
    pub stream: StreamId,
    /// The entry's number within its stream, from 1.
    pub version: u64,
    pub at_ms: i64,
    pub actor: &'a str,
    pub kind: &'a str,
    pub body: &'a str,
}

/// Hashes an entry's columns, without the chain.
pub fn entry_hash(parts: &EntryParts<'_>) -> Hash {
    let mut hasher = Sha256::new();
    let numbers = [FORMAT_VERSION, parts.tenant.0 as u64, parts.position.0, parts.stream.0, parts.version];
    for number in numbers {
        hash_length_prefixed(&mut hasher, &number.to_be_bytes());
    }
    hash_length_prefixed(&mut hasher, &parts.at_ms.to_be_bytes());
    for text in [parts.actor, parts.kind, parts.body] {
        hash_length_prefixed(&mut hasher, text.as_bytes());
    }
    hasher.finalize().into()
}

/// Links an entry's hash to the hash of the journal before it.
pub fn chain_hash(previous: &Hash, entry: &Hash) -> Hash {
    let mut hasher = Sha256::new();
    hasher.update(previous);
    hasher.update(entry);
    hasher.finalize().into()
}

/// Hashes the length before the bytes, so that text cannot move from one part to the next unnoticed.
fn hash_length_prefixed(hasher: &mut Sha256, bytes: &[u8]) {
    hasher.update((bytes.len() as u64).to_be_bytes());
    hasher.update(bytes);
}

/// A SHA-256 digest, written as base64url. An entry's body holds the salted digest of its payload: it proves
/// the payload and reveals nothing of it after erasure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Digest(pub Hash);

impl Digest {
    /// Hashes `salt` and `bytes`. After erasure the salt is gone, so that short payloads cannot be guessed.
    pub fn salted(salt: &[u8], bytes: &[u8]) -> Self {
        let mut hasher = Sha256::new();
        hasher.update(salt);
        hasher.update(bytes);
        Self(hasher.finalize().into())
    }

    /// The digest without a salt.
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

/// A copy of the value with all object keys sorted, also where serde_json is built to preserve their order:
/// the digest of a value must not depend on the order in which its author wrote the keys.
pub fn with_sorted_keys(value: &Value) -> Value {
    match value {
        Value::Array(items) => Value::Array(items.iter().map(with_sorted_keys).collect()),
        Value::Object(fields) => {
            let mut entries: Vec<_> = fields.iter().collect();
            entries.sort_unstable_by_key(|(name, _)| name.as_str());
            Value::Object(
                entries.into_iter().map(|(name, field)| (name.clone(), with_sorted_keys(field))).collect(),
            )
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.clone(),
    }
}
