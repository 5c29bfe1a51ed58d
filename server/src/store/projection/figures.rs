//! Converts an execution's entries to what lists and statistics count: facets, counts, and rows of questions,
//! confidences and errors. All of it is a function of the entries, so that the difference between two
//! positions is what the entries in between add.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use actbook_engine::event::Event;
use actbook_engine::execution::{Execution, RecordedEvent};
use actbook_engine::id::StreamId;
use actbook_engine::policy::{ErrorCategory, Outcome};

use super::calls::{CallHistory, RUN, call_history};
use super::claims::{claim_rows, trouble_rows};
use super::waits::{AuthoredEntry, Waits, collect_waits, still_open};
use crate::store::calls::CallRow;
use crate::store::counts::{Count, CountKey, CountKind, HOUR_MS, HourlyCounts, Top};
use crate::store::facets::{Facet, FacetName};
use crate::store::stream_rows::{ErrorRow, StreamRows, TroubleRow, WaitRow};

/// An entry with its actor.
#[derive(Clone, Debug)]
pub struct ActorEntry {
    pub recorded: RecordedEvent,
    pub actor: Arc<str>,
    /// A caller (a person or an agent) caused it, not the driver.
    pub by_caller: bool,
}

/// An execution at one position of its stream.
#[derive(Clone, Copy, Debug)]
pub struct ExecutionHistory<'a> {
    pub stream: StreamId,
    pub execution: &'a Execution,
    /// All entries up to that position.
    pub entries: &'a [ActorEntry],
    /// Agents' confidences, in millionths, by the position of the record.
    pub confidences: &'a BTreeMap<u64, i64>,
    /// Fingerprints of error texts, by the position of the entry that ended the call.
    pub fingerprints: &'a BTreeMap<u64, String>,
}

/// The statistics of one execution: the attribute values that lists filter by, its counts by hour, and its open
/// questions, claims and errors.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StreamFigures {
    pub facets: BTreeSet<Facet>,
    pub counts: HourlyCounts,
    pub rows: StreamRows,
}

impl ExecutionHistory<'_> {
    fn events(&self) -> impl Iterator<Item = &RecordedEvent> {
        self.entries.iter().map(|entry| &entry.recorded)
    }
}

/// The figures of an execution. Of the counts only items that began at a time that `includes` accepts.
pub fn stream_figures(history: ExecutionHistory<'_>, includes: impl Fn(i64) -> bool) -> StreamFigures {
    let ExecutionHistory { stream, execution, entries, confidences, fingerprints } = history;
    let CallHistory { calls, tools } = call_history(stream, &execution.plan, history.events());
    let troubles = trouble_rows(stream, history.events());
    let authored =
        entries.iter().map(|entry| AuthoredEntry { recorded: &entry.recorded, by_caller: entry.by_caller });
    let Waits { answered, open } = collect_waits(stream, authored);
    let mut counter = Counter::new(execution, includes);
    counter.count_execution(execution);
    calls.iter().for_each(|call| counter.count_call(call));
    counter.count_retries(&calls);
    troubles.iter().for_each(|trouble| counter.count_trouble(trouble));
    answered.iter().for_each(|wait| counter.count_wait(wait));
    StreamFigures {
        facets: facets(history, tools, &troubles),
        counts: counter.counts,
        rows: StreamRows {
            questions: if open.is_empty() { open } else { still_open(open, execution) },
            claims: claim_rows(stream, history.events(), confidences),
            errors: calls.iter().filter_map(|call| error_row(call, fingerprints)).collect(),
        },
    }
}

/// The values by which the execution is listed. None of them is ever lost by a later entry.
fn facets(
    history: ExecutionHistory<'_>,
    tools: BTreeSet<String>,
    troubles: &[TroubleRow],
) -> BTreeSet<Facet> {
    let execution = history.execution;
    let mut facets = BTreeSet::from([
        Facet::new(FacetName::Any, ""),
        Facet::new(FacetName::Plan, execution.plan_ref.id.as_str()),
        Facet::new(FacetName::Project, execution.project.clone().unwrap_or_default()),
    ]);
    facets.extend(troubles.iter().map(|trouble| Facet::new(FacetName::Category, trouble.category.as_str())));
    let actors: BTreeSet<&str> = history.entries.iter().map(|entry| &*entry.actor).collect();
    facets.extend(actors.into_iter().map(|actor| Facet::new(FacetName::Actor, actor)));
    for entry in history.entries {
        if let Event::ExecutionEnded(ended) = &entry.recorded.event {
            facets.insert(Facet::new(FacetName::Ended, ended.status.as_str()));
        }
    }
    for tool in tools {
        let server = tool.split_once('/').map_or(tool.as_str(), |(server, _)| server);
        facets.insert(Facet::new(FacetName::Server, server));
        facets.insert(Facet::new(FacetName::Tool, tool));
    }
    facets
}

