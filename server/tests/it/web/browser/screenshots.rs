//! The pictures of README and docs/images, as small as they have to be. `cargo xtask screenshots` writes them to the
//! repository; the test takes them all the same, so that a page that they show cannot go away unnoticed.

use std::path::PathBuf;

use super::book::{Book, Executions};
use super::driver::{DESKTOP, DESKTOP_DARK, PHONE, Viewport};

/// Pixels of a picture for each pixel of the page.
const SCALE: f64 = 1.0;
/// A picture shows at most this much of a long page.
const HEIGHT_MAX: f64 = 1_000.0;
/// Most bytes of one picture, and of all.
const BYTES_MAX: usize = 75_000;
const ALL_BYTES_MAX: usize = 600_000;

/// The folder for pictures, if some are wanted.
pub fn folder() -> Option<PathBuf> {
    let folder = PathBuf::from(std::env::var_os("ACTBOOK_SCREENSHOTS")?);
    std::fs::create_dir_all(&folder).unwrap();
    Some(folder)
}

/// The pictures: file name, page, and how it is looked at.
fn pictures(executions: &Executions) -> [(&'static str, String, Viewport); 7] {
    let Executions { blocked, running, session, .. } = executions;
    [
        ("executions", "/".to_owned(), DESKTOP),
        ("execution", format!("/executions/{blocked}"), DESKTOP),
        ("step", format!("/executions/{blocked}?view=timeline&step=rollout#tabs"), DESKTOP_DARK),
        ("questions", "/questions".to_owned(), DESKTOP),
        ("steps", format!("/executions/{running}?view=steps"), DESKTOP_DARK),
        ("session", format!("/executions/{session}"), DESKTOP),
        ("phone", "/questions".to_owned(), PHONE),
    ]
}

#[test]
fn pages_of_the_documentation_are_pictured_in_small_files() {
    let (book, executions) = Book::with_executions();
    let browser = book.browser();
    let mut all = 0;
    for (name, path, viewport) in pictures(&executions) {
        browser.show_as(viewport);
        browser.open(&path);
        browser.wait_until("document.fonts.status === 'loaded' && document.querySelector('main h1')");
        let picture = browser.picture("webp", SCALE, HEIGHT_MAX);
        assert!(picture.len() < BYTES_MAX, "{name}: {} bytes", picture.len());
        all += picture.len();
        if let Some(folder) = folder() {
            std::fs::write(folder.join(format!("{name}.webp")), picture).unwrap();
        }
    }
    assert!(all < ALL_BYTES_MAX, "{all} bytes");
}
