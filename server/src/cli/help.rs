//! `help TOPIC`: the reference, out of the binary. Each topic is a page of the documentation, or sections of one.

use actbook::error::Error;
use actbook_engine::analysis::nearest;
use clap::CommandFactory;
use serde_json::json;

use super::args::Args;
use super::output::Output;
use super::{Ended, Exit};

const GUIDE: &str = include_str!("../../../docs/guide.md");

/// A page, or sections of one.
struct Topic {
    name: &'static str,
    about: &'static str,
    page: &'static str,
    /// Headings of the sections; none for the whole page.
    sections: &'static [&'static str],
}

const fn page(name: &'static str, about: &'static str, page: &'static str) -> Topic {
    Topic { name, about, page, sections: &[] }
}

const fn guide(name: &'static str, about: &'static str, sections: &'static [&'static str]) -> Topic {
    Topic { name, about, page: GUIDE, sections }
}

const TOPICS: [Topic; 15] = [
    page("start", "five minutes with a real client and real servers", include_str!("../../../docs/start.md")),
    guide("plan", "every field of a plan, expressions, and what `check` finds", &["## Plans", "## Check"]),
    guide("expressions", "what `${…}` and `when` may say", &["### Expressions"]),
    guide("config", "every word of actbook.yaml, and the environment", &["## Config", "## Environment"]),
    guide("answers", "states, and the answers to an execution that waits", &["## States", "## Answers"]),
    guide("commands", "the command line", &["## Command line"]),
    guide("memory", "notes, tasks, figures, templates", &["## Memory"]),
    guide("words", "what plan, step, attempt, outcome … mean", &["## Words"]),
    page("guide", "all of these on one page", GUIDE),
    page("semantics", "what exactly happens, state by state", include_str!("../../../docs/semantics.md")),
    page(
        "journal",
        "the journal's format and its kinds of entries",
        include_str!("../../../docs/journal.md"),
    ),
    page(
        "classification",
        "how a call's end is judged, transport by transport",
        include_str!("../../../docs/classification.md"),
    ),
    page("agents", "for agents: how to work with Actbook over MCP", include_str!("../../../docs/agents.md")),
    page(
        "clients",
        "setting up an agent's client, and what may be wrong",
        include_str!("../../../docs/clients.md"),
    ),
    page("library", "Actbook inside a Rust program", include_str!("../../../docs/library.md")),
];

/// A topic's text; the help of a command that is no topic; without words the overview.
pub fn help(output: &Output, words: &[String]) -> Ended {
    let topic = words.first().and_then(|word| TOPICS.iter().find(|topic| topic.name == word));
    let text = match (topic, words) {
        (Some(topic), [_]) => topic.text(),
        (_, []) => overview(),
        (_, words) => command_help(words)?,
    };
    if output.json {
        output.document(&json!({ "topic": words.join(" "), "text": text }));
    } else {
        output.text(text.trim_end());
    }
    Ok(Exit::Done)
}

impl Topic {
    fn text(&self) -> String {
        let text = match self.sections {
            [] => self.page.to_owned(),
            sections => {
                sections.iter().map(|heading| section(self.page, heading)).collect::<Vec<_>>().join("\n")
            }
        };
        let command = Args::command().find_subcommand(self.name).is_some();
        let more =
            if command { format!("\nThe command: actbook {} --help\n", self.name) } else { String::new() };
        without_links(&text) + &more
    }
}

/// From a heading to the next one of its level or above; empty where there is none such.
fn section<'a>(page: &'a str, heading: &str) -> &'a str {
    let Some(start) = page.find(&format!("\n{heading}\n")).map(|at| at + 1) else { return "" };
    let level = heading.split(' ').next().map_or(0, str::len);
    let body = start + heading.len();
    let ends = |line: &str| {
        let marks = line.bytes().take_while(|byte| *byte == b'#').count();
        (1..=level).contains(&marks) && line[marks..].starts_with(' ')
    };
    let mut at = body;
    for line in page[body..].split_inclusive('\n') {
        if ends(line) {
            break;
        }
        at += line.len();
    }
    &page[start..at]
}

/// `[clients](clients.md#x)` as `clients (actbook help clients)`; links to no topic keep their text alone.
fn without_links(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, words, target, after)) = next_link(rest) {
        plain.push_str(before);
        plain.push_str(words);
        let page = target.split(['.', '#']).next().unwrap_or_default();
        if TOPICS.iter().any(|topic| topic.name == page) {
            plain.push_str(&format!(" (`actbook help {page}`)"));
        }
        rest = after;
    }
    plain + rest
}

/// What stands before the first link to a page, its words, its target, and what comes after.
fn next_link(text: &str) -> Option<(&str, &str, &str, &str)> {
    let mut from = 0;
    while let Some(middle) = text[from..].find("](").map(|at| from + at) {
        let (head, tail) = (&text[..middle], &text[middle + 2..]);
        if let (Some(open), Some(close)) = (head.rfind('['), tail.find(')')) {
            let (words, target) = (&head[open + 1..], &tail[..close]);
            let is_link = !words.contains('\n') && (target.contains(".md") || target.starts_with('#'));
            if is_link {
                return Some((&head[..open], words, target, &tail[close + 1..]));
            }
        }
        from = middle + 2;
    }
    None
}

fn overview() -> String {
    format!("{}\n{}", Args::command().render_long_help(), topics())
}

/// The topics, a line each.
pub fn topics() -> String {
    let lines = TOPICS.iter().map(|topic| format!("  {:16}{}\n", topic.name, topic.about));
    format!("Topics of `actbook help TOPIC`:\n{}", lines.collect::<String>())
}

fn command_help(words: &[String]) -> Result<String, Error> {
    let mut command = Args::command();
    command.build();
    let mut found = &mut command;
    for word in words {
        let names: Vec<String> =
            found.get_subcommands().map(|command| command.get_name().to_owned()).collect();
        let Some(inner) = found.find_subcommand_mut(word) else { return Err(no_such_topic(word, &names)) };
        found = inner;
    }
    Ok(found.render_long_help().to_string())
}

fn no_such_topic(word: &str, commands: &[String]) -> Error {
    let names = TOPICS.iter().map(|topic| topic.name).chain(commands.iter().map(String::as_str));
    let cure = match nearest(word, names) {
        Some(meant) => format!("did you mean `actbook help {meant}`?"),
        None => "`actbook help` lists the topics and the commands".to_owned(),
    };
    Error::new("no_such_topic", format!("there is no topic and no command `{word}`"), cure)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_topic_has_text_and_no_link_to_a_file() {
        for topic in &TOPICS {
            let text = topic.text();
            assert!(text.len() > 300, "{}: {text}", topic.name);
            assert!(!text.contains(".md)") && !text.contains("](#"), "{}: {text}", topic.name);
            for heading in topic.sections {
                assert!(text.contains(heading), "{}: {heading}", topic.name);
            }
        }
    }
}
