//! What the projector reads from payloads: agents' confidences, and fingerprints of error texts. Erased
//! payloads have neither.

use std::collections::BTreeMap;

use actbook_engine::event::{Event, ProbeFinding};
use actbook_engine::id::TenantId;
use actbook_engine::policy::Outcome;
use serde_json::Value;

use crate::ledger::Error;
use crate::store::fingerprint::fingerprint;
use crate::store::projection::ActorEntry;
use crate::store::{Db, payloads};

const MILLION: f64 = 1_000_000.0;

/// Facts from payloads, by the position of the entry that owns the payload.
#[derive(Debug, Clone, Default)]
pub struct PayloadFacts {
    /// In millionths.
    pub confidences: BTreeMap<u64, i64>,
    pub fingerprints: BTreeMap<u64, String>,
}

/// What the projector reads a payload for: an agent's stated confidence, or the text of an error.
enum PayloadUse {
    Confidence,
    ErrorText,
}

/// What the payload of an entry is read for. None: it is not read.
fn payload_use(entry: &ActorEntry) -> Option<PayloadUse> {
    let error = |has_payload: bool| has_payload.then_some(PayloadUse::ErrorText);
    if let Event::ActionRecorded(event) = &entry.recorded.event {
        return event.step.is_some().then_some(PayloadUse::Confidence);
    }
    if let Event::AttemptEnded(event) = &entry.recorded.event {
        return error(event.result.is_some() && event.outcome != Outcome::Succeeded);
    }
    if let Event::CompensationEnded(event) = &entry.recorded.event {
        return error(event.result.is_some() && event.outcome != Outcome::Succeeded);
    }
    if let Event::ProbeEnded(event) = &entry.recorded.event {
        return error(event.result.is_some() && event.found == ProbeFinding::Error);
    }
    None
}

impl PayloadFacts {
    /// Reads the confidences and the error fingerprints from these entries' payloads in one round trip.
    pub fn read<'a>(
        db: &Db,
        tenant: TenantId,
        entries: impl Iterator<Item = &'a ActorEntry>,
    ) -> Result<Self, Error> {
        let mut facts = Self::default();
        let uses: BTreeMap<u64, PayloadUse> =
            entries.filter_map(|entry| Some((entry.recorded.position.0, payload_use(entry)?))).collect();
        if uses.is_empty() {
            return Ok(facts);
        }
        let positions: Vec<u64> = uses.keys().copied().collect();
        for payload in payloads::by_positions_blocking(db, tenant, &positions)? {
            let value: Value = serde_json::from_slice(&payload.body).unwrap_or_default();
            match uses.get(&payload.position) {
                Some(PayloadUse::Confidence) => facts.add_confidence(payload.position, &value),
                Some(PayloadUse::ErrorText) => facts.add_error(payload.position, &value),
                None => {}
            }
        }
        Ok(facts)
    }

    fn add_confidence(&mut self, position: u64, record: &Value) {
        if let Some(confidence) = record.get("confidence").and_then(Value::as_f64) {
            let millionths = (confidence.clamp(0.0, 1.0) * MILLION).round() as i64;
            self.confidences.insert(position, millionths);
        }
    }

    fn add_error(&mut self, position: u64, error: &Value) {
        if let Some(text) = error.get("message").and_then(Value::as_str) {
            self.fingerprints.insert(position, fingerprint(text));
        }
    }

    /// Adds the facts of a round that belong to these entries. `erased`: the entries' payloads are erased, so
    /// that nothing of them remains.
    pub fn take_of(&mut self, round: &Self, entries: &[ActorEntry], erased: bool) {
        if erased {
            *self = Self::default();
            return;
        }
        for position in entries.iter().map(|entry| entry.recorded.position.0) {
            if let Some(confidence) = round.confidences.get(&position) {
                self.confidences.insert(position, *confidence);
            }
            if let Some(fingerprint) = round.fingerprints.get(&position) {
                self.fingerprints.insert(position, fingerprint.clone());
            }
        }
    }
}
