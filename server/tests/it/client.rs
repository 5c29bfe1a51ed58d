//! The library API as an embedding program uses it: its own executors, faults, crashes, several clients. On
//! both databases, through the crate root's items only.

pub mod crash;
mod faults;
mod operations;
mod run;
mod shutdown;
mod watch;

use std::sync::{Arc, Mutex};

use actbook::{Builder, Call, Client, ExecutionView, Executor, Fault, StepView};
use serde_json::{Value, json};
use tokio::sync::Semaphore;

/// A client builder without automatic take-up of open executions, so that each test decides when.
fn builder(url: &str) -> Builder {
    Client::builder().database(url).caller("program:test").take_up(false)
}

/// Records every call made to the test's executors.
#[derive(Clone, Default)]
struct RecordedCalls(Arc<Mutex<Vec<Call>>>);

impl RecordedCalls {
    /// An executor that records each call and then runs `act`.
    fn executor<A>(&self, act: impl Fn(Call) -> A + Send + Sync + 'static) -> Executor
    where
        A: Future<Output = Result<Value, Fault>> + Send + 'static,
    {
        let recorded = self.0.clone();
        Executor::new(move |call| {
            recorded.lock().unwrap().push(call.clone());
            act(call)
        })
    }

    /// An executor that succeeds and returns its arguments under `got`.
    fn echo(&self) -> Executor {
        self.executor(async |call| Ok(json!({ "got": call.arguments })))
    }

    fn calls(&self) -> Vec<Call> {
        self.0.lock().unwrap().clone()
    }

    fn tool_names(&self) -> Vec<String> {
        self.calls().into_iter().map(|call| call.tool).collect()
    }
}

/// Blocks calls until the test releases them.
#[derive(Clone)]
struct Gate {
    arrived: Arc<Semaphore>,
    open: Arc<Semaphore>,
}

impl Gate {
    fn new() -> Self {
        Self { arrived: Arc::new(Semaphore::new(0)), open: Arc::new(Semaphore::new(0)) }
    }

    fn tool(&self) -> Executor {
        let gate = self.clone();
        Executor::new(move |_| {
            let gate = gate.clone();
            async move {
                gate.arrived.add_permits(1);
                gate.open.acquire().await?.forget();
                Ok(json!({ "passed": true }))
            }
        })
    }

    /// Waits until one more call is in flight.
    async fn wait_for_call(&self) {
        self.arrived.acquire().await.unwrap().forget();
    }

    fn release_one(&self) {
        self.open.add_permits(1);
    }
}

fn plan(name: &str, steps: Value) -> String {
    json!({ "name": name, "steps": steps }).to_string()
}

fn step(id: &str, tool: &str) -> Value {
    json!({ "id": id, "tool": tool, "arguments": { "of": id } })
}

fn undoable(id: &str, tool: &str) -> Value {
    let mut step = step(id, tool);
    step["compensation"] = json!({ "tool": "t/undo", "arguments": { "undone": "${arguments.of}" } });
    step
}

/// Saves a plan and runs it, to the end or the first question.
async fn run(client: &Client, name: &str, steps: Value) -> ExecutionView {
    client.save_plan(&plan(name, steps)).await.unwrap();
    client.run(name, None).await.unwrap()
}

fn step_view<'a>(view: &'a ExecutionView, step: &str) -> &'a StepView {
    view.steps.iter().find(|one| one.id.as_str() == step).expect("the plan has this step")
}

fn step_error(view: &ExecutionView, step: &str) -> (String, String) {
    let error = step_view(view, step).error.as_ref().expect("the step has an error");
    (error.category.to_string(), error.message.clone())
}
