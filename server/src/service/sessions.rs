//! Guarded sessions: open executions whose plan grows with each call of an agent. A session is found by the client's
//! own id of it; its parts follow one another, each an execution of its own.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use actbook_engine::chain::{Digest, with_sorted_keys};
use actbook_engine::event::{CallNote, MatchedStep, SessionStart, StateRead};
use actbook_engine::execution::{
    ActionFacts, ApprovalAnswer, CallAnswer, Command, Execution, FACTS_BYTES_MAX, LoadedPayloads,
    ReportedOutcome, SessionCall, SessionCommand, SessionState,
};
use actbook_engine::id::{ExecutionId, NodeId, StepNo, StreamId};
use actbook_engine::plan::{Plan, StepWork};
use actbook_engine::policy::{ErrorCategory, StepStatus};
use actbook_engine::refusal::Refusal;
use serde_json::{Value, json};

use super::Service;
use super::judged_session::{CalledTool, JudgedSession};
use super::kept_states::leaves_targets_unchanged;
use super::relayed_calls::LiveSession;
use crate::caller::Caller;
use crate::error::Error;
use crate::ledger::{DriveState, KeyedReply, StartSessionRequest};
use crate::random;
use crate::store::executions;
use crate::tools::{OUTPUT_BYTES_MAX, truncate_message, truncate_output};

/// For how long the labels of a project's earlier sessions concern a new one.
pub(super) const LABELS_LAST: Duration = Duration::from_secs(24 * 60 * 60);

/// Most bytes of a call's arguments, as JSON: what is stored must fit into a line of an export.
pub const ARGUMENTS_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Guarded sessions: finding, starting and ending them, and the calls in them.
#[derive(Clone, Copy, Debug)]
pub struct Sessions<'a>(pub(super) &'a Service);

/// A session by the client's own id of it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SessionKey {
    /// The client, such as `claude-code`.
    pub client: String,
    pub key: String,
}

/// One part of a session, as it was when it was read.
#[derive(Clone, Debug)]
pub struct SessionPart {
    pub(super) stream: StreamId,
    key: SessionKey,
    /// The number of the part, from 1.
    number: u32,
    execution: Arc<Execution>,
}

/// The result of adding a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AddedCall {
    /// The step of the call.
    Step(String),
    /// The session's labels are not those that the call was judged with.
    JudgeAgain,
    /// This part takes no more calls: the next one does.
    PartOver,
}

/// How far a call is, for the agent that makes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SessionStepState {
    /// Its intent is durable, or it has ended.
    Started,
    /// It waits for a person's answer.
    Waits,
    /// A person said yes; it has not started.
    Approved,
    /// It must not be made. `None`: nothing is said about it.
    Refused(Option<String>),
}

impl SessionKey {
    /// The public id of a part: derived from the key, so that two processes that start the same part name the same
    /// execution.
    fn part_id(&self, project: &str, number: u32) -> ExecutionId {
        let name = json!([project, self.client, self.key, number]).to_string();
        ExecutionId::new(random::id_of(&Digest::of(name.as_bytes()).0))
    }

    /// The name of the session's plan, as lists show it.
    fn plan_name(&self) -> String {
        format!("{} session", self.client)
    }
}

/// The salted digest of arguments, as they are stored.
pub(super) fn arguments_digest(execution: &Execution, arguments: &Value) -> Digest {
    let bytes = serde_json::to_vec(&with_sorted_keys(arguments)).expect("a JSON value always serialises");
    Digest::salted(execution.salt(), &bytes)
}

impl SessionPart {
    /// The public id of the part's execution.
    pub fn id(&self) -> &str {
        self.execution.id.as_str()
    }

    /// Whether the session has not ended.
    pub fn is_open(&self) -> bool {
        self.execution.ended.is_none()
    }

    pub(super) fn stream(&self) -> StreamId {
        self.stream
    }

    /// The session's labels.
    pub fn labels(&self) -> &BTreeSet<String> {
        &self.session().labels
    }

    /// Whether a call in flight is matched with this step of a plan.
    pub(super) fn has_matched(&self, matched: &MatchedStep) -> bool {
        let mut open = self
            .execution
            .step_numbers()
            .filter(|no| self.execution.step(*no).status() == StepStatus::AwaitingAgent);
        open.any(|no| self.session().call(no).matched.as_ref() == Some(matched))
    }

