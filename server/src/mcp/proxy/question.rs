//! What becomes of a relayed call that a person is asked about: through the client, or on the command line and the
//! dashboard while the call waits.

use std::time::Duration;

use rmcp::model::InputRequiredResult;

use super::super::elicit::{
    QuestionOutcome, ShownQuestion, is_dialog_failure, open_questions, open_request_state, put_question,
};
use super::call::{CallFailure, GuardedRequest};
use crate::config::AskVia;
use crate::error::Error;
use crate::guard::{CallDecision, GuardedCall};
use crate::service::{PersonQuestion, SessionPart};

/// How often a client hears that its call waits.
const WAITING_INTERVAL: Duration = Duration::from_secs(15);
/// How long a call waits if the client asked for no progress: many clients give up after a minute of silence.
const SILENT_HOLD: Duration = Duration::from_secs(50);

/// A call that waits for a person.
pub struct WaitingCall<'a> {
    pub part: &'a SessionPart,
    pub step: &'a str,
    pub call: &'a GuardedCall,
    /// What the rule says.
    pub say: &'a str,
}

impl GuardedRequest<'_> {
    /// Applies the answer to a question of ours that a repeated call brings (sessionless protocol). Whether the call may
    /// be sent is judged afterwards. `Err` `InputRequired`: the question has changed, and is asked again.
    pub async fn apply_carried_answer(&self) -> Result<(), CallFailure> {
        let (endpoint, request) = (self.endpoint, self.request);
        // A state that is not ours is the server's.
        let Ok(Some(shown)) = open_request_state(endpoint, request) else { return Ok(()) };
        let (_, questions) = open_questions(endpoint, request, &shown.execution, None).await?;
        let is_shown = |question: &&PersonQuestion| ShownQuestion::from_question(question) == shown;
        // A question that is open no longer has its answer, or none is possible.
        let Some(question) = questions.iter().find(is_shown) else { return Ok(()) };
        match put_question(endpoint, request, question, None).await? {
            QuestionOutcome::Answered(_) => Ok(()),
            QuestionOutcome::InputRequired(result) => Err(CallFailure::InputRequired(result)),
            QuestionOutcome::NoAnswer => {
                Err(CallFailure::refused("the person gave no answer; nothing was sent"))
            }
        }
    }

    /// Whether the state that a repeated call brings is of a question of ours.
    pub fn carries_own_state(&self) -> bool {
        matches!(open_request_state(self.endpoint, self.request), Ok(Some(_)))
    }

    /// Asks a person about a call, and returns what is decided.
    pub async fn ask(&mut self, waiting: &WaitingCall<'_>) -> Result<CallDecision, CallFailure> {
        let via = self.proxy.settings.ask.via;
        let asks_here = via == AskVia::Client && self.request.asks_a_person();
        match via {
            AskVia::Client if asks_here && self.request.is_sessionless() => {
                Err(self.ask_by_result(waiting).await?)
            }
            AskVia::Client if asks_here => self.ask_in_dialog(waiting).await,
            AskVia::Client | AskVia::Hold => Ok(self.hold(waiting, self.hold_time()).await?),
            AskVia::Refuse => Ok(self.hold(waiting, Duration::ZERO).await?),
        }
    }

    /// The question about the call, as people read it.
    async fn question(&self, waiting: &WaitingCall<'_>) -> Result<Option<PersonQuestion>, Error> {
        let (_, questions) = open_questions(self.endpoint, self.request, waiting.part.id(), None).await?;
        let is_of_call = |question: &PersonQuestion| {
            question.waiting.step.as_ref().is_some_and(|step| step.as_str() == waiting.step)
        };
        Ok(questions.into_iter().find(is_of_call))
    }

    /// The result that has the client ask its person. The call itself waits no longer: the repeated one spends the yes.
    async fn ask_by_result(&self, waiting: &WaitingCall<'_>) -> Result<CallFailure, Error> {
        self.stop_waiting(waiting).await?;
        let Some(question) = self.question(waiting).await? else {
            return Ok(CallFailure::refused("the question about this call is open no longer; call again"));
        };
        Ok(match put_question(self.endpoint, self.request, &question, None).await? {
            QuestionOutcome::InputRequired(result) => CallFailure::InputRequired(result),
            QuestionOutcome::Answered(_) | QuestionOutcome::NoAnswer => {
                CallFailure::refused("the person gave no answer; nothing was sent")
            }
        })
    }

    /// Has the client ask its person while the call waits. An answer from elsewhere counts too.
    async fn ask_in_dialog(&mut self, waiting: &WaitingCall<'_>) -> Result<CallDecision, CallFailure> {
        let Some(question) = self.question(waiting).await? else {
            return Ok(self.hold(waiting, Duration::ZERO).await?);
        };
        let asked = put_question(self.endpoint, self.request, &question, None);
        let guard = self.proxy.guard(self.endpoint);
        let elsewhere = guard.await_answer(
            &self.request.caller,
            waiting.part,
            waiting.step,
            waiting.call,
            self.proxy.settings.ask.hold,
        );
        tokio::select! {
            decided = elsewhere => Ok(decided?),
            asked = asked => match asked {
                Ok(QuestionOutcome::Answered(_)) => Ok(self.hold(waiting, Duration::ZERO).await?),
                Ok(QuestionOutcome::InputRequired(result)) => Err(CallFailure::InputRequired(result)),
                Ok(QuestionOutcome::NoAnswer) => {
                    self.stop_waiting(waiting).await?;
                    Err(CallFailure::refused("the person gave no answer; nothing was sent"))
                }
                // The client showed nothing: the person can still answer elsewhere.
                Err(error) if is_dialog_failure(&error) => Ok(self.hold(waiting, self.hold_time()).await?),
                Err(error) => Err(error.into()),
            },
        }
    }

    /// How long the call waits: as long as the config says if the client hears meanwhile that it does.
    fn hold_time(&self) -> Duration {
        let hold = self.proxy.settings.ask.hold;
        let hears = self.request.context.meta.get_progress_token().is_some();
        if hears { hold } else { hold.min(SILENT_HOLD) }
    }

    /// Waits for an answer from elsewhere, at most for `hold`.
    async fn hold(&mut self, waiting: &WaitingCall<'_>, hold: Duration) -> Result<CallDecision, Error> {
        let guard = self.proxy.guard(self.endpoint);
        let answered =
            guard.await_answer(&self.request.caller, waiting.part, waiting.step, waiting.call, hold);
        tokio::pin!(answered);
        let message = format!("waits for approval: {}", waiting.say);
        // The first tick comes at once.
        let mut ticks = tokio::time::interval(WAITING_INTERVAL);
        loop {
            tokio::select! {
                decided = &mut answered => return decided,
                _ = ticks.tick(), if !hold.is_zero() => self.progress.notify_waiting(&message),
                () = self.request.context.ct.cancelled() => break,
            }
        }
        self.stop_waiting(waiting).await?;
        Ok(CallDecision::Refused { say: "the client cancelled the call".to_owned() })
    }

    async fn stop_waiting(&self, waiting: &WaitingCall<'_>) -> Result<(), Error> {
        let sessions = self.endpoint.service().sessions();
        sessions.stop_waiting(&self.request.caller, waiting.part, waiting.step).await
    }
}

impl From<InputRequiredResult> for CallFailure {
    fn from(result: InputRequiredResult) -> Self {
        Self::InputRequired(result)
    }
}
