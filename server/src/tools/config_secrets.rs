//! Finds secrets that are written literally in the config: values with secret-looking names in headers,
//! variables, options and bodies, and secrets inside URLs. `secret` redacts them.

use std::collections::BTreeMap;

use crate::config::{Config, ConfigTemplate, JsonTemplate, McpServer, TemplatePart, is_secret_name};

/// A random-looking value of at least this length counts as a secret, whatever its name.
const RANDOM_CHARS_MIN: usize = 12;

/// The name of a header, variable, option or field in the config, and the secret value given under it.
pub type ConfigSecret = (String, String);

/// Every secret that is written literally in the config; may contain duplicates.
pub fn find_config_secrets(config: &Config) -> Vec<ConfigSecret> {
    let mut found = SecretCollector::default();
    for server in config.mcp_servers.values() {
        match server {
            McpServer::Stdio { command, args, env, .. } => {
                found.scan_options([command].into_iter().chain(args));
                found.scan_map(env);
            }
            McpServer::Http { url, headers } => {
                found.scan_url(&url.source);
                found.scan_map(headers);
            }
        }
    }
    for command in config.commands.values() {
        found.scan_options(&command.argv);
        found.scan_map(&command.env);
    }
    for http in config.http.values() {
        found.scan_url(&http.url.source);
        found.scan_map(&http.headers);
        http.body.iter().for_each(|body| found.scan_body(body));
    }
    config.templates().into_iter().for_each(|template| found.scan_defaults(template));
    found.0
}

/// Collects secrets while the config is scanned.
#[derive(Default)]
struct SecretCollector(Vec<ConfigSecret>);

impl SecretCollector {
    /// Adds a value unless it is empty or contains a `${…}` reference.
    fn add(&mut self, name: &str, value: &str) {
        if !value.is_empty() && !value.contains("${") {
            self.0.push((name.to_owned(), value.to_owned()));
        }
    }

    /// Scans named values, such as headers or variables.
    fn scan_map(&mut self, named: &BTreeMap<String, ConfigTemplate>) {
        for (name, template) in named {
            self.scan_named(name, template);
        }
    }

    /// Scans one named value: a secret if its name says so and it has no `${…}`, and in any case as a URL.
    fn scan_named(&mut self, name: &str, template: &ConfigTemplate) {
        self.scan_url(&template.source);
        if let [TemplatePart::Text(text)] = template.parts.as_slice()
            && is_secret_name(name)
        {
            self.add_value_and_parts(name, text);
        }
    }

    /// Adds the value, and the parts of it that may appear alone: `Bearer x`, `a=x; b=y`.
    fn add_value_and_parts(&mut self, name: &str, text: &str) {
        self.add(name, text);
        if let Some((_, token)) = text.split_once(' ') {
            self.add(name, token.trim());
        }
        if holds_cookies(name) {
            let values = text.split(';').filter_map(|cookie| cookie.split_once('='));
            values.for_each(|(_, value)| self.add(name, value.trim()));
        }
    }

    /// Scans a command line: `--token x`, `--token=x`, `-e API_KEY=x`, `--header "Authorization: Bearer x"`.
    fn scan_options<'a>(&mut self, arguments: impl IntoIterator<Item = &'a ConfigTemplate>) {
        let mut option = None;
        for argument in arguments {
            let text = argument.source.as_str();
            self.scan_url(text);
            if let Some(name) = option.take().filter(|_| !text.starts_with('-')) {
                self.add_value_and_parts(name, text);
            }
            match text.split_once('=').or_else(|| text.split_once(": ")) {
                Some((name, value)) if is_secret_name(name) => self.add_value_and_parts(name, value),
                Some(_) => {}
                None => option = Some(text).filter(|text| text.starts_with('-') && is_secret_name(text)),
            }
        }
    }

    /// Scans an HTTP body: texts in a map by their names, all others as URLs.
    fn scan_body(&mut self, body: &JsonTemplate) {
        match body {
            JsonTemplate::Map(entries) => {
                for (name, entry) in entries {
                    match entry {
                        JsonTemplate::Text(template) => self.scan_named(name, template),
                        JsonTemplate::List(_) | JsonTemplate::Map(_) | JsonTemplate::Plain(_) => {
                            self.scan_body(entry)
                        }
                    }
                }
            }
            JsonTemplate::List(items) => items.iter().for_each(|item| self.scan_body(item)),
            JsonTemplate::Text(template) => self.scan_url(&template.source),
            JsonTemplate::Plain(_) => {}
        }
    }

    /// Scans a URL: the password of `scheme://user:password@host`, and query values with secret names or
    /// random looks.
    fn scan_url(&mut self, text: &str) {
        let Some((scheme, rest)) = text.split_once("://") else { return };
        let authority = rest.split(['/', '?', '#']).next().unwrap_or(rest);
        match authority.rsplit_once('@').map(|(user, _)| (user, user.split_once(':'))) {
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

    /// Scans the defaults of `${env:NAME:-default}`.
    fn scan_defaults(&mut self, template: &ConfigTemplate) {
        for part in &template.parts {
            if let TemplatePart::Environment { name, default: Some(default) } = part {
                self.scan_url(default);
                if is_secret_name(name) || looks_random(default) {
                    self.add(name, default);
                }
            }
        }
    }
}

/// Whether a header, variable or option of this name holds cookies (`a=x; b=y`), whose values are secrets one
/// by one. Case does not matter.
fn holds_cookies(name: &str) -> bool {
    name.to_ascii_uppercase().contains("COOKIE")
}

/// Whether the value is one run of both letters and digits, as keys are, of at least `RANDOM_CHARS_MIN`; not
/// a sentence, path or URL.
fn looks_random(value: &str) -> bool {
    let is_run = value.chars().all(|c| c.is_ascii_alphanumeric() || "-_+=.~%".contains(c));
    let mixed =
        value.contains(|c: char| c.is_ascii_digit()) && value.contains(|c: char| c.is_ascii_alphabetic());
    value.len() >= RANDOM_CHARS_MIN && is_run && mixed
}
