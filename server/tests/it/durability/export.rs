//! An exported execution is verified without its database: any edit that changes its meaning is detected.

use actbook::service::verify_file;
use actbook_engine::chain;
use actbook_engine::id::{Position, StreamId, TenantId};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::fixture::{self, ServiceFixture};
use super::rng::SeededRng;
use crate::counts::times;
use crate::store::{Kind, for_each_database, run_on};

async fn write_exports(url: &str) -> Vec<Vec<u8>> {
    let fixture = ServiceFixture::open(url).await;
    let mut ids = fixture::write_mixed_history(&fixture, "early").await;
    fixture.service.journal().cleanup(&fixture.caller, i64::MAX, false).await.unwrap();
    ids.truncate(2);
    // Two concurrently, so that their entries interleave.
    let (one, other) = tokio::join!(
        fixture::write_mixed_history(&fixture, "one"),
        fixture::write_mixed_history(&fixture, "other")
    );
    ids.extend(one.into_iter().chain(other));
    let mut files = Vec::new();
    for id in &ids {
        let mut file = Vec::new();
        let exported = fixture.service.journal().export(id, &mut file).await.unwrap();
        assert_eq!(&exported.execution, id);
        files.push(file);
    }
    files
}

#[test]
fn export_verifies_without_its_database() {
    for_each_database(async |scratch| {
        let files = write_exports(&scratch.url).await;
        let mut foreign = 0;
        for file in &files {
            let verified = verify_file(file.as_slice()).unwrap();
            assert!(verified.ok, "{verified:?}");
            foreign += file.split(|byte| *byte == b'\n').filter(|line| line.len() < 100).count() - 1;
        }
        assert!(foreign > 0, "no export had another execution's entries between its own");
    });
}

/// The parsed lines: equal for files that differ in white space only. `None` if a line is not JSON.
fn parse_lines(file: &[u8]) -> Option<Vec<Value>> {
    let text = std::str::from_utf8(file).ok()?;
    text.lines().map(|line| serde_json::from_str(line).ok()).collect()
}

fn random_edit(rng: &mut SeededRng, file: &[u8]) -> Vec<u8> {
    let mut bytes = file.to_vec();
    let at = rng.below(bytes.len());
    let any = rng.next() as u8;
    let mut lines: Vec<&[u8]> = file.split_inclusive(|byte| *byte == b'\n').collect();
    let (one, other) = (rng.below(lines.len()), rng.below(lines.len()));
    match rng.below(9) {
        0 => drop(lines.remove(one)),
        1 => lines.insert(one, lines[other]),
        2 => lines.swap(one, other),
        3 => bytes.truncate(at),
        4 => drop(bytes.remove(at)),
        5 => bytes.insert(at, any),
        6 => bytes[at] = any,
        _ => bytes[at] ^= 1 << rng.below(6),
    }
    if bytes == file { lines.concat() } else { bytes }
}

#[test]
fn meaningful_edit_of_an_export_is_detected() {
    run_on(Kind::Sqlite, async |scratch| {
        let files = write_exports(&scratch.url).await;
        let mut rng = SeededRng::from_env("export");
        let (mut detected, mut harmless) = (0, 0);
        for _ in 0..times("ACTBOOK_EDITS", 1_000) * 4 {
            let file = rng.pick(&files).clone();
            let edit = random_edit(&mut rng, &file);
            let means_the_same = parse_lines(&edit) == parse_lines(&file);
            let passed = verify_file(edit.as_slice()).is_ok_and(|verified| verified.ok);
            let text = String::from_utf8_lossy(&edit);
            assert_eq!(
                passed, means_the_same,
                "passed: {passed}, but means the same: {means_the_same}\n{text}"
            );
            if passed { harmless += 1 } else { detected += 1 }
        }
        eprintln!("{detected} edits detected, {harmless} harmless");
        assert!(detected > 10 * harmless);
    });
}

/// The lines of an export, the header first.
fn read_lines(file: &[u8]) -> Vec<Value> {
    parse_lines(file).expect("an export is JSON, line by line")
}

