//! Task plan rules: a new task gets a plan made from a template or plan, and its start, in one transaction.

use actbook::config::{PlanSource, TaskPlanRule};
use actbook::service::{Service, TaskSpec};
use serde_json::{Value, json};

use super::agent::AgentFixture;
use crate::durability::fixture::{self, ServiceFixture};
use crate::store::{Kind, for_each_database};

fn task(id: &str) -> TaskSpec {
    TaskSpec { id: id.to_owned(), r#type: Some("bug".into()), ..TaskSpec::default() }
}

fn rule(source: PlanSource, start: bool) -> TaskPlanRule {
    TaskPlanRule { r#type: Some("bug".into()), labels: Vec::new(), source, start }
}

async fn fixture_with_rule(url: &str, rule: TaskPlanRule) -> ServiceFixture {
    let mut fixture = ServiceFixture::open(url).await;
    fixture.service = fixture.service.clone().with_task_plans(vec![rule]);
    fixture
}

async fn save_plan(service: &Service, fixture: &ServiceFixture, plan: &Value) {
    service.plans().save(&fixture.caller, &plan.to_string(), true).await.unwrap();
}

#[test]
fn task_with_its_plan_and_start_is_atomic() {
    for_each_database(async |scratch| {
        let fixture = fixture_with_rule(&scratch.url, rule(PlanSource::Plan("fix".into()), true)).await;
        save_plan(&fixture.service, &fixture, &fixture::plan("fix", &[fixture::step("a", "t/ok", "word")]))
            .await;
        let (make, drop) = match scratch.kind {
            Kind::Sqlite => (
                "CREATE TRIGGER broken BEFORE INSERT ON executions BEGIN SELECT RAISE(ABORT, 'broken'); END",
                "DROP TRIGGER broken",
            ),
            Kind::Postgres => (
                "CREATE FUNCTION broken() RETURNS trigger AS 'BEGIN RAISE EXCEPTION ''broken''; END' LANGUAGE plpgsql; \
                 CREATE TRIGGER broken BEFORE INSERT ON executions EXECUTE FUNCTION broken()",
                "DROP TRIGGER broken ON executions",
            ),
        };
        scratch.execute(make).await;
        fixture.service.tasks().add(&fixture.caller, task("B-1"), false).await.unwrap_err();
        assert_eq!(fixture.service.tasks().get("B-1").await.unwrap_err().code(), "no_such_task");
        assert_eq!(fixture.service.plans().get("fix for B-1").await.unwrap_err().code(), "no_such_plan");
        scratch.execute(drop).await;
        let added = fixture.service.tasks().add(&fixture.caller, task("B-1"), false).await.unwrap();
        let (plan, started) = (added.plan.unwrap(), added.started.unwrap());
        assert_eq!(fixture.service.plans().get("fix for B-1").await.unwrap().0.id, plan);
        assert_eq!(fixture.executions().view(&started).await.unwrap().task.as_deref(), Some("B-1"));
        fixture.assert_verifies().await;
    });
}

#[test]
fn rule_instantiates_a_template_once_per_request_key() {
    for_each_database(async |scratch| {
        let fixture = AgentFixture::new(Some(&scratch.url));
        let config = json!({ "task_plans": {
            "a-study": { "type": "research", "template": "research" },
            "b-fix": { "type": "bug", "template": "fix-bug", "start": true },
        } });
        fixture.write("actbook.yaml", &config.to_string());
        let refused = fixture.run_refused(&["task", "add", "B-0", "--type", "bug"]).await;
        assert!(refused.contains("no template `fix-bug`"), "{refused}");
        let inputs = json!({ "type": "object", "required": ["title"],
            "properties": { "title": { "type": "string" }, "version": { "type": "integer" } } });
        let step = json!({ "id": "fix", "action": "Repair ${inputs.title}" });
        fixture
            .write("fix.json", &json!({ "name": "fix-bug", "inputs": inputs, "steps": [step] }).to_string());
        fixture.run(&["template", "save", "fix.json"]).await;

        let agent = fixture.connect_agent("full").await;
        let study = json!({ "action": "add", "id": "R-1", "type": "research", "title": "Queues", "fields": { "topic": "queues", "colour": "red" } });
        let (added, _) = agent.call_ok("task", study).await;
        assert!(added["plan"].is_string() && added.get("started").is_none(), "{added}");
        let (shown, _) = agent.call_ok("plan", json!({ "action": "show", "plan_id": added["plan"] })).await;
        let document = &shown["document"];
        assert_eq!((&document["name"], &document["task"]), (&json!("research for R-1"), &json!("R-1")));
        assert_eq!(document["inputs"]["properties"]["topic"]["default"], "queues");

        let wrong = json!({ "action": "add", "id": "B-1", "type": "bug", "title": "It hangs", "fields": { "version": "two" } });
        assert!(agent.call_refused("task", wrong).await.contains("inputs.version"));
        let bug = json!({ "action": "add", "id": "B-1", "type": "bug", "title": "It hangs", "idempotency_key": "k" });
        let (first, _) = agent.call_ok("task", bug.clone()).await;
        let (again, _) = agent.call_ok("task", bug).await;
        assert_eq!(
            (&again["plan"], &again["started"]),
            (&first["plan"], &first["started"]),
            "one key, one task"
        );
        let (view, text) = agent.call_ok("status", json!({ "execution_id": first["started"] })).await;
        assert_eq!(view["steps"][0]["action"], "Repair It hangs", "{text}");
        let (story, _) = agent.call_ok("status", json!({ "task": "B-1" })).await;
        assert_eq!(story["executions"].as_array().unwrap().len(), 1, "the plan was started once");
        fixture.run(&["verify"]).await;
    });
}
