//! What a run is given: a plan by file or name, and its inputs by word or file.

use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use actbook::error::Error;
use actbook_engine::plan::{DOCUMENT_BYTES_MAX, Plan, inexact_in_json, read_document};
use serde_json::{Map, Value};

use super::args::Given;

/// A plan as it was named on the command line.
#[derive(Debug)]
pub enum Named {
    /// The text of a file.
    Document(String),
    /// The name or id of a saved plan.
    Saved(String),
}

/// A file wins over a saved plan of the same name.
pub fn plan(word: &str) -> Result<Named, Error> {
    let path = Path::new(word);
    if word == "-" || path.is_file() {
        return read(path).map(Named::Document);
    }
    let looks_like_a_file =
        word.contains('/') || [".yaml", ".yml", ".json"].iter().any(|end| word.ends_with(end));
    match looks_like_a_file {
        true => Err(Error::new("no_such_file", format!("there is no file {word}"), nearby(path))),
        false => Ok(Named::Saved(word.to_owned())),
    }
}

/// The nearest file name in the same folder.
fn nearby(path: &Path) -> String {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let names: Vec<String> = entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    let wanted = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    match actbook_engine::analysis::nearest(&wanted, names.iter().map(String::as_str)) {
        Some(near) => format!("did you mean {}?", folder.join(near).display()),
        None => "give the path of a plan file, or the name of a saved plan (`actbook plan list`)".to_owned(),
    }
}

/// A text file, or stdin for `-`, of a size that a document may have.
pub fn read(path: &Path) -> Result<String, Error> {
    let failed = |error: std::io::Error| {
        Error::new(
            "io",
            format!("{} cannot be read: {error}", path.display()),
            "give a text file that you may read",
        )
    };
    let mut from: Box<dyn Read> = match path == Path::new("-") {
        true => Box::new(std::io::stdin()),
        false => Box::new(std::fs::File::open(path).map_err(failed)?),
    };
    let mut bytes = Vec::new();
    let limit = DOCUMENT_BYTES_MAX as u64 + 1;
    from.by_ref().take(limit).read_to_end(&mut bytes).map_err(failed)?;
    let not_text = |_| failed(std::io::Error::other("it is not UTF-8 text"));
    String::from_utf8(bytes).map_err(not_text)
}

/// The inputs of a run: the file's, with each `--input` over them. None: none were given.
pub fn inputs(asked: &Given, plan: &Arc<Plan>) -> Result<Option<Value>, Error> {
    let named = asked.inputs_file.is_some() || !asked.inputs.is_empty();
    let given = given(asked, plan)?;
    Ok((named || plan.inputs.is_some()).then_some(Value::Object(given)))
}

pub fn given(asked: &Given, plan: &Plan) -> Result<Map<String, Value>, Error> {
    let mut given = match &asked.inputs_file {
        Some(file) => from_file(file)?,
        None => Map::new(),
    };
    for (key, text) in &asked.inputs {
        given.insert(key.to_owned(), value(key, text, declared(plan, key))?);
    }
    Ok(given)
}

fn from_file(file: &Path) -> Result<Map<String, Value>, Error> {
    let text = read(file)?;
    let wrong = |why: String, cure: &str| Error::new("bad_input", format!("{}: {why}", file.display()), cure);
    const CURE: &str = "write the inputs by name, in YAML or JSON";
    match read_document(&text) {
        Ok(Value::Object(inputs)) => Ok(inputs),
        Ok(_) => Err(wrong("it holds no names with values".to_owned(), CURE)),
        Err(finding) if finding.code == "inexact_number" => {
            Err(wrong(format!("{}: {}", finding.path, finding.message), &finding.cure))
        }
        Err(finding) => Err(wrong(format!("{}: {}", finding.path, finding.message), CURE)),
    }
}

/// The types that the plan's schema allows for an input.
fn declared<'a>(plan: &'a Plan, key: &str) -> Vec<&'a str> {
    let schema = plan.inputs.as_ref().and_then(|schema| schema.get("properties")?.get(key)?.get("type"));
    match schema {
        Some(Value::String(one)) => vec![one],
        Some(Value::Array(several)) => several.iter().filter_map(Value::as_str).collect(),
        Some(_) | None => Vec::new(),
    }
}

/// As the schema says; where it is silent, what reads as a number, a truth value, a list or a map is one.
fn value(key: &str, text: &str, types: Vec<&str>) -> Result<Value, Error> {
    let as_text = || Value::String(text.to_owned());
    if types.contains(&"string") {
        return Ok(as_text());
    }
    if let Some(number) = inexact_in_json(text) {
        let (message, _) = number.message_and_cure();
        let cure = "declare the input as `type: string`, or give it as a text in an --inputs file";
        return Err(Error::new("inexact_number", format!("--input {key}: {message}"), cure));
    }
    Ok(match serde_json::from_str::<Value>(text) {
        Ok(Value::String(_)) if types.is_empty() => as_text(),
        Ok(read) => read,
        Err(_) => as_text(),
    })
}
