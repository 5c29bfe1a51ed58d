//! Notes in the store: the newest value wins, no update is lost, a deleted note stays in history only, an
//! erased note is gone.

use std::sync::Arc;

use actbook::caller::{Caller, IdempotencyKey};
use actbook::service::{NoteFilter, NoteOwnerRef};
use actbook::store::{Db, notes};
use serde_json::json;

use super::{by_key, by_search, find_notes, note, set_note, task_owner};
use crate::durability::fixture::{self, ServiceFixture};
use crate::store::{TENANT, for_each_database};

#[test]
fn newest_value_of_a_key_wins_and_history_lists_older_ones() {
    for_each_database(async |scratch| {
        let fixture = ServiceFixture::open(&scratch.url).await;
        let mut given = note("db-port", 5432);
        given.r#type = Some("decisions".into());
        given.metadata = Some(json!({ "sure": 0.5 }));
        let first = set_note(&fixture, given).await;
        let second = set_note(&fixture, note("db-port", json!({ "port": 5433 }))).await;
        assert_eq!((first.version, second.version), (1, 2));
        assert!(second.position > first.position);

        let found = find_notes(&fixture, by_key("db-port")).await;
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].value, json!({ "port": 5433 }));
        assert_eq!(found[0].r#type, "decisions", "an omitted type is kept");
        assert_eq!((found[0].position, found[0].author.as_str()), (second.position, "person:ada"));
        let history = NoteFilter { history: true, ..by_key("db-port") };
        let history = find_notes(&fixture, history).await[0].history.clone().unwrap();
        let values: Vec<_> = history.iter().map(|value| value.value.clone().unwrap()).collect();
        assert_eq!(values, [json!({ "port": 5433 }), json!(5432)]);
        assert_eq!(history[1].metadata, Some(json!({ "sure": 0.5 })));
        assert_eq!(history[1].position, first.position);
        assert!(
            find_notes(&fixture, by_search("5432")).await.is_empty(),
            "only the newest value is searchable"
        );
        fixture.assert_verifies().await;
    });
}

#[test]
fn same_key_in_different_scopes_is_different_notes() {
    for_each_database(async |scratch| {
        let fixture = ServiceFixture::open(&scratch.url).await;
        let (execution, _) =
            fixture.run(&fixture::plan("p", &[fixture::step("s", "t/ok", "word")]), None).await;
        let of_plan = NoteOwnerRef { plan: Some("p".into()), ..NoteOwnerRef::default() };
        let of_execution = NoteOwnerRef { execution: Some(execution.clone()), ..NoteOwnerRef::default() };
        for owner in
            [NoteOwnerRef::default(), task_owner("T-1"), task_owner("T-2"), of_plan.clone(), of_execution]
        {
            let value = format!("{owner:?}");
            set_note(&fixture, actbook::service::NoteSpec { owner, ..note("state", value) }).await;
        }
        assert_eq!(find_notes(&fixture, by_key("state")).await.len(), 5);
        let mine = find_notes(&fixture, NoteFilter { owner: task_owner("T-2"), ..by_key("state") }).await;
        assert_eq!((mine.len(), mine[0].owner.task.as_deref()), (1, Some("T-2")));
        let plans =
            find_notes(&fixture, NoteFilter { owner: of_plan.clone(), ..NoteFilter::default() }).await;
        assert!(plans[0].owner.plan_id.is_some());
        let several = NoteOwnerRef { task: Some("T-1".into()), ..of_plan };
        let given = actbook::service::NoteSpec { owner: several, ..note("state", 1) };
        assert_eq!(
            fixture.service.notes().set(&fixture.caller, given).await.unwrap_err().code(),
            "several_owners"
        );
        let unclear =
            fixture.service.notes().delete(&fixture.caller, "state", &NoteOwnerRef::default()).await;
        assert_eq!(unclear.unwrap_err().code(), "ambiguous");
    });
}

#[test]
fn deleted_note_is_not_found_and_stays_in_history() {
    for_each_database(async |scratch| {
        let fixture = ServiceFixture::open(&scratch.url).await;
        set_note(&fixture, note("zebra", "stripes of a zebra")).await;
        let deleted =
            fixture.service.notes().delete(&fixture.caller, "zebra", &NoteOwnerRef::default()).await.unwrap();
        assert!(deleted.deleted);
        for filter in [by_key("zebra"), by_search("zebra"), by_search("stripes"), NoteFilter::default()] {
            assert!(find_notes(&fixture, filter).await.is_empty());
        }
        let words = scratch.db.read("SELECT COUNT(*) FROM note_words", vec![]).await.unwrap();
        assert_eq!(words[0].int(0).unwrap(), 0, "its search tokens are deleted");
        let again = fixture.service.notes().delete(&fixture.caller, "zebra", &NoteOwnerRef::default()).await;
        assert_eq!(again.unwrap_err().code(), "no_such_note");
        let trace = find_notes(&fixture, NoteFilter { history: true, ..by_key("zebra") }).await;
        let history = trace[0].history.clone().unwrap();
        assert!(trace[0].deleted && history[0].deleted);
        assert_eq!(history[1].value, Some(json!("stripes of a zebra")));

        let back = set_note(&fixture, note("zebra", "back again")).await;
        assert_eq!(back.version, 3, "its history continues");
        assert_eq!(find_notes(&fixture, by_search("zebra")).await[0].value, json!("back again"));
        assert!(find_notes(&fixture, by_search("stripes")).await.is_empty());
        fixture.assert_verifies().await;
    });
}

