//! Note search: the same notes and queries give the same hits in the same order on both databases.

use actbook::service::NoteFilter;
use serde_json::json;

use super::{by_search, find_notes, note, set_note, task_owner};
use crate::durability::fixture::ServiceFixture;
use crate::store::for_each_database;

/// The notes, in the order of writing.
fn notes() -> Vec<(&'static str, serde_json::Value)> {
    vec![
        ("deploy-steps", json!("Build the image, push it, then restart the workers one by one.")),
        ("postgres", json!("The primary listens on port 5433; the read replica on 5434.")),
        ("ports", json!({ "postgres": 5433, "redis": { "port": 6379, "hosts": ["cache-1", "cache-2"] } })),
        ("café-menu", json!("Crème brûlée and NAÏVE art")),
        ("tokyo", json!("東京都庁に行きました。次は大阪です。")),
        ("thai", json!("ภาษาไทยไม่มีช่องว่างระหว่างคำ")),
        ("hindi", json!("हिन्दी में लिखा हुआ नोट")),
        ("korean", json!("데이터베이스를 다시 시작했다")),
        ("snake_case_name", json!("replica of the read path; reading is not read replica's job")),
        ("quotes", json!("He said \"it's done\" & left: <b>50%</b> 'of' C:\\temp\\x -- ; DROP TABLE notes")),
        ("many", json!("word ".repeat(400) + "tail end")),
        ("upper", json!("POSTGRES Restarting STRASSE Straße")),
        ("mixed", json!("v2版本 release リリース2026年")),
    ]
}

/// Queries, and the keys that they find, best first.
const SEARCH_CASES: &[(&str, &[&str])] = &[
    ("postgres", &["postgres", "upper", "ports"]),
    ("POSTGRES", &["postgres", "upper", "ports"]),
    ("post*", &["postgres", "upper", "ports"]),
    ("port", &["ports", "postgres"]),
    ("port*", &["ports", "postgres"]),
    ("5433", &["ports", "postgres"]),
    ("postgres 5433", &["postgres", "ports"]),
    ("\"read replica\"", &["snake_case_name", "postgres"]),
    ("\"replica read\"", &[]),
    ("\"read rep*\"", &["snake_case_name", "postgres"]),
    ("read replica", &["snake_case_name", "postgres"]),
    ("restart", &["deploy-steps"]),
    ("restart*", &["upper", "deploy-steps"]),
    ("cafe", &["café-menu"]),
    ("CRÈME", &["café-menu"]),
    ("naive brulee", &["café-menu"]),
    ("deploy", &["deploy-steps"]),
    ("deploy-steps", &["deploy-steps"]),
    ("snake case", &["snake_case_name"]),
    ("case_name", &["snake_case_name"]),
    ("\"steps build\"", &[]),
    ("cache-1", &["ports"]),
    ("redis port", &["ports"]),
    ("東京", &["tokyo"]),
    ("京都", &["tokyo"]),
    ("大阪", &["tokyo"]),
    ("阪", &["tokyo"]),
    ("京東", &[]),
    ("東京都庁", &["tokyo"]),
    ("次は大阪", &["tokyo"]),
    ("ไทย", &["thai"]),
    ("हिन्दी", &["hindi"]),
    ("데이터*", &["korean"]),
    ("版本", &["mixed"]),
    ("v2版本", &["mixed"]),
    ("リリース", &["mixed"]),
    ("2026年", &["mixed"]),
    ("it's", &["quotes"]),
    ("50%", &["quotes"]),
    ("drop table", &["quotes"]),
    ("\"word word\" end", &["many"]),
    ("\"tail end\"", &["many"]),
    ("straße", &["upper"]),
    ("nothing-of-this-kind", &[]),
    ("' OR 1=1", &[]),
    ("NEAR(port redis)", &[]),
    ("key:port", &[]),
];

