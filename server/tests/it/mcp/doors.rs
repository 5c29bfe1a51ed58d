//! Every interface with every demand of the config: a plan, its answers and its undo make no call that the
//! config forbids, whichever way they come in. `call_roles` of the engine's tests has the cells in between.

use serde_json::{Value, json};

use super::agent::Agent;
use super::elicit::journal_entries;
use super::serve_process::ServeProcess;
use super::undo_approvals::change_config;
use super::{work_plan, write_step};
use crate::cli::Sandbox;
use crate::cli::changing_server::ChangingServer;
use crate::waiting::wait_for;
use crate::web::pages::hidden_field;
use crate::web::server::{WebReply, WebServer, new_token};

/// An interface, open to the sandbox's project.
enum Door {
    Stdio(Box<Agent>),
    Http(ServeProcess),
    /// The API, with the token of an operator, who may undo and retry but not approve.
    Api(ApiDoor),
    /// The forms of the pages, with the same token.
    Pages(ApiDoor),
    /// A person, whose undo counts as an approval.
    CommandLine,
}

/// Opens every interface.
const DOORS: [fn(&Sandbox) -> Door; 5] = [
    |sandbox| Door::Stdio(Box::new(Agent::new(sandbox))),
    |sandbox| Door::Http(ServeProcess::start(sandbox)),
    |sandbox| Door::Api(ApiDoor::open(sandbox)),
    |sandbox| Door::Pages(ApiDoor::open(sandbox)),
    |_| Door::CommandLine,
];

/// A server, and the token of an operator.
struct ApiDoor {
    server: WebServer,
    token: String,
}

impl ApiDoor {
    fn open(sandbox: &Sandbox) -> Self {
        Self { server: WebServer::start(sandbox), token: new_token(sandbox, "operator", "ops") }
    }

    fn post(&self, path: &str, body: &Value) {
        self.server.post_as(&self.token, &format!("/api/v1/executions{path}"), body);
    }

    fn page(&self, path: &str) -> String {
        self.server.get_as(&self.token, path).body
    }

    /// Waits until the execution has ended or asks something.
    fn wait(&self, id: &str) {
        let view = self.server.get_as(&self.token, &format!("/api/v1/executions/{id}?wait_s=45"));
        assert_eq!(view.status, 200, "{view:?}");
    }

    /// Sends a form without the script.
    fn submit(&self, path: &str, fields: &[(&str, &str)]) -> WebReply {
        let token = format!("Bearer {}", self.token);
        let headers =
            [("Authorization", token.as_str()), ("Content-Type", "application/x-www-form-urlencoded")];
        let body: Vec<String> = fields.iter().map(|(name, value)| format!("{name}={value}")).collect();
        self.server.send("POST", path, &headers, &body.join("&"))
    }

    /// Runs the saved plan from its page, and waits; it may be refused.
    fn run_saved(&self) {
        let started = self.submit("/plans/work/run", &[]);
        if let Some(id) = started.header("location").strip_prefix("/executions/") {
            self.wait(id);
        }
    }

    /// Answers on the pages of the execution, and waits.
    fn answer(&self, id: &str, answer: Answer) {
        let replied = match answer {
            Answer::Undo => {
                let confirm = self.page(&format!("/executions/{id}/confirm?action=undo"));
                let fields = [("action", "undo"), ("calls", hidden_field(&confirm, "calls"))];
                self.submit(&format!("/executions/{id}/control"), &fields)
            }
            Answer::Retry(_) => {
                let page = self.page(&format!("/executions/{id}"));
                let fields = [("question", hidden_field(&page, "question")), ("answer", "retry")];
                self.submit(&format!("/executions/{id}/answer"), &fields)
            }
            Answer::Reply(_) => {
                let page = self.page(&format!("/executions/{id}"));
                let question = ("question", hidden_field(&page, "question"));
                let fields = [question, ("answer", "retry"), ("value", REPLY)];
                self.submit(&format!("/executions/{id}/answer"), &fields)
            }
        };
        let is_refused = matches!(answer, Answer::Reply(_));
        assert_eq!(replied.status, if is_refused { 403 } else { 303 }, "{replied:?}");
        self.wait(id);
    }
}

