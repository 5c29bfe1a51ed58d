//! The projections: found by prefix, listed newest first, updated and erased.

use actbook_engine::id::{StreamId, TenantId};
use actbook_engine::policy::ExecutionStatus;

use actbook::store::execution_filter::ExecutionFilter;
use actbook::store::execution_list::{self, ExecutionQuery};
use actbook::store::{Db, Dialect, Error, PrefixMatch, Statement, executions, payloads, plans};

use super::{Kind, TENANT, append, batch, entry, for_each_database, head};

pub fn execution_row(id: u64, public_id: &str, status: &str) -> executions::ExecutionRow {
    let is_open = matches!(status, "running" | "paused" | "blocked" | "compensating");
    executions::ExecutionRow {
        id: StreamId(id),
        public_id: public_id.into(),
        plan: "p1".into(),
        plan_name: "publish".into(),
        plan_version: 1,
        task: id.is_multiple_of(2).then(|| "TASK-1".into()),
        project: None,
        status: status.into(),
        toolset: "here".into(),
        node: None,
        epoch: 1,
        started_at: 100 * i64::try_from(id).expect("a small id"),
        ended_at: (!is_open).then_some(1_000),
        wake_at: None,
        done: None,
        total: Some(3),
        first_error: None,
    }
}

/// The ids of the executions that pass, as a list shows them.
async fn listed_ids(db: &Db, within: Option<&str>, filter: &ExecutionFilter, limit: u64) -> Vec<u64> {
    let query = ExecutionQuery { filter, within, waiting_after_end: false };
    let rows = execution_list::list(db, TENANT, &query, limit).await.unwrap();
    rows.iter().map(|row| row.id.0).collect()
}

async fn insert_executions(db: &Db, rows: &[executions::ExecutionRow]) {
    db.transact(rows.iter().map(|row| executions::insert(TENANT, row)).collect()).await.unwrap();
}

#[test]
fn execution_is_found_by_a_unique_id_prefix() {
    for_each_database(async |scratch| {
        let db = &scratch.db;
        let rows = [
            execution_row(1, "abc", "running"),
            execution_row(2, "abcd", "running"),
            execution_row(3, "b1", "failed"),
            execution_row(4, "B2", "failed"),
        ];
        insert_executions(db, &rows).await;
        let check = async |prefix: &str, expected| {
            assert_eq!(
                executions::find_by_prefix(db, TENANT, None, prefix).await.unwrap(),
                expected,
                "{prefix}"
            );
        };
        check("abc", PrefixMatch::One(rows[0].clone())).await;
        check("abcd", PrefixMatch::One(rows[1].clone())).await;
        check("b", PrefixMatch::One(rows[2].clone())).await;
        check("ab", PrefixMatch::Several).await;
        check("", PrefixMatch::None).await;
        check("x", PrefixMatch::None).await;
        assert_eq!(executions::by_id(TENANT, StreamId(3)).first(db).await.unwrap(), Some(rows[2].clone()));
        assert_eq!(
            executions::find_by_prefix(db, TenantId(TENANT.0 + 1), None, "abc").await.unwrap(),
            PrefixMatch::None
        );
    });
}

#[test]
fn oldest_execution_is_searched_within_the_boundary() {
    for_each_database(async |scratch| {
        let db = &scratch.db;
        let of = |project: &str, row| executions::ExecutionRow { project: Some(project.to_owned()), ..row };
        let rows = [of("a", execution_row(1, "a1", "failed")), of("b", execution_row(3, "b1", "failed"))];
        insert_executions(db, &rows).await;
        let oldest = async |within| {
            let failed = Some(ExecutionStatus::Failed);
            let found =
                executions::oldest(TENANT, within, Some("publish"), None, failed).first(db).await.unwrap();
            found.map(|row| row.public_id)
        };
        assert_eq!(oldest(None).await.as_deref(), Some("a1"));
        assert_eq!(oldest(Some("b")).await.as_deref(), Some("b1"));
        assert_eq!(oldest(Some("c")).await, None);
    });
}

