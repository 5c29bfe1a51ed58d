//! The journal's entries, filtered and in pages. A page costs about the same wherever it lies: where a
//! filter lets little pass, only the stretches of the journal are read that can hold something.

use std::collections::{BTreeMap, BTreeSet};

use actbook_engine::event::{ActionRecorded, DecisionRecorded, Event};
use actbook_engine::policy::{Category, Status};
use serde::Serialize;
use serde_json::Value;

use super::Service;
use super::view::{Names, time};
use crate::error::Error;
use crate::ledger;
use crate::store::{executions, journal, payloads, stretches};

/// An entry as it is shown.
#[derive(Clone, Debug, Serialize)]
pub struct EntryView {
    pub position: u64,
    pub at: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub execution: Option<String>,
    pub version: u64,
    pub kind: String,
    pub actor: String,
    pub body: Value,
    /// What an agent or a person put on record: the facts of an act, the details of a decision.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recorded: Option<Value>,
    /// Arguments, an output or an error, where they were asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub payload: Option<Value>,
    pub hash: String,
}

impl EntryView {
    fn of(entry: journal::Entry, execution: Option<String>) -> Self {
        let body = serde_json::from_str(&entry.body).unwrap_or(Value::String(entry.body));
        let hash = entry.hash.iter().map(|byte| format!("{byte:02x}")).collect();
        let at = time(entry.at);
        let journal::Entry { position, version, .. } = entry;
        let (kind, actor) = (entry.kind.into_owned(), entry.actor.to_string());
        Self { position, at, execution, version, kind, actor, body, recorded: None, payload: None, hash }
    }
}

/// Which entries to show. Everything left out lets all pass.
#[derive(Clone, Debug, Default)]
pub struct JournalFilter {
    pub execution: Option<String>,
    /// Of executions of this plan, by its id or name.
    pub plan: Option<String>,
    pub task: Option<String>,
    /// Of executions that have it now.
    pub status: Option<String>,
    /// With or without its version, or the beginning of one or more kinds.
    pub kind: Option<String>,
    /// A name without a colon is a person's.
    pub actor: Option<String>,
    pub category: Option<String>,
    pub since: Option<i64>,
    pub until: Option<i64>,
    pub words: Vec<String>,
    pub after: u64,
    /// With what belongs to the entries: arguments, outputs, errors.
    pub payloads: bool,
}

/// So many entries are read through before an index is asked.
const NEAR: u64 = 5 * stretches::ENTRIES;
/// How much longer each further part is that is read through.
const PART_GROWTH: u64 = 4;
/// Positions that are read through at a time, at most, where the newest are sought.
const WINDOW_MAX: u64 = 20_000;
/// Stretches that are asked for at a time.
const STRETCHES: u64 = 2_000;
/// Neighbouring stretches that are read as one, at first and at most: a database that thinks little of its
/// index reads all of them.
const ROW_MIN: u64 = 10;
const ROW_MAX: u64 = 320;

impl Service {
    /// Oldest first; the last one's position is the cursor of the next page.
    pub async fn journal(&self, filter: &JournalFilter, limit: u64) -> Result<Vec<EntryView>, Error> {
        let with_payloads = filter.payloads;
        let Some((filter, plan_name)) = self.resolved(filter).await? else { return Ok(Vec::new()) };
        let entries = self.entries(filter, plan_name, limit).await?;
        self.entry_views(entries, with_payloads).await
    }

    /// Newest first, from the head or from before a position; the last one's position is the cursor of the
    /// next page.
    pub async fn journal_newest(
        &self,
        filter: &JournalFilter,
        before: Option<u64>,
        limit: u64,
    ) -> Result<Vec<EntryView>, Error> {
        let with_payloads = filter.payloads;
        let Some((filter, _)) = self.resolved(filter).await? else { return Ok(Vec::new()) };
        let (head, _) = self.head().await?;
        let mut end = before.map_or(head, |before| before.saturating_sub(1).min(head));
        let (mut window, mut found) = (limit.clamp(1, stretches::ENTRIES), Vec::new());
        while (found.len() as u64) < limit && end > filter.after {
            let start = end.saturating_sub(window).max(filter.after);
            let part = self.read_entries(&through(&filter, start, end), window).await?;
            found.extend(part.into_iter().rev());
            (end, window) = (start, (window * PART_GROWTH).min(WINDOW_MAX));
        }
        found.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
        self.entry_views(found, with_payloads).await
    }

