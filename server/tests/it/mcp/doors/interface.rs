//! The interfaces through which plans are started and answered, each opened for a test in its own process.

use actbook_engine::policy::string_enum;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::cli::Sandbox;
use crate::mcp::agent::Agent;
use crate::mcp::serve_process::ServeProcess;
use crate::web::pages::hidden_field;
use crate::web::server::{WebReply, WebServer, new_token};

string_enum!(
    /// An interface, and with whose token it is called where it has tokens. A hook starts no plan and answers nothing:
    /// what the config demands of its calls is tried in `hook`.
    Door {
        Stdio = "stdio",
        Http = "http",
        ApiAgent = "API as agent",
        ApiOperator = "API as operator",
        ApiApprover = "API as approver",
        ApiAdmin = "API as admin",
        PagesAgent = "pages as agent",
        PagesOperator = "pages as operator",
        PagesApprover = "pages as approver",
        PagesAdmin = "pages as admin",
        CommandLine = "command line",
    }
);

impl Door {
    /// Opens the interface to the sandbox's project.
    pub fn open(self, sandbox: &Sandbox) -> OpenDoor {
        let api = |role| OpenDoor::Api(ApiDoor::open(sandbox, role));
        let pages = |role| OpenDoor::Pages(ApiDoor::open(sandbox, role));
        match self {
            Self::Stdio => OpenDoor::Stdio(Box::new(Agent::new(sandbox))),
            Self::Http => OpenDoor::Http(ServeProcess::start(sandbox)),
            Self::ApiAgent => api("agent"),
            Self::ApiOperator => api("operator"),
            Self::ApiApprover => api("approver"),
            Self::ApiAdmin => api("admin"),
            Self::PagesAgent => pages("agent"),
            Self::PagesOperator => pages("operator"),
            Self::PagesApprover => pages("approver"),
            Self::PagesAdmin => pages("admin"),
            Self::CommandLine => OpenDoor::CommandLine,
        }
    }

    /// Whether whoever answers there may approve too, so that an undo or a reply there is a person's yes.
    pub fn gives_approvals(self) -> bool {
        match self {
            Self::CommandLine | Self::ApiAdmin | Self::PagesAdmin => true,
            Self::Stdio | Self::Http => false,
            // Who may approve and not operate can neither undo nor retry.
            Self::ApiAgent | Self::ApiOperator | Self::ApiApprover => false,
            Self::PagesAgent | Self::PagesOperator | Self::PagesApprover => false,
        }
    }

    /// Whether plans are started there.
    pub fn starts_plans(self) -> bool {
        match self {
            Self::ApiApprover | Self::PagesApprover => false,
            Self::Stdio | Self::Http | Self::CommandLine => true,
            Self::ApiAgent | Self::ApiOperator | Self::ApiAdmin => true,
            Self::PagesAgent | Self::PagesOperator | Self::PagesAdmin => true,
        }
    }
}

