//! Guards the calls of an agent that follows no plan: each becomes a step of an open execution, judged by the config's
//! rules, journaled before and after. Hooks and the proxy use the same two functions: a call wants to happen
//! (`begin_call`), and a call has ended (`end_call`). This module holds no state that the journal does not.

mod call;
mod hook;
mod judge;
mod kept_state;
mod paths;
mod plan_match;
mod policy_test;
mod replay;
mod tool_names;

use std::collections::BTreeMap;
use std::time::Duration;

use actbook_engine::chain::Digest;
use actbook_engine::event::{CallNote, SessionStart, UndoTemplate};
use actbook_engine::execution::{CallVerdict, ReportedOutcome, SessionCall};
use actbook_engine::policy::RESTORE_TOOL;
use actbook_engine::refusal::Refusal;
use actbook_engine::rules::{DecidedBy, GuardMode, RuleEffect};
use actbook_engine::tool_policy::ToolPolicies;

use crate::caller::Caller;
use crate::config::{AskVia, Config, PlanUse};
use crate::error::Error;
use crate::service::{
    AddedCall, AddedRelayedCall, JudgedSession, LiveSession, Service, SessionKey, SessionPart,
    SessionStepState,
};

pub use call::GuardedCall;
pub use hook::{HookAnswer, HookClient, HookEvent, answer_hook};
pub use judge::is_offered;
pub use kept_state::PreparedUndo;
use plan_match::PlanMatch;
pub use policy_test::{PolicyTest, test_policy};
pub use replay::{PolicyReplay, replay_policy};

/// How often a call is judged again because the session's labels changed meanwhile, or its part was full.
const JUDGEMENTS_MAX: usize = 20;

/// How long a waiting call sleeps between two looks at its question.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// The guard of the calls of one process.
#[derive(Clone, Copy, Debug)]
pub struct Guard<'a> {
    pub service: &'a Service,
    pub config: &'a Config,
}

/// Where calls come from: a session of a client.
#[derive(Clone, Debug)]
pub struct SessionOrigin {
    pub key: SessionKey,
    /// The folder that the agent works in.
    pub folder: Option<String>,
    /// The client said that the agent starts with an empty context, so that no earlier label concerns it.
    pub is_fresh: bool,
    /// The client asks the person itself about a call that we ask about.
    pub client_asks: bool,
}

/// What becomes of a call.
#[derive(Clone, Debug)]
pub enum CallDecision {
    /// Its intent is durable: it may be made.
    Started { live: LiveSession, step: String, by_yes: bool },
    /// Its intent is durable, and the client asks its person before it makes the call.
    AskClient { say: String },
    /// It waits for a person's yes, in this part of the session.
    Waits { part: Box<SessionPart>, step: String, say: String },
    /// It must not be made.
    Refused { say: String },
}

