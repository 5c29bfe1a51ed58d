//! The golden vectors of docs/journal.md: journals written by any release must verify for ever.

use actbook_engine::chain::{Digest, GENESIS, Hash, Parts, chain_hash, entry_hash};
use actbook_engine::id::Position;

fn hex(hash: &Hash) -> String {
    hash.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn first() -> Parts<'static> {
    Parts {
        tenant: 1,
        position: Position(1),
        stream: 1,
        version: 1,
        at_ms: 1_700_000_000_000,
        actor: "person:ada",
        kind: "ExecutionStarted/1",
        body: r#"{"plan":"p1"}"#,
    }
}

fn second() -> Parts<'static> {
    Parts {
        position: Position(2),
        version: 2,
        at_ms: 1_700_000_000_250,
        actor: "actbook",
        kind: "StepSkipped/1",
        body: r#"{"why":"größer"}"#,
        ..first()
    }
}

#[test]
fn entry_and_chain_hashes_are_the_documented_ones() {
    let entry_1 = entry_hash(&first());
    let hash_1 = chain_hash(&GENESIS, &entry_1);
    let entry_2 = entry_hash(&second());
    let hash_2 = chain_hash(&hash_1, &entry_2);
    assert_eq!(hex(&entry_1), "da2964fb95897c33ef962ac5290f8eb343e501668550a140da23628c686556fb");
    assert_eq!(hex(&hash_1), "e101a72a06b2c086f3b4cf89a767fd656f60eb35396213092b1060fe1c4c28b1");
    assert_eq!(hex(&entry_2), "bc501fa1cd68ff4428d535662895b5d467edc4953ee4bc728ce828b3cad32b79");
    assert_eq!(hex(&hash_2), "b639f1f4560d386aa6d37bce5525048d932f7e94cbb79dc190374c17edef209a");
}

#[test]
fn a_payload_digest_is_the_documented_one() {
    let digest = Digest::salted(&[7; 16], br#"{"text":"hello"}"#);
    assert_eq!(digest.to_string(), "OTt-OMr3LZMjSCj54C7Nsr5ZlGvGFKJBIF7wfCUtxsk");
    let read: Digest = serde_json::from_str(&format!("\"{digest}\"")).expect("what was written reads back");
    assert_eq!(read, digest);
}

#[test]
fn every_part_of_an_entry_changes_its_hash() {
    let changed = [
        Parts { tenant: 2, ..first() },
        Parts { position: Position(2), ..first() },
        Parts { stream: 2, ..first() },
        Parts { version: 2, ..first() },
        Parts { at_ms: 0, ..first() },
        Parts { actor: "person:bob", ..first() },
        Parts { kind: "ExecutionStarted/2", ..first() },
        Parts { body: r#"{"plan":"p2"}"#, ..first() },
    ];
    for parts in changed {
        assert_ne!(entry_hash(&parts), entry_hash(&first()), "{parts:?}");
    }
}

#[test]
fn text_cannot_slide_from_one_part_into_the_next() {
    let one = Parts { actor: "ab", kind: "c", ..first() };
    let other = Parts { actor: "a", kind: "bc", ..first() };
    assert_ne!(entry_hash(&one), entry_hash(&other));
}

#[test]
fn an_entry_in_another_place_of_the_chain_has_another_hash() {
    let entry = entry_hash(&first());
    assert_ne!(chain_hash(&GENESIS, &entry), chain_hash(&entry, &entry));
}
