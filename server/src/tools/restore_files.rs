//! The built-in `actbook/restore_files`, which undoes what a guarded session's calls did to files. No server offers it,
//! and it works only for an execution for which files were kept: a plan's has none.

use std::path::{Path, PathBuf};

use actbook_engine::policy::ErrorCategory;
use serde::Deserialize;
use serde_json::{Value, json};

use super::classify::{RawOutcome, classify};
use super::process::ProcessIdentity;
use super::{Call, CallOutcome, Purpose, Tools, withheld_before_send};
use crate::snapshot::{self, RestoreGoal, Restored, SessionStore, StoreError};

/// Paths that the message about changed ones names.
const NAMED_MAX: usize = 5;

/// What is to be restored, as it was journaled.
#[derive(Debug, Deserialize)]
struct RestoreArguments {
    folder: PathBuf,
    files: Vec<RestoreGoal>,
}

impl Tools {
    /// Restores the files. A path that was changed since fails the call, which asks a person; all others are restored.
    pub(super) async fn restore_files(
        &self,
        call: Call,
        sending: impl Fn(Option<ProcessIdentity>) -> bool,
    ) -> CallOutcome {
        let refused = |why: String| {
            classify(RawOutcome::NotSent { category: ErrorCategory::InvalidArguments, why }, false)
        };
        let arguments = match serde_json::from_value::<RestoreArguments>(call.arguments) {
            Ok(arguments) => arguments,
            Err(error) => return refused(error.to_string()),
        };
        let Some(origin) = call.origin.filter(|origin| origin.purpose == Purpose::Undo) else {
            return refused("only an undo restores files".to_owned());
        };
        let Some(data_folder) = self.data_folder.clone() else {
            return refused("nothing is kept here".to_owned());
        };
        if !sending(None) {
            return classify(withheld_before_send(), false);
        }
        let label = format!("{}-{}", origin.step, origin.attempt);
        let work = tokio::task::spawn_blocking(move || {
            restore_kept(&data_folder, origin.execution.as_str(), &arguments, &label)
        });
        work.await.unwrap_or_else(|panic| CallOutcome::Unknown {
            category: ErrorCategory::Internal,
            message: panic.to_string(),
            retry_after: None,
        })
    }
}

fn restore_kept(
    data_folder: &Path,
    execution: &str,
    arguments: &RestoreArguments,
    label: &str,
) -> CallOutcome {
    let store = SessionStore::open(data_folder, execution);
    let restored =
        store.and_then(|store| snapshot::restore(&store, &arguments.folder, &arguments.files, label));
    match restored {
        Ok(restored) if restored.changed.is_empty() => CallOutcome::Succeeded { output: json!(restored) },
        Ok(restored) => failed(ErrorCategory::Policy, changed_message(&restored), Some(json!(restored))),
        Err(error @ (StoreError::Missing | StoreError::Damaged(_))) => {
            failed(ErrorCategory::NotFound, error.to_string(), None)
        }
        // Some paths may be restored already; another try goes on with the others.
        Err(StoreError::Io(error)) => CallOutcome::Unknown {
            category: ErrorCategory::Internal,
            message: format!("the files cannot be restored: {error}"),
            retry_after: None,
        },
    }
}

fn failed(category: ErrorCategory, message: String, output: Option<Value>) -> CallOutcome {
    CallOutcome::Failed { category, message, sent: true, output, retry_after: None }
}

fn changed_message(restored: &Restored) -> String {
    let named: Vec<&str> = restored.changed.keys().take(NAMED_MAX).map(String::as_str).collect();
    let more = restored.changed.len().saturating_sub(NAMED_MAX);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!(
        "changed since by something else, and left as they are: {}{more}; `retry` restores them all the same, `skip` \
         leaves them",
        named.join(", ")
    )
}
