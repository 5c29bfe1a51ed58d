//! `help TOPIC`: the reference, embedded in the binary. Each topic is a page of the documentation, or
//! sections of it.

use crate::error::{CommandLineCode, Error};
use actbook_engine::analysis::nearest;
use clap::CommandFactory;
use serde_json::json;

use super::args::CliArgs;
use super::output::Output;
use super::{CommandResult, Exit};

const GUIDE: &str = include_str!("../../../docs/guide.md");

/// A help topic: a page of the documentation, or sections of one.
struct HelpTopic {
    name: &'static str,
    about: &'static str,
    page: &'static str,
    /// Headings of the sections; empty for the whole page.
    sections: &'static [&'static str],
}

/// A topic that is a whole page.
const fn whole_page(name: &'static str, about: &'static str, page: &'static str) -> HelpTopic {
    HelpTopic { name, about, page, sections: &[] }
}

/// A topic that is sections of the guide.
const fn guide_sections(
    name: &'static str,
    about: &'static str,
    sections: &'static [&'static str],
) -> HelpTopic {
    HelpTopic { name, about, page: GUIDE, sections }
}

const TOPICS: [HelpTopic; 19] = [
    whole_page(
        "start",
        "five minutes with a real client and real servers",
        include_str!("../../../docs/start.md"),
    ),
    guide_sections(
        "plan",
        "every field of a plan, expressions, and what `check` finds",
        &["## Plans", "## Check"],
    ),
    guide_sections("expressions", "what `${…}` and `when` may say", &["### Expressions"]),
    guide_sections(
        "config",
        "every key of actbook.yaml, and the environment",
        &["## Config", "## Environment"],
    ),
    guide_sections(
        "answers",
        "states, and the answers to an execution that waits",
        &["## States", "## Answers"],
    ),
    guide_sections("commands", "the command line", &["## Command line"]),
    guide_sections("memory", "notes, tasks, figures, templates", &["## Memory"]),
    guide_sections("words", "what plan, step, attempt, outcome … mean", &["## Words"]),
    whole_page("guide", "all of these on one page", GUIDE),
    whole_page(
        "guard",
        "rules, questions and a journal for the calls of an agent without a plan",
        include_str!("../../../docs/guard.md"),
    ),
    whole_page(
        "semantics",
        "what exactly happens, state by state",
        include_str!("../../../docs/semantics.md"),
    ),
    whole_page(
        "journal",
        "the journal's format and its kinds of entries",
        include_str!("../../../docs/journal.md"),
    ),
    whole_page(
        "classification",
        "how a call's end is judged, transport by transport",
        include_str!("../../../docs/classification.md"),
    ),
    whole_page(
        "agents",
        "for agents: how to work with Actbook over MCP",
        include_str!("../../../docs/agents.md"),
    ),
    whole_page(
        "clients",
        "setting up an agent's client, and what may be wrong",
        include_str!("../../../docs/clients.md"),
    ),
    whole_page(
        "tokens",
        "who may call `actbook serve`: tokens, roles, signing in",
        include_str!("../../../docs/tokens.md"),
    ),
    whole_page("dashboard", "the pages of `actbook serve`", include_str!("../../../docs/dashboard.md")),
    whole_page("api", "the HTTP API of `actbook serve`", include_str!("../../../docs/api.md")),
    whole_page("library", "Actbook inside a Rust program", include_str!("../../../docs/library.md")),
];

/// Prints a topic's text, the help of a command that is no topic, or without words the overview.
pub fn help(output: &Output, words: &[String]) -> CommandResult {
    let topic = words.first().and_then(|word| TOPICS.iter().find(|topic| topic.name == word));
    let text = match (topic, words) {
        (Some(topic), [_]) => topic.render(),
        (_, []) => overview_text(),
        (_, words) => command_help(words)?,
    };
    if output.json {
        output.document(&json!({ "topic": words.join(" "), "text": text }));
    } else {
        output.text(text.trim_end());
    }
    Ok(Exit::Done)
}

