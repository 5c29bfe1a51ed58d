//! The golden vectors of docs/journal.md: journals written by any release must always verify.

use actbook_engine::chain::{Digest, EntryParts, GENESIS, Hash, chain_hash, entry_hash};
use actbook_engine::id::{Position, StreamId, TenantId};

fn hex(hash: &Hash) -> String {
    hash.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn first_entry() -> EntryParts<'static> {
    EntryParts {
        tenant: TenantId(1),
        position: Position(1),
        stream: StreamId(1),
        version: 1,
        at_ms: 1_700_000_000_000,
        actor: "person:ada",
        kind: "execution_started.1",
        body: r#"{"plan":"p1"}"#,
    }
}

fn second_entry() -> EntryParts<'static> {
    EntryParts {
        position: Position(2),
        version: 2,
        at_ms: 1_700_000_000_250,
        actor: "actbook",
        kind: "step_skipped.1",
        body: r#"{"why":"größer"}"#,
        ..first_entry()
    }
}

#[test]
fn entry_and_chain_hashes_are_the_documented_ones() {
    let entry_1 = entry_hash(&first_entry());
    let hash_1 = chain_hash(&GENESIS, &entry_1);
    let entry_2 = entry_hash(&second_entry());
    let hash_2 = chain_hash(&hash_1, &entry_2);
    assert_eq!(hex(&entry_1), "7ecefb8daee044127cbdeecb8752de9719321692c464390875e5fa695ad86cdb");
    assert_eq!(hex(&hash_1), "032a68968386ea4e5f0c21ab5562ac91bed70b2882159875a9fe77948c1ca316");
    assert_eq!(hex(&entry_2), "090abf32ef05b731c3f402caaea93d58f651d72b1d53dbfa11c5ddb03dafdfde");
    assert_eq!(hex(&hash_2), "3057a4e9eabf317155d2619962462b3797bf16ab9b3dfafb3cc5eb7e3336e8bf");
}

#[test]
fn payload_digest_is_the_documented_one() {
    let digest = Digest::salted(&[7; 16], br#"{"text":"hello"}"#);
    assert_eq!(digest.to_string(), "OTt-OMr3LZMjSCj54C7Nsr5ZlGvGFKJBIF7wfCUtxsk");
    let read: Digest = serde_json::from_str(&format!("\"{digest}\"")).expect("a written digest parses");
    assert_eq!(read, digest);
}

#[test]
fn every_part_of_an_entry_changes_its_hash() {
    let changed = [
        EntryParts { tenant: TenantId(2), ..first_entry() },
        EntryParts { position: Position(2), ..first_entry() },
        EntryParts { stream: StreamId(2), ..first_entry() },
        EntryParts { version: 2, ..first_entry() },
        EntryParts { at_ms: 0, ..first_entry() },
        EntryParts { actor: "person:bob", ..first_entry() },
        EntryParts { kind: "execution_started.2", ..first_entry() },
        EntryParts { body: r#"{"plan":"p2"}"#, ..first_entry() },
    ];
    for parts in changed {
        assert_ne!(entry_hash(&parts), entry_hash(&first_entry()), "{parts:?}");
    }
}

#[test]
fn shifting_text_between_parts_changes_the_hash() {
    let one = EntryParts { actor: "ab", kind: "c", ..first_entry() };
    let other = EntryParts { actor: "a", kind: "bc", ..first_entry() };
    assert_ne!(entry_hash(&one), entry_hash(&other));
}

#[test]
fn entry_at_another_chain_position_has_another_hash() {
    let entry = entry_hash(&first_entry());
    assert_ne!(chain_hash(&GENESIS, &entry), chain_hash(&entry, &entry));
}