#[test]
fn search_results_are_equal_on_both_databases() {
    for_each_database(async |scratch| {
        let fixture = ServiceFixture::open(&scratch.url).await;
        for (key, value) in notes() {
            set_note(&fixture, note(key, value)).await;
        }
        for (words, expected) in SEARCH_CASES {
            let found = find_notes(&fixture, by_search(words)).await;
            let keys: Vec<&str> = found.iter().map(|note| note.key.as_str()).collect();
            assert_eq!(keys, *expected, "{words}");
        }
        for empty in ["", "  ", "!?", "\"\"", "*"] {
            let refused = fixture.service.notes().list(&by_search(empty), 10).await.unwrap_err();
            assert_eq!(refused.code(), "no_words", "{empty:?}");
        }
        // An overwritten note is found by its new text only.
        set_note(&fixture, note("postgres", "moved to port 6000")).await;
        let found = find_notes(&fixture, by_search("port")).await;
        let keys: Vec<&str> = found.iter().map(|note| note.key.as_str()).collect();
        assert_eq!(keys, ["postgres", "ports"], "an inflected key is not the word itself");
    });
}

#[test]
fn key_matches_come_before_value_matches_then_the_newest_first() {
    for_each_database(async |scratch| {
        let fixture = ServiceFixture::open(&scratch.url).await;
        for number in 0..30 {
            let key = if number % 3 == 0 { format!("needle {number}") } else { format!("k{number}") };
            set_note(&fixture, note(&key, format!("needle in {number}"))).await;
        }
        let found = find_notes(&fixture, by_search("needle")).await;
        let matches: Vec<(Option<&str>, u64)> =
            found.iter().map(|note| (note.found_in, note.position)).collect();
        assert_eq!(matches.len(), 30);
        assert!(matches[..10].iter().all(|(found_in, _)| *found_in == Some("key")));
        assert!(matches[10..].iter().all(|(found_in, _)| *found_in == Some("value")));
        assert!(matches[..10].is_sorted_by(|a, b| a.1 > b.1) && matches[10..].is_sorted_by(|a, b| a.1 > b.1));

        let mut paged = Vec::new();
        let mut filter = by_search("needle");
        loop {
            let page = fixture.service.notes().list(&filter, 7).await.unwrap();
            paged.extend(page.notes.iter().map(|note| note.position));
            filter.cursor = page.cursor;
            if page.cursor.is_none() {
                break;
            }
        }
        assert_eq!(paged, matches.iter().map(|(_, position)| *position).collect::<Vec<_>>());
    });
}

#[test]
fn filters_narrow_a_search_and_excerpts_mark_matches() {
    for_each_database(async |scratch| {
        let fixture = ServiceFixture::open(&scratch.url).await;
        for (task, kind) in [("T-1", "research"), ("T-1", "blockers"), ("T-2", "research")] {
            let value =
                format!("{} the migration waits for a licence {}", "before ".repeat(40), "after ".repeat(60));
            let given = actbook::service::NoteSpec {
                r#type: Some(kind.into()),
                owner: task_owner(task),
                ..note(&format!("{task}-{kind}"), value)
            };
            set_note(&fixture, given).await;
        }
        let keys = async |filter: NoteFilter| -> Vec<String> {
            find_notes(&fixture, filter).await.into_iter().map(|note| note.key).collect()
        };
        let licence = || by_search("licence");
        assert_eq!(keys(licence()).await, ["T-2-research", "T-1-blockers", "T-1-research"]);
        let blockers = NoteFilter { r#type: Some("blockers".into()), ..licence() };
        assert_eq!(keys(blockers).await, ["T-1-blockers"]);
        let of_one = NoteFilter { owner: task_owner("T-1"), ..licence() };
        assert_eq!(keys(of_one).await, ["T-1-blockers", "T-1-research"]);
        let research = NoteFilter { r#type: Some("research".into()), ..NoteFilter::default() };
        assert_eq!(keys(research).await, ["T-2-research", "T-1-research"]);
        let found = find_notes(&fixture, licence()).await;
        let excerpt = found[0].excerpt.as_deref().unwrap();
        assert!(excerpt.contains("waits for a **licence** after"), "{excerpt}");
        assert!(excerpt.starts_with('…') && excerpt.len() < 300, "{excerpt}");
    });
}
