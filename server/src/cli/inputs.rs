//! The plan and the inputs of a run, as named on the command line: a file or a saved plan, `--input` and
//! `--inputs`.

use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use crate::error::{CommandLineCode, CommandLineError, Error, InvalidDocument};
use actbook_engine::plan::{DOCUMENT_BYTES_MAX, Plan, find_inexact_in_json, read_document};
use serde_json::{Map, Value};

use super::args::InputArgs;

/// A plan as it was named on the command line.
#[derive(Debug)]
pub enum PlanArgument {
    /// The text of a file.
    Document(String),
    /// The name or id of a saved plan.
    Saved(String),
}

/// Reads a plan argument: `-` and existing files are documents, anything else names a saved plan. `Err` if it
/// looks like a file that does not exist.
pub fn plan_source(word: &str) -> Result<PlanArgument, Error> {
    let path = Path::new(word);
    if word == "-" || path.is_file() {
        return read_text(path).map(PlanArgument::Document);
    }
    let looks_like_a_file =
        word.contains('/') || [".yaml", ".yml", ".json"].iter().any(|end| word.ends_with(end));
    if looks_like_a_file {
        let message = format!("there is no file {word}");
        return Err(Error::command_line(CommandLineCode::NoSuchFile, message, suggest_file(path)));
    }
    Ok(PlanArgument::Saved(word.to_owned()))
}

/// The cure for a missing file: the most similar file name in the same folder, or general advice.
fn suggest_file(path: &Path) -> String {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let names: Vec<String> = entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    let wanted = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    match actbook_engine::analysis::nearest(&wanted, names.iter().map(String::as_str)) {
        Some(near) => format!("did you mean {}?", folder.join(near).display()),
        None => "give the path of a plan file, or the name of a saved plan (`actbook plan list`)".to_owned(),
    }
}

/// Reads a text file, or stdin for `-`. Stops one byte beyond the size that a document may have, which its
/// parser then refuses.
pub fn read_text(path: &Path) -> Result<String, Error> {
    let failed = |error: std::io::Error| {
        let message = format!("{} cannot be read: {error}", path.display());
        Error::command_line(CommandLineCode::Io, message, "give a text file that you may read")
    };
    let mut from: Box<dyn Read> = if path == Path::new("-") {
        Box::new(std::io::stdin())
    } else {
        Box::new(std::fs::File::open(path).map_err(failed)?)
    };
    let mut bytes = Vec::new();
    let limit = DOCUMENT_BYTES_MAX as u64 + 1;
    from.by_ref().take(limit).read_to_end(&mut bytes).map_err(failed)?;
    let not_text = |_| failed(std::io::Error::other("it is not UTF-8 text"));
    String::from_utf8(bytes).map_err(not_text)
}

/// Refuses an `--input` whose name is a misspelling of a declared one.
pub fn check_input_names(args: &InputArgs, plan: &Plan) -> Result<(), Error> {
    let declared = plan.inputs.as_ref().and_then(|schema| schema.get("properties")?.as_object());
    let Some(declared) = declared else { return Ok(()) };
    for (name, _) in args.inputs.iter().filter(|(name, _)| !declared.contains_key(name)) {
        if let Some(meant) = actbook_engine::analysis::nearest(name, declared.keys().map(String::as_str)) {
            let message = format!("the plan declares no input `{name}`");
            let cure = format!("did you mean `{meant}`? Give --input {meant}=…");
            let error = CommandLineError::new(CommandLineCode::UnknownInput, message, cure);
            return Err(error.with_path(format!("inputs.{name}")).into());
        }
    }
    Ok(())
}

/// The refusal of a plan, with the file that `actbook check` takes.
pub fn point_to_check(error: Error, word: &str) -> Error {
    if let Error::Invalid(document) = error {
        let file = if word == "-" { "FILE" } else { word };
        return Error::Invalid(InvalidDocument { file: Some(file.to_owned()), ..document });
    }
    error
}

/// The inputs of a run: those of the file, overridden by each `--input`. `None` if none were given and the
/// plan declares none.
pub fn run_inputs(args: &InputArgs, plan: &Arc<Plan>) -> Result<Option<Value>, Error> {
    check_input_names(args, plan)?;
    let any_given = args.inputs_file.is_some() || !args.inputs.is_empty();
    let given = given_inputs(args, plan)?;
    Ok((any_given || plan.inputs.is_some()).then_some(Value::Object(given)))
}

/// The given inputs by name: those of the file, overridden by each `--input`.
pub fn given_inputs(args: &InputArgs, plan: &Plan) -> Result<Map<String, Value>, Error> {
    let mut given = match &args.inputs_file {
        Some(file) => read_inputs_file(file)?,
        None => Map::new(),
    };
    for (key, text) in &args.inputs {
        given.insert(key.to_owned(), parse_input(key, text, declared_types(plan, key))?);
    }
    Ok(given)
}

fn read_inputs_file(file: &Path) -> Result<Map<String, Value>, Error> {
    let text = read_text(file)?;
    let wrong = |why: String, cure: &str| {
        Error::command_line(CommandLineCode::BadInput, format!("{}: {why}", file.display()), cure)
    };
    const CURE: &str = "write the inputs by name, in YAML or JSON";
    match read_document(&text) {
        Ok(Value::Object(inputs)) => Ok(inputs),
        Ok(_) => Err(wrong("it has no names with values".to_owned(), CURE)),
        Err(finding) if finding.code == "inexact_number" => {
            Err(wrong(format!("{}: {}", finding.path, finding.message), &finding.cure))
        }
        Err(finding) => Err(wrong(format!("{}: {}", finding.path, finding.message), CURE)),
    }
}

/// The JSON types that the plan's schema allows for an input; empty if it does not say.
fn declared_types<'a>(plan: &'a Plan, key: &str) -> Vec<&'a str> {
    let schema = plan.inputs.as_ref().and_then(|schema| schema.get("properties")?.get(key)?.get("type"));
    match schema {
        Some(Value::String(one)) => vec![one],
        Some(Value::Array(several)) => several.iter().filter_map(Value::as_str).collect(),
        Some(_) | None => Vec::new(),
    }
}

/// Parses an `--input` value: a string if the schema allows one; else JSON, or a string if it is no JSON.
/// Without a declared type a quoted text keeps its quotes.
fn parse_input(key: &str, text: &str, types: Vec<&str>) -> Result<Value, Error> {
    let as_text = || Value::String(text.to_owned());
    if types.contains(&"string") {
        return Ok(as_text());
    }
    if let Some(number) = find_inexact_in_json(text) {
        let (message, _) = number.message_and_cure();
        let cure = "declare the input as `type: string`, or give it as a text in an --inputs file";
        let message = format!("--input {key}: {message}");
        return Err(Error::command_line(CommandLineCode::InexactNumber, message, cure));
    }
    Ok(match serde_json::from_str::<Value>(text) {
        Ok(Value::String(_)) if types.is_empty() => as_text(),
        Ok(parsed) => parsed,
        Err(_) => as_text(),
    })
}
