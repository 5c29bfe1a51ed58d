//! STYLE.md and ARCHITECTURE.md, as far as a machine can check them. Each rule is a function from a file to
//! its findings; each test shows the rule a bad snippet, which it must flag, and then the whole tree.

mod code;
mod commits;
mod declarations;
mod graph;
mod house;
mod rooms;
mod rules;
mod tree;
mod wildcards;

use rules::Rule;
use tree::Source;

/// The rule flags every bad snippet, passes the good ones, and finds nothing in the tree.
fn check(rule: Rule, bad: &[(&str, &str)], good: &[(&str, &str)]) {
    for (path, text) in bad {
        assert!(!rule(&Source::new(path, text)).is_empty(), "the rule does not flag {path}: {text}");
    }
    for (path, text) in good {
        let found = rule(&Source::new(path, text));
        assert!(found.is_empty(), "the rule flags good code in {path}: {found:?}");
    }
    assert_none(tree::sources().iter().flat_map(rule).collect());
}

fn assert_none(findings: Vec<String>) {
    assert!(findings.is_empty(), "\n{}\n", findings.join("\n"));
}

#[test]
fn rooms_name_only_allowed_rooms() {
    let bad = [
        ("server/src/cli/show.rs", "use crate::store::journal;"),
        ("server/src/store/plans.rs", "fn f() { crate::ledger::append() }"),
        ("server/src/tools/http.rs", "use crate::{config, service::Intent};"),
        ("server/src/notify.rs", "use super::ledger;"),
        ("server/src/cli/show.rs", "use actbook::{error::Error, store::journal};"),
        ("server/src/cli/show.rs", "use actbook::tools::{ToolInfo, Tools};"),
        ("engine/src/event.rs", "use crate::execution::Execution;"),
        ("engine/src/attic.rs", "//! a module that no table knows"),
        ("server/src/attic.rs", "//! a room that no table knows"),
    ];
    let good = [
        ("server/src/ledger.rs", "use crate::{notify, store::{journal, web}};"),
        ("server/src/store/plans.rs", "// crate::ledger is above us\nuse crate::store::db;"),
        ("server/src/main.rs", "use crate::store::db;"),
        ("server/src/cli/show.rs", "use actbook::tools::{ToolInfo, escape_hidden};"),
    ];
    check(rooms::arrows, &bad, &good);
}

#[test]
fn messages_cite_no_pages_of_the_repository() {
    let bad = [("server/src/error.rs", "let cure = \"docs/guide.md has every word of it\";")];
    let good = [
        ("server/src/error.rs", "let cure = \"`actbook help config` describes every key\"; // docs/guide.md"),
        ("server/src/cli/help.rs", "const GUIDE: &str = include_str!(\"../../../docs/guide.md\");"),
    ];
    check(rules::messages_cite_no_pages, &bad, &good);
}

#[test]
fn tables_of_rooms_have_no_cycle_and_no_unused_row() {
    assert!(!rooms::backward_arrows(&[("ledger", &["notify"]), ("notify", &[])]).is_empty());
    assert_none([rooms::backward_arrows(rooms::ROOMS), rooms::backward_arrows(rooms::ENGINE)].concat());
    assert_none(graph::unused_arrows(&tree::sources()));
}

#[test]
fn architecture_shows_the_graph_of_rooms() {
    assert_none(graph::outdated_graph(&tree::sources()));
}

#[test]
fn type_names_are_unique() {
    let declare = |path: &str, text: &str| Source::new(path, text);
    let bad = [
        declare(
            "engine/src/plan.rs",
            "pub struct Plan;\nstring_enum!(\n    /// Doc.\n    Status { A = \"a\" }\n);",
        ),
        declare("server/src/store/plans.rs", "pub(super) type Plan = i64;\nenum Status { B }"),
    ];
    assert_eq!(declarations::duplicates(&bad).len(), 2);
    let good = [
        declare("engine/src/a.rs", "enum Error {}"),
        declare("server/src/b.rs", "enum Error {}\n    type Plan = i64;"),
    ];
    assert_none(declarations::duplicates(&good));
    assert_none(declarations::duplicates(&tree::sources()));
}

#[test]
fn matches_on_own_enums_have_no_wildcard() {
    let enums = ["Event".to_owned(), "Answer".to_owned()].into();
    let flags = |text: &str| !wildcards::wildcards(&Source::new("server/src/a.rs", text), &enums).is_empty();
    assert!(flags("match event { Event::A(_) => 1, _ => 2 }"));
    assert!(flags("match (a, b) { (Some(x), Answer::B) if x > 1 => { f(|y| y) } (_, _) => {} }"));
    assert!(flags("match self { Self::A { x, .. } => match x { 1 => 2, _ => 3 }, _ => 4 }"));
    assert!(!flags("match event { Event::A(_) => match 1 { 1 => 2, _ => 3 }, Event::B(_) => 4 }"));
    assert!(!flags("match text { \"a\" if b == Answer::B => Some(Event::A), _ => None }"));
    let sources = tree::sources();
    let enums = declarations::enums(&sources);
    assert_none(sources.iter().flat_map(|source| wildcards::wildcards(source, &enums)).collect());
}

