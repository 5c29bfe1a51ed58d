//! Random edits of the tables, each with the first position that it makes wrong.

use actbook_engine::id::StreamId;

use super::super::rng::SeededRng;
use super::{Attacker, WrittenTables};

pub struct Edit {
    pub kind: &'static str,
    pub sql: String,
    pub first_bad: u64,
}

type EditBuilder = fn(&mut SeededRng, &WrittenTables, &Attacker) -> Option<(String, i64)>;

pub const KINDS: [(&str, EditBuilder); 17] = [
    ("an entry's column changed", column_changed),
    ("an entry moved", entry_moved),
    ("an entry removed", entry_removed),
    ("two entries swapped", entries_swapped),
    ("an entry inserted", entry_inserted),
    ("an entry inserted, the rest moved up", entry_squeezed_in),
    ("an entry removed, the rest moved down", entry_squeezed_out),
    ("the head's hash changed", head_hash_changed),
    ("the head moved", head_moved),
    ("the head removed", head_removed),
    ("a payload changed", payload_changed),
    ("a payload moved", payload_moved),
    ("a payload removed", payload_removed),
    ("two payloads swapped", payloads_swapped),
    ("a payload inserted", payload_inserted),
    ("a salt changed, moved or removed", salt_changed),
    ("a salt inserted", salt_inserted),
];

/// Builds a random edit. A changed entry column is chosen more often than the others: it has most variants.
pub fn random_edit(rng: &mut SeededRng, written: &WrittenTables, attacker: &Attacker) -> Edit {
    loop {
        let (kind, make) = if rng.once_in(3) { KINDS[0] } else { *rng.pick(&KINDS) };
        if let Some((sql, first_bad)) = make(rng, written, attacker) {
            let first_bad = u64::try_from(first_bad).unwrap_or(0);
            return Edit { kind, sql, first_bad };
        }
    }
}

/// The `entry` key of the first tenant's entry at a position.
pub fn entry_key(position: i64) -> i64 {
    (1 << 40) + position
}

fn random_position(rng: &mut SeededRng, written: &WrittenTables) -> i64 {
    rng.pick(&written.entries).position as i64
}

/// A position for a row: mostly inside the journal, sometimes before its start or after its end.
fn random_row_position(rng: &mut SeededRng, written: &WrittenTables) -> i64 {
    match rng.below(10) {
        0 => -(rng.below(3) as i64),
        1 => written.last_position() + 1 + rng.below(3) as i64,
        _ => random_position(rng, written),
    }
}

/// The first position that moving a row makes wrong. A row moved before position 1 is missed only at its old
/// place.
fn first_bad_after_move(from: i64, to: i64) -> i64 {
    if to < 1 { from } else { from.min(to) }
}

fn random_payload_position(rng: &mut SeededRng, written: &WrittenTables) -> i64 {
    let owners: Vec<u64> = written.payloads.keys().copied().collect();
    *rng.pick(&owners) as i64
}

fn column_changed(
    rng: &mut SeededRng,
    written: &WrittenTables,
    attacker: &Attacker,
) -> Option<(String, i64)> {
    let entry = rng.pick(&written.entries);
    let which = rng.below(8);
    let bit = 1 << rng.below(40);
    let number = |now: i64| (now ^ bit).to_string();
    let (column, value) = match which {
        0 => ("stream", number(entry.stream.0 as i64)),
        1 => ("version", number(entry.version as i64)),
        2 => ("at", number(entry.at)),
        3 => ("tenant", number(1)),
        4 => ("actor", attacker.text(&attacker.corrupt(rng, entry.actor.as_bytes(), true))),
        5 => ("kind", attacker.text(&attacker.corrupt(rng, entry.kind.as_bytes(), true))),
        6 => ("body", attacker.text(&attacker.corrupt(rng, entry.body.as_bytes(), true))),
        _ => ("hash", attacker.bytes(&attacker.corrupt(rng, &entry.hash, false))),
    };
    let p = entry.position as i64;
    Some((format!("UPDATE journal SET {column} = {value} WHERE entry = {}", entry_key(p)), p))
}

