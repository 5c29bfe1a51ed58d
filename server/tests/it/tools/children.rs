//! Every hostile stdio server in one table: the outcome of a call to it, and that it leaves no process, no
//! descriptor and little memory behind.

use std::collections::BTreeSet;

use futures_util::future::join_all;
use tempfile::TempDir;

use super::zoo::animal;
use super::*;
use crate::durability::process;

/// Servers that are called concurrently.
const AT_ONCE: usize = 8;
const UP_WITHIN: Duration = Duration::from_secs(3);
/// The time-out for servers that never answer.
const SHORT: Duration = Duration::from_millis(300);
/// A server and everything it started must be gone within this time.
const GONE_WITHIN: Duration = PATIENCE;
/// The largest line is 16 MiB, and a few copies of it are made while it is read.
const MEMORY_MAX_KB: u64 = 200 * 1024;

/// The expected outcome of a call.
#[derive(Debug)]
enum Is {
    /// Succeeded, with this text.
    Yes(&'static str),
    /// Failed after it was sent.
    No(ErrorCategory),
    /// Failed, certainly without being sent.
    Unsent(ErrorCategory),
    /// Sent, with an unknown outcome.
    Lost(ErrorCategory),
}

use ErrorCategory::{Protocol, Timeout, ToolError, Unavailable};
use Is::{Lost, No, Unsent, Yes};

/// The servers of `zoo.py` and the outcome that `classify` gives a call to each.
const ZOO: &[(&str, Is)] = &[
    // They exit, or close their output.
    ("exits_at_once", Unsent(Unavailable)),
    ("exits_mid_call", Lost(Unavailable)),
    ("killed_mid_call", Lost(Unavailable)),
    ("crashes_loudly", Lost(Unavailable)),
    ("leaves_in_good_order", Lost(Unavailable)),
    ("half_an_answer", Lost(Unavailable)),
    ("answers_and_leaves", Yes("last words")),
    ("closes_its_output", Lost(Unavailable)),
    ("closes_its_input", Lost(Unavailable)),
    ("grandchild_keeps_the_pipes", Lost(Unavailable)),
    ("grandchild_flees_the_group", Lost(Unavailable)),
    // They keep running and do not answer.
    ("silent", Unsent(Timeout)),
    ("never_answers", Lost(Timeout)),
    ("wedged", Lost(Timeout)),
    ("answers_without_a_newline", Lost(Timeout)),
    ("drips_forever", Lost(Timeout)),
    ("floods_stderr_forever", Lost(Timeout)),
    ("stops_reading", Lost(Timeout)),
    ("stops_itself", Lost(Timeout)),
    ("nothing_but_zeroes", Lost(Timeout)),
    // They answer another request, too early, or with an invalid message.
    ("wrong_ids", Lost(Timeout)),
    ("id_as_text", Yes("nearly")),
    ("answers_only_before_it_is_asked", Lost(Timeout)),
    ("in_a_batch", Lost(Timeout)),
    ("neither_result_nor_error", Lost(Timeout)),
    ("error_of_the_wrong_shape", Lost(Protocol)),
    ("deep_answer", Lost(Protocol)),
    ("invalid_text", Lost(Protocol)),
    ("no_tool_result", Lost(Protocol)),
    ("null_result", Lost(Protocol)),
    ("result_of_the_wrong_shape", Lost(Protocol)),
    ("yes_and_no_at_once", Lost(Protocol)),
    // They answer too much.
    ("huge_line", Lost(Unavailable)),
    ("endless_line", Lost(Unavailable)),
    ("huge_error", No(ToolError)),
    ("answers_twice", Yes("first")),
    ("yes_then_no", Yes("yes")),
    ("no_then_yes", No(ToolError)),
    // They write noise, and answer.
    ("garbage", Yes("through the noise")),
    ("binary", Yes("after the bytes")),
    ("in_pieces", Yes("put together")),
    ("floods_stderr", Yes("still here")),
    ("floods_notifications", Yes("after the flood")),
    ("floods_progress", Yes("after the flood")),
    ("floods_requests", Yes("after the flood")),
    ("zeroes_in_the_answer", Yes("a\0b")),
    ("answers_before_it_is_asked", Yes("in time")),
    ("says_that_we_cancelled", Yes("and answers")),
    ("asks_back", Yes("cancel")),
    ("asks_back_in_the_newer_era", Yes("cancel")),
    // They flood their output.
    ("pings_and_does_not_read", Lost(Unavailable)),
    ("floods_at_start", Unsent(Unavailable)),
    ("floods_noise", Lost(Unavailable)),
    // They do not exit.
    ("ignores_everything", Yes("up")),
    ("ignores_the_end_and_the_signal", Yes("staying")),
    ("leaves_a_daemon_behind", Yes("not alone")),
    ("makes_zombies", Yes("among the dead")),
    // They break the handshake.
    ("leaves_at_the_first_unknown_word", Yes("as in the old days")),
    ("answers_the_first_word_with_nothing", Yes("once more")),
    ("refuses_the_handshake", Unsent(Unavailable)),
    ("another_protocol", Unsent(Timeout)),
    ("answers_the_handshake_to_somebody_else", Unsent(Unavailable)),
];

/// Runs in a helper process: other tests' descriptors and memory would count as leaks of the servers.
#[test]
fn every_hostile_server_is_judged_as_the_table_says_and_leaves_nothing_behind() {
    process::start(HOSTILE_SERVERS, "").said();
}

/// The part name for `durability::helper_process`.
pub const HOSTILE_SERVERS: &str = "hostile servers";

pub async fn play() {
    let names: BTreeSet<&str> = ZOO.iter().map(|(name, _)| *name).collect();
    assert!(names.len() == ZOO.len() && names.len() >= 50, "{} different servers", names.len());
    let before = descriptors();
    let mut wrong = Vec::new();
    for some in ZOO.chunks(AT_ONCE) {
        let results = join_all(some.iter().map(|(name, expected)| meet(name, expected))).await;
        let failed = some.iter().zip(results).filter_map(|((name, _), result)| Some((name, result.err()?)));
        wrong.extend(failed.map(|(name, why)| format!("{name}: {why}")));
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), ZOO.len(), wrong.join("\n"));
    settled(before).await;
    let peak = peak_memory_kb();
    assert!(peak < MEMORY_MAX_KB, "{peak} kB at the most");
}

