//! The projector writes its rows and its cursor together: rows that follow the journal in many rounds, with
//! failures in between, equal those of one that reads it at once.

use actbook::service::Service;
use actbook::store::Row;

use super::{answer_random, projected_rows, rebuilt_rows, run_random, skip_to_next_stretch};
use crate::durability::fixture::ServiceFixture;
use crate::durability::rng::SeededRng;
use crate::memory::random_history;
use crate::store::{Kind, ScratchDatabase, for_each_database};
use crate::waiting::pause;

#[track_caller]
fn assert_same_rows(live: &[Vec<Row>], rebuilt: &[Vec<Row>]) {
    for (live, rebuilt) in live.iter().zip(rebuilt) {
        for (live, rebuilt) in live.iter().zip(rebuilt) {
            assert_eq!(live, rebuilt);
        }
        assert_eq!(live.len(), rebuilt.len());
    }
}

#[test]
fn rebuilt_rows_equal_those_that_followed_a_random_journal() {
    for_each_database(async |scratch| {
        let mut rng = SeededRng::from_env("following");
        let mut fixture = ServiceFixture::with_timed_tools(&scratch.url).await;
        // Two processes take turns, each with its own cache.
        let other = ServiceFixture::open(&scratch.url).await;
        let catch_up = async |service: &Service| service.catch_up(|_| {}).await.unwrap();
        let turns = std::cell::Cell::new(0);
        let between = async || {
            turns.set(turns.get() + 1);
            catch_up(if turns.get() % 3 == 0 { &other.service } else { &fixture.service }).await;
        };
        random_history::run_random_executions(&fixture, &mut rng, 25, between).await;
        let mut ids = Vec::new();
        for number in 0..24 {
            if number % 8 == 7 {
                catch_up(&other.service).await;
                skip_to_next_stretch(&fixture, &scratch).await;
            }
            ids.push(run_random(&mut fixture, &mut rng).await);
            let older = rng.pick(&ids).clone();
            answer_random(&fixture, &mut rng, &older).await;
            if rng.once_in(2) {
                catch_up(&fixture.service).await;
            }
        }
        catch_up(&other.service).await;
        let live = projected_rows(&scratch).await;
        assert!(live.iter().take(7).all(|rows| !rows.is_empty()), "every table has rows");
        assert_same_rows(&live, &rebuilt_rows(&fixture, &scratch).await);

        let erased = fixture.service.journal().cleanup(&fixture.caller, i64::MAX, false).await.unwrap();
        assert!(erased.executions > 0);
        catch_up(&fixture.service).await;
        let live = projected_rows(&scratch).await;
        assert_same_rows(&live, &rebuilt_rows(&fixture, &scratch).await);
    });
}

/// Makes every transaction of the projector fail at its last statement, or stops that.
async fn set_failing(scratch: &ScratchDatabase, fails: bool) {
    let statement = match (scratch.kind, fails) {
        (Kind::Sqlite, true) => {
            "CREATE TRIGGER stop BEFORE INSERT ON hours BEGIN SELECT RAISE(ABORT, 'stopped'); END"
        }
        (Kind::Sqlite, false) => "DROP TRIGGER stop",
        (Kind::Postgres, true) => {
            "CREATE FUNCTION stop() RETURNS TRIGGER LANGUAGE plpgsql AS $$ BEGIN RAISE 'stopped'; END $$; \
             CREATE TRIGGER stop BEFORE INSERT ON hours FOR EACH ROW EXECUTE FUNCTION stop()"
        }
        (Kind::Postgres, false) => "DROP TRIGGER stop ON hours; DROP FUNCTION stop()",
    };
    scratch.execute(statement).await;
}

#[test]
fn projector_that_fails_between_statements_loses_nothing() {
    for_each_database(async |scratch| {
        let mut rng = SeededRng::from_env("failing");
        let mut fixture = ServiceFixture::open(&scratch.url).await;
        for number in 0..12 {
            let id = run_random(&mut fixture, &mut rng).await;
            if number % 3 == 0 {
                set_failing(&scratch, true).await;
                let failed = fixture.service.catch_up(|_| {}).await;
                assert!(failed.is_err(), "the trigger stops the transaction");
                set_failing(&scratch, false).await;
            }
            answer_random(&fixture, &mut rng, &id).await;
            if rng.once_in(3) {
                fixture.service.catch_up(|_| {}).await.unwrap();
            }
        }
        fixture.service.catch_up(|_| {}).await.unwrap();
        let live = projected_rows(&scratch).await;
        assert_same_rows(&live, &rebuilt_rows(&fixture, &scratch).await);
    });
}

#[test]
fn follower_projects_what_is_appended() {
    for_each_database(async |scratch| {
        let mut rng = SeededRng::from_env("follower");
        let mut fixture = ServiceFixture::open(&scratch.url).await;
        let service = fixture.service.clone();
        let following = tokio::spawn(async move { service.follow_journal().await });
        run_random(&mut fixture, &mut rng).await;
        let head = fixture.service.journal().head().await.unwrap().0;
        loop {
            let cursor = "SELECT position FROM caught_up WHERE name = 'executions'";
            let rows = scratch.db.read(cursor, Vec::new()).await.unwrap();
            if rows.first().is_some_and(|row| row.uint(0).unwrap() >= head) {
                break;
            }
            pause().await;
        }
        following.abort();
        let live = projected_rows(&scratch).await;
        assert_same_rows(&live, &rebuilt_rows(&fixture, &scratch).await);
    });
}