    /// The step of a plan that the step's call is matched with.
    pub fn matched(&self, step: &str) -> Option<MatchedStep> {
        self.session().call(self.find(step)?).matched.clone()
    }

    pub(super) fn session(&self) -> &SessionState {
        self.execution.session.as_deref().expect("a part is an open execution")
    }

    /// What a call of this tool with these arguments, as they are stored, is judged with; `agent`: the subagent that calls.
    pub fn judged_with(&self, call: (&str, &Value), agent: Option<String>, now_ms: i64) -> JudgedSession {
        JudgedSession::of(&self.execution, call, agent, now_ms)
    }

    /// The part as the process that sends its calls needs it.
    pub fn live(&self) -> LiveSession {
        let id = self.execution.id.clone();
        LiveSession { stream: self.stream, key: self.key.clone(), number: self.number, id }
    }

    /// The step of this call with the client's id `call` and these arguments, as they are stored. One that was made and
    /// has ended is not found: the same call again is another one.
    pub fn find_call(&self, called: &CalledTool, call: Option<&str>, arguments: &Value) -> Option<String> {
        let no = self.execution.find_call(call?)?;
        let (step, record) = (self.execution.step(no), self.session().call(no));
        let has_ended = !step.attempts.is_empty() && step.status() != StepStatus::AwaitingAgent;
        let is_same = self.execution.plan.step(no).tool() == Some(&called.tool)
            && record.client_tool == called.client_tool
            && record.folder == called.folder
            && self.has_arguments(no, arguments);
        (is_same && !has_ended).then(|| self.execution.step_id(no).to_string())
    }

    /// The step of the call in flight that ends: by the client's id, or else the oldest equal one. A call whose prompt
    /// the client showed, or that waits, is found too.
    pub fn find_open_call(&self, tool: &str, call: Option<&str>, arguments: &Value) -> Option<String> {
        let by_id = call.and_then(|call| self.execution.find_call(call));
        let is_open = |no: &StepNo| {
            self.execution.step(*no).status() == StepStatus::AwaitingAgent
                && self.execution.plan.step(*no).tool() == Some(tool)
                && self.has_arguments(*no, arguments)
        };
        let started = |no: &StepNo| !self.execution.step(*no).attempts.is_empty();
        let no = match call {
            Some(_) => by_id.filter(started),
            None => self.execution.step_numbers().find(is_open),
        };
        no.map(|no| self.execution.step_id(no).to_string())
    }

    /// The steps whose call the client has in flight for this subagent (`None`: for any).
    pub fn open_calls(&self, agent: Option<&str>) -> Vec<String> {
        let is_open = |no: &StepNo| {
            let of_agent = agent.is_none() || self.session().call(*no).agent.as_deref() == agent;
            of_agent && self.execution.step(*no).status() == StepStatus::AwaitingAgent
        };
        let open = self.execution.step_numbers().filter(is_open);
        open.map(|no| self.execution.step_id(no).to_string()).collect()
    }

    /// Whether the client asked its person about the call.
    pub fn is_asked_in_client(&self, step: &str) -> bool {
        self.find(step).is_some_and(|no| self.session().call(no).note == Some(CallNote::AskedInClient))
    }

    /// Whether the call started because a person said yes to it, or to an equal one.
    pub fn has_spent_yes(&self, step: &str) -> bool {
        self.find(step).is_some_and(|no| self.execution.step(no).is_approved())
    }

    /// Whether the call has an id of the client, is of one of these tools, and began or was refused since `since_ms`, or
    /// still waits for a person.
    fn is_recent_call(&self, no: StepNo, tools: &[&str], since_ms: i64) -> bool {
        let step = self.execution.step(no);
        let at_ms = step.attempts.first().map(|attempt| attempt.started_at_ms).or(step.ended_at_ms);
        let is_recent = at_ms.is_some_and(|at_ms| at_ms >= since_ms);
        let is_of_tool = self.execution.plan.step(no).tool().is_some_and(|tool| tools.contains(&tool));
        let has_id = self.session().call(no).call.is_some();
        is_of_tool && has_id && (is_recent || step.status() == StepStatus::AwaitingApproval)
    }

    /// Whether Actbook sends the call, and not the agent's client.
    fn is_sent_here(&self, step: &str) -> bool {
        self.find(step).is_some_and(|no| matches!(self.execution.plan.step(no).work, StepWork::Tool { .. }))
    }

    /// How the state after the step's call is read, for the undo that the config gives.
    pub fn undo_check(&self, step: &str) -> Option<StateRead> {
        self.find(step).and_then(|no| self.session().call(no).check.clone())
    }

