//! Values and rows: written values read back equal, and a wrong column type names its column.

use actbook_engine::id::StreamId;
use actbook_engine::policy::ErrorCategory;

use actbook::store::{Error, Row, SqlValue, Statement, journal, requests};

use super::{TENANT, append, batch, entry, for_each_database, head};

#[test]
fn written_values_read_back_equal() {
    for_each_database(async |scratch| {
        let every_byte: Vec<u8> = (0..=255).collect();
        for at in [i64::MIN, -1, 0, 1, i64::MAX] {
            let request =
                requests::RequestRow { digest: every_byte.clone(), result: "ß✓ '$1' ?1 \\".into(), at };
            let key = at.to_string();
            scratch.db.transact(vec![requests::insert(TENANT, "ada", &key, &request)]).await.unwrap();
            assert_eq!(
                requests::by_key(TENANT, "ada", &key).first(&scratch.db).await.unwrap(),
                Some(request)
            );
        }
        let sql = "SELECT CAST($1 AS BIGINT), CAST($2 AS TEXT), CAST($1 AS BIGINT) + 1, CAST($3 AS TEXT)";
        let params = vec![SqlValue::Int(41), SqlValue::from("x"), SqlValue::Null];
        let rows = scratch.db.read(sql, params).await.unwrap();
        assert_eq!(rows, [Row::new(vec![SqlValue::Int(41), "x".into(), SqlValue::Int(42), SqlValue::Null])]);
    });
}

#[test]
fn read_many_answers_in_order() {
    for_each_database(async |scratch| {
        let sets = (0..50).map(|number| vec![SqlValue::Int(number)]).collect();
        let answers = scratch.db.read_many("SELECT CAST($1 AS BIGINT)", sets).await.unwrap();
        let numbers: Vec<i64> = answers.iter().map(|rows| rows[0].int(0).unwrap()).collect();
        assert_eq!(numbers, (0..50).collect::<Vec<i64>>());
    });
}

#[test]
fn wrong_column_type_names_the_column() {
    let row =
        Row::new(vec![SqlValue::Int(-1), SqlValue::from("x"), SqlValue::Null, SqlValue::from(vec![1, 2])]);
    let wrong = |column, wanted, found| Err(Error::WrongColumn { column, wanted, found });
    assert_eq!(row.int(1), wrong(1, "a number", "text").map(|()| 0));
    assert_eq!(row.uint(0), wrong(0, "a number from 0", "a number").map(|()| 0));
    assert_eq!(row.text(2), wrong(2, "text", "null").map(|()| ""));
    assert_eq!(row.hash(3), wrong(3, "32 bytes", "bytes").map(|()| [0; 32]));
    assert_eq!(row.bytes(4), wrong(4, "bytes", "nothing").map(|()| [0; 0].as_slice()));
    assert_eq!(row.optional_int(2), Ok(None));
    assert_eq!(row.optional_int(4), wrong(4, "a number", "nothing").map(|()| None));
    assert_eq!(row.int(1).unwrap_err().to_string(), "column 1 of a row holds text where a number belongs");
}

#[test]
fn failed_statement_rolls_the_transaction_back() {
    for_each_database(async |scratch| {
        let request = requests::RequestRow { digest: vec![1], result: "{}".into(), at: 5 };
        let insert = || requests::insert(TENANT, "ada", "k", &request);
        let twice = scratch.db.transact(vec![insert(), insert()]).await;
        assert!(matches!(twice, Err(Error::Constraint(_))), "{twice:?}");
        assert_eq!(requests::by_key(TENANT, "ada", "k").first(&scratch.db).await.unwrap(), None);
        let count = Statement::new("SELECT COUNT(*) FROM requests", vec![]);
        let answers = scratch.db.transact(vec![insert(), count]).await.unwrap();
        assert_eq!(answers[1][0].int(0), Ok(1), "a statement sees the effects of earlier ones");
        scratch.db.transact(vec![requests::erase_before(TENANT, 5)]).await.unwrap();
        assert!(requests::by_key(TENANT, "ada", "k").first(&scratch.db).await.unwrap().is_some());
        scratch.db.transact(vec![requests::erase_before(TENANT, 6)]).await.unwrap();
        assert_eq!(requests::by_key(TENANT, "ada", "k").first(&scratch.db).await.unwrap(), None);
    });
}

#[test]
fn entry_filter_selects_matching_entries() {
    for_each_database(async |scratch| {
        let db = &scratch.db;
        let mut entries: Vec<_> = ["Alpha beta", "100% sure", "a_b", "alpha"]
            .iter()
            .zip(1..)
            .map(|(body, position)| entry(position, body))
            .collect();
        entries[1].actor = "agent:hal".into();
        entries[2].kind = "asked".into();
        entries[3].stream = StreamId(4);
        append(&mut db.appender().unwrap(), &batch(head(db), entries, vec![])).unwrap();
        let check = async |filter: journal::EntryFilter, limit, expected: &[u64]| {
            let found = journal::list(db.dialect(), TENANT, &filter, limit).all(db).await.unwrap();
            let positions: Vec<u64> = found.iter().map(|entry| entry.position).collect();
            assert_eq!(positions, expected, "{filter:?}");
        };
        let any = journal::EntryFilter::default;
        let words = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect::<Vec<_>>();
        check(any(), 10, &[1, 2, 3, 4]).await;
        check(any(), 2, &[1, 2]).await;
        check(journal::EntryFilter { after: 2, ..any() }, 1, &[3]).await;
        check(journal::EntryFilter { stream: Some(StreamId(4)), ..any() }, 10, &[4]).await;
        check(journal::EntryFilter { kind: Some("asked".into()), ..any() }, 10, &[3]).await;
        check(journal::EntryFilter { actor: Some("agent:hal".into()), ..any() }, 10, &[2]).await;
        check(journal::EntryFilter { since: Some(1_002), until: Some(1_004), ..any() }, 10, &[2, 3]).await;
        check(journal::EntryFilter { words: words(&["ALPHA"]), ..any() }, 10, &[1, 4]).await;
        check(journal::EntryFilter { words: words(&["alpha", "beta"]), ..any() }, 10, &[1]).await;
        check(
            journal::EntryFilter { words: words(&["alpha"]), stream: Some(StreamId(4)), ..any() },
            10,
            &[4],
        )
        .await;
        check(journal::EntryFilter { words: words(&["0% s"]), ..any() }, 10, &[2]).await;
        check(journal::EntryFilter { words: words(&["a_b"]), ..any() }, 10, &[3]).await;
        check(journal::EntryFilter { words: words(&["hal"]), ..any() }, 10, &[2]).await;
        check(journal::EntryFilter { after: 1, through: Some(3), ..any() }, 10, &[2, 3]).await;
        check(journal::EntryFilter { category: Some(ErrorCategory::Timeout), ..any() }, 10, &[]).await;
    });
}