    async fn entry_views(
        &self,
        entries: Vec<journal::Entry>,
        with_payloads: bool,
    ) -> Result<Vec<EntryView>, Error> {
        let mut names = Names::new();
        let mut shown = Vec::with_capacity(entries.len());
        for entry in entries {
            let name = self.name_of(entry.stream, &mut names).await?;
            shown.push(EntryView::of(entry, name));
        }
        self.add_records(&mut shown).await?;
        if with_payloads {
            self.add_payloads(&mut shown).await?;
        }
        Ok(shown)
    }

    /// With the name of the plan that is sought, by which it is indexed. None: no execution fits, so no entry
    /// does.
    async fn resolved(
        &self,
        filter: &JournalFilter,
    ) -> Result<Option<(journal::Filter, Option<String>)>, Error> {
        known(&filter.words, filter.status.as_deref(), filter.category.as_deref())?;
        let stream = match &filter.execution {
            Some(id) => Some(self.find(id).await?.stream),
            None => None,
        };
        let (mut after, mut plan_name) = (filter.after, None);
        if filter.plan.is_some() || filter.task.is_some() || filter.status.is_some() {
            let word = |word: &Option<String>| word.clone().unwrap_or_default();
            let (plan, task, status) = (word(&filter.plan), word(&filter.task), word(&filter.status));
            let oldest = executions::oldest(self.tenant, &plan, &task, &status).first(&self.db).await?;
            let Some(oldest) = oldest else { return Ok(None) };
            // An execution's number is the position of its first entry.
            after = after.max(oldest.id.saturating_sub(1));
            plan_name = filter.plan.as_ref().map(|_| oldest.plan_name);
        }
        let (kind, kind_older) = filter.kind.as_deref().map(kinds).transpose()?.unzip();
        let filter = journal::Filter {
            stream,
            kind,
            kind_older: kind_older.flatten(),
            actor: filter.actor.as_deref().map(actor),
            since: filter.since,
            until: filter.until,
            category: filter.category.clone(),
            words: filter.words.clone(),
            plan: filter.plan.clone(),
            task: filter.task.clone(),
            status: filter.status.clone(),
            after,
            through: None,
        };
        Ok(Some((filter, plan_name)))
    }

    async fn entries(
        &self,
        filter: journal::Filter,
        plan_name: Option<String>,
        limit: u64,
    ) -> Result<Vec<journal::Entry>, Error> {
        if filter.stream.is_some() {
            return self.read_entries(&filter, limit).await;
        }
        let Some(sought) = sought(&filter, plan_name) else { return self.scan(&filter, limit).await };
        let near = filter.after.saturating_add(NEAR);
        let mut found = self.read_entries(&through(&filter, filter.after, near), limit).await?;
        let (head, _) = self.head().await?;
        if found.len() as u64 == limit || head <= near {
            return Ok(found);
        }
        let indexed = ledger::catch_up_stretches(&self.db, self.tenant).await?;
        let mut from = near / stretches::ENTRIES;
        loop {
            let holding = stretches::holding(self.tenant, &sought, from, STRETCHES).all(&self.db).await?;
            for (first, last) in in_a_row(&holding) {
                let after = near.max(first * stretches::ENTRIES);
                let part = through(&filter, after, (last + 1) * stretches::ENTRIES);
                found.extend(self.read_entries(&part, limit - found.len() as u64).await?);
                if found.len() as u64 == limit {
                    return Ok(found);
                }
            }
            match holding.last() {
                Some(last) if holding.len() as u64 == STRETCHES => from = last + 1,
                Some(_) | None => break,
            }
        }
        let rest = journal::Filter { after: near.max(indexed), ..filter };
        found.extend(self.scan(&rest, limit - found.len() as u64).await?);
        Ok(found)
    }

