//! A service with in-process tools, and helpers that write journals with every kind of event.

use std::time::Duration;

use actbook::caller::Caller;
use actbook::config::{Config, DatabaseOptions};
use actbook::error::{Error, StoreError};
use actbook::service::{
    self, ActionFacts, ActionRecord, Executions, ReportedStatus, Service, StartedExecution,
};
use actbook::tools::{Call, CallOutcome, Tools};
use actbook_engine::policy::{ErrorCategory, ExecutionStatus, StepAnswer};
use futures_util::FutureExt as _;
use serde_json::{Value, json};
use tokio::sync::watch;

/// A service on a scratch database, with one caller.
pub struct ServiceFixture {
    pub service: Service,
    pub caller: Caller,
    /// Shutdown signal of the drivers; never sent.
    shutdown: watch::Sender<bool>,
}

impl ServiceFixture {
    pub fn executions(&self) -> Executions<'_> {
        self.service.executions()
    }

    pub async fn open(url: &str) -> Self {
        Self::open_observed(url, |_| {}).await
    }

    /// Opens the fixture and runs `on_call` for each call before it is answered.
    pub async fn open_observed(url: &str, on_call: impl Fn(&Call) + Send + Sync + 'static) -> Self {
        let tools = Tools::new(&Config::default()).with_server_executor("t", move |call| {
            on_call(&call);
            std::future::ready(call_outcome(&call)).boxed()
        });
        Self::with_tools(url, tools).await
    }

    /// Opens the fixture with tools that take the time that a call asks for.
    pub async fn with_timed_tools(url: &str) -> Self {
        let tools =
            Tools::new(&Config::default()).with_server_executor("t", |call| timed_outcome(call).boxed());
        Self::with_tools(url, tools).await
    }

    pub async fn with_tools(url: &str, tools: Tools) -> Self {
        let service = Service::open_with_tools(url, DatabaseOptions::default(), tools)
            .await
            .expect("the service opens");
        Self { service, caller: Caller::new("person:ada"), shutdown: watch::channel(false).0 }
    }

    pub async fn start(&self, plan: &Value, inputs: Option<Value>, drive: bool) -> StartedExecution {
        let document = plan.to_string();
        let saved = retry_while_busy(|| self.service.plans().save(&self.caller, &document, true)).await;
        let saved = saved.expect("the plan is valid");
        let start = || {
            let (reference, plan) = (saved.reference.clone(), saved.plan.clone());
            self.executions().start(&self.caller, reference, plan, inputs.clone(), drive)
        };
        retry_while_busy(start).await.expect("the execution starts")
    }

    /// Saves, starts and drives, to the end or the first question.
    pub async fn run(&self, plan: &Value, inputs: Option<Value>) -> (String, ExecutionStatus) {
        let started = self.start(plan, inputs, true).await;
        (started.id.to_string(), self.drive(started).await)
    }

    pub async fn drive(&self, started: StartedExecution) -> ExecutionStatus {
        self.service
            .executions()
            .drive(started.progress, self.shutdown.subscribe())
            .await
            .expect("it is driven")
    }

    pub async fn claim_and_drive(&self, id: &str) -> ExecutionStatus {
        let claimed =
            self.executions().claim(&self.caller, id, false).await.expect("the execution is claimed");
        let progress = claimed.expect("nobody else drives it");
        self.executions().drive(progress, self.shutdown.subscribe()).await.expect("it is driven")
    }

    pub async fn decide(
        &self,
        id: &str,
        step: &str,
        answer: StepAnswer,
        output: Option<Value>,
    ) -> ExecutionStatus {
        let (step, reason) = (step.to_owned(), Some(format!("because {}", answer.as_str())));
        self.service
            .executions()
            .decide(&self.caller, id, step, answer, reason, output)
            .await
            .expect("the decision is accepted");
        self.claim_and_drive(id).await
    }

    pub async fn assert_verifies(&self) -> service::VerifyReport {
        let verified = self.service.journal().verify().await.expect("the journal can be verified");
        assert_eq!(verified.bad, None);
        assert!(verified.ok);
        verified
    }
}