    pub(super) fn find(&self, step: &str) -> Option<StepNo> {
        self.execution.plan.find_step(step)
    }

    /// Whether the step's call was decided with these arguments, as they are stored.
    pub fn is_of_arguments(&self, step: &str, arguments: &Value) -> bool {
        self.find(step).is_some_and(|no| self.has_arguments(no, arguments))
    }

    fn digest(&self, arguments: &Value) -> Digest {
        arguments_digest(&self.execution, arguments)
    }

    fn has_arguments(&self, no: StepNo, arguments: &Value) -> bool {
        let digest = self.digest(arguments);
        self.execution.step(no).literal_arguments.is_some_and(|stored| stored.digest.digest == digest)
    }
}

impl Sessions<'_> {
    pub(super) async fn command(
        self,
        caller: &Caller,
        part: &SessionPart,
        command: SessionCommand,
    ) -> Result<DriveState, Error> {
        self.0.executions().command(caller, part.stream, Command::Session(command)).await
    }

    /// The journal's time, in Unix milliseconds.
    pub fn now_ms(self) -> i64 {
        self.0.ledger.clock().now_ms()
    }

    /// Arguments as they are stored: without known secrets.
    pub fn as_stored(self, arguments: &Value) -> Value {
        let mut stored = arguments.clone();
        self.0.tools.redact(&mut stored);
        stored
    }

    /// The folder of a call, as it is stored.
    pub fn as_stored_folder(self, mut folder: String) -> String {
        self.0.tools.redact_text(&mut folder);
        folder
    }

    /// What a client says that a tool returned, as it is stored: without known secrets, and cut like what tools return to
    /// Actbook.
    pub fn as_stored_output(self, output: &Value) -> Value {
        truncate_output(self.as_stored(output), OUTPUT_BYTES_MAX)
    }

    /// A text of a client, as it is stored.
    pub fn as_stored_message(self, message: &str) -> String {
        let mut stored = message.to_owned();
        self.0.tools.redact_text(&mut stored);
        truncate_message(stored)
    }

    /// The beginning of arguments that are too large to be stored and judged; `None`: they are not.
    pub fn cut_arguments(self, arguments: &Value) -> Option<Value> {
        let is_large = arguments.to_string().len() > ARGUMENTS_BYTES_MAX;
        is_large.then(|| self.as_stored_output(arguments))
    }

    /// The part as it is now.
    pub async fn part_of(self, live: &LiveSession) -> Result<SessionPart, Error> {
        let execution = self.0.executions().fold(live.stream).await?;
        Ok(SessionPart { stream: live.stream, key: live.key.clone(), number: live.number, execution })
    }

    /// The process as the journal names it.
    pub(super) async fn node(self) -> Result<NodeId, Error> {
        Ok(self.0.runner.open().await?.node_id())
    }

    /// The newest part of a session. `None`: it has not begun.
    pub async fn current(self, key: &SessionKey) -> Result<Option<SessionPart>, Error> {
        let mut newest = None;
        for number in 1.. {
            let Some(part) = self.find_part(key, number).await? else { break };
            let is_over = part.execution.is_session_part_over();
            newest = Some(part);
            if !is_over {
                break;
            }
        }
        Ok(newest)
    }

    /// The part before this one; `None`: this is the first.
    pub async fn previous(self, part: &SessionPart) -> Result<Option<SessionPart>, Error> {
        match part.number {
            0 | 1 => Ok(None),
            number => self.find_part(&part.key, number - 1).await,
        }
    }

    /// The newest call of one of these tools that has an id of the client, began or was refused since `since_ms` or
    /// still waits for a person, and whose arguments `fit`.
    pub async fn find_recent_call(
        self,
        part: &SessionPart,
        tools: &[&str],
        since_ms: i64,
        fit: impl Fn(&Value) -> bool,
    ) -> Result<Option<String>, Error> {
        let is_recent = |no: &StepNo| part.is_recent_call(*no, tools, since_ms);
        let mut recent: Vec<StepNo> = part.execution.step_numbers().filter(is_recent).collect();
        while let Some(no) = recent.pop() {
            let Some(stored) = part.execution.step(no).literal_arguments else { continue };
            let mut values = LoadedPayloads::default();
            self.0.executions().load_values(vec![stored.position], &mut values).await?;
            if values.0.get(&stored.position).is_some_and(|arguments| fit(arguments)) {
                return Ok(Some(part.execution.step_id(no).to_string()));
            }
        }
        Ok(None)
    }

    async fn find_part(self, key: &SessionKey, number: u32) -> Result<Option<SessionPart>, Error> {
        let id = key.part_id(&self.0.project, number);
        let found = executions::by_public_id(self.0.tenant, id.as_str()).first(&self.0.db).await?;
        let Some(row) = found else { return Ok(None) };
        let execution = self.0.executions().fold(row.id).await?;
        Ok(Some(SessionPart { stream: row.id, key: key.clone(), number, execution }))
    }

    /// The id of this part of a session; `None`: there is none.
    pub(super) async fn part_with_number(
        self,
        key: &SessionKey,
        project: &str,
        number: u32,
    ) -> Result<Option<String>, Error> {
        let id = key.part_id(project, number);
        let found = executions::by_public_id(self.0.tenant, id.as_str()).first(&self.0.db).await?;
        Ok(found.map(|_| id.to_string()))
    }

    /// The part as it is now.
    pub async fn reload(self, part: &SessionPart) -> Result<SessionPart, Error> {
        let execution = self.0.executions().fold(part.stream).await?;
        Ok(SessionPart { execution, ..part.clone() })
    }

    /// Starts the first part of a session; one that another process has started meanwhile is returned instead.
    pub async fn start(
        self,
        caller: &Caller,
        key: &SessionKey,
        start: SessionStart,
    ) -> Result<SessionPart, Error> {
        self.start_part(caller, key, 1, start).await
    }

    /// Starts the part after this one, which inherits labels, counts and budget.
    pub async fn start_successor(self, caller: &Caller, part: &SessionPart) -> Result<SessionPart, Error> {
        let part = self.reload(part).await?;
        let start = part.execution.successor_start().expect("a part is an open execution");
        self.start_part(caller, &part.key, part.number + 1, start).await
    }

    async fn start_part(
        self,
        caller: &Caller,
        key: &SessionKey,
        number: u32,
        session: SessionStart,
    ) -> Result<SessionPart, Error> {
        let plan = Arc::new(Plan::of_session(&key.plan_name()));
        let request = StartSessionRequest {
            id: key.part_id(&self.0.project, number),
            context: self.0.executions().start_context(&plan),
            plan,
            session,
            salt: random::bytes::<16>().to_vec().into(),
        };
        let KeyedReply::First(progress) = self.0.submit(caller, request).await? else {
            return Err(Error::Bug("a session was started under a request key".to_owned()));
        };
        let execution = self.0.executions().fold(progress.stream).await?;
        Ok(SessionPart { stream: progress.stream, key: key.clone(), number, execution })
    }

    /// The labels of the project's sessions of the last day.
    pub async fn recent_labels(self) -> Result<BTreeSet<String>, Error> {
        let since_ms = self.now_ms().saturating_sub(LABELS_LAST.as_millis() as i64);
        let recent =
            executions::sessions_since(self.0.tenant, &self.0.project, since_ms).all(&self.0.db).await?;
        let mut labels = BTreeSet::new();
        for row in recent {
            let execution = self.0.executions().fold(row.id).await?;
            labels.extend(execution.session.iter().flat_map(|session| session.labels.iter().cloned()));
        }
        Ok(labels)
    }

    /// Adds a call as a step, with its start, its question or its refusal.
    pub async fn add_call(
        self,
        caller: &Caller,
        part: &SessionPart,
        call: SessionCall,
    ) -> Result<AddedCall, Error> {
        let command = SessionCommand::AddCall(Box::new(call));
        match self.command(caller, part, command).await {
            Ok(progress) => {
                let execution = self.0.executions().fold(part.stream).await?;
                let step = execution.newest_call_up_to(progress.position);
                let step = step.ok_or_else(|| Error::Bug("a call was added without a step".to_owned()))?;
                Ok(AddedCall::Step(execution.step_id(step).to_string()))
            }
            Err(Error::Refused(Refusal::LabelsMoved)) => Ok(AddedCall::JudgeAgain),
            Err(Error::Refused(Refusal::SessionPartOver)) => Ok(AddedCall::PartOver),
            Err(error) => Err(error),
        }
    }

    /// How far a call is.
    pub async fn state_of(self, part: &SessionPart, step: &str) -> Result<SessionStepState, Error> {
        let Some(no) = part.find(step) else { return Ok(SessionStepState::Refused(None)) };
        let state = part.execution.step(no);
        if !state.attempts.is_empty() {
            return Ok(SessionStepState::Started);
        }
        let answer = part.session().questions.get(&no).map(|question| question.answer);
        let was_approved = matches!(answer, Some(CallAnswer::Yes(_) | CallAnswer::Spent | CallAnswer::Void));
        Ok(if state.status() == StepStatus::AwaitingApproval {
            SessionStepState::Waits
        } else if state.status() == StepStatus::Pending && was_approved {
            SessionStepState::Approved
        } else {
            SessionStepState::Refused(self.refusal_text(part, no).await?)
        })
    }

    /// What the entry that refused a call says; a person's reason where one said no.
    async fn refusal_text(self, part: &SessionPart, no: StepNo) -> Result<Option<String>, Error> {
        let state = part.execution.step(no);
        if let ApprovalAnswer::Rejected { reason } = &state.approval.answer {
            let because = reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
            return Ok(Some(format!("a person said no{because}")));
        }
        let Some(detail) = state.error.and_then(|error| error.detail) else { return Ok(None) };
        let mut values = LoadedPayloads::default();
        self.0.executions().load_values(vec![detail.position], &mut values).await?;
        let message = values.0.get(&detail.position).and_then(|value| value.get("message"));
        Ok(message.and_then(Value::as_str).map(str::to_owned))
    }

    /// Starts the call that has its yes. One whose yes is void by now is refused: its state says so.
    pub async fn start_call(
        self,
        caller: &Caller,
        part: &SessionPart,
        step: &str,
        before: Option<Value>,
    ) -> Result<(), Error> {
        let (labels, step) = (part.session().labels.clone(), step.to_owned());
        let node = if part.is_sent_here(&step) { Some(self.node().await?) } else { None };
        let command = SessionCommand::StartCall { step, labels, node, before };
        match self.command(caller, part, command).await {
            // It is read again, and found as it is then.
            Ok(_) | Err(Error::Refused(Refusal::LabelsMoved | Refusal::NotWaiting { .. })) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// A name for a session of a client that gives none.
    pub fn new_key(self) -> String {
        random::id()
    }

    /// The caller of a waiting call waits no longer; the question stays until it expires.
    pub async fn stop_waiting(self, caller: &Caller, part: &SessionPart, step: &str) -> Result<(), Error> {
        let command = SessionCommand::StopWaiting { step: step.to_owned() };
        self.command(caller, part, command).await.map(drop)
    }

    /// Records how a call ended, and the state after it.
    pub async fn end_call(
        self,
        caller: &Caller,
        part: &SessionPart,
        step: &str,
        outcome: ReportedOutcome,
        after: Option<Value>,
    ) -> Result<(), Error> {
        let command = SessionCommand::EndCall { step: step.to_owned(), outcome, after };
        self.command(caller, part, command).await.map(drop)
    }

    /// Records that the call was made with other arguments than those that were decided about.
    pub async fn record_rewritten(
        self,
        caller: &Caller,
        part: &SessionPart,
        step: &str,
        arguments: Value,
    ) -> Result<(), Error> {
        let is_small = arguments.to_string().len() < FACTS_BYTES_MAX / 2;
        let facts = ActionFacts {
            kind: Some("rewritten_input".to_owned()),
            description: Some(
                "the call was made with another input than the one that was decided about".to_owned(),
            ),
            details: Some(arguments).filter(|_| is_small),
            ..ActionFacts::default()
        };
        let command =
            Command::RecordAction { step: Some(step.to_owned()), status: None, facts: Box::new(facts) };
        self.0.executions().command(caller, part.stream, command).await.map(drop)
    }

    /// Records that nobody will say how a call ended. One whose files are as before did not happen.
    pub async fn give_up_call(
        self,
        caller: &Caller,
        part: &SessionPart,
        step: &str,
        after: Option<Value>,
    ) -> Result<(), Error> {
        let before = self.kept_before(part, step).await?;
        let category = ErrorCategory::Unavailable;
        let outcome = if leaves_targets_unchanged(before.as_ref(), after.as_ref()) {
            let error = json!({ "message": "it did not happen: its files are as before" });
            ReportedOutcome::Failed { category, error, unsent: true, retry_after_ms: None }
        } else {
            let error = json!({ "message": "the client has not reported how the call ended" });
            ReportedOutcome::Unknown { category, error, retry_after_ms: None }
        };
        self.end_call(caller, part, step, outcome, after).await
    }
}
