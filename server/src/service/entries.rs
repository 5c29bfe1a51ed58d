//! Pages of the journal's entries that match a filter. A page costs about the same wherever it lies: for a
//! selective filter the journal index names the segments of entries that can contain a match, and only those
//! are read.

use std::collections::{BTreeMap, BTreeSet};

use actbook_engine::event::{ActionRecorded, DecisionRecorded, Event};
use actbook_engine::id::StreamId;
use actbook_engine::policy::{ErrorCategory, ExecutionStatus};
use serde::Serialize;
use serde_json::Value;

use super::journal::Journal;
use super::view::{ExecutionIds, format_time};
use crate::error::Error;
use crate::ledger;
use crate::store::{executions, journal, journal_index, payloads};

/// A journal entry as it is shown.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, Serialize)]
pub struct EntryView {
    pub position: u64,
    pub at: String,
    /// The id of its execution. `None`: it belongs to none.
    pub execution: Option<String>,
    pub version: u64,
    pub kind: String,
    pub actor: String,
    pub body: Value,
    /// What an agent or a person put on record: the facts of an action, the details of a decision.
    pub recorded: Option<Value>,
    /// Arguments, an output or an error. `None`: not asked for, or erased.
    pub payload: Option<Value>,
    /// In hexadecimal.
    pub hash: String,
}

impl EntryView {
    /// The view of an entry without records and payloads. `execution`: the id of the entry's execution.
    fn of(entry: journal::Entry, execution: Option<String>) -> Self {
        let body = serde_json::from_str(&entry.body).unwrap_or(Value::String(entry.body));
        let hash = entry.hash.iter().map(|byte| format!("{byte:02x}")).collect();
        let at = format_time(entry.at);
        let journal::Entry { position, version, .. } = entry;
        let (kind, actor) = (entry.kind.into_owned(), entry.actor.to_string());
        Self { position, at, execution, version, kind, actor, body, recorded: None, payload: None, hash }
    }

    /// Whether the entry records that something went wrong.
    pub fn is_failure(&self) -> bool {
        records_failure(&self.kind, &self.body)
    }
}

/// Whether an entry of this kind with this body records that something went wrong.
fn records_failure(kind: &str, body: &Value) -> bool {
    let is = |field: &str, word: &str| body.get(field).and_then(Value::as_str) == Some(word);
    let is_about_a_failure = ["step_failed.", "step_unknown.", "compensation_given_up."];
    is_about_a_failure.iter().any(|begin| kind.starts_with(begin))
        || ["failed", "unknown"].iter().any(|word| is("outcome", word) || is("status", word))
}

/// Which entries to show. A field that is not set does not filter.
#[derive(Clone, Debug, Default)]
pub struct JournalFilter {
    pub execution: Option<String>,
    /// Entries of executions of this plan, by its id or name.
    pub plan: Option<String>,
    pub task: Option<String>,
    /// Entries of executions that have this status now.
    pub status: Option<ExecutionStatus>,
    /// A kind with or without its version, or a prefix of one or more kinds.
    pub kind: Option<String>,
    /// An actor; a name without a colon means a person.
    pub actor: Option<String>,
    pub category: Option<ErrorCategory>,
    /// In milliseconds since 1970, as `until`.
    pub since: Option<i64>,
    pub until: Option<i64>,
    /// Each must occur in the entry.
    pub words: Vec<String>,
    /// Entries after this position.
    pub after: u64,
    /// Include the payloads of the entries: arguments, outputs, errors.
    pub payloads: bool,
}

/// This many entries are scanned before the journal index is queried.
const SCAN_BEFORE_INDEX: u64 = 5 * journal_index::ENTRIES_PER_SEGMENT;
/// Factor by which each further part of a scan grows.
const SCAN_GROWTH: u64 = 4;
/// Longest part of a backwards scan, in positions.
const BACKWARD_SCAN_MAX: u64 = 20_000;
/// Blocks that one query of the journal index returns at most.
const SEGMENTS_PER_QUERY: u64 = 2_000;
/// Adjacent segments that are read by one query, at first and at most. Runs stay short because a database
/// that does not use its index reads the whole run.
const RUN_SEGMENTS_MIN: u64 = 10;
const RUN_SEGMENTS_MAX: u64 = 320;

