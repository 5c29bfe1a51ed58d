//! The `tools` module against real child processes: the demo server, commands, and servers that misbehave.

#![expect(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

mod catalog;
mod commands;
mod config;
mod demo;
mod faults;
mod floods;
pub mod hostile_http;
mod hostile_http_table;
mod hostile_stdio;
pub mod hostile_stdio_table;
mod http_tools;
mod late_answers;
mod limits;
mod mcp_http;
pub mod pins;
mod questions;
mod secrets;
mod ssrf;

use std::path::Path;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use actbook::config::Config;
use actbook::tools::{Call, CallOutcome, ProcessIdentity, Tools};
use actbook_engine::policy::ErrorCategory;
use serde_json::{Value, json};

use crate::waiting::poll_until;

/// A wait that takes longer than this fails the test.
const TIMEOUT: Duration = Duration::from_secs(30);

fn tools(folder: &Path, config: Value) -> Tools {
    let config = Config::parse(&config.to_string(), folder).expect("the test's config is well formed");
    Tools::new(&config)
}

/// The demo server, through the real binary, in `folder`.
fn demo_server(folder: &Path) -> Value {
    json!({ "command": env!("CARGO_BIN_EXE_actbook"), "args": ["demo-tools", "--folder", folder] })
}

fn new_call(tool: &str, arguments: Value) -> Call {
    let key = "key-1".to_owned();
    Call {
        tool: tool.to_owned(),
        arguments,
        pin: None,
        key,
        timeout: TIMEOUT,
        context: Default::default(),
        origin: None,
    }
}

async fn call(tools: &Tools, tool: &str, arguments: Value) -> CallOutcome {
    tools.call(new_call(tool, arguments), |_| {}, std::future::pending()).await
}

async fn call_within(tools: &Tools, tool: &str, timeout: Duration) -> CallOutcome {
    let call = Call { timeout, ..new_call(tool, json!({})) };
    tools.call(call, |_| {}, std::future::pending()).await
}

/// The call's outcome, and every process that its `sending` callback was given.
async fn watched_call(tools: &Tools, call: Call) -> (CallOutcome, Vec<Option<ProcessIdentity>>) {
    let processes = Mutex::new(Vec::new());
    let ended = tools.call(call, |child| processes.lock().unwrap().push(child), std::future::pending()).await;
    (ended, processes.into_inner().unwrap())
}

/// Makes a call with a short time-out until one was sent: on a busy machine it may pass before that.
async fn call_until_sent(tools: &Tools, call: Call) -> (CallOutcome, Vec<Option<ProcessIdentity>>) {
    loop {
        let (ended, processes) = watched_call(tools, call.clone()).await;
        let timed_out =
            matches!(ended, CallOutcome::Failed { category: ErrorCategory::Timeout, sent: false, .. });
        if !timed_out {
            return (ended, processes);
        }
    }
}

/// The output of a call that must have succeeded.
#[track_caller]
fn expect_output(ended: CallOutcome) -> Value {
    match ended {
        CallOutcome::Succeeded { output } => output,
        CallOutcome::Failed { .. } | CallOutcome::Unknown { .. } | CallOutcome::InputRequired { .. } => {
            panic!("not succeeded: {ended:?}")
        }
    }
}

/// Category, message and `sent` of a call that must have failed.
#[track_caller]
fn expect_failure(ended: CallOutcome) -> (ErrorCategory, String, bool) {
    match ended {
        CallOutcome::Failed { category, message, sent, .. } => (category, message, sent),
        CallOutcome::Succeeded { .. } | CallOutcome::Unknown { .. } | CallOutcome::InputRequired { .. } => {
            panic!("not failed: {ended:?}")
        }
    }
}

/// Category and message of a call whose outcome must be unknown.
#[track_caller]
fn expect_unknown(ended: CallOutcome) -> (ErrorCategory, String) {
    match ended {
        CallOutcome::Unknown { category, message, .. } => (category, message),
        CallOutcome::Succeeded { .. } | CallOutcome::Failed { .. } | CallOutcome::InputRequired { .. } => {
            panic!("not unknown: {ended:?}")
        }
    }
}

/// The processes of a group that are alive; zombies do not count.
pub fn live_processes(group: u32) -> Vec<u32> {
    let stat = |entry: std::fs::DirEntry| {
        let pid: u32 = entry.file_name().to_str()?.parse().ok()?;
        let stat = std::fs::read_to_string(entry.path().join("stat")).ok()?;
        let (_, fields) = stat.rsplit_once(')')?;
        let fields: Vec<&str> = fields.split_ascii_whitespace().collect();
        (fields[2] == group.to_string() && fields[0] != "Z").then_some(pid)
    };
    std::fs::read_dir("/proc").unwrap().flatten().filter_map(stat).collect()
}

/// Waits until a process group is empty: a killed process takes a moment to disappear.
async fn assert_group_ends(group: u32) {
    poll_until("the process group to end", || live_processes(group).is_empty()).await;
}