/// What is answered to an execution.
#[derive(Clone, Copy)]
pub enum Answer {
    Undo,
    Retry(&'static str),
    /// A reply to the question of the step's tool.
    Reply(&'static str),
}

/// What is replied to the tool's question.
const REPLY: &str = r#"{"name":"Ada"}"#;

/// An open interface.
pub enum OpenDoor {
    Stdio(Box<Agent>),
    Http(ServeProcess),
    Api(ApiDoor),
    /// The forms of the pages.
    Pages(ApiDoor),
    CommandLine,
}

/// A server, and a token.
pub struct ApiDoor {
    server: WebServer,
    role: &'static str,
    token: String,
}

impl ApiDoor {
    fn open(sandbox: &Sandbox, role: &'static str) -> Self {
        Self { server: WebServer::start(sandbox), role, token: new_token(sandbox, role, "ops") }
    }

    fn post(&self, path: &str, body: &Value) {
        self.server.post_as(&self.token, &format!("/api/v1/executions{path}"), body);
    }

    /// Starts a plan; a token without the right to run is refused, and the plan starts at the command line.
    fn start(&self, sandbox: &Sandbox, body: &Value, plan: &str) {
        let started = self.server.post_as(&self.token, "/api/v1/executions", body);
        if self.role == "approver" {
            assert_eq!(started.status, 403, "{started:?}");
            sandbox.run(&["run", plan]);
        }
    }

    /// The page as an admin sees it: with the forms that the token's role does not get.
    fn page(&self, path: &str) -> String {
        self.server.get(path).body
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
    fn run_saved(&self, sandbox: &Sandbox) {
        let started = self.submit("/plans/work/run", &[]);
        if let Some(id) = started.header("location").strip_prefix("/executions/") {
            self.wait(id);
        } else if self.role == "approver" {
            assert_eq!(started.status, 403, "{started:?}");
            sandbox.run(&["run", "work"]);
        }
    }

    /// Answers over the API; it may be refused.
    fn answer_by_request(&self, id: &str, answer: Answer) {
        match answer {
            Answer::Undo => self.post(&format!("/{id}/undo"), &json!({ "wait_s": 45 })),
            Answer::Retry(step) => {
                let retry = json!({ "step_id": step, "answer": "retry", "wait_s": 45 });
                self.post(&format!("/{id}/decide"), &retry);
            }
            Answer::Reply(step) => {
                let output: Value = serde_json::from_str(REPLY).unwrap();
                let reply = json!({ "step_id": step, "answer": "retry", "output": output, "wait_s": 45 });
                self.post(&format!("/{id}/decide"), &reply);
            }
        }
    }

    /// Answers on the pages of the execution, and waits.
    fn answer_by_form(&self, id: &str, answer: Answer) {
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
        let is_accepted = match self.role {
            "admin" => true,
            "operator" => !matches!(answer, Answer::Reply(_)),
            _ => false,
        };
        assert_eq!(replied.status, if is_accepted { 303 } else { 403 }, "{}: {replied:?}", self.role);
        self.wait(id);
    }
}

impl OpenDoor {
    fn call(&mut self, tool: &str, arguments: Value) {
        match self {
            Self::Stdio(agent) => drop(agent.call(tool, arguments)),
            Self::Http(server) => drop(server.call(tool, arguments)),
            Self::Api(_) | Self::Pages(_) | Self::CommandLine => unreachable!("they have no tools"),
        }
    }

    /// Starts the plan and waits for its end or first question; it may be refused.
    pub fn start(&mut self, sandbox: &Sandbox, plan: &Value) {
        sandbox.write("plan.json", &plan.to_string());
        match self {
            Self::CommandLine => drop(sandbox.run(&["run", "plan.json"])),
            Self::Api(door) => door.start(sandbox, &json!({ "plan": plan, "wait_s": 45 }), "plan.json"),
            Self::Pages(door) => {
                door.server.post("/api/v1/plans", &json!({ "plan": plan }));
                door.run_saved(sandbox);
            }
            Self::Stdio(_) | Self::Http(_) => {
                self.call("execute_plan", json!({ "plan": plan, "wait_s": 45 }));
            }
        }
    }

    /// Starts the plan that is saved as `work`, and waits; it may be refused.
    pub fn start_saved(&mut self, sandbox: &Sandbox) {
        match self {
            Self::CommandLine => drop(sandbox.run(&["run", "work"])),
            Self::Api(door) => door.start(sandbox, &json!({ "plan_id": "work", "wait_s": 45 }), "work"),
            Self::Pages(door) => door.run_saved(sandbox),
            Self::Stdio(_) | Self::Http(_) => {
                self.call("execute_plan", json!({ "plan_id": "work", "wait_s": 45 }));
            }
        }
    }

    /// Undoes the execution, or retries the step, and waits; it may be refused.
    pub fn answer(&mut self, sandbox: &Sandbox, id: &str, answer: Answer) {
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
            (Self::Api(door), answer) => door.answer_by_request(id, answer),
            (Self::Pages(door), answer) => door.answer_by_form(id, answer),
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
    pub fn go_on(&mut self, sandbox: &Sandbox, id: &str) {
        match self {
            Self::CommandLine => drop(sandbox.run(&["resume", id])),
            Self::Api(door) | Self::Pages(door) => door.wait(id),
            Self::Stdio(_) | Self::Http(_) => {
                self.call("status", json!({ "execution_id": id, "wait_s": 45 }));
            }
        }
    }
}
