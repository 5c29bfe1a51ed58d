//! Searching among many notes over MCP: for words that one note in a hundred has, compared with fetching one
//! note by its key in the same run.

use std::path::Path;
use std::sync::Arc;

use actbook::caller::Caller;
use actbook::config::{Config, DatabaseOptions};
use actbook::service::{NoteOwnerRef, NoteSpec, Service};
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use crate::mcp_calls::{BenchServer, record_calls, time_calls};
use crate::measurements::Measurements;

/// Concurrent writers while the notes are written.
const WRITERS: usize = 256;
/// The number of rare words, each in one note of a hundred.
const RARE_WORDS: usize = 100;

/// Writes `notes` notes of some forty words, each with one of a hundred rare words.
pub async fn write_notes(url: &str, notes: usize) -> anyhow::Result<Value> {
    let service = Service::open(url, DatabaseOptions::default(), &Config::default()).await?;
    let (caller, slots) = (Caller::new("bench"), Arc::new(Semaphore::new(WRITERS)));
    let mut writing = tokio::task::JoinSet::new();
    for number in 0..notes {
        let slot = slots.clone().acquire_owned().await?;
        let (service, caller) = (service.clone(), caller.clone());
        writing.spawn(async move {
            let given = NoteSpec {
                key: format!("note-{number}"),
                value: json!(note_text(number)),
                r#type: Some("research".into()),
                owner: NoteOwnerRef::default(),
                metadata: None,
                ..NoteSpec::default()
            };
            let written = service.notes().set(&caller, given).await.map(drop);
            drop(slot);
            written
        });
        while let Some(written) = writing.try_join_next() {
            written??;
        }
    }
    while let Some(written) = writing.join_next().await {
        written??;
    }
    Ok(json!({ "notes": notes }))
}

fn note_text(number: usize) -> String {
    let common = (0..40).map(|at| format!("common{}", (number * 31 + at * 7) % 2_000));
    let words: Vec<String> = common.chain([format!("rare{}", number % RARE_WORDS)]).collect();
    words.join(" ")
}

pub fn measure(
    measurements: &mut Measurements,
    name: &str,
    url: &str,
    calls: usize,
    folder: &Path,
) -> anyhow::Result<()> {
    let mut server = BenchServer::start("door", "stdio", url, folder)?;
    let notes = crate::parts::NOTES;
    let by_key = time_calls(calls, |number| {
        let key = format!("note-{}", number * 7_919 % notes);
        let found = server.call("query_context", json!({ "key": key }))?;
        anyhow::ensure!(found["notes"][0]["key"] == key, "the note is found: {found}");
        Ok(())
    })?;
    let search = time_calls(calls, |number| {
        let words = format!("rare{}", number % RARE_WORDS);
        let found = server.call("query_context", json!({ "search": words }))?;
        anyhow::ensure!(found["notes"].as_array().is_some_and(|notes| notes.len() == 20), "a page is found");
        Ok(())
    })?;
    record_calls(measurements, &format!("{name}.note_by_key"), by_key);
    record_calls(measurements, &format!("{name}.note_search"), search);
    let ratio = search[1] / by_key[1];
    measurements.require_at_most(
        &format!("{name}: a search among 100,000 notes over a fetch by key, p50"),
        ratio,
        20.0,
    );
    Ok(())
}
