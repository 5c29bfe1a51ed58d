//! Folded executions that a process which serves pages keeps in memory, those that were used last, so that a page of
//! a long execution reads only what is new. What is kept may be behind the journal; readers catch up with it.

use std::collections::{BTreeMap, HashMap};
use std::mem::size_of;
use std::sync::Arc;

use actbook_engine::execution::{Attempt, Execution, StepState};
use actbook_engine::id::StreamId;
use parking_lot::Mutex;
use serde_json::Value;

use super::inspect::InspectedExecution;
use super::timeline::{StepSpan, StepTimeline, Timeline};
use super::view::{ExecutionView, StepView};
use super::wait_entries::{WaitEntries, WaitEntry};

/// Most bytes that the kept folds and their views take, as far as they can be estimated.
pub const FOLD_BYTES_MAX: usize = 64 * 1024 * 1024;

/// The folds that this process keeps. Clones share them; the default keeps none.
#[derive(Clone, Debug, Default)]
pub struct FoldCache(Option<Arc<Mutex<KeptFolds>>>);

/// Folds within a limit of bytes.
#[derive(Debug, Default)]
struct KeptFolds {
    bytes_max: usize,
    bytes: usize,
    folds: HashMap<StreamId, KeptFold>,
    /// The streams in the order in which they were used, the one longest ago first.
    by_use: BTreeMap<u64, StreamId>,
    /// Counts the uses.
    uses: u64,
}

/// One execution as of some position.
#[derive(Clone, Debug)]
struct KeptFold {
    execution: Arc<Execution>,
    /// The same, as a person reads it.
    inspected: Option<Arc<InspectedExecution>>,
    timeline: Option<Arc<Timeline>>,
    /// Of this or another position.
    wait_entries: Option<Arc<WaitEntries>>,
    bytes: usize,
    used: u64,
}

impl KeptFold {
    fn new(execution: Arc<Execution>) -> Self {
        Self { execution, inspected: None, timeline: None, wait_entries: None, bytes: 0, used: 0 }
    }

    /// About how much memory it takes.
    fn estimate_bytes(&self) -> usize {
        let entries = self.wait_entries.as_ref().map_or(0, |waits| waits.entries.len());
        execution_bytes(&self.execution)
            + self.inspected.as_deref().map_or(0, inspected_bytes)
            + self.timeline.as_deref().map_or(0, timeline_bytes)
            + entries * (STEP_BYTES + size_of::<WaitEntry>())
    }
}

impl FoldCache {
    /// A cache that holds at most so many bytes.
    pub fn with_limit(bytes_max: usize) -> Self {
        Self(Some(Arc::new(Mutex::new(KeptFolds { bytes_max, ..KeptFolds::default() }))))
    }

    /// The fold of a stream. None: it is not kept.
    pub fn get(&self, stream: StreamId) -> Option<Arc<Execution>> {
        self.0.as_ref()?.lock().touch(stream).map(|kept| kept.execution.clone())
    }

    /// The inspected execution that was kept for exactly this fold.
    pub fn inspected(&self, stream: StreamId, execution: &Execution) -> Option<Arc<InspectedExecution>> {
        let inspected = self.0.as_ref()?.lock().touch(stream)?.inspected.clone()?;
        Some(inspected).filter(|inspected| inspected.view.position == execution.position.0)
    }

    /// The timeline that was kept for exactly this fold.
    pub fn timeline(&self, stream: StreamId, execution: &Execution) -> Option<Arc<Timeline>> {
        let mut kept = self.0.as_ref()?.lock();
        let fold = kept.touch(stream).filter(|fold| fold.execution.position == execution.position)?;
        fold.timeline.clone()
    }

    /// The entries that begin and end the waits of a stream, as far as they were read.
    pub fn wait_entries(&self, stream: StreamId) -> Option<Arc<WaitEntries>> {
        self.0.as_ref()?.lock().touch(stream)?.wait_entries.clone()
    }

    /// Keeps a fold, unless a newer one is kept.
    pub fn put(&self, stream: StreamId, execution: &Arc<Execution>) {
        let is_known = |kept: &Mutex<KeptFolds>| {
            let kept = kept.lock();
            kept.folds.get(&stream).is_some_and(|fold| fold.execution.position >= execution.position)
        };
        if !self.0.as_deref().is_some_and(is_known) {
            self.change(stream, execution, |_| {});
        }
    }

    /// Keeps a fold with what a person reads of it.
    pub fn put_inspected(
        &self,
        stream: StreamId,
        execution: &Arc<Execution>,
        inspected: &Arc<InspectedExecution>,
    ) {
        self.change(stream, execution, |fold| fold.inspected = Some(inspected.clone()));
    }

    /// Keeps the timeline of a fold.
    pub fn put_timeline(&self, stream: StreamId, execution: &Arc<Execution>, timeline: &Arc<Timeline>) {
        self.change(stream, execution, |fold| fold.timeline = Some(timeline.clone()));
    }

