//! Statistics recounted from the raw journal entries, without the product's projections.

use std::collections::{BTreeMap, BTreeSet};

use actbook_engine::id::StreamId;

use actbook::store::{Db, Entry, journal, payloads};
use serde_json::Value;

use crate::store::TENANT;

/// One journal entry with its parsed body; `kind` is without the version.
#[derive(Debug)]
pub struct JournalEvent {
    pub position: u64,
    pub stream: StreamId,
    pub at: i64,
    pub by_driver: bool,
    pub kind: String,
    pub body: Value,
}

impl JournalEvent {
    fn from_entry(entry: Entry) -> Self {
        let kind = entry.kind.split('.').next().unwrap_or_default().to_owned();
        let body = serde_json::from_str(&entry.body).unwrap();
        let by_driver = *entry.actor == *"actbook";
        Self { position: entry.position, stream: entry.stream, at: entry.at, by_driver, kind, body }
    }

    pub fn step(&self) -> String {
        self.body["step"].as_str().unwrap_or_default().to_owned()
    }
}

/// Plan id, start time, and for an ended execution its status and end time; times in ms.
type ExecutionSpan = (String, i64, Option<(String, i64)>);

/// The journal's events by execution.
pub struct RawJournal {
    pub executions: BTreeMap<StreamId, Vec<JournalEvent>>,
    pub confidences: BTreeMap<u64, f64>,
}

impl RawJournal {
    pub async fn read(db: &Db) -> Self {
        let mut streams: BTreeMap<StreamId, Vec<JournalEvent>> = BTreeMap::new();
        let mut confidences = BTreeMap::new();
        for entry in journal::between(TENANT, 0, u64::MAX).all(db).await.unwrap() {
            if entry.kind.starts_with("action_recorded.") {
                let payload = payloads::by_position(TENANT, entry.position).first(db).await.unwrap();
                let facts: Value = serde_json::from_slice(&payload.unwrap().body).unwrap();
                confidences.extend(facts["confidence"].as_f64().map(|found| (entry.position, found)));
            }
            streams.entry(entry.stream).or_default().push(JournalEvent::from_entry(entry));
        }
        streams.retain(|_, entries| entries[0].kind == "execution_started");
        Self { executions: streams, confidences }
    }

    /// Keeps the executions whose start event passes.
    pub fn retain_starts(mut self, passes: impl Fn(&Value) -> bool) -> Self {
        self.executions.retain(|_, entries| passes(&entries[0].body));
        self
    }

    pub fn execution_spans(&self) -> Vec<ExecutionSpan> {
        let end = |entries: &Vec<JournalEvent>| {
            let last = entries
                .iter()
                .rfind(|event| matches!(event.kind.as_str(), "execution_ended" | "unwind_started"))?;
            let status = last.body["status"].as_str()?;
            Some((status.to_owned(), last.at))
        };
        let plan = |entries: &Vec<JournalEvent>| entries[0].body["plan"]["id"].as_str().unwrap().to_owned();
        self.executions.values().map(|entries| (plan(entries), entries[0].at, end(entries))).collect()
    }

    /// Category → failed and unknown steps.
    pub fn failures(&self) -> BTreeMap<String, (u64, u64)> {
        let mut counts: BTreeMap<String, (u64, u64)> = BTreeMap::new();
        for event in self.executions.values().flatten() {
            let category = event.body["category"].as_str().unwrap_or("policy").to_owned();
            match event.kind.as_str() {
                "step_failed" | "step_rejected" => counts.entry(category).or_default().0 += 1,
                "step_unknown" => counts.entry(category).or_default().1 += 1,
                _ => {}
            }
        }
        counts
    }

    /// (execution, step) → started attempts, and whether one of them succeeded.
    pub fn attempts_by_step(&self) -> BTreeMap<(StreamId, String), (u64, bool)> {
        let mut tries: BTreeMap<(StreamId, String), (u64, bool)> = BTreeMap::new();
        for event in self.executions.values().flatten() {
            let name = (event.stream, event.step());
            match event.kind.as_str() {
                "attempt_started" => tries.entry(name).or_default().0 += 1,
                "attempt_ended" => tries.get_mut(&name).unwrap().1 |= event.body["outcome"] == "succeeded",
                _ => {}
            }
        }
        tries
    }

    /// (plan name, step) → durations in ms of the attempts that were sent.
    pub fn durations_by_step(&self) -> BTreeMap<(String, String), Vec<i64>> {
        let mut took: BTreeMap<(String, String), Vec<i64>> = BTreeMap::new();
        for entries in self.executions.values() {
            let plan = entries[0].body["plan"]["name"].as_str().unwrap();
            let mut begun = BTreeMap::new();
            for event in entries {
                let name = (event.step(), event.body["attempt"].as_u64());
                if event.kind == "attempt_started" {
                    begun.insert(name, event.at);
                } else if event.kind == "attempt_ended" && event.body["unsent"] != true {
                    let since = begun[&name];
                    took.entry((plan.to_owned(), event.step())).or_default().push(event.at - since);
                }
            }
        }
        took
    }

