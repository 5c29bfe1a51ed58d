//! The page of a guarded session: its calls as hooks report them, its labels, and the undo of a part of it. The calls
//! are made in a real folder, and an undo from the page restores it.

use std::path::PathBuf;

use serde_json::{Value, json};

use super::book::Book;
use crate::cli::Sandbox;
use crate::guard::{after, before, run_hook};

/// The folder that the agent works in, within the sandbox.
pub const FOLDER: &str = "checkout-web";
const CART: &str = "return items.reduce((sum, i) => sum + i.price, 0);\n";

/// The config of the guard, and what it says of the servers that the agent calls.
pub fn guard_config() -> (Value, Value) {
    let guard = json!({
        "use": ["trifecta", "stay-in-folder"], "snapshot": { "folder": FOLDER },
        "budget": { "calls": 500, "wall": "8h" },
    });
    let read = json!({ "read_only": true });
    let servers = json!({
        "forum": { "adds": ["untrusted"], "tools": { "read_thread": read } },
        "crm": { "adds": ["private"], "tools": { "get_customer": read } },
        "post": { "labels": ["egress"] },
    });
    (guard, servers)
}

/// An agent whose calls go through the hook.
pub struct HookedAgent<'a> {
    sandbox: &'a Sandbox,
    calls: u32,
}

impl<'a> HookedAgent<'a> {
    /// An agent whose folder holds one file.
    pub fn start(sandbox: &'a Sandbox) -> Self {
        std::fs::create_dir_all(sandbox.path(FOLDER).join("src")).unwrap();
        let agent = Self { sandbox, calls: 0 };
        std::fs::write(agent.file("src/cart.ts"), CART).unwrap();
        agent
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.sandbox.path(FOLDER).join(name)
    }

    fn event(&mut self, tool: &str, input: Value) -> Value {
        self.calls += 1;
        let mut event = before(self.sandbox, &format!("toolu_{}", self.calls), tool, input);
        event["cwd"] = json!(self.sandbox.path(FOLDER));
        event
    }

    /// Makes a call that the guard lets pass; `act` is what it does.
    #[track_caller]
    pub fn call(&mut self, tool: &str, input: Value, act: impl FnOnce()) {
        let event = self.event(tool, input);
        let report = |event: &Value| {
            let ran = run_hook(self.sandbox, event, &[]);
            assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), ""), "{event}: {}", ran.stderr);
        };
        report(&event);
        act();
        report(&after(&event, json!({ "ok": true })));
    }

    /// Writes a file with the client's own tool.
    #[track_caller]
    pub fn write(&mut self, name: &str, text: &str) {
        let path = self.file(name);
        self.call("Write", json!({ "file_path": path, "content": text }), || {
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, text).unwrap();
        });
    }

    /// Tries a call that the guard denies.
    #[track_caller]
    pub fn try_denied(&mut self, tool: &str, input: Value) {
        let event = self.event(tool, input);
        let ran = run_hook(self.sandbox, &event, &[]);
        assert!(ran.stdout.contains("\"deny\""), "{}{}", ran.stdout, ran.stderr);
    }
}

/// A session as the mock shows it: it writes, reads what strangers wrote and what is private, and may not send it.
/// Returns its id.
pub fn run(sandbox: &Sandbox) -> String {
    let mut agent = HookedAgent::start(sandbox);
    let cart = agent.file("src/cart.ts");
    agent.call("Read", json!({ "file_path": cart }), || {});
    agent.call("Bash", json!({ "command": "npm test -- cart" }), || {});
    agent.write("src/cart.ts", &CART.replace("i.price", "i.price * i.quantity"));
    agent.write("src/cart.test.ts", "test('adds up', () => {});\n");
    agent.call("mcp__forum__read_thread", json!({ "path": "threads/rounding-in-carts" }), || {});
    agent.call("mcp__crm__get_customer", json!({ "id": "c-2218" }), || {});
    agent
        .try_denied("mcp__post__send", json!({ "to": "support@vendor.example", "subject": "Rounding case" }));
    agent.write("docs/rounding.md", "# Rounding\n");
    sandbox.newest()
}

#[test]
fn session_is_watched_and_undone_from_a_call_on_its_page() {
    let book = Book::empty();
    let mut agent = HookedAgent::start(&book.sandbox);
    agent.write("src/cart.ts", "first\n");
    agent.write("src/new.ts", "second\n");
    let id = book.sandbox.newest();
    let browser = book.browser();
    browser.open(&format!("/executions/{id}"));
    browser.wait_for_text("*[@id='view']", "src/new.ts");
    browser.wait_for_text("*[@id='head']", "The session is open. 2 calls: 2 succeeded.");
    assert!(browser.text().contains("None."), "no label yet: {}", browser.text());
    browser.run("window.isTheSamePage = true;", vec![]);

    // What other processes report comes without a reload: the call, its label, the number of steps.
    agent.call("mcp__forum__read_thread", json!({ "path": "threads/7" }), || {});
    browser.wait_for_text("*[contains(@class, 'label')]", "untrusted");
    browser.wait_for_text("*[contains(@class, 'label')]", "Since c3, forum/read_thread");
    browser.wait_for_text("*[@id='view']", "joined with c3");
    browser.wait_for_text("*[@id='tab-steps']", "3");
    browser.wait_for_text("*[@id='head']", "untrusted");
    agent.write("src/later.ts", "third\n");
    browser.wait_for_text("*[@id='view']", "src/later.ts");
    // The page shows the call before it has ended, and the button after that.
    browser.wait_for("button[name=from][value=c4]");
    assert_eq!(browser.run("return window.isTheSamePage;", vec![]), true);

    // A call that reads only has no such button.
    let offered =
        "return [...document.querySelectorAll('button[name=from]')].map((one) => one.value).join(' ');";
    assert_eq!(browser.run(offered, vec![]), "c1 c2 c4");
    browser.click("button[name=from][value=c2]");
    browser.wait_for_text("*[@id='ask']", "did from c2 on?");
    browser.wait_for_text("*[@id='ask']", "Restores 2 files. The session stays open.");
    browser.wait_for_text("*[@id='ask']", "src/later.ts");
    assert_eq!(
        browser.run("return document.querySelector('#ask').textContent.includes('cart.ts');", vec![]),
        false
    );
    browser.fill("#ask input[name=reason]", "not wanted");
    browser.click("#ask .acts button");
    browser.wait_for_text("*[@id='view']", "undone");
    let exists = |name: &str| agent.file(name).exists();
    assert!(!exists("src/new.ts") && !exists("src/later.ts"));
    assert_eq!(std::fs::read_to_string(agent.file("src/cart.ts")).unwrap(), "first\n");
    browser.assert_no_problems();
}

#[test]
fn only_the_files_of_a_session_are_restored_from_its_page() {
    let book = Book::empty();
    let mut agent = HookedAgent::start(&book.sandbox);
    agent.write("src/cart.ts", "first\n");
    let id = book.sandbox.newest();
    let browser = book.browser();
    browser.open(&format!("/executions/{id}"));
    browser.wait_for("button[name=only][value=files]");
    browser.click("button[name=only][value=files]");
    browser.wait_for_text("*[@id='ask']", "Restore only the files of");
    browser.click("#ask .acts button");
    browser.wait_for_text("*[@id='view']", "undone");
    assert_eq!(std::fs::read_to_string(agent.file("src/cart.ts")).unwrap(), CART);
    browser.wait_for_text("*[@id='view']", "Nothing is left to undo.");
    browser.assert_no_problems();
}
