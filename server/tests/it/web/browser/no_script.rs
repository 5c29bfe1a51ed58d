//! Reading and answering in a browser that runs no script.

use super::book::{Book, RELEASE_SERVICE, VENDOR_PAYOUT, plan};
use super::driver::Browser;

#[test]
fn questions_are_read_and_answered_without_a_script() {
    let book = Book::empty();
    let payout = book.run(&plan(VENDOR_PAYOUT));
    let browser = Browser::start_without_script(&book.server);
    browser.sign_in(&book.server);
    browser.wait_for_text("*[@id='rows']", "vendor-payout");
    browser.wait_for("time[datetime]");
    browser.click_text("a", "Questions");
    browser.wait_for_text("*[contains(@class, 'q-card')]", "4,180.00");
    browser.click(".q-card button[value=approve]");
    browser.wait_for_text("form", "bank/transfer");
    assert!(
        browser.path().starts_with(&format!("/executions/{payout}/confirm?")),
        "a page of its own asks once more"
    );
    browser.fill("main input[name=reason]", "due on Friday");
    browser.click("main form.confirm .acts button");
    browser.wait_for_text("main", "Succeeded");
    browser.assert_no_problems();
    let journal = book.sandbox.expect(0, &["journal", "--execution", &payout, "--json"]);
    assert!(journal.contains("due on Friday"), "{journal}");
}

#[test]
fn brief_views_and_a_corrected_retry_work_without_a_script() {
    let book = Book::empty();
    let release = book.run(&plan(RELEASE_SERVICE));
    let browser = Browser::start_without_script(&book.server);
    browser.sign_in(&book.server);
    browser.click_text("a", "release-service");
    browser.wait_for_text("*[@id='brief']", "eu-west-1 cannot pull the image");
    for view in ["Timeline", "Steps", "Journal", "Graph"] {
        browser.click_text("*[@id='tabs']//a", view);
        browser.wait_for(&format!("#tab-{}[aria-selected=true]", view.to_lowercase()));
    }
    browser.open(&format!("/executions/{release}?view=steps&step=rollout"));
    browser.wait_for_text("*[@id='panel']", "2 of 3 regions ready");
    browser.click("#brief form[id$=-webhooks] button[value=happened]");
    browser.wait_for_text("*[@id='head']", "Blocked");
    browser.click("#brief form[id$=-rollout] button[value=retry]");
    let arguments = r#"{"service":"billing-api","version":"4.12.0","percent":60,"regions":["us-east-1"]}"#;
    browser.fill("main textarea[name=value]", arguments);
    browser.click("main form.confirm .acts button");
    browser.open(&format!("/executions/{release}"));
    browser.assert_no_problems();
    let journal = book.sandbox.follow_journal();
    journal.wait_for("decided", Some("rollout"));
    journal.wait_for("execution_ended", None);
}