    /// Kind → for each answered question to a person, how long it waited in ms.
    pub fn waits_by_kind(&self) -> BTreeMap<&'static str, Vec<i64>> {
        let mut waited: BTreeMap<&'static str, Vec<i64>> = BTreeMap::new();
        for entries in self.executions.values() {
            let mut asked_at: BTreeMap<String, i64> = BTreeMap::new();
            let mut failed_at: BTreeMap<String, i64> = BTreeMap::new();
            for event in entries {
                let answered = answered_waits(event, &mut asked_at, &mut failed_at);
                for (kind, since) in answered {
                    waited.entry(kind).or_default().push(event.at - since);
                }
            }
        }
        waited
    }

    /// Position of a claim → confidence, and whether the step succeeded; without claims that cannot be
    /// judged.
    pub fn judged_claims(&self) -> BTreeMap<u64, (f64, bool)> {
        let mut claims = BTreeMap::new();
        for entries in self.executions.values() {
            let of_step =
                |event: &&JournalEvent| event.kind == "action_recorded" && event.body["step"].is_string();
            for record in entries.iter().filter(of_step) {
                let Some(confidence) = self.confidences.get(&record.position) else { continue };
                if let Some(good) = claim_was_right(entries, record) {
                    claims.insert(record.position, (*confidence, good));
                }
            }
        }
        claims
    }
}

/// Applies an event to the open questions, and returns kind and start time of those it answers. `asked_at`
/// has approvals by step, `plan` and `undo`; `failed_at` has steps that wait for a decision.
fn answered_waits(
    event: &JournalEvent,
    asked_at: &mut BTreeMap<String, i64>,
    failed_at: &mut BTreeMap<String, i64>,
) -> Vec<(&'static str, i64)> {
    let step = event.step();
    let yes = |since: Option<i64>| since.map(|since| ("approval", since)).into_iter().collect::<Vec<_>>();
    match event.kind.as_str() {
        "plan_approval_asked" => drop(asked_at.insert("plan".into(), event.at)),
        "unwind_proposed" => drop(asked_at.insert("undo".into(), event.at)),
        "approval_asked" => drop(asked_at.insert(step, event.at)),
        "plan_approved" | "plan_rejected" => return yes(asked_at.remove("plan")),
        "step_approved" => return yes(asked_at.remove(&step)),
        "step_rejected" => {
            failed_at.insert(step.clone(), event.at);
            return yes(asked_at.remove(&step));
        }
        "unwind_approved" => return yes(asked_at.remove("undo")),
        "unwind_rejected" => {
            failed_at.values_mut().for_each(|since| *since = event.at);
            return yes(asked_at.remove("undo"));
        }
        "unwind_started" | "cancel_asked" => {
            let steps: Vec<_> =
                std::mem::take(failed_at).into_values().map(|since| ("decision", since)).collect();
            let undo = asked_at.remove("undo").filter(|_| event.kind == "unwind_started");
            asked_at.clear();
            return match (undo, event.by_driver) {
                (Some(since), _) => vec![("approval", since)],
                (None, false) => steps,
                (None, true) => vec![],
            };
        }
        "decided" => return failed_at.remove(&step).map(|since| ("decision", since)).into_iter().collect(),
        "step_failed" | "step_unknown" | "compensation_given_up" => drop(failed_at.insert(step, event.at)),
        "compensation_ended" if event.body["outcome"] != "succeeded" => {
            failed_at.insert(step, event.at);
        }
        "attempt_started" | "compensation_started" | "step_succeeded" => drop(failed_at.remove(&step)),
        "failure_handled" | "steps_cancelled" => {
            let named = ["cancelled", "skipped", "steps"].iter().flat_map(|list| event.body[list].as_array());
            let named: BTreeSet<&str> = named.flatten().filter_map(Value::as_str).collect();
            asked_at.retain(|step, _| !named.contains(step.as_str()));
        }
        "execution_ended" => {
            asked_at.clear();
            failed_at.clear();
        }
        _ => {}
    }
    vec![]
}

/// Whether the attempt that a claim refers to succeeded: the one that ends next, or the last if none is
/// running; an unknown one as it was settled. `None` if it cannot be judged.
fn claim_was_right(entries: &[JournalEvent], record: &JournalEvent) -> Option<bool> {
    let of_step: Vec<&JournalEvent> = entries.iter().filter(|event| event.step() == record.step()).collect();
    let is_end = |event: &&&JournalEvent| event.kind == "attempt_ended";
    let next = of_step.iter().filter(is_end).find(|event| event.position > record.position);
    let started = of_step.iter().filter(|event| event.kind == "attempt_started").count();
    let ended = of_step.iter().filter(is_end).count();
    let end = next.or_else(|| of_step.iter().rfind(is_end).filter(|_| started == ended))?;
    let settles = |event: &&JournalEvent| {
        let word = ["outcome", "found", "answer"].iter().find_map(|field| event.body[field].as_str())?;
        match (event.kind.as_str(), word) {
            ("late_answer", "succeeded") | ("probe_ended" | "decided", "happened") => Some(true),
            ("late_answer", "failed") | ("probe_ended", "did_not_happen") | ("decided", "did-not-happen") => {
                Some(false)
            }
            _ => None,
        }
    };
    match end.body["outcome"].as_str().unwrap() {
        "succeeded" => Some(true),
        "failed" => Some(false),
        _ => {
            let after = of_step.iter().filter(|event| event.position > end.position);
            let mut until_next = after.take_while(|event| event.kind != "attempt_ended");
            until_next.find_map(settles)
        }
    }
}

pub fn nearest_rank(took: &[i64], percent: usize) -> Option<i64> {
    let mut sorted = took.to_vec();
    sorted.sort_unstable();
    let rank = (sorted.len() * percent).div_ceil(100).max(1);
    sorted.get(rank - 1).copied()
}
