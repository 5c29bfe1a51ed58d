//! Ground truth: which calls were sent, which of them took effect, which effects remain. The engine never
//! sees this; the end of an execution is checked against it.

use std::collections::{BTreeMap, BTreeSet};

use actbook_engine::execution::{CallId, CallKind, Execution};
use actbook_engine::id::StepNo;

use super::rng::SimRng;

/// What happened to a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallFate {
    /// Certainly not sent.
    NotSent,
    /// Sent, without a report yet.
    Out,
    TimedOut,
    Answered,
}

/// The truth about one call.
#[derive(Clone, Copy, Debug)]
pub struct CallTruth {
    pub sent: CallFate,
    pub takes_effect: bool,
    /// It will take effect after its time-out was reported.
    pub takes_effect_late: bool,
}

/// The identity of an effect: attempts of an idempotent step with one key share it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Effect {
    Attempt(StepNo, u32),
    Key(StepNo, u32),
}

#[derive(Clone, Debug, Default)]
pub struct World {
    pub calls: BTreeMap<CallId, CallTruth>,
    pub effects: BTreeSet<Effect>,
    pub keys_seen: BTreeSet<(StepNo, u32)>,
    /// The tools' server is unreachable.
    pub down: bool,
    /// A person answered untruly, or a call took effect after its time-out.
    pub inconsistent: bool,
    pub late_effects: bool,
}

impl World {
    pub fn send(&mut self, execution: &Execution, call: CallId, rng: &mut SimRng) {
        let lands = match call.kind {
            CallKind::Run | CallKind::Compensation => rng.percent_chance(60),
            CallKind::Probe => self.has_effect(execution, call.step, call.index),
        };
        if lands && call.kind != CallKind::Probe {
            self.apply_effect(execution, call);
        }
        self.calls
            .insert(call, CallTruth { sent: CallFate::Out, takes_effect: lands, takes_effect_late: false });
    }

    pub fn apply_effect(&mut self, execution: &Execution, call: CallId) {
        match call.kind {
            CallKind::Compensation => {
                let target = execution.step(call.step).compensations[call.index as usize].undoes;
                self.remove_effect(execution, call.step, target.expect("it undoes an attempt"));
            }
            CallKind::Run if execution.rules(call.step).read_only => {}
            CallKind::Run => {
                let effect = effect_of(execution, call.step, call.index);
                let is_new = match effect {
                    Effect::Key(step, key) => self.keys_seen.insert((step, key)),
                    Effect::Attempt(..) => true,
                };
                if is_new {
                    self.effects.insert(effect);
                }
            }
            CallKind::Probe => {}
        }
    }

    pub fn has_effect(&self, execution: &Execution, step: StepNo, attempt: u32) -> bool {
        self.effects.contains(&effect_of(execution, step, attempt))
    }

    pub fn remove_effect(&mut self, execution: &Execution, step: StepNo, attempt: u32) {
        self.effects.remove(&effect_of(execution, step, attempt));
    }

    /// A person did the step by hand; the engine counts it as an attempt.
    pub fn apply_manual_effect(&mut self, execution: &Execution, step: StepNo) {
        if !execution.rules(step).read_only {
            let attempt = execution.step(step).attempts.len() as u32 - 1;
            self.effects.insert(effect_of(execution, step, attempt));
        }
    }
}

fn effect_of(execution: &Execution, step: StepNo, attempt: u32) -> Effect {
    if execution.rules(step).idempotent {
        Effect::Key(step, execution.step(step).attempts[attempt as usize].key)
    } else {
        Effect::Attempt(step, attempt)
    }
}
