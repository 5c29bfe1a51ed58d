//! What a new task brings with it: a plan made of a template or of a plan, its start; all of it or nothing.

use actbook::config::{PlanSource, TaskPlanRule};
use actbook::service::{Service, TaskSpec};
use serde_json::{Value, json};

use super::agent::House;
use crate::durability::book::{self, Book};
use crate::store::{Kind, for_each_database};

fn task(id: &str) -> TaskSpec {
    TaskSpec { id: id.to_owned(), r#type: Some("bug".into()), ..TaskSpec::default() }
}

fn rule(brings: PlanSource, start: bool) -> TaskPlanRule {
    TaskPlanRule { r#type: Some("bug".into()), labels: Vec::new(), source: brings, start }
}

async fn book(url: &str, rule: TaskPlanRule) -> Book {
    let mut book = Book::open(url).await;
    book.service = book.service.clone().with_task_plans(vec![rule]);
    book
}

async fn save(service: &Service, book: &Book, plan: &Value) {
    service.save_plan(&book.caller, &plan.to_string(), true).await.unwrap();
}

#[test]
fn a_task_and_what_it_brings_stand_together_or_not_at_all() {
    for_each_database(async |scratch| {
        let book = book(&scratch.url, rule(PlanSource::Plan("fix".into()), true)).await;
        save(&book.service, &book, &book::plan("fix", &[book::step("a", "t/ok", "word")])).await;
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
        book.service.add_task(&book.caller, task("B-1"), false).await.unwrap_err();
        assert_eq!(book.service.task("B-1").await.unwrap_err().code, "no_such_task");
        assert_eq!(book.service.plan("fix for B-1").await.unwrap_err().code, "no_such_plan");
        scratch.execute(drop).await;
        let added = book.service.add_task(&book.caller, task("B-1"), false).await.unwrap();
        let (plan, started) = (added.plan.unwrap(), added.started.unwrap());
        assert_eq!(book.service.plan("fix for B-1").await.unwrap().0.id, plan);
        assert_eq!(book.service.view(&started).await.unwrap().task.as_deref(), Some("B-1"));
        book.assert_whole().await;
    });
}

#[test]
fn a_rule_names_a_template_and_the_same_key_gives_the_same_task() {
    for_each_database(async |scratch| {
        let house = House::new(Some(&scratch.url));
        let config = json!({ "task_plans": {
            "a-study": { "type": "research", "template": "research" },
            "b-fix": { "type": "bug", "template": "fix-bug", "start": true },
        } });
        house.write("actbook.yaml", &config.to_string());
        let refused = house.refused(&["task", "add", "B-0", "--type", "bug"]).await;
        assert!(refused.contains("no template `fix-bug`"), "{refused}");
        let inputs = json!({ "type": "object", "required": ["title"],
            "properties": { "title": { "type": "string" }, "version": { "type": "integer" } } });
        let step = json!({ "id": "fix", "action": "Repair ${inputs.title}" });
        house.write("fix.json", &json!({ "name": "fix-bug", "inputs": inputs, "steps": [step] }).to_string());
        house.run(&["template", "save", "fix.json"]).await;

        let agent = house.agent("full").await;
        let study = json!({ "action": "add", "id": "R-1", "type": "research", "title": "Queues", "fields": { "topic": "queues", "colour": "red" } });
        let (added, _) = agent.say("task", study).await;
        assert!(added["plan"].is_string() && added.get("started").is_none(), "{added}");
        let (shown, _) = agent.say("plan", json!({ "action": "show", "plan_id": added["plan"] })).await;
        let document = &shown["document"];
        assert_eq!((&document["name"], &document["task"]), (&json!("research for R-1"), &json!("R-1")));
        assert_eq!(document["inputs"]["properties"]["topic"]["default"], "queues");

        let wrong = json!({ "action": "add", "id": "B-1", "type": "bug", "title": "It hangs", "fields": { "version": "two" } });
        assert!(agent.no("task", wrong).await.contains("inputs.version"));
        let bug = json!({ "action": "add", "id": "B-1", "type": "bug", "title": "It hangs", "idempotency_key": "k" });
        let (first, _) = agent.say("task", bug.clone()).await;
        let (again, _) = agent.say("task", bug).await;
        assert_eq!(
            (&again["plan"], &again["started"]),
            (&first["plan"], &first["started"]),
            "one key, one task"
        );
        let (view, text) = agent.say("status", json!({ "execution_id": first["started"] })).await;
        assert_eq!(view["steps"][0]["action"], "Repair It hangs", "{text}");
        let (story, _) = agent.say("status", json!({ "task": "B-1" })).await;
        assert_eq!(story["executions"].as_array().unwrap().len(), 1, "it was started once");
        house.run(&["verify"]).await;
    });
}