fn entry_moved(rng: &mut SeededRng, written: &WrittenTables, _: &Attacker) -> Option<(String, i64)> {
    let (p, q) = (random_position(rng, written), random_row_position(rng, written));
    let sql = format!("UPDATE journal SET entry = {} WHERE entry = {}", entry_key(q), entry_key(p));
    (p != q).then(|| (sql, first_bad_after_move(p, q)))
}

fn entry_removed(rng: &mut SeededRng, written: &WrittenTables, _: &Attacker) -> Option<(String, i64)> {
    let p = random_position(rng, written);
    Some((format!("DELETE FROM journal WHERE entry = {}", entry_key(p)), p))
}

fn entries_swapped(rng: &mut SeededRng, written: &WrittenTables, _: &Attacker) -> Option<(String, i64)> {
    let (p, q) = (random_position(rng, written), random_position(rng, written));
    (p != q).then(|| (swap("journal", p, q), p.min(q)))
}

fn swap(table: &str, p: i64, q: i64) -> String {
    let (p, q) = (entry_key(p), entry_key(q));
    format!("UPDATE {table} SET entry = CASE entry WHEN {p} THEN {q} ELSE {p} END WHERE entry IN ({p}, {q})")
}

fn copy_of(p: i64, q: i64) -> String {
    format!(
        "INSERT INTO journal SELECT {}, tenant, stream, version, at, actor, kind, body, hash \
         FROM journal_written WHERE entry = {}",
        entry_key(q),
        entry_key(p)
    )
}

fn entry_inserted(rng: &mut SeededRng, written: &WrittenTables, _: &Attacker) -> Option<(String, i64)> {
    let (p, q) = (random_position(rng, written), random_row_position(rng, written));
    Some((copy_of(p, q), q))
}

fn shift(from: i64, by: i64) -> String {
    let tables = ["journal", "payloads"];
    let shifts = tables
        .map(|table| format!("UPDATE {table} SET entry = entry + {by} WHERE entry >= {}", entry_key(from)));
    format!("{}; UPDATE head SET position = position + {by}", shifts.join(";"))
}

fn entry_squeezed_in(rng: &mut SeededRng, written: &WrittenTables, _: &Attacker) -> Option<(String, i64)> {
    let (p, q) = (random_position(rng, written), 1 + rng.below(written.entries.len() + 1) as i64);
    // A copy at its own position is correct; then the entry after it is the first wrong one.
    Some((format!("{}; {}", shift(q, 1), copy_of(p, q)), if p == q { q + 1 } else { q }))
}

/// Removing the last entry leaves every remaining entry correct; then the head is the first wrong one.
fn entry_squeezed_out(rng: &mut SeededRng, written: &WrittenTables, _: &Attacker) -> Option<(String, i64)> {
    let p = random_position(rng, written);
    let out =
        ["journal", "payloads"].map(|table| format!("DELETE FROM {table} WHERE entry = {}", entry_key(p)));
    Some((format!("{}; {}", out.join(";"), shift(p, -1)), p.min(written.last_position() - 1)))
}

fn head_hash_changed(
    rng: &mut SeededRng,
    written: &WrittenTables,
    attacker: &Attacker,
) -> Option<(String, i64)> {
    let mut hash = written.head.hash;
    hash[rng.below(32)] ^= 1 << rng.below(8);
    Some((format!("UPDATE head SET hash = {}", attacker.bytes(&hash)), written.last_position()))
}

fn head_moved(rng: &mut SeededRng, written: &WrittenTables, _: &Attacker) -> Option<(String, i64)> {
    let (last, to) = (written.last_position(), random_row_position(rng, written));
    let first_bad = if to < 0 { 0 } else { to.min(last) + 1 };
    (to != last).then(|| (format!("UPDATE head SET position = {to}"), first_bad))
}

