//! What callers without the right `payloads` see: that there are arguments, outputs, texts from tools, notes and
//! documents of plans, and how long they are, but not what they say. `Service::for_role` says for whom; every view
//! that a service gives passes through here, or is built without the payload.

use actbook_engine::analysis::PlanComparison;
use actbook_engine::execution::{Brief, UndoItem};
use serde_json::{Value, json};

use super::Service;
use super::context::{NoteValueView, NoteView};
use super::question::PersonQuestion;
use super::question_content::CoveredCall;
use super::step::StepDetail;
use super::templates::TemplateView;
use super::view::{EntryView, ExecutionView, StepView, WaitingView};
use crate::caller::Right;
use crate::error::Error;

/// What stands in the place of a text.
pub const WITHHELD_TEXT: &str = "(shown with the right `payloads`)";

impl Service {
    /// Whether this service's caller may not see values.
    pub fn withholds(&self) -> bool {
        self.withholds
    }

    /// Refuses to search for words in what is withheld: an answer would say whether they occur.
    pub(super) fn require_unwithheld_search(&self, searches: bool) -> Result<(), Error> {
        if searches && self.withholds {
            return Err(Error::Forbidden { needed: Right::Payloads });
        }
        Ok(())
    }

    /// The value, or that there is one.
    pub fn shown(&self, mut value: Value) -> Value {
        if self.withholds {
            withhold_value(&mut value);
        }
        value
    }

    /// The text, or that there is one.
    pub fn shown_text(&self, text: &str) -> String {
        if self.withholds { WITHHELD_TEXT.to_owned() } else { text.to_owned() }
    }

    pub(super) fn withhold_view(&self, view: &mut ExecutionView) {
        if !self.withholds {
            return;
        }
        withhold(&mut view.inputs);
        view.steps.iter_mut().for_each(withhold_step);
        view.waiting.iter_mut().for_each(withhold_question);
        view.records.iter_mut().for_each(|record| withhold(&mut record.details));
        view.blockers.iter_mut().for_each(withhold_note);
        view.brief.iter_mut().for_each(withhold_brief);
    }

    pub(super) fn withhold_step_view(&self, step: &mut StepView) {
        if self.withholds {
            withhold_step(step);
        }
    }

    pub(super) fn withhold_brief(&self, brief: &mut Brief) {
        if self.withholds {
            withhold_brief(brief);
        }
    }

    /// Withholds the texts of a question; its brief and the calls of an undo, which questions share, are withheld
    /// before it is built.
    pub(super) fn withhold_person_question(&self, question: &mut PersonQuestion) {
        if !self.withholds {
            return;
        }
        withhold_question(&mut question.waiting);
        question.text = WITHHELD_TEXT.to_owned();
        question.facts.content.clear();
    }

    pub(super) fn withhold_undo_calls(&self, undo: &mut [CoveredCall]) {
        if self.withholds {
            undo.iter_mut().for_each(|CoveredCall { item, .. }| withhold_undo(item));
        }
    }

    /// Withholds what a detail view has beside the view of its step and its questions.
    pub(super) fn withhold_detail(&self, detail: &mut StepDetail) {
        if !self.withholds {
            return;
        }
        for attempt in &mut detail.history {
            withhold(&mut attempt.arguments);
            withhold(&mut attempt.result);
        }
        for attempt in &mut detail.compensations {
            withhold(&mut attempt.arguments);
            withhold(&mut attempt.result);
        }
        detail.to_undo.iter_mut().for_each(withhold_undo);
    }

    pub(super) fn withhold_entry(&self, entry: &mut EntryView) {
        if self.withholds {
            withhold(&mut entry.recorded);
            withhold(&mut entry.payload);
        }
    }

    pub(super) fn withhold_note(&self, note: &mut NoteView) {
        if self.withholds {
            withhold_note(note);
        }
    }

    pub(super) fn withhold_note_value(&self, note: &mut NoteValueView) {
        if self.withholds {
            withhold(&mut note.value);
            withhold(&mut note.metadata);
        }
    }

    pub(super) fn withhold_template(&self, template: &mut TemplateView) {
        if self.withholds {
            template.inputs.iter_mut().for_each(|input| withhold(&mut input.default));
            // One that comes with Actbook has nothing to withhold.
            template.description.iter_mut().filter(|_| !template.shipped).for_each(withhold_text);
        }
    }

    pub(super) fn withhold_comparison(&self, comparison: &mut PlanComparison) {
        if !self.withholds {
            return;
        }
        let of_steps = comparison.steps.iter_mut().flat_map(|step| &mut step.fields);
        for field in comparison.fields.iter_mut().chain(of_steps) {
            withhold(&mut field.from);
            withhold(&mut field.to);
        }
    }
}

fn withhold_step(step: &mut StepView) {
    withhold(&mut step.arguments);
    withhold(&mut step.output);
    withhold(&mut step.recorded);
    step.error.iter_mut().for_each(|error| error.message = WITHHELD_TEXT.to_owned());
    step.action.iter_mut().for_each(withhold_text);
    step.progress.iter_mut().for_each(|progress| progress.message = None);
}

/// The text of a question quotes arguments and errors.
fn withhold_question(waiting: &mut WaitingView) {
    withhold_text(&mut waiting.question);
    waiting.content.clear();
    waiting.asked_input = None;
    withhold(&mut waiting.requests);
    withhold(&mut waiting.refused_arguments);
}

fn withhold_brief(brief: &mut Brief) {
    brief.undo.iter_mut().for_each(withhold_undo);
}

fn withhold_undo(item: &mut UndoItem) {
    withhold(&mut item.arguments);
    item.action.iter_mut().for_each(withhold_text);
    item.trouble.iter_mut().for_each(withhold_text);
}

fn withhold_note(note: &mut NoteView) {
    withhold_value(&mut note.value);
    withhold(&mut note.metadata);
    note.excerpt = None;
    for value in note.history.iter_mut().flatten() {
        withhold(&mut value.value);
        withhold(&mut value.metadata);
    }
}

fn withhold_text(text: &mut String) {
    *text = WITHHELD_TEXT.to_owned();
}

fn withhold(value: &mut Option<Value>) {
    value.iter_mut().for_each(withhold_value);
}

/// Replaces a value by its size in bytes.
fn withhold_value(value: &mut Value) {
    *value = json!({ "withheld": true, "bytes": value.to_string().len() });
}
