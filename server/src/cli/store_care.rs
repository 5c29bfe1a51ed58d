//! Looking after the database: exports, rebuilt lists, copies, and erasing what is old.

use std::fs::{File, Permissions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;

use actbook::error::Error;
use serde_json::json;

use super::output::Output;
use super::session::Session;
use super::{Ended, Exit, times};

/// Stdout as a file to write to, line by line; a reader that has gone away ends the export.
struct Piped<'a> {
    output: &'a Output,
    /// The beginning of a line whose end has not come yet.
    begun: Vec<u8>,
}

impl Write for Piped<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.begun.extend_from_slice(bytes);
        if let Some(end) = self.begun.iter().rposition(|byte| *byte == b'\n') {
            let rest = self.begun.split_off(end + 1);
            let lines = std::mem::replace(&mut self.begun, rest);
            let lines = String::from_utf8(lines).map_err(io::Error::other)?;
            lines.lines().for_each(|line| self.output.exact(line));
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

pub async fn export(session: &Session, id: &str, file: Option<&Path>) -> Ended {
    let Some(file) = file else {
        let mut stdout = BufWriter::new(Piped { output: &session.output, begun: Vec::new() });
        session.service.export(id, &mut stdout).await?;
        return Ok(Exit::Done);
    };
    let failed = |error: io::Error| {
        Error::new("io", format!("{} cannot be written: {error}", file.display()), "choose another file")
    };
    let mut to = BufWriter::new(create_private(file).map_err(failed)?);
    let exported = session.service.export(id, &mut to).await?;
    to.into_inner().map_err(|error| failed(error.into_error()))?.sync_all().map_err(failed)?;
    let text = format!(
        "{} entries written; `actbook verify {}` checks them anywhere",
        exported.entries,
        file.display()
    );
    done(&session.output, &exported, text)
}

/// A file that only its owner may read, for an export holds arguments and outputs. One that was there before loses what
/// others could do with it; a pipe or a device is left as it is.
fn create_private(file: &Path) -> io::Result<File> {
    let created = File::options().write(true).create(true).truncate(true).mode(0o600).open(file)?;
    let found = created.metadata()?;
    if found.is_file() && found.permissions().mode() & 0o077 != 0 {
        created.set_permissions(Permissions::from_mode(0o600))?;
    }
    Ok(created)
}

pub async fn rebuild(session: &Session) -> Ended {
    let rows = session.service.rebuild().await?;
    done(&session.output, &json!({ "rows": rows }), format!("{rows} rows replayed from the journal"))
}

pub async fn backup(session: &Session, file: &Path) -> Ended {
    session.service.backup(file).await?;
    done(&session.output, &json!({ "file": file }), format!("copied to {}", file.display()))
}

pub async fn cleanup(session: &Session, older_than_ms: i64, dry_run: bool) -> Ended {
    let before = times::now_ms().saturating_sub(older_than_ms);
    let cleaned = session.service.cleanup(&session.caller, before, dry_run).await?;
    let would = if dry_run { "would be " } else { "" };
    let acts = match cleaned.acts {
        0 => String::new(),
        count => format!(", and what {count} acts outside of them keep,"),
    };
    let notes = match cleaned.notes {
        0 => String::new(),
        count => format!(" and {count} notes"),
    };
    let text = format!(
        "arguments and outputs of {} executions{acts}{notes} {would}erased; the journal stays whole",
        cleaned.executions
    );
    done(&session.output, &cleaned, text)
}

fn done(output: &Output, shown: &impl serde::Serialize, text: String) -> Ended {
    match output.json {
        true => output.document(shown),
        false => output.line(text),
    }
    Ok(Exit::Done)
}
