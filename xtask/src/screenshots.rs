//! Pictures of the dashboard, taken by the tests that open its pages in a browser: those of the documentation, or one
//! of every page in light and dark, for a desk and a phone, to be looked at.

use std::path::PathBuf;

use anyhow::Result;

use crate::machine::{Machine, apt_get, runs_successfully};
use crate::stage::{self, command, run_loud};

/// The font that the pages name first of those that Debian has; without it, pictures show a substitute.
const FONT_PACKAGE: &str = "fonts-inter";

/// Which pictures are taken.
#[derive(Clone, Copy, Debug)]
pub enum Pictures {
    /// Those of README and docs.
    Documentation,
    /// One of every page and viewport, under the target folder.
    EveryPage,
}

pub fn run(pictures: Pictures) -> Result<()> {
    if !runs_successfully(&["dpkg", "--status", FONT_PACKAGE]) {
        apt_get(&["install", "--yes", "--no-install-recommends", FONT_PACKAGE])?;
    }
    let machine = Machine::prepare()?;
    let (test, folder) = test_and_folder(pictures);
    let mut run = command(&["cargo", "test", "--package", "actbook", "--test", "it", test]);
    let run = machine.set_environment(&mut run).env("ACTBOOK_SCREENSHOTS", &folder);
    run_loud("screenshots", run, "The test says which page could not be pictured.")?;
    eprintln!("── the pictures are in {}", folder.display());
    Ok(())
}

/// The filter of the tests that take the pictures, and the folder for them.
fn test_and_folder(pictures: Pictures) -> (&'static str, PathBuf) {
    match pictures {
        Pictures::Documentation => ("web::browser::screenshots::", stage::root().join("docs/images")),
        Pictures::EveryPage => ("web::browser::pages::", stage::target().join("screenshots")),
    }
}