impl Journal<'_> {
    /// Entries that match, oldest first, `limit` at most; the position of the last one is the cursor of the
    /// next page.
    pub async fn list(self, filter: &JournalFilter, limit: u64) -> Result<Vec<EntryView>, Error> {
        let with_payloads = filter.payloads;
        let Some((filter, plan_name)) = self.resolve_filter(filter).await? else { return Ok(Vec::new()) };
        let entries = self.find_entries(filter, plan_name, limit).await?;
        self.entry_views(entries, with_payloads).await
    }

    /// Entries that match, newest first, `limit` at most, from the head or from before a position; the
    /// position of the last one is the cursor of the next page.
    pub async fn list_newest(
        self,
        filter: &JournalFilter,
        before: Option<u64>,
        limit: u64,
    ) -> Result<Vec<EntryView>, Error> {
        self.newest_where(filter, before, limit, |_| true).await
    }

    /// Like `list_newest`, only entries that record that something went wrong. Reads all entries that match, so it
    /// is for those of one execution.
    pub async fn list_newest_failures(
        self,
        filter: &JournalFilter,
        before: Option<u64>,
        limit: u64,
    ) -> Result<Vec<EntryView>, Error> {
        let is_failure = |entry: &journal::Entry| {
            serde_json::from_str(&entry.body).is_ok_and(|body| records_failure(&entry.kind, &body))
        };
        self.newest_where(filter, before, limit, is_failure).await
    }

    async fn newest_where(
        self,
        filter: &JournalFilter,
        before: Option<u64>,
        limit: u64,
        is_wanted: impl Fn(&journal::Entry) -> bool,
    ) -> Result<Vec<EntryView>, Error> {
        let with_payloads = filter.payloads;
        let Some((filter, _)) = self.resolve_filter(filter).await? else { return Ok(Vec::new()) };
        let (head, _) = self.head().await?;
        let mut end = before.map_or(head, |before| before.saturating_sub(1).min(head));
        let (mut window, mut found) = (limit.clamp(1, journal_index::ENTRIES_PER_SEGMENT), Vec::new());
        while (found.len() as u64) < limit && end > filter.after {
            let start = end.saturating_sub(window).max(filter.after);
            let part = self.read_entries(&with_range(&filter, start, end), window).await?;
            found.extend(part.into_iter().rev().filter(&is_wanted));
            (end, window) = (start, (window * SCAN_GROWTH).min(BACKWARD_SCAN_MAX));
        }
        found.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
        self.entry_views(found, with_payloads).await
    }

    /// Views of entries, with records and, if `with_payloads`, with payloads.
    pub(super) async fn entry_views(
        self,
        entries: Vec<journal::Entry>,
        with_payloads: bool,
    ) -> Result<Vec<EntryView>, Error> {
        let ids = self.execution_ids(&entries).await?;
        let view = |entry: journal::Entry| {
            let id = ids.get(&entry.stream).cloned();
            EntryView::of(entry, id)
        };
        let mut shown: Vec<EntryView> = entries.into_iter().map(view).collect();
        self.add_records(&mut shown).await?;
        if with_payloads {
            self.add_payloads(&mut shown).await?;
        }
        shown.iter_mut().for_each(|entry| self.0.withhold_entry(entry));
        Ok(shown)
    }

    /// The store's filter, and the filtered plan's name: the journal index knows plans by name alone. `None`: no
    /// execution matches, so no entry does. Refused: no such execution or kind, or too many words.
    async fn resolve_filter(
        self,
        filter: &JournalFilter,
    ) -> Result<Option<(journal::EntryFilter, Option<String>)>, Error> {
        check_word_count(&filter.words)?;
        self.0.require_unwithheld_search(!filter.words.is_empty())?;
        let stream = match &filter.execution {
            Some(id) => Some(self.0.executions().find(id).await?.stream),
            None => None,
        };
        let (mut after, mut plan_name) = (filter.after, None);
        if filter.plan.is_some() || filter.task.is_some() || filter.status.is_some() {
            let (plan, task) = (filter.plan.as_deref(), filter.task.as_deref());
            let oldest = executions::oldest(self.0.tenant, self.0.boundary(), plan, task, filter.status);
            let oldest = oldest.first(&self.0.db).await?;
            let Some(oldest) = oldest else { return Ok(None) };
            // An execution's stream is the position of its first entry.
            after = after.max(oldest.id.0.saturating_sub(1));
            plan_name = filter.plan.as_ref().map(|_| oldest.plan_name);
        }
        let (kind, kind_older) = filter.kind.as_deref().map(resolve_kind).transpose()?.unzip();
        let filter = journal::EntryFilter {
            stream,
            kind,
            kind_older: kind_older.flatten(),
            actor: filter.actor.as_deref().map(qualify_actor),
            since: filter.since,
            until: filter.until,
            category: filter.category,
            words: filter.words.clone(),
            plan: filter.plan.clone(),
            task: filter.task.clone(),
            status: filter.status,
            after,
            through: None,
        };
        Ok(Some((filter, plan_name)))
    }

    /// Up to `limit` entries, oldest first: scans near the cursor, then reads the segments that the journal
    /// index names, then scans what is not indexed yet.
    async fn find_entries(
        self,
        filter: journal::EntryFilter,
        plan_name: Option<String>,
        limit: u64,
    ) -> Result<Vec<journal::Entry>, Error> {
        if filter.stream.is_some() {
            return self.read_entries(&filter, limit).await;
        }
        let Some(query) = index_filter(&filter, plan_name) else { return self.scan(&filter, limit).await };
        let near = filter.after.saturating_add(SCAN_BEFORE_INDEX);
        let mut found = self.read_entries(&with_range(&filter, filter.after, near), limit).await?;
        let (head, _) = self.head().await?;
        if found.len() as u64 == limit || head <= near {
            return Ok(found);
        }
        let indexed = ledger::catch_up_journal_index(&self.0.db, self.0.tenant).await?;
        let mut from = near / journal_index::ENTRIES_PER_SEGMENT;
        loop {
            let segments = journal_index::matching_segments(self.0.tenant, &query, from, SEGMENTS_PER_QUERY)
                .all(&self.0.db)
                .await?;
            for (first, last) in merge_adjacent(&segments) {
                let after = near.max(first * journal_index::ENTRIES_PER_SEGMENT);
                let part = with_range(&filter, after, (last + 1) * journal_index::ENTRIES_PER_SEGMENT);
                found.extend(self.read_entries(&part, limit - found.len() as u64).await?);
                if found.len() as u64 == limit {
                    return Ok(found);
                }
            }
            match segments.last() {
                Some(last) if segments.len() as u64 == SEGMENTS_PER_QUERY => from = last + 1,
                Some(_) | None => break,
            }
        }
        let rest = journal::EntryFilter { after: near.max(indexed), ..filter };
        found.extend(self.scan(&rest, limit - found.len() as u64).await?);
        Ok(found)
    }

    /// Reads up to `limit` entries without the journal index, oldest first, in parts that grow: a database
    /// that expects few matches sorts all of a part before it returns the first entry.
    async fn scan(self, filter: &journal::EntryFilter, limit: u64) -> Result<Vec<journal::Entry>, Error> {
        let (head, _) = self.head().await?;
        let (mut found, mut after, mut part) = (Vec::new(), filter.after, SCAN_BEFORE_INDEX);
        loop {
            let to = after.saturating_add(part);
            let left = limit - found.len() as u64;
            found.extend(self.read_entries(&with_range(filter, after, to), left).await?);
            if found.len() as u64 == limit || to >= head {
                return Ok(found);
            }
            (after, part) = (to, part * SCAN_GROWTH);
        }
    }

    /// Reads up to `limit` entries that match and that this service may see, oldest first.
    async fn read_entries(
        self,
        filter: &journal::EntryFilter,
        limit: u64,
    ) -> Result<Vec<journal::Entry>, Error> {
        // A filter with a stream needs no check: its execution was found within the boundary.
        if self.0.boundary().is_some() && filter.stream.is_none() {
            return self.visible_entries(filter, limit).await;
        }
        Ok(journal::list(self.0.db.dialect(), self.0.tenant, filter, limit).all(&self.0.db).await?)
    }

    /// The ids of the executions that these entries belong to, by their streams.
    async fn execution_ids(self, entries: &[journal::Entry]) -> Result<ExecutionIds, Error> {
        let streams = entries.iter().map(|entry| entry.stream);
        let streams: BTreeSet<StreamId> =
            streams.filter(|stream| *stream != ledger::LIBRARY_STREAM).collect();
        let streams: Vec<u64> = streams.into_iter().map(|stream| stream.0).collect();
        let rows = executions::by_ids(&self.0.db, self.0.tenant, &streams).await?;
        Ok(rows.into_iter().map(|row| (row.id, row.public_id)).collect())
    }

    /// Adds to the views the payloads of all entries but recorded actions and decisions, whose payloads
    /// `add_records` adds; erased ones are left out.
    async fn add_payloads(self, shown: &mut [EntryView]) -> Result<(), Error> {
        let is_no_record = |entry: &&mut EntryView| entry.recorded.is_none();
        let mut entries: BTreeMap<u64, &mut EntryView> =
            shown.iter_mut().filter(is_no_record).map(|entry| (entry.position, entry)).collect();
        let positions: Vec<u64> = entries.keys().copied().collect();
        for payload in payloads::by_positions(&self.0.db, self.0.tenant, &positions).await? {
            if let Some(entry) = entries.get_mut(&payload.position) {
                entry.payload = serde_json::from_slice::<Value>(&payload.body).ok();
            }
        }
        Ok(())
    }

    /// Adds to the views the payloads of recorded actions and decisions; erased ones are left out.
    async fn add_records(self, shown: &mut [EntryView]) -> Result<(), Error> {
        let is_record = |entry: &&mut EntryView| {
            let kind = entry.kind.as_str();
            ActionRecorded::VERSIONS.contains(&kind) || DecisionRecorded::VERSIONS.contains(&kind)
        };
        let mut records: Vec<&mut EntryView> = shown.iter_mut().filter(is_record).collect();
        let positions: Vec<u64> = records.iter().map(|entry| entry.position).collect();
        for payload in payloads::by_positions(&self.0.db, self.0.tenant, &positions).await? {
            let record = records.iter_mut().find(|entry| entry.position == payload.position);
            let record = record.expect("only payloads of these entries were asked for");
            record.recorded = serde_json::from_slice::<Value>(&payload.body).ok();
        }
        Ok(())
    }
}

