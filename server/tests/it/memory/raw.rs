//! Figures counted a second time, from the raw entries of the journal and nothing that the product makes
//! of them.

use std::collections::{BTreeMap, BTreeSet};

use actbook_engine::id::StreamId;

use actbook::store::{Db, Entry, journal, payloads};
use serde_json::Value;

use crate::store::TENANT;

#[derive(Debug)]
pub struct Told {
    pub position: u64,
    pub stream: StreamId,
    pub at: i64,
    pub by_driver: bool,
    pub kind: String,
    pub body: Value,
}

impl Told {
    fn of(entry: Entry) -> Self {
        let kind = entry.kind.split('.').next().unwrap_or_default().to_owned();
        let body = serde_json::from_str(&entry.body).unwrap();
        let by_driver = *entry.actor == *"actbook";
        Self { position: entry.position, stream: entry.stream, at: entry.at, by_driver, kind, body }
    }

    pub fn step(&self) -> String {
        self.body["step"].as_str().unwrap_or_default().to_owned()
    }
}

/// Plan, start, and where it has ended: its status and when.
type Ended = (String, i64, Option<(String, i64)>);

/// Everything, by execution.
pub struct Raw {
    pub executions: BTreeMap<StreamId, Vec<Told>>,
    pub confidences: BTreeMap<u64, f64>,
}

impl Raw {
    pub async fn read(db: &Db) -> Self {
        let mut streams: BTreeMap<StreamId, Vec<Told>> = BTreeMap::new();
        let mut confidences = BTreeMap::new();
        for entry in journal::between(TENANT, 0, u64::MAX).all(db).await.unwrap() {
            if entry.kind.starts_with("action_recorded.") {
                let payload = payloads::by_position(TENANT, entry.position).first(db).await.unwrap();
                let facts: Value = serde_json::from_slice(&payload.unwrap().body).unwrap();
                confidences.extend(facts["confidence"].as_f64().map(|found| (entry.position, found)));
            }
            streams.entry(entry.stream).or_default().push(Told::of(entry));
        }
        streams.retain(|_, entries| entries[0].kind == "execution_started");
        Self { executions: streams, confidences }
    }

    /// Only executions whose start passes.
    pub fn only(mut self, passes: impl Fn(&Value) -> bool) -> Self {
        self.executions.retain(|_, entries| passes(&entries[0].body));
        self
    }

    pub fn ends(&self) -> Vec<Ended> {
        let end = |entries: &Vec<Told>| {
            let last = entries
                .iter()
                .rfind(|told| matches!(told.kind.as_str(), "execution_ended" | "unwind_started"))?;
            let status = last.body["status"].as_str()?;
            Some((status.to_owned(), last.at))
        };
        let plan = |entries: &Vec<Told>| entries[0].body["plan"]["id"].as_str().unwrap().to_owned();
        self.executions.values().map(|entries| (plan(entries), entries[0].at, end(entries))).collect()
    }

    /// Category → failed and unknown.
    pub fn failures(&self) -> BTreeMap<String, (u64, u64)> {
        let mut counts: BTreeMap<String, (u64, u64)> = BTreeMap::new();
        for told in self.executions.values().flatten() {
            let category = told.body["category"].as_str().unwrap_or("policy").to_owned();
            match told.kind.as_str() {
                "step_failed" | "step_rejected" => counts.entry(category).or_default().0 += 1,
                "step_unknown" => counts.entry(category).or_default().1 += 1,
                _ => {}
            }
        }
        counts
    }

    /// (execution, step) → tries, and whether one of them succeeded; what was proved unsent was none.
    pub fn tries(&self) -> BTreeMap<(StreamId, String), (u64, bool)> {
        let mut tries: BTreeMap<(StreamId, String), (u64, bool)> = BTreeMap::new();
        for told in self.executions.values().flatten() {
            let name = (told.stream, told.step());
            match told.kind.as_str() {
                "attempt_started" => tries.entry(name).or_default().0 += 1,
                "attempt_ended" => tries.get_mut(&name).unwrap().1 |= told.body["outcome"] == "succeeded",
                _ => {}
            }
        }
        tries
    }

    /// (plan's name, step) → how long its attempts took that were sent.
    pub fn took(&self) -> BTreeMap<(String, String), Vec<i64>> {
        let mut took: BTreeMap<(String, String), Vec<i64>> = BTreeMap::new();
        for entries in self.executions.values() {
            let plan = entries[0].body["plan"]["name"].as_str().unwrap();
            let mut begun = BTreeMap::new();
            for told in entries {
                let name = (told.step(), told.body["attempt"].as_u64());
                if told.kind == "attempt_started" {
                    begun.insert(name, told.at);
                } else if told.kind == "attempt_ended" && told.body["unsent"] != true {
                    let since = begun[&name];
                    took.entry((plan.to_owned(), told.step())).or_default().push(told.at - since);
                }
            }
        }
        took
    }

