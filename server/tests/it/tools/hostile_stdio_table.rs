//! Every hostile stdio server in one table: the outcome of a call to it, and that it leaves no process, no
//! descriptor and little memory behind.

use std::collections::BTreeSet;

use futures_util::future::join_all;
use tempfile::TempDir;

use super::hostile_stdio::hostile_server;
use super::*;
use crate::durability::helper_process;
use crate::waiting::pause;

/// Servers that are called concurrently.
const CONCURRENT_SERVERS: usize = 8;
const START_LIMIT: Duration = Duration::from_secs(3);
/// The time-out for servers that never answer.
const SHORT_TIMEOUT: Duration = Duration::from_millis(300);
/// A server and everything it started must be gone within this time.
const EXIT_LIMIT: Duration = TIMEOUT;
/// The largest line is 16 MiB, and a few copies of it are made while it is read.
const MEMORY_MAX_KB: u64 = 200 * 1024;

/// The expected outcome of a call.
#[derive(Debug)]
enum ExpectedOutcome {
    /// Succeeded, with this text.
    Success(&'static str),
    /// Failed after it was sent.
    Failure(ErrorCategory),
    /// Failed, certainly without being sent.
    Unsent(ErrorCategory),
    /// Sent, with an unknown outcome.
    Unknown(ErrorCategory),
}

use ErrorCategory::{Protocol, Timeout, ToolError, Unavailable};
use ExpectedOutcome::{Failure, Success, Unknown, Unsent};

/// The servers of `zoo.py` and the outcome that `classify` gives a call to each.
const SERVER_CASES: &[(&str, ExpectedOutcome)] = &[
    // They exit, or close their output.
    ("exits_at_once", Unsent(Unavailable)),
    ("exits_mid_call", Unknown(Unavailable)),
    ("killed_mid_call", Unknown(Unavailable)),
    ("crashes_loudly", Unknown(Unavailable)),
    ("leaves_in_good_order", Unknown(Unavailable)),
    ("half_an_answer", Unknown(Unavailable)),
    ("answers_and_leaves", Success("last words")),
    ("closes_its_output", Unknown(Unavailable)),
    ("closes_its_input", Unknown(Unavailable)),
    ("grandchild_keeps_the_pipes", Unknown(Unavailable)),
    ("grandchild_flees_the_group", Unknown(Unavailable)),
    // They keep running and do not answer.
    ("silent", Unsent(Timeout)),
    ("never_answers", Unknown(Timeout)),
    ("wedged", Unknown(Timeout)),
    ("answers_without_a_newline", Unknown(Timeout)),
    ("drips_forever", Unknown(Timeout)),
    ("floods_stderr_forever", Unknown(Timeout)),
    ("stops_reading", Unknown(Timeout)),
    ("stops_itself", Unknown(Timeout)),
    ("nothing_but_zeroes", Unknown(Timeout)),
    // They answer another request, too early, or with an invalid message.
    ("wrong_ids", Unknown(Timeout)),
    ("id_as_text", Success("nearly")),
    ("answers_only_before_it_is_asked", Unknown(Timeout)),
    ("in_a_batch", Unknown(Timeout)),
    ("neither_result_nor_error", Unknown(Timeout)),
    ("error_of_the_wrong_shape", Unknown(Protocol)),
    ("deep_answer", Unknown(Protocol)),
    ("invalid_text", Unknown(Protocol)),
    ("no_tool_result", Unknown(Protocol)),
    ("null_result", Unknown(Protocol)),
    ("result_of_the_wrong_shape", Unknown(Protocol)),
    ("yes_and_no_at_once", Unknown(Protocol)),
    // They answer too much.
    ("huge_line", Unknown(Unavailable)),
    ("endless_line", Unknown(Unavailable)),
    ("huge_error", Failure(ToolError)),
    ("answers_twice", Success("first")),
    ("yes_then_no", Success("yes")),
    ("no_then_yes", Failure(ToolError)),
    // They write noise, and answer.
    ("garbage", Success("through the noise")),
    ("binary", Success("after the bytes")),
    ("in_pieces", Success("put together")),
    ("floods_stderr", Success("still here")),
    ("floods_notifications", Success("after the flood")),
    ("floods_progress", Success("after the flood")),
    ("floods_requests", Success("after the flood")),
    ("zeroes_in_the_answer", Success("a\0b")),
    ("answers_before_it_is_asked", Success("in time")),
    ("says_that_we_cancelled", Success("and answers")),
    ("asks_back", Success("cancel")),
    ("asks_back_in_the_newer_era", Success("cancel")),
    // They flood their output.
    ("pings_and_does_not_read", Unknown(Unavailable)),
    ("floods_at_start", Unsent(Unavailable)),
    ("floods_noise", Unknown(Unavailable)),
    // They do not exit.
    ("ignores_everything", Success("up")),
    ("ignores_the_end_and_the_signal", Success("staying")),
    ("leaves_a_daemon_behind", Success("not alone")),
    ("makes_zombies", Success("among the dead")),
    // They break the handshake.
    ("leaves_at_the_first_unknown_word", Success("as in the old days")),
    ("answers_the_first_word_with_nothing", Success("once more")),
    ("refuses_the_handshake", Unsent(Unavailable)),
    ("another_protocol", Unsent(Timeout)),
    ("answers_the_handshake_to_somebody_else", Unsent(Unavailable)),
];

/// Runs in a helper process: other tests' descriptors and memory would count as leaks of the servers.
#[test]
fn hostile_stdio_servers_match_the_table_and_leak_nothing() {
    helper_process::start(HOSTILE_SERVERS, "").emitted_lines();
}

/// The part name for `durability::helper_process`.
pub const HOSTILE_SERVERS: &str = "hostile servers";

pub async fn run_in_helper() {
    let names: BTreeSet<&str> = SERVER_CASES.iter().map(|(name, _)| *name).collect();
    assert!(names.len() == SERVER_CASES.len() && names.len() >= 50, "{} different servers", names.len());
    let before = descriptor_count();
    let mut wrong = Vec::new();
    for some in SERVER_CASES.chunks(CONCURRENT_SERVERS) {
        let results = join_all(some.iter().map(|(name, expected)| check_server(name, expected))).await;
        let failed = some.iter().zip(results).filter_map(|((name, _), result)| Some((name, result.err()?)));
        wrong.extend(failed.map(|(name, why)| format!("{name}: {why}")));
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), SERVER_CASES.len(), wrong.join("\n"));
    wait_for_descriptors(before).await;
    let peak = peak_memory_kb();
    assert!(peak < MEMORY_MAX_KB, "{peak} kB at the most");
}

