//! The whole story in two browsers: a plan is run from its form, watched, corrected, approved by somebody else, undone
//! and verified.

use serde_json::json;

use super::book::Book;
use super::driver::Browser;

/// The first step takes until the sandbox is released, the second fails for all traffic, the third asks first.
const PLAN: &str = r#"
name: publish-version
inputs: { type: object, properties: { percent: { type: integer, default: 100 } } }
steps:
  - { id: index, tool: search/embed, arguments: { document: guide-17.md }, compensation: { tool: search/forget, arguments: { document: guide-17.md } } }
  - { id: rollout, tool: deploy/set_traffic, arguments: { service: api, version: "2", percent: "${inputs.percent}" }, compensation: { tool: deploy/set_traffic, arguments: { service: api, version: "1", percent: 0 } } }
  - { id: announce, tool: mail/send, arguments: { to: all@billing.example, subject: Out now }, approval: required, compensation: { tool: mail/send, arguments: { to: all@billing.example, subject: Taken back } } }
"#;

/// Opens the page of the only plan and runs it with what its form holds.
fn run_from_form(browser: &Browser) {
    browser.click_text("a", "Plans");
    browser.click_text("a", "publish-version");
    let percent = browser.wait_for("input[name=percent]");
    assert_eq!(browser.property(&percent, "value"), "100");
    browser.click_text("button", "Run the plan");
    browser.wait_for_text("*[@id='head']", "Running");
}

/// Answers the failed step with other arguments, in the dialog.
fn retry_corrected(browser: &Browser) {
    browser.click("#brief button[value=retry]");
    let shown = browser.wait_for("#ask[open] textarea[name=value]");
    assert!(browser.property(&shown, "value").contains("\"percent\": 100"));
    let corrected = json!({ "service": "api", "version": "2", "percent": 50 });
    browser.fill("#ask textarea[name=value]", &corrected.to_string());
    browser.fill("#ask input[name=reason]", "eu-west-1 is down");
    browser.click("#ask .acts button");
}

#[test]
fn plan_is_run_watched_corrected_approved_and_undone_in_two_browsers() {
    let book = Book::empty();
    book.sandbox.write("plan.yaml", PLAN);
    book.sandbox.expect(0, &["plan", "save", "plan.yaml"]);
    let first = book.browser();
    run_from_form(&first);
    first.run("window.isTheSamePage = true;", vec![]);
    book.sandbox.release();
    first.wait_for_text("*[@id='brief']", "eu-west-1 cannot pull the image");
    first.wait_for_text("*[@id='head']", "Blocked");
    assert_eq!(first.run("return window.isTheSamePage;", vec![]), true, "the failure came without a reload");
    retry_corrected(&first);
    first.wait_for_text("*[@id='brief']", "announce");
    let execution = book.sandbox.newest();
    first.run("window.isTheSamePage = true;", vec![]);

    let second = Browser::start(&book.server);
    second.open_url(book.sandbox.json(&["open"])["url"].as_str().unwrap());
    second.click_text("a", "Questions");
    second.wait_for_text("*[contains(@class, 'q-card')]", "all@billing.example");
    assert_eq!(second.title(), "(1) Questions · Actbook");
    second.click(".q-card button[value=approve]");
    second.fill("#ask[open] input[name=reason]", "the notes are good");
    second.click("#ask .acts button");
    second.wait_for_text("main", "Nothing waits for a person");
    second.assert_no_problems();

    first.wait_for_text("*[@id='head']", "Succeeded");
    assert_eq!(first.run("return window.isTheSamePage;", vec![]), true, "the end came without a reload");
    first.click("#head button[value=undo]");
    first.wait_for_text("*[@id='ask']", "search/forget");
    first.click("#ask .acts button");
    first.wait_for_text("*[@id='head']", "Compensated");
    first.assert_no_problems();

    let view = book.sandbox.json(&["show", &execution]);
    assert_eq!(view["status"], "compensated", "{view}");
    let journal = book.sandbox.expect(0, &["journal", "--execution", &execution, "--json"]);
    for fact in ["eu-west-1 is down", "the notes are good"] {
        assert!(journal.contains(fact), "{fact}: {journal}");
    }
    assert_eq!(book.sandbox.json(&["verify"])["ok"], true);
}
