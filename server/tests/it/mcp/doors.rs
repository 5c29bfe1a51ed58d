//! Every interface with every demand of the config: a plan, its answers and its undo make no call that the
//! config forbids, whichever way they come in. `call_roles` of the engine's tests has the cells in between.

mod hook;
mod interface;

use std::process::Child;

use actbook_engine::policy::string_enum;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use self::interface::{Answer, Door};
use super::elicit::journal_entries;
use super::undo_approvals::change_config;
use super::{work_plan, write_step};
use crate::cli::Sandbox;
use crate::cli::changing_server::ChangingServer;
use crate::waiting::wait_for;

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

string_enum!(
    /// What a call is made for.
    Role {
        Step = "step",
        /// The plan's own repetition of a call whose outcome is unknown.
        Repetition = "repetition",
        AnsweredRetry = "answered retry",
        /// The retry that carries the reply to the tool's question.
        Reply = "reply",
        /// The repetition of a call whose driver was killed.
        Takeover = "takeover",
        Compensation = "compensation",
        Probe = "probe",
    }
);

string_enum!(
    /// What the config says of the tool that is called.
    Demand {
        Approval = "approval",
        NotReadOnly = "read_only: false",
        NotIdempotent = "idempotent: false",
        /// Neither the config nor a trusted server declares the tool repeatable.
        NotTrusted = "no trust",
        Budget = "budget",
        Pin = "pin",
    }
);

/// How a role and a demand are tried.
enum Trial {
    Cell(Box<Cell>),
    /// By one of the tests below.
    Below,
    /// By `tools::pins`: every call carries its pin, whoever asked for it.
    Elsewhere,
    /// Not: the demand does not forbid the call.
    Allowed,
}

/// A call with this role, of a tool with this demand on it.
fn trial(role: Role, demand: Demand) -> Trial {
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
    Trial::Cell(Box::new(match (role, demand) {
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
        (R::Repetition, D::Approval) => return Trial::Allowed,
        // A person decided to make the call, whatever is known of the tool and however many were made.
        (R::AnsweredRetry | R::Reply, D::NotReadOnly | D::NotIdempotent | D::NotTrusted | D::Budget) => {
            return Trial::Allowed;
        }
        // It is made once, and never stops for the budget.
        (R::Compensation, D::NotReadOnly | D::NotIdempotent | D::NotTrusted | D::Budget) => {
            return Trial::Allowed;
        }
        // They speak of repeating a call.
        (R::Step, D::NotReadOnly | D::NotIdempotent | D::NotTrusted) => return Trial::Allowed,
        (R::Probe, D::NotIdempotent | D::NotTrusted) => return Trial::Allowed,
        (R::Reply | R::Repetition, D::Pin) => return Trial::Elsewhere,
        (R::Takeover, _) | (_, D::Pin) => return Trial::Below,
    }))
}

/// The number of calls of this tool that reached the server.
fn logged_calls(sandbox: &Sandbox, tool: &str) -> usize {
    let log = std::fs::read_to_string(sandbox.path("work/.calls.log")).unwrap_or_default();
    log.lines().filter(|line| line.split(' ').next() == Some(tool)).count()
}

fn check_cell(door: Door, name: &str, cell: &Cell) {
    let name = format!("{name} at the {door}");
    let sandbox = Sandbox::with_long_tools();
    if cell.probes_before {
        door.open(&sandbox).start(&sandbox, &cell.plan);
        assert_eq!(journal_entries(&sandbox, "probe_started").len(), 1, "{name} without the demand");
    }
    change_config(&sandbox, |config| config["servers"]["files"]["tools"] = cell.tools.clone());
    let mut open = door.open(&sandbox);
    if cell.probes_before {
        open.start_saved(&sandbox);
    } else {
        open.start(&sandbox, &cell.plan);
    }
    if let Some(answer) = cell.answer {
        let id = sandbox.newest();
        if let Answer::Retry(step) | Answer::Reply(step) = answer {
            sandbox.expect(0, &["approve", &id, step]);
            open.go_on(&sandbox, &id);
        }
        open.answer(&sandbox, &id, answer);
    }
    let calls = if door.gives_approvals() { cell.calls_of_a_person } else { cell.calls };
    assert_eq!(logged_calls(&sandbox, cell.tool), calls, "{name}");
    let probes = journal_entries(&sandbox, "probe_started").len();
    assert_eq!(probes, usize::from(cell.probes_before), "{name}");
}