fn to_bytes(lines: &[Value]) -> Vec<u8> {
    lines.iter().map(|line| format!("{line}\n")).collect::<String>().into_bytes()
}

/// Rewrites the header to export format 1.
fn downgrade_to_format_1(lines: &mut [Value]) {
    lines[0]["actbook_export"] = json!(1);
    lines[0].as_object_mut().unwrap().remove("entries");
}

/// Replaces the last `count` own entries by position and hash, as an export has other executions' entries.
fn hide_tail(lines: &mut [Value], count: usize) {
    let (stream, from) = (lines[0]["stream"].as_u64().unwrap(), lines.len() - count);
    let own_before = lines[1..from].iter().filter(|line| line.get("kind").is_some()).count();
    for line in &mut lines[from..] {
        let text = |name: &str| line[name].as_str().unwrap().to_owned();
        let number = |name: &str| line[name].as_u64().unwrap();
        if line.get("kind").is_none() {
            continue;
        }
        let (actor, kind, body) = (text("actor"), text("kind"), text("body"));
        let hash = chain::entry_hash(&chain::EntryParts {
            tenant: TenantId(1),
            position: Position(number("position")),
            stream: StreamId(stream),
            version: number("version"),
            at_ms: line["at"].as_i64().unwrap(),
            actor: &actor,
            kind: &kind,
            body: &body,
        });
        *line = json!({ "position": number("position"), "entry": STANDARD.encode(hash) });
    }
    lines[0]["entries"] = json!(own_before);
}

#[test]
fn export_whose_last_entries_are_bare_hashes_is_refused() {
    run_on(Kind::Sqlite, async |scratch| {
        for file in write_exports(&scratch.url).await {
            let whole = read_lines(&file);
            for count in 1..whole.len() - 1 {
                for old in [false, true] {
                    let mut lines = whole.clone();
                    hide_tail(&mut lines, count);
                    if old {
                        downgrade_to_format_1(&mut lines);
                    }
                    let verified = verify_file(to_bytes(&lines).as_slice()).unwrap();
                    let why = verified.bad.map(|bad| bad.why).unwrap_or_default();
                    // Without the entry that erased its payloads, an erased execution lacks them too.
                    let found = why.contains("tail") || why.contains("payload is missing");
                    assert!(!verified.ok && found, "{count} hidden, format 1: {old}: {why}");
                }
            }
        }
    });
}

#[test]
fn export_that_states_another_number_of_entries_is_refused() {
    run_on(Kind::Sqlite, async |scratch| {
        let mut lines = read_lines(&write_exports(&scratch.url).await[0]);
        lines[0]["entries"] = json!(lines[0]["entries"].as_u64().unwrap() + 1);
        assert!(!verify_file(to_bytes(&lines).as_slice()).unwrap().ok);
        lines[0].as_object_mut().unwrap().remove("entries");
        assert_eq!(verify_file(to_bytes(&lines).as_slice()).unwrap_err().code(), "not_an_export");
    });
}

#[test]
fn export_of_format_1_verifies_with_a_note() {
    run_on(Kind::Sqlite, async |scratch| {
        let mut lines = read_lines(write_exports(&scratch.url).await.last().unwrap());
        assert_eq!(verify_file(to_bytes(&lines).as_slice()).unwrap().notes, [""; 0]);
        downgrade_to_format_1(&mut lines);
        let verified = verify_file(to_bytes(&lines).as_slice()).unwrap();
        assert!(verified.ok, "{verified:?}");
        assert!(verified.notes[0].contains("export format 1"), "{:?}", verified.notes);
    });
}

#[test]
fn export_of_an_open_execution_says_that_it_has_not_ended() {
    run_on(Kind::Sqlite, async |scratch| {
        let fixture = ServiceFixture::open(&scratch.url).await;
        let plan = fixture::plan("open", &[fixture::step("only", "t/ok", "word")]);
        let started = fixture.start(&plan, None, false).await;
        let mut file = Vec::new();
        fixture.service.journal().export(started.id.as_str(), &mut file).await.unwrap();
        let verified = verify_file(file.as_slice()).unwrap();
        assert!(verified.ok && verified.notes[0].contains("has not ended"), "{verified:?}");
    });
}