/// The query of the journal index for a filter. `None`: the index cannot narrow the search.
fn index_filter(filter: &journal::EntryFilter, plan: Option<String>) -> Option<journal_index::SegmentFilter> {
    let query = journal_index::SegmentFilter {
        // A prefix that several kinds share is not indexed.
        kind: filter.kind.clone().filter(|kind| Event::KINDS_READ.contains(&kind.as_str())),
        kind_older: filter.kind_older.clone(),
        actor: filter.actor.clone(),
        plan,
        task: filter.task.clone(),
        category: filter.category,
        since: filter.since,
        until: filter.until,
    };
    (query != journal_index::SegmentFilter::default()).then_some(query)
}

/// The same filter, limited to positions after `after` and up to `through`.
fn with_range(filter: &journal::EntryFilter, after: u64, through: u64) -> journal::EntryFilter {
    journal::EntryFilter { after, through: Some(through), ..filter.clone() }
}

/// Runs of adjacent segments, each as its first and last. The allowed length doubles after each full run.
fn merge_adjacent(segments: &[u64]) -> Vec<(u64, u64)> {
    let mut runs: Vec<(u64, u64)> = Vec::new();
    let mut length_max = RUN_SEGMENTS_MIN;
    for segment in segments {
        match runs.last_mut() {
            Some((first, last)) if *last + 1 == *segment && *segment - *first < length_max => {
                *last = *segment
            }
            Some((first, last)) => {
                let is_full = *last - *first + 1 == length_max;
                length_max = if is_full { RUN_SEGMENTS_MAX.min(2 * length_max) } else { length_max };
                runs.push((*segment, *segment));
            }
            None => runs.push((*segment, *segment)),
        }
    }
    runs
}