#[test]
fn expired_note_is_not_found() {
    for_each_database(async |scratch| {
        let fixture = ServiceFixture::open(&scratch.url).await;
        let gone = actbook::service::NoteSpec { expires_in_ms: Some(-1), ..note("token", "rotated today") };
        set_note(&fixture, gone).await;
        let later =
            actbook::service::NoteSpec { expires_in_ms: Some(3_600_000), ..note("lock", "held today") };
        set_note(&fixture, later).await;
        assert!(find_notes(&fixture, by_key("token")).await.is_empty());
        let found = find_notes(&fixture, by_search("today")).await;
        assert_eq!((found.len(), found[0].key.as_str()), (1, "lock"));
        assert!(found[0].expires_at.is_some());
    });
}

#[test]
fn thirteen_concurrent_updates_are_all_in_history() {
    for_each_database(async |scratch| {
        let (fixture, other) =
            (ServiceFixture::open(&scratch.url).await, ServiceFixture::open(&scratch.url).await);
        let writes = (0..13).map(|number| {
            let from = if number % 2 == 0 { &fixture } else { &other };
            set_note(from, note("count", number))
        });
        let written = futures_util::future::join_all(writes).await;
        let last = written.iter().max_by_key(|written| written.position).unwrap();
        assert_eq!(last.version, 13);
        let found = find_notes(&fixture, NoteFilter { history: true, ..by_key("count") }).await;
        let history = found[0].history.clone().unwrap();
        assert_eq!(history.len(), 13);
        let mut values: Vec<i64> =
            history.iter().map(|value| value.value.as_ref().unwrap().as_i64().unwrap()).collect();
        assert_eq!(Some(found[0].value.clone()), history[0].value);
        values.sort_unstable();
        assert_eq!(values, (0..13).collect::<Vec<_>>());
        fixture.assert_verifies().await;
    });
}

#[test]
fn hundred_concurrent_writers_lose_no_note() {
    const WRITERS: u64 = 100;
    const EACH: u64 = 5;
    for_each_database(async |scratch| {
        let fixtures = [ServiceFixture::open(&scratch.url).await, ServiceFixture::open(&scratch.url).await];
        let fixtures = Arc::new(fixtures);
        let mut work = tokio::task::JoinSet::new();
        for writer in 0..WRITERS {
            let fixtures = fixtures.clone();
            work.spawn(async move {
                let fixture = &fixtures[usize::try_from(writer % 2).unwrap()];
                for round in 0..EACH {
                    // One key per writer, and one key that all of them write.
                    set_note(fixture, note(&format!("w{writer}"), format!("own{writer} r{round}"))).await;
                    set_note(fixture, note("shared", format!("{writer}.{round}"))).await;
                    let seen = find_notes(fixture, by_search(&format!("own{writer}"))).await;
                    assert_eq!(seen.len(), 1, "an acknowledged note is found");
                    assert_eq!(seen[0].value, json!(format!("own{writer} r{round}")));
                }
            });
        }
        while let Some(ended) = work.join_next().await {
            ended.unwrap();
        }
        let fixture = &fixtures[0];
        let shared = find_notes(fixture, NoteFilter { history: true, ..by_key("shared") }).await;
        assert_eq!(shared[0].version, WRITERS * EACH);
        let rows = notes::all(TENANT).all(&scratch.db).await.unwrap();
        assert_eq!(rows.len() as u64, WRITERS + 1);
        assert!(rows.iter().filter(|row| row.key != "shared").all(|row| row.version == EACH));
        let verified = fixture.assert_verifies().await;
        assert_eq!(verified.entries, 2 * WRITERS * EACH);
    });
}

#[test]
fn repeated_request_key_writes_one_note() {
    for_each_database(async |scratch| {
        let fixture = ServiceFixture::open(&scratch.url).await;
        let key = |request: &str| IdempotencyKey::new("k", &json!(request));
        let caller = Caller::new("agent:a").with_key(Some(key("one")));
        let first = fixture.service.notes().set(&caller, note("n", 1)).await.unwrap();
        let second = fixture.service.notes().set(&caller, note("n", 1)).await.unwrap();
        assert_eq!(first, second);
        let other = caller.with_key(Some(key("two")));
        assert_eq!(fixture.service.notes().set(&other, note("n", 2)).await.unwrap_err().code(), "key_reused");
        assert_eq!(find_notes(&fixture, by_key("n")).await[0].version, 1);
    });
}

type NoteRows = (Vec<notes::NoteRow>, Vec<Vec<(String, u64)>>);