/// The row of a call that failed or is unknown; None for other calls and for those of agents.
fn error_row(call: &CallRow, fingerprints: &BTreeMap<u64, String>) -> Option<ErrorRow> {
    let is_bad = call.outcome.is_some_and(|outcome| outcome != Outcome::Succeeded);
    let position = call.end_position.filter(|_| is_bad && !call.agent)?;
    Some(ErrorRow {
        stream: call.stream,
        position,
        at: call.started_at,
        tool: call.tool.clone().unwrap_or_default(),
        category: call.category.map(ErrorCategory::as_str).unwrap_or_default().to_owned(),
        fingerprint: fingerprints.get(&position).cloned().unwrap_or_default(),
    })
}

/// One item to count.
struct CountedItem<'a> {
    kind: CountKind,
    name: &'a str,
    outcome: &'a str,
    category: &'a str,
    n: i64,
    took_ms: Option<i64>,
    top: Option<Top>,
}

impl CountedItem<'_> {
    /// An item without a name or a duration.
    fn new(kind: CountKind) -> Self {
        Self { kind, name: "", outcome: "", category: "", n: 1, took_ms: None, top: None }
    }
}

/// Counts the items of one execution.
struct Counter<F> {
    project: String,
    plan: String,
    includes: F,
    counts: HourlyCounts,
}

impl<F: Fn(i64) -> bool> Counter<F> {
    fn new(execution: &Execution, includes: F) -> Self {
        Self {
            project: execution.project.clone().unwrap_or_default(),
            plan: execution.plan_ref.id.to_string(),
            includes,
            counts: HourlyCounts::new(),
        }
    }

    /// Counts an item in the hour in which it began.
    fn count(&mut self, began_at: i64, item: &CountedItem<'_>) {
        if item.n == 0 || !(self.includes)(began_at) {
            return;
        }
        let key = CountKey {
            kind: item.kind,
            project: self.project.clone(),
            plan: self.plan.clone(),
            name: item.name.to_owned(),
            outcome: item.outcome.to_owned(),
            category: item.category.to_owned(),
        };
        let mut counted =
            Count { n: item.n, total_ms: item.took_ms.unwrap_or(0), top: item.top, ..Count::default() };
        if let Some(took) = item.took_ms {
            counted.durations.add(took, 1);
        }
        self.counts.entry((began_at.div_euclid(HOUR_MS), key)).or_default().merge(&counted, 1);
    }

    fn count_execution(&mut self, execution: &Execution) {
        let took_ms = execution.ended_at_ms.map(|ended| ended - execution.started_at_ms);
        let outcome = execution.status().as_str();
        let item = CountedItem { outcome, took_ms, ..CountedItem::new(CountKind::Execution) };
        self.count(execution.started_at_ms, &item);
    }

    /// Counts a call by its tool and, if it is an attempt, by its step.
    fn count_call(&mut self, call: &CallRow) {
        let took_ms = call.took_ms.filter(|_| call.sent);
        let tool = call.tool.as_deref().unwrap_or_default();
        if let (false, Some(outcome)) = (call.agent, call.outcome) {
            let last = Top { value: call.started_at, at: call.end_position.filter(|_| call.has_error_text) };
            let item = CountedItem {
                name: tool,
                outcome: outcome.as_str(),
                category: call.category.map(ErrorCategory::as_str).unwrap_or_default(),
                took_ms,
                top: (outcome != Outcome::Succeeded).then_some(last),
                ..CountedItem::new(CountKind::Call)
            };
            self.count(call.started_at, &item);
        }
        if let (RUN, Some(took)) = (call.kind, took_ms) {
            let item = CountedItem {
                name: &call.step,
                outcome: tool,
                category: if call.agent { "agent" } else { "" },
                top: Some(Top { value: took, at: Some(call.stream.0) }),
                ..CountedItem::new(CountKind::Attempt)
            };
            self.count(call.started_at, &item);
        }
    }

    /// Counts steps with more than one attempt, at the time of the first one.
    fn count_retries(&mut self, calls: &[CallRow]) {
        let mut steps: BTreeMap<&str, (i64, i64, bool)> = BTreeMap::new();
        for call in calls.iter().filter(|call| call.kind == RUN) {
            let (tries, began_at, good) = steps.entry(&call.step).or_insert((0, call.started_at, false));
            *tries += 1;
            *began_at = call.started_at.min(*began_at);
            *good |= call.outcome == Some(Outcome::Succeeded);
        }
        for (tries, began_at, good) in steps.into_values().filter(|(tries, ..)| *tries > 1) {
            for (outcome, n) in [("steps", 1), ("attempts", tries - 1), ("succeeded", i64::from(good))] {
                self.count(began_at, &CountedItem { outcome, n, ..CountedItem::new(CountKind::Retry) });
            }
        }
    }

    fn count_trouble(&mut self, trouble: &TroubleRow) {
        let (outcome, category) = (trouble.outcome.as_str(), trouble.category.as_str());
        self.count(trouble.at, &CountedItem { outcome, category, ..CountedItem::new(CountKind::Trouble) });
    }

    fn count_wait(&mut self, wait: &WaitRow) {
        let (name, took_ms) = (wait.kind.as_str(), wait.took_ms);
        self.count(wait.asked_at, &CountedItem { name, took_ms, ..CountedItem::new(CountKind::Wait) });
    }
}