/// Refuses more than `journal::WORDS_MAX` words, which one search cannot have.
pub(super) fn check_word_count(words: &[String]) -> Result<(), Error> {
    if words.len() > journal::WORDS_MAX {
        return Err(crate::store::Error::TooManyWords { limit: journal::WORDS_MAX }.into());
    }
    Ok(())
}

/// An actor as the journal writes it: a name without a colon becomes `person:NAME`.
pub(super) fn qualify_actor(name: &str) -> String {
    if name.contains(':') || name == ledger::DRIVER_ACTOR {
        name.to_owned()
    } else {
        format!("person:{name}")
    }
}

/// The newest and, if there are two, the older version of a kind; the prefix of all its versions if there are
/// more. A kind with its version stands for itself alone; any other word is a prefix of kinds. Refused if no
/// kind matches.
fn resolve_kind(word: &str) -> Result<(String, Option<String>), Error> {
    let word = word.trim();
    let known = Event::KINDS_READ.iter().filter(|kind| **kind == word || kind_without_version(kind) == word);
    match known.collect::<Vec<_>>().as_slice() {
        [] => {}
        [only] => return Ok(((**only).to_owned(), None)),
        [newest, older] => return Ok(((**newest).to_owned(), Some((**older).to_owned()))),
        [_, _, _, ..] => return Ok((format!("{word}."), None)),
    }
    let is_prefix = !word.is_empty() && Event::KINDS_READ.iter().any(|kind| kind.starts_with(word));
    if is_prefix { Ok((word.to_owned(), None)) } else { Err(no_such_kind(word)) }
}

