//! Two ledgers on one database: neither decides on a state that the other has already changed.

use std::sync::Arc;
use std::time::Duration;

use actbook::ledger::{FollowPermit, Ledger};
use actbook::notify::Notifier;
use actbook::service::view::AnswerOption;
use actbook::service::{PersonQuestion, QuestionMedium, ReportedStatus};
use actbook_engine::execution::{ActionFacts, AgentReport, Command};
use actbook_engine::id::Epoch;
use actbook_engine::policy::{ExecutionStatus, StepAnswer};
use serde_json::{Value, json};

use super::fixture::{self, ServiceFixture};
use super::rng::SeededRng;
use crate::store::proxy::Proxy;
use crate::store::{Kind, TENANT, for_each_database, head, open, run_on};

#[test]
fn ledgers_alternating_on_one_execution_agree_on_its_status() {
    for_each_database(async |scratch| {
        let fixtures = [ServiceFixture::open(&scratch.url).await, ServiceFixture::open(&scratch.url).await];
        let plan = fixture::plan("shared", &[fixture::step("only", "t/ok", "word")]);
        let id = fixtures[0].start(&plan, None, false).await.id.to_string();
        let mut rng = SeededRng::from_env("neighbours");
        for turn in 0..60 {
            let ServiceFixture { service, caller, .. } = rng.pick(&fixtures);
            let (_, progress) = match turn % 2 {
                0 => service.executions().pause(caller, &id, None).await.unwrap(),
                _ => service.executions().resume(caller, &id).await.unwrap(),
            };
            assert_eq!(progress.status == ExecutionStatus::Paused, turn % 2 == 0, "turn {turn}");
            let refused = match turn % 2 {
                0 => fixtures[rng.below(2)].service.executions().pause(caller, &id, None).await,
                _ => fixtures[rng.below(2)].service.executions().resume(caller, &id).await,
            };
            assert!(refused.is_err(), "a repeated command is refused by both, turn {turn}");
        }
        fixtures[0].assert_verifies().await;
    });
}

#[test]
fn plan_versions_from_two_concurrent_ledgers_have_no_gap() {
    for_each_database(async |scratch| {
        let fixtures = [ServiceFixture::open(&scratch.url).await, ServiceFixture::open(&scratch.url).await]
            .map(Arc::new);
        let saving = (0..40).map(|number| {
            let fixture = fixtures[number % 2].clone();
            let mut plan = fixture::plan("one name", &[fixture::step("only", "t/ok", "word")]);
            plan["description"] = json!(format!("version {number}"));
            tokio::spawn(async move {
                fixture.service.plans().save(&fixture.caller, &plan.to_string(), true).await.unwrap().version
            })
        });
        let mut versions = Vec::new();
        for saved in futures_util::future::join_all(saving).await {
            versions.push(saved.unwrap());
        }
        versions.sort_unstable();
        assert_eq!(versions, (1..=40).collect::<Vec<u32>>());
    });
}

/// Catching up for another reason must not skip entries that a registered driver waits for.
#[test]
fn remote_append_during_outage_wakes_the_waiter() {
    run_on(Kind::Postgres, async |scratch| {
        let (proxy, far) = (Proxy::in_front_of(&scratch.url).await, ServiceFixture::open(&scratch.url).await);
        let plan = fixture::plan("shared", &[fixture::step("only", "t/ok", "word")]);
        let (one, other) = (far.start(&plan, None, false).await, far.start(&plan, None, false).await);
        let db = open(&proxy.url).await;
        let near = Ledger::open(db.clone(), TENANT, Notifier::new(db, TENANT)).unwrap();
        let (actor, stream) = (Arc::from("person:ada"), one.progress.stream);
        near.command(&actor, stream, Command::Pause { reason: None }).await.unwrap();
        let waiting = near.register_driver(other.progress.stream);

        proxy.cut().await;
        near.command(&actor, stream, Command::Resume).await.unwrap_err();
        far.service.executions().pause(&far.caller, other.id.as_str(), None).await.unwrap();
        proxy.restore();
        near.command(&actor, stream, Command::Resume).await.unwrap();
        near.on_remote_append(head(&scratch.db).position).await.unwrap();
        tokio::time::timeout(Duration::from_secs(60), waiting.outside_change.notified())
            .await
            .expect("the waiter is woken");
    });
}

/// An agent's report and the start of the next step are one commit, but only in the name of a driver that may decide.
#[test]
fn report_starts_the_next_step_only_for_a_driver_that_may_decide() {
    for_each_database(async |scratch| {
        let fixture = ServiceFixture::open(&scratch.url).await;
        let steps = json!([{ "id": "one", "action": "First" }, { "id": "two", "action": "Second" }]);
        let plan = json!({ "name": "by hand", "steps": steps });
        let db = open(&scratch.url).await;
        let ledger = Ledger::open(db.clone(), TENANT, Notifier::new(db, TENANT)).unwrap();
        for (later_epochs, may_decide, follows) in [(0, true, true), (0, false, false), (1, true, false)] {
            let started = fixture.start(&plan, None, true).await.progress;
            let driver = ledger.register_driver(started.stream);
            let epoch = Epoch(started.epoch.0 + later_epochs);
            driver.permit_follow(FollowPermit { epoch, may_decide: Box::new(move || may_decide) });
            let report = AgentReport::Succeeded { output: None };
            let command = Command::RecordReport {
                step: "one".into(),
                report,
                facts: Box::new(ActionFacts::default()),
                by: None,
                replies_to: None,
            };
            ledger.command(&Arc::from("person:ada"), started.stream, command).await.unwrap();
            let now_ms = ledger.clock().now_ms();
            let is_left = ledger.with_execution(started.stream, |one| one.has_next_action(now_ms)).unwrap();
            assert_eq!(is_left, !follows, "{later_epochs} epochs later, may decide: {may_decide}");
        }
    });
}

/// A person is shown the work that an agent step waits for, and reports after it was reported failed and asked for again.
#[test]
fn report_about_former_work_is_refused() {
    for_each_database(async |scratch| {
        let fixture = ServiceFixture::open(&scratch.url).await;
        let (executions, caller) = (fixture.executions(), &fixture.caller);
        let plan = json!({ "name": "by hand", "steps": [{ "id": "tell", "action": "Tell the team" }] });
        let (id, _) = fixture.run(&plan, None).await;
        let shown = async || {
            let asked = executions.person_questions(&id, None, QuestionMedium::Terminal).await.unwrap();
            asked.1.into_iter().next().expect("the step waits for its agent")
        };
        let report = async |question: &PersonQuestion, output: Option<Value>| {
            let status = ReportedStatus::Succeeded;
            executions.report_as_shown(caller, question, status, output, None).await.map(drop)
        };
        let former = shown().await;
        let failed = AnswerOption::Report(ReportedStatus::Failed);
        executions.answer_question(caller, &former, failed, None).await.unwrap();
        fixture.claim_and_drive(&id).await;
        fixture.decide(&id, "tell", StepAnswer::Retry, None).await;
        for output in [None, Some(json!({ "word": "former" }))] {
            assert_eq!(report(&former, output).await.unwrap_err().code(), "stale_question");
        }
        report(&shown().await, Some(json!({ "word": "newer" }))).await.unwrap();
    });
}