#[test]
fn executions_outside_the_project_boundary_are_not_found() {
    for_each_database(async |scratch| {
        let db = &scratch.db;
        let of = |project: Option<&str>, row| executions::ExecutionRow {
            project: project.map(str::to_owned),
            ..row
        };
        let rows = [
            of(Some("a"), execution_row(1, "aa1", "failed")),
            of(Some("b"), execution_row(2, "aa2", "failed")),
            of(None, execution_row(3, "ab3", "failed")),
        ];
        insert_executions(db, &rows).await;
        let found =
            async |within, prefix| executions::find_by_prefix(db, TENANT, within, prefix).await.unwrap();
        assert_eq!(found(None, "aa1").await, PrefixMatch::One(rows[0].clone()));
        assert_eq!(found(Some("a"), "aa1").await, PrefixMatch::One(rows[0].clone()));
        assert_eq!(found(Some("b"), "aa1").await, PrefixMatch::None);
        assert_eq!(
            found(Some("b"), "aa").await,
            PrefixMatch::One(rows[1].clone()),
            "a prefix matches only executions within the project"
        );
        assert_eq!(found(Some("b"), "ab3").await, PrefixMatch::One(rows[2].clone()), "older than projects");
        let listed = async |within: Option<&str>, project: Option<&str>| {
            let filter = ExecutionFilter { project: project.map(str::to_owned), ..Default::default() };
            listed_ids(db, within, &filter, 10).await
        };
        assert_eq!(listed(None, None).await, [3, 2, 1]);
        assert_eq!(listed(Some("a"), None).await, [3, 1]);
        assert_eq!(listed(None, Some("a")).await, [1]);
        assert_eq!(listed(Some("b"), Some("a")).await, Vec::<u64>::new());
        let ended = executions::ended_before(TENANT, Some("b"), 2_000, 0, 10).all(db).await.unwrap();
        assert_eq!(ended.iter().map(|row| row.id.0).collect::<Vec<_>>(), [2, 3]);
    });
}

#[test]
fn executions_are_listed_newest_first() {
    for_each_database(async |scratch| {
        let db = &scratch.db;
        let statuses = ["running", "failed", "running", "succeeded", "failed"];
        let rows: Vec<_> = statuses
            .iter()
            .zip(1..)
            .map(|(status, id)| execution_row(id, &format!("e{id}"), status))
            .collect();
        insert_executions(db, &rows).await;
        let check = async |filter: ExecutionFilter, limit, expected: &[u64]| {
            assert_eq!(listed_ids(db, None, &filter, limit).await, expected, "{filter:?}");
        };
        let any = ExecutionFilter::default;
        let failed = || ExecutionStatus::Failed.into();
        check(any(), 10, &[5, 4, 3, 2, 1]).await;
        check(any(), 2, &[5, 4]).await;
        check(ExecutionFilter { before: Some(4), ..any() }, 2, &[3, 2]).await;
        check(ExecutionFilter { status: failed(), ..any() }, 10, &[5, 2]).await;
        check(ExecutionFilter { status: failed(), before: Some(5), ..any() }, 10, &[2]).await;
        check(ExecutionFilter { since: Some(300), ..any() }, 10, &[5, 4, 3]).await;
        check(ExecutionFilter { since: Some(300), status: failed(), ..any() }, 10, &[5]).await;
        let ended = executions::ended_before(TENANT, None, 1_001, 0, 10).all(db).await.unwrap();
        assert_eq!(ended.iter().map(|row| row.id.0).collect::<Vec<_>>(), [2, 4, 5]);
        assert_eq!(executions::ended_before(TENANT, None, 1_000, 0, 10).all(db).await.unwrap(), []);
    });
}

#[test]
fn execution_row_is_updated_and_erased() {
    for_each_database(async |scratch| {
        let db = &scratch.db;
        insert_executions(db, &[execution_row(1, "e1", "running"), execution_row(2, "e2", "running")]).await;
        let change = executions::ExecutionChange {
            status: "blocked",
            toolset: "there",
            node: Some("s1"),
            epoch: 2,
            ended_at: None,
            done: None,
            total: Some(3),
            first_error: None,
            wake_at: Some(7),
        };
        db.transact(vec![executions::update(TENANT, StreamId(1), &change)]).await.unwrap();
        let changed = executions::ExecutionRow {
            status: "blocked".into(),
            toolset: "there".into(),
            node: Some("s1".into()),
            epoch: 2,
            done: None,
            total: Some(3),
            first_error: None,
            wake_at: Some(7),
            ..execution_row(1, "e1", "running")
        };
        assert_eq!(executions::by_id(TENANT, StreamId(1)).first(db).await.unwrap(), Some(changed));
        // PostgreSQL has no such CHECK: it would evaluate it for every statement.
        for status in ["ended", "failed"].into_iter().filter(|_| db.dialect() == Dialect::Sqlite) {
            let wrong = executions::ExecutionChange { status, ..change.clone() };
            let refused = db.transact(vec![executions::update(TENANT, StreamId(1), &wrong)]).await;
            assert!(matches!(refused, Err(Error::Constraint(_))), "{refused:?}");
        }
        db.transact(vec![executions::erase_all(TENANT)]).await.unwrap();
        assert_eq!(executions::all(TENANT).all(db).await.unwrap(), []);
    });
}

fn plan_row(id: &str, name: &str, version: u64) -> plans::PlanRow {
    plans::PlanRow {
        id: id.into(),
        name: name.into(),
        version,
        digest: format!("{id}-{version}"),
        position: version,
        saved_at: 5,
        steps: 3,
        deleted: false,
        task: None,
        template: false,
        project: None,
        everywhere: false,
    }
}

