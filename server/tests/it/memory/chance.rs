//! A journal by chance: plans of every sort, answered by people and agents in every way, some left open.

use std::time::Duration;

use actbook::config::Config;
use actbook::service::view::WaitingView;
use actbook::service::{ActionFacts, ActionRecord, ReportedStatus};
use actbook::tools::{Call, CallOutcome, Tools};
use actbook_engine::policy::{ErrorCategory, ExecutionStatus, StepAnswer};
use futures_util::FutureExt as _;
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::durability::book::{self, Book};
use crate::durability::dice::Dice;

const PLANS: usize = 6;
/// Beyond this many answers an execution is left as it is.
const ANSWERS_MAX: usize = 12;

pub async fn book(url: &str) -> Book {
    let tools = Tools::new(&Config::default()).with_server_executor("t", |call| answer(call).boxed());
    Book::with_tools(url, tools).await
}

/// `ms` how long, `says` what; both by chance of the plan that was made.
async fn answer(call: Call) -> CallOutcome {
    if let Some(ms) = call.arguments["ms"].as_u64().filter(|ms| *ms > 0) {
        let nothing = std::future::pending::<()>();
        drop(tokio::time::timeout(Duration::from_millis(ms), nothing).await);
    }
    let failed = |category, sent| {
        let message = format!("{} will not", call.tool);
        CallOutcome::Failed { category, message, sent, output: None, retry_after: None }
    };
    match call.tool.as_str() {
        "t/no" => failed(ErrorCategory::ToolError, true),
        "t/away" => failed(ErrorCategory::Unavailable, false),
        "t/limit" => failed(ErrorCategory::RateLimited, true),
        "t/lost" => CallOutcome::Unknown {
            category: ErrorCategory::Timeout,
            message: "no answer".into(),
            retry_after: None,
        },
        _ => CallOutcome::Succeeded { output: json!({ "exists": call.arguments["ms"] == 1 }) },
    }
}

fn step(dice: &mut Dice, number: usize) -> Value {
    let id = format!("s{number}");
    if dice.once_in(4) {
        return json!({ "id": id, "action": "Look at it", "compensation": { "action": "Look away" } });
    }
    let tools = ["t/ok", "t/ok", "t/ok", "t/ok", "t/quick", "t/no", "t/away", "t/limit", "t/lost"];
    let mut step = json!({ "id": id, "tool": dice.pick(&tools), "arguments": { "ms": dice.below(3) } });
    if dice.once_in(2) {
        let undo = *dice.pick(&["t/undo", "t/undo", "t/undo", "t/no"]);
        step["compensation"] = json!({ "tool": undo, "arguments": { "ms": 1 } });
    }
    if dice.once_in(4) {
        step["approval"] = json!("required");
    }
    if dice.once_in(3) {
        let probe = *dice.pick(&["t/look", "t/no"]);
        step["probe"] =
            json!({ "tool": probe, "arguments": { "ms": dice.below(2) }, "happened": "output.exists" });
    }
    if dice.once_in(3) {
        step["retry"] = json!({ "max_attempts": 3, "backoff": "1ms", "on": ["unavailable", "rate_limited"] });
    }
    if dice.once_in(4) {
        let action = *dice.pick(&["cancel_all", "cancel_dependent", "continue_others", "manual_decision"]);
        step["failure_policy"] = json!({ "action": action });
    }
    step
}

fn plan(dice: &mut Dice, number: usize) -> Value {
    let steps: Vec<Value> = (0..1 + dice.below(5)).map(|number| step(dice, number)).collect();
    // A plan that undoes by itself, and could not, is refused.
    let undoable = steps.iter().any(|step| step.get("compensation").is_some());
    let mut plan = book::plan(&format!("plan-{number}"), &steps);
    plan["policy"] = json!({
        "on_failure": if undoable { dice.pick(&["manual", "manual", "propose", "auto"]) } else { &"manual" },
        "concurrency": dice.pick(&[1, 3]),
        "approval": dice.pick(&["none", "none", "plan", "every_write"]),
    });
    if dice.once_in(2) {
        plan["task"] = json!(format!("T-{}", dice.below(2)));
    }
    plan
}

