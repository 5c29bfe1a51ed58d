//! Imports the servers of other clients' configs: parses the entries, skips Actbook's own, keeps variables as
//! references, and adds the entries to the text of `actbook.yaml` without changing the rest of it. Secrets
//! are not copied: a literal secret becomes a reference to an environment variable.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Map, Value, json};

use super::template::{ConfigTemplate, ReferenceScope, TemplatePart};
use super::{COMMAND_SERVER, Config, HTTP_SERVER, is_secret_name, parse_document};

/// One server as it is written into `actbook.yaml`, with notes for the user.
#[derive(Clone, Debug, PartialEq)]
pub struct ImportedServer {
    pub name: String,
    pub entry: Value,
    pub notes: Vec<String>,
}

/// The result of importing one entry of a client's config.
#[derive(Clone, Debug, PartialEq)]
pub enum ImportOutcome {
    Imported(ImportedServer),
    /// The entry is not imported; the text says why.
    Skipped(String),
    /// The entry cannot be imported; these are all its problems.
    Invalid(Vec<String>),
}

/// The servers in a client's config: `mcpServers`, `servers`, VS Code's `mcp.servers`, and those that Claude
/// Code keeps for the project in this folder. Comments and trailing commas are allowed. `Err` says why the
/// text is no such config.
pub fn servers_in(text: &str, project: &Path) -> Result<Map<String, Value>, String> {
    let mut plain = text.trim_start_matches('\u{feff}').to_owned();
    json_strip_comments::strip(&mut plain).map_err(|_| "is not JSON: a `/` does not begin a comment")?;
    let document: Value = serde_json::from_str(&plain).map_err(|error| format!("is not JSON: {error}"))?;
    let of_project =
        document.get("projects").and_then(|projects| projects.get(project.to_string_lossy().as_ref()));
    let lists = [
        of_project.and_then(|project| project.get("mcpServers")),
        document.get("mcpServers"),
        document.get("servers"),
        document.get("mcp").and_then(|mcp| mcp.get("servers")),
    ];
    let mut servers = Map::new();
    let mut has_list = false;
    for list in lists.into_iter().flatten() {
        has_list = true;
        for (name, entry) in list.as_object().ok_or("its list of servers is not a map")? {
            servers.entry(name.clone()).or_insert_with(|| entry.clone());
        }
    }
    if has_list || document.get("projects").is_some() {
        Ok(servers)
    } else {
        Err("names no servers: there is neither `mcpServers` nor `servers` in it".to_owned())
    }
}

/// Imports one entry. `environment` is only used to check which variables are set, not for their values.
pub fn import_server(
    name: &str,
    entry: &Value,
    project: &Path,
    environment: &dyn Fn(&str) -> Option<String>,
) -> ImportOutcome {
    if entry.get("disabled") == Some(&Value::Bool(true)) {
        return ImportOutcome::Skipped("it is disabled there".to_owned());
    }
    if is_actbook_itself(name, entry) {
        return ImportOutcome::Skipped("it is Actbook itself".to_owned());
    }
    let mut reading = EntryReader { name, project, environment, notes: Vec::new(), errors: Vec::new() };
    let read = reading.read_entry(entry);
    let name = local_name(name, &mut reading.notes);
    match (read, reading.errors.is_empty()) {
        (Some(entry), true) => ImportOutcome::Imported(ImportedServer { name, entry, notes: reading.notes }),
        (_, _) => ImportOutcome::Invalid(reading.errors),
    }
}

/// The server's name in `actbook.yaml`: `command` and `http` are reserved, and a slash separates a server
/// from its tool.
fn local_name(name: &str, notes: &mut Vec<String>) -> String {
    let ours = match name.replace('/', "-") {
        taken if taken == COMMAND_SERVER || taken == HTTP_SERVER || taken.is_empty() => {
            format!("{taken}-server")
        }
        free => free,
    };
    if ours != name {
        notes.push(format!("is called `{ours}` here"));
    }
    ours
}

/// Whether the entry starts or reaches Actbook itself: a plan that calls Actbook would wait for itself.
fn is_actbook_itself(name: &str, entry: &Value) -> bool {
    let text = |field: &str| entry.get(field).and_then(Value::as_str).unwrap_or_default();
    let arguments =
        entry.get("args").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
    let words: Vec<&str> = [text("command")].into_iter().chain(arguments).collect();
    let url = [text("url"), text("serverUrl")].concat();
    let served = ["http://127.0.0.1:4700/", "http://localhost:4700/", "http://[::1]:4700/"];
    (words.iter().any(|word| names_actbook(word)) && words.contains(&"mcp"))
        || served.iter().any(|own| url.starts_with(own))
        || (name == "actbook" && url.ends_with("/mcp"))
}

