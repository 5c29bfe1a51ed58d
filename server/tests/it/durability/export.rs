//! An exported execution is checked without its database: any edit that means something is found.

use actbook::service::verify_file;
use serde_json::Value;

use super::book::{self, Book};
use super::dice::{Dice, times};
use crate::store::{Kind, for_each_database, on};

async fn exports(url: &str) -> Vec<Vec<u8>> {
    let book = Book::open(url).await;
    let mut ids = book::mixed(&book, "early").await;
    book.service.cleanup(&book.caller, i64::MAX, false).await.unwrap();
    ids.truncate(2);
    // Two at once, so that the entries of one lie between those of the other.
    let (one, other) = tokio::join!(book::mixed(&book, "one"), book::mixed(&book, "other"));
    ids.extend(one.into_iter().chain(other));
    let mut files = Vec::new();
    for id in &ids {
        let mut file = Vec::new();
        let exported = book.service.export(id, &mut file).await.unwrap();
        assert_eq!(&exported.execution, id);
        files.push(file);
    }
    files
}

#[test]
fn an_export_verifies_without_its_database() {
    for_each_database(async |scratch| {
        let files = exports(&scratch.url).await;
        let mut foreign = 0;
        for file in &files {
            let verified = verify_file(file.as_slice()).unwrap();
            assert!(verified.ok, "{verified:?}");
            foreign += file.split(|byte| *byte == b'\n').filter(|line| line.len() < 100).count() - 1;
        }
        assert!(foreign > 0, "no export had another execution's entries between its own");
    });
}

/// What a reader of the file sees: spaces around values and the last line's end mean nothing.
fn meaning(file: &[u8]) -> Option<Vec<Value>> {
    let text = std::str::from_utf8(file).ok()?;
    text.lines().map(|line| serde_json::from_str(line).ok()).collect()
}

fn edited(dice: &mut Dice, file: &[u8]) -> Vec<u8> {
    let mut bytes = file.to_vec();
    let at = dice.below(bytes.len());
    let any = dice.next() as u8;
    let mut lines: Vec<&[u8]> = file.split_inclusive(|byte| *byte == b'\n').collect();
    let (one, other) = (dice.below(lines.len()), dice.below(lines.len()));
    match dice.below(9) {
        0 => drop(lines.remove(one)),
        1 => lines.insert(one, lines[other]),
        2 => lines.swap(one, other),
        3 => bytes.truncate(at),
        4 => drop(bytes.remove(at)),
        5 => bytes.insert(at, any),
        6 => bytes[at] = any,
        _ => bytes[at] ^= 1 << dice.below(6),
    }
    if bytes == file { lines.concat() } else { bytes }
}

#[test]
fn any_edit_of_an_export_that_means_something_is_found() {
    on(Kind::Sqlite, async |scratch| {
        let files = exports(&scratch.url).await;
        let mut dice = Dice::seeded("export");
        let (mut found, mut idle) = (0, 0);
        for _ in 0..times("ACTBOOK_EDITS", 1_000) * 4 {
            let file = dice.pick(&files).clone();
            let edit = edited(&mut dice, &file);
            let means_the_same = meaning(&edit) == meaning(&file);
            let passed = verify_file(edit.as_slice()).is_ok_and(|verified| verified.ok);
            let text = String::from_utf8_lossy(&edit);
            assert_eq!(
                passed, means_the_same,
                "passed: {passed}, but means the same: {means_the_same}\n{text}"
            );
            if passed { idle += 1 } else { found += 1 }
        }
        eprintln!("{found} edits found, {idle} meant nothing");
        assert!(found > 10 * idle);
    });
}
