//! The dashboard in a real Chromium: what people see, click and type, and what a hostile text or site cannot do.

mod book;
mod driver;
mod foreign_sites;
mod hostile_texts;
mod keyboard;
mod live_connection;
mod long_execution;
mod no_script;
mod pages;
mod screenshots;
mod session;
mod story;
