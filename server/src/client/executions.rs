//! Plans and their executions: saved, started, followed, steered, put on record, proven.

use actbook_engine::analysis::Check;
use actbook_engine::policy::Answer;
use serde_json::{Value, json};

use super::{Client, Watch};
use crate::error::Error;
use crate::service::view::{EntryView, ExecutionRow, ExecutionView, PlanView};
use crate::service::{
    Action, Brief, Decision, ExecutionFilter, Exported, Facts, Found, JournalFilter, Noted, PlanSaved,
    Progress, ServerTools, Verified,
};

/// What is said to an execution is answered with the execution as it is then: it goes on by itself, and
/// [`Client::wait`] tells what came of it.
type Said = Result<ExecutionView, Error>;

impl Client {
    /// Checks a plan, in YAML or JSON, against the tools as they are now. Calls none.
    pub async fn check_plan(&self, document: &str) -> Check {
        self.service().check(document, false).await.check
    }

    /// Checks a plan and saves it as the newest version of its name; one with errors is refused.
    pub async fn save_plan(&self, document: &str) -> Result<PlanSaved, Error> {
        let caller = self.asking(&json!(["save_plan", document]));
        self.service().save_plan(&caller, document, false).await
    }

    /// Every saved plan, in its newest version.
    pub async fn plans(&self) -> Result<Vec<PlanView>, Error> {
        self.service().plans().await
    }

    /// Takes a plan off the list, by name or id; its executions stay.
    pub async fn delete_plan(&self, plan: &str) -> Result<PlanView, Error> {
        self.service().delete_plan(&self.asking(&json!(["delete_plan", plan])), plan).await
    }

    /// Every tool that a plan can name here, with its server.
    pub async fn tools(&self) -> Vec<ServerTools> {
        self.service().list_tools().await
    }

    /// Starts an execution of a saved plan, by name or id, and gives it as it is at once; it runs in the
    /// background.
    pub async fn start(&self, plan: &str, inputs: Option<Value>) -> Result<ExecutionView, Error> {
        let id = self.begin(plan, inputs).await?;
        self.view(&id).await
    }

    /// Starts an execution of a saved plan and waits for its end or its first question.
    pub async fn run(&self, plan: &str, inputs: Option<Value>) -> Result<ExecutionView, Error> {
        let id = self.begin(plan, inputs).await?;
        self.wait(&id).await
    }

    async fn begin(&self, plan: &str, inputs: Option<Value>) -> Result<String, Error> {
        self.still_open()?;
        let caller = self.asking(&json!(["start", plan, inputs]));
        if let Some(started) = self.service().started_before(&caller).await? {
            return Ok(started.id.to_string());
        }
        let (reference, plan, _) = self.service().ready_plan(plan).await?;
        let started = self.service().start(&caller, reference, plan, inputs, true).await?;
        if started.fresh {
            self.house.background.keep(started.progress);
        }
        Ok(started.id.to_string())
    }

    /// An execution as it is: its steps, what it waits for and, where something went wrong, the brief. Ids may
    /// be shortened to a unique beginning, here and everywhere.
    pub async fn view(&self, execution: &str) -> Result<ExecutionView, Error> {
        self.service().view(execution).await
    }

    /// What undoing an execution would do now, whether or not something went wrong.
    pub async fn brief(&self, execution: &str) -> Result<Brief, Error> {
        self.service().watch(execution).await?.brief().await
    }

    /// Executions, newest first.
    pub async fn executions(&self, filter: &ExecutionFilter, limit: u64) -> Result<Vec<ExecutionRow>, Error> {
        self.service().list(filter, limit).await
    }

    /// Waits until an execution has ended, is paused, or waits for somebody. To stop waiting, drop the future.
    pub async fn wait(&self, execution: &str) -> Result<ExecutionView, Error> {
        let mut watching = self.service().watch(execution).await?;
        while !watching.is_settled() {
            watching.moved().await?;
        }
        watching.view().await
    }

    /// An execution's changes as they come, whoever makes them, to its end.
    pub async fn watch(&self, execution: &str) -> Result<Watch, Error> {
        Ok(Watch::new(self.service().watch(execution).await?))
    }

    /// Takes up now what processes that are gone have left; gives how many executions.
    pub async fn take_up(&self) -> Result<usize, Error> {
        self.still_open()?;
        self.house.background.take_up().await
    }

    /// A yes: to a step, or without one to the plan or to a proposed undo.
    pub async fn approve(&self, execution: &str, step: Option<&str>, reason: Option<&str>) -> Said {
        let caller = self.asking(&json!(["approve", execution, step, reason]));
        self.said(self.service().approve(&caller, execution, owned(step), owned(reason)).await).await
    }

