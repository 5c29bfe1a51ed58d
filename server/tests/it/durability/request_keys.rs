//! Request keys: a request made twice takes effect once, because its key and reply are committed with its
//! entries.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use actbook::config::{Config, DatabaseOptions};
use actbook::ledger::{
    CommandRequest, Error, KeyedReply, KeyedRequest, Ledger, LedgerRequest, PublicId, RequestKey,
    SavePlanReply, SavePlanRequest, StartRequest,
};
use actbook::notify::Notifier;
use actbook::service::SavedPlan;
use actbook::store::{Db, executions};
use actbook_engine::chain::Digest;
use actbook_engine::execution::{Command, StartContext};
use actbook_engine::id::{ExecutionId, PlanId, StreamId};
use actbook_engine::library::SaveOptions;
use actbook_engine::plan::Plan;

use super::fixture::{self, ServiceFixture};
use super::helper_process;
use crate::counts::times;
use crate::store::{ScratchDatabase, TENANT, for_each_database};

const PROCESSES: usize = 8;
const KEYS: usize = 10;

/// How many requests each part makes.
fn duplicates() -> usize {
    KEYS * times("ACTBOOK_DUPLICATES", 10)
}

/// A ledger with one saved plan, for requests under keys.
struct KeyedLedger {
    ledger: Ledger,
    saved: SavedPlan,
}

impl KeyedLedger {
    async fn open(url: &str) -> Self {
        let plan = fixture::plan("keyed", &[fixture::step("only", "t/ok", "word")]).to_string();
        let fixture = ServiceFixture::open(url).await;
        let saved = fixture.service.plans().save(&fixture.caller, &plan, true).await.unwrap();
        let db = Db::open(url, DatabaseOptions::default()).await.unwrap();
        Self { ledger: Ledger::open(db.clone(), TENANT, Notifier::new(db, TENANT)).unwrap(), saved }
    }

    async fn submit<R: LedgerRequest<Reply: PublicId>>(
        &self,
        key: RequestKey,
        request: R,
    ) -> Result<KeyedReply<R::Reply>, Error> {
        self.ledger.submit(&"agent:twin".into(), KeyedRequest { request, key: Some(key) }).await
    }

    /// Starts an execution under a key; returns its id, or the id of the earlier start with that key.
    async fn start(&self, key: RequestKey, number: usize) -> Result<String, Error> {
        let start = StartRequest {
            id: ExecutionId::new(format!("{}-{}-{number}", std::process::id(), key.key)),
            plan_ref: self.saved.reference.clone(),
            plan: self.saved.plan.clone(),
            inputs: None,
            terms: Default::default(),
            context: StartContext { toolset: Digest::of(b"here"), project: None, agents_may_approve: false },
            salt: Arc::from(*b"salt"),
            node: None,
        };
        match self.submit(key, start).await? {
            KeyedReply::First(progress) => Ok(progress.id.to_string()),
            KeyedReply::Repeated(id) => Ok(id),
        }
    }
}

fn request_key(caller: &str, key: &str, request: &str) -> RequestKey {
    RequestKey { caller: caller.into(), key: key.into(), digest: Digest::of(request.as_bytes()) }
}

fn refusal_code(answer: Result<impl std::fmt::Debug, Error>) -> &'static str {
    match answer {
        Err(Error::Refused(refusal)) => refusal.code(),
        other => panic!("not refused: {other:?}"),
    }
}

async fn execution_ids(scratch: &ScratchDatabase) -> BTreeSet<String> {
    let rows = executions::all(TENANT).all(&scratch.db).await.unwrap();
    rows.into_iter().map(|row| row.public_id).collect()
}

/// Runs in each helper process: requests every key many times concurrently.
pub async fn run_in_helper(url: &str) {
    let ledger = KeyedLedger::open(url).await;
    let asks = (0..duplicates()).map(async |number| {
        let name = format!("k{}", number % KEYS);
        let id = ledger.start(request_key("agent", &name, "start"), number).await.unwrap();
        helper_process::emit(&format!("{name} {id}"));
    });
    futures_util::future::join_all(asks).await;
}

fn save_request(plan: &Arc<Plan>) -> SavePlanRequest {
    let plan = plan.clone();
    let new_id = PlanId::new("fresh");
    SavePlanRequest {
        plan,
        new_id,
        placement: SaveOptions { project: Some(Config::default().project_name()), ..SaveOptions::default() },
        pins: None,
        tools: Vec::new(),
    }
}