/// Calls a server once, shuts it down, and checks that nothing of it is left.
async fn check_server(name: &str, expected: &ExpectedOutcome) -> Result<(), String> {
    let (folder, tools) = hostile_server(name);
    let timeout = match expected {
        Unknown(Timeout) | Unsent(Timeout) => SHORT_TIMEOUT,
        Success(_) | Failure(_) | Unknown(_) | Unsent(_) => TIMEOUT,
    };
    if !matches!(expected, Unsent(_)) {
        // Start it first, so that a short time-out measures the call and not the start; some list no tools.
        drop(tokio::time::timeout(START_LIMIT, tools.list_server("zoo")).await);
    }
    let call = Call { timeout, ..new_call("zoo/any", call_arguments(name)) };
    let sent = matches!(expected, Success(_) | Failure(_) | Unknown(_));
    let (ended, processes) =
        if sent { call_until_sent(&tools, call).await } else { watched_call(&tools, call).await };
    let judged = check_outcome(&ended, expected);
    if processes.is_empty() == sent {
        return Err(format!("reported processes: {processes:?}"));
    }
    let ending = Instant::now();
    tools.shutdown().await;
    let group = processes.first().copied().flatten().map(|child| child.pid);
    wait_until_gone(&folder, group, ending).await?;
    judged
}

/// A server that does not read is noticed only by a call larger than the pipe's buffer.
fn call_arguments(name: &str) -> Value {
    match name {
        "stops_reading" => json!({ "long": "w".repeat(1_000_000) }),
        _ => json!({}),
    }
}

fn check_outcome(ended: &CallOutcome, expected: &ExpectedOutcome) -> Result<(), String> {
    let fits = match (ended, expected) {
        (CallOutcome::Succeeded { output }, Success(text)) => output["text"] == *text,
        (CallOutcome::Failed { category, message, sent: true, .. }, Failure(expected)) => {
            category == expected && message.len() < 10_000
        }
        (CallOutcome::Failed { category, sent: false, .. }, Unsent(expected)) => category == expected,
        (CallOutcome::Unknown { category, .. }, Unknown(expected)) => category == expected,
        (_, _) => false,
    };
    let short = format!("{ended:?}").chars().take(300).collect::<String>();
    if fits { Ok(()) } else { Err(format!("expected {expected:?}, got {short}")) }
}

/// Waits until the group and every process that the server recorded in its files are gone.
async fn wait_until_gone(folder: &TempDir, group: Option<u32>, since: Instant) -> Result<(), String> {
    let noted = ["processes", "starts"].map(|file| std::fs::read_to_string(folder.path().join(file)));
    let noted: Vec<u32> = noted.iter().flatten().flat_map(|text| text.lines()).flat_map(str::parse).collect();
    loop {
        let mut left: Vec<u32> = group.map(live_processes).unwrap_or_default();
        left.extend(noted.iter().copied().filter(|pid| is_alive(*pid)));
        if left.is_empty() {
            return Ok(());
        }
        if since.elapsed() > EXIT_LIMIT {
            return Err(format!("left after {EXIT_LIMIT:?}: {left:?}"));
        }
        pause().await;
    }
}

fn is_alive(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(')').is_some_and(|(_, fields)| !fields.trim_start().starts_with('Z'))
}

fn descriptor_count() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

/// Waits until the descriptors are closed: reader tasks take a moment to notice a closed pipe.
async fn wait_for_descriptors(before: usize) {
    let are_closed = || descriptor_count() <= before + RUNTIME_DESCRIPTORS;
    poll_until("the descriptors to be closed", are_closed).await;
}

/// Descriptors that the runtime keeps open: for child and signal handling, and for the orphan reaper.
const RUNTIME_DESCRIPTORS: usize = 5;

fn peak_memory_kb() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}