impl Guard<'_> {
    /// A call wants to happen: judges it and journals its intent, its question or its refusal. A call that is known
    /// already, by the client's id and the same arguments, gets the same decision.
    pub async fn begin_call(
        &self,
        caller: &Caller,
        origin: &SessionOrigin,
        call: &GuardedCall,
    ) -> Result<CallDecision, Error> {
        let mut part = self.open_session(caller, origin).await?;
        let stored = self.service.sessions().as_stored(&call.arguments);
        let mut called = call.called_tool();
        called.folder = called.folder.map(|folder| self.service.sessions().as_stored_folder(folder));
        if let Some(known) = part.find_call(&called, call.id.as_deref(), &stored) {
            return self.decision_about(&part, &known, None).await;
        }
        let planned = self.match_plan(&part, call).await?;
        for _ in 0..JUDGEMENTS_MAX {
            let now = self.service.sessions().now_ms();
            let session = part.judged_with((&call.tool, &stored), call.agent.clone(), now);
            let (session_call, say) =
                self.judge_call(caller, origin, session, call, &planned, part.id()).await;
            let added = match self.service.sessions().add_call(caller, &part, session_call).await? {
                AddedCall::Step(added) => added,
                AddedCall::JudgeAgain => {
                    part = self.service.sessions().reload(&part).await?;
                    continue;
                }
                AddedCall::PartOver => {
                    part = self.service.sessions().start_successor(caller, &part).await?;
                    continue;
                }
            };
            part = self.service.sessions().reload(&part).await?;
            return self.decision_about(&part, &added, say).await;
        }
        Err(Refusal::LabelsMoved.into())
    }

    /// The call as it is judged: with the names that the config has, and with the beginning of arguments that are too large.
    pub fn recognise(&self, call: GuardedCall) -> GuardedCall {
        let call = call.with_config_names(self.config);
        match self.service.sessions().cut_arguments(&call.arguments) {
            Some(arguments) => GuardedCall { arguments, is_cut: true, ..call },
            None => call,
        }
    }

    /// Like `begin_call`, for a call that this process sends. `live`: the session, if a call of it was sent before.
    pub async fn begin_relayed_call(
        &self,
        caller: &Caller,
        origin: &SessionOrigin,
        live: Option<LiveSession>,
        call: &GuardedCall,
    ) -> Result<CallDecision, Error> {
        let sessions = self.service.sessions();
        let stored = sessions.as_stored(&call.arguments);
        let mut live = match live {
            Some(live) => live,
            None => self.open_session(caller, origin).await?.live(),
        };
        let planned = if self.config.guard().plan == PlanUse::Off {
            PlanMatch::default()
        } else {
            self.match_plan(&sessions.part_of(&live).await?, call).await?
        };
        for _ in 0..JUDGEMENTS_MAX {
            let session = sessions.live_state(&live, (&call.tool, &stored))?;
            let (session_call, say) =
                self.judge_call(caller, origin, session, call, &planned, live.id()).await;
            match sessions.add_relayed_call(caller, &live, session_call).await? {
                AddedRelayedCall::Started { step } => {
                    return Ok(CallDecision::Started { live, step, by_yes: false });
                }
                AddedRelayedCall::NotStarted { step } => {
                    return self.decision_about(&sessions.part_of(&live).await?, &step, say).await;
                }
                AddedRelayedCall::JudgeAgain => {}
                AddedRelayedCall::PartOver => {
                    let part = sessions.part_of(&live).await?;
                    live = sessions.start_successor(caller, &part).await?.live();
                }
            }
        }
        Err(Refusal::LabelsMoved.into())
    }

    /// Waits until a person has answered about the call, or for `hold`; then the call may start, or is refused.
    pub async fn await_answer(
        &self,
        caller: &Caller,
        part: &SessionPart,
        step: &str,
        call: &GuardedCall,
        hold: Duration,
    ) -> Result<CallDecision, Error> {
        let deadline = tokio::time::Instant::now() + hold;
        loop {
            let part = self.service.sessions().reload(part).await?;
            match self.service.sessions().state_of(&part, step).await? {
                SessionStepState::Waits if tokio::time::Instant::now() >= deadline => {
                    self.service.sessions().stop_waiting(caller, &part, step).await?;
                    return Ok(CallDecision::Refused { say: approve_advice(part.id(), step) });
                }
                SessionStepState::Waits => tokio::time::sleep(LOOK_AGAIN).await,
                SessionStepState::Approved => {
                    let before = self.prepare_undo(part.id(), call).await.before;
                    self.service.sessions().start_call(caller, &part, step, before).await?;
                }
                SessionStepState::Started => {
                    let (live, step) = (part.live(), step.to_owned());
                    return Ok(CallDecision::Started { live, step, by_yes: true });
                }
                SessionStepState::Refused(say) => return Ok(refused(say)),
            }
        }
    }

    /// A call has ended. One that was never seen to begin is recorded as such.
    pub async fn end_call(
        &self,
        caller: &Caller,
        origin: &SessionOrigin,
        call: &GuardedCall,
        outcome: ReportedOutcome,
    ) -> Result<(), Error> {
        if self.end_known_call(caller, origin, call, outcome.clone()).await? {
            return Ok(());
        }
        let part = self.open_session(caller, origin).await?;
        let (part, step) = self.add_unseen_call(caller, part, call).await?;
        self.service.sessions().end_call(caller, &part, &step, outcome, None).await
    }

    /// Records how a call ended that was seen to begin; `false`: it was not. It may be the last one of an earlier part.
    pub async fn end_known_call(
        &self,
        caller: &Caller,
        origin: &SessionOrigin,
        call: &GuardedCall,
        outcome: ReportedOutcome,
    ) -> Result<bool, Error> {
        let stored = self.service.sessions().as_stored(&call.arguments);
        for part in self.newest_parts(origin).await? {
            if let Some(step) = part.find_open_call(&call.tool, call.id.as_deref(), &stored) {
                let after = self.state_after(&part, &step).await?;
                self.service.sessions().end_call(caller, &part, &step, outcome.clone(), after).await?;
                if let Some(matched) = part.matched(&step) {
                    self.service.sessions().report_matched(caller, &matched, &outcome).await?;
                }
                if !part.is_of_arguments(&step, &stored) {
                    self.service.sessions().record_rewritten(caller, &part, &step, stored).await?;
                }
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The newest part of the session and the one before it, where calls may be in flight.
    async fn newest_parts(&self, origin: &SessionOrigin) -> Result<Vec<SessionPart>, Error> {
        let Some(newest) = self.service.sessions().current(&origin.key).await? else { return Ok(Vec::new()) };
        let previous = self.service.sessions().previous(&newest).await?;
        Ok([newest].into_iter().chain(previous).collect())
    }

    /// Makes the calls in flight of this subagent (`None`: of all) unknown: no report on them will come.
    pub async fn give_up_calls(
        &self,
        caller: &Caller,
        origin: &SessionOrigin,
        agent: Option<&str>,
    ) -> Result<(), Error> {
        for part in self.newest_parts(origin).await? {
            for step in part.open_calls(agent) {
                let after = self.state_after(&part, &step).await?;
                self.service.sessions().give_up_call(caller, &part, &step, after).await?;
            }
        }
        Ok(())
    }

    /// The session ends.
    pub async fn close(&self, caller: &Caller, origin: &SessionOrigin, reason: &str) -> Result<(), Error> {
        self.give_up_calls(caller, origin, None).await?;
        match self.service.sessions().current(&origin.key).await? {
            Some(part) if part.is_open() => self.service.sessions().close(caller, &part, reason).await?,
            Some(_) | None => {}
        }
        self.remove_unneeded_files().await
    }

    /// The newest part of the session; a session that begins gets the labels that concern it.
    pub async fn open_session(&self, caller: &Caller, origin: &SessionOrigin) -> Result<SessionPart, Error> {
        if let Some(part) = self.service.sessions().current(&origin.key).await? {
            return Ok(part);
        }
        let labels = if origin.is_fresh {
            Default::default()
        } else {
            self.service.sessions().recent_labels().await?
        };
        let start = SessionStart {
            client: origin.key.client.clone(),
            key: Some(origin.key.key.clone()),
            folder: origin.folder.clone(),
            labels,
            budget: self.config.guard.as_ref().and_then(|guard| guard.budget.clone()),
            ..SessionStart::default()
        };
        self.service.sessions().start(caller, &origin.key, start).await
    }

    /// The call as the engine takes it, judged and with what its undo needs, and what is said of it. `part`: the id of the
    /// part of the session, under which files are kept for the undo.
    async fn judge_call(
        &self,
        caller: &Caller,
        origin: &SessionOrigin,
        session: JudgedSession,
        call: &GuardedCall,
        planned: &PlanMatch,
        part: &str,
    ) -> (SessionCall, Option<String>) {
        let guard = self.config.guard();
        let session_call = session.call(call.called_tool(), call.arguments.clone());
        let mut judged = judge::judge_call(self, caller, session, call);
        if let Some(why) = &planned.refused {
            judge::deny(&mut judged, guard.mode, "plan", why);
        }
        if call.is_cut {
            // What is not seen whole is not what somebody approved.
            let demands_approval = call.settings(self.config).approval == Some(true);
            let mode = if demands_approval { GuardMode::Enforce } else { guard.mode };
            judge::deny(&mut judged, mode, "input-size", &judge::oversize_message());
        }
        let mut prepared = PreparedUndo::default();
        if judged.verdict != RuleEffect::Deny {
            prepared = self.prepare_undo(part, call).await;
        }
        let problem = prepared.problem.filter(|_| guard.mode == GuardMode::Enforce);
        if let Some((effect, why)) = problem.filter(|(effect, _)| *effect > judged.verdict) {
            let decided_by = DecidedBy::Rule("no_undo".to_owned());
            (judged.verdict, judged.say, judged.decided_by) = (effect, Some(why), decided_by);
        }
        let policies = self.policies(call, prepared.undo.as_ref());
        let demands_approval = policies.get(&call.tool).is_some_and(|policy| policy.approval);
        let say = judged.say.clone();
        // The config's own demand is for a yes that the journal has; a client's prompt is none.
        let asks_client = judged.verdict == RuleEffect::Ask
            && !demands_approval
            && origin.client_asks
            && guard.ask.via == AskVia::Client;
        let verdict = match judged.verdict {
            RuleEffect::Allow => CallVerdict::Allow,
            RuleEffect::Ask if asks_client => CallVerdict::Allow,
            RuleEffect::Ask => CallVerdict::Ask,
            RuleEffect::Deny => CallVerdict::Refuse { error: judge::refusal_payload(&judged) },
        };
        let expires_ms = i64::try_from(guard.ask.expires.as_millis()).unwrap_or(i64::MAX);
        let session_call = SessionCall {
            by_agent: call.relayed.is_none(),
            policies,
            servers: self.undo_servers(prepared.undo.as_ref()),
            undo: prepared.undo,
            before: prepared.before,
            adds: judge::labels_added(self.config, call),
            call: call.id.clone(),
            agent: call.agent.clone(),
            matched: planned.matched.clone(),
            verdict,
            rule: judge::deciding_rule(&judged),
            note: asks_client.then_some(CallNote::AskedInClient),
            expires_at_ms: Some(self.service.sessions().now_ms().saturating_add(expires_ms)),
            observed: guard.mode == GuardMode::Observe,
            ..session_call
        };
        (session_call, say)
    }

    /// The digests of the servers that the undo of a call needs as they are now.
    fn undo_servers(&self, undo: Option<&UndoTemplate>) -> BTreeMap<String, Digest> {
        let undo = undo.filter(|undo| undo.tool != RESTORE_TOOL);
        let tools: Vec<&str> = undo.map(|undo| undo.tool.as_str()).into_iter().collect();
        self.service.sessions().server_digests(&tools)
    }

    /// The config's policies for a call's tool, and for the tool that undoes the call.
    fn policies(&self, call: &GuardedCall, undo: Option<&UndoTemplate>) -> ToolPolicies {
        let catalog = self.service.catalog();
        let mut policy = match &call.relayed {
            Some(tool) => catalog.relayed_policy(tool),
            None => catalog.session_policy(&call.tool),
        };
        if !call.may_be.is_empty() {
            let settings = call.settings(self.config);
            policy.approval |= settings.approval == Some(true);
            (policy.read_only, policy.idempotent) = (settings.read_only, settings.idempotent);
        }
        if judge::is_read_only(self.config, call) {
            policy.read_only = Some(true);
        }
        let of_undo = undo.filter(|undo| undo.tool != RESTORE_TOOL);
        let of_undo = of_undo.map(|undo| (undo.tool.clone(), catalog.session_policy(&undo.tool)));
        of_undo.into_iter().chain([(call.tool.clone(), policy)]).collect()
    }

    /// The decision about a call from the state of its step.
    async fn decision_about(
        &self,
        part: &SessionPart,
        step: &str,
        say: Option<String>,
    ) -> Result<CallDecision, Error> {
        let say = say.unwrap_or_else(|| "the rules of Actbook ask about this call".to_owned());
        let step = step.to_owned();
        Ok(match self.service.sessions().state_of(part, &step).await? {
            SessionStepState::Started if part.is_asked_in_client(&step) => CallDecision::AskClient { say },
            SessionStepState::Started => {
                let by_yes = part.has_spent_yes(&step);
                CallDecision::Started { live: part.live(), step, by_yes }
            }
            SessionStepState::Waits | SessionStepState::Approved => {
                CallDecision::Waits { part: Box::new(part.clone()), step, say }
            }
            SessionStepState::Refused(say) => refused(say),
        })
    }

    /// Adds a call of which only the end is seen: it has happened, so no rule is asked.
    async fn add_unseen_call(
        &self,
        caller: &Caller,
        part: SessionPart,
        call: &GuardedCall,
    ) -> Result<(SessionPart, String), Error> {
        let stored = self.service.sessions().as_stored(&call.arguments);
        let mut part = part;
        for _ in 0..JUDGEMENTS_MAX {
            let session = part.judged_with((&call.tool, &stored), None, self.service.sessions().now_ms());
            let session_call = SessionCall {
                by_agent: call.relayed.is_none(),
                adds: judge::labels_added(self.config, call),
                call: call.id.clone(),
                agent: call.agent.clone(),
                note: Some(CallNote::NotSeen),
                observed: true,
                ..session.call(call.called_tool(), call.arguments.clone())
            };
            match self.service.sessions().add_call(caller, &part, session_call).await? {
                AddedCall::Step(step) => return Ok((self.service.sessions().reload(&part).await?, step)),
                AddedCall::JudgeAgain => part = self.service.sessions().reload(&part).await?,
                AddedCall::PartOver => part = self.service.sessions().start_successor(caller, &part).await?,
            }
        }
        Err(Refusal::LabelsMoved.into())
    }
}

/// The refusal of a call.
fn refused(say: Option<String>) -> CallDecision {
    CallDecision::Refused { say: say.unwrap_or_else(|| "the call was given up".to_owned()) }
}

/// What an agent is told if no person answered in time about its call.
fn approve_advice(execution: &str, step: &str) -> String {
    format!(
        "nobody has answered yet: a person approves this call with `actbook approve {execution} {step}`; then make the \
         same call again"
    )
}