/// Whether a word of a command line is a path, package or image called `actbook`, of any version.
fn names_actbook(word: &str) -> bool {
    let last = word.rsplit(['/', '\\']).next().unwrap_or(word);
    let bare = last.split(['@', ':']).next().unwrap_or(last);
    bare.strip_suffix(".exe").unwrap_or(bare) == "actbook"
}

/// Reads one entry, and collects notes and errors on the way.
struct EntryReader<'a> {
    name: &'a str,
    project: &'a Path,
    environment: &'a dyn Fn(&str) -> Option<String>,
    notes: Vec<String>,
    errors: Vec<String>,
}

impl EntryReader<'_> {
    /// The entry in the format of `actbook.yaml`; None: it has neither a command nor a URL.
    fn read_entry(&mut self, entry: &Value) -> Option<Value> {
        let text = |field: &str| entry.get(field).and_then(Value::as_str);
        let mut ours = Map::new();
        match (text("command"), text("url").or(text("serverUrl"))) {
            (Some(command), None) => {
                ours.insert("command".to_owned(), json!(self.convert_text(command)));
                let args = entry.get("args").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
                let args: Vec<String> = args.iter().map(|arg| self.convert_text(&text_of(arg))).collect();
                ours.extend((!args.is_empty()).then(|| ("args".to_owned(), json!(args))));
                ours.extend(self.read_map(entry, "env").map(|env| ("env".to_owned(), env)));
                ours.extend(text("cwd").map(|cwd| ("cwd".to_owned(), json!(self.convert_text(cwd)))));
            }
            (None, Some(url)) => {
                ours.insert("url".to_owned(), json!(self.convert_text(url)));
                ours.extend(self.read_map(entry, "headers").map(|headers| ("headers".to_owned(), headers)));
            }
            (None, None) => self.errors.push(format!("`{}` has neither a `command` nor a `url`", self.name)),
            (Some(_), Some(_)) => {
                self.errors.push(format!("`{}` has both a `command` and a `url`", self.name))
            }
        }
        if entry.get("envFile").is_some() {
            self.notes.push("its `envFile` is not read: set those variables yourself".to_owned());
        }
        Some(Value::Object(ours)).filter(|ours| ours != &json!({}))
    }

    /// The variables or headers by name. A literal secret becomes a reference to the environment.
    fn read_map(&mut self, entry: &Value, field: &str) -> Option<Value> {
        let given = entry.get(field)?.as_object().filter(|given| !given.is_empty())?;
        let mut ours = BTreeMap::new();
        for (name, value) in given {
            let value = text_of(value);
            let upper = name.to_ascii_uppercase().replace('-', "_");
            let is_literal_secret = is_secret_name(name) && !value.contains("${") && !value.is_empty();
            let text = if is_literal_secret {
                self.secret_reference(field, &upper, &value)
            } else {
                self.convert_text(&value)
            };
            ours.insert(name.clone(), text);
        }
        Some(json!(ours))
    }

    /// A reference that replaces a literal secret, and a note to set its variable.
    fn secret_reference(&mut self, field: &str, name: &str, value: &str) -> String {
        let server = self.name.to_ascii_uppercase();
        let server: String =
            server.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
        let variable = if field == "env" { name.to_owned() } else { format!("{server}_{name}") };
        let note = format!("set {variable}: its secret stays in the file that it was read from");
        self.notes.push(note);
        match value.split_once(' ') {
            Some((scheme, _)) if field == "headers" => format!("{scheme} ${{env:{variable}}}"),
            Some(_) | None => format!("${{env:{variable}}}"),
        }
    }

    /// The text with its references in Actbook's syntax.
    fn convert_text(&mut self, text: &str) -> String {
        let project = self.project.to_string_lossy();
        let text = text.replace("${workspaceFolder}", &project).replace("${userHome}", "${env:HOME}");
        let parts = match ConfigTemplate::parse(&text, ReferenceScope::Client) {
            Ok(template) => template.parts,
            Err(problem) => {
                self.errors.push(format!("`{}`: {problem}", self.name));
                return text;
            }
        };
        parts.into_iter().map(|part| self.convert_part(part)).collect()
    }

    fn convert_part(&mut self, part: TemplatePart) -> String {
        match part {
            TemplatePart::Text(text) => text.replace("${", "$${"),
            TemplatePart::Environment { name, default: Some(default) } => {
                format!("${{env:{name}:-{default}}}")
            }
            TemplatePart::Environment { name, default: None } => {
                if (self.environment)(&name).is_none() {
                    self.errors.push(format!("`{}` needs the variable {name}, which is not set", self.name));
                }
                format!("${{env:{name}}}")
            }
            TemplatePart::Foreign(other) => {
                self.errors.push(format!(
                    "`{}` asks its client for ${{{other}}}, which means nothing here: put an environment variable there",
                    self.name
                ));
                String::new()
            }
            TemplatePart::Argument(_) => unreachable!("a client's config knows no arguments"),
        }
    }
}

