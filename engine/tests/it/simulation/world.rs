//! Ground truth: which calls were sent, which of them took effect, which effects remain. The engine never
//! sees this; the end of an execution is checked against it.

use std::collections::{BTreeMap, BTreeSet};

use actbook_engine::execution::{CallId, CallKind, Execution};
use actbook_engine::id::StepNo;

use super::dice::Dice;

/// What happened to a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    /// Certainly not sent.
    Never,
    /// Sent, without a report yet.
    Out,
    TimedOut,
    Answered,
}

/// The truth about one call.
#[derive(Clone, Copy, Debug)]
pub struct Truth {
    pub sent: Sent,
    pub lands: bool,
    /// It will take effect after its time-out was reported.
    pub later: bool,
}

/// The identity of an effect: attempts of an idempotent step with one key share it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Effect {
    Attempt(StepNo, u32),
    Key(StepNo, u32),
}

#[derive(Clone, Debug, Default)]
pub struct World {
    pub calls: BTreeMap<CallId, Truth>,
    pub effects: BTreeSet<Effect>,
    pub keys_seen: BTreeSet<(StepNo, u32)>,
    /// The tools' server is unreachable.
    pub down: bool,
    /// A person answered untruly, or a call took effect after its time-out.
    pub wrong: bool,
    pub land_late: bool,
}

impl World {
    pub fn send(&mut self, execution: &Execution, call: CallId, rng: &mut Dice) {
        let lands = match call.kind {
            CallKind::Run | CallKind::Compensation => rng.chance(60),
            CallKind::Probe => self.stands(execution, call.step, call.index),
        };
        if lands && call.kind != CallKind::Probe {
            self.land(execution, call);
        }
        self.calls.insert(call, Truth { sent: Sent::Out, lands, later: false });
    }

    pub fn land(&mut self, execution: &Execution, call: CallId) {
        match call.kind {
            CallKind::Compensation => {
                let target = execution.step(call.step).compensations[call.index as usize].attempt;
                self.undo(execution, call.step, target);
            }
            CallKind::Run if execution.rules(call.step).read_only => {}
            CallKind::Run => {
                let effect = effect(execution, call.step, call.index);
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

    pub fn stands(&self, execution: &Execution, step: StepNo, attempt: u32) -> bool {
        self.effects.contains(&effect(execution, step, attempt))
    }

    pub fn undo(&mut self, execution: &Execution, step: StepNo, attempt: u32) {
        self.effects.remove(&effect(execution, step, attempt));
    }

    /// A person did the step by hand; the engine counts it as an attempt.
    pub fn by_hand(&mut self, execution: &Execution, step: StepNo) {
        if !execution.rules(step).read_only {
            let attempt = execution.step(step).attempts.len() as u32 - 1;
            self.effects.insert(effect(execution, step, attempt));
        }
    }
}

fn effect(execution: &Execution, step: StepNo, attempt: u32) -> Effect {
    if execution.rules(step).idempotent {
        Effect::Key(step, execution.step(step).attempts[attempt as usize].key)
    } else {
        Effect::Attempt(step, attempt)
    }
}
