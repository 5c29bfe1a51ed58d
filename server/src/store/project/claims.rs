//! A stream's entries → what agents claimed of steps, against what came of them; and the steps that were left
//! in trouble.

use std::collections::{BTreeMap, BTreeSet};

use actbook_engine::event::{Event, Probed};
use actbook_engine::execution::Recorded;
use actbook_engine::id::StepId;
use actbook_engine::policy::{Answer, Category, Outcome};

use crate::store::seen::{Claim, Trouble};

/// Where a step was left failed or unknown. A step that was rejected failed by policy.
pub fn troubles(stream: u64, entries: &[Recorded]) -> Vec<Trouble> {
    let trouble = |recorded: &Recorded| {
        let (step, outcome, category) = match &recorded.event {
            Event::StepFailed(event) => (&event.step, Outcome::Failed, event.category),
            Event::StepUnknown(event) => (&event.step, Outcome::Unknown, event.category),
            Event::StepRejected(event) => (&event.step, Outcome::Failed, Category::Policy),
            _ => return None,
        };
        Some(Trouble {
            stream,
            position: recorded.position.0,
            step: step.to_string(),
            outcome: outcome.as_str(),
            category: category.as_str(),
            at: recorded.at_ms,
        })
    };
    entries.iter().filter_map(trouble).collect()
}

/// `confidences`: in millionths, by the position of the record. A claim is held against the attempt that ends
/// next; one that is made after the end, against the end before.
pub fn claims(stream: u64, entries: &[Recorded], confidences: &BTreeMap<u64, i64>) -> Vec<Claim> {
    let mut held = Held {
        stream,
        confidences,
        claims: Vec::new(),
        waiting: BTreeMap::new(),
        unsettled: BTreeMap::new(),
        running: BTreeSet::new(),
        last: BTreeMap::new(),
    };
    for recorded in entries {
        held.read(recorded);
    }
    held.finish()
}

struct Held<'a> {
    stream: u64,
    confidences: &'a BTreeMap<u64, i64>,
    claims: Vec<Claim>,
    /// Claims, by their place, that no end has followed yet.
    waiting: BTreeMap<StepId, Vec<usize>>,
    /// Claims whose attempt ended unknown, to be settled.
    unsettled: BTreeMap<StepId, Vec<usize>>,
    running: BTreeSet<StepId>,
    last: BTreeMap<StepId, Outcome>,
}

impl Held<'_> {
    fn read(&mut self, recorded: &Recorded) {
        match &recorded.event {
            Event::ActionRecorded(event) => {
                if let Some(step) = &event.step {
                    self.claim(recorded, step);
                }
            }
            Event::AttemptStarted(event) => {
                self.running.insert(event.step.clone());
            }
            Event::AttemptEnded(event) => self.end(&event.step, event.outcome),
            Event::LateAnswer(event) => self.settle(&event.step, event.outcome),
            Event::ProbeEnded(event) => match event.found {
                Probed::Happened => self.settle(&event.step, Outcome::Succeeded),
                Probed::DidNotHappen => self.settle(&event.step, Outcome::Failed),
                Probed::Error | Probed::Lost => {}
            },
            Event::Decided(event) => match (&event.step, event.answer) {
                (Some(step), Answer::Happened) => self.settle(step, Outcome::Succeeded),
                (Some(step), Answer::DidNotHappen) => self.settle(step, Outcome::Failed),
                (_, _) => {}
            },
            _ => {}
        }
    }

    fn claim(&mut self, recorded: &Recorded, step: &StepId) {
        let position = recorded.position.0;
        let Some(confidence) = self.confidences.get(&position) else { return };
        self.waiting.entry(step.clone()).or_default().push(self.claims.len());
        self.claims.push(Claim {
            stream: self.stream,
            position,
            step: step.to_string(),
            confidence: *confidence,
            outcome: None,
            at: recorded.at_ms,
        });
    }

    fn end(&mut self, step: &StepId, outcome: Outcome) {
        self.running.remove(step);
        self.last.insert(step.clone(), outcome);
        let ended = self.waiting.remove(step).unwrap_or_default();
        self.say(&ended, outcome);
        self.unsettled.remove(step);
        if outcome == Outcome::Unknown {
            self.unsettled.insert(step.clone(), ended);
        }
    }

    /// What nobody could tell has come to light.
    fn settle(&mut self, step: &StepId, outcome: Outcome) {
        if self.last.get(step) != Some(&Outcome::Unknown) || outcome == Outcome::Unknown {
            return;
        }
        self.last.insert(step.clone(), outcome);
        let settled = self.unsettled.remove(step).unwrap_or_default();
        self.say(&settled, outcome);
    }

    fn say(&mut self, claims: &[usize], outcome: Outcome) {
        for claim in claims {
            self.claims[*claim].outcome = Some(outcome.as_str());
        }
    }

    fn finish(mut self) -> Vec<Claim> {
        for (step, waiting) in std::mem::take(&mut self.waiting) {
            if let Some(outcome) = self.last.get(&step).copied().filter(|_| !self.running.contains(&step)) {
                self.say(&waiting, outcome);
            }
        }
        self.claims
    }
}
