//! The servers of other clients' configs, put into ours: read, told apart from our own entry, their
//! variables kept as references, and added to the text of `actbook.yaml` without touching the rest of it.
//! Secrets stay where they are: a value that is written down there is not written down here.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Map, Value, json};

use super::comments::plain;
use super::template::{Part, Scope, Template};
use super::{COMMAND_SERVER, Config, HTTP_SERVER, is_secret_name};

/// One server as it goes into our config, with what the user must know about it.
#[derive(Clone, Debug, PartialEq)]
pub struct Imported {
    pub name: String,
    pub entry: Value,
    pub notes: Vec<String>,
}

/// What becomes of one entry of a client's config.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    Taken(Imported),
    /// And why.
    LeftOut(String),
    /// Everything that is wrong with it.
    Wrong(Vec<String>),
}

/// The servers that a client's config names: `mcpServers`, `servers`, VS Code's `mcp.servers`,
/// and what Claude Code keeps for the project in this folder.
pub fn servers_in(text: &str, project: &Path) -> Result<Map<String, Value>, String> {
    let document: Value =
        serde_json::from_str(&plain(text)).map_err(|error| format!("is no JSON: {error}"))?;
    let of_project =
        document.get("projects").and_then(|projects| projects.get(project.to_string_lossy().as_ref()));
    let places = [
        of_project.and_then(|project| project.get("mcpServers")),
        document.get("mcpServers"),
        document.get("servers"),
        document.get("mcp").and_then(|mcp| mcp.get("servers")),
    ];
    let mut servers = Map::new();
    let mut named = false;
    for place in places.into_iter().flatten() {
        named = true;
        for (name, entry) in place.as_object().ok_or("its list of servers is no map")? {
            servers.entry(name.clone()).or_insert_with(|| entry.clone());
        }
    }
    match named || document.get("projects").is_some() {
        true => Ok(servers),
        false => Err("names no servers: there is neither `mcpServers` nor `servers` in it".to_owned()),
    }
}

/// One entry in our words. `environment` tells which variables are set; their values go nowhere.
pub fn import(
    name: &str,
    entry: &Value,
    project: &Path,
    environment: &dyn Fn(&str) -> Option<String>,
) -> Outcome {
    if entry.get("disabled") == Some(&Value::Bool(true)) {
        return Outcome::LeftOut("it is disabled there".to_owned());
    }
    if is_our_own(name, entry) {
        return Outcome::LeftOut("it is Actbook itself".to_owned());
    }
    let mut reading = Reading { name, project, environment, notes: Vec::new(), wrong: Vec::new() };
    let read = reading.entry(entry);
    let name = our_name(name, &mut reading.notes);
    match (read, reading.wrong.is_empty()) {
        (Some(entry), true) => Outcome::Taken(Imported { name, entry, notes: reading.notes }),
        (_, _) => Outcome::Wrong(reading.wrong),
    }
}