fn head_removed(_: &mut SeededRng, _: &WrittenTables, _: &Attacker) -> Option<(String, i64)> {
    Some(("DELETE FROM head".to_owned(), 0))
}

fn payload_changed(
    rng: &mut SeededRng,
    written: &WrittenTables,
    attacker: &Attacker,
) -> Option<(String, i64)> {
    let p = random_payload_position(rng, written);
    let corrupted = attacker.corrupt(rng, &written.payloads[&(p as u64)], false);
    Some((
        format!("UPDATE payloads SET body = {} WHERE entry = {}", attacker.bytes(&corrupted), entry_key(p)),
        p,
    ))
}

fn payload_moved(rng: &mut SeededRng, written: &WrittenTables, _: &Attacker) -> Option<(String, i64)> {
    let (p, q) = (random_payload_position(rng, written), random_row_position(rng, written));
    let sql = format!("UPDATE payloads SET entry = {} WHERE entry = {}", entry_key(q), entry_key(p));
    (p != q).then(|| (sql, first_bad_after_move(p, q)))
}

fn payload_removed(rng: &mut SeededRng, written: &WrittenTables, _: &Attacker) -> Option<(String, i64)> {
    let p = random_payload_position(rng, written);
    let gone = *rng.pick(&["DELETE FROM payloads", "UPDATE payloads SET entry = entry + 1099511627776"]);
    Some((format!("{gone} WHERE entry = {}", entry_key(p)), p))
}

fn payloads_swapped(rng: &mut SeededRng, written: &WrittenTables, _: &Attacker) -> Option<(String, i64)> {
    let (p, q) = (random_payload_position(rng, written), random_payload_position(rng, written));
    let differ = written.payloads[&(p as u64)] != written.payloads[&(q as u64)];
    differ.then(|| (swap("payloads", p, q), p.min(q)))
}

fn payload_inserted(rng: &mut SeededRng, written: &WrittenTables, _: &Attacker) -> Option<(String, i64)> {
    let (p, q) = (random_payload_position(rng, written), random_row_position(rng, written));
    let copy = format!(
        "INSERT INTO payloads SELECT {}, body FROM payloads_written WHERE entry = {}",
        entry_key(q),
        entry_key(p)
    );
    Some((copy, q))
}

/// A changed salt is detected at the first payload that was hashed with it.
fn salt_changed(rng: &mut SeededRng, written: &WrittenTables, attacker: &Attacker) -> Option<(String, i64)> {
    let streams: Vec<StreamId> = written.salts.keys().copied().collect();
    let stream = *rng.pick(&streams);
    let (s, q) = (stream.0 as i64, random_row_position(rng, written));
    let of_stream = written.entries.iter().filter(|entry| entry.stream == stream);
    let first_payload =
        of_stream.map(|entry| entry.position).find(|position| written.payloads.contains_key(position))?;
    let corrupted = attacker.bytes(&attacker.corrupt(rng, &written.salts[&stream], false));
    match rng.below(4) {
        0 => Some((format!("DELETE FROM salts WHERE stream = {s}"), s)),
        1 => Some((format!("UPDATE salts SET tenant = 2 WHERE stream = {s}"), s)),
        2 if s != q => {
            Some((format!("UPDATE salts SET stream = {q} WHERE stream = {s}"), first_bad_after_move(s, q)))
        }
        _ => Some((format!("UPDATE salts SET salt = {corrupted} WHERE stream = {s}"), first_payload as i64)),
    }
}

fn salt_inserted(rng: &mut SeededRng, written: &WrittenTables, _: &Attacker) -> Option<(String, i64)> {
    let erased: Vec<i64> = written.erased.iter().map(|stream| stream.0 as i64).collect();
    let q = if rng.once_in(2) { *rng.pick(&erased) } else { random_row_position(rng, written) };
    let copy = format!("INSERT INTO salts SELECT tenant, {q}, salt FROM salts_written LIMIT 1");
    Some((copy, q))
}
