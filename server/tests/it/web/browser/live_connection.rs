//! The stream of a page in the browser: closed while nobody looks, taken up again, and announced when it is lost.

use serde_json::json;

use super::book::Book;
use super::driver::Browser;
use crate::web::live::{start_agent_steps, succeed};
use crate::web::open_stream::OpenStream;

/// What a browser does when the tab comes to the background or back.
fn set_hidden(browser: &Browser, is_hidden: bool) {
    browser.run(
        "Object.defineProperty(document, 'hidden', { configurable: true, value: arguments[0] }); \
         document.dispatchEvent(new Event('visibilitychange'));",
        vec![json!(is_hidden)],
    );
}

#[test]
fn hidden_page_closes_its_stream_and_catches_up_when_it_is_seen_again() {
    let book = Book::empty();
    let id = start_agent_steps(&book.server, 3);
    let browser = book.browser();
    browser.open(&format!("/executions/{id}?view=steps"));
    succeed(&book.server, &id, "s0", "while it is seen");
    browser.wait_for_text("*[@id='view']", "while it is seen");
    set_hidden(&browser, true);
    let credential = format!("Authorization: Bearer {}\r\n", book.server.token);
    let mut other = OpenStream::get(&book.server, &format!("/executions/{id}/live?view=steps"), &credential);
    succeed(&book.server, &id, "s1", "while it is hidden");
    other.wait_for("while it is hidden");
    assert!(!browser.text().contains("while it is hidden"), "{}", browser.text());
    set_hidden(&browser, false);
    browser.wait_for_text("*[@id='view']", "while it is hidden");
    succeed(&book.server, &id, "s2", "seen again");
    browser.wait_for_text("*[@id='view']", "seen again");
    browser.assert_no_problems();
}

#[test]
fn lost_connection_is_announced() {
    let book = Book::empty();
    let id = start_agent_steps(&book.server, 1);
    let browser = book.browser();
    browser.open(&format!("/executions/{id}"));
    browser.wait_for_text("*[@id='head']", "Blocked");
    drop(book.server);
    browser.wait_for_text("*[@role='status']", "Live connection lost: what you see may be old.");
}
