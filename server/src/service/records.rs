//! What agents put on record: reports of their steps, acts outside the plan, decisions, compensations
//! that they did themselves.

use std::time::Duration;

use actbook_engine::event::Reported;
use actbook_engine::execution::{Command, Facts, Report, Reporter};
use actbook_engine::id::Position;
use actbook_engine::plan::{Finding, Plan};
use actbook_engine::policy::Category;
use serde_json::Value;

use super::Service;
use super::executions::Found;
use crate::caller::Caller;
use crate::error::Error;
use crate::ledger::{Progress, Reply, Request};
use crate::random;

/// A driver is given this long to go on from a report before its caller is answered.
const REST_LIMIT: Duration = Duration::from_secs(2);

/// What an agent did. Without an execution it belongs to none; without a step it is outside the plan.
#[derive(Clone, Debug, Default)]
pub struct Action {
    pub execution: Option<String>,
    pub step: Option<String>,
    pub status: Option<Reported>,
    pub output: Option<Value>,
    pub facts: Facts,
    /// Wants the step though another agent has started it, whose claim has lapsed.
    pub take_over: bool,
}

#[derive(Clone, Debug)]
pub struct Decision {
    /// `stop` and `continue` act.
    pub decision: String,
    pub reason: Option<String>,
    pub step: Option<String>,
    pub details: Option<Value>,
}

/// Where it was put down.
#[derive(Debug)]
pub enum Noted {
    In(Found, Box<Progress>),
    /// In no execution: the entry's position.
    Alone(Position),
}

impl Service {
    pub async fn record_action(&self, caller: &Caller, action: Action) -> Result<Noted, Error> {
        let Action { execution, step, status, output, facts, take_over } = action;
        let Some(id) = execution else {
            return self.record_alone(caller, step, status, Facts { output, ..facts }).await;
        };
        let command = match (step, status) {
            (Some(step), Some(Reported::Compensated)) => {
                Command::RecordCompensation { step, done: true, facts: Box::new(Facts { output, ..facts }) }
            }
            (Some(step), Some(status)) => {
                let report = report(status, output, &facts)?;
                let by = Some(self.reporter(caller, take_over));
                Command::Record { step, report, facts: Box::new(facts), by }
            }
            (step, status) => Command::Note { step, status, facts: Box::new(Facts { output, ..facts }) },
        };
        let (found, progress) = self.tell_in_turn(caller, &id, command).await?;
        Ok(Noted::In(found, Box::new(progress)))
    }

    fn reporter(&self, caller: &Caller, takes_over: bool) -> Reporter {
        let (holder, is_person) = (caller.holder(), !caller.is_agent());
        Reporter { holder, is_person, takes_over, at_ms: self.ledger.clock().now_ms() }
    }

    pub async fn record_decision(
        &self,
        caller: &Caller,
        id: &str,
        decision: Decision,
    ) -> Result<(Found, Progress), Error> {
        let Decision { decision, reason, step, details } = decision;
        self.tell_in_turn(caller, id, Command::RecordDecision { decision, reason, step, details }).await
    }

    /// `done`: false where the agent tried, and could not.
    pub async fn record_compensation(
        &self,
        caller: &Caller,
        id: &str,
        step: String,
        done: bool,
        facts: Facts,
    ) -> Result<(Found, Progress), Error> {
        self.tell_in_turn(caller, id, Command::RecordCompensation { step, done, facts: Box::new(facts) })
            .await
    }

    async fn record_alone(
        &self,
        caller: &Caller,
        step: Option<String>,
        status: Option<Reported>,
        facts: Facts,
    ) -> Result<Noted, Error> {
        if step.is_some() {
            let message = "a step belongs to an execution, and none is named";
            return Err(Error::new("no_execution", message, "name the execution, or leave the step out"));
        }
        let salt = random::bytes::<16>().to_vec().into();
        let project = Some(self.project().to_owned());
        let request = Request::Act { facts: Box::new(facts), status, project, salt };
        match self.ask(caller, request).await? {
            Reply::Recorded(position) => Ok(Noted::Alone(position)),
            Reply::Repeated(result) => {
                let strange = || format!("a key gave the position `{result}`");
                let position =
                    result.parse().map_err(|_| Error::new("corrupt", strange(), "run `actbook verify`"))?;
                Ok(Noted::Alone(Position(position)))
            }
            Reply::Saved { .. } | Reply::Deleted | Reply::Accepted { .. } | Reply::Moved(_) => {
                unreachable!("an act gives its place")
            }
        }
    }

    /// In record mode the agent does every step itself: a step that Actbook would do is a mistake.
    pub fn check_recordable(&self, plan: &Plan) -> Result<(), Error> {
        let steps = plan.steps.iter().enumerate().filter(|(_, step)| !step.by_agent());
        let findings: Vec<Finding> = steps
            .map(|(index, step)| {
                let message = format!("step `{}` would be called by Actbook", step.id);
                let cure = "mark it `by: agent` and call the tool yourself";
                Finding::error("not_the_agents", format!("steps[{index}].tool"), message, cure)
            })
            .collect();
        match findings.is_empty() {
            true => Ok(()),
            false => Err(Error::findings("the plan is not one that an agent records", findings)),
        }
    }

    /// A report may overtake the driver that is about to make its step due, and its caller wants to see
    /// what is due next: so the driver is waited for before and after.
    async fn tell_in_turn(
        &self,
        caller: &Caller,
        id: &str,
        command: Command,
    ) -> Result<(Found, Progress), Error> {
        let found = self.find(id).await?;
        let stream = found.stream;
        let progress = match self.command(caller, stream, command.clone()).await {
            Err(early) if early.code == "not_awaited" => {
                self.come_to_rest(stream, found.seat.as_deref()).await?;
                self.command(caller, stream, command).await
            }
            told => told,
        }?;
        self.come_to_rest(stream, progress.seat.as_ref().map(|seat| seat.as_str())).await?;
        Ok((found, progress))
    }

    /// Waits until a living driver on `seat` has done what follows by itself.
    async fn come_to_rest(&self, stream: u64, seat: Option<&str>) -> Result<(), Error> {
        let Some(seat) = seat else { return Ok(()) };
        let is_own = self.runner.get().is_some_and(|runner| runner.seat_id().as_str() == seat);
        let is_driven =
            if is_own { self.ledger.is_watched(stream) } else { self.living(seat).await?.is_some() };
        if !is_driven {
            return Ok(());
        }
        let mut watching = self.watch_stream(stream)?;
        let rest = async {
            while watching.execution().goes_on(self.ledger.clock().now_ms()) {
                watching.moved().await?;
            }
            Ok(())
        };
        // Past the limit the answer shows what is so, and that is not wrong.
        tokio::time::timeout(REST_LIMIT, rest).await.unwrap_or(Ok(()))
    }
}

fn report(status: Reported, output: Option<Value>, facts: &Facts) -> Result<Report, Error> {
    match (status, output) {
        (Reported::Succeeded, output) => Ok(Report::Succeeded { output }),
        (Reported::Compensated, output) => Ok(Report::Compensated { output }),
        (Reported::Started, None) => Ok(Report::Started),
        (Reported::Failed, None) => {
            let told = [&facts.error, &facts.reason, &facts.description];
            let reason = told.into_iter().find_map(Clone::clone);
            Ok(Report::Failed { reason, category: Category::ToolError })
        }
        (Reported::Started | Reported::Failed, Some(_)) => {
            let message = format!("an output does not go with `{status}`");
            let cure = "give one with `succeeded` or `compensated`; nothing was recorded";
            Err(Error::new("does_not_fit", message, cure))
        }
    }
}