/// Checks the cells with, or without, an answer at every interface.
fn check_cells(with_answer: bool) {
    for (role, demand) in
        Role::ALL.iter().flat_map(|role| Demand::ALL.iter().map(move |demand| (*role, *demand)))
    {
        for door in Door::ALL.iter().filter(|door| with_answer || door.starts_plans()) {
            match trial(role, demand) {
                Trial::Cell(cell) if cell.answer.is_some() == with_answer => {
                    check_cell(*door, &format!("{role} under {demand}"), &cell);
                }
                Trial::Cell(_) | Trial::Below | Trial::Elsewhere | Trial::Allowed => {}
            }
        }
    }
}

#[test]
fn no_interface_makes_a_call_that_the_config_forbids() {
    check_cells(false);
}

#[test]
fn no_answer_at_any_interface_makes_a_call_that_the_config_forbids() {
    check_cells(true);
}

/// A server with the tools `act`, `undo` and `look`, described with these words; `look` as `undo`.
fn tool_definitions(act: &str, undo: &str) -> Value {
    let tool = |name, description| json!({ "name": name, "description": description, "inputSchema": { "type": "object" } });
    json!([tool("act", act), tool("undo", undo), tool("look", undo)])
}

/// The plan `work` with one call of `act`.
fn acting_plan(arguments: Value) -> Value {
    let undo = json!({ "tool": "shifty/undo" });
    work_plan(&[json!({ "id": "a", "tool": "shifty/act", "arguments": arguments, "compensation": undo })])
}

#[test]
fn no_interface_calls_a_tool_that_changed_since_it_was_checked() {
    for door in Door::ALL {
        let shifty = ChangingServer::new(&tool_definitions("acts", "takes it back"));
        shifty.sandbox.write("plan.json", &acting_plan(json!({})).to_string());
        shifty.sandbox.expect(0, &["run", "plan.json"]);
        shifty.sandbox.expect(0, &["plan", "save", "plan.json"]);
        let id = shifty.sandbox.newest();
        shifty.set_tools(&tool_definitions("acts otherwise", "takes more back"));
        let mut open = door.open(&shifty.sandbox);
        open.start_saved(&shifty.sandbox);
        assert_eq!(shifty.calls_of("act"), 1, "a saved plan at the {door}");
        open.answer(&shifty.sandbox, &id, Answer::Undo);
        assert_eq!(shifty.calls_of("undo"), 0, "an undo at the {door}");
    }
}