/// `command` and `http` mean something here, and a slash parts a server from its tool.
fn our_name(name: &str, notes: &mut Vec<String>) -> String {
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

/// A plan that could call Actbook would wait for itself.
fn is_our_own(name: &str, entry: &Value) -> bool {
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

/// A path, a package or an image of that name, whatever its version.
fn names_actbook(word: &str) -> bool {
    let last = word.rsplit(['/', '\\']).next().unwrap_or(word);
    let bare = last.split(['@', ':']).next().unwrap_or(last);
    bare.strip_suffix(".exe").unwrap_or(bare) == "actbook"
}

struct Reading<'a> {
    name: &'a str,
    project: &'a Path,
    environment: &'a dyn Fn(&str) -> Option<String>,
    notes: Vec<String>,
    wrong: Vec<String>,
}

impl Reading<'_> {
    fn entry(&mut self, entry: &Value) -> Option<Value> {
        let text = |field: &str| entry.get(field).and_then(Value::as_str);
        let mut ours = Map::new();
        match (text("command"), text("url").or(text("serverUrl"))) {
            (Some(command), None) => {
                ours.insert("command".to_owned(), json!(self.text(command)));
                let args = entry.get("args").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
                let args: Vec<String> = args.iter().map(|arg| self.text(&written(arg))).collect();
                ours.extend((!args.is_empty()).then(|| ("args".to_owned(), json!(args))));
                ours.extend(self.named(entry, "env").map(|env| ("env".to_owned(), env)));
                ours.extend(text("cwd").map(|cwd| ("cwd".to_owned(), json!(self.text(cwd)))));
            }
            (None, Some(url)) => {
                ours.insert("url".to_owned(), json!(self.text(url)));
                ours.extend(self.named(entry, "headers").map(|headers| ("headers".to_owned(), headers)));
            }
            (None, None) => self.wrong.push(format!("`{}` has neither a `command` nor a `url`", self.name)),
            (Some(_), Some(_)) => {
                self.wrong.push(format!("`{}` has both a `command` and a `url`", self.name))
            }
        }
        if entry.get("envFile").is_some() {
            self.notes.push("its `envFile` is not read: set those variables yourself".to_owned());
        }
        Some(Value::Object(ours)).filter(|ours| ours != &json!({}))
    }

    /// Variables or headers by name. A secret that is written down becomes a reference to the environment.
    fn named(&mut self, entry: &Value, field: &str) -> Option<Value> {
        let given = entry.get(field)?.as_object().filter(|given| !given.is_empty())?;
        let mut ours = BTreeMap::new();
        for (name, value) in given {
            let value = written(value);
            let upper = name.to_ascii_uppercase().replace('-', "_");
            let secret = is_secret_name(name) && !value.contains("${");
            let kept = match secret && !value.is_empty() {
                true => self.reference(field, &upper, &value),
                false => self.text(&value),
            };
            ours.insert(name.clone(), kept);
        }
        Some(json!(ours))
    }

    fn reference(&mut self, field: &str, name: &str, value: &str) -> String {
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

    /// A text with its references in our spelling.
    fn text(&mut self, text: &str) -> String {
        let here = self.project.to_string_lossy();
        let text = text.replace("${workspaceFolder}", &here).replace("${userHome}", "${env:HOME}");
        let parts = match Template::parse(&text, Scope::Client) {
            Ok(template) => template.parts,
            Err(problem) => {
                self.wrong.push(format!("`{}`: {problem}", self.name));
                return text;
            }
        };
        parts.into_iter().map(|part| self.part(part)).collect()
    }

    fn part(&mut self, part: Part) -> String {
        match part {
            Part::Text(text) => text.replace("${", "$${"),
            Part::Environment { name, default: Some(default) } => format!("${{env:{name}:-{default}}}"),
            Part::Environment { name, default: None } => {
                if (self.environment)(&name).is_none() {
                    self.wrong.push(format!("`{}` needs the variable {name}, which is not set", self.name));
                }
                format!("${{env:{name}}}")
            }
            Part::Foreign(other) => {
                self.wrong.push(format!(
                    "`{}` asks its client for ${{{other}}}, which means nothing here: put an environment variable there",
                    self.name
                ));
                String::new()
            }
            Part::Argument(_) => unreachable!("a client's config knows no arguments"),
        }
    }
}

fn written(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Our config's text with these servers added; what was there stays as it stands, comments and all.
pub fn added(text: &str, servers: &[Imported]) -> Result<String, String> {
    let lines: Vec<&str> = text.lines().collect();
    let head = lines.iter().position(|line| line.starts_with("mcpServers:"));
    let added = match head {
        None => {
            let gap = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
            format!("{text}{gap}mcpServers:\n{}", block(servers, "  "))
        }
        Some(head) if is_open(lines[head]) => {
            let end = lines[head + 1..].iter().position(|line| begins_anew(line));
            let end = end.map_or(lines.len(), |end| head + 1 + end);
            let last = (head + 1..end).rev().find(|at| is_entry(lines[*at])).map_or(head, |at| at);
            let first = lines[head + 1..end].iter().find(|line| is_entry(line));
            let indent = first.map_or("  ", |line| &line[..line.len() - line.trim_start().len()]);
            let (before, after) = lines.split_at(last + 1);
            let rest: String = after.iter().map(|line| format!("{line}\n")).collect();
            format!("{}\n{}{rest}", before.join("\n"), block(servers, indent))
        }
        Some(_) => return Err("its `mcpServers` stands on one line, which cannot be added to".to_owned()),
    };
    still_whole(text, &added, servers)?;
    Ok(added)
}

fn is_open(line: &str) -> bool {
    let rest = line["mcpServers:".len()..].trim();
    rest.is_empty() || rest.starts_with('#')
}

fn begins_anew(line: &str) -> bool {
    !line.is_empty() && !line.starts_with([' ', '\t', '#'])
}

fn is_entry(line: &str) -> bool {
    line.starts_with([' ', '\t']) && !line.trim().is_empty() && !line.trim_start().starts_with('#')
}

/// Text that YAML reads the same way as JSON.
pub fn block(servers: &[Imported], indent: &str) -> String {
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

/// The last look before a file is written: what was there is still there, and what was added reads back.
fn still_whole(before: &str, after: &str, servers: &[Imported]) -> Result<(), String> {
    let read = |text: &str| Config::parse(text, Path::new("/")).map_err(|error| error.to_string());
    let (before, after) = (read(before)?, read(after)?);
    let kept = before.mcp_servers.keys().all(|name| after.mcp_servers.contains_key(name));
    let there = servers.iter().all(|server| after.mcp_servers.contains_key(&server.name));
    let others = (before.commands.len(), before.http.len(), before.servers.len())
        == (after.commands.len(), after.http.len(), after.servers.len());
    match kept && there && others {
        true => Ok(()),
        false => Err("its servers cannot be added to without losing something".to_owned()),
    }
}