impl Door {
    fn label(&self) -> &'static str {
        match self {
            Self::Stdio(_) => "stdio",
            Self::Http(_) => "http",
            Self::Api(_) => "API",
            Self::Pages(_) => "pages",
            Self::CommandLine => "command line",
        }
    }

    fn call(&mut self, tool: &str, arguments: Value) {
        match self {
            Self::Stdio(agent) => drop(agent.call(tool, arguments)),
            Self::Http(server) => drop(server.call(tool, arguments)),
            Self::Api(_) | Self::Pages(_) | Self::CommandLine => unreachable!("they have no tools"),
        }
    }

    /// Starts the plan and waits for its end or first question; it may be refused.
    fn start(&mut self, sandbox: &Sandbox, plan: &Value) {
        match self {
            Self::CommandLine => {
                sandbox.write("plan.json", &plan.to_string());
                sandbox.run(&["run", "plan.json"]);
            }
            Self::Api(door) => door.post("", &json!({ "plan": plan, "wait_s": 45 })),
            Self::Pages(door) => {
                door.server.post_as(&door.token, "/api/v1/plans", &json!({ "plan": plan }));
                door.run_saved();
            }
            Self::Stdio(_) | Self::Http(_) => {
                self.call("execute_plan", json!({ "plan": plan, "wait_s": 45 }));
            }
        }
    }

    /// Starts the plan that is saved as `work`, and waits; it may be refused.
    fn start_saved(&mut self, sandbox: &Sandbox) {
        match self {
            Self::CommandLine => drop(sandbox.run(&["run", "work"])),
            Self::Api(door) => door.post("", &json!({ "plan_id": "work", "wait_s": 45 })),
            Self::Pages(door) => door.run_saved(),
            Self::Stdio(_) | Self::Http(_) => {
                self.call("execute_plan", json!({ "plan_id": "work", "wait_s": 45 }));
            }
        }
    }

    /// Undoes the execution, or retries the step, and waits.
    fn answer(&mut self, sandbox: &Sandbox, id: &str, answer: Answer) {
        match (self, answer) {
            (Self::CommandLine, Answer::Undo) => drop(sandbox.run(&["undo", id])),
            (Self::CommandLine, Answer::Retry(step)) => {
                sandbox.expect(0, &["decide", id, step, "retry", "--reason", "again"]);
                sandbox.run(&["resume", id]);
            }
            (Self::CommandLine, Answer::Reply(step)) => {
                sandbox.expect(0, &["decide", id, step, "retry", "--reason", "mine", "--output", REPLY]);
                sandbox.run(&["resume", id]);
            }
            (Self::Api(door), Answer::Undo) => door.post(&format!("/{id}/undo"), &json!({ "wait_s": 45 })),
            (Self::Api(door), Answer::Retry(step)) => {
                let retry = json!({ "step_id": step, "answer": "retry", "wait_s": 45 });
                door.post(&format!("/{id}/decide"), &retry);
            }
            (Self::Api(door), Answer::Reply(step)) => {
                let output: Value = serde_json::from_str(REPLY).unwrap();
                let reply = json!({ "step_id": step, "answer": "retry", "output": output, "wait_s": 45 });
                door.post(&format!("/{id}/decide"), &reply);
            }
            (Self::Pages(door), answer) => door.answer(id, answer),
            (door, Answer::Undo) => {
                door.call("control", json!({ "execution_id": id, "action": "compensate", "wait_s": 45 }));
            }
            (door, Answer::Retry(step)) => {
                let retry = json!({ "execution_id": id, "action": "retry", "step_id": step, "wait_s": 45 });
                door.call("control", retry);
            }
            (door, Answer::Reply(step)) => {
                let output: Value = serde_json::from_str(REPLY).unwrap();
                let reply = json!({ "execution_id": id, "action": "retry", "step_id": step, "output": output, "wait_s": 45 });
                door.call("control", reply);
            }
        }
    }

    /// Lets the execution go on after an answer of another process.
    fn go_on(&mut self, sandbox: &Sandbox, id: &str) {
        match self {
            Self::CommandLine => drop(sandbox.run(&["resume", id])),
            Self::Api(door) | Self::Pages(door) => door.wait(id),
            Self::Stdio(_) | Self::Http(_) => {
                self.call("status", json!({ "execution_id": id, "wait_s": 45 }));
            }
        }
    }
}