#[test]
fn hundred_requests_with_one_key_start_one_execution() {
    for_each_database(async |scratch| {
        let ledger = KeyedLedger::open(&scratch.url).await;
        let duplicates =
            (0..duplicates()).map(|number| ledger.start(request_key("agent", "once", "start"), number));
        let ids: BTreeSet<String> =
            futures_util::future::join_all(duplicates).await.into_iter().map(Result::unwrap).collect();
        assert_eq!(ids.len(), 1);
        assert_eq!(execution_ids(&scratch).await, ids);
        let later = KeyedLedger::open(&scratch.url).await;
        assert!(
            ids.contains(&later.start(request_key("agent", "once", "start"), 0).await.unwrap()),
            "also after a restart"
        );
        assert_eq!(execution_ids(&scratch).await, ids);

        assert_eq!(refusal_code(later.start(request_key("agent", "once", "another"), 0).await), "key_reused");
        assert_eq!(execution_ids(&scratch).await, ids);
        later.start(request_key("somebody else", "once", "start"), 7).await.unwrap();
        assert_eq!(execution_ids(&scratch).await.len(), 2, "keys are scoped to their caller");
    });
}

#[test]
fn same_keys_from_eight_processes_start_one_execution_each() {
    for_each_database(async |scratch| {
        let parts: Vec<_> = (0..PROCESSES).map(|_| helper_process::start("keys", &scratch.url)).collect();
        let lines: Vec<String> =
            parts.into_iter().flat_map(helper_process::HelperProcess::emitted_lines).collect();
        assert_eq!(lines.len(), PROCESSES * duplicates());
        let mut ids = BTreeMap::<&str, BTreeSet<&str>>::new();
        for (key, id) in lines.iter().map(|line| line.split_once(' ').unwrap()) {
            ids.entry(key).or_default().insert(id);
        }
        assert!(ids.len() == KEYS && ids.values().all(|ids| ids.len() == 1), "{ids:?}");
        assert_eq!(execution_ids(&scratch).await.len(), KEYS);
        ServiceFixture::open(&scratch.url).await.assert_verifies().await;
    });
}

#[test]
fn request_key_deduplicates_every_operation() {
    for_each_database(async |scratch| {
        let ledger = KeyedLedger::open(&scratch.url).await;
        let id = ledger.start(request_key("agent", "start", "start"), 0).await.unwrap();
        let stream = executions::all(TENANT).all(&scratch.db).await.unwrap()[0].id;
        let pause =
            || CommandRequest { stream, command: Command::Pause { reason: None }.into(), as_of: None };
        assert!(matches!(
            ledger.submit(request_key("agent", "pause", "pause"), pause()).await,
            Ok(KeyedReply::First(_))
        ));
        let again = ledger.submit(request_key("agent", "pause", "pause"), pause()).await;
        assert!(matches!(again, Ok(KeyedReply::Repeated(repeated)) if repeated == id));

        // Saving an existing plan appends no entry, and the key is kept all the same.
        let other = Arc::new(
            Plan::parse(&fixture::plan("x", &[fixture::step("y", "t/ok", "z")]).to_string()).unwrap(),
        );
        let same =
            ledger.submit(request_key("agent", "save", "save"), save_request(&ledger.saved.plan)).await;
        assert!(matches!(same, Ok(KeyedReply::First(SavePlanReply { is_new: false, .. }))), "{same:?}");
        assert_eq!(
            refusal_code(
                ledger.submit(request_key("agent", "save", "save another"), save_request(&other)).await
            ),
            "key_reused"
        );
        let again = KeyedLedger::open(&scratch.url)
            .await
            .submit(request_key("agent", "save", "save"), save_request(&ledger.saved.plan))
            .await;
        assert!(matches!(again, Ok(KeyedReply::Repeated(_))), "{again:?}");

        // A refused request does not use its key up.
        let undo = || CommandRequest { stream: StreamId(999), command: Command::Resume.into(), as_of: None };
        assert_eq!(
            refusal_code(ledger.submit(request_key("agent", "later", "resume"), undo()).await),
            "no_such_execution"
        );
        ledger.start(request_key("agent", "later", "start"), 1).await.unwrap();
    });
}

#[test]
fn duplicates_that_append_no_entry_are_deduplicated() {
    for_each_database(async |scratch| {
        let ledger = KeyedLedger::open(&scratch.url).await;
        let save = || save_request(&ledger.saved.plan);
        let requests = (0..duplicates()).map(async |number| {
            let name = format!("save {}", number / 10);
            ledger.submit(request_key("agent", &name, "save"), save()).await.map(drop)?;
            ledger
                .start(request_key("agent", &format!("start {}", number / 10), "start"), number)
                .await
                .map(drop)
        });
        for answer in futures_util::future::join_all(requests).await {
            answer.unwrap();
        }
        assert_eq!(execution_ids(&scratch).await.len(), duplicates() / 10);
    });
}