impl HelpTopic {
    /// The topic's text for a terminal, with a pointer to the command of the same name, if there is one.
    fn render(&self) -> String {
        let text = match self.sections {
            [] => self.page.to_owned(),
            sections => {
                sections.iter().map(|heading| find_section(self.page, heading)).collect::<Vec<_>>().join("\n")
            }
        };
        let is_command = CliArgs::command().find_subcommand(self.name).is_some();
        let more =
            if is_command { format!("\nThe command: actbook {} --help\n", self.name) } else { String::new() };
        replace_links(&text) + &more
    }
}

/// The section from a heading to the next one of its level or above; empty if the page has no such heading.
fn find_section<'a>(page: &'a str, heading: &str) -> &'a str {
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

/// Turns `[clients](clients.md#x)` into `clients (actbook help clients)`; a link to no topic becomes its
/// text.
fn replace_links(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, label, target, after)) = next_link(rest) {
        plain.push_str(before);
        plain.push_str(label);
        let page = target.split(['.', '#']).next().unwrap_or_default();
        if TOPICS.iter().any(|topic| topic.name == page) {
            plain.push_str(&format!(" (`actbook help {page}`)"));
        }
        rest = after;
    }
    plain + rest
}

/// Splits at the first link to a page: the text before it, its label, its target, the text after it. `None`
/// without a link.
fn next_link(text: &str) -> Option<(&str, &str, &str, &str)> {
    let mut from = 0;
    while let Some(middle) = text[from..].find("](").map(|at| from + at) {
        let (head, tail) = (&text[..middle], &text[middle + 2..]);
        if let (Some(open), Some(close)) = (head.rfind('['), tail.find(')')) {
            let (label, target) = (&head[open + 1..], &tail[..close]);
            let is_link = !label.contains('\n') && (target.contains(".md") || target.starts_with('#'));
            if is_link {
                return Some((&head[..open], label, target, &tail[close + 1..]));
            }
        }
        from = middle + 2;
    }
    None
}

/// The help of the whole program and the list of topics.
fn overview_text() -> String {
    format!("{}\n{}", CliArgs::command().render_long_help(), topic_list())
}

pub fn topic_list() -> String {
    let lines = TOPICS.iter().map(|topic| format!("  {:16}{}\n", topic.name, topic.about));
    format!("Topics of `actbook help TOPIC`:\n{}", lines.collect::<String>())
}

/// The help of a command, or of a subcommand named by several words.
fn command_help(words: &[String]) -> Result<String, Error> {
    let mut command = CliArgs::command();
    command.build();
    let mut found = &mut command;
    for word in words {
        let names: Vec<String> =
            found.get_subcommands().map(|command| command.get_name().to_owned()).collect();
        let Some(inner) = found.find_subcommand_mut(word) else {
            return Err(no_such_topic_error(word, &names));
        };
        found = inner;
    }
    Ok(found.render_long_help().to_string())
}

fn no_such_topic_error(word: &str, commands: &[String]) -> Error {
    let names = TOPICS.iter().map(|topic| topic.name).chain(commands.iter().map(String::as_str));
    let cure = match nearest(word, names) {
        Some(meant) => format!("did you mean `actbook help {meant}`?"),
        None => "`actbook help` lists the topics and the commands".to_owned(),
    };
    let message = format!("there is no topic and no command `{word}`");
    Error::command_line(CommandLineCode::NoSuchTopic, message, cure)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_topic_has_text_and_no_link_to_a_file() {
        for topic in &TOPICS {
            let text = topic.render();
            assert!(text.len() > 300, "{}: {text}", topic.name);
            assert!(!text.contains(".md)") && !text.contains("](#"), "{}: {text}", topic.name);
            for heading in topic.sections {
                assert!(text.contains(heading), "{}: {heading}", topic.name);
            }
        }
    }
}