    /// Kind → how long each question to people waited until it was answered.
    pub fn waited(&self) -> BTreeMap<&'static str, Vec<i64>> {
        let mut waited: BTreeMap<&'static str, Vec<i64>> = BTreeMap::new();
        for entries in self.executions.values() {
            let mut asked: BTreeMap<String, i64> = BTreeMap::new();
            let mut wrong: BTreeMap<String, i64> = BTreeMap::new();
            for told in entries {
                let answered = answered(told, &mut asked, &mut wrong);
                for (kind, since) in answered {
                    waited.entry(kind).or_default().push(told.at - since);
                }
            }
        }
        waited
    }

    /// Position of a claim → how sure, and whether the step succeeded; those that nobody can judge left out.
    pub fn claims(&self) -> BTreeMap<u64, (f64, bool)> {
        let mut claims = BTreeMap::new();
        for entries in self.executions.values() {
            let of_step = |told: &&Told| told.kind == "action_recorded" && told.body["step"].is_string();
            for record in entries.iter().filter(of_step) {
                let Some(confidence) = self.confidences.get(&record.position) else { continue };
                if let Some(good) = came_true(entries, record) {
                    claims.insert(record.position, (*confidence, good));
                }
            }
        }
        claims
    }
}

/// What an entry answers: of `asked` (approvals by step, `plan` and `undo`) and of `wrong` (steps).
fn answered(
    told: &Told,
    asked: &mut BTreeMap<String, i64>,
    wrong: &mut BTreeMap<String, i64>,
) -> Vec<(&'static str, i64)> {
    let step = told.step();
    let yes = |since: Option<i64>| since.map(|since| ("approval", since)).into_iter().collect::<Vec<_>>();
    match told.kind.as_str() {
        "plan_approval_asked" => drop(asked.insert("plan".into(), told.at)),
        "unwind_proposed" => drop(asked.insert("undo".into(), told.at)),
        "approval_asked" => drop(asked.insert(step, told.at)),
        "plan_approved" | "plan_rejected" => return yes(asked.remove("plan")),
        "step_approved" => return yes(asked.remove(&step)),
        "step_rejected" => {
            wrong.insert(step.clone(), told.at);
            return yes(asked.remove(&step));
        }
        "unwind_approved" => return yes(asked.remove("undo")),
        "unwind_rejected" => {
            wrong.values_mut().for_each(|since| *since = told.at);
            return yes(asked.remove("undo"));
        }
        "unwind_started" | "cancel_asked" => {
            let steps: Vec<_> =
                std::mem::take(wrong).into_values().map(|since| ("decision", since)).collect();
            let undo = asked.remove("undo").filter(|_| told.kind == "unwind_started");
            asked.clear();
            return match (undo, told.by_driver) {
                (Some(since), _) => vec![("approval", since)],
                (None, false) => steps,
                (None, true) => vec![],
            };
        }
        "decided" => return wrong.remove(&step).map(|since| ("decision", since)).into_iter().collect(),
        "step_failed" | "step_unknown" | "compensation_given_up" => drop(wrong.insert(step, told.at)),
        "compensation_ended" if told.body["outcome"] != "succeeded" => drop(wrong.insert(step, told.at)),
        "attempt_started" | "compensation_started" | "step_succeeded" => drop(wrong.remove(&step)),
        "failure_handled" | "steps_cancelled" => {
            let named = ["cancelled", "skipped", "steps"].iter().flat_map(|list| told.body[list].as_array());
            let named: BTreeSet<&str> = named.flatten().filter_map(Value::as_str).collect();
            asked.retain(|step, _| !named.contains(step.as_str()));
        }
        "execution_ended" => {
            asked.clear();
            wrong.clear();
        }
        _ => {}
    }
    vec![]
}

/// The attempt that ends next, or the last one where none is under way; an unknown one as it was settled.
fn came_true(entries: &[Told], record: &Told) -> Option<bool> {
    let of_step: Vec<&Told> = entries.iter().filter(|told| told.step() == record.step()).collect();
    let is_end = |told: &&&Told| told.kind == "attempt_ended";
    let next = of_step.iter().filter(is_end).find(|told| told.position > record.position);
    let started = of_step.iter().filter(|told| told.kind == "attempt_started").count();
    let ended = of_step.iter().filter(is_end).count();
    let end = next.or_else(|| of_step.iter().rfind(is_end).filter(|_| started == ended))?;
    let settles = |told: &&Told| {
        let word = ["outcome", "found", "answer"].iter().find_map(|field| told.body[field].as_str())?;
        match (told.kind.as_str(), word) {
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
            let after = of_step.iter().filter(|told| told.position > end.position);
            let mut until_next = after.take_while(|told| told.kind != "attempt_ended");
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