    /// Straight on, in parts that grow: a database that thinks little of a filter puts all of a part in order
    /// before it gives the first entry.
    async fn scan(&self, filter: &journal::Filter, limit: u64) -> Result<Vec<journal::Entry>, Error> {
        let (head, _) = self.head().await?;
        let (mut found, mut after, mut part) = (Vec::new(), filter.after, NEAR);
        loop {
            let to = after.saturating_add(part);
            let left = limit - found.len() as u64;
            found.extend(self.read_entries(&through(filter, after, to), left).await?);
            if found.len() as u64 == limit || to >= head {
                return Ok(found);
            }
            (after, part) = (to, part * PART_GROWTH);
        }
    }

    async fn read_entries(&self, filter: &journal::Filter, limit: u64) -> Result<Vec<journal::Entry>, Error> {
        // A named stream was looked up within the boundary.
        if self.boundary().is_some() && filter.stream.is_none() {
            return self.visible_entries(filter, limit).await;
        }
        Ok(journal::filtered(self.db.dialect(), self.tenant, filter, limit).all(&self.db).await?)
    }

    async fn name_of(&self, stream: u64, names: &mut Names) -> Result<Option<String>, Error> {
        if stream == ledger::LIBRARY {
            return Ok(None);
        }
        if !names.contains_key(&stream)
            && let Some(row) = executions::by_id(self.tenant, stream).first(&self.db).await?
        {
            names.insert(stream, row.public_id);
        }
        Ok(names.get(&stream).cloned())
    }

    /// What was erased is left out.
    async fn add_payloads(&self, shown: &mut [EntryView]) -> Result<(), Error> {
        let without = |entry: &&mut EntryView| entry.recorded.is_none();
        let mut entries: BTreeMap<u64, &mut EntryView> =
            shown.iter_mut().filter(without).map(|entry| (entry.position, entry)).collect();
        let positions: Vec<u64> = entries.keys().copied().collect();
        for payload in payloads::at_each(&self.db, self.tenant, &positions).await? {
            if let Some(entry) = entries.get_mut(&payload.position) {
                entry.payload = serde_json::from_slice::<Value>(&payload.body).ok();
            }
        }
        Ok(())
    }

    /// What agents put on record is kept beside its entry, and shown with it until it is erased.
    async fn add_records(&self, shown: &mut [EntryView]) -> Result<(), Error> {
        let is_record = |entry: &&mut EntryView| {
            let kind = entry.kind.as_str();
            ActionRecorded::VERSIONS.contains(&kind) || DecisionRecorded::VERSIONS.contains(&kind)
        };
        let mut records: Vec<&mut EntryView> = shown.iter_mut().filter(is_record).collect();
        let positions: Vec<u64> = records.iter().map(|entry| entry.position).collect();
        for payload in payloads::at_each(&self.db, self.tenant, &positions).await? {
            let record = records.iter_mut().find(|entry| entry.position == payload.position);
            let record = record.expect("only payloads of these entries were asked for");
            record.recorded = serde_json::from_slice::<Value>(&payload.body).ok();
        }
        Ok(())
    }
}

/// What an index helps to find; none where nothing narrows.
fn sought(filter: &journal::Filter, plan: Option<String>) -> Option<stretches::Sought> {
    let sought = stretches::Sought {
        // A beginning that several kinds share is not indexed.
        kind: filter.kind.clone().filter(|kind| Event::KINDS_READ.contains(&kind.as_str())),
        kind_older: filter.kind_older.clone(),
        actor: filter.actor.clone(),
        plan,
        task: filter.task.clone(),
        category: filter.category.clone(),
        since: filter.since,
        until: filter.until,
    };
    (sought != stretches::Sought::default()).then_some(sought)
}

