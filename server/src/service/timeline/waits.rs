//! Waits that the folded state does not keep, from the entries that begin and end them: for approvals, for the whole
//! plan or a proposed undo, and pauses.

use std::collections::BTreeMap;

use actbook_engine::event::Event;
use actbook_engine::execution::StepState;
use actbook_engine::id::StepId;
use actbook_engine::policy::StepStatus;

use super::{SpanKind, StepSpan};
use crate::service::wait_entries::WaitEntries;

/// The waits of one execution; the last of each may still be open.
#[derive(Debug, Default)]
pub struct RecordedWaits {
    pub whole: Vec<StepSpan>,
    by_step: BTreeMap<StepId, Vec<StepSpan>>,
}

impl RecordedWaits {
    pub fn of(entries: &WaitEntries) -> Self {
        let mut waits = Self::default();
        entries.entries.iter().for_each(|entry| waits.add(entry.at_ms, &entry.event));
        waits
    }

    fn add(&mut self, at_ms: i64, event: &Event) {
        if let Event::ApprovalAsked(asked) = event {
            open(self.by_step.entry(asked.step.clone()).or_default(), SpanKind::Waiting, at_ms);
        } else if let Event::StepApproved(answer) = event {
            close(self.by_step.entry(answer.step.clone()).or_default(), SpanKind::Waiting, at_ms);
        } else if let Event::StepRejected(answer) = event {
            close(self.by_step.entry(answer.step.clone()).or_default(), SpanKind::Waiting, at_ms);
        } else if matches!(event, Event::PlanApprovalAsked(_) | Event::UnwindProposed(_)) {
            open(&mut self.whole, SpanKind::Waiting, at_ms);
        } else if matches!(event, Event::Paused(_)) {
            open(&mut self.whole, SpanKind::Paused, at_ms);
        } else if matches!(event, Event::Resumed(_)) {
            close(&mut self.whole, SpanKind::Paused, at_ms);
        } else if !matches!(event, Event::UndoAsked(_)) {
            close(&mut self.whole, SpanKind::Waiting, at_ms);
        }
    }

    /// Ends what the execution's end has ended; a proposed undo of an ended execution goes on waiting.
    pub fn end_at(&mut self, ended_ms: Option<i64>) {
        let Some(ended) = ended_ms else { return };
        for span in self.whole.iter_mut().chain(self.by_step.values_mut().flatten()) {
            if span.to_ms.is_none() && span.from_ms < ended {
                span.to_ms = Some(ended);
            }
        }
    }

    /// The waits of one step; one that nothing answered ends with the step, or with its last entry.
    pub fn of_step(&mut self, id: &StepId, state: &StepState, last_entry_at_ms: i64) -> Vec<StepSpan> {
        let mut spans = self.by_step.remove(id).unwrap_or_default();
        if state.status() != StepStatus::AwaitingApproval {
            let ended = state.ended_at_ms.unwrap_or(last_entry_at_ms);
            spans.iter_mut().filter(|span| span.to_ms.is_none()).for_each(|span| {
                span.to_ms = Some(ended.max(span.from_ms));
            });
        }
        spans
    }
}

/// Begins a span, unless one of its kind is open.
fn open(spans: &mut Vec<StepSpan>, kind: SpanKind, at_ms: i64) {
    if !spans.iter().any(|span| span.kind == kind && span.to_ms.is_none()) {
        spans.push(StepSpan { kind, from_ms: at_ms, to_ms: None });
    }
}

/// Ends the open span of a kind.
fn close(spans: &mut [StepSpan], kind: SpanKind, at_ms: i64) {
    let is_open = |span: &&mut StepSpan| span.kind == kind && span.to_ms.is_none();
    spans.iter_mut().filter(is_open).for_each(|span| span.to_ms = Some(at_ms));
}