/// The note rows, and the results of several searches.
async fn rows_and_search_results(db: &Db, fixture: &ServiceFixture) -> NoteRows {
    let mut found = Vec::new();
    for words in ["alpha", "beta*", "\"gamma delta\"", "都"] {
        let notes = find_notes(fixture, by_search(words)).await;
        found.push(notes.into_iter().map(|note| (note.key, note.position)).collect());
    }
    (notes::all(TENANT).all(db).await.unwrap(), found)
}

#[test]
fn rebuilt_notes_equal_the_live_ones() {
    for_each_database(async |scratch| {
        let fixture = ServiceFixture::open(&scratch.url).await;
        set_note(&fixture, note("alpha", "one")).await;
        set_note(&fixture, note("beta", "alpha and betas")).await;
        set_note(&fixture, note("beta", "alpha and gamma delta")).await;
        set_note(&fixture, note("gone", "alpha")).await;
        fixture.service.notes().delete(&fixture.caller, "gone", &NoteOwnerRef::default()).await.unwrap();
        set_note(&fixture, note("erased", "alpha")).await;
        fixture.service.notes().delete(&fixture.caller, "erased", &NoteOwnerRef::default()).await.unwrap();
        fixture.service.journal().cleanup(&fixture.caller, i64::MAX, false).await.unwrap();
        set_note(&fixture, note("erased", "alpha anew 東京都")).await;
        set_note(&fixture, note("gone-again", "alpha")).await;
        fixture
            .service
            .notes()
            .delete(&fixture.caller, "gone-again", &NoteOwnerRef::default())
            .await
            .unwrap();
        let live = rows_and_search_results(&scratch.db, &fixture).await;
        assert_eq!(live.1.iter().map(Vec::len).collect::<Vec<_>>(), [3, 1, 1, 1]);
        let damages = [
            "SELECT 1",
            "DELETE FROM notes",
            "DELETE FROM note_words",
            "UPDATE notes SET deleted = 0, version = 9, type = 'x'",
        ];
        for damage in damages {
            scratch.execute(damage).await;
            fixture.service.journal().rebuild().await.unwrap();
            assert_eq!(rows_and_search_results(&scratch.db, &fixture).await, live, "after {damage}");
        }
        fixture.assert_verifies().await;
        assert_eq!(set_note(&fixture, note("gone-again", 1)).await.version, 3);
    });
}

#[test]
fn cleanup_erases_deleted_and_expired_notes_and_those_of_ended_executions() {
    for_each_database(async |scratch| {
        let fixture = ServiceFixture::open(&scratch.url).await;
        let (id, _) = fixture.run(&fixture::plan("p", &[fixture::step("s", "t/ok", "word")]), None).await;
        let of_execution = NoteOwnerRef { execution: Some(id), ..NoteOwnerRef::default() };
        let canary = "canaryword";
        let given = |key: &str| note(key, canary);
        set_note(&fixture, actbook::service::NoteSpec { owner: of_execution, ..given("ended") }).await;
        set_note(&fixture, actbook::service::NoteSpec { expires_in_ms: Some(-1), ..given("expired") }).await;
        set_note(&fixture, given("deleted")).await;
        fixture.service.notes().delete(&fixture.caller, "deleted", &NoteOwnerRef::default()).await.unwrap();
        set_note(&fixture, note("kept", "stays")).await;
        let tried = fixture.service.journal().cleanup(&fixture.caller, i64::MAX, true).await.unwrap();
        assert_eq!((tried.notes, tried.executions), (3, 1));
        let cleaned = fixture.service.journal().cleanup(&fixture.caller, i64::MAX, false).await.unwrap();
        assert_eq!(cleaned.notes, 3);
        fixture.assert_verifies().await;
        assert!(find_notes(&fixture, by_search(canary)).await.is_empty());
        assert_eq!(find_notes(&fixture, by_search("stays")).await.len(), 1);
        if scratch.kind == crate::store::Kind::Sqlite {
            let bytes = std::fs::read(scratch.file()).unwrap();
            let holds = bytes.windows(canary.len()).any(|window| window == canary.as_bytes());
            assert!(!holds, "the erased text is still in the file");
        }
        assert_eq!(
            set_note(&fixture, note("deleted", "anew")).await.version,
            1,
            "an erased note restarts at version 1"
        );
        fixture.assert_verifies().await;
    });
}

#[test]
fn invalid_or_oversized_notes_are_refused() {
    for_each_database(async |scratch| {
        let fixture = ServiceFixture::open(&scratch.url).await;
        let long = "k".repeat(201);
        for key in ["", "  ", "a\nb", long.as_str()] {
            let refused = fixture.service.notes().set(&fixture.caller, note(key, 1)).await.unwrap_err();
            assert_eq!(refused.code(), "invalid_name", "{key:?}");
        }
        let large = "x".repeat(300_000);
        assert_eq!(
            fixture.service.notes().set(&fixture.caller, note("k", large)).await.unwrap_err().code(),
            "too_large"
        );
        assert_eq!(set_note(&fixture, note("k", 1)).await.version, 1, "a refused note writes nothing");
        fixture.assert_verifies().await;
    });
}
