//! Rules about one file's text, each a function from the file to its findings.

use super::code::{has_word, is_word, word_at};
use super::tree::{Source, root};

pub type Rule = fn(&Source) -> Vec<String>;

const FUNCTION_LINES_MAX: usize = 70;
const FILE_LINES_MAX: usize = 600;
const NAMELESS: [&str; 7] = ["utils", "util", "helpers", "helper", "common", "manager", "types"];

pub fn file_size(source: &Source) -> Vec<String> {
    let lines = source.text.lines().count();
    let long = source.path.ends_with(".rs") && lines > FILE_LINES_MAX;
    if long { vec![format!("{}: {lines} lines, at most {FILE_LINES_MAX}", source.path)] } else { vec![] }
}

pub fn function_size(source: &Source) -> Vec<String> {
    let mut found = vec![];
    for (start, _) in source.code.match_indices("fn ") {
        let before = source.code[..start].chars().next_back();
        let Some(length) = body_end(&source.code[start..]) else { continue };
        let lines = source.code[start..start + length].lines().count();
        if !before.is_some_and(is_word) && lines > FUNCTION_LINES_MAX {
            let line = source.code[..start].lines().count().max(1);
            let name: String = source.code[start + 3..].chars().take_while(|&c| is_word(c)).collect();
            let path = &source.path;
            found.push(format!("{path}:{line}: `{name}` has {lines} lines, at most {FUNCTION_LINES_MAX}"));
        }
    }
    found
}

/// Where the function that begins here ends; none for a declaration without a body.
fn body_end(code: &str) -> Option<usize> {
    let (mut brackets, mut braces) = (0_i32, 0_i32);
    for (at, c) in code.char_indices() {
        match c {
            '(' | '[' => brackets += 1,
            ')' | ']' => brackets -= 1,
            ';' if brackets == 0 && braces == 0 => return None,
            '{' => braces += 1,
            '}' => {
                braces -= 1;
                if brackets == 0 && braces == 0 {
                    return Some(at + 1);
                }
            }
            _ => {}
        }
    }
    None
}

/// The product's SQL never changes an entry. Tests may: they tamper, and see that it is found.
pub fn journal_is_append_only(source: &Source) -> Vec<String> {
    if !source.is_product() {
        return vec![];
    }
    let plain = source.text.replace(['"', '`', '\\'], " ").to_lowercase();
    let words: Vec<&str> = plain.split_whitespace().collect();
    let text = words.join(" ");
    let forbidden = ["update journal", "delete from journal", "replace into journal", "truncate journal"];
    let named = forbidden.into_iter().filter(|phrase| has_word(&text, phrase));
    named.map(|phrase| format!("{}: `{phrase}`: the journal is append-only", source.path)).collect()
}

/// Who has only the binary cannot open a page of the repository: messages cite `actbook help TOPIC`.
pub fn messages_cite_no_pages(source: &Source) -> Vec<String> {
    if !source.is_product() || !source.path.ends_with(".rs") {
        return vec![];
    }
    let cites = |line: &&str| {
        let code = line.split("//").next().unwrap_or_default();
        code.contains("docs/") && code.contains('"') && !code.contains("include_str!")
    };
    let cited = source.text.lines().filter(cites);
    cited.map(|line| format!("{}: `{}`: cite `actbook help TOPIC`", source.path, line.trim())).collect()
}

pub fn attributes(source: &Source) -> Vec<String> {
    let packed: String = source.code.chars().filter(|c| !c.is_whitespace()).collect();
    let forbidden = ["#[allow(", "#![allow(", "#[ignore"];
    let named = forbidden.into_iter().filter(|attribute| packed.contains(attribute));
    let cure = "say `#[expect(…, reason = …)]`, and run every test";
    named.map(|attribute| format!("{}: `{attribute}`: {cure}", source.path)).collect()
}

pub fn markers(source: &Source) -> Vec<String> {
    if source.is_tidy() || source.path == "STYLE.md" {
        return vec![];
    }
    let plain = source.text.replace("TODO(#", "");
    let forbidden = ["FIXME", "XXX", "TODO", "dbg!("];
    let named = forbidden.into_iter().filter(|marker| has_word(&plain, marker));
    named.map(|marker| format!("{}: `{marker}` is left over", source.path)).collect()
}

pub fn machine_paths(source: &Source) -> Vec<String> {
    if source.is_tidy() {
        return vec![];
    }
    let begins = |start: usize| {
        let before = source.text[..start].chars().next_back();
        !before.is_some_and(|c| is_word(c) || ".-/}".contains(c))
    };
    let forbidden = ["home", "root", "work", "Users"].map(|folder| format!("/{folder}/"));
    let places = forbidden.iter().flat_map(|path| source.text.match_indices(path.as_str()));
    let named = places.filter(|(start, _)| begins(*start));
    named.map(|(_, path)| format!("{}: `{path}…` is a path of one machine", source.path)).collect()
}

pub fn sleeps(source: &Source) -> Vec<String> {
    if !source.path.contains("/tests/") {
        return vec![];
    }
    let forbidden = ["thread::sleep", "time::sleep"];
    let named = forbidden.into_iter().filter(|sleep| has_word(&source.code, sleep));
    named.map(|sleep| format!("{}: `{sleep}`: wait for a position instead", source.path)).collect()
}

/// What is printed passes through one file, which lets nothing raw reach a terminal.
pub fn prints(source: &Source) -> Vec<String> {
    let asks = source.path.starts_with("server/src/cli") || source.path == "server/src/main.rs";
    let own = ["server/src/cli/output.rs", "server/src/cli/demo_tools"];
    if !asks || own.iter().any(|home| source.path.starts_with(home)) {
        return vec![];
    }
    let forbidden = ["io::stdout", "io::stderr", "print!", "println!", "eprint!", "eprintln!", "anstream"];
    let named = forbidden.into_iter().filter(|word| has_word(&source.code, word));
    named.map(|word| format!("{}: `{word}`: print through cli/output.rs", source.path)).collect()
}

pub fn modules(source: &Source) -> Vec<String> {
    let inside = source.path.split_once("/src/").filter(|_| source.path.ends_with(".rs"));
    let Some((_, module)) = inside else { return vec![] };
    let mut found = vec![];
    if !["lib.rs", "main.rs"].contains(&module) && !source.text.starts_with("//!") {
        found.push(format!("{}: a module opens with what it knows: `//! …`", source.path));
    }
    let nameless = module.trim_end_matches(".rs").split('/').filter(|part| NAMELESS.contains(part));
    found.extend(nameless.map(|part| format!("{}: `{part}` is no name", source.path)));
    found
}

pub fn links(source: &Source) -> Vec<String> {
    if !source.path.ends_with(".md") {
        return vec![];
    }
    let folder = root().join(&source.path).parent().expect("a file lies in a folder").to_owned();
    let inside = |target: &&str| !target.is_empty() && !target.contains(':');
    let targets = source.text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    let files = targets.map(|target| target.split('#').next().unwrap_or(target)).filter(inside);
    let broken = files.filter(|target| !folder.join(target).exists());
    broken.map(|target| format!("{}: the link to {target} leads nowhere", source.path)).collect()
}

#[test]
fn word_is_found_only_as_a_whole() {
    assert_eq!(word_at("updates journal; update journals; update journal", "update journal"), Some(34));
}