#[test]
fn no_interface_repeats_a_failed_call_of_a_tool_that_changed() {
    for door in Door::ALL {
        let shifty = ChangingServer::new(&tool_definitions("acts", "takes it back"));
        shifty.sandbox.write("plan.json", &acting_plan(json!({ "fail": true })).to_string());
        shifty.sandbox.expect(3, &["run", "plan.json"]);
        let id = shifty.sandbox.newest();
        shifty.set_tools(&tool_definitions("acts otherwise", "takes it back"));
        door.open(&shifty.sandbox).answer(&shifty.sandbox, &id, Answer::Retry("a"));
        assert_eq!(shifty.calls_of("act"), 1, "{door}");
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

/// Kills the driver once the file `holding` says that its call has arrived.
fn kill_in_call(sandbox: &Sandbox, mut driver: Child) {
    wait_for("the call to arrive", || sandbox.path("holding").exists().then_some(()));
    driver.kill().unwrap();
    driver.wait().unwrap();
}

#[test]
fn no_interface_repeats_the_call_of_a_driver_that_was_killed() {
    for ((demand, tool, step), door) in
        taken_over_calls().into_iter().flat_map(|call| Door::ALL.iter().map(move |door| (call.clone(), door)))
    {
        let sandbox = Sandbox::new();
        change_config(&sandbox, |config| config["servers"]["command"]["tools"] = json!({ "hold": tool }));
        let mut held = json!({ "id": "held", "tool": "command/hold" });
        held.as_object_mut().unwrap().extend(step.as_object().unwrap().clone());
        let mut plan = work_plan(&[held]);
        if let Demand::Budget = demand {
            plan["policy"] = json!({ "max_calls": 1 });
        }
        sandbox.write("plan.json", &plan.to_string());
        kill_in_call(&sandbox, sandbox.start(&["run", "plan.json"]));
        let id = sandbox.newest();
        door.open(&sandbox).go_on(&sandbox, &id);
        let name = format!("{demand} at the {door}");
        assert_eq!(
            sandbox.json(&["show", &id])["status"],
            "blocked",
            "{name}: it asks whether the call happened"
        );
        assert_eq!(journal_entries(&sandbox, "attempt_started").len(), 1, "calls with {name}");
        sandbox.release();
    }
}

#[test]
fn no_interface_makes_the_waiting_call_of_a_driver_that_was_killed() {
    for door in Door::ALL {
        let sandbox = Sandbox::new();
        change_config(&sandbox, |config| {
            config["servers"]["files"]["tools"] =
                json!({ "write_file": { "approval": "required", "idempotent": true } });
        });
        let held = json!({ "id": "held", "tool": "command/hold" });
        let mut plan = work_plan(&[held, write_step("one", "one.txt")]);
        for step in plan["steps"].as_array_mut().unwrap() {
            // An irreversible step runs alone.
            step["cancellable"] = json!("partially-reversible");
        }
        plan["policy"] = json!({ "concurrency": 2 });
        sandbox.write("plan.json", &plan.to_string());
        let driver = sandbox.start(&["run", "plan.json"]);
        sandbox.follow_journal().wait_for("approval_asked", Some("one"));
        kill_in_call(&sandbox, driver);
        let id = sandbox.newest();
        door.open(&sandbox).go_on(&sandbox, &id);
        assert_eq!(sandbox.json(&["show", &id])["waiting"].as_array().unwrap().len(), 2, "{door}");
        assert!(!sandbox.path("work/one.txt").exists(), "{door}");
        sandbox.release();
    }
}

/// Kills a driver in a call of `act` that lasts, lets the server list these definitions, and takes over at the interface;
/// how often `act` and its probe `look` were called.
fn calls_after_takeover(door: Door, is_repeatable: bool, listed: &Value) -> (usize, usize) {
    let config =
        json!({ "tools": { "act": { "idempotent": is_repeatable }, "look": { "read_only": true } } });
    let shifty = ChangingServer::with_server_config(&tool_definitions("acts", "looks"), config);
    let sandbox = &shifty.sandbox;
    let probe = json!({ "tool": "shifty/look", "happened": "true" });
    let mut step = json!({ "id": "a", "tool": "shifty/act", "arguments": { "hold": true }, "cancellable": "irreversible" });
    if !is_repeatable {
        step["probe"] = probe;
    }
    sandbox.write("plan.json", &work_plan(&[step]).to_string());
    kill_in_call(sandbox, sandbox.start(&["run", "plan.json"]));
    shifty.set_tools(listed);
    sandbox.release();
    let id = sandbox.newest();
    door.open(sandbox).go_on(sandbox, &id);
    (shifty.calls_of("act"), shifty.calls_of("look"))
}

#[test]
fn no_interface_calls_a_changed_tool_after_the_driver_was_killed() {
    let same = tool_definitions("acts", "looks");
    assert_eq!(calls_after_takeover(Door::CommandLine, true, &same), (2, 0), "an unchanged tool");
    assert_eq!(calls_after_takeover(Door::CommandLine, false, &same), (1, 1), "an unchanged probe");
    for door in Door::ALL {
        let changed = tool_definitions("acts otherwise", "looks");
        assert_eq!(calls_after_takeover(*door, true, &changed), (1, 0), "{door}");
        let changed = tool_definitions("acts", "looks elsewhere");
        assert_eq!(calls_after_takeover(*door, false, &changed), (1, 0), "the probe at the {door}");
    }
}
