//! The projector: lists, counts and questions that follow the journal, on both databases.

mod filters;
mod follow;
mod reads;

use actbook::service::{ActionFacts, ActionRecord};
use actbook::store::Row;
use actbook_engine::policy::StepAnswer;
use serde_json::{Value, json};

use crate::durability::fixture::{self, ServiceFixture};
use crate::durability::rng::SeededRng;
use crate::store::{ScratchDatabase, head};

/// Every plan's name and the tools of its steps, which run in order.
pub const PLANS: [(&str, &[&str]); 5] = [
    ("alpha", &["t/ok"]),
    ("beta", &["t/ok", "t/no"]),
    ("gamma", &["t/lost"]),
    ("delta", &["t/other", "t/ok"]),
    ("epsilon", &["t/no"]),
];
const TASKS: [&str; 3] = ["T-1", "T-2", "job 7"];
const ACTORS: [&str; 3] = ["person:ada", "agent:hal", "person:eve"];

pub fn plan(number: usize, task: Option<&str>) -> Value {
    let (name, tools) = PLANS[number];
    let steps = tools.iter().zip(0..).map(|(tool, at)| {
        let mut step = fixture::step(&format!("s{at}"), tool, &format!("order {at}"));
        if at > 0 {
            step["depends_on"] = json!([format!("s{}", at - 1)]);
        }
        step
    });
    let mut plan = fixture::plan(name, &steps.collect::<Vec<_>>());
    if let Some(task) = task {
        plan["task"] = json!(task);
    }
    plan
}

/// Runs a random execution by a random actor; leaves some of those that block open. Returns its id.
pub async fn run_random(fixture: &mut ServiceFixture, rng: &mut SeededRng) -> String {
    fixture.caller = actbook::caller::Caller::new(*rng.pick(&ACTORS));
    let task = if rng.once_in(3) { None } else { Some(*rng.pick(&TASKS)) };
    let (id, _) = fixture.run(&plan(rng.below(PLANS.len()), task), None).await;
    if rng.once_in(2) {
        answer_random(fixture, rng, &id).await;
    }
    id
}

/// Answers the questions of an execution at random; does nothing if it has none.
pub async fn answer_random(fixture: &ServiceFixture, rng: &mut SeededRng, id: &str) {
    let waiting = fixture.executions().view(id).await.unwrap().waiting;
    let Some(step) = waiting.first().and_then(|waiting| waiting.step.clone()) else { return };
    let answers = [StepAnswer::Abandon, StepAnswer::Skip, StepAnswer::Retry];
    fixture.decide(id, step.as_str(), *rng.pick(&answers), None).await;
}

/// Moves the journal's head to just before the next stretch of 65,536 positions, with one entry in between, so
/// that a few executions have ids in several stretches.
pub async fn skip_to_next_stretch(fixture: &ServiceFixture, scratch: &ScratchDatabase) {
    let facts = ActionFacts { entity: Some("the lamp".into()), ..ActionFacts::default() };
    let act = ActionRecord { facts, ..ActionRecord::default() };
    fixture.executions().record_action(&fixture.caller, act).await.unwrap();
    let last = head(&scratch.db).position;
    let next = (last / 65_536 + 1) * 65_536 - 10;
    let base = 1_u64 << 40;
    scratch
        .execute(&format!(
            "INSERT INTO journal (tenant, entry, stream, version, at, actor, kind, body, hash) \
             SELECT tenant, {base} + {next}, {next}, 1, at, actor, kind, body, hash FROM journal \
             WHERE entry = {base} + {last}; UPDATE head SET position = {next}"
        ))
        .await;
}

/// What the projector has written, without the ids that it gives to facets.
pub async fn projected_rows(scratch: &ScratchDatabase) -> Vec<Vec<Row>> {
    let tables = [
        "SELECT name, facets.value, latest, n FROM facets ORDER BY name, facets.value",
        "SELECT name, facets.value, stretch, earlier, held FROM marks JOIN facets ON facets.tenant = marks.tenant \
         AND facets.id = marks.value ORDER BY name, facets.value, stretch",
        "SELECT project, status, n FROM totals ORDER BY project, status",
        "SELECT grain, kind, period, project, plan, name, outcome, category, n, total_ms, top, top_at, buckets \
         FROM counts ORDER BY grain, kind, period, project, plan, name, outcome, category",
        "SELECT hour, first, last FROM hours ORDER BY hour",
        "SELECT grain, period, first, last FROM starts ORDER BY grain, period",
        "SELECT stream, position, at, tool, category, fingerprint FROM errors ORDER BY stream, position",
        "SELECT stream, position, kind, step, asked_at FROM questions ORDER BY stream, position",
        "SELECT stream, position, step, confidence, outcome, at FROM confidences ORDER BY stream, position",
        "SELECT name, position FROM caught_up WHERE name IN ('executions', 'starts') ORDER BY name",
    ];
    let mut rows = Vec::new();
    for table in tables {
        rows.push(scratch.db.read(table, Vec::new()).await.unwrap());
    }
    rows
}

/// The rows that a projector writes that reads the whole journal at once.
pub async fn rebuilt_rows(fixture: &ServiceFixture, scratch: &ScratchDatabase) -> Vec<Vec<Row>> {
    fixture.service.journal().rebuild().await.unwrap();
    fixture.service.catch_up(|_| {}).await.unwrap();
    projected_rows(scratch).await
}