/// The same between two positions.
fn through(filter: &journal::Filter, after: u64, through: u64) -> journal::Filter {
    journal::Filter { after, through: Some(through), ..filter.clone() }
}

/// Neighbours are read as one, more of them the longer nothing fills the page.
fn in_a_row(stretches: &[u64]) -> Vec<(u64, u64)> {
    let mut rows: Vec<(u64, u64)> = Vec::new();
    let mut most = ROW_MIN;
    for stretch in stretches {
        match rows.last_mut() {
            Some((first, last)) if *last + 1 == *stretch && *stretch - *first < most => *last = *stretch,
            Some((first, last)) => {
                most = if *last - *first + 1 == most { ROW_MAX.min(2 * most) } else { most };
                rows.push((*stretch, *stretch));
            }
            None => rows.push((*stretch, *stretch)),
        }
    }
    rows
}

/// Words that mean nothing are refused rather than find nothing.
pub(super) fn known(words: &[String], status: Option<&str>, category: Option<&str>) -> Result<(), Error> {
    if words.len() > journal::WORDS_MAX {
        return Err(crate::store::Error::TooManyWords { limit: journal::WORDS_MAX }.into());
    }
    let strange =
        |code: &'static str, why: String| Error::new(code, why, "give one of these, or leave it out");
    let status = status.map_or(Ok(()), |word| word.parse::<Status>().map(drop));
    status.map_err(|why| strange("no_such_status", why))?;
    let category = category.map_or(Ok(()), |word| word.parse::<Category>().map(drop));
    category.map_err(|why| strange("no_such_category", why))
}

/// As the journal writes it: a name alone is a person's.
pub(super) fn actor(name: &str) -> String {
    match name.contains(':') || name == ledger::DRIVER {
        true => name.to_owned(),
        false => format!("person:{name}"),
    }
}

/// The newest and the oldest version that is meant by a kind; with its version it is that one alone. Any other
/// word is the beginning that the kinds which are meant have in common.
fn kinds(word: &str) -> Result<(String, Option<String>), Error> {
    let word = word.trim();
    let mut known = Event::KINDS_READ.iter().filter(|kind| **kind == word || bare(kind) == word);
    if let Some(newest) = known.next() {
        return Ok(((*newest).to_owned(), known.next_back().map(|kind| (*kind).to_owned())));
    }
    let begins = !word.is_empty() && Event::KINDS_READ.iter().any(|kind| kind.starts_with(word));
    if begins { Ok((word.to_owned(), None)) } else { Err(no_such_kind(word)) }
}

/// A kind without its version.
fn bare(kind: &str) -> &str {
    kind.split('.').next().unwrap_or(kind)
}

fn no_such_kind(word: &str) -> Error {
    let names: BTreeSet<&str> = Event::KINDS.iter().map(|kind| bare(kind)).collect();
    let near = actbook_engine::analysis::nearest(word, names.iter().copied());
    let holds = names.iter().copied().filter(|name| word.len() > 2 && name.contains(word));
    let alike: BTreeSet<&str> = near.into_iter().chain(holds).collect();
    let listed =
        |names: &BTreeSet<&str>| names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
    let cure = match alike.is_empty() {
        true => format!("give one of: {}; its beginning is enough, as in `attempt`", listed(&names)),
        false => {
            format!("did you mean {}? The beginning of a kind is enough, as in `attempt`", listed(&alike))
        }
    };
    Error::new("no_such_kind", format!("there is no kind `{word}`"), cure)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbouring_stretches_are_read_as_one() {
        assert_eq!(in_a_row(&[]), []);
        assert_eq!(in_a_row(&[0, 1, 2, 7, 9, 10]), [(0, 2), (7, 7), (9, 10)]);
        let all: Vec<u64> = (0..1_000).collect();
        let rows = in_a_row(&all);
        assert_eq!(rows[..4], [(0, 9), (10, 29), (30, 69), (70, 149)]);
        assert_eq!(rows.last(), Some(&(950, 999)), "none is longer than {ROW_MAX}: {rows:?}");
    }
}
