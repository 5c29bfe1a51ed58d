//! Which room may name which, and which libraries have a home. The table is ARCHITECTURE.md's; a new room
//! gets a row here before it gets a line of code.

use super::code::{has_word, names_under, word_at};
use super::tree::Source;

/// A room and the rooms it may name. `main.rs` and `lib.rs` wire, and may name all.
pub const ROOMS: &[(&str, &[&str])] = &[
    ("random", &[]),
    ("boot_instant", &[]),
    ("clock", &["boot_instant"]),
    ("folders", &[]),
    ("caller", &[]),
    ("config", &[]),
    ("store", &[]),
    ("notify", &["store"]),
    ("tools", &["config"]),
    ("ledger", &["store", "notify", "random", "boot_instant", "clock"]),
    ("runner", &["ledger", "tools", "notify", "store", "random", "boot_instant", "clock"]),
    ("error", &["ledger", "runner", "store", "config"]),
    (
        "service",
        &["caller", "ledger", "runner", "store", "tools", "notify", "config", "folders", "random", "error"],
    ),
    ("client", &["service", "config", "caller", "folders", "error"]),
    ("mcp", &["service", "config", "caller", "error"]),
    ("web", &["service", "config", "caller", "error"]),
    ("cli", &["service", "mcp", "web", "config", "caller", "folders", "error"]),
];

const WIRES: [&str; 2] = ["main", "lib"];

/// What the doors must leave to `service`.
const DOORS: [&str; 4] = ["client", "mcp", "web", "cli"];
const ENGINE_INSIDES: &str = "execution";
/// What `tools` may know of the engine: words, hashes, ids, schemas and how a value is bound; no plan, no
/// state.
const ENGINE_FOR_TOOLS: [&str; 5] = ["policy", "chain", "id", "bind", "schema"];

const WORLDLY_CRATES: [&str; 10] = [
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
const WORLDLY_MODULES: [&str; 4] = ["fs", "net", "process", "env"];
const WORLDLY_WORDS: [&str; 10] = [
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

pub fn arrows(source: &Source) -> Vec<String> {
    let Some(inside) = source.path.strip_prefix("server/src/") else { return vec![] };
    let room = inside.split('/').next().unwrap_or(inside).trim_end_matches(".rs");
    if WIRES.contains(&room) {
        return vec![];
    }
    let Some((_, allowed)) = ROOMS.iter().find(|(name, _)| *name == room) else {
        return vec![format!("{}: `{room}` has no row in the table of rooms", source.path)];
    };
    let mut named = names_under(&source.code, "crate");
    if !inside.contains('/') {
        named.extend(names_under(&source.code, "super"));
    }
    let is_room = |name: &&String| ROOMS.iter().any(|(room, _)| room == *name);
    let stray =
        named.iter().filter(is_room).filter(|name| *name != room && !allowed.contains(&name.as_str()));
    let mut found: Vec<String> =
        stray.map(|name| format!("{}: `{room}` must not name `{name}`", source.path)).collect();
    found.extend(engine_arrows(source, room));
    found
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

/// A room that can be reached from itself, if there is one.
pub fn circle(rooms: &[(&str, &[&str])]) -> Option<String> {
    let mut settled: Vec<&str> = vec![];
    loop {
        let free = |allowed: &[&str]| allowed.iter().all(|name| settled.contains(name));
        let next = rooms.iter().find(|(name, allowed)| !settled.contains(name) && free(allowed));
        match next {
            Some((name, _)) => settled.push(name),
            None => break,
        }
    }
    rooms.iter().find(|(name, _)| !settled.contains(name)).map(|(name, _)| (*name).to_owned())
}

pub fn engine_manifest(source: &Source) -> Vec<String> {
    if source.path != "engine/Cargo.toml" {
        return vec![];
    }
    let key = |line: &str| line.split(['=', '.', ' ']).next().unwrap_or(line).to_owned();
    let worldly = source.text.lines().map(key).filter(|name| WORLDLY_CRATES.contains(&name.as_str()));
    worldly.map(|name| format!("{}: the engine must not depend on {name}", source.path)).collect()
}

pub fn engine_purity(source: &Source) -> Vec<String> {
    if !source.path.starts_with("engine/src/") {
        return vec![];
    }
    let modules = names_under(&source.code, "std");
    let modules = modules.iter().map(String::as_str).filter(|name| WORLDLY_MODULES.contains(name));
    let words = WORLDLY_WORDS.into_iter().filter(|word| has_word(&source.code, word));
    modules.chain(words).map(|what| format!("{}: the engine is pure; no `{what}`", source.path)).collect()
}

pub fn drivers(source: &Source) -> Vec<String> {
    at_home(source, &["rusqlite", "tokio_postgres"], &["server/src/store/db"])
}

pub fn mcp_library(source: &Source) -> Vec<String> {
    let homes = ["server/src/tools/mcp", "server/src/mcp/", "server/src/mcp.rs", "server/src/cli/demo_tools"];
    at_home(source, &["rmcp"], &homes)
}

fn at_home(source: &Source, crates: &[&str], homes: &[&str]) -> Vec<String> {
    if !source.is_product() || homes.iter().any(|home| source.path.starts_with(home)) {
        return vec![];
    }
    let named = crates.iter().filter_map(|name| Some((name, word_at(&source.code, name)?)));
    let line = |at: usize| source.code[..at].lines().count().max(1);
    named.map(|(name, at)| format!("{}:{}: only {homes:?} may name {name}", source.path, line(at))).collect()
}