/// Whatever chance leaves out: a step that is tried again, one that an agent does, one that wants a yes.
fn always() -> Value {
    let retry = json!({ "max_attempts": 2, "backoff": "1ms", "on": ["rate_limited"] });
    let goes_on = json!({ "action": "continue_others" });
    let steps = [
        json!({ "id": "again", "tool": "t/limit", "retry": retry, "failure_policy": goes_on }),
        json!({ "id": "theirs", "action": "Look at it" }),
        json!({ "id": "asks", "tool": "t/ok", "approval": "required" }),
    ];
    let mut plan = book::plan("plan-0", &steps);
    plan["policy"] = json!({ "concurrency": 3 });
    plan
}

/// So many executions; `between` is called now and then, while some are half done.
pub async fn happens(book: &Book, dice: &mut Dice, executions: usize, between: impl AsyncFn()) {
    let by_chance = (1..PLANS).map(|number| plan(dice, number));
    let plans: Vec<Value> = std::iter::once(always()).chain(by_chance).collect();
    for number in 0..executions {
        let plan = plans.get(number).unwrap_or_else(|| dice.pick(&plans));
        let started = book.start(plan, None, true).await;
        let id = started.id.to_string();
        let mut status = book.drive(started).await;
        for _ in 0..ANSWERS_MAX {
            if dice.once_in(5) {
                between().await;
            }
            if status != ExecutionStatus::Blocked || dice.once_in(12) {
                break;
            }
            say(book, dice, &id).await;
            status = go_on(book, &id).await;
        }
    }
}

/// One word to an execution that waits.
async fn say(book: &Book, dice: &mut Dice, id: &str) {
    let (service, caller) = (&book.service, &book.caller);
    if dice.once_in(15) {
        drop(service.cancel(caller, id, None).await);
        return;
    }
    let waiting = service.view(id).await.unwrap().waiting;
    let asked: &WaitingView = dice.pick(&waiting);
    let step = asked.step.as_ref().map(ToString::to_string);
    // What does not fit in a corner that chance has found is refused, and that is no matter here.
    match (asked.kind, step) {
        ("approval", step) if dice.once_in(4) => {
            drop(service.reject(caller, id, step, None).await);
        }
        ("approval", step) => drop(service.approve(caller, id, step, None).await),
        ("agent", Some(step)) => report(book, dice, id, step, &asked.options).await,
        (_, Some(step)) => {
            let word: StepAnswer = dice.pick(&asked.options).parse().unwrap();
            drop(service.decide(caller, id, step, word, Some("chance".into()), None).await);
        }
        (kind, None) => panic!("a {kind} belongs to a step"),
    }
}

async fn report(book: &Book, dice: &mut Dice, id: &str, step: String, options: &[&'static str]) {
    let status: ReportedStatus = dice.pick(options).parse().unwrap();
    let confidence = (!dice.once_in(4)).then(|| dice.below(101) as f64 / 100.0);
    let facts = ActionFacts { description: Some("seen".into()), confidence, ..ActionFacts::default() };
    let remark = dice.once_in(3).then(|| ActionFacts { confidence: Some(0.5), ..facts.clone() });
    let action = ActionRecord {
        execution: Some(id.to_owned()),
        step: Some(step.clone()),
        status: Some(status),
        output: None,
        facts,
        take_over: false,
    };
    drop(book.service.record_action(&book.caller, action).await);
    if let Some(facts) = remark {
        let execution = Some(id.to_owned());
        let remark = ActionRecord { execution, step: Some(step), facts, ..ActionRecord::default() };
        drop(book.service.record_action(&book.caller, remark).await);
    }
}

async fn go_on(book: &Book, id: &str) -> ExecutionStatus {
    if let Some(progress) = book.service.claim(&book.caller, id, false).await.unwrap() {
        let (_keep, halt) = watch::channel(false);
        return book.service.drive(progress, halt).await.unwrap();
    }
    book.service.find(id).await.unwrap().status
}