#[derive(Clone, Copy)]
enum Answer {
    Undo,
    Retry(&'static str),
    /// A reply to the question of the step's tool.
    Reply(&'static str),
}

/// What is replied to the tool's question.
const REPLY: &str = r#"{"name":"Ada"}"#;

/// One demand of the config on one role of a call, and how often the tool may be called.
struct Cell {
    /// The config of the server's tools.
    tools: Value,
    plan: Value,
    /// The plan is saved and run before the config has the demand, and probes then.
    probes_before: bool,
    answer: Option<Answer>,
    /// The tool under the demand, as the server's log of calls names it.
    tool: &'static str,
    calls: usize,
    calls_of_a_person: usize,
}

impl Cell {
    /// With a plan that may make one call.
    fn with_one_call(mut self) -> Self {
        self.plan["policy"] = json!({ "max_calls": 1 });
        self
    }
}

fn fails(id: &str) -> Value {
    json!({ "id": id, "tool": "files/fail_times", "arguments": { "name": "x", "times": 9 } })
}

/// A call whose outcome is unknown, which the plan would repeat.
fn crashes(more: Value) -> Value {
    let mut step = json!({
        "id": "crash", "tool": "files/crash", "arguments": { "after_effect": "a.txt" },
        "retry": { "max_attempts": 3, "backoff": "1ms", "on": ["unavailable"] },
    });
    step.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    step
}

/// What a call is made for.
#[derive(Clone, Copy, Debug)]
enum Role {
    Step,
    /// The plan's own repetition of a call whose outcome is unknown.
    Repetition,
    AnsweredRetry,
    /// The retry that carries the reply to the tool's question.
    Reply,
    /// The repetition of a call whose driver was killed.
    Takeover,
    Compensation,
    Probe,
}

/// What the config says of the tool that is called.
#[derive(Clone, Copy, Debug)]
enum Demand {
    Approval,
    NotReadOnly,
    NotIdempotent,
    /// Neither the config nor a trusted server declares the tool repeatable.
    NotTrusted,
    Budget,
    Pin,
}

const ROLES: [Role; 7] = [
    Role::Step,
    Role::Repetition,
    Role::AnsweredRetry,
    Role::Reply,
    Role::Takeover,
    Role::Compensation,
    Role::Probe,
];
const DEMANDS: [Demand; 6] = [
    Demand::Approval,
    Demand::NotReadOnly,
    Demand::NotIdempotent,
    Demand::NotTrusted,
    Demand::Budget,
    Demand::Pin,
];

/// A call with this role, of a tool with this demand on it. `None`: the demand does not forbid it, or a test below tries
/// it.
fn cell(role: Role, demand: Demand) -> Option<Cell> {
    use {Demand as D, Role as R};
    let cell = |tools, steps: &[Value], tool, calls| {
        let plan = work_plan(steps);
        Cell { tools, plan, probes_before: false, answer: None, tool, calls, calls_of_a_person: calls }
    };
    let approval = json!({ "approval": "required" });
    let read = json!({ "tool": "files/read_file", "arguments": { "path": "a.txt" }, "happened": "true" });
    let probed =
        |tools| Cell { probes_before: true, ..cell(tools, &[crashes(json!({ "probe": read }))], "crash", 1) };
    let repeated = |tools, more| cell(tools, &[crashes(more)], "crash", 1);
    let (one, two) = (write_step("one", "one.txt"), write_step("two", "two.txt"));
    Some(match (role, demand) {
        (R::Step, D::Approval) => cell(json!({ "write_file": approval }), &[one], "write_file", 0),
        (R::Step, D::Budget) => cell(json!({}), &[one, two], "write_file", 1).with_one_call(),
        (R::Repetition, D::NotIdempotent) => {
            repeated(json!({ "crash": { "idempotent": false } }), json!({ "idempotent": true }))
        }
        (R::Repetition, D::NotReadOnly) => {
            repeated(json!({ "crash": { "read_only": false } }), json!({ "read_only": true }))
        }
        (R::Repetition, D::NotTrusted) => repeated(json!({}), json!({})),
        (R::Repetition, D::Budget) => {
            repeated(json!({ "crash": { "idempotent": true } }), json!({})).with_one_call()
        }
        (R::AnsweredRetry, D::Approval) => {
            let retry = cell(json!({ "fail_times": approval }), &[fails("f")], "fail_times", 1);
            Cell { answer: Some(Answer::Retry("f")), ..retry }
        }
        (R::Reply, D::Approval) => {
            let sign = json!({ "id": "sign", "tool": "files/sign", "arguments": { "path": "one.txt" } });
            let reply = cell(json!({ "sign": approval }), &[one, sign], "sign", 1);
            Cell { answer: Some(Answer::Reply("sign")), calls_of_a_person: 2, ..reply }
        }
        (R::Compensation, D::Approval) => {
            let undo = cell(json!({ "delete_file": approval }), &[one], "delete_file", 0);
            Cell { answer: Some(Answer::Undo), calls_of_a_person: 1, ..undo }
        }
        (R::Probe, D::Approval) => probed(json!({ "read_file": approval })),
        (R::Probe, D::NotReadOnly) => probed(json!({ "read_file": { "read_only": false } })),
        (R::Probe, D::Budget) => repeated(json!({}), json!({ "probe": read })).with_one_call(),
        // The approval of the first attempt covers them.
        (R::Repetition | R::Takeover, D::Approval) => return None,
        // A person decided to make the call, whatever is known of the tool and however many were made.
        (R::AnsweredRetry | R::Reply, D::NotReadOnly | D::NotIdempotent | D::NotTrusted | D::Budget) => {
            return None;
        }
        // It is made once, and never stops for the budget.
        (R::Compensation, D::NotReadOnly | D::NotIdempotent | D::NotTrusted | D::Budget) => return None,
        // They speak of repeating a call.
        (R::Step, D::NotReadOnly | D::NotIdempotent | D::NotTrusted) => return None,
        (R::Probe, D::NotIdempotent | D::NotTrusted) => return None,
        (R::Takeover, D::NotReadOnly | D::NotIdempotent | D::NotTrusted | D::Budget) => return None,
        (_, D::Pin) => return None,
    })
}

/// The number of calls of this tool that reached the server.
fn logged_calls(sandbox: &Sandbox, tool: &str) -> usize {
    let log = std::fs::read_to_string(sandbox.path("work/.calls.log")).unwrap_or_default();
    log.lines().filter(|line| line.split(' ').next() == Some(tool)).count()
}

fn check_cell(open: fn(&Sandbox) -> Door, name: &str, cell: &Cell) {
    let sandbox = Sandbox::with_long_tools();
    if cell.probes_before {
        open(&sandbox).start(&sandbox, &cell.plan);
        assert_eq!(journal_entries(&sandbox, "probe_started").len(), 1, "{name} without the demand");
    }
    change_config(&sandbox, |config| config["servers"]["files"]["tools"] = cell.tools.clone());
    let mut door = open(&sandbox);
    let (is_person, label) = (matches!(door, Door::CommandLine), door.label());
    if cell.probes_before {
        door.start_saved(&sandbox);
    } else {
        door.start(&sandbox, &cell.plan);
    }
    if let Some(answer) = cell.answer {
        let id = sandbox.newest();
        if let Answer::Retry(step) | Answer::Reply(step) = answer {
            sandbox.expect(0, &["approve", &id, step]);
            door.go_on(&sandbox, &id);
        }
        door.answer(&sandbox, &id, answer);
    }
    let calls = if is_person { cell.calls_of_a_person } else { cell.calls };
    assert_eq!(logged_calls(&sandbox, cell.tool), calls, "{name} at the {label}");
    let probes = journal_entries(&sandbox, "probe_started").len();
    assert_eq!(probes, usize::from(cell.probes_before), "{name} at the {label}");
}

#[test]
fn no_interface_makes_a_call_that_the_config_forbids() {
    for (role, demand) in ROLES.into_iter().flat_map(|role| DEMANDS.map(|demand| (role, demand))) {
        for (open, cell) in DOORS.into_iter().zip(std::iter::repeat_with(|| cell(role, demand))) {
            cell.inspect(|cell| check_cell(open, &format!("{role:?} under {demand:?}"), cell));
        }
    }
}

/// A server with the tools `act` and `undo`, described with these words.
fn tool_definitions(act: &str, undo: &str) -> Value {
    let tool = |name, description| json!({ "name": name, "description": description, "inputSchema": { "type": "object" } });
    json!([tool("act", act), tool("undo", undo)])
}

/// The plan `work` with one call of `act`.
fn acting_plan(arguments: Value) -> Value {
    let undo = json!({ "tool": "shifty/undo" });
    work_plan(&[json!({ "id": "a", "tool": "shifty/act", "arguments": arguments, "compensation": undo })])
}

#[test]
fn no_interface_calls_a_tool_that_changed_since_it_was_checked() {
    for open in DOORS {
        let shifty = ChangingServer::new(&tool_definitions("acts", "takes it back"));
        shifty.sandbox.write("plan.json", &acting_plan(json!({})).to_string());
        shifty.sandbox.expect(0, &["run", "plan.json"]);
        shifty.sandbox.expect(0, &["plan", "save", "plan.json"]);
        let id = shifty.sandbox.newest();
        shifty.set_tools(&tool_definitions("acts otherwise", "takes more back"));
        let mut door = open(&shifty.sandbox);
        door.start_saved(&shifty.sandbox);
        assert_eq!(shifty.calls_of("act"), 1, "a saved plan");
        door.answer(&shifty.sandbox, &id, Answer::Undo);
        assert_eq!(shifty.calls_of("undo"), 0, "an undo");
    }
}

#[test]
fn no_interface_repeats_a_failed_call_of_a_tool_that_changed() {
    for open in DOORS {
        let shifty = ChangingServer::new(&tool_definitions("acts", "takes it back"));
        shifty.sandbox.write("plan.json", &acting_plan(json!({ "fail": true })).to_string());
        shifty.sandbox.expect(3, &["run", "plan.json"]);
        let id = shifty.sandbox.newest();
        shifty.set_tools(&tool_definitions("acts otherwise", "takes it back"));
        open(&shifty.sandbox).answer(&shifty.sandbox, &id, Answer::Retry("a"));
        assert_eq!(shifty.calls_of("act"), 1);
    }
}

/// The config of the tool, and what the plan says of its step, where a call of a killed driver is not repeated.
fn taken_over_calls() -> [(Demand, Value, Value); 4] {
    let repeatable = json!({ "idempotent": true, "read_only": true });
    [
        (Demand::NotTrusted, json!({}), json!({})),
        (Demand::NotReadOnly, json!({ "read_only": false }), json!({ "read_only": true })),
        (Demand::NotIdempotent, json!({ "idempotent": false }), json!({ "idempotent": true })),
        (Demand::Budget, repeatable, json!({})),
    ]
}

#[test]
fn no_interface_repeats_the_call_of_a_driver_that_was_killed() {
    for (demand, tool, step) in taken_over_calls() {
        for open in DOORS {
            let sandbox = Sandbox::new();
            change_config(&sandbox, |config| config["servers"]["command"]["tools"] = json!({ "hold": tool }));
            let mut held = json!({ "id": "held", "tool": "command/hold" });
            held.as_object_mut().unwrap().extend(step.as_object().unwrap().clone());
            let mut plan = work_plan(&[held]);
            if let Demand::Budget = demand {
                plan["policy"] = json!({ "max_calls": 1 });
            }
            sandbox.write("plan.json", &plan.to_string());
            let mut driver = sandbox.start(&["run", "plan.json"]);
            wait_for("the call to arrive", || sandbox.path("holding").exists().then_some(()));
            driver.kill().unwrap();
            driver.wait().unwrap();
            let id = sandbox.newest();
            let mut door = open(&sandbox);
            door.go_on(&sandbox, &id);
            let name = format!("{demand:?} at the {}", door.label());
            assert_eq!(
                sandbox.json(&["show", &id])["status"],
                "blocked",
                "{name}: it asks whether the call happened"
            );
            assert_eq!(journal_entries(&sandbox, "attempt_started").len(), 1, "calls with {name}");
            sandbox.release();
        }
    }
}