#[test]
fn plan_is_found_by_name_or_id_prefix_at_its_newest_version() {
    for_each_database(async |scratch| {
        let db = &scratch.db;
        let rows = [
            plan_row("pa1", "publish", 1),
            plan_row("pa1", "publish", 2),
            plan_row("pb1", "pa", 1),
            plan_row("pb2", "q", 1),
        ];
        db.transact(rows.iter().map(|row| plans::insert(TENANT, row)).collect()).await.unwrap();
        let check = async |wanted: &str, expected| {
            assert_eq!(
                plans::find_by_name_or_id(db, TENANT, None, "home", wanted).await.unwrap(),
                expected,
                "{wanted}"
            );
        };
        check("publish", PrefixMatch::One(rows[1].clone())).await;
        check("pa1", PrefixMatch::One(rows[1].clone())).await;
        check("pa", PrefixMatch::One(rows[2].clone())).await;
        check("pb", PrefixMatch::Several).await;
        check("nothing", PrefixMatch::None).await;
        assert_eq!(plans::by_version(TENANT, "pa1", 1).first(db).await.unwrap(), Some(rows[0].clone()));
        let listed = plans::list(TENANT, None, 10).all(db).await.unwrap();
        assert_eq!(listed, [rows[2].clone(), rows[1].clone(), rows[3].clone()]);

        let again = plans::insert(TENANT, &plan_row("pc1", "publish", 2));
        let taken = db.transact(vec![again.clone()]).await;
        assert!(matches!(taken, Err(Error::Constraint(_))), "a plan name is unique: {taken:?}");
        db.transact(vec![plans::mark_deleted(TENANT, "pa1"), again]).await.unwrap();
        check("publish", PrefixMatch::One(plan_row("pc1", "publish", 2))).await;
        check("pa1", PrefixMatch::None).await;
        let deleted = plans::by_version(TENANT, "pa1", 2).first(db).await.unwrap();
        assert!(deleted.is_some_and(|row| row.deleted), "executions still name it");
        assert_eq!(plans::all(TENANT).all(db).await.unwrap().len(), 5);
    });
}

#[test]
fn erasing_one_execution_leaves_other_payloads() {
    for_each_database(async |scratch| {
        let db = &scratch.db;
        let mut entries: Vec<_> = (1..=4).map(|position| entry(position, "x")).collect();
        entries[2].stream = StreamId(3);
        let salts = vec![
            payloads::insert_salt(TENANT, StreamId(1), b"one"),
            payloads::insert_salt(TENANT, StreamId(3), b"three"),
        ];
        append(&mut db.appender().unwrap(), &batch(head(db), entries, salts)).unwrap();
        assert_eq!(payloads::by_stream(db.dialect(), TENANT, StreamId(1)).all(db).await.unwrap().len(), 3);
        db.transact(vec![
            payloads::erase_of_stream(db.dialect(), TENANT, StreamId(1)),
            payloads::erase_salt(TENANT, StreamId(1)),
        ])
        .await
        .unwrap();
        let left = payloads::between(TENANT, 0, 4).all(db).await.unwrap();
        assert_eq!(left.iter().map(|payload| payload.position).collect::<Vec<_>>(), [3]);
        assert_eq!(
            payloads::salts_between(TENANT, 0, u64::MAX).all(db).await.unwrap(),
            [(StreamId(3), b"three".to_vec())]
        );
    });
}

/// A read that an index should serve must not scan the table.
#[test]
fn frequent_reads_use_an_index() {
    super::run_on(Kind::Sqlite, async |scratch| {
        let reads = [
            "SELECT id FROM executions CROSS JOIN clock WHERE tenant = 1 AND look_again_at <= now_ms",
            "SELECT id FROM executions WHERE tenant = 1 AND public_id >= 'a' AND public_id < 'b'",
            "SELECT id FROM executions WHERE tenant = 1 AND status = 'x' AND status <> 'running' \
             AND status <> 'succeeded' AND id < 9 ORDER BY id DESC",
            "SELECT id FROM executions WHERE tenant = 1 AND look_again_at = 0 AND id < 9 ORDER BY id DESC",
            "SELECT page FROM pages WHERE tenant = 1 AND stream = 2 AND page >= 3",
            "SELECT body FROM journal WHERE tenant = 1 AND entry > 1 * 1099511627776 + 2 ORDER BY entry",
        ];
        for read in reads {
            let explain: &'static str = format!("EXPLAIN QUERY PLAN {read}").leak();
            let answers = scratch.db.transact(vec![Statement::new(explain, vec![])]).await.unwrap();
            let steps: Vec<&str> = answers[0].iter().map(|row| row.text(3).unwrap()).collect();
            let is_scan = |step: &&str| {
                step.starts_with("SCAN") && !step.contains("clock") && !step.contains("CONSTANT")
            };
            assert!(
                !steps.iter().any(|step| is_scan(step) || step.contains("TEMP B-TREE")),
                "{read}: {steps:?}"
            );
        }
    });
}