fn call_outcome(call: &Call) -> CallOutcome {
    match call.tool.as_str() {
        "t/no" => CallOutcome::Failed {
            category: ErrorCategory::ToolError,
            message: format!("no to {}", call.arguments),
            sent: true,
            output: None,
            retry_after: None,
        },
        "t/lost" => CallOutcome::Unknown {
            category: ErrorCategory::Timeout,
            message: "no answer".into(),
            retry_after: None,
        },
        _ => CallOutcome::Succeeded { output: json!({ "heard": call.arguments }) },
    }
}

/// Waits `ms` of the arguments, then answers by the tool's name; a probe finds what it looks for where `ms` is 1.
async fn timed_outcome(call: Call) -> CallOutcome {
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

pub fn step(id: &str, tool: &str, word: &str) -> Value {
    json!({ "id": id, "tool": tool, "arguments": { "word": format!("{id} {word}") } })
}

fn undoable(id: &str, tool: &str, word: &str) -> Value {
    let mut step = step(id, tool, word);
    step["compensation"] = json!({ "tool": "t/undo", "arguments": { "undo": "${arguments.word}" } });
    step
}

pub fn plan(name: &str, steps: &[Value]) -> Value {
    json!({ "name": name, "steps": steps })
}

/// Writes executions of every kind and a standalone action, with `word` in every payload. Returns the ids of
/// the ended executions; one more is left open.
pub async fn write_mixed_history(fixture: &ServiceFixture, word: &str) -> Vec<String> {
    let mut ids = vec![run_passing_values(fixture, word).await, run_failing_then_undone(fixture, word).await];
    ids.push(run_settled_by_decisions(fixture, word).await);
    ids.push(run_with_approvals(fixture, word).await);
    ids.push(run_with_automatic_undo(fixture, word).await);
    ids.push(run_cancelled(fixture, word).await);
    let facts = ActionFacts {
        entity: Some(word.to_owned()),
        after_state: Some(json!(word)),
        ..ActionFacts::default()
    };
    let act = ActionRecord { facts, ..ActionRecord::default() };
    fixture.executions().record_action(&fixture.caller, act).await.expect("a standalone action is recorded");
    // Left open, without a driver.
    fixture.start(&plan_with_inputs(word), Some(json!({ "word": word })), false).await;
    ids
}

fn plan_with_inputs(word: &str) -> Value {
    let mut reads = step("reads", "t/ok", word);
    reads["arguments"]["given"] = json!("${inputs.word}");
    let mut passes = step("passes", "t/ok", word);
    passes["arguments"]["heard"] = json!("${steps.reads.output.heard.given}");
    passes["read_only"] = json!(true);
    let mut plan = plan("passes", &[reads, passes]);
    plan["inputs"] = json!({ "type": "object", "properties": { "word": { "type": "string" } } });
    plan
}

async fn run_passing_values(fixture: &ServiceFixture, word: &str) -> String {
    let (id, status) = fixture.run(&plan_with_inputs(word), Some(json!({ "word": word }))).await;
    assert_eq!(status, ExecutionStatus::Succeeded);
    id
}

async fn run_failing_then_undone(fixture: &ServiceFixture, word: &str) -> String {
    let steps = [undoable("does", "t/ok", word), undoable("fails", "t/no", word)];
    let (id, status) = fixture.run(&plan("fails", &steps), None).await;
    assert_eq!(status, ExecutionStatus::Blocked);
    assert_eq!(fixture.decide(&id, "fails", StepAnswer::Retry, None).await, ExecutionStatus::Blocked);
    assert_eq!(
        fixture.decide(&id, "fails", StepAnswer::Compensate, None).await,
        ExecutionStatus::Compensated
    );
    id
}

async fn run_settled_by_decisions(fixture: &ServiceFixture, word: &str) -> String {
    let steps = [step("lost", "t/lost", word), step("after", "t/ok", word), step("also", "t/lost", word)];
    let (id, status) = fixture.run(&plan("settled", &steps), None).await;
    assert_eq!(status, ExecutionStatus::Blocked);
    let output = Some(json!({ "found": word }));
    assert_eq!(fixture.decide(&id, "lost", StepAnswer::Happened, output).await, ExecutionStatus::Blocked);
    assert_eq!(fixture.decide(&id, "also", StepAnswer::Skip, None).await, ExecutionStatus::Succeeded);
    id
}

async fn run_with_approvals(fixture: &ServiceFixture, word: &str) -> String {
    let mut asks = step("asks", "t/ok", word);
    asks["approval"] = json!("required");
    let agent = json!({ "id": "tells", "action": "Tell the team" });
    let mut plan = plan("waits", &[asks, agent]);
    plan["policy"] = json!({ "approval": "plan" });
    let (id, status) = fixture.run(&plan, None).await;
    assert_eq!(status, ExecutionStatus::Blocked);
    let (service, caller) = (&fixture.service, &fixture.caller);
    service.executions().approve(caller, &id, None, Some("go ahead".into())).await.unwrap();
    assert_eq!(fixture.claim_and_drive(&id).await, ExecutionStatus::Blocked);
    service.executions().approve(caller, &id, Some("asks".into()), None).await.unwrap();
    assert_eq!(fixture.claim_and_drive(&id).await, ExecutionStatus::Blocked);
    let tells = |status, output| ActionRecord {
        execution: Some(id.to_string()),
        step: Some("tells".into()),
        status: Some(status),
        output,
        facts: ActionFacts {
            description: Some(word.to_owned()),
            confidence: Some(0.9),
            ..ActionFacts::default()
        },
        ..ActionRecord::default()
    };
    service.executions().record_action(caller, tells(ReportedStatus::Started, None)).await.unwrap();
    let output = Some(json!({ "told": word }));
    service.executions().record_action(caller, tells(ReportedStatus::Succeeded, output)).await.unwrap();
    assert_eq!(fixture.claim_and_drive(&id).await, ExecutionStatus::Succeeded);
    id
}

async fn run_with_automatic_undo(fixture: &ServiceFixture, word: &str) -> String {
    let mut plan = plan("auto", &[undoable("does", "t/ok", word), undoable("lost", "t/lost", word)]);
    plan["policy"] = json!({ "on_failure": "auto" });
    let (id, status) = fixture.run(&plan, None).await;
    assert_eq!(status, ExecutionStatus::Compensated);
    id
}

async fn run_cancelled(fixture: &ServiceFixture, word: &str) -> String {
    let mut asks = undoable("asks", "t/ok", word);
    asks["approval"] = json!("required");
    let (id, status) = fixture.run(&plan("cancelled", &[step("does", "t/ok", word), asks]), None).await;
    assert_eq!(status, ExecutionStatus::Blocked);
    fixture.executions().pause(&fixture.caller, &id, Some("not now".into())).await.unwrap();
    fixture.executions().resume(&fixture.caller, &id).await.unwrap();
    fixture.executions().cancel(&fixture.caller, &id, None).await.unwrap();
    assert_eq!(fixture.claim_and_drive(&id).await, ExecutionStatus::Cancelled);
    id
}

/// Repeats a request while SQLite's write lock is not free in time, which can happen with twenty writers on a
/// loaded machine. Nothing was written then.
async fn retry_while_busy<T, F>(mut request: impl FnMut() -> F) -> Result<T, Error>
where
    F: Future<Output = Result<T, Error>>,
{
    loop {
        match request().await {
            Err(Error::Store(StoreError::Busy { .. })) => {}
            ended => return ended,
        }
    }
}
