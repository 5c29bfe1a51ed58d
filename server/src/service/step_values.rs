//! Loads the values of steps: their arguments, outputs, errors and recorded facts. A view of a long execution holds a
//! few of them; pages of steps load their own.

use std::collections::BTreeSet;
use std::sync::Arc;

use actbook_engine::execution::{AnnotationKind, Execution, LoadedPayloads, StepState, questions};
use actbook_engine::id::{Position, StepNo, StreamId};

use super::executions::Executions;
use super::view::{StepView, step_view};
use crate::error::Error;
use crate::store::payloads;

/// Which values of its steps a view holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StepValues {
    All,
    /// The texts of errors, and everything of the steps that a question is about: what pages tell beside the steps.
    Asked,
}

impl Executions<'_> {
    /// Steps of an execution with all their values; `numbers`: their places in the plan, from 0.
    pub async fn steps_with_values(self, id: &str, numbers: &[usize]) -> Result<Vec<StepView>, Error> {
        let found = self.find(id).await?;
        let execution = self.fold(found.stream).await?;
        let known = numbers.iter().filter_map(|index| Some(StepNo(u32::try_from(*index).ok()?)));
        let known: Vec<StepNo> = known.filter(|no| no.index() < execution.steps.len()).collect();
        let stored = known.iter().flat_map(|no| shown_values(execution.step(*no), true)).collect();
        let mut values = LoadedPayloads::default();
        self.load_values(stored, &mut values).await?;
        Ok(known.iter().map(|no| self.step_view_live(found.stream, &execution, *no, &values)).collect())
    }

    /// The view of one step, with the live progress of its call; `values` holds what it shows.
    pub(super) fn step_view_live(
        self,
        stream: StreamId,
        execution: &Execution,
        no: StepNo,
        values: &LoadedPayloads,
    ) -> StepView {
        let mut step = step_view(execution, no, values);
        step.progress = self.progress(stream, no, step.status);
        self.0.withhold_step_view(&mut step);
        step
    }

    /// Loads the payloads at these positions into `into`; erased ones become null.
    pub(super) async fn load_values(self, at: Vec<Position>, into: &mut LoadedPayloads) -> Result<(), Error> {
        let wanted: Vec<u64> = at.iter().map(|position| position.0).collect();
        for payload in payloads::by_positions(&self.0.db, self.0.tenant, &wanted).await? {
            let value = serde_json::from_slice(&payload.body).unwrap_or_default();
            into.0.insert(Position(payload.position), Arc::new(value));
        }
        for position in at {
            into.0.entry(position).or_default();
        }
        Ok(())
    }

    /// Loads every value that the view holds; erased ones become null.
    pub(super) async fn load_shown_values(
        self,
        execution: &Execution,
        held: StepValues,
    ) -> Result<LoadedPayloads, Error> {
        let asked: BTreeSet<StepNo> = match held {
            StepValues::All => BTreeSet::new(),
            StepValues::Asked => questions(execution).iter().filter_map(|question| question.step).collect(),
        };
        let stored =
            |no: StepNo| shown_values(execution.step(no), held == StepValues::All || asked.contains(&no));
        let mut values = LoadedPayloads::default();
        let notes = execution.annotations.iter().filter_map(|note| match &note.kind {
            AnnotationKind::Action { facts, .. } => Some(facts.position),
            AnnotationKind::Decision { details, .. } => details.map(|stored| stored.position),
        });
        let of_steps = execution.step_numbers().flat_map(stored);
        let inputs = execution.inputs.map(|stored| stored.position);
        self.load_values(of_steps.chain(notes).chain(inputs).collect(), &mut values).await?;
        Ok(values)
    }
}

/// Where the values are stored that a step shows: its error's text, and if it shows all, the rest.
pub(super) fn shown_values(step: &StepState, shows_all: bool) -> impl Iterator<Item = Position> + use<> {
    let error = step.error.and_then(|error| error.detail);
    let rest = [step.current_arguments(), step.output, step.facts].into_iter().flatten();
    error.into_iter().chain(rest.filter(move |_| shows_all)).map(|stored| stored.position)
}