/// A JSON string's text, or the JSON text of another value.
fn text_of(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// The text of `actbook.yaml` with these servers added; everything else stays as written, comments included.
pub fn add_servers(text: &str, servers: &[ImportedServer]) -> Result<String, String> {
    let lines: Vec<&str> = text.lines().collect();
    let head = lines.iter().position(|line| line.starts_with("mcpServers:"));
    let added = match head {
        None => {
            let gap = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
            format!("{text}{gap}mcpServers:\n{}", servers_yaml(servers, "  "))
        }
        Some(head) if is_block_header(lines[head]) => {
            let end = lines[head + 1..].iter().position(|line| begins_top_level_key(line));
            let end = end.map_or(lines.len(), |end| head + 1 + end);
            let last = (head + 1..end).rev().find(|at| is_entry_line(lines[*at])).map_or(head, |at| at);
            let first = lines[head + 1..end].iter().find(|line| is_entry_line(line));
            let indent = first.map_or("  ", |line| &line[..line.len() - line.trim_start().len()]);
            let (before, after) = lines.split_at(last + 1);
            let rest: String = after.iter().map(|line| format!("{line}\n")).collect();
            format!("{}\n{}{rest}", before.join("\n"), servers_yaml(servers, indent))
        }
        Some(_) => return Err("its `mcpServers` is on one line, and nothing can be added to it".to_owned()),
    };
    check_nothing_lost(text, &added, servers)?;
    Ok(added)
}

/// Whether the `mcpServers:` line begins a block, with nothing but a comment after the colon.
fn is_block_header(line: &str) -> bool {
    let rest = line["mcpServers:".len()..].trim();
    rest.is_empty() || rest.starts_with('#')
}

/// Whether the line begins the next top-level key.
fn begins_top_level_key(line: &str) -> bool {
    !line.is_empty() && !line.starts_with([' ', '\t', '#'])
}

/// Whether the line is indented and no comment.
fn is_entry_line(line: &str) -> bool {
    line.starts_with([' ', '\t']) && !line.trim().is_empty() && !line.trim_start().starts_with('#')
}

/// The servers as an indented YAML block. Values are written as JSON, which YAML reads in the same way.
pub fn servers_yaml(servers: &[ImportedServer], indent: &str) -> String {
    let mut text = String::new();
    for server in servers {
        let plain = server.name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-')
            && server.name.starts_with(|c: char| c.is_ascii_alphabetic());
        let name = if plain { server.name.clone() } else { json!(server.name).to_string() };
        text.push_str(&format!("{indent}{name}:\n"));
        for field in ["command", "args", "env", "cwd", "url", "headers"] {
            if let Some(value) = server.entry.get(field) {
                text.push_str(&format!("{indent}  {field}: {value}\n"));
            }
        }
    }
    text
}

/// Checks, before the file is written, that the new text is a config that says the same as the old one beside
/// the new servers, and these as they were given.
fn check_nothing_lost(before: &str, after: &str, servers: &[ImportedServer]) -> Result<(), String> {
    Config::parse(after, Path::new("/")).map_err(|error| error.to_string())?;
    let read = |text: &str| parse_document(text).map_err(|error| error.to_string());
    let (before, mut after) = (read(before)?, read(after)?);
    let mut listed = after.get_mut("mcpServers").and_then(Value::as_object_mut);
    let mut is_as_given = |server: &ImportedServer| {
        let found = listed.as_mut().and_then(|listed| listed.remove(&server.name));
        found.as_ref() == Some(&server.entry)
    };
    if servers.iter().all(&mut is_as_given) && without_empty_list(before) == without_empty_list(after) {
        Ok(())
    } else {
        Err("its servers cannot be added to without losing something".to_owned())
    }
}

/// The document without `mcpServers` where that lists nothing; an empty document is an empty map.
fn without_empty_list(document: Value) -> Value {
    let Value::Object(mut keys) = document else {
        return if document.is_null() { json!({}) } else { document };
    };
    if keys.get("mcpServers").is_some_and(|list| list.is_null() || *list == json!({})) {
        keys.remove("mcpServers");
    }
    Value::Object(keys)
}