    /// Keeps the entries that begin and end the waits of a stream whose fold is kept.
    pub fn put_wait_entries(&self, stream: StreamId, entries: &Arc<WaitEntries>) {
        let Some(mut kept) = self.0.as_ref().map(|kept| kept.lock()) else { return };
        if let Some(mut fold) = kept.remove(stream) {
            fold.wait_entries = Some(entries.clone());
            kept.insert(stream, fold);
        }
    }

    /// Keeps a fold, and what `add` puts beside it, unless a newer one is kept.
    fn change(&self, stream: StreamId, execution: &Arc<Execution>, add: impl FnOnce(&mut KeptFold)) {
        let Some(mut kept) = self.0.as_ref().map(|kept| kept.lock()) else { return };
        let known = kept.folds.get(&stream).map(|fold| fold.execution.position);
        if known.is_some_and(|known| known > execution.position) {
            return;
        }
        let former = kept.remove(stream);
        let mut fold = match former {
            Some(former) if known == Some(execution.position) => former,
            Some(former) => {
                KeptFold { wait_entries: former.wait_entries, ..KeptFold::new(execution.clone()) }
            }
            None => KeptFold::new(execution.clone()),
        };
        add(&mut fold);
        kept.insert(stream, fold);
    }
}

impl KeptFolds {
    /// The fold of a stream, which is the one used last from now on.
    fn touch(&mut self, stream: StreamId) -> Option<&KeptFold> {
        let fold = self.folds.get_mut(&stream)?;
        self.by_use.remove(&fold.used);
        self.uses += 1;
        fold.used = self.uses;
        self.by_use.insert(self.uses, stream);
        Some(fold)
    }

    /// Keeps a fold of a stream that has none, if it fits; the folds that were used longest ago make room.
    fn insert(&mut self, stream: StreamId, mut fold: KeptFold) {
        let bytes = fold.estimate_bytes();
        if bytes > self.bytes_max {
            return;
        }
        while self.bytes + bytes > self.bytes_max {
            let Some(oldest) = self.by_use.first_key_value().map(|(_, stream)| *stream) else { break };
            self.remove(oldest);
        }
        self.uses += 1;
        self.bytes += bytes;
        self.by_use.insert(self.uses, stream);
        (fold.bytes, fold.used) = (bytes, self.uses);
        self.folds.insert(stream, fold);
    }

    fn remove(&mut self, stream: StreamId) -> Option<KeptFold> {
        let fold = self.folds.remove(&stream)?;
        self.by_use.remove(&fold.used);
        self.bytes -= fold.bytes;
        Some(fold)
    }
}

/// The memory of a step that grows with neither its attempts nor its values: index, rules, names.
const STEP_BYTES: usize = 300;
/// The memory of an execution without steps.
const BASE_BYTES: usize = 4_000;

/// About how much memory a fold takes, without its plan, which all executions of the plan share.
fn execution_bytes(execution: &Execution) -> usize {
    let step = |step: &StepState| {
        let attempts = step.attempts.len() + step.compensations.len();
        STEP_BYTES + size_of::<StepState>() + attempts * size_of::<Attempt>()
    };
    BASE_BYTES + execution.steps.iter().map(step).sum::<usize>()
}

/// About how much memory an inspected execution takes.
fn inspected_bytes(inspected: &InspectedExecution) -> usize {
    let questions = inspected.questions.iter().map(|question| BASE_BYTES + 3 * question.text.len());
    BASE_BYTES + view_bytes(&inspected.view) + questions.sum::<usize>()
}

fn timeline_bytes(timeline: &Timeline) -> usize {
    let step = |step: &StepTimeline| size_of::<StepTimeline>() + step.spans.len() * size_of::<StepSpan>();
    BASE_BYTES + timeline.steps.iter().map(step).sum::<usize>()
}

fn view_bytes(view: &ExecutionView) -> usize {
    let values = |step: &StepView| {
        [&step.arguments, &step.output, &step.recorded].into_iter().flatten().map(value_bytes).sum::<usize>()
    };
    let step = |step: &StepView| STEP_BYTES + size_of::<StepView>() + values(step);
    let undo = view.brief.iter().flat_map(|brief| &brief.undo);
    let undo = undo.map(|item| STEP_BYTES + item.arguments.as_ref().map_or(0, value_bytes));
    let inputs = view.inputs.as_ref().map_or(0, value_bytes);
    view.steps.iter().map(step).sum::<usize>() + undo.sum::<usize>() + inputs
}

/// About how much memory a JSON value takes beyond its own size.
fn value_bytes(value: &Value) -> usize {
    /// Memory of the first node of a map, which has room for eleven fields.
    const NODE_BYTES: usize = 11 * (size_of::<String>() + size_of::<Value>()) + 16;
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
        Value::String(text) => text.len(),
        Value::Array(items) => items.iter().map(|item| size_of::<Value>() + value_bytes(item)).sum(),
        Value::Object(fields) => {
            let nodes = fields.len().div_ceil(6);
            let inside = fields.iter().map(|(name, value)| name.len() + value_bytes(value));
            nodes * NODE_BYTES + inside.sum::<usize>()
        }
    }
}
