//! Which room may name which, and which libraries have a home. The table is ARCHITECTURE.md's; a new room
//! gets a row here before it gets a line of code.

use super::code::{has_word, names_under, word_at};
use super::tree::Source;

/// Rooms or modules, lowest first, each with those that it may name. All of them stand above it in the table,
/// so that there is no cycle.
pub type Table = [(&'static str, &'static [&'static str])];

/// The server's rooms. `main.rs` and `lib.rs` wire, and may name all.
pub const ROOMS: &Table = &[
    ("random", &[]),
    ("boot_instant", &[]),
    ("clock", &["boot_instant"]),
    ("folders", &["random"]),
    ("caller", &[]),
    ("config", &[]),
    ("store", &["config"]),
    ("notify", &["store"]),
    ("egress", &[]),
    ("snapshot", &["random"]),
    ("tools", &["config", "egress", "snapshot"]),
    ("drawing", &["tools"]),
    ("ledger", &["store", "notify", "boot_instant", "clock"]),
    ("runner", &["ledger", "tools", "notify", "store", "random", "boot_instant"]),
    ("error", &["ledger", "runner", "store", "tools", "config", "caller"]),
    (
        "service",
        &[
            "caller", "ledger", "runner", "store", "tools", "notify", "config", "folders", "random", "error",
            "snapshot",
        ],
    ),
    ("guard", &["service", "config", "caller", "folders", "snapshot", "error"]),
    ("client", &["service", "tools", "config", "caller", "folders", "error"]),
    ("mcp", &["service", "guard", "tools", "config", "caller", "error"]),
    ("web", &["service", "mcp", "drawing", "tools", "caller", "error"]),
    ("cli", &["service", "guard", "mcp", "web", "drawing", "tools", "config", "caller", "folders", "error"]),
];

/// The engine's modules.
pub const ENGINE: &Table = &[
    ("id", &[]),
    ("policy", &[]),
    ("spelling", &[]),
    ("long_number", &[]),
    ("chain", &["id"]),
    ("bind", &["chain", "policy", "spelling"]),
    ("schema", &["bind"]),
    ("rules", &["policy", "bind"]),
    ("report_check", &["policy", "chain"]),
    ("plan", &["id", "policy", "spelling", "long_number", "chain", "bind", "schema"]),
    ("template", &["bind", "plan", "id"]),
    ("tool_policy", &["policy", "chain", "plan"]),
    ("analysis", &["id", "policy", "spelling", "bind", "schema", "plan", "tool_policy"]),
    ("event", &["id", "policy", "chain", "tool_policy"]),
    ("refusal", &["id", "policy"]),
    ("execution", &["id", "policy", "spelling", "chain", "bind", "plan", "tool_policy", "event", "refusal"]),
    ("library", &["id", "chain", "plan", "event", "refusal", "execution"]),
    ("standalone_action", &["chain", "event", "refusal", "execution"]),
    ("task", &["id", "policy", "chain", "event", "refusal", "execution"]),
    ("note", &["chain", "event", "refusal", "execution", "task"]),
];

const WIRES: [&str; 2] = ["main", "lib"];

/// What the doors must leave to `service`.
const DOORS: [&str; 4] = ["client", "mcp", "web", "cli"];
const ENGINE_INSIDES: &str = "execution";
/// What the doors may name of `tools`: data about tools and processes, never what calls a tool.
const TOOLS_FOR_DOORS: [&str; 17] = [
    "AskedInput",
    "CallProgress",
    "CircuitState",
    "Executor",
    "OnQuestion",
    "RelayedRequest",
    "RequestedInput",
    "ServerAnswer",
    "ServerEvent",
    "ServerEventKind",
    "ServerState",
    "ServerTools",
    "ToolInfo",
    "ToolQuestionReply",
    "escape_hidden",
    "escape_hidden_in_json",
    "kill_child_processes",
];
/// What `tools` may know of the engine: words, numbers, hashes, ids, schemas and how a value is bound; no plan, no
/// state.
const ENGINE_FOR_TOOLS: [&str; 6] = ["policy", "long_number", "chain", "id", "bind", "schema"];

const IO_CRATES: [&str; 10] = [
    "tokio",
    "rusqlite",
    "tokio-postgres",
    "reqwest",
    "rand",
    "getrandom",
    "jiff",
    "chrono",
    "tracing",
    "rustix",
];
const IO_MODULES: [&str; 4] = ["fs", "net", "process", "env"];
const IO_WORDS: [&str; 10] = [
    "SystemTime",
    "Instant",
    "println!",
    "print!",
    "eprintln!",
    "eprint!",
    "async",
    "await",
    // Their order is drawn at random.
    "HashMap",
    "HashSet",
];

/// The table that a file's crate has, and the room that the file lies in; `None` outside both crates and for
/// files that wire.
pub fn table_and_room(source: &Source) -> Option<(&'static Table, &str)> {
    let (table, inside) = match source.path.split_once("/src/")? {
        ("server", inside) => (ROOMS, inside),
        ("engine", inside) => (ENGINE, inside),
        _ => return None,
    };
    let room = inside.split('/').next().unwrap_or(inside).trim_end_matches(".rs");
    (!WIRES.contains(&room)).then_some((table, room))
}

/// The other rooms that a file names, once for each mention. The binary names the library's rooms under
/// `actbook`.
pub fn named_rooms(source: &Source) -> Vec<String> {
    let Some((table, room)) = table_and_room(source) else { return vec![] };
    let mut named = names_under(&source.code, "crate");
    named.extend(names_under(&source.code, "actbook"));
    if source.path.matches('/').count() == 2 {
        named.extend(names_under(&source.code, "super"));
    }
    named.retain(|name| name != room && table.iter().any(|(room, _)| room == name));
    named
}

pub fn arrows(source: &Source) -> Vec<String> {
    let Some((table, room)) = table_and_room(source) else { return vec![] };
    let Some((_, allowed)) = table.iter().find(|(name, _)| *name == room) else {
        return vec![format!("{}: `{room}` has no row in the table of rooms", source.path)];
    };
    let mut found = named_rooms(source);
    found.retain(|name| !allowed.contains(&name.as_str()));
    let say = |name| format!("{}: `{room}` must not name `{name}`", source.path);
    let mut found: Vec<String> = found.into_iter().map(say).collect();
    found.extend(engine_arrows(source, room));
    found.extend(tools_arrows(source, room));
    found
}

fn tools_arrows(source: &Source, room: &str) -> Vec<String> {
    if !DOORS.contains(&room) {
        return vec![];
    }
    let mut named = names_under(&source.code, "crate::tools");
    named.extend(names_under(&source.code, "actbook::tools"));
    named.retain(|name| !TOOLS_FOR_DOORS.contains(&name.as_str()));
    let say = |name| format!("{}: `{room}` must not name the `{name}` of `tools`", source.path);
    named.into_iter().map(say).collect()
}

fn engine_arrows(source: &Source, room: &str) -> Vec<String> {
    let named = names_under(&source.code, "actbook_engine");
    let stray = |name: &&String| match room {
        "tools" => !ENGINE_FOR_TOOLS.contains(&name.as_str()),
        door if DOORS.contains(&door) => *name == ENGINE_INSIDES,
        _ => false,
    };
    let say = |name| format!("{}: `{room}` must not name the engine's `{name}`", source.path);
    named.iter().filter(stray).map(say).collect()
}

/// Rows that name a room below them, or one that has no row.
pub fn backward_arrows(table: &Table) -> Vec<String> {
    let mut found = vec![];
    for (index, (room, allowed)) in table.iter().enumerate() {
        let is_above = |name: &&&str| table[..index].iter().any(|(above, _)| above == *name);
        let wrong = allowed.iter().filter(|name| !is_above(name));
        found.extend(wrong.map(|name| format!("`{room}` names `{name}`, which does not stand above it")));
    }
    found
}

pub fn engine_manifest(source: &Source) -> Vec<String> {
    if source.path != "engine/Cargo.toml" {
        return vec![];
    }
    let key = |line: &str| line.split(['=', '.', ' ']).next().unwrap_or(line).to_owned();
    let doing_io = source.text.lines().map(key).filter(|name| IO_CRATES.contains(&name.as_str()));
    doing_io.map(|name| format!("{}: the engine must not depend on {name}", source.path)).collect()
}

pub fn engine_purity(source: &Source) -> Vec<String> {
    if !source.path.starts_with("engine/src/") {
        return vec![];
    }
    let modules = names_under(&source.code, "std");
    let modules = modules.iter().map(String::as_str).filter(|name| IO_MODULES.contains(name));
    let words = IO_WORDS.into_iter().filter(|word| has_word(&source.code, word));
    modules.chain(words).map(|what| format!("{}: the engine is pure; no `{what}`", source.path)).collect()
}

pub fn drivers(source: &Source) -> Vec<String> {
    names_outside(source, &["rusqlite", "tokio_postgres"], &["server/src/store/db"])
}

pub fn mcp_library(source: &Source) -> Vec<String> {
    let homes = ["server/src/tools/mcp", "server/src/mcp/", "server/src/mcp.rs", "server/src/cli/demo_tools"];
    names_outside(source, &["rmcp"], &homes)
}

/// MCP's names for the parts of a question belong to the rooms that read and write the protocol.
pub fn mcp_words(source: &Source) -> Vec<String> {
    let homes = ["server/src/tools/", "server/src/mcp/", "server/src/mcp.rs", "server/src/cli/demo_tools"];
    if !source.is_product() || homes.iter().any(|home| source.path.starts_with(home)) {
        return vec![];
    }
    let words = ["inputRequests", "inputResponses", "requestedSchema", "requestState"];
    let named = words.into_iter().filter(|word| has_word(&source.text, word));
    named.map(|word| format!("{}: only {homes:?} may name `{word}`", source.path)).collect()
}

fn names_outside(source: &Source, crates: &[&str], homes: &[&str]) -> Vec<String> {
    if !source.is_product() || homes.iter().any(|home| source.path.starts_with(home)) {
        return vec![];
    }
    let named = crates.iter().filter_map(|name| Some((name, word_at(&source.code, name)?)));
    let line = |at: usize| source.code[..at].lines().count().max(1);
    named.map(|(name, at)| format!("{}:{}: only {homes:?} may name {name}", source.path, line(at))).collect()
}
