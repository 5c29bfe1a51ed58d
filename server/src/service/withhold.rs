//! What callers without the right `payloads` see: that there are arguments, outputs and texts from tools, and how
//! long they are, but not what they say.

use serde_json::{Value, json};

use super::executions::Executions;
use super::step::StepDetail;
use super::view::{EntryView, ExecutionView, StepView, WaitingView};
use crate::caller::{Caller, Right};

/// What stands in the place of a text.
const WITHHELD_TEXT: &str = "(shown with the right `payloads`)";

impl Executions<'_> {
    /// Withholds the values in a view from a caller that may not see them.
    pub fn withhold_from(self, caller: &Caller, view: &mut ExecutionView) {
        if caller.rights.has(Right::Payloads) {
            return;
        }
        withhold(&mut view.inputs);
        view.steps.iter_mut().for_each(withhold_step);
        view.waiting.iter_mut().for_each(withhold_question);
        view.records.iter_mut().for_each(|record| withhold(&mut record.details));
        let undo = view.brief.iter_mut().flat_map(|brief| &mut brief.undo);
        undo.for_each(|item| withhold(&mut item.arguments));
    }

    /// Withholds the values in the view of a step from a caller that may not see them.
    pub fn withhold_step_from(self, caller: &Caller, detail: &mut StepDetail) {
        if caller.rights.has(Right::Payloads) {
            return;
        }
        withhold_step(&mut detail.step);
        for attempt in &mut detail.history {
            withhold(&mut attempt.arguments);
            withhold(&mut attempt.result);
        }
        for attempt in &mut detail.compensations {
            withhold(&mut attempt.arguments);
            withhold(&mut attempt.result);
        }
        detail.to_undo.iter_mut().for_each(|item| withhold(&mut item.arguments));
        detail.waiting.iter_mut().for_each(withhold_question);
    }

    /// Withholds what was put on record in an entry from a caller that may not see it.
    pub fn withhold_entry_from(self, caller: &Caller, entry: &mut EntryView) {
        if !caller.rights.has(Right::Payloads) {
            withhold(&mut entry.recorded);
            withhold(&mut entry.payload);
        }
    }
}

fn withhold_step(step: &mut StepView) {
    withhold(&mut step.arguments);
    withhold(&mut step.output);
    withhold(&mut step.recorded);
    step.error.iter_mut().for_each(|error| error.message = WITHHELD_TEXT.to_owned());
    step.action.iter_mut().for_each(|action| *action = WITHHELD_TEXT.to_owned());
    step.progress.iter_mut().for_each(|progress| progress.message = None);
}

/// The text of a question quotes arguments and errors.
fn withhold_question(waiting: &mut WaitingView) {
    waiting.question = WITHHELD_TEXT.to_owned();
    waiting.content.clear();
    withhold(&mut waiting.requests);
}

/// Replaces a value by its size in bytes.
fn withhold(value: &mut Option<Value>) {
    if let Some(value) = value {
        *value = json!({ "withheld": true, "bytes": value.to_string().len() });
    }
}
