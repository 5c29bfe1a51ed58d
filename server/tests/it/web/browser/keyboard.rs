//! Everything that a mouse can do, done with keys alone.

use super::book::{Book, VENDOR_PAYOUT, plan};
use super::driver::{ARROW_RIGHT, Browser, ENTER, ESCAPE, SPACE, TAB};

/// Presses Tab until the focus is on an element that the selector matches.
#[track_caller]
fn tab_to(browser: &Browser, css: &str) {
    const STOPS_MAX: usize = 80;
    for _ in 0..STOPS_MAX {
        browser.press([TAB]);
        if has_focus(browser, css) {
            return;
        }
    }
    panic!("{css} is not reached by Tab on {}", browser.path());
}

fn has_focus(browser: &Browser, css: &str) -> bool {
    browser.run("return document.activeElement.matches(arguments[0]);", vec![css.into()]) == true
}

#[test]
fn plan_is_run_approved_and_looked_at_by_keys_alone() {
    let book = Book::empty();
    book.sandbox.write("plan.yaml", VENDOR_PAYOUT);
    book.sandbox.expect(0, &["plan", "save", "plan.yaml"]);
    let browser = book.browser();
    browser.press(['g', 'p']);
    browser.wait_for_text("h1", "Plans");
    browser.press(['j', 'o']);
    browser.wait_for_text("h1", "vendor-payout");
    tab_to(&browser, "form[action$='/run'] button");
    browser.press([ENTER]);
    browser.wait_for_text("*[@id='head']", "Blocked");
    browser.press(['g', 'q']);
    browser.wait_for(".q-card.focus");
    browser.press(['a']);
    browser.wait_for("#ask[open]");
    assert!(has_focus(&browser, "#ask input[name=reason]"), "the dialog takes the focus to its field");
    browser.press([ESCAPE]);
    browser.wait_for("#ask:not([open])");
    browser.press(['a']);
    browser.wait_for("#ask[open]");
    browser.press("due on Friday".chars().chain([ENTER]));
    browser.wait_for_text("main", "Nothing waits for a person");
    browser.press(['g', 'e']);
    browser.wait_for_text("h1", "Executions");
    browser.wait_for_text("*[@id='rows']", "Succeeded");
    browser.press(['j', 'o']);
    tab_to(&browser, "[role=tab]");
    browser.press([ARROW_RIGHT]);
    assert!(has_focus(&browser, "#tab-timeline"));
    browser.press([ENTER]);
    browser.wait_for("#tab-timeline[aria-selected=true]");
    browser.wait_for("section#view[aria-labelledby=tab-timeline]");
    browser.assert_no_problems();
    let journal = book.sandbox.expect(0, &["journal", "--kind", "step_approved", "--json"]);
    assert!(journal.contains("due on Friday"), "{journal}");
}

#[test]
fn question_rejected_by_keys_keeps_the_reason() {
    let book = Book::empty();
    let execution = book.run(&plan(VENDOR_PAYOUT));
    let browser = book.browser();
    browser.press(['g', 'q']);
    browser.wait_for(".q-card.focus");
    browser.press(['r']);
    browser.wait_for("#ask[open]");
    browser.press("wrong account".chars().chain([ENTER]));
    browser.wait_for_text("*[contains(@class, 'q-card')]", "Failed step");
    browser.assert_no_problems();
    let journal = book.sandbox.expect(0, &["journal", "--execution", &execution, "--json"]);
    assert!(journal.contains("wrong account"), "{journal}");
}

#[test]
fn list_of_keys_opens_and_letters_can_be_switched_off() {
    let book = Book::empty();
    let browser = book.browser();
    browser.press([TAB]);
    assert!(has_focus(&browser, ".skip"), "the first stop skips the navigation");
    browser.press([ENTER]);
    browser.wait_until("document.activeElement.id === 'main'");
    browser.press(['?']);
    browser.wait_for("#keys-dialog[open]");
    browser.press([ESCAPE]);
    browser.wait_for("#keys-dialog:not([open])");
    browser.press(['/']);
    assert!(has_focus(&browser, "input[type=search]"));
    browser.open("/settings");
    tab_to(&browser, "input[name=keys]");
    browser.press([SPACE]);
    tab_to(&browser, ".settings .btn.primary");
    browser.press([ENTER]);
    browser.wait_for("html[data-keys=off]");
    browser.press(['g', 'q']);
    browser.press(['?']);
    browser.wait_for("#keys-dialog[open]");
    assert_eq!(browser.path(), "/settings", "letters do nothing, the list of keys still opens");
    browser.assert_no_problems();
}
