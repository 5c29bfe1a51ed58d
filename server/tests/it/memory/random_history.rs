//! A random journal: random plans, answered by people and agents in random ways, some left open.

use actbook::service::view::{AnswerOption, QuestionKind, WaitingView};
use actbook::service::{ActionFacts, ActionRecord, ReportedStatus};
use actbook_engine::policy::ExecutionStatus;
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::durability::fixture::{self, ServiceFixture};
use crate::durability::rng::SeededRng;

const PLANS: usize = 6;
/// After this many answers an execution is left as it is.
const ANSWERS_MAX: usize = 12;

fn random_step(rng: &mut SeededRng, number: usize) -> Value {
    let id = format!("s{number}");
    if rng.once_in(4) {
        return json!({ "id": id, "action": "Look at it", "compensation": { "action": "Look away" } });
    }
    let tools = ["t/ok", "t/ok", "t/ok", "t/ok", "t/quick", "t/no", "t/away", "t/limit", "t/lost"];
    let mut step = json!({ "id": id, "tool": rng.pick(&tools), "arguments": { "ms": rng.below(3) } });
    if rng.once_in(2) {
        let undo = *rng.pick(&["t/undo", "t/undo", "t/undo", "t/no"]);
        step["compensation"] = json!({ "tool": undo, "arguments": { "ms": 1 } });
    }
    if rng.once_in(4) {
        step["approval"] = json!("required");
    }
    if rng.once_in(3) {
        let probe = *rng.pick(&["t/look", "t/no"]);
        step["probe"] =
            json!({ "tool": probe, "arguments": { "ms": rng.below(2) }, "happened": "output.exists" });
    }
    if rng.once_in(3) {
        step["retry"] = json!({ "max_attempts": 3, "backoff": "1ms", "on": ["unavailable", "rate_limited"] });
    }
    if rng.once_in(4) {
        let action = *rng.pick(&["cancel_all", "cancel_dependent", "continue_others", "manual_decision"]);
        step["failure_policy"] = json!({ "action": action });
    }
    step
}

fn random_plan(rng: &mut SeededRng, number: usize) -> Value {
    let steps: Vec<Value> = (0..1 + rng.below(5)).map(|number| random_step(rng, number)).collect();
    // Automatic undo is refused for a plan without compensations.
    let undoable = steps.iter().any(|step| step.get("compensation").is_some());
    let mut plan = fixture::plan(&format!("plan-{number}"), &steps);
    plan["policy"] = json!({
        "on_failure": if undoable { rng.pick(&["manual", "manual", "propose", "auto"]) } else { &"manual" },
        "concurrency": rng.pick(&[1, 3]),
        "approval": rng.pick(&["none", "none", "plan", "every_write"]),
    });
    if rng.once_in(2) {
        plan["task"] = json!(format!("T-{}", rng.below(2)));
    }
    plan
}

/// A fixed plan, so that every run has a retried step, an agent's step and an approval.
fn fixed_plan() -> Value {
    let retry = json!({ "max_attempts": 2, "backoff": "1ms", "on": ["rate_limited"] });
    let continue_others = json!({ "action": "continue_others" });
    let steps = [
        json!({ "id": "again", "tool": "t/limit", "retry": retry, "failure_policy": continue_others }),
        json!({ "id": "theirs", "action": "Look at it" }),
        json!({ "id": "asks", "tool": "t/ok", "approval": "required" }),
    ];
    let mut plan = fixture::plan("plan-0", &steps);
    plan["policy"] = json!({ "concurrency": 3 });
    plan
}

/// Runs `executions` random executions; calls `between` now and then, while one is half done.
pub async fn run_random_executions(
    fixture: &ServiceFixture,
    rng: &mut SeededRng,
    executions: usize,
    between: impl AsyncFn(),
) {
    let random = (1..PLANS).map(|number| random_plan(rng, number));
    let plans: Vec<Value> = std::iter::once(fixed_plan()).chain(random).collect();
    for number in 0..executions {
        let plan = plans.get(number).unwrap_or_else(|| rng.pick(&plans));
        let started = fixture.start(plan, None, true).await;
        let id = started.id.to_string();
        let mut status = fixture.drive(started).await;
        for _ in 0..ANSWERS_MAX {
            if rng.once_in(5) {
                between().await;
            }
            if status != ExecutionStatus::Blocked || rng.once_in(12) {
                break;
            }
            answer_at_random(fixture, rng, &id).await;
            status = claim_and_drive(fixture, &id).await;
        }
    }
}

/// Sends one random command to a waiting execution.
async fn answer_at_random(fixture: &ServiceFixture, rng: &mut SeededRng, id: &str) {
    let (service, caller) = (&fixture.service, &fixture.caller);
    if rng.once_in(15) {
        drop(service.executions().cancel(caller, id, None).await);
        return;
    }
    let waiting = service.executions().view(id).await.unwrap().waiting;
    let waiting_view: &WaitingView = rng.pick(&waiting);
    let step = waiting_view.step.as_ref().map(ToString::to_string);
    // A random command may not fit the state and be refused; that is ignored here.
    match (waiting_view.kind, step) {
        (QuestionKind::Approval, step) if rng.once_in(4) => {
            drop(service.executions().reject(caller, id, step, None).await);
        }
        (QuestionKind::Approval, step) => drop(service.executions().approve(caller, id, step, None).await),
        (QuestionKind::Agent | QuestionKind::Decision, Some(step)) => {
            match *rng.pick(&waiting_view.options) {
                AnswerOption::Report(status) => report_at_random(fixture, rng, id, step, status).await,
                AnswerOption::Decide(answer) => {
                    drop(
                        service
                            .executions()
                            .decide(caller, id, step, answer, Some("chance".into()), None)
                            .await,
                    );
                }
                AnswerOption::Approve | AnswerOption::Reject => panic!("an option of an approval"),
            }
        }
        (kind, None) => panic!("a question of kind {kind:?} belongs to a step"),
    }
}

async fn report_at_random(
    fixture: &ServiceFixture,
    rng: &mut SeededRng,
    id: &str,
    step: String,
    status: ReportedStatus,
) {
    let confidence = (!rng.once_in(4)).then(|| rng.below(101) as f64 / 100.0);
    let facts = ActionFacts { description: Some("seen".into()), confidence, ..ActionFacts::default() };
    let remark = rng.once_in(3).then(|| ActionFacts { confidence: Some(0.5), ..facts.clone() });
    let action = ActionRecord {
        execution: Some(id.to_owned()),
        step: Some(step.clone()),
        status: Some(status),
        output: None,
        facts,
        ..ActionRecord::default()
    };
    drop(fixture.executions().record_action(&fixture.caller, action).await);
    if let Some(facts) = remark {
        let execution = Some(id.to_owned());
        let remark = ActionRecord { execution, step: Some(step), facts, ..ActionRecord::default() };
        drop(fixture.executions().record_action(&fixture.caller, remark).await);
    }
}

async fn claim_and_drive(fixture: &ServiceFixture, id: &str) -> ExecutionStatus {
    if let Some(progress) = fixture.executions().claim(&fixture.caller, id, false).await.unwrap() {
        let (_keep, halt) = watch::channel(false);
        return fixture.executions().drive(progress, halt).await.unwrap();
    }
    fixture.executions().find(id).await.unwrap().status
}
