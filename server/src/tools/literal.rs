//! Secrets that are written down in the config: values under usual names, in headers, variables, options and bodies, and
//! the parts of an address that hold one. Finds them; what becomes of them is the business of `secret`.

use std::collections::BTreeMap;

use crate::config::{Config, McpServer, Part, Shape, Template, is_secret_name};

/// A value that is not under a usual name is taken for a secret from this length on, if it looks drawn at random.
const RANDOM_CHARS_MIN: usize = 12;

/// A secret and the name that it stands under.
pub type Literal = (String, String);

/// Every secret that the config writes down.
pub fn literals(config: &Config) -> Vec<Literal> {
    let mut found = Literals::default();
    for server in config.mcp_servers.values() {
        match server {
            McpServer::Stdio { command, args, env, .. } => {
                found.in_options([command].into_iter().chain(args));
                found.in_map(env);
            }
            McpServer::Http { url, headers } => {
                found.in_address(&url.source);
                found.in_map(headers);
            }
        }
    }
    for command in config.commands.values() {
        found.in_options(&command.argv);
        found.in_map(&command.env);
    }
    for http in config.http.values() {
        found.in_address(&http.url.source);
        found.in_map(&http.headers);
        http.body.iter().for_each(|body| found.in_body(body));
    }
    config.templates().into_iter().for_each(|template| found.in_defaults(template));
    found.0
}

#[derive(Default)]
struct Literals(Vec<Literal>);

impl Literals {
    fn add(&mut self, name: &str, value: &str) {
        if !value.is_empty() && !value.contains("${") {
            self.0.push((name.to_owned(), value.to_owned()));
        }
    }

    fn in_map(&mut self, named: &BTreeMap<String, Template>) {
        for (name, template) in named {
            self.in_named(name, template);
        }
    }

    fn in_named(&mut self, name: &str, template: &Template) {
        self.in_address(&template.source);
        if let [Part::Text(text)] = template.parts.as_slice()
            && is_secret_name(name)
        {
            self.value(name, text);
        }
    }

    /// The value as it is, and the parts of it that may be said alone: `Bearer x`, `a=x; b=y`.
    fn value(&mut self, name: &str, text: &str) {
        self.add(name, text);
        if let Some((_, token)) = text.split_once(' ') {
            self.add(name, token.trim());
        }
        if is_cookie(name) {
            let values = text.split(';').filter_map(|cookie| cookie.split_once('='));
            values.for_each(|(_, value)| self.add(name, value.trim()));
        }
    }

    /// `--token x`, `--token=x`, `-e API_KEY=x`, `--header "Authorization: Bearer x"`.
    fn in_options<'a>(&mut self, words: impl IntoIterator<Item = &'a Template>) {
        let mut option = None;
        for word in words {
            let text = word.source.as_str();
            self.in_address(text);
            if let Some(name) = option.take().filter(|_| !text.starts_with('-')) {
                self.value(name, text);
            }
            match text.split_once('=').or_else(|| text.split_once(": ")) {
                Some((name, value)) if is_secret_name(name) => self.value(name, value),
                Some(_) => {}
                None => option = Some(text).filter(|text| text.starts_with('-') && is_secret_name(text)),
            }
        }
    }

    fn in_body(&mut self, body: &Shape) {
        match body {
            Shape::Map(entries) => {
                for (name, entry) in entries {
                    match entry {
                        Shape::Text(template) => self.in_named(name, template),
                        Shape::List(_) | Shape::Map(_) | Shape::Plain(_) => self.in_body(entry),
                    }
                }
            }
            Shape::List(items) => items.iter().for_each(|item| self.in_body(item)),
            Shape::Text(template) => self.in_address(&template.source),
            Shape::Plain(_) => {}
        }
    }

    /// The password of `scheme://user:password@host`, and what stands in its query under usual names or looks random.
    fn in_address(&mut self, text: &str) {
        let Some((scheme, rest)) = text.split_once("://") else { return };
        let place = rest.split(['/', '?', '#']).next().unwrap_or(rest);
        match place.rsplit_once('@').map(|(user, _)| (user, user.split_once(':'))) {
            Some((_, Some((_, password)))) => self.add("the address", password),
            // Over HTTP a user without a password is a token.
            Some((user, None)) if scheme.ends_with("http") || scheme.ends_with("https") => {
                self.add("the address", user)
            }
            Some((_, None)) | None => {}
        }
        let query = rest.split_once('?').map_or("", |(_, query)| query).split('#').next().unwrap_or_default();
        for (name, value) in query.split('&').filter_map(|pair| pair.split_once('=')) {
            if is_secret_name(name) || looks_random(value) {
                self.add(name, value);
            }
        }
    }

    /// The default of `${env:NAME:-default}`.
    fn in_defaults(&mut self, template: &Template) {
        for part in &template.parts {
            if let Part::Environment { name, default: Some(default) } = part {
                self.in_address(default);
                if is_secret_name(name) || looks_random(default) {
                    self.add(name, default);
                }
            }
        }
    }
}

fn is_cookie(name: &str) -> bool {
    name.to_ascii_uppercase().contains("COOKIE")
}

/// Letters and digits in one run, as keys are written; no sentence, path or address.
fn looks_random(value: &str) -> bool {
    let is_run = value.chars().all(|c| c.is_ascii_alphanumeric() || "-_+=.~%".contains(c));
    let mixed =
        value.contains(|c: char| c.is_ascii_digit()) && value.contains(|c: char| c.is_ascii_alphabetic());
    value.len() >= RANDOM_CHARS_MIN && is_run && mixed
}