#[test]
fn commits_have_a_short_subject_and_a_body() {
    assert!(commits::finding(i64::MAX, &"x".repeat(71), "Why.").is_some());
    assert!(commits::finding(i64::MAX, "Name every event", " \n").is_some());
    assert!(commits::finding(i64::MAX, "Name every event", "Why.").is_none());
    assert_none(commits::findings());
}

#[test]
fn engine_depends_on_no_crate_that_does_io() {
    let bad = [
        ("engine/Cargo.toml", "[dependencies]\ntokio.workspace = true"),
        ("engine/Cargo.toml", "[dev-dependencies]\nrand = \"1\""),
    ];
    check(rooms::engine_manifest, &bad, &[("engine/Cargo.toml", "[dependencies]\nserde.workspace = true")]);
}

#[test]
fn engine_reads_no_clock_and_does_no_io() {
    let bad = [
        ("engine/src/due.rs", "let now = std::time::Instant::now();"),
        ("engine/src/due.rs", "use std::{collections::BTreeMap, fs};"),
        ("engine/src/due.rs", "println!(\"{x}\");"),
        ("engine/src/due.rs", "pub async fn f() {}"),
        ("engine/src/due.rs", "use std::collections::HashMap;"),
    ];
    let good = [("engine/src/due.rs", "// an Instant is not ours\nuse std::fmt; let at = \"Instant\";")];
    check(rooms::engine_purity, &bad, &good);
}

#[test]
fn only_the_output_writes_to_the_terminal() {
    let bad = [
        ("server/src/cli/show.rs", "eprintln!(\"{name}\");"),
        ("server/src/main.rs", "std::io::stderr().write_all(text)"),
        ("server/src/cli/live.rs", "let mut to = anstream::stdout();"),
    ];
    let good = [
        ("server/src/cli/output.rs", "let mut stdout = std::io::stdout().lock();"),
        ("server/src/cli/detach.rs", "command.stdout(Stdio::null())"),
    ];
    check(rules::prints, &bad, &good);
}

#[test]
fn only_the_database_files_name_a_driver() {
    let bad = [
        ("server/src/ledger.rs", "use rusqlite::Connection;"),
        ("server/src/store/journal.rs", "x: tokio_postgres::Row"),
    ];
    check(rooms::drivers, &bad, &[("server/src/store/db/sqlite.rs", "use rusqlite::Connection;")]);
}

#[test]
fn only_mcp_modules_name_the_mcp_library() {
    let bad = [("server/src/service/start.rs", "use rmcp::model::Tool;")];
    let good = [
        ("server/src/tools/mcp.rs", "use rmcp::model::Tool;"),
        ("server/src/cli/demo_tools.rs", "use rmcp;"),
    ];
    check(rooms::mcp_library, &bad, &good);
}

#[test]
fn words_of_a_question_on_the_wire_stay_in_tools_and_mcp() {
    let bad = [
        ("engine/src/execution/decide.rs", "asked.get(\"inputRequests\")"),
        ("server/src/service/waiting.rs", "params[\"requestedSchema\"]"),
    ];
    let good = [
        ("server/src/tools/asked_input.rs", "\"inputRequests\""),
        ("server/tests/it/mcp/elicit.rs", "\"requestState\""),
    ];
    check(rooms::mcp_words, &bad, &good);
}

#[test]
fn functions_have_at_most_70_lines() {
    let long = format!("fn long<T>(x: [u8; 3]) -> T\nwhere T: Copy {{\n{}}}\n", "    step();\n".repeat(70));
    let strings = format!("fn brace() {{ let x = \"}}\"; let y = '}}';\n{}}}", "    step();\n".repeat(69));
    let short = format!("fn short() {{\n{}}}\nfn next();\n", "    step();\n".repeat(68));
    check(rules::function_size, &[("a.rs", &long), ("a.rs", &strings)], &[("a.rs", &short)]);
}

#[test]
fn files_have_at_most_600_lines() {
    check(rules::file_size, &[("a.rs", &"x\n".repeat(601))], &[("a.rs", &"x\n".repeat(600))]);
}

