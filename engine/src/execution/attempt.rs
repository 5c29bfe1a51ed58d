//! An attempt at a step or at its compensation: what was sent, how it ended, and what settled it afterwards.

use std::sync::Arc;

use super::state::PayloadRef;
use crate::chain::Digest;
use crate::event::ProbeFinding;
use crate::id::NodeId;
use crate::plan::RetryPolicy;
use crate::policy::{ErrorCategory, Outcome};

/// One attempt at a step, or at undoing one attempt of the step.
#[derive(Clone, Debug, Default)]
pub struct Attempt {
    /// Index of the attempt whose effect this one undoes; `None`: this is an attempt at the step itself.
    pub undoes: Option<u32>,
    /// Numbers the outbound idempotency key among the step's attempts, or among those that undo one attempt.
    pub key: u32,
    /// An agent or a person does the work; Actbook makes no call.
    pub by_agent: bool,
    /// Made because of an answer, so limits and other failures do not stop it.
    pub forced: bool,
    pub arguments: Option<PayloadRef>,
    /// The approved tool definition, which alone may be called; `None`: no approval was needed.
    pub pin: Option<Digest>,
    /// The reply to the previous attempt's question, which this attempt sends.
    pub reply: Option<QuestionReply>,
    /// The server's handle, where it runs the call as a task of its own.
    pub task_handle: Option<Arc<str>>,
    /// In a session: the process that sends the call.
    pub node: Option<NodeId>,
    pub started_at_ms: i64,
    pub ended_at_ms: Option<i64>,
    /// `None` while the call is open.
    pub outcome: Option<Outcome>,
    pub category: Option<ErrorCategory>,
    pub result: Option<PayloadRef>,
    /// The call was certainly not sent.
    pub unsent: bool,
    /// The process that took over concluded the outcome without having observed it.
    pub takeover: bool,
    /// Its process died and sending twice does no harm: the attempt is repeated without asking.
    pub repeat_after_takeover: bool,
    /// Whether the attempt ended with a question of the tool, which is `result`.
    pub question: ToolQuestion,
    /// The probe of an attempt at the step itself.
    pub probe: ProbeState,
    /// How often the probing process died while the probe may have been in flight.
    pub probes_lost: u32,
    /// The outcome that arrived after the attempt had ended as another.
    pub late_outcome: Option<Outcome>,
    /// Whether the attempt did take effect, by a probe, an answer or a late outcome; `None`: not settled.
    pub settled: Option<bool>,
}

/// The question of a tool with which an attempt ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ToolQuestion {
    #[default]
    None,
    Open,
    /// An answer about the step has settled it: with a reply, which the next attempt sends, or without one.
    Closed(Option<QuestionReply>),
}

/// A tool's question and the reply to it; the next attempt sends both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QuestionReply {
    pub question: PayloadRef,
    pub answer: PayloadRef,
}

/// The probe of one attempt: none yet, in flight, or done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ProbeState {
    #[default]
    None,
    Open {
        arguments: PayloadRef,
    },
    Done(ProbeFinding),
}

impl Attempt {
    /// Whether the outcome is still open.
    pub fn is_open(&self) -> bool {
        self.outcome.is_none()
    }

    /// The outcome, replaced by what it was settled as; `None` while open.
    pub fn effective_outcome(&self) -> Option<Outcome> {
        match self.settled {
            Some(true) => Some(Outcome::Succeeded),
            Some(false) => Some(Outcome::Failed),
            None => self.outcome,
        }
    }

    /// Whether the outcome is unknown and nothing has settled it.
    pub fn is_unknown(&self) -> bool {
        self.effective_outcome() == Some(Outcome::Unknown)
    }

    /// Whether the attempt succeeded, at once, by settlement or by a late outcome.
    pub fn has_succeeded(&self) -> bool {
        self.effective_outcome() == Some(Outcome::Succeeded) || self.late_outcome == Some(Outcome::Succeeded)
    }

    /// Whether the attempt may have had its effect.
    pub fn may_have_run(&self) -> bool {
        self.late_outcome == Some(Outcome::Succeeded) || self.effective_outcome() != Some(Outcome::Failed)
    }

    /// Whether the call was made and failed, and was not settled as not run.
    pub fn has_failed_after_sending(&self) -> bool {
        self.outcome == Some(Outcome::Failed) && !self.unsent && self.settled != Some(false)
    }

    /// A takeover proved that the call was not sent: it counts against neither attempts nor budget.
    pub fn is_proven_unsent(&self) -> bool {
        self.unsent && self.takeover
    }

    /// Whether the attempt counts against no limit of tries: proven unsent, or repeated after a takeover.
    pub(super) fn is_free(&self) -> bool {
        self.is_proven_unsent() || self.repeat_after_takeover
    }

    /// Whether the attempt is made again without waiting: proven unsent, or lost in a takeover and unsettled.
    pub(super) fn is_due_for_repeat(&self) -> bool {
        self.is_proven_unsent() || (self.repeat_after_takeover && self.is_unknown())
    }

    pub fn ended_with_question(&self) -> bool {
        self.question != ToolQuestion::None
    }

    /// Whether a probe of the attempt is in flight.
    pub(super) fn is_probing(&self) -> bool {
        matches!(self.probe, ProbeState::Open { .. })
    }

    /// Whether an agent's work became unknown and no report on it has arrived since.
    pub(super) fn is_given_up(&self) -> bool {
        self.by_agent && self.outcome == Some(Outcome::Unknown) && self.late_outcome.is_none()
    }

    /// Whether `retry` allows another automatic attempt: after a definite failure in a listed category, or
    /// after an unknown outcome only where sending twice does no harm (`repeatable`).
    pub(super) fn may_be_retried(&self, retry: &RetryPolicy, repeatable: bool, tries: u32) -> bool {
        let is_listed = self.category.is_some_and(|category| retry.on.contains(&category));
        let is_safe = match self.effective_outcome() {
            Some(Outcome::Failed) => true,
            Some(Outcome::Unknown) => repeatable,
            Some(Outcome::Succeeded) | None => false,
        };
        is_safe && is_listed && !self.by_agent && tries < retry.max_attempts
    }

    /// Stores an outcome that arrived after the end; returns whether the attempt was still unknown.
    pub(super) fn record_late(&mut self, outcome: Outcome) -> bool {
        let was_unknown = self.is_unknown();
        self.late_outcome = Some(outcome);
        was_unknown
    }
}

/// The number of the idempotency key after these attempts, oldest first. A definite outcome and `is_new_call`
/// advance it; an attempt that was not sent, or that only asked a question, does not.
pub(super) fn key_after<'a>(
    attempts: impl DoubleEndedIterator<Item = &'a Attempt> + Clone,
    is_new_call: bool,
) -> u32 {
    let mut newest_first = attempts.rev();
    let sent = newest_first.clone().find(|attempt| !attempt.unsent);
    let Some(last) = sent.or_else(|| newest_first.next()) else { return 0 };
    let only_asked = last.ended_with_question() && last.outcome == Some(Outcome::Failed);
    let is_definite = !last.is_open() && !last.is_unknown();
    last.key + u32::from(is_new_call || (sent.is_some() && is_definite && !only_asked))
}
