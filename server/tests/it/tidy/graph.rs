//! The graph of rooms as ARCHITECTURE.md shows it: who names whom, and how often. It is drawn from the sources,
//! between two marks; `ACTBOOK_UPDATE=1` writes it.

use std::collections::BTreeMap;

use super::code::names_under;
use super::rooms::{ENGINE, ROOMS, Table, named_rooms, table_and_room};
use super::tree::{Source, root};

const BEGIN: &str = "<!-- Drawn by the tidy test; ACTBOOK_UPDATE=1 writes it. -->\n";
const END: &str = "<!-- End of what is drawn. -->";

/// How often each room names each other one.
type Counts = BTreeMap<(String, String), usize>;

/// Counts the rooms that all files name; `engine` stands for all modules of the engine.
fn count(sources: &[Source]) -> Counts {
    let mut counts = Counts::new();
    for source in sources {
        let Some((_, room)) = table_and_room(source) else { continue };
        let engine = names_under(&source.code, "actbook_engine").into_iter();
        for name in named_rooms(source).into_iter().chain(engine.map(|_| "engine".to_owned())) {
            *counts.entry((room.to_owned(), name)).or_default() += 1;
        }
    }
    counts
}

/// One line for each room, the highest first: `store  engine 40`.
fn draw(table: &Table, counts: &Counts) -> String {
    let mut text = String::new();
    for (room, _) in table.iter().rev() {
        let below = table.iter().rev().map(|(name, _)| *name).chain(["engine"]);
        let arrow = |name: &str| {
            let count = counts.get(&((*room).to_owned(), name.to_owned()))?;
            Some(format!("{name} {count}"))
        };
        let arrows: Vec<String> = below.filter_map(arrow).collect();
        text += format!("    {room:<17} {}", arrows.join(", ")).trim_end();
        text += "\n";
    }
    text
}

/// Allowed arrows that no file uses any more.
pub fn unused_arrows(sources: &[Source]) -> Vec<String> {
    let counts = count(sources);
    let rows = ROOMS.iter().chain(ENGINE);
    let arrows = rows.flat_map(|(room, allowed)| allowed.iter().map(move |name| (*room, *name)));
    let unused = arrows.filter(|(room, name)| !counts.contains_key(&((*room).into(), (*name).into())));
    unused.map(|(room, name)| format!("`{room}` may name `{name}` and does not: take it out")).collect()
}

/// The difference between the drawn graph and the one in ARCHITECTURE.md; with `ACTBOOK_UPDATE` it writes.
pub fn outdated_graph(sources: &[Source]) -> Vec<String> {
    let counts = count(sources);
    let drawn = format!("{BEGIN}\n{}\n{}\n{END}", draw(ROOMS, &counts), draw(ENGINE, &counts));
    let path = root().join("ARCHITECTURE.md");
    let text = std::fs::read_to_string(&path).expect("ARCHITECTURE.md can be read");
    let (Some(begin), Some(end)) = (text.find(BEGIN), text.find(END)) else {
        return vec!["ARCHITECTURE.md: the marks of the graph are gone".to_owned()];
    };
    let end = end + END.len();
    if text[begin..end] == drawn {
        return vec![];
    }
    if std::env::var_os("ACTBOOK_UPDATE").is_some() {
        let written = std::fs::write(&path, format!("{}{drawn}{}", &text[..begin], &text[end..]));
        written.expect("ARCHITECTURE.md can be written");
        return vec![];
    }
    vec![format!("ARCHITECTURE.md: the graph is out of date; ACTBOOK_UPDATE=1 writes this:\n{drawn}")]
}