#[test]
fn journal_sql_only_inserts() {
    let bad = [
        ("server/src/store/journal.rs", "\"update\n   journal SET body = $2\""),
        ("server/migrations/sqlite/0002_x.sql", "DELETE FROM \"journal\";"),
        ("server/src/store/journal.rs", "INSERT OR REPLACE INTO journal (tenant)"),
    ];
    let trigger = "CREATE TRIGGER t BEFORE UPDATE ON journal BEGIN SELECT RAISE(ABORT, 'no'); END;";
    let good = [
        ("server/migrations/sqlite/0001_journal.sql", trigger),
        ("server/src/store/head.rs", "UPDATE head SET position = $2; INSERT INTO journal"),
    ];
    check(rules::journal_is_append_only, &bad, &good);
}

#[test]
fn lints_are_expected_with_a_reason_and_tests_are_never_ignored() {
    let bad = [("a.rs", "#[allow(dead_code)]"), ("a.rs", "#![ allow(unused)]"), ("a.rs", "#[ignore]")];
    check(rules::attributes, &bad, &[("a.rs", "#[expect(dead_code, reason = \"…\")] // not #[allow]")]);
}

#[test]
fn no_unfinished_markers_remain() {
    let bad = [
        ("a.rs", concat!("// TO", "DO: later")),
        ("docs/x.md", concat!("FIX", "ME")),
        ("a.sql", concat!("-- X", "XX")),
        ("a.rs", concat!("db", "g!(x)")),
    ];
    check(rules::markers, &bad, &[("a.rs", "// TODO(#12): the limit comes with tenants")]);
}

#[test]
fn no_path_of_a_machine_remains() {
    let bad = [("a.rs", concat!("\"/ho", "me/ada/x\"")), ("docs/x.md", concat!("see /wo", "rk/main"))];
    check(rules::machine_paths, &bad, &[("a.rs", "\"./work/x\" \"https://host/work/x\" \"/usr/lib\"")]);
}

#[test]
fn tests_wait_for_something_and_never_sleep() {
    let bad = [
        ("server/tests/it/kill.rs", "std::thread::sleep(x);"),
        ("engine/tests/it/a.rs", "tokio::time::sleep(x).await"),
    ];
    check(rules::sleeps, &bad, &[("server/src/runner/drive.rs", "tokio::time::sleep(x).await")]);
}

#[test]
fn modules_have_a_doc_and_a_specific_name() {
    let bad = [
        ("server/src/cli/show.rs", "use std::fmt;"),
        ("engine/src/utils.rs", "//! Odds and ends."),
        ("server/src/store/types/mod.rs", "//! Rows."),
    ];
    check(rules::modules, &bad, &[("server/src/cli/show.rs", "//! One execution, explained.")]);
}

#[test]
fn links_in_the_docs_resolve() {
    let bad = [("docs/x.md", "[the guide](no-such-file.md)"), ("README.md", "[x](docs/none.md#part)")];
    let good = [
        ("docs/x.md", "[readme](../README.md#promises)"),
        ("README.md", "[x](https://example.org) [y](#part)"),
    ];
    check(rules::links, &bad, &good);
}

#[test]
fn migrations_exist_for_both_databases() {
    let names = |list: &[&str]| list.iter().map(|name| (*name).to_owned()).collect();
    assert_eq!(house::unpaired(&names(&["0001_a.sql"]), &names(&["0001_b.sql"])).len(), 2);
    let folder = |database: &str| tree::names(&format!("server/migrations/{database}"));
    assert_none(house::unpaired(&folder("sqlite"), &folder("postgres")));
}

#[test]
fn root_entries_match_the_map() {
    let names = |list: &[&str]| list.iter().map(|name| (*name).to_owned()).collect();
    assert_eq!(house::unlisted_entries(&names(&["README.md", "notes.txt"])).len(), 1);
    assert_none(house::unlisted_entries(&tree::root_entries()));
}

#[test]
fn decision_records_are_numbered_without_gaps() {
    let names = |list: &[&str]| list.iter().map(|name| (*name).to_owned()).collect();
    assert!(!house::misnumbered(&names(&["1-short.md"])).is_empty());
    assert!(!house::misnumbered(&names(&["0001-one.md", "0003-gap.md"])).is_empty());
    assert!(!house::misnumbered(&names(&["0001-one.md", "0001-two.md"])).is_empty());
    assert_none(house::misnumbered(&tree::names("docs/decisions")));
}

#[test]
fn sources_are_found() {
    let sources = tree::sources();
    for path in ["engine/src/lib.rs", "server/tests/it/tidy.rs", "README.md", "Cargo.toml"] {
        assert!(sources.iter().any(|source| source.path == path), "{path} was not seen");
    }
    assert!(!sources.iter().any(|source| source.path.starts_with("target/")));
}