/// `attempt_started` of `attempt_started.1`.
fn kind_without_version(kind: &str) -> &str {
    kind.split('.').next().unwrap_or(kind)
}

/// The refusal of an unknown kind, with similar kinds.
fn no_such_kind(word: &str) -> Error {
    let names: BTreeSet<&'static str> = Event::KINDS.iter().map(|kind| kind_without_version(kind)).collect();
    let near = actbook_engine::analysis::nearest(word, names.iter().copied());
    let holds = names.iter().copied().filter(|name| word.len() > 2 && name.contains(word));
    let alike: BTreeSet<&'static str> = near.into_iter().chain(holds).collect();
    Error::NoSuchKind {
        given: word.to_owned(),
        alike: alike.into_iter().collect(),
        known: names.into_iter().collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kind_without_version_resolves_to_every_version_of_it() {
        for kind in Event::KINDS_READ {
            let (prefix, older) = resolve_kind(kind_without_version(kind)).unwrap();
            assert!(kind.starts_with(&prefix) || older.as_deref() == Some(*kind), "{kind}");
        }
        assert_eq!(resolve_kind("agent_started").unwrap(), ("agent_started.".to_owned(), None));
        assert_eq!(resolve_kind("agent_started.2").unwrap(), ("agent_started.2".to_owned(), None));
    }

    #[test]
    fn adjacent_segments_merge_into_growing_runs() {
        assert_eq!(merge_adjacent(&[]), []);
        assert_eq!(merge_adjacent(&[0, 1, 2, 7, 9, 10]), [(0, 2), (7, 7), (9, 10)]);
        let all: Vec<u64> = (0..1_000).collect();
        let runs = merge_adjacent(&all);
        assert_eq!(runs[..4], [(0, 9), (10, 29), (30, 69), (70, 149)]);
        assert_eq!(runs.last(), Some(&(950, 999)), "none is longer than {RUN_SEGMENTS_MAX}: {runs:?}");
    }
}
