//! The types that the product declares. One name means one type over both crates; only `Error` repeats,
//! because its module says whose error it is.

use std::collections::{BTreeMap, BTreeSet};

use super::code::{first_name, is_word};
use super::tree::Source;

const REPEATABLE: &str = "Error";
/// Macros that declare an enum or a struct by the first name in their parentheses.
const DECLARING_MACROS: [(&str, bool); 2] = [("string_enum!(", true), ("text_id!(", false)];

/// A declared type.
pub struct Declaration {
    pub name: String,
    pub is_enum: bool,
}

/// The types that a file declares. Associated types are indented, and are no declarations.
pub fn declarations(source: &Source) -> Vec<Declaration> {
    let mut found = vec![];
    for line in source.code.lines() {
        let item = line.trim_start().trim_start_matches("pub(crate) ").trim_start_matches("pub(super) ");
        let item = item.trim_start_matches("pub ");
        for word in ["struct ", "enum ", "trait ", "union ", "type "] {
            let is_associated = word == "type " && line.starts_with(' ');
            if let Some(rest) = item.strip_prefix(word).filter(|_| !is_associated) {
                found.push(Declaration { name: first_name(rest), is_enum: word == "enum " });
            }
        }
        // A block of `events!`: `Name = "kind.1" {`.
        let is_event = line.starts_with("    ") && line[4..].starts_with(char::is_uppercase);
        if let Some((name, _)) =
            line[..].split_once(" = ").filter(|(name, _)| is_event && name[4..].chars().all(is_word))
        {
            found.push(Declaration { name: name[4..].to_owned(), is_enum: false });
        }
    }
    for (opening, is_enum) in DECLARING_MACROS {
        for (_, rest) in
            source.code.match_indices(opening).map(|(at, _)| source.code.split_at(at + opening.len()))
        {
            found.push(Declaration { name: first_name(rest), is_enum });
        }
    }
    found.retain(|declared| !declared.name.is_empty());
    found
}

/// The names of all enums that the product declares.
pub fn enums(sources: &[Source]) -> BTreeSet<String> {
    let product = sources.iter().filter(|source| source.is_product());
    let declared = product.flat_map(declarations).filter(|declared| declared.is_enum);
    declared.map(|declared| declared.name).collect()
}

/// Type names that are declared more than once.
pub fn duplicates(sources: &[Source]) -> Vec<String> {
    let mut places: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for source in sources.iter().filter(|source| source.is_product()) {
        for declared in declarations(source) {
            places.entry(declared.name).or_default().push(&source.path);
        }
    }
    places.retain(|name, places| places.len() > 1 && name != REPEATABLE);
    let say =
        |(name, places): (&String, &Vec<&str>)| format!("`{name}` is declared in {}", places.join(", "));
    places.iter().map(say).collect()
}
