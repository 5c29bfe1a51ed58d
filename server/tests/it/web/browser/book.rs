//! A server with an execution in each state, and a browser that is signed in to it.

use std::path::Path;

use serde_json::{Value, json};

use super::driver::Browser;
use super::session;
use crate::cli::Sandbox;
use crate::web::server::{WebServer, new_token};

const SERVERS: &str = include_str!("book/servers.json");
const BACKUP_CHECK: &str = include_str!("book/backup-check.yaml");
const CONTRACT_REVIEW: &str = include_str!("book/contract-review.yaml");
pub const RELEASE_SERVICE: &str = include_str!("book/release-service.yaml");
const TRAVEL_BOOKING: &str = include_str!("book/travel-booking.yaml");
pub const VENDOR_PAYOUT: &str = include_str!("book/vendor-payout.yaml");
const WEEKLY_REPORT: &str = include_str!("book/weekly-report.yaml");

/// Documents of the plan that stays running: more than a graph is drawn for.
const DOCUMENTS: usize = 56;

/// A sandbox whose servers are scripted, and its dashboard.
pub struct Book {
    pub sandbox: Sandbox,
    pub server: WebServer,
    /// The token of an agent.
    agent: String,
}

/// The executions of a book with one in each state.
pub struct Executions {
    pub blocked: String,
    pub awaiting_approval: String,
    pub awaiting_agent: String,
    pub running: String,
    pub compensated: String,
    pub succeeded: String,
    /// The guarded session of an agent.
    pub session: String,
    /// The plan of `blocked`, of which there are two versions.
    pub plan: String,
}

/// The config entry of a server that `scripted.py` plays from a file of the sandbox.
fn scripted_server(file: &str, name: &str) -> Value {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/web/browser/scripted.py");
    json!({ "command": "python3", "args": [script, file, name] })
}

fn sandbox_with(servers: &str) -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.write("servers.json", servers);
    let names: serde_json::Map<String, Value> = serde_json::from_str(servers).unwrap();
    let entries: serde_json::Map<String, Value> =
        names.keys().map(|name| (name.clone(), scripted_server("servers.json", name))).collect();
    let (guard, known) = session::guard_config();
    let config = json!({ "project": "billing", "mcpServers": entries, "guard": guard, "servers": known });
    sandbox.write_config(config);
    sandbox
}

/// A plan document as the API takes it.
pub fn plan(yaml: &str) -> Value {
    serde_saphyr::from_str(yaml).unwrap()
}

/// A plan that indexes documents four at a time; one of them takes until the sandbox is released.
fn index_docs() -> Value {
    let step = |number: usize| {
        let arguments = json!({ "document": format!("guide-{number}.md") });
        let undo = json!({ "tool": "search/forget", "arguments": arguments });
        json!({ "id": format!("embed-{number}"), "tool": "search/embed", "timeout": "1h", "arguments": arguments, "compensation": undo })
    };
    let steps: Vec<Value> = (1..=DOCUMENTS).map(step).collect();
    json!({ "name": "index-docs", "task": "DOC-88", "policy": { "concurrency": 4 }, "steps": steps })
}

impl Book {
    /// A dashboard without an execution.
    pub fn empty() -> Self {
        Self::with_servers(SERVERS)
    }

    /// A dashboard without an execution, with these servers, given as the file that `scripted.py` reads.
    pub fn with_servers(servers: &str) -> Self {
        let sandbox = sandbox_with(servers);
        let server = WebServer::start(&sandbox);
        let agent = new_token(&sandbox, "agent", "claude-code");
        Self { sandbox, server, agent }
    }

    /// A dashboard with an execution in each state, tasks, notes, two versions of a plan, and a tool that changed.
    pub fn with_executions() -> (Self, Executions) {
        let book = Self::empty();
        book.write_tasks_and_notes();
        let succeeded = book.run(&plan(WEEKLY_REPORT));
        let failed = book.run(&plan(BACKUP_CHECK));
        book.act(
            &failed,
            "decide",
            &json!({ "step_id": "report", "answer": "abandon", "reason": "sent by hand" }),
        );
        let compensated = book.run(&plan(TRAVEL_BOOKING));
        let session = session::run(&book.sandbox);
        let cancelled = book.run(&plan(CONTRACT_REVIEW));
        book.act(&cancelled, "cancel", &json!({ "reason": "superseded" }));
        let awaiting_agent = book.run(&plan(CONTRACT_REVIEW));
        let awaiting_approval = book.run(&plan(VENDOR_PAYOUT));
        let blocked = book.run(&plan(RELEASE_SERVICE));
        let running = book.start(&index_docs(), 0);
        let plan = book.save_riskier_release();
        book.sandbox
            .write("servers.json", &SERVERS.replace("Send a mail.", "Send a mail, and a copy of it."));
        (
            book,
            Executions {
                blocked,
                awaiting_approval,
                awaiting_agent,
                running,
                compensated,
                succeeded,
                session,
                plan,
            },
        )
    }

    /// Saves a second version of the release that undoes less; the plan's id.
    fn save_riskier_release(&self) -> String {
        let mut riskier = plan(RELEASE_SERVICE);
        let build = riskier["steps"][0].as_object_mut().unwrap();
        build.remove("compensation");
        build["arguments"]["service"] = json!("billing-api-2");
        let saved = self.server.post("/api/v1/plans", &json!({ "plan": riskier }));
        assert_eq!(saved.status, 201, "{saved:?}");
        saved.json()["plan_id"].as_str().unwrap().to_owned()
    }

    fn write_tasks_and_notes(&self) {
        for (id, title) in
            [("REL-412", "Release 4.12"), ("FIN-2031", "Pay Kiesel Paper"), ("DOC-88", "Search")]
        {
            self.sandbox.expect(0, &["task", "add", id, "--title", title]);
        }
        self.sandbox.expect(
            0,
            &["context", "set", "deploy-window", "{\"days\": [\"Tue\", \"Thu\"], \"from\": \"14:00\"}"],
        );
        self.sandbox.expect(0, &["context", "set", "bank-limit", "Above 10,000 EUR two people say yes."]);
    }

    /// Runs a plan as an agent until it ends or waits; its id.
    pub fn run(&self, plan: &Value) -> String {
        self.start(plan, 60)
    }

    fn start(&self, plan: &Value, wait_s: u64) -> String {
        let body = json!({ "plan": plan, "wait_s": wait_s });
        let reply = self.server.post_as(&self.agent, "/api/v1/executions", &body);
        assert_eq!(reply.status, 201, "{reply:?}");
        reply.json()["id"].as_str().unwrap().to_owned()
    }

    /// A command about an execution, as an admin.
    pub fn act(&self, execution: &str, action: &str, body: &Value) {
        let reply = self.server.post(&format!("/api/v1/executions/{execution}/{action}"), body);
        assert_eq!(reply.status, 200, "{action}: {reply:?}");
    }

    /// A browser that is signed in.
    pub fn browser(&self) -> Browser {
        let browser = Browser::start(&self.server);
        browser.sign_in(&self.server);
        browser
    }
}
