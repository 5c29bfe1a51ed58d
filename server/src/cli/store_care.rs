//! Database maintenance: `export`, `rebuild`, `backup` and `cleanup`.

use std::fs::{File, Permissions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;

use crate::error::{CommandLineCode, Error};
use serde_json::json;

use super::catch_up::catch_up;
use super::output::Output;
use super::session::Session;
use super::{CommandResult, Exit, times};

/// Stdout as a `Write`, line by line. After the reader has closed the pipe, writes succeed and print nothing.
struct StdoutLines<'a> {
    output: &'a Output,
    /// The beginning of a line that is not complete yet.
    partial_line: Vec<u8>,
}

impl Write for StdoutLines<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.partial_line.extend_from_slice(bytes);
        if let Some(end) = self.partial_line.iter().rposition(|byte| *byte == b'\n') {
            let rest = self.partial_line.split_off(end + 1);
            let lines = std::mem::replace(&mut self.partial_line, rest);
            let lines = String::from_utf8(lines).map_err(io::Error::other)?;
            lines.lines().for_each(|line| self.output.print_json(line));
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Writes one execution to a file, or to stdout, in a form that `verify` checks offline.
pub async fn export(session: &Session, id: &str, file: Option<&Path>) -> CommandResult {
    let Some(file) = file else {
        let mut stdout = BufWriter::new(StdoutLines { output: &session.output, partial_line: Vec::new() });
        session.service.journal().export(id, &mut stdout).await?;
        return Ok(Exit::Done);
    };
    let failed = |error: io::Error| {
        let message = format!("{} cannot be written: {error}", file.display());
        Error::command_line(CommandLineCode::Io, message, "choose another file")
    };
    let mut to = BufWriter::new(create_private(file).map_err(failed)?);
    let exported = session.service.journal().export(id, &mut to).await?;
    to.into_inner().map_err(|error| failed(error.into_error()))?.sync_all().map_err(failed)?;
    let text = format!(
        "{} entries written; `actbook verify {}` checks them anywhere",
        exported.entries,
        file.display()
    );
    print_result(&session.output, &exported, text)
}

/// Creates or truncates a file that only its owner may read, since an export holds arguments and outputs. An
/// existing file loses the permissions of others; a pipe or a device is left as it is.
fn create_private(file: &Path) -> io::Result<File> {
    let created = File::options().write(true).create(true).truncate(true).mode(0o600).open(file)?;
    let found = created.metadata()?;
    if found.is_file() && found.permissions().mode() & 0o077 != 0 {
        created.set_permissions(Permissions::from_mode(0o600))?;
    }
    Ok(created)
}

/// Rebuilds the projections from the journal.
pub async fn rebuild(session: &Session) -> CommandResult {
    let rows = session.service.journal().rebuild().await?;
    catch_up(session).await?;
    print_result(&session.output, &json!({ "rows": rows }), format!("{rows} rows replayed from the journal"))
}

/// Copies the database to a new file.
pub async fn backup(session: &Session, file: &Path) -> CommandResult {
    session.service.journal().backup(file).await?;
    print_result(&session.output, &json!({ "file": file }), format!("copied to {}", file.display()))
}

/// Erases the payloads of executions that ended more than `older_than_ms` ago; `dry_run` only counts them.
pub async fn cleanup(session: &Session, older_than_ms: i64, dry_run: bool) -> CommandResult {
    let before = times::now_ms().saturating_sub(older_than_ms);
    let cleaned = session.service.journal().cleanup(&session.caller, before, dry_run).await?;
    let would = if dry_run { "would be " } else { "" };
    let acts = match cleaned.acts {
        0 => String::new(),
        count => format!(", and the data of {count} actions outside of them,"),
    };
    let notes = match cleaned.notes {
        0 => String::new(),
        count => format!(" and {count} notes"),
    };
    let text = format!(
        "arguments and outputs of {} executions{acts}{notes} {would}erased; the journal remains complete",
        cleaned.executions
    );
    print_result(&session.output, &cleaned, text)
}

/// Prints `text`, or with `--json` the document.
fn print_result(output: &Output, document: &impl serde::Serialize, text: String) -> CommandResult {
    if output.json {
        output.document(document);
    } else {
        output.line(text);
    }
    Ok(Exit::Done)
}