/// Calls a server once, shuts it down, and checks that nothing of it is left.
async fn meet(name: &str, expected: &Is) -> Result<(), String> {
    let (folder, tools) = animal(name);
    let timeout = match expected {
        Lost(Timeout) | Unsent(Timeout) => SHORT,
        Yes(_) | No(_) | Lost(_) | Unsent(_) => PATIENCE,
    };
    if !matches!(expected, Unsent(_)) {
        // Start it first, so that a short time-out measures the call and not the start; some list no tools.
        drop(tokio::time::timeout(UP_WITHIN, tools.list_server("zoo")).await);
    }
    let call = Call { timeout, ..a_call("zoo/any", arguments(name)) };
    let (ended, processes) = watched_call(&tools, call).await;
    let judged = judge(&ended, expected);
    let sent = matches!(expected, Yes(_) | No(_) | Lost(_));
    if processes.is_empty() == sent {
        return Err(format!("reported processes: {processes:?}"));
    }
    let ending = Instant::now();
    tools.shutdown().await;
    let group = processes.first().copied().flatten().map(|child| child.pid);
    gone(&folder, group, ending).await?;
    judged
}

/// A server that does not read is noticed only by a call larger than the pipe's buffer.
fn arguments(name: &str) -> Value {
    match name {
        "stops_reading" => json!({ "long": "w".repeat(1_000_000) }),
        _ => json!({}),
    }
}

fn judge(ended: &CallOutcome, expected: &Is) -> Result<(), String> {
    let fits = match (ended, expected) {
        (CallOutcome::Succeeded { output }, Yes(text)) => output["text"] == *text,
        (CallOutcome::Failed { category, message, sent: true, .. }, No(expected)) => {
            category == expected && message.len() < 10_000
        }
        (CallOutcome::Failed { category, sent: false, .. }, Unsent(expected)) => category == expected,
        (CallOutcome::Unknown { category, .. }, Lost(expected)) => category == expected,
        (_, _) => false,
    };
    let short = format!("{ended:?}").chars().take(300).collect::<String>();
    if fits { Ok(()) } else { Err(format!("expected {expected:?}, got {short}")) }
}

/// Waits until the group and every process that the server recorded in its files are gone.
async fn gone(folder: &TempDir, group: Option<u32>, since: Instant) -> Result<(), String> {
    let noted = ["processes", "starts"].map(|file| std::fs::read_to_string(folder.path().join(file)));
    let noted: Vec<u32> = noted.iter().flatten().flat_map(|text| text.lines()).flat_map(str::parse).collect();
    loop {
        let mut left: Vec<u32> = group.map(living).unwrap_or_default();
        left.extend(noted.iter().copied().filter(|pid| is_alive(*pid)));
        if left.is_empty() {
            return Ok(());
        }
        if since.elapsed() > GONE_WITHIN {
            return Err(format!("left after {GONE_WITHIN:?}: {left:?}"));
        }
        tokio::task::yield_now().await;
    }
}

fn is_alive(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(')').is_some_and(|(_, fields)| !fields.trim_start().starts_with('Z'))
}

fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

/// Waits until the descriptors are closed: reader tasks take a moment to notice a closed pipe.
async fn settled(before: usize) {
    let since = Instant::now();
    while descriptors() > before + RUNTIMES_OWN {
        assert!(since.elapsed() < GONE_WITHIN, "{} descriptors, {before} before", descriptors());
        tokio::task::yield_now().await;
    }
}

/// Descriptors that the runtime keeps open: for child and signal handling, and for the orphan reaper.
const RUNTIMES_OWN: usize = 5;

fn peak_memory_kb() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}