    /// A no to the same. A step that was rejected has failed; a plan that was is cancelled.
    pub async fn reject(&self, execution: &str, step: Option<&str>, reason: Option<&str>) -> Said {
        let caller = self.asking(&json!(["reject", execution, step, reason]));
        self.said(self.service().reject(&caller, execution, owned(step), owned(reason)).await).await
    }

    /// Settles a step that failed or is unknown. `output` goes with `Happened`, `Skip`, and with `Retry` where
    /// the tool has asked something.
    pub async fn decide(
        &self,
        execution: &str,
        step: &str,
        answer: Answer,
        reason: Option<&str>,
        output: Option<Value>,
    ) -> Said {
        let caller = self.asking(&json!(["decide", execution, step, answer, reason, output]));
        let (step, reason) = (step.to_owned(), owned(reason));
        self.said(self.service().decide(&caller, execution, step, answer, reason, output).await).await
    }

    /// Nothing further starts; calls in flight finish.
    pub async fn pause(&self, execution: &str, reason: Option<&str>) -> Said {
        let caller = self.asking(&json!(["pause", execution, reason]));
        self.said(self.service().pause(&caller, execution, owned(reason)).await).await
    }

    /// Lifts a pause, and takes up an execution that nobody drives.
    pub async fn resume(&self, execution: &str) -> Said {
        self.still_open()?;
        self.service().at_home(execution).await?;
        let caller = self.asking(&json!(["resume", execution]));
        let found = self.house.background.resume(&caller, execution).await?;
        Ok(self.house.background.answered(&found).await?.0)
    }

    /// Nothing further starts, calls in flight are asked to stop, and nothing is undone.
    pub async fn cancel(&self, execution: &str, reason: Option<&str>) -> Said {
        let caller = self.asking(&json!(["cancel", execution, reason]));
        self.said(self.service().cancel(&caller, execution, owned(reason)).await).await
    }

    /// Takes back whatever may have run, in reverse order; also of an execution that has ended.
    pub async fn undo(&self, execution: &str, reason: Option<&str>) -> Said {
        self.still_open()?;
        self.service().at_home(execution).await?;
        let caller = self.asking(&json!(["undo", execution, reason]));
        self.said(self.service().undo(&caller, execution, owned(reason)).await).await
    }

    /// Reports an agent's step, or an act outside of any plan; gives the position at which it stands.
    pub async fn record_action(&self, action: Action) -> Result<u64, Error> {
        let request = json!([action.execution, action.step, action.status, action.output, action.facts]);
        let caller = self.asking(&json!(["record_action", request]));
        match self.service().record_action(&caller, action).await? {
            Noted::Alone(position) => Ok(position.0),
            Noted::In(found, progress) => {
                self.house.background.answered(&found).await?;
                Ok(progress.position.0)
            }
        }
    }

    /// Puts a decision on record, and why. `stop` and `continue` also act.
    pub async fn record_decision(&self, execution: &str, decision: Decision) -> Said {
        let Decision { decision: what, reason, step, details } = &decision;
        let caller = self.asking(&json!(["record_decision", execution, what, reason, step, details]));
        self.said(self.service().record_decision(&caller, execution, decision).await).await
    }

    /// Reports that somebody took a step's effect back by hand, or (`done` false) tried to.
    pub async fn record_compensation(&self, execution: &str, step: &str, done: bool, facts: Facts) -> Said {
        let caller = self.asking(&json!(["record_compensation", execution, step, done, facts]));
        let step = step.to_owned();
        self.said(self.service().record_compensation(&caller, execution, step, done, facts).await).await
    }

    /// Entries of the journal, oldest first.
    pub async fn journal(&self, filter: &JournalFilter, limit: u64) -> Result<Vec<EntryView>, Error> {
        self.service().journal(filter, limit).await
    }

    /// Checks the whole journal: the chain, and every payload against its entry. Keep the position and hash it
    /// gives elsewhere: they prove later that nothing was cut off.
    pub async fn verify(&self) -> Result<Verified, Error> {
        self.service().verify().await
    }

    /// Writes one execution as a file that `actbook verify FILE` checks without this database.
    pub async fn export(
        &self,
        execution: &str,
        to: &mut (dyn std::io::Write + Send),
    ) -> Result<Exported, Error> {
        self.service().export(execution, to).await
    }

    /// It is on record. Where this process has not the plan's tools, the one that has them goes on.
    async fn said(&self, told: Result<(Found, Progress), Error>) -> Said {
        let (found, _) = told?;
        Ok(self.house.background.answered(&found).await?.0)
    }
}

fn owned(text: Option<&str>) -> Option<String> {
    text.map(str::to_owned)
}
