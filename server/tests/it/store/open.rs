//! Opening: concurrent opens create the schema once, and foreign databases and unsafe servers are refused.

use actbook::config::DatabaseOptions;
use actbook::store::{Db, Error, Statement};

use super::{Kind, create_storage, head, open, run_on};
use crate::postgres;

#[test]
fn concurrent_opens_create_one_schema() {
    for kind in [Kind::Sqlite, Kind::Postgres] {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        runtime.block_on(async {
            let (_storage, url) = create_storage(kind).await;
            let openings = (0..8).map(|_| {
                let url = url.clone();
                tokio::spawn(async move { open(&url).await })
            });
            let mut opened = Vec::new();
            for opening in openings.collect::<Vec<_>>() {
                opened.push(opening.await.unwrap());
            }
            for db in &opened {
                assert_eq!(head(db).position, 0);
            }
            let rows = opened[0].read("SELECT name FROM migrations ORDER BY name", vec![]).await.unwrap();
            let names: Vec<&str> = rows.iter().map(|row| row.text(0).unwrap()).collect();
            assert!(names.is_sorted_by(|one, next| one < next), "each once: {names:?}");
            assert_eq!(names.first(), Some(&"0001_journal"));
        });
    }
}

#[test]
fn every_migration_file_is_applied() {
    super::for_each_database(async |scratch| {
        let folder = match scratch.kind {
            Kind::Sqlite => "migrations/sqlite",
            Kind::Postgres => "migrations/postgres",
        };
        let files = std::fs::read_dir(std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(folder)).unwrap();
        let mut names: Vec<String> =
            files.map(|file| file.unwrap().path().file_stem().unwrap().to_str().unwrap().into()).collect();
        names.sort();
        let rows = scratch.db.read("SELECT name FROM migrations ORDER BY name", vec![]).await.unwrap();
        let applied: Vec<String> = rows.iter().map(|row| row.text(0).unwrap().to_owned()).collect();
        assert_eq!(applied, names);
    });
}

#[test]
fn migration_killed_half_way_is_repeated() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("book.db");
    // What such a crash leaves: an empty file in WAL mode.
    rusqlite::Connection::open(&file).unwrap().pragma_update(None, "journal_mode", "wal").unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let db = runtime.block_on(open(file.to_str().unwrap()));
    assert_eq!(head(&db).position, 0);
}

#[test]
fn database_of_a_newer_version_is_refused_unchanged() {
    super::for_each_database(async |scratch| {
        let later = "INSERT INTO migrations (name, at) VALUES ('9999_later', 1)";
        let missing = "DELETE FROM migrations WHERE name = '0015_hot_path'";
        let changes = [later, missing].map(|sql| Statement::new(sql, vec![]));
        scratch.db.transact(changes.to_vec()).await.unwrap();
        let refused = Db::open(&scratch.url, DatabaseOptions::default()).await.unwrap_err().to_string();
        assert!(refused.contains("`9999_later`, which this Actbook does not know"), "{refused}");
        let rows = scratch.db.read("SELECT name FROM migrations ORDER BY name", vec![]).await.unwrap();
        assert!(rows.iter().all(|row| row.text(0).unwrap() != "0015_hot_path"), "it was migrated");
    });
}

#[test]
fn database_of_another_program_is_refused_unchanged() {
    let schemas = [
        "CREATE TABLE journal (x)",
        "CREATE TABLE migrations (name TEXT, at BIGINT); INSERT INTO migrations VALUES ('0001_init', 1)",
        "CREATE TABLE urls (id INTEGER PRIMARY KEY AUTOINCREMENT, url TEXT)",
    ];
    let runtime = tokio::runtime::Runtime::new().unwrap();
    for schema in schemas {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("theirs.db");
        rusqlite::Connection::open(&file).unwrap().execute_batch(schema).unwrap();
        let before = std::fs::read(&file).unwrap();
        let refused =
            runtime.block_on(Db::open(file.to_str().unwrap(), DatabaseOptions::default())).unwrap_err();
        assert_eq!(refused, Error::ForeignDatabase { file: file.display().to_string() }, "{schema}");
        assert_eq!(std::fs::read(&file).unwrap(), before, "{schema}");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "no other file was created");
    }
}

#[test]
fn empty_file_becomes_a_database() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("book.db");
    std::fs::write(&file, "").unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    assert_eq!(head(&runtime.block_on(open(file.to_str().unwrap()))).position, 0);
}

#[test]
fn server_without_sync_is_refused_unless_allowed() {
    run_on(Kind::Postgres, async |scratch| {
        let url = postgres::url_without_sync(&scratch.url);
        let refused = Db::open(&url, DatabaseOptions::default()).await.unwrap_err();
        assert_eq!(refused, Error::UnsafeDurability { setting: "synchronous_commit" });
        Db::open(&url, DatabaseOptions { unsafe_durability: true, ..Default::default() }).await.unwrap();
    });
}

#[test]
fn open_error_names_the_address_without_the_password() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let url = "postgres://ada:secret@127.0.0.1:1/book";
        let error = Db::open(url, DatabaseOptions::default()).await.unwrap_err().to_string();
        assert!(error.contains("postgres://ada@127.0.0.1:1/book"), "{error}");
        assert!(!error.contains("secret"), "{error}");
        let error =
            Db::open("/proc/nowhere/book.db", DatabaseOptions::default()).await.unwrap_err().to_string();
        assert!(error.contains("/proc/nowhere/book.db"), "{error}");
    });
}

#[test]
fn read_succeeds_after_connections_are_terminated() {
    run_on(Kind::Postgres, async |scratch| {
        assert_eq!(head(&scratch.db).position, 0);
        postgres::terminate_connections(&scratch.url).await;
        assert_eq!(head(&scratch.db).position, 0);
    });
}
