//! The page of an execution of ten thousand steps: it shows a part of them at a time, and scrolls.

use serde_json::{Value, json};

use super::book::Book;

const STEPS: usize = 10_000;
/// Most elements that a page may have.
const ELEMENTS_MAX: u64 = 5_000;
/// The longest time between two frames while the page is scrolled, in milliseconds, on a machine that runs other tests.
const FRAME_MAX_MS: f64 = 1_000.0;

/// Scrolls to the end in forty steps; the longest time between two frames.
const SCROLL: &str = r"
    let longest = 0;
    let before = performance.now();
    for (let step = 0; step < 40; step += 1) {
      scrollTo(0, (document.documentElement.scrollHeight - innerHeight) * step / 39);
      await new Promise(requestAnimationFrame);
      const now = performance.now();
      longest = Math.max(longest, now - before);
      before = now;
    }
    return longest;";

#[test]
fn page_of_ten_thousand_steps_is_small_and_scrolls() {
    let book = Book::empty();
    let step = |number| json!({ "id": format!("s{number}"), "action": "look" });
    let steps: Vec<Value> = (0..STEPS).map(step).collect();
    let id = book.run(&json!({ "name": "long", "steps": steps }));
    let browser = book.browser();
    for view in ["graph", "timeline", "steps", "journal"] {
        browser.open(&format!("/executions/{id}?view={view}&step=s9999"));
        browser.wait_for_text("*[@id='panel']", "s9999");
        let elements = browser.run("return document.querySelectorAll('*').length;", vec![]);
        assert!(elements.as_u64().unwrap() < ELEMENTS_MAX, "{view}: {elements} elements");
        let frame_ms = browser.run_async(SCROLL, vec![]);
        assert!(frame_ms.as_f64().unwrap() < FRAME_MAX_MS, "{view}: {frame_ms} ms between two frames");
    }
    browser.assert_no_problems();
}
